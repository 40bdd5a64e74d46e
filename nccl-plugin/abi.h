/* Memory layouts of NCCL's profiler interface, versions 4 and 5, in our own words; abi_old.h has
 * 1 to 3, abi_new.h 6 and 7.
 *
 * Box: nccl-plugin. Only the adapters and the chain include this. Every size and offset is
 * asserted: a layout that compiles is the one NCCL uses on x86-64. Source: NVIDIA/nccl, interface
 * v4 as in releases 2.27.3 to 2.31, v5 as in 2.28.3 to 2.31 (a version's layout never changed
 * between releases).
 */
#ifndef HM_NCCL_ABI_H
#define HM_NCCL_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* bits of the activation mask = values of a descriptor's type */
enum hm_nccl_bit {
    HM_NCCL_BIT_GROUP = 1,
    HM_NCCL_BIT_COLL = 2,
    HM_NCCL_BIT_P2P = 4,
    HM_NCCL_BIT_PROXY_OP = 8,
    HM_NCCL_BIT_PROXY_STEP = 16,
    HM_NCCL_BIT_PROXY_CTRL = 32,
    HM_NCCL_BIT_KERNEL_CH = 64,
    HM_NCCL_BIT_NET = 128,
    HM_NCCL_BIT_GROUP_API = 256, /* from here on v5 */
    HM_NCCL_BIT_COLL_API = 512,
    HM_NCCL_BIT_P2P_API = 1024,
    HM_NCCL_BIT_LAUNCH = 2048,
    HM_NCCL_BIT_CE_COLL = 4096, /* from here on v6 */
    HM_NCCL_BIT_CE_SYNC = 8192,
    HM_NCCL_BIT_CE_BATCH = 16384,
    HM_NCCL_BIT_PHASE = 32768 /* v7 */
};

/* states told through recordEventState; their values are not in the order of time */
enum hm_nccl_state {
    HM_NCCL_STATE_SEND_POSTED = 0, /* 0 to 7 end with release 2.26 */
    HM_NCCL_STATE_RECV_DONE = 7,
    HM_NCCL_STATE_SEND_GPU_WAIT = 8,
    HM_NCCL_STATE_SEND_WAIT = 9,
    HM_NCCL_STATE_RECV_WAIT = 10,
    HM_NCCL_STATE_RECV_FLUSH_WAIT = 11,
    HM_NCCL_STATE_RECV_GPU_WAIT = 12,
    HM_NCCL_STATE_CTRL_IDLE = 13,
    HM_NCCL_STATE_CTRL_APPEND_END = 18,
    HM_NCCL_STATE_PROXY_OP_IN_PROGRESS = 19,
    HM_NCCL_STATE_SEND_PEER_WAIT = 20,
    HM_NCCL_STATE_NET_UPDATE = 21,
    HM_NCCL_STATE_KERNEL_CH_STOP = 22,
    HM_NCCL_STATE_START_API_STOP = 23,
    HM_NCCL_STATE_END_API_START = 24,
    HM_NCCL_STATE_PHASE_STOP = 31
};

struct hm_nccl_proxy_op {
    int pid;
    uint8_t channel;
    int peer, n_steps, chunk_bytes, is_send;
};
struct hm_nccl_kernel_ch {
    uint8_t channel;
    uint64_t timer;
};
struct hm_nccl_net {
    int64_t id;
    void *data;
};

struct hm_nccl_coll_v4 {
    uint64_t seq;
    const char *func;
    const void *send;
    void *recv;
    size_t count;
    int root;
    const char *dtype;
    uint8_t n_channels, n_warps;
    const char *algo, *proto;
};
struct hm_nccl_p2p_v4 {
    const char *func;
    void *buff;
    const char *dtype;
    size_t count;
    int peer;
    uint8_t n_channels;
};
struct hm_nccl_descr_v4 {
    uint8_t type; /* one byte: what follows up to the parent is not initialised */
    void *parent;
    int rank;
    union {
        struct hm_nccl_coll_v4 coll;
        struct hm_nccl_p2p_v4 p2p;
        struct hm_nccl_proxy_op proxy_op;
        int step;
        struct hm_nccl_kernel_ch kernel_ch;
        struct hm_nccl_net net;
    } u;
};

struct hm_nccl_coll_v5 {
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
};
struct hm_nccl_p2p_v5 {
    const char *func;
    void *buff;
    const char *dtype;
    size_t count;
    int peer;
    uint8_t n_channels;
    void *group;
};
struct hm_nccl_group_api {
    bool graph;
    int depth;
};
struct hm_nccl_coll_api {
    const char *func;
    size_t count;
    const char *dtype;
    int root;
    void *stream;
    bool graph;
};
struct hm_nccl_p2p_api {
    const char *func;
    size_t count;
    const char *dtype;
    void *stream;
    bool graph;
};
struct hm_nccl_descr_v5 {
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
    } u;
};

/* What a state call carries; all members start at 0. */
union hm_nccl_args {
    size_t bytes;
    int appended;
    void *data;
    uint64_t timer;
};

typedef void (*hm_nccl_log_t)(int level, unsigned long subsys, const char *file, int line,
                              const char *fmt, ...);

struct hm_nccl_profiler_v4 {
    const char *name;
    int (*init)(void **ctx, int *mask, const char *name, uint64_t hash, int n_nodes, int n_ranks,
                int rank, hm_nccl_log_t log);
    int (*start)(void *ctx, void **handle, struct hm_nccl_descr_v4 *d);
    int (*stop)(void *handle);
    int (*state)(void *handle, int state, union hm_nccl_args *args);
    int (*finalize)(void *ctx);
};
struct hm_nccl_profiler_v5 {
    const char *name;
    int (*init)(void **ctx, uint64_t hash, int *mask, const char *name, int n_nodes, int n_ranks,
                int rank, hm_nccl_log_t log);
    int (*start)(void *ctx, void **handle, struct hm_nccl_descr_v5 *d);
    int (*stop)(void *handle);
    int (*state)(void *handle, int state, union hm_nccl_args *args);
    int (*finalize)(void *ctx);
};

#define HM_NCCL_AT(version, member, offset) \
    _Static_assert(offsetof(struct hm_nccl_descr_v##version, member) == (offset), #member)
#define HM_NCCL_SHARED_LAYOUT(v)               \
    HM_NCCL_AT(v, type, 0);                    \
    HM_NCCL_AT(v, parent, 8);                  \
    HM_NCCL_AT(v, rank, 16);                   \
    HM_NCCL_AT(v, u, 24);                      \
    HM_NCCL_AT(v, u.coll.seq, 24);             \
    HM_NCCL_AT(v, u.coll.func, 32);            \
    HM_NCCL_AT(v, u.coll.send, 40);            \
    HM_NCCL_AT(v, u.coll.recv, 48);            \
    HM_NCCL_AT(v, u.coll.count, 56);           \
    HM_NCCL_AT(v, u.coll.root, 64);            \
    HM_NCCL_AT(v, u.coll.dtype, 72);           \
    HM_NCCL_AT(v, u.coll.n_channels, 80);      \
    HM_NCCL_AT(v, u.coll.n_warps, 81);         \
    HM_NCCL_AT(v, u.coll.algo, 88);            \
    HM_NCCL_AT(v, u.coll.proto, 96);           \
    HM_NCCL_AT(v, u.p2p.func, 24);             \
    HM_NCCL_AT(v, u.p2p.buff, 32);             \
    HM_NCCL_AT(v, u.p2p.dtype, 40);            \
    HM_NCCL_AT(v, u.p2p.count, 48);            \
    HM_NCCL_AT(v, u.p2p.peer, 56);             \
    HM_NCCL_AT(v, u.p2p.n_channels, 60);       \
    HM_NCCL_AT(v, u.proxy_op.pid, 24);         \
    HM_NCCL_AT(v, u.proxy_op.channel, 28);     \
    HM_NCCL_AT(v, u.proxy_op.peer, 32);        \
    HM_NCCL_AT(v, u.proxy_op.n_steps, 36);     \
    HM_NCCL_AT(v, u.proxy_op.chunk_bytes, 40); \
    HM_NCCL_AT(v, u.proxy_op.is_send, 44);     \
    HM_NCCL_AT(v, u.step, 24);                 \
    HM_NCCL_AT(v, u.kernel_ch.channel, 24);    \
    HM_NCCL_AT(v, u.kernel_ch.timer, 32);      \
    HM_NCCL_AT(v, u.net.id, 24);               \
    HM_NCCL_AT(v, u.net.data, 32);             \
    _Static_assert(_Alignof(struct hm_nccl_descr_v##v) == 8, "")

HM_NCCL_SHARED_LAYOUT(4);
HM_NCCL_SHARED_LAYOUT(5);
HM_NCCL_AT(5, u.coll.group, 104);
HM_NCCL_AT(5, u.p2p.group, 64);
HM_NCCL_AT(5, u.group_api.graph, 24);
HM_NCCL_AT(5, u.group_api.depth, 28);
HM_NCCL_AT(5, u.coll_api.func, 24);
HM_NCCL_AT(5, u.coll_api.count, 32);
HM_NCCL_AT(5, u.coll_api.dtype, 40);
HM_NCCL_AT(5, u.coll_api.root, 48);
HM_NCCL_AT(5, u.coll_api.stream, 56);
HM_NCCL_AT(5, u.coll_api.graph, 64);
HM_NCCL_AT(5, u.p2p_api.func, 24);
HM_NCCL_AT(5, u.p2p_api.count, 32);
HM_NCCL_AT(5, u.p2p_api.dtype, 40);
HM_NCCL_AT(5, u.p2p_api.stream, 48);
HM_NCCL_AT(5, u.p2p_api.graph, 56);
HM_NCCL_AT(5, u.stream, 24);
_Static_assert(sizeof(((struct hm_nccl_descr_v4 *)0)->type) == 1 &&
                   sizeof(((struct hm_nccl_descr_v5 *)0)->type) == 8,
               "width of the type");
_Static_assert(sizeof(struct hm_nccl_descr_v4) == 104 && sizeof(struct hm_nccl_descr_v5) == 112,
               "descriptor");
_Static_assert(sizeof(union hm_nccl_args) == 8, "state arguments");
_Static_assert(sizeof(struct hm_nccl_profiler_v4) == 48 && sizeof(struct hm_nccl_profiler_v5) == 48,
               "operations");

#endif
