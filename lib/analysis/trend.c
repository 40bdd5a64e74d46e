/* Changes and drifts over the steps.
 *
 * Box: lib/analysis. Pure. A change splits a series in two where that leaves the least squares;
 * each side is split again. A drift is what is left without one: Mann-Kendall's test, Theil-Sen's
 * slope. Source: facts on analysis 2.13; Mann 1945, Kendall 1975, Sen 1968; the least segment and
 * the 10 % follow Greyhound.
 */
#include "analysis/trend.h"

#include <math.h>
#include <stdlib.h>

enum { SEGMENT = 5, PERMUTATIONS = 400, LONGEST = 1024 };
static const double LEAST = 0.10; /* of the larger mean: less is not worth a line */

static double split_at(const double *x, size_t n, size_t *at_p)
{
    double all = 0, best = 0, sum = 0;
    for (size_t i = 0; i < n; i++)
        all += x[i];
    for (size_t k = 1; k < n; k++) {
        sum += x[k - 1];
        if (k < SEGMENT || n - k < SEGMENT)
            continue;
        double d = sum - all * (double)k / (double)n;
        double between = d * d * (double)n / ((double)k * (double)(n - k));
        if (between > best) {
            best = between;
            *at_p = k;
        }
    }
    return best;
}

static double mean(const double *x, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += x[i];
    return n ? sum / (double)n : 0;
}

int hm_trend_change(const double *x, size_t n, size_t *at_p, double *p_p)
{
    size_t at = 0;
    double found = split_at(x, n, &at);
    double a = mean(x, at), b = mean(x + at, n - at);
    double top = fabs(a) > fabs(b) ? fabs(a) : fabs(b);
    if (found <= 0 || fabs(a - b) < LEAST * top)
        return 0;
    double *v = malloc(n * sizeof(*v));
    if (!v)
        return 0;
    for (size_t i = 0; i < n; i++)
        v[i] = x[i];
    uint64_t seed = UINT64_C(88172645463325252);
    unsigned as_good = 0;
    for (int d = 0; d < PERMUTATIONS; d++) {
        for (size_t i = n; i > 1; i--) {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            size_t k = seed % i;
            double t = v[i - 1];
            v[i - 1] = v[k];
            v[k] = t;
        }
        size_t where;
        as_good += split_at(v, n, &where) >= found * (1 - 1e-9);
    }
    free(v);
    *at_p = at;
    *p_p = (as_good + 1.0) / (PERMUTATIONS + 1.0);
    return *p_p <= 0.01;
}

static int by_double(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

int hm_trend_drift(const double *x, size_t n, struct hm_drift *drift_p)
{
    size_t pairs = n * (n - 1) / 2, m = 0;
    double s = 0, ties = 0, *slope = n > 1 ? malloc(pairs * sizeof(*slope)) : NULL;
    if (!slope)
        return 0;
    for (size_t i = 0; i < n; i++)
        for (size_t k = i + 1; k < n; k++) {
            s += (x[k] > x[i]) - (x[k] < x[i]);
            slope[m++] = (x[k] - x[i]) / (double)(k - i);
        }
    qsort(slope, m, sizeof(*slope), by_double);
    double middle = m % 2 ? slope[m / 2] : (slope[m / 2 - 1] + slope[m / 2]) / 2;
    double *v = slope; /* sorted values for the ties */
    for (size_t i = 0; i < n; i++)
        v[i] = x[i];
    qsort(v, n, sizeof(*v), by_double);
    for (size_t i = 0, to; i < n; i = to) {
        for (to = i + 1; to < n && v[to] <= v[i];)
            to++;
        double t = (double)(to - i);
        ties += t * (t - 1) * (2 * t + 5);
    }
    double c = (double)n, var = (c * (c - 1) * (2 * c + 5) - ties) / 18;
    double z = var > 0 ? (s > 0 ? s - 1 : s < 0 ? s + 1 : 0) / sqrt(var) : 0;
    *drift_p = (struct hm_drift){s, z, middle, erfc(fabs(z) / sqrt(2))};
    free(slope);
    return 1;
}

/* --- the table -------------------------------------------------------------------------------- */

struct series {
    const char *name;
    int64_t rank;
    double p_scale; /* how many series are looked at alike */
};

static hm_status_t row(struct hm_result *r, const struct series *s, const char *kind, int64_t step,
                       double a, double b, double slope, double p)
{
    struct hm_out_trend *t = hm_result_add(r, HM_T_trend);
    if (!t)
        return hm_fail(HM_E_NOMEM, "judge", "out of memory");
    double top = fabs(a) > fabs(b) ? fabs(a) : fabs(b);
    t->series = hm_text("%s", s->name);
    t->kind = hm_text("%s", kind);
    t->rank = s->rank;
    t->step = step;
    t->before_ns = (int64_t)llround(a);
    t->after_ns = (int64_t)llround(b);
    t->change_frac = top > 0 ? (int64_t)llround((b - a) / top * 1e9) : 0;
    t->slope_ns = isnan(slope) ? HM_NONE(HM_NONE_NO_PATTERN) : (int64_t)llround(slope);
    t->p_value = p * s->p_scale < 1 ? p * s->p_scale : 1;
    return HM_OK;
}

/* Splits x again and again; least: a change below it is none, however clear. */
static hm_status_t split(const struct hm_judge *j, struct hm_result *r, const struct series *s,
                         const double *x, size_t from, size_t to, double least, int depth,
                         int *split_p)
{
    size_t n = to - from, at;
    double p;
    if (depth == 0 || n < 2 * SEGMENT || !hm_trend_change(x + from, n, &at, &p))
        return HM_OK;
    double a = mean(x + from, at), b = mean(x + from + at, n - at);
    if (fabs(b - a) < least)
        return HM_OK;
    *split_p = 1;
    hm_status_t st = split(j, r, s, x, from, from + at, least, depth - 1, split_p);
    if (st == HM_OK)
        st = row(r, s, "change", j->step[from + at].step, a, b, NAN, p);
    return st == HM_OK ? split(j, r, s, x, from + at, to, least, depth - 1, split_p) : st;
}

static hm_status_t look(const struct hm_judge *j, struct hm_result *r, const struct series *s,
                        double *x, double least)
{
    size_t n = j->n_steps, width = (n + LONGEST - 1) / LONGEST;
    int changed = 0;
    hm_status_t st = split(j, r, s, x, 0, n, least, 4, &changed);
    if (st != HM_OK || changed || n < 2 * SEGMENT)
        return st;
    size_t m = 0; /* long runs in means of `width` steps: the test is quadratic */
    for (size_t i = 0; i + width <= n; i += width)
        x[m++] = mean(x + i, width);
    struct hm_drift d;
    if (!hm_trend_drift(x, m, &d) || d.p > 0.001)
        return HM_OK;
    double middle = mean(x, m), way = d.slope * (double)(m - 1);
    double a = middle - way / 2, b = middle + way / 2;
    double top = fabs(a) > fabs(b) ? fabs(a) : fabs(b);
    if (fabs(way) < LEAST * top || fabs(way) < least)
        return HM_OK;
    return row(r, s, "drift", HM_NONE(HM_NONE_NO_PATTERN), a, b, d.slope / (double)width, d.p);
}

hm_status_t hm_judge_trends(const struct hm_judge *j, struct hm_result *r)
{
    static const char *const name[] = {"time", "compute", "exposed_comm", "stall", "input"};
    size_t n = j->n_steps;
    double *x = malloc((n + 1) * sizeof(*x));
    hm_status_t st = x ? HM_OK : hm_fail(HM_E_NOMEM, "judge", "out of memory");
    double least = n ? 0.02 * (double)j->total_ns / (double)n : 0; /* 2 % of a step */
    for (int k = 0; st == HM_OK && k < 5; k++) {
        struct series s = {name[k], HM_NONE(HM_NONE_UNKNOWN), 5};
        for (size_t i = 0; i < n; i++) {
            const struct hm_jstep *q = &j->step[i];
            const int64_t v[5] = {q->time_ns, q->compute_ns, q->exposed_ns, q->stall_ns,
                                  q->input_ns};
            x[i] = (double)v[k];
        }
        st = look(j, r, &s, x, least);
    }
    /* whose own lateness changes: those that are late by anything worth a line */
    for (uint32_t w = 0; st == HM_OK && w < j->n_workers && r->n_rows[HM_T_trend] < 256; w++) {
        struct series s = {"late", j->in.run->worker[w].rank, j->n_workers};
        if ((double)j->worker[w].late_ns < least * SEGMENT)
            continue;
        for (size_t i = 0; i < n; i++)
            x[i] = (double)j->late[(size_t)w * n + i];
        st = look(j, r, &s, x, least);
    }
    free(x);
    return st;
}
