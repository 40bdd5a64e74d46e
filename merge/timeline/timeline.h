/* The timeline: events and annotations -> rows -> a sink (Chrome, Perfetto, Kineto).
 *
 * Box: merge/timeline. Rows are the only currency; a sink knows its format and nothing else.
 */
#ifndef HM_TIMELINE_H
#define HM_TIMELINE_H

#include "engine/engine.h"

#include <stdio.h>

enum hm_row_type {
    HM_ROW_SLICE,
    HM_ROW_INSTANT,
    HM_ROW_COUNTER,
    HM_ROW_FLOW_BEGIN,
    HM_ROW_FLOW_END
};
struct hm_arg {
    uint16_t key, type;
    uint32_t name;
    union {
        int64_t i;
        uint64_t u;
        double f;
    } v;
};
struct hm_row {
    int64_t t_ns, dur_ns;
    uint64_t flow;
    uint32_t lane, name;
    uint8_t type, category, n_args, color;
    uint32_t pad;
    const struct hm_arg *arg;
}; /* 48: the timeline's only currency */
struct hm_lane {
    const char *name;
    uint32_t rank, id, type, sort;
};
struct hm_sink;
struct hm_sink_ops {
    const char *suffix;
    hm_status_t (*head)(struct hm_sink *, const struct hm_run *);
    hm_status_t (*lane)(struct hm_sink *, const struct hm_lane *);
    hm_status_t (*row)(struct hm_sink *, const struct hm_row *);
    hm_status_t (*rank_end)(struct hm_sink *, uint32_t rank);
    hm_status_t (*tail)(struct hm_sink *);
};

enum hm_category {
    HM_CAT_KERNEL,
    HM_CAT_MEMCPY,
    HM_CAT_NCCL,
    HM_CAT_WAIT,
    HM_CAT_STEP,
    HM_CAT_RANGE,
    HM_CAT_MPI,
    HM_CAT_API,
    HM_N_CATS
};
/** Writes one rank's rows, in time order per lane, into the sink. */
hm_status_t hm_timeline_rank(struct hm_engine *e, uint32_t rank, struct hm_rank *r,
                             struct hm_sink *sink);
/** Chrome trace JSON; `gz` one gzip member per rank. Atomic: PATH is replaced when all is well. */
hm_status_t hm_timeline_chrome(struct hm_engine *e, const char *path, int gz);

#endif
