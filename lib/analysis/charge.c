/* Charge: every wait goes to whoever caused it, directly or through the waits of others.
 *
 * Box: lib/analysis. Pure. Since they last left a collective together, waiter p and last arriver q
 * did W = (own work of q - own work of p) + (waits of q - waits of p), as far as transfers are
 * equal. The first part is q's; the rest goes to those whom q itself waited for, newest first, and
 * so on; what nobody's work explains stays with the one reached. Between stages of a pipeline only
 * what a worker does beyond its role is charged: the rest of the wait is the schedule, nobody's.
 * Invariant: direct + indirect + schedule = the waits charged. Source: facts on analysis 2.6;
 * Boehme et al., ACM TOPC 3(2) 2016.
 */
#include "analysis/judge_inside.h"

enum { DEPTH = 8, HOPS = 1 << 14 };

struct charge {
    struct hm_judge *j;
    uint32_t hops; /* left for this launch */
    int structural;
};

static int64_t clip(int64_t x, int64_t lo, int64_t hi)
{
    return x < lo ? lo : x > hi ? hi : x;
}

static int same_role(const struct hm_judge *j, const struct hm_jpart *p, const struct hm_jpart *q)
{
    return j->roles.role[p->worker] == j->roles.role[q->worker];
}

/* Own work of q that makes p wait. */
static int64_t difference(const struct hm_judge *j, const struct hm_jpart *p,
                          const struct hm_jpart *q)
{
    if (hm_judge_is_sync(&j->launch[q->launch])) {
        if (same_role(j, p, q))
            return q->own_ns - p->own_ns;
        return q->ref == HM_NO_ID ? 0 : q->own_ns - j->part[q->ref].own_ns;
    }
    return q->excess_ns; /* a message: beyond its role, found where the replicas meet */
}

/* Whom part b waited for; NULL = nobody in particular. */
static const struct hm_jpart *waited_for(const struct hm_judge *j, const struct hm_jpart *b)
{
    const struct hm_jlaunch *l = &j->launch[b->launch];
    if (hm_judge_is_sync(l))
        return l->last_worker == HM_NO_ID || l->last_worker == b->worker
                   ? NULL
                   : hm_judge_part_in(j, b->launch, l->last_worker);
    return b->source == HM_NO_ID || j->part[b->source].start_ns <= b->start_ns
               ? NULL
               : &j->part[b->source];
}

static void leave(struct charge *c, uint32_t worker, int64_t ns, int direct)
{
    if (c->structural)
        c->j->schedule_ns += ns;
    else if (direct)
        c->j->worker[worker].caused_ns += ns;
    else
        c->j->worker[worker].indirect_ns += ns;
}

/* `amount` of the waits of n workers goes to those x's worker waited for before. */
static void charge_chain(struct charge *c, const struct hm_jpart *x, int64_t amount, uint32_t n,
                         int depth)
{
    struct hm_judge *j = c->j;
    uint32_t common = j->launch[x->launch].common;
    for (const struct hm_jpart *b = hm_judge_link(j, x); b && amount > 0 && c->hops;
         b = hm_judge_link(j, b)) {
        c->hops--;
        if (b->launch == common)
            break;
        const struct hm_jpart *y = b->wait_ns > 0 ? waited_for(j, b) : NULL;
        if (!y)
            continue;
        int64_t take = clip(amount, 0, b->wait_ns * n);
        int64_t own = clip(clip(difference(j, b, y), 0, b->wait_ns) * n, 0, take);
        j->worker[y->worker].indirect_ns += own;
        amount -= take;
        if (take > own && depth < DEPTH && c->hops)
            charge_chain(c, y, take - own, n, depth + 1);
        else if (take > own)
            leave(c, y->worker, take - own, 0);
    }
    if (amount > 0)
        leave(c, x->worker, amount, depth == 0);
}

static void charge_sync(struct charge *c, const struct hm_jlaunch *l)
{
    struct hm_judge *j = c->j;
    const struct hm_jpart *q = hm_judge_part_in(j, (uint32_t)(l - j->launch), l->last_worker);
    if (!q)
        return;
    /* waiters of its own role, then the others: what is left of theirs is the schedule */
    for (c->structural = 0; c->structural < 2; c->structural++) {
        int64_t rest = 0;
        uint32_t n = 0;
        for (uint32_t k = 0; k < l->n_parts; k++) {
            const struct hm_jpart *p = &j->part[l->first_part + k];
            if (p == q || p->wait_ns <= 0 || same_role(j, p, q) == c->structural)
                continue;
            int64_t own = clip(difference(j, p, q), 0, p->wait_ns);
            j->worker[q->worker].caused_ns += own;
            rest += p->wait_ns - own;
            n++;
        }
        c->hops = HOPS;
        if (rest > 0)
            charge_chain(c, q, rest, n, 0);
    }
}

/* A receiver waited for its sender: along the messages back, as far as someone does too much. */
static void charge_message(struct charge *c, const struct hm_jpart *p)
{
    struct hm_judge *j = c->j;
    int64_t rest = p->wait_ns;
    const struct hm_jpart *y = waited_for(j, p);
    for (int depth = 0; y && rest > 0 && depth < DEPTH; depth++) {
        int64_t own = clip(y->excess_ns, 0, rest);
        if (depth == 0)
            j->worker[y->worker].caused_ns += own;
        else
            j->worker[y->worker].indirect_ns += own;
        rest -= own;
        const struct hm_jpart *b = hm_judge_link(j, y);
        y = b && b->wait_ns > 0 ? waited_for(j, b) : NULL;
    }
    j->schedule_ns += rest;
}

void hm_judge_charge(struct hm_judge *j)
{
    struct charge c = {.j = j};
    for (size_t i = 0; i < j->n_launches; i++) {
        const struct hm_jlaunch *l = &j->launch[i];
        if (l->i_step == HM_NO_ID)
            continue;
        if (hm_judge_is_sync(l)) {
            if (l->last_worker != HM_NO_ID) {
                j->worker[l->last_worker].last_arrivals++;
                charge_sync(&c, l);
            }
            continue;
        }
        for (uint32_t k = 0; k < l->n_parts; k++)
            if (j->part[l->first_part + k].wait_ns > 0)
                charge_message(&c, &j->part[l->first_part + k]);
    }
}
