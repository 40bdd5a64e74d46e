/* Causality: in a synchronous collective nobody ends before everybody has started.
 *
 * Box: lib/analysis. Pure. Source: facts on analysis 2.16, facts on clocks 3.5.
 */
#ifndef HM_ANALYSIS_CAUSALITY_H
#define HM_ANALYSIS_CAUSALITY_H

#include "analysis/rows.h"

/** Largest start_j - end_i over pairs i != j of a synchronous launch, ns; <= 0 = no violation.
 *  *early_p ended too early, *late_p started too late (indices into part). */
int64_t hm_causality_gap(const struct hm_part *part, size_t n, size_t *early_p, size_t *late_p);

#endif
