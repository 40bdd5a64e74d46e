/* Texts of NCCL -> codes.
 *
 * Box: nccl-plugin. Any thread. NCCL's texts are constants of its library, so a pointer seen before
 * means what it meant; hm_word_forget() at each new communicator keeps that true when NCCL was
 * unloaded and loaded again. A remembered pointer is one word, read and written whole: the pointer
 * without its top byte (0 in user space), and the code. Source: NVIDIA/nccl, collectives.cc.
 */
#include "model.h"

#include <string.h>

static const char *const func_names[HM_NCCL_N_FUNCS] = {[HM_NCCL_ALLREDUCE] = "AllReduce",
                                                        [HM_NCCL_ALLGATHER] = "AllGather",
                                                        [HM_NCCL_REDUCESCATTER] = "ReduceScatter",
                                                        [HM_NCCL_BROADCAST] = "Broadcast",
                                                        [HM_NCCL_REDUCE] = "Reduce",
                                                        [HM_NCCL_SEND] = "Send",
                                                        [HM_NCCL_RECV] = "Recv",
                                                        [HM_NCCL_SENDRECV] = "SendRecv",
                                                        [HM_NCCL_ALLTOALL] = "AlltoAll",
                                                        [HM_NCCL_GATHER] = "Gather",
                                                        [HM_NCCL_SCATTER] = "Scatter",
                                                        [HM_NCCL_PUTSIGNAL] = "PutSignal",
                                                        [HM_NCCL_SIGNAL] = "Signal",
                                                        [HM_NCCL_WAITSIGNAL] = "WaitSignal"};
static const char *const dtype_names[HM_N_DTYPES] = {NULL,
                                                     "ncclInt8",
                                                     "Unknown" /* what NCCL calls ncclUint8 */,
                                                     "ncclInt32",
                                                     "ncclUint32",
                                                     "ncclInt64",
                                                     "ncclUint64",
                                                     "ncclFloat16",
                                                     "ncclFloat32",
                                                     "ncclFloat64",
                                                     "ncclBfloat16",
                                                     "ncclFloat8e4m3",
                                                     "ncclFloat8e5m2"};
static const char *const algo_names[HM_NCCL_N_ALGOS] = {
    [HM_NCCL_ALGO_TREE] = "TREE",
    [HM_NCCL_ALGO_RING] = "RING",
    [HM_NCCL_ALGO_COLLNET_DIRECT] = "COLLNET_DIRECT",
    [HM_NCCL_ALGO_COLLNET_CHAIN] = "COLLNET_CHAIN",
    [HM_NCCL_ALGO_NVLS] = "NVLS",
    [HM_NCCL_ALGO_NVLS_TREE] = "NVLS_TREE",
    [HM_NCCL_ALGO_PAT] = "PAT"};
static const char *const proto_names[HM_NCCL_N_PROTOS] = {
    [HM_NCCL_PROTO_LL] = "LL", [HM_NCCL_PROTO_LL128] = "LL128", [HM_NCCL_PROTO_SIMPLE] = "SIMPLE"};

#define N_SEEN 16 /* texts in use by a job are a handful */
struct vocabulary {
    const char *const *name;
    unsigned n;
    _Atomic uint64_t seen[N_SEEN];
};
static struct vocabulary funcs = {func_names, HM_NCCL_N_FUNCS, {0}};
static struct vocabulary dtypes = {dtype_names, HM_N_DTYPES, {0}};
static struct vocabulary algos = {algo_names, HM_NCCL_N_ALGOS, {0}};
static struct vocabulary protos = {proto_names, HM_NCCL_N_PROTOS, {0}};

static uint8_t search(const struct vocabulary *v, const char *text)
{
    for (unsigned i = 1; i < v->n; i++)
        if (v->name[i] && !strcmp(text, v->name[i]))
            return (uint8_t)i;
    return 0;
}

static inline uint8_t code_of(struct vocabulary *v, const char *text)
{
    uint64_t p = (uint64_t)(uintptr_t)text;
    if (!p)
        return 0;
    _Atomic uint64_t *place = &v->seen[(p ^ p >> 4) % N_SEEN];
    uint64_t word = atomic_load_explicit(place, memory_order_relaxed);
    if (word >> 8 == (p & UINT64_MAX >> 8))
        return (uint8_t)word;
    uint8_t code = search(v, text);
    atomic_store_explicit(place, p << 8 | code, memory_order_relaxed);
    return code;
}

uint8_t hm_word_func(const char *text)
{
    return code_of(&funcs, text);
}

uint8_t hm_word_dtype(const char *text)
{
    return code_of(&dtypes, text);
}

uint8_t hm_word_algo(const char *text)
{
    return code_of(&algos, text);
}

uint8_t hm_word_proto(const char *text)
{
    return code_of(&protos, text);
}

void hm_word_forget(void)
{
    struct vocabulary *const all[] = {&funcs, &dtypes, &algos, &protos};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        for (unsigned k = 0; k < N_SEEN; k++)
            atomic_store_explicit(&all[i]->seen[k], 0, memory_order_relaxed);
}
