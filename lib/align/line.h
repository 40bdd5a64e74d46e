/* A feasible line through interval bounds on the offset of two clocks, and its error bound.
 *
 * Box: lib/align, internal. Pure. Source: facts on clocks, section 3.3: feasible line between
 * windows; the bound is the extreme of the feasible polygon, never the slack of the chosen line.
 */
#ifndef HM_ALIGN_LINE_H
#define HM_ALIGN_LINE_H

#include <stddef.h>
#include <stdint.h>

/* Fastest relative drift of two machines that is believed: 200 ppm. Measured worst: 80 ppm. */
#define HM_DRIFT_MAX 2e-4

/** The offset at x lies in [lo, hi]. */
struct hm_offset_bound {
    int64_t x_ns, lo_ns, hi_ns;
};
/** offset(x) = y0 + (x - x0) * slope for x0 <= x <= x1 (the first and the last window of the
 *  piece); |error| <= eps0 at x0, eps1 at x1, and their larger one plus wander_ns between. */
struct hm_line {
    int64_t x0_ns, x1_ns, y0_ns;
    double slope, slope_lo, slope_hi; /* slope_lo..hi: every slope that the intervals allow */
    int64_t eps0_ns, eps1_ns, wander_ns;
    size_t first, n; /* intervals of this piece */
};

/** Cuts the bounds (ascending x) into the fewest pieces that a line fits, in order, at most `cap`;
 *  returns their number. Bounds with lo > hi must have been dropped. */
size_t hm_line_fit(const struct hm_offset_bound *bound, size_t n, struct hm_line *line_p,
                   size_t cap);
/** Offset of the line at x, extrapolated outside [x0, x1]. */
int64_t hm_line_at(const struct hm_line *line, int64_t x_ns);

#endif
