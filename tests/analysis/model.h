/* A modelled data-parallel job on exact clocks, run through account, match and judge.
 *
 * Test only. One rank: a compute stream and a communication stream; each step is `n_buckets` times
 * (compute, all-reduce on the other stream that awaits it), then an optimizer kernel that awaits
 * the last all-reduce. Times in ns by arithmetic alone, so that every expected value can be
 * computed by hand.
 */
#ifndef HM_TESTS_MODEL_H
#define HM_TESTS_MODEL_H

#include "analysis/account.h"
#include "analysis/judge.h"

struct model {
    uint32_t n_ranks, n_steps, n_buckets;
    int64_t reduce_ns, optimizer_ns;
    int64_t clock_ns[16];   /* added to every time of a rank */
    int64_t clock_error_ns; /* what the clocks claim */
    int64_t exit_ns;        /* rank r leaves r * exit_ns later */
    int one_stream;         /* all-reduces on the compute stream */
    /** Duration of a compute kernel. */
    int64_t (*compute)(const struct model *m, uint32_t rank, uint32_t step, uint32_t bucket);
    /** Host time before the first launch of a step, beyond the 1 ms it runs ahead; kind 0 host,
     *  1 in a range `input`. NULL = none. */
    int64_t (*host)(const struct model *m, uint32_t rank, uint32_t step, int *kind_p);
    /** Grid of a compute kernel. NULL = 1. */
    uint32_t (*grid)(const struct model *m, uint32_t rank, uint32_t step, uint32_t bucket);
    uint64_t seed;
    /** Not NULL: instead of the above, U17: compute of 100 ms a step on one stream; beside it an
     *  all-gather launched this long after the step began; the next step waits for both. */
    int64_t (*side_launch)(const struct model *m, uint32_t rank, uint32_t step);
};
struct model_sums { /* what must hold: checked by the caller */
    uint64_t n_segments, n_bad_segments, n_steps, n_bad_steps;
};

/** Runs everything; the result is cleared by the caller with hm_result_clear(). */
void model_run(const struct model *m, struct hm_result *result_p, struct model_sums *sums_p);
/** The run behind the last result (for reports). */
const struct hm_run *model_last_run(void);

#endif
