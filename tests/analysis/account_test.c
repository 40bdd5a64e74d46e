/* Gate chains by hand (facts on scenarios U17; facts on analysis E6). */
#include "analysis/account.h"

#include "analysis/host.h"

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
    static const char *const more[] = {"cudaFree", "cudaMalloc", "cudaDeviceSynchronize",
                                       "next",     "checkpoint", "gc",
                                       "k",        "forward"};
    if (id >= 20 && id < 28)
        return more[id - 20];
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
        cr_assert_eq(s->carry_ns + hm_segment_sum(s), h->a[i].start_ns);
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

/* --- the host gap, part by part --------------------------------------------------------------- */

enum { N_FREE = 20, N_MALLOC, N_SYNC, N_NEXT, N_SAVE, N_GC, N_LOAD, N_PLAIN };
static struct hm_event call(int64_t t0, int64_t t1, uint32_t name)
{
    struct hm_event ev = api(t0, t1, 0);
    ev.u.api.name = name;
    return ev;
}
static struct hm_event range(int64_t t0, int64_t t1, uint32_t name)
{
    struct hm_event ev = {.kind = HM_EV_RANGE, .t_ns = t0 * US, .dur_ns = (t1 - t0) * US};
    ev.u.range.name = name;
    return ev;
}

/* One arrival at 10003 after a collective that ended at 0; the GPU idles in between, its host is
 * given what the test adds; the launch ends at 10000. */
static struct hm_segment gap(const struct hm_event *more, size_t n, struct hm_step_part *step_p)
{
    struct hand h = {0};
    struct hm_event ev[16] = {api(-600, -590, 1), kernel(-500, 0, 2, 3, 1)};
    arrive(&h, -500, 0, -100);
    arrive(&h, 10003, 11000, 10003);
    for (size_t i = 0; i < n; i++)
        ev[2 + i] = more[i];
    ev[2 + n] = api(9990, 10000, 2);
    ev[3 + n] = kernel(10003, 11000, 2, 3, 2);
    account(&h, ev, 4 + n, -500, 11000);
    if (step_p)
        *step_p = h.step[0];
    return h.s[1];
}

/* U22: free and malloc with a device synchronisation between: 3000 + 1000 + 2000 of 10000. */
Test(account, u22_allocator)
{
    struct hm_event ev[] = {call(1000, 4000, N_FREE), call(4000, 5000, N_SYNC),
                            call(5000, 7000, N_MALLOC)};
    struct hm_step_part p;
    struct hm_segment s = gap(ev, 3, &p);
    cr_assert_eq(s.idle_alloc_ns, 5000 * US);
    cr_assert_eq(s.idle_sync_ns, 1000 * US);
    cr_assert_eq(s.idle_host_ns, 4000 * US);
    cr_assert_eq(s.idle_queue_ns, 3 * US);
    cr_assert_eq(s.host_name, N_FREE);
    cr_assert_eq(s.host_name_ns, 3000 * US);
    cr_assert_eq(p.alloc_ns, 5000 * US);
    cr_assert_eq(p.host_sync_ns, 1000 * US);
    cr_assert_eq(p.idle_ns, 10003 * US);
    cr_assert_eq(p.idle_by_ns[HM_IDLE_ALLOC], 5000 * US);
    cr_assert_eq(p.idle_by_ns[HM_IDLE_SYNC], 1000 * US);
    cr_assert_eq(p.idle_by_ns[HM_IDLE_HOST], 4000 * US);
    cr_assert_eq(p.idle_by_ns[HM_IDLE_QUEUE], 3 * US);
}

/* What the time was for goes before the call it went to: an input range holds a malloc, a
 * checkpoint a wait; the rest of either is counted once. */
Test(account, purpose_before_call)
{
    struct hm_event ev[] = {range(0, 2000, N_NEXT), call(500, 2500, N_MALLOC),
                            range(3000, 6000, N_SAVE), call(4000, 7000, N_SYNC),
                            range(8000, 8500, N_GC)};
    struct hm_segment s = gap(ev, 5, NULL);
    cr_assert_eq(s.idle_input_ns, 2000 * US);
    cr_assert_eq(s.idle_alloc_ns, 500 * US);
    cr_assert_eq(s.idle_checkpoint_ns, 3000 * US);
    cr_assert_eq(s.idle_sync_ns, 1000 * US);
    cr_assert_eq(s.idle_blocked_ns, 500 * US);
    cr_assert_eq(s.idle_host_ns, 3000 * US);
}

/* A rank blocked in MPI: the call is named (aux 1 = MPI_Barrier). */
Test(account, mpi_blocks_the_host)
{
    struct hm_event ev[] = {{.kind = HM_EV_MPI, .t_ns = 2000 * US, .dur_ns = 6000 * US, .aux = 1}};
    struct hm_segment s = gap(ev, 1, NULL);
    cr_assert_eq(s.idle_blocked_ns, 6000 * US);
    cr_assert_eq(s.idle_host_ns, 4000 * US);
    cr_assert_eq(s.host_name, HM_HOST_NAME_MPI | 1);
    cr_assert_str_eq(hm_mpi_function(s.host_name & ~HM_HOST_NAME_MPI), "MPI_Barrier");
}

/* Hostile: zero and negative lengths, ranges that overlap without nesting, one that reaches over
 * both ends of the gap, a plain range that explains nothing. */
Test(account, hostile_host_intervals)
{
    struct hm_event ev[] = {range(-400, 3000, N_NEXT), range(100, 100, N_SAVE),
                            range(2000, 5000, N_NEXT), range(4000, 20000, N_PLAIN),
                            range(5000, 4000, N_GC),   call(9000, 30000, N_SYNC)};
    struct hm_segment s = gap(ev, 6, NULL);
    cr_assert_eq(s.idle_input_ns, 5000 * US);
    cr_assert_eq(s.idle_sync_ns, 1000 * US); /* to the launch at 10000 */
    cr_assert_eq(s.idle_host_ns, 4000 * US);
    cr_assert_eq(s.idle_checkpoint_ns + s.idle_blocked_ns, 0);
}

/* Another thread that never launches (a data loader, a watchdog) explains nothing. */
Test(account, other_threads_do_not_count)
{
    struct hm_event ev[] = {range(0, 9000, N_NEXT), call(1000, 3000, N_SYNC)};
    ev[0].track = 7;
    struct hm_segment s = gap(ev, 2, NULL);
    cr_assert_eq(s.idle_input_ns, 0);
    cr_assert_eq(s.idle_sync_ns, 2000 * US);
    cr_assert_eq(s.idle_host_ns, 8000 * US);
}

Test(account, first_launch_loads_code)
{
    /* kernel 5 is new and its launch takes 4 ms: loading; the second takes as long: the host's */
    struct hm_event a = api(1000, 5000, 8), b = kernel(5003, 5003, 2, 5, 8), c = api(5100, 9100, 9),
                    d = kernel(9103, 9103, 2, 5, 9);
    struct hm_event ev[] = {a, b, c, d};
    struct hm_segment s = gap(ev, 4, NULL);
    cr_assert_eq(s.idle_module_ns, 4000 * US);
    cr_assert_eq(s.compute_ns, 0);
    /* [0,1000) + [5000..) but the queues of 3 behind 5000, 9100 and 10000 */
    cr_assert_eq(s.idle_queue_ns, 9 * US);
    cr_assert_eq(s.idle_host_ns, 10003 * US - 4000 * US - 9 * US);
}

static int track_of_two(void *ctx, uint32_t t, uint32_t *type, uint32_t *device, uint32_t *stream)
{
    (void)ctx;
    *type = HM_TRACK_STREAM;
    *device = t / 10;
    *stream = t;
    return 1;
}

/* d2 by its numbers (facts on analysis 5, us): one thread launches for four devices in turn, each
 * launch loads code; rank 0's device is last. r3 launched in [925352.7, 930129.3), then r2, r1, r0;
 * durations 4776.6, 4465.2, 4371.3, 4474.8, back to back; r0's host asked at 88.1. */
Test(account, d2_launches_one_after_another)
{
    static const int64_t dur[4] = {4776600, 4465200, 4371300, 4474800};
    const int64_t first = 925352700;
    struct hm_event ev[8];
    int64_t t = first;
    for (uint32_t i = 0; i < 4; i++) { /* i = 0 is device 3 */
        ev[2 * i] = (struct hm_event){.kind = HM_EV_API, .t_ns = t, .dur_ns = dur[i]};
        ev[2 * i].u.api.correlation = i + 1;
        t += dur[i];
        ev[2 * i + 1] = (struct hm_event){
            .kind = HM_EV_KERNEL, .t_ns = t + 1000, .dur_ns = 944280000 - t, .track = (3 - i) * 10};
        ev[2 * i + 1].u.kernel.kernel = 3;
        ev[2 * i + 1].u.kernel.correlation = i + 1;
    }
    struct hm_event sorted[8] = {ev[0], ev[2], ev[1], ev[4], ev[3], ev[6], ev[5], ev[7]};
    struct hm_step_window w = {.t0_ns = 0, .t1_ns = 950000000};
    for (uint32_t device = 0; device < 4; device += 3) {
        struct hand h = {.n = 1};
        const struct hm_event *k = &ev[2 * (3 - device) + 1];
        h.a[0] = (struct hm_arrival){.start_ns = k->t_ns,
                                     .end_ns = k->t_ns + k->dur_ns,
                                     .host_ns = first,
                                     .launch_end_ns = k->t_ns - 1000};
        h.v[0] = (struct hm_annot){.flags = HM_ANNOT_MATCHED, .last_ns = k->t_ns};
        struct hm_account_in in = {.device = device,
                                   .step = &w,
                                   .n_steps = 1,
                                   .ctx = &h,
                                   .arrivals = arrivals,
                                   .track = track_of_two,
                                   .string = string,
                                   .kernel_name = name_of,
                                   .step_part = step,
                                   .segment = segment};
        struct hm_account *a;
        cr_assert_eq(hm_account_create(&in, &a), HM_OK);
        for (size_t i = 0; i < 8; i++)
            cr_assert_eq(hm_account_event(a, &sorted[i]), HM_OK);
        cr_assert_eq(hm_account_end(a), HM_OK);
        hm_account_destroy(a);
        cr_assert_eq(h.s[0].carry_ns + hm_segment_sum(&h.s[0]), h.a[0].start_ns);
        /* its own launch loads its code; what the launches before it took is serialisation */
        cr_assert_eq(h.s[0].idle_module_ns, device ? dur[0] : dur[3]);
        cr_assert_eq(h.s[0].idle_serial_ns, device ? 0 : dur[0] + dur[1] + dur[2]);
        cr_assert_eq(h.s[0].idle_queue_ns, 1000);
        cr_assert_eq(h.s[0].idle_host_ns, 0);
    }
}

/* The names that decide. */
Test(account, classes_of_names)
{
    static const struct {
        const char *name;
        enum hm_host_class range, call;
    } v[] = {{"cudaMalloc_v3020", HM_HOST_OTHER, HM_HOST_ALLOC},
             {"cuMemAlloc_v2", HM_HOST_OTHER, HM_HOST_ALLOC},
             {"cudaFreeHost", HM_HOST_OTHER, HM_HOST_ALLOC},
             {"cudaMallocAsync", HM_HOST_OTHER, HM_HOST_ALLOC},
             {"cudaHostAlloc_v3020", HM_HOST_OTHER, HM_HOST_ALLOC},
             {"cudaDeviceSynchronize", HM_HOST_OTHER, HM_HOST_SYNC},
             {"cudaEventSynchronize", HM_HOST_OTHER, HM_HOST_SYNC},
             {"cudaMemcpy_v3020", HM_HOST_OTHER, HM_HOST_SYNC},
             {"cuMemcpyDtoH_v2", HM_HOST_OTHER, HM_HOST_SYNC},
             {"cudaMemcpyAsync", HM_HOST_OTHER, HM_HOST_OTHER},
             {"cuModuleLoadData", HM_HOST_OTHER, HM_HOST_MODULE},
             {"cuLibraryLoadData", HM_HOST_OTHER, HM_HOST_MODULE},
             {"cuLaunchKernelEx", HM_HOST_OTHER, HM_HOST_OTHER},
             {"malloc", HM_HOST_OTHER, HM_HOST_OTHER},
             {"input", HM_HOST_INPUT, HM_HOST_OTHER},
             {"input: fetch", HM_HOST_INPUT, HM_HOST_OTHER},
             {"inputs_embeds", HM_HOST_OTHER, HM_HOST_OTHER},
             {"enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", HM_HOST_INPUT,
              HM_HOST_OTHER},
             {"checkpoint", HM_HOST_CHECKPOINT, HM_HOST_OTHER},
             {"save", HM_HOST_CHECKPOINT, HM_HOST_OTHER},
             {"CheckpointFunctionBackward", HM_HOST_OTHER, HM_HOST_OTHER},
             {"gc", HM_HOST_BLOCKED, HM_HOST_OTHER},
             {"gcd", HM_HOST_OTHER, HM_HOST_OTHER},
             {"", HM_HOST_OTHER, HM_HOST_OTHER}};
    for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
        cr_assert_eq(hm_host_of_range(v[i].name), v[i].range, "range %s", v[i].name);
        cr_assert_eq(hm_host_of_call(v[i].name), v[i].call, "call %s", v[i].name);
    }
}
