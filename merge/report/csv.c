/* One table as CSV: header of key names, raw ns, RFC 4180 quoting, unknown = empty.
 *
 * Box: merge/report. Cells that a spreadsheet would run as a formula get a quote in front.
 */
#include "report/collectives.h"
#include "report/report.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static void cell_text(FILE *out, const char *s)
{
    if (!s)
        return;
    int formula = *s && strchr("=+-@\t\r", *s) != NULL;
    if (!formula && !strpbrk(s, ",\"\r\n")) {
        fputs(s, out);
        return;
    }
    fputs(formula ? "\"'" : "\"", out);
    for (; *s; s++) {
        if (*s == '"')
            fputc('"', out);
        fputc(*s, out);
    }
    fputc('"', out);
}

static void cell_int(FILE *out, int64_t v)
{
    if (!HM_IS_NONE(v))
        fprintf(out, "%" PRId64, v);
}

static void cell(FILE *out, const struct hm_result_col *col, const char *at)
{
    int64_t v;
    uint64_t u;
    double f;
    const char *s;
    switch (col->cell) {
    case HM_CELL_I64:
        memcpy(&v, at, 8);
        cell_int(out, v);
        break;
    case HM_CELL_PPB:
        memcpy(&v, at, 8);
        if (!HM_IS_NONE(v))
            fprintf(out, "%.9f", (double)v / 1e9);
        break;
    case HM_CELL_F64:
        memcpy(&f, at, 8);
        if (isfinite(f))
            fprintf(out, "%.6g", f);
        break;
    case HM_CELL_U64:
        memcpy(&u, at, 8);
        fprintf(out, "%016" PRIx64, u);
        break;
    default:
        memcpy(&s, at, 8);
        cell_text(out, s);
    }
}

struct sweep {
    FILE *out;
    const struct hm_run *run;
    const struct hm_result *result;
};

static hm_status_t collective(void *ctx, const struct hm_launch *l, const struct hm_part *part)
{
    struct sweep *s = ctx;
    struct hm_collective c;
    hm_status_t st = hm_collective_fill(s->run, s->result, l, part, &c);
    if (st != HM_OK)
        return st;
    const int64_t v[] = {c.n_ops,     c.bytes,     c.n_ranks, c.skew_ns,
                         c.last_rank, c.margin_ns, c.core_ns, c.span_ns};
    fprintf(s->out, "%s,%" PRId64 ",%" PRId64 ",%s", c.comm, c.seq, c.start_ns, c.func);
    for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
        fputc(',', s->out);
        cell_int(s->out, v[i]);
    }
    fputc(',', s->out);
    for (uint32_t i = 0; i < c.n; i++) {
        fprintf(s->out, "%s%" PRId64 ":", i ? " " : "", c.rank[i]);
        cell_int(s->out, c.wait_ns[i]);
    }
    fputc('\n', s->out);
    hm_collective_clear(&c);
    return HM_OK;
}

hm_status_t hm_report_csv(const struct hm_run *run, const struct hm_result *r, const char *name,
                          FILE *out)
{
    static const struct {
        const char *name;
        enum hm_result_id id;
    } known[] = {{"ranks", HM_T_rank},
                 {"steps", HM_T_step},
                 {"kernels", HM_T_kernel},
                 {"ops", HM_T_op},
                 {"ledger", HM_T_ledger}};
    hm_status_t st = HM_OK;
    if (!strcmp(name, "collectives")) {
        fputs("comm,seq,start_ns,func,n_ops,bytes,n_ranks,skew_ns,last_rank,margin_ns,core_ns,"
              "last_start_to_last_end_ns,wait_ns_by_rank\n",
              out);
        struct sweep s = {out, run, r};
        if (r->each_launch)
            st = r->each_launch(r->engine, collective, &s);
        return st != HM_OK ? st : ferror(out) ? hm_fail(HM_E_IO, "report", "cannot write") : HM_OK;
    }
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (strcmp(known[i].name, name) != 0)
            continue;
        const struct hm_result_table *t = &hm_result_tables[known[i].id];
        for (uint16_t c = 0; c < t->n_cols; c++)
            fprintf(out, "%s%s", c ? "," : "", t->col[c].key);
        fputc('\n', out);
        for (uint32_t k = 0; k < r->n_rows[known[i].id]; k++) {
            const char *at = hm_result_row(r, known[i].id, k);
            for (uint16_t c = 0; c < t->n_cols; c++) {
                if (c)
                    fputc(',', out);
                cell(out, &t->col[c], at + 8 * c);
            }
            fputc('\n', out);
        }
        return ferror(out) ? hm_fail(HM_E_IO, "report", "cannot write") : HM_OK;
    }
    return hm_fail(HM_E_USAGE, name,
                   "no such table; there are ranks, steps, collectives, kernels, ops, ledger");
}
