/* Match: arrivals of all workers -> launches, window by window; annotations go home.
 *
 * Box: merge/engine. A moving front over all workers: each window holds the rows that began before
 * the earliest unread row of any worker.
 */
#include "engine/more.h"

#include <stdlib.h>
#include <string.h>

enum { WINDOW_ROWS = 65536 };

struct front {            /* of one worker */
    uint64_t next;        /* row to read next */
    struct hm_part *part; /* [n_read], read but not yet in a window */
    uint32_t n, cap;
};
struct sweep {
    struct hm_engine *e;
    struct front *front;
    struct hm_part *window;
    size_t n_kept, cap;
    uint32_t block; /* rows read at a time per worker */
};

static int64_t pair_error(void *ctx, uint32_t a, uint32_t b, int64_t t_ns)
{
    const struct hm_engine *e = ctx;
    const uint32_t *domain = e->more->domain_of_worker;
    if (!e->more->align || domain[a] == domain[b])
        return 0;
    return hm_align_pair_eps(e->more->align, domain[a], domain[b], t_ns);
}

static hm_status_t refill(struct sweep *s, uint32_t worker)
{
    struct front *f = &s->front[worker];
    const struct hm_span *span = &s->e->of_rank[worker];
    struct hm_arrival *a = malloc(s->block * sizeof(*a));
    struct hm_annot *v = malloc(s->block * sizeof(*v));
    struct hm_part *p = realloc(f->part, (f->n + s->block) * sizeof(*p));
    hm_status_t st = a && v && p ? HM_OK : HM_E_NOMEM;
    if (p)
        f->part = p;
    if (st == HM_OK) {
        size_t n = hm_engine_arrivals(s->e, worker, f->next, a, v, s->block);
        if (!n && f->next < span->n)
            st = HM_E_IO;
        for (size_t i = 0; i < n; i++)
            p[f->n++] = (struct hm_part){.a = a[i],
                                         .v = v[i],
                                         .worker = worker,
                                         .i_arrival = (uint32_t)(f->next + i),
                                         .i_segment = HM_NO_ID};
        f->next += n;
    }
    free(a);
    free(v);
    return st;
}

/* Fills the window with all rows up to the common front; *last_p when nothing is left. */
static hm_status_t next_window(struct sweep *s, size_t *n_p, int *last_p)
{
    struct hm_engine *e = s->e;
    int64_t limit = INT64_MAX;
    for (uint32_t w = 0; w < e->run.n_workers; w++) {
        struct front *f = &s->front[w];
        if (!f->n && f->next < e->of_rank[w].n) {
            hm_status_t st = refill(s, w);
            if (st)
                return st;
        }
        if (f->next < e->of_rank[w].n && f->part[f->n - 1].a.start_ns < limit)
            limit = f->part[f->n - 1].a.start_ns;
    }
    size_t n = s->n_kept;
    *last_p = 1;
    for (uint32_t w = 0; w < e->run.n_workers; w++) {
        struct front *f = &s->front[w];
        uint32_t k = 0;
        while (k < f->n && f->part[k].a.start_ns <= limit)
            k++;
        if (n + k > s->cap) {
            size_t cap = 2 * (n + k);
            struct hm_part *p = realloc(s->window, cap * sizeof(*p));
            if (!p)
                return HM_E_NOMEM;
            s->window = p;
            s->cap = cap;
        }
        if (k) {
            memcpy(s->window + n, f->part, k * sizeof(*f->part));
            memmove(f->part, f->part + k, (f->n - k) * sizeof(*f->part));
            f->n -= k;
        }
        n += k;
        if (f->n || f->next < e->of_rank[w].n)
            *last_p = 0;
    }
    *n_p = n;
    return HM_OK;
}

/* The matched launches of one window: parts and launches to their spools, annotations home. */
static hm_status_t store_window(struct sweep *s, size_t n, struct hm_launch *launch,
                                size_t n_launches)
{
    struct hm_engine *e = s->e;
    hm_status_t st = HM_OK;
    for (size_t l = 0; l < n_launches && st == HM_OK; l++) {
        uint64_t first = hm_spool_count(e->more->part);
        st = hm_spool_append(e->more->part, s->window + launch[l].i_part, launch[l].n_present);
        launch[l].i_part = (uint32_t)first;
        if (st == HM_OK)
            st = hm_spool_append(e->more->launch, &launch[l], 1);
    }
    size_t kept = 0;
    for (size_t i = 0; i < n && st == HM_OK; i++) {
        struct hm_part *p = &s->window[i];
        if (p->keep) {
            p->keep = 0;
            s->window[kept++] = *p;
        } else {
            st = hm_spool_write(e->annot, e->of_rank[p->worker].first + p->i_arrival, &p->v, 1);
        }
    }
    s->n_kept = kept;
    return st;
}

static int by_lone(const void *a, const void *b)
{
    const struct hm_lone_comm *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return (x->worker > y->worker) - (x->worker < y->worker);
}

static int by_key(const void *a, const void *b)
{
    const struct hm_match_comm *x = a, *y = b;
    return (x->key > y->key) - (x->key < y->key);
}

/* Members = those that used it: nothing else is known about a communicator known by order. */
static hm_status_t lone_comms(struct hm_engine *e)
{
    struct hm_engine_more *m = e->more;
    if (m->n_lone)
        qsort(m->lone, m->n_lone, sizeof(*m->lone), by_lone);
    for (size_t i = 0, end; i < m->n_lone; i = end) {
        for (end = i + 1; end < m->n_lone && m->lone[end].key == m->lone[i].key;)
            end++;
        uint32_t *member = malloc((end - i) * sizeof(*member)), n = 0;
        if (!member)
            return HM_E_NOMEM;
        for (size_t k = i; k < end; k++)
            if (!n || member[n - 1] != m->lone[k].worker)
                member[n++] = m->lone[k].worker;
        m->comm[m->n_comms++] = (struct hm_match_comm){m->lone[i].key, n, n, member};
    }
    return HM_OK;
}

static hm_status_t match_comms(struct hm_engine *e, struct hm_match_in *in)
{
    struct hm_engine_more *m = e->more;
    m->comm = calloc(e->run.n_comms + m->n_lone + 1, sizeof(*m->comm));
    if (!m->comm)
        return HM_E_NOMEM;
    for (uint32_t i = 0; i < e->run.n_comms; i++) {
        const struct hm_comm *from = &e->run.comm[i];
        uint32_t *member = malloc((from->n_seen + 1) * sizeof(*member)), n = 0;
        if (!member)
            return HM_E_NOMEM;
        for (uint32_t k = 0; k < from->n_ranks; k++)
            if (from->worker[k] != HM_NO_ID && !m->bad[from->worker[k]])
                member[n++] = from->worker[k];
        m->comm[m->n_comms++] = (struct hm_match_comm){from->key, from->n_ranks, n, member};
    }
    hm_status_t s = lone_comms(e);
    qsort(m->comm, m->n_comms, sizeof(*m->comm), by_key);
    in->comm = m->comm;
    in->n_comms = m->n_comms;
    return s;
}

static uint32_t member_of(void *ctx, uint64_t comm, uint32_t crank)
{
    const struct hm_engine *e = ctx;
    uint32_t lo = 0, hi = e->run.n_comms;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (e->run.comm[mid].key < comm)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo == e->run.n_comms || e->run.comm[lo].key != comm || crank >= e->run.comm[lo].n_ranks)
        return HM_NO_ID;
    return e->run.comm[lo].worker[crank];
}

hm_status_t hm_engine_match(struct hm_engine *e)
{
    struct hm_match_in in = {.ctx = e, .error = pair_error, .member = member_of};
    struct hm_match *match = NULL;
    struct sweep s = {.e = e, .block = WINDOW_ROWS / (e->run.n_workers + 1) + 16};
    hm_status_t st = match_comms(e, &in);
    s.front = calloc(e->run.n_workers + 1, sizeof(*s.front));
    if (st == HM_OK)
        st = s.front ? hm_match_create(&in, &match) : HM_E_NOMEM;
    int last = 0;
    while (st == HM_OK && !last) {
        size_t n = 0;
        st = next_window(&s, &n, &last);
        struct hm_launch *launch = st ? NULL : malloc((n + 1) * sizeof(*launch));
        if (st == HM_OK && !launch)
            st = HM_E_NOMEM;
        if (st == HM_OK) {
            size_t n_launches = hm_match_window(match, s.window, n, last, launch, n);
            st = store_window(&s, n, launch, n_launches);
        }
        free(launch);
    }
    if (st == HM_OK)
        hm_match_stats(match, &e->more->match);
    for (uint32_t w = 0; s.front && w < e->run.n_workers; w++)
        free(s.front[w].part);
    free(s.front);
    free(s.window);
    hm_match_destroy(match);
    return st;
}
