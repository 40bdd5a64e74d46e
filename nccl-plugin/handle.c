/* The nonce of this process's handles. See handle.h.
 *
 * Box: nccl-plugin. Any thread.
 */
#include "handle.h"

_Atomic uint64_t hm_handle_nonce;

void hm_handle_seed(uint64_t random)
{
    uint64_t none = 0, mixed = (random ^ random >> 20 ^ random >> 40) & 0x7ffff;
    atomic_compare_exchange_strong(&hm_handle_nonce, &none, (mixed | 0x80000) << HM_HANDLE_NONCE);
}
