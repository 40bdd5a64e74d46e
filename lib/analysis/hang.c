/* Progress of all members -> what is stuck, and on whom.
 *
 * Box: lib/analysis. Pure. One thread.
 */
#include "analysis/hang.h"

#include <stdlib.h>
#include <string.h>

/* Waiting this long is no hiccup (facts on analysis 2.14); at least ten times what lies between
 * calls in 99 of 100 cases. */
static const int64_t AGE_NS = INT64_C(30000000000);
enum { USUAL = 10 };
/* A rank that is known to have died needs no such patience: launchers take the others down within
 * a second or so, and until then they waited for it. */
static const int64_t AGE_DEAD_NS = INT64_C(1000000000);
enum { USUAL_DEAD = 2 };

/* --- one worker on one communicator ------------------------------------------------------------
 */

void hm_progress_event(struct hm_progress *p, const struct hm_event *ev)
{
    uint32_t call = ev->u.op.call;
    if (call == HM_NO_ID || (call & HM_CALL_P2P) || (ev->flags & HM_EVF_BAD_TIME))
        return;
    uint32_t i = call % HM_PROGRESS_CALLS;
    if (p->n_called && ev->t_ns > p->last_ns) {
        unsigned b = 0;
        for (uint64_t ns = (uint64_t)ev->t_ns - (uint64_t)p->last_ns;
             ns > 1 && b + 1 < HM_PROGRESS_BUCKETS; ns >>= 1)
            b++;
        if (p->gap[b] == UINT16_MAX)
            for (int k = 0; k < HM_PROGRESS_BUCKETS; k++)
                p->gap[k] /= 2;
        p->gap[b]++;
    }
    if (!p->n_called || ev->t_ns > p->last_ns)
        p->last_ns = ev->t_ns;
    if (call + 1 > p->n_called)
        p->n_called = call + 1;
    if (p->call[i].call == call && p->call[i].t_ns)
        return; /* told twice */
    p->call[i].t_ns = ev->t_ns;
    p->call[i].call = call;
    p->call[i].sig = (struct hm_sig){.count = ev->u.op.count,
                                     .root = ev->u.op.peer,
                                     .func = (uint8_t)(ev->aux & 0xff),
                                     .dtype = (uint8_t)(ev->aux >> 8)};
}

/* Between calls there lies at most this in 99 of 100 cases, to the next power of two. */
static int64_t usual_gap(const struct hm_progress *p)
{
    uint64_t n = 0, seen = 0;
    for (int b = 0; b < HM_PROGRESS_BUCKETS; b++)
        n += p->gap[b];
    for (int b = 0; b < HM_PROGRESS_BUCKETS; b++) {
        seen += p->gap[b];
        if (n && seen * 100 >= n * 99)
            return INT64_C(1) << (b + 1);
    }
    return 0;
}

static int64_t called_at(const struct hm_progress *p, uint32_t call)
{
    const int i = (int)(call % HM_PROGRESS_CALLS);
    if (p->call[i].t_ns && p->call[i].call == call)
        return p->call[i].t_ns;
    return p->n_open != HM_NO_ID && p->n_open ? p->open_ns : p->last_ns;
}

/* --- communicators -----------------------------------------------------------------------------
 */

static int by_comm(const void *x, const void *y)
{
    const struct hm_progress *p = x, *q = y;
    if (p->comm != q->comm)
        return p->comm < q->comm ? -1 : 1;
    return (p->worker > q->worker) - (p->worker < q->worker);
}

static int by_age(const void *x, const void *y)
{
    const struct hm_hang *p = x, *q = y;
    if (p->age_ns != q->age_ns)
        return p->age_ns > q->age_ns ? -1 : 1;
    return (p->comm > q->comm) - (p->comm < q->comm);
}

/* The lowest collective that is not complete. What members alive have not seen run is open on all;
 * a dead one's last kernels may not have been recorded, so that its word does not count. Where
 * kernels are not recorded, the lowest that some member has not called. */
static uint32_t lowest_open(const struct hm_progress *p, size_t n, const struct hm_alive *alive)
{
    uint32_t called = HM_NO_ID, done = HM_NO_ID;
    for (size_t i = 0; i < n; i++) {
        called = p[i].n_called < called ? p[i].n_called : called;
        if (p[i].n_open == HM_NO_ID || !p[i].n_open || alive[p[i].worker].left == HM_LEFT_DIED)
            continue;
        uint32_t d = p[i].n_called - (p[i].n_open < p[i].n_called ? p[i].n_open : p[i].n_called);
        done = d < done ? d : done;
    }
    return done < called ? done : called;
}

static void look_at(struct hm_hang *h, const struct hm_progress *p, size_t n,
                    const struct hm_alive *alive)
{
    int64_t limit = 0;
    int dead = 0;
    *h = (struct hm_hang){.comm = p[0].comm, .of = p[0].of, .seq = lowest_open(p, n, alive)};
    for (size_t i = 0; i < n; i++) {
        if (p[i].n_called <= h->seq) {
            if (h->n_missing < HM_HANG_MISSING)
                h->missing[h->n_missing] = p[i].worker;
            h->n_missing++;
            dead |= alive[p[i].worker].left == HM_LEFT_DIED;
        }
        int64_t usual = usual_gap(&p[i]);
        limit = usual > limit ? usual : limit;
    }
    limit = dead ? (USUAL_DEAD * limit > AGE_DEAD_NS ? USUAL_DEAD * limit : AGE_DEAD_NS)
                 : (USUAL * limit > AGE_NS ? USUAL * limit : AGE_NS);
    for (size_t i = 0; i < n; i++) {
        const struct hm_progress *q = &p[i];
        const struct hm_alive *a = &alive[q->worker];
        int unknown = q->n_open == HM_NO_ID;
        if (q->n_called <= h->seq || (!unknown && !q->n_open))
            continue; /* missing, or it ran here */
        if (unknown && a->left == HM_LEFT_CLEAN)
            continue; /* nothing says that it did not run */
        int64_t since = called_at(q, h->seq);
        for (uint32_t k = 0; dead && k < h->n_missing && k < HM_HANG_MISSING; k++)
            if (alive[h->missing[k]].left == HM_LEFT_DIED && alive[h->missing[k]].last_ns > since)
                since = alive[h->missing[k]].last_ns; /* until then it could still have come */
        /* hostile times: never beyond the largest */
        uint64_t apart = a->last_ns > since ? (uint64_t)a->last_ns - (uint64_t)since : 0;
        int64_t age = apart > INT64_MAX ? INT64_MAX : (int64_t)apart;
        h->n_waiting++;
        if (age > h->age_ns) {
            h->age_ns = age;
            h->sig = q->call[h->seq % HM_PROGRESS_CALLS].call == h->seq
                         ? q->call[h->seq % HM_PROGRESS_CALLS].sig
                         : (struct hm_sig){.func = q->func};
        }
    }
    h->n_absent = p[0].n_members > n ? (uint32_t)(p[0].n_members - n) : 0;
    h->in_flight = !h->n_missing;
    if (h->age_ns <= limit)
        h->n_waiting = 0; /* no hang */
}

/* --- the wait-for graph ------------------------------------------------------------------------
 */

/* Which stuck communicator holds each worker: the one whose open collective it called first. */
static void held_by(const struct hm_progress *p, size_t n, const struct hm_hangs *hangs,
                    uint32_t *held, int64_t *since, uint32_t n_workers)
{
    for (uint32_t w = 0; w < n_workers; w++)
        held[w] = HM_NO_ID;
    for (size_t i = 0; i < n; i++)
        for (size_t h = 0; h < hangs->n; h++) {
            const struct hm_hang *g = &hangs->hang[h];
            uint32_t w = p[i].worker;
            if (g->comm != p[i].comm || p[i].n_called <= g->seq)
                continue;
            int64_t t = called_at(&p[i], g->seq);
            if (held[w] == HM_NO_ID || t < since[w]) {
                held[w] = (uint32_t)h;
                since[w] = t;
            }
        }
}

/* Can `from` be reached from itself over the edges held -> missing? */
static int in_cycle(const struct hm_hangs *hangs, const uint32_t *held, uint32_t from,
                    uint32_t *stack, uint8_t *seen, uint32_t n_workers)
{
    uint32_t n = 0;
    memset(seen, 0, n_workers);
    stack[n++] = from;
    while (n) {
        uint32_t w = stack[--n];
        if (held[w] == HM_NO_ID)
            continue;
        const struct hm_hang *h = &hangs->hang[held[w]];
        for (uint32_t k = 0; k < h->n_missing && k < HM_HANG_MISSING; k++) {
            uint32_t m = h->missing[k];
            if (m == from)
                return 1;
            if (!seen[m]) {
                seen[m] = 1;
                stack[n++] = m;
            }
        }
    }
    return 0;
}

static hm_status_t graph(const struct hm_progress *p, size_t n, const struct hm_alive *alive,
                         uint32_t n_workers, struct hm_hangs *hangs)
{
    uint32_t *held = malloc((n_workers + 1) * sizeof(*held));
    int64_t *since = malloc((n_workers + 1) * sizeof(*since));
    uint32_t *stack = malloc((n_workers + 1) * sizeof(*stack));
    uint8_t *seen = calloc(n_workers + 1, 1), *missing = calloc(n_workers + 1, 1);
    hangs->root = malloc((n_workers + 1) * sizeof(*hangs->root));
    hangs->cycle = malloc((n_workers + 1) * sizeof(*hangs->cycle));
    int ok = held && since && stack && seen && missing && hangs->root && hangs->cycle;
    if (ok) {
        held_by(p, n, hangs, held, since, n_workers);
        for (size_t h = 0; h < hangs->n; h++)
            for (uint32_t k = 0; k < hangs->hang[h].n_missing && k < HM_HANG_MISSING; k++)
                missing[hangs->hang[h].missing[k]] = 1;
        for (uint32_t w = 0; w < n_workers; w++) {
            if (!missing[w])
                continue;
            if (held[w] == HM_NO_ID)
                hangs->root[hangs->n_roots++] = w;
            else if (in_cycle(hangs, held, w, stack, seen, n_workers))
                hangs->cycle[hangs->n_cycle++] = w;
        }
    }
    /* A death is a fact; a rank alive that merely was not seen to call waits for something unseen.
     */
    uint32_t n_dead = 0;
    for (size_t i = 0; ok && i < hangs->n_roots; i++)
        n_dead += alive[hangs->root[i]].left == HM_LEFT_DIED;
    for (size_t i = 0, k = 0; n_dead && i < hangs->n_roots; i++)
        if (alive[hangs->root[i]].left == HM_LEFT_DIED)
            hangs->root[k++] = hangs->root[i];
    hangs->n_roots = n_dead ? n_dead : hangs->n_roots;
    free(held);
    free(since);
    free(stack);
    free(seen);
    free(missing);
    return ok ? HM_OK : hm_fail(HM_E_NOMEM, "judge", "out of memory");
}

hm_status_t hm_hang_find(struct hm_progress *p, size_t n, const struct hm_alive *alive,
                         uint32_t n_workers, struct hm_hangs *hangs)
{
    *hangs = (struct hm_hangs){0};
    if (!n)
        return HM_OK;
    qsort(p, n, sizeof(*p), by_comm);
    for (size_t i = 0, end; i < n; i = end) {
        struct hm_hang h;
        for (end = i + 1; end < n && p[end].comm == p[i].comm;)
            end++;
        look_at(&h, p + i, end - i, alive);
        if (!h.n_waiting)
            continue;
        struct hm_hang *v = realloc(hangs->hang, (hangs->n + 1) * sizeof(*v));
        if (!v) {
            hm_hang_clear(hangs);
            return hm_fail(HM_E_NOMEM, "judge", "out of memory");
        }
        hangs->hang = v;
        v[hangs->n++] = h;
    }
    if (!hangs->n)
        return HM_OK;
    qsort(hangs->hang, hangs->n, sizeof(*hangs->hang), by_age);
    hm_status_t st = graph(p, n, alive, n_workers, hangs);
    if (st != HM_OK)
        hm_hang_clear(hangs);
    return st;
}

void hm_hang_clear(struct hm_hangs *hangs)
{
    free(hangs->hang);
    free(hangs->root);
    free(hangs->cycle);
    *hangs = (struct hm_hangs){0};
}
