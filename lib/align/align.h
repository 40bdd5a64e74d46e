/* Clock alignment: raw probes -> intervals -> lines -> one map and one error bound per domain.
 *
 * Box: lib/align. Pure. Source: facts on clocks, sections 0, 1 and 3.
 */
#ifndef HM_ALIGN_H
#define HM_ALIGN_H

#include "core/clock.h"
#include "core/event.h"
#include "core/status.h"

#include <stddef.h>

/** Rigorous bound on offset(b - a) at instant x of a's clock: lo <= b - a <= hi. */
struct hm_edge {
    uint32_t a, b, window, pad;
    int64_t x_ns, lo_ns, hi_ns;
};
/** A bound from collectives (end_i >= start_j), same meaning, looser; for validation. */
struct hm_bound {
    uint32_t a, b;
    int64_t x_ns, lo_ns;
};
struct hm_align;
struct hm_align_info {
    int64_t eps_max_ns, residual_ns;
    double drift_ppm;
    uint32_t n_edges, n_outliers, reachable, pad;
};

/** Intervals of one leader's PROBE events (t_ns = t1 in the prober's clock; peer = the other
 *  domain's index): the narrowest of each (peer, window), at most `cap`. Returns their number. */
size_t hm_edges_from_probes(uint32_t domain, const struct hm_event *probe, size_t n,
                            struct hm_edge *edge_p, size_t cap);
/** Fits offset and drift of every domain against domain 0. Domains without a path of edges get an
 *  infinite bound (reachable = 0). */
hm_status_t hm_align_fit(uint32_t n_domains, const struct hm_edge *edge, size_t n_edges,
                         const struct hm_bound *bound, size_t n_bounds, struct hm_align **align_p);
/** Map from the domain's RAW clock to global ns; borrowed until hm_align_free(). */
struct hm_timemap hm_align_domain(const struct hm_align *align, uint32_t domain);
void hm_align_report(const struct hm_align *align, uint32_t domain, struct hm_align_info *info_p);
/** Bound on the disagreement of two domains at global time t, ns; 0 for one domain. */
int64_t hm_align_pair_eps(const struct hm_align *align, uint32_t a, uint32_t b, int64_t t_ns);
void hm_align_free(struct hm_align *align);
/** Piecewise map between two clocks of one machine from (x, y, width) pairs in time order. Returns
 *  the number of segments written to seg_p (at most cap). */
size_t hm_align_local(const int64_t *x_ns, const int64_t *y_ns, const int64_t *width_ns, size_t n,
                      struct hm_timeseg *seg_p, size_t cap);

#endif
