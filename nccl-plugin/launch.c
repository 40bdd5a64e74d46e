/* Groups, calls, launches, and the operations that follow them on the same thread.
 *
 * Box: nccl-plugin. Threads: application, NCCL's group threads, CUDA host-callback threads.
 * The clock is read where something lies between two callbacks, and nowhere else: a group begins
 * with its first call (one stamp for both); a call that is a group of its own ends where its launch
 * begins, which is when NCCL has finished planning; operations are announced right after their
 * launch and bear its end. What is put off lies in its slot meanwhile, where the writer sees it.
 * Invariant: every push to CUPTI has its pop on the same thread.
 * Source: NVIDIA/nccl, order of one group, releases 2.27 to 2.31.
 */
#include "abi.h"
#include "chain.h"
#include "model.h"

#include <string.h>

/* A launch of this thread whose operations are being, or will be, announced. */
struct waiting {
    uint32_t comm, launch, bound, n_ops;
    uint64_t serial; /* its slot while it has ended and is not written, else 0 */
    int64_t end_ns;
};
static _Thread_local struct {
    struct waiting item[MAX_WAITING];
    uint32_t n, depth;
    uint64_t group;        /* serial of the group this thread is in, 0 none */
    int64_t begin_ns;      /* its begin, 0 while groups are not recorded */
    int64_t group_ns;      /* the same while no call has taken it, else 0 */
    uint64_t open_call;    /* a call that is a group of its own, running; 0 none */
    uint64_t call;         /* the same once stopped, its event put off; 0 none */
    uint64_t open_launch;  /* serial of the running launch, 0 none */
    uint32_t pushed;       /* it is on CUPTI's stack */
    uint32_t ended_launch; /* number of the launch that began last, and its end */
    int64_t ended_ns;
} here;
static _Atomic uint32_t next_launch = 1; /* 0 = none */

uint32_t hm_launch_next(void)
{
    return atomic_fetch_add_explicit(&next_launch, 1, memory_order_relaxed);
}

/* ---- what was put off ---- */

static void call_ends(int64_t t_ns, int launched)
{
    struct hm_op_slot *slot = here.call ? hm_slot_hold(here.call) : NULL;
    here.call = 0;
    if (!slot)
        return;
    if (!launched && slot->comm_slot != HM_NO_ID)
        hm_count_up(&hm.view.comm[slot->comm_slot].n_unbound);
    hm_slot_finish(slot, t_ns);
}

static void launch_ends(struct waiting *w)
{
    struct hm_op_slot *slot = w->serial ? hm_slot_hold(w->serial) : NULL;
    w->serial = 0;
    if (!slot)
        return;
    slot->ev.u.launch.n_ops = w->n_ops;
    hm_slot_finish(slot, w->end_ns);
}

/* ---- launches and what belongs to them ---- */

static void launch_made(uint32_t comm, uint32_t launch)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < here.n; i++) { /* what this communicator has bound is over */
        if (here.item[i].comm == comm && here.item[i].bound)
            launch_ends(&here.item[i]);
        else
            here.item[n++] = here.item[i];
    }
    if (n == MAX_WAITING) { /* the oldest goes: its operations never came */
        launch_ends(&here.item[0]);
        memmove(here.item, here.item + 1, sizeof(here.item[0]) * (MAX_WAITING - 1));
        n--;
    }
    here.item[n] = (struct waiting){.comm = comm, .launch = launch};
    here.n = n + 1;
}

/* A group of enqueued operations begins: it belongs to the oldest launch not spoken for. */
static struct waiting *launch_of_group(uint32_t comm)
{
    for (uint32_t i = 0; i < here.n; i++) {
        if (here.item[i].comm == comm && !here.item[i].bound) {
            here.item[i].bound = 1;
            return &here.item[i];
        }
    }
    return NULL;
}

/* An operation without a group: with its predecessor's launch while no newer one was made. */
static struct waiting *launch_of_op(uint32_t comm)
{
    for (uint32_t i = 0; i < here.n; i++)
        if (here.item[i].comm == comm && here.item[i].bound)
            return &here.item[i];
    return launch_of_group(comm);
}

static struct waiting *launch_by_id(uint32_t launch)
{
    for (uint32_t i = 0; i < here.n; i++)
        if (here.item[i].launch == launch)
            return &here.item[i];
    return NULL;
}

/* ---- group calls ---- */

static void group_begins(uint64_t serial, int64_t t_ns, uint32_t depth)
{
    if (here.call) /* its group was never closed */
        call_ends(t_ns ? t_ns : hm_now(), 0);
    here.group = serial;
    here.group_ns = here.begin_ns = t_ns;
    here.depth = depth;
    here.open_call = here.open_launch = 0;
}

/* The group's number is the serial in its handle: children need no look at a slot. The group of one
 * call has none: it begins and ends on one thread, and what can block inside has slots. */
void hm_start_group_api(uint64_t *handle_p, const struct hm_nccl_desc *d)
{
    enum hm_nccl_type type = d->graph ? HM_NT_GRAPH_API : HM_NT_LONG_GROUP;
    uint64_t serial = 0;
    if (d->type == HM_NT_GROUP_API && !d->graph && d->depth <= 1) {
        serial = hm_slot_serial();
        *handle_p = hm_handle_pack(HM_NT_GROUP_API, serial);
        group_begins(serial, hm_on(HM_EV_NCCL_GROUP) ? hm_now() : 0, 1);
        return;
    }
    struct hm_op_slot *slot = hm_slot_take(type, HM_EV_NCCL_GROUP, 0, handle_p);
    if (!slot)
        return;
    hm_handle_unpack(*handle_p, &type, &serial);
    slot->ev.u.group.group = (uint32_t)serial;
    slot->ev.u.group.depth = d->type == HM_NT_GROUP ? -1 : d->depth;
    slot->ev.flags = d->graph ? HM_EVF_GRAPH : 0;
    int64_t t_ns = slot->ev.t_ns;
    hm_op_put(slot, 0);
    if (d->type != HM_NT_GROUP)
        group_begins(serial, t_ns, d->depth > 1 ? 2 : 1);
}

void hm_state_group(struct hm_op_slot *slot, int state)
{
    struct hm_event *ev = &slot->ev;
    if (state == HM_NCCL_STATE_START_API_STOP)
        ev->u.group.start_api_ns = hm_now() - ev->t_ns;
    else if (state == HM_NCCL_STATE_END_API_START)
        ev->u.group.end_api_ns = hm_now() - ev->t_ns;
}

static void group_ends(int64_t t_ns)
{
    if (here.call)
        call_ends(t_ns, 0);
    for (uint32_t i = 0; i < here.n; i++)
        if (here.item[i].serial)
            launch_ends(&here.item[i]);
    here.group = 0;
    here.group_ns = 0;
}

void hm_stop_group_api(struct hm_op_slot *slot)
{
    int64_t t_ns = hm_now();
    uint64_t serial = atomic_load_explicit(&slot->serial, memory_order_relaxed) & ~HM_OP_BUSY;
    hm_slot_finish(slot, t_ns);
    if (serial == here.group)
        group_ends(t_ns);
}

int hm_stop_group_of_one(uint64_t serial)
{
    if (!here.group || serial != here.group)
        return 0;
    int64_t t_ns = hm_now();
    struct hm_event *ev = here.begin_ns ? hm_begin(HM_EV_NCCL_GROUP) : NULL;
    if (ev) {
        ev->t_ns = here.begin_ns;
        ev->dur_ns = t_ns - here.begin_ns;
        ev->u.group.group = (uint32_t)serial;
        ev->u.group.depth = 1;
        hm_will_write(ev + 2);
        hm_commit();
    }
    group_ends(t_ns);
    return 1;
}

/* v5: the bracket around the operations of one launch; the handle is that launch, no slot. */
void hm_start_group(uint64_t *handle_p, const struct hm_nccl_desc *d)
{
    if (d->interface < 5) {
        hm_start_group_api(handle_p, d);
        return;
    }
    struct waiting *w = launch_of_group(hm_comm_of(d->ctx));
    if (!w)
        return;
    struct hm_op_slot *slot = hm_chain_on() ? hm_slot_take(HM_NT_GROUP, 0, 0, handle_p) : NULL;
    if (slot) {
        slot->launch = w->launch;
        hm_op_put(slot, 0);
    } else {
        *handle_p = hm_handle_pack(HM_NT_BOUND, w->launch);
    }
}

void hm_stop_group(uint64_t launch)
{
    struct waiting *w = launch_by_id((uint32_t)launch);
    if (w)
        launch_ends(w);
}

/* ---- calls ---- */

void hm_start_call(uint64_t *handle_p, const struct hm_nccl_desc *d)
{
    enum hm_nccl_type type;
    uint64_t serial = 0;
    uint32_t comm = hm_comm_of(d->ctx), call = HM_NO_ID;
    if (comm != HM_NO_ID)
        call = hm_comm_next_call(comm, d->type == HM_NT_P2P_API);
    int in_group = here.group && hm_handle_unpack(d->parent, &type, &serial) == HM_HANDLE_OURS &&
                   serial == here.group;
    if (here.call) /* two calls in a group that said it was one: the first ends here */
        call_ends(hm_now(), 0);
    struct hm_op_slot *slot =
        hm_slot_take(d->type, HM_EV_NCCL_CALL, in_group ? here.group_ns : 0, handle_p);
    here.group_ns = 0;
    if (!slot)
        return;
    if (in_group && here.depth == 1) {
        slot->SLOT_FLAGS |= OP_BRIEF;
        hm_handle_unpack(*handle_p, &type, &here.open_call);
    }
    slot->comm_slot = comm;
    slot->call = call;
    struct hm_event *ev = &slot->ev;
    ev->flags = d->graph ? HM_EVF_GRAPH : 0;
    if (ev->kind) {
        uint8_t func = hm_word_func(d->func);
        ev->aux = HM_NCCL_AUX(func, hm_word_dtype(d->dtype));
        ev->u.op = (struct hm_ev_op){.count = d->count,
                                     .user_tag = d->user_tag,
                                     .comm = hm_comm_def(comm),
                                     .call = call,
                                     .nccl_seq = HM_NO_ID,
                                     .launch = HM_NO_ID,
                                     .peer = hm_has_root(func) ? d->peer : -1};
    }
    hm_op_put(slot, 0);
}

void hm_stop_call(uint64_t serial, struct hm_op_slot *slot)
{
    if (slot->SLOT_FLAGS & OP_BRIEF && here.group) {
        slot->SLOT_FLAGS = 0;
        hm_op_put(slot, 0);
        here.call = serial;
        return;
    }
    hm_slot_finish(slot, slot->ev.kind ? hm_now() : 0);
}

/* ---- launches ---- */

void hm_start_launch(uint64_t *handle_p, const struct hm_nccl_desc *d)
{
    int64_t t_ns = hm_now();
    uint32_t comm = hm_comm_of(d->ctx);
    if (here.call)
        call_ends(t_ns, 1);
    struct identity parent = hm_slot_identity(d->parent);
    uint32_t launch = hm_launch_next();
    struct hm_op_slot *slot = hm_slot_take(d->type, HM_EV_NCCL_LAUNCH, t_ns, handle_p);
    if (!slot) /* nothing would ever pop */
        return;
    slot->comm_slot = comm;
    slot->launch = launch;
    slot->ev.flags = parent.flags & HM_EVF_GRAPH;
    slot->ev.u.launch = (struct hm_ev_launch){.stream_ptr = d->stream,
                                              .comm = hm_comm_def(comm),
                                              .launch = launch,
                                              .group = parent.group};
    launch_made(comm, launch);
    if (comm != HM_NO_ID) { /* one thread launches on a communicator at a time */
        struct hm_comm_slot *c = &hm.view.comm[comm];
        c->launch = launch;
        atomic_store_explicit(&c->last_ns, t_ns, memory_order_relaxed);
        uint32_t n = atomic_load_explicit(&c->n_launched, memory_order_relaxed);
        atomic_store_explicit(&c->n_launched, n + 1, memory_order_relaxed);
    }
    const struct hm_cupti_ops *cupti = atomic_load_explicit(&hm.cupti, memory_order_acquire);
    int push = cupti && cupti->push;
    if (push)
        slot->SLOT_FLAGS |= OP_PUSHED;
    enum hm_nccl_type type;
    hm_handle_unpack(*handle_p, &type, &here.open_launch);
    here.ended_launch = launch;
    here.ended_ns = 0;
    here.pushed = (uint32_t)push;
    hm_op_put(slot, 0);
    if (push)
        cupti->push(launch);
}

int hm_stop_here(uint64_t serial)
{
    if (!here.group)
        return 0;
    if (serial == here.open_call) {
        here.call = serial;
        here.open_call = 0;
        return 1;
    }
    struct waiting *w = serial == here.open_launch ? launch_by_id(here.ended_launch) : NULL;
    if (!w)
        return 0;
    w->serial = serial;
    w->end_ns = here.ended_ns = hm_now();
    here.open_launch = 0;
    const struct hm_cupti_ops *cupti = atomic_load_explicit(&hm.cupti, memory_order_acquire);
    if (here.pushed && cupti && cupti->pop)
        cupti->pop(w->launch);
    return 1;
}

void hm_stop_launch(struct hm_op_slot *slot)
{
    int64_t t_ns = hm_now();
    uint32_t launch = slot->launch;
    uint64_t serial = atomic_load_explicit(&slot->serial, memory_order_relaxed) & ~HM_OP_BUSY;
    int pushed = slot->SLOT_FLAGS & OP_PUSHED;
    struct waiting *w = here.group ? launch_by_id(launch) : NULL;
    if (w) { /* its operations are still to be counted */
        w->serial = serial;
        w->end_ns = t_ns;
        slot->SLOT_FLAGS = 0;
        hm_op_put(slot, 0);
    } else {
        hm_slot_finish(slot, t_ns);
    }
    here.ended_launch = launch;
    here.ended_ns = t_ns;
    here.open_launch = 0;
    const struct hm_cupti_ops *cupti = atomic_load_explicit(&hm.cupti, memory_order_acquire);
    if (pushed && cupti && cupti->pop)
        cupti->pop(launch);
}

/* ---- operations ---- */

uint32_t hm_launch_of(uint32_t comm, const struct hm_nccl_desc *d, int64_t *end_ns_p)
{
    uint32_t launch = d->group ? hm_slot_identity(d->group).launch : HM_NO_ID;
    struct waiting *w = launch == HM_NO_ID ? launch_of_op(comm) : launch_by_id(launch);
    if (w) {
        w->n_ops++;
        launch = w->launch;
    }
    *end_ns_p = launch != HM_NO_ID && launch == here.ended_launch ? here.ended_ns : 0;
    return launch;
}
