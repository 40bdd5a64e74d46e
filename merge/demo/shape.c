/* The mesh. Box: merge/demo. Pure. */
#include "demo/shape.h"

#include <string.h>

void hm_demo_shape(const struct hm_demo *d, struct hm_demo_shape *s)
{
    static const uint32_t mask[HM_DEMO_N_COMMS] = {[HM_DEMO_C_DP] =
                                                       1U << HM_DEMO_DP | 1U << HM_DEMO_EP,
                                                   [HM_DEMO_C_FSDP] = 1U << HM_DEMO_FSDP,
                                                   [HM_DEMO_C_TP] = 1U << HM_DEMO_TP,
                                                   [HM_DEMO_C_EP] = 1U << HM_DEMO_EP,
                                                   [HM_DEMO_C_PP] = 1U << HM_DEMO_PP};
    memset(s, 0, sizeof(*s));
    s->n_ranks = d->n_ranks;
    s->n_world = d->n_ranks / (d->n_worlds ? d->n_worlds : 1);
    for (unsigned k = 0; k < HM_DEMO_N_DIMS; k++)
        s->size[k] = s->stride[k] = 1;
    uint32_t stride = 1;
    for (unsigned i = d->n_dims; i--;) {
        s->size[d->dim[i]] = d->size[i];
        s->stride[d->dim[i]] = stride;
        stride *= d->size[i];
    }
    if (!d->n_dims)
        s->size[HM_DEMO_DP] = s->n_world;
    for (unsigned c = 0; c < HM_DEMO_N_COMMS; c++) {
        s->mask[c] = mask[c];
        s->n_members[c] = 1;
        for (unsigned k = 0; k < HM_DEMO_N_DIMS; k++)
            if (mask[c] >> k & 1)
                s->n_members[c] *= s->size[k];
        s->n_groups[c] = s->n_ranks / s->n_members[c];
    }
}

uint32_t hm_demo_group(const struct hm_demo_shape *s, enum hm_demo_comm comm, uint32_t rank,
                       uint32_t *crank_p)
{
    uint32_t group = 0, crank = 0;
    for (unsigned k = 0; k < HM_DEMO_N_DIMS; k++) {
        uint32_t x = hm_demo_coord(s, rank, k);
        if (s->mask[comm] >> k & 1)
            crank = crank * s->size[k] + x;
        else
            group = group * s->size[k] + x;
    }
    *crank_p = crank;
    return group + rank / s->n_world * (s->n_world / s->n_members[comm]);
}

uint32_t hm_demo_member(const struct hm_demo_shape *s, enum hm_demo_comm comm, uint32_t rank,
                        uint32_t crank)
{
    for (unsigned k = HM_DEMO_N_DIMS; k--;) {
        if (!(s->mask[comm] >> k & 1))
            continue;
        uint32_t x = crank % s->size[k];
        crank /= s->size[k];
        rank += (x - hm_demo_coord(s, rank, k)) * s->stride[k]; /* modulo 2^32, ends in range */
    }
    return rank;
}
