/* What mpi.c, mpi_calls.c and probe_mpi.c share. Box: lib/record. The thread in MPI_Init or
 * MPI_Finalize. */
#ifndef HM_RECORD_MPI_H
#define HM_RECORD_MPI_H

#include "core/mpi_abi.h"
#include "record/record.h"

/* The job as all ranks with the library agreed on it. */
struct hm_job {
    struct hm_mpi mpi;
    hm_mpi_word_t comm; /* of our own, so that no message of ours meets one of the application */
    int rank, n_ranks;
    uint64_t nonce; /* the same on all ranks */
    int *leader;    /* [n_leaders] global rank of each clock domain's leader */
    uint32_t n_leaders, leader_index, n_local, local_rank;
    int is_leader;
    uint32_t window; /* of the next clock window */
};

/* What the wrappers must know: calls of ours or of the library itself are under way on this thread;
 * the job; all ranks agreed, so that the closing calls are collective too. */
extern _Thread_local int hm_mpi_depth;
extern struct hm_job hm_mpi_job;
extern int hm_mpi_joined;
enum { HM_MPI_ERR_OTHER = 16 };
/** The function behind us; NULL = there is no MPI here and somebody called us by mistake. */
void *hm_mpi_real(_Atomic(void *) *cache, const char *name);

/** Finds the clock domains and their leaders: collective over job->comm. */
hm_status_t hm_probe_domains(struct hm_job *job);
/** One clock window between neighbouring leaders: PROBE and WINDOW events in the file of the leader
 *  that asks. Collective over the leaders. */
void hm_probe_mpi(struct hm_job *job);

#endif
