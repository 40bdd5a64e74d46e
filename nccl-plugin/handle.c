/* Packing and classifying handles. See handle.h.
 *
 * Box: nccl-plugin. Any thread, no memory touched but the nonce.
 */
#include "handle.h"

#include <stdatomic.h>

#define SERIAL_BITS 39
#define SERIAL_MASK ((UINT64_C(1) << SERIAL_BITS) - 1)
#define TYPE_BITS   5
#define TYPE_MASK   ((UINT64_C(1) << TYPE_BITS) - 1)
#define NONCE_SHIFT (SERIAL_BITS + TYPE_BITS)
_Static_assert(NONCE_SHIFT + 20 == 64, "");

static _Atomic uint64_t nonce; /* 0 = not seeded; in place, top bit set */

void hm_handle_seed(uint64_t random)
{
    uint64_t none = 0, mixed = (random ^ random >> 20 ^ random >> 40) & 0x7ffff;
    atomic_compare_exchange_strong(&nonce, &none, (mixed | 0x80000) << NONCE_SHIFT);
}

uint64_t hm_handle_pack(enum hm_nccl_type type, uint64_t serial)
{
    uint64_t tag = atomic_load_explicit(&nonce, memory_order_relaxed);
    return tag | ((uint64_t)type & TYPE_MASK) << SERIAL_BITS | (serial & SERIAL_MASK);
}

enum hm_handle_class hm_handle_unpack(uint64_t handle, enum hm_nccl_type *type_p,
                                      uint64_t *serial_p)
{
    if (!handle)
        return HM_HANDLE_NULL;
    uint64_t tag = atomic_load_explicit(&nonce, memory_order_relaxed);
    if (!tag || (handle ^ tag) >> NONCE_SHIFT)
        return HM_HANDLE_FOREIGN;
    *type_p = (enum hm_nccl_type)(handle >> SERIAL_BITS & TYPE_MASK);
    *serial_p = handle & SERIAL_MASK;
    return HM_HANDLE_OURS;
}
