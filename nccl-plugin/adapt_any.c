/* The part of the adapters that is the same for every version. Box: nccl-plugin; see adapt.c. */
#include "abi.h"
#include "adapt.h"

_Static_assert(HM_NCCL_BIT_LAUNCH == 1 << HM_NT_LAUNCH && HM_NCCL_BIT_COLL == 1 << HM_NT_COLL &&
                   HM_NCCL_BIT_GROUP_API == 1 << HM_NT_GROUP_API &&
                   HM_NCCL_BIT_CE_BATCH == 1 << HM_NT_CE_BATCH &&
                   HM_NCCL_BIT_PHASE == 1 << HM_NT_PHASE,
               "the enum is in the order of the bits");

int hm_adapt_init(void **ctx, int *mask, const struct hm_nccl_init *init, hm_nccl_log_t log)
{
    int wanted = 0;
    uint64_t made = hm_nccl_init(init, &wanted);
    if (ctx)
        *ctx = (void *)(uintptr_t)made;
    if (mask)
        __atomic_store_n(mask, wanted, __ATOMIC_RELAXED);
    hm_chain_init((void *)(uintptr_t)made, mask, init, log);
    return 0;
}

int hm_adapt_stop(void *handle)
{
    hm_nccl_stop((uint64_t)(uintptr_t)handle);
    if (hm_chain_on())
        hm_chain_stop(handle);
    return 0;
}

int hm_adapt_fini(void *ctx)
{
    hm_nccl_fini((uint64_t)(uintptr_t)ctx);
    if (hm_chain_on())
        hm_chain_fini(ctx);
    return 0;
}
