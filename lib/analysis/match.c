/* Arrivals -> launches.
 *
 * Box: lib/analysis. Pure. One thread per object. A launch is decided when all members that are in
 * the run are there; it is given up when 64 later launches of its communicator are complete.
 * Names: L last start, F first start, E1 first end, E2 last end. Synchronous: everybody waits for
 * L. Rooted (pair = 1 + root (n + 1)): receivers wait for the root, or the root for its senders.
 * Point to point: the receiver waits for the sender. Source: facts on analysis 2.1.
 */
#include "analysis/match.h"

#include "analysis/causality.h"

#include <stdlib.h>
#include <string.h>

enum { GIVE_UP_AFTER = 64 };

struct hm_match {
    struct hm_match_in in;
    struct hm_match_stats stats;
    uint32_t *complete_to; /* per communicator: 1 + highest complete sequence (collectives) */
};

hm_status_t hm_match_create(const struct hm_match_in *in, struct hm_match **match_p)
{
    struct hm_match *m = calloc(1, sizeof(*m));
    uint32_t *done = calloc(in->n_comms + 1, sizeof(*done));
    if (!m || !done) {
        free(m);
        free(done);
        return hm_fail(HM_E_NOMEM, "match", "out of memory");
    }
    m->in = *in;
    m->complete_to = done;
    *match_p = m;
    return HM_OK;
}

void hm_match_destroy(struct hm_match *m)
{
    if (!m)
        return;
    free(m->complete_to);
    free(m);
}

void hm_match_stats(const struct hm_match *m, struct hm_match_stats *stats_p)
{
    *stats_p = m->stats;
}

static uint32_t comm_index(const struct hm_match *m, uint64_t key)
{
    uint32_t lo = 0, hi = m->in.n_comms;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (m->in.comm[mid].key < key)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < m->in.n_comms && m->in.comm[lo].key == key ? lo : HM_NO_ID;
}

static int by_key(const void *x, const void *y)
{
    const struct hm_part *p = x, *q = y;
    if (p->a.comm != q->a.comm)
        return p->a.comm < q->a.comm ? -1 : 1;
    if (p->a.pair != q->a.pair && (p->a.seq == q->a.seq))
        return p->a.pair < q->a.pair ? -1 : 1;
    if (p->a.seq != q->a.seq)
        return p->a.seq < q->a.seq ? -1 : 1;
    if (p->worker != q->worker)
        return p->worker < q->worker ? -1 : 1;
    return (p->i_arrival > q->i_arrival) - (p->i_arrival < q->i_arrival);
}

static int same_key(const struct hm_part *p, const struct hm_part *q)
{
    return p->a.comm == q->a.comm && p->a.seq == q->a.seq && p->a.pair == q->a.pair;
}

static int by_last(const void *x, const void *y)
{
    const struct hm_launch *p = x, *q = y;
    if (p->last_ns != q->last_ns)
        return p->last_ns < q->last_ns ? -1 : 1;
    if (p->comm != q->comm)
        return p->comm < q->comm ? -1 : 1;
    if (p->seq != q->seq)
        return p->seq < q->seq ? -1 : 1;
    return (p->pair > q->pair) - (p->pair < q->pair);
}

static int64_t error_of(const struct hm_match *m, uint32_t a, uint32_t b, int64_t t)
{
    return a == b || !m->in.error ? 0 : m->in.error(m->in.ctx, a, b, t);
}

static int is_synchronous(uint8_t func)
{
    switch (func) {
    case HM_NCCL_ALLREDUCE:
    case HM_NCCL_ALLGATHER:
    case HM_NCCL_REDUCESCATTER:
    case HM_NCCL_ALLTOALL:
        return 1;
    default:
        return 0;
    }
}

static int is_to_root(uint8_t func)
{
    return func == HM_NCCL_REDUCE || func == HM_NCCL_GATHER;
}

static uint32_t saturate(int64_t ns)
{
    return ns < 0 ? 0 : ns > (int64_t)UINT32_MAX ? UINT32_MAX : (uint32_t)ns;
}

/* Starts, ends, weakest source: the same for every kind of launch. */
static void measure(struct hm_launch *l, const struct hm_part *p, size_t n)
{
    l->first_ns = l->last_ns = p[0].a.start_ns;
    l->second_ns = INT64_MIN;
    l->end1_ns = l->end2_ns = p[0].a.end_ns;
    l->last_worker = p[0].worker;
    for (size_t i = 0; i < n; i++) {
        const struct hm_arrival *a = &p[i].a;
        if (i && a->start_ns > l->last_ns) {
            l->second_ns = l->last_ns;
            l->last_ns = a->start_ns;
            l->last_worker = p[i].worker;
        } else if (i && a->start_ns > l->second_ns) {
            l->second_ns = a->start_ns;
        }
        l->first_ns = a->start_ns < l->first_ns ? a->start_ns : l->first_ns;
        l->end1_ns = a->end_ns < l->end1_ns ? a->end_ns : l->end1_ns;
        l->end2_ns = a->end_ns > l->end2_ns ? a->end_ns : l->end2_ns;
        l->source = a->source > l->source ? a->source : l->source;
        l->confidence = a->confidence > l->confidence ? a->confidence : l->confidence;
        l->bytes = a->bytes > l->bytes ? a->bytes : l->bytes;
        l->n_ops = a->n_ops > l->n_ops ? a->n_ops : l->n_ops;
    }
    if (n == 1)
        l->second_ns = l->last_ns;
}

/* The lower-median arriver: reference for what made the last one late. */
static uint32_t reference_of(const struct hm_part *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t rank = 0; /* arrivals before this one */
        for (size_t k = 0; k < n; k++)
            rank +=
                p[k].a.start_ns < p[i].a.start_ns || (p[k].a.start_ns == p[i].a.start_ns && k < i);
        if (rank == (n - 1) / 2)
            return p[i].worker;
    }
    return HM_NO_ID;
}

/* Some pairs exchange nothing and bind nothing: nobody leaves before those it needs have come, so
 * each waited for the last who came before it left. Waits point there; the order of ends and
 * starts tells nothing of the clocks. */
static void decide_holes(struct hm_launch *l, struct hm_part *p, size_t n)
{
    l->flags |= HM_LAUNCH_HOLES;
    for (size_t i = 0; i < n; i++) {
        size_t last = i;
        for (size_t k = 0; k < n; k++)
            if (p[k].a.start_ns < p[i].a.end_ns && p[k].a.start_ns > p[last].a.start_ns)
                last = k;
        p[i].v.last_ns = p[last].a.start_ns;
        if (!(l->flags & HM_LAUNCH_TIE))
            p[i].v.last_worker = p[last].worker;
    }
}

static void decide_synchronous(struct hm_match *m, struct hm_launch *l, struct hm_part *p, size_t n)
{
    l->flags |= HM_LAUNCH_SYNCHRONOUS;
    uint32_t reference = n > 1 ? reference_of(p, n) : HM_NO_ID;
    int tie = n < 2 || l->last_ns - l->second_ns <= l->u_ns;
    if (tie) {
        l->flags |= HM_LAUNCH_TIE;
        l->last_worker = HM_NO_ID;
    }
    for (size_t i = 0; i < n; i++) {
        struct hm_annot *v = &p[i].v;
        v->last_ns = l->last_ns;
        v->end1_ns = l->end1_ns;
        v->last_worker = l->last_worker;
        if (tie)
            v->flags |= HM_ANNOT_TIE;
        else if (p[i].worker == l->last_worker)
            v->flags |= HM_ANNOT_LATE;
        if (p[i].worker == reference)
            v->flags |= HM_ANNOT_REFERENCE;
    }
    for (size_t i = 0; i < n; i++)
        if (l->func == HM_NCCL_ALLTOALL && p[i].v.flags & HM_ANNOT_HOLES) {
            decide_holes(l, p, n);
            return;
        }
    if (n < 2 || l->source != HM_ARRIVAL_KERNEL)
        return; /* host times bind nothing */
    size_t early, late;
    m->stats.n_checked++;
    int64_t gap = hm_causality_gap(p, n, &early, &late);
    if (gap > error_of(m, p[early].worker, p[late].worker, l->last_ns)) {
        l->flags |= HM_LAUNCH_VIOLATION;
        m->stats.n_violations++;
    }
}

/* Waits point one way: `source` is what worker `waiter` waited for. */
static void wait_for(struct hm_part *waiter, const struct hm_part *source)
{
    waiter->v.last_ns = source->a.start_ns;
    waiter->v.last_worker =
        source->a.start_ns > waiter->a.start_ns ? source->worker : waiter->worker;
}

static void decide_one_sided(struct hm_match *m, struct hm_launch *l, struct hm_part *p, size_t n)
{
    uint32_t n_members = l->n_members;
    size_t root = SIZE_MAX, sender = SIZE_MAX;
    int rooted = 0;
    if (l->pair && n_members) {
        uint32_t src = (l->pair - 1) / n_members, dst = (l->pair - 1) % n_members;
        uint32_t worker = m->in.member ? m->in.member(m->in.ctx, l->comm, src) : HM_NO_ID;
        rooted = src == dst;
        for (size_t i = 0; i < n; i++) {
            if (rooted && worker != HM_NO_ID && p[i].worker == worker)
                root = i;
            if (!rooted && p[i].a.func == HM_NCCL_SEND)
                sender = i;
        }
    }
    for (size_t i = 0; i < n; i++) {
        struct hm_annot *v = &p[i].v;
        v->flags |= HM_ANNOT_ONE_SIDED;
        v->last_ns = p[i].a.start_ns;
        v->end1_ns = p[i].a.end_ns;
        v->last_worker = p[i].worker;
    }
    if (sender != SIZE_MAX) {
        for (size_t i = 0; i < n; i++)
            if (i != sender) {
                wait_for(&p[i], &p[sender]);
                /* a sender whose kernel lasted until its receiver came waited for it too */
                if (p[i].a.start_ns > p[sender].a.start_ns && p[i].a.start_ns < p[sender].a.end_ns)
                    wait_for(&p[sender], &p[i]);
            }
    } else if (root != SIZE_MAX && !is_to_root(l->func)) {
        for (size_t i = 0; i < n; i++)
            if (i != root)
                wait_for(&p[i], &p[root]);
    } else if (root != SIZE_MAX) {
        size_t last = root;
        for (size_t i = 0; i < n; i++)
            if (i != root && (last == root || p[i].a.start_ns > p[last].a.start_ns))
                last = i;
        if (last != root)
            wait_for(&p[root], &p[last]);
    }
    if (l->last_ns - l->second_ns <= l->u_ns) {
        l->flags |= HM_LAUNCH_TIE;
        l->last_worker = HM_NO_ID;
    }
}

/* p[0 .. n) are the parts of one key, by worker. Two parts of one worker: the keys of that
 * communicator are not what they seem; the first is used. */
static void decide(struct hm_match *m, struct hm_launch *l, struct hm_part *p, size_t n,
                   const struct hm_match_comm *c, uint32_t expected)
{
    *l = (struct hm_launch){.comm = p[0].a.comm,
                            .seq = p[0].a.seq,
                            .pair = p[0].a.pair,
                            .n_present = (uint32_t)n,
                            .n_members = c ? c->n_members : (uint32_t)n,
                            .signature = p[0].a.signature,
                            .func = p[0].a.func,
                            .step = p[0].v.step};
    measure(l, p, n);
    uint32_t members = l->pair && (l->pair - 1) / (l->n_members ? l->n_members : 1) !=
                                      (l->pair - 1) % (l->n_members ? l->n_members : 1)
                           ? 2
                           : l->n_members;
    for (size_t i = 0; i < n; i++) {
        int64_t u = error_of(m, l->last_worker, p[i].worker, l->last_ns);
        l->u_ns = u > l->u_ns ? u : l->u_ns;
        if (p[i].a.signature != l->signature)
            m->stats.n_mismatched += i > 0 && l->pair == 0 && l->confidence != HM_JOIN_ORDER;
    }
    if (n > 1 && l->u_ns > m->stats.error_max_ns)
        m->stats.error_max_ns = l->u_ns;
    /* clocks that were never compared: who waited for whom cannot be said from them */
    int blind = l->u_ns > UINT32_MAX;
    uint16_t flags = (uint16_t)(n > 1 && !blind ? HM_ANNOT_MATCHED : 0);
    if (n < members)
        flags |= HM_ANNOT_PARTIAL;
    for (size_t i = 0; i < n; i++) {
        p[i].v.flags = (uint16_t)(flags | (p[i].v.flags & HM_ANNOT_HOLES));
        p[i].v.u_ns = saturate(l->u_ns);
        p[i].keep = 0;
    }
    if (n >= expected) {
        l->flags |= HM_LAUNCH_COMPLETE;
        m->stats.n_complete++;
    }
    if (!l->pair && is_synchronous(l->func))
        decide_synchronous(m, l, p, n);
    else
        decide_one_sided(m, l, p, n);
    m->stats.n_launches++;
    m->stats.source = l->source > m->stats.source ? l->source : m->stats.source;
    m->stats.confidence = l->confidence > m->stats.confidence ? l->confidence : m->stats.confidence;
}

static size_t expected_of(const struct hm_match *m, const struct hm_match_comm *c,
                          const struct hm_part *p)
{
    if (!c)
        return 1;
    if (!p->a.pair || !c->n_members)
        return c->n_present;
    uint32_t src = (p->a.pair - 1) / c->n_members, dst = (p->a.pair - 1) % c->n_members;
    if (src == dst)
        return c->n_present;
    if (!m->in.member)
        return c->n_present < 2 ? c->n_present : 2;
    size_t n = 0;
    n += m->in.member(m->in.ctx, p->a.comm, src) != HM_NO_ID;
    n += m->in.member(m->in.ctx, p->a.comm, dst) != HM_NO_ID;
    return n;
}

size_t hm_match_window(struct hm_match *m, struct hm_part *p, size_t n, int last,
                       struct hm_launch *launch_p, size_t cap)
{
    size_t n_launches = 0;
    if (n) /* a run without any arrival has no array either */
        qsort(p, n, sizeof(*p), by_key);
    /* two passes: completeness first, it says which incomplete keys are hopeless */
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0, end; i < n; i = end) {
            for (end = i + 1; end < n && same_key(&p[end], &p[i]);)
                end++;
            uint32_t ic = comm_index(m, p[i].a.comm);
            const struct hm_match_comm *c = ic == HM_NO_ID ? NULL : &m->in.comm[ic];
            size_t expected = expected_of(m, c, &p[i]);
            int complete = end - i >= expected;
            if (!pass) {
                if (complete && c && !p[i].a.pair && p[i].a.seq >= m->complete_to[ic])
                    m->complete_to[ic] = p[i].a.seq + 1;
                continue;
            }
            int hopeless =
                c && !complete && m->complete_to[ic] > p[i].a.seq + (uint32_t)GIVE_UP_AFTER;
            if ((!complete && !last && !hopeless) || n_launches == cap) {
                for (size_t k = i; k < end; k++)
                    p[k].keep = 1;
                continue;
            }
            struct hm_launch *l = &launch_p[n_launches++];
            decide(m, l, p + i, end - i, c, (uint32_t)expected);
            l->i_part = (uint32_t)i;
        }
    }
    qsort(launch_p, n_launches, sizeof(*launch_p), by_last);
    return n_launches;
}
