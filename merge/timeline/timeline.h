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
    uint32_t number; /* follows the name after a space ("step" 7); HM_NO_ID: nothing follows */
    const struct hm_arg *arg;
}; /* 48: the timeline's only currency */
struct hm_lane {
    const char *name;
    uint32_t rank, id, type, sort;
}; /* id: from 1, unique in the rank; announced before its first row */
/* hm_lane.type */
enum hm_lane_type { HM_LANE_STEPS, HM_LANE_COMM, HM_LANE_STREAM, HM_LANE_HOST, HM_N_LANE_TYPES };
/* hm_arg.key: hm_arg_name() gives the text; hm_arg.type says which member of v, or `name`, holds.
 */
enum hm_arg_key {
    HM_ARG_COMM,
    HM_ARG_SEQ,
    HM_ARG_FUNC,
    HM_ARG_BYTES,
    HM_ARG_N_OPS,
    HM_ARG_CORRELATION,
    HM_ARG_GRID,
    HM_ARG_STEP,
    HM_ARG_RANK,
    HM_ARG_PEER,
    HM_ARG_UNFINISHED,
    HM_ARG_VALUE,
    HM_ARG_LOST,
    HM_N_ARGS
};
enum hm_arg_type {
    HM_ARG_I64,
    HM_ARG_U64,
    HM_ARG_F64,
    HM_ARG_HEX,  /* v.u as 16 hex digits, a string */
    HM_ARG_NAME, /* the string `name` of the run */
    HM_ARG_DIM3  /* v.u = x | y << 32 | z << 48, a string "[x, y, z]" */
};
const char *hm_arg_name(enum hm_arg_key key);
/** A sink's own struct begins with this. */
struct hm_sink {
    const struct hm_sink_ops *ops;
};
struct hm_sink_ops {
    const char *suffix;
    /* every call may return an error, which ends the timeline */
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
    HM_CAT_LOST,
    HM_N_CATS
};
const char *hm_category_name(enum hm_category category);
/** Writes one rank's rows, in time order per lane (slices of steps and flows apart), into the
 *  sink. FLOW_BEGIN and FLOW_END rows carry the arrow's id and lie on the kernel's lane. */
hm_status_t hm_timeline_rank(struct hm_engine *e, uint32_t rank, struct hm_rank *r,
                             struct hm_sink *sink);
/** Chrome trace JSON; `gz` one gzip member per rank. Atomic: PATH is replaced when all is well. */
hm_status_t hm_timeline_chrome(struct hm_engine *e, const char *path, int gz);

#endif
