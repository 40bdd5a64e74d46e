/* The demo: a made-up data-parallel training run whose faults and gain are known.
 *
 * Box: merge/demo. Deterministic: the same arguments give the same events.
 */
#ifndef HM_DEMO_H
#define HM_DEMO_H

#include "core/status.h"

#include <stdint.h>

enum hm_demo_kind {
    HM_DEMO_SLOW_GPU,    /* value = factor: every compute kernel takes that much longer */
    HM_DEMO_SLOW_INPUT,  /* value = ms more in the range `input`, before the step's first launch */
    HM_DEMO_LATE_LAUNCH, /* value = ms in which the host does nothing that is recorded */
    HM_DEMO_MORE_WORK    /* value = factor of the matrix kernels, grid and duration */
};
struct hm_demo_fault {
    enum hm_demo_kind kind;
    uint32_t rank, from_step;
    double value;
};
enum { HM_DEMO_MAX_FAULTS = 16 };
struct hm_demo {
    uint32_t n_ranks, n_steps;
    uint64_t seed;
    struct hm_demo_fault fault[HM_DEMO_MAX_FAULTS];
    uint32_t n_faults;
};
/** Total time of the steps after the first, all ranks together on one clock, ns; and the same
 *  with every fault repaired. The difference is the true gain. */
struct hm_demo_truth {
    int64_t total_ns, repaired_ns;
};
hm_status_t hm_demo_truth(const struct hm_demo *demo, struct hm_demo_truth *truth_p);
/** Writes rank-NNNNN.h5 of all ranks and truth.json into `dir`, which must not exist. */
hm_status_t hm_demo_write(const struct hm_demo *demo, const char *dir);

#endif
