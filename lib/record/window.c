/* Which kinds are recorded when: settings, window of steps, start and stop.
 *
 * Box: lib/record. Step marks come from an application thread. What this side wants and what the
 * writer allows (orders, times, budget) make the pool's gate; hooks look at a copy of it in this
 * process, brought up to date at each mark, MPI call and round of the CUPTI thread.
 */
#include "record/record.h"

#include <stdlib.h>
#include <string.h>

#define BIT(kind) (UINT64_C(1) << (kind))

#define GPU                                                                        \
    (BIT(HM_EV_KERNEL) | BIT(HM_EV_MEMCPY) | BIT(HM_EV_MEMSET) | BIT(HM_EV_SYNC) | \
     BIT(HM_EV_API) | BIT(HM_EV_MEMORY) | BIT(HM_EV_OVERHEAD) | BIT(HM_EV_GRAPH))

static uint64_t wanted;
static int64_t first_step = INT64_MIN, last_step = INT64_MAX, every = 1;
static _Atomic int stopped, started; /* by the program; started: its windows no longer count */
static _Atomic int called; /* the program marks its steps itself: ranges are no steps any more */

uint64_t hm_kinds_wanted(const struct hm_config *config)
{
    uint64_t kinds = ~UINT64_C(0);
    if (!config->kernels)
        kinds &= ~GPU;
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

enum { N_GATES = 1024 };
static struct {
    _Atomic int64_t t_ns; /* 0 = none, or being written */
    _Atomic uint64_t gate;
} history[N_GATES];
static _Atomic uint64_t last_gate = UINT64_MAX; /* in the history */

static void remember(uint64_t gate)
{
    if (atomic_exchange(&last_gate, gate) == gate)
        return;
    /* the writer's change may be older than our look at it */
    int64_t now = hm_now(), changed = atomic_load(&hm.view.pool->changed_ns);
    uint32_t n = atomic_load(&hm.n_gates), i = n % N_GATES;
    atomic_store(&history[i].t_ns, 0);
    atomic_store(&history[i].gate, gate);
    atomic_store(&history[i].t_ns, n && changed && changed < now ? changed : now);
    atomic_fetch_add(&hm.n_gates, 1);
}

void hm_gate_look(struct hm_gate_view *view, int64_t t_ns)
{
    int64_t lo = INT64_MIN, hi = INT64_MAX;
    uint64_t at = 0, next = 0;
    view->n_changes = atomic_load(&hm.n_gates);
    for (uint32_t i = 0; i < N_GATES; i++) {
        int64_t t = atomic_load_explicit(&history[i].t_ns, memory_order_acquire);
        uint64_t gate = atomic_load_explicit(&history[i].gate, memory_order_relaxed);
        if (t && t <= t_ns && t > lo) {
            lo = t;
            at = gate;
        }
        if (t > t_ns && t < hi) {
            hi = t;
            next = gate;
        }
    }
    view->lo_ns = lo;
    view->hi_ns = hi;
    view->gate = lo == INT64_MIN ? next : at; /* older than the history: as at its beginning */
}

/* The word that hooks of this process look at; and CUPTI is held before the first launch of a
 * window, not half a second later. */
static void follow(void)
{
    uint64_t gate = atomic_load_explicit(&hm.view.pool->gate, memory_order_relaxed);
    const struct hm_cupti_ops *cupti = atomic_load_explicit(&hm.cupti, memory_order_acquire);
    remember(gate);
    if (gate & GPU && cupti && cupti->hold)
        cupti->hold(1);
    if (hm_self.wiped && atomic_load_explicit(&hm_self.wiped->alive, memory_order_relaxed))
        atomic_store_explicit(&hm_self.wiped->gate, gate, memory_order_release);
}

void hm_gate_set(uint64_t kinds)
{
    if (!hm.view.pool)
        return;
    atomic_store(&hm.view.pool->want, kinds);
    hm_gate_apply(hm.view.pool);
    follow();
}

void hm_gate_follow(void)
{
    if (hm_awake() && atomic_load_explicit(&hm.view.pool->gate, memory_order_relaxed) !=
                          atomic_load_explicit(&hm_self.wiped->gate, memory_order_relaxed))
        follow();
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
    struct hm_pool *pool = hm.view.pool;
    wanted = hm_kinds_wanted(&hm.config);
    every = hm.config.step_every;
    if (hm.config.steps[0] && !parse_window(hm.config.steps))
        hm_note(HM_E_USAGE, "HINDMOST_STEPS: \"%s\" is no window N..M; every step is recorded",
                hm.config.steps);
    atomic_store(&pool->all, wanted);
    atomic_store(&pool->allow, hm.config.start_after_ms ? HM_GATE_ALWAYS : ~UINT64_C(0));
    /* before the first mark: everything, unless a window says from which step on */
    hm_gate_set(first_step == INT64_MIN && every == 1 ? wanted : wanted & HM_GATE_ALWAYS);
}

static int in_window(int64_t step)
{
    int64_t base = first_step == INT64_MIN ? 0 : first_step, n;
    if (step < first_step || step > last_step)
        return 0;
    return every == 1 || (!__builtin_sub_overflow(step, base, &n) && n % every == 0);
}

static uint64_t kinds_at(int64_t step)
{
    int order = atomic_load_explicit(&hm.view.pool->order, memory_order_relaxed) == HM_ORDER_START;
    int on = !atomic_load_explicit(&stopped, memory_order_relaxed) &&
             (order || atomic_load_explicit(&started, memory_order_relaxed) || in_window(step));
    return on ? wanted : wanted & HM_GATE_ALWAYS;
}

/* An order that comes between the look and the store is looked at again. */
static void set_for(int64_t step)
{
    struct hm_pool *pool = hm.view.pool;
    uint32_t order;
    do {
        order = atomic_load(&pool->order);
        uint64_t kinds = kinds_at(step);
        if (atomic_load_explicit(&pool->want, memory_order_relaxed) != kinds)
            hm_gate_set(kinds);
    } while (atomic_load(&pool->order) != order);
    hm_gate_follow();
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
    set_for(step);
    atomic_store_explicit(&hm.view.pool->step, step, memory_order_relaxed);
    struct hm_event *ev = hm_begin(HM_EV_STEP);
    if (!ev)
        return;
    ev->t_ns = hm_now();
    ev->aux = HM_STEP_BEGIN;
    ev->u.step.step = step;
    ev->u.step.name = name;
    ev->u.step.source = source;
    ev->u.step.shut =
        !(atomic_load_explicit(&hm.view.pool->gate, memory_order_relaxed) & ~HM_GATE_ALWAYS);
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
    if (!stop)
        atomic_store(&started, 1);
    set_for(atomic_load(&hm.view.pool->step));
}
