/* What the adapters of all versions share. Box: nccl-plugin; see adapt.c. */
#ifndef HM_NCCL_ADAPT_H
#define HM_NCCL_ADAPT_H

#include "abi.h"
#include "chain.h"
#include "ops.h"

#define HM_EXPORT __attribute__((visibility("default")))

/** Type of an event from its bit. 0 = none that this version has. */
static inline int hm_adapt_type(uint64_t bit, unsigned version, enum hm_nccl_type *type_p)
{
    const uint64_t last = version < 3    ? HM_NCCL_BIT_PROXY_CTRL
                          : version < 5  ? HM_NCCL_BIT_NET
                          : version == 5 ? HM_NCCL_BIT_LAUNCH
                          : version == 6 ? HM_NCCL_BIT_CE_BATCH
                                         : HM_NCCL_BIT_PHASE;
    if (!bit || bit & (bit - 1) || bit > last)
        return 0;
    *type_p = (enum hm_nccl_type)__builtin_ctzll(bit);
    return 1;
}
/* Proxy operations and steps are told alike in all versions: cases of the adapters' switch. */
#define HM_ADAPT_PROXY(to, d)                           \
    case HM_NT_PROXY_OP:                                \
        (to).pid = (d)->u.proxy_op.pid;                 \
        (to).channel = (d)->u.proxy_op.channel;         \
        (to).peer = (d)->u.proxy_op.peer;               \
        (to).n_steps = (d)->u.proxy_op.n_steps;         \
        (to).chunk_bytes = (d)->u.proxy_op.chunk_bytes; \
        (to).is_send = (d)->u.proxy_op.is_send != 0;    \
        break;                                          \
    case HM_NT_PROXY_STEP:                              \
        (to).step = (d)->u.step;                        \
        break;

int hm_adapt_init(void **ctx, int *mask, const struct hm_nccl_init *init, hm_nccl_log_t log);
int hm_adapt_stop(void *handle);
int hm_adapt_fini(void *ctx);

#endif
