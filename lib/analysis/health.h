/* Health of the machine under a worker, from the recorder's counters, over the analysed steps.
 *
 * Box: lib/analysis. Pure. One sum per worker; memory fixed. A counter holds its value until the
 * next one. Names as in docs/recording.md, domain "health".
 */
#ifndef HM_ANALYSIS_HEALTH_H
#define HM_ANALYSIS_HEALTH_H

#include "analysis/rows.h"

/** HM_NONE(HM_NONE_NOT_RECORDED) = was not sampled. */
struct hm_health_sum {
    int64_t sm_mhz, mem_mhz, power_mw, power_limit_mw; /* mean over the time */
    int64_t limit_default_mw, sm_max_mhz;              /* largest */
    int64_t temperature_c, memory_used, memory_total;  /* largest; bytes */
    int64_t n_processes, other_pid;                    /* largest, last that is not 0 */
    int64_t reasons;                                   /* bits that ever stood */
    int64_t xid;                                       /* last */
    int64_t wait_ns; /* growth; of the thread that waited most for a CPU */
    int64_t run_ns;  /* growth; of the thread that ran most */
    int64_t faults, throttled_us, cpu_pressure_us, memory_pressure_us; /* growth */
    int64_t ecc, pcie_replays, nvlink_errors;                          /* growth */
    int64_t n_cpus, n_near;                                            /* smallest */
};
enum { HM_HEALTH_COUNTERS = 24, HM_HEALTH_TRACKS = 4 };
struct hm_health_track {
    uint32_t track, used;
    int64_t first, last; /* value at the begin of the window, and now */
};
/** Zeroed, then t0_ns and t1_ns set: the window. */
struct hm_health_state {
    int64_t t0_ns, t1_ns;
    struct {
        int64_t value, since_ns, first, best;
        double area; /* value x ns */
        int64_t covered_ns;
        uint8_t seen, any;
        struct hm_health_track thread[HM_HEALTH_TRACKS];
    } counter[HM_HEALTH_COUNTERS];
};
/** A COUNTER event in order of time; name as the run spells it. Others than ours are passed over.
 */
void hm_health_event(struct hm_health_state *s, const char *name, const struct hm_event *ev);
void hm_health_end(struct hm_health_state *s, struct hm_health_sum *sum_p);
/** Nothing sampled. */
void hm_health_none(struct hm_health_sum *sum_p);

#endif
