/* Hang: who does not come, who waits for whom, since when.
 *
 * Box: lib/analysis. Pure. From how far each member of each communicator got: the lowest collective
 * that is not complete, the members that never called it, the wait-for graph over communicators.
 * Source: facts on analysis 2.14 (ring per communicator, wait-for graph, age); nccl#1911.
 */
#ifndef HM_ANALYSIS_HANG_H
#define HM_ANALYSIS_HANG_H

#include "analysis/rows.h"
#include "core/status.h"

struct hm_sig { /* what a member calls: must agree over the members */
    uint64_t count;
    int32_t root;
    uint8_t func, dtype;
};
enum { HM_PROGRESS_CALLS = 4, HM_PROGRESS_BUCKETS = 40 };
/** How far one worker got on one communicator. */
struct hm_progress {
    uint64_t comm; /* key: of a communicator, or of a pair or the all-to-alls in it */
    uint64_t of;   /* key of the communicator, for the reader */
    uint32_t worker, n_members;
    uint32_t n_called; /* 1 + highest index of a collective that was called */
    uint32_t n_open;   /* of these, the last so many never ran; HM_NO_ID = not known (no kernels) */
    int64_t last_ns;   /* when it called last */
    int64_t open_ns;   /* when it called the first that never ran */
    struct {           /* the last calls, by index modulo HM_PROGRESS_CALLS */
        int64_t t_ns;
        uint32_t call;
        struct hm_sig sig;
    } call[HM_PROGRESS_CALLS];
    uint8_t func;                      /* where the calls do not tell */
    uint16_t gap[HM_PROGRESS_BUCKETS]; /* calls by log2 of the ns since the call before */
};
/** Takes a call of this worker on this communicator (kind NCCL_CALL, or NCCL_COLL where calls are
 *  not told); point-to-point calls are ignored: a member need not take part in each. */
void hm_progress_event(struct hm_progress *p, const struct hm_event *ev);

/** How a worker's recording ended. */
struct hm_alive {
    int64_t last_ns; /* last sign of life */
    int64_t mark_ns; /* when the innermost range or call that never ended began */
    uint32_t in;     /* its name (run-wide string), HM_NO_ID = none */
    uint8_t left;    /* enum hm_left */
};
enum hm_left { HM_LEFT_CLEAN, HM_LEFT_STOPPED, HM_LEFT_DIED };

enum { HM_HANG_MISSING = 64 };
struct hm_hang {                                  /* a communicator that is stuck */
    uint64_t comm, of;                            /* as in hm_progress */
    uint32_t seq;                                 /* lowest collective that is not complete */
    uint32_t n_waiting;                           /* members that called it and got no further */
    uint32_t n_missing, missing[HM_HANG_MISSING]; /* present members that never called it */
    uint32_t n_absent;                            /* members whose files are not here */
    int64_t age_ns;                               /* longest wait */
    struct hm_sig sig;                            /* of the waiters */
    uint8_t in_flight;                            /* all called it, and it never completed */
};
struct hm_hangs {
    struct hm_hang *hang; /* the oldest first */
    size_t n;
    uint32_t *root; /* workers nobody else explains: sinks of the wait-for graph */
    size_t n_roots;
    uint32_t *cycle; /* workers that wait for one another in a ring: inverted order */
    size_t n_cycle;
};
/** p [n] in any order (sorted here), alive [n_workers]. Fills *hangs_p (n = 0: nothing hangs). */
hm_status_t hm_hang_find(struct hm_progress *p, size_t n, const struct hm_alive *alive,
                         uint32_t n_workers, struct hm_hangs *hangs_p);
void hm_hang_clear(struct hm_hangs *hangs);

#endif
