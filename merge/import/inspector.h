/* Records of NCCL's inspector plugin, all files of a job together.
 *
 * Box: merge/import, inside.
 */
#ifndef HM_IMPORT_INSPECTOR_H
#define HM_IMPORT_INSPECTOR_H

#include "core/status.h"

#include <stdint.h>

struct hm_insp_comm {
    char id[64], name[64];
    uint64_t key;
    int32_t n_ranks;
    uint32_t first, n; /* its instances */
};
struct hm_insp_seat { /* a rank of a communicator in a process */
    uint32_t process, comm, rank_file;
    int32_t crank;
};
struct hm_insp_process {
    char host[64];
    int64_t pid;
    int many; /* several ranks of one communicator: a process with several GPUs */
};
struct hm_insp_record {
    uint32_t seat, comm;
    uint64_t sn, bytes;
    int64_t exec_ns;
    uint8_t func, algo, proto, pad[5];
};
struct hm_insp_instance { /* of a communicator, by sequence number */
    uint32_t comm, pad;
    uint64_t sn;
    int64_t longest_ns, end_ns;
};
struct hm_insp_rank { /* one rank file */
    uint32_t process;
    int32_t crank, rank; /* crank: of a process with several, else -1 */
};
struct hm_insp {
    struct hm_insp_comm *comm;
    struct hm_insp_seat *seat;
    struct hm_insp_process *process;
    struct hm_insp_record *record; /* by seat, then sequence number, once placed */
    struct hm_insp_instance *instance;
    struct hm_insp_rank *rank;
    uint32_t n_comms, n_seats, n_processes, n_ranks_here;
    uint64_t n_records, n_instances, n_dropped, n_unused;
    uint32_t cap_comms, cap_seats, cap_processes;
    uint64_t cap_records;
    int64_t stamp_us; /* of the first dump */
    int32_t n_ranks;
};
hm_status_t hm_insp_read(const char *path, struct hm_insp *in);
/** Who is which rank; a time for every instance. */
hm_status_t hm_insp_settle(struct hm_insp *in);
hm_status_t hm_insp_write(const struct hm_insp *in, uint32_t i_rank, const char *run);
void hm_insp_clear(struct hm_insp *in);

#endif
