/* Operations under way: a slot each, serial mod n.
 *
 * Box: lib/core. Any thread of the training process; the writer peeks. A slot's word is its serial,
 * or serial | BUSY while one thread works on it, or 0. Bounded: nobody waits for another thread
 * that may be descheduled.
 */
#include "core/pool.h"

#include <string.h>

#define TRIES 200

static inline void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

struct hm_op_slot *hm_op_take(struct hm_pool_view *view, uint64_t serial,
                              struct hm_event *evicted_p)
{
    struct hm_op_slot *slot = &view->op[serial % view->n_ops];
    evicted_p->kind = 0;
    uint64_t old = atomic_load_explicit(&slot->serial, memory_order_relaxed);
    for (int i = 0; i < TRIES; i++) {
        if (old & HM_OP_BUSY) {
            relax();
            old = atomic_load_explicit(&slot->serial, memory_order_relaxed);
            continue;
        }
        if (!atomic_compare_exchange_weak_explicit(&slot->serial, &old, serial | HM_OP_BUSY,
                                                   memory_order_acquire, memory_order_relaxed))
            continue;
        if (old)
            *evicted_p = slot->ev;
        memset((uint8_t *)slot + sizeof(slot->serial), 0, sizeof(*slot) - sizeof(slot->serial));
        return slot;
    }
    return NULL;
}

struct hm_op_slot *hm_op_hold(struct hm_pool_view *view, uint64_t serial)
{
    struct hm_op_slot *slot = &view->op[serial % view->n_ops];
    for (int i = 0; i < TRIES; i++) {
        uint64_t want = serial;
        if (atomic_compare_exchange_weak_explicit(&slot->serial, &want, serial | HM_OP_BUSY,
                                                  memory_order_acquire, memory_order_relaxed))
            return slot;
        if ((want & ~HM_OP_BUSY) != serial)
            return NULL;
        relax();
    }
    return NULL;
}

void hm_op_put(struct hm_op_slot *slot, int done)
{
    uint64_t serial = atomic_load_explicit(&slot->serial, memory_order_relaxed);
    atomic_store_explicit(&slot->serial, done ? 0 : serial & ~HM_OP_BUSY, memory_order_release);
}

int hm_op_peek(const struct hm_pool_view *view, uint32_t i, struct hm_event *copy_p)
{
    struct hm_op_slot *slot = &view->op[i];
    uint64_t before = atomic_load_explicit(&slot->serial, memory_order_acquire);
    if (!before || (before & HM_OP_BUSY))
        return 0;
    struct hm_event copy = slot->ev;
    atomic_thread_fence(memory_order_acquire);
    if (atomic_load_explicit(&slot->serial, memory_order_relaxed) != before || !copy.kind)
        return 0;
    *copy_p = copy;
    return 1;
}
