/* Causality check and the bounds it gives.
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

size_t hm_bounds_of(const struct hm_launch *l, const struct hm_part *part, const uint32_t *domain,
                    struct hm_bound *bound_p)
{
    if (!(l->flags & HM_LAUNCH_SYNCHRONOUS) || l->source != HM_ARRIVAL_KERNEL)
        return 0;
    size_t n = 0;
    for (uint32_t j = 0; j < l->n_present; j++) {
        /* the earliest end in each other domain is the tightest; one pass is enough for a check */
        for (uint32_t i = 0; i < l->n_present && n < l->n_present; i++) {
            uint32_t di = domain[part[i].worker], dj = domain[part[j].worker];
            if (di == dj || part[j].worker != l->last_worker)
                continue;
            /* end_i >= start_j at one instant: on i's clock end_i, j's shows at least start_j */
            bound_p[n++] = (struct hm_bound){.a = di,
                                             .b = dj,
                                             .x_ns = part[i].a.end_ns,
                                             .lo_ns = part[j].a.start_ns - part[i].a.end_ns};
        }
    }
    return n;
}
