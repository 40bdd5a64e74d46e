/* Operations and spans under way: a slot each, by serial; ranges under way: a stack a thread.
 *
 * Box: lib/core. Any thread of the training process; the writer peeks. A slot's word is its serial,
 * or serial | BUSY while one thread works on it, or 0. Bounded: nobody waits for another thread
 * that may be descheduled.
 */
#include "core/clear.h"
#include "core/pool.h"

#include <string.h>

#define TRIES 200

static inline void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static struct hm_op_slot *take(struct hm_op_slot *slot, uint64_t serial, struct hm_event *evicted_p)
{
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
        if (old && slot->ev.kind)
            *evicted_p = slot->ev;
        hm_clear((uint8_t *)slot + sizeof(slot->serial),
                 (sizeof(*slot) - sizeof(slot->serial)) / 8);
        return slot;
    }
    return NULL;
}

static struct hm_op_slot *hold(struct hm_op_slot *slot, uint64_t serial)
{
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

static int peek(struct hm_op_slot *slot, struct hm_event *copy_p)
{
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

struct hm_op_slot *hm_op_take(struct hm_pool_view *view, uint64_t serial,
                              struct hm_event *evicted_p)
{
    return take(hm_op_at(view, serial), serial, evicted_p);
}

struct hm_op_slot *hm_op_hold(struct hm_pool_view *view, uint64_t serial)
{
    return hold(hm_op_at(view, serial), serial);
}

int hm_op_peek(const struct hm_pool_view *view, uint32_t i, struct hm_event *copy_p)
{
    return peek(&view->op[i], copy_p);
}

struct hm_op_slot *hm_span_take(struct hm_pool_view *view, uint64_t serial,
                                struct hm_event *evicted_p)
{
    return take(&view->span[serial % view->n_spans], serial, evicted_p);
}

struct hm_op_slot *hm_span_hold(struct hm_pool_view *view, uint64_t serial)
{
    return hold(&view->span[serial % view->n_spans], serial);
}

int hm_span_peek(const struct hm_pool_view *view, uint32_t i, struct hm_event *copy_p)
{
    return peek(&view->span[i], copy_p);
}

uint32_t hm_open_peek(const struct hm_thread *row, struct hm_event copy_p[HM_OPEN_ROWS])
{
    for (int i = 0; i < TRIES; i++) {
        uint32_t before = atomic_load_explicit(&row->depth, memory_order_acquire);
        uint32_t n = before & 0xff;
        if (n > HM_OPEN_ROWS)
            return 0;
        memset(copy_p, 0, HM_OPEN_ROWS * sizeof(copy_p[0]));
        for (uint32_t d = 0; d < n; d++) {
            const struct hm_open_range *open = &row->open[d];
            copy_p[d] = (struct hm_event){.t_ns = open->t_ns,
                                          .dur_ns = HM_DUR_OPEN,
                                          .kind = HM_EV_RANGE,
                                          .track = row->track};
            copy_p[d].u.range = (struct hm_ev_range){.payload = open->payload,
                                                     .name = open->name,
                                                     .domain = open->domain,
                                                     .category = open->category,
                                                     .color = open->color,
                                                     .depth = (uint16_t)d,
                                                     .payload_type = row->payload_type[d] & 0x7f};
        }
        atomic_thread_fence(memory_order_acquire);
        if (atomic_load_explicit(&row->depth, memory_order_relaxed) == before)
            return n;
        relax();
    }
    return 0;
}
