/* Join: the events of one process, in time order -> the arrivals of its workers, in start order.
 *
 * Box: lib/analysis. Pure. Source: facts on analysis 2.0 and 3 (lessons 4, 8, 11, 23): the unit is
 * a kernel launch; a kernel is tied to its operation by external correlation, never by its name
 * where anything better exists. Order of ties: external correlation id, API call inside the launch,
 * order. Memory: launches without a partner, and 4 MiB of recent API calls; a rank recorded without
 * launches (old plugin interfaces) is held as a whole.
 */
#ifndef HM_ANALYSIS_JOIN_H
#define HM_ANALYSIS_JOIN_H

#include "analysis/rows.h"
#include "core/defs.h"
#include "core/status.h"

struct hm_join_comm {
    uint64_t key; /* same on every member: hm_comm_key() */
    uint32_t n_ranks, device;
    int32_t crank;
};
/** Key of what is known by order alone: the i-th stream of a device that carried collectives. */
uint64_t hm_comm_key_of_order(uint32_t device, uint32_t i_stream);
/** "nccl..." also where the name is mangled. */
int hm_is_nccl_kernel(const char *name);
/** Collective function that a kernel's name tells, HM_NCCL_UNKNOWN. A SendRecv kernel without its
 *  operation counts as all-to-all: its name cannot tell, and one kernel a rank is. */
uint8_t hm_nccl_func_of_name(const char *name);
/** Bytes of one element, 0 = unknown. */
uint32_t hm_dtype_bytes(uint8_t dtype);

struct hm_join_in {
    void *ctx;
    /** Device and stream of a track; 0 = unknown track. */
    int (*track)(void *ctx, uint32_t track, uint32_t *type_p, uint32_t *device_p,
                 uint32_t *stream_p);
    /** Name of a run-wide kernel id, "" when unknown. */
    const char *(*kernel_name)(void *ctx, uint32_t kernel);
    /** A communicator by run-wide id; 0 = unknown. */
    int (*comm)(void *ctx, uint32_t comm, struct hm_join_comm *comm_p);
    uint32_t device;                               /* where nothing tells the device */
    uint64_t n_kernels, n_apis, n_launches, n_ops; /* rows in the file: chooses the rules */
    uint32_t n_comms, only_comm; /* communicators of this process; the one, when it is one */
    /** Operations carry a sequence number that all members count alike although their recordings
     * began at different moments (PyTorch's `Seq` in imported traces): the launches of a
     * communicator are numbered by it where it grows from launch to launch. */
    int by_seq;
};
struct hm_join_stats {
    uint64_t n_arrivals, n_lone_kernels, n_lone_launches;
    uint8_t source, confidence; /* weakest used */
};
struct hm_join;
hm_status_t hm_join_create(const struct hm_join_in *in, struct hm_join **join_p);
/** Next event, non-decreasing t_ns. */
hm_status_t hm_join_event(struct hm_join *join, const struct hm_event *ev);
/** No more events: what still waits is decided. */
hm_status_t hm_join_end(struct hm_join *join);
/** Takes finished arrivals in start order; v.device and v.step are filled (step = HM_NO_ID),
 *  worker is not. Returns how many; 0 = none at present. */
size_t hm_join_take(struct hm_join *join, struct hm_part *part_p, size_t cap);
/** After hm_join_end(): how many collectives of a communicator (run-wide id) were called last and
 *  never ran, and when the first of these was called. HM_NO_ID = not known: no kernels, or no
 *  launches to tie them by. */
uint32_t hm_join_open(struct hm_join *join, uint32_t comm, int64_t *since_ns_p);
/** Messages of a pair, or all-to-alls in pieces (pair 0): how many launches, of which the last
 *  n_open never ran, the first of these called at open_ns. */
struct hm_join_way {
    uint64_t key;
    uint32_t pair, n, n_open, n_ranks, device;
    int64_t open_ns;
};
/** The i-th of them, after hm_join_end(); 0 = no more, or it is not known what ran. */
int hm_join_way(const struct hm_join *join, size_t i, struct hm_join_way *way_p);
void hm_join_stats(const struct hm_join *join, struct hm_join_stats *stats_p);
void hm_join_destroy(struct hm_join *join);

#endif
