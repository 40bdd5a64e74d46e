/* Causality check.
 *
 * Box: lib/analysis. Pure. Source: facts on analysis 2.16.
 */
#include "analysis/causality.h"

int64_t hm_causality_gap(const struct hm_part *part, size_t n, size_t *early_p, size_t *late_p)
{
    /* the latest start against the earliest end; where both are one rank's, the runners-up */
    int64_t worst = INT64_MIN;
    size_t last[2] = {SIZE_MAX, SIZE_MAX}, first[2] = {SIZE_MAX, SIZE_MAX};
    for (size_t i = 0; i < n; i++) {
        if (last[0] == SIZE_MAX || part[i].a.start_ns > part[last[0]].a.start_ns) {
            last[1] = last[0];
            last[0] = i;
        } else if (last[1] == SIZE_MAX || part[i].a.start_ns > part[last[1]].a.start_ns) {
            last[1] = i;
        }
        if (first[0] == SIZE_MAX || part[i].a.end_ns < part[first[0]].a.end_ns) {
            first[1] = first[0];
            first[0] = i;
        } else if (first[1] == SIZE_MAX || part[i].a.end_ns < part[first[1]].a.end_ns) {
            first[1] = i;
        }
    }
    *early_p = *late_p = 0;
    for (int a = 0; a < 2; a++)
        for (int b = 0; b < 2; b++) {
            if (last[a] == SIZE_MAX || first[b] == SIZE_MAX || last[a] == first[b])
                continue;
            int64_t gap = part[last[a]].a.start_ns - part[first[b]].a.end_ns;
            if (gap > worst) {
                worst = gap;
                *early_p = first[b];
                *late_p = last[a];
            }
        }
    return worst;
}
