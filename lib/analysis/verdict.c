/* Verdict: who, what pattern, what cause, what gain, how sure; or why there is none.
 *
 * Box: lib/analysis. Pure. Effect before chance: a subject must save at least 0.5 % of the run by
 * replay before its p value is looked at. Source: facts on scenarios, rules 1 to 6; facts on
 * analysis 2.10; Holm 1979 for several ranks, Wilcoxon 1945 for paired steps.
 */
#include "analysis/verdict_inside.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CANDIDATES = 16 };
static const double FLOOR = 0.005, ALPHA = 0.01, ALL_FLOOR = 0.05, INPUT_FLOOR = 0.10;

static hm_status_t judge_all(struct hm_judge *j, struct hm_result *r, const uint8_t *everybody,
                             int64_t loss)
{
    int64_t input = 0;
    for (size_t s = 0; s < j->n_steps; s++)
        input += j->step[s].input_ns;
    if (hm_judge_frac(j, input) >= INPUT_FLOOR)
        return hm_words_all(j, r, "bottleneck", "persistent", "input", input,
                            hm_text("all ranks wait for input: %.1f %% of the time",
                                    100 * hm_judge_frac(j, input)));
    if (j->n_workers < 3 || hm_judge_frac(j, loss) < ALL_FLOOR)
        return HM_OK;
    int64_t part[HM_N_C] = {0}, all = 0;
    for (uint32_t w = 0; w < j->n_workers; w++)
        for (int c = 0; c < HM_N_C; c++)
            part[c] += j->cause_ns[(size_t)w * HM_N_C + (size_t)c];
    int top = 0;
    for (int c = 0; c < HM_N_C; c++) {
        top = part[c] > part[top] ? c : top;
        all += part[c] > 0 ? part[c] : 0;
    }
    int compute = top == HM_C_COMPUTE;
    if (compute) { /* work does not vanish: all get the mean */
        const struct hm_what_if even = {.repair = everybody, .work = 1};
        int64_t gain = hm_judge_what_if(j, &even, NULL);
        loss = gain == INT64_MIN ? loss : gain;
    }
    const char *cause = all <= 0              ? "unknown"
                        : compute             ? "more_work"
                        : top == HM_C_INPUT   ? "input"
                        : top == HM_C_BLOCKED ? "host_blocked"
                        : top == HM_C_HOST    ? "host_cpu"
                                              : "mixed";
    return hm_words_all(
        j, r, compute ? "imbalance" : "jitter", "rotating", cause, loss,
        hm_text("another rank is late in every step: %.1f %% of the time goes into waiting for "
                "whoever is last; no rank in particular",
                100 * hm_judge_frac(j, loss)));
}

/* --- the verdict ---------------------------------------------------------------------------- */

static int by_late(const void *x, const void *y, void *judge)
{
    const struct hm_judge *j = judge;
    int64_t a = j->worker[*(const uint32_t *)x].late_ns,
            b = j->worker[*(const uint32_t *)y].late_ns;
    if (a != b)
        return a > b ? -1 : 1;
    return (*(const uint32_t *)x > *(const uint32_t *)y) -
           (*(const uint32_t *)x < *(const uint32_t *)y);
}

struct work {
    uint8_t *set, *all;
    uint32_t *order;
    int64_t *gains, *loss;
    struct hm_candidate c[MAX_CANDIDATES];
};

/* A subject that stands the tests: effect, then chance. */
static int holds(const struct hm_judge *j, const struct hm_candidate *c, double floor)
{
    if (hm_judge_frac(j, c->gain) < floor)
        return 0;
    if (c->pattern == HM_P_ONE_OFF)
        return c->gain * (int64_t)j->n_steps >= j->total_ns; /* at least one step's time */
    return c->p <= ALPHA && hm_pattern_gain_is_sure(j, c->gains, c->onset);
}

/* Grows the set along the lateness until 80 % of the loss are gained; returns its gain. */
static int64_t greedy_set(struct hm_judge *j, struct work *w, uint32_t n_late, int64_t loss,
                          uint32_t *n_p)
{
    int64_t gain = 0;
    memset(w->set, 0, j->n_workers);
    *n_p = 0;
    for (uint32_t i = 0; i < n_late && gain * 10 < loss * 8; i++) {
        w->set[w->order[i]] = 1;
        gain = hm_judge_replay(j, w->set, w->gains);
        (*n_p)++;
    }
    return gain;
}

static hm_status_t search(struct hm_judge *j, struct hm_result *r, struct work *w, double floor,
                          int64_t loss)
{
    uint32_t n_late = 0, n = 0;
    for (uint32_t i = 0; i < j->n_workers; i++)
        if (j->worker[i].late_ns > 0)
            w->order[n_late++] = i;
    qsort_r(w->order, n_late, sizeof(*w->order), by_late, j);
    struct hm_candidate *best = NULL;
    for (uint32_t i = 0; i < n_late && n < MAX_CANDIDATES; i++) {
        struct hm_candidate *c = &w->c[n];
        if (!(c->gains = malloc((j->n_steps + 1) * sizeof(int64_t))))
            return hm_fail(HM_E_NOMEM, "judge", "out of memory");
        n++;
        c->worker = w->order[i];
        memset(w->set, 0, j->n_workers);
        w->set[c->worker] = 1;
        c->gain = hm_judge_replay(j, w->set, c->gains);
        if (c->gain == INT64_MIN)
            return hm_fail(HM_E_NOMEM, "judge", "out of memory");
        j->worker[c->worker].gain_ns = c->gain;
        hm_pattern_find(j, c);
        c->p = hm_pattern_chance(j, c->worker, c->onset, NULL);
        if (!best || c->gain > best->gain)
            best = c;
    }
    if (!best)
        return HM_OK;
    uint32_t n_set = 0;
    int64_t set_gain = greedy_set(j, w, n_late, loss, &n_set);
    if (n_set > 1 && set_gain > 2 * (best->gain > 0 ? best->gain : 0) &&
        hm_judge_frac(j, set_gain) >= floor && 2 * n_set <= j->n_workers) {
        struct hm_candidate c = w->c[0];
        c.gain = set_gain;
        c.gains = w->gains;
        c.p = 0;
        for (uint32_t i = 0; i < n_set; i++) {
            double p = hm_pattern_chance(j, w->order[i], c.onset, w->set);
            c.p = p > c.p ? p : c.p;
        }
        if (holds(j, &c, floor))
            return hm_words_finding(j, r, w->set, &c, set_gain);
    }
    /* single subjects, the largest gain first */
    for (uint32_t done = 0; done < n; done++) {
        struct hm_candidate *top = NULL;
        for (uint32_t i = 0; i < n; i++)
            if (w->c[i].worker != HM_NO_ID && (!top || w->c[i].gain > top->gain))
                top = &w->c[i];
        if (holds(j, top, floor)) {
            memset(w->set, 0, j->n_workers);
            w->set[top->worker] = 1;
            hm_status_t st = hm_words_finding(j, r, w->set, top, top->gain);
            if (st != HM_OK)
                return st;
        }
        top->worker = HM_NO_ID;
    }
    return HM_OK;
}

/* The verdict is the first finding. */
static void largest_first(struct hm_result *r)
{
    struct hm_out_finding *f = r->rows[HM_T_finding];
    for (uint32_t i = 1; i < r->n_rows[HM_T_finding]; i++)
        for (uint32_t k = i; k && f[k].gain_ns > f[k - 1].gain_ns; k--) {
            struct hm_out_finding t = f[k];
            f[k] = f[k - 1];
            f[k - 1] = t;
        }
}

static hm_status_t judge_steps(struct hm_judge *j, struct hm_result *r, struct work *w)
{
    struct hm_out_quality *q = r->rows[HM_T_quality];
    memset(w->all, 1, j->n_workers);
    int64_t base = hm_judge_replay(j, NULL, w->gains);
    int64_t loss = hm_judge_replay(j, w->all, w->loss);
    if (base == INT64_MIN || loss == INT64_MIN)
        return hm_fail(HM_E_NOMEM, "judge", "out of memory");
    q->replay_error_ppb = hm_ppb(fabs(hm_judge_frac(j, base)));
    if (fabs(hm_judge_frac(j, base)) > 0.03)
        return hm_words_none(j, r, "undecided", -1,
                             hm_text("cannot say: the replay misses the measured time by %.1f %%",
                                     100 * fabs(hm_judge_frac(j, base))));
    double mean = (double)loss / (double)j->n_steps, var = 0;
    for (size_t s = 0; s < j->n_steps; s++)
        var += ((double)w->loss[s] - mean) * ((double)w->loss[s] - mean);
    double sd = sqrt(var / (double)(j->n_steps > 1 ? j->n_steps - 1 : 1));
    double detectable = 2.33 * sd * sqrt((double)j->n_steps) / (double)j->total_ns;
    double floor = FLOOR;
    detectable = detectable > FLOOR ? detectable : FLOOR;
    hm_status_t st = search(j, r, w, floor, loss);
    if (st == HM_OK)
        st = hm_judge_stages(j, r);
    if (st == HM_OK)
        st = hm_judge_network(j, r);
    largest_first(r);
    if (st == HM_OK && !r->n_rows[HM_T_finding])
        st = judge_all(j, r, w->all, loss);
    if (st != HM_OK || r->n_rows[HM_T_finding])
        return st;
    return hm_words_none(
        j, r, "none", detectable,
        hm_text("no rank holds the others up (%zu steps; an effect of %.1f %% would "
                "have been seen)%s",
                j->n_steps, 100 * detectable,
                j->clock_suspect ? "; clocks suspect, judged by durations" : ""));
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
    struct work w = {.set = calloc(j->n_workers + 1, 1),
                     .all = calloc(j->n_workers + 1, 1),
                     .order = calloc(j->n_workers + 1, sizeof(uint32_t)),
                     .gains = calloc(j->n_steps + 1, sizeof(int64_t)),
                     .loss = calloc(j->n_steps + 1, sizeof(int64_t))};
    hm_status_t st = w.set && w.all && w.order && w.gains && w.loss
                         ? judge_steps(j, r, &w)
                         : hm_fail(HM_E_NOMEM, "judge", "out of memory");
    if (st == HM_OK && r->n_rows[HM_T_finding] && j->in.clock_error_ns >= HM_CLOCK_UNKNOWN_NS) {
        /* without any bound on the clocks durations alone have spoken */
        const struct hm_out_finding *f = hm_result_row(r, HM_T_finding, 0);
        char *text = hm_text("cannot say: the clocks of the nodes cannot be compared; by durations "
                             "alone: %s",
                             f->text ? f->text : "");
        st = hm_words_none(j, r, "undecided", -1, text);
    }
    for (int i = 0; i < MAX_CANDIDATES; i++)
        free(w.c[i].gains);
    free(w.set);
    free(w.all);
    free(w.order);
    free(w.gains);
    free(w.loss);
    return st;
}
