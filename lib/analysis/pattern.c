/* Where in the run something lies, and whether chance would put it there.
 *
 * Box: lib/analysis. Pure. Source: facts on scenarios, rule 5; Chernoff 1952 for the bound;
 * Bonferroni for several ranks; Efron 1979, Kuensch 1989 for the block bootstrap.
 */
#include "analysis/verdict_inside.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MIN_SPAN = 5, MIN_EDGE = 3, MIN_TURNS = 3, MAX_SCAN = 1024, BLOCKS = 8 };

const char *const hm_pattern_name[] = {NULL,      "persistent", "from_step",
                                       "one_off", "periodic",   "episode"};

/* --- where ---------------------------------------------------------------------------------- */

struct span {
    size_t begin, end;
};

/* The stretch [begin, end) whose mean stands out most: least squares with two change points, on at
 * most MAX_SCAN groups of steps. The whole when no stretch halves the squares, or what lies outside
 * is not below a fifth of what lies inside. */
static struct span find_span(const int64_t *x, size_t n)
{
    struct span whole = {0, n}, best = whole;
    size_t group = (n + MAX_SCAN - 1) / MAX_SCAN, m = (n + group - 1) / group;
    double *sum = calloc(m + 1, sizeof(*sum)), squares = 0;
    if (!sum || n < MIN_SPAN + MIN_EDGE) {
        free(sum);
        return whole;
    }
    for (size_t i = 0; i < m; i++) { /* sum[i] = of the groups before i */
        double v = 0;
        for (size_t s = i * group; s < n && s < (i + 1) * group; s++)
            v += (double)x[s];
        sum[i + 1] = sum[i] + v;
        squares += v * v;
    }
    double all = sum[m], least = squares - all * all / (double)m;
    double limit = 0.5 * least;
    for (size_t a = 0; a < m; a++) {
        if (a && a < MIN_EDGE)
            continue;
        for (size_t b = a + MIN_SPAN; b <= m; b++) {
            size_t in = b - a, out = m - in;
            if (!out || (b < m && m - b < MIN_EDGE))
                continue;
            double inside = sum[b] - sum[a], outside = all - inside;
            double error = squares - inside * inside / (double)in - outside * outside / (double)out;
            if (error < least && error < limit &&
                outside / (double)out < 0.2 * inside / (double)in) {
                least = error;
                best = (struct span){a * group, b * group < n ? b * group : n};
            }
        }
    }
    free(sum);
    return best;
}

/* The longest period of which one turn's step holds 80 % of the sum: 0 = none. A shorter one that
 * divides it holds as much, a longer one does not. */
static uint32_t find_period(const int64_t *x, size_t n, double all, uint32_t *at_p)
{
    for (size_t k = n / MIN_TURNS; k >= 2; k--)
        for (size_t r = 0; r < k; r++) {
            double sum = 0;
            size_t hit = 0, turns = 0;
            for (size_t s = r; s < n; s += k, turns++) {
                sum += (double)x[s];
                hit += (double)x[s] > 0.5 * all / (double)(n / k + 1);
            }
            if (sum >= 0.8 * all && 4 * hit >= 3 * turns) {
                *at_p = (uint32_t)r;
                return (uint32_t)k;
            }
        }
    return 0;
}

/* Does it come again and again, over the whole stretch? */
static int is_spread(const int64_t *x, size_t n, double all)
{
    uint32_t hit = 0;
    for (size_t b = 0; b < BLOCKS; b++) {
        double sum = 0;
        for (size_t s = b * n / BLOCKS; s < (b + 1) * n / BLOCKS; s++)
            sum += (double)x[s];
        hit += sum > 0.25 * all / BLOCKS;
    }
    return 4 * hit >= 3 * BLOCKS;
}

void hm_pattern_of(const int64_t *x, size_t n, struct hm_found_pattern *f)
{
    double all = 0;
    *f = (struct hm_found_pattern){.pattern = HM_P_NONE, .end = (uint32_t)n};
    for (size_t s = 0; s < n; s++)
        all += (double)x[s];
    if (all <= 0)
        return;
    for (size_t s = 0; s < n; s++)
        if ((double)x[s] + (s + 1 < n ? (double)x[s + 1] : 0) >= 0.8 * all) {
            f->pattern = HM_P_ONE_OFF;
            f->begin = (uint32_t)((double)x[s] < 0.1 * all && s + 1 < n ? s + 1 : s);
            f->end = f->begin + 1;
            return;
        }
    uint32_t at;
    uint32_t period = find_period(x, n, all, &at);
    if (period) {
        f->pattern = HM_P_PERIODIC;
        f->period = period;
        f->at = at;
        return;
    }
    struct span span = find_span(x, n);
    double inside = 0;
    for (size_t s = span.begin; s < span.end; s++)
        inside += (double)x[s];
    size_t active = 0, length = span.end - span.begin;
    for (size_t s = span.begin; s < span.end; s++)
        active += (double)x[s] > 0.5 * inside / (double)length;
    if (2 * active < length && !is_spread(x + span.begin, length, inside))
        return;
    f->begin = (uint32_t)span.begin;
    f->end = (uint32_t)span.end;
    f->pattern = span.end < n ? HM_P_EPISODE : span.begin ? HM_P_FROM_STEP : HM_P_PERSISTENT;
}

void hm_pattern_find(const struct hm_judge *j, struct hm_candidate *c)
{
    hm_pattern_of(j->late + (size_t)c->worker * j->n_steps, j->n_steps, &c->found);
}

/* --- chance --------------------------------------------------------------------------------- */

/* log of the mean of exp(theta x) over the workers that are compared, in one step. */
static double log_mean_exp(const struct hm_judge *j, const uint8_t *left_out, uint32_t w, size_t s,
                           double theta, double unit)
{
    double sum = 0;
    uint32_t m = 0;
    for (uint32_t q = 0; q < j->n_workers; q++) {
        if (left_out && left_out[q] && q != w)
            continue;
        sum += exp(theta * ((double)j->late[(size_t)q * j->n_steps + s] / unit));
        m++;
    }
    return m ? log(sum / m) : 0;
}

/* log of the bound: sum over the steps of log M_s(theta) - theta T. Convex in theta. */
static double log_bound(const struct hm_judge *j, const uint8_t *left_out, uint32_t w,
                        struct span span, double theta, double unit)
{
    double v = 0;
    for (size_t s = span.begin; s < span.end; s++)
        v += log_mean_exp(j, left_out, w, s, theta, unit) -
             theta * ((double)j->late[(size_t)w * j->n_steps + s] / unit);
    return v;
}

double hm_pattern_chance(const struct hm_judge *j, uint32_t w, const struct hm_found_pattern *f,
                         const uint8_t *in_set)
{
    struct span span = {f->begin, f->end};
    double largest = 0;
    for (size_t s = span.begin; s < span.end; s++)
        for (uint32_t q = 0; q < j->n_workers; q++) {
            double v = (double)j->late[(size_t)q * j->n_steps + s];
            largest = v > largest ? v : largest;
        }
    if (largest <= 0 || span.end <= span.begin)
        return 1;
    /* golden section over theta in units of 1 / largest lateness; exp(40) is far from overflow */
    const double g = 0.6180339887498949;
    double lo = 0, hi = 40, a = hi - g * (hi - lo), b = lo + g * (hi - lo);
    double va = log_bound(j, in_set, w, span, a, largest);
    double vb = log_bound(j, in_set, w, span, b, largest);
    for (int i = 0; i < 24; i++) {
        if (va < vb) {
            hi = b;
            b = a;
            vb = va;
            a = hi - g * (hi - lo);
            va = log_bound(j, in_set, w, span, a, largest);
        } else {
            lo = a;
            a = b;
            va = vb;
            b = lo + g * (hi - lo);
            vb = log_bound(j, in_set, w, span, b, largest);
        }
    }
    double p = exp(va < vb ? va : vb) * j->n_workers;
    return p < 1 ? p : 1;
}

/* Lower end of the gain: block bootstrap over the steps, 1 % quantile of 200 draws. */
int hm_pattern_gain_is_sure(const struct hm_judge *j, const int64_t *gains, uint32_t onset)
{
    enum { DRAWS = 200, BLOCK = 5 };
    int64_t sums[DRAWS];
    size_t n = j->n_steps - onset;
    uint64_t seed = UINT64_C(88172645463325252);
    for (int d = 0; d < DRAWS; d++) {
        sums[d] = 0;
        for (size_t k = 0; k < n;) {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            size_t at = seed % n;
            for (int b = 0; b < BLOCK && k < n; b++, k++)
                sums[d] += gains[onset + (at + (size_t)b) % n];
        }
    }
    qsort(sums, DRAWS, sizeof(*sums), hm_by_i64);
    return sums[DRAWS / 100] > 0;
}
