/* Causality: in a synchronous collective nobody ends before everybody has started.
 *
 * Box: lib/analysis. Pure. Source: facts on analysis 2.16, facts on clocks 3.5.
 */
#ifndef HM_ANALYSIS_CAUSALITY_H
#define HM_ANALYSIS_CAUSALITY_H

#include "align/align.h"
#include "analysis/rows.h"

/** Largest start_j - end_i over pairs i != j of a synchronous launch, ns; <= 0 = no violation.
 *  *early_p ended too early, *late_p started too late (indices into part). */
int64_t hm_causality_gap(const struct hm_part *part, size_t n, size_t *early_p, size_t *late_p);
/** Bounds of one synchronous launch on the clocks of its workers: for each i the clock of the
 *  latest starter j obeys offset(j - i) >= start_j - end_i when both are read in their own clock.
 *  domain[worker] as in hm_align_fit(). At most n bounds; returns how many. */
size_t hm_bounds_of(const struct hm_launch *launch, const struct hm_part *part,
                    const uint32_t *domain, struct hm_bound *bound_p);

#endif
