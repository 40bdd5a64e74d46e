/* What changed between two runs. Box: merge/report. See diff.h.
 *
 * "Slower" or "faster" is said as the verdict does it: effect first (2 % of the step time, the mark
 * from which facts on analysis 3 report), then chance (p < 0.01). Chance is the rank sum test of
 * the two sets of step times (Mann and Whitney 1947; normal approximation with the correction for
 * ties); below 8 steps on a side nothing is said.
 */
#include "report/diff.h"

#include "report/words.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const double EFFECT = 0.02, ALPHA = 0.01;
enum { MIN_STEPS = 8 };

double hm_diff_change(const int64_t v[2])
{
    if (HM_IS_NONE(v[0]) || HM_IS_NONE(v[1]) || v[0] <= 0)
        return NAN;
    return (double)v[1] / (double)v[0] - 1;
}

struct time {
    int64_t ns;
    int side;
};
static int by_ns(const void *x, const void *y)
{
    const struct time *p = x, *q = y;
    return (p->ns > q->ns) - (p->ns < q->ns);
}

/* Two-sided p of the rank sum test; NAN when there is too little to test. */
static double rank_sum(const struct hm_diff_side side[2])
{
    uint32_t n[2];
    for (int k = 0; k < 2; k++) {
        n[k] = side[k].result->n_rows[HM_T_step];
        if (n[k] < MIN_STEPS)
            return NAN;
    }
    size_t all = (size_t)n[0] + n[1], at = 0;
    struct time *v = malloc(all * sizeof(*v));
    if (!v)
        return NAN;
    for (int k = 0; k < 2; k++)
        for (uint32_t i = 0; i < n[k]; i++) {
            const struct hm_out_step *s = hm_result_row(side[k].result, HM_T_step, i);
            v[at++] = (struct time){s->time_ns, k};
        }
    qsort(v, all, sizeof(*v), by_ns);
    double sum = 0, ties = 0, m = (double)all;
    for (size_t i = 0, end; i < all; i = end) {
        for (end = i + 1; end < all && v[end].ns == v[i].ns;)
            end++;
        double rank = ((double)i + 1 + (double)end) / 2, t = (double)(end - i);
        ties += t * t * t - t;
        for (size_t k = i; k < end; k++)
            sum += v[k].side ? rank : 0;
    }
    free(v);
    double na = n[0], nb = n[1], mean = nb * (m + 1) / 2;
    double var = na * nb / 12 * (m + 1 - ties / (m * (m - 1)));
    if (var <= 0)
        return 1; /* all times are one */
    double z = (fabs(sum - mean) - 0.5) / sqrt(var);
    return z > 0 ? erfc(z / sqrt(2)) : 1;
}

/* ---- rows by key ---- */

struct rows {
    struct hm_diff_row *v;
    uint32_t n, cap;
    hm_status_t status;
};

/* The row of a key; taken over: freed when there is one already. */
static struct hm_diff_row *row_of(struct rows *r, char *key)
{
    if (!key) {
        r->status = hm_fail(HM_E_NOMEM, "diff", "out of memory");
        return NULL;
    }
    for (uint32_t i = 0; i < r->n; i++)
        if (!strcmp(r->v[i].key, key)) {
            free(key);
            return &r->v[i];
        }
    if (r->n == r->cap) {
        uint32_t cap = r->cap ? 2 * r->cap : 64;
        struct hm_diff_row *v = realloc(r->v, cap * sizeof(*v));
        if (!v) {
            free(key);
            r->status = hm_fail(HM_E_NOMEM, "diff", "out of memory");
            return NULL;
        }
        r->v = v;
        r->cap = cap;
    }
    int64_t none = HM_NONE(HM_NONE_MISSING);
    r->v[r->n] = (struct hm_diff_row){key, {none, none}, {0, 0}};
    return &r->v[r->n++];
}

static void add(struct rows *r, int side, char *key, int64_t ns, int64_t n)
{
    struct hm_diff_row *row = row_of(r, key);
    if (!row || HM_IS_NONE(ns))
        return;
    row->v[side] = HM_IS_NONE(row->v[side]) ? ns : row->v[side] + ns;
    row->n[side] += n;
}

static char *text(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static char *text(const char *fmt, ...)
{
    char *s = NULL;
    va_list ap;
    va_start(ap, fmt);
    if (vasprintf(&s, fmt, ap) < 0)
        s = NULL;
    va_end(ap);
    return s;
}

static double size_of(const struct hm_diff_row *r)
{
    double a = HM_IS_NONE(r->v[0]) ? 0 : (double)r->v[0],
           b = HM_IS_NONE(r->v[1]) ? 0 : (double)r->v[1];
    return fabs(b - a);
}

static int by_size(const void *x, const void *y)
{
    double p = size_of(x), q = size_of(y);
    if (p < q || p > q)
        return p > q ? -1 : 1;
    return strcmp(((const struct hm_diff_row *)x)->key, ((const struct hm_diff_row *)y)->key);
}

static int64_t per(int64_t ns, int64_t n)
{
    return HM_IS_NONE(ns) || n <= 0 ? ns : ns / n;
}

static void take_side(struct hm_diff *d, int k, struct rows *ledger, struct rows *kernel,
                      struct rows *op)
{
    const struct hm_result *r = d->side[k].result;
    const struct hm_out_steps *s = hm_result_row(r, HM_T_steps, 0);
    int64_t n = s && s->n > 0 ? s->n : 1, ranks = r->n_rows[HM_T_rank];
    d->median_ns[k] = s ? s->median_ns : HM_NONE(HM_NONE_NO_STEPS);
    d->mean_ns[k] = s ? s->mean_ns : HM_NONE(HM_NONE_NO_STEPS);
    for (uint32_t i = 0; i < r->n_rows[HM_T_ledger]; i++) {
        const struct hm_out_ledger *l = hm_result_row(r, HM_T_ledger, i);
        add(ledger, k, strdup(l->kind), per(l->ns, n), 1);
    }
    int64_t seen = n + (s && s->n_skipped > 0 ? s->n_skipped : 0); /* kernels count them all */
    for (uint32_t i = 0; i < r->n_rows[HM_T_kernel]; i++) {
        const struct hm_out_kernel *q = hm_result_row(r, HM_T_kernel, i);
        char pretty[256];
        add(kernel, k, text("%s <%s>", hm_words_kernel(q->name, pretty), q->grid ? q->grid : ""),
            per(q->total_ns, seen * (ranks ? ranks : 1)), q->n);
    }
    for (uint32_t i = 0; i < r->n_rows[HM_T_op]; i++) {
        const struct hm_out_op *o = hm_result_row(r, HM_T_op, i);
        int64_t core = HM_IS_NONE(o->core_p50_ns) ? o->core_p50_ns
                                                  : o->core_p50_ns * (o->n / n ? o->n / n : 1);
        add(op, k, text("%s, %" PRId64 " ranks, %" PRId64 " bytes", o->func, o->n_ranks, o->bytes),
            core, o->n);
    }
}

hm_status_t hm_diff_make(const struct hm_diff_side side[2], struct hm_diff *d)
{
    struct rows ledger = {0}, kernel = {0}, op = {0};
    *d = (struct hm_diff){.side = {side[0], side[1]}, .status = "undecided"};
    for (int k = 0; k < 2; k++)
        take_side(d, k, &ledger, &kernel, &op);
    if (kernel.n)
        qsort(kernel.v, kernel.n, sizeof(*kernel.v), by_size);
    if (op.n)
        qsort(op.v, op.n, sizeof(*op.v), by_size);
    d->ledger = ledger.v;
    d->n_ledger = ledger.n;
    d->kernel = kernel.v;
    d->n_kernels = kernel.n;
    d->op = op.v;
    d->n_ops = op.n;
    d->p = rank_sum(side);
    double change = hm_diff_change(d->median_ns);
    if (d->p >= 0 && change > -2)
        d->status = fabs(change) < EFFECT || d->p > ALPHA ? "same"
                    : change > 0                          ? "slower"
                                                          : "faster";
    hm_status_t s = ledger.status ? ledger.status : kernel.status ? kernel.status : op.status;
    if (s)
        hm_diff_clear(d);
    return s;
}

static void clear_rows(struct hm_diff_row *v, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        free(v[i].key);
    free(v);
}

void hm_diff_clear(struct hm_diff *d)
{
    clear_rows(d->ledger, d->n_ledger);
    clear_rows(d->kernel, d->n_kernels);
    clear_rows(d->op, d->n_ops);
    *d = (struct hm_diff){0};
}
