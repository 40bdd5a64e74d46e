/* Handles we give NCCL: tagged integers, never pointers.
 *
 * Box: nccl-plugin. nonce 20 bits (top one set: no user-space address has it), type 5, serial 39.
 * NCCL hands us handles of other processes (PXN), handles that are over, and pointers of its own:
 * all of them are told apart here without touching memory.
 */
#ifndef HM_NCCL_HANDLE_H
#define HM_NCCL_HANDLE_H

#include "ops.h"

#include <stdatomic.h>

enum hm_handle_class { HM_HANDLE_NULL, HM_HANDLE_OURS, HM_HANDLE_FOREIGN };

enum { HM_HANDLE_SERIAL = 39, HM_HANDLE_NONCE = 44 }; /* bits below */
extern _Atomic uint64_t hm_handle_nonce;              /* 0 = not seeded; in place, top bit set */

/** Nonce of this process from any random bits; called before the first pack, again is harmless. */
void hm_handle_seed(uint64_t random);

static inline uint64_t hm_handle_pack(enum hm_nccl_type type, uint64_t serial)
{
    uint64_t tag = atomic_load_explicit(&hm_handle_nonce, memory_order_relaxed);
    return tag | (uint64_t)type << HM_HANDLE_SERIAL |
           (serial & ((UINT64_C(1) << HM_HANDLE_SERIAL) - 1));
}

/** OURS says only that this process made it; whether it still runs, the op slot knows. */
static inline enum hm_handle_class hm_handle_unpack(uint64_t handle, enum hm_nccl_type *type_p,
                                                    uint64_t *serial_p)
{
    if (!handle)
        return HM_HANDLE_NULL;
    uint64_t tag = atomic_load_explicit(&hm_handle_nonce, memory_order_relaxed);
    if (!tag || (handle ^ tag) >> HM_HANDLE_NONCE)
        return HM_HANDLE_FOREIGN;
    *type_p = (enum hm_nccl_type)(handle >> HM_HANDLE_SERIAL & 31);
    *serial_p = handle & ((UINT64_C(1) << HM_HANDLE_SERIAL) - 1);
    return HM_HANDLE_OURS;
}

#endif
