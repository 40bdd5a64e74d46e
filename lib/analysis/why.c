/* The latest arrival of a worker in a step. Box: lib/analysis. Pure. See why.h. */
#include "analysis/why.h"

#include "analysis/judge_inside.h"

#include <string.h>

static uint32_t arrival_of(const struct hm_jworker *w, uint32_t part)
{
    for (uint32_t i = 0; i < w->n_arrivals; i++)
        if (w->of_arrival[i] == part)
            return i;
    return HM_NO_ID;
}

static struct hm_why_side side_of(const struct hm_judge *j, uint32_t part)
{
    const struct hm_jpart *p = &j->part[part];
    struct hm_why_side s = {.worker = p->worker,
                            .arrival = arrival_of(&j->worker[p->worker], part),
                            .start_ns = p->start_ns,
                            .tail_ns = p->start_ns - p->ready_ns,
                            .own_ns = p->own_ns};
    int64_t sum = 0;
    for (int c = 0; c < HM_N_C; c++)
        sum += s.part_ns[c] = p->part_ns[c];
    s.before_ns = p->own_ns - (sum - s.tail_ns);
    return s;
}

int hm_judge_why(const struct hm_judge *j, uint32_t worker, uint32_t step, struct hm_why *why)
{
    uint32_t best = HM_NO_ID;
    int64_t late = 0;
    memset(why, 0, sizeof(*why));
    for (size_t i = 0; i < j->n_parts; i++) {
        const struct hm_jpart *p = &j->part[i];
        const struct hm_jlaunch *l = &j->launch[p->launch];
        if (p->worker != worker || !p->has_segment || p->ref == HM_NO_ID || l->n_parts < 2 ||
            !(l->flags & HM_LAUNCH_SYNCHRONOUS) || l->i_step == HM_NO_ID ||
            (step != HM_NO_ID && j->step[l->i_step].step != step))
            continue;
        int64_t ns = p->own_ns - j->part[p->ref].own_ns;
        if (best == HM_NO_ID || ns > late) {
            best = (uint32_t)i;
            late = ns;
        }
    }
    if (best == HM_NO_ID)
        return 0;
    const struct hm_jpart *p = &j->part[best];
    const struct hm_jlaunch *l = &j->launch[p->launch];
    why->found = 1;
    why->step = j->step[l->i_step].step;
    why->comm = l->comm;
    why->seq = l->seq;
    why->func = l->func;
    why->late_ns = late;
    for (uint32_t k = 0; k < l->n_parts; k++) {
        const struct hm_jpart *q = &j->part[l->first_part + k];
        if (q == p || q->wait_ns <= 0)
            continue;
        why->n_waiting++;
        why->wait_ns += q->wait_ns;
    }
    if (p->base != HM_NO_ID) {
        const struct hm_jlaunch *b = &j->launch[j->part[p->base].launch];
        why->has_base = 1;
        why->base_comm = b->comm;
        why->base_seq = b->seq;
        why->base_func = b->func;
    }
    why->late = side_of(j, best);
    why->ref = side_of(j, p->ref);
    return 1;
}
