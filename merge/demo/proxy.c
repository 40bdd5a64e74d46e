/* What NCCL's proxy threads would have told of a ring between nodes. Box: merge/demo.
 *
 * One channel, 8 steps a collective, from the last start on. A send step waits for the GPU to fill
 * the buffer, for the peer's credit, for the wire; the wire takes nine tenths of a healthy step. A
 * slow link is the one from its rank to the next: the whole ring goes at its pace, only there the
 * wire takes the time; behind it credits are missing, elsewhere the GPU has nothing to send.
 */
#include "demo/sim.h"

enum { CHUNKS = 8 };

static void give(struct hm_demo_out *out, const struct hm_demo_rank *r, const struct hm_event *ev)
{
    if (!out->status && !r->now.lost)
        out->status = out->give(out->ctx, ev);
}

static void step(struct hm_demo_out *out, const struct hm_demo_rank *r, uint32_t proxy, int i,
                 int64_t t, int64_t pace, int64_t wire, int is_send, int before)
{
    struct hm_event ev = {.t_ns = t, .dur_ns = pace, .kind = HM_EV_PROXY_STEP};
    int64_t spare = pace - wire;
    ev.u.proxy_step.phase_ns[0] = 1;
    if (is_send) {
        ev.u.proxy_step.phase_ns[1] = before ? 2 : spare + 2;
        ev.u.proxy_step.phase_ns[2] = spare + 3;
    } else {
        ev.u.proxy_step.phase_ns[1] = pace - pace / 20;
        ev.u.proxy_step.phase_ns[2] = pace - pace / 40;
    }
    ev.u.proxy_step.bytes = 1 << 22;
    ev.u.proxy_step.proxy = proxy;
    ev.u.proxy_step.step = i;
    give(out, r, &ev);
}

/* Is it the link of crank `c` to the next one that is slow here? */
static int slow_from(const struct hm_demo_sim *sim, const struct hm_demo_rank *r,
                     const struct hm_demo_op *op, uint32_t c)
{
    for (uint32_t i = 0; i < sim->demo->n_faults; i++) {
        const struct hm_demo_fault *f = &sim->demo->fault[i];
        uint32_t at;
        if (f->kind == HM_DEMO_SLOW_LINK && !(sim->repaired >> i & 1) && r->step >= f->from_step &&
            hm_demo_group(&sim->shape, op->comm, f->rank, &at) == r->group[op->comm] && at == c)
            return 1;
    }
    return 0;
}

void hm_demo_emit_proxy(struct hm_demo_out *out, struct hm_demo_rank *r,
                        const struct hm_demo_op *op, int64_t t_ns, int64_t dur_ns)
{
    uint32_t n = out->sim->shape.n_members[op->comm], me = r->crank[op->comm];
    int64_t pace = dur_ns / CHUNKS;
    double f = hm_demo_link_factor(out->sim, r, op, r->step);
    int64_t usual = (int64_t)(0.9 * (double)pace / f);
    int mine = slow_from(out->sim, r, op, me), before = slow_from(out->sim, r, op, (me + 1) % n);
    for (int is_send = 1; is_send >= 0; is_send--) {
        struct hm_event ev = {.t_ns = t_ns, .dur_ns = dur_ns, .kind = HM_EV_PROXY_OP};
        ev.u.proxy_op.bytes = (uint64_t)CHUNKS << 22;
        ev.u.proxy_op.comm = op->comm;
        ev.u.proxy_op.call = r->call[op->comm] - 1;
        ev.u.proxy_op.proxy = ++r->n_proxy;
        ev.u.proxy_op.peer = (int32_t)((is_send ? me + 1 : me + n - 1) % n);
        ev.u.proxy_op.n_steps = CHUNKS;
        ev.u.proxy_op.chunk_bytes = 1 << 22;
        ev.u.proxy_op.origin_pid = (int32_t)(1000 + r->rank);
        ev.u.proxy_op.is_send = (uint8_t)is_send;
        give(out, r, &ev);
        for (int i = 0; i < CHUNKS; i++)
            step(out, r, r->n_proxy, i, t_ns + i * pace, pace,
                 mine ? (int64_t)(0.9 * (double)pace) : usual, is_send, before);
    }
}
