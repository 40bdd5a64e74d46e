/* Do mesh, sizes and faults fit together? Box: merge/demo. Pure. */
#include "demo/demo.h"
#include "demo/shape.h"

const char *hm_demo_dim_name(enum hm_demo_dim dim)
{
    static const char *const name[HM_DEMO_N_DIMS] = {"dp", "fsdp", "pp", "tp", "ep"};
    return dim < HM_DEMO_N_DIMS ? name[dim] : "";
}

static hm_status_t check_fault(const struct hm_demo *d, const struct hm_demo_fault *f)
{
    const char *name = hm_demo_kind_name(f->kind);
    uint32_t node = d->node_ranks ? d->node_ranks : 8, n = d->n_ranks;
    double least = 0, most = 1e6;
    switch (f->kind) {
    case HM_DEMO_SLOW_GPU:
    case HM_DEMO_MORE_WORK:
    case HM_DEMO_ROUTING:
    case HM_DEMO_SLOW_LINK:
    case HM_DEMO_ROTATE:
    case HM_DEMO_SLOW_NODE:
        least = 1;
        break;
    case HM_DEMO_LOST:
        most = 1;
        break;
    case HM_DEMO_CLOCK_OFFSET:
    case HM_DEMO_CLOCK_DRIFT:
        least = -1e9;
        most = 1e9;
        break;
    default:
        break;
    }
    if (f->kind == HM_DEMO_SLOW_NODE)
        n = (n + node - 1) / node;
    if (f->rank != HM_DEMO_EVERYBODY && f->rank >= n)
        return hm_fail(HM_E_USAGE, "demo", "%s: there is no %s %u among %u", name,
                       f->kind == HM_DEMO_SLOW_NODE ? "node" : "rank", f->rank, n);
    if (f->rank == HM_DEMO_EVERYBODY && f->kind != HM_DEMO_PAUSES && f->kind != HM_DEMO_ROTATE)
        return hm_fail(HM_E_USAGE, "demo", "%s: needs one rank", name);
    if (!(f->value >= least && f->value <= most))
        return hm_fail(HM_E_USAGE, "demo", "%s: %g is out of range, %g to %g", name, f->value,
                       least, most);
    if ((f->kind == HM_DEMO_HANG || f->kind == HM_DEMO_MISMATCH) && f->from_step >= d->n_steps)
        return hm_fail(HM_E_USAGE, "demo", "%s: there is no step %u among %u", name, f->from_step,
                       d->n_steps);
    return HM_OK;
}

hm_status_t hm_demo_check(const struct hm_demo *d)
{
    struct hm_demo_shape s;
    uint64_t n = 1;
    uint32_t worlds = d->n_worlds ? d->n_worlds : 1;
    if (d->n_ranks < 1 || d->n_ranks > 65536 || d->n_steps < 1 || d->n_steps > 1000000)
        return hm_fail(HM_E_USAGE, "demo", "1 to 65536 ranks and 1 to 1000000 steps");
    if (d->n_ranks % worlds)
        return hm_fail(HM_E_USAGE, "demo", "%u ranks do not make %u worlds of one size", d->n_ranks,
                       worlds);
    for (unsigned i = 0; i < d->n_dims; i++)
        n *= d->size[i];
    if (d->n_dims && n != d->n_ranks / worlds)
        return hm_fail(HM_E_USAGE, "demo", "the mesh has %lu ranks, not %u", (unsigned long)n,
                       d->n_ranks / worlds);
    hm_demo_shape(d, &s);
    if (s.size[HM_DEMO_PP] > 1 && d->n_micro && d->n_micro < s.size[HM_DEMO_PP])
        return hm_fail(HM_E_USAGE, "demo", "%u stages need as many microbatches",
                       s.size[HM_DEMO_PP]);
    if (d->n_layers > 16 * s.size[HM_DEMO_PP])
        return hm_fail(HM_E_USAGE, "demo", "at most 16 layers a stage");
    for (uint32_t i = 0; i < d->n_faults; i++) {
        hm_status_t status = check_fault(d, &d->fault[i]);
        if (status)
            return status;
        if (d->fault[i].kind == HM_DEMO_ROUTING && s.size[HM_DEMO_EP] < 2)
            return hm_fail(HM_E_USAGE, "demo", "routing: needs experts, --mesh ep=N");
        if (d->fault[i].kind == HM_DEMO_MISMATCH && s.n_world == s.size[HM_DEMO_PP])
            return hm_fail(HM_E_USAGE, "demo", "mismatch: this mesh has no collectives");
    }
    return HM_OK;
}
