/* Account: the events of one worker, in time order -> what each step and each arrival is made of.
 *
 * Box: lib/analysis. Pure. One object per worker; memory bounded by the open window, not the run.
 * Source: facts on analysis 2.2, 2.3, 2.5; facts on scenarios, rules 3 and 4.
 */
#ifndef HM_ANALYSIS_ACCOUNT_H
#define HM_ANALYSIS_ACCOUNT_H

#include "analysis/rows.h"
#include "analysis/why.h"
#include "core/status.h"

/** One analysed step of one worker, half open. */
struct hm_step_window {
    int64_t t0_ns, t1_ns;
    uint32_t step, flags;
};

struct hm_opstat; /* opstats.h */
/** What the account asks of its caller; every call in the caller's thread. */
struct hm_account_in {
    uint32_t worker, device;
    const struct hm_step_window *step; /* [n_steps] ascending, disjoint */
    size_t n_steps;
    void *ctx;
    /** Next arrivals of this worker with their annotations, in start order; 0 = no more. */
    size_t (*arrivals)(void *ctx, struct hm_arrival *a_p, struct hm_annot *v_p, size_t cap);
    /** Device and stream of a track; type is an enum hm_track_type. 0 = unknown track. */
    int (*track)(void *ctx, uint32_t track, uint32_t *type_p, uint32_t *device_p,
                 uint32_t *stream_p);
    /** Text of a run-wide string id, "" when unknown; borrowed until the next call. */
    const char *(*string)(void *ctx, uint32_t id);
    /** Name (string id) of a run-wide kernel id. */
    uint32_t (*kernel_name)(void *ctx, uint32_t kernel);
    /** Receives one row per step, ascending. */
    hm_status_t (*step_part)(void *ctx, const struct hm_step_part *p);
    /** Receives one row per arrival, in the order of arrivals(). */
    hm_status_t (*segment)(void *ctx, const struct hm_segment *s);
    /** Receives, at the end, one row per (kernel, grid), ordered by key; for hm_judge_kernels().
     *  May be NULL. */
    hm_status_t (*kernel_stat)(void *ctx, const struct hm_kernel_stat *k);
    /** Receives, at the end, one row per name (opstats.h). NULL = they are not kept. */
    hm_status_t (*opstat)(void *ctx, const struct hm_opstat *s);
    /** Receives the gate chain of arrival `explain` stretch by stretch, in order of time; they lie
     *  end to end and sum to start - carry of its segment. NULL = not asked. */
    void (*link)(void *ctx, const struct hm_link *link);
    uint32_t explain;
    int64_t clock_error_ns; /* of the run, for rule 3's tolerance */
};
struct hm_account;
hm_status_t hm_account_create(const struct hm_account_in *in, struct hm_account **account_p);
/** Takes the next event of the worker's rank (events of other devices are ignored; host events of
 *  the rank's threads count). Non-decreasing t_ns. */
hm_status_t hm_account_event(struct hm_account *account, const struct hm_event *ev);
/** Ends the stream of events: emits what is still open. */
hm_status_t hm_account_end(struct hm_account *account);
void hm_account_destroy(struct hm_account *account);

#endif
