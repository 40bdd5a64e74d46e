/* The pictures of the HTML page: plain SVG, made here, no script. Box: merge/report. See html.h.
 *
 * Each has its numbers in a table of the page as well, and a sentence that says what to look for.
 */
#include "report/html.h"
#include "report/words.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 960, BAR_H = 18, BARS = 32, LABEL = 150, STEPS_H = 200, TOP = 16, COLUMNS = 480 };
enum part { COMPUTE, TRANSFER, STALL, COPY, IDLE, N_PARTS };
static const char *const part_name[N_PARTS] = {"compute", "communication, moving data",
                                               "communication, waiting", "copies", "idle"};

void hm_html_legend(FILE *out)
{
    fputs("<p class=\"legend\">", out);
    for (int k = 0; k < N_PARTS; k++)
        fprintf(out, "<span class=\"key p%d\"></span>%s ", k, part_name[k]);
    fputs("</p>\n", out);
}

static int64_t known(int64_t v)
{
    return HM_IS_NONE(v) || v < 0 ? 0 : v;
}

static void parts_of_rank(const struct hm_out_rank *q, int64_t v[N_PARTS])
{
    int64_t exposed = known(q->exposed_comm_ns), stall = known(q->stall_ns);
    stall = stall < exposed ? stall : exposed;
    v[COMPUTE] = known(q->compute_ns);
    v[TRANSFER] = exposed - stall;
    v[STALL] = stall;
    v[COPY] = known(q->memcpy_ns);
    v[IDLE] = known(q->idle_ns);
}

static int by_late(const void *x, const void *y)
{
    const struct hm_out_rank *p = *(const struct hm_out_rank *const *)x,
                             *q = *(const struct hm_out_rank *const *)y;
    if (p->late_ns != q->late_ns)
        return p->late_ns > q->late_ns ? -1 : 1;
    return (p->rank > q->rank) - (p->rank < q->rank);
}

void hm_html_ranks(const struct hm_result *r, FILE *out)
{
    const struct hm_out_steps *steps = hm_result_row(r, HM_T_steps, 0);
    uint32_t n = r->n_rows[HM_T_rank];
    const struct hm_out_rank **q = malloc((n + 1) * sizeof(*q));
    double per = steps && steps->n > 0 ? 1e6 * (double)steps->n : 1e6, most = 0;
    for (uint32_t i = 0; q && i < n; i++) {
        q[i] = hm_result_row(r, HM_T_rank, i);
        most = (double)known(q[i]->window_ns) > most ? (double)known(q[i]->window_ns) : most;
    }
    if (!q || !n || most <= 0) {
        free(q);
        return;
    }
    qsort(q, n, sizeof(*q), by_late);
    uint32_t shown = n < BARS ? n : BARS;
    fprintf(out,
            "<svg role=\"img\" aria-label=\"Bars: what each rank does in a step\" viewBox=\"0 0 %d "
            "%u\">\n",
            WIDTH, shown * BAR_H + 20);
    for (uint32_t i = 0; i < shown; i++) {
        int64_t v[N_PARTS];
        double x = LABEL, y = i * BAR_H;
        parts_of_rank(q[i], v);
        fprintf(out, "<text x=\"%d\" y=\"%.0f\" class=\"%s\">rank %" PRId64 " ", LABEL - 6,
                y + BAR_H - 5, hm_words_is_subject(r, q[i]->rank) ? "end bad" : "end", q[i]->rank);
        hm_html_text(out, q[i]->host ? q[i]->host : "");
        fputs("</text>", out);
        for (int k = 0; k < N_PARTS; k++) {
            double w = (double)v[k] / most * (WIDTH - LABEL);
            if (w > 0)
                fprintf(out,
                        "<rect class=\"p%d\" x=\"%.2f\" y=\"%.0f\" width=\"%.2f\" height=\"%d\">"
                        "<title>%s: %.3f ms</title></rect>",
                        k, x, y + 2, w, BAR_H - 4, part_name[k], (double)v[k] / per);
            x += w;
        }
        fputc('\n', out);
    }
    fprintf(out,
            "<text x=\"%d\" y=\"%u\">0</text><text x=\"%d\" y=\"%u\" class=\"end\">%.2f ms</text>"
            "</svg>\n",
            LABEL, shown * BAR_H + 15, WIDTH, shown * BAR_H + 15, most / per);
    if (shown < n)
        fprintf(out, "<p class=\"note\">The %u latest of %u ranks.</p>\n", shown, n);
    free(q);
}

/* Sums of the steps that share a column: many steps, few pixels. */
struct column {
    int64_t v[N_PARTS], n, late;
    int64_t first, last;
};

static void add_step(struct column *c, const struct hm_out_step *s)
{
    int64_t exposed = known(s->exposed_comm_ns), stall = known(s->stall_ns);
    stall = stall < exposed ? stall : exposed;
    int64_t rest = known(s->time_ns) - known(s->compute_ns) - exposed;
    c->v[COMPUTE] += known(s->compute_ns);
    c->v[TRANSFER] += exposed - stall;
    c->v[STALL] += stall;
    c->v[IDLE] += rest > 0 ? rest : 0;
    c->late += known(s->late_ns);
    c->last = s->step;
    if (!c->n++)
        c->first = s->step;
}

static double total_of(const struct column *c)
{
    double sum = 0;
    for (int k = 0; k < N_PARTS; k++)
        sum += (double)c->v[k];
    return c->n ? sum / (double)c->n : 0;
}

void hm_html_steps(const struct hm_result *r, FILE *out)
{
    uint32_t n = r->n_rows[HM_T_step], each = (n + COLUMNS - 1) / COLUMNS;
    uint32_t n_columns = each ? (n + each - 1) / each : 0;
    struct column *c = calloc(n_columns + 1, sizeof(*c));
    double most = 0;
    if (!c || n_columns < 2) {
        free(c);
        return;
    }
    for (uint32_t i = 0; i < n; i++)
        add_step(&c[i / each], hm_result_row(r, HM_T_step, i));
    for (uint32_t i = 0; i < n_columns; i++)
        most = total_of(&c[i]) > most ? total_of(&c[i]) : most;
    double w = (double)WIDTH / n_columns;
    fprintf(out,
            "<svg role=\"img\" aria-label=\"Columns: the steps by what they are made of\" "
            "viewBox=\"0 0 %d %d\">\n",
            WIDTH, STEPS_H + 20);
    for (uint32_t i = 0; i < n_columns && most > 0; i++) {
        double y = STEPS_H;
        fputs("<g>", out);
        for (int k = 0; k < N_PARTS; k++) {
            double h = (double)c[i].v[k] / (double)c[i].n / most * (STEPS_H - TOP);
            y -= h;
            if (h > 0)
                fprintf(
                    out,
                    "<rect class=\"p%d\" x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\"/>", k,
                    i * w, y, w > 2 ? w - 0.5 : w, h);
        }
        fprintf(out, "<title>step %" PRId64, c[i].first);
        if (c[i].last != c[i].first)
            fprintf(out, " to %" PRId64, c[i].last);
        fprintf(out, ": %.3f ms, the last rank %.3f ms late</title></g>\n", total_of(&c[i]) / 1e6,
                (double)c[i].late / (double)c[i].n / 1e6);
    }
    fprintf(out,
            "<text x=\"0\" y=\"%d\">step %" PRId64 "</text><text x=\"%d\" y=\"%d\" class=\"end\">"
            "step %" PRId64 "</text><text x=\"%d\" y=\"12\" class=\"end\">%.2f ms</text></svg>\n",
            STEPS_H + 15, c[0].first, WIDTH, STEPS_H + 15, c[n_columns - 1].last, WIDTH,
            most / 1e6);
    free(c);
}
