/* The public calls, as the table that hindmost.h finds.
 *
 * Box: lib/record. Application threads. Each call wakes the recorder when it still sleeps.
 */
#include "record/record.h"

#define HINDMOST_NO_CALLS
#include "hindmost/hindmost.h"

static int ready(void)
{
    return hm_awake() || hm_wake(HM_CAUSE_API);
}

static void api_step(int64_t step)
{
    if (ready())
        hm_step_boundary(step, HM_NO_ID, HM_STEP_FROM_CALL);
}

static void api_step_end(void)
{
    if (ready())
        hm_window_step_end();
}

static void api_range_push(const char *name, size_t len)
{
    /* pushed also while the gate is shut: pushes and pops must stay in step */
    if (!ready())
        return;
    struct hm_open_range open = {
        .t_ns = hm_now(), .name = hm_name(name, len), .domain = HM_NO_ID, .category = HM_NO_ID};
    hm_open_push(&open, HM_OWNER_API, 0);
}

static void api_range_pop(void)
{
    struct hm_open_range open;
    unsigned type;
    int depth = hm_awake() ? hm_open_pop(HM_OWNER_API, HM_NO_ID, &open, &type) : -1;
    if (depth < 0 || !hm_on(HM_EV_RANGE))
        return;
    struct hm_event *ev = hm_begin(HM_EV_RANGE);
    if (!ev)
        return;
    ev->t_ns = open.t_ns;
    ev->dur_ns = hm_now() - open.t_ns;
    ev->u.range.name = open.name;
    ev->u.range.domain = open.domain;
    ev->u.range.category = HM_NO_ID;
    ev->u.range.depth = (uint16_t)depth;
    hm_commit();
}

static void api_mark(const char *name, size_t len)
{
    if (!ready() || !hm_on(HM_EV_MARK))
        return;
    uint32_t id = hm_name(name, len);
    struct hm_event *ev = hm_begin(HM_EV_MARK);
    if (!ev)
        return;
    ev->t_ns = hm_now();
    ev->u.range.name = id;
    ev->u.range.domain = HM_NO_ID;
    ev->u.range.category = HM_NO_ID;
    hm_commit();
}

static struct hm_event *counter(const char *name, size_t len)
{
    if (!ready() || !hm_on(HM_EV_COUNTER))
        return NULL;
    uint32_t id = hm_name(name, len);
    struct hm_event *ev = hm_begin(HM_EV_COUNTER);
    if (!ev)
        return NULL;
    ev->t_ns = hm_now();
    ev->u.counter.name = id;
    ev->u.counter.domain = HM_NO_ID;
    ev->u.counter.unit = HM_NO_ID;
    return ev;
}

static void api_counter_i64(const char *name, size_t len, int64_t v)
{
    struct hm_event *ev = counter(name, len);
    if (!ev)
        return;
    ev->u.counter.value.i = v;
    hm_commit();
}

static void api_counter_f64(const char *name, size_t len, double v)
{
    struct hm_event *ev = counter(name, len);
    if (!ev)
        return;
    ev->u.counter.value.f = v;
    ev->u.counter.is_float = 1;
    hm_commit();
}

static void api_start(void)
{
    if (ready())
        hm_window_stop(0);
}

static void api_stop(void)
{
    if (ready())
        hm_window_stop(1);
}

extern const struct hm_api hindmost_api_1;
__attribute__((visibility("default"))) const struct hm_api hindmost_api_1 = {
    .size = sizeof(struct hm_api),
    .step = api_step,
    .step_end = api_step_end,
    .range_push = api_range_push,
    .range_pop = api_range_pop,
    .mark = api_mark,
    .counter_i64 = api_counter_i64,
    .counter_f64 = api_counter_f64,
    .start = api_start,
    .stop = api_stop,
};

/* Our own table under a name that no other copy of this library can take over. */
extern const struct hm_api hm_api_here
    __attribute__((alias("hindmost_api_1"), visibility("hidden")));
