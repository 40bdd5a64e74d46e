/* Reductions that really reduce, in rank order: every rank gets the same bits.
 *
 * Box: tests/vgpu. Pure. Half and bfloat16 are widened to float, reduced there and rounded once
 * (to nearest even). avg = sum / n; integers divide towards zero. Built with -fwrapv.
 */
#include "nccl_inside.h"

#include <string.h>

size_t nccl_type_bytes(ncclDataType_t t)
{
    static const uint8_t bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
    return (unsigned)t < sizeof bytes ? bytes[t] : 0;
}

int nccl_can_reduce(ncclDataType_t t, ncclRedOp_t op)
{
    return (unsigned)t <= ncclBfloat16 && (unsigned)op < ncclNumOps;
}

static float from_half(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, e = (h >> 10) & 31, m = h & 1023, bits;
    if (e == 31)
        bits = sign | 0x7f800000 | m << 13;
    else if (e)
        bits = sign | (e + 112) << 23 | m << 13;
    else if (!m)
        bits = sign;
    else { /* subnormal: m * 2^-24 */
        float f = (float)m * 0x1p-24f;
        memcpy(&bits, &f, 4);
        bits |= sign;
    }
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

static uint16_t to_half(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, 4);
    uint32_t sign = bits >> 16 & 0x8000, a = bits & 0x7fffffff;
    if (a > 0x7f800000)
        return (uint16_t)(sign | 0x7e00);
    if (a >= 0x477ff000) /* rounds to 2^16 or more */
        return (uint16_t)(sign | 0x7c00);
    if (a < 0x38800000) { /* below 2^-14: a multiple of 2^-24, the last place of [0.5, 1) */
        float x;
        memcpy(&x, &a, 4);
        x += 0x1p-1f;
        memcpy(&a, &x, 4);
        return (uint16_t)(sign | (a - 0x3f000000));
    }
    a += 0xfff + (a >> 13 & 1);
    return (uint16_t)(sign | ((a >> 13) - (112 << 10)));
}

static float from_bf16(uint16_t h)
{
    uint32_t bits = (uint32_t)h << 16;
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

static uint16_t to_bf16(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, 4);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

#define SAME(x) (x)
#define LOOP(in_t, acc_t, load, store, combine, finish)      \
    for (size_t i = 0; i < n; i++) {                         \
        acc_t a = (acc_t)load(((const in_t *)in[0])[i]);     \
        for (int r = 1; r < n_in; r++) {                     \
            acc_t b = (acc_t)load(((const in_t *)in[r])[i]); \
            a = (acc_t)(combine);                            \
        }                                                    \
        ((in_t *)out)[i] = (in_t)store(finish);              \
    }
#define REDUCE(in_t, acc_t, load, store)                                \
    switch (op) {                                                       \
    case ncclProd:                                                      \
        LOOP(in_t, acc_t, load, store, a *b, a)                         \
        return;                                                         \
    case ncclMax:                                                       \
        LOOP(in_t, acc_t, load, store, b > a ? b : a, a)                \
        return;                                                         \
    case ncclMin:                                                       \
        LOOP(in_t, acc_t, load, store, b < a ? b : a, a)                \
        return;                                                         \
    case ncclAvg:                                                       \
        LOOP(in_t, acc_t, load, store, a + b, (acc_t)(a / (acc_t)n_in)) \
        return;                                                         \
    default:                                                            \
        LOOP(in_t, acc_t, load, store, a + b, a)                        \
        return;                                                         \
    }

static void reduce_int(void *out, const void *const *in, int n_in, size_t n, ncclDataType_t t,
                       ncclRedOp_t op)
{
    switch (t) {
    case ncclInt8:
        REDUCE(int8_t, int64_t, SAME, SAME)
    case ncclUint8:
        REDUCE(uint8_t, uint64_t, SAME, SAME)
    case ncclInt32:
        REDUCE(int32_t, int64_t, SAME, SAME)
    case ncclUint32:
        REDUCE(uint32_t, uint64_t, SAME, SAME)
    case ncclInt64:
        REDUCE(int64_t, int64_t, SAME, SAME)
    default:
        REDUCE(uint64_t, uint64_t, SAME, SAME)
    }
}

void nccl_reduce(void *out, const void *const *in, int n_in, size_t n, ncclDataType_t t,
                 ncclRedOp_t op)
{
    switch (t) {
    case ncclFloat32:
        REDUCE(float, float, SAME, SAME)
    case ncclFloat64:
        REDUCE(double, double, SAME, SAME)
    case ncclFloat16:
        REDUCE(uint16_t, float, from_half, to_half)
    case ncclBfloat16:
        REDUCE(uint16_t, float, from_bf16, to_bf16)
    default:
        reduce_int(out, in, n_in, n, t, op);
    }
}
