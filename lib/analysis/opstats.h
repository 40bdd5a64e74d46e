/* Operation statistics: ranges, kernels, calls by name, as torch.profiler has them, per worker.
 *
 * Box: lib/analysis. Pure. Memory: one accumulator a distinct name and one a distinct path of names
 * (at most 65,536), whatever the length of the run. Only analysed steps count.
 * Inclusive: from begin to end, a range inside one of its own name counted once. Exclusive: without
 * what other ranges and calls of the thread cover; over all names of a thread the exclusive times
 * sum to the time in which any was open. Device time, waits and idle time are charged to every name
 * that was open when the call was made (device, idle: when the launching call was made).
 */
#ifndef HM_ANALYSIS_OPSTATS_H
#define HM_ANALYSIS_OPSTATS_H

#include "analysis/account.h"

enum hm_opstat_kind {
    HM_OPSTAT_RANGE,
    HM_OPSTAT_CALL,
    HM_OPSTAT_MPI,
    HM_OPSTAT_KERNEL,
    HM_OPSTAT_COPY,
    HM_N_OPSTATS
};
struct hm_opstat {
    uint32_t kind, name; /* run-wide string; MPI: function; COPY: kind of copy, 256 = fill */
    uint64_t n;
    int64_t inclusive_ns, exclusive_ns; /* of a kernel or copy both are its duration */
    int64_t device_ns;                  /* of what was launched under it; sum of durations */
    int64_t sync_ns, input_ns;          /* waiting for the device, in input ranges, under it */
    int64_t idle_by_ns[HM_IDLE_N];      /* the device idled before what was launched under it */
    int64_t peak_bytes;                 /* device memory while it was open; HM_NONE */
    int64_t step_max_ns;                /* largest inclusive time in one step */
    uint32_t step_max, n_steps;         /* that step; steps in which it occurs */
};
struct hm_opstats_in {
    void *ctx;
    const struct hm_step_window *step; /* [n_steps] ascending; flags != 0 are left out */
    size_t n_steps;
    /** Text of a string id, "" when unknown. */
    const char *(*string)(void *ctx, uint32_t id);
};
struct hm_opstats;
hm_status_t hm_opstats_create(const struct hm_opstats_in *in, struct hm_opstats **ops_p);
/** RANGE, API, MPI, STEP, MEMORY events of the process, by t_ns. */
hm_status_t hm_opstats_host(struct hm_opstats *ops, const struct hm_event *ev);
/** A device operation of the worker, by start; name: of the kernel; idle_by_ns [HM_IDLE_N]: why the
 *  device had nothing to run just before. */
hm_status_t hm_opstats_device(struct hm_opstats *ops, const struct hm_event *ev, uint32_t name,
                              const int64_t *idle_by_ns);
/** Ends: rows in order of (kind, name). Borrowed until destroyed. */
hm_status_t hm_opstats_end(struct hm_opstats *ops, const struct hm_opstat **row_p, size_t *n_p);
void hm_opstats_destroy(struct hm_opstats *ops);

#endif
