/* The run that check_hand.py knows by heart: definitions and events of one of its ranks.
 *
 * Box: tests/timeline. Three ranks, one communicator, two steps, one host, one clock; the times
 * below are the ones the trace must show.
 */
#include "hand_run.h"

#include <string.h>

const int64_t hand_first[HAND_RANKS] = {30000, 42345, 35001};

static const struct hand_out *out;
static uint32_t n_defs[HM_N_DEFS];

static uint32_t define(enum hm_def_kind kind, const void *bytes, size_t len)
{
    uint32_t id = n_defs[kind]++;
    out->define(kind, id, bytes, (uint32_t)len);
    return id;
}

static uint32_t name(const char *s)
{
    return define(HM_DEF_STRING, s, strlen(s));
}

static struct hm_event event(enum hm_kind kind, uint32_t track, int64_t t, int64_t dur)
{
    struct hm_event ev;
    memset(&ev, 0, sizeof(ev));
    ev.kind = (uint8_t)kind;
    ev.track = track;
    ev.t_ns = HAND_T0 + t;
    ev.dur_ns = dur;
    return ev;
}

static void add(const struct hm_event *ev)
{
    out->append(ev);
}

static void step(uint32_t track, int64_t t, int64_t no, enum hm_step_edge edge)
{
    struct hm_event ev = event(HM_EV_STEP, track, t, 0);
    ev.aux = (uint16_t)edge;
    ev.u.step.step = no;
    ev.u.step.name = HM_NO_ID;
    ev.u.step.source = HM_STEP_FROM_CALL;
    add(&ev);
}

static void range(enum hm_kind kind, uint32_t track, int64_t t, int64_t dur, uint32_t text)
{
    struct hm_event ev = event(kind, track, t, dur);
    ev.u.range.name = text;
    ev.u.range.domain = ev.u.range.category = HM_NO_ID;
    add(&ev);
}

static void api(uint32_t track, int64_t t, int64_t dur, uint32_t text, uint32_t correlation,
                uint64_t external)
{
    struct hm_event ev = event(HM_EV_API, track, t, dur);
    ev.u.api.name = text;
    ev.u.api.correlation = correlation;
    ev.u.api.external = external;
    ev.u.api.domain = HM_API_RUNTIME;
    add(&ev);
}

static void kernel(uint32_t track, int64_t t, int64_t end, uint32_t id, uint32_t correlation)
{
    struct hm_event ev = event(HM_EV_KERNEL, track, t, end - t);
    ev.u.kernel =
        (struct hm_ev_kernel){.kernel = id, .correlation = correlation, .grid = {4, 2, 1}};
    add(&ev);
}

/* One all-reduce: call, launch, the driver's launch call, operation, kernel. */
static void all_reduce(uint32_t host, uint32_t stream, uint32_t comm, uint32_t no, int64_t called,
                       int64_t start, int64_t end, uint32_t api_name, uint32_t kernel_id)
{
    struct hm_event ev = event(HM_EV_NCCL_CALL, host, called, 100);
    ev.aux = HM_NCCL_AUX(HM_NCCL_ALLREDUCE, HM_DTYPE_FLOAT32);
    ev.u.op =
        (struct hm_ev_op){.count = 1000, .comm = comm, .call = no, .launch = no + 1, .peer = -1};
    ev.u.op.nccl_seq = HM_NO_ID;
    add(&ev);
    ev = event(HM_EV_NCCL_LAUNCH, host, called + 200, 800);
    ev.u.launch = (struct hm_ev_launch){.comm = comm, .launch = no + 1, .n_ops = 1};
    add(&ev);
    api(host, called + 300, 500, api_name, no + 100, no + 1);
    ev = event(HM_EV_NCCL_COLL, host, called + 1100, 50);
    ev.aux = HM_NCCL_AUX(HM_NCCL_ALLREDUCE, HM_DTYPE_FLOAT32);
    ev.u.op =
        (struct hm_ev_op){.count = 1000, .comm = comm, .call = no, .launch = no + 1, .peer = -1};
    ev.u.op.nccl_seq = no;
    ev.u.op.n_channels = 4;
    add(&ev);
    kernel(stream, start, end, kernel_id, no + 100);
}

void hand_rank(int rank, const struct hand_out *to)
{
    out = to;
    memset(n_defs, 0, sizeof(n_defs));
    struct hm_def_device device = {.device = 0, .name = name("GPU by hand")};
    struct hm_def_track host = {.type = HM_TRACK_THREAD, .tid = 500u + (uint32_t)rank};
    struct hm_def_track stream = {.type = HM_TRACK_STREAM, .stream = 7, .device = 0, .context = 1};
    struct hm_def_comm comm = {.hash = 0xabc0000000000001ull,
                               .crank = rank,
                               .n_ranks = HAND_RANKS,
                               .n_nodes = 1,
                               .name = HM_NO_ID,
                               .interface = 5,
                               .nccl_version = 22809};
    host.name = stream.name = HM_NO_ID;
    define(HM_DEF_DEVICE, &device, sizeof(device));
    uint32_t thread = define(HM_DEF_TRACK, &host, sizeof(host));
    uint32_t queue = define(HM_DEF_TRACK, &stream, sizeof(stream));
    uint32_t world = define(HM_DEF_COMM, &comm, sizeof(comm));
    struct hm_def_kernel k = {.block = {256, 1, 1}};
    k.name = name("gemm");
    uint32_t gemm = define(HM_DEF_KERNEL, &k, sizeof(k));
    k.name = name("odd \"name\" \\ tab\t \xff end");
    uint32_t odd = define(HM_DEF_KERNEL, &k, sizeof(k));
    k.name = name("_Z39ncclDevKernel_AllReduce_Sum_f32_RING_LL24ncclDevKernelArgsStorageILm4096EE");
    uint32_t nccl = define(HM_DEF_KERNEL, &k, sizeof(k));
    uint32_t launch = name("cudaLaunchKernel"), launch_ex = name("cuLaunchKernelEx");
    uint32_t forward = name("forward"), layer = name("layer"), mark = name("here");

    step(thread, 1000, 0, HM_STEP_BEGIN);
    range(HM_EV_RANGE, thread, 2000, 10000, layer); /* begins with the one that holds it */
    range(HM_EV_RANGE, thread, 2000, 24000, forward);
    range(HM_EV_MARK, thread, 2500, 0, mark);
    api(thread, 3000, 500, launch, 1, 0);
    kernel(queue, 5000, 25000, gemm, 1);
    struct hm_event copy = event(HM_EV_MEMCPY, queue, 26000, 1000);
    copy.u.copy.bytes = 4096;
    copy.u.copy.copy = 1;
    copy.u.copy.correlation = 2;
    add(&copy);
    all_reduce(thread, queue, world, 0, 27000, hand_first[rank], 60000, launch_ex, nccl);
    all_reduce(thread, queue, world, 1, 62000, 70000, 80000, launch_ex, nccl); /* nobody is late */
    kernel(queue, 90000, 95000, odd, 3);
    kernel(queue, 93000, 99001, gemm, 4); /* overlaps */
    step(thread, 101000, 1, HM_STEP_BEGIN);
    kernel(queue, 110000, 120000, gemm, 5);
    struct hm_event gap = event(HM_EV_GAP, thread, 150000, 5000);
    gap.u.gap.n = 12;
    add(&gap);
    step(thread, 201000, 1, HM_STEP_END);
}
