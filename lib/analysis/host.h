/* Host: what a host thread was doing while its GPU had nothing to run.
 *
 * Box: lib/analysis, internal. Pure. One object per worker: the recent host intervals that explain
 * a gap (calls that allocate, load code or block; ranges for input, checkpoints, garbage
 * collection; launches for other devices; a profiler's own work), each with its thread. Fixed
 * memory. Source: facts on analysis 2.5 (idle, by reason), facts on CUPTI 1.1 and 2.7.
 */
#ifndef HM_ANALYSIS_HOST_H
#define HM_ANALYSIS_HOST_H

#include "analysis/intervals.h"
#include "core/event.h"
#include "core/status.h"

/* In order of priority where they overlap: what the time was for goes before by which call it went;
 * HOST is the rest. */
enum hm_host_class {
    HM_HOST_CHECKPOINT,
    HM_HOST_INPUT,
    HM_HOST_SERIAL, /* launching for other devices */
    HM_HOST_ALLOC,
    HM_HOST_MODULE,
    HM_HOST_SYNC,    /* waiting for the device */
    HM_HOST_BLOCKED, /* MPI, garbage collection */
    HM_HOST_OBSERVER,
    HM_HOST_OTHER,
    HM_HOST_N
};
/** Part of a gate chain (enum hm_chain_part) that time of a class goes into. */
extern const uint8_t hm_part_of_host[HM_HOST_N];
/** By the name of a range; HM_HOST_OTHER = explains nothing. */
enum hm_host_class hm_host_of_range(const char *name);
/** By the name of a CUDA call ("cudaMalloc", "cuMemAlloc_v2", "cudaMemcpy_v3020"). */
enum hm_host_class hm_host_of_call(const char *name);
/** By the kind of an OVERHEAD event (its aux). */
enum hm_host_class hm_host_of_overhead(uint16_t kind);

/* A name of a host interval: a run-wide string id, or one of the MPI functions. */
#define HM_HOST_NAME_MPI   UINT32_C(0x80000000)
#define HM_HOST_NAME(name) ((name) < HM_HOST_NAME_MPI ? (name) : HM_NO_ID)
/** "MPI_Barrier" of an MPI event's aux; NULL = unknown. */
const char *hm_mpi_function(uint32_t number);

struct hm_host_top { /* the named thing that took most */
    int64_t ns;
    uint32_t name; /* HM_NO_ID = none */
    uint8_t cls;
};
struct hm_host;
hm_status_t hm_host_create(struct hm_host **host_p);
/** In any order of start; dur <= 0 is ignored. track HM_NO_ID = whichever thread it was. */
void hm_host_add(struct hm_host *host, enum hm_host_class cls, uint32_t track, uint32_t name,
                 int64_t start_ns, int64_t dur_ns);
/** This thread launches for the worker: what it does counts. */
void hm_host_launcher(struct hm_host *host, uint32_t track);
/** Cuts [t0, t1) of the thread that launches next (HM_NO_ID = unknown): ns_p [HM_HOST_N] is added
 *  to and sums to t1 - t0. top_p is replaced by a larger one or added to; NULL allowed. Intervals
 *  of other threads count when they launch for the worker too; SERIAL only of the thread itself. */
void hm_host_charge(struct hm_host *host, uint32_t track, int64_t t0_ns, int64_t t1_ns,
                    int64_t ns_p[HM_HOST_N], struct hm_host_top *top_p);
/** The same cut piece by piece, in order of time. */
void hm_host_cut(struct hm_host *host, uint32_t track, int64_t t0_ns, int64_t t1_ns, hm_cut_t fn,
                 void *ctx);
/** Time of launching threads in one class inside [t0, t1), whatever else overlaps it. */
int64_t hm_host_inside(struct hm_host *host, enum hm_host_class cls, int64_t t0_ns, int64_t t1_ns);
/** End of the latest wait for the device that ended in (after, until]; INT64_MIN = none. */
int64_t hm_host_sync_end(const struct hm_host *host, int64_t after_ns, int64_t until_ns);
void hm_host_destroy(struct hm_host *host);

#endif
