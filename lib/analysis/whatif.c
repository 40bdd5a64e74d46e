/* Replay of the collective dependency graph with some workers repaired (rule 1).
 *
 * Box: lib/analysis. Pure. Each arrival starts when its own work is done (end of its base + local)
 * and the collective before it on the stream has ended; a synchronous launch ends a measured time
 * after its last arrival. Compute that waits for a collective also waits for the compute before it,
 * so that a repaired run is not faster than its compute. Repaired: own work as long as the median
 * member's, where it is longer; work that is too much is spread over the role. Source: facts on
 * scenarios rule 1; facts on analysis 2.11.
 */
#include "analysis/judge_inside.h"

#include <stdlib.h>
#include <string.h>

struct replay {
    const struct hm_what_if *what;
    int64_t *start, *end, *node; /* of each part; node: of the compute that waited for it */
    int64_t *step_end, *held;    /* of each step; held: how far compute alone holds it back */
    int64_t *given;              /* work of others that a part was given; NULL = none is */
};

static int is_mended(const struct replay *r, const struct hm_jlaunch *l, const struct hm_jpart *p)
{
    const struct hm_what_if *w = r->what;
    if (l->i_step == HM_NO_ID)
        return 0;
    if (w->all_in && w->all_in[l->i_step])
        return 1;
    return w->repair && w->repair[p->worker] && !(w->not_in && w->not_in[l->i_step]);
}

static double scale_of(const struct replay *r, const struct hm_jlaunch *l, const struct hm_jpart *p)
{
    return r->what->scale && l->i_step != HM_NO_ID ? r->what->scale[p->worker] : 1;
}

/* How much later than by the base alone the compute begins that waited for it: the compute before
 * it on its stream was not done. */
static int64_t push_of(const struct hm_judge *j, struct replay *r, const struct hm_jlaunch *l,
                       const struct hm_jpart *p)
{
    if (p->base == HM_NO_ID || HM_IS_NONE(p->node_ns))
        return 0;
    int64_t free_ns = r->end[p->base] + p->node_ns, *node = &r->node[p->base];
    if (*node == INT64_MIN) {
        *node = free_ns;
        if (p->floor != HM_NO_ID && r->node[p->floor] != INT64_MIN) {
            int64_t work = (int64_t)((double)p->floor_ns * scale_of(r, l, p));
            work += r->given ? r->given[p->base] : 0;
            if (is_mended(r, l, p)) { /* as much less as the arrival on the same compute */
                int64_t too_much = j->part[p->base].excess_ns, less = work;
                less -= too_much > 0 ? too_much : 0;
                work = work > l->floor_median_ns ? l->floor_median_ns : work;
                work = work > less ? less : work;
            }
            *node = r->node[p->floor] + work > free_ns ? r->node[p->floor] + work : free_ns;
        }
    }
    return *node - free_ns;
}

/* What is taken out of the chain of a part that is late by nothing else any more. */
static int64_t taken_out(const struct hm_judge *j, const struct replay *r,
                         const struct hm_jlaunch *l, const struct hm_jpart *p)
{
    int mended = is_mended(r, l, p) && p->excess_ns > 0;
    if (!(r->what->less | r->what->even) || l->i_step == HM_NO_ID || !p->has_segment ||
        p->base == HM_NO_ID)
        return 0;
    const struct hm_jpart *ref = p->ref == HM_NO_ID ? NULL : &j->part[p->ref];
    int64_t out = 0, excess = 0;
    for (int c = 0; c < HM_N_C; c++) {
        int64_t mine = p->part_ns[c], usual = ref && ref->has_segment ? ref->part_ns[c] : mine;
        if (r->what->less >> c & 1)
            out += mended && usual < mine ? usual : mine;
        else if (r->what->even >> c & 1 && !mended && mine > usual)
            excess += mine - usual;
    }
    int64_t most = p->excess_ns > 0 ? p->excess_ns : 0;
    return out + (excess < most ? excess : most);
}

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* When its own work is done: on its chain. */
static int64_t ready_of(const struct hm_judge *j, struct replay *r, const struct hm_jlaunch *l,
                        const struct hm_jpart *p)
{
    int64_t push = push_of(j, r, l, p);
    int64_t ready = p->base == HM_NO_ID ? p->ready_ns : r->end[p->base] + p->local_ns;
    if (p->via_node)
        ready += push;
    else if (l->i_step != HM_NO_ID && push > r->held[l->i_step])
        r->held[l->i_step] = push;
    if (is_mended(r, l, p) && p->excess_ns > 0)
        ready -= p->excess_ns;
    return ready - taken_out(j, r, l, p);
}

/* As long after the common base as the median of its role is now, but not before its own base ends
 * where that comes later. */
static int64_t mended(const struct hm_judge *j, struct replay *r, const struct hm_jlaunch *l,
                      const struct hm_jpart *p)
{
    const struct hm_jpart *ref = &j->part[p->ref];
    int64_t t = r->end[p->common] + ready_of(j, r, l, ref) - r->end[ref->common];
    if (p->base != HM_NO_ID && j->part[p->base].end_ns > j->part[p->common].end_ns)
        t = t > r->end[p->base] ? t : r->end[p->base];
    return t;
}

/* share: what this worker is given of the work taken from others. */
static int64_t start_of(const struct hm_judge *j, struct replay *r, const struct hm_jlaunch *l,
                        const struct hm_jpart *p, int64_t share)
{
    int64_t ready = ready_of(j, r, l, p);
    if (is_mended(r, l, p) && p->excess_ns > 0 && p->aside)
        ready = min64(ready, mended(j, r, l, p)); /* its chain does not know how much earlier the
                                                     common base ends now */
    ready += share;
    ready -= (int64_t)((double)p->part_ns[HM_C_COMPUTE] * (1 - scale_of(r, l, p)));
    int64_t before = p->before == HM_NO_ID ? INT64_MIN : r->end[p->before];
    return (before > ready ? before : ready) + p->tail_ns;
}

/* Work is conserved: what is taken from some is done by all of their role, those of other groups
 * too, who are no later for it than these; tokens move among the experts of one group alone. */
static int64_t share_of(const struct hm_judge *j, const struct replay *r,
                        const struct hm_jlaunch *l, uint32_t role)
{
    int64_t taken = 0, n = 0;
    int experts = j->use[l->i_use].dim == HM_DIM_EP;
    if (!r->what->work || !hm_judge_is_sync(l))
        return 0;
    for (uint32_t k = 0; k < l->n_parts; k++) {
        const struct hm_jpart *p = &j->part[l->first_part + k];
        if (j->roles.role[p->worker] != role)
            continue;
        n++;
        if (is_mended(r, l, p) && p->excess_ns > 0)
            taken += p->excess_ns;
    }
    n = experts ? n : j->roles.of[role].n;
    return n ? taken / n : 0;
}

/* Of those who came before part k left: the last, as it was and as it is now. */
static int64_t last_before(const struct replay *r, const struct hm_jlaunch *l,
                           const struct hm_jpart *p, uint32_t k, int64_t *was_p)
{
    int64_t is = r->start[l->first_part + k];
    *was_p = p[k].start_ns;
    for (uint32_t m = 0; m < l->n_parts; m++) {
        if (p[m].start_ns >= p[k].end_ns)
            continue;
        *was_p = p[m].start_ns > *was_p ? p[m].start_ns : *was_p;
        is = r->start[l->first_part + m] > is ? r->start[l->first_part + m] : is;
    }
    return is;
}

static void end_of(const struct hm_judge *j, struct replay *r, const struct hm_jlaunch *l,
                   int64_t last)
{
    const struct hm_jpart *p = &j->part[l->first_part];
    for (uint32_t k = 0; k < l->n_parts; k++) {
        uint32_t me = l->first_part + k, other = p[k].source;
        if (l->flags & HM_LAUNCH_HOLES) {
            int64_t was, is = last_before(r, l, p, k, &was);
            r->end[me] = is + (p[k].end_ns - was);
            continue;
        }
        if (hm_judge_is_sync(l)) {
            int64_t rest = p[k].end_ns - l->last_ns;
            if (r->what->comm_scale > 0 && r->what->comm == l->comm && l->i_step != HM_NO_ID)
                rest = (int64_t)((double)rest * r->what->comm_scale);
            r->end[me] = last + (r->what->no_transfer && l->i_step != HM_NO_ID ? 0 : rest);
            continue;
        }
        /* a sender whose kernel lasted until its receiver came waited for it too */
        for (uint32_t m = 0; other == HM_NO_ID && m < l->n_parts && l->n_parts == 2; m++)
            if (p[m].source == me && p[m].start_ns > p[k].start_ns && p[m].start_ns < p[k].end_ns)
                other = l->first_part + m;
        int64_t was = p[k].start_ns, is = r->start[me];
        if (other != HM_NO_ID) {
            int64_t s0 = j->part[other].start_ns, s1 = r->start[other];
            was = s0 > was ? s0 : was;
            is = s1 > is ? s1 : is;
        }
        int64_t took = p[k].end_ns - was;
        if (r->what->comm_scale > 0 && r->what->comm == l->comm && l->i_step != HM_NO_ID &&
            (!r->what->pair || r->what->pair == l->pair))
            took = (int64_t)((double)took * r->what->comm_scale);
        r->end[me] = is + (r->what->no_transfer && l->i_step != HM_NO_ID ? 0 : took);
    }
}

static void replay_free(struct replay *r)
{
    free(r->start);
    free(r->end);
    free(r->node);
    free(r->step_end);
    free(r->held);
    free(r->given);
}

int64_t hm_judge_what_if(const struct hm_judge *j, const struct hm_what_if *what, int64_t *gain_p)
{
    struct replay r = {.what = what,
                       .start = malloc((j->n_parts + 1) * sizeof(int64_t)),
                       .end = malloc((j->n_parts + 1) * sizeof(int64_t)),
                       .node = malloc((j->n_parts + 1) * sizeof(int64_t)),
                       .step_end = malloc((j->n_steps + 1) * sizeof(int64_t)),
                       .held = calloc(j->n_steps + 1, sizeof(int64_t)),
                       .given = what->work ? calloc(j->n_parts + 1, sizeof(int64_t)) : NULL};
    if (!r.start || !r.end || !r.node || !r.step_end || !r.held || (what->work && !r.given)) {
        replay_free(&r);
        return INT64_MIN;
    }
    for (size_t s = 0; s < j->n_steps; s++)
        r.step_end[s] = INT64_MIN;
    for (size_t i = 0; i < j->n_parts; i++)
        r.node[i] = INT64_MIN;
    for (size_t i = 0; i < j->n_launches; i++) {
        const struct hm_jlaunch *l = &j->launch[i];
        const struct hm_jpart *p = &j->part[l->first_part];
        int64_t last = INT64_MIN, share = 0;
        uint32_t role = HM_NO_ID;
        for (uint32_t k = 0; k < l->n_parts; k++) {
            if (what->work && j->roles.role[p[k].worker] != role) {
                role = j->roles.role[p[k].worker];
                share = share_of(j, &r, l, role);
            }
            int64_t t = start_of(j, &r, l, &p[k], share);
            if (r.given)
                r.given[l->first_part + k] = share;
            r.start[l->first_part + k] = t;
            last = t > last ? t : last;
        }
        end_of(j, &r, l, last);
        for (uint32_t k = 0; k < l->n_parts && l->i_step != HM_NO_ID; k++)
            if (r.end[l->first_part + k] > r.step_end[l->i_step])
                r.step_end[l->i_step] = r.end[l->first_part + k];
    }
    int64_t saved = 0;
    for (size_t s = 0; s < j->n_steps; s++) {
        int64_t now =
            r.step_end[s] == INT64_MIN ? saved : j->step[s].end_ns - r.step_end[s] - r.held[s];
        if (gain_p)
            gain_p[s] = now - saved;
        saved = now;
    }
    replay_free(&r);
    return saved;
}

int64_t hm_judge_replay(const struct hm_judge *j, const uint8_t *repair, int64_t *gain_p)
{
    const struct hm_what_if what = {.repair = repair};
    return hm_judge_what_if(j, &what, gain_p);
}
