/* Network: what a collective's steps waited for on each link, from NCCL's proxy steps.
 *
 * Box: lib/analysis. Pure. One object a worker; memory fixed: a row a link, the proxy operations of
 * late. A send step waits for the GPU to fill the buffer, for the peer's credit, then for the wire.
 * Source: facts on analysis 2.12; NCCL's states of a proxy step.
 */
#ifndef HM_ANALYSIS_NETWORK_H
#define HM_ANALYSIS_NETWORK_H

#include "analysis/rows.h"
#include "core/status.h"

/** What one worker sent to one peer over one communicator. Sums over its send steps, ns. */
struct hm_link_sum {
    uint64_t comm;     /* key of the communicator */
    uint32_t from, to; /* workers */
    int64_t n, step_ns, gpu_ns, peer_ns, wire_ns, bytes;
};
struct hm_network;
hm_status_t hm_network_create(uint32_t worker, struct hm_network **network_p);
void hm_network_destroy(struct hm_network *n);
/** A PROXY_OP event; to: the worker that the peer is, HM_NO_ID = unknown (passed over). */
void hm_network_op(struct hm_network *n, const struct hm_event *op, uint64_t comm, uint32_t to);
/** A PROXY_STEP event, in order of time; its operation may come a little later. Steps outside
 *  [t0, t1) are passed over. */
void hm_network_step(struct hm_network *n, const struct hm_event *step, int64_t t0_ns,
                     int64_t t1_ns);
/** Borrowed. */
const struct hm_link_sum *hm_network_links(const struct hm_network *n, size_t *n_p);

#endif
