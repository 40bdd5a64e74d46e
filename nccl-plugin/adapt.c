/* One thin object per version of NCCL's profiler interface; one macro body for all of them.
 *
 * Box: nccl-plugin. Threads: whatever NCCL calls us on. Copies a descriptor's fields into struct
 * hm_nccl_desc and nothing else; dereferences only the descriptor and the handle's place. A further
 * version adds its layout to abi.h, its extras here, and one HM_ADAPTER line.
 * Every return value is success: NCCL crashes or goes half-deaf after an error of init.
 */
#include "abi.h"
#include "ops.h"

#define EXPORT __attribute__((visibility("default")))

static int type_of(uint64_t bit, enum hm_nccl_type *type_p)
{
    if (!bit || bit & (bit - 1) || bit > HM_NCCL_BIT_LAUNCH)
        return 0;
    *type_p = (enum hm_nccl_type)__builtin_ctzll(bit); /* the enum is in the order of the bits */
    return 1;
}
_Static_assert(HM_NCCL_BIT_LAUNCH == 1 << HM_NT_LAUNCH && HM_NCCL_BIT_COLL == 1 << HM_NT_COLL &&
                   HM_NCCL_BIT_GROUP_API == 1 << HM_NT_GROUP_API,
               "");

static void extras_v4(struct hm_nccl_desc *to, const struct hm_nccl_descr_v4 *d)
{
    if (to->type > HM_NT_NET)
        to->type = HM_NT_VOID;
    (void)d;
}

static void extras_v5(struct hm_nccl_desc *to, const struct hm_nccl_descr_v5 *d)
{
    switch (to->type) {
    case HM_NT_COLL:
        to->group = (uint64_t)(uintptr_t)d->u.coll.group;
        break;
    case HM_NT_P2P:
        to->group = (uint64_t)(uintptr_t)d->u.p2p.group;
        break;
    case HM_NT_GROUP_API:
        to->depth = d->u.group_api.depth;
        to->graph = d->u.group_api.graph;
        break;
    case HM_NT_COLL_API:
        to->func = d->u.coll_api.func;
        to->dtype = d->u.coll_api.dtype;
        to->count = d->u.coll_api.count;
        to->peer = d->u.coll_api.root;
        to->stream = (uint64_t)(uintptr_t)d->u.coll_api.stream;
        to->graph = d->u.coll_api.graph;
        break;
    case HM_NT_P2P_API:
        to->func = d->u.p2p_api.func;
        to->dtype = d->u.p2p_api.dtype;
        to->count = d->u.p2p_api.count;
        to->stream = (uint64_t)(uintptr_t)d->u.p2p_api.stream;
        to->graph = d->u.p2p_api.graph;
        break;
    case HM_NT_LAUNCH:
        to->stream = (uint64_t)(uintptr_t)d->u.stream;
        break;
    default:
        break;
    }
}

static int init_any(void **ctx, int *mask, const struct hm_nccl_init *init)
{
    int wanted = 0;
    uint64_t made = hm_nccl_init(init, &wanted);
    if (ctx)
        *ctx = (void *)(uintptr_t)made;
    if (mask)
        __atomic_store_n(mask, wanted, __ATOMIC_RELAXED);
    return 0;
}

static int init_v4(void **ctx, int *mask, const char *name, uint64_t hash, int n_nodes, int n_ranks,
                   int rank, hm_nccl_log_t log)
{
    (void)log;
    struct hm_nccl_init init = {.hash = hash,
                                .name = name,
                                .crank = rank,
                                .n_ranks = n_ranks,
                                .n_nodes = n_nodes,
                                .interface = 4};
    return init_any(ctx, mask, &init);
}

static int init_v5(void **ctx, uint64_t hash, int *mask, const char *name, int n_nodes, int n_ranks,
                   int rank, hm_nccl_log_t log)
{
    (void)log;
    struct hm_nccl_init init = {.hash = hash,
                                .name = name,
                                .crank = rank,
                                .n_ranks = n_ranks,
                                .n_nodes = n_nodes,
                                .interface = 5};
    return init_any(ctx, mask, &init);
}

static int stop_any(void *handle)
{
    hm_nccl_stop((uint64_t)(uintptr_t)handle);
    return 0;
}

static int state_any(void *handle, int state, union hm_nccl_args *args)
{
    uint64_t value = 0;
    /* other states come with NULL or with a pointer to uninitialised memory */
    if (args && (state == HM_NCCL_STATE_SEND_WAIT || state == HM_NCCL_STATE_RECV_FLUSH_WAIT))
        value = args->bytes;
    else if (args && state == HM_NCCL_STATE_KERNEL_CH_STOP)
        value = args->timer;
    hm_nccl_state((uint64_t)(uintptr_t)handle, state, value);
    return 0;
}

static int fini_any(void *ctx)
{
    hm_nccl_fini((uint64_t)(uintptr_t)ctx);
    return 0;
}

#define HM_ADAPTER(v)                                                                \
    static int start_v##v(void *ctx, void **handle, struct hm_nccl_descr_v##v *d)    \
    {                                                                                \
        uint64_t made = 0;                                                           \
        struct hm_nccl_desc to = {.type = HM_NT_VOID, .peer = -1, .interface = (v)}; \
        if (d && type_of(d->type, &to.type)) {                                       \
            to.rank = d->rank;                                                       \
            to.ctx = (uint64_t)(uintptr_t)ctx;                                       \
            to.parent = (uint64_t)(uintptr_t)d->parent;                              \
            switch (to.type) {                                                       \
            case HM_NT_COLL:                                                         \
                to.seq = d->u.coll.seq;                                              \
                to.have_seq = 1;                                                     \
                to.func = d->u.coll.func;                                            \
                to.count = d->u.coll.count;                                          \
                to.peer = d->u.coll.root;                                            \
                to.dtype = d->u.coll.dtype;                                          \
                to.n_channels = d->u.coll.n_channels;                                \
                to.n_warps = d->u.coll.n_warps;                                      \
                to.algo = d->u.coll.algo;                                            \
                to.proto = d->u.coll.proto;                                          \
                break;                                                               \
            case HM_NT_P2P:                                                          \
                to.func = d->u.p2p.func;                                             \
                to.count = d->u.p2p.count;                                           \
                to.peer = d->u.p2p.peer;                                             \
                to.dtype = d->u.p2p.dtype;                                           \
                to.n_channels = d->u.p2p.n_channels;                                 \
                break;                                                               \
            case HM_NT_PROXY_OP:                                                     \
                to.pid = d->u.proxy_op.pid;                                          \
                to.channel = d->u.proxy_op.channel;                                  \
                to.peer = d->u.proxy_op.peer;                                        \
                to.n_steps = d->u.proxy_op.n_steps;                                  \
                to.chunk_bytes = d->u.proxy_op.chunk_bytes;                          \
                to.is_send = d->u.proxy_op.is_send != 0;                             \
                break;                                                               \
            case HM_NT_PROXY_STEP:                                                   \
                to.step = d->u.step;                                                 \
                break;                                                               \
            case HM_NT_KERNEL_CH:                                                    \
                to.channel = d->u.kernel_ch.channel;                                 \
                to.gpu_ns = d->u.kernel_ch.timer;                                    \
                break;                                                               \
            default:                                                                 \
                break;                                                               \
            }                                                                        \
            extras_v##v(&to, d);                                                     \
        }                                                                            \
        hm_nccl_start(&made, &to);                                                   \
        if (handle) /* NCCL does not clear it: a stale one would be stopped again */ \
            *handle = (void *)(uintptr_t)made;                                       \
        return 0;                                                                    \
    }                                                                                \
    extern EXPORT const struct hm_nccl_profiler_v##v ncclProfiler_v##v;              \
    EXPORT const struct hm_nccl_profiler_v##v ncclProfiler_v##v = {                  \
        "hindmost", init_v##v, start_v##v, stop_any, state_any, fini_any}

HM_ADAPTER(4);
HM_ADAPTER(5);
