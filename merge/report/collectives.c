/* One launch in figures. Box: merge/report. */
#include "report/collectives.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char *const func_name[HM_NCCL_N_FUNCS] = {
    "Unknown", "AllReduce", "AllGather", "ReduceScatter", "Broadcast",
    "Reduce",  "Send",      "Recv",      "SendRecv",      "AlltoAll",
    "Gather",  "Scatter",   "PutSignal", "Signal",        "WaitSignal"};

static int64_t wait_of(const struct hm_part *p)
{
    if (!(p->v.flags & HM_ANNOT_MATCHED))
        return 0;
    int64_t until = p->v.last_ns < p->a.end_ns ? p->v.last_ns : p->a.end_ns;
    return until > p->a.start_ns ? until - p->a.start_ns : 0;
}

struct entry {
    int64_t rank, wait;
};
static int by_rank(const void *x, const void *y)
{
    const struct entry *p = x, *q = y;
    return (p->rank > q->rank) - (p->rank < q->rank);
}

/* Members of the communicator that are known but have no part here: their kernel is missing. */
static uint32_t missing(const struct hm_run *run, const struct hm_launch *l,
                        const struct hm_part *part, struct entry *v, uint32_t n, uint32_t cap)
{
    for (uint32_t c = 0; c < run->n_comms && !l->pair; c++) {
        const struct hm_comm *comm = &run->comm[c];
        if (comm->key != l->comm || !comm->worker)
            continue;
        for (uint32_t m = 0; m < comm->n_ranks && n < cap; m++) {
            uint32_t w = comm->worker[m], k = 0;
            while (k < l->n_present && part[k].worker != w)
                k++;
            if (w != HM_NO_ID && w < run->n_workers && k == l->n_present)
                v[n++] = (struct entry){run->worker[w].rank, HM_NONE(HM_NONE_MISSING)};
        }
        break;
    }
    return n;
}

hm_status_t hm_collective_fill(const struct hm_run *run, const struct hm_result *r,
                               const struct hm_launch *l, const struct hm_part *part,
                               struct hm_collective *c)
{
    uint32_t cap = l->n_present + run->n_workers, n = 0;
    struct entry *v = malloc((cap + 1) * sizeof(*v));
    memset(c, 0, sizeof(*c));
    c->rank = malloc((cap + 1) * sizeof(*c->rank));
    c->wait_ns = malloc((cap + 1) * sizeof(*c->wait_ns));
    if (!v || !c->rank || !c->wait_ns) {
        free(v);
        hm_collective_clear(c);
        return hm_fail(HM_E_NOMEM, "report", "out of memory");
    }
    for (uint32_t k = 0; k < l->n_present; k++)
        if (part[k].worker < run->n_workers)
            v[n++] = (struct entry){run->worker[part[k].worker].rank, wait_of(&part[k])};
    n = missing(run, l, part, v, n, cap);
    qsort(v, n, sizeof(*v), by_rank);
    for (uint32_t i = 0; i < n; i++) {
        c->rank[i] = v[i].rank;
        c->wait_ns[i] = v[i].wait;
    }
    free(v);
    int sync = l->flags & HM_LAUNCH_SYNCHRONOUS, tie = l->last_worker >= run->n_workers;
    snprintf(c->comm, sizeof(c->comm), "%016" PRIx64, l->comm);
    c->n = n;
    c->func = func_name[l->func < HM_NCCL_N_FUNCS ? l->func : 0];
    c->seq = l->seq;
    c->start_ns = l->first_ns - r->t0_ns;
    c->n_ops = l->n_ops;
    c->bytes = (int64_t)l->bytes;
    c->n_ranks = l->n_members;
    c->skew_ns = l->last_ns - l->first_ns;
    c->last_rank = tie ? HM_NONE(HM_NONE_BELOW_CLOCK) : run->worker[l->last_worker].rank;
    c->margin_ns = l->last_ns - l->second_ns;
    c->core_ns = !sync                     ? HM_NONE(HM_NONE_ONE_SIDED)
                 : l->end1_ns > l->last_ns ? l->end1_ns - l->last_ns
                                           : 0;
    c->span_ns = l->end2_ns - l->last_ns;
    if (l->second_ns == INT64_MIN || l->n_present < 2)
        c->margin_ns = HM_NONE(HM_NONE_MISSING);
    return HM_OK;
}

void hm_collective_clear(struct hm_collective *c)
{
    free(c->rank);
    free(c->wait_ns);
    memset(c, 0, sizeof(*c));
}
