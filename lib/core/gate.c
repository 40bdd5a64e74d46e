/* The gate: what is recorded now.
 *
 * Box: lib/core. The recorder (windows of steps, hm_stop) and the writer (hindmost ctl, budget,
 * times) each have a word in the pool; the gate is both together. No lock: each stores its word,
 * then the product, until it sees that the product belongs to both words.
 */
#include "core/clock.h"
#include "core/pool.h"

void hm_gate_apply(struct hm_pool *pool)
{
    uint64_t both;
    do {
        both = atomic_load(&pool->want) & atomic_load(&pool->allow);
        if (atomic_load(&pool->gate) != both)
            atomic_store(&pool->changed_ns, hm_now());
        atomic_store(&pool->gate, both);
    } while ((atomic_load(&pool->want) & atomic_load(&pool->allow)) != both);
}
