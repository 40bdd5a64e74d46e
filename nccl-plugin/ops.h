/* What any version of NCCL's profiler interface says, in one form; and the event model behind it.
 *
 * Box: nccl-plugin. adapt.c fills these descriptors, ops.c alone understands them. Nothing in a
 * descriptor is believed: contexts and parents may come from another process or be long over.
 */
#ifndef HM_NCCL_OPS_H
#define HM_NCCL_OPS_H

#include "core/clear.h"

#include <stdint.h>

enum hm_nccl_type { /* 5 bits of a handle */
                    HM_NT_GROUP,
                    HM_NT_COLL,
                    HM_NT_P2P,
                    HM_NT_PROXY_OP,
                    HM_NT_PROXY_STEP,
                    HM_NT_PROXY_CTRL,
                    HM_NT_KERNEL_CH,
                    HM_NT_NET,
                    HM_NT_GROUP_API,
                    HM_NT_COLL_API,
                    HM_NT_P2P_API,
                    HM_NT_LAUNCH,
                    HM_NT_CE_COLL,
                    HM_NT_CE_SYNC,
                    HM_NT_CE_BATCH,
                    HM_NT_PHASE,
                    HM_NT_CTX,
                    HM_NT_LONG_GROUP = 28, /* begun by ncclGroupStart; GROUP of v1 to v4 */
                    HM_NT_BOUND = 29,      /* v5 Group: the serial is the launch it belongs to */
                    HM_NT_GRAPH_API = 30,  /* a GROUP_API that is being captured */
                    HM_NT_VOID = 31        /* ours, but nothing is recorded under it */
};

struct hm_nccl_desc {
    enum hm_nccl_type type;
    int32_t rank, peer, pid, n_steps, step, chunk_bytes, depth; /* peer: also the root */
    uint64_t ctx, parent, group, count, seq, user_tag, stream, gpu_ns, bytes;
    uint64_t comm_hash; /* v1 to v3 say it here */
    int64_t net_id;
    const char *func, *dtype, *algo, *proto, *comm_name;
    uint32_t n; /* parts of a copy-engine step */
    uint8_t channel, is_send, n_channels, n_warps, graph, have_seq, complete, phase;
    uint8_t interface; /* version the descriptor came through */
};

/** An empty descriptor. */
static inline void hm_nccl_desc_init(struct hm_nccl_desc *d, unsigned interface)
{
    _Static_assert(sizeof(*d) % 8 == 0, "");
    hm_clear(d, sizeof(*d) / 8);
    d->type = HM_NT_VOID;
    d->peer = -1;
    d->interface = (uint8_t)interface;
}

struct hm_nccl_init { /* v1 to v3 tell nothing: hash 0, n_ranks 0 */
    uint64_t hash;
    const char *name; /* may be NULL; copied */
    int32_t crank, n_ranks, n_nodes;
    uint32_t interface;
};

/** Names the event types we want, as NCCL's mask for this interface version. */
int hm_nccl_mask(unsigned interface);
/** A communicator begins: wakes the recorder, claims the rank, starts CUPTI. Returns the context,
 *  never 0; *mask_p = what we want of it, 0 when nothing is recorded.
 *  Thread: NCCL's init threads, several at once. */
uint64_t hm_nccl_init(const struct hm_nccl_init *init, int *mask_p);
/** An event begins; *handle_p is always written and never 0. Thread: any. */
void hm_nccl_start(uint64_t *handle_p, const struct hm_nccl_desc *desc);
/** value = what the state carries (bytes, GPU time), 0 where it carries nothing. */
void hm_nccl_state(uint64_t handle, int state, uint64_t value);
void hm_nccl_stop(uint64_t handle);
void hm_nccl_fini(uint64_t ctx);

#endif
