/* Memory layouts of NCCL's profiler interface, versions 1 to 3. See abi.h.
 *
 * Box: nccl-plugin. Source: NVIDIA/nccl, v1 as in releases 2.23.4 to 2.31, v2 from 2.24.3 on, v3
 * from 2.26.2 on. These three name the communicator in each operation and not at the start.
 */
#ifndef HM_NCCL_ABI_OLD_H
#define HM_NCCL_ABI_OLD_H

#include "abi.h"

struct hm_nccl_coll_v1 { /* function, type, algorithm and protocol are numbers */
    const char *name;
    uint64_t hash, seq;
    uint8_t func;
    const void *send;
    void *recv;
    size_t count;
    int root;
    uint8_t dtype;
    uint32_t op;
    size_t traffic;
    uint8_t n_channels, n_warps, algo, proto;
    int is_collnet, is_nvls;
};
struct hm_nccl_coll_v2 {
    const char *name;
    uint64_t hash, seq;
    const char *func;
    const void *send;
    void *recv;
    size_t count;
    int root;
    const char *dtype;
    size_t traffic;
    uint8_t n_channels, n_warps;
    const char *algo, *proto;
};
struct hm_nccl_coll_v3 {
    const char *name;
    uint64_t hash, seq;
    const char *func;
    const void *send;
    void *recv;
    size_t count;
    int root;
    const char *dtype;
    uint8_t n_channels, n_warps;
    const char *algo, *proto;
};
struct hm_nccl_p2p_v1 {
    const char *name;
    uint64_t hash;
    uint8_t func;
    void *buff;
    uint8_t dtype;
    size_t count;
    int peer;
};
struct hm_nccl_p2p_v2 {
    const char *name;
    uint64_t hash;
    const char *func;
    void *buff;
    const char *dtype;
    size_t count;
    int peer;
};
struct hm_nccl_kernel_ch_v3 {
    uint8_t channel;
};

struct hm_nccl_descr_v1 {
    uint8_t type;
    void *parent;
    int rank;
    union {
        struct hm_nccl_coll_v1 coll;
        struct hm_nccl_p2p_v1 p2p;
        struct hm_nccl_proxy_op proxy_op;
        int step;
    } u;
};
struct hm_nccl_descr_v2 {
    uint8_t type;
    void *parent;
    int rank;
    union {
        struct hm_nccl_coll_v2 coll;
        struct hm_nccl_p2p_v2 p2p;
        struct hm_nccl_proxy_op proxy_op;
        int step;
    } u;
};
struct hm_nccl_descr_v3 {
    uint8_t type;
    void *parent;
    int rank;
    union {
        struct hm_nccl_coll_v3 coll;
        struct hm_nccl_p2p_v2 p2p;
        struct hm_nccl_proxy_op proxy_op;
        int step;
        struct hm_nccl_kernel_ch_v3 kernel_ch;
        struct hm_nccl_net net;
    } u;
};

union hm_nccl_args_old {
    struct {
        size_t bytes;
        int steps;
    } proxy_op;
    int appended;
};

#define HM_NCCL_OPS_OLD(v)                                                    \
    struct hm_nccl_profiler_v##v {                                            \
        const char *name;                                                     \
        int (*init)(void **ctx, int *mask);                                   \
        int (*start)(void *ctx, void **handle, struct hm_nccl_descr_v##v *d); \
        int (*stop)(void *handle);                                            \
        int (*state)(void *handle, int state, union hm_nccl_args_old *args);  \
        int (*finalize)(void *ctx);                                           \
    };                                                                        \
    _Static_assert(sizeof(struct hm_nccl_profiler_v##v) == 48, "operations")
HM_NCCL_OPS_OLD(1);
HM_NCCL_OPS_OLD(2);
HM_NCCL_OPS_OLD(3);

#define HM_NCCL_OLD_LAYOUT(v)                  \
    HM_NCCL_AT(v, type, 0);                    \
    HM_NCCL_AT(v, parent, 8);                  \
    HM_NCCL_AT(v, rank, 16);                   \
    HM_NCCL_AT(v, u, 24);                      \
    HM_NCCL_AT(v, u.coll.name, 24);            \
    HM_NCCL_AT(v, u.coll.hash, 32);            \
    HM_NCCL_AT(v, u.coll.seq, 40);             \
    HM_NCCL_AT(v, u.coll.func, 48);            \
    HM_NCCL_AT(v, u.coll.send, 56);            \
    HM_NCCL_AT(v, u.coll.recv, 64);            \
    HM_NCCL_AT(v, u.coll.count, 72);           \
    HM_NCCL_AT(v, u.coll.root, 80);            \
    HM_NCCL_AT(v, u.p2p.name, 24);             \
    HM_NCCL_AT(v, u.p2p.hash, 32);             \
    HM_NCCL_AT(v, u.p2p.func, 40);             \
    HM_NCCL_AT(v, u.p2p.buff, 48);             \
    HM_NCCL_AT(v, u.p2p.dtype, 56);            \
    HM_NCCL_AT(v, u.p2p.count, 64);            \
    HM_NCCL_AT(v, u.p2p.peer, 72);             \
    HM_NCCL_AT(v, u.proxy_op.pid, 24);         \
    HM_NCCL_AT(v, u.proxy_op.channel, 28);     \
    HM_NCCL_AT(v, u.proxy_op.peer, 32);        \
    HM_NCCL_AT(v, u.proxy_op.n_steps, 36);     \
    HM_NCCL_AT(v, u.proxy_op.chunk_bytes, 40); \
    HM_NCCL_AT(v, u.proxy_op.is_send, 44);     \
    HM_NCCL_AT(v, u.step, 24);                 \
    _Static_assert(sizeof(((struct hm_nccl_descr_v##v *)0)->type) == 1, "")

HM_NCCL_OLD_LAYOUT(1);
HM_NCCL_OLD_LAYOUT(2);
HM_NCCL_OLD_LAYOUT(3);
HM_NCCL_AT(1, u.coll.dtype, 84);
HM_NCCL_AT(1, u.coll.op, 88);
HM_NCCL_AT(1, u.coll.traffic, 96);
HM_NCCL_AT(1, u.coll.n_channels, 104);
HM_NCCL_AT(1, u.coll.n_warps, 105);
HM_NCCL_AT(1, u.coll.algo, 106);
HM_NCCL_AT(1, u.coll.proto, 107);
HM_NCCL_AT(1, u.coll.is_collnet, 108);
HM_NCCL_AT(1, u.coll.is_nvls, 112);
HM_NCCL_AT(2, u.coll.dtype, 88);
HM_NCCL_AT(2, u.coll.traffic, 96);
HM_NCCL_AT(2, u.coll.n_channels, 104);
HM_NCCL_AT(2, u.coll.n_warps, 105);
HM_NCCL_AT(2, u.coll.algo, 112);
HM_NCCL_AT(2, u.coll.proto, 120);
HM_NCCL_AT(3, u.coll.dtype, 88);
HM_NCCL_AT(3, u.coll.n_channels, 96);
HM_NCCL_AT(3, u.coll.n_warps, 97);
HM_NCCL_AT(3, u.coll.algo, 104);
HM_NCCL_AT(3, u.coll.proto, 112);
HM_NCCL_AT(3, u.kernel_ch.channel, 24);
HM_NCCL_AT(3, u.net.id, 24);
HM_NCCL_AT(3, u.net.data, 32);
_Static_assert(sizeof(struct hm_nccl_descr_v1) == 120 && sizeof(struct hm_nccl_descr_v2) == 128 &&
                   sizeof(struct hm_nccl_descr_v3) == 120,
               "descriptor");
_Static_assert(sizeof(union hm_nccl_args_old) == 16 &&
                   offsetof(union hm_nccl_args_old, proxy_op.steps) == 8,
               "state arguments");

#endif
