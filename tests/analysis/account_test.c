/* Gate chains by hand (facts on scenarios U17; facts on analysis E6). */
#include "analysis/account.h"

#include <criterion/criterion.h>
#include <string.h>

#define US INT64_C(1000)

struct hand {
    struct hm_arrival a[4];
    struct hm_annot v[4];
    size_t n, given;
    struct hm_segment s[4];
    struct hm_step_part step[4];
    size_t n_segments, n_steps;
};
static size_t arrivals(void *ctx, struct hm_arrival *a, struct hm_annot *v, size_t cap)
{
    struct hand *h = ctx;
    size_t n = 0;
    for (; n < cap && h->given < h->n; n++, h->given++) {
        a[n] = h->a[h->given];
        v[n] = h->v[h->given];
    }
    return n;
}
static int track(void *ctx, uint32_t t, uint32_t *type, uint32_t *device, uint32_t *stream)
{
    (void)ctx;
    *type = HM_TRACK_STREAM;
    *device = 0;
    *stream = t;
    return 1;
}
static const char *string(void *ctx, uint32_t id)
{
    (void)ctx;
    return id == 9 ? "dataloader" : id == 3 ? "ncclDevKernel" : "k";
}
static uint32_t name_of(void *ctx, uint32_t kernel)
{
    (void)ctx;
    return kernel;
}
static hm_status_t segment(void *ctx, const struct hm_segment *s)
{
    struct hand *h = ctx;
    h->s[h->n_segments++] = *s;
    return HM_OK;
}
static hm_status_t step(void *ctx, const struct hm_step_part *p)
{
    struct hand *h = ctx;
    h->step[h->n_steps++] = *p;
    return HM_OK;
}

static struct hm_event kernel(int64_t t0, int64_t t1, uint32_t stream, uint32_t id, uint32_t corr)
{
    struct hm_event ev = {
        .kind = HM_EV_KERNEL, .t_ns = t0 * US, .dur_ns = (t1 - t0) * US, .track = stream};
    ev.u.kernel.kernel = id;
    ev.u.kernel.correlation = corr;
    return ev;
}
static struct hm_event api(int64_t t0, int64_t t1, uint32_t corr)
{
    struct hm_event ev = {.kind = HM_EV_API, .t_ns = t0 * US, .dur_ns = (t1 - t0) * US};
    ev.u.api.correlation = corr;
    return ev;
}
static void arrive(struct hand *h, int64_t t0, int64_t t1, int64_t last)
{
    h->a[h->n] = (struct hm_arrival){
        .start_ns = t0 * US, .end_ns = t1 * US, .host_ns = HM_NONE(0), .launch_end_ns = HM_NONE(0)};
    h->v[h->n++] = (struct hm_annot){.flags = HM_ANNOT_MATCHED, .last_ns = last * US};
}
static void account(struct hand *h, const struct hm_event *ev, size_t n, int64_t t0, int64_t t1)
{
    struct hm_step_window w = {.t0_ns = t0 * US, .t1_ns = t1 * US, .step = 0};
    struct hm_account_in in = {.step = &w,
                               .n_steps = 1,
                               .ctx = h,
                               .arrivals = arrivals,
                               .track = track,
                               .string = string,
                               .kernel_name = name_of,
                               .step_part = step,
                               .segment = segment};
    struct hm_account *a;
    cr_assert_eq(hm_account_create(&in, &a), HM_OK);
    for (size_t i = 0; i < n; i++)
        cr_assert_eq(hm_account_event(a, &ev[i]), HM_OK);
    cr_assert_eq(hm_account_end(a), HM_OK);
    hm_account_destroy(a);
    cr_assert_eq(h->n_segments, h->n);
    for (size_t i = 0; i < h->n; i++) {
        const struct hm_segment *s = &h->s[i];
        cr_assert_eq(s->carry_ns + s->compute_ns + s->comm_transfer_ns + s->comm_wait_ns +
                         s->memcpy_ns + s->idle_input_ns + s->idle_host_ns + s->idle_queue_ns +
                         s->idle_serial_ns + s->idle_module_ns + s->idle_blocked_ns,
                     h->a[i].start_ns);
    }
}

/* U17: an all-gather on a side stream is launched late while compute runs on: the host, not the
 * compute that happened to lie beside it. */
Test(account, u17_the_gate_is_the_host)
{
    static const int64_t launched[2] = {40000, 90000};
    struct hm_segment s[2];
    for (int i = 0; i < 2; i++) {
        struct hand h = {0};
        int64_t l = launched[i];
        arrive(&h, -20000, 0, -10000);
        arrive(&h, l + 3, 110000, 93003);
        struct hm_event ev[] = {kernel(-20000, 0, 2, 3, 0), api(-100, -90, 1),
                                kernel(0, 100000, 1, 1, 1), api(l - 10, l, 2),
                                kernel(l + 3, 110000, 2, 3, 2)};
        account(&h, ev, 5, -20000, 110000);
        s[i] = h.s[1];
        cr_assert_eq(s[i].gate, HM_GATE_HOST);
        cr_assert_eq(s[i].base, 0);
        cr_assert_eq(s[i].compute_ns, 0);
        cr_assert_eq(s[i].idle_queue_ns, 3 * US);
    }
    cr_assert_eq(s[1].idle_host_ns - s[0].idle_host_ns, 50000 * US);
}

/* E6: q starts at 10, computes [10, 75), arrives at 90; its gap has a data loader range [70, 86)
 * and the launch ends at 88: data loader 11, host 2, queue 2. (Units of 100 us here.) */
Test(account, e6_gap_of_a_late_rank)
{
    struct hand h = {0};
    arrive(&h, 500, 1000, 700);
    arrive(&h, 9000, 9500, 9000);
    struct hm_event range = {.kind = HM_EV_RANGE, .t_ns = 7000 * US, .dur_ns = 1600 * US};
    range.u.range.name = 9;
    struct hm_event ev[] = {
        api(0, 10, 1), api(20, 30, 2),     kernel(500, 1000, 2, 3, 1), kernel(1000, 7500, 2, 1, 2),
        range,         api(8700, 8800, 3), kernel(9000, 9500, 2, 3, 3)};
    account(&h, ev, 7, 0, 9500);
    const struct hm_segment *s = &h.s[1];
    cr_assert_eq(s->base, 0);
    cr_assert_eq(s->carry_ns, 1000 * US);
    cr_assert_eq(s->compute_ns, 6500 * US);
    cr_assert_eq(s->idle_input_ns, 1100 * US);
    cr_assert_eq(s->idle_host_ns, 200 * US);
    cr_assert_eq(s->idle_queue_ns, 200 * US);
}

/* E4 through the account: partition, overlap, stall. */
Test(account, e4_step_parts)
{
    struct hand h = {0};
    arrive(&h, 30, 70, 50);
    struct hm_event copy = {.kind = HM_EV_MEMCPY, .t_ns = 65 * US, .dur_ns = 10 * US, .track = 3};
    struct hm_event ev[] = {kernel(0, 40, 1, 1, 0), kernel(30, 70, 2, 3, 0), copy,
                            kernel(80, 95, 1, 1, 0)};
    account(&h, ev, 4, -50, 500);
    const struct hm_step_part *p = &h.step[0];
    cr_assert_eq(p->t1_ns - p->t0_ns, 95 * US); /* first to last device operation */
    cr_assert_eq(p->compute_ns, 55 * US);
    cr_assert_eq(p->comm_ns, 40 * US);
    cr_assert_eq(p->overlap_ns, 10 * US);
    cr_assert_eq(p->transfer_ns, 20 * US);
    cr_assert_eq(p->wait_ns, 10 * US);
    cr_assert_eq(p->memcpy_ns, 5 * US);
    cr_assert_eq(p->idle_ns, 5 * US);
    cr_assert_eq(p->stall_ns, 10 * US);
}
