/* The printed report: head, ranks, ledger, collectives, clocks, losses.
 *
 * Box: merge/report. Plain ASCII, 100 columns; bytes of foreign names that a terminal would obey
 * are shown as '?'. Times in ms a step unless said.
 */
#include "out/name.h"
#include "report/report.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 100, INDENT = 10 };

static double ms(int64_t ns)
{
    return (double)ns / 1e6;
}

static const char *safe(const char *s, char *buf, size_t cap)
{
    size_t n = 0;
    for (; s && *s && n + 1 < cap; s++)
        buf[n++] = *s >= 0x20 && *s < 0x7F ? *s : '?';
    buf[n] = 0;
    return buf;
}

/* "HEAD      text", wrapped at 100 columns, continued under the text. */
static void paragraph(FILE *out, const char *head, const char *text)
{
    char line[4096];
    safe(text, line, sizeof(line));
    size_t room = COLUMNS - INDENT;
    const char *s = line;
    fprintf(out, "%-*s", INDENT, head);
    for (;;) {
        size_t n = strlen(s);
        if (n > room) {
            n = room;
            while (n > 0 && s[n] != ' ')
                n--;
            n = n ? n : room;
        }
        fprintf(out, "%.*s\n", (int)n, s);
        s += n;
        s += strspn(s, " ");
        if (!*s)
            break;
        fprintf(out, "%-*s", INDENT, "");
    }
}

static void paragraphf(FILE *out, const char *head, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static void paragraphf(FILE *out, const char *head, const char *fmt, ...)
{
    char text[2048];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    paragraph(out, head, text);
}

static void list(FILE *out, const char *head, const char *lines)
{
    for (const char *s = lines ? lines : ""; *s;) {
        size_t n = strcspn(s, "\n");
        paragraphf(out, head, "%.*s", (int)n, s);
        head = "";
        s += n + (s[n] == '\n');
    }
}

static const char *plain(double frac, char *buf, size_t cap)
{
    snprintf(buf, cap, "%.1f %%", 100 * frac);
    return buf;
}

static void head_finding(FILE *out, const struct hm_result *r, const struct hm_out_finding *f)
{
    const struct hm_out_steps *s = hm_result_row(r, HM_T_steps, 0);
    paragraph(out, "VERDICT", f->text);
    if (f->pattern && !strcmp(f->pattern, "from_step") && !HM_IS_NONE(f->from_step))
        paragraphf(out, "", "from step %" PRId64 " on", f->from_step);
    if (!HM_IS_NONE(f->gain_ns) && s && s->n > 0) {
        char p[32];
        paragraphf(out, "GAIN",
                   "%.3f s of %.3f s (%s). Repaired: %.2f -> %.2f ms a step; %.4f GPU hours.",
                   (double)f->gain_ns / 1e9, (double)s->total_ns / 1e9,
                   plain((double)f->gain_frac / 1e9, p, sizeof(p)), ms(s->total_ns) / (double)s->n,
                   ms(s->total_ns - f->gain_ns) / (double)s->n, (double)f->gain_gpu_ns / 3.6e12);
    }
    if (!HM_IS_NONE(f->explained_frac))
        paragraphf(out, "CAUSE", "%s (explains %.0f %% of its lateness)", f->cause ? f->cause : "",
                   (double)f->explained_frac / 1e7);
    else
        paragraphf(out, "CAUSE", "%s", f->cause ? f->cause : "unknown");
    list(out, "", f->evidence);
    if (f->ruled_out)
        list(out, "  not it:", f->ruled_out);
}

static const char *clock_error(const struct hm_out_quality *q, char *buf, size_t cap)
{
    if (HM_IS_NONE(q->clock_error_ns))
        return "unknown";
    snprintf(buf, cap, "%.1f us", (double)q->clock_error_ns / 1e3);
    return buf;
}

static void head(FILE *out, const struct hm_result *r)
{
    const struct hm_out_none *n = hm_result_row(r, HM_T_none, 0);
    const struct hm_out_finding *f = hm_result_row(r, HM_T_finding, 0);
    const struct hm_out_quality *q = hm_result_row(r, HM_T_quality, 0);
    if (n) {
        paragraphf(out, "VERDICT", "%s: %s", n->status ? n->status : "", n->text ? n->text : "");
        if (n->loss_kind && !HM_IS_NONE(n->loss_frac))
            paragraphf(out, "", "largest loss: %s, %.1f %% of the time", n->loss_kind,
                       (double)n->loss_frac / 1e7);
    } else if (f) {
        head_finding(out, r, f);
    }
    int64_t lost = 0;
    for (unsigned k = 0; k < HM_N_LOST; k++)
        lost += r->lost[k];
    if (q) {
        char matched[48], error[32];
        if (HM_IS_NONE(q->matched_frac))
            snprintf(matched, sizeof(matched), "no collectives");
        else
            snprintf(matched, sizeof(matched), "%.1f %% of collectives matched",
                     (double)q->matched_frac / 1e7);
        char p[32] = "";
        if (!n && f && f->p_value >= 0)
            snprintf(p, sizeof(p), "p = %.2g; ", f->p_value);
        paragraphf(out, "SURE", "%s; data %s; %sclock error %s; %s; %" PRId64 " events lost",
                   n                    ? n->status
                   : f && f->confidence ? f->confidence
                                        : "",
                   q->grade, p, clock_error(q, error, sizeof(error)), matched, lost);
    }
    if (!n && f)
        list(out, "NEXT", f->next);
    else
        paragraph(out, "NEXT", "hindmost merge -o trace.json   shows the steps on one timeline");
    for (uint32_t i = n ? 0 : 1; i < r->n_rows[HM_T_finding]; i++) {
        const struct hm_out_finding *more = hm_result_row(r, HM_T_finding, i);
        paragraph(out, "also", more->text ? more->text : "");
    }
}

static int by_late(const void *x, const void *y)
{
    const struct hm_out_rank *p = *(const struct hm_out_rank *const *)x,
                             *q = *(const struct hm_out_rank *const *)y;
    if (p->late_ns != q->late_ns)
        return p->late_ns > q->late_ns ? -1 : 1;
    return (p->rank > q->rank) - (p->rank < q->rank);
}

static int is_subject(const struct hm_result *r, int64_t rank)
{
    const struct hm_out_finding *f = hm_result_row(r, HM_T_finding, 0);
    if (!f || hm_result_row(r, HM_T_none, 0))
        return 0;
    for (const char *s = f->ids ? f->ids : ""; *s;) {
        char *end;
        if (strtoll(s, &end, 10) == rank && end != s)
            return 1;
        if (end == s)
            break;
        s = *end == ',' ? end + 1 : end;
    }
    return 0;
}

static void ranks(FILE *out, const struct hm_result *r)
{
    enum { SHOWN = 32 };
    const struct hm_out_steps *s = hm_result_row(r, HM_T_steps, 0);
    uint32_t n = r->n_rows[HM_T_rank];
    double per = s && s->n > 0 ? 1e6 * (double)s->n : 1e6;
    const struct hm_out_rank **v = malloc((n + 1) * sizeof(*v));
    if (!v || !n) {
        free(v);
        return;
    }
    for (uint32_t i = 0; i < n; i++)
        v[i] = hm_result_row(r, HM_T_rank, i);
    qsort(v, n, sizeof(*v), by_late);
    fprintf(out, "\nPer rank, ms a step (mean; compute + exposed + copy + idle = total)\n"
                 "rank  host          gpu  compute  exposed     copy     idle    total     stall"
                 "  last in     late\n");
    for (uint32_t i = 0; i < n && i < SHOWN; i++) {
        char host[16], gpu[16];
        snprintf(gpu, sizeof(gpu), HM_IS_NONE(v[i]->device) ? "-" : "%" PRId64, v[i]->device);
        fprintf(out,
                "%4" PRId64 "  %-12.12s %4s %8.2f %8.2f %8.2f %8.2f %8.2f  %8.2f %8" PRId64
                " %8.2f%s\n",
                v[i]->rank, safe(v[i]->host, host, sizeof(host)), gpu,
                (double)v[i]->compute_ns / per, (double)v[i]->exposed_comm_ns / per,
                (double)v[i]->memcpy_ns / per, (double)v[i]->idle_ns / per,
                (double)v[i]->window_ns / per, (double)v[i]->stall_ns / per, v[i]->last_in_steps,
                (double)v[i]->late_ns / per, is_subject(r, v[i]->rank) ? "  <-" : "");
    }
    if (n > SHOWN)
        fprintf(out, "... %u more: hindmost report --csv ranks\n", n - SHOWN);
    free(v);
}

static void ledger(FILE *out, const struct hm_result *r)
{
    fprintf(out, "\nWhere the time goes (mean of the ranks)\n");
    for (uint32_t i = 0; i < r->n_rows[HM_T_ledger]; i++) {
        const struct hm_out_ledger *l = hm_result_row(r, HM_T_ledger, i);
        fprintf(out, "  %-10s %12.3f ms", l->kind, ms(l->ns));
        if (!HM_IS_NONE(l->frac))
            fprintf(out, "  %5.1f %%", (double)l->frac / 1e7);
        fputc('\n', out);
    }
}

static void ops(FILE *out, const struct hm_result *r)
{
    enum { SHOWN = 20 };
    if (!r->n_rows[HM_T_op])
        return;
    fprintf(out,
            "\nCollectives              ranks        n        bytes   skew p50 / max ms    core "
            "ms  busbw GB/s\n");
    for (uint32_t i = 0; i < r->n_rows[HM_T_op] && i < SHOWN; i++) {
        const struct hm_out_op *o = hm_result_row(r, HM_T_op, i);
        char busbw[24] = "-";
        if (!HM_IS_NONE(o->busbw_bps))
            snprintf(busbw, sizeof(busbw), "%.2f", (double)o->busbw_bps / 1e9);
        fprintf(out,
                "%08" PRIx64 "  %-13s %5" PRId64 " %8" PRId64 " %12" PRId64
                " %9.3f /%8.3f %10.3f  %10s\n",
                o->comm >> 32, o->func, o->n_ranks, o->n, o->bytes, ms(o->skew_p50_ns),
                ms(o->skew_max_ns), ms(o->core_p50_ns), busbw);
    }
    if (r->n_rows[HM_T_op] > SHOWN)
        fprintf(out, "... %u more: hindmost report --csv ops\n", r->n_rows[HM_T_op] - SHOWN);
}

static void kernels(FILE *out, const struct hm_result *r)
{
    enum { SHOWN = 8 };
    if (!r->n_rows[HM_T_kernel])
        return;
    fprintf(out, "\nKernels (no communication beside them)                      n     total ms  "
                 "slowest rank\n");
    for (uint32_t i = 0; i < r->n_rows[HM_T_kernel] && i < SHOWN; i++) {
        const struct hm_out_kernel *k = hm_result_row(r, HM_T_kernel, i);
        char pretty[256], name[44];
        hm_name_pretty(k->name ? k->name : "", pretty, sizeof(pretty));
        fprintf(out, "  %-43.43s %15" PRId64 " %12.3f", safe(pretty, name, sizeof(name)), k->n,
                ms(k->total_ns));
        if (!HM_IS_NONE(k->worst_ratio))
            fprintf(out, "  rank %" PRId64 " %.3fx%s", k->worst_rank, (double)k->worst_ratio / 1e9,
                    k->is_control == 1 ? " control" : "");
        fputc('\n', out);
    }
}

static void tail(FILE *out, const struct hm_result *r)
{
    const struct hm_out_quality *q = hm_result_row(r, HM_T_quality, 0);
    char error[32];
    if (q)
        fprintf(out, "\nClocks    largest error %s, %" PRId64 " violations, arrivals by %s%s\n",
                clock_error(q, error, sizeof(error)), q->violations,
                q->clock_suspect == 1 ? "durations" : q->arrival_source,
                q->clock_suspect == 1 ? ", clocks suspect" : "");
    int any = 0;
    for (unsigned k = 0; k < HM_N_LOST; k++) {
        if (!r->lost[k])
            continue;
        paragraphf(out, any ? "" : "Loss", "%" PRId64 " %s; %s", r->lost[k],
                   hm_loss_text((enum hm_loss)k), hm_loss_cure((enum hm_loss)k));
        any = 1;
    }
    if (!any)
        fprintf(out, "Loss      nothing lost\n");
    for (uint32_t i = 0; i < r->n_rows[HM_T_problem]; i++) {
        const struct hm_out_problem *p = hm_result_row(r, HM_T_problem, i);
        paragraphf(out, "Problem", "%s: %s", p->file, p->what);
    }
}

hm_status_t hm_report_text(const struct hm_run *run, const struct hm_result *r, FILE *out)
{
    const struct hm_out_steps *s = hm_result_row(r, HM_T_steps, 0);
    char path[1024];
    uint32_t hosts = 0;
    for (uint32_t i = 0; i < run->n_present; i++) {
        uint32_t k = 0;
        while (k < i && strcmp(run->rank[k].host ? run->rank[k].host : "",
                               run->rank[i].host ? run->rank[i].host : "") != 0)
            k++;
        hosts += k == i;
    }
    fprintf(out, "%s   %u ranks, %u host%s   %" PRId64 " steps   %.3f s",
            safe(run->path, path, sizeof(path)), run->n_present, hosts, hosts == 1 ? "" : "s",
            s ? s->n : 0, s ? (double)s->total_ns / 1e9 : 0.0);
    if (s && !HM_IS_NONE(s->median_ns))
        fprintf(out, "   %.2f ms a step (median)", ms(s->median_ns));
    fprintf(out, "\n\n");
    head(out, r);
    ranks(out, r);
    ledger(out, r);
    ops(out, r);
    kernels(out, r);
    tail(out, r);
    return ferror(out) ? hm_fail(HM_E_IO, "report", "cannot write the report") : HM_OK;
}

hm_status_t hm_report_digest(const struct hm_run *run, const struct hm_result *r, const char *path,
                             FILE *out)
{
    const struct hm_out_steps *s = hm_result_row(r, HM_T_steps, 0);
    const struct hm_out_none *n = hm_result_row(r, HM_T_none, 0);
    const struct hm_out_finding *f = hm_result_row(r, HM_T_finding, 0);
    char text[1024], where[1024];
    fprintf(out, "hindmost: %u of %u ranks, %" PRId64 " steps", run->n_present, run->n_ranks,
            s ? s->n : 0);
    if (s && !HM_IS_NONE(s->median_ns))
        fprintf(out, ", %.2f ms a step", ms(s->median_ns));
    const char *words = n ? n->text : f ? f->text : "nothing to judge";
    fprintf(out, "\nhindmost: %s\n", safe(words ? words : "", text, sizeof(text)));
    fprintf(out, "hindmost: next: hindmost report %s\n", safe(path, where, sizeof(where)));
    return ferror(out) ? HM_E_IO : HM_OK;
}
