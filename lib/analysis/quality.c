/* Grade of the data: full, limited, none. Given before any verdict.
 *
 * Box: lib/analysis. Pure. Source: facts on analysis 2.16, 2.17 and section 3 (95 % and 80 % of the
 * launches matched, 5 % of violations).
 */
#include "analysis/judge_inside.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int problem(struct hm_result *r, const char *file, char *what)
{
    struct hm_out_problem *p = hm_result_add(r, HM_T_problem);
    if (!p || !what) {
        free(what);
        return 0;
    }
    p->file = strdup(file);
    p->what = what;
    return 1;
}

hm_status_t hm_judge_quality(struct hm_judge *j, struct hm_result *r)
{
    const struct hm_run *run = j->in.run;
    int limited = 0, none = 0, ok = 1;
    for (uint32_t i = 0; i < run->n_problems; i++)
        ok &= problem(r, run->problem[i].file, strdup(run->problem[i].what));
    limited |= run->n_problems > 0;
    if (run->n_present < run->n_ranks)
        limited = 1;
    for (uint32_t i = 0; i < run->n_present; i++)
        for (unsigned k = 0; k < HM_N_LOST; k++) {
            r->lost[k] += (int64_t)run->rank[i].lost[k];
            limited |= run->rank[i].lost[k] > 0 && k != HM_LOST_NCCL_FOREIGN &&
                       k != HM_LOST_TEXT_CUT && k != HM_LOST_TOO_DEEP && k != HM_LOST_REENTRY;
        }
    uint64_t seen = j->in.n_launches_seen, matched = j->in.n_launches_matched;
    int64_t frac = seen ? (int64_t)((double)matched / (double)seen * 1e9 + 0.5)
                        : HM_NONE(HM_NONE_NO_COLLECTIVES);
    if (seen && matched * 100 < seen * 80)
        none = 1;
    else if (seen && matched * 100 < seen * 95)
        limited = 1;
    if (seen && matched * 100 < seen * 95)
        ok &= problem(r, "collectives",
                      hm_text("%llu of %llu were not seen on every rank present",
                              (unsigned long long)(seen - matched), (unsigned long long)seen));
    if (j->in.n_violations) {
        limited = 1;
        none |= j->in.n_violations * 20 > seen;
        ok &= problem(r, "clocks",
                      hm_text("in %llu of %llu collectives a rank leaves before another arrives: "
                              "clocks or matching are not right",
                              (unsigned long long)j->in.n_violations, (unsigned long long)seen));
    }
    int unknown = j->in.clock_error_ns >= HM_CLOCK_UNKNOWN_NS;
    if (unknown) {
        limited = 1;
        ok &=
            problem(r, "clocks",
                    strdup("the clocks of some nodes were never compared; arrivals are taken from "
                           "durations"));
    } else if (j->clock_suspect) {
        limited = 1;
        ok &= problem(r, "clocks",
                      hm_text("aligned clocks and durations disagree by up to %.1f us: clocks "
                              "suspect, arrivals are taken from durations",
                              (double)j->shift_max_ns / 1e3));
    }
    if (j->in.n_graph_ranks) {
        limited = 1;
        ok &= problem(r, "collectives",
                      hm_text("communication of %u ranks runs inside CUDA graphs: it needs kernel "
                              "records, and there are none",
                              j->in.n_graph_ranks));
    } else if (run->n_workers > 1 && !j->n_sync) {
        limited = 1;
        ok &= problem(r, "collectives",
                      strdup("no collective was seen on two ranks: ranks cannot be compared"));
    }
    if (j->n_watched) {
        uint32_t who = 0; /* whom it held up most */
        for (uint32_t w = 0; w < j->n_workers; w++)
            if (j->worker[w].watched.idle_by_ns[HM_IDLE_OBSERVER] >
                j->worker[who].watched.idle_by_ns[HM_IDLE_OBSERVER])
                who = w;
        ok &= problem(
            r, "steps",
            hm_text("a profiler worked on rank %u in %u steps (%u to %u), %.1f ms beside the job's "
                    "own work: these steps are left out",
                    run->worker[who].rank, j->n_watched, j->watched_from, j->watched_to,
                    (double)j->worker[who].watched.idle_by_ns[HM_IDLE_OBSERVER] / 1e6));
    }
    limited |= j->n_steps < 8;
    struct hm_out_quality *q = hm_result_add(r, HM_T_quality);
    if (!q || !ok)
        return hm_fail(HM_E_NOMEM, "judge", "out of memory");
    static const char *const source[] = {"kernel", "kernel", "ptimer", "enqueue"};
    q->grade = strdup(none ? "none" : limited ? "limited" : "full");
    q->ranks_present = run->n_present;
    q->ranks_expected = run->n_ranks;
    q->matched_frac = frac;
    q->clock_error_ns = unknown ? HM_NONE(HM_NONE_NO_CLOCK) : j->in.clock_error_ns;
    q->violations = (int64_t)j->in.n_violations;
    q->arrival_source = strdup(source[j->in.arrival_source < 4 ? j->in.arrival_source : 0]);
    q->clock_suspect = (int64_t)j->clock_suspect;
    if (!q->grade || !q->arrival_source)
        return hm_fail(HM_E_NOMEM, "judge", "out of memory");
    return HM_OK;
}
