/* A ring over four nodes whose link from node 3 to node 4 sends at half speed. */
#include "scenarios.h"
#include "schedule_inside.h"

enum { RING = 4, CHUNKS = 8, SLOW = 2 };
#define PACE (5 * MS) /* of the whole ring: that of its slowest link */

static uint32_t proxy_op(struct rank *r, uint32_t *n_p, bool is_send, int64_t t)
{
    struct hm_event ev = {.t_ns = t, .dur_ns = CHUNKS * PACE, .kind = HM_EV_PROXY_OP};
    ev.u.proxy_op.bytes = (uint64_t)CHUNKS << 22;
    ev.u.proxy_op.call = r->member[0].n_coll - 1;
    ev.u.proxy_op.proxy = ++*n_p;
    ev.u.proxy_op.peer = (r->me + (is_send ? 1 : RING - 1)) % RING;
    ev.u.proxy_op.n_steps = CHUNKS;
    ev.u.proxy_op.chunk_bytes = 1 << 22;
    ev.u.proxy_op.origin_pid = 1000 + r->me;
    ev.u.proxy_op.is_send = is_send;
    put(r, ev);
    return *n_p;
}

/* Send: waits for the GPU to fill the buffer, for the peer's credit, for the wire. Behind the slow
 * link the GPU has nothing to send, before it the credits are missing. */
static void send_step(struct rank *r, uint32_t proxy, int step, int64_t t)
{
    int64_t wire = r->me == SLOW ? PACE : PACE / 2, spare = PACE - wire;
    struct hm_event ev = {.t_ns = t, .dur_ns = PACE, .kind = HM_EV_PROXY_STEP};
    ev.u.proxy_step.phase_ns[0] = 1;
    ev.u.proxy_step.phase_ns[1] = r->me == SLOW - 1 ? 2 : spare + 2;
    ev.u.proxy_step.phase_ns[2] = spare + 3;
    ev.u.proxy_step.bytes = 1 << 22;
    ev.u.proxy_step.proxy = proxy;
    ev.u.proxy_step.step = step;
    put(r, ev);
}

/* Receive: waits for the wire, for the flush, for the GPU to take it. */
static void recv_step(struct rank *r, uint32_t proxy, int step, int64_t t)
{
    struct hm_event ev = {.t_ns = t, .dur_ns = PACE, .kind = HM_EV_PROXY_STEP};
    ev.u.proxy_step.phase_ns[0] = 1;
    ev.u.proxy_step.phase_ns[1] = PACE - 200 * US;
    ev.u.proxy_step.phase_ns[2] = PACE - 100 * US;
    ev.u.proxy_step.bytes = 1 << 22;
    ev.u.proxy_step.proxy = proxy;
    ev.u.proxy_step.step = step;
    put(r, ev);
}

static void e13(const char *dir)
{
    struct plan plan = {.per_node = 1};
    struct job j;
    uint32_t n_proxy[RING] = {0};
    job_open(&j, dir, RING, &plan);
    int world = job_comm(&j, NULL, NULL, RING);
    for (int s = 0; s <= 30; s++) {
        for (int i = 0; i < RING; i++) {
            step_ahead(&j.r[i], s);
            compute(&j.r[i], 512, 100 * MS);
        }
        allreduce(&j, world, 4 << 20, CHUNKS * PACE);
        for (int i = 0; i < RING; i++) {
            struct rank *r = &j.r[i];
            int64_t t = r->gpu[COMM] - CHUNKS * PACE;
            uint32_t send = proxy_op(r, &n_proxy[i], true, t);
            uint32_t recv = proxy_op(r, &n_proxy[i], false, t);
            for (int c = 0; c < CHUNKS; c++) {
                send_step(r, send, c, t + c * PACE);
                recv_step(r, recv, c, t + c * PACE);
            }
            step_done(r);
        }
    }
    for (int i = 0; i < RING; i++)
        step_ahead(&j.r[i], 31);
    job_close(&j, job_end(&j));
}

const struct scenario network_scenarios[] = {{"e13", e13}, {NULL, NULL}};
