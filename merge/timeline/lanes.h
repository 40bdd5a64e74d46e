/* Lanes: which slices of a track may share a line.
 *
 * Box: merge/timeline. Pure but for announcing new lanes to the sink. One thread.
 * Invariant: two slices of one lane do not overlap, or, on host lanes, one holds the other.
 * Slices of a track must come in order of start, of equal starts the longest first.
 */
#ifndef HM_LANES_H
#define HM_LANES_H

#include "timeline/timeline.h"

struct hm_lanes;
hm_status_t hm_lanes_create(uint32_t rank, struct hm_sink *sink, struct hm_lanes **lanes_p);
void hm_lanes_destroy(struct hm_lanes *lanes);
/** Index of the track of this type and key, added under `name` (copied) when new. */
hm_status_t hm_lanes_track(struct hm_lanes *lanes, enum hm_lane_type type, uint64_t key,
                           const char *name, uint32_t *track_p);
/** Chooses the lane of a slice; a new lane is announced to the sink. */
hm_status_t hm_lanes_place(struct hm_lanes *lanes, uint32_t track, int64_t t_ns, int64_t end_ns,
                           uint32_t *lane_p);

#endif
