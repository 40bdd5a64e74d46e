/* The report as one JSON object; keys and meanings are docs/report.schema.json.
 *
 * Box: merge/report. Integers in ns; fractions decimal; unknown is null beside "<key>_why".
 */
#include "report/json.h"

#include "report/collectives.h"
#include "report/report.h"
#include "report/select.h"
#include "report/words.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const void *row(const struct hm_result *r, enum hm_result_id t, uint32_t i)
{
    return hm_result_row(r, t, i);
}

static void str_or_why(struct hm_json *j, const char *key, const char *s, const char *why)
{
    if (s)
        hm_json_str(j, key, s);
    else
        hm_json_null(j, key, why);
}

static void quality(struct hm_json *j, const struct hm_result *r)
{
    const struct hm_out_quality *q = row(r, HM_T_quality, 0);
    hm_json_open(j, "quality", '{');
    hm_json_str(j, "grade", q ? q->grade : "none");
    hm_json_open(j, "problems", '[');
    for (uint32_t i = 0; i < r->n_rows[HM_T_problem]; i++) {
        const struct hm_out_problem *p = row(r, HM_T_problem, i);
        hm_json_open(j, NULL, '{');
        hm_json_str(j, "file", p->file);
        hm_json_str(j, "what", p->what);
        hm_json_close(j, '}');
    }
    hm_json_close(j, ']');
    if (q) {
        hm_json_i64(j, "ranks_present", q->ranks_present);
        hm_json_i64(j, "ranks_expected", q->ranks_expected);
    }
    hm_json_open(j, "lost", '{');
    for (unsigned k = 0; k < HM_N_LOST; k++)
        hm_json_i64(j, hm_loss_key((enum hm_loss)k), r->lost[k]);
    hm_json_close(j, '}');
    if (q) {
        hm_json_ppb(j, "matched_frac", q->matched_frac);
        hm_json_i64(j, "clock_error_ns", q->clock_error_ns);
        hm_json_i64(j, "violations", q->violations);
        hm_json_str(j, "arrival_source", q->arrival_source);
        hm_json_i64(j, "clock_suspect", q->clock_suspect);
        hm_json_ppb(j, "replay_error_frac", q->replay_error_ppb);
    }
    hm_json_close(j, '}');
}

static void finding(struct hm_json *j, const char *key, const struct hm_run *run,
                    const struct hm_out_finding *f)
{
    hm_json_open(j, key, '{');
    hm_json_str(j, "status", f->status);
    hm_json_open(j, "subject", '{');
    hm_json_str(j, "kind", f->kind);
    hm_json_ids(j, "ids", f->ids);
    hm_json_str(j, "label", f->label);
    str_or_why(j, "gpu_uuid", f->gpu_uuid, "not recorded");
    hm_json_close(j, '}');
    hm_json_open(j, "where", '{');
    str_or_why(j, "dim", f->dim, "not known");
    hm_json_i64(j, "world", f->world);
    str_or_why(j, "comm", f->comm, "all communicators");
    str_or_why(j, "phase", f->phase, "the whole step");
    hm_json_close(j, '}');
    str_or_why(j, "pattern", f->pattern, hm_why(HM_NONE(HM_NONE_NO_PATTERN)));
    hm_json_i64(j, "from_step", f->from_step);
    hm_json_i64(j, "to_step", f->to_step);
    hm_json_i64(j, "period_steps", f->period_steps);
    hm_json_i64(j, "period_at", f->period_at);
    hm_json_str(j, "cause", f->cause);
    hm_json_i64(j, "gain_ns", f->gain_ns);
    hm_json_ppb(j, "gain_frac", f->gain_frac);
    hm_json_ppb(j, "gain_gpu_s", f->gain_gpu_ns); /* ns are the 1e-9 of a second */
    hm_json_i64(j, "lateness_ns", f->lateness_ns);
    hm_json_i64(j, "lateness_median_ns", f->lateness_median_ns);
    hm_json_i64(j, "last_in_steps", f->last_in_steps);
    hm_json_ppb(j, "explained_frac", f->explained_frac);
    hm_json_str(j, "confidence", f->confidence);
    hm_json_f64(j, "p_value", f->p_value);
    hm_json_list(j, "evidence", f->evidence);
    hm_json_list(j, "ruled_out", f->ruled_out);
    char *next = hm_words_next(run, f->next);
    hm_json_list(j, "next", next);
    free(next);
    hm_json_str(j, "text", f->text);
    hm_json_close(j, '}');
}

static void verdict(struct hm_json *j, const struct hm_run *run, const struct hm_result *r)
{
    const struct hm_out_none *n = row(r, HM_T_none, 0);
    const struct hm_out_finding *f = row(r, HM_T_finding, 0);
    if (!n) {
        if (f)
            finding(j, "verdict", run, f);
        else
            hm_json_null(j, "verdict", "nothing was judged");
        return;
    }
    hm_json_open(j, "verdict", '{');
    hm_json_str(j, "status", n->status);
    hm_json_ppb(j, "detectable_frac", n->detectable_frac);
    if (n->loss_kind) {
        hm_json_open(j, "largest_loss", '{');
        hm_json_str(j, "kind", n->loss_kind);
        hm_json_i64(j, "ns", n->loss_ns);
        hm_json_ppb(j, "frac", n->loss_frac);
        hm_json_close(j, '}');
    } else {
        hm_json_null(j, "largest_loss", hm_why(HM_NONE(HM_NONE_NO_STEPS)));
    }
    hm_json_str(j, "text", n->text);
    hm_json_close(j, '}');
}

/* A table as result.def has it. Nanosecond fields keep their names, PPB become decimals. */
static void table_of(struct hm_json *j, const char *key, const struct hm_result *r,
                     enum hm_result_id t, uint32_t n_rows)
{
    const struct hm_result_table *d = &hm_result_tables[t];
    hm_json_open(j, key, '[');
    for (uint32_t i = 0; i < n_rows; i++) {
        const char *at = row(r, t, i);
        hm_json_open(j, NULL, '{');
        for (uint16_t c = 0; c < d->n_cols; c++, at += 8) {
            int64_t v;
            uint64_t u;
            double f;
            const char *s;
            char hex[20];
            switch (d->col[c].cell) {
            case HM_CELL_I64:
                memcpy(&v, at, 8);
                hm_json_i64(j, d->col[c].key, v);
                break;
            case HM_CELL_PPB:
                memcpy(&v, at, 8);
                hm_json_ppb(j, d->col[c].key, v);
                break;
            case HM_CELL_F64:
                memcpy(&f, at, 8);
                hm_json_f64(j, d->col[c].key, f);
                break;
            case HM_CELL_U64:
                memcpy(&u, at, 8);
                snprintf(hex, sizeof(hex), "%016" PRIx64, u);
                hm_json_str(j, d->col[c].key, hex);
                break;
            case HM_CELL_IDS:
                memcpy(&s, at, 8);
                hm_json_ids(j, d->col[c].key, s);
                break;
            case HM_CELL_LIST:
                memcpy(&s, at, 8);
                hm_json_list(j, d->col[c].key, s);
                break;
            default:
                memcpy(&s, at, 8);
                if (s)
                    hm_json_str(j, d->col[c].key, s);
                else
                    hm_json_null(j, d->col[c].key,
                                 !strcmp(d->col[c].key, "role") ? hm_why(HM_NONE(HM_NONE_NO_ROLES))
                                                                : hm_why(HM_NONE(HM_NONE_UNKNOWN)));
            }
        }
        hm_json_close(j, '}');
    }
    hm_json_close(j, ']');
}

static void table(struct hm_json *j, const char *key, const struct hm_result *r,
                  enum hm_result_id t)
{
    table_of(j, key, r, t, r->n_rows[t]);
}

/* All ranks together, and with --json=full rank by rank. */
static void opstats(struct hm_json *j, const struct hm_result *r, int full)
{
    uint32_t n = 0;
    const struct hm_out_opstat *s;
    while ((s = row(r, HM_T_opstat, n)) && (full || HM_IS_NONE(s->rank)))
        n++;
    table_of(j, "opstats", r, HM_T_opstat, n);
}

struct full {
    struct hm_json *j;
    const struct hm_run *run;
    const struct hm_result *result;
};

static hm_status_t collective(void *ctx, const struct hm_launch *l, const struct hm_part *part)
{
    struct full *f = ctx;
    struct hm_json *j = f->j;
    struct hm_collective c;
    if (!hm_select_step(f->result, l->step))
        return HM_OK;
    hm_status_t st = hm_collective_fill(f->run, f->result, l, part, &c);
    if (st != HM_OK)
        return st;
    hm_json_open(j, NULL, '{');
    hm_json_str(j, "comm", c.comm);
    hm_json_i64(j, "seq", c.seq);
    hm_json_i64(j, "start_ns", c.start_ns);
    hm_json_str(j, "func", c.func);
    hm_json_i64(j, "n_ops", c.n_ops);
    hm_json_i64(j, "bytes", c.bytes);
    hm_json_i64(j, "n_ranks", c.n_ranks);
    hm_json_i64(j, "skew_ns", c.skew_ns);
    hm_json_i64(j, "last_rank", c.last_rank);
    hm_json_i64(j, "margin_ns", c.margin_ns);
    hm_json_i64(j, "core_ns", c.core_ns);
    hm_json_i64(j, "last_start_to_last_end_ns", c.span_ns);
    hm_json_open(j, "ranks", '[');
    for (uint32_t i = 0; i < c.n; i++)
        hm_json_i64(j, NULL, c.rank[i]);
    hm_json_close(j, ']');
    hm_json_open(j, "wait_ns", '[');
    for (uint32_t i = 0; i < c.n; i++)
        hm_json_i64(j, NULL, c.wait_ns[i]);
    hm_json_close(j, ']');
    hm_json_close(j, '}');
    hm_collective_clear(&c);
    return HM_OK;
}

hm_status_t hm_report_json(const struct hm_run *run, const struct hm_result *r, FILE *out, int full)
{
    struct hm_json j = {.out = out, .first = 1, .line = 2};
    hm_status_t st = HM_OK;
    hm_json_open(&j, NULL, '{');
    hm_json_i64(&j, "schema", 1);
    quality(&j, r);
    const struct hm_out_steps *s = row(r, HM_T_steps, 0);
    hm_json_open(&j, "steps", '{');
    if (s) {
        hm_json_i64(&j, "n", s->n);
        hm_json_i64(&j, "n_skipped", s->n_skipped);
        hm_json_str(&j, "source", s->source);
        hm_json_i64(&j, "median_ns", s->median_ns);
        hm_json_i64(&j, "mean_ns", s->mean_ns);
        hm_json_i64(&j, "total_ns", s->total_ns);
    }
    hm_json_close(&j, '}');
    const struct hm_out_selection *only = row(r, HM_T_selection, 0);
    if (only) {
        hm_json_open(&j, "selection", '{');
        if (!HM_IS_NONE(only->first_step)) {
            hm_json_i64(&j, "first_step", only->first_step);
            hm_json_i64(&j, "last_step", only->last_step);
        }
        if (only->ranks)
            hm_json_ids(&j, "ranks", only->ranks);
        hm_json_close(&j, '}');
    }
    hm_json_open(&j, "findings", '[');
    for (uint32_t i = 0; i < r->n_rows[HM_T_finding]; i++)
        finding(&j, NULL, run, row(r, HM_T_finding, i));
    hm_json_close(&j, ']');
    verdict(&j, run, r);
    table(&j, "ledger", r, HM_T_ledger);
    table(&j, "pop", r, HM_T_pop);
    table(&j, "trends", r, HM_T_trend);
    table(&j, "roles", r, HM_T_role);
    table(&j, "ranks", r, HM_T_rank);
    table(&j, "health", r, HM_T_health);
    table(&j, "links", r, HM_T_link);
    table(&j, "ops", r, HM_T_op);
    table(&j, "kernels", r, HM_T_kernel);
    opstats(&j, r, full);
    table(&j, "hangs", r, HM_T_hang);
    table(&j, "mismatches", r, HM_T_mismatch);
    if (full) {
        table(&j, "step", r, HM_T_step);
        struct full f = {&j, run, r};
        hm_json_open(&j, "collectives", '[');
        if (r->each_launch)
            st = r->each_launch(r->engine, collective, &f);
        hm_json_close(&j, ']');
    }
    hm_json_close(&j, '}');
    fputc('\n', out);
    return st != HM_OK   ? st
           : ferror(out) ? hm_fail(HM_E_IO, "report", "cannot write the JSON")
                         : HM_OK;
}
