/* Trends: changes and drifts of a series over the steps. Box: lib/analysis, internal. */
#ifndef HM_ANALYSIS_TREND_H
#define HM_ANALYSIS_TREND_H

#include "analysis/judge_inside.h"

struct hm_drift {
    double s, z, slope, p; /* Mann-Kendall's S and Z, Theil-Sen's slope, two-sided */
};
/** The one change of mean that explains most: *at_p = index of the first value after it. Returns 0
 *  where there is none by at least 10 % of the larger mean with p <= 0.01 (permutation), with at
 *  least 5 values on both sides. */
int hm_trend_change(const double *x, size_t n, size_t *at_p, double *p_p);
/** Monotone drift; n is at most some 1,000 (quadratic). Returns 0 without memory or below two. */
int hm_trend_drift(const double *x, size_t n, struct hm_drift *drift_p);

#endif
