/* The sentences of a report. Box: merge/report. See words.h.
 *
 * What the analysis found is said in words that a reader can act on; the keys of the JSON stand in
 * brackets, so that both can be found from each other.
 */
#include "report/words.h"

#include "out/name.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void hm_lines_add(struct hm_lines *l, const char *label, enum hm_ink ink, const char *fmt, ...)
{
    char *text = NULL;
    va_list ap;
    struct hm_line *v = realloc(l->v, (l->n + 1) * sizeof(*v));
    if (!v)
        return;
    l->v = v;
    va_start(ap, fmt);
    if (vasprintf(&text, fmt, ap) < 0)
        text = NULL;
    va_end(ap);
    if (text)
        v[l->n++] = (struct hm_line){label, text, ink};
}

void hm_lines_clear(struct hm_lines *l)
{
    for (uint32_t i = 0; i < l->n; i++)
        free(l->v[i].text);
    free(l->v);
    *l = (struct hm_lines){0};
}

/* Each line of a LIST cell. */
static void add_list(struct hm_lines *l, const char *label, const char *list)
{
    for (const char *s = list ? list : ""; *s;) {
        size_t n = strcspn(s, "\n");
        hm_lines_add(l, label, HM_INK_PLAIN, "%.*s", (int)n, s);
        label = "";
        s += n + (s[n] == '\n');
    }
}

static double ms(int64_t ns)
{
    return (double)ns / 1e6;
}

struct word {
    const char *key, *text;
};
static const char *look_up(const struct word *w, size_t n, const char *key)
{
    for (size_t i = 0; key && i < n; i++)
        if (!strcmp(w[i].key, key))
            return w[i].text;
    return key ? key : "";
}
#define LOOK_UP(table, key) look_up(table, sizeof(table) / sizeof(*(table)), key)

const char *hm_words_cause(const char *cause)
{
    static const struct word w[] = {{"slow_gpu", "slow GPU"},
                                    {"gpu_config", "GPU set up differently"},
                                    {"gpu_shared", "another process on the GPU"},
                                    {"more_work", "more work than its peers"},
                                    {"input", "input comes late"},
                                    {"host_cpu", "host launches late"},
                                    {"host_blocked", "host is blocked"},
                                    {"host_descheduled", "host thread did not get a CPU"},
                                    {"allocator", "memory allocation"},
                                    {"sync", "host waits for its GPU"},
                                    {"launch_serialised", "one thread launches for several GPUs"},
                                    {"module_load", "GPU code is loaded at first use"},
                                    {"checkpoint", "checkpoint"},
                                    {"queue", "launched in time, started late"},
                                    {"network", "network"},
                                    {"observer", "the recording itself"},
                                    {"mixed", "several causes"},
                                    {"unknown", "not known"}};
    return LOOK_UP(w, cause);
}

const char *hm_words_ledger(const char *kind)
{
    static const struct word w[] = {{"compute", "compute"},
                                    {"transfer", "collectives: moving data"},
                                    {"wait", "collectives: waiting for the last"},
                                    {"copy", "copies"},
                                    {"input", "GPU idle: input"},
                                    {"idle", "GPU idle: other"},
                                    {"straggler", "held up by the ranks above"},
                                    {"imbalance_role", "uneven stages"},
                                    {"imbalance_rotating", "uneven work, in turn"},
                                    {"jitter", "hosts late, now and then"},
                                    {"bubble", "pipeline bubble"},
                                    {"checkpoint", "checkpoints"},
                                    {"one_off", "single events"},
                                    {"unexplained", "not explained"}};
    return LOOK_UP(w, kind);
}

const char *hm_words_kernel(const char *name, char buf[256])
{
    hm_name_pretty(name ? name : "", buf, 256);
    return buf;
}

int hm_words_is_subject(const struct hm_result *r, int64_t rank)
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

/* ---- commands ---- */

/* A path as one word of a shell. */
static char *quoted(const char *path)
{
    size_t n = strlen(path), k = 0;
    char *q = malloc(4 * n + 3);
    if (!q)
        return NULL;
    int plain = n &&
                strspn(path, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                             "_./:+@%,=-") == n &&
                *path != '-';
    if (plain) {
        memcpy(q, path, n + 1);
        return q;
    }
    q[k++] = '\'';
    for (size_t i = 0; i < n; i++) {
        if (path[i] == '\'') {
            memcpy(q + k, "'\\''", 4);
            k += 4;
        } else {
            q[k++] = path[i];
        }
    }
    q[k++] = '\'';
    q[k] = 0;
    return q;
}

char *hm_words_next(const struct hm_run *run, const char *next)
{
    static const char *const command[] = {"hindmost merge ", "hindmost report "};
    char *all = NULL, *q = quoted(run->path ? run->path : "");
    size_t size = 0;
    FILE *out = q && next ? open_memstream(&all, &size) : NULL;
    for (const char *s = next; out && *s;) {
        size_t n = strcspn(s, "\n"), put = 0;
        for (size_t i = 0; *q && i < sizeof(command) / sizeof(*command); i++) {
            size_t k = strlen(command[i]);
            if (k < n && !strncmp(s, command[i], k) && s[k] == '-') { /* no run is named yet */
                fprintf(out, "%s%s ", command[i], q);
                put = k;
            }
        }
        fprintf(out, "%.*s\n", (int)(n - put), s + put);
        s += n + (s[n] == '\n');
    }
    free(q);
    if (out && fclose(out)) {
        free(all);
        all = NULL;
    }
    return all;
}

/* ---- the head ---- */

void hm_words_run(const struct hm_run *run, const struct hm_result *r, struct hm_lines *l)
{
    const struct hm_out_steps *s = hm_result_row(r, HM_T_steps, 0);
    uint32_t hosts = 0;
    char step[64] = "";
    for (uint32_t i = 0; i < run->n_present; i++) {
        uint32_t k = 0;
        while (k < i && strcmp(run->rank[k].host ? run->rank[k].host : "",
                               run->rank[i].host ? run->rank[i].host : "") != 0)
            k++;
        hosts += k == i;
    }
    if (s && !HM_IS_NONE(s->median_ns))
        snprintf(step, sizeof(step), "   %.2f ms a step (median)", ms(s->median_ns));
    hm_lines_add(l, "", HM_INK_PLAIN, "%u rank%s, %u host%s   %" PRId64 " step%s   %.3f s%s",
                 run->n_present, run->n_present == 1 ? "" : "s", hosts, hosts == 1 ? "" : "s",
                 s ? s->n : 0, s && s->n == 1 ? "" : "s", s ? (double)s->total_ns / 1e9 : 0.0,
                 step);
    const struct hm_out_selection *only = hm_result_row(r, HM_T_selection, 0);
    if (only && !HM_IS_NONE(only->first_step)) {
        char last[24] = "the end";
        if (only->last_step != INT64_MAX)
            snprintf(last, sizeof(last), "%" PRId64, only->last_step);
        hm_lines_add(l, "", HM_INK_UNSURE, "only steps %" PRId64 " to %s are analysed",
                     only->first_step, last);
    }
    if (only && only->ranks)
        hm_lines_add(l, "", HM_INK_UNSURE, "only ranks %s are shown; all were analysed",
                     only->ranks);
}

static void add_gain(const struct hm_result *r, const struct hm_out_finding *f, struct hm_lines *l)
{
    const struct hm_out_steps *s = hm_result_row(r, HM_T_steps, 0);
    if (HM_IS_NONE(f->gain_ns) || !s || s->n <= 0)
        return;
    double n = (double)s->n;
    hm_lines_add(l, "GAIN", HM_INK_PLAIN,
                 "%.3f s of %.3f s (%.1f %%). Repaired: %.2f -> %.2f ms a step; %.4f GPU hours.",
                 (double)f->gain_ns / 1e9, (double)s->total_ns / 1e9, (double)f->gain_frac / 1e7,
                 ms(s->total_ns) / n, ms(s->total_ns - f->gain_ns) / n,
                 HM_IS_NONE(f->gain_gpu_ns) ? 0.0 : (double)f->gain_gpu_ns / 3.6e12);
}

static void add_finding(const struct hm_result *r, const struct hm_out_finding *f,
                        struct hm_lines *l)
{
    const char *p = f->pattern ? f->pattern : "";
    hm_lines_add(l, "VERDICT", HM_INK_BAD, "%s", f->text ? f->text : "");
    if (!HM_IS_NONE(f->from_step) && !strcmp(p, "from_step"))
        hm_lines_add(l, "", HM_INK_PLAIN, "since step %" PRId64, f->from_step);
    else if (!HM_IS_NONE(f->from_step) && !strcmp(p, "one_off"))
        hm_lines_add(l, "", HM_INK_PLAIN, "once, in step %" PRId64, f->from_step);
    else if (!strcmp(p, "periodic") || !strcmp(p, "episode"))
        hm_lines_add(l, "", HM_INK_PLAIN, "%s",
                     *p == 'p' ? "again and again, at equal distances" : "for a part of the run");
    add_gain(r, f, l);
    const char *cause = f->cause ? f->cause : "unknown";
    if (!strcmp(cause, "unknown") && f->evidence) {
        add_list(l, "CAUSE", f->evidence); /* what is known of it */
    } else {
        if (!HM_IS_NONE(f->explained_frac))
            hm_lines_add(l, "CAUSE", HM_INK_PLAIN, "%s (%s): %.0f %% of its lateness",
                         hm_words_cause(cause), cause, (double)f->explained_frac / 1e7);
        else
            hm_lines_add(l, "CAUSE", HM_INK_PLAIN, "%s (%s)", hm_words_cause(cause), cause);
        add_list(l, "", f->evidence);
    }
    add_list(l, "RULED OUT", f->ruled_out);
}

static void add_sure(const struct hm_result *r, const struct hm_out_none *n,
                     const struct hm_out_finding *f, struct hm_lines *l)
{
    const struct hm_out_quality *q = hm_result_row(r, HM_T_quality, 0);
    char matched[64], error[64] = "clock error not known", chance[64] = "", lost[64];
    int64_t n_lost = 0;
    if (!q)
        return;
    for (unsigned k = 0; k < HM_N_LOST; k++)
        n_lost += r->lost[k];
    if (HM_IS_NONE(q->matched_frac))
        snprintf(matched, sizeof(matched), "no collectives");
    else if (q->matched_frac == 1000000000)
        snprintf(matched, sizeof(matched), "all collectives matched");
    else
        snprintf(matched, sizeof(matched), "%.1f %% of the collectives matched",
                 (double)q->matched_frac / 1e7);
    if (!HM_IS_NONE(q->clock_error_ns))
        snprintf(error, sizeof(error), "clock error %.1f us", (double)q->clock_error_ns / 1e3);
    if (!n && f && f->p_value >= 0)
        snprintf(chance, sizeof(chance), "by chance with p = %.2g; ", f->p_value);
    if (n_lost)
        snprintf(lost, sizeof(lost), "%" PRId64 " events lost", n_lost);
    else
        snprintf(lost, sizeof(lost), "nothing lost");
    const char *sure = n ? n->status : f ? f->confidence : NULL;
    uint32_t n_problems = r->n_rows[HM_T_problem];
    char problems[64] = "";
    if (n_problems)
        snprintf(problems, sizeof(problems), " (%u problem%s, at the end)", n_problems,
                 n_problems == 1 ? "" : "s");
    hm_lines_add(l, "SURE", HM_INK_PLAIN, "%s: %s%s; %s; %s; data %s%s", sure ? sure : "not known",
                 chance, error, matched, lost, q->grade ? q->grade : "none", problems);
}

static void add_none(const struct hm_result *r, const struct hm_out_none *n, struct hm_lines *l)
{
    int good = n->status && !strcmp(n->status, "none");
    (void)r;
    hm_lines_add(l, "VERDICT", good ? HM_INK_GOOD : HM_INK_UNSURE, "%s: %s",
                 n->status ? n->status : "", n->text ? n->text : "");
    if (n->loss_kind && !HM_IS_NONE(n->loss_frac))
        hm_lines_add(l, "", HM_INK_PLAIN, "largest loss: %s, %.1f %% of the time",
                     hm_words_ledger(n->loss_kind), (double)n->loss_frac / 1e7);
}

/* In the words of the tool that made the trace. */
static const char *how_to_mark(const struct hm_run *run)
{
    switch (run->n_present ? run->rank[0].source : HM_SOURCE_RECORDER) {
    case HM_SOURCE_KINETO:
        return "call profiler.step() after each step, with a schedule of 20 active steps";
    case HM_SOURCE_NSYS:
        return "put an NVTX range around each step, named \"step 17\" or \"iteration 17\"";
    case HM_SOURCE_INSPECTOR:
        return "record with hindmost run: these files have no steps and no times";
    default:
        return "say where a step begins: hm_step(i) of hindmost/hindmost.h";
    }
}

void hm_words_head(const struct hm_run *run, const struct hm_result *r, struct hm_lines *l)
{
    static const char merge[] = "hindmost merge -o trace.json   shows the steps on one timeline";
    const struct hm_out_none *n = hm_result_row(r, HM_T_none, 0);
    const struct hm_out_finding *f = hm_result_row(r, HM_T_finding, 0);
    const struct hm_out_steps *s = hm_result_row(r, HM_T_steps, 0);
    if (n)
        add_none(r, n, l);
    else if (f)
        add_finding(r, f, l);
    add_sure(r, n, f, l);
    int no_marks = n && s && s->source && !strcmp(s->source, "none");
    if (no_marks)
        hm_lines_add(l, "NEXT", HM_INK_PLAIN, "%s", how_to_mark(run));
    char *next = hm_words_next(run, !n && f && f->next ? f->next : merge);
    add_list(l, no_marks ? "" : "NEXT", next);
    free(next);
    for (uint32_t i = n ? 0 : 1; i < r->n_rows[HM_T_finding]; i++) {
        const struct hm_out_finding *more = hm_result_row(r, HM_T_finding, i);
        hm_lines_add(l, "also", HM_INK_PLAIN, "%s", more->text ? more->text : "");
    }
}

void hm_words_tail(const struct hm_result *r, struct hm_lines *l)
{
    const struct hm_out_quality *q = hm_result_row(r, HM_T_quality, 0);
    if (q) {
        char error[64] = "error not known";
        int suspect = q->clock_suspect == 1;
        if (!HM_IS_NONE(q->clock_error_ns))
            snprintf(error, sizeof(error), "largest error %.1f us",
                     (double)q->clock_error_ns / 1e3);
        hm_lines_add(l, "Clocks", HM_INK_PLAIN, "%s, %" PRId64 " violations, arrivals by %s%s",
                     error, HM_IS_NONE(q->violations) ? 0 : q->violations,
                     suspect             ? "durations"
                     : q->arrival_source ? q->arrival_source
                                         : "nothing",
                     suspect ? ", clocks suspect" : "");
    }
    int any = 0;
    for (unsigned k = 0; k < HM_N_LOST; k++) {
        if (!r->lost[k])
            continue;
        hm_lines_add(l, any ? "" : "Loss", HM_INK_PLAIN, "%" PRId64 " %s; %s", r->lost[k],
                     hm_loss_text((enum hm_loss)k), hm_loss_cure((enum hm_loss)k));
        any = 1;
    }
    if (!any)
        hm_lines_add(l, "Loss", HM_INK_PLAIN, "nothing lost");
    for (uint32_t i = 0; i < r->n_rows[HM_T_problem]; i++) {
        const struct hm_out_problem *p = hm_result_row(r, HM_T_problem, i);
        hm_lines_add(l, "Problem", HM_INK_PLAIN, "%s: %s", p->file ? p->file : "",
                     p->what ? p->what : "");
    }
}
