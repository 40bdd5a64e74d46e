/* The way into the event model behind NCCL's profiler callbacks.
 *
 * Box: nccl-plugin. Threads: application threads (calls, launches, enqueued operations), NCCL's
 * init and group threads, proxy threads, CUDA host-callback threads; all at once.
 * An operation under way is the event being filled in, in a slot of the pool; its handle is the
 * slot's serial. No pointer of NCCL's is followed but constant strings of descriptors that NCCL
 * built in this process. Source: NVIDIA/nccl, plugin interfaces v1 to v7 as loaded by 2.23 to 2.31.
 */
#include "chain.h"
#include "model.h"

static int asleep(void)
{
    return !hm.view.pool || atomic_load_explicit(&hm.in_child, memory_order_relaxed);
}

void hm_nccl_start(uint64_t *handle_p, const struct hm_nccl_desc *d)
{
    /* the plugin behind ours finds its own handle under each of ours */
    *handle_p = hm_handle_pack(HM_NT_VOID, hm_chain_on() ? hm_slot_serial() : 0);
    if (!(*handle_p >> 63)) { /* never initialised: a caller that is not NCCL */
        hm_handle_seed((uint64_t)hm_now());
        *handle_p = hm_handle_pack(HM_NT_VOID, 0);
    }
    if (asleep())
        return;
    switch (d->type) {
    case HM_NT_GROUP:
        hm_start_group(handle_p, d);
        break;
    case HM_NT_GROUP_API:
        hm_start_group_api(handle_p, d);
        break;
    case HM_NT_COLL_API:
    case HM_NT_P2P_API:
        hm_start_call(handle_p, d);
        break;
    case HM_NT_LAUNCH:
        hm_start_launch(handle_p, d);
        break;
    case HM_NT_COLL:
    case HM_NT_P2P:
        hm_start_op(handle_p, d);
        break;
    case HM_NT_CE_COLL:
    case HM_NT_CE_SYNC:
    case HM_NT_CE_BATCH:
        hm_start_ce(handle_p, d);
        break;
    case HM_NT_PROXY_OP:
        hm_start_proxy_op(handle_p, d);
        break;
    case HM_NT_PROXY_STEP:
        hm_start_proxy_step(handle_p, d);
        break;
    case HM_NT_PROXY_CTRL:
        hm_start_proxy_ctrl(handle_p, d);
        break;
    case HM_NT_KERNEL_CH:
    case HM_NT_PHASE:
        hm_start_kernel_ch(handle_p, d);
        break;
    case HM_NT_NET:
        hm_start_net(handle_p, d);
        break;
    default: /* not asked for */
        break;
    }
}

void hm_nccl_state(uint64_t handle, int state, uint64_t value)
{
    enum hm_nccl_type type;
    uint64_t serial;
    if (asleep())
        return;
    /* a call without ncclGroupStart has neither end: nothing to look up */
    if (hm_handle_unpack(handle, &type, &serial) == HM_HANDLE_OURS && type == HM_NT_GROUP_API)
        return;
    struct hm_op_slot *slot = hm_slot_running(handle, &type);
    if (!slot)
        return;
    if (slot->ev.kind) {
        if (type == HM_NT_LONG_GROUP || (type == HM_NT_GRAPH_API && slot->ev.u.group.depth > 1))
            hm_state_group(slot, state);
        else
            hm_state_proxy(slot, type, state, value);
    }
    hm_op_put(slot, 0);
}

void hm_nccl_stop(uint64_t handle)
{
    enum hm_nccl_type type;
    uint64_t serial = 0;
    if (asleep())
        return;
    if (hm_handle_unpack(handle, &type, &serial) == HM_HANDLE_OURS) {
        if (type == HM_NT_BOUND) {
            hm_stop_group(serial);
            return;
        }
        if (type == HM_NT_GROUP_API) {
            if (!hm_stop_group_of_one(serial))
                hm_lose(HM_LOST_NCCL_STALE, 1);
            return;
        }
        int brief = type == HM_NT_COLL_API || type == HM_NT_P2P_API || type == HM_NT_LAUNCH;
        if (brief && hm_stop_here(serial))
            return;
    }
    struct hm_op_slot *slot = hm_slot_running(handle, &type);
    if (!slot)
        return;
    switch (type) {
    case HM_NT_LONG_GROUP:
    case HM_NT_GRAPH_API:
        hm_stop_group_api(slot);
        break;
    case HM_NT_COLL_API:
    case HM_NT_P2P_API:
        hm_stop_call(serial, slot);
        break;
    case HM_NT_LAUNCH:
        hm_stop_launch(slot);
        break;
    case HM_NT_COLL:
    case HM_NT_P2P:
        hm_stop_op(slot);
        break;
    case HM_NT_GROUP: { /* as BOUND, where every handle has a slot */
        uint32_t launch = slot->launch;
        hm_slot_finish(slot, 0);
        hm_stop_group(launch);
        break;
    }
    case HM_NT_PROXY_STEP:
        hm_stop_proxy_step(slot);
        break;
    default:
        hm_slot_finish(slot, slot->ev.kind ? hm_now() : 0);
        break;
    }
}
