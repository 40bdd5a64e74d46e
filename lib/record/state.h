/* The recorder's one state, and the calls every source of events makes.
 *
 * Box: lib/record (and nccl-plugin). `hm` is the only global two modules share. On the record path
 * (hm_begin .. hm_commit): no malloc, no lock, no system call, no log; trouble is hm_lose().
 */
#ifndef HM_RECORD_STATE_H
#define HM_RECORD_STATE_H

#include "core/clock.h"
#include "core/config.h"
#include "core/pool.h"

struct hm_cupti_ops {
    void (*push)(uint64_t external);
    void (*pop)(uint64_t external);
    void (*flush)(int64_t deadline_ns, int forced);
    void (*hold)(int on); /* a window opens; it is let go by the source itself. Idempotent */
};
enum hm_life { HM_DORMANT, HM_WAKING, HM_AWAKE, HM_LEAVING, HM_OFF };
struct hm_state { /* `hm`; what two or more modules need; a module's own things are static in its .c
                   */
    const _Atomic uint64_t *_Atomic
        gate; /* a constant zero until awake, then &pool->gate: one pointer, one word, one branch */
    _Atomic uint32_t life, in_child;
    struct hm_pool_view view;
    const struct hm_cupti_ops *_Atomic cupti;
    struct hm_config config;
    _Atomic uint32_t n_gates; /* how often the gate was set to something new (window.c) */
};

extern struct hm_state hm;

/** What woke us: MPI_Init, an NCCL communicator, an hm_ call of the application, a step range. */
enum hm_cause { HM_CAUSE_MPI, HM_CAUSE_NCCL, HM_CAUSE_API, HM_CAUSE_NVTX };
/** Wakes the recorder once (settings, identity, run folder, pool, writer, gate). 1 = awake.
 *  Later calls are one load. Never fails loudly: at most one line, then HM_OFF. Thread: any. */
int hm_wake(enum hm_cause cause);
/** Tells who we are; the first claim wins (MPI_Init, first communicator with n > 1, first step). */
void hm_claim(int32_t rank, int32_t n_ranks, int32_t local_rank, int32_t n_local);

/** Is this kind recorded now? One pointer, one word, one branch. */
static inline int hm_on(unsigned kind)
{
    const _Atomic uint64_t *gate = atomic_load_explicit(&hm.gate, memory_order_relaxed);
    return (int)(atomic_load_explicit(gate, memory_order_relaxed) >> kind & 1);
}
/** Was this kind recorded at an instant of hm_now()? For sources that hear of things later. The
 * view is the caller's own, zeroed at first. */
struct hm_gate_view {
    int64_t lo_ns, hi_ns; /* from lo until before hi the gate was this */
    uint64_t gate;
    uint32_t n_changes;
};
void hm_gate_look(struct hm_gate_view *view, int64_t t_ns);
static inline int hm_on_at(struct hm_gate_view *view, unsigned kind, int64_t t_ns)
{
    uint32_t n = atomic_load_explicit(&hm.n_gates, memory_order_acquire);
    if (n < 2) /* it never changed */
        return hm_on(kind);
    if (n != view->n_changes || t_ns < view->lo_ns || t_ns >= view->hi_ns)
        hm_gate_look(view, t_ns);
    return (int)(view->gate >> kind & 1);
}
/** Brings the hooks' copy of the gate up to date, when the writer has changed it. Two loads. */
void hm_gate_follow(void);
/** Begins an event of this thread: kind and track (the calling thread's) set, the rest zero.
 *  NULL = shut or full (counted). Must be followed by hm_commit() on the same thread. */
struct hm_event *hm_begin(unsigned kind);
/** The same for something that hm_on_at() let pass: the gate may be shut by now. */
struct hm_event *hm_begin_late(unsigned kind);
void hm_commit(void);
/** Interns text (cut at 4095 bytes) and returns its string id. */
uint32_t hm_name(const char *text, size_t len);
/** Interns a definition of any kind. */
uint32_t hm_define(enum hm_def_kind kind, const void *bytes, uint32_t len);
/** Track of the calling host thread. */
uint32_t hm_track(void);
void hm_lose(enum hm_loss cause, uint64_t n);
/** Note to the writer; the first few lines also go to the user's stderr. */
void hm_note(hm_status_t status, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/** A step begins (record/window.c): STEP event, pool->step, recording window. `name` is a string
 *  id or HM_NO_ID, `source` an enum hm_step_source. */
void hm_step_boundary(int64_t step, uint32_t name, uint32_t source);
/** The recording ends (record/leave.c): flush, gate shut, writer told, bounded wait. Idempotent. */
void hm_leave(void);

/** Starts CUPTI once (record/cupti_start.c); called by InitializeInjection, by the plugin's init
 *  and by hm_ calls. 1 = running. Silent when there is no CUDA in the process. */
int hm_cupti_start(void);

#endif
