/* Roles, worlds, dimensions: who may be compared with whom, and what a communicator is for.
 *
 * Box: lib/analysis. Pure. Source: facts on scenarios, rule 8; facts on analysis 2.8 and 3
 * (lesson 3: stages of a pipeline differ by design).
 */
#ifndef HM_ANALYSIS_ROLES_H
#define HM_ANALYSIS_ROLES_H

#include "core/event.h"
#include "core/status.h"

#include <stddef.h>
#include <stdint.h>

enum hm_dim {
    HM_DIM_NONE,
    HM_DIM_DP,
    HM_DIM_FSDP,
    HM_DIM_TP,
    HM_DIM_PP,
    HM_DIM_CP,
    HM_DIM_EP,
    HM_DIM_WORLD,
    HM_N_DIMS
};
/** "dp", ...; NULL for none. */
const char *hm_dim_name(enum hm_dim dim);
/** Dimension that a communicator's own name tells, HM_DIM_NONE = it tells nothing. */
enum hm_dim hm_dim_of_name(const char *name);

/** A mesh as the user gives it: "dp=2,pp=4,tp=8", the last varies fastest. */
struct hm_mesh {
    uint32_t n_dims, size[HM_N_DIMS];
    enum hm_dim dim[HM_N_DIMS];
};
/** HM_OK, or HM_E_USAGE with a sentence: no such form, a name twice, a size of 0. */
hm_status_t hm_mesh_parse(const char *text, struct hm_mesh *mesh_p);
/** Product of the sizes. */
uint64_t hm_mesh_size(const struct hm_mesh *mesh);
/** Position of a rank along a dimension, 0 where the mesh does not have it. */
uint32_t hm_mesh_at(const struct hm_mesh *mesh, uint32_t rank, enum hm_dim dim);

/** A communicator, and what it was used for. */
struct hm_comm_use {
    uint64_t key;
    const char *name;       /* of the framework, "" = none */
    const char *inferred;   /* name of the kernel by which it was found, NULL = NCCL's */
    const uint32_t *member; /* [n_members] workers by rank in it, HM_NO_ID = not in the run */
    uint32_t n_members;
    uint64_t n[HM_NCCL_N_FUNCS], bytes[HM_NCCL_N_FUNCS]; /* launches (messages) and their sizes */
    /* found */
    uint32_t world, n_present, stride; /* stride of the global ranks, 0 = irregular */
    uint8_t dim, pad[3];
    const char *dim_from; /* what told it */
};
/** Messages from one worker to another. */
struct hm_p2p_edge {
    uint32_t src, dst, comm, pad; /* comm: index */
    uint64_t n, n_paired;         /* paired: its kernel on the sender also received */
};
/** Time of one kernel name on a worker. */
struct hm_mix {
    uint32_t name, n;
    int64_t ns;
};
struct hm_role {
    char *label, *evidence; /* evidence: lines, each ended by \n */
    uint32_t world, stage, n, pad;
};
struct hm_roles {
    uint32_t n_workers, n_worlds, n_roles,
        n_stages;                   /* n_stages: of the longest pipeline, 0 = none */
    uint32_t *world, *stage, *role; /* [n_workers]; stage HM_NO_ID = no pipeline */
    struct hm_role *of;             /* [n_roles] */
};
struct hm_roles_in {
    uint32_t n_workers;
    const uint32_t *rank;    /* [n_workers] global rank */
    struct hm_comm_use *use; /* [n_comms], those used; its `found` part is filled */
    uint32_t n_comms;
    const struct hm_p2p_edge *edge; /* by comm */
    size_t n_edges;
    /** Kernels of each worker, by name, ascending; NULL or n_mix 0 = not recorded. */
    const struct hm_mix *const *mix;
    const uint32_t *n_mix;
    const struct hm_mesh *mesh; /* NULL = none */
};
/** Fills roles and the dimensions in `use`. The caller clears it. HM_OK or HM_E_NOMEM. */
hm_status_t hm_roles_find(const struct hm_roles_in *in, struct hm_roles *roles_p);
void hm_roles_clear(struct hm_roles *roles);

/* Parts of it, for their own tests. */
/** Worlds: connected components; writes world [n_workers], returns how many. */
uint32_t hm_worlds_find(const struct hm_roles_in *in, uint32_t *world_p);
/** Pipeline stages from chains of messages; sets dim of the communicators that carry only
 *  messages. stage_p [n_workers]. Returns the number of stages of the longest chain, 0 = none;
 *  UINT32_MAX = no memory. */
uint32_t hm_stages_find(const struct hm_roles_in *in, uint32_t *stage_p);
/** Dimensions of the other communicators. */
void hm_dims_find(const struct hm_roles_in *in, const uint32_t *world);

#endif
