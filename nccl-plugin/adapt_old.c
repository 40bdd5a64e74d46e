/* Interfaces 1 to 3: see adapt.c. They tell of the communicator with each operation only, have no
 * calls and no launches, and count bytes on the proxy operation.
 *
 * Box: nccl-plugin. Threads: whatever NCCL calls us on.
 */
#include "abi_old.h"
#include "adapt.h"

/* v1 says by number what the others say by name; the orders are NCCL's of release 2.23 */
static const char *const funcs[] = {"Broadcast", "Reduce",   "AllGather", "ReduceScatter",
                                    "AllReduce", "SendRecv", "Send",      "Recv"};
static const char *const dtypes[] = {"ncclInt8",     "Unknown",        "ncclInt32",
                                     "ncclUint32",   "ncclInt64",      "ncclUint64",
                                     "ncclFloat16",  "ncclFloat32",    "ncclFloat64",
                                     "ncclBfloat16", "ncclFloat8e4m3", "ncclFloat8e5m2"};
static const char *const algos[] = {"TREE",      "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS",
                                    "NVLS_TREE", "PAT"};
static const char *const protos[] = {"LL", "LL128", "SIMPLE"};
#define NAMED(table, number) \
    ((number) < sizeof(table) / sizeof((table)[0]) ? (table)[number] : NULL)

static void texts_v1(struct hm_nccl_desc *to, const struct hm_nccl_descr_v1 *d)
{
    if (to->type == HM_NT_COLL) {
        to->func = NAMED(funcs, d->u.coll.func);
        to->dtype = NAMED(dtypes, d->u.coll.dtype);
        to->algo = NAMED(algos, d->u.coll.algo);
        to->proto = NAMED(protos, d->u.coll.proto);
    } else if (to->type == HM_NT_P2P) {
        to->func = NAMED(funcs, d->u.p2p.func);
        to->dtype = NAMED(dtypes, d->u.p2p.dtype);
    }
}

#define HM_TEXTS(v)                                                                     \
    static void texts_v##v(struct hm_nccl_desc *to, const struct hm_nccl_descr_v##v *d) \
    {                                                                                   \
        if (to->type == HM_NT_COLL) {                                                   \
            to->func = d->u.coll.func;                                                  \
            to->dtype = d->u.coll.dtype;                                                \
            to->algo = d->u.coll.algo;                                                  \
            to->proto = d->u.coll.proto;                                                \
        } else if (to->type == HM_NT_P2P) {                                             \
            to->func = d->u.p2p.func;                                                   \
            to->dtype = d->u.p2p.dtype;                                                 \
        }                                                                               \
    }
HM_TEXTS(2)
HM_TEXTS(3)

static void extras_v1(struct hm_nccl_desc *to, const struct hm_nccl_descr_v1 *d)
{
    (void)to;
    (void)d;
}

static void extras_v2(struct hm_nccl_desc *to, const struct hm_nccl_descr_v2 *d)
{
    (void)to;
    (void)d;
}

static void extras_v3(struct hm_nccl_desc *to, const struct hm_nccl_descr_v3 *d)
{
    if (to->type == HM_NT_KERNEL_CH)
        to->channel = d->u.kernel_ch.channel; /* no stamp: only when it was seen */
    else if (to->type == HM_NT_NET)
        to->net_id = d->u.net.id;
}

static int state_old(void *handle, int state, union hm_nccl_args_old *args)
{
    uint64_t value = 0;
    /* a step's states come with NULL */
    if (args && state >= HM_NCCL_STATE_SEND_POSTED && state <= HM_NCCL_STATE_RECV_DONE)
        value = args->proxy_op.bytes;
    else if (args && state == HM_NCCL_STATE_CTRL_APPEND_END)
        value = args->appended > 0 ? (uint64_t)args->appended : 0;
    hm_nccl_state((uint64_t)(uintptr_t)handle, state, value);
    if (hm_chain_on())
        hm_chain_state(handle, state, args);
    return 0;
}

#define HM_ADAPTER_OLD(v)                                                            \
    static int init_v##v(void **ctx, int *mask)                                      \
    {                                                                                \
        struct hm_nccl_init init = {.crank = -1, .interface = (v)};                  \
        return hm_adapt_init(ctx, mask, &init, NULL);                                \
    }                                                                                \
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
                to.comm_name = d->u.coll.name;                                       \
                to.comm_hash = d->u.coll.hash;                                       \
                to.seq = d->u.coll.seq;                                              \
                to.have_seq = 1;                                                     \
                to.count = d->u.coll.count;                                          \
                to.peer = d->u.coll.root;                                            \
                to.n_channels = d->u.coll.n_channels;                                \
                to.n_warps = d->u.coll.n_warps;                                      \
                break;                                                               \
            case HM_NT_P2P:                                                          \
                to.comm_name = d->u.p2p.name;                                        \
                to.comm_hash = d->u.p2p.hash;                                        \
                to.count = d->u.p2p.count;                                           \
                to.peer = d->u.p2p.peer;                                             \
                break;                                                               \
                HM_ADAPT_PROXY(to, d)                                                \
            default:                                                                 \
                break;                                                               \
            }                                                                        \
            texts_v##v(&to, d);                                                      \
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
        "hindmost", init_v##v, start_v##v, hm_adapt_stop, state_old, hm_adapt_fini}

HM_ADAPTER_OLD(1);
HM_ADAPTER_OLD(2);
HM_ADAPTER_OLD(3);
