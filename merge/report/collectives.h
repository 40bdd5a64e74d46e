/* One launch as reports show it. Box: merge/report. Source: facts on analysis 2.1. */
#ifndef HM_REPORT_COLLECTIVES_H
#define HM_REPORT_COLLECTIVES_H

#include "report/report.h"

struct hm_collective {
    char comm[20];
    const char *func;
    int64_t seq, start_ns, n_ops, bytes, n_ranks, skew_ns, last_rank, margin_ns, core_ns, span_ns;
    uint32_t n;
    int64_t *rank, *wait_ns; /* [n] ascending global ranks */
};
hm_status_t hm_collective_fill(const struct hm_run *run, const struct hm_result *result,
                               const struct hm_launch *l, const struct hm_part *part,
                               struct hm_collective *c_p);
void hm_collective_clear(struct hm_collective *c);

#endif
