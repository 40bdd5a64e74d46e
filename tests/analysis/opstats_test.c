/* Operation statistics by hand: what torch.profiler would say, and what must not break. */
#include "analysis/opstats.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { FORWARD = 1, LINEAR, INPUT, SYNC_CALL, LAUNCH, DRIVER_SYNC, GEMM, N_TEXTS };
static const char *string(void *ctx, uint32_t id)
{
    static const char *const text[N_TEXTS] = {
        "",           "forward",          "linear", "input", "cudaDeviceSynchronize_v3020",
        "cudaLaunch", "cuCtxSynchronize", "gemm"};
    (void)ctx;
    return id < N_TEXTS ? text[id] : "";
}

static struct hm_event range(int64_t t0, int64_t t1, uint32_t name, uint32_t track)
{
    struct hm_event ev = {.kind = HM_EV_RANGE, .t_ns = t0, .dur_ns = t1 - t0, .track = track};
    ev.u.range.name = name;
    return ev;
}
static struct hm_event call(int64_t t0, int64_t t1, uint32_t name, uint32_t correlation)
{
    struct hm_event ev = {.kind = HM_EV_API, .t_ns = t0, .dur_ns = t1 - t0, .track = 1};
    ev.u.api.name = name;
    ev.u.api.correlation = correlation;
    return ev;
}
static struct hm_event kernel(int64_t t0, int64_t t1, uint32_t correlation)
{
    struct hm_event ev = {.kind = HM_EV_KERNEL, .t_ns = t0, .dur_ns = t1 - t0, .track = 2};
    ev.u.kernel.correlation = correlation;
    return ev;
}
static struct hm_event mark(int64_t t, int64_t step)
{
    struct hm_event ev = {.kind = HM_EV_STEP, .t_ns = t, .aux = HM_STEP_BEGIN};
    ev.u.step.step = step;
    return ev;
}

static const struct hm_step_window one[1] = {{0, 1000000, 0, 0}};
static struct hm_opstats *make(const struct hm_step_window *w, size_t n)
{
    struct hm_opstats_in in = {.step = w, .n_steps = n, .string = string};
    struct hm_opstats *o = NULL;
    cr_assert_eq(hm_opstats_create(&in, &o), HM_OK);
    return o;
}
static void host(struct hm_opstats *o, struct hm_event ev)
{
    cr_assert_eq(hm_opstats_host(o, &ev), HM_OK);
}
static const struct hm_opstat *row(struct hm_opstats *o, uint32_t kind, uint32_t name)
{
    const struct hm_opstat *r = NULL;
    size_t n = 0;
    static struct hm_opstat copy;
    cr_assert_eq(hm_opstats_end(o, &r, &n), HM_OK);
    for (size_t i = 0; i < n; i++)
        if (r[i].kind == kind && r[i].name == name) {
            copy = r[i];
            return &copy;
        }
    return NULL;
}

/* forward [0,100) holds linear [10,40) and [50,70), the second holds linear [55,60) again and a
 * launch [61,63); inclusive 100 and 50, exclusive 50 and 48. */
Test(opstats, nested_ranges)
{
    struct hm_opstats *o = make(one, 1);
    host(o, range(0, 100, FORWARD, 1));
    host(o, range(10, 40, LINEAR, 1));
    host(o, range(50, 70, LINEAR, 1));
    host(o, range(55, 60, LINEAR, 1));
    host(o, call(61, 63, LAUNCH, 7));
    host(o, range(20, 30, LINEAR, 9)); /* another thread: on its own */
    const int64_t idle[HM_IDLE_N] = {[HM_IDLE_HOST] = 4};
    struct hm_event k = kernel(200, 230, 7);
    cr_assert_eq(hm_opstats_device(o, &k, GEMM, idle), HM_OK);
    const struct hm_opstat *s = row(o, HM_OPSTAT_RANGE, FORWARD);
    cr_assert_eq(s->n, 1);
    cr_assert_eq(s->inclusive_ns, 100);
    cr_assert_eq(s->exclusive_ns, 50);
    cr_assert_eq(s->device_ns, 30);
    cr_assert_eq(s->idle_by_ns[HM_IDLE_HOST], 4);
    hm_opstats_destroy(o);

    o = make(one, 1);
    host(o, range(0, 100, FORWARD, 1));
    host(o, range(10, 40, LINEAR, 1));
    host(o, range(50, 70, LINEAR, 1));
    host(o, range(55, 60, LINEAR, 1));
    host(o, call(61, 63, LAUNCH, 7));
    cr_assert_eq(hm_opstats_device(o, &k, GEMM, idle), HM_OK);
    s = row(o, HM_OPSTAT_RANGE, LINEAR);
    cr_assert_eq(s->n, 3);
    cr_assert_eq(s->inclusive_ns, 50);
    cr_assert_eq(s->exclusive_ns, 30 + 13 + 5);
    cr_assert_eq(s->device_ns, 30); /* inside itself: once */
    hm_opstats_destroy(o);

    o = make(one, 1);
    cr_assert_eq(hm_opstats_device(o, &k, GEMM, idle), HM_OK);
    s = row(o, HM_OPSTAT_KERNEL, GEMM); /* its call was not recorded: by its own time */
    cr_assert_eq(s->n, 1);
    cr_assert_eq(s->device_ns, 30);
    hm_opstats_destroy(o);
}

/* A runtime call that waits holds the driver's call: the wait counts once. Input under forward. */
Test(opstats, waits_under_a_range)
{
    struct hm_opstats *o = make(one, 1);
    host(o, range(0, 100, FORWARD, 1));
    host(o, range(5, 25, INPUT, 1));
    host(o, range(10, 15, INPUT, 1));
    host(o, call(30, 70, SYNC_CALL, 0));
    host(o, call(31, 69, DRIVER_SYNC, 0));
    const struct hm_opstat *s = row(o, HM_OPSTAT_RANGE, FORWARD);
    cr_assert_eq(s->sync_ns, 40);
    cr_assert_eq(s->input_ns, 20);
    cr_assert_eq(s->exclusive_ns, 100 - 20 - 40);
    cr_assert(HM_IS_NONE(s->peak_bytes));
    hm_opstats_destroy(o);
}

/* Steps 1 and 2 are analysed, 0 is warm-up, 3 has no end. 10 + 5 in step 1, 7 in step 2. */
Test(opstats, by_step)
{
    const struct hm_step_window w[3] = {
        {0, 100, 0, HM_STEP_WARMUP}, {100, 200, 1, 0}, {200, 300, 2, 0}};
    struct hm_opstats *o = make(w, 3);
    for (int64_t s = 0; s < 4; s++) {
        host(o, mark(100 * s, s));
        host(o, range(100 * s + 10, 100 * s + (s == 1 ? 20 : 17), FORWARD, 1));
        if (s == 1)
            host(o, range(100 * s + 30, 100 * s + 35, FORWARD, 1));
    }
    const struct hm_opstat *s = row(o, HM_OPSTAT_RANGE, FORWARD);
    cr_assert_eq(s->n, 3);
    cr_assert_eq(s->inclusive_ns, 22);
    cr_assert_eq(s->n_steps, 2);
    cr_assert_eq(s->step_max, 1);
    cr_assert_eq(s->step_max_ns, 15);
    hm_opstats_destroy(o);
}

/* 100 bytes before the range, 300 more in it, of which 250 are given back: peak 400. */
Test(opstats, peak_memory)
{
    struct hm_opstats *o = make(one, 1);
    struct hm_event m = {.kind = HM_EV_MEMORY, .t_ns = 0, .track = 1};
    m.u.memory.op = 1;
    m.u.memory.memory = 3;
    m.u.memory.bytes = 100;
    host(o, m);
    host(o, range(10, 50, FORWARD, 1));
    host(o, range(12, 20, LINEAR, 1));
    m.t_ns = 15;
    m.u.memory.bytes = 300;
    host(o, m);
    m.t_ns = 16;
    m.u.memory.op = 2;
    m.u.memory.bytes = 250;
    host(o, m);
    host(o, range(60, 70, INPUT, 1));
    cr_assert_eq(row(o, HM_OPSTAT_RANGE, FORWARD)->peak_bytes, 400);
    cr_assert_eq(row(o, HM_OPSTAT_RANGE, INPUT)->peak_bytes, 150);
    hm_opstats_destroy(o);
}

/* Overlap without nesting: A [0,10), B [5,15), C [12,20): the exclusive times sum to 20. */
Test(opstats, overlapping_ranges)
{
    struct hm_opstats *o = make(one, 1);
    host(o, range(0, 10, FORWARD, 1));
    host(o, range(5, 15, LINEAR, 1));
    host(o, range(12, 20, INPUT, 1));
    int64_t sum = row(o, HM_OPSTAT_RANGE, FORWARD)->exclusive_ns;
    cr_assert_eq(sum, 5);
    sum += row(o, HM_OPSTAT_RANGE, LINEAR)->exclusive_ns;
    sum += row(o, HM_OPSTAT_RANGE, INPUT)->exclusive_ns;
    cr_assert_eq(sum, 20);
    hm_opstats_destroy(o);
}

/* Whatever the ranges: over all names the exclusive times sum to the time in which any is open. */
Test(opstats, exclusive_times_sum)
{
    uint64_t seed = 12345;
    for (int run = 0; run < 200; run++) {
        struct hm_opstats *o = make(one, 1);
        uint8_t open[600] = {0};
        int64_t t = 0, sum = 0, any = 0;
        for (int i = 0; i < 50; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            t += (int64_t)(seed >> 60) % 8;
            int64_t dur = (int64_t)(seed >> 40) % 40 - 3; /* some are zero or negative */
            struct hm_event ev = range(t, t + dur, 1 + (uint32_t)(seed >> 33) % 3, 1);
            host(o, ev);
            for (int64_t k = t; k < t + dur && k < 600; k++)
                open[k] = 1;
        }
        const struct hm_opstat *r;
        size_t n;
        cr_assert_eq(hm_opstats_end(o, &r, &n), HM_OK);
        for (size_t i = 0; i < n; i++) {
            sum += r[i].exclusive_ns;
            cr_assert(r[i].exclusive_ns >= 0 && r[i].inclusive_ns >= r[i].exclusive_ns - 0);
        }
        for (int k = 0; k < 600; k++)
            any += open[k];
        cr_assert_eq(sum, any, "run %d: %ld, not %ld", run, (long)sum, (long)any);
        hm_opstats_destroy(o);
    }
}

Test(opstats, hostile)
{
    struct hm_opstats *o = make(one, 1);
    for (uint32_t i = 0; i < 200; i++) /* deeper than any stack, on more threads than are kept */
        host(o, range(i, 100000 - i, FORWARD, i % 100));
    host(o, range(INT64_MAX - 5, INT64_MIN, LINEAR, 1));
    host(o, range(INT64_MAX, INT64_MAX, HM_NO_ID, HM_NO_ID));
    struct hm_event open = range(5, 6, LINEAR, 1);
    open.dur_ns = HM_DUR_OPEN;
    host(o, open);
    struct hm_event k = kernel(10, 5, 0);
    cr_assert_eq(hm_opstats_device(o, &k, HM_NO_ID, NULL), HM_OK);
    cr_assert_gt(row(o, HM_OPSTAT_RANGE, FORWARD)->n, 0);
    hm_opstats_destroy(o);
    o = make(NULL, 0); /* no steps at all: nothing counts */
    host(o, range(0, 10, FORWARD, 1));
    cr_assert_null(row(o, HM_OPSTAT_RANGE, FORWARD));
    hm_opstats_destroy(o);
}
