/* Handles we give NCCL: tagged integers, never pointers.
 *
 * Box: nccl-plugin. nonce 20 bits (top one set: no user-space address has it), type 5, serial 39.
 * NCCL hands us handles of other processes (PXN), handles that are over, and pointers of its own:
 * all of them are told apart here without touching memory.
 */
#ifndef HM_NCCL_HANDLE_H
#define HM_NCCL_HANDLE_H

#include "ops.h"

enum hm_handle_class { HM_HANDLE_NULL, HM_HANDLE_OURS, HM_HANDLE_FOREIGN };

/** Nonce of this process from any random bits; called before the first pack, again is harmless. */
void hm_handle_seed(uint64_t random);
uint64_t hm_handle_pack(enum hm_nccl_type type, uint64_t serial);
/** OURS says only that this process made it; whether it still runs, the op slot knows. */
enum hm_handle_class hm_handle_unpack(uint64_t handle, enum hm_nccl_type *type_p,
                                      uint64_t *serial_p);

#endif
