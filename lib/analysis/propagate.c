/* Own lateness: clocks made to fit, launches compared, lateness counted once, waits charged.
 *
 * Box: lib/analysis. Pure. The two estimators of arrival: facts on scenarios, rule 2.
 */
#include "analysis/judge_inside.h"

#include <stdlib.h>
#include <string.h>

/* Moves the clock of each worker by -shift: all times of its parts. */
static void shift_clocks(struct hm_judge *j, const int64_t *shift)
{
    for (size_t i = 0; i < j->n_parts; i++) {
        struct hm_jpart *p = &j->part[i];
        p->start_ns -= shift[p->worker];
        p->end_ns -= shift[p->worker];
        p->ready_ns -= shift[p->worker];
        p->carry_ns -= shift[p->worker];
    }
}

/* Do all members leave together? Not where some exchange nothing. */
static int ends_together(const struct hm_jlaunch *l)
{
    return hm_judge_is_sync(l) && !(l->flags & HM_LAUNCH_HOLES);
}

/* The last who came before part k left: whom it waited for where some exchange nothing. */
static int64_t last_before(const struct hm_jpart *p, uint32_t n, uint32_t k)
{
    int64_t last = p[k].start_ns;
    for (uint32_t m = 0; m < n; m++)
        if (p[m].start_ns > last && p[m].start_ns < p[k].end_ns)
            last = p[m].start_ns;
    return last;
}

static void measure_again(struct hm_judge *j)
{
    for (size_t i = 0; i < j->n_launches; i++) {
        struct hm_jlaunch *l = &j->launch[i];
        if (!hm_judge_is_sync(l))
            continue;
        struct hm_jpart *p = &j->part[l->first_part];
        int64_t second = INT64_MIN;
        l->first_ns = l->last_ns = p->start_ns;
        l->end1_ns = l->end2_ns = p->end_ns;
        l->last_worker = p->worker;
        for (uint32_t k = 1; k < l->n_parts; k++) {
            if (p[k].start_ns > l->last_ns) {
                second = l->last_ns;
                l->last_ns = p[k].start_ns;
                l->last_worker = p[k].worker;
            } else if (p[k].start_ns > second) {
                second = p[k].start_ns;
            }
            if (p[k].start_ns < l->first_ns)
                l->first_ns = p[k].start_ns;
            if (p[k].end_ns < l->end1_ns)
                l->end1_ns = p[k].end_ns;
            if (p[k].end_ns > l->end2_ns)
                l->end2_ns = p[k].end_ns;
        }
        for (uint32_t k = 0; k < l->n_parts; k++) {
            int64_t until = l->last_ns < p[k].end_ns ? l->last_ns : p[k].end_ns;
            if (l->flags & HM_LAUNCH_HOLES)
                until = last_before(p, l->n_parts, k);
            p[k].wait_ns = until > p[k].start_ns ? until - p[k].start_ns : 0;
        }
        if (l->last_ns - second <= HM_EXIT_SKEW_NS) /* durations do not order what is this close */
            l->last_worker = HM_NO_ID;
    }
}

/* Ends of each worker against the median end of its launches: one row per part, by worker. */
static size_t end_skews(const struct hm_judge *j, int64_t *skew, size_t *first, int64_t *ends)
{
    memset(first, 0, (j->n_workers + 1) * sizeof(*first));
    for (size_t i = 0; i < j->n_launches; i++)
        for (uint32_t k = 0; ends_together(&j->launch[i]) && k < j->launch[i].n_parts; k++)
            first[j->part[j->launch[i].first_part + k].worker + 1]++;
    for (uint32_t w = 0; w < j->n_workers; w++)
        first[w + 1] += first[w];
    for (size_t i = 0; i < j->n_launches; i++) {
        const struct hm_jlaunch *l = &j->launch[i];
        const struct hm_jpart *p = &j->part[l->first_part];
        if (!ends_together(l))
            continue;
        for (uint32_t k = 0; k < l->n_parts; k++)
            ends[k] = p[k].end_ns;
        int64_t median = hm_median(ends, l->n_parts);
        for (uint32_t k = 0; k < l->n_parts; k++)
            skew[first[p[k].worker]++] = p[k].end_ns - median;
    }
    return j->n_workers ? first[j->n_workers - 1] : 0; /* first[w] is now the end of w's rows */
}

void hm_judge_clocks(struct hm_judge *j)
{
    int64_t *skew = malloc((j->n_parts + 1) * sizeof(*skew));
    int64_t *ends = malloc((j->n_parts + 1) * sizeof(*ends));
    size_t *first = malloc((j->n_workers + 1) * sizeof(*first));
    int64_t *shift_of = calloc(j->n_workers + 1, sizeof(*shift_of));
    if (!skew || !ends || !first || !shift_of || j->n_workers < 2)
        goto out;
    int64_t u = 0;
    for (size_t i = 0; i < j->n_launches; i++)
        if (hm_judge_is_sync(&j->launch[i]) && j->launch[i].u_ns > u)
            u = j->launch[i].u_ns;
    int unknown = u >= HM_CLOCK_UNKNOWN_NS, moved = unknown;
    end_skews(j, skew, first, ends);
    for (uint32_t w = 0; w < j->n_workers; w++) {
        size_t from = w ? first[w - 1] : 0;
        if (first[w] == from)
            continue;
        int64_t shift = hm_median(skew + from, first[w] - from), size = llabs(shift);
        j->shift_max_ns = size > j->shift_max_ns ? size : j->shift_max_ns;
        if (size > (unknown ? 0 : u) + HM_EXIT_SKEW_NS) {
            shift_of[w] = shift;
            moved = 1;
        }
    }
    if (moved) {
        j->clock_suspect = 1;
        shift_clocks(j, shift_of);
        measure_again(j);
    }
out:
    free(skew);
    free(ends);
    free(first);
    free(shift_of);
}

/* Own lateness of one part counts: for its step, its dimension, and what it was made of. */
static void count_late(struct hm_judge *j, const struct hm_jpart *p)
{
    const struct hm_jlaunch *l = &j->launch[p->launch];
    uint32_t w = p->worker;
    j->late[(size_t)w * j->n_steps + l->i_step] += p->excess_ns;
    j->worker[w].late_ns += p->excess_ns;
    if (p->ref == HM_NO_ID)
        return; /* found by a later comparison, and charged there */
    const struct hm_jpart *ref = &j->part[p->ref];
    int same = p->has_segment && ref->has_segment && p->base != HM_NO_ID && ref->base != HM_NO_ID &&
               j->part[p->base].launch == j->part[ref->base].launch;
    if (!same)
        return;
    j->dim_ns[(size_t)w * HM_N_DIMS + j->use[l->i_use].dim] += p->excess_ns;
    for (int c = 0; c < HM_N_C; c++)
        j->cause_ns[(size_t)w * HM_N_C + (size_t)c] += p->part_ns[c] - ref->part_ns[c];
}

/* The largest own lateness of a worker since one base counts once: other arrivals since the same
 * base repeat it. */
static hm_status_t count_all(struct hm_judge *j)
{
    uint32_t *best = malloc((j->n_parts + 1) * sizeof(*best)); /* part with the most, by base */
    if (!best)
        return hm_fail(HM_E_NOMEM, "judge", "out of memory");
    memset(best, 0xff, (j->n_parts + 1) * sizeof(*best));
    for (size_t i = 0; i < j->n_parts; i++) {
        const struct hm_jpart *p = &j->part[i];
        const struct hm_jlaunch *l = &j->launch[p->launch];
        if (l->i_step == HM_NO_ID || p->excess_ns <= hm_judge_exit_error(l))
            continue;
        uint32_t since = p->aside ? p->common : p->base;
        if (since == HM_NO_ID)
            count_late(j, p);
        else if (best[since] == HM_NO_ID || p->excess_ns > j->part[best[since]].excess_ns)
            best[since] = (uint32_t)i;
    }
    for (size_t i = 0; i < j->n_parts; i++)
        if (best[i] != HM_NO_ID)
            count_late(j, &j->part[best[i]]);
    free(best);
    return HM_OK;
}

/* Sums of waits and transfers, ends of steps. */
static void sum_launch(struct hm_judge *j, const struct hm_jlaunch *l)
{
    for (uint32_t k = 0; k < l->n_parts && l->i_step != HM_NO_ID; k++) {
        const struct hm_jpart *p = &j->part[l->first_part + k];
        j->worker[p->worker].wait_ns += p->wait_ns;
        j->worker[p->worker].transfer_ns += p->end_ns - p->start_ns - p->wait_ns;
        if (p->end_ns > j->step[l->i_step].end_ns)
            j->step[l->i_step].end_ns = p->end_ns;
    }
}

static void last_of_steps(struct hm_judge *j)
{
    for (size_t s = 0; s < j->n_steps; s++) {
        struct hm_jstep *step = &j->step[s];
        for (uint32_t w = 0; w < j->n_workers; w++) {
            int64_t late = j->late[(size_t)w * j->n_steps + s];
            if (late > step->late_ns) {
                step->late_ns = late;
                step->last_worker = w;
            }
        }
        if (step->last_worker != HM_NO_ID && step->late_ns > step->time_ns / 1000)
            j->worker[step->last_worker].last_in_steps++;
    }
}

hm_status_t hm_judge_propagate(struct hm_judge *j)
{
    size_t n = j->n_workers + 1;
    struct hm_compare *compare = hm_compare_create(j);
    j->late = calloc(n * (j->n_steps + 1), sizeof(*j->late));
    j->cause_ns = calloc(n * HM_N_C, sizeof(*j->cause_ns));
    j->dim_ns = calloc(n * HM_N_DIMS, sizeof(*j->dim_ns));
    hm_status_t s = HM_OK;
    if (!compare || !j->late || !j->cause_ns || !j->dim_ns)
        s = hm_fail(HM_E_NOMEM, "judge", "out of memory");
    for (size_t i = 0; i < j->n_launches && s == HM_OK; i++) {
        struct hm_jlaunch *l = &j->launch[i];
        if (l->n_parts > j->n_workers)
            l->n_parts = j->n_workers; /* two parts of one worker: the key is not what it seems */
        hm_compare_locals(j, l);
    }
    if (s == HM_OK)
        s = hm_judge_siblings(j);
    for (size_t i = 0; i < j->n_launches && s == HM_OK; i++) {
        struct hm_jlaunch *l = &j->launch[i];
        hm_compare_launch(compare, l);
        j->n_sync += hm_judge_is_sync(l) ? 1u : 0u;
        sum_launch(j, l);
    }
    hm_compare_destroy(compare);
    if (s == HM_OK)
        s = count_all(j);
    if (s == HM_OK) {
        hm_judge_charge(j);
        last_of_steps(j);
        s = hm_judge_critical(j);
    }
    return s;
}
