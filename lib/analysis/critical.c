/* The critical path of each step: whose work the step's end rests on.
 *
 * Box: lib/analysis. Pure. Backwards from the last end of a step to that of the step before:
 * through a collective to its last arriver (the rest is transfer), through a message to whichever
 * end came later, through own work to the end of its base. Source: facts on analysis 2.7.
 */
#include "analysis/judge_inside.h"

#include <stdlib.h>
#include <string.h>

/* Who came last, and when: what the end of part p rests on. */
static const struct hm_jpart *last_of(const struct hm_judge *j, const struct hm_jpart *p)
{
    const struct hm_jlaunch *l = &j->launch[p->launch];
    const struct hm_jpart *q = p;
    if (hm_judge_is_sync(l)) {
        for (uint32_t k = 0; k < l->n_parts; k++) {
            const struct hm_jpart *m = &j->part[l->first_part + k];
            if (m->start_ns > q->start_ns && m->start_ns < p->end_ns)
                q = m;
        }
    } else if (p->source != HM_NO_ID && j->part[p->source].start_ns > p->start_ns) {
        q = &j->part[p->source];
    }
    return q;
}

/* Charges [from_ns, end of p) of one step; what is charged to nobody is transfer. */
static void walk(struct hm_judge *j, const struct hm_jpart *p, int64_t from_ns, int64_t *transfer)
{
    int64_t t = p->end_ns;
    for (size_t n = 0; p && t > from_ns && n < j->n_parts; n++) {
        const struct hm_jpart *q = last_of(j, p);
        int64_t came = q->start_ns > from_ns ? q->start_ns : from_ns;
        if (came < t)
            *transfer += t - came;
        t = came < t ? came : t;
        const struct hm_jpart *b = hm_judge_link(j, q);
        int64_t began = b ? b->end_ns : q->carry_ns;
        began = began > from_ns ? began : from_ns;
        if (began < t) {
            j->worker[q->worker].critical_ns += t - began;
            t = began;
        }
        p = b;
    }
}

hm_status_t hm_judge_critical(struct hm_judge *j)
{
    const struct hm_jpart **last = calloc(j->n_steps + 1, sizeof(*last));
    int64_t transfer = 0;
    if (!last)
        return hm_fail(HM_E_NOMEM, "judge", "out of memory");
    for (size_t i = 0; i < j->n_parts; i++) {
        const struct hm_jpart *p = &j->part[i];
        uint32_t s = j->launch[p->launch].i_step;
        if (s != HM_NO_ID && (!last[s] || p->end_ns > last[s]->end_ns))
            last[s] = p;
    }
    int64_t from = j->t0_ns;
    for (size_t s = 0; s < j->n_steps; s++)
        if (last[s]) {
            walk(j, last[s], from, &transfer);
            from = last[s]->end_ns;
        }
    free(last);
    return HM_OK;
}
