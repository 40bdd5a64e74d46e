/* The application's own NCCL calls, where NCCL tells the plugin nothing of them (interfaces 1 to
 * 4).
 *
 * Box: nccl-plugin. Under the preload our ncclX come before NCCL's, which are weak aliases of
 * pncclX. From 2.28 on NCCL tells of its calls itself, and ours only pass them on.
 */
#ifndef HM_NCCL_CALLS_H
#define HM_NCCL_CALLS_H

#include "ops.h"

/* What an announced operation learns from the call it comes from. */
struct hm_call_match {
    uint64_t count;
    uint32_t launch; /* of the call, HM_NO_ID none */
    uint16_t aux;
};

/** NCCL announces an operation on this thread: the call it belongs to, with `call` as its index
 *  from now on. 0 = there is none. Thread: inside an ncclX call of the application. */
int hm_call_match(const struct hm_nccl_desc *d, uint8_t func, uint32_t comm, uint32_t def,
                  uint32_t call, struct hm_call_match *match_p);
/** Size of the communicator of the oldest unmatched call of this thread; 0 = unknown. */
int32_t hm_call_n_ranks(void);
/** From here on calls are worth recording: a communicator of an interface below 5 has begun. */
void hm_call_wanted(void);

#endif
