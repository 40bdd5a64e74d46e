/* The clocks of a demo's nodes. Box: merge/demo, internal. Pure. */
#ifndef HM_DEMO_CLOCK_H
#define HM_DEMO_CLOCK_H

#include "demo/sim.h"

/** What the clock of the rank's node shows at t of the simulation. */
int64_t hm_demo_clock(const struct hm_demo_sim *sim, uint32_t rank, int64_t t_ns);
/** Probes from this rank, a node's first, to node 0's first; windows of 8, every 10 s. */
hm_status_t hm_demo_probes(const struct hm_demo_sim *sim, uint32_t rank, hm_demo_give_t give,
                           void *ctx);

#endif
