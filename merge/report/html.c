/* The report as one HTML page that opens offline: no script, nothing fetched, nothing to unpack.
 *
 * Box: merge/report. Names from the run are hostile: every one passes hm_html_text(). A content
 * security policy in the page forbids all that the page does not need.
 */
#include "report/html.h"

#include "out/outfile.h"
#include "out/utf8.h"
#include "report/view.h"
#include "report/words.h"

#include <stdlib.h>
#include <string.h>

void hm_html_text(FILE *out, const char *text)
{
    for (const unsigned char *s = (const unsigned char *)text; *s;) {
        int n = hm_utf8(s);
        int control = *s < 0x20 || *s == 0x7F || (*s == 0xC2 && s[1] < 0xA0);
        if (!n || control)
            fputs("&#xfffd;", out);
        else if (strchr("<>&\"'", *s))
            fprintf(out, "&#%d;", *s);
        else
            fwrite(s, 1, (size_t)n, out);
        s += n ? n : 1;
    }
}

enum { SHOWN = 200 }; /* rows of a table; all are in the data at the end and in --csv */

static const char style[] =
    "<style>\n"
    ":root{color-scheme:light dark;--fg:#1b1f24;--bg:#fff;--dim:#57606a;--line:#d0d7de;--card:#f6f8fa;"
    "--bad:#b42318;--good:#1a7f37;--unsure:#8a5a00}\n"
    "@media(prefers-color-scheme:dark){:root{--fg:#e6edf3;--bg:#0d1117;--dim:#9198a1;--line:#30363d;"
    "--card:#161b22;--bad:#ff7b72;--good:#56d364;--unsure:#e3b341}}\n"
    "body{font:14px/1.5 system-ui,sans-serif;color:var(--fg);background:var(--bg);max-width:1000px;"
    "margin:24px auto;padding:0 16px}\n"
    "h1{font-size:20px;margin:0;overflow-wrap:anywhere}h2{font-size:16px;margin:28px 0 6px}\n"
    ".run,.note{color:var(--dim);margin:4px 0}.run,dd{white-space:pre-wrap}\n"
    ".warn{border-left:4px solid var(--bad);background:var(--card);padding:8px 12px;margin:12px 0}\n"
    ".warn ul{margin:0;padding-left:18px}\n"
    "dl{background:var(--card);border:1px solid var(--line);border-radius:6px;padding:12px 16px;"
    "display:grid;grid-template-columns:110px 1fr;gap:2px 12px}\n"
    "dt{font-weight:600;color:var(--dim)}dd{margin:0;overflow-wrap:anywhere}\n"
    "dd.bad{color:var(--bad);font-weight:600;font-size:16px}dd.good{color:var(--good);font-weight:600;"
    "font-size:16px}dd.unsure{color:var(--unsure);font-weight:600;font-size:16px}\n"
    ".scroll{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums}\n"
    "th,td{padding:3px 10px;border-bottom:1px solid var(--line);text-align:right;white-space:nowrap}\n"
    "th{color:var(--dim);font-weight:600}.l{text-align:left}td.l{max-width:420px;overflow:hidden;"
    "text-overflow:ellipsis}tr.mark td{color:var(--bad);font-weight:600}\n"
    "svg{width:100%;height:auto;display:block;margin:6px 0}svg text{font:12px system-ui,sans-serif;"
    "fill:var(--fg)}.end{text-anchor:end}svg text.bad{fill:var(--bad);font-weight:600}\n"
    ".p0{fill:#4c78a8;background:#4c78a8}.p1{fill:#59a14f;background:#59a14f}"
    ".p2{fill:#e15759;background:#e15759}.p3{fill:#b07aa1;background:#b07aa1}"
    ".p4{fill:#bab0ac;background:#bab0ac}\n"
    ".key{display:inline-block;width:12px;height:12px;border-radius:2px;margin:0 5px 0 10px;"
    "vertical-align:-1px}.legend{margin:4px 0}\n"
    "details{margin:10px 0}summary{cursor:pointer;color:var(--dim)}\n"
    "@media print{body{max-width:none;margin:0}details:not([open]){display:none}}\n"
    "</style>\n";

static void table(FILE *out, struct hm_view *v, int folded)
{
    if (!v->n_rows) {
        hm_view_clear(v);
        return;
    }
    if (folded)
        fprintf(out, "<details><summary>%s</summary>\n", v->title);
    fputs("<div class=\"scroll\"><table><thead><tr>", out);
    for (uint32_t c = 0; c < v->n_cols; c++) {
        fprintf(out, "<th scope=\"col\"%s>", v->col[c].left ? " class=\"l\"" : "");
        hm_html_text(out, v->col[c].title);
        fputs("</th>", out);
    }
    fputs("</tr></thead><tbody>\n", out);
    for (uint32_t i = 0; i < v->n_rows; i++) {
        fprintf(out, "<tr%s>", v->mark[i] ? " class=\"mark\"" : "");
        for (uint32_t c = 0; c < v->n_cols; c++) {
            const char *s = hm_view_at(v, i, c);
            if (v->col[c].left && strlen(s) > 40) { /* may be cut by the width of the column */
                fputs("<td class=\"l\" title=\"", out);
                hm_html_text(out, s);
                fputs("\">", out);
            } else {
                fputs(v->col[c].left ? "<td class=\"l\">" : "<td>", out);
            }
            hm_html_text(out, s);
            fputs("</td>", out);
        }
        fputs("</tr>\n", out);
    }
    fputs("</tbody></table></div>\n", out);
    if (*v->note) {
        fputs("<p class=\"note\">", out);
        hm_html_text(out, v->note);
        fputs("</p>\n", out);
    }
    if (folded)
        fputs("</details>\n", out);
    hm_view_clear(v);
}

static void lines(FILE *out, const struct hm_lines *l)
{
    static const char *const ink[] = {"", " class=\"bad\"", " class=\"good\"", " class=\"unsure\""};
    fputs("<dl>\n", out);
    for (uint32_t i = 0; i < l->n; i++) {
        fprintf(out, "<dt>%s</dt><dd%s>", l->v[i].label, ink[l->v[i].ink]);
        hm_html_text(out, l->v[i].text);
        fputs("</dd>\n", out);
    }
    fputs("</dl>\n", out);
}

static void top(const struct hm_run *run, const struct hm_result *r, FILE *out)
{
    struct hm_lines l = {0};
    fputs("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
          "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
          "'unsafe-inline'\">\n<meta name=\"viewport\" content=\"width=device-width\">\n<title>",
          out);
    hm_html_text(out, run->path ? run->path : "");
    fputs(" - hindmost</title>\n", out);
    fputs(style, out);
    fputs("</head><body>\n<header><h1>", out);
    hm_html_text(out, run->path ? run->path : "");
    fputs("</h1>\n", out);
    hm_words_run(run, r, &l);
    for (uint32_t i = 0; i < l.n; i++) {
        fputs("<p class=\"run\">", out);
        hm_html_text(out, l.v[i].text);
        fputs("</p>\n", out);
    }
    hm_lines_clear(&l);
    if (r->n_rows[HM_T_problem]) {
        fputs("<div class=\"warn\" role=\"note\"><strong>Problems with the data</strong><ul>\n",
              out);
        for (uint32_t i = 0; i < r->n_rows[HM_T_problem]; i++) {
            const struct hm_out_problem *p = hm_result_row(r, HM_T_problem, i);
            fputs("<li>", out);
            hm_html_text(out, p->file ? p->file : "");
            fputs(": ", out);
            hm_html_text(out, p->what ? p->what : "");
            fputs("</li>\n", out);
        }
        fputs("</ul></div>\n", out);
    }
    fputs("</header>\n<main>\n", out);
    hm_words_head(run, r, &l);
    lines(out, &l);
    hm_lines_clear(&l);
}

static void pictures(const struct hm_result *r, FILE *out)
{
    enum { MANY = 32 };
    struct hm_view v;
    fputs("<h2>What each rank does in a step</h2>\n<p class=\"note\">The latest first. A rank that "
          "holds the others up waits least itself: look for a short red part.</p>\n",
          out);
    hm_html_legend(out);
    hm_html_ranks(r, out);
    if (r->n_rows[HM_T_rank] > MANY) {
        hm_view_lateness(r, &v);
        table(out, &v, 0);
    }
    hm_view_ranks(r, SHOWN, &v);
    table(out, &v, 1);
    if (r->n_rows[HM_T_step] > 1) {
        fputs("<h2>The steps, one after another</h2>\n<p class=\"note\">Mean of the ranks. Columns "
              "that grow from some step on, or single high ones, tell when it began.</p>\n",
              out);
        hm_html_steps(r, out);
        hm_view_table(r, HM_T_step, SHOWN, &v);
        table(out, &v, 1);
    }
    fputs("<h2>Where the time goes</h2>\n", out);
    hm_view_ledger(r, &v);
    table(out, &v, 0);
    fputs(
        "<h2>Collectives</h2>\n<p class=\"note\">Skew: first to last arrival. Core: last arrival to "
        "first end. Bus bandwidth over last arrival to last end, as nccl-tests counts it.</p>\n",
        out);
    hm_view_ops(r, SHOWN, &v);
    table(out, &v, 0);
    fputs("<h2>Kernels</h2>\n", out);
    hm_view_kernels(r, SHOWN, &v);
    table(out, &v, 0);
}

static void rest(const struct hm_run *run, const struct hm_result *r, FILE *out)
{
    struct hm_lines l = {0};
    struct hm_view v;
    char *json = NULL;
    size_t size = 0;
    fputs("<h2>Can it be trusted?</h2>\n", out);
    hm_words_tail(r, &l);
    lines(out, &l);
    hm_lines_clear(&l);
    for (int t = 0; t < HM_N_TABLES; t++) {
        if (t == HM_T_ledger || t == HM_T_op || t == HM_T_kernel || t == HM_T_problem ||
            t == HM_T_step || t == HM_T_none || t == HM_T_finding)
            continue;
        hm_view_table(r, (enum hm_result_id)t, SHOWN, &v);
        table(out, &v, 1);
    }
    /* the same as data; "<" stands in strings alone, where it may be written as an escape */
    FILE *f = open_memstream(&json, &size);
    if (f && hm_report_json(run, r, f, 0) == HM_OK && !fclose(f)) {
        fputs("<script type=\"application/json\" id=\"report\">\n", out);
        for (size_t i = 0; i < size; i++)
            if (json[i] == '<')
                fputs("\\u003c", out);
            else
                fputc(json[i], out);
        fputs("</script>\n", out);
    }
    free(json);
    fputs("<p class=\"note\">hindmost " HM_VERSION
          "; formulas and thresholds: docs/method.md.</p>\n"
          "</main></body></html>\n",
          out);
}

hm_status_t hm_report_html(const struct hm_run *run, const struct hm_result *r, const char *path)
{
    char *page = NULL;
    size_t size = 0;
    struct hm_outfile *file = NULL;
    FILE *out = open_memstream(&page, &size);
    if (!out)
        return hm_fail(HM_E_NOMEM, "report", "out of memory");
    top(run, r, out);
    pictures(r, out);
    rest(run, r, out);
    int bad = ferror(out);
    bad |= fclose(out);
    hm_status_t s =
        bad ? hm_fail(HM_E_NOMEM, "report", "out of memory") : hm_outfile_create(path, 0, &file);
    if (s == HM_OK) {
        hm_outfile_write(file, page, size);
        s = hm_outfile_commit(file);
    }
    free(page);
    return s;
}
