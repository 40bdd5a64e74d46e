/* Kernels that synchronise and are not NCCL's: suspected while collecting, compared over the
 * workers, then added to the arrivals.
 *
 * Box: merge/engine. Two more scans of the kernels, only where a kernel is suspected. Memory: 24
 * bytes a kernel of one rank; at most SUSPECTS x 32 instances a worker.
 */
#include "engine/infer.h"

#include "analysis/infer.h"
#include "analysis/join.h"

#include <stdlib.h>
#include <string.h>

enum { SUSPECTS = 8, DEVICES = 64, MAX_SLOTS = 1 << 16 };

struct hm_suspect {
    uint64_t key;
    int64_t sum_ns;
    uint32_t kernel, n_series;
    struct hm_infer_series *series; /* one a worker that runs it */
    uint32_t *group;
};
struct count {
    uint64_t key;
    int64_t min_ns, max_ns, sum_ns;
    int64_t least_ns, most_ns, sum_means_ns; /* of the means of the workers, when joined */
    uint32_t n, kernel;                      /* n when joined: of a worker at least */
    uint32_t n_workers, pad;
};
struct hm_engine_counts {
    struct count *slot;
    uint32_t n, n_slots;
    int64_t all_ns;
};

static uint64_t key_of(const struct hm_event *ev)
{
    const struct hm_ev_kernel *k = &ev->u.kernel;
    uint64_t key = k->kernel + UINT64_C(0x9E3779B97F4A7C15);
    for (int i = 0; i < 3; i++) {
        key = (key ^ k->grid[i]) * UINT64_C(0xBF58476D1CE4E5B9);
        key ^= key >> 29;
    }
    return key ? key : 1;
}

hm_status_t hm_engine_counts_create(struct hm_engine_counts **counts_p)
{
    struct hm_engine_counts *c = calloc(1, sizeof(*c));
    if (c)
        c->slot = calloc(c->n_slots = 256, sizeof(*c->slot));
    if (!c || !c->slot) {
        free(c);
        return HM_E_NOMEM;
    }
    *counts_p = c;
    return HM_OK;
}

void hm_engine_counts_destroy(struct hm_engine_counts *c)
{
    if (c)
        free(c->slot);
    free(c);
}

static struct count *slot_of(struct count *slot, uint32_t n_slots, uint64_t key)
{
    uint32_t h = (uint32_t)key & (n_slots - 1);
    while (slot[h].key && slot[h].key != key)
        h = (h + 1) & (n_slots - 1);
    return &slot[h];
}

void hm_engine_count(struct hm_engine_counts *c, const struct hm_event *ev)
{
    uint64_t key = key_of(ev);
    struct count *s = slot_of(c->slot, c->n_slots, key);
    c->all_ns += ev->dur_ns;
    if (!s->key) {
        if (2 * c->n >= c->n_slots) {
            uint32_t n = 2 * c->n_slots;
            struct count *more = n > MAX_SLOTS ? NULL : calloc(n, sizeof(*more));
            if (!more)
                return; /* more kernels than any model has: these are not looked at */
            for (uint32_t i = 0; i < c->n_slots; i++)
                if (c->slot[i].key)
                    *slot_of(more, n, c->slot[i].key) = c->slot[i];
            free(c->slot);
            c->slot = more;
            c->n_slots = n;
            s = slot_of(more, n, key);
        }
        *s = (struct count){.key = key, .min_ns = ev->dur_ns, .kernel = ev->u.kernel.kernel};
        c->n++;
    }
    s->n++;
    s->sum_ns += ev->dur_ns;
    s->min_ns = ev->dur_ns < s->min_ns ? ev->dur_ns : s->min_ns;
    s->max_ns = ev->dur_ns > s->max_ns ? ev->dur_ns : s->max_ns;
}

static struct hm_suspect *suspect_of(struct hm_engine *e, uint64_t key)
{
    for (uint32_t i = 0; i < e->more->n_suspects; i++)
        if (e->more->suspect[i].key == key)
            return &e->more->suspect[i];
    return NULL;
}

/* Joins the counts of a worker into those of all: shortest and longest over all of them, so that a
 * kernel also varies that is always short on one worker and always long on the others. */
static hm_status_t join_counts(struct hm_engine_counts *all, const struct hm_engine_counts *c)
{
    for (uint32_t i = 0; i < c->n_slots; i++) {
        const struct count *q = &c->slot[i];
        if (!q->key)
            continue;
        if (2 * all->n >= all->n_slots) {
            uint32_t n = 2 * all->n_slots;
            struct count *more = n > MAX_SLOTS ? NULL : calloc(n, sizeof(*more));
            if (!more)
                return HM_OK;
            for (uint32_t k = 0; k < all->n_slots; k++)
                if (all->slot[k].key)
                    *slot_of(more, n, all->slot[k].key) = all->slot[k];
            free(all->slot);
            all->slot = more;
            all->n_slots = n;
        }
        struct count *s = slot_of(all->slot, all->n_slots, q->key);
        int64_t mean = q->sum_ns / q->n;
        if (!s->key) {
            *s = *q;
            s->least_ns = s->most_ns = mean;
            all->n++;
        }
        s->n_workers++;
        s->sum_means_ns += mean;
        s->least_ns = mean < s->least_ns ? mean : s->least_ns;
        s->most_ns = mean > s->most_ns ? mean : s->most_ns;
        s->n = q->n < s->n ? q->n : s->n;
        s->min_ns = q->min_ns < s->min_ns ? q->min_ns : s->min_ns;
        s->max_ns = q->max_ns > s->max_ns ? q->max_ns : s->max_ns;
        s->sum_ns = q->sum_ns > s->sum_ns ? q->sum_ns : s->sum_ns;
    }
    all->all_ns = c->all_ns > all->all_ns ? c->all_ns : all->all_ns;
    return HM_OK;
}

hm_status_t hm_engine_suspect(struct hm_engine *e, const struct hm_engine_counts *counts)
{
    struct hm_engine_more *m = e->more;
    hm_status_t s = m->counts ? HM_OK : hm_engine_counts_create(&m->counts);
    return s == HM_OK ? join_counts(m->counts, counts) : s;
}

static const char *name_of(const struct hm_engine *e, uint32_t kernel)
{
    const void *p = NULL;
    uint32_t len = 0;
    struct hm_def_kernel k;
    if (hm_defs_get(&e->run.names, HM_DEF_KERNEL, kernel, &p, &len) != HM_OK || len != sizeof(k))
        return "";
    memcpy(&k, p, sizeof(k));
    return hm_run_string(&e->run, k.name);
}

static int by_sum(const void *x, const void *y)
{
    const struct hm_suspect *p = x, *q = y;
    if (p->sum_ns != q->sum_ns)
        return p->sum_ns > q->sum_ns ? -1 : 1;
    return (p->key > q->key) - (p->key < q->key);
}

/* The suspects with the most time. */
static hm_status_t choose_suspects(struct hm_engine *e)
{
    struct hm_engine_more *m = e->more;
    const struct hm_engine_counts *c = m->counts;
    if (!c || !(m->suspect = calloc(c->n + 1, sizeof(*m->suspect))))
        return c ? HM_E_NOMEM : HM_OK;
    for (uint32_t i = 0; i < c->n_slots; i++) {
        const struct count *q = &c->slot[i];
        const char *name = q->key ? name_of(e, q->kernel) : "";
        const struct hm_infer_durations d = {q->n,      q->n_workers, q->min_ns,  q->max_ns,
                                             q->sum_ns, q->least_ns,  q->most_ns, q->sum_means_ns};
        if (q->key && !hm_is_nccl_kernel(name) && hm_infer_suspect(name, &d, c->all_ns))
            m->suspect[m->n_suspects++] =
                (struct hm_suspect){.key = q->key, .sum_ns = q->sum_ns, .kernel = q->kernel};
    }
    if (m->n_suspects)
        qsort(m->suspect, m->n_suspects, sizeof(*m->suspect), by_sum);
    m->n_suspects = m->n_suspects < SUSPECTS ? m->n_suspects : SUSPECTS;
    return HM_OK;
}

/* ---- the scans ---- */

typedef hm_status_t (*on_kernel_t)(struct hm_engine *e, uint32_t worker, struct hm_suspect *s,
                                   const struct hm_event *ev, void *ctx);
struct visit {
    on_kernel_t fn;
    hm_status_t (*end)(struct hm_engine *e, uint32_t first, uint32_t n, void *ctx);
    void *ctx;
};

/* Suspected kernels of one rank, in order of start. */
static hm_status_t visit_rank(struct hm_engine *e, uint32_t rank, struct hm_rank *r, void *ctx)
{
    const struct visit *v = ctx;
    struct hm_engine_rank x = {e, r};
    struct hm_batch b;
    uint32_t first = 0, n = 0;
    while (first < e->run.n_workers && e->run.worker[first].rank != rank)
        first++;
    while (first + n < e->run.n_workers && e->run.worker[first + n].rank == rank)
        n++;
    hm_status_t s;
    while ((s = hm_rank_next(r, &b)) == HM_OK)
        for (uint32_t i = 0; i < b.n; i++) {
            const struct hm_event *ev = &b.ev[i];
            uint32_t type, device, stream;
            if (ev->kind != HM_EV_KERNEL || ev->flags & HM_EVF_BAD_TIME || ev->dur_ns < 0)
                continue;
            struct hm_suspect *q = suspect_of(e, key_of(ev));
            if (!q || !hm_engine_track(&x, ev->track, &type, &device, &stream))
                continue;
            for (uint32_t w = first; w < first + n; w++)
                if (e->run.worker[w].device == device && (s = v->fn(e, w, q, ev, v->ctx)))
                    return s;
        }
    if (s != HM_END)
        return s;
    return v->end ? v->end(e, first, n, v->ctx) : HM_OK;
}

static hm_status_t keep_instance(struct hm_engine *e, uint32_t worker, struct hm_suspect *s,
                                 const struct hm_event *ev, void *ctx)
{
    (void)e, (void)ctx;
    uint32_t i = s->n_series, back = 0;
    while (i && back++ < DEVICES && s->series[i - 1].worker != worker)
        i--;
    if (!i || s->series[i - 1].worker != worker) {
        struct hm_infer_series *v = realloc(s->series, (s->n_series + 1) * sizeof(*v));
        if (!v)
            return HM_E_NOMEM;
        s->series = v;
        v[s->n_series] = (struct hm_infer_series){.worker = worker};
        i = ++s->n_series;
    }
    struct hm_infer_series *q = &s->series[i - 1];
    if (q->n < HM_INFER_KEEP) {
        q->start_ns[q->n] = ev->t_ns;
        q->end_ns[q->n] = ev->t_ns + ev->dur_ns;
    }
    q->n++;
    return HM_OK;
}

/* Candidates: everybody, then each communicator, then each host (of the rank of that index). */
static int is_member(void *ctx, size_t candidate, uint32_t worker)
{
    const struct hm_engine *e = ctx;
    const struct hm_run *run = &e->run;
    if (!candidate--)
        return 1;
    if (candidate < run->n_comms) {
        const struct hm_comm *c = &run->comm[candidate];
        for (uint32_t i = 0; i < c->n_ranks; i++)
            if (c->worker[i] == worker)
                return 1;
        return 0;
    }
    candidate -= run->n_comms;
    for (uint32_t i = 0; i < run->n_present; i++)
        if (run->rank[i].rank == (int32_t)run->worker[worker].rank)
            return !strcmp(run->rank[i].host, run->rank[candidate].host);
    return 0;
}

static hm_status_t name_group(struct hm_engine *e, const struct hm_suspect *s, uint32_t group,
                              uint64_t *key_p)
{
    struct hm_engine_more *m = e->more;
    *key_p = hm_comm_key(s->key ^ UINT64_C(0x696e666572), group + 1);
    for (uint32_t i = 0; i < m->n_inferred; i++)
        if (m->inferred[i].comm == *key_p)
            return HM_OK;
    struct hm_inferred *v = realloc(m->inferred, (m->n_inferred + 1) * sizeof(*v));
    if (!v)
        return HM_E_NOMEM;
    m->inferred = v;
    v[m->n_inferred++] = (struct hm_inferred){*key_p, name_of(e, s->kernel)};
    return HM_OK;
}

/* ---- arrivals of what was found ---- */

struct found {
    struct hm_spool *arrival, *annot; /* all rows again */
    struct hm_span *span;
    struct hm_part *part; /* of the rank that is read */
    size_t n, cap;
    uint32_t seq[SUSPECTS][DEVICES];
};

static uint32_t group_of(const struct hm_suspect *s, uint32_t worker)
{
    for (uint32_t i = 0; i < s->n_series; i++)
        if (s->series[i].worker == worker)
            return s->group[i];
    return UINT32_MAX;
}

static uint32_t step_at(const struct hm_engine *e, uint32_t worker, int64_t t)
{
    const struct hm_step_window *w = e->more->window[worker];
    for (size_t lo = 0, hi = e->more->n_windows[worker]; lo < hi;) {
        size_t mid = lo + (hi - lo) / 2;
        if (t < w[mid].t0_ns)
            hi = mid;
        else if (t >= w[mid].t1_ns)
            lo = mid + 1;
        else
            return w[mid].step;
    }
    return HM_NO_ID;
}

static hm_status_t add_arrival(struct hm_engine *e, uint32_t worker, struct hm_suspect *s,
                               const struct hm_event *ev, void *ctx)
{
    struct found *f = ctx;
    uint32_t group = group_of(s, worker);
    uint64_t comm = 0;
    if (group == UINT32_MAX)
        return HM_OK;
    if (f->n == f->cap) {
        size_t cap = f->cap ? 2 * f->cap : 256;
        struct hm_part *p = realloc(f->part, cap * sizeof(*p));
        if (!p)
            return HM_E_NOMEM;
        f->part = p;
        f->cap = cap;
    }
    hm_status_t st = name_group(e, s, group, &comm);
    if (st)
        return st;
    struct hm_part *p = &f->part[f->n++];
    *p = (struct hm_part){.worker = worker};
    p->a = (struct hm_arrival){.comm = comm,
                               .seq = f->seq[s - e->more->suspect][worker % DEVICES]++,
                               .start_ns = ev->t_ns,
                               .end_ns = ev->t_ns + ev->dur_ns,
                               .host_ns = HM_NONE(HM_NONE_NOT_RECORDED),
                               .launch_end_ns = HM_NONE(HM_NONE_NOT_RECORDED),
                               .func = HM_NCCL_ALLTOALL,
                               .signature = HM_NCCL_ALLTOALL,
                               .n_ops = 1,
                               .source = HM_ARRIVAL_KERNEL,
                               .confidence = HM_JOIN_ORDER};
    p->v.step = step_at(e, worker, ev->t_ns);
    p->v.last_worker = HM_NO_ID;
    p->v.device =
        (uint8_t)(e->run.worker[worker].device < 255 ? e->run.worker[worker].device : 255);
    return HM_OK;
}

/* The rows of one worker again, with those that were found, in order of start. */
static hm_status_t merge_rows(struct hm_engine *e, struct found *f, uint32_t worker,
                              const struct hm_part *part, size_t n)
{
    size_t n_old = (size_t)e->of_rank[worker].n, k = 0, i = 0, out = 0;
    struct hm_arrival *old = malloc((n_old + 1) * sizeof(*old));
    struct hm_annot *old_v = malloc((n_old + 1) * sizeof(*old_v));
    struct hm_arrival *a = malloc((n_old + n + 1) * sizeof(*a));
    struct hm_annot *v = malloc((n_old + n + 1) * sizeof(*v));
    hm_status_t s = old && old_v && a && v ? HM_OK : HM_E_NOMEM;
    if (s == HM_OK && n_old && hm_engine_arrivals(e, worker, 0, old, old_v, n_old) != n_old)
        s = HM_E_IO;
    while (s == HM_OK && (i < n_old || k < n)) {
        if (k == n || (i < n_old && old[i].start_ns <= part[k].a.start_ns)) {
            a[out] = old[i];
            v[out++] = old_v[i++];
        } else {
            a[out] = part[k].a;
            v[out++] = part[k++].v;
        }
    }
    if (s == HM_OK) {
        f->span[worker] = (struct hm_span){hm_spool_count(f->arrival), out};
        s = hm_spool_append(f->arrival, a, out);
    }
    if (s == HM_OK)
        s = hm_spool_append(f->annot, v, out);
    free(old);
    free(old_v);
    free(a);
    free(v);
    return s;
}

static hm_status_t end_rank(struct hm_engine *e, uint32_t first, uint32_t n_workers, void *ctx)
{
    struct found *f = ctx;
    struct hm_engine_more *m = e->more;
    hm_status_t s = HM_OK;
    struct hm_part *mine = malloc((f->n + 1) * sizeof(*mine));
    if (!mine)
        return HM_E_NOMEM;
    for (uint32_t w = first; w < first + n_workers && s == HM_OK; w++) {
        size_t n = 0;
        for (size_t i = 0; i < f->n && s == HM_OK; i++) {
            if (f->part[i].worker != w)
                continue;
            mine[n++] = f->part[i];
            int known = 0;
            for (size_t k = m->n_lone; k && !known && m->lone[k - 1].worker == w; k--)
                known = m->lone[k - 1].key == f->part[i].a.comm;
            struct hm_lone_comm *l = known ? NULL : realloc(m->lone, (m->n_lone + 1) * sizeof(*l));
            if (!known && !l) {
                s = HM_E_NOMEM;
            } else if (!known) {
                m->lone = l;
                l[m->n_lone++] = (struct hm_lone_comm){f->part[i].a.comm, w, 0};
            }
        }
        if (s == HM_OK)
            s = merge_rows(e, f, w, mine, n);
    }
    free(mine);
    f->n = 0;
    memset(f->seq, 0, sizeof(f->seq));
    return s;
}

/* All rows again, in new spools: rows of a worker lie together. */
static hm_status_t add_arrivals(struct hm_engine *e, const struct hm_query *q)
{
    struct found f = {.span = calloc(e->run.n_workers + 1, sizeof(*f.span))};
    struct visit add = {.fn = add_arrival, .end = end_rank, .ctx = &f};
    hm_status_t s = f.span ? hm_spool_create(sizeof(struct hm_arrival), &f.arrival) : HM_E_NOMEM;
    if (s == HM_OK)
        s = hm_spool_create(sizeof(struct hm_annot), &f.annot);
    if (s == HM_OK)
        s = hm_scan(e, q, visit_rank, &add);
    if (s == HM_OK) {
        struct hm_spool *arrival = e->arrival, *annot = e->annot;
        e->arrival = f.arrival;
        e->annot = f.annot;
        f.arrival = arrival;
        f.annot = annot;
        memcpy(e->of_rank, f.span, e->run.n_workers * sizeof(*f.span));
    }
    hm_spool_destroy(f.arrival);
    hm_spool_destroy(f.annot);
    free(f.span);
    free(f.part);
    return s;
}

hm_status_t hm_engine_infer(struct hm_engine *e)
{
    struct hm_engine_more *m = e->more;
    const struct hm_query q = {.kinds = UINT64_C(1) << HM_EV_KERNEL};
    struct visit keep = {.fn = keep_instance};
    size_t n_found = 0, n_candidates = (size_t)1 + e->run.n_comms + e->run.n_present;
    if ((uint64_t)n_candidates * e->run.n_workers > UINT64_C(1) << 24)
        n_candidates = 1; /* so many groups are not tried one by one: everybody, or nobody */
    hm_status_t s = e->run.n_workers < 2 ? HM_OK : choose_suspects(e);
    if (s != HM_OK || !m->n_suspects)
        return s;
    s = hm_scan(e, &q, visit_rank, &keep);
    for (uint32_t i = 0; i < m->n_suspects && s == HM_OK; i++) {
        struct hm_suspect *v = &m->suspect[i];
        uint32_t least = hm_infer_known(name_of(e, v->kernel)) ? HM_INFER_MIN_KNOWN : HM_INFER_MIN;
        v->group = malloc((v->n_series + 1) * sizeof(*v->group));
        if (!v->group)
            s = HM_E_NOMEM;
        else
            n_found += hm_infer_groups(v->series, v->n_series, least, n_candidates, is_member, e,
                                       v->group);
    }
    if (s == HM_OK && n_found)
        s = add_arrivals(e, &q);
    return s;
}

void hm_engine_infer_free(struct hm_engine_more *m)
{
    for (uint32_t i = 0; i < m->n_suspects; i++) {
        free(m->suspect[i].series);
        free(m->suspect[i].group);
    }
    hm_engine_counts_destroy(m->counts);
    free(m->suspect);
    free(m->inferred);
}
