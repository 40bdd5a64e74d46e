/* Forward simulation of a demo: each rank's host and streams, and the instants at which ranks meet.
 *
 * Box: merge/demo, internal. Pure. Two ways through one code: all ranks together, to learn the
 * meetings and the step times; one rank alone with the meetings known, to write its events.
 * Memory: some 400 bytes a rank, 16 a meeting.
 */
#ifndef HM_DEMO_SIM_H
#define HM_DEMO_SIM_H

#include "core/event.h"
#include "demo/program.h"

/** Receives events in no particular order. */
typedef hm_status_t (*hm_demo_give_t)(void *ctx, const struct hm_event *ev);
struct hm_demo_out {
    hm_demo_give_t give;
    void *ctx;
    const struct hm_demo_sim *sim;
    hm_status_t status;             /* the first failure */
    uint64_t n_lost, n_lost_a_step; /* events */
};
/* What the faults do to one rank in one step. */
struct hm_demo_effect {
    double gpu, work, expert;
    int64_t input_ns, late_ns, pause_ns, alloc_ns, checkpoint_ns;
    uint32_t pause_pc, alloc_pc;
    uint8_t lost, dies, mismatch;
};
struct hm_demo_rank {
    uint32_t rank, stage, step, pc;
    int64_t host_ns, stream_ns[DEMO_N_STREAMS], event_ns[DEMO_N_EVENTS];
    int64_t start_ns, call_ns; /* of the meeting at hand: kernel's start, its call */
    int64_t step_t_ns;         /* begin of the step */
    uint32_t group[HM_DEMO_N_COMMS], crank[HM_DEMO_N_COMMS];
    uint32_t n_proxy, correlation, launch, call[HM_DEMO_N_COMMS], n_p2p[HM_DEMO_N_COMMS];
    struct hm_demo_effect now;
    uint8_t waiting, dead, done, mismatched;
};
struct hm_demo_meeting {
    int64_t last_ns;          /* last start; INT64_MIN = never complete */
    uint32_t n_here, waiting; /* ranks that came; head of their list, + 1 */
};
struct hm_demo_sim {
    const struct hm_demo *demo;
    struct hm_demo_shape shape;
    struct hm_demo_program *program; /* [stages] */
    uint32_t repaired;               /* bits of faults that are undone */
    double noise;
    uint32_t n_meets[HM_DEMO_N_COMMS], n_pairs;
    uint64_t first_meet[HM_DEMO_N_COMMS], n_meetings;
    struct hm_demo_meeting *meeting;
    int64_t *step_end_ns;           /* [n_steps] over all ranks; INT64_MIN = never */
    struct hm_demo_rank *rank;      /* [n_ranks], while all run together */
    uint32_t *next_waiting, *queue; /* [n_ranks] */
    int64_t stuck_ns;               /* last instant anything happened, where ranks are stuck */
    uint32_t n_stuck;
};
/** Runs all ranks. repaired: faults left out (~0 = all); quiet: no noise. */
hm_status_t hm_demo_sim_run(const struct hm_demo *demo, uint32_t repaired, int quiet,
                            struct hm_demo_sim *sim_p);
void hm_demo_sim_fini(struct hm_demo_sim *sim);
/** Total time of the steps after the first, or of the only one. */
int64_t hm_demo_sim_total(const struct hm_demo_sim *sim);
/** Runs one rank of a finished simulation again and gives its events. */
hm_status_t hm_demo_sim_rank(const struct hm_demo_sim *sim, uint32_t rank, hm_demo_give_t give,
                             void *ctx, uint64_t *n_lost_p, int *stuck_p);
/** What the faults that are not repaired do to a rank in a step. */
void hm_demo_effect_at(const struct hm_demo_sim *sim, uint32_t rank, uint32_t step,
                       struct hm_demo_effect *effect_p);
/** Factor of a transfer between the members of a group (PP: the pair of this rank). */
double hm_demo_link_factor(const struct hm_demo_sim *sim, const struct hm_demo_rank *r,
                           const struct hm_demo_op *op, uint32_t step);

/* emit.c: one operation as the recorder would have seen it. `call_ns` is when the host came to it.
 */
void hm_demo_emit_begin(struct hm_demo_out *out, const struct hm_demo_rank *r, int64_t mark_ns,
                        int64_t checkpoint_ns, int64_t input_t_ns, int64_t input_ns);
void hm_demo_emit_end(struct hm_demo_out *out, const struct hm_demo_rank *r);
void hm_demo_emit_copy(struct hm_demo_out *out, const struct hm_demo_rank *r,
                       const struct hm_demo_op *op, int64_t call_ns, int64_t start_ns,
                       int64_t dur_ns);
void hm_demo_emit_kernel(struct hm_demo_out *out, const struct hm_demo_rank *r,
                         const struct hm_demo_op *op, int64_t call_ns, int64_t start_ns,
                         int64_t dur_ns);
/** dur_ns HM_DUR_OPEN: the operation never ended. */
void hm_demo_emit_comm(struct hm_demo_out *out, struct hm_demo_rank *r, const struct hm_demo_op *op,
                       int64_t call_ns, int64_t start_ns, int64_t dur_ns);
/** Proxy operations of the collective just emitted, from the last start on. */
void hm_demo_emit_proxy(struct hm_demo_out *out, struct hm_demo_rank *r,
                        const struct hm_demo_op *op, int64_t t_ns, int64_t dur_ns);
void hm_demo_emit_sync(struct hm_demo_out *out, struct hm_demo_rank *r, int64_t t_ns,
                       int64_t dur_ns);
void hm_demo_emit_alloc(struct hm_demo_out *out, struct hm_demo_rank *r, int64_t sync_t_ns,
                        int64_t t_ns, int64_t dur_ns);

#endif
