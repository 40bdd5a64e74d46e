/* Piecewise map between two clocks of one machine.
 *
 * Box: lib/align. Pure. Pairs (x, y, width) in time order: x was read within width ns of y. Between
 * two pairs the map is the straight line; before the first and after the last the nearest piece
 * is extended, with the error of its slope. Source: facts on clocks, section 3.4 (snapshots).
 */
#include "align/align.h"
#include "align/line.h"

#include <math.h>

size_t hm_align_local(const int64_t *x_ns, const int64_t *y_ns, const int64_t *width_ns, size_t n,
                      struct hm_timeseg *seg_p, size_t cap)
{
    size_t n_seg = 0, last = 0;
    if (!n || !cap)
        return 0;
    if (n == 1) {
        seg_p[0] = (struct hm_timeseg){x_ns[0], y_ns[0], 0, width_ns[0], HM_DRIFT_MAX};
        return 1;
    }
    for (size_t i = 1; i < n && n_seg < cap; i++) {
        int64_t dx = x_ns[i] - x_ns[last];
        if (dx <= 0)
            continue;
        double rate = (double)(y_ns[i] - y_ns[last] - dx) / (double)dx;
        int64_t width = width_ns[i] > width_ns[last] ? width_ns[i] : width_ns[last];
        /* outside of the pairs the slope is wrong by at most both widths over the piece */
        double slope_error = (double)(width_ns[i] + width_ns[last]) / (double)dx + 1e-7;
        seg_p[n_seg++] =
            (struct hm_timeseg){x_ns[last], y_ns[last], rate, width + 1, fmin(slope_error, 1)};
        last = i;
    }
    if (!n_seg) {
        seg_p[0] = (struct hm_timeseg){x_ns[0], y_ns[0], 0, width_ns[0], HM_DRIFT_MAX};
        return 1;
    }
    return n_seg;
}
