/* What the adapters of all versions share. Box: nccl-plugin; see adapt.c. */
#ifndef HM_NCCL_ADAPT_H
#define HM_NCCL_ADAPT_H

#include "ops.h"

#define HM_EXPORT __attribute__((visibility("default")))

/** Type of an event from its bit. 0 = none that this version has. */
int hm_adapt_type(uint64_t bit, unsigned version, enum hm_nccl_type *type_p);
int hm_adapt_init(void **ctx, int *mask, const struct hm_nccl_init *init);
int hm_adapt_stop(void *handle);
int hm_adapt_fini(void *ctx);

#endif
