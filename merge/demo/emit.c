/* Operations as the recorder sees them: launch calls with correlation, kernels, NCCL's calls,
 * launches and operations, marks and ranges.
 *
 * Box: merge/demo. A rank whose step is lost gives one gap in place of the step's events.
 */
#include "core/pool.h"
#include "demo/names.h"
#include "demo/random.h"
#include "demo/sim.h"

static const int64_t US = 1000;
enum { MAX_PIECES = 16 }; /* larger all-to-alls are one operation */

static void give(struct hm_demo_out *out, const struct hm_demo_rank *r, const struct hm_event *ev)
{
    if (!out->status && !r->now.lost)
        out->status = out->give(out->ctx, ev);
}

static void mark(struct hm_demo_out *out, const struct hm_demo_rank *r, int64_t t, uint16_t edge)
{
    struct hm_event ev = {.t_ns = t, .kind = HM_EV_STEP, .aux = edge, .track = DEMO_T_HOST};
    ev.u.step.step = r->step;
    ev.u.step.name = HM_NO_ID;
    ev.u.step.source = HM_STEP_FROM_CALL;
    give(out, r, &ev);
}

static void range(struct hm_demo_out *out, const struct hm_demo_rank *r, int64_t t, int64_t dur,
                  uint32_t name)
{
    struct hm_event ev = {.t_ns = t, .dur_ns = dur, .kind = HM_EV_RANGE, .track = DEMO_T_HOST};
    ev.u.range.name = name;
    ev.u.range.domain = DEMO_S_DOMAIN;
    ev.u.range.category = HM_NO_ID;
    give(out, r, &ev);
}

static void api(struct hm_demo_out *out, const struct hm_demo_rank *r, int64_t t, int64_t dur,
                uint32_t name, uint64_t external)
{
    struct hm_event ev = {.t_ns = t, .dur_ns = dur, .kind = HM_EV_API, .track = DEMO_T_HOST};
    ev.u.api.external = external;
    ev.u.api.correlation = r->correlation;
    ev.u.api.name = name;
    ev.u.api.domain = HM_API_RUNTIME;
    give(out, r, &ev);
}

void hm_demo_emit_begin(struct hm_demo_out *out, const struct hm_demo_rank *r, int64_t mark_ns,
                        int64_t checkpoint_ns, int64_t input_t_ns, int64_t input_ns)
{
    mark(out, r, mark_ns, HM_STEP_BEGIN);
    if (checkpoint_ns)
        range(out, r, mark_ns + US, checkpoint_ns, DEMO_S_CHECKPOINT);
    range(out, r, input_t_ns, input_ns, DEMO_S_INPUT);
}

void hm_demo_emit_end(struct hm_demo_out *out, const struct hm_demo_rank *r)
{
    mark(out, r, r->host_ns, HM_STEP_END);
    if (!r->now.lost || out->status)
        return;
    struct hm_event ev = {.t_ns = r->step_t_ns,
                          .dur_ns = r->host_ns - r->step_t_ns,
                          .kind = HM_EV_GAP,
                          .aux = HM_LOST_POOL_FULL,
                          .track = DEMO_T_HOST};
    ev.u.gap.n = out->n_lost_a_step;
    out->n_lost += out->n_lost_a_step;
    out->status = out->give(out->ctx, &ev);
}

void hm_demo_emit_copy(struct hm_demo_out *out, const struct hm_demo_rank *r,
                       const struct hm_demo_op *op, int64_t call_ns, int64_t start_ns,
                       int64_t dur_ns)
{
    struct hm_event ev = {.t_ns = start_ns, .dur_ns = dur_ns, .kind = HM_EV_MEMCPY};
    api(out, r, call_ns, 5 * US, DEMO_S_MEMCPY, 0);
    ev.track = DEMO_T_STREAM + (uint32_t)op->stream;
    ev.u.copy.bytes = (uint64_t)(4 * (double)op->count * r->now.work);
    ev.u.copy.correlation = r->correlation;
    ev.u.copy.copy = 1; /* host to device */
    ev.u.copy.async = 1;
    give(out, r, &ev);
}

static void device(struct hm_demo_out *out, const struct hm_demo_rank *r,
                   const struct hm_demo_op *op, int64_t start_ns, int64_t dur_ns, uint32_t grid)
{
    struct hm_event ev = {.t_ns = start_ns, .dur_ns = dur_ns, .kind = HM_EV_KERNEL};
    ev.track = DEMO_T_STREAM + (uint32_t)op->stream;
    ev.u.kernel.kernel = op->kernel;
    ev.u.kernel.correlation = r->correlation;
    ev.u.kernel.grid[0] = grid;
    ev.u.kernel.grid[1] = ev.u.kernel.grid[2] = 1;
    give(out, r, &ev);
}

void hm_demo_emit_kernel(struct hm_demo_out *out, const struct hm_demo_rank *r,
                         const struct hm_demo_op *op, int64_t call_ns, int64_t start_ns,
                         int64_t dur_ns)
{
    uint32_t grid = 256;
    if (out->sim->demo->persistent || op->kernel == DEMO_K_EXPERT)
        grid = 132; /* a block a multiprocessor, whatever the work is */
    else if (op->kernel == DEMO_K_FORWARD || op->kernel == DEMO_K_BACKWARD)
        grid = (uint32_t)(256 * r->now.work);
    api(out, r, call_ns, 5 * US, DEMO_S_LAUNCH, 0);
    device(out, r, op, start_ns, dur_ns, grid);
}

/* ---- NCCL ---- */

struct piece { /* one operation of a launch */
    uint8_t func;
    int32_t peer;
    uint64_t count;
};

static double tokens(const struct hm_demo_out *out, uint32_t rank, uint32_t step)
{
    struct hm_demo_effect e;
    hm_demo_effect_at(out->sim, rank, step, &e);
    return e.expert;
}

static uint32_t pieces(const struct hm_demo_out *out, const struct hm_demo_rank *r,
                       const struct hm_demo_op *op, struct piece *p)
{
    const struct hm_demo_shape *s = &out->sim->shape;
    uint32_t n = 0, members = s->n_members[op->comm];
    if (op->kind == DEMO_OP_P2P) {
        int32_t peer = (int32_t)r->crank[op->comm] + (op->next ? 1 : -1);
        if (op->what & DEMO_SEND)
            p[n++] = (struct piece){HM_NCCL_SEND, peer, op->count};
        if (op->what & DEMO_RECV)
            p[n++] = (struct piece){HM_NCCL_RECV, peer, op->count};
        return n;
    }
    if (op->func != HM_NCCL_ALLTOALL || members > MAX_PIECES) {
        uint64_t count = r->now.mismatch && !r->mismatched ? op->count / 2 : op->count;
        p[0] = (struct piece){op->func, -1, count};
        return 1;
    }
    int uneven = 0, back = op->meet % 2; /* dispatch, then combine */
    for (uint32_t i = 0; i < out->sim->demo->n_faults; i++)
        uneven |= out->sim->demo->fault[i].kind == HM_DEMO_ROUTING;
    for (uint32_t c = 0; c < members; c++) {
        if (c == r->crank[op->comm])
            continue;
        uint64_t each = op->count / members, theirs = each, mine = each;
        if (uneven) {
            uint32_t peer = hm_demo_member(s, op->comm, r->rank, c);
            theirs = (uint64_t)((double)each * tokens(out, peer, r->step));
            mine = (uint64_t)((double)each * r->now.expert);
        }
        p[n++] = (struct piece){HM_NCCL_SEND, (int32_t)c, back ? mine : theirs};
        p[n++] = (struct piece){HM_NCCL_RECV, (int32_t)c, back ? theirs : mine};
    }
    return n;
}

void hm_demo_emit_comm(struct hm_demo_out *out, struct hm_demo_rank *r, const struct hm_demo_op *op,
                       int64_t call_ns, int64_t start_ns, int64_t dur_ns)
{
    struct piece piece[2 * MAX_PIECES];
    int open = dur_ns == HM_DUR_OPEN;
    if (op->kernel == DEMO_K_DISPATCH || op->kernel == DEMO_K_COMBINE) {
        api(out, r, call_ns + 5 * US, 5 * US, DEMO_S_LAUNCH, 0);
        if (!open)
            device(out, r, op, start_ns, dur_ns, 20);
        return;
    }
    uint32_t n = pieces(out, r, op, piece);
    r->mismatched |= r->now.mismatch && op->kind == DEMO_OP_COLL && n == 1;
    for (uint32_t i = 0; i < n; i++) {
        int p2p = piece[i].func == HM_NCCL_SEND || piece[i].func == HM_NCCL_RECV;
        uint32_t call = p2p ? HM_CALL_P2P | r->n_p2p[op->comm]++ : r->call[op->comm]++;
        struct hm_event ev = {.t_ns = call_ns + i * 100,
                              .dur_ns = 2 * US,
                              .kind = HM_EV_NCCL_CALL,
                              .track = DEMO_T_HOST,
                              .aux = HM_NCCL_AUX(piece[i].func, HM_DTYPE_FLOAT32)};
        ev.u.op = (struct hm_ev_op){.count = piece[i].count,
                                    .comm = op->comm,
                                    .call = call,
                                    .nccl_seq = HM_NO_ID,
                                    .launch = HM_NO_ID,
                                    .peer = piece[i].peer};
        give(out, r, &ev);
        ev.kind = p2p ? HM_EV_NCCL_P2P : HM_EV_NCCL_COLL;
        ev.t_ns = call_ns + 12 * US + i * 100;
        ev.dur_ns = open ? HM_DUR_OPEN : 3 * US;
        ev.u.op.launch = r->launch;
        ev.u.op.nccl_seq = p2p ? HM_NO_ID : call;
        ev.u.op.algo = p2p ? 0 : HM_NCCL_ALGO_RING;
        ev.u.op.proto = HM_NCCL_PROTO_SIMPLE;
        ev.u.op.n_channels = 8;
        ev.u.op.n_warps = 16;
        give(out, r, &ev);
    }
    struct hm_event launch = {.t_ns = call_ns + 4 * US,
                              .dur_ns = 7 * US,
                              .kind = HM_EV_NCCL_LAUNCH,
                              .track = DEMO_T_HOST};
    launch.u.launch.comm = op->comm;
    launch.u.launch.launch = r->launch;
    launch.u.launch.stream_ptr = UINT64_C(0x7f0000001000) + op->stream;
    launch.u.launch.group = r->launch;
    launch.u.launch.n_ops = n;
    give(out, r, &launch);
    api(out, r, call_ns + 5 * US, 5 * US, DEMO_S_LAUNCH_EXC, r->launch);
    if (!open)
        device(out, r, op, start_ns, dur_ns, 8);
}

/* ---- the host waits ---- */

static void sync(struct hm_demo_out *out, const struct hm_demo_rank *r, int64_t t, int64_t dur,
                 uint16_t type)
{
    struct hm_event ev = {.t_ns = t, .dur_ns = dur, .kind = HM_EV_SYNC, .track = DEMO_T_HOST};
    ev.aux = type;
    ev.u.sync.stream_track = type == 3 ? DEMO_T_STREAM + DEMO_ST_COMPUTE : HM_NO_ID;
    ev.u.sync.event = HM_NO_ID;
    ev.u.sync.correlation = r->correlation;
    give(out, r, &ev);
}

void hm_demo_emit_sync(struct hm_demo_out *out, struct hm_demo_rank *r, int64_t t_ns,
                       int64_t dur_ns)
{
    sync(out, r, t_ns, dur_ns, 3); /* CUPTI: stream synchronize */
}

void hm_demo_emit_alloc(struct hm_demo_out *out, struct hm_demo_rank *r, int64_t sync_t_ns,
                        int64_t t_ns, int64_t dur_ns)
{
    static const uint64_t BYTES = UINT64_C(2) << 30;
    for (unsigned i = 0; i < 2; i++) { /* free, which waits for the device, then allocate */
        struct hm_event ev = {
            .t_ns = t_ns + (1 + i) * (dur_ns / 2), .kind = HM_EV_MEMORY, .track = DEMO_T_HOST};
        int64_t t = i ? t_ns + dur_ns / 2 : sync_t_ns;
        r->correlation++;
        api(out, r, t, ev.t_ns - t, i ? DEMO_S_MALLOC : DEMO_S_FREE, 0);
        if (!i)
            sync(out, r, sync_t_ns, t_ns - sync_t_ns, 4); /* context synchronize */
        ev.u.memory.address = UINT64_C(0x7fa000000000);
        ev.u.memory.bytes = BYTES;
        ev.u.memory.correlation = r->correlation;
        ev.u.memory.op = i ? 1 : 2;
        ev.u.memory.memory = 3; /* CUPTI: device */
        give(out, r, &ev);
    }
}
