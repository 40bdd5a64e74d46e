/* Patterns of lateness over the steps, and chance.
 *
 * Box: lib/analysis. Pure. Source: facts on scenarios, rule 5; facts on analysis 2.10, 2.13; Holm
 * 1979 for several ranks, Wilcoxon 1945 for paired steps.
 */
#include "analysis/verdict_inside.h"

#include <math.h>
#include <stdlib.h>

enum { BEFORE = 3, AFTER = 5 };
const char *const hm_pattern_name[] = {NULL,      "persistent", "from_step",
                                       "one_off", "periodic",   "episode"};

struct signed_diff {
    double size;
    int sign;
};
static int by_size(const void *x, const void *y)
{
    const struct signed_diff *p = x, *q = y;
    return (p->size > q->size) - (p->size < q->size);
}

/* One-sided Wilcoxon signed-rank test of d > 0, normal approximation with ties and continuity. */
static double signed_rank(const double *d, size_t n)
{
    struct signed_diff *v = malloc((n + 1) * sizeof(*v));
    if (!v)
        return 1;
    size_t m = 0;
    for (size_t i = 0; i < n; i++)
        if (d[i] != 0)
            v[m++] = (struct signed_diff){fabs(d[i]), d[i] > 0 ? 1 : -1};
    if (m < 5) {
        free(v);
        return 1;
    }
    qsort(v, m, sizeof(*v), by_size);
    double plus = 0, ties = 0;
    for (size_t i = 0, end; i < m; i = end) {
        for (end = i + 1; end < m && v[end].size <= v[i].size;)
            end++;
        double rank = ((double)i + 1 + (double)end) / 2, t = (double)(end - i);
        ties += t * t * t - t;
        for (size_t k = i; k < end; k++)
            plus += v[k].sign > 0 ? rank : 0;
    }
    double k = (double)m, mean = k * (k + 1) / 4;
    double var = k * (k + 1) * (2 * k + 1) / 24 - ties / 48;
    free(v);
    return var > 0 ? 0.5 * erfc((plus - mean - 0.5) / sqrt(var) / sqrt(2)) : 1;
}

/* Chance of its lateness against the mean of the others, from step `onset` on; in_set: who else
 * belongs to the subject and is not compared with. */
double hm_pattern_chance(const struct hm_judge *j, uint32_t w, uint32_t onset,
                         const uint8_t *in_set)
{
    size_t n = j->n_steps - onset;
    double *d = malloc((n + 1) * sizeof(*d));
    if (!d)
        return 1;
    for (size_t s = 0; s < n; s++) {
        double others = 0;
        uint32_t m = 0;
        for (uint32_t q = 0; q < j->n_workers; q++)
            if (q != w && !(in_set && in_set[q])) {
                others += (double)j->late[(size_t)q * j->n_steps + onset + s];
                m++;
            }
        d[s] = (double)j->late[(size_t)w * j->n_steps + onset + s] - (m ? others / m : 0);
    }
    double p = signed_rank(d, n) * j->n_workers; /* Holm's first, the most severe */
    free(d);
    return p < 1 ? p : 1;
}

static double sum_squares(double sum, double squares, double n)
{
    return n > 0 ? squares - sum * sum / n : 0;
}

static int is_periodic(const int64_t *x, uint32_t n, double all)
{
    for (uint32_t k = 3; k <= n / 3; k++)
        for (uint32_t r = 0; r < k; r++) {
            double sum = 0;
            for (uint32_t s = r; s < n; s += k)
                sum += (double)x[s];
            if (sum >= 0.8 * all)
                return 1;
        }
    return 0;
}

/* Where in the run the lateness lies. */
void hm_pattern_find(const struct hm_judge *j, struct hm_candidate *c)
{
    const int64_t *x = j->late + (size_t)c->worker * j->n_steps;
    uint32_t n = (uint32_t)j->n_steps;
    double all = 0, squares = 0;
    for (uint32_t s = 0; s < n; s++) {
        all += (double)x[s];
        squares += (double)x[s] * (double)x[s];
    }
    c->pattern = HM_P_NONE;
    c->onset = 0;
    if (all <= 0)
        return;
    for (uint32_t s = 0; s < n; s++)
        if ((double)x[s] + (s + 1 < n ? (double)x[s + 1] : 0) >= 0.8 * all) {
            c->pattern = HM_P_ONE_OFF;
            c->onset = (double)x[s] < 0.1 * all && s + 1 < n ? s + 1 : s;
            return;
        }
    double best = sum_squares(all, squares, n), sum = 0, sq = 0;
    uint32_t at = 0;
    for (uint32_t s = 0; s + AFTER <= n; s++) {
        if (s >= BEFORE) {
            double sse = sum_squares(sum, sq, s) + sum_squares(all - sum, squares - sq, n - s);
            double before = sum / s, after = (all - sum) / (n - s);
            if (sse < 0.5 * best && before < 0.2 * after && (!at || sse < best)) {
                best = sse;
                at = s;
            }
        }
        sum += (double)x[s];
        sq += (double)x[s] * (double)x[s];
    }
    double mean = all / n;
    uint32_t active = 0;
    if (at) {
        sum = 0;
        for (uint32_t s = at; s < n; s++)
            sum += (double)x[s];
        mean = sum / (n - at);
    }
    for (uint32_t s = at; s < n; s++)
        active += (double)x[s] > 0.5 * mean;
    if (2 * active >= n - at) {
        c->pattern = at ? HM_P_FROM_STEP : HM_P_PERSISTENT;
        c->onset = at;
    } else if (is_periodic(x, n, all)) {
        c->pattern = HM_P_PERIODIC;
    }
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
