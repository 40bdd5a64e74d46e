/* Clock probes: who probes whom, and which probes are kept.
 *
 * Box: lib/core. Pure. Source: facts on clocks, section 3: 16-ary tree plus two random edges.
 */
#ifndef HM_PROBE_H
#define HM_PROBE_H

#include "core/event.h"

#include <stdint.h>

/** Neighbours of leader `me` among n leaders (every edge is seen from both ends), ascending;
 *  returns their number, at most 32. `nonce` seeds the extra edges: same on all leaders. */
uint32_t hm_probe_peers(uint32_t n, uint32_t me, uint64_t nonce, uint32_t peer_p[32]);
/** Keeps the `keep` probes with the smallest round trip, in time order; returns how many. */
uint32_t hm_probe_best(struct hm_event *probe, uint32_t n, uint32_t keep);

#endif
