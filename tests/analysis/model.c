/* The modelled job. Box: tests. One thread. */
#include "model.h"

#include "analysis/match.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Holds in every build type, unlike assert(). */
#define MUST(x)                                                     \
    do {                                                            \
        if (!(x)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x); \
            abort();                                                \
        }                                                           \
    } while (0)
enum { COMPUTE_TRACK = 1, COMM_TRACK, HOST_TRACK };
enum { NAME_KERNEL = 1, NAME_OPTIMIZER, NAME_NCCL, NAME_INPUT, NAME_LAUNCH };
static const char *const names[] = {
    "", "train_kernel", "optimizer_kernel", "ncclDevKernel_AllReduce", "input", "cudaLaunchKernel"};
static const uint64_t COMM = 0xfeedbeefcafe0001;

struct lane {
    struct hm_event *ev;
    size_t n, cap;
    struct hm_part *part;
    size_t n_parts;
    struct hm_segment *segment;
    size_t n_segments;
    struct hm_step_part *step;
    size_t n_steps, i_arrival;
    struct hm_kernel_stat *stat;
    size_t n_stats;
    struct hm_step_window *window;
    uint32_t correlation;
    int64_t host, compute_end, comm_end;
};

static void put(struct lane *l, struct hm_event ev)
{
    if (l->n == l->cap) {
        l->cap = l->cap ? 2 * l->cap : 1024;
        l->ev = realloc(l->ev, l->cap * sizeof(*l->ev));
        MUST(l->ev);
    }
    l->ev[l->n++] = ev;
}

static int by_time(const void *x, const void *y)
{
    const struct hm_event *p = x, *q = y;
    if (p->t_ns != q->t_ns)
        return p->t_ns < q->t_ns ? -1 : 1;
    return (p->kind < q->kind) - (p->kind > q->kind); /* host events first */
}

static uint32_t launch(struct lane *l, int64_t *end_p)
{
    uint32_t c = ++l->correlation;
    struct hm_event ev = {.kind = HM_EV_API, .t_ns = l->host, .dur_ns = 2000, .track = HOST_TRACK};
    ev.u.api.correlation = c;
    ev.u.api.name = NAME_LAUNCH;
    put(l, ev);
    l->host += 3000;
    *end_p = ev.t_ns + 2000;
    return c;
}

static void kernel(struct lane *l, uint32_t track, uint32_t id, uint32_t grid, uint32_t corr,
                   int64_t start, int64_t dur)
{
    struct hm_event ev = {.kind = HM_EV_KERNEL, .t_ns = start, .dur_ns = dur, .track = track};
    ev.u.kernel.kernel = id;
    ev.u.kernel.correlation = corr;
    ev.u.kernel.grid[0] = grid;
    ev.u.kernel.grid[1] = ev.u.kernel.grid[2] = 1;
    put(l, ev);
}

static int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void simulate(const struct model *m, struct lane *lane)
{
    for (uint32_t s = 0; s < m->n_steps; s++) {
        int64_t mark = INT64_MAX;
        for (uint32_t r = 0; r < m->n_ranks; r++) {
            struct lane *l = &lane[r];
            /* the host is one millisecond ahead of the device when the step begins */
            l->host = max64(l->host, l->compute_end - 1000000);
            lane[r].window[s].t0_ns = l->compute_end + m->clock_ns[r];
            mark = l->compute_end < mark ? l->compute_end : mark;
            int kind = 0;
            int64_t late = m->host ? m->host(m, r, s, &kind) : 0;
            if (late > 0) {
                late += 1000000;
                struct hm_event ev = {
                    .kind = HM_EV_RANGE, .t_ns = l->host, .dur_ns = late, .track = HOST_TRACK};
                ev.u.range.name = NAME_INPUT;
                if (kind == 1)
                    put(l, ev);
                l->host += late;
            }
        }
        for (uint32_t b = 0; b < m->n_buckets; b++) {
            int64_t arrival[16], last = INT64_MIN;
            for (uint32_t r = 0; r < m->n_ranks; r++) {
                struct lane *l = &lane[r];
                int64_t launched;
                uint32_t corr = launch(l, &launched);
                int64_t start = max64(l->compute_end, launched);
                int64_t dur = m->compute(m, r, s, b);
                kernel(l, COMPUTE_TRACK, 1, m->grid ? m->grid(m, r, s, b) : 1, corr, start, dur);
                l->compute_end = start + dur;
                corr = launch(l, &launched);
                arrival[r] = max64(max64(l->compute_end, l->comm_end), launched);
                last = max64(last, arrival[r]);
                struct hm_part *p = &l->part[l->n_parts];
                *p = (struct hm_part){.worker = r, .i_arrival = (uint32_t)l->n_parts};
                p->a = (struct hm_arrival){.comm = COMM,
                                           .seq = s * m->n_buckets + b,
                                           .start_ns = arrival[r],
                                           .host_ns = launched - 2000,
                                           .launch_end_ns = launched,
                                           .bytes = 1 << 20,
                                           .func = HM_NCCL_ALLREDUCE,
                                           .n_ops = 1,
                                           .source = HM_ARRIVAL_KERNEL,
                                           .confidence = HM_JOIN_EXTERNAL};
                p->v.step = s;
                l->n_parts++;
                kernel(l, m->one_stream ? COMPUTE_TRACK : COMM_TRACK, 3, 1, corr, arrival[r], 0);
            }
            for (uint32_t r = 0; r < m->n_ranks; r++) {
                struct lane *l = &lane[r];
                int64_t end = last + m->reduce_ns + m->exit_ns * r;
                l->part[l->n_parts - 1].a.end_ns = end;
                l->ev[l->n - 1].dur_ns = end - arrival[r];
                l->comm_end = end;
                if (m->one_stream)
                    l->compute_end = end;
            }
        }
        for (uint32_t r = 0; r < m->n_ranks; r++) {
            struct lane *l = &lane[r];
            if (m->optimizer_ns) {
                int64_t launched;
                uint32_t corr = launch(l, &launched);
                int64_t start = max64(max64(l->compute_end, l->comm_end), launched);
                kernel(l, COMPUTE_TRACK, 2, 1, corr, start, m->optimizer_ns);
                l->compute_end = start + m->optimizer_ns;
            } else {
                l->compute_end = max64(l->compute_end, l->comm_end);
            }
            l->window[s].t1_ns = l->compute_end + m->clock_ns[r];
            l->window[s].step = s;
        }
    }
    for (uint32_t r = 0; r < m->n_ranks; r++) {
        for (size_t i = 0; i < lane[r].n; i++)
            lane[r].ev[i].t_ns += m->clock_ns[r];
        for (size_t i = 0; i < lane[r].n_parts; i++) {
            struct hm_arrival *a = &lane[r].part[i].a;
            a->start_ns += m->clock_ns[r];
            a->end_ns += m->clock_ns[r];
            a->host_ns += m->clock_ns[r];
            a->launch_end_ns += m->clock_ns[r];
        }
        qsort(lane[r].ev, lane[r].n, sizeof(struct hm_event), by_time);
    }
}

/* U17: the all-gather beside the compute of the step. */
static void simulate_side(const struct model *m, struct lane *lane)
{
    int64_t t = 0;
    for (uint32_t s = 0; s < m->n_steps; s++) {
        int64_t last = 0;
        for (uint32_t r = 0; r < m->n_ranks; r++) {
            struct lane *l = &lane[r];
            l->host = t - 2000000;
            int64_t launched;
            uint32_t corr = launch(l, &launched);
            kernel(l, COMPUTE_TRACK, 1, 1, corr, t, 50000000);
            corr = launch(l, &launched);
            kernel(l, COMPUTE_TRACK, 2, 1, corr, t + 50000000, 50000000);
            l->host = t + m->side_launch(m, r, s) - 2000;
            corr = launch(l, &launched);
            struct hm_part *p = &l->part[l->n_parts];
            *p = (struct hm_part){.worker = r, .i_arrival = s};
            p->a = (struct hm_arrival){.comm = COMM,
                                       .seq = s,
                                       .start_ns = launched + 3000,
                                       .host_ns = launched - 2000,
                                       .launch_end_ns = launched,
                                       .func = HM_NCCL_ALLGATHER,
                                       .source = HM_ARRIVAL_KERNEL};
            p->v.step = s;
            l->n_parts++;
            kernel(l, COMM_TRACK, 3, 1, corr, p->a.start_ns, 0);
            last = max64(last, p->a.start_ns);
        }
        int64_t end = max64(last + m->reduce_ns, t + 100000000);
        for (uint32_t r = 0; r < m->n_ranks; r++) {
            struct lane *l = &lane[r];
            l->part[s].a.end_ns = last + m->reduce_ns;
            l->ev[l->n - 1].dur_ns = last + m->reduce_ns - l->part[s].a.start_ns;
            l->window[s] = (struct hm_step_window){t, end, s, 0};
        }
        t = end;
    }
    for (uint32_t r = 0; r < m->n_ranks; r++)
        qsort(lane[r].ev, lane[r].n, sizeof(struct hm_event), by_time);
}

static size_t give_arrivals(void *ctx, struct hm_arrival *a, struct hm_annot *v, size_t cap)
{
    struct lane *l = ctx;
    size_t n = 0;
    for (; n < cap && l->i_arrival < l->n_parts; n++, l->i_arrival++) {
        a[n] = l->part[l->i_arrival].a;
        v[n] = l->part[l->i_arrival].v;
    }
    return n;
}
static int give_track(void *ctx, uint32_t track, uint32_t *type, uint32_t *device, uint32_t *stream)
{
    (void)ctx;
    *type = track == HOST_TRACK ? HM_TRACK_THREAD : HM_TRACK_STREAM;
    *device = 0;
    *stream = track;
    return 1;
}
static const char *give_string(void *ctx, uint32_t id)
{
    (void)ctx;
    return id < sizeof(names) / sizeof(names[0]) ? names[id] : "";
}
static uint32_t give_kernel(void *ctx, uint32_t kernel)
{
    (void)ctx;
    return kernel;
}
static hm_status_t take_step(void *ctx, const struct hm_step_part *p)
{
    struct lane *l = ctx;
    l->step[l->n_steps++] = *p;
    return HM_OK;
}
static hm_status_t take_segment(void *ctx, const struct hm_segment *s)
{
    struct lane *l = ctx;
    l->segment[l->n_segments++] = *s;
    return HM_OK;
}
static hm_status_t take_stat(void *ctx, const struct hm_kernel_stat *k)
{
    struct lane *l = ctx;
    l->stat = realloc(l->stat, (l->n_stats + 1) * sizeof(*k));
    l->stat[l->n_stats++] = *k;
    return HM_OK;
}
static int64_t clock_error(void *ctx, uint32_t a, uint32_t b, int64_t t)
{
    (void)a;
    (void)b;
    (void)t;
    return ((const struct model *)ctx)->clock_error_ns;
}

static struct hm_run last_run;
static struct hm_rank_info infos[16];
static struct hm_worker workers[16];

const struct hm_run *model_last_run(void)
{
    return &last_run;
}

static void check(const struct lane *l, struct model_sums *sums)
{
    for (size_t i = 0; i < l->n_segments; i++) {
        const struct hm_segment *s = &l->segment[i];
        int64_t sum = s->carry_ns + hm_segment_sum(s);
        int negative = s->compute_ns < 0 || s->comm_transfer_ns < 0 || s->comm_wait_ns < 0 ||
                       s->memcpy_ns < 0 || s->idle_input_ns < 0 || s->idle_host_ns < 0 ||
                       s->idle_queue_ns < 0 || s->idle_blocked_ns < 0 || s->idle_alloc_ns < 0 ||
                       s->idle_sync_ns < 0 || s->idle_serial_ns < 0 || s->idle_module_ns < 0 ||
                       s->idle_checkpoint_ns < 0 || s->idle_observer_ns < 0;
        sums->n_segments++;
        sums->n_bad_segments += sum != l->part[i].a.start_ns || negative;
    }
    for (size_t i = 0; i < l->n_steps; i++) {
        const struct hm_step_part *p = &l->step[i];
        sums->n_steps++;
        sums->n_bad_steps +=
            p->compute_ns + p->transfer_ns + p->wait_ns + p->memcpy_ns + p->idle_ns !=
            p->t1_ns - p->t0_ns;
        int64_t told = 0;
        for (int k = 0; k < HM_IDLE_N; k++)
            told += p->idle_by_ns[k];
        sums->n_bad_steps += told > p->idle_ns;
    }
}

void model_run(const struct model *m, struct hm_result *result_p, struct model_sums *sums_p)
{
    MUST(m->n_ranks <= 16);
    struct lane *lane = calloc(m->n_ranks, sizeof(*lane));
    size_t n_launches = (size_t)m->n_steps * m->n_buckets, n = n_launches * m->n_ranks;
    memset(&last_run, 0, sizeof(last_run));
    const uint32_t cap[HM_N_DEFS] = {64, 64, 64, 64, 64, 64};
    MUST(hm_defs_create(cap, 1 << 16, &last_run.names) == HM_OK);
    for (uint32_t r = 0; r < m->n_ranks; r++) {
        lane[r].part = calloc(n_launches, sizeof(struct hm_part));
        lane[r].segment = calloc(n_launches, sizeof(struct hm_segment));
        lane[r].step = calloc(m->n_steps, sizeof(struct hm_step_part));
        lane[r].window = calloc(m->n_steps, sizeof(struct hm_step_window));
        infos[r] = (struct hm_rank_info){.rank = (int32_t)r, .host = "node01", .path = "rank"};
        workers[r] = (struct hm_worker){r, 0};
    }
    if (m->side_launch)
        simulate_side(m, lane);
    else
        simulate(m, lane);
    /* match: all launches at once */
    struct hm_part *part = calloc(n, sizeof(*part));
    struct hm_launch *launch_v = calloc(n, sizeof(*launch_v));
    uint32_t member[16];
    for (uint32_t r = 0; r < m->n_ranks; r++) {
        memcpy(part + r * n_launches, lane[r].part, n_launches * sizeof(*part));
        member[r] = r;
    }
    struct hm_match_comm comm = {COMM, m->n_ranks, m->n_ranks, member};
    struct hm_match_in match_in = {
        .ctx = (void *)(uintptr_t)m, .comm = &comm, .n_comms = 1, .error = clock_error};
    struct hm_match *match;
    MUST(hm_match_create(&match_in, &match) == HM_OK);
    size_t got = hm_match_window(match, part, n, 1, launch_v, n);
    struct hm_match_stats stats;
    hm_match_stats(match, &stats);
    hm_match_destroy(match);
    for (size_t i = 0; i < n; i++)
        lane[part[i].worker].part[part[i].i_arrival].v = part[i].v;
    /* account */
    struct model_sums sums = {0};
    for (uint32_t r = 0; r < m->n_ranks; r++) {
        struct hm_account_in in = {.worker = r,
                                   .step = lane[r].window,
                                   .n_steps = m->n_steps,
                                   .ctx = &lane[r],
                                   .arrivals = give_arrivals,
                                   .track = give_track,
                                   .string = give_string,
                                   .kernel_name = give_kernel,
                                   .step_part = take_step,
                                   .segment = take_segment,
                                   .kernel_stat = take_stat,
                                   .clock_error_ns = m->clock_error_ns};
        struct hm_account *a;
        MUST(hm_account_create(&in, &a) == HM_OK);
        for (size_t i = 0; i < lane[r].n; i++)
            MUST(hm_account_event(a, &lane[r].ev[i]) == HM_OK);
        MUST(hm_account_end(a) == HM_OK);
        hm_account_destroy(a);
        MUST(lane[r].n_segments == lane[r].n_parts);
        MUST(lane[r].n_steps == m->n_steps);
        check(&lane[r], &sums);
    }
    /* judge */
    last_run.path = "model";
    last_run.n_ranks = last_run.n_present = last_run.n_workers = m->n_ranks;
    last_run.n_domains = 1;
    last_run.rank = infos;
    last_run.worker = workers;
    struct hm_judge_in in = {.run = &last_run,
                             .n_launches_seen = stats.n_launches,
                             .n_launches_matched = stats.n_complete,
                             .n_violations = stats.n_violations,
                             .clock_error_ns = stats.error_max_ns,
                             .arrival_source = stats.source,
                             .step_source = "marks",
                             .n_steps = m->n_steps};
    struct hm_judge *judge;
    MUST(hm_judge_create(&in, &judge) == HM_OK);
    struct hm_segment *segment = calloc(n, sizeof(*segment));
    for (size_t i = 0; i < n; i++) {
        part[i].i_segment = (uint32_t)i;
        segment[i] = lane[part[i].worker].segment[part[i].i_arrival];
    }
    struct hm_window w = {.launch = launch_v,
                          .part = part,
                          .segment = segment,
                          .n_launches = got,
                          .n_parts = n,
                          .n_segments = n};
    MUST(hm_judge_window(judge, &w) == HM_OK);
    for (uint32_t s = 0; s < m->n_steps; s++)
        for (uint32_t r = 0; r < m->n_ranks; r++)
            MUST(hm_judge_steps(judge, &lane[r].step[s], &r, 1) == HM_OK);
    for (uint32_t r = 0; r < m->n_ranks; r++)
        MUST(hm_judge_kernels(judge, r, lane[r].stat, lane[r].n_stats) == HM_OK);
    MUST(hm_judge_result(judge, result_p) == HM_OK);
    hm_judge_destroy(judge);
    if (sums_p)
        *sums_p = sums;
    for (uint32_t r = 0; r < m->n_ranks; r++) {
        free(lane[r].ev);
        free(lane[r].part);
        free(lane[r].segment);
        free(lane[r].step);
        free(lane[r].stat);
        free(lane[r].window);
    }
    free(segment);
    free(part);
    free(launch_v);
    free(lane);
}
