/* Who am I: rank and job from the launcher's environment; and where the run folder is.
 *
 * Box: lib/core. No MPI: Open MPI, PMI, Slurm, torchrun and plain names are read from environment.
 */
#ifndef HM_WHO_H
#define HM_WHO_H

#include "core/status.h"

#include <stdint.h>

struct hm_who {
    int32_t rank, n_ranks, local_rank, n_local; /* -1 = unknown */
    char job[128];                              /* launcher job id, "" = unknown */
    char launcher[32];                          /* "openmpi", "slurm", "pmi", "torchrun", "" */
    char host[64];
};
/** Fills who_p from environment and uname; never fails, unknown = -1 or "". */
void hm_who(struct hm_who *who_p);

/** Agrees on the run folder without MPI: `base`/.job-<job> is a symlink made O_EXCL by the first
 *  process and read by the rest; makes the folder (0700). `out` non-empty is the folder itself. */
hm_status_t hm_rundir_agree(const char *base, const char *out, const struct hm_who *who,
                            char path_p[1024]);
/** Points base/latest at the run (atomic rename). */
hm_status_t hm_rundir_set_latest(const char *run);
/** The run a command means when none is named: hindmost.out/latest. */
hm_status_t hm_rundir_latest(char path_p[1024]);

#endif
