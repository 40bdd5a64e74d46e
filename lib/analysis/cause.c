/* Control kernels: is the GPU slower, or does it do more? (rule 4)
 *
 * Box: lib/analysis. Pure. A control kernel is a (kernel, grid) that several workers run about as
 * often without communication beside it, and whose mean is known to 1.5 % on each: the error of a
 * mean is told by the means of blocks of steps, so that noise of single occurrences averages out,
 * and work that varies from step to step drops out. Its mean on one worker over the median of the
 * workers' means is a ratio; rule 4 asks for one common ratio over 80 % of the control time.
 * Kernels that are longer by what the worker is sent in all-to-all are no controls: they do more.
 */
#include "analysis/host.h"
#include "analysis/judge_inside.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A mean that is not known to this is compared with nothing. */
static const double MAX_ERROR = 0.015;
/* Bytes that differ by less say nothing: batches are never quite alike. */
static const double MORE_BYTES = 1.05;

struct ratio {
    double ratio, error;
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

struct mean {
    double ns, error; /* error: standard error, as a part of ns */
    int64_t total_ns;
};

/* Mean duration from a block of steps on; ns 0 = none. */
static struct mean mean_of(const struct hm_kernel_stat *k, unsigned from)
{
    struct mean m = {0};
    double var = 0, n_blocks = 0;
    int64_t n = 0;
    for (unsigned b = from; b < HM_KERNEL_BLOCKS; b++) {
        m.total_ns += k->block_ns[b];
        n += k->block_n[b];
        n_blocks += k->block_n[b] > 0;
    }
    if (!n || m.total_ns <= 0)
        return (struct mean){0};
    m.ns = (double)m.total_ns / (double)n;
    for (unsigned b = from; b < HM_KERNEL_BLOCKS; b++) {
        if (!k->block_n[b])
            continue;
        double d = (double)k->block_ns[b] / (double)k->block_n[b] / m.ns - 1;
        var += d * d;
    }
    m.error = n_blocks > 1 ? sqrt(var / (n_blocks - 1) / n_blocks) : 0;
    return m;
}

static int by_double(const void *x, const void *y)
{
    double p = *(const double *)x, q = *(const double *)y;
    return (p > q) - (p < q);
}

static double ratio_to_median(double mine, double *v, uint32_t n)
{
    if (n < 2 || mine <= 0)
        return 0;
    qsort(v, n, sizeof(*v), by_double);
    return v[(n - 1) / 2] > 0 ? mine / v[(n - 1) / 2] : 0;
}

/* What it exchanges in all-to-all over the median of the others; 0 = nothing to compare. */
static double bytes_ratio(const struct hm_judge *j, uint32_t worker, double *v)
{
    const struct hm_jworker *w = &j->worker[worker];
    uint32_t n = 0;
    for (uint32_t q = 0; q < j->n_workers; q++)
        if (q != worker && j->worker[q].n_all_to_all)
            v[n++] = (double)j->worker[q].all_to_all_bytes / j->worker[q].n_all_to_all;
    return w->n_all_to_all ? ratio_to_median((double)w->all_to_all_bytes / w->n_all_to_all, v, n)
                           : 0;
}

/* The same of what is copied to it from the host: its input. */
static double fed_ratio(const struct hm_judge *j, uint32_t worker, double *v)
{
    uint32_t n = 0;
    for (uint32_t q = 0; q < j->n_workers; q++)
        if (q != worker && j->worker[q].sum.fed_bytes > 0)
            v[n++] = (double)j->worker[q].sum.fed_bytes;
    return ratio_to_median((double)j->worker[worker].sum.fed_bytes, v, n);
}

/* Compares one key; 0 = it is no control. n_others_p: how many peers run it at all. */
static int compare(const struct hm_judge *j, uint32_t worker, const struct hm_kernel_stat *k,
                   const struct mean *mine, unsigned from, double *v, uint32_t *n_others_p,
                   struct ratio *ratio_p)
{
    uint32_t n = 0;
    double error = 0;
    int fixed = mine->error <= MAX_ERROR;
    for (uint32_t q = 0; q < j->n_workers; q++) {
        const struct hm_kernel_stat *o = q == worker ? NULL : find(&j->worker[q], k->key);
        struct mean other = o ? mean_of(o, from) : (struct mean){0};
        if (other.ns <= 0)
            continue;
        /* as often on both: what lies beside communication differs, and is not compared */
        fixed &= other.error <= MAX_ERROR && 4 * (int64_t)o->n <= 5 * (int64_t)k->n &&
                 4 * (int64_t)k->n <= 5 * (int64_t)o->n;
        error = other.error > error ? other.error : error;
        v[n++] = other.ns;
    }
    *n_others_p = n;
    if (!n || !fixed)
        return 0;
    qsort(v, n, sizeof(*v), by_double);
    *ratio_p = (struct ratio){mine->ns / v[(n - 1) / 2], hypot(mine->error, error / sqrt(n)),
                              mine->total_ns};
    return 1;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static void sum_up(struct hm_control *c, struct ratio *v, uint32_t n)
{
    int64_t all = 0, sum = 0, agree = 0, same = 0;
    uint32_t m = 0;
    if (!n)
        return;
    for (uint32_t i = 0; i < n; i++)
        all += v[i].ns;
    qsort(v, n, sizeof(*v), by_ratio);
    while (m + 1 < n && 2 * (sum + v[m].ns) < all)
        sum += v[m++].ns;
    c->ratio = v[m].ratio;
    c->error = v[m].error;
    for (uint32_t i = 0; i < n; i++) {
        if (fabs(v[i].ratio / c->ratio - 1) < larger(0.03, 3 * hypot(v[i].error, c->error)))
            agree += v[i].ns;
        else if (fabs(v[i].ratio - 1) < larger(0.01, 3 * v[i].error))
            same += v[i].ns;
    }
    c->agree = (double)agree / (double)all;
    c->same = (double)same / (double)all;
    c->n = n;
}

hm_status_t hm_judge_control(const struct hm_judge *j, uint32_t worker, unsigned from,
                             struct hm_control *c)
{
    const struct hm_jworker *w = &j->worker[worker];
    struct ratio *v = malloc((w->n_kernels + 1) * sizeof(*v));
    double *tmp = malloc((j->n_workers + 1) * sizeof(*tmp));
    *c = (struct hm_control){.ratio = 1};
    if (!v || !tmp) {
        free(v);
        free(tmp);
        return hm_fail(HM_E_NOMEM, "judge", "out of memory");
    }
    uint32_t n = 0;
    int64_t whole = 0, alone = 0;
    c->bytes = bytes_ratio(j, worker, tmp);
    if (c->bytes <= MORE_BYTES) {
        double fed = fed_ratio(j, worker, tmp);
        c->is_fed = fed > MORE_BYTES;
        c->bytes = c->is_fed ? fed : c->bytes;
    }
    for (uint32_t i = 0; i < w->n_kernels; i++) {
        struct mean mine = mean_of(&w->kernel[i], from);
        uint32_t n_others = 0;
        if (mine.ns <= 0)
            continue;
        int is_control = compare(j, worker, &w->kernel[i], &mine, from, tmp, &n_others, &v[n]);
        whole += mine.total_ns;
        if (!n_others)
            alone += mine.total_ns;
        if (!is_control)
            continue;
        if (c->bytes > MORE_BYTES && fabs(v[n].ratio - c->bytes) < fabs(v[n].ratio - 1)) {
            c->n_follow++; /* it does what it is sent */
            continue;
        }
        n++;
    }
    c->alone = whole ? (double)alone / (double)whole : 0;
    sum_up(c, v, n);
    free(v);
    free(tmp);
    return HM_OK;
}

char *hm_judge_call(const struct hm_judge *j, uint32_t worker, int part, int64_t *ns_p)
{
    const struct hm_jname *best = NULL;
    for (int i = 0; i < HM_N_JNAMES; i++) {
        const struct hm_jname *n = &j->worker[worker].name[i];
        if (n->ns > 0 && n->cls < HM_HOST_N && hm_part_of_host[n->cls] == part &&
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
