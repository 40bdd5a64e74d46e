/* Operations under way: slots of the pool, their serials, and what a child may learn from them.
 *
 * Box: nccl-plugin. Any thread. After its stop a slot keeps the identity (communicator, call) until
 * the serial comes round again, because children start after their parents have stopped: that is
 * the normal case. Children only look, holding nothing; who changes a slot holds it.
 */
#include "model.h"

#include <string.h>

static _Atomic uint64_t next_serial = 1;
enum { SERIAL_BLOCK = 16 };
static _Thread_local struct {
    uint64_t next, end;
} mine;

uint64_t hm_slot_serial(void)
{
    if (mine.next == mine.end) {
        mine.next = atomic_fetch_add_explicit(&next_serial, SERIAL_BLOCK, memory_order_relaxed);
        mine.end = mine.next + SERIAL_BLOCK;
    }
    return mine.next++;
}

struct hm_op_slot *hm_slot_wait(uint64_t serial)
{
    _Atomic uint64_t *word = &hm_op_at(&hm.view, serial)->serial;
    for (int i = 0; i < 100000; i++) { /* only a serial that has moved on is gone */
        struct hm_op_slot *slot = hm_op_hold(&hm.view, serial);
        if (slot)
            return slot;
        if ((atomic_load_explicit(word, memory_order_relaxed) & ~HM_OP_BUSY) != serial)
            return NULL;
    }
    return NULL;
}

void hm_slot_commit(const struct hm_event *done)
{
    struct hm_event *ev = hm_begin(done->kind);
    if (ev) {
        *ev = *done;
        hm_commit();
    }
}

struct hm_op_slot *hm_slot_take(enum hm_nccl_type type, unsigned kind, int64_t t_ns,
                                uint64_t *handle_p)
{
    struct hm_event evicted;
    uint64_t serial = hm_slot_serial();
    uint64_t last = atomic_load_explicit(&hm_op_at(&hm.view, serial)->serial, memory_order_relaxed);
    if ((last & ~HM_OP_BUSY) > serial) { /* this thread slept through a whole round of serials */
        mine.next = mine.end;
        serial = hm_slot_serial();
    }
    struct hm_op_slot *slot = hm_op_take(&hm.view, serial, &evicted);
    const char *next = (const char *)hm_op_at(&hm.view, serial + 1);
    hm_will_write(next);
    hm_will_write(next + 64);
    if (evicted.kind) { /* never stopped: aborted, or NCCL forgot */
        evicted.flags |= HM_EVF_EVICTED;
        hm_slot_commit(&evicted);
        hm_lose(HM_LOST_NCCL_EVICTED, 1);
    }
    if (!slot) {
        hm_lose(HM_LOST_NCCL_EVICTED, 1);
        return NULL;
    }
    *handle_p = hm_handle_pack(type, serial);
    slot->comm_slot = slot->launch = slot->call = HM_NO_ID;
    slot->SLOT_TYPE = (uint64_t)type;
    slot->SLOT_FLAGS = OP_OPEN;
    if (kind && hm_on(kind)) {
        slot->ev.kind = (uint8_t)kind;
        slot->ev.track = hm_track();
        slot->ev.t_ns = t_ns ? t_ns : hm_now();
        slot->ev.dur_ns = HM_DUR_OPEN;
    }
    return slot;
}

/* Copies what a child wants to know. 0 = gone. Whether somebody works on the slot does not matter:
 * all of it was written before the handle went out, and stays until the slot's next serial. */
static int look(uint64_t serial, enum hm_nccl_type type, struct identity *id_p)
{
    if (!hm.view.n_ops)
        return 0;
    const struct hm_op_slot *slot = hm_op_at(&hm.view, serial);
    if ((atomic_load_explicit(&slot->serial, memory_order_acquire) & ~HM_OP_BUSY) != serial)
        return 0;
    uint64_t found = slot->SLOT_TYPE;
    struct identity id = {.comm = slot->comm_slot,
                          .call = slot->call,
                          .launch = slot->launch,
                          .group = HM_NO_ID,
                          .proxy = HM_NO_ID,
                          .aux = slot->ev.aux,
                          .flags = slot->ev.flags};
    if (type == HM_NT_COLL_API || type == HM_NT_P2P_API) {
        id.count = slot->ev.u.op.count;
        id.user_tag = slot->ev.u.op.user_tag;
    } else if (type == HM_NT_PROXY_OP) {
        id.proxy = slot->ev.u.proxy_op.proxy;
    } else if (type == HM_NT_PROXY_STEP) {
        id.proxy = slot->ev.u.proxy_step.proxy;
    }
    atomic_thread_fence(memory_order_acquire);
    if ((atomic_load_explicit(&slot->serial, memory_order_relaxed) & ~HM_OP_BUSY) != serial ||
        found != (uint64_t)type)
        return 0;
    *id_p = id;
    return 1;
}

struct identity hm_slot_identity(uint64_t handle)
{
    struct identity id = NOBODY;
    enum hm_nccl_type type;
    uint64_t serial;
    switch (hm_handle_unpack(handle, &type, &serial)) {
    case HM_HANDLE_NULL: /* allowed: NCCL announces children without a parent */
        return id;
    case HM_HANDLE_FOREIGN:
        hm_lose(HM_LOST_NCCL_FOREIGN, 1);
        return id;
    case HM_HANDLE_OURS:
        break;
    }
    switch (type) {
    case HM_NT_VOID:
        return id;
    case HM_NT_BOUND:
        id.launch = (uint32_t)serial;
        return id;
    case HM_NT_GRAPH_API:
        id.flags = HM_EVF_GRAPH;
        id.group = (uint32_t)serial; /* all there is to know of a group */
        return id;
    case HM_NT_GROUP_API:
    case HM_NT_LONG_GROUP:
        id.group = (uint32_t)serial;
        return id;
    default:
        break;
    }
    if (type == HM_NT_CTX || !look(serial, type, &id)) {
        hm_lose(HM_LOST_NCCL_STALE, 1);
        return NOBODY;
    }
    return id;
}

struct hm_op_slot *hm_slot_running(uint64_t handle, enum hm_nccl_type *type_p)
{
    uint64_t serial;
    switch (hm_handle_unpack(handle, type_p, &serial)) {
    case HM_HANDLE_NULL:
        hm_lose(HM_LOST_NCCL_STALE, 1);
        return NULL;
    case HM_HANDLE_FOREIGN:
        hm_lose(HM_LOST_NCCL_FOREIGN, 1);
        return NULL;
    case HM_HANDLE_OURS:
        break;
    }
    if (*type_p == HM_NT_VOID || *type_p == HM_NT_BOUND)
        return NULL;
    struct hm_op_slot *slot = *type_p == HM_NT_CTX ? NULL : hm_slot_hold(serial);
    if (slot &&
        (slot->SLOT_TYPE != (uint64_t)*type_p || !(slot->SLOT_FLAGS & OP_OPEN))) { /* twice */
        hm_op_put(slot, 0);
        slot = NULL;
    }
    if (!slot)
        hm_lose(HM_LOST_NCCL_STALE, 1);
    return slot;
}

void hm_slot_finish(struct hm_op_slot *slot, int64_t t_ns)
{
    slot->SLOT_FLAGS = 0;
    if (!slot->ev.kind) { /* the gate was shut */
        hm_op_put(slot, 0);
        return;
    }
    struct hm_event *ev = hm_begin(slot->ev.kind);
    if (t_ns)
        slot->ev.dur_ns = t_ns - slot->ev.t_ns;
    if (ev) {
        *ev = slot->ev;
        hm_will_write(ev + 2);
    }
    slot->ev.kind = 0; /* over; who it was stays for its children */
    hm_op_put(slot, 0);
    if (ev)
        hm_commit();
}
