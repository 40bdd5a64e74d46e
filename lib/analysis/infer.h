/* Infer: kernels that synchronise and are not NCCL's, found by what they do.
 *
 * Box: lib/analysis. Pure. Source: facts on scenarios, rule 7.
 */
#ifndef HM_ANALYSIS_INFER_H
#define HM_ANALYSIS_INFER_H

#include "core/status.h"

#include <stddef.h>
#include <stdint.h>

enum {
    HM_INFER_MIN = 20,     /* instances of a key in a group that are compared at least */
    HM_INFER_KEEP = 32,    /* and at most */
    HM_INFER_MIN_KNOWN = 4 /* where the name already says that it communicates */
};
/** First instances of one kernel on one worker, in order of start. */
struct hm_infer_series {
    uint32_t worker, n; /* n: how many there were in all */
    int64_t start_ns[HM_INFER_KEEP], end_ns[HM_INFER_KEEP];
};
/** Does the name belong to a library that is known to communicate (DeepEP, NVSHMEM, ...)? */
int hm_infer_known(const char *name);
/** Durations of a kernel over all workers. */
struct hm_infer_durations {
    uint32_t n, n_workers;                   /* n: how often a worker ran it at least */
    int64_t min_ns, max_ns, sum_ns;          /* shortest, longest; sum of a worker at most */
    int64_t least_ns, most_ns, sum_means_ns; /* of the means of the workers */
};
/** Could this kernel synchronise? Instances of fixed work vary little; one that waits for others
 *  varies with them. all: time of all kernels of a worker. */
int hm_infer_suspect(const char *name, const struct hm_infer_durations *d, int64_t all_ns);
/** Do the instances of a group behave as collectives: everybody leaves together, and whoever comes
 *  later stays shorter? series [n]. */
int hm_infer_is_collective(const struct hm_infer_series *const *series, size_t n, uint32_t least);
/** Groups of a kernel: `candidate` lists sets of workers, the first that fits a worker counts;
 *  group_p [n]: index of the candidate of each series, UINT32_MAX = none. member(ctx, candidate,
 *  worker): is it in? Returns how many candidates fit. */
size_t hm_infer_groups(const struct hm_infer_series *series, size_t n, uint32_t least,
                       size_t n_candidates,
                       int (*member)(void *ctx, size_t candidate, uint32_t worker), void *ctx,
                       uint32_t *group_p);

#endif
