/* The printed report: lines and tables, fitted to the width of the terminal.
 *
 * Box: merge/report. Plain ASCII; bytes of foreign names that a terminal would obey are shown as
 * '?'. Colours only where the caller asks for them.
 */
#include "report/view.h"
#include "report/words.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { INDENT = 10, MIN_COLUMNS = 60, SHOWN_ALL = 32, SHOWN_TOP = 10 };

struct print {
    FILE *out;
    size_t columns;
    int colour;
};

static void ink(const struct print *p, const char *code)
{
    if (p->colour)
        fprintf(p->out, "\033[%sm", code);
}

static const char *code_of(enum hm_ink i)
{
    static const char *const code[] = {"0", "1;31", "1;32", "1;33"};
    return code[i];
}

/* Text that a terminal only shows. Heap. */
static char *safe(const char *s)
{
    char *t = strdup(s ? s : "");
    for (char *c = t; c && *c; c++)
        if (*c < 0x20 || *c >= 0x7F)
            *c = '?';
    return t;
}

/* "LABEL     text", wrapped, continued under the text. */
static void paragraph(const struct print *p, const char *label, const char *text, enum hm_ink i,
                      size_t indent)
{
    size_t room = p->columns - indent;
    char *line = safe(text), *s = line;
    if (!line)
        return;
    ink(p, "1");
    fprintf(p->out, "%-*s", (int)indent, label);
    ink(p, "0");
    for (;;) {
        size_t n = strlen(s);
        if (n > room) {
            n = room;
            while (n > 0 && s[n] != ' ')
                n--;
            n = n ? n : room;
        }
        size_t shown = n;
        while (shown && s[shown - 1] == ' ')
            shown--;
        if (i != HM_INK_PLAIN)
            ink(p, code_of(i));
        fprintf(p->out, "%.*s", (int)shown, s);
        if (i != HM_INK_PLAIN)
            ink(p, "0");
        fputc('\n', p->out);
        s += n;
        s += strspn(s, " ");
        if (!*s)
            break;
        fprintf(p->out, "%*s", (int)indent, "");
    }
    free(line);
}

static void print_lines(const struct print *p, const struct hm_lines *l, size_t indent)
{
    for (uint32_t i = 0; i < l->n; i++)
        paragraph(p, l->v[i].label, l->v[i].text, l->v[i].ink, indent);
}

/* ---- tables ---- */

/* Widths of the columns, 0 = not shown. Too wide: columns that may go, then the longest texts. */
static size_t fit(const struct hm_view *v, size_t columns, size_t width[HM_VIEW_COLS])
{
    enum { MIN_TEXT = 8 };
    size_t sum = 0;
    for (uint32_t c = 0; c < v->n_cols; c++) {
        width[c] = strlen(v->col[c].title);
        for (uint32_t i = 0; i < v->n_rows; i++) {
            size_t n = strlen(hm_view_at(v, i, c));
            width[c] = n > width[c] ? n : width[c];
        }
        sum += width[c] + (width[c] && c ? 1 : 0);
    }
    for (int drop = 9; drop > 0 && sum > columns; drop--)
        for (uint32_t c = 0; c < v->n_cols && sum > columns; c++)
            if (v->col[c].drop == drop && width[c]) {
                sum -= width[c] + 1;
                width[c] = 0;
            }
    while (sum > columns) {
        uint32_t top = v->n_cols;
        for (uint32_t c = 0; c < v->n_cols; c++)
            if (v->col[c].left && width[c] > MIN_TEXT &&
                (top == v->n_cols || width[c] > width[top]))
                top = c;
        if (top == v->n_cols)
            break;
        width[top]--;
        sum--;
    }
    return sum;
}

static void print_cell(const struct print *p, const char *text, size_t width, int left, int last)
{
    char *s = safe(text);
    if (!s)
        return;
    size_t n = strlen(s);
    if (n > width && width > 2) {
        s[width] = 0;
        s[width - 1] = '~';
    }
    if (left)
        fprintf(p->out, "%-*s", last ? 0 : (int)width, s);
    else
        fprintf(p->out, "%*s", (int)width, s);
    free(s);
}

/* A table that fits no line: one paragraph a row. */
static void print_records(const struct print *p, const struct hm_view *v)
{
    for (uint32_t i = 0; i < v->n_rows; i++) {
        char *text = NULL;
        size_t size = 0;
        FILE *f = open_memstream(&text, &size);
        if (!f)
            return;
        for (uint32_t c = 0; c < v->n_cols; c++)
            if (*hm_view_at(v, i, c))
                fprintf(f, "%s=%s ", v->col[c].title, hm_view_at(v, i, c));
        if (!fclose(f))
            paragraph(p, "  -", text, HM_INK_PLAIN, 4);
        free(text);
    }
}

static void print_view(const struct print *p, struct hm_view *v)
{
    size_t width[HM_VIEW_COLS];
    if (!v->n_rows) {
        hm_view_clear(v);
        return;
    }
    fputc('\n', p->out);
    ink(p, "1");
    fprintf(p->out, "%s\n", v->title);
    ink(p, "0");
    if (fit(v, p->columns, width) > p->columns) {
        print_records(p, v);
        hm_view_clear(v);
        return;
    }
    uint32_t last = 0;
    for (uint32_t c = 0; c < v->n_cols; c++)
        last = width[c] ? c : last;
    for (uint32_t i = 0; i <= v->n_rows; i++) { /* row 0: the titles */
        int mark = i && v->mark[i - 1], first = 1;
        if (mark)
            ink(p, code_of(HM_INK_BAD));
        for (uint32_t c = 0; c < v->n_cols; c++) {
            const char *text = i ? hm_view_at(v, i - 1, c) : v->col[c].title;
            if (!width[c] || (c == last && !*text))
                continue;
            if (!first)
                fputc(' ', p->out);
            first = 0;
            print_cell(p, text, width[c], v->col[c].left, c == last);
        }
        if (mark)
            ink(p, "0");
        fputc('\n', p->out);
    }
    if (*v->note)
        paragraph(p, "", v->note, HM_INK_PLAIN, 2);
    hm_view_clear(v);
}

/* ---- the whole ---- */

static void print_tables(const struct print *p, const struct hm_result *r, int expert)
{
    struct hm_view v;
    int many = r->n_rows[HM_T_rank] > SHOWN_ALL;
    hm_view_ranks(r, many ? SHOWN_TOP : 0, &v);
    print_view(p, &v);
    if (many) {
        hm_view_lateness(r, &v);
        print_view(p, &v);
    }
    hm_view_ledger(r, &v);
    print_view(p, &v);
    hm_view_ops(r, expert ? 0 : 20, &v);
    print_view(p, &v);
    hm_view_kernels(r, expert ? 0 : 8, &v);
    print_view(p, &v);
}

/* What the other parts of the report do not show of the result. */
static void print_rest(const struct print *p, const struct hm_result *r)
{
    for (int t = 0; t < HM_N_TABLES; t++) {
        struct hm_view v;
        if (t == HM_T_ledger || t == HM_T_op || t == HM_T_kernel || t == HM_T_problem)
            continue;
        hm_view_table(r, (enum hm_result_id)t, 0, &v);
        print_view(p, &v);
    }
}

static struct print print_of(const struct hm_report_style *style, FILE *out)
{
    int columns = style->columns > MIN_COLUMNS ? style->columns : MIN_COLUMNS;
    return (struct print){out, (size_t)columns, style->colour};
}

void hm_lines_print(const struct hm_report_style *style, const struct hm_lines *l, FILE *out)
{
    const struct print p = print_of(style, out);
    print_lines(&p, l, INDENT);
}

void hm_view_print(const struct hm_report_style *style, struct hm_view *v, FILE *out)
{
    const struct print p = print_of(style, out);
    print_view(&p, v);
}

hm_status_t hm_report_print(const struct hm_run *run, const struct hm_result *r,
                            const struct hm_report_style *style, FILE *out)
{
    const struct print p = print_of(style, out);
    struct hm_lines top = {0}, head = {0}, tail = {0};
    hm_words_run(run, r, &top);
    size_t n = strlen(run->path ? run->path : "");
    if (top.n && n + 3 + strlen(top.v[0].text) <= p.columns) {
        char *path = safe(run->path);
        fprintf(out, "%s   ", path ? path : "");
        free(path);
    } else {
        paragraph(&p, "", run->path ? run->path : "", HM_INK_PLAIN, 0);
    }
    print_lines(&p, &top, 0);
    fputc('\n', out);
    hm_words_head(run, r, &head);
    print_lines(&p, &head, INDENT);
    print_tables(&p, r, style->expert);
    if (style->expert)
        print_rest(&p, r);
    fputc('\n', out);
    hm_words_tail(r, &tail);
    print_lines(&p, &tail, INDENT);
    hm_lines_clear(&top);
    hm_lines_clear(&head);
    hm_lines_clear(&tail);
    return ferror(out) ? hm_fail(HM_E_IO, "report", "cannot write the report") : HM_OK;
}

hm_status_t hm_report_text(const struct hm_run *run, const struct hm_result *r, FILE *out)
{
    return hm_report_print(run, r, &(struct hm_report_style){.columns = 80}, out);
}

hm_status_t hm_report_digest(const struct hm_run *run, const struct hm_result *r, const char *path,
                             FILE *out)
{
    const struct hm_out_steps *s = hm_result_row(r, HM_T_steps, 0);
    const struct hm_out_none *n = hm_result_row(r, HM_T_none, 0);
    const struct hm_out_finding *f = hm_result_row(r, HM_T_finding, 0);
    const char *words = n ? n->text : f ? f->text : "nothing to judge";
    char *text = safe(words), *where = safe(path);
    fprintf(out, "hindmost: %u of %u ranks, %" PRId64 " steps", run->n_present, run->n_ranks,
            s ? s->n : 0);
    if (s && !HM_IS_NONE(s->median_ns))
        fprintf(out, ", %.2f ms a step", (double)s->median_ns / 1e6);
    fprintf(out, "\nhindmost: %s\n", text ? text : "");
    fprintf(out, "hindmost: next: hindmost report %s\n", where ? where : "");
    free(text);
    free(where);
    return ferror(out) ? HM_E_IO : HM_OK;
}
