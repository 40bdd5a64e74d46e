/* Recent API calls by correlation id: which host call launched a device operation.
 *
 * Box: lib/analysis, internal. Pure. Fixed memory: 65,536 calls; an older one is forgotten when its
 * place is taken, so that a host that runs further ahead loses the tie, never gets a wrong one.
 */
#ifndef HM_ANALYSIS_CORR_H
#define HM_ANALYSIS_CORR_H

#include "core/event.h"

struct hm_call {
    int64_t t_ns, end_ns;
    uint64_t external;
    uint32_t correlation, track;
};
enum { HM_CORR_SLOTS = 65536 };
struct hm_corr {
    struct hm_call slot[HM_CORR_SLOTS]; /* correlation ids ascend: low bits are a good hash */
};

static inline void hm_corr_add(struct hm_corr *c, const struct hm_event *ev)
{
    if (!ev->u.api.correlation)
        return;
    int64_t end = ev->dur_ns > 0 ? ev->t_ns + ev->dur_ns : ev->t_ns;
    c->slot[ev->u.api.correlation % HM_CORR_SLOTS] =
        (struct hm_call){ev->t_ns, end, ev->u.api.external, ev->u.api.correlation, ev->track};
}
static inline const struct hm_call *hm_corr_find(const struct hm_corr *c, uint32_t correlation)
{
    const struct hm_call *call = &c->slot[correlation % HM_CORR_SLOTS];
    return correlation && call->correlation == correlation ? call : 0;
}

#endif
