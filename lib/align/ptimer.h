/* Stamps of a GPU's own timer -> host time, with an interval that holds the truth.
 *
 * Box: lib/align. Pure. The timer counts ns from an unknown origin, drifts, and moves in ticks; no
 * stamp of one GPU may be compared with another's, or with the host's, before this. Source: facts
 * on NCCL's profiler 2.8; the polygon of line.h with bounds that are open on one side.
 */
#ifndef HM_ALIGN_PTIMER_H
#define HM_ALIGN_PTIMER_H

#include "core/status.h"

#include <stddef.h>
#include <stdint.h>

#define HM_PTIMER_UNKNOWN INT64_MIN /* a host time that nobody knows */

/* One kernel channel at work. Host times in ns of one clock. */
struct hm_ptimer_work {
    uint64_t gpu_start, gpu_stop; /* 0 = not stamped */
    int64_t launch_ns;            /* its kernel was launched not before this */
    int64_t seen_ns;              /* the stop stamp was read at this time: it is not younger */
    int64_t kernel_start_ns, kernel_end_ns; /* CUPTI's record of the kernel: holds both stamps */
    int64_t kernel_error_ns;                /* the record's edges may be off by so much */
    uint32_t channel;                       /* of this GPU: stamps of one never run backwards */
};

struct hm_ptimer;
struct hm_ptimer_told {
    uint64_t tick_ns;          /* greatest common divisor of all differences */
    size_t n_bad;              /* works left out: no stamp, stop before start, backwards */
    size_t n_windows, n_ok;    /* windows of a second, those with a line through all bounds */
    double drift_lo, drift_hi; /* host seconds a GPU second minus 1, of the first ok window */
};

/** Fits one GPU's timer. work[n] in any order, n may be 0. HM_OK or HM_E_NOMEM.
 *  Cost: n log n. Owns: *timer_p is the caller's, for hm_ptimer_destroy(). */
hm_status_t hm_ptimer_create(const struct hm_ptimer_work *work, size_t n,
                             struct hm_ptimer **timer_p, struct hm_ptimer_told *told_p);
void hm_ptimer_destroy(struct hm_ptimer *timer);

/** Host time of a stamp: the truth lies in [*lo_p, *hi_p], *host_p is the likeliest. 0 = this part
 *  of the timer cannot be trusted (no bounds, or bounds that contradict each other): nothing is
 *  written. Thread: any. Cost: O(log windows). */
int hm_ptimer_host(const struct hm_ptimer *timer, uint64_t gpu, int64_t *host_p, int64_t *lo_p,
                   int64_t *hi_p);

#endif
