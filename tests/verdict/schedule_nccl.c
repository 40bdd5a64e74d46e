/* Communication of a scheduled job; see schedule.h. */
#include "schedule.h"
#include "schedule_inside.h"

#include <stdlib.h>

/* One launch: the NCCL calls, then the launch around its API call, then the operations. */
#define CALL_NS     (2 * US) /* each call of the application */
#define LAUNCH_NS   (8 * US)
#define API_AFTER   (2 * US)
#define API_NS      (5 * US)
#define START_AFTER (3 * US)

static struct member *member_of(struct rank *r, int comm, uint32_t *local_p)
{
    for (uint32_t i = 0; i < r->n_members; i++)
        if (r->member[i].comm == comm) {
            *local_p = i;
            return &r->member[i];
        }
    die("not a member");
    return NULL;
}

static bool is_p2p(enum hm_nccl_func func)
{
    return func == HM_NCCL_SEND || func == HM_NCCL_RECV;
}

static int64_t launch_end(const struct rank *r, int n_ops)
{
    return r->host + n_ops * CALL_NS + API_AFTER + API_NS;
}

static int64_t ready(const struct rank *r, enum stream stream, int n_ops)
{
    int64_t launched = launch_end(r, n_ops) + START_AFTER;
    return r->gpu[stream] > launched ? r->gpu[stream] : launched;
}

static const char *kernel_name(enum hm_nccl_func func)
{
    switch (func) {
    case HM_NCCL_ALLREDUCE:
        return "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
    case HM_NCCL_ALLGATHER:
        return "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
    case HM_NCCL_BROADCAST:
        return "ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
    case HM_NCCL_REDUCESCATTER:
        return "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
    default:
        return "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)";
    }
}

/* The application's call; returns its call index. */
static uint32_t call_event(struct rank *r, uint32_t local, struct member *m, const struct op *op)
{
    bool p2p = is_p2p(op->func);
    struct hm_event ev = {.t_ns = r->host,
                          .dur_ns = CALL_NS - US,
                          .kind = HM_EV_NCCL_CALL,
                          .aux = HM_NCCL_AUX(op->func, HM_DTYPE_FLOAT32)};
    ev.u.op.count = op->count;
    ev.u.op.comm = local;
    ev.u.op.call = p2p ? HM_CALL_P2P | m->n_p2p++ : m->n_coll++;
    ev.flags = r->capturing ? HM_EVF_GRAPH : 0;
    ev.u.op.nccl_seq = ev.u.op.launch = HM_NO_ID;
    ev.u.op.peer = p2p ? -1 : op->peer;
    put(r, ev);
    r->host += CALL_NS;
    return ev.u.op.call;
}

static void op_event(struct rank *r, uint32_t local, const struct op *op, uint32_t call)
{
    bool p2p = is_p2p(op->func);
    struct hm_event ev = {.t_ns = r->host + LAUNCH_NS + US,
                          .dur_ns = US,
                          .kind = p2p ? HM_EV_NCCL_P2P : HM_EV_NCCL_COLL,
                          .aux = HM_NCCL_AUX(op->func, HM_DTYPE_FLOAT32)};
    ev.u.op.count = op->count;
    ev.u.op.comm = local;
    ev.u.op.call = call;
    ev.u.op.nccl_seq = p2p ? HM_NO_ID : call;
    ev.u.op.launch = r->launch;
    ev.u.op.peer = op->peer;
    ev.u.op.algo = p2p ? 0 : HM_NCCL_ALGO_RING;
    ev.u.op.proto = p2p ? HM_NCCL_PROTO_SIMPLE : HM_NCCL_PROTO_LL;
    ev.u.op.n_channels = 2;
    ev.u.op.n_warps = 16;
    ev.flags = r->capturing ? HM_EVF_GRAPH : 0;
    put(r, ev);
}

struct posted nccl_post(struct rank *r, int comm, enum stream stream, const struct op *op,
                        int n_ops)
{
    uint32_t local = 0, call[64];
    struct member *m = member_of(r, comm, &local);
    struct posted posted = {.func = op[0].func, .stream = stream};
    if (n_ops > 64)
        die("too many operations in a launch");
    posted.ready = ready(r, stream, n_ops);
    struct hm_event group = {.t_ns = r->host, .kind = HM_EV_NCCL_GROUP};
    group.u.group.group = r->launch + 1;
    group.u.group.depth = n_ops > 1 ? 2 : 1;
    for (int i = 0; i < n_ops; i++)
        call[i] = call_event(r, local, m, &op[i]);
    group.dur_ns = r->host + LAUNCH_NS + 4 * US - group.t_ns;
    group.flags = r->capturing ? HM_EVF_GRAPH : 0;
    put(r, group);
    r->launch++;
    struct hm_event launch = {.t_ns = r->host, .dur_ns = LAUNCH_NS, .kind = HM_EV_NCCL_LAUNCH};
    launch.u.launch.stream_ptr = 0x5000 + (uint64_t)stream;
    launch.u.launch.comm = local;
    launch.u.launch.launch = r->launch;
    launch.u.launch.group = r->launch;
    launch.u.launch.n_ops = (uint32_t)n_ops;
    launch.flags = group.flags;
    put(r, launch);
    struct hm_event api = {.t_ns = r->host + API_AFTER, .dur_ns = API_NS, .kind = HM_EV_API};
    api.u.api.external = r->launch;
    api.u.api.correlation = posted.correlation = ++r->correlation;
    api.u.api.name = name_id(r, "cuLaunchKernelEx");
    api.u.api.domain = HM_API_DRIVER;
    if (!r->no_cupti)
        put(r, api);
    for (int i = 0; i < n_ops; i++)
        op_event(r, local, &op[i], call[i]);
    r->host += LAUNCH_NS + 5 * US;
    return posted;
}

int64_t nccl_start(const struct rank *r, const struct posted *posted)
{
    int64_t free_at = r->gpu[posted->stream];
    return free_at > posted->ready ? free_at : posted->ready;
}

void nccl_run(struct rank *r, const struct posted *posted, int64_t end)
{
    int64_t start = nccl_start(r, posted);
    r->gpu[posted->stream] = end;
    if (r->no_cupti)
        return;
    struct hm_event k = {.t_ns = start,
                         .dur_ns = end - start,
                         .kind = HM_EV_KERNEL,
                         .track = stream_track(posted->stream)};
    k.u.kernel.kernel = kernel_id(r, kernel_name(posted->func), 512);
    k.u.kernel.correlation = posted->correlation;
    k.u.kernel.grid[0] = 2;
    k.u.kernel.grid[1] = k.u.kernel.grid[2] = 1;
    k.u.kernel.channel_type = 1;
    put(r, k);
}

void collective_on(struct job *j, int comm, enum stream stream, enum hm_nccl_func func,
                   uint64_t count, int64_t transfer)
{
    const struct comm *c = &j->comm[comm];
    struct op op = {.func = func, .count = count, .peer = -1};
    struct posted *posted = calloc((size_t)c->n, sizeof(*posted));
    int64_t last = 0;
    if (!posted)
        die("out of memory");
    for (int i = 0; i < c->n; i++) {
        posted[i] = nccl_post(&j->r[c->ranks[i]], comm, stream, &op, 1);
        int64_t t = nccl_start(&j->r[c->ranks[i]], &posted[i]);
        last = t > last ? t : last;
    }
    for (int i = 0; i < c->n; i++)
        nccl_run(&j->r[c->ranks[i]], &posted[i], last + transfer);
    free(posted);
}

void allreduce_on(struct job *j, int comm, enum stream stream, uint64_t count, int64_t transfer)
{
    const struct comm *c = &j->comm[comm];
    for (int i = 0; i < c->n; i++)
        gpu_await(&j->r[c->ranks[i]], stream, COMPUTE);
    collective_on(j, comm, stream, HM_NCCL_ALLREDUCE, count, transfer);
    for (int i = 0; i < c->n; i++)
        gpu_await(&j->r[c->ranks[i]], COMPUTE, stream);
}

void allreduce(struct job *j, int comm, uint64_t count, int64_t transfer)
{
    allreduce_on(j, comm, COMM, count, transfer);
}

void alltoallv(struct job *j, int comm, const uint64_t *count, bool empty, int64_t transfer)
{
    const struct comm *c = &j->comm[comm];
    struct posted posted[32];
    int64_t start[32];
    int n = c->n;
    if (n > 32)
        die("alltoallv");
    for (int i = 0; i < n; i++) {
        struct rank *r = &j->r[c->ranks[i]];
        struct op op[64];
        int n_ops = 0;
        for (int k = 0; k < n; k++) {
            uint64_t out = count[i * n + k], in = count[k * n + i];
            if (k != i && (out || empty))
                op[n_ops++] = (struct op){HM_NCCL_SEND, out, k};
            if (k != i && (in || empty))
                op[n_ops++] = (struct op){HM_NCCL_RECV, in, k};
        }
        gpu_await(r, COMM, COMPUTE);
        posted[i] = nccl_post(r, comm, COMM, op, n_ops);
        start[i] = nccl_start(r, &posted[i]);
    }
    for (int i = 0; i < n; i++) {
        int64_t last = start[i];
        for (int k = 0; k < n; k++)
            if (count[i * n + k] + count[k * n + i] && start[k] > last)
                last = start[k];
        nccl_run(&j->r[c->ranks[i]], &posted[i], last + transfer);
        gpu_await(&j->r[c->ranks[i]], COMPUTE, COMM);
    }
}

struct posted post_send(struct job *j, int comm, int a, int b, enum stream stream, uint64_t count)
{
    struct op send = {HM_NCCL_SEND, count, b};
    return nccl_post(&j->r[j->comm[comm].ranks[a]], comm, stream, &send, 1);
}

struct posted post_recv(struct job *j, int comm, int a, int b, enum stream stream, uint64_t count)
{
    struct op recv = {HM_NCCL_RECV, count, a};
    return nccl_post(&j->r[j->comm[comm].ranks[b]], comm, stream, &recv, 1);
}

void run_message(struct job *j, int comm, int a, int b, const struct posted *send,
                 const struct posted *recv, int64_t transfer)
{
    struct rank *from = &j->r[j->comm[comm].ranks[a]], *to = &j->r[j->comm[comm].ranks[b]];
    int64_t s = nccl_start(from, send), t = nccl_start(to, recv);
    int64_t end = (s > t ? s : t) + transfer;
    nccl_run(from, send, end);
    nccl_run(to, recv, end);
}
