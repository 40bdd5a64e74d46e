/* Control kernels: is the GPU slower, or does it do more? (rule 4)
 *
 * Box: lib/analysis. Pure. A control kernel is a (kernel, grid) that every worker runs and whose
 * duration jumps by over 2 % in at most one of ten occurrences on each, and that all ran about as
 * often without communication beside it: fixed work. Its mean on one worker over the median of the
 * workers' means is a ratio; rule 4 asks for one common ratio over 80 % of the control time.
 */
#include "analysis/host.h"
#include "analysis/judge_inside.h"

#include <stdlib.h>
#include <string.h>

struct ratio {
    double ratio;
    int64_t ns;
};

static int by_ratio(const void *x, const void *y)
{
    const struct ratio *p = x, *q = y;
    return (p->ratio > q->ratio) - (p->ratio < q->ratio);
}

static const struct hm_kernel_stat *find(const struct hm_jworker *w, uint64_t key)
{
    uint32_t lo = 0, hi = w->n_kernels;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (w->kernel[mid].key < key)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < w->n_kernels && w->kernel[lo].key == key ? &w->kernel[lo] : NULL;
}

/* Mean duration from a block of steps on; 0 = none. */
static int64_t mean_of(const struct hm_kernel_stat *k, unsigned from, int64_t *total_p)
{
    int64_t ns = 0, n = 0;
    for (unsigned b = from; b < HM_KERNEL_BLOCKS; b++) {
        ns += k->block_ns[b];
        n += k->block_n[b];
    }
    *total_p = ns;
    return n ? ns / n : 0;
}

hm_status_t hm_judge_control(const struct hm_judge *j, uint32_t worker, unsigned from,
                             struct hm_control *c)
{
    const struct hm_jworker *w = &j->worker[worker];
    struct ratio *v = malloc((w->n_kernels + 1) * sizeof(*v));
    int64_t *mean = malloc((j->n_workers + 1) * sizeof(*mean));
    *c = (struct hm_control){.ratio = 1};
    if (!v || !mean) {
        free(v);
        free(mean);
        return hm_fail(HM_E_NOMEM, "judge", "out of memory");
    }
    uint32_t n = 0;
    int64_t all = 0, whole = 0, alone = 0;
    for (uint32_t i = 0; i < w->n_kernels; i++) {
        const struct hm_kernel_stat *k = &w->kernel[i];
        int64_t total, other;
        int64_t mine = mean_of(k, from, &total);
        if (!mine)
            continue;
        uint32_t n_others = 0;
        int fixed = 10 * k->n_jumps <= k->n;
        for (uint32_t q = 0; q < j->n_workers; q++) {
            const struct hm_kernel_stat *o = q == worker ? NULL : find(&j->worker[q], k->key);
            if (!o || !(mean[n_others] = mean_of(o, from, &other)))
                continue;
            /* as often on both: what lies beside communication differs, and is not compared */
            fixed &= 10 * o->n_jumps <= o->n && 4 * o->n <= 5 * k->n && 4 * k->n <= 5 * o->n;
            n_others++;
        }
        whole += total;
        if (n_others == 0)
            alone += total;
        if (n_others == 0 || !fixed)
            continue;
        int64_t median = hm_median(mean, n_others);
        v[n++] = (struct ratio){(double)mine / (double)median, total};
        all += total;
    }
    c->alone = whole ? (double)alone / (double)whole : 0;
    if (n) {
        qsort(v, n, sizeof(*v), by_ratio);
        int64_t sum = 0, agree = 0;
        uint32_t m = 0;
        while (m + 1 < n && 2 * (sum + v[m].ns) < all)
            sum += v[m++].ns;
        c->ratio = v[m].ratio;
        for (uint32_t i = 0; i < n; i++) {
            double d = v[i].ratio / c->ratio - 1;
            if (d > -0.03 && d < 0.03)
                agree += v[i].ns;
        }
        c->agree = (double)agree / (double)all;
        c->n = n;
    }
    free(v);
    free(mean);
    return HM_OK;
}

char *hm_judge_call(const struct hm_judge *j, uint32_t worker, int part, int64_t *ns_p)
{
    static const int part_of[HM_HOST_N] = {[HM_HOST_CHECKPOINT] = HM_C_CHECKPOINT,
                                           [HM_HOST_INPUT] = HM_C_INPUT,
                                           [HM_HOST_SERIAL] = HM_C_SERIAL,
                                           [HM_HOST_ALLOC] = HM_C_ALLOC,
                                           [HM_HOST_MODULE] = HM_C_MODULE,
                                           [HM_HOST_SYNC] = HM_C_SYNC,
                                           [HM_HOST_BLOCKED] = HM_C_BLOCKED,
                                           [HM_HOST_OBSERVER] = HM_C_OBSERVER,
                                           [HM_HOST_OTHER] = HM_C_HOST};
    const struct hm_jname *best = NULL;
    for (int i = 0; i < HM_N_JNAMES; i++) {
        const struct hm_jname *n = &j->worker[worker].name[i];
        if (n->ns > 0 && n->cls < HM_HOST_N && part_of[n->cls] == part &&
            (!best || n->ns > best->ns))
            best = n;
    }
    if (!best)
        return NULL;
    *ns_p = best->ns;
    if (best->name & HM_HOST_NAME_MPI) {
        const char *mpi = hm_mpi_function(best->name & ~HM_HOST_NAME_MPI);
        return mpi ? strdup(mpi) : NULL;
    }
    const void *bytes = NULL;
    uint32_t len = 0;
    if (hm_defs_get(&j->in.run->names, HM_DEF_STRING, best->name, &bytes, &len) != HM_OK || !len)
        return NULL;
    return strndup(bytes, len);
}
