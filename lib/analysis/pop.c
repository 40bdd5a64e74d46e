/* POP efficiencies where communication kernels are no useful work.
 *
 * Box: lib/analysis. Pure. Useful = time with a compute kernel, active = time with any device
 * operation. Source: POP methodology (parallel efficiency = load balance x communication
 * efficiency, that = serialisation x transfer); TALP's form for GPUs (arXiv 2603.26576), whose own
 * rule, communication kernels useful, stands beside it; facts on analysis 2.9.
 */
#include "analysis/judge_inside.h"

#include <math.h>
#include <stdlib.h>

static int64_t ratio(double part, double whole)
{
    return whole > 0 ? (int64_t)llround(part / whole * 1e9) : HM_NONE(HM_NONE_NO_STEPS);
}

/* From the first start to the last end of each run of neighbouring steps; where clocks cannot be
 * compared, the longest sum of windows of one worker. */
static int64_t elapsed(const struct hm_judge *j)
{
    int64_t sum = 0, longest = 0;
    for (size_t i = 0, to; i < j->n_steps; i = to) {
        int64_t t0 = j->step[i].t0_ns, t1 = j->step[i].t1_ns;
        for (to = i + 1; to < j->n_steps && j->step[to].step == j->step[to - 1].step + 1; to++)
            t1 = j->step[to].t1_ns > t1 ? j->step[to].t1_ns : t1;
        sum += t1 - t0;
    }
    for (uint32_t w = 0; w < j->n_workers; w++)
        longest = j->worker[w].sum.t1_ns > longest ? j->worker[w].sum.t1_ns : longest;
    return j->clock_suspect || j->in.clock_error_ns >= HM_CLOCK_UNKNOWN_NS || sum < longest
               ? longest
               : sum;
}

hm_status_t hm_judge_pop(const struct hm_judge *j, struct hm_result *r)
{
    double useful = 0, most = 0, active = 0, talp = 0, talp_most = 0;
    for (uint32_t w = 0; w < j->n_workers; w++) {
        const struct hm_step_part *s = &j->worker[w].sum;
        double u = (double)s->compute_ns, a = (double)(s->t1_ns - s->idle_ns);
        double k = a - (double)s->memcpy_ns;
        useful += u / j->n_workers;
        talp += k / j->n_workers;
        most = u > most ? u : most;
        active = a > active ? a : active;
        talp_most = k > talp_most ? k : talp_most;
    }
    int64_t time = elapsed(j);
    if (!j->n_steps || time <= 0)
        return HM_OK;
    struct hm_out_pop *t = hm_result_add(r, HM_T_pop);
    if (!t)
        return hm_fail(HM_E_NOMEM, "judge", "out of memory");
    double whole = (double)time;
    t->elapsed_ns = time;
    t->parallel_eff = ratio(useful, whole);
    t->load_balance = ratio(useful, most);
    t->comm_eff = ratio(most, whole);
    t->gpu_comm_eff = ratio(most, active);
    t->orchestration_eff = ratio(active, whole);
    t->talp_parallel_eff = ratio(talp, whole);
    t->talp_load_balance = ratio(talp, talp_most);
    t->talp_comm_eff = ratio(talp_most, active);
    t->serialisation_eff = t->transfer_eff = HM_NONE(HM_NONE_REPLAY);
    if (!j->replay_holds)
        return HM_OK;
    const struct hm_what_if what = {.no_transfer = 1};
    int64_t gain = hm_judge_what_if(j, &what, NULL);
    if (gain == INT64_MIN)
        return hm_fail(HM_E_NOMEM, "judge", "out of memory");
    double ideal = whole - (double)(gain > 0 ? gain : 0);
    ideal = ideal > most ? ideal : most; /* nothing ends before its own work */
    t->serialisation_eff = ratio(most, ideal);
    t->transfer_eff = ratio(ideal, whole);
    return HM_OK;
}
