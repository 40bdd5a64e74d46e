/* Steps of one worker: host marks -> windows on its GPU.
 *
 * Box: lib/analysis. Pure. The host runs ahead of the GPU, so that a mark does not cut GPU time:
 * the window of step s reaches from the end of the last device operation that was launched before
 * the mark of s to the end of the last one launched inside s. Without device operations the marks
 * themselves.
 */
#ifndef HM_ANALYSIS_STEPS_H
#define HM_ANALYSIS_STEPS_H

#include "analysis/account.h"

struct hm_steps;
hm_status_t hm_steps_create(struct hm_steps **steps_p);
/** Next event of the rank in time order; STEP, API, KERNEL, MEMCPY, MEMSET count. `device_match`:
 *  the operation ran on this worker's device. */
hm_status_t hm_steps_event(struct hm_steps *steps, const struct hm_event *ev, int device_match);
/** Step number in which the host was at t, HM_NO_ID = before the first mark or after the end. */
uint32_t hm_steps_at(const struct hm_steps *steps, int64_t t_ns);
/** Finished steps, ascending; borrowed. A last step that nothing ended is left out. */
size_t hm_steps_windows(struct hm_steps *steps, const struct hm_step_window **window_p);
void hm_steps_destroy(struct hm_steps *steps);

#endif
