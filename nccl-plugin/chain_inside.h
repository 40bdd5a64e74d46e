/* What chain.c and chain_find.c share. Box: nccl-plugin. */
#ifndef HM_NCCL_CHAIN_INSIDE_H
#define HM_NCCL_CHAIN_INSIDE_H

#include "chain.h"

/** Name of the plugin to run behind ours. 0 = none is configured, or chaining is off. */
int hm_chain_find(char name_p[1024]);

#endif
