/* Reading rank files: one open rank, and the list of ranks of a run.
 *
 * Box: lib/store. Any thread; one thread per struct hm_rank. HDF5 calls are under one mutex.
 * The reader applies the clock map: nobody behind hm_rank_next() sees a raw clock.
 */
#ifndef HM_STORE_RANK_H
#define HM_STORE_RANK_H

#include "core/clock.h"
#include "core/defs.h"
#include "core/pool.h"
#include "store/rankfile.h"

/** A file that could not be used, or something odd about one. */
struct hm_problem {
    char file[256], what[256];
};

struct hm_rank_info {
    int32_t rank, device;
    uint32_t end, source, domain, n_comms;
    int64_t t0_ns, t1_ns;
    uint64_t lost[HM_N_LOST];
    uint32_t rows[HM_N_KINDS];
    const char *host, *path;
}; /* 416 */
struct hm_worker {
    uint32_t rank, device;
}; /* sorted; index = rank in the usual job */
struct hm_comm {
    uint64_t key;
    uint32_t n_ranks, n_seen;
    const uint32_t *worker;
}; /* key = hash and nth; worker[crank] or HM_NO_ID */
struct hm_run {
    const char *path;
    uint32_t n_ranks, n_present, n_workers, n_domains, n_comms, n_problems;
    struct hm_rank_info *rank;
    struct hm_worker *worker;
    struct hm_comm *comm;
    struct hm_defs names;
    struct hm_problem *problem;
    struct hm_rank_meta *meta;
};              /* same on every member; names grows while ranks are opened */
struct hm_rank; /* one open rank file, at most 16 MiB */
struct hm_query {
    uint64_t kinds;
    int64_t t0_ns, t1_ns;
    uint64_t max_bytes;
};
struct hm_batch {
    const struct hm_event *ev;
    uint32_t n, pad;
}; /* <= 4096, global ns, non-decreasing, ids run-wide; borrowed until the next call */

/** Opens a rank file; string, kernel and comm ids are mapped to run-wide ids of `names` (which
 *  grows). `map` [HM_N_CLOCKS]: clock of the event -> global ns. Events whose HM_EVF_CLOCK is
 *  HM_CLOCK_REAL are first brought to RAW by the file's own clock snapshots. */
hm_status_t hm_rank_open(const char *path, const struct hm_timemap map[HM_N_CLOCKS],
                         struct hm_defs *names, struct hm_rank **rank_p);
/** Chooses kinds and time range for the following hm_rank_next(). Called before the first too. */
hm_status_t hm_rank_seek(struct hm_rank *rank, const struct hm_query *query);
/** Next batch in time order: HM_OK, HM_END, or an error. */
hm_status_t hm_rank_next(struct hm_rank *rank, struct hm_batch *batch_p);
/** Borrows a definition by *run-wide* id for STRING, KERNEL, COMM; tracks and devices keep their
 *  file ids (a track belongs to a rank). NULL = none. Strings are NUL-terminated. */
const void *hm_rank_def(const struct hm_rank *rank, enum hm_def_kind kind, uint32_t id,
                        uint32_t *len_p);
/** Run-wide id of the file's own definition (STRING, KERNEL, COMM), HM_NO_ID = none. */
uint32_t hm_rank_run_id(const struct hm_rank *rank, enum hm_def_kind kind, uint32_t id);
uint32_t hm_rank_n_defs(const struct hm_rank *rank, enum hm_def_kind kind);
void hm_rank_close(struct hm_rank *rank);

/** Lists the rank files of a run folder (rank-*.h5, newest attempt), reads their heads, fills run.
 *  Waits up to wait_ms for files whose writer still holds the lock. Bad files become problems and
 *  are left out; files of another run id than the largest set likewise; HM_E_CONFLICT when two
 *  runs of equal size lie in one folder. HM_OK, HM_E_NO_RUN (no folder, no rank file), HM_E_DATA
 *  (no usable file). Worker = (rank, device). */
hm_status_t hm_run_open(const char *path, int wait_ms, struct hm_run *run_p);
void hm_run_close(struct hm_run *run);
/** Adds a line to run->problem. */
void hm_run_problem(struct hm_run *run, const char *file, const char *what);
/** String of run-wide id, "" when unknown. */
const char *hm_run_string(const struct hm_run *run, uint32_t id);

#endif
