/* A Kineto trace as a walk: head facts and one event at a time.
 *
 * Box: merge/import, inside.
 */
#ifndef HM_IMPORT_KINETO_H
#define HM_IMPORT_KINETO_H

#include "core/status.h"

#include <stdint.h>

#define HM_KINETO_NONE INT64_MIN /* a number that the event does not have */
enum { HM_KINETO_MAX_DEVICES = 64 };

struct hm_kineto_event {
    char ph[8], cat[64], name[4096], label[256];
    int name_cut;
    /* times in ns before the base is added; ids as in the file */
    int64_t t_ns, dur_ns, pid, tid;
    int64_t correlation, device, stream, context, bytes, graph, graph_node, registers, shared;
    int64_t grid[3], block[3];
    char collective[64], dtype[32], group[128], group_ranks[8192];
    int64_t group_size, n_in, n_out, seq, src, dst;
};
struct hm_kineto_device {
    char name[128];
    int64_t id, memory_bytes, major, minor, n_sm;
};
struct hm_kineto_head {
    int64_t rank, n_ranks, base_ns; /* HM_KINETO_NONE unknown; base 0 */
    struct hm_kineto_device device[HM_KINETO_MAX_DEVICES];
    uint32_t n_devices;
    uint64_t n_bad_times; /* events whose times are no times */
    int has_events;       /* a traceEvents array, also an empty one */
};
typedef hm_status_t (*hm_kineto_visit_t)(void *ctx, const struct hm_kineto_event *ev);

/** Walks through the file; head_p is complete when it returns, not before. HM_OK, what visit
 *  returned, HM_E_DATA (said), HM_E_NOMEM. */
hm_status_t hm_kineto_walk(const char *path, struct hm_kineto_head *head_p, hm_kineto_visit_t visit,
                           void *ctx);

#endif
