/* Synchronising kernels by behaviour.
 *
 * Box: lib/analysis. Pure. In a collective, all leave when the last has come: ends lie together,
 * starts do not, and duration is what is left of it: corr(start, duration) = -1. A compute kernel
 * that some launch late ends late there. Thresholds of rule 7: ends spread less than a fifth of
 * starts, correlation below -0.95, at least 20 instances.
 */
#include "analysis/infer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double ENDS = 0.2, CORRELATION = -0.95;
/* A kernel is looked at when its longest instance takes twice the shortest and it has 0.5 % of the
 * time: below, nothing it hides would be worth a verdict. Or, where its transfer is long beside the
 * waits, when most workers take longer for it on average than the quickest, by 0.5 % of the time:
 * a late worker is quick where the others wait, a slow GPU is slow where the others are not. */
static const double VARIES = 2, SHARE = 0.005;

int hm_infer_known(const char *name)
{
    static const char *const part[] = {"deep_ep",
                                       "nvshmem",
                                       "cross_device_reduce",
                                       "userbuffers",
                                       "one_shot_all_reduce",
                                       "two_shot_all_reduce",
                                       "multimem_",
                                       "rocshmem"};
    for (size_t i = 0; i < sizeof(part) / sizeof(*part); i++)
        if (strstr(name, part[i]))
            return 1;
    return 0;
}

int hm_infer_suspect(const char *name, const struct hm_infer_durations *d, int64_t all_ns)
{
    if (hm_infer_known(name))
        return d->n >= HM_INFER_MIN_KNOWN;
    if (d->n < HM_INFER_MIN || d->n_workers < 2)
        return 0;
    if ((double)d->max_ns > VARIES * (double)d->min_ns &&
        (double)d->sum_ns > SHARE * (double)all_ns)
        return 1;
    double mean = (double)d->sum_means_ns / d->n_workers;
    return mean - (double)d->least_ns > (double)d->most_ns - mean &&
           (double)(d->most_ns - d->least_ns) * d->n > SHARE * (double)all_ns;
}

int hm_infer_is_collective(const struct hm_infer_series *const *series, size_t n, uint32_t least)
{
    if (n < 2)
        return 0;
    uint32_t k = series[0]->n;
    for (size_t w = 1; w < n; w++)
        if (series[w]->n != k)
            return 0; /* not as often: no two instances belong together */
    k = k < HM_INFER_KEEP ? k : HM_INFER_KEEP;
    if (k < least)
        return 0;
    double starts = 0, ends = 0, ss = 0, dd = 0, sd = 0;
    for (uint32_t i = 0; i < k; i++) {
        int64_t s0 = series[0]->start_ns[i], s1 = s0, e0 = series[0]->end_ns[i], e1 = e0;
        double mean_s = 0, mean_d = 0;
        for (size_t w = 0; w < n; w++) {
            int64_t s = series[w]->start_ns[i], e = series[w]->end_ns[i];
            s0 = s < s0 ? s : s0;
            s1 = s > s1 ? s : s1;
            e0 = e < e0 ? e : e0;
            e1 = e > e1 ? e : e1;
        }
        for (size_t w = 0; w < n; w++) { /* against the first start: doubles hold differences */
            mean_s += (double)(series[w]->start_ns[i] - s0) / (double)n;
            mean_d += (double)(series[w]->end_ns[i] - series[w]->start_ns[i]) / (double)n;
        }
        for (size_t w = 0; w < n; w++) {
            double s = (double)(series[w]->start_ns[i] - s0) - mean_s;
            double d = (double)(series[w]->end_ns[i] - series[w]->start_ns[i]) - mean_d;
            ss += s * s;
            dd += d * d;
            sd += s * d;
        }
        starts += (double)(s1 - s0);
        ends += (double)(e1 - e0);
    }
    if (ss <= 0 || dd <= 0)
        return 0;
    return ends < ENDS * starts && sd / sqrt(ss * dd) < CORRELATION;
}

size_t hm_infer_groups(const struct hm_infer_series *series, size_t n, uint32_t least,
                       size_t n_candidates,
                       int (*member)(void *ctx, size_t candidate, uint32_t worker), void *ctx,
                       uint32_t *group_p)
{
    const struct hm_infer_series **in = malloc((n + 1) * sizeof(*in));
    size_t found = 0, n_left = n;
    for (size_t i = 0; i < n; i++)
        group_p[i] = UINT32_MAX;
    for (size_t c = 0; in && c < n_candidates && n_left; c++) {
        size_t m = 0, taken = 0;
        for (size_t i = 0; i < n; i++)
            if (member(ctx, c, series[i].worker)) {
                in[m++] = &series[i];
                taken += group_p[i] != UINT32_MAX;
            }
        if (taken || !hm_infer_is_collective(in, m, least))
            continue;
        for (size_t i = 0; i < m; i++)
            group_p[in[i] - series] = (uint32_t)c;
        n_left -= m;
        found++;
    }
    free(in);
    return found;
}
