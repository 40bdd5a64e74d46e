/* Data-parallel training, by arithmetic.
 *
 * Box: merge/demo. Pure. A step: range `input` on the host; forward, then backward on the compute
 * stream; after every second layer of backward a bucket of gradients is all-reduced on a second
 * stream, beside what is left of backward; then the optimizer; the host waits for it. A collective
 * starts on a rank when its gradients are there, its launch is done and the bucket before is
 * through; it ends everywhere one transfer after the last start.
 */
#include "demo/model.h"

static const int64_t US = 1000, MS = 1000000;
static const int64_t T_FORWARD = 700000, T_NORM = 200000, T_BACKWARD = 1500000, T_OPT = 900000;
static const int64_t T_INPUT = 800000, T_BUCKET = 2400000;
static const int64_t START = INT64_C(1000000000000);
static const uint64_t BUCKET_COUNT = 6553600; /* 25 MiB of float32 */

static uint64_t mix(uint64_t x)
{
    x ^= x >> 30;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    x ^= x >> 27;
    x *= UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* +-0.2 % of ns, the same for the same place in the run whatever the faults are. */
static int64_t jitter(const struct hm_demo *d, uint32_t rank, uint32_t step, uint32_t what,
                      int64_t ns)
{
    uint64_t h = mix(mix(mix(d->seed + 0x9e3779b97f4a7c15) ^ rank) ^ ((uint64_t)step << 32 | what));
    return (int64_t)(h % 4001) * ns / 1000000 - 2 * ns / 1000;
}

static double fault(const struct hm_demo *d, enum hm_demo_kind kind, uint32_t rank, uint32_t step,
                    double none)
{
    double v = none;
    for (uint32_t i = 0; i < d->n_faults; i++)
        if (d->fault[i].kind == kind && d->fault[i].rank == rank && step >= d->fault[i].from_step)
            v = d->fault[i].value;
    return v;
}

static hm_status_t give(hm_demo_out_t out, void *ctx, const struct hm_event *ev)
{
    return out ? out(ctx, ev) : HM_OK;
}

void hm_demo_rank_init(const struct hm_demo *d, uint32_t rank, struct hm_demo_rank *r_p)
{
    int64_t t = START + (int64_t)(mix(d->seed ^ rank) % 300000);
    *r_p = (struct hm_demo_rank){.rank = rank, .host_ns = t, .compute_ns = t, .comm_ns = t};
}

/* A launch call on the host: 5 us. Returns its end. */
static hm_status_t launch_call(struct hm_demo_rank *r, uint64_t external, hm_demo_out_t out,
                               void *ctx)
{
    struct hm_event ev = {.t_ns = r->host_ns, .dur_ns = 5 * US, .kind = HM_EV_API};
    ev.track = DEMO_T_HOST;
    ev.aux = 0;
    ev.u.api.external = external;
    ev.u.api.correlation = ++r->correlation;
    ev.u.api.name = external ? DEMO_S_LAUNCH_EXC : DEMO_S_LAUNCH;
    ev.u.api.domain = HM_API_RUNTIME;
    r->host_ns += 5 * US;
    return give(out, ctx, &ev);
}

static hm_status_t compute(const struct hm_demo *d, struct hm_demo_rank *r, uint32_t step,
                           uint32_t what, uint32_t kernel, int64_t ns, hm_demo_out_t out, void *ctx)
{
    uint32_t grid = 256;
    int64_t dur = ns + jitter(d, r->rank, step, what, ns);
    if (kernel == DEMO_K_FORWARD || kernel == DEMO_K_BACKWARD) {
        double more = fault(d, HM_DEMO_MORE_WORK, r->rank, step, 1);
        dur = (int64_t)((double)dur * more);
        grid = (uint32_t)((double)grid * more);
    }
    dur = (int64_t)((double)dur * fault(d, HM_DEMO_SLOW_GPU, r->rank, step, 1));
    hm_status_t s = launch_call(r, 0, out, ctx);
    if (s)
        return s;
    int64_t start = r->host_ns + 3 * US;
    if (r->compute_ns + US > start)
        start = r->compute_ns + US;
    struct hm_event ev = {.t_ns = start, .dur_ns = dur, .kind = HM_EV_KERNEL};
    ev.track = DEMO_T_COMPUTE;
    ev.u.kernel.kernel = kernel;
    ev.u.kernel.correlation = r->correlation;
    ev.u.kernel.grid[0] = grid;
    ev.u.kernel.grid[1] = ev.u.kernel.grid[2] = 1;
    r->compute_ns = start + dur;
    r->host_ns += 3 * US;
    return give(out, ctx, &ev);
}

/* ncclAllReduce of one bucket: the call, the launch in it, the operation announced after it. */
static hm_status_t all_reduce(struct hm_demo_rank *r, hm_demo_out_t out, void *ctx)
{
    struct hm_event call = {.t_ns = r->host_ns, .dur_ns = 2 * US, .kind = HM_EV_NCCL_CALL};
    call.track = DEMO_T_HOST;
    call.aux = HM_NCCL_AUX(HM_NCCL_ALLREDUCE, HM_DTYPE_FLOAT32);
    call.u.op = (struct hm_ev_op){.count = BUCKET_COUNT,
                                  .comm = 0,
                                  .call = r->call,
                                  .nccl_seq = HM_NO_ID,
                                  .launch = HM_NO_ID,
                                  .peer = -1};
    r->host_ns += 4 * US;
    struct hm_event launch = {.t_ns = r->host_ns, .kind = HM_EV_NCCL_LAUNCH};
    launch.track = DEMO_T_HOST;
    launch.u.launch.comm = 0;
    launch.u.launch.launch = ++r->launch;
    launch.u.launch.stream_ptr = 0x7f0000001000;
    launch.u.launch.group = r->launch;
    r->host_ns += US;
    hm_status_t s = launch_call(r, r->launch, out, ctx);
    r->host_ns += US;
    launch.dur_ns = r->host_ns - launch.t_ns;
    struct hm_event coll = call;
    coll.kind = HM_EV_NCCL_COLL;
    coll.t_ns = r->host_ns + US;
    coll.dur_ns = 3 * US;
    coll.u.op.launch = r->launch;
    coll.u.op.nccl_seq = r->call;
    coll.u.op.algo = HM_NCCL_ALGO_RING;
    coll.u.op.proto = HM_NCCL_PROTO_SIMPLE;
    coll.u.op.n_channels = 8;
    coll.u.op.n_warps = 16;
    r->call++;
    r->host_ns += 6 * US;
    if (!s)
        s = give(out, ctx, &call);
    if (!s)
        s = give(out, ctx, &launch);
    if (!s)
        s = give(out, ctx, &coll);
    return s;
}

hm_status_t hm_demo_step_begin(const struct hm_demo *d, struct hm_demo_rank *r, uint32_t step,
                               struct hm_demo_half *half_p, hm_demo_out_t out, void *ctx)
{
    uint32_t what = 0;
    struct hm_event mark = {.t_ns = r->host_ns, .kind = HM_EV_STEP, .aux = HM_STEP_BEGIN};
    mark.track = DEMO_T_HOST;
    mark.u.step.step = step;
    mark.u.step.name = HM_NO_ID;
    mark.u.step.source = HM_STEP_FROM_CALL;
    hm_status_t s = give(out, ctx, &mark);
    struct hm_event input = {.t_ns = r->host_ns + US, .kind = HM_EV_RANGE};
    input.track = DEMO_T_HOST;
    input.u.range.name = DEMO_S_INPUT;
    input.u.range.domain = DEMO_S_DOMAIN;
    input.u.range.category = HM_NO_ID;
    input.dur_ns = T_INPUT + jitter(d, r->rank, step, what++, T_INPUT) +
                   (int64_t)(fault(d, HM_DEMO_SLOW_INPUT, r->rank, step, 0) * (double)MS);
    r->host_ns += input.dur_ns + 2 * US;
    if (!s)
        s = give(out, ctx, &input);
    r->host_ns += (int64_t)(fault(d, HM_DEMO_LATE_LAUNCH, r->rank, step, 0) * (double)MS);
    for (int i = 0; i < HM_DEMO_LAYERS && !s; i++) {
        s = compute(d, r, step, what++, DEMO_K_FORWARD, T_FORWARD, out, ctx);
        if (!s)
            s = compute(d, r, step, what++, DEMO_K_NORM, T_NORM, out, ctx);
    }
    for (int i = 0; i < HM_DEMO_LAYERS && !s; i++) {
        s = compute(d, r, step, what++, DEMO_K_BACKWARD, T_BACKWARD, out, ctx);
        if (s || (i + 1) % HM_DEMO_LAYERS_PER_BUCKET)
            continue;
        int b = i / HM_DEMO_LAYERS_PER_BUCKET;
        half_p->ready_ns[b] = r->compute_ns;
        s = all_reduce(r, out, ctx);
        half_p->launch_ns[b] = r->host_ns;
    }
    return s;
}

int64_t hm_demo_bucket_start(const struct hm_demo_rank *r, const struct hm_demo_half *half,
                             uint32_t b)
{
    int64_t start = half->ready_ns[b];
    if (half->launch_ns[b] > start)
        start = half->launch_ns[b];
    if (r->comm_ns > start)
        start = r->comm_ns;
    return start + 2 * US;
}

hm_status_t hm_demo_bucket_end(const struct hm_demo *d, struct hm_demo_rank *r, uint32_t step,
                               uint32_t b, int64_t start_ns, int64_t last_ns, uint32_t correlation,
                               hm_demo_out_t out, void *ctx)
{
    int64_t tail = (int64_t)(mix(d->seed ^ mix(r->rank * 64 + b) ^ step) % 2000);
    r->comm_ns = last_ns + T_BUCKET + jitter(d, 0, step, 1000 + b, T_BUCKET) + tail;
    struct hm_event ev = {.t_ns = start_ns, .dur_ns = r->comm_ns - start_ns, .kind = HM_EV_KERNEL};
    ev.track = DEMO_T_COMM;
    ev.u.kernel.kernel = DEMO_K_NCCL;
    ev.u.kernel.correlation = correlation;
    ev.u.kernel.grid[0] = 8;
    ev.u.kernel.grid[1] = ev.u.kernel.grid[2] = 1;
    return give(out, ctx, &ev);
}

hm_status_t hm_demo_step_end(const struct hm_demo *d, struct hm_demo_rank *r, uint32_t step,
                             hm_demo_out_t out, void *ctx)
{
    if (r->comm_ns > r->compute_ns)
        r->compute_ns = r->comm_ns;
    hm_status_t s = compute(d, r, step, 500, DEMO_K_OPT, T_OPT, out, ctx);
    int64_t sync = r->host_ns;
    r->host_ns = r->compute_ns + 10 * US;
    struct hm_event ev = {.t_ns = sync, .dur_ns = r->host_ns - US - sync, .kind = HM_EV_SYNC};
    ev.track = DEMO_T_HOST;
    ev.aux = 3; /* CUPTI: stream synchronize */
    ev.u.sync.stream_track = DEMO_T_COMPUTE;
    ev.u.sync.event = HM_NO_ID;
    ev.u.sync.correlation = ++r->correlation;
    if (!s)
        s = give(out, ctx, &ev);
    struct hm_event mark = {.t_ns = r->host_ns, .kind = HM_EV_STEP, .aux = HM_STEP_END};
    mark.track = DEMO_T_HOST;
    mark.u.step.step = step;
    mark.u.step.name = HM_NO_ID;
    mark.u.step.source = HM_STEP_FROM_CALL;
    if (!s)
        s = give(out, ctx, &mark);
    r->host_ns += 2 * US;
    return s;
}
