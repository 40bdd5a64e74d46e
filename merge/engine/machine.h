/* What is beside the launches of a worker: health counters, its GPU, its links. Box: merge/engine.
 */
#ifndef HM_ENGINE_MACHINE_H
#define HM_ENGINE_MACHINE_H

#include "engine/more.h"

struct hm_machine {
    struct hm_engine *e;
    struct hm_rank *rank;
    uint32_t worker;
    struct hm_health_state health;
    struct hm_network *network;
};
static const uint64_t hm_machine_kinds =
    UINT64_C(1) << HM_EV_COUNTER | UINT64_C(1) << HM_EV_PROXY_OP | UINT64_C(1) << HM_EV_PROXY_STEP;
hm_status_t hm_machine_begin(struct hm_machine *m, struct hm_engine *e, struct hm_rank *rank,
                             uint32_t worker);
/** 1: the event was of these kinds. */
int hm_machine_event(struct hm_machine *m, const struct hm_event *ev);
/** Keeps the sums in e->more and frees what begin made; once after a good begin. */
hm_status_t hm_machine_end(struct hm_machine *m);

#endif
