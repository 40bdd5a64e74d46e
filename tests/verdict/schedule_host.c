/* The host of a rank and what its device does besides communication; see schedule.h. */
#include "schedule.h"
#include "schedule_inside.h"

#define CALL_NS      (5 * US) /* a launching API call */
#define START_AFTER  (3 * US) /* from the end of the launch to the kernel on an idle stream */
#define NOTICE_NS    (4 * US) /* from the end of the work to the return of the waiting call */
#define TICK_NS      (100 * MS)
#define RANGE_DOMAIN HM_NO_ID

static void api_event(struct rank *r, const char *name, uint32_t domain, int64_t t, int64_t ns)
{
    struct hm_event ev = {.t_ns = t, .dur_ns = ns, .kind = HM_EV_API};
    ev.u.api.correlation = ++r->correlation;
    ev.u.api.name = name_id(r, name);
    ev.u.api.domain = domain;
    if (!r->no_cupti)
        put(r, ev);
}

void step_mark(struct rank *r, int64_t step)
{
    struct hm_event ev = {.t_ns = r->host, .kind = HM_EV_STEP, .aux = HM_STEP_BEGIN};
    ev.u.step.step = step;
    ev.u.step.name = HM_NO_ID;
    ev.u.step.source = HM_STEP_FROM_CALL;
    put(r, ev);
}

static void block_until(struct rank *r, const char *api, uint16_t sync_type, int64_t t)
{
    if (t <= r->host)
        t = r->host;
    int64_t ns = t + NOTICE_NS - r->host;
    api_event(r, api, HM_API_RUNTIME, r->host, ns);
    struct hm_event ev = {
        .t_ns = r->host + US, .dur_ns = ns - 2 * US, .kind = HM_EV_SYNC, .aux = sync_type};
    ev.u.sync.correlation = r->correlation;
    ev.u.sync.stream_track = HM_NO_ID;
    put(r, ev);
    r->host += ns;
}

void step_ahead(struct rank *r, int64_t step)
{
    if (r->host < r->step_end[0])
        block_until(r, "cudaEventSynchronize_v3020", 1, r->step_end[0]);
    step_mark(r, step);
}

void step_synced(struct rank *r, int64_t step)
{
    if (step)
        block_until(r, "cudaStreamSynchronize_v3020", 3, device_end(r));
    else
        r->host = device_end(r); /* the first step follows a start-up that is not recorded */
    step_mark(r, step);
}

void step_done(struct rank *r)
{
    r->step_end[0] = r->step_end[1];
    r->step_end[1] = device_end(r);
}

static void counter_event(struct rank *r, int64_t t, uint32_t track, const char *domain,
                          const char *name, const char *unit, int64_t value)
{
    struct hm_event ev = {.t_ns = t, .kind = HM_EV_COUNTER, .track = track};
    ev.u.counter.value.i = value;
    ev.u.counter.name = name_id(r, name);
    ev.u.counter.domain = name_id(r, domain);
    ev.u.counter.unit = name_id(r, unit);
    put(r, ev);
}

/* Time passes on `counted`, which the writer samples ten times a second. */
static void pass(struct rank *r, const char *name, int64_t *counted, int64_t ns)
{
    int64_t begin = r->host, before = *counted, end = begin + ns;
    for (int64_t t = (begin / TICK_NS + 1) * TICK_NS; t < end + TICK_NS; t += TICK_NS)
        counter_event(r, t, 0, "health", name, "ns", before + (t < end ? t - begin : ns));
    *counted += ns;
    r->host = end;
}

void host_busy(struct rank *r, int64_t ns)
{
    pass(r, "cpu.run", &r->cpu_run, ns);
}

void host_descheduled(struct rank *r, int64_t ns)
{
    pass(r, "cpu.wait", &r->cpu_wait, ns);
}

void host_range(struct rank *r, const char *name, int64_t ns)
{
    struct hm_event ev = {.t_ns = r->host, .dur_ns = ns, .kind = HM_EV_RANGE};
    ev.u.range.name = name_id(r, name);
    ev.u.range.domain = ev.u.range.category = RANGE_DOMAIN;
    put(r, ev);
    r->host += ns;
}

void host_api(struct rank *r, const char *name, int64_t ns)
{
    api_event(r, name, HM_API_RUNTIME, r->host, ns);
    r->host += ns + US;
}

void host_sync(struct rank *r, const char *api)
{
    block_until(r, api, 4, device_end(r));
}

void memory_event(struct rank *r, bool alloc, uint64_t bytes, uint64_t in_use)
{
    struct hm_event ev = {.t_ns = r->host, .kind = HM_EV_MEMORY};
    ev.u.memory.address = UINT64_C(0x7f0000000000);
    ev.u.memory.bytes = bytes;
    ev.u.memory.used = in_use;
    ev.u.memory.correlation = r->correlation;
    ev.u.memory.op = alloc ? 1 : 2;
    ev.u.memory.memory = 3;
    put(r, ev);
}

void overhead(struct rank *r, enum hm_overhead_kind kind, int64_t ns)
{
    struct hm_event ev = {
        .t_ns = r->host, .dur_ns = ns, .kind = HM_EV_OVERHEAD, .aux = (uint16_t)kind};
    ev.u.overhead.object = 1000 + (uint32_t)r->me;
    put(r, ev);
    r->host += ns;
}

void counter(struct rank *r, const char *domain, const char *name, const char *unit, int64_t value)
{
    counter_event(r, r->host, 0, domain, name, unit, value);
}

void health(struct rank *r, const char *name, const char *unit, int64_t value)
{
    counter_event(r, r->host, writer_track(), "health", name, unit, value);
}

static int64_t start_of(const struct rank *r, enum stream stream, int64_t launched)
{
    return r->gpu[stream] > launched + START_AFTER ? r->gpu[stream] : launched + START_AFTER;
}

int64_t gpu_kernel(struct rank *r, enum stream stream, const char *name, uint32_t grid, int64_t dur)
{
    api_event(r, "cuLaunchKernel", HM_API_DRIVER, r->host, CALL_NS);
    struct hm_event k = {.t_ns = start_of(r, stream, r->host + CALL_NS),
                         .dur_ns = dur,
                         .kind = HM_EV_KERNEL,
                         .track = stream_track(stream)};
    k.u.kernel.kernel = kernel_id(r, name, 256);
    k.u.kernel.correlation = r->correlation;
    k.u.kernel.grid[0] = grid;
    k.u.kernel.grid[1] = k.u.kernel.grid[2] = 1;
    k.u.kernel.channel_type = 1;
    put(r, k);
    r->host += CALL_NS + US;
    return r->gpu[stream] = k.t_ns + dur;
}

int64_t gpu_copy(struct rank *r, enum stream stream, uint64_t bytes, int64_t dur)
{
    api_event(r, "cudaMemcpyAsync_v3020", HM_API_RUNTIME, r->host, CALL_NS);
    struct hm_event c = {.t_ns = start_of(r, stream, r->host + CALL_NS),
                         .dur_ns = dur,
                         .kind = HM_EV_MEMCPY,
                         .track = stream_track(stream)};
    c.u.copy.bytes = bytes;
    c.u.copy.correlation = r->correlation;
    c.u.copy.copy = 1;
    c.u.copy.src = 2;
    c.u.copy.dst = 3;
    c.u.copy.async = 1;
    c.u.copy.n_copies = 1;
    put(r, c);
    r->host += CALL_NS + US;
    return r->gpu[stream] = c.t_ns + dur;
}

void gpu_await(struct rank *r, enum stream stream, enum stream other)
{
    if (r->gpu[stream] < r->gpu[other])
        r->gpu[stream] = r->gpu[other];
}
