/* Counters of the domain "health" -> one sum per worker. Box: lib/analysis. Pure. */
#include "analysis/health.h"

#include "analysis/result.h"

#include <math.h>
#include <string.h>

enum how { MEAN, MAX, MIN, LAST, BITS, GROWTH, THREAD };
static const struct {
    const char *name;
    size_t offset;
    enum how how;
} counter[HM_HEALTH_COUNTERS] = {
#define C(name, member, how)                              \
    {                                                     \
        name, offsetof(struct hm_health_sum, member), how \
    }
    C("gpu.sm_clock", sm_mhz, MEAN),
    C("gpu.mem_clock", mem_mhz, MEAN),
    C("gpu.power", power_mw, MEAN),
    C("gpu.power_limit", power_limit_mw, MEAN),
    C("gpu.power_limit_default", limit_default_mw, MAX),
    C("gpu.sm_clock_max", sm_max_mhz, MAX),
    C("gpu.temperature", temperature_c, MAX),
    C("gpu.memory_used", memory_used, MAX),
    C("gpu.memory_total", memory_total, MAX),
    C("gpu.processes", n_processes, MAX),
    C("gpu.other_pid", other_pid, LAST),
    C("gpu.clock_reasons", reasons, BITS),
    C("gpu.xid", xid, LAST),
    C("cpu.wait", wait_ns, THREAD),
    C("cpu.run", run_ns, THREAD),
    C("mem.major_faults", faults, GROWTH),
    C("cgroup.throttled_time", throttled_us, GROWTH),
    C("cgroup.cpu_pressure", cpu_pressure_us, GROWTH),
    C("cgroup.memory_pressure", memory_pressure_us, GROWTH),
    C("gpu.ecc_uncorrected", ecc, GROWTH),
    C("gpu.pcie_replays", pcie_replays, GROWTH),
    C("gpu.nvlink_errors", nvlink_errors, GROWTH),
    C("cpu.allowed", n_cpus, MIN),
    C("cpu.near_gpu", n_near, MIN),
#undef C
};

/* Until t the value was what it is: its part of the window counts. */
static void hold(struct hm_health_state *s, int i, int64_t t)
{
    int64_t from = s->counter[i].since_ns, to = t;
    from = from > s->t0_ns ? from : s->t0_ns;
    to = to < s->t1_ns ? to : s->t1_ns;
    if (!s->counter[i].seen || to <= from)
        return;
    s->counter[i].area += (double)s->counter[i].value * (double)(to - from);
    s->counter[i].covered_ns += to - from;
}

/* Growth of a thread's counter; the value before the window is where it begins. */
static void grow(struct hm_health_state *s, int i, uint32_t track, int64_t t, int64_t value)
{
    for (int k = 0; k < HM_HEALTH_TRACKS; k++) {
        struct hm_health_track *h = &s->counter[i].thread[k];
        if (h->used && h->track != track)
            continue;
        if (!h->used || t <= s->t0_ns)
            *h = (struct hm_health_track){track, 1, value, value};
        h->last = value;
        return;
    }
}

void hm_health_event(struct hm_health_state *s, const char *name, const struct hm_event *ev)
{
    int64_t v = ev->u.counter.value.i, t = ev->t_ns;
    for (int i = 0; i < HM_HEALTH_COUNTERS; i++) {
        if (strcmp(counter[i].name, name) != 0)
            continue;
        if (t > s->t1_ns) /* what comes later says nothing of the window */
            return;
        hold(s, i, t);
        enum how how = counter[i].how;
        if (how == GROWTH || how == THREAD)
            grow(s, i, how == THREAD ? ev->track : 0, t, v);
        int64_t best = s->counter[i].best;
        int before = t <= s->t0_ns; /* only the last value before the window holds in it */
        if (!s->counter[i].any || before)
            best = v;
        else if (how == MAX)
            best = v > best ? v : best;
        else if (how == MIN)
            best = v < best ? v : best;
        else if (how == BITS)
            best |= v;
        else if (how == LAST && v)
            best = v;
        s->counter[i].best = best;
        s->counter[i].any = s->counter[i].seen = 1;
        s->counter[i].value = v;
        s->counter[i].since_ns = t;
        return;
    }
}

void hm_health_none(struct hm_health_sum *sum_p)
{
    int64_t *v = (int64_t *)sum_p;
    for (size_t i = 0; i < sizeof(*sum_p) / sizeof(*v); i++)
        v[i] = HM_NONE(HM_NONE_NOT_RECORDED);
}

void hm_health_end(struct hm_health_state *s, struct hm_health_sum *sum_p)
{
    hm_health_none(sum_p);
    for (int i = 0; i < HM_HEALTH_COUNTERS; i++) {
        int64_t *to = (int64_t *)((char *)sum_p + counter[i].offset);
        enum how how = counter[i].how;
        if (!s->counter[i].any)
            continue;
        hold(s, i, s->t1_ns);
        if (how == MEAN) {
            double mean = s->counter[i].covered_ns > 0
                              ? s->counter[i].area / (double)s->counter[i].covered_ns
                              : NAN;
            if (fabs(mean) < 1e18) /* a clock is no such number */
                *to = (int64_t)llround(mean);
        } else if (how == GROWTH || how == THREAD) {
            int64_t most = 0;
            for (int k = 0; k < HM_HEALTH_TRACKS; k++) {
                const struct hm_health_track *h = &s->counter[i].thread[k];
                int64_t grown = 0;
                if (h->used && !__builtin_sub_overflow(h->last, h->first, &grown) && grown > most)
                    most = grown;
            }
            *to = most;
        } else {
            *to = s->counter[i].best;
        }
    }
}
