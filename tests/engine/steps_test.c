/* Step windows by hand: what counts is when an operation was launched, not when it ran. */
#include "analysis/steps.h"

#include <criterion/criterion.h>

static struct hm_event mark(int64_t t, int64_t step, int end)
{
    struct hm_event ev = {.t_ns = t, .kind = HM_EV_STEP, .aux = (uint16_t)(end ? HM_STEP_END : 0)};
    ev.u.step.step = step;
    return ev;
}
static struct hm_event api(int64_t t, uint32_t correlation)
{
    struct hm_event ev = {.t_ns = t, .dur_ns = 5, .kind = HM_EV_API};
    ev.u.api.correlation = correlation;
    return ev;
}
static struct hm_event kernel(int64_t t, int64_t end, uint32_t correlation)
{
    struct hm_event ev = {.t_ns = t, .dur_ns = end - t, .kind = HM_EV_KERNEL};
    ev.u.kernel.correlation = correlation;
    return ev;
}
static size_t windows(const struct hm_event *ev, size_t n, struct hm_steps **s_p,
                      const struct hm_step_window **w_p)
{
    cr_assert_eq(hm_steps_create(s_p), HM_OK);
    for (size_t i = 0; i < n; i++)
        cr_assert_eq(hm_steps_event(*s_p, &ev[i], 1), HM_OK);
    return hm_steps_windows(*s_p, w_p);
}
#define WINDOWS(ev, s, w) windows(ev, sizeof(ev) / sizeof(*(ev)), s, w)

Test(steps, host_ahead_of_the_device)
{
    /* step 1 is marked at 100 while the kernel of step 0 runs until 500 */
    struct hm_event ev[] = {mark(0, 0, 0), api(10, 1),      kernel(20, 500, 1),  mark(100, 1, 0),
                            api(110, 2),   mark(200, 2, 0), kernel(501, 900, 2), mark(1000, 3, 0)};
    struct hm_steps *s;
    const struct hm_step_window *w;
    cr_assert_eq(WINDOWS(ev, &s, &w), 3);
    cr_assert_eq(w[0].t0_ns, 20, "nothing to do before its first operation");
    cr_assert_eq(w[0].t1_ns, 500);
    cr_assert_eq(w[1].t0_ns, 500);
    cr_assert_eq(w[1].t1_ns, 900);
    cr_assert_eq(w[1].step, 1);
    cr_assert_eq(hm_steps_at(s, 105), 1);
    cr_assert_eq(hm_steps_at(s, 99), 0);
    cr_assert_eq(hm_steps_at(s, -1), HM_NO_ID);
    hm_steps_destroy(s);
}

Test(steps, a_gap_belongs_to_the_step_that_begins_late)
{
    /* the host waits for the device, then reads input for 300 */
    struct hm_event ev[] = {mark(0, 0, 0), api(10, 1),          kernel(20, 100, 1), mark(100, 1, 0),
                            api(400, 2),   kernel(410, 500, 2), mark(500, 2, 0)};
    struct hm_steps *s;
    const struct hm_step_window *w;
    cr_assert_eq(WINDOWS(ev, &s, &w), 2);
    cr_assert_eq(w[1].t0_ns, 100);
    cr_assert_eq(w[1].t1_ns, 500);
    hm_steps_destroy(s);
}

Test(steps, without_device_operations_the_marks)
{
    struct hm_event ev[] = {mark(0, 5, 0), mark(100, 5, 1), mark(120, 6, 0), mark(220, 6, 1)};
    struct hm_steps *s;
    const struct hm_step_window *w;
    cr_assert_eq(WINDOWS(ev, &s, &w), 2);
    cr_assert_eq(w[0].t0_ns, 0);
    cr_assert_eq(w[0].t1_ns, 100);
    cr_assert_eq(w[1].t1_ns, 220);
    cr_assert_eq(w[1].step, 6);
    hm_steps_destroy(s);
}

Test(steps, what_nothing_ended_is_left_out)
{
    struct hm_event ev[] = {mark(0, 0, 0), mark(100, 1, 0)};
    struct hm_steps *s;
    const struct hm_step_window *w;
    cr_assert_eq(WINDOWS(ev, &s, &w), 1);
    cr_assert_eq(w[0].step, 0);
    hm_steps_destroy(s);
}

Test(steps, windows_never_overlap)
{
    /* the communication of step 0 ends after the first kernel of step 1 has */
    struct hm_event ev[] = {mark(0, 0, 0),   api(10, 1),  kernel(20, 300, 1),
                            mark(100, 1, 0), api(110, 2), kernel(120, 250, 2),
                            mark(260, 2, 0), api(270, 3), kernel(310, 400, 3),
                            mark(500, 3, 0)};
    struct hm_steps *s;
    const struct hm_step_window *w;
    size_t n = WINDOWS(ev, &s, &w);
    cr_assert_eq(n, 3);
    for (size_t i = 1; i < n; i++)
        cr_assert_eq(w[i].t0_ns, w[i - 1].t1_ns);
    cr_assert_eq(w[2].t1_ns, 400);
    hm_steps_destroy(s);
}
