/* Who talks to whom: the mesh of ranks, and the communicators along its dimensions.
 *
 * Box: merge/demo, internal. Pure. A communicator spans the ranks that differ in the dimensions of
 * its mask only. Groups of one kind are numbered densely over the run.
 */
#ifndef HM_DEMO_SHAPE_H
#define HM_DEMO_SHAPE_H

#include "demo/demo.h"

enum hm_demo_comm {
    HM_DEMO_C_DP,   /* gradients: dp and ep together, because experts' peers hold other data */
    HM_DEMO_C_FSDP, /* parameters and gradients in shards */
    HM_DEMO_C_TP,
    HM_DEMO_C_EP,
    HM_DEMO_C_PP,
    HM_DEMO_N_COMMS
};
struct hm_demo_shape {
    uint32_t n_ranks, n_world; /* all; of one world */
    uint32_t size[HM_DEMO_N_DIMS], stride[HM_DEMO_N_DIMS];
    uint32_t mask[HM_DEMO_N_COMMS]; /* bits of dimensions */
    uint32_t n_members[HM_DEMO_N_COMMS], n_groups[HM_DEMO_N_COMMS];
};
void hm_demo_shape(const struct hm_demo *demo, struct hm_demo_shape *shape_p);
static inline uint32_t hm_demo_coord(const struct hm_demo_shape *s, uint32_t rank, unsigned dim)
{
    return rank % s->n_world / s->stride[dim] % s->size[dim];
}
/** Number of the rank's group of this kind, and its place in it. */
uint32_t hm_demo_group(const struct hm_demo_shape *s, enum hm_demo_comm comm, uint32_t rank,
                       uint32_t *crank_p);
/** Global rank of a member of the group that `rank` belongs to. */
uint32_t hm_demo_member(const struct hm_demo_shape *s, enum hm_demo_comm comm, uint32_t rank,
                        uint32_t crank);

#endif
