/* Verdict: the steps that can be judged, the findings in order; or why there is none.
 *
 * Box: lib/analysis. Pure. Source: facts on scenarios, rules 1 to 6.
 */
#include "analysis/verdict_inside.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double EVENT = 0.10; /* of a step: a single event is at least so much */

/* The verdict is the first finding; what came once stands behind what goes on. */
static int before(const struct hm_out_finding *a, const struct hm_out_finding *b)
{
    int once_a = a->pattern && !strcmp(a->pattern, "one_off"),
        once_b = b->pattern && !strcmp(b->pattern, "one_off");
    return once_a != once_b ? once_b : a->gain_ns > b->gain_ns;
}

static void largest_first(struct hm_result *r)
{
    struct hm_out_finding *f = r->rows[HM_T_finding];
    for (uint32_t i = 1; i < r->n_rows[HM_T_finding]; i++)
        for (uint32_t k = i; k && before(&f[k], &f[k - 1]); k--) {
            struct hm_out_finding t = f[k];
            f[k] = f[k - 1];
            f[k - 1] = t;
        }
}

/* Single events, and the steps without them. */
static void find_steady(const struct hm_judge *j, struct hm_search *s)
{
    struct hm_pattern_found f;
    for (uint32_t i = 0; i < j->n_steps; i++) {
        s->steady[i] = i;
        s->number[i] = j->step[i].step;
        s->gains[i] = s->loss[i];
        s->x[i] = j->step[i].time_ns;
    }
    s->n_steady = j->n_steps;
    hm_search_pattern(j, s, s->loss, &f);
    int64_t step = hm_median(s->x, j->n_steps), loss = hm_median(s->gains, j->n_steps);
    int64_t least = (int64_t)(EVENT * (double)step);
    for (uint32_t i = 0; i < j->n_steps; i++) { /* it took longer, and for want of somebody */
        int64_t more = j->step[i].time_ns - step, lost = s->loss[i] - loss;
        s->x[i] = more < lost ? more : lost;
    }
    if (f.kind != HM_P_PERIODIC)
        s->n_events = hm_pattern_events(s->x, j->n_steps, least > 0 ? least : 1, s->event);
    s->n_steady = 0;
    for (uint32_t i = 0; i < j->n_steps; i++) {
        s->out[i] = s->event[i] > 0;
        if (s->out[i])
            continue;
        s->number[s->n_steady] = j->step[i].step;
        s->steady[s->n_steady++] = i;
        s->loss_ns += s->loss[i];
    }
}

static hm_status_t judge_steps(struct hm_judge *j, struct hm_result *r, struct hm_search *s)
{
    struct hm_out_quality *q = r->rows[HM_T_quality];
    memset(s->all, 1, j->n_workers);
    int64_t base = hm_judge_replay(j, NULL, s->gains);
    int64_t loss = hm_judge_replay(j, s->all, s->loss);
    if (base == INT64_MIN || loss == INT64_MIN)
        return hm_fail(HM_E_NOMEM, "judge", "out of memory");
    q->replay_error_ppb = hm_ppb(fabs(hm_judge_frac(j, base)));
    if (fabs(hm_judge_frac(j, base)) > 0.03)
        return hm_words_none(j, r, "undecided", -1,
                             hm_text("cannot say: the replay misses the measured time by %.1f %%",
                                     100 * fabs(hm_judge_frac(j, base))));
    j->replay_holds = 1;
    find_steady(j, s);
    double detectable = hm_search_detectable(j, s, s->loss);
    hm_status_t st = hm_search_subjects(j, r, s);
    if (st == HM_OK)
        st = hm_judge_stages(j, r);
    if (st == HM_OK)
        st = hm_judge_network(j, r);
    if (st == HM_OK)
        st = hm_judge_messages(j, r);
    if (st == HM_OK)
        st = hm_search_everybody(j, r, s);
    if (st == HM_OK)
        st = hm_search_ledger(j, r, s);
    largest_first(r);
    if (st != HM_OK || r->n_rows[HM_T_finding])
        return st;
    const struct hm_run *run = j->in.run;
    if (run->n_ranks > run->n_present) /* whoever is not seen may be the one all wait for */
        return hm_words_none(
            j, r, "undecided", detectable,
            hm_text("cannot say: %u of %u ranks left no file that can be used, and one of them may "
                    "hold the others up; of those seen nobody does (%zu steps)",
                    run->n_ranks - run->n_present, run->n_ranks, j->n_steps));
    return hm_words_none(
        j, r, "none", detectable,
        hm_text("no rank holds the others up (%zu steps; an effect of %.1f %% would "
                "have been seen)%s",
                j->n_steps, 100 * detectable,
                j->clock_suspect ? "; clocks suspect, judged by durations" : ""));
}

static int search_create(const struct hm_judge *j, struct hm_search *s)
{
    size_t n = j->n_workers + 1, m = j->n_steps + 1;
    *s = (struct hm_search){.set = calloc(n, 1),
                            .all = calloc(n, 1),
                            .found = calloc(n, 1),
                            .out = calloc(m, 1),
                            .in = calloc(m, 1),
                            .event = calloc(m, sizeof(uint32_t)),
                            .steady = calloc(m, sizeof(uint32_t)),
                            .number = calloc(m, sizeof(uint32_t)),
                            .loss = calloc(m, sizeof(int64_t)),
                            .gains = calloc(m, sizeof(int64_t)),
                            .x = calloc(m, sizeof(int64_t)),
                            .sel = {calloc(m, sizeof(uint32_t)), 0},
                            .order = calloc(n, sizeof(uint32_t)),
                            .late = calloc(n, sizeof(int64_t))};
    return s->set && s->all && s->found && s->out && s->in && s->event && s->steady && s->number &&
           s->loss && s->gains && s->x && s->sel.step && s->order && s->late;
}

static void search_free(struct hm_search *s)
{
    void *v[] = {s->set,    s->all,  s->found, s->out, s->in,       s->event, s->steady,
                 s->number, s->loss, s->gains, s->x,   s->sel.step, s->order, s->late};
    for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++)
        free(v[i]);
}

hm_status_t hm_judge_verdict(struct hm_judge *j, struct hm_result *r)
{
    const struct hm_out_quality *q = hm_result_row(r, HM_T_quality, 0);
    if (j->in.n_graph_ranks)
        return hm_words_none(j, r, "insufficient", -1,
                             strdup("cannot say: communication runs inside CUDA graphs; a graph's "
                                    "replays are seen in kernel records only, and there are none"));
    if (!j->n_steps)
        return hm_words_none(j, r, "insufficient", -1, strdup("cannot say: no steps were found"));
    if (j->n_workers < 2)
        return hm_words_none(
            j, r, "insufficient", -1,
            strdup("cannot say: one device was seen, there is nobody to compare with"));
    if (!j->n_sync && j->roles.n_stages < 2)
        return hm_words_none(
            j, r, "insufficient", -1,
            strdup(
                "cannot say: no collective was seen on two ranks (was the NCCL plugin loaded?)"));
    if (q && q->grade && !strcmp(q->grade, "none"))
        return hm_words_none(j, r, "undecided", -1,
                             strdup("cannot say: the data are not good enough (see quality)"));
    if (j->n_steps < HM_MIN_STEPS)
        return hm_words_none(j, r, "insufficient", -1,
                             hm_text("cannot say: %zu step%s analysed, at least %d are needed",
                                     j->n_steps, j->n_steps == 1 ? "" : "s", HM_MIN_STEPS));
    struct hm_search s;
    hm_status_t st = search_create(j, &s) ? judge_steps(j, r, &s)
                                          : hm_fail(HM_E_NOMEM, "judge", "out of memory");
    search_free(&s);
    if (st == HM_OK && r->n_rows[HM_T_finding] && j->in.clock_error_ns >= HM_CLOCK_UNKNOWN_NS) {
        /* without any bound on the clocks durations alone have spoken */
        const struct hm_out_finding *f = hm_result_row(r, HM_T_finding, 0);
        char *text = hm_text("cannot say: the clocks of the nodes cannot be compared; by durations "
                             "alone: %s",
                             f->text ? f->text : "");
        st = hm_words_none(j, r, "undecided", -1, text);
    }
    return st;
}
