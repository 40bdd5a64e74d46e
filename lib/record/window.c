/* Which kinds are recorded when: settings, window of steps, start and stop.
 *
 * Box: lib/record. Step marks come from an application thread; the gate is one word, set with
 * plain stores: marks from two threads at once give one of the two.
 */
#include "record/record.h"

#include <stdlib.h>
#include <string.h>

#define BIT(kind) (UINT64_C(1) << (kind))

/* what goes on when recording pauses: steps, clocks, losses */
static const uint64_t always = BIT(HM_EV_STEP) | BIT(HM_EV_GAP) | BIT(HM_EV_CLOCK_SNAPSHOT) |
                               BIT(HM_EV_CLOCK_PROBE) | BIT(HM_EV_CLOCK_WINDOW) |
                               BIT(HM_EV_GPU_ANCHOR);
static uint64_t wanted;
static int64_t first_step = INT64_MIN, last_step = INT64_MAX;
static _Atomic int stopped;
static _Atomic int called; /* the program marks its steps itself: ranges are no steps any more */

uint64_t hm_kinds_wanted(const struct hm_config *config)
{
    uint64_t kinds = ~UINT64_C(0);
    if (!config->kernels)
        kinds &= ~(BIT(HM_EV_KERNEL) | BIT(HM_EV_MEMCPY) | BIT(HM_EV_MEMSET) | BIT(HM_EV_SYNC) |
                   BIT(HM_EV_API) | BIT(HM_EV_MEMORY) | BIT(HM_EV_OVERHEAD) | BIT(HM_EV_GRAPH));
    if (!config->sync)
        kinds &= ~BIT(HM_EV_SYNC);
    if (!config->memory)
        kinds &= ~BIT(HM_EV_MEMORY);
    if (!config->proxy_steps)
        kinds &= ~(BIT(HM_EV_PROXY_STEP) | BIT(HM_EV_PROXY_CTRL) | BIT(HM_EV_NET));
    if (!config->kernel_ch && !config->kernel_phases)
        kinds &= ~BIT(HM_EV_KERNEL_CH);
    return kinds;
}

void hm_gate_set(uint64_t kinds)
{
    if (hm.view.pool)
        atomic_store_explicit(&hm.view.pool->gate, kinds, memory_order_relaxed);
    if (hm_self.wiped && atomic_load_explicit(&hm_self.wiped->alive, memory_order_relaxed))
        atomic_store_explicit(&hm_self.wiped->gate, kinds, memory_order_release);
}

/* "N..M", "N..", "..M" or "N"; both ends count. */
static int parse_window(const char *text)
{
    char *end;
    int64_t lo = INT64_MIN, hi = INT64_MAX;
    const char *dots = strstr(text, "..");
    if (!dots) {
        lo = hi = strtoll(text, &end, 10);
        if (end == text || *end)
            return 0;
    } else {
        if (dots != text) {
            lo = strtoll(text, &end, 10);
            if (end != dots)
                return 0;
        }
        if (dots[2]) {
            hi = strtoll(dots + 2, &end, 10);
            if (*end)
                return 0;
        }
    }
    if (lo > hi)
        return 0;
    first_step = lo;
    last_step = hi;
    return 1;
}

void hm_window_init(void)
{
    wanted = hm_kinds_wanted(&hm.config);
    if (hm.config.steps[0] && !parse_window(hm.config.steps))
        hm_note(HM_E_USAGE, "HINDMOST_STEPS: \"%s\" is no window N..M; every step is recorded",
                hm.config.steps);
    /* before the first mark: everything, unless a window says from which step on */
    hm_gate_set(first_step == INT64_MIN ? wanted : wanted & always);
}

static uint64_t kinds_at(int64_t step)
{
    int on = step >= first_step && step <= last_step &&
             !atomic_load_explicit(&stopped, memory_order_relaxed);
    return on ? wanted : wanted & always;
}

void hm_step_boundary(int64_t step, uint32_t name, uint32_t source)
{
    if (!hm_awake())
        return;
    if (source == HM_STEP_FROM_CALL)
        atomic_store_explicit(&called, 1, memory_order_relaxed);
    else if (atomic_load_explicit(&called, memory_order_relaxed))
        return;
    hm_claim(hm_self.who.rank < 0 ? 0 : hm_self.who.rank,
             hm_self.who.n_ranks < 1 ? 1 : hm_self.who.n_ranks, hm_self.who.local_rank,
             hm_self.who.n_local);
    uint64_t kinds = kinds_at(step);
    if (atomic_load_explicit(&hm.view.pool->gate, memory_order_relaxed) != kinds)
        hm_gate_set(kinds);
    atomic_store_explicit(&hm.view.pool->step, step, memory_order_relaxed);
    struct hm_event *ev = hm_begin(HM_EV_STEP);
    if (!ev)
        return;
    ev->t_ns = hm_now();
    ev->aux = HM_STEP_BEGIN;
    ev->u.step.step = step;
    ev->u.step.name = name;
    ev->u.step.source = source;
    hm_commit();
}

static void step_end(uint32_t name, uint32_t source)
{
    struct hm_event *ev = hm_on(HM_EV_STEP) ? hm_begin(HM_EV_STEP) : NULL;
    if (!ev)
        return;
    ev->t_ns = hm_now();
    ev->aux = HM_STEP_END;
    ev->u.step.step = atomic_load_explicit(&hm.view.pool->step, memory_order_relaxed);
    ev->u.step.name = name;
    ev->u.step.source = source;
    hm_commit();
}

void hm_window_step_end(void)
{
    step_end(HM_NO_ID, HM_STEP_FROM_CALL);
}

void hm_step_range_end(uint32_t name)
{
    if (!atomic_load_explicit(&called, memory_order_relaxed))
        step_end(name, HM_STEP_FROM_RANGE);
}

void hm_window_stop(int stop)
{
    if (!hm_awake())
        return;
    atomic_store(&stopped, stop);
    if (!stop) { /* asked for by the program: the window of steps no longer counts */
        first_step = INT64_MIN;
        last_step = INT64_MAX;
    }
    hm_gate_set(kinds_at(atomic_load(&hm.view.pool->step)));
}
