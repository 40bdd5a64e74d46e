/* Members of the definitions.
 *
 * Box: lib/store. Constant.
 */
#include "store/defcols.h"

#include <stddef.h>

#define M(s, name, member, type)                        \
    {                                                   \
        name, offsetof(struct s, member), HM_COL_##type \
    }
static const struct hm_def_member track[] = {
    M(hm_def_track, "type", type, U32),        M(hm_def_track, "name", name, U32),
    M(hm_def_track, "device", device, U32),    M(hm_def_track, "context", context, U32),
    M(hm_def_track, "stream", stream, U32),    M(hm_def_track, "tid", tid, U32),
    M(hm_def_track, "priority", priority, U32)};
static const struct hm_def_member kernel[] = {
    M(hm_def_kernel, "name", name, U32),
    M(hm_def_kernel, "block_x", block[0], U16),
    M(hm_def_kernel, "block_y", block[1], U16),
    M(hm_def_kernel, "block_z", block[2], U16),
    M(hm_def_kernel, "registers", registers, U16),
    M(hm_def_kernel, "shared_static", shared_static, U32),
    M(hm_def_kernel, "shared_dynamic", shared_dynamic, U32),
    M(hm_def_kernel, "cluster_x", cluster[0], U8),
    M(hm_def_kernel, "cluster_y", cluster[1], U8),
    M(hm_def_kernel, "cluster_z", cluster[2], U8),
    M(hm_def_kernel, "launch_type", launch_type, U8)};
static const struct hm_def_member comm[] = {M(hm_def_comm, "hash", hash, U64),
                                            M(hm_def_comm, "parent", parent, U64),
                                            M(hm_def_comm, "nth", nth, U32),
                                            M(hm_def_comm, "crank", crank, I32),
                                            M(hm_def_comm, "n_ranks", n_ranks, I32),
                                            M(hm_def_comm, "n_nodes", n_nodes, I32),
                                            M(hm_def_comm, "device", device, I32),
                                            M(hm_def_comm, "name", name, U32),
                                            M(hm_def_comm, "interface", interface, U32),
                                            M(hm_def_comm, "nccl_version", nccl_version, U32)};
static const struct hm_def_member device[] = {M(hm_def_device, "uuid_0", uuid[0], U64),
                                              M(hm_def_device, "uuid_1", uuid[8], U64),
                                              M(hm_def_device, "memory_bytes", memory_bytes, U64),
                                              M(hm_def_device, "device", device, U32),
                                              M(hm_def_device, "name", name, U32),
                                              M(hm_def_device, "pci_domain", pci_domain, U32),
                                              M(hm_def_device, "pci_bus", pci_bus, U16),
                                              M(hm_def_device, "pci_slot", pci_slot, U16),
                                              M(hm_def_device, "n_sm", n_sm, U32),
                                              M(hm_def_device, "cc", cc, U32),
                                              M(hm_def_device, "clock_khz", clock_khz, U32)};
static const struct hm_def_member mpi_comm[] = {M(hm_def_mpi_comm, "member_hash", member_hash, U64),
                                                M(hm_def_mpi_comm, "crank", crank, I32),
                                                M(hm_def_mpi_comm, "n_ranks", n_ranks, I32)};
#define T(path, s, m)                                     \
    {                                                     \
        path, sizeof(struct s), m, sizeof(m) / sizeof(*m) \
    }
const struct hm_def_table hm_def_tables[HM_N_DEFS] = {
    [HM_DEF_STRING] = {"/def/string", 0, NULL, 0},
    [HM_DEF_TRACK] = T("/def/track", hm_def_track, track),
    [HM_DEF_KERNEL] = T("/def/kernel", hm_def_kernel, kernel),
    [HM_DEF_COMM] = T("/def/comm", hm_def_comm, comm),
    [HM_DEF_DEVICE] = T("/def/device", hm_def_device, device),
    [HM_DEF_MPI_COMM] = T("/def/mpi_comm", hm_def_mpi_comm, mpi_comm)};
