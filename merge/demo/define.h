/* Definitions of a demo rank. Box: merge/demo, internal. */
#ifndef HM_DEMO_DEFINE_H
#define HM_DEMO_DEFINE_H

#include "demo/sim.h"
#include "store/rankfile.h"

hm_status_t hm_demo_define(struct hm_rankfile *rf, const struct hm_demo_sim *sim, uint32_t rank);

#endif
