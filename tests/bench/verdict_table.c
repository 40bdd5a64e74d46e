/* Tables by fault and by noise, confusion of status and cause, errors of the gain, JSON. */
#include "verdict_table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_GROUPS = 32, MAX_WORDS = 24 };
struct tally {
    const char *name;
    uint32_t n, must, status, subject, cause, both;
    uint32_t grey, grey_right, grey_none, grey_wrong;
    uint32_t nobody, accused;
    double *error;
    uint32_t n_errors;
};
struct words {
    const char *w[MAX_WORDS];
    uint32_t n, count[MAX_WORDS][MAX_WORDS];
};

static uint32_t word(struct words *x, const char *w)
{
    uint32_t i = 0;
    if (!w[0])
        w = "-";
    while (i < x->n && strcmp(x->w[i], w))
        i++;
    if (i == x->n && x->n < MAX_WORDS)
        x->w[x->n++] = w;
    return i < MAX_WORDS ? i : MAX_WORDS - 1;
}

static void confusion(FILE *out, const char *title, const struct words *x)
{
    fprintf(out, "\n%s: rows true, columns said\n%-14s", title, "");
    for (uint32_t k = 0; k < x->n; k++)
        fprintf(out, " %9.9s", x->w[k]);
    fprintf(out, "\n");
    for (uint32_t i = 0; i < x->n; i++) {
        uint32_t sum = 0;
        for (uint32_t k = 0; k < x->n; k++)
            sum += x->count[i][k];
        if (!sum)
            continue;
        fprintf(out, "%-14.14s", x->w[i]);
        for (uint32_t k = 0; k < x->n; k++)
            fprintf(out, " %9u", x->count[i][k]);
        fprintf(out, "\n");
    }
}

static struct tally *tally_of(struct tally *t, const char *name, uint32_t n)
{
    uint32_t i = 0;
    while (i < MAX_GROUPS - 1 && t[i].name && strcmp(t[i].name, name))
        i++;
    if (!t[i].name) {
        t[i].name = name;
        t[i].error = calloc(n + 1, sizeof(double));
    }
    return &t[i];
}

static void count(struct tally *t, const struct verdict_case *c, const struct verdict_got *g)
{
    int subject = verdict_subject_right(c, g), cause = verdict_cause_right(c, g);
    int named = verdict_names_somebody(g), found = g->got.kind[0] != 0;
    t->n++;
    switch (verdict_class(c, g)) {
    case VERDICT_MUST:
        t->must++;
        t->status += (uint32_t)verdict_status_right(c, g);
        t->subject += (uint32_t)subject;
        t->cause += (uint32_t)(subject && cause);
        t->both += (uint32_t)(subject && cause);
        if (subject && g->truth.gain_ns > 0 && t->error)
            t->error[t->n_errors++] =
                (double)(g->got.gain_ns - g->truth.gain_ns) / (double)g->truth.gain_ns;
        break;
    case VERDICT_GREY:
        t->grey++;
        if (!found)
            t->grey_none++;
        else if (subject && cause)
            t->grey_right++;
        else
            t->grey_wrong++;
        break;
    case VERDICT_NOBODY:
    case VERDICT_UNKNOWABLE:
        t->nobody++;
        t->accused += (uint32_t)named;
        break;
    }
}

static int by_size(const void *a, const void *b)
{
    double x = fabs(*(const double *)a), y = fabs(*(const double *)b);
    return (x > y) - (x < y);
}

static double quantile(struct tally *t, double q)
{
    if (!t->n_errors)
        return NAN;
    qsort(t->error, t->n_errors, sizeof(*t->error), by_size);
    return fabs(t->error[(uint32_t)(q * (t->n_errors - 1) + 0.5)]);
}

static double frac(uint32_t a, uint32_t b)
{
    return b ? (double)a / b : NAN;
}

static void tallies(FILE *out, const char *title, struct tally *t)
{
    fprintf(out, "\n%-21s %5s | %5s %7s %7s %7s | %7s %7s | %5s %6s %5s %6s | %6s %7s\n", title,
            "runs", "must", "status", "subject", "+cause", "gain50", "gain90", "grey", "right",
            "none", "wrong", "nobody", "accused");
    for (uint32_t i = 0; i < MAX_GROUPS && t[i].name; i++) {
        struct tally *x = &t[i];
        fprintf(out, "%-21s %5u | %5u", x->name, x->n, x->must);
        double v[5] = {frac(x->status, x->must), frac(x->subject, x->must), frac(x->cause, x->must),
                       quantile(x, 0.5), quantile(x, 0.9)};
        for (int k = 0; k < 5; k++) {
            if (k == 3)
                fprintf(out, " |");
            if (isnan(v[k]))
                fprintf(out, " %7s", "-");
            else
                fprintf(out, " %6.1f%%", 100 * v[k]);
        }
        fprintf(out, " | %5u %6u %5u %6u | %6u %7u\n", x->grey, x->grey_right, x->grey_none,
                x->grey_wrong, x->nobody, x->accused);
    }
}

static void number(FILE *out, const char *key, double v)
{
    if (isnan(v))
        fprintf(out, ", \"%s\": null", key);
    else
        fprintf(out, ", \"%s\": %.4f", key, v);
}

static int is_wrong(const struct verdict_case *c, const struct verdict_got *g)
{
    enum verdict_class k = verdict_class(c, g);
    int right = verdict_subject_right(c, g) && verdict_cause_right(c, g);
    if (g->state != VERDICT_DONE || g->partition_wrong)
        return 1;
    if (k == VERDICT_MUST) {
        double miss = (double)(g->got.gain_ns - g->truth.gain_ns);
        return !right || !verdict_status_right(c, g) || fabs(miss) > 0.1 * (double)g->truth.gain_ns;
    }
    return k == VERDICT_GREY ? g->got.kind[0] && !right : verdict_names_somebody(g);
}

void verdict_table(FILE *out, uint32_t n, const struct verdict_got *got, double seconds)
{
    static struct tally by_fault[MAX_GROUPS], by_noise[MAX_GROUPS], all[MAX_GROUPS];
    static struct words status, cause;
    static const char *const noise_name[] = {"no noise", "to 0.5 %", "1 %", "2 %", "4 %"};
    uint32_t crashed = 0, failed = 0, partition = 0, near = 0, n_done = 0;
    double events = 0;
    struct tally *total = tally_of(all, "all", n);
    for (uint32_t i = 0; i < n; i++) {
        const struct verdict_got *g = &got[i];
        struct verdict_case c;
        if (g->state == VERDICT_TODO)
            continue;
        n_done++;
        verdict_case(i, &c);
        double s = c.demo.noise;
        const char *name = noise_name[s < 0 ? 0 : s < 0.006 ? 1 : s < 0.015 ? 2 : s < 0.03 ? 3 : 4];
        crashed += g->state == VERDICT_CRASHED || g->state == VERDICT_RUNNING;
        failed += g->state == VERDICT_FAILED;
        partition += g->partition_wrong;
        events += g->events;
        count(total, &c, g);
        count(tally_of(by_fault, c.group, n), &c, g);
        count(tally_of(by_noise, name, n), &c, g);
        if (verdict_class(&c, g) == VERDICT_GREY)
            continue;
        int must = verdict_class(&c, g) == VERDICT_MUST;
        uint32_t a = word(&status, must ? g->truth.status : "none"),
                 b = word(&status, g->got.status);
        status.count[a][b]++;
        if (must && verdict_subject_right(&c, g)) {
            a = word(&cause, g->truth.cause);
            b = word(&cause, g->got.cause);
            cause.count[a][b]++;
        }
    }
    for (uint32_t i = 0; i < total->n_errors; i++)
        near += fabs(total->error[i]) <= 0.1;
    tallies(out, "by fault", by_fault);
    tallies(out, "by noise of a kernel", by_noise);
    tallies(out, "", all);
    confusion(out, "status (gain >= 5 %, or nobody)", &status);
    confusion(out, "cause (gain >= 5 %, right subject)", &cause);
    fprintf(out,
            "\n%u crashed, %u failed, %u with a partition that does not sum; %.1f M events, "
            "%.0f s\n",
            crashed, failed, partition, events / 1e6, seconds);
    fprintf(out, "{\"runs\": %u", n_done);
    number(out, "right_frac", frac(total->both, total->must));
    number(out, "false_accusation_frac", frac(total->accused, total->nobody));
    number(out, "subject_frac", frac(total->subject, total->must));
    number(out, "status_frac", frac(total->status, total->must));
    number(out, "gain_within_10_frac", frac(near, total->n_errors));
    number(out, "gain_error_p50", quantile(total, 0.5));
    number(out, "gain_error_p90", quantile(total, 0.9));
    number(out, "gain_error_p99", quantile(total, 0.99));
    number(out, "grey_wrong_frac", frac(total->grey_wrong, total->grey));
    fprintf(out,
            ", \"must\": %u, \"grey\": %u, \"nobody\": %u, \"crashed\": %u, \"failed\": %u, "
            "\"partition_wrong\": %u}\n",
            total->must, total->grey, total->nobody, crashed, failed, partition);
}

static void say(FILE *out, const char *title, const struct verdict_words *w)
{
    fprintf(out, "  %s: %s %s [", title, w->status, w->kind);
    for (uint32_t k = 0; k < w->n_ids && k < VERDICT_IDS; k++)
        fprintf(out, "%s%u", k ? "," : "", w->ids[k]);
    fprintf(out, "] %s %s gain %.2f ms (%.2f %%)\n", w->cause, w->pattern, (double)w->gain_ns / 1e6,
            100 * w->gain_frac);
}

void verdict_line(FILE *out, uint32_t i, const struct verdict_got *g)
{
    static const char *const class_name[] = {"gain 5 % and more", "between", "nobody",
                                             "unknowable"};
    struct verdict_case c;
    char text[1024];
    verdict_case(i, &c);
    verdict_command(&c.demo, text, sizeof(text));
    fprintf(out, "case %u  %s  %s%s\n", i, c.group, class_name[verdict_class(&c, g)],
            g->state == VERDICT_DONE     ? ""
            : g->state == VERDICT_FAILED ? "  FAILED"
                                         : "  CRASHED");
    say(out, "true", &g->truth);
    say(out, "said", &g->got);
    fprintf(out, "  %s -o /tmp/case%u\n", text, i);
}

void verdict_wrong(FILE *out, uint32_t n, const struct verdict_got *got)
{
    for (uint32_t i = 0; i < n; i++) {
        struct verdict_case c;
        if (got[i].state == VERDICT_TODO)
            continue;
        verdict_case(i, &c);
        if (is_wrong(&c, &got[i]))
            verdict_line(out, i, &got[i]);
    }
}
