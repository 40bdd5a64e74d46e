/* Chance: could so much fall to one worker by luck?
 *
 * Box: lib/analysis. Pure, deterministic. Source: facts on scenarios, rule 5; Wilcoxon 1945 for
 * paired steps, Chernoff 1952 for votes that weigh, Holm 1979 for several ranks, Kuensch 1989 for
 * the block bootstrap.
 */
#include "analysis/verdict_inside.h"

#include <math.h>
#include <stdlib.h>

struct signed_diff {
    double size;
    int sign;
};
static int by_size(const void *x, const void *y)
{
    const struct signed_diff *p = x, *q = y;
    return (p->size > q->size) - (p->size < q->size);
}

double hm_chance_signed_rank(const double *d, size_t n)
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

double hm_chance_votes(const double *weight, const uint8_t *mine, size_t n, uint32_t n_ranks)
{
    double got = 0, all = 0, top = 0;
    for (size_t i = 0; i < n; i++) {
        all += weight[i];
        got += mine[i] ? weight[i] : 0;
        top = weight[i] > top ? weight[i] : top;
    }
    if (n_ranks < 2 || got <= all / n_ranks)
        return 1;
    /* least bound over t of exp(-t got) x product of the votes' moments: its log is convex in t */
    double lo = 0, hi = 60 / top, least = 0;
    for (int turn = 0; turn < 80; turn++) {
        double t = (lo + hi) / 2, log_p = -t * got, slope = -got;
        for (size_t i = 0; i < n; i++) {
            double e = exp(t * weight[i]) / n_ranks, moment = 1 - 1.0 / n_ranks + e;
            log_p += log(moment);
            slope += weight[i] * e / moment;
        }
        least = log_p < least ? log_p : least;
        if (slope < 0)
            lo = t;
        else
            hi = t;
    }
    return exp(least);
}

int hm_chance_is_sure(const double *gain, size_t n)
{
    enum { DRAWS = 200, BLOCK = 5 };
    uint64_t seed = UINT64_C(88172645463325252);
    int below = 0;
    for (int d = 0; d < DRAWS; d++) {
        double sum = 0;
        for (size_t k = 0; k < n;) {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            size_t at = seed % n;
            for (int b = 0; b < BLOCK && k < n; b++, k++)
                sum += gain[(at + (size_t)b) % n];
        }
        below += sum <= 0;
    }
    return below <= DRAWS / 100;
}

int hm_chance_gain_is_sure(const int64_t *gain, size_t n)
{
    double *v = malloc((n + 1) * sizeof(*v));
    for (size_t i = 0; v && i < n; i++)
        v[i] = (double)gain[i];
    int sure = v && n && hm_chance_is_sure(v, n);
    free(v);
    return sure;
}

void hm_chance_test(const struct hm_judge *j, const struct hm_selection *sel, uint32_t w,
                    const uint8_t *in_set, const int64_t *gains, double *p_p, int *sure_p)
{
    size_t n = sel->n;
    double *d = malloc((n + 1) * sizeof(*d)), *weight = malloc((n + 1) * sizeof(*weight));
    uint8_t *mine = malloc(n + 1);
    *p_p = 1;
    *sure_p = 0;
    if (d && weight && mine && n) {
        uint32_t peers = 0;
        for (size_t i = 0; i < n; i++) {
            size_t s = sel->step[i];
            int64_t own = j->late[(size_t)w * j->n_steps + s], top = 0, second = 0;
            double others = 0;
            uint32_t last = HM_NO_ID, m = 0;
            for (uint32_t q = 0; q < j->n_workers; q++) {
                int64_t late = j->late[(size_t)q * j->n_steps + s];
                if (q != w && in_set && in_set[q])
                    continue;
                if (late > top) {
                    second = top;
                    top = late;
                    last = q;
                } else if (late > second) {
                    second = late;
                }
                others += q != w ? (double)late : 0;
                m++;
            }
            peers = m;
            d[i] = (double)own - (m > 1 ? others / (m - 1) : 0);
            weight[i] = (double)(top - second);
            mine[i] = last == w;
        }
        /* either test may find it, so that each counts twice; Holm's first, the most severe */
        double rank = hm_chance_signed_rank(d, n), votes = hm_chance_votes(weight, mine, n, peers);
        double p = (rank < votes ? rank : votes) * 2 * j->n_workers;
        *p_p = p < 1 ? p : 1;
        for (size_t i = 0; i < n; i++) /* beyond its share of what somebody has to lose */
            d[i] = (double)gains[sel->step[i]] - (peers ? weight[i] / peers : 0);
        *sure_p = hm_chance_is_sure(d, n);
    }
    free(d);
    free(weight);
    free(mine);
}
