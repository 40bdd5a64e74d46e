/* What calls.c and calls_comm.c share. Box: nccl-plugin. */
#ifndef HM_NCCL_CALLS_INSIDE_H
#define HM_NCCL_CALLS_INSIDE_H

#include <stdint.h>

/** NCCL's own function, looked up once; NULL = there is no NCCL. */
void *hm_call_real(_Atomic(void *) *cache, const char *name);
/** Size of a communicator, this rank in it; 0, -1 = unknown. */
int32_t hm_call_size_of(const void *comm);
int32_t hm_call_rank_of(const void *comm);
/** Our index of a communicator that no plugin interface tells of, HM_NO_ID for others. */
uint32_t hm_call_comm_of(const void *comm);

#endif
