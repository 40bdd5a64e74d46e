/* What faults do. Box: merge/demo. Pure.
 *
 * A repaired fault is one that never was, but for work that somebody must do: more work, routing
 * and rotation are repaired by giving every rank of the same stage (or of the experts) the mean;
 * where a stage is one rank, all stages.
 */
#include "demo/random.h"
#include "demo/sim.h"

const char *hm_demo_kind_name(enum hm_demo_kind kind)
{
    static const char *const name[HM_DEMO_N_KINDS] = {
        "slow_gpu",    "slow_input", "late_launch", "more_work",  "pauses",  "routing",
        "slow_link",   "slow_node",  "allocator",   "checkpoint", "rotate",  "clock_offset",
        "clock_drift", "lost",       "missing",     "hang",       "mismatch"};
    return kind < HM_DEMO_N_KINDS ? name[kind] : "";
}

static int64_t ms(double v)
{
    return (int64_t)(v * 1e6);
}

void hm_demo_effect_at(const struct hm_demo_sim *sim, uint32_t rank, uint32_t step,
                       struct hm_demo_effect *e)
{
    const struct hm_demo *d = sim->demo;
    uint32_t stage = hm_demo_coord(&sim->shape, rank, HM_DEMO_PP);
    uint32_t n_ops = sim->program[stage].n;
    *e = (struct hm_demo_effect){.gpu = 1, .work = 1, .expert = 1};
    e->pause_pc = e->alloc_pc = UINT32_MAX;
    for (uint32_t i = 0; i < d->n_faults; i++) {
        const struct hm_demo_fault *f = &d->fault[i];
        int repaired = (int)(sim->repaired >> i & 1), mine = f->rank == rank;
        double v = f->value;
        uint64_t h = hm_demo_hash(d->seed ^ 0xfa17, rank, step, i);
        if (step < f->from_step)
            continue;
        if (f->kind == HM_DEMO_ROUTING) {
            uint32_t a, b, n = sim->shape.n_members[HM_DEMO_C_EP];
            if (hm_demo_group(&sim->shape, HM_DEMO_C_EP, rank, &a) ==
                hm_demo_group(&sim->shape, HM_DEMO_C_EP, f->rank, &b))
                e->expert *= repaired ? (v + n - 1) / n : mine ? v : 1;
            continue;
        }
        if (f->kind == HM_DEMO_ROTATE) {
            int turn = rank == step % d->n_ranks;
            e->work *= repaired ? (v + d->n_ranks - 1) / d->n_ranks : turn ? v : 1;
            continue;
        }
        if (f->kind == HM_DEMO_MORE_WORK) {
            uint32_t n = sim->shape.n_world / sim->shape.size[HM_DEMO_PP];
            int lone = n == 1; /* a stage of its own: the others take their share */
            n = lone ? sim->shape.n_world : n;
            if (rank / sim->shape.n_world == f->rank / sim->shape.n_world &&
                (lone || stage == hm_demo_coord(&sim->shape, f->rank, HM_DEMO_PP)))
                e->work *= repaired ? (v + n - 1) / n : mine ? v : 1;
            continue;
        }
        if (f->kind == HM_DEMO_SLOW_NODE)
            mine = rank / (d->node_ranks ? d->node_ranks : 8) == f->rank;
        if (repaired || !(mine || f->rank == HM_DEMO_EVERYBODY))
            continue;
        switch (f->kind) {
        case HM_DEMO_SLOW_GPU:
        case HM_DEMO_SLOW_NODE:
            e->gpu *= v;
            break;
        case HM_DEMO_SLOW_INPUT:
            e->input_ns += ms(v);
            break;
        case HM_DEMO_LATE_LAUNCH:
            e->late_ns += ms(v);
            break;
        case HM_DEMO_PAUSES:
            if (hm_demo_uniform(h) < 0.2) {
                e->pause_ns = ms(v);
                e->pause_pc = 1 + (uint32_t)(hm_demo_mix(h) % (n_ops - 2));
            }
            break;
        case HM_DEMO_ALLOCATOR:
            if (hm_demo_uniform(h) < 0.3) {
                e->alloc_ns = ms(v);
                e->alloc_pc = n_ops / 2;
            }
            break;
        case HM_DEMO_CHECKPOINT:
            if (step && step % 10 == 0)
                e->checkpoint_ns = ms(v);
            break;
        case HM_DEMO_LOST:
            e->lost |= hm_demo_uniform(h) < v;
            break;
        case HM_DEMO_HANG:
            e->dies = 1;
            break;
        case HM_DEMO_MISMATCH:
            e->mismatch |= step == f->from_step;
            break;
        default:
            break;
        }
    }
}

double hm_demo_link_factor(const struct hm_demo_sim *sim, const struct hm_demo_rank *r,
                           const struct hm_demo_op *op, uint32_t step)
{
    const struct hm_demo *d = sim->demo;
    double factor = 1;
    if (op->comm == HM_DEMO_C_TP && sim->shape.n_members[HM_DEMO_C_TP] < sim->shape.n_world)
        return 1; /* inside a node */
    for (uint32_t i = 0; i < d->n_faults; i++) {
        const struct hm_demo_fault *f = &d->fault[i];
        uint32_t a;
        if (f->kind != HM_DEMO_SLOW_LINK || sim->repaired >> i & 1 || step < f->from_step)
            continue;
        int in = hm_demo_group(&sim->shape, op->comm, f->rank, &a) == r->group[op->comm];
        if (in && op->kind == DEMO_OP_P2P) /* the pair: this stage and the one beside it */
            in = a == r->crank[op->comm] || a == r->crank[op->comm] + (op->next ? 1 : -1U);
        if (in && f->value > factor)
            factor = f->value;
    }
    return factor;
}
