/* Feasible line and polygon bound.
 *
 * Box: lib/align. Pure. A line a + s x is feasible when lo_i <= a + s x_i <= hi_i for all i.
 * Eliminating a (Fourier-Motzkin) leaves lo_j - hi_i <= s (x_j - x_i) <= hi_j - lo_i for every
 * pair: exact, O(n^2), n <= 512. All x and y are taken relative to the first window in int64
 * before they become doubles. Source: facts on clocks, section 3.3.
 */
#include "align/line.h"

#include <math.h>

/* Relative to window 0 of the piece. */
struct rel {
    const struct hm_offset_bound *b;
    size_t n;
    int64_t x0, y0;
};

static double rel_x(const struct rel *r, size_t i)
{
    return (double)(r->b[i].x_ns - r->x0);
}

static double rel_lo(const struct rel *r, size_t i)
{
    return (double)(r->b[i].lo_ns - r->y0);
}

static double rel_hi(const struct rel *r, size_t i)
{
    return (double)(r->b[i].hi_ns - r->y0);
}

/* Largest offset at x that a line of slope s allows: min_i hi_i + s (x - x_i). */
static double upper(const struct rel *r, double s, double x)
{
    double v = INFINITY;
    for (size_t i = 0; i < r->n; i++)
        v = fmin(v, rel_hi(r, i) + s * (x - rel_x(r, i)));
    return v;
}

static double lower(const struct rel *r, double s, double x)
{
    double v = -INFINITY;
    for (size_t i = 0; i < r->n; i++)
        v = fmax(v, rel_lo(r, i) + s * (x - rel_x(r, i)));
    return v;
}

enum what { TOP, BOTTOM, SLACK };

static double value(const struct rel *r, enum what what, double s, double x)
{
    switch (what) {
    case TOP:
        return upper(r, s, x);
    case BOTTOM:
        return -lower(r, s, x);
    case SLACK:
        return upper(r, s, 0) - lower(r, s, 0);
    }
    return 0;
}

/* Slope in [lo, hi] where a concave function of s is largest (ternary search). */
static double best_slope(const struct rel *r, enum what what, double lo, double hi, double x)
{
    for (int k = 0; k < 100 && hi - lo > 1e-15; k++) {
        double a = lo + (hi - lo) / 3, b = hi - (hi - lo) / 3;
        if (value(r, what, a, x) < value(r, what, b, x))
            lo = a;
        else
            hi = b;
    }
    return (lo + hi) / 2;
}

/* Extreme of the polygon at x, in one direction. */
static double extreme(const struct rel *r, enum what what, double lo, double hi, double x)
{
    double v = value(r, what, best_slope(r, what, lo, hi, x), x);
    v = fmax(v, value(r, what, lo, x));
    return fmax(v, value(r, what, hi, x));
}

static int64_t bound_at(const struct rel *r, const struct hm_line *l, double x, double y)
{
    double top = extreme(r, TOP, l->slope_lo, l->slope_hi, x);
    double bottom = -extreme(r, BOTTOM, l->slope_lo, l->slope_hi, x);
    return (int64_t)ceil(fmax(fmax(top - y, y - bottom), 0)) + 1;
}

static void fit_piece(const struct hm_offset_bound *b, size_t n, double lo, double hi,
                      struct hm_line *l)
{
    struct rel r = {b, n, b[0].x_ns, b[0].lo_ns};
    l->slope_lo = lo;
    l->slope_hi = hi;
    l->slope = n > 1 ? best_slope(&r, SLACK, lo, hi, 0) : 0;
    double y0 = (upper(&r, l->slope, 0) + lower(&r, l->slope, 0)) / 2;
    double x1 = rel_x(&r, n - 1);
    l->x0_ns = b[0].x_ns;
    l->x1_ns = b[n - 1].x_ns;
    l->y0_ns = r.y0 + (int64_t)llround(y0);
    l->eps0_ns = bound_at(&r, l, 0, y0) + 1;
    l->eps1_ns = bound_at(&r, l, x1, y0 + l->slope * x1) + 1;
    /* between windows the rate itself may wander: 0.1 ppm, with four windows or more 0.02 ppm, of
     * the time to the nearest window */
    int64_t gap = 0;
    for (size_t i = 1; i < n; i++)
        if (b[i].x_ns - b[i - 1].x_ns > gap)
            gap = b[i].x_ns - b[i - 1].x_ns;
    l->wander_ns = (int64_t)((double)gap / 2 * (n < 4 ? 1e-7 : 2e-8));
}

size_t hm_line_fit(const struct hm_offset_bound *b, size_t n, struct hm_line *line_p, size_t cap)
{
    size_t n_lines = 0, first = 0;
    while (first < n && n_lines < cap) {
        double lo = -HM_DRIFT_MAX, hi = HM_DRIFT_MAX;
        size_t end = first + 1;
        for (; end < n; end++) {
            double new_lo = lo, new_hi = hi;
            int ok = 1;
            for (size_t i = first; i < end && ok; i++) {
                double dx = (double)(b[end].x_ns - b[i].x_ns);
                double up = (double)(b[end].hi_ns - b[i].lo_ns);
                double down = (double)(b[end].lo_ns - b[i].hi_ns);
                if (dx <= 0) {
                    ok = up >= 0 && down <= 0;
                    continue;
                }
                new_lo = fmax(new_lo, down / dx);
                new_hi = fmin(new_hi, up / dx);
            }
            if (!ok || new_lo > new_hi)
                break;
            lo = new_lo;
            hi = new_hi;
        }
        struct hm_line *l = &line_p[n_lines++];
        l->first = first;
        l->n = end - first;
        fit_piece(b + first, l->n, lo, hi, l);
        first = end;
    }
    return n_lines;
}

int64_t hm_line_at(const struct hm_line *l, int64_t x_ns)
{
    return l->y0_ns + (int64_t)llround((double)(x_ns - l->x0_ns) * l->slope);
}
