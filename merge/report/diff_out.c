/* A comparison in print and as JSON. Box: merge/report. See diff.h. */
#include "report/diff.h"
#include "report/json.h"
#include "report/view.h"
#include "report/words.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { SHOWN_KERNELS = 10, SHOWN_OPS = 10 };

static double ms(int64_t ns)
{
    return (double)ns / 1e6;
}

static void cell_ms(struct hm_view *v, int64_t ns)
{
    if (HM_IS_NONE(ns))
        hm_view_cell(v, "-");
    else
        hm_view_cell(v, "%.3f", ms(ns));
}

static void cell_change(struct hm_view *v, const int64_t x[2])
{
    int64_t a = HM_IS_NONE(x[0]) ? 0 : x[0], b = HM_IS_NONE(x[1]) ? 0 : x[1];
    double change = hm_diff_change(x);
    hm_view_cell(v, "%+.3f", ms(b - a));
    if (change >= 9)
        hm_view_cell(v, "%.0fx", 1 + change);
    else if (isfinite(change))
        hm_view_cell(v, "%+.1f %%", 100 * change);
    else
        hm_view_cell(v, HM_IS_NONE(x[0]) ? "new" : HM_IS_NONE(x[1]) ? "gone" : "-");
}

/* only_changes: rows that differ by less than 1 % are left out. */
static void rows(const struct hm_diff_row *r, uint32_t n, const char *title, int only_changes,
                 const char *(*words)(const char *), const struct hm_report_style *style, FILE *out)
{
    static const double NOTHING = 0.01;
    struct hm_view v;
    hm_view_begin(&v, title);
    hm_view_column(&v, "", 1, 0);
    hm_view_column(&v, "A", 0, 0);
    hm_view_column(&v, "B", 0, 0);
    hm_view_column(&v, "change", 0, 0);
    hm_view_column(&v, "", 0, 0);
    for (uint32_t i = 0; i < n; i++) {
        double change = hm_diff_change(r[i].v);
        if (only_changes && change < NOTHING && change > -NOTHING)
            continue;
        hm_view_row(&v, 0);
        hm_view_cell(&v, "%s", words ? words(r[i].key) : r[i].key);
        cell_ms(&v, r[i].v[0]);
        cell_ms(&v, r[i].v[1]);
        cell_change(&v, r[i].v);
    }
    if (n && !v.n_rows)
        fprintf(out, "\n%s: none by 1 %% or more\n", title);
    hm_view_print(style, &v, out);
}

static const char *verdict_text(const struct hm_result *r)
{
    const struct hm_out_none *n = hm_result_row(r, HM_T_none, 0);
    const struct hm_out_finding *f = hm_result_row(r, HM_T_finding, 0);
    const char *s = n ? n->text : f ? f->text : NULL;
    return s ? s : "nothing was judged";
}

static void head(const struct hm_diff *d, struct hm_lines *l)
{
    static const char *const side[] = {"A", "B"};
    double change = hm_diff_change(d->median_ns);
    int slower = !strcmp(d->status, "slower"), faster = !strcmp(d->status, "faster");
    char p[64] = "";
    for (int k = 0; k < 2; k++) {
        struct hm_lines about = {0};
        hm_words_run(d->side[k].run, d->side[k].result, &about);
        hm_lines_add(l, side[k], HM_INK_PLAIN, "%s   %s", d->side[k].run->path,
                     about.n ? about.v[0].text : "");
        hm_lines_clear(&about);
    }
    if (d->p >= 0)
        snprintf(p, sizeof(p), ", by chance with p = %.2g", d->p);
    if (!isfinite(change))
        hm_lines_add(l, "VERDICT", HM_INK_UNSURE, "undecided: the step time of one is not known");
    else if (slower || faster)
        hm_lines_add(l, "VERDICT", slower ? HM_INK_BAD : HM_INK_GOOD,
                     "B is %s: %.2f -> %.2f ms a step (median, %+.1f %%%s)", d->status,
                     ms(d->median_ns[0]), ms(d->median_ns[1]), 100 * change, p);
    else if (!strcmp(d->status, "same"))
        hm_lines_add(l, "VERDICT", HM_INK_GOOD,
                     "no difference that counts: %.2f -> %.2f ms a step (median, %+.1f %%%s)",
                     ms(d->median_ns[0]), ms(d->median_ns[1]), 100 * change, p);
    else
        hm_lines_add(l, "VERDICT", HM_INK_UNSURE,
                     "undecided: %.2f -> %.2f ms a step (median, %+.1f %%), but fewer than 8 steps",
                     ms(d->median_ns[0]), ms(d->median_ns[1]), 100 * change);
    for (int k = 0; k < 2; k++)
        hm_lines_add(l, k ? "" : "ALONE", HM_INK_PLAIN, "%s: %s", side[k],
                     verdict_text(d->side[k].result));
}

hm_status_t hm_diff_text(const struct hm_diff *d, const struct hm_report_style *style, FILE *out)
{
    struct hm_lines l = {0};
    head(d, &l);
    hm_lines_print(style, &l, out);
    hm_lines_clear(&l);
    rows(d->ledger, d->n_ledger, "Where the time goes, ms a step (mean of the ranks)", 0,
         hm_words_ledger, style, out);
    rows(d->kernel, d->n_kernels < SHOWN_KERNELS ? d->n_kernels : SHOWN_KERNELS,
         "Kernels that changed most, ms a step and rank", 1, NULL, style, out);
    rows(d->op, d->n_ops < SHOWN_OPS ? d->n_ops : SHOWN_OPS,
         "Collectives that changed (without waiting), ms a step", 1, NULL, style, out);
    return ferror(out) ? hm_fail(HM_E_IO, "diff", "cannot write") : HM_OK;
}

/* ---- JSON ---- */

static void number(struct hm_json *j, const char *key, double v, const char *why)
{
    if (isfinite(v))
        hm_json_f64(j, key, v);
    else
        hm_json_null(j, key, why);
}

static void json_values(struct hm_json *j, const int64_t v[2])
{
    hm_json_i64(j, "a_ns", v[0]);
    hm_json_i64(j, "b_ns", v[1]);
    if (HM_IS_NONE(v[0]) || HM_IS_NONE(v[1]))
        hm_json_null(j, "change_ns", "one side has none");
    else
        hm_json_i64(j, "change_ns", v[1] - v[0]);
    number(j, "change_frac", hm_diff_change(v), "one side has none, or A is 0");
}

static void json_rows(struct hm_json *j, const char *key, const struct hm_diff_row *r, uint32_t n)
{
    hm_json_open(j, key, '[');
    for (uint32_t i = 0; i < n; i++) {
        hm_json_open(j, NULL, '{');
        hm_json_str(j, "key", r[i].key);
        json_values(j, r[i].v);
        hm_json_close(j, '}');
    }
    hm_json_close(j, ']');
}

static void json_side(struct hm_json *j, const char *key, const struct hm_diff_side *s)
{
    const struct hm_out_steps *steps = hm_result_row(s->result, HM_T_steps, 0);
    const struct hm_out_none *n = hm_result_row(s->result, HM_T_none, 0);
    const struct hm_out_finding *f = hm_result_row(s->result, HM_T_finding, 0);
    hm_json_open(j, key, '{');
    hm_json_str(j, "run", s->run->path);
    hm_json_i64(j, "ranks", s->run->n_present);
    hm_json_i64(j, "steps", steps ? steps->n : 0);
    hm_json_open(j, "verdict", '{');
    hm_json_str(j, "status", n ? n->status : f ? f->status : "none");
    hm_json_ids(j, "ids", !n && f ? f->ids : NULL);
    if (!n && f)
        hm_json_str(j, "cause", f->cause);
    else
        hm_json_null(j, "cause", "no finding");
    hm_json_str(j, "text", verdict_text(s->result));
    hm_json_close(j, '}');
    hm_json_close(j, '}');
}

hm_status_t hm_diff_json(const struct hm_diff *d, FILE *out)
{
    struct hm_json j = {.out = out, .first = 1, .line = 2};
    hm_json_open(&j, NULL, '{');
    hm_json_i64(&j, "schema", 1);
    json_side(&j, "a", &d->side[0]);
    json_side(&j, "b", &d->side[1]);
    hm_json_str(&j, "status", d->status);
    number(&j, "p_value", d->p, "fewer than 8 steps");
    hm_json_open(&j, "step_median", '{');
    json_values(&j, d->median_ns);
    hm_json_close(&j, '}');
    hm_json_open(&j, "step_mean", '{');
    json_values(&j, d->mean_ns);
    hm_json_close(&j, '}');
    json_rows(&j, "ledger", d->ledger, d->n_ledger);
    json_rows(&j, "kernels", d->kernel, d->n_kernels);
    json_rows(&j, "collectives", d->op, d->n_ops);
    hm_json_close(&j, '}');
    fputc('\n', out);
    return ferror(out) ? hm_fail(HM_E_IO, "diff", "cannot write the JSON") : HM_OK;
}
