/* The steps by which a chunk changes hands: FREE -CAS-> OWNED -> FULL -> FREE.
 *
 * Box: lib/core (pool.c and its tests). Each function is what one side does between two points at
 * which the other may act; the test walks all orders of them. Producer: own, sign, (event, commit:
 * pool.h), hand over. Writer: look, consume, free. Invariants: n and tid are 0 in a FREE chunk, as
 * the writer sets them before it frees; the writer looks at the state before it looks at n, so a
 * chunk seen FULL has its last n.
 */
#ifndef HM_CHUNK_H
#define HM_CHUNK_H

#include "core/pool.h"

/** Producer: takes a free chunk. 1 = mine. */
static inline int hm_chunk_own(struct hm_chunk *chunk)
{
    uint32_t state = HM_CHUNK_FREE;
    if (atomic_load_explicit(&chunk->state, memory_order_relaxed) != HM_CHUNK_FREE)
        return 0;
    return atomic_compare_exchange_strong_explicit(&chunk->state, &state, HM_CHUNK_OWNED,
                                                   memory_order_acquire, memory_order_relaxed);
}

/** Producer: says whose it is. */
static inline void hm_chunk_sign(struct hm_chunk *chunk, uint32_t thread, uint32_t tid,
                                 uint64_t serial)
{
    chunk->thread = thread;
    chunk->serial = serial;
    atomic_store_explicit(&chunk->tid, tid, memory_order_release);
}

/** Producer: no more events follow. */
static inline void hm_chunk_hand_over(struct hm_chunk *chunk)
{
    atomic_store_explicit(&chunk->state, HM_CHUNK_FULL, memory_order_release);
}

/** Writer: FREE, OWNED or FULL. */
static inline uint32_t hm_chunk_state(struct hm_chunk *chunk)
{
    return atomic_load_explicit(&chunk->state, memory_order_acquire);
}

/** Writer: thread that owns it, 0 = has not said so yet. Asked after the state; whether that thread
 *  is dead is asked before n is read. */
static inline uint32_t hm_chunk_owner(struct hm_chunk *chunk)
{
    return atomic_load_explicit(&chunk->tid, memory_order_acquire);
}

/** Writer: how many events are committed. */
static inline uint32_t hm_chunk_count(struct hm_chunk *chunk)
{
    uint32_t n = atomic_load_explicit(&chunk->n, memory_order_acquire);
    return n < HM_CHUNK_EVENTS ? n : HM_CHUNK_EVENTS;
}

/** Writer: gives a FULL chunk back. */
static inline void hm_chunk_free(struct hm_chunk *chunk)
{
    atomic_store_explicit(&chunk->tid, 0, memory_order_relaxed);
    atomic_store_explicit(&chunk->n, 0, memory_order_relaxed);
    atomic_store_explicit(&chunk->state, HM_CHUNK_FREE, memory_order_release);
}

#endif
