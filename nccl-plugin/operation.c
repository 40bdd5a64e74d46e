/* Operations that NCCL announces, and those that copy engines do.
 *
 * Box: nccl-plugin. Threads: application, NCCL's group threads, CUDA host-callback threads. An
 * operation has the count and type of the call it comes from, and begins with the end of its launch
 * where that was made just before on the same thread (launch.c).
 */
#include "calls.h"
#include "model.h"

void hm_start_op(uint64_t *handle_p, const struct hm_nccl_desc *d)
{
    uint32_t comm = hm_comm_of(d->ctx), launch = HM_NO_ID, call = HM_NO_ID;
    struct identity parent = NOBODY;
    int64_t lent_ns = 0;
    if (d->interface >= 5) {
        parent = hm_slot_identity(d->parent);
        call = parent.call;
        if (comm == HM_NO_ID)
            comm = parent.comm;
        launch = hm_launch_of(comm, d, &lent_ns);
    } else if (comm != HM_NO_ID) { /* no calls are told: our own count, in the plan's order */
        struct hm_call_match match;
        call = hm_comm_next_call(comm, d->type == HM_NT_P2P);
        if (d->comm_hash && !hm_comm_is_named(comm))
            hm_comm_settle(comm, d, hm_call_n_ranks());
        if (hm_call_match(d, hm_word_func(d->func), comm, hm_comm_def(comm), call, &match)) {
            parent.count = match.count;
            parent.aux = match.aux;
            launch = match.launch;
        }
    }
    unsigned kind = d->type == HM_NT_COLL ? HM_EV_NCCL_COLL : HM_EV_NCCL_P2P;
    struct hm_op_slot *slot = hm_slot_take(d->type, kind, lent_ns, handle_p);
    if (comm != HM_NO_ID)
        hm_count_up(&hm.view.comm[comm].n_coll);
    if (!slot)
        return;
    if (lent_ns)
        slot->SLOT_FLAGS |= OP_LENT;
    slot->comm_slot = comm;
    slot->call = call;
    slot->launch = launch;
    struct hm_event *ev = &slot->ev;
    ev->flags = parent.flags & HM_EVF_GRAPH;
    if (ev->kind) {
        /* NCCL counts some collectives in bytes; the call said what the caller gave */
        uint8_t func = hm_word_func(d->func);
        int told = parent.count && (uint8_t)parent.aux == func;
        ev->aux = told ? parent.aux : HM_NCCL_AUX(func, hm_word_dtype(d->dtype));
        ev->u.op =
            (struct hm_ev_op){.count = told ? parent.count : d->count,
                              .user_tag = d->user_tag ? d->user_tag : parent.user_tag,
                              .comm = hm_comm_def(comm),
                              .call = call,
                              .nccl_seq = d->have_seq ? (uint32_t)d->seq : HM_NO_ID,
                              .launch = launch,
                              .peer = d->type == HM_NT_P2P || hm_has_root(func) ? d->peer : -1,
                              .algo = hm_word_algo(d->algo),
                              .proto = hm_word_proto(d->proto),
                              .n_channels = d->n_channels,
                              .n_warps = d->n_warps};
    }
    hm_op_put(slot, 0);
}

void hm_stop_op(struct hm_op_slot *slot)
{
    uint32_t comm = slot->comm_slot;
    int64_t t_ns = 0;
    if (slot->SLOT_FLAGS & OP_LENT)
        slot->ev.dur_ns = 0;
    else if (slot->ev.kind)
        t_ns = hm_now();
    hm_slot_finish(slot, t_ns);
    if (comm == HM_NO_ID)
        return;
    hm_count_up(&hm.view.comm[comm].n_stopped);
    if (t_ns) /* else the launch has said when */
        atomic_store_explicit(&hm.view.comm[comm].last_ns, t_ns, memory_order_relaxed);
}

/* ---- collectives done by copy engines: host times of their enqueueing only ---- */

void hm_start_ce(uint64_t *handle_p, const struct hm_nccl_desc *d)
{
    int whole = d->type == HM_NT_CE_COLL;
    struct identity parent = hm_slot_identity(d->parent);
    uint32_t comm = hm_comm_of(d->ctx);
    if (comm == HM_NO_ID)
        comm = parent.comm;
    struct hm_op_slot *slot =
        hm_slot_take(d->type, whole ? HM_EV_NCCL_CE : HM_EV_NCCL_CE_PART, 0, handle_p);
    if (!slot)
        return;
    slot->comm_slot = comm;
    slot->call = parent.call;
    struct hm_event *ev = &slot->ev;
    ev->flags = parent.flags & HM_EVF_GRAPH;
    if (ev->kind && whole) {
        uint8_t func = hm_word_func(d->func);
        int told = parent.count && (uint8_t)parent.aux == func;
        ev->aux = told ? parent.aux : HM_NCCL_AUX(func, hm_word_dtype(d->dtype));
        ev->u.op = (struct hm_ev_op){.count = told ? parent.count : d->count,
                                     .user_tag = d->user_tag ? d->user_tag : parent.user_tag,
                                     .comm = hm_comm_def(comm),
                                     .call = parent.call,
                                     .nccl_seq = (uint32_t)d->seq,
                                     .launch = HM_NO_ID,
                                     .peer = hm_has_root(func) ? d->peer : -1};
    } else if (ev->kind) {
        ev->aux = d->type == HM_NT_CE_SYNC ? HM_CE_SYNC : HM_CE_BATCH;
        ev->u.ce = (struct hm_ev_ce_part){.bytes = d->bytes,
                                          .comm = hm_comm_def(comm),
                                          .call = parent.call,
                                          .n = d->n,
                                          .complete = d->complete};
    }
    hm_op_put(slot, 0);
}
