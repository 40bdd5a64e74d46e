/* One table as CSV: header of key names, raw ns, RFC 4180 quoting, unknown = empty.
 *
 * Box: merge/report. Cells that a spreadsheet would run as a formula get a quote in front.
 */
#include "out/utf8.h"
#include "report/collectives.h"
#include "report/report.h"
#include "report/select.h"
#include "report/view.h"

#include <inttypes.h>
#include <string.h>

/* Bytes that are no UTF-8 and control characters become ?, only a list keeps its line ends. */
static void cell_text(FILE *out, const char *text, int is_list)
{
    if (!text)
        return;
    int formula = *text && strchr("=+-@\t\r", *text) != NULL;
    int quoted = formula || strpbrk(text, ",\"\r\n") != NULL;
    if (quoted)
        fputs(formula ? "\"'" : "\"", out);
    for (const unsigned char *s = (const unsigned char *)text; *s;) {
        int n = hm_utf8(s), control = (*s < 0x20 && !(is_list && *s == '\n')) || *s == 0x7F ||
                                      (*s == 0xC2 && s[1] < 0xA0);
        if (*s == '"')
            fputc('"', out);
        if (!n || control)
            fputc('?', out);
        else
            fwrite(s, 1, (size_t)n, out);
        s += n ? n : 1;
    }
    if (quoted)
        fputc('"', out);
}

static void cell_int(FILE *out, int64_t v)
{
    if (!HM_IS_NONE(v))
        fprintf(out, "%" PRId64, v);
}

static void cell(FILE *out, const struct hm_result_col *col, const char *at)
{
    char buf[64];
    const char *s = hm_cell_text(col, at, buf);
    if (s == buf) /* a number: never quoted */
        fputs(s, out);
    else
        cell_text(out, s, col->cell == HM_CELL_LIST);
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
    if (!hm_select_step(s->result, l->step))
        return HM_OK;
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

/* "rank" and "ranks"; "steps" is the table of single steps, not their summary. -1 = none. */
static int table_of(const char *name)
{
    size_t n = strlen(name);
    if (!strcmp(name, "steps"))
        return HM_T_step;
    for (int t = 0; t < HM_N_TABLES; t++) {
        const char *own = hm_result_tables[t].name;
        size_t k = strlen(own);
        if (!strncmp(own, name, k) && (n == k || (n == k + 1 && name[k] == 's')))
            return t;
    }
    return -1;
}

int hm_report_csv_knows(const char *name)
{
    return !strcmp(name, "collectives") || table_of(name) >= 0;
}

const char *hm_report_csv_names(char *buf, size_t cap)
{
    size_t n = (size_t)snprintf(buf, cap, "collectives");
    for (int t = 0; t < HM_N_TABLES && n < cap; t++) {
        const struct hm_result_table *d = &hm_result_tables[t];
        if (t == HM_T_steps) /* a summary, behind the name of the table of single steps */
            continue;
        int k =
            snprintf(buf + n, cap - n, ", %s%s", d->name, d->many && t != HM_T_ledger ? "s" : "");
        n += k > 0 ? (size_t)k : 0;
    }
    return buf;
}

hm_status_t hm_report_csv(const struct hm_run *run, const struct hm_result *r, const char *name,
                          FILE *out)
{
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
    int id = table_of(name);
    if (id < 0) {
        char names[512];
        return hm_fail(HM_E_USAGE, name, "no such table; there are %s",
                       hm_report_csv_names(names, sizeof(names)));
    }
    const struct hm_result_table *t = &hm_result_tables[id];
    for (uint16_t c = 0; c < t->n_cols; c++)
        fprintf(out, "%s%s", c ? "," : "", t->col[c].key);
    fputc('\n', out);
    for (uint32_t k = 0; k < r->n_rows[id]; k++) {
        const char *at = hm_result_row(r, (enum hm_result_id)id, k);
        for (uint16_t c = 0; c < t->n_cols; c++) {
            if (c)
                fputc(',', out);
            cell(out, &t->col[c], at + 8 * c);
        }
        fputc('\n', out);
    }
    return ferror(out) ? hm_fail(HM_E_IO, "report", "cannot write") : HM_OK;
}
