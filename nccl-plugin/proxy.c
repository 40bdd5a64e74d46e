/* What NCCL's own threads tell: network work, its steps, kernel channels, the network plugin.
 *
 * Box: nccl-plugin. Threads: NCCL's proxy and profiler threads, a network plugin's own.
 * Nothing said here is believed without a look-up: with PXN the context and the parent are
 * pointers of another process.
 */
#include "abi.h"
#include "model.h"

static _Atomic uint32_t next_proxy = 1; /* 0 = none */

void hm_start_proxy_op(uint64_t *handle_p, const struct hm_nccl_desc *d)
{
    uint32_t comm = HM_NO_ID;
    struct identity parent = NOBODY;
    if (d->pid && d->pid != hm.view.pool->pid) { /* another rank's, forwarded through our proxy:
                                                    parent and context are words of that process */
        hm_lose(HM_LOST_NCCL_FOREIGN, 1);
    } else {
        comm = hm_comm_of(d->ctx);
        parent = hm_slot_identity(d->parent);
        if (comm == HM_NO_ID)
            comm = parent.comm;
    }
    struct hm_op_slot *slot = hm_slot_take(d->type, HM_EV_PROXY_OP, 0, handle_p);
    if (!slot)
        return;
    slot->comm_slot = comm;
    slot->call = parent.call;
    slot->launch = parent.launch;
    slot->ev.aux = d->is_send;
    slot->ev.flags = parent.flags & HM_EVF_GRAPH;
    slot->ev.u.proxy_op = (struct hm_ev_proxy_op){
        .comm = hm_comm_def(comm),
        .call = parent.call,
        .proxy = atomic_fetch_add_explicit(&next_proxy, 1, memory_order_relaxed),
        .peer = d->peer,
        .n_steps = d->n_steps,
        .chunk_bytes = d->chunk_bytes,
        .origin_pid = d->pid,
        .channel = d->channel,
        .is_send = d->is_send};
    hm_op_put(slot, 0);
}

void hm_start_proxy_step(uint64_t *handle_p, const struct hm_nccl_desc *d)
{
    if (!hm_on(HM_EV_PROXY_STEP))
        return;
    struct identity parent = hm_slot_identity(d->parent);
    struct hm_op_slot *slot = hm_slot_take(d->type, HM_EV_PROXY_STEP, 0, handle_p);
    if (!slot)
        return;
    slot->ev.u.proxy_step.proxy = parent.proxy;
    slot->ev.u.proxy_step.step = d->step;
    slot->SLOT_PARENT = (int64_t)d->parent; /* bytes are added up there */
    hm_op_put(slot, 0);
}

void hm_start_proxy_ctrl(uint64_t *handle_p, const struct hm_nccl_desc *d)
{
    if (!hm_on(HM_EV_PROXY_CTRL))
        return;
    struct hm_op_slot *slot = hm_slot_take(d->type, HM_EV_PROXY_CTRL, 0, handle_p);
    if (!slot)
        return;
    /* a child communicator may use its parent's thread, also after the parent's end */
    slot->ev.u.proxy_ctrl.comm = hm_comm_def(hm_comm_of(d->ctx));
    hm_op_put(slot, 0);
}

void hm_start_kernel_ch(uint64_t *handle_p, const struct hm_nccl_desc *d)
{
    struct identity parent = hm_slot_identity(d->parent);
    uint32_t comm = parent.comm != HM_NO_ID ? parent.comm : hm_comm_of(d->ctx);
    struct hm_op_slot *slot = hm_slot_take(d->type, HM_EV_KERNEL_CH, 0, handle_p);
    if (!slot)
        return;
    slot->comm_slot = comm;
    slot->call = parent.call;
    slot->launch = parent.launch;
    slot->ev.flags = parent.flags & HM_EVF_GRAPH;
    slot->ev.aux = d->type == HM_NT_PHASE;
    slot->ev.u.kernel_ch = (struct hm_ev_kernel_ch){.gpu_start = d->gpu_ns,
                                                    .comm = hm_comm_def(comm),
                                                    .call = parent.call,
                                                    .channel = d->channel,
                                                    .phase = d->phase};
    hm_op_put(slot, 0);
}

void hm_start_net(uint64_t *handle_p, const struct hm_nccl_desc *d)
{
    if (!hm_on(HM_EV_NET))
        return;
    struct identity parent = hm_slot_identity(d->parent);
    struct hm_op_slot *slot = hm_slot_take(d->type, HM_EV_NET, 0, handle_p);
    if (!slot)
        return;
    slot->ev.u.net = (struct hm_ev_net){.id = d->net_id, .proxy = parent.proxy, .step = -1};
    hm_op_put(slot, 0);
}

static void mark_step(struct hm_event *ev, int state, uint64_t bytes)
{
    static const int8_t phase_of[] = {
        [HM_NCCL_STATE_SEND_GPU_WAIT] = 1,   [HM_NCCL_STATE_SEND_PEER_WAIT] = 2,
        [HM_NCCL_STATE_SEND_WAIT] = 3,       [HM_NCCL_STATE_RECV_WAIT] = 1,
        [HM_NCCL_STATE_RECV_FLUSH_WAIT] = 2, [HM_NCCL_STATE_RECV_GPU_WAIT] = 3};
    if (state < 0 || (size_t)state >= sizeof(phase_of) || !phase_of[state])
        return;
    ev->aux = state >= HM_NCCL_STATE_RECV_WAIT && state <= HM_NCCL_STATE_RECV_GPU_WAIT ? 0 : 1;
    int64_t *phase = &ev->u.proxy_step.phase_ns[phase_of[state] - 1];
    if (!*phase) /* waiting for the peer may be told again and again: when it began counts */
        *phase = hm_now() - ev->t_ns;
    if (bytes)
        ev->u.proxy_step.bytes = bytes;
}

void hm_state_proxy(struct hm_op_slot *slot, enum hm_nccl_type type, int state, uint64_t value)
{
    struct hm_event *ev = &slot->ev;
    switch (type) {
    case HM_NT_PROXY_STEP:
        mark_step(ev, state, value);
        break;
    case HM_NT_PROXY_OP: /* releases up to 2.26 tell the bytes here, summed up */
        if (state >= HM_NCCL_STATE_SEND_POSTED && state <= HM_NCCL_STATE_RECV_DONE &&
            value > ev->u.proxy_op.bytes)
            ev->u.proxy_op.bytes = value;
        break;
    case HM_NT_PROXY_CTRL: /* "wake up" ends a sleep, "append end" an append: the first counts */
        if (!ev->aux)
            ev->aux = (uint16_t)state;
        if (state == HM_NCCL_STATE_CTRL_APPEND_END)
            ev->u.proxy_ctrl.appended = (uint32_t)value;
        break;
    case HM_NT_KERNEL_CH:
        if (state == HM_NCCL_STATE_KERNEL_CH_STOP)
            ev->u.kernel_ch.gpu_stop = value;
        break;
    case HM_NT_PHASE:
        if (state == HM_NCCL_STATE_PHASE_STOP)
            ev->u.kernel_ch.gpu_stop = value;
        break;
    default:
        break;
    }
}

/* A step's bytes go to its operation as well, while that is under way. */
static void add_bytes(uint64_t parent, uint64_t bytes)
{
    enum hm_nccl_type type;
    uint64_t serial;
    if (!bytes || hm_handle_unpack(parent, &type, &serial) != HM_HANDLE_OURS ||
        type != HM_NT_PROXY_OP)
        return;
    struct hm_op_slot *slot = hm_slot_hold(serial);
    if (!slot)
        return;
    if (slot->SLOT_TYPE == HM_NT_PROXY_OP)
        slot->ev.u.proxy_op.bytes += bytes;
    hm_op_put(slot, 0);
}

void hm_stop_proxy_step(struct hm_op_slot *slot)
{
    uint64_t parent = (uint64_t)slot->SLOT_PARENT, bytes = slot->ev.u.proxy_step.bytes;
    hm_slot_finish(slot, slot->ev.kind ? hm_now() : 0);
    add_bytes(parent, bytes);
}
