/* Judge: matched launches, segments and step parts of all workers, in time order -> the result.
 *
 * Box: lib/analysis. Pure; memory per worker, not per launch. Integers inside, doubles at the end.
 * Source: facts on scenarios rules 1 to 5 (gain by replay, two estimators of arrival, gate chain,
 * control kernels, effect before chance); facts on analysis 2.1 to 2.6, 2.10, 2.17.
 */
#ifndef HM_ANALYSIS_JUDGE_H
#define HM_ANALYSIS_JUDGE_H

#include "analysis/hang.h"
#include "analysis/health.h"
#include "analysis/network.h"
#include "analysis/opstats.h"
#include "analysis/result.h"
#include "analysis/roles.h"
#include "analysis/why.h"
#include "store/rank.h"

/** A communicator that was found by what its kernel does (rule 7). */
struct hm_inferred {
    uint64_t comm;
    const char *kernel; /* its name */
};
/** What is known before judging: identity, data quality, clocks. */
struct hm_judge_in {
    const struct hm_run *run;
    uint64_t n_launches_seen, n_launches_matched; /* matched: seen on all present members */
    uint64_t n_violations;                        /* end_i < start_j beyond the clock error */
    int64_t clock_error_ns;                       /* largest bound of any compared pair */
    uint32_t arrival_source;                      /* enum hm_arrival_source, the weakest used */
    const char *step_source;                      /* "marks|nvtx|repetition|none" */
    uint32_t n_steps, n_skipped;
    const struct hm_mesh *mesh; /* NULL = none given */
    const struct hm_inferred *inferred;
    uint32_t n_inferred;
    struct hm_progress *progress; /* [n_progress], sorted by the judge */
    size_t n_progress;
    const struct hm_alive *alive; /* [run->n_workers], NULL when n_progress is 0 */
    uint32_t n_graph_ranks;       /* ranks whose collectives run inside graphs, unseen */
};
struct hm_judge;
hm_status_t hm_judge_create(const struct hm_judge_in *in, struct hm_judge **judge_p);
/** Next window of launches in order of last_ns, each with its parts (part[i_part .. + n_present)),
 *  parts with i_segment into segment[] (HM_NO_ID = none). */
hm_status_t hm_judge_window(struct hm_judge *judge, const struct hm_window *w);
/** Step parts of all workers, grouped by step, ascending. */
hm_status_t hm_judge_steps(struct hm_judge *judge, const struct hm_step_part *p,
                           const uint32_t *worker, size_t n);
/** Kernel statistics of one worker, as its account gave them. In any order of workers. */
hm_status_t hm_judge_kernels(struct hm_judge *judge, uint32_t worker,
                             const struct hm_kernel_stat *k, size_t n);
/** What the machine under one worker did, over the analysed steps; uuid of its GPU, all 0 =
 * unknown.
 */
void hm_judge_health(struct hm_judge *judge, uint32_t worker, const struct hm_health_sum *sum,
                     const uint8_t uuid[16]);
/** What the workers' links waited for (copied). */
hm_status_t hm_judge_links(struct hm_judge *judge, const struct hm_link_sum *link, size_t n);
/** One row of a worker's operation statistics. Workers ascending. */
hm_status_t hm_judge_opstat(struct hm_judge *judge, uint32_t worker, const struct hm_opstat *s);
/** Fills the tables; the rows are freed by hm_result_clear(). */
hm_status_t hm_judge_result(struct hm_judge *judge, struct hm_result *result_p);
/** After hm_judge_result(): the worker's latest arrival in a step, HM_NO_ID = in any. 0 = none. */
int hm_judge_why(const struct hm_judge *judge, uint32_t worker, uint32_t step,
                 struct hm_why *why_p);
/** "AllReduce"; "Unknown" for what is none. */
const char *hm_nccl_func_name(unsigned func);
void hm_judge_destroy(struct hm_judge *judge);

#endif
