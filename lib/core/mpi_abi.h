/* MPI without mpi.h: handles as machine words, functions by name, one table of constants per ABI.
 *
 * Box: lib/core. Open MPI and MPICH (and relatives) are told apart at run time.
 */
#ifndef HM_MPI_ABI_H
#define HM_MPI_ABI_H

#include "core/status.h"

#include <stddef.h>
#include <stdint.h>

typedef uintptr_t hm_mpi_word_t; /* MPI_Comm, MPI_Datatype, MPI_Op, ... */

enum hm_mpi_family { HM_MPI_NONE, HM_MPI_OPENMPI, HM_MPI_MPICH };
struct hm_mpi {
    int family;
    void *library; /* handle of the loaded libmpi */
    hm_mpi_word_t comm_world, comm_self, type_byte, type_int, type_int64, op_min, op_max, op_sum;
    void *status_ignore;
    int any_tag, keyval_invalid, success, comm_type_shared;
    hm_mpi_word_t info_null, comm_null;
    /* PMPI_ forms; words instead of handles. NULL when the library lacks one. */
    int (*initialized)(int *), (*finalized)(int *);
    int (*comm_rank)(hm_mpi_word_t, int *), (*comm_size)(hm_mpi_word_t, int *);
    int (*comm_split)(hm_mpi_word_t, int, int, hm_mpi_word_t *), (*comm_free)(hm_mpi_word_t *);
    int (*barrier)(hm_mpi_word_t);
    int (*bcast)(void *, int, hm_mpi_word_t, int, hm_mpi_word_t);
    int (*allreduce)(const void *, void *, int, hm_mpi_word_t, hm_mpi_word_t, hm_mpi_word_t);
    int (*isend)(const void *, int, hm_mpi_word_t, int, int, hm_mpi_word_t, hm_mpi_word_t *);
    int (*irecv)(void *, int, hm_mpi_word_t, int, int, hm_mpi_word_t, hm_mpi_word_t *);
    int (*allgather)(const void *, int, hm_mpi_word_t, void *, int, hm_mpi_word_t, hm_mpi_word_t);
    int (*gather)(const void *, int, hm_mpi_word_t, void *, int, hm_mpi_word_t, int, hm_mpi_word_t);
    int (*gatherv)(const void *, int, hm_mpi_word_t, void *, const int *, const int *,
                   hm_mpi_word_t, int, hm_mpi_word_t);
    int (*allgatherv)(const void *, int, hm_mpi_word_t, void *, const int *, const int *,
                      hm_mpi_word_t, hm_mpi_word_t);
    int (*alltoallv)(const void *, const int *, const int *, hm_mpi_word_t, void *, const int *,
                     const int *, hm_mpi_word_t, hm_mpi_word_t);
    int (*send)(const void *, int, hm_mpi_word_t, int, int, hm_mpi_word_t);
    int (*recv)(void *, int, hm_mpi_word_t, int, int, hm_mpi_word_t, void *);
    int (*test)(hm_mpi_word_t *, int *, void *);
    int (*comm_create_keyval)(void *, void *, int *, void *);
    int (*comm_set_attr)(hm_mpi_word_t, int, void *);
    int (*init)(int *, char ***), (*init_thread)(int *, char ***, int, int *), (*finalize)(void);
    void *null_copy_fn; /* MPI_COMM_NULL_COPY_FN, may be NULL */
};
/** Finds the MPI library of this process (RTLD_DEFAULT, then any loaded libmpi); with may_load also
 *  loads one. HM_OK, HM_E_MISSING, HM_E_FOREIGN (an MPI of an unknown family). Silent. */
hm_status_t hm_mpi_open(struct hm_mpi *mpi_p, int may_load);

#endif
