/* Writing a rank file: whole chunks into HDF5, what is staged into an append-only tail.
 *
 * Box: lib/store. Callers: the writer process, import, demo. One thread per rank file.
 * While open: DIR/NAME.h5 and DIR/NAME.tail, NAME.lock held by flock. After close: NAME.h5 alone.
 */
#ifndef HM_STORE_RANKFILE_H
#define HM_STORE_RANKFILE_H

#include "core/defs.h"
#include "core/event.h"
#include "core/pool.h"

/** How a file ended. */
enum hm_end {
    HM_END_OPEN,
    HM_END_CLEAN,
    HM_END_DIED,
    HM_END_TERM,
    HM_END_RECOVERED,
    HM_END_NO_MPI_FINALIZE,
    HM_END_EXEC /* the process became another program */
};
/** Who wrote it. */
enum hm_source {
    HM_SOURCE_RECORDER,
    HM_SOURCE_KINETO,
    HM_SOURCE_NSYS,
    HM_SOURCE_INSPECTOR,
    HM_SOURCE_DEMO
};

/** "open", "clean", ...; "recorder", "kineto", ... */
const char *hm_end_name(uint32_t end);
const char *hm_source_name(uint32_t source);

struct hm_rank_meta {
    int32_t rank, n_ranks,
        local_rank; /* -1 unknown; rank < 0: file is .part-HOST-PID until claimed */
    int32_t pid;
    uint64_t nonce;
    int64_t start_raw_ns, start_real_ns; /* the same instant in MONOTONIC_RAW and REALTIME */
    uint32_t source;                     /* enum hm_source */
    uint32_t domain_leader;              /* 1: this rank probes clocks for its domain */
    uint32_t leader_index;               /* of its domain among the probing ones; HM_NO_ID = none */
    char host[64], boot_id[40], timens[24], run_id[128], program[256];
    char config[1024]; /* hm_config_print() */
};

struct hm_rankfile;
/** Creates DIR/rank-NNNNN.h5 (.1.h5 and so on when that name is taken) or DIR/.part-HOST-PID.h5
 *  when rank < 0; mode 0600. HM_OK, HM_E_IO, HM_E_NOMEM. */
hm_status_t hm_rankfile_create(const char *dir, const struct hm_rank_meta *meta,
                               struct hm_rankfile **rf_p);
/** Adds a definition; ids are the caller's and must come dense and ascending per kind (a hole is
 *  len 0). */
hm_status_t hm_rankfile_define(struct hm_rankfile *rf, enum hm_def_kind kind, uint32_t id,
                               const void *bytes, uint32_t len);
/** Appends events of any kinds; copied. Events of an unknown kind: HM_E_DATA, the rest is kept. */
hm_status_t hm_rankfile_append(struct hm_rankfile *rf, const struct hm_event *ev, uint32_t n);
/** Sets the loss counters, [HM_N_LOST], absolute. */
hm_status_t hm_rankfile_lost(struct hm_rankfile *rf, const uint64_t lost[]);
/** Replaces the facts (rank learnt late: the file is renamed). */
hm_status_t hm_rankfile_meta(struct hm_rankfile *rf, const struct hm_rank_meta *meta);
/** A note for /notes. */
hm_status_t hm_rankfile_note(struct hm_rankfile *rf, const struct hm_note *note);
/** After it returns, everything appended so far survives a SIGKILL of this process. */
hm_status_t hm_rankfile_flush(struct hm_rankfile *rf);
/** Drains the staged rows, writes indexes, notes, end; deletes the tail; frees rf in any case. On
 *  failure (said) what can be read is kept, what cannot is removed. */
hm_status_t hm_rankfile_close(struct hm_rankfile *rf, enum hm_end why);
/** Leaves the files as the last flush made them, for readers to use and to finish: where nothing
 * can be written any more, closing would only damage them. The process must end by _exit(), so that
 *  HDF5 does not close them after all. */
void hm_rankfile_abandon(struct hm_rankfile *rf);
/** Frees rf and removes its files (nobody claimed the rank). */
void hm_rankfile_discard(struct hm_rankfile *rf);
/** Path of the file as it is named now; borrowed. */
const char *hm_rankfile_path(const struct hm_rankfile *rf);
/** Makes an unfinished file whole (after a crash of the writer), in place. HM_OK also when it was.
 */
hm_status_t hm_rankfile_finish(const char *path);

#endif
