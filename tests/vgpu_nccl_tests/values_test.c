/* Do the operations of the stand-in libnccl move and reduce what they should?
 *
 * Expected values: computed here from the inputs of all ranks by plain loops, small integers that
 * every type holds exactly; for fractions the bits must be the same on all ranks and close to a
 * sum in double. Times: end = latest start of all ranks + latency + bytes / link, from the truth.
 */
#include "ranks.h"

#include <math.h>

static uint32_t *page; /* [rank]: hash of a result */
static ncclUniqueId id;

enum { BIG = 700001 }; /* more than one staging buffer, and odd */

static int input(int rank, size_t i)
{
    return (int)((i * 7 + (size_t)rank * 3) % 5) + 1;
}

static void store(void *p, ncclDataType_t t, size_t i, double v)
{
    switch (t) {
    case ncclInt8:
        ((int8_t *)p)[i] = (int8_t)(int64_t)v;
        break;
    case ncclUint8:
        ((uint8_t *)p)[i] = (uint8_t)(int64_t)v;
        break;
    case ncclInt32:
        ((int32_t *)p)[i] = (int32_t)(int64_t)v;
        break;
    case ncclUint32:
        ((uint32_t *)p)[i] = (uint32_t)(int64_t)v;
        break;
    case ncclInt64:
        ((int64_t *)p)[i] = (int64_t)(int64_t)v;
        break;
    case ncclUint64:
        ((uint64_t *)p)[i] = (uint64_t)(int64_t)v;
        break;
    case ncclFloat32:
        ((float *)p)[i] = (float)v;
        break;
    case ncclFloat64:
        ((double *)p)[i] = v;
        break;
    case ncclFloat16: { /* whole numbers and halves below 2048: exact */
        int e;
        double m = frexp(v, &e);
        uint32_t bits = v == 0 ? 0 : ((uint32_t)(e + 14) << 10) + ((uint32_t)(m * 2048) - 1024);
        ((uint16_t *)p)[i] = (uint16_t)bits;
        break;
    }
    default: {
        float f = (float)v;
        uint32_t bits;
        memcpy(&bits, &f, 4);
        ((uint16_t *)p)[i] = (uint16_t)(bits >> 16);
        break;
    }
    }
}

static const size_t type_bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};

static double reduced(int n, size_t i, ncclRedOp_t op)
{
    double a = input(0, i);
    for (int r = 1; r < n; r++) {
        double b = input(r, i);
        a = op == ncclProd  ? a * b
            : op == ncclMax ? fmax(a, b)
            : op == ncclMin ? fmin(a, b)
                            : a + b;
    }
    return a;
}

struct rank {
    int me, n;
    ncclComm_t comm;
    cudaStream_t stream;
    void *in, *out, *want;
};

static void sync_stream(struct rank *k)
{
    ncclResult_t error;
    CHECK(cudaStreamSynchronize(k->stream) == cudaSuccess);
    NCCL(ncclCommGetAsyncError(k->comm, &error));
    NCCL(error);
}

static void fill_in(struct rank *k, ncclDataType_t t, size_t n)
{
    for (size_t i = 0; i < n; i++)
        store(k->in, t, i, input(k->me, i));
}

static void all_reduce(struct rank *k)
{
    for (int t = 0; t <= ncclBfloat16; t++)
        for (int op = 0; op < ncclNumOps; op++) {
            size_t n = 1000;
            int is_int = t < ncclFloat16;
            fill_in(k, (ncclDataType_t)t, n);
            for (size_t i = 0; i < n; i++) {
                double v = reduced(k->n, i, (ncclRedOp_t)op);
                if (op == ncclAvg)
                    v = is_int ? floor(v / k->n) : v / k->n;
                store(k->want, (ncclDataType_t)t, i, v);
            }
            NCCL(ncclAllReduce(k->in, k->out, n, (ncclDataType_t)t, (ncclRedOp_t)op, k->comm,
                               k->stream));
            sync_stream(k);
            CHECK(!memcmp(k->out, k->want, n * type_bytes[t]));
        }
}

static void big_and_in_place(struct rank *k)
{
    for (size_t i = 0; i < BIG; i++)
        ((float *)k->want)[i] = (float)reduced(k->n, i, ncclSum);
    fill_in(k, ncclFloat32, BIG);
    NCCL(ncclAllReduce(k->in, k->in, BIG, ncclFloat32, ncclSum, k->comm, k->stream));
    sync_stream(k);
    CHECK(!memcmp(k->in, k->want, BIG * sizeof(float)));
}

/* Fractions: the order of the sum shows in the last bit. */
static void same_bits(struct rank *k)
{
    enum { N = 10000 };
    uint32_t x = 12345u + (uint32_t)k->me * 7919u, h = 2166136261u;
    float *in = k->in, *out = k->out;
    for (int i = 0; i < N; i++) {
        x = x * 1664525u + 1013904223u;
        in[i] = (float)x / 4294967296.0f - 0.5f;
    }
    NCCL(ncclAllReduce(in, out, N, ncclFloat, ncclSum, k->comm, k->stream));
    sync_stream(k);
    for (size_t i = 0; i < N * sizeof(float); i++)
        h = (h ^ ((uint8_t *)out)[i]) * 16777619u;
    page[k->me] = h;
    double exact = 0; /* element 0: recomputed from every rank's generator */
    for (int r = 0; r < k->n; r++)
        exact += (double)((float)((12345u + (uint32_t)r * 7919u) * 1664525u + 1013904223u) /
                              4294967296.0f -
                          0.5f);
    CHECK(fabs((double)out[0] - exact) < 1e-6);
}

static void the_others(struct rank *k)
{
    size_t n = 300007;
    int32_t *in = k->in, *out = k->out;
    for (int root = 0; root < k->n; root++) { /* broadcast and reduce, every root */
        fill_in(k, ncclInt32, n);
        NCCL(ncclBroadcast(in, out, n, ncclInt32, root, k->comm, k->stream));
        sync_stream(k);
        for (size_t i = 0; i < n; i++)
            CHECK(out[i] == input(root, i));
        memset(out, 0, n * 4);
        NCCL(ncclReduce(in, out, n, ncclInt32, ncclSum, root, k->comm, k->stream));
        sync_stream(k);
        for (size_t i = 0; i < n; i++)
            CHECK(out[i] == (k->me == root ? (int)reduced(k->n, i, ncclSum) : 0));
    }
    NCCL(ncclAllGather(in, out, n, ncclInt32, k->comm, k->stream));
    sync_stream(k);
    for (int r = 0; r < k->n; r++)
        for (size_t i = 0; i < n; i++)
            CHECK(out[(size_t)r * n + i] == input(r, i));
    fill_in(k, ncclInt32, n * (size_t)k->n);
    NCCL(ncclReduceScatter(in, out, n, ncclInt32, ncclSum, k->comm, k->stream));
    sync_stream(k);
    for (size_t i = 0; i < n; i++)
        CHECK(out[i] == (int)reduced(k->n, (size_t)k->me * n + i, ncclSum));
}

static void p2p(struct rank *k)
{
    size_t n = 200003;
    int32_t *in = k->in, *out = k->out;
    int next = (k->me + 1) % k->n, prev = (k->me + k->n - 1) % k->n;
    fill_in(k, ncclInt32, n);
    for (int round = 0; round < 3; round++) { /* a ring: dead-locks unless a group is one launch */
        memset(out, 0, n * 4);
        NCCL(ncclGroupStart());
        NCCL(ncclSend(in, n, ncclInt32, next, k->comm, k->stream));
        NCCL(ncclRecv(out, n, ncclInt32, prev, k->comm, k->stream));
        NCCL(ncclGroupEnd());
        sync_stream(k);
        for (size_t i = 0; i < n; i++)
            CHECK(out[i] == input(prev, i));
    }
    size_t m = 1001; /* everyone to everyone, self included, two messages a pair in order */
    for (int r = 0; r < k->n; r++)
        for (size_t i = 0; i < m; i++)
            in[(size_t)r * m + i] = k->me * 1000 + r;
    NCCL(ncclGroupStart());
    for (int r = 0; r < k->n; r++)
        for (int half = 0; half < 2; half++) {
            size_t at = (size_t)r * m + (half ? 500 : 0), len = half ? 501 : 500;
            NCCL(ncclSend(in + at, len, ncclInt32, r, k->comm, k->stream));
            NCCL(ncclRecv(out + at, len, ncclInt32, r, k->comm, k->stream));
        }
    NCCL(ncclGroupEnd());
    sync_stream(k);
    for (int r = 0; r < k->n; r++)
        for (size_t i = 0; i < m; i++)
            CHECK(out[(size_t)r * m + i] == r * 1000 + k->me);
    memset(out, 0, m * (size_t)k->n * 4);
    NCCL(ncclAlltoAll(in, out, m, ncclInt32, k->comm, k->stream));
    sync_stream(k);
    for (int r = 0; r < k->n; r++)
        CHECK(out[(size_t)r * m] == r * 1000 + k->me);
}

/* Blocking pairs without a group: 0 sends, 1 receives, on the stream, in order. */
static void pair(struct rank *k)
{
    int32_t *in = k->in, *out = k->out;
    if (k->me > 1 || k->n < 2)
        return;
    for (int i = 0; i < 5; i++) {
        in[i] = 100 + i;
        if (k->me == 0)
            NCCL(ncclSend(in + i, 1, ncclInt32, 1, k->comm, k->stream));
        else
            NCCL(ncclRecv(out + i, 1, ncclInt32, 0, k->comm, k->stream));
    }
    sync_stream(k);
    for (int i = 0; i < 5 && k->me; i++)
        CHECK(out[i] == 100 + i);
}

static void grouped(struct rank *k)
{
    int32_t *in = k->in, *out = k->out;
    fill_in(k, ncclInt32, 5000);
    NCCL(ncclGroupStart());
    NCCL(ncclGroupStart());
    NCCL(ncclAllReduce(in, out, 100, ncclInt32, ncclSum, k->comm, k->stream));
    NCCL(ncclGroupEnd());
    NCCL(ncclAllReduce(in, out + 100, 5000, ncclInt32, ncclMax, k->comm, k->stream));
    NCCL(ncclAllReduce(in, out + 5100, 0, ncclInt32, ncclMax, k->comm, k->stream));
    NCCL(ncclGroupEnd());
    sync_stream(k);
    for (size_t i = 0; i < 5000; i++) {
        CHECK(i >= 100 || out[i] == (int)reduced(k->n, i, ncclSum));
        CHECK(out[100 + i] == (int)reduced(k->n, i, ncclMax));
    }
}

static void split(struct rank *k)
{
    ncclComm_t half;
    int n, me;
    int color = k->me % 2, want_n = (k->n + 1 - color) / 2;
    NCCL(ncclCommSplit(k->comm, color, -k->me, &half, NULL)); /* reversed order */
    NCCL(ncclCommCount(half, &n));
    NCCL(ncclCommUserRank(half, &me));
    CHECK(n == want_n && me == want_n - 1 - k->me / 2);
    int32_t *in = k->in, *out = k->out, sum = 0;
    in[0] = k->me + 1;
    NCCL(ncclAllReduce(in, out, 1, ncclInt32, ncclSum, half, k->stream));
    CHECK(cudaStreamSynchronize(k->stream) == cudaSuccess);
    for (int r = color; r < k->n; r += 2)
        sum += r + 1;
    CHECK(out[0] == sum);
    NCCL(ncclCommDestroy(half));
    NCCL(ncclCommSplit(k->comm, k->me ? 0 : NCCL_SPLIT_NOCOLOR, 0, &half, NULL));
    CHECK((half == NULL) == (k->me == 0));
    NCCL(ncclCommDestroy(half));
}

static void bad_calls(struct rank *k)
{
    CHECK(ncclAllReduce(NULL, k->out, 1, ncclInt32, ncclSum, k->comm, k->stream) ==
          ncclInvalidArgument);
    CHECK(ncclAllReduce(k->in, k->out, 1, (ncclDataType_t)77, ncclSum, k->comm, k->stream) ==
          ncclInvalidArgument);
    CHECK(ncclBroadcast(k->in, k->out, 1, ncclInt32, k->n, k->comm, k->stream) ==
          ncclInvalidArgument);
    CHECK(ncclAllReduce(k->in, k->out, 1, ncclInt32, ncclSum, NULL, k->stream) ==
          ncclInvalidArgument);
    CHECK(ncclGroupEnd() == ncclInvalidUsage);
    CHECK(strlen(ncclGetLastError(k->comm)) > 0);
}

static void one_rank(int rank, int n, void *arg)
{
    struct rank k = {.me = rank, .n = n};
    size_t bytes = (size_t)n * BIG * sizeof(float);
    (void)arg;
    NCCL(ncclCommInitRank(&k.comm, n, id, rank));
    CHECK(cudaStreamCreateWithFlags(&k.stream, cudaStreamNonBlocking) == cudaSuccess);
    CHECK(cudaMalloc(&k.in, bytes) == cudaSuccess && cudaMalloc(&k.out, bytes) == cudaSuccess);
    k.want = malloc(bytes);
    memset(k.in, 0, bytes);
    memset(k.out, 0, bytes);
    if (n <= 4) /* products of more leave what a half holds exactly */
        all_reduce(&k);
    big_and_in_place(&k);
    same_bits(&k);
    the_others(&k);
    p2p(&k);
    pair(&k);
    grouped(&k);
    split(&k);
    bad_calls(&k);
    NCCL(ncclCommFinalize(k.comm));
    NCCL(ncclCommDestroy(k.comm));
    free(k.want);
}

int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 2;
    page = shared_pages(4096);
    if (ncclGetUniqueId(&id))
        return 1;
    if (run_ranks(n, 100, one_rank, NULL, NULL))
        return 1;
    for (int r = 1; r < n; r++)
        if (page[r] != page[0]) {
            fprintf(stderr, "ranks 0 and %d differ in the bits of a sum\n", r);
            return 1;
        }
    char room[160];
    snprintf(room, sizeof room, "/dev/shm%s", id.internal);
    if (!access(room, F_OK)) {
        fprintf(stderr, "%s was left behind\n", room);
        return 1;
    }
    return 0;
}
