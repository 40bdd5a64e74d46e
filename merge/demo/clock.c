/* Clocks that run off, jump, and are compared. Box: merge/demo. Pure. */
#include "demo/clock.h"

#include "demo/random.h"

static const int64_t SECOND = 1000000000;

static uint32_t node_of(const struct hm_demo *d, uint32_t rank)
{
    return rank / (d->node_ranks ? d->node_ranks : 8);
}

int64_t hm_demo_clock(const struct hm_demo_sim *sim, uint32_t rank, int64_t t)
{
    const struct hm_demo *d = sim->demo;
    int64_t first = sim->step_end_ns[0] == INT64_MIN ? t : sim->step_end_ns[0], shown = t;
    uint32_t node = node_of(d, rank);
    double ppm = 0;
    if (d->clocks != HM_DEMO_ONE_CLOCK && node) {
        uint64_t h = hm_demo_hash(d->seed ^ 0xc10c, node, 0, 0);
        shown += (int64_t)(h % 20) * SECOND + (int64_t)(h >> 8 & 0xffffff);
        ppm = 10 * hm_demo_normal(hm_demo_mix(h));
    }
    for (uint32_t i = 0; i < d->n_faults; i++) {
        const struct hm_demo_fault *f = &d->fault[i];
        if (node_of(d, f->rank) != node)
            continue;
        int64_t from = f->from_step && f->from_step <= d->n_steps
                           ? sim->step_end_ns[f->from_step - 1]
                           : INT64_MIN;
        if (f->kind == HM_DEMO_CLOCK_DRIFT)
            ppm += f->value;
        else if (f->kind == HM_DEMO_CLOCK_OFFSET && t >= from)
            shown += (int64_t)(f->value * 1000);
    }
    return shown + (int64_t)((double)(t - first) * ppm / 1e6);
}

hm_status_t hm_demo_probes(const struct hm_demo_sim *sim, uint32_t rank, hm_demo_give_t give,
                           void *ctx)
{
    int64_t begin = sim->step_end_ns[0] - SECOND, end = sim->stuck_ns + SECOND;
    uint32_t window = 0;
    for (int64_t t0 = begin;; t0 += 10 * SECOND, window++) {
        if (t0 > end)
            t0 = end;
        for (uint32_t i = 0; i < 8; i++) {
            uint64_t h = hm_demo_hash(sim->demo->seed ^ 0x9d, rank, window, i);
            int64_t t = t0 + i * 50000;
            int64_t there = 3000 + (int64_t)(h % 2000), back = 3000 + (int64_t)(h >> 20) % 2000;
            struct hm_event ev = {.t_ns = hm_demo_clock(sim, rank, t), .kind = HM_EV_CLOCK_PROBE};
            ev.u.probe.t2_ns = hm_demo_clock(sim, 0, t + there);
            ev.u.probe.t3_ns = hm_demo_clock(sim, 0, t + there + 500);
            ev.u.probe.t4_ns = hm_demo_clock(sim, rank, t + there + 500 + back);
            ev.u.probe.window = window;
            ev.u.probe.peer = 0;
            hm_status_t s = give(ctx, &ev);
            if (s)
                return s;
        }
        if (t0 == end)
            return HM_OK;
    }
}
