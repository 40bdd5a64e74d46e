/* Memory layouts of NCCL's profiler interface, versions 6 and 7. See abi.h.
 *
 * Box: nccl-plugin. Source: NVIDIA/nccl, v6 as in releases 2.29.2 to 2.31, v7 as in 2.31.2.
 */
#ifndef HM_NCCL_ABI_NEW_H
#define HM_NCCL_ABI_NEW_H

#include "abi.h"

#define HM_NCCL_CE_COLL_FIELDS              \
    uint64_t seq;                           \
    const char *func;                       \
    const void *send;                       \
    void *recv;                             \
    size_t count;                           \
    int root;                               \
    const char *dtype, *strategy;           \
    bool intra_sync;                        \
    uint32_t batch_size, n_batches, ce_seq; \
    void *stream;
struct hm_nccl_ce_coll_v6 {
    HM_NCCL_CE_COLL_FIELDS
};
struct hm_nccl_ce_coll_v7 {
    HM_NCCL_CE_COLL_FIELDS
    uint64_t user_tag;
};
#undef HM_NCCL_CE_COLL_FIELDS
struct hm_nccl_ce_sync {
    bool complete;
    int n_ranks;
};
struct hm_nccl_ce_batch {
    int n_ops;
    size_t bytes;
    bool intra_sync;
};

struct hm_nccl_descr_v6 {
    uint64_t type;
    void *parent;
    int rank;
    union {
        struct hm_nccl_coll_v5 coll;
        struct hm_nccl_p2p_v5 p2p;
        struct hm_nccl_proxy_op proxy_op;
        int step;
        struct hm_nccl_kernel_ch kernel_ch;
        struct hm_nccl_net net;
        struct hm_nccl_group_api group_api;
        struct hm_nccl_coll_api coll_api;
        struct hm_nccl_p2p_api p2p_api;
        void *stream;
        struct hm_nccl_ce_coll_v6 ce_coll;
        struct hm_nccl_ce_sync ce_sync;
        struct hm_nccl_ce_batch ce_batch;
    } u;
};

struct hm_nccl_coll_v7 {
    uint64_t seq;
    const char *func;
    const void *send;
    void *recv;
    size_t count;
    int root;
    const char *dtype;
    uint8_t n_channels, n_warps;
    const char *algo, *proto;
    void *group;
    const char *variant;
    bool is_sym;
    uint64_t user_tag;
};
struct hm_nccl_p2p_v7 {
    const char *func;
    void *buff;
    const char *dtype;
    size_t count;
    int peer;
    uint8_t n_channels;
    void *group;
    uint64_t user_tag;
};
struct hm_nccl_coll_api_v7 {
    const char *func;
    size_t count;
    const char *dtype;
    int root;
    void *stream;
    bool graph;
    uint64_t user_tag;
};
struct hm_nccl_p2p_api_v7 {
    const char *func;
    size_t count;
    const char *dtype;
    void *stream;
    bool graph;
    uint64_t user_tag;
};
struct hm_nccl_kernel_phase {
    uint8_t channel, phase; /* 0 initial synchronisation, 1 computation, 2 final synchronisation */
    const char *name;
    uint64_t timer;
};
struct hm_nccl_descr_v7 {
    uint64_t type;
    void *parent;
    int rank;
    union {
        struct hm_nccl_coll_v7 coll;
        struct hm_nccl_p2p_v7 p2p;
        struct hm_nccl_proxy_op proxy_op;
        int step;
        struct hm_nccl_kernel_ch kernel_ch;
        struct hm_nccl_net net;
        struct hm_nccl_group_api group_api;
        struct hm_nccl_coll_api_v7 coll_api;
        struct hm_nccl_p2p_api_v7 p2p_api;
        void *stream;
        struct hm_nccl_ce_coll_v7 ce_coll;
        struct hm_nccl_ce_sync ce_sync;
        struct hm_nccl_ce_batch ce_batch;
        struct hm_nccl_kernel_phase phase;
    } u;
};

#define HM_NCCL_OPS_NEW(v)                                                               \
    struct hm_nccl_profiler_v##v {                                                       \
        const char *name;                                                                \
        int (*init)(void **ctx, uint64_t hash, int *mask, const char *name, int n_nodes, \
                    int n_ranks, int rank, hm_nccl_log_t log);                           \
        int (*start)(void *ctx, void **handle, struct hm_nccl_descr_v##v *d);            \
        int (*stop)(void *handle);                                                       \
        int (*state)(void *handle, int state, union hm_nccl_args *args);                 \
        int (*finalize)(void *ctx);                                                      \
    };                                                                                   \
    _Static_assert(sizeof(struct hm_nccl_profiler_v##v) == 48, "operations")
HM_NCCL_OPS_NEW(6);
HM_NCCL_OPS_NEW(7);

#define HM_NCCL_NEW_LAYOUT(v)                 \
    HM_NCCL_SHARED_LAYOUT(v);                 \
    HM_NCCL_AT(v, u.coll.group, 104);         \
    HM_NCCL_AT(v, u.p2p.group, 64);           \
    HM_NCCL_AT(v, u.group_api.graph, 24);     \
    HM_NCCL_AT(v, u.group_api.depth, 28);     \
    HM_NCCL_AT(v, u.coll_api.func, 24);       \
    HM_NCCL_AT(v, u.coll_api.count, 32);      \
    HM_NCCL_AT(v, u.coll_api.dtype, 40);      \
    HM_NCCL_AT(v, u.coll_api.root, 48);       \
    HM_NCCL_AT(v, u.coll_api.stream, 56);     \
    HM_NCCL_AT(v, u.coll_api.graph, 64);      \
    HM_NCCL_AT(v, u.p2p_api.func, 24);        \
    HM_NCCL_AT(v, u.p2p_api.count, 32);       \
    HM_NCCL_AT(v, u.p2p_api.dtype, 40);       \
    HM_NCCL_AT(v, u.p2p_api.stream, 48);      \
    HM_NCCL_AT(v, u.p2p_api.graph, 56);       \
    HM_NCCL_AT(v, u.stream, 24);              \
    HM_NCCL_AT(v, u.ce_coll.seq, 24);         \
    HM_NCCL_AT(v, u.ce_coll.func, 32);        \
    HM_NCCL_AT(v, u.ce_coll.send, 40);        \
    HM_NCCL_AT(v, u.ce_coll.recv, 48);        \
    HM_NCCL_AT(v, u.ce_coll.count, 56);       \
    HM_NCCL_AT(v, u.ce_coll.root, 64);        \
    HM_NCCL_AT(v, u.ce_coll.dtype, 72);       \
    HM_NCCL_AT(v, u.ce_coll.strategy, 80);    \
    HM_NCCL_AT(v, u.ce_coll.intra_sync, 88);  \
    HM_NCCL_AT(v, u.ce_coll.batch_size, 92);  \
    HM_NCCL_AT(v, u.ce_coll.n_batches, 96);   \
    HM_NCCL_AT(v, u.ce_coll.ce_seq, 100);     \
    HM_NCCL_AT(v, u.ce_coll.stream, 104);     \
    HM_NCCL_AT(v, u.ce_sync.complete, 24);    \
    HM_NCCL_AT(v, u.ce_sync.n_ranks, 28);     \
    HM_NCCL_AT(v, u.ce_batch.n_ops, 24);      \
    HM_NCCL_AT(v, u.ce_batch.bytes, 32);      \
    HM_NCCL_AT(v, u.ce_batch.intra_sync, 40); \
    _Static_assert(sizeof(((struct hm_nccl_descr_v##v *)0)->type) == 8, "")

HM_NCCL_NEW_LAYOUT(6);
HM_NCCL_NEW_LAYOUT(7);
HM_NCCL_AT(7, u.coll.variant, 112);
HM_NCCL_AT(7, u.coll.is_sym, 120);
HM_NCCL_AT(7, u.coll.user_tag, 128);
HM_NCCL_AT(7, u.p2p.user_tag, 72);
HM_NCCL_AT(7, u.coll_api.user_tag, 72);
HM_NCCL_AT(7, u.p2p_api.user_tag, 64);
HM_NCCL_AT(7, u.ce_coll.user_tag, 112);
HM_NCCL_AT(7, u.phase.channel, 24);
HM_NCCL_AT(7, u.phase.phase, 25);
HM_NCCL_AT(7, u.phase.name, 32);
HM_NCCL_AT(7, u.phase.timer, 40);
_Static_assert(sizeof(struct hm_nccl_descr_v6) == 112 && sizeof(struct hm_nccl_descr_v7) == 136,
               "descriptor");

#endif
