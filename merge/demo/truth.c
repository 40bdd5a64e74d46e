/* What is true of a demo: the same schedule simulated again without its faults.
 *
 * Box: merge/demo. Pure. This is forward simulation of events; nothing of lib/analysis is used.
 */
#include "demo/sim.h"

#include <string.h>

static hm_status_t total_of(const struct hm_demo *d, uint32_t repaired, int quiet, int64_t *ns_p)
{
    struct hm_demo_sim sim;
    hm_status_t s = hm_demo_sim_run(d, repaired, quiet, &sim);
    if (s)
        return s;
    *ns_p = hm_demo_sim_total(&sim);
    hm_demo_sim_fini(&sim);
    return HM_OK;
}

static int costs_time(enum hm_demo_kind kind)
{
    return kind < HM_DEMO_CLOCK_OFFSET;
}

/* Repairs a set of faults; it becomes the subject if that gains over twice what the best of them
 * does alone, and more than any subject before. */
static hm_status_t try_set(const struct hm_demo *d, uint32_t set, struct hm_demo_truth *t)
{
    int64_t ns, single = 0;
    uint32_t n = 0, first = UINT32_MAX;
    for (uint32_t k = 0; k < d->n_faults; k++)
        if (set >> k & 1) {
            n++;
            first = first == UINT32_MAX ? k : first;
            single = t->gain_ns[k] > single ? t->gain_ns[k] : single;
        }
    if (n < 2)
        return HM_OK;
    hm_status_t s = total_of(d, set, 0, &ns);
    int64_t gain = t->total_ns - ns;
    if (s || gain <= 2 * single || gain <= t->subject_gain_ns)
        return s;
    t->subject_gain_ns = gain;
    t->i_main = first;
    t->n_subject = n;
    for (uint32_t k = 0; k < d->n_faults; k++)
        t->in_subject[k] = set >> k & 1;
    return HM_OK;
}

/* Faults of one kind, then all together. */
static hm_status_t subject(const struct hm_demo *d, struct hm_demo_truth *t)
{
    uint32_t all = 0;
    hm_status_t s = HM_OK;
    for (uint32_t i = 0; i < d->n_faults && !s; i++) {
        uint32_t same = 0;
        for (uint32_t k = 0; k < d->n_faults; k++)
            if (costs_time(d->fault[k].kind) && d->fault[k].kind == d->fault[i].kind)
                same |= 1U << k;
        all |= same;
        if (!(same & ((1U << i) - 1))) /* each kind once */
            s = try_set(d, same, t);
    }
    return s ? s : try_set(d, all, t);
}

hm_status_t hm_demo_truth(const struct hm_demo *d, struct hm_demo_truth *truth_p)
{
    struct hm_demo_truth t;
    memset(&t, 0, sizeof(t));
    hm_status_t s = total_of(d, 0, 0, &t.total_ns);
    t.repaired_ns = t.total_ns;
    if (!s && d->n_faults)
        s = total_of(d, ~0U, 0, &t.repaired_ns);
    if (!s)
        s = total_of(d, ~0U, 1, &t.quiet_ns);
    for (uint32_t i = 0; i < d->n_faults && !s; i++) {
        int64_t ns = t.repaired_ns;
        if (!costs_time(d->fault[i].kind))
            continue;
        if (d->n_faults > 1)
            s = total_of(d, 1U << i, 0, &ns);
        t.gain_ns[i] = t.total_ns - ns;
        if (t.gain_ns[i] <= t.subject_gain_ns && t.n_subject)
            continue;
        t.i_main = i;
        t.n_subject = 1;
        t.subject_gain_ns = t.gain_ns[i];
    }
    if (!s && t.n_subject)
        t.in_subject[t.i_main] = 1;
    if (!s && d->n_faults > 1)
        s = subject(d, &t);
    if (!s)
        *truth_p = t;
    return s;
}

static void add_id(struct hm_demo_answer *a, uint32_t *ids, uint32_t cap, uint32_t rank)
{
    uint32_t at = a->n_ids < cap ? a->n_ids : cap;
    for (uint32_t i = 0; i < at; i++)
        if (ids[i] == rank)
            return;
    while (at && at <= cap && ids[at - 1] > rank) {
        if (at < cap)
            ids[at] = ids[at - 1];
        at--;
    }
    if (at < cap)
        ids[at] = rank;
    a->n_ids++;
}

static void name_subject(const struct hm_demo *d, const struct hm_demo_fault *f,
                         struct hm_demo_answer *a, uint32_t *ids, uint32_t cap)
{
    uint32_t lo = f->rank, hi = f->rank + 1, node = d->node_ranks ? d->node_ranks : 8;
    if (f->kind == HM_DEMO_SLOW_NODE) {
        lo = f->rank * node;
        hi = lo + node < d->n_ranks ? lo + node : d->n_ranks;
    }
    if (f->kind == HM_DEMO_ROTATE || f->rank == HM_DEMO_EVERYBODY) {
        a->kind = "all";
        return;
    }
    for (uint32_t r = lo; r < hi; r++)
        add_id(a, ids, cap, r);
    if (f->kind == HM_DEMO_SLOW_LINK) { /* the other end: the next of its largest ring */
        struct hm_demo_shape s;
        enum hm_demo_comm c = HM_DEMO_C_DP;
        uint32_t crank;
        hm_demo_shape(d, &s);
        for (unsigned k = 0; k < HM_DEMO_N_COMMS; k++)
            if (s.n_members[k] > s.n_members[c])
                c = (enum hm_demo_comm)k;
        hm_demo_group(&s, c, f->rank, &crank);
        add_id(a, ids, cap, hm_demo_member(&s, c, f->rank, (crank + 1) % s.n_members[c]));
    }
}

void hm_demo_answer(const struct hm_demo *d, const struct hm_demo_truth *t,
                    struct hm_demo_answer *answer_p, uint32_t *ids_p, uint32_t cap)
{
    static const struct {
        const char *status, *kind, *cause, *pattern;
    } of[HM_DEMO_N_KINDS] = {
        [HM_DEMO_SLOW_GPU] = {"straggler", "device", "slow_gpu", "persistent"},
        [HM_DEMO_SLOW_INPUT] = {"straggler", "rank", "input", "persistent"},
        [HM_DEMO_LATE_LAUNCH] = {"straggler", "rank", "host_cpu", "persistent"},
        [HM_DEMO_MORE_WORK] = {"straggler", "rank", "more_work", "persistent"},
        [HM_DEMO_PAUSES] = {"straggler", "rank", "host_cpu", ""},
        [HM_DEMO_ROUTING] = {"imbalance", "rank", "more_work", "persistent"},
        [HM_DEMO_SLOW_LINK] = {"bottleneck", "link", "network", "persistent"},
        [HM_DEMO_SLOW_NODE] = {"straggler", "node", "slow_gpu", "persistent"},
        [HM_DEMO_ALLOCATOR] = {"straggler", "rank", "allocator", ""},
        [HM_DEMO_CHECKPOINT] = {"bottleneck", "rank", "checkpoint", "periodic"},
        [HM_DEMO_ROTATE] = {"imbalance", "all", "more_work", "rotating"},
        [HM_DEMO_HANG] = {"hang", "rank", "unknown", ""},
        [HM_DEMO_MISMATCH] = {"mismatch", "rank", "unknown", ""}};
    struct hm_demo_answer a = {"none", "", "", "", 0};
    uint32_t main = t->n_subject ? t->i_main : UINT32_MAX;
    for (uint32_t i = 0; i < d->n_faults; i++)
        if (d->fault[i].kind == HM_DEMO_HANG ||
            (d->fault[i].kind == HM_DEMO_MISMATCH &&
             (main == UINT32_MAX || d->fault[main].kind != HM_DEMO_HANG)))
            main = i;
    int stops = main != UINT32_MAX && !costs_time(d->fault[main].kind);
    if (main != UINT32_MAX && (stops || t->subject_gain_ns > 0)) {
        enum hm_demo_kind kind = d->fault[main].kind;
        a.status = of[kind].status;
        a.kind = of[kind].kind;
        a.cause = of[kind].cause;
        a.pattern = d->fault[main].from_step > 1 && !stops ? "from_step" : of[kind].pattern;
        if (kind == HM_DEMO_PAUSES && d->fault[main].rank == HM_DEMO_EVERYBODY)
            a.status = "jitter";
        for (uint32_t i = 0; i < d->n_faults && !stops; i++)
            if (t->in_subject[i] && d->fault[i].kind != kind)
                a.cause = "mixed";
        for (uint32_t i = 0; i < d->n_faults; i++)
            if (stops ? i == main : t->in_subject[i])
                name_subject(d, &d->fault[i], &a, ids_p, cap);
        if (a.n_ids > 1 && kind != HM_DEMO_SLOW_NODE && kind != HM_DEMO_SLOW_LINK)
            a.kind = "ranks";
        if (a.n_ids == d->n_ranks && d->n_ranks > 1 &&
            kind != HM_DEMO_SLOW_LINK) /* all alike: nothing to compare with */
            a = (struct hm_demo_answer){"none", "", "", "", 0};
    }
    *answer_p = a;
}
