/* Interfaces 4 to 7: one thin object per version of NCCL's profiler interface; one macro body.
 *
 * Box: nccl-plugin. Threads: whatever NCCL calls us on. Copies a descriptor's fields into struct
 * hm_nccl_desc and nothing else; dereferences only the descriptor and the handle's place.
 * Every return value is success: NCCL crashes or goes half-deaf after an error of init.
 */
#include "adapt.h"

#include "abi_new.h"

/* what v5 added; 6 and 7 have the same members at places of their own */
#define HM_CASES_V5                                             \
    case HM_NT_COLL:                                            \
        to->group = (uint64_t)(uintptr_t)d->u.coll.group;       \
        break;                                                  \
    case HM_NT_P2P:                                             \
        to->group = (uint64_t)(uintptr_t)d->u.p2p.group;        \
        break;                                                  \
    case HM_NT_GROUP_API:                                       \
        to->depth = d->u.group_api.depth;                       \
        to->graph = d->u.group_api.graph;                       \
        break;                                                  \
    case HM_NT_COLL_API:                                        \
        to->func = d->u.coll_api.func;                          \
        to->dtype = d->u.coll_api.dtype;                        \
        to->count = d->u.coll_api.count;                        \
        to->peer = d->u.coll_api.root;                          \
        to->stream = (uint64_t)(uintptr_t)d->u.coll_api.stream; \
        to->graph = d->u.coll_api.graph;                        \
        break;                                                  \
    case HM_NT_P2P_API:                                         \
        to->func = d->u.p2p_api.func;                           \
        to->dtype = d->u.p2p_api.dtype;                         \
        to->count = d->u.p2p_api.count;                         \
        to->stream = (uint64_t)(uintptr_t)d->u.p2p_api.stream;  \
        to->graph = d->u.p2p_api.graph;                         \
        break;                                                  \
    case HM_NT_LAUNCH:                                          \
        to->stream = (uint64_t)(uintptr_t)d->u.stream;          \
        break;
#define HM_CASES_V6                                            \
    case HM_NT_CE_COLL:                                        \
        to->seq = d->u.ce_coll.seq;                            \
        to->have_seq = 1;                                      \
        to->func = d->u.ce_coll.func;                          \
        to->count = d->u.ce_coll.count;                        \
        to->peer = d->u.ce_coll.root;                          \
        to->dtype = d->u.ce_coll.dtype;                        \
        to->stream = (uint64_t)(uintptr_t)d->u.ce_coll.stream; \
        break;                                                 \
    case HM_NT_CE_SYNC:                                        \
        to->complete = d->u.ce_sync.complete;                  \
        to->n = (uint32_t)d->u.ce_sync.n_ranks;                \
        break;                                                 \
    case HM_NT_CE_BATCH:                                       \
        to->n = (uint32_t)d->u.ce_batch.n_ops;                 \
        to->bytes = d->u.ce_batch.bytes;                       \
        break;

static void extras_v4(struct hm_nccl_desc *to, const struct hm_nccl_descr_v4 *d)
{
    (void)to;
    (void)d;
}

static void extras_v5(struct hm_nccl_desc *to, const struct hm_nccl_descr_v5 *d)
{
    switch (to->type) {
        HM_CASES_V5
    default:
        break;
    }
}

static void extras_v6(struct hm_nccl_desc *to, const struct hm_nccl_descr_v6 *d)
{
    switch (to->type) {
        HM_CASES_V5
        HM_CASES_V6
    default:
        break;
    }
}

static void extras_v7(struct hm_nccl_desc *to, const struct hm_nccl_descr_v7 *d)
{
    switch (to->type) {
        HM_CASES_V5
        HM_CASES_V6
    case HM_NT_PHASE:
        to->channel = d->u.phase.channel;
        to->phase = d->u.phase.phase;
        to->gpu_ns = d->u.phase.timer;
        break;
    default:
        break;
    }
    switch (to->type) {
    case HM_NT_COLL:
        to->user_tag = d->u.coll.user_tag;
        break;
    case HM_NT_P2P:
        to->user_tag = d->u.p2p.user_tag;
        break;
    case HM_NT_COLL_API:
        to->user_tag = d->u.coll_api.user_tag;
        break;
    case HM_NT_P2P_API:
        to->user_tag = d->u.p2p_api.user_tag;
        break;
    case HM_NT_CE_COLL:
        to->user_tag = d->u.ce_coll.user_tag;
        break;
    default:
        break;
    }
}

static int init_v4(void **ctx, int *mask, const char *name, uint64_t hash, int n_nodes, int n_ranks,
                   int rank, hm_nccl_log_t log)
{
    struct hm_nccl_init init = {.hash = hash,
                                .name = name,
                                .crank = rank,
                                .n_ranks = n_ranks,
                                .n_nodes = n_nodes,
                                .interface = 4};
    return hm_adapt_init(ctx, mask, &init, log);
}

#define HM_INIT_NEW(v)                                                                        \
    static int init_v##v(void **ctx, uint64_t hash, int *mask, const char *name, int n_nodes, \
                         int n_ranks, int rank, hm_nccl_log_t log)                            \
    {                                                                                         \
        struct hm_nccl_init init = {.hash = hash,                                             \
                                    .name = name,                                             \
                                    .crank = rank,                                            \
                                    .n_ranks = n_ranks,                                       \
                                    .n_nodes = n_nodes,                                       \
                                    .interface = (v)};                                        \
        return hm_adapt_init(ctx, mask, &init, log);                                          \
    }
HM_INIT_NEW(5)
HM_INIT_NEW(6)
HM_INIT_NEW(7)

static int state_new(void *handle, int state, union hm_nccl_args *args)
{
    uint64_t value = 0;
    /* other states come with NULL or with a pointer to uninitialised memory */
    if (args && (state == HM_NCCL_STATE_SEND_WAIT || state == HM_NCCL_STATE_RECV_FLUSH_WAIT))
        value = args->bytes;
    else if (args && (state == HM_NCCL_STATE_KERNEL_CH_STOP || state == HM_NCCL_STATE_PHASE_STOP))
        value = args->timer;
    else if (args && state == HM_NCCL_STATE_CTRL_APPEND_END)
        value = args->appended > 0 ? (uint64_t)args->appended : 0;
    hm_nccl_state((uint64_t)(uintptr_t)handle, state, value);
    if (hm_chain_on())
        hm_chain_state(handle, state, args);
    return 0;
}

#define HM_ADAPTER(v)                                                                \
    static int start_v##v(void *ctx, void **handle, struct hm_nccl_descr_v##v *d)    \
    {                                                                                \
        uint64_t made = 0;                                                           \
        struct hm_nccl_desc to;                                                      \
        hm_nccl_desc_init(&to, (v));                                                 \
        if (d && hm_adapt_type(d->type, (v), &to.type)) {                            \
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
                HM_ADAPT_PROXY(to, d)                                                \
            case HM_NT_KERNEL_CH:                                                    \
                to.channel = d->u.kernel_ch.channel;                                 \
                to.gpu_ns = d->u.kernel_ch.timer;                                    \
                break;                                                               \
            case HM_NT_NET:                                                          \
                to.net_id = d->u.net.id;                                             \
                break;                                                               \
            default:                                                                 \
                break;                                                               \
            }                                                                        \
            extras_v##v(&to, d);                                                     \
        }                                                                            \
        hm_nccl_start(&made, &to);                                                   \
        if (hm_chain_on())                                                           \
            hm_chain_start((v), ctx, made, d);                                       \
        if (handle) /* NCCL does not clear it: a stale one would be stopped again */ \
            *handle = (void *)(uintptr_t)made;                                       \
        return 0;                                                                    \
    }                                                                                \
    extern HM_EXPORT const struct hm_nccl_profiler_v##v ncclProfiler_v##v;           \
    HM_EXPORT const struct hm_nccl_profiler_v##v ncclProfiler_v##v = {               \
        "hindmost", init_v##v, start_v##v, hm_adapt_stop, state_new, hm_adapt_fini}

HM_ADAPTER(4);
HM_ADAPTER(5);
HM_ADAPTER(6);
HM_ADAPTER(7);
