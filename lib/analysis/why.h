/* Why: one arrival against the median member of its role, in numbers that sum to its lateness.
 *
 * Box: lib/analysis. Pure.
 */
#ifndef HM_ANALYSIS_WHY_H
#define HM_ANALYSIS_WHY_H

#include "analysis/rows.h"

struct hm_why_side {
    uint32_t worker, arrival;
    int64_t start_ns, part_ns[HM_N_C]; /* the chain since the collective it rests on */
    int64_t tail_ns;                   /* of these, after its own work let it arrive */
    int64_t before_ns; /* own work on earlier links, back to what all members rest on */
    int64_t own_ns;    /* sum of part_ns - tail_ns + before_ns */
};
struct hm_why {
    int found, has_base;
    uint32_t step, seq, base_seq, n_waiting;
    uint64_t comm, base_comm;
    int64_t late_ns; /* late.own_ns - ref.own_ns */
    int64_t wait_ns; /* of the others in this collective, together */
    uint8_t func, base_func;
    struct hm_why_side late, ref;
};

/* A stretch of a gate chain. */
struct hm_link {
    int64_t t0_ns, t1_ns;
    uint32_t name; /* string of a kernel, call or range, HM_HOST_NAME_MPI | function; HM_NO_ID */
    uint8_t part;  /* enum hm_chain_part; HM_N_C = too long ago to be kept */
};

#endif
