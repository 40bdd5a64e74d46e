/* Subjects: ranks and sets of ranks that hold the others up, and events that come once.
 *
 * Box: lib/analysis. Pure. Effect before chance: a subject must save enough by replay before its
 * p value is looked at. Single events are put aside first, so that one recompilation neither
 * accuses nor hides anybody. Source: facts on scenarios, rules 1, 5, 9; Holm 1979.
 */
#include "analysis/verdict_inside.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CANDIDATES = 16, MAX_EVENTS = 8 };
static const double FLOOR = 0.005; /* of the run: below, nobody acts on it */
static const double ALPHA = 0.001; /* one false accusation in a thousand healthy runs */

static hm_status_t no_memory(void)
{
    return hm_fail(HM_E_NOMEM, "judge", "out of memory");
}

double hm_search_detectable(const struct hm_judge *j, const struct hm_search *s, const int64_t *x)
{
    double sum = 0, squares = 0, n = (double)s->n_steady;
    for (size_t i = 0; i < s->n_steady; i++)
        sum += (double)x[s->steady[i]];
    double mean = n > 0 ? sum / n : 0;
    for (size_t i = 0; i < s->n_steady; i++) {
        double d = (double)x[s->steady[i]] - mean;
        squares += d * d;
    }
    double sd = sqrt(squares / (n > 1 ? n - 1 : 1));
    double least = j->total_ns > 0 ? 2.33 * sd * sqrt(n) / (double)j->total_ns : 1;
    return least > FLOOR ? least : FLOOR;
}

void hm_search_pattern(const struct hm_judge *j, struct hm_search *s, const int64_t *x,
                       struct hm_pattern_found *f)
{
    int64_t *v = malloc((s->n_steady + 1) * sizeof(*v));
    *f = (struct hm_pattern_found){.kind = HM_P_NONE, .chance = 1};
    f->last = j->n_steps ? (uint32_t)j->n_steps - 1 : 0;
    if (!v || !s->n_steady) {
        free(v);
        return;
    }
    for (size_t i = 0; i < s->n_steady; i++)
        v[i] = x[s->steady[i]];
    hm_pattern_of(v, s->number, s->n_steady, f);
    f->first = s->steady[f->first];
    f->last = s->steady[f->last];
    free(v);
}

/* The steps in which a pattern says something: those that a test looks at. */
static void select_steps(const struct hm_judge *j, struct hm_search *s,
                         const struct hm_pattern_found *f)
{
    s->sel.n = 0;
    for (size_t i = 0; i < s->n_steady; i++) {
        uint32_t at = s->steady[i];
        if (at < f->first || at > f->last ||
            (f->kind == HM_P_PERIODIC && j->step[at].step % f->period != f->phase))
            continue;
        s->sel.step[s->sel.n++] = at;
    }
}

/* Gain in the steady state of repairing s->set; INT64_MIN = no memory. */
static int64_t repair(const struct hm_judge *j, const struct hm_search *s, int64_t *gains)
{
    const struct hm_what_if what = {.repair = s->set, .not_in = s->out};
    return hm_judge_what_if(j, &what, gains);
}

/* What is known to be no fault needs no chance: checkpoints, profilers. */
static int is_known(const struct hm_judge *j, uint32_t w)
{
    const int64_t *part = j->cause_ns + (size_t)w * HM_N_C;
    int64_t all = 0;
    for (int c = 0; c < HM_N_C; c++)
        all += part[c] > 0 ? part[c] : 0;
    return all > 0 && 2 * (part[HM_C_CHECKPOINT] + part[HM_C_OBSERVER]) >= all;
}

static void test(struct hm_judge *j, struct hm_search *s, struct hm_candidate *c,
                 const uint8_t *in_set)
{
    select_steps(j, s, &c->found);
    hm_chance_test(j, &s->sel, c->worker, in_set, c->gains, &c->p, &c->sure);
    if (c->found.kind == HM_P_PERIODIC) { /* regular is not by chance, whoever else is late */
        double p = c->found.chance * j->n_workers;
        c->p = p < c->p ? p : c->p;
    }
    if (is_known(j, c->worker)) {
        c->p = 0;
        c->sure = 1;
    }
}

/* A subject that stands the tests: effect, then chance. */
static int holds(const struct hm_judge *j, struct hm_search *s, const struct hm_candidate *c)
{
    for (size_t i = 0; i < j->n_steps; i++)
        s->x[i] = s->loss[i] - c->gains[i];
    return hm_judge_frac(j, c->gain) >= hm_search_detectable(j, s, s->x) && c->p <= ALPHA &&
           c->sure;
}

static int by_late(const void *x, const void *y, void *late)
{
    uint32_t p = *(const uint32_t *)x, q = *(const uint32_t *)y;
    int64_t a = ((const int64_t *)late)[p], b = ((const int64_t *)late)[q];
    return a != b ? (a > b ? -1 : 1) : (p > q) - (p < q);
}

static int64_t gain_of_first(const struct hm_judge *j, struct hm_search *s, uint32_t n)
{
    memset(s->set, 0, j->n_workers);
    for (uint32_t i = 0; i < n; i++)
        s->set[s->order[i]] = 1;
    return repair(j, s, s->gains);
}

/* How many of the latest must be repaired to gain 80 % of the loss; s->set and s->gains are left
 * for them. More repaired never gain less, so that few replays find it. */
static uint32_t joint_set(struct hm_judge *j, struct hm_search *s, uint32_t n_late, int64_t *gain_p)
{
    uint32_t enough = 1, less = 0;
    while (enough < n_late && gain_of_first(j, s, enough) < s->loss_ns / 10 * 8) {
        less = enough;
        enough = 2 * enough < n_late ? 2 * enough : n_late;
    }
    while (less + 1 < enough) {
        uint32_t mid = less + (enough - less) / 2;
        if (gain_of_first(j, s, mid) < s->loss_ns / 10 * 8)
            less = mid;
        else
            enough = mid;
    }
    *gain_p = gain_of_first(j, s, enough);
    return enough;
}

/* Work goes to the mean of the role: what is left of the gain must reach the floor as well. */
static hm_status_t report(struct hm_judge *j, struct hm_result *r, struct hm_search *s,
                          const struct hm_candidate *c)
{
    hm_status_t st = hm_words_finding(j, r, s->set, c);
    if (st != HM_OK)
        return st;
    const struct hm_out_finding *f = hm_result_row(r, HM_T_finding, r->n_rows[HM_T_finding] - 1);
    if (hm_judge_frac(j, f->gain_ns) < FLOOR) {
        hm_result_drop(r, HM_T_finding);
        return HM_OK;
    }
    for (uint32_t w = 0; w < j->n_workers; w++)
        s->found[w] |= s->set[w];
    return HM_OK;
}

static hm_status_t search(struct hm_judge *j, struct hm_result *r, struct hm_search *s,
                          struct hm_candidate *c, uint32_t n, uint32_t n_late)
{
    struct hm_candidate *best = &c[0];
    for (uint32_t i = 0; i < n; i++) {
        c[i].worker = s->order[i];
        memset(s->set, 0, j->n_workers);
        s->set[c[i].worker] = 1;
        c[i].gain = repair(j, s, c[i].gains);
        if (c[i].gain == INT64_MIN)
            return no_memory();
        j->worker[c[i].worker].gain_ns = c[i].gain;
        hm_search_pattern(j, s, j->late + (size_t)c[i].worker * j->n_steps, &c[i].found);
        best = c[i].gain > best->gain ? &c[i] : best;
    }
    int64_t set_gain;
    uint32_t n_set = joint_set(j, s, n_late, &set_gain);
    if (set_gain == INT64_MIN)
        return no_memory();
    if (n_set > 1 && set_gain > 2 * (best->gain > 0 ? best->gain : 0) &&
        2 * n_set <= j->n_workers) {
        struct hm_candidate set = {.worker = c[0].worker, .gain = set_gain, .gains = s->gains};
        double p = 0;
        int sure = 1;
        hm_search_pattern(j, s, s->gains, &set.found);
        for (uint32_t i = 0; i < n_set; i++) {
            set.worker = s->order[i];
            test(j, s, &set, s->set);
            p = set.p > p ? set.p : p;
            sure &= set.sure;
        }
        set.worker = c[0].worker;
        set.p = p;
        set.sure = sure;
        if (holds(j, s, &set))
            return report(j, r, s, &set);
    }
    /* where most ranks must be repaired for most of the gain, a rank that is late now and then is
     * only in turn */
    int in_turn = 2 * n_set > j->n_workers && 2 * best->gain < s->loss_ns;
    for (uint32_t done = 0; done < n; done++) { /* single subjects, the largest gain first */
        struct hm_candidate *top = NULL;
        for (uint32_t i = 0; i < n; i++)
            if (c[i].worker != HM_NO_ID && (!top || c[i].gain > top->gain))
                top = &c[i];
        if (hm_judge_frac(j, top->gain) < FLOOR)
            break;
        int whole = top->found.kind != HM_P_NONE && top->found.kind != HM_P_PERIODIC;
        test(j, s, top, NULL);
        if ((whole || !in_turn) && holds(j, s, top)) {
            memset(s->set, 0, j->n_workers);
            s->set[top->worker] = 1;
            hm_status_t st = report(j, r, s, top);
            if (st != HM_OK)
                return st;
        }
        top->worker = HM_NO_ID;
    }
    return HM_OK;
}

/* One event: whoever was late in it by at least half of the latest. */
static hm_status_t one_off(struct hm_judge *j, struct hm_result *r, struct hm_search *s,
                           uint32_t event)
{
    struct hm_candidate c = {.worker = HM_NO_ID, .gains = s->gains, .p = NAN};
    int64_t top = 0;
    c.found = (struct hm_pattern_found){.kind = HM_P_ONE_OFF, .first = HM_NO_ID, .chance = 1};
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t w = 0; w < j->n_workers; w++) {
            int64_t late = 0;
            for (uint32_t i = 0; i < j->n_steps; i++)
                late += s->event[i] == event ? j->late[(size_t)w * j->n_steps + i] : 0;
            if (pass)
                s->set[w] = late > 0 && 2 * late >= top;
            else if (late > top) {
                top = late;
                c.worker = w;
            }
        }
    if (c.worker == HM_NO_ID)
        return HM_OK;
    int64_t worst = -1;
    for (uint32_t i = 0; i < j->n_steps; i++) {
        s->in[i] = s->event[i] == event;
        int64_t late = j->late[(size_t)c.worker * j->n_steps + i];
        if (s->in[i] && late > worst) {
            worst = late;
            c.found.first = c.found.last = i;
        }
    }
    const struct hm_what_if what = {.all_in = s->in};
    c.gain = hm_judge_what_if(j, &what, s->gains);
    if (c.gain == INT64_MIN)
        return no_memory();
    return hm_judge_frac(j, c.gain) >= FLOOR ? hm_words_finding(j, r, s->set, &c) : HM_OK;
}

hm_status_t hm_search_subjects(struct hm_judge *j, struct hm_result *r, struct hm_search *s)
{
    uint32_t n_late = 0, n = 0;
    struct hm_candidate c[MAX_CANDIDATES] = {{0}};
    hm_status_t st = HM_OK;
    for (uint32_t i = 0; i < j->n_workers; i++) {
        s->late[i] = 0;
        for (size_t k = 0; k < s->n_steady; k++)
            s->late[i] += j->late[(size_t)i * j->n_steps + s->steady[k]];
        if (s->late[i] > 0)
            s->order[n_late++] = i;
    }
    if (n_late)
        qsort_r(s->order, n_late, sizeof(*s->order), by_late, s->late);
    for (; n < n_late && n < MAX_CANDIDATES && st == HM_OK; n++)
        if (!(c[n].gains = malloc((j->n_steps + 1) * sizeof(int64_t))))
            st = no_memory();
    if (st == HM_OK && n)
        st = search(j, r, s, c, n, n_late);
    for (uint32_t e = 1; st == HM_OK && e <= s->n_events && e <= MAX_EVENTS; e++)
        st = one_off(j, r, s, e);
    for (uint32_t i = 0; i < n; i++)
        free(c[i].gains);
    return st;
}
