/* What holds up all ranks and none in particular: input, imbalance in turn, jitter.
 *
 * Box: lib/analysis. Pure. What is said here is what the replay gains beyond the subjects found.
 * Source: facts on scenarios, rules 1 and 6.
 */
#include "analysis/verdict_inside.h"

#include <stdlib.h>
#include <string.h>

static const double ALL_FLOOR = 0.05;   /* above what the noise of many healthy ranks costs */
static const double INPUT_FLOOR = 0.10; /* a share of input is usual; from here on it is flagged */

static hm_status_t no_memory(void)
{
    return hm_fail(HM_E_NOMEM, "judge", "out of memory");
}

/* Input that is still waited for where nobody is late. */
static hm_status_t input_of_all(struct hm_judge *j, struct hm_result *r, struct hm_search *s)
{
    const struct hm_what_if what = {.repair = s->all, .less = 1u << HM_C_INPUT};
    int64_t gain = 0;
    if (hm_judge_what_if(j, &what, s->gains) == INT64_MIN)
        return no_memory();
    for (size_t i = 0; i < j->n_steps; i++) {
        s->x[i] = s->gains[i] - s->loss[i];
        gain += s->out[i] ? 0 : s->x[i];
    }
    if (hm_judge_frac(j, gain) < INPUT_FLOOR)
        return HM_OK;
    struct hm_pattern_found found;
    hm_search_pattern(j, s, s->x, &found);
    return hm_words_all(
        j, r, "bottleneck", &found, "input", gain,
        hm_text("all ranks wait for input: %.1f %% of the time", 100 * hm_judge_frac(j, gain)));
}

static const char *cause_of_part(int top)
{
    switch (top) {
    case HM_C_COMPUTE:
        return "more_work";
    case HM_C_INPUT:
        return "input";
    case HM_C_BLOCKED:
        return "host_blocked";
    case HM_C_HOST:
        return "host_cpu";
    case HM_C_ALLOC:
        return "allocator";
    case HM_C_SYNC:
        return "sync";
    case HM_C_CHECKPOINT:
        return "checkpoint";
    default:
        return "mixed";
    }
}

/* Were their threads ready but without a CPU for most of it? Then the machine is too full, and no
 * code of theirs is slow. */
static int is_descheduled(const struct hm_judge *j, const struct hm_search *s, int64_t late,
                          int64_t *wait_p)
{
    int64_t wait = 0;
    for (uint32_t w = 0; w < j->n_workers; w++)
        if (!s->found[w] && !HM_IS_NONE(j->worker[w].health.wait_ns))
            wait += j->worker[w].health.wait_ns;
    *wait_p = wait;
    return late > 0 && wait >= late / 2;
}

/* Steps in which waiting for another rank costs at least a quarter of what it does on average. */
static uint32_t steps_hit(const struct hm_judge *j, const struct hm_search *s)
{
    uint32_t n = 0;
    for (size_t i = 0; i < j->n_steps; i++)
        n += s->loss_ns > 0 && 4 * (double)s->loss[i] * (double)j->n_steps > (double)s->loss_ns;
    return n;
}

/* Waiting for another rank in every step: work that is dealt unevenly, or pauses. */
static hm_status_t in_turn(struct hm_judge *j, struct hm_result *r, struct hm_search *s)
{
    const struct hm_what_if mended = {.repair = s->found, .not_in = s->out};
    int64_t had = hm_judge_what_if(j, &mended, s->gains);
    if (had == INT64_MIN)
        return no_memory();
    int64_t loss = s->loss_ns - had;
    int64_t late = 0, latest = 0;
    for (uint32_t w = 0; w < j->n_workers; w++) {
        late += s->found[w] ? 0 : s->late[w];
        latest = !s->found[w] && s->late[w] > latest ? s->late[w] : latest;
    }
    if (j->n_workers < 3 || hm_judge_frac(j, loss) < ALL_FLOOR || 2 * latest > late)
        return HM_OK; /* one rank with most of it does not take turns */
    int64_t part[HM_N_C] = {0}, all = 0;
    for (uint32_t w = 0; w < j->n_workers; w++)
        for (int c = 0; !s->found[w] && c < HM_N_C; c++)
            part[c] += j->cause_ns[(size_t)w * HM_N_C + (size_t)c];
    int top = 0;
    for (int c = 0; c < HM_N_C; c++) {
        top = part[c] > part[top] ? c : top;
        all += part[c] > 0 ? part[c] : 0;
    }
    int compute = top == HM_C_COMPUTE && all > 0;
    if (compute) { /* work does not vanish: all get the mean */
        const struct hm_what_if even = {.repair = s->all, .not_in = s->out, .work = 1};
        int64_t gain = hm_judge_what_if(j, &even, NULL);
        loss = gain == INT64_MIN ? loss : gain - had;
        if (hm_judge_frac(j, loss) < ALL_FLOOR)
            return HM_OK;
    }
    const char *cause = all > 0 ? cause_of_part(top) : "unknown";
    int64_t wait = 0;
    int descheduled = !strcmp(cause, "host_cpu") && is_descheduled(j, s, late, &wait);
    hm_status_t st = hm_words_all(
        j, r, compute ? "imbalance" : "jitter", NULL, descheduled ? "host_descheduled" : cause,
        loss,
        hm_text("now one rank is late, now another, in %u of %zu steps: %.1f %% of the time goes "
                "into waiting for whoever is last; no rank in particular",
                steps_hit(j, s), j->n_steps, 100 * hm_judge_frac(j, loss)));
    struct hm_out_finding *f = r->rows[HM_T_finding];
    if (st == HM_OK && descheduled)
        hm_list_add(&f[r->n_rows[HM_T_finding] - 1].evidence,
                    "threads were ready but without a CPU for %.1f ms, of %.1f ms that ranks came "
                    "late",
                    hm_ms(wait), hm_ms(late));
    return st;
}

hm_status_t hm_search_everybody(struct hm_judge *j, struct hm_result *r, struct hm_search *s)
{
    hm_status_t st = input_of_all(j, r, s);
    return st == HM_OK ? in_turn(j, r, s) : st;
}
