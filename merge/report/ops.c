/* `hindmost report --ops`: ranges, calls and kernels by name.
 *
 * Box: merge/report. From hm_result alone. Names are hostile: cells are escaped by the view.
 */
#include "report/report.h"
#include "report/view.h"
#include "report/words.h"

#include <inttypes.h>
#include <string.h>

enum { SHOWN = 20 };

static void ms(struct hm_view *v, int64_t ns)
{
    if (HM_IS_NONE(ns))
        hm_view_cell(v, "-");
    else
        hm_view_cell(v, "%.3f", (double)ns / 1e6);
}

static void columns(struct hm_view *v, const char *title, int host)
{
    hm_view_begin(v, title);
    hm_view_column(v, "name", 1, 0);
    hm_view_column(v, "n", 0, 0);
    hm_view_column(v, host ? "total ms" : "device ms", 0, 0);
    if (host) {
        hm_view_column(v, "self ms", 0, 0);
        hm_view_column(v, "device ms", 0, 0);
        hm_view_column(v, "sync ms", 0, 2);
        hm_view_column(v, "input ms", 0, 3);
    }
    hm_view_column(v, "idle ms", 0, 1);
    hm_view_column(v, "by", 1, 4);
    if (host)
        hm_view_column(v, "peak MB", 0, 6);
    hm_view_column(v, "ms a step", 0, 2);
    hm_view_column(v, "max", 0, 5);
    hm_view_column(v, "in step", 0, 7);
    hm_view_column(v, "most on", 1, 8);
}

static void add_row(struct hm_view *v, const struct hm_out_opstat *s, int host)
{
    char pretty[256];
    hm_view_row(v, 0);
    hm_view_cell(v, "%s", hm_words_kernel(s->name ? s->name : "", pretty));
    hm_view_cell(v, "%" PRId64, s->n);
    ms(v, s->inclusive_ns);
    if (host) {
        ms(v, s->exclusive_ns);
        ms(v, s->device_ns);
        ms(v, s->sync_ns);
        ms(v, s->input_ns);
    }
    ms(v, s->idle_ns);
    hm_view_cell(v, "%s", s->idle_reason ? s->idle_reason : "");
    if (host && HM_IS_NONE(s->peak_bytes))
        hm_view_cell(v, "-");
    else if (host)
        hm_view_cell(v, "%.1f", (double)s->peak_bytes / 1e6);
    ms(v, s->step_mean_ns);
    ms(v, s->step_max_ns);
    if (HM_IS_NONE(s->step_max))
        hm_view_cell(v, "-");
    else
        hm_view_cell(v, "%" PRId64, s->step_max);
    if (HM_IS_NONE(s->rank))
        hm_view_cell(v, "rank %" PRId64, s->worst_rank);
    else
        hm_view_cell(v, " ");
}

static int same(const char *a, const char *b)
{
    return a && b && !strcmp(a, b);
}

hm_status_t hm_report_ops(const struct hm_result *r, const struct hm_report_style *style, FILE *out)
{
    static const struct {
        const char *kind, *title;
        int host;
    } part[] = {{"range", "Ranges", 1},
                {"call", "CUDA calls", 1},
                {"mpi", "MPI calls", 1},
                {"kernel", "Kernels", 0},
                {"copy", "Copies", 0}};
    uint32_t n = r->n_rows[HM_T_opstat], n_all = 0;
    const struct hm_out_opstat *s;
    while ((s = hm_result_row(r, HM_T_opstat, n_all)) && HM_IS_NONE(s->rank))
        n_all++;
    if (!n)
        fputs("No ranges, calls or kernels were recorded in the analysed steps.\n", out);
    for (uint32_t i = 0; i < n;) {
        s = hm_result_row(r, HM_T_opstat, i);
        if (i >= n_all && !style->expert)
            break;
        size_t k = 0;
        while (k + 1 < sizeof(part) / sizeof(part[0]) && !same(s->kind, part[k].kind))
            k++;
        char title[128];
        if (HM_IS_NONE(s->rank))
            snprintf(title, sizeof(title), "%s, all ranks together, over the analysed steps",
                     part[k].title);
        else
            snprintf(title, sizeof(title), "%s of rank %" PRId64, part[k].title, s->rank);
        struct hm_view v;
        columns(&v, title, part[k].host);
        const struct hm_out_opstat *t;
        uint32_t shown = 0, all = 0;
        for (;
             (t = hm_result_row(r, HM_T_opstat, i)) && t->rank == s->rank && same(t->kind, s->kind);
             i++, all++)
            if (shown < SHOWN || style->expert) {
                add_row(&v, t, part[k].host);
                shown++;
            }
        if (all > shown)
            snprintf(v.note, sizeof(v.note), "%u more: hindmost report --csv opstats", all - shown);
        hm_view_print(style, &v, out);
        fputc('\n', out);
    }
    return ferror(out) ? hm_fail(HM_E_IO, "report", "cannot write") : HM_OK;
}
