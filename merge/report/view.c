/* Tables as people read them. Box: merge/report. See view.h. */
#include "report/view.h"

#include "report/words.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void hm_view_begin(struct hm_view *v, const char *title)
{
    memset(v, 0, sizeof(*v));
    v->title = title;
}

void hm_view_column(struct hm_view *v, const char *title, int left, int drop)
{
    if (v->n_cols < HM_VIEW_COLS)
        v->col[v->n_cols++] = (struct hm_view_col){title, left != 0, (uint8_t)drop};
}

void hm_view_row(struct hm_view *v, int mark)
{
    if (v->failed || !v->n_cols)
        return;
    if (v->n_rows == v->cap) {
        uint32_t cap = v->cap ? 2 * v->cap : 32;
        char **cell = realloc(v->cell, (size_t)cap * v->n_cols * sizeof(*cell));
        uint8_t *m = realloc(v->mark, cap);
        if (cell)
            v->cell = cell;
        if (m)
            v->mark = m;
        if (!cell || !m) {
            v->failed = 1;
            return;
        }
        v->cap = cap;
    }
    memset(v->cell + (size_t)v->n_rows * v->n_cols, 0, v->n_cols * sizeof(*v->cell));
    v->mark[v->n_rows++] = mark != 0;
    v->n_cells = 0;
}

void hm_view_cell(struct hm_view *v, const char *fmt, ...)
{
    if (v->failed || !v->n_rows || v->n_cells == v->n_cols)
        return;
    char *text = NULL;
    va_list ap;
    va_start(ap, fmt);
    if (vasprintf(&text, fmt, ap) < 0)
        text = NULL;
    va_end(ap);
    v->cell[(size_t)(v->n_rows - 1) * v->n_cols + v->n_cells++] = text;
}

const char *hm_view_at(const struct hm_view *v, uint32_t row, uint32_t col)
{
    const char *s = v->cell[(size_t)row * v->n_cols + col];
    return s ? s : "";
}

void hm_view_clear(struct hm_view *v)
{
    for (size_t i = 0; i < (size_t)v->n_rows * v->n_cols; i++)
        free(v->cell[i]);
    free(v->cell);
    free(v->mark);
    memset(v, 0, sizeof(*v));
}

/* ---- the tables of the report ---- */

static double per_step(const struct hm_result *r)
{
    const struct hm_out_steps *s = hm_result_row(r, HM_T_steps, 0);
    return s && s->n > 0 ? 1e6 * (double)s->n : 1e6;
}

static void cell_ms(struct hm_view *v, int64_t ns, double unit, int decimals)
{
    if (HM_IS_NONE(ns))
        hm_view_cell(v, "-");
    else
        hm_view_cell(v, "%.*f", decimals, (double)ns / unit);
}

static void cell_int(struct hm_view *v, int64_t n)
{
    if (HM_IS_NONE(n))
        hm_view_cell(v, "-");
    else
        hm_view_cell(v, "%" PRId64, n);
}

static int by_late(const void *x, const void *y)
{
    const struct hm_out_rank *p = *(const struct hm_out_rank *const *)x,
                             *q = *(const struct hm_out_rank *const *)y;
    if (p->late_ns != q->late_ns)
        return p->late_ns > q->late_ns ? -1 : 1;
    return (p->rank > q->rank) - (p->rank < q->rank);
}

void hm_view_ranks(const struct hm_result *r, uint32_t most, struct hm_view *v)
{
    uint32_t n = r->n_rows[HM_T_rank], n_roles = 0;
    double per = per_step(r);
    const struct hm_out_rank **q = malloc((n + 1) * sizeof(*q));
    hm_view_begin(v, "Per rank, ms a step (mean)");
    for (uint32_t i = 0; q && i < n; i++) {
        q[i] = hm_result_row(r, HM_T_rank, i);
        /* said only where there are several: alone it tells nothing */
        n_roles += q[i]->role && q[0]->role && strcmp(q[i]->role, q[0]->role) != 0;
    }
    hm_view_column(v, "rank", 0, 0);
    hm_view_column(v, "host", 1, 0);
    hm_view_column(v, "gpu", 0, 0);
    if (n_roles)
        hm_view_column(v, "role", 1, 2);
    const struct hm_out_steps *steps = hm_result_row(r, HM_T_steps, 0);
    int few = !steps || steps->n < 2; /* no steps to be last in: collectives count */
    const char *const title[] = {
        "compute", "exposed", "copy", "idle", "total", "stall", few ? "came last" : "last in",
        "late"};
    for (size_t i = 0; i < sizeof(title) / sizeof(*title); i++)
        hm_view_column(v, title[i], 0, 0);
    hm_view_column(v, "", 1, 0);
    if (q && n)
        qsort(q, n, sizeof(*q), by_late);
    for (uint32_t i = 0, shown = 0; q && i < n; i++) {
        int subject = hm_words_is_subject(r, q[i]->rank);
        if (most && shown >= most && !subject)
            continue;
        shown++;
        hm_view_row(v, subject);
        cell_int(v, q[i]->rank);
        hm_view_cell(v, "%s", q[i]->host ? q[i]->host : "");
        cell_int(v, q[i]->device);
        if (n_roles)
            hm_view_cell(v, "%s", q[i]->role ? q[i]->role : "");
        const int64_t part[] = {q[i]->compute_ns, q[i]->exposed_comm_ns, q[i]->memcpy_ns,
                                q[i]->idle_ns,    q[i]->window_ns,       q[i]->stall_ns};
        for (size_t k = 0; k < sizeof(part) / sizeof(*part); k++)
            cell_ms(v, part[k], per, 2);
        cell_int(v, few ? q[i]->last_arrivals : q[i]->last_in_steps);
        cell_ms(v, q[i]->late_ns, per, 2);
        hm_view_cell(v, "%s", subject ? "<-" : "");
    }
    if (v->n_rows < n)
        snprintf(v->note, sizeof(v->note), "the %u latest of %u; all: hindmost report --csv ranks",
                 v->n_rows, n);
    else if (n)
        snprintf(v->note, sizeof(v->note), "compute + exposed + copy + idle = total");
    free(q);
}

void hm_view_lateness(const struct hm_result *r, struct hm_view *v)
{
    /* Parts of a step: what is not seen, then the marks of facts on analysis 3: report at 2 %, flag
     * at 10 %, severe at 20 %. */
    static const double from[] = {0, 0.001, 0.005, 0.02, 0.05, 0.1, 0.2};
    enum { BINS = sizeof(from) / sizeof(*from), BAR = 30 };
    const struct hm_out_steps *s = hm_result_row(r, HM_T_steps, 0);
    uint32_t n[BINS] = {0}, most = 0;
    hm_view_begin(v, "How late the ranks are (mean of the steps)");
    hm_view_column(v, "of a step", 1, 0);
    hm_view_column(v, "ms", 1, 1);
    hm_view_column(v, "ranks", 0, 0);
    hm_view_column(v, "", 1, 0);
    if (!s || s->n <= 0 || s->total_ns <= 0)
        return;
    for (uint32_t i = 0; i < r->n_rows[HM_T_rank]; i++) {
        const struct hm_out_rank *q = hm_result_row(r, HM_T_rank, i);
        double share = HM_IS_NONE(q->late_ns) ? 0 : (double)q->late_ns / (double)s->total_ns;
        int b = BINS - 1;
        while (b > 0 && share < from[b])
            b--;
        n[b]++;
    }
    for (int b = 0; b < BINS; b++)
        most = n[b] > most ? n[b] : most;
    double step_ms = (double)s->total_ns / 1e6 / (double)s->n;
    for (int b = 0; b < BINS; b++) {
        char bar[BAR + 1];
        uint32_t k = most ? (uint32_t)((uint64_t)n[b] * BAR / most) : 0;
        k = k ? k : n[b] != 0;
        memset(bar, '#', k);
        bar[k] = 0;
        hm_view_row(v, 0);
        if (b + 1 < BINS) {
            hm_view_cell(v, "%g to %g %%", 100 * from[b], 100 * from[b + 1]);
            hm_view_cell(v, "%.3g to %.3g", from[b] * step_ms, from[b + 1] * step_ms);
        } else {
            hm_view_cell(v, "%g %% and more", 100 * from[b]);
            hm_view_cell(v, "%.3g and more", from[b] * step_ms);
        }
        hm_view_cell(v, "%u", n[b]);
        hm_view_cell(v, "%s", bar);
    }
}

void hm_view_ledger(const struct hm_result *r, struct hm_view *v)
{
    enum { BAR = 30 };
    const struct hm_out_steps *s = hm_result_row(r, HM_T_steps, 0);
    hm_view_begin(v, "Where the time goes (mean of the ranks)");
    hm_view_column(v, "", 1, 0);
    hm_view_column(v, "ms", 0, 0);
    hm_view_column(v, "ms a step", 0, 1);
    hm_view_column(v, "share", 0, 0);
    hm_view_column(v, "", 1, 2);
    for (uint32_t i = 0; i < r->n_rows[HM_T_ledger]; i++) {
        const struct hm_out_ledger *l = hm_result_row(r, HM_T_ledger, i);
        if (!l->ns && i >= 6) /* a loss that this run has not */
            continue;
        char bar[BAR + 1] = "";
        hm_view_row(v, 0);
        hm_view_cell(v, "%s", hm_words_ledger(l->kind));
        cell_ms(v, l->ns, 1e6, 3);
        cell_ms(v, l->ns, s && s->n > 0 ? 1e6 * (double)s->n : 1e6, 3);
        if (HM_IS_NONE(l->frac)) {
            hm_view_cell(v, "-");
            continue;
        }
        hm_view_cell(v, "%.1f %%", (double)l->frac / 1e7);
        double part = (double)l->frac / 1e9;
        size_t k = part > 0 && part <= 1 ? (size_t)(part * BAR + 0.5) : 0;
        memset(bar, '#', k);
        bar[k] = 0;
        hm_view_cell(v, "%s", bar);
    }
}

static const struct hm_result_col *column_of(enum hm_result_id id, const char *key)
{
    for (uint16_t c = 0; c < hm_result_tables[id].n_cols; c++)
        if (!strcmp(hm_result_tables[id].col[c].key, key))
            return &hm_result_tables[id].col[c];
    return NULL;
}

void hm_view_ops(const struct hm_result *r, uint32_t most, struct hm_view *v)
{
    uint32_t n = r->n_rows[HM_T_op];
    /* which parallelism a communicator serves, where the analysis says so */
    const struct hm_result_col *dim = column_of(HM_T_op, "dim");
    hm_view_begin(v, "Collectives");
    hm_view_column(v, "comm", 1, 0);
    if (dim)
        hm_view_column(v, "dim", 1, 0);
    hm_view_column(v, "function", 1, 0);
    hm_view_column(v, "ranks", 0, 0);
    hm_view_column(v, "n", 0, 0);
    hm_view_column(v, "bytes", 0, 0);
    hm_view_column(v, "skew p50 ms", 0, 0);
    hm_view_column(v, "max", 0, 2);
    hm_view_column(v, "core ms", 0, 0);
    hm_view_column(v, "busbw GB/s", 0, 0);
    for (uint32_t i = 0; i < n && (!most || i < most); i++) {
        const struct hm_out_op *o = hm_result_row(r, HM_T_op, i);
        char buf[64];
        hm_view_row(v, 0);
        hm_view_cell(v, "%08" PRIx64, o->comm >> 32);
        if (dim)
            hm_view_cell(v, "%s",
                         hm_cell_text(dim,
                                      (const char *)o + 8 * (dim - hm_result_tables[HM_T_op].col),
                                      buf));
        hm_view_cell(v, "%s", o->func ? o->func : "");
        cell_int(v, o->n_ranks);
        cell_int(v, o->n);
        cell_int(v, o->bytes);
        cell_ms(v, o->skew_p50_ns, 1e6, 3);
        cell_ms(v, o->skew_max_ns, 1e6, 3);
        cell_ms(v, o->core_p50_ns, 1e6, 3);
        cell_ms(v, o->busbw_bps, 1e9, 2);
    }
    if (v->n_rows < n)
        snprintf(v->note, sizeof(v->note), "%u more: hindmost report --csv ops", n - v->n_rows);
}

void hm_view_kernels(const struct hm_result *r, uint32_t most, struct hm_view *v)
{
    uint32_t n = r->n_rows[HM_T_kernel];
    hm_view_begin(v, "Kernels (where no communication ran beside them)");
    hm_view_column(v, "name", 1, 0);
    hm_view_column(v, "n", 0, 0);
    hm_view_column(v, "total ms", 0, 0);
    hm_view_column(v, "slowest", 1, 0);
    hm_view_column(v, "", 1, 1);
    for (uint32_t i = 0; i < n && (!most || i < most); i++) {
        const struct hm_out_kernel *k = hm_result_row(r, HM_T_kernel, i);
        char pretty[256];
        hm_view_row(v, 0);
        hm_view_cell(v, "%s", hm_words_kernel(k->name, pretty));
        cell_int(v, k->n);
        cell_ms(v, k->total_ns, 1e6, 3);
        if (HM_IS_NONE(k->worst_ratio))
            hm_view_cell(v, "-");
        else if (k->worst_ratio <= 1010000000) /* within what counts as the same, rule 4 */
            hm_view_cell(v, "all alike");
        else
            hm_view_cell(v, "rank %" PRId64 " %.3fx", k->worst_rank, (double)k->worst_ratio / 1e9);
        hm_view_cell(v, "%s", k->is_control == 1 ? "fixed work" : "");
    }
    if (v->n_rows < n)
        snprintf(v->note, sizeof(v->note), "%u more: hindmost report --csv kernels", n - v->n_rows);
}

/* ---- any table ---- */

const char *hm_cell_text(const struct hm_result_col *col, const void *at, char buf[64])
{
    int64_t i;
    uint64_t u;
    double f;
    const char *s;
    buf[0] = 0;
    switch (col->cell) {
    case HM_CELL_I64:
        memcpy(&i, at, 8);
        if (!HM_IS_NONE(i))
            snprintf(buf, 64, "%" PRId64, i);
        return buf;
    case HM_CELL_PPB:
        memcpy(&i, at, 8);
        if (!HM_IS_NONE(i))
            snprintf(buf, 64, "%.9f", (double)i / 1e9);
        return buf;
    case HM_CELL_F64:
        memcpy(&f, at, 8);
        if (isfinite(f))
            snprintf(buf, 64, "%.6g", f);
        return buf;
    case HM_CELL_U64:
        memcpy(&u, at, 8);
        snprintf(buf, 64, "%016" PRIx64, u);
        return buf;
    default:
        memcpy(&s, at, 8);
        return s ? s : "";
    }
}

void hm_view_table(const struct hm_result *r, enum hm_result_id id, uint32_t most,
                   struct hm_view *v)
{
    const struct hm_result_table *t = &hm_result_tables[id];
    hm_view_begin(v, t->doc);
    for (uint16_t c = 0; c < t->n_cols; c++)
        hm_view_column(v, t->col[c].key,
                       t->col[c].cell == HM_CELL_STR || t->col[c].cell == HM_CELL_LIST, 0);
    for (uint32_t i = 0; i < r->n_rows[id] && (!most || i < most); i++) {
        const char *at = hm_result_row(r, id, i);
        char buf[64];
        hm_view_row(v, 0);
        for (uint16_t c = 0; c < t->n_cols; c++)
            hm_view_cell(v, "%s", hm_cell_text(&t->col[c], at + 8 * c, buf));
    }
    if (v->n_rows < r->n_rows[id])
        snprintf(v->note, sizeof(v->note), "%u more: hindmost report --csv %s",
                 r->n_rows[id] - v->n_rows, t->name);
}
