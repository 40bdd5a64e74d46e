/* The report as Markdown, for an issue or a chat. Box: merge/report.
 *
 * Everything from the run is escaped: what Markdown or HTML would act on stays text.
 */
#include "report/view.h"
#include "report/words.h"

#include <string.h>

static void text(FILE *out, const char *s)
{
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c < 0x20 || c == 0x7F)
            fputc('?', out);
        else if (strchr("\\`*_[]<>|~&$", c))
            fprintf(out, "\\%c", c);
        else
            fputc(c, out);
    }
}

static void table(FILE *out, struct hm_view *v)
{
    if (v->n_rows) {
        fprintf(out, "\n**%s**\n\n", v->title);
        for (uint32_t i = 0; i <= v->n_rows; i++) {
            fputc('|', out);
            for (uint32_t c = 0; c < v->n_cols; c++) {
                fputc(' ', out);
                text(out, i ? hm_view_at(v, i - 1, c) : v->col[c].title);
                fputs(" |", out);
            }
            fputc('\n', out);
            for (uint32_t c = 0; !i && c < v->n_cols; c++)
                fprintf(out, "%s%s", c ? "" : "|", v->col[c].left ? "---|" : "---:|");
            if (!i)
                fputc('\n', out);
        }
        if (*v->note) {
            fputc('\n', out);
            text(out, v->note);
            fputc('\n', out);
        }
    }
    hm_view_clear(v);
}

static void lines(FILE *out, const struct hm_lines *l)
{
    for (uint32_t i = 0; i < l->n; i++) {
        if (*l->v[i].label)
            fprintf(out, "- **%s** ", l->v[i].label);
        else
            fputs("  - ", out);
        text(out, l->v[i].text);
        fputc('\n', out);
    }
}

hm_status_t hm_report_markdown(const struct hm_run *run, const struct hm_result *r, FILE *out)
{
    enum { SHOWN_ALL = 32, SHOWN_TOP = 10 };
    struct hm_lines l = {0};
    struct hm_view v;
    int many = r->n_rows[HM_T_rank] > SHOWN_ALL;
    fputs("### hindmost report: ", out);
    text(out, run->path ? run->path : "");
    fputs("\n\n", out);
    hm_words_run(run, r, &l);
    for (uint32_t i = 0; i < l.n; i++) {
        text(out, l.v[i].text);
        fputs("\n\n", out);
    }
    hm_lines_clear(&l);
    hm_words_head(run, r, &l);
    lines(out, &l);
    hm_lines_clear(&l);
    hm_view_ranks(r, many ? SHOWN_TOP : 0, &v);
    table(out, &v);
    if (many) {
        hm_view_lateness(r, &v);
        table(out, &v);
    }
    hm_view_ledger(r, &v);
    table(out, &v);
    hm_view_ops(r, 20, &v);
    table(out, &v);
    hm_view_kernels(r, 8, &v);
    table(out, &v);
    fputc('\n', out);
    hm_words_tail(r, &l);
    lines(out, &l);
    hm_lines_clear(&l);
    return ferror(out) ? hm_fail(HM_E_IO, "report", "cannot write the report") : HM_OK;
}
