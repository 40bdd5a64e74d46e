/* Another profiler plugin of NCCL behind ours: the one that was configured before we came.
 *
 * Box: nccl-plugin; adapters only. NCCL loads one plugin. A cluster may have set one for everybody
 * (environment, nccl.conf); it runs on, called with what NCCL told us, where it has the interface
 * in use. Its contexts and handles are kept under ours; NCCL sees ours only.
 */
#ifndef HM_NCCL_CHAIN_H
#define HM_NCCL_CHAIN_H

#include "abi.h"
#include "ops.h"

#include <stdatomic.h>

extern _Atomic int hm_chain_is_on; /* another plugin runs behind ours */
static inline int hm_chain_on(void)
{
    return atomic_load_explicit(&hm_chain_is_on, memory_order_relaxed);
}

/** A communicator begins; *mask (ours so far) becomes what both want. Finds and loads the other
 *  plugin the first time. Thread: NCCL's init threads, several at once. */
void hm_chain_init(void *ctx, int *mask, const struct hm_nccl_init *init, hm_nccl_log_t log);
/** `made` is the handle we give NCCL; descr is NCCL's own, not changed. */
void hm_chain_start(unsigned version, void *ctx, uint64_t made, const void *descr);
void hm_chain_state(void *handle, int state, void *args);
void hm_chain_stop(void *handle);
void hm_chain_fini(void *ctx);

/** Value of NCCL_PROFILER_PLUGIN in a file of NCCL's form (NAME=VALUE, # comments). 1 = found. */
int hm_chain_read_conf(const char *path, char *value_p, size_t cap);

#endif
