/* Collect: events of each rank -> arrivals and steps of its workers.
 *
 * Box: merge/engine. Rows of a worker lie together and in start order.
 */
#include "analysis/join.h"
#include "engine/infer.h"
#include "engine/phases.h"

#include <stdlib.h>
#include <string.h>

struct rows { /* of one device of a process with several */
    struct hm_arrival *a;
    struct hm_annot *v;
    size_t n, cap;
};
struct collect {
    struct hm_engine *e;
    struct hm_steps *steps[64];
    struct hm_engine_counts *counts[64];
    uint32_t first_worker, n_workers, i_rank;
    struct rows rows[64];
    struct { /* communicators of this rank, as its calls name them */
        uint32_t id;
        size_t progress;
    } comm[256];
    uint32_t n_comms;
    uint8_t call_kind; /* what tells of calls: NCCL_CALL, else NCCL_COLL */
    uint32_t n_in_graph;
    int32_t snapshot; /* number of the latest one seen, -1 none */
    struct hm_alive alive;
    int64_t t0_ns, t1_ns;
    int64_t gpu0_ns[64], gpu1_ns[64]; /* first and last device operation of a worker */
};

int hm_engine_track(void *ctx, uint32_t track, uint32_t *type_p, uint32_t *device_p,
                    uint32_t *stream_p)
{
    const struct hm_engine_rank *x = ctx;
    uint32_t len;
    const struct hm_def_track *t = hm_rank_def(x->rank, HM_DEF_TRACK, track, &len);
    if (!t || len != sizeof(*t))
        return 0;
    *type_p = t->type;
    *device_p = t->device;
    *stream_p = t->stream;
    return 1;
}

const char *hm_engine_string(void *ctx, uint32_t id)
{
    const struct hm_engine_rank *x = ctx;
    return hm_run_string(&x->e->run, id);
}

uint32_t hm_engine_kernel_name_id(void *ctx, uint32_t kernel)
{
    const struct hm_engine_rank *x = ctx;
    uint32_t len;
    const struct hm_def_kernel *k = hm_rank_def(x->rank, HM_DEF_KERNEL, kernel, &len);
    return k && len == sizeof(*k) ? k->name : HM_NO_ID;
}

static const char *kernel_name(void *ctx, uint32_t kernel)
{
    return hm_engine_string(ctx, hm_engine_kernel_name_id(ctx, kernel));
}

static int comm_of(void *ctx, uint32_t comm, struct hm_join_comm *comm_p)
{
    const struct hm_engine_rank *x = ctx;
    uint32_t len;
    const struct hm_def_comm *c = hm_rank_def(x->rank, HM_DEF_COMM, comm, &len);
    if (!c || len != sizeof(*c) || c->n_ranks < 1)
        return 0;
    *comm_p = (struct hm_join_comm){.key = hm_comm_key(c->hash, c->nth),
                                    .n_ranks = (uint32_t)c->n_ranks,
                                    .device = (uint32_t)c->device,
                                    .crank = c->crank};
    return 1;
}

static uint32_t worker_of_device(const struct collect *c, uint32_t device)
{
    for (uint32_t w = 0; w < c->n_workers; w++)
        if (c->e->run.worker[c->first_worker + w].device == device)
            return w;
    return 0;
}

static hm_status_t keep_row(struct collect *c, struct hm_part *p)
{
    struct rows *r = &c->rows[worker_of_device(c, p->v.device)];
    if (r->n == r->cap) {
        size_t cap = r->cap ? 2 * r->cap : 1024;
        struct hm_arrival *a = realloc(r->a, cap * sizeof(*a));
        if (a)
            r->a = a;
        struct hm_annot *v = a ? realloc(r->v, cap * sizeof(*v)) : NULL;
        if (!v)
            return HM_E_NOMEM;
        r->v = v;
        r->cap = cap;
    }
    r->a[r->n] = p->a;
    r->v[r->n++] = p->v;
    return HM_OK;
}

/* Notes the workers of a communicator that no definition names. */
static hm_status_t keep_lone(struct collect *c, uint64_t key, uint32_t worker)
{
    const struct hm_run *run = &c->e->run;
    struct hm_engine_more *m = c->e->more;
    for (uint32_t i = 0; i < run->n_comms; i++)
        if (run->comm[i].key == key)
            return HM_OK;
    for (size_t i = m->n_lone; i; i--) { /* a rank's own lie at the end */
        if (m->lone[i - 1].worker < c->first_worker)
            break;
        if (m->lone[i - 1].key == key && m->lone[i - 1].worker == worker)
            return HM_OK;
    }
    struct hm_lone_comm *p = realloc(m->lone, (m->n_lone + 1) * sizeof(*p));
    if (!p)
        return HM_E_NOMEM;
    m->lone = p;
    p[m->n_lone++] = (struct hm_lone_comm){key, worker, 0};
    return HM_OK;
}

static hm_status_t take_rows(struct collect *c, struct hm_join *join)
{
    struct hm_part part[256];
    size_t n;
    hm_status_t s = HM_OK;
    while (s == HM_OK && (n = hm_join_take(join, part, 256)))
        for (size_t i = 0; i < n && s == HM_OK; i++) {
            uint32_t w = worker_of_device(c, part[i].v.device);
            const struct hm_steps *steps = c->steps[w];
            int64_t t = HM_IS_NONE(part[i].a.host_ns) ? part[i].a.start_ns : part[i].a.host_ns;
            part[i].v.step = hm_steps_at(steps, t);
            part[i].v.last_worker = HM_NO_ID;
            s = keep_row(c, &part[i]);
            if (s == HM_OK && part[i].a.confidence == HM_JOIN_ORDER)
                s = keep_lone(c, part[i].a.comm, c->first_worker + w);
        }
    return s;
}

/* How far the rank got: calls by communicator, the last sign of life, what never ended. */
static hm_status_t keep_progress(struct collect *c, const struct hm_event *ev,
                                 struct hm_engine_rank *x)
{
    struct hm_engine_more *m = c->e->more;
    int host = ev->kind != HM_EV_KERNEL && ev->kind != HM_EV_MEMCPY && ev->kind != HM_EV_MEMSET;
    if (ev->flags & (HM_EVF_BAD_TIME | HM_EVF_NO_TIME))
        return HM_OK;
    if (host && ev->t_ns > c->alive.last_ns)
        c->alive.last_ns = ev->t_ns;
    if (ev->kind == HM_EV_RANGE && ev->dur_ns == HM_DUR_OPEN && ev->t_ns >= c->alive.mark_ns) {
        c->alive.mark_ns = ev->t_ns;
        c->alive.in = ev->u.range.name;
    }
    if (ev->kind == HM_EV_OPEN && ev->u.open.what == HM_EV_RANGE) { /* of the latest snapshot */
        int32_t snapshot = ev->aux & 0x7fff;
        if (snapshot > c->snapshot || (snapshot == c->snapshot && ev->t_ns >= c->alive.mark_ns)) {
            c->snapshot = snapshot;
            c->alive.mark_ns = ev->t_ns;
            c->alive.in = ev->u.open.name;
        }
    }
    if (ev->kind != c->call_kind)
        return HM_OK;
    if (ev->flags & HM_EVF_GRAPH) { /* captured: told once, whatever the replays */
        c->n_in_graph++;
        return HM_OK;
    }
    uint32_t i = 0;
    while (i < c->n_comms && c->comm[i].id != ev->u.op.comm)
        i++;
    if (i == c->n_comms) {
        struct hm_join_comm jc;
        if (i == sizeof(c->comm) / sizeof(c->comm[0]) || !comm_of(x, ev->u.op.comm, &jc))
            return HM_OK;
        if (m->n_progress == m->cap_progress) {
            size_t cap = m->cap_progress ? 2 * m->cap_progress : 64;
            struct hm_progress *p = realloc(m->progress, cap * sizeof(*p));
            if (!p)
                return HM_E_NOMEM;
            m->progress = p;
            m->cap_progress = cap;
        }
        m->progress[m->n_progress] = (struct hm_progress){
            .comm = jc.key,
            .of = jc.key,
            .worker =
                c->first_worker + (jc.device == HM_NO_ID ? 0 : worker_of_device(c, jc.device)),
            .n_members = jc.n_ranks,
            .n_open = HM_NO_ID};
        c->comm[c->n_comms].id = ev->u.op.comm;
        c->comm[c->n_comms++].progress = m->n_progress++;
    }
    hm_progress_event(&m->progress[c->comm[i].progress], ev);
    return HM_OK;
}

static hm_status_t end_progress(struct collect *c, const struct hm_rank_info *info,
                                struct hm_join *join)
{
    struct hm_engine_more *m = c->e->more;
    for (uint32_t i = 0; i < c->n_comms; i++) {
        struct hm_progress *p = &m->progress[c->comm[i].progress];
        p->n_open = hm_join_open(join, c->comm[i].id, &p->open_ns);
    }
    struct hm_join_way way;
    for (size_t i = 0; hm_join_way(join, i, &way); i++) {
        if (m->n_progress == m->cap_progress) {
            size_t cap = m->cap_progress ? 2 * m->cap_progress : 64;
            struct hm_progress *p = realloc(m->progress, cap * sizeof(*p));
            if (!p)
                return HM_E_NOMEM;
            m->progress = p;
            m->cap_progress = cap;
        }
        /* a key of its own for each pair, the same on both ends */
        uint64_t key = (way.key ^ UINT64_C(0x9E3779B97F4A7C15)) + way.pair;
        m->progress[m->n_progress++] = (struct hm_progress){
            .comm = key * UINT64_C(0xBF58476D1CE4E5B9),
            .of = way.key,
            .worker =
                c->first_worker + (way.device == HM_NO_ID ? 0 : worker_of_device(c, way.device)),
            .n_members = way.n_ranks,
            .n_called = way.n,
            .n_open = way.n_open,
            .open_ns = way.open_ns,
            .last_ns = way.open_ns,
            .func = way.pair ? HM_NCCL_SENDRECV : HM_NCCL_ALLTOALL};
    }
    c->alive.left = info->end == HM_END_CLEAN || info->end == HM_END_NO_MPI_FINALIZE ? HM_LEFT_CLEAN
                    : info->end == HM_END_DIED                                       ? HM_LEFT_DIED
                                               : HM_LEFT_STOPPED;
    for (uint32_t w = 0; w < c->n_workers; w++)
        m->alive[c->first_worker + w] = c->alive;
    m->n_graph_ranks += c->n_in_graph && !info->rows[HM_EV_KERNEL];
    return HM_OK;
}

static hm_status_t read_events(struct collect *c, struct hm_rank *r, struct hm_join *join)
{
    struct hm_batch b;
    hm_status_t s;
    struct hm_engine_rank x = {c->e, r};
    while ((s = hm_rank_next(r, &b)) == HM_OK) {
        for (uint32_t i = 0; i < b.n && s == HM_OK; i++) {
            const struct hm_event *ev = &b.ev[i];
            uint32_t type, device = 0, stream;
            int on_gpu =
                ev->kind == HM_EV_KERNEL || ev->kind == HM_EV_MEMCPY || ev->kind == HM_EV_MEMSET;
            if (on_gpu)
                hm_engine_track(&x, ev->track, &type, &device, &stream);
            if (ev->t_ns < c->t0_ns && !(ev->flags & (HM_EVF_BAD_TIME | HM_EVF_NO_TIME)))
                c->t0_ns = ev->t_ns;
            if (ev->t_ns > c->t1_ns)
                c->t1_ns = ev->t_ns;
            for (uint32_t w = 0; w < c->n_workers && s == HM_OK; w++) {
                int mine = on_gpu && c->e->run.worker[c->first_worker + w].device == device;
                s = hm_steps_event(c->steps[w], ev, mine);
                if (!mine || ev->flags & HM_EVF_BAD_TIME || ev->dur_ns < 0)
                    continue;
                if (ev->kind == HM_EV_KERNEL)
                    hm_engine_count(c->counts[w], ev);
                if (ev->t_ns < c->gpu0_ns[w])
                    c->gpu0_ns[w] = ev->t_ns;
                if (ev->t_ns + ev->dur_ns > c->gpu1_ns[w])
                    c->gpu1_ns[w] = ev->t_ns + ev->dur_ns;
            }
            if (s == HM_OK)
                s = keep_progress(c, ev, &x);
            if (s == HM_OK)
                s = hm_join_event(join, ev);
        }
        if (s == HM_OK)
            s = take_rows(c, join);
        if (s)
            return s;
    }
    if (s == HM_END)
        s = hm_join_end(join);
    return s == HM_OK ? take_rows(c, join) : s;
}

/* Keeps the windows of the steps that are wanted. */
static size_t select_windows(struct hm_engine_more *m, struct hm_step_window *v, size_t n)
{
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        m->has_first = m->n_has && m->has_first < v[i].step ? m->has_first : v[i].step;
        m->has_last = m->n_has && m->has_last > v[i].step ? m->has_last : v[i].step;
        m->n_has = 1;
        if (v[i].step >= m->first_step && v[i].step <= m->last_step)
            v[k++] = v[i];
    }
    m->n_selected += k > 0;
    return k;
}

/* Windows of one worker. Without steps, or with a single one, the whole recording is looked at:
 * from the first to the last operation of the device. */
static hm_status_t store_windows(struct collect *c, uint32_t w)
{
    struct hm_engine *e = c->e;
    struct rows *r = &c->rows[w];
    uint32_t worker = c->first_worker + w;
    const struct hm_step_window *window = NULL;
    size_t n = hm_steps_windows(c->steps[w], &window);
    struct hm_step_window *copy = malloc((n + 1) * sizeof(*copy));
    if (!copy)
        return HM_E_NOMEM;
    if (n)
        memcpy(copy, window, n * sizeof(*copy));
    if (n)
        e->more->step_source = "marks";
    if (n < 2 && c->gpu1_ns[w] > c->gpu0_ns[w]) {
        copy[0] = (struct hm_step_window){c->gpu0_ns[w], c->gpu1_ns[w], n ? copy[0].step : 0, 0};
        n = 1;
        for (size_t i = 0; i < r->n; i++)
            r->v[i].step = copy[0].step;
    }
    if (n > 3) /* lazy loading, first use of the communicators */
        copy[0].flags |= HM_STEP_WARMUP;
    e->more->window[worker] = copy;
    e->more->n_windows[worker] = select_windows(e->more, copy, n);
    return HM_OK;
}

static hm_status_t store_rows(struct collect *c)
{
    struct hm_engine *e = c->e;
    hm_status_t s = HM_OK;
    for (uint32_t w = 0; w < c->n_workers && s == HM_OK; w++) {
        struct rows *r = &c->rows[w];
        uint32_t worker = c->first_worker + w;
        s = store_windows(c, w);
        e->of_rank[worker] = (struct hm_span){hm_spool_count(e->arrival), r->n};
        if (s == HM_OK)
            s = hm_spool_append(e->arrival, r->a, r->n);
        if (s == HM_OK)
            s = hm_spool_append(e->annot, r->v, r->n);
    }
    return s;
}

static hm_status_t collect_rank(struct hm_engine *e, uint32_t rank, struct hm_rank *r, void *ctx)
{
    (void)ctx;
    struct collect c = {.e = e,
                        .t0_ns = INT64_MAX,
                        .t1_ns = INT64_MIN,
                        .snapshot = -1,
                        .alive = {.last_ns = INT64_MIN, .mark_ns = INT64_MIN, .in = HM_NO_ID}};
    struct hm_join *join = NULL;
    while (c.i_rank < e->run.n_present && (uint32_t)e->run.rank[c.i_rank].rank != rank)
        c.i_rank++;
    struct hm_rank_info *info = &e->run.rank[c.i_rank];
    c.first_worker = hm_engine_first_worker(e, c.i_rank);
    c.call_kind = info->rows[HM_EV_NCCL_CALL] ? HM_EV_NCCL_CALL : HM_EV_NCCL_COLL;
    while (c.n_workers < 64 && c.first_worker + c.n_workers < e->run.n_workers &&
           e->run.worker[c.first_worker + c.n_workers].rank == rank)
        c.n_workers++;
    struct hm_engine_rank x = {e, r};
    struct hm_join_in in = {.ctx = &x,
                            .track = hm_engine_track,
                            .kernel_name = kernel_name,
                            .comm = comm_of,
                            .device = (uint32_t)info->device,
                            .n_kernels = info->rows[HM_EV_KERNEL],
                            .n_apis = info->rows[HM_EV_API],
                            .n_launches = info->rows[HM_EV_NCCL_LAUNCH],
                            .n_ops =
                                (uint64_t)info->rows[HM_EV_NCCL_COLL] + info->rows[HM_EV_NCCL_P2P],
                            .n_comms = info->n_comms,
                            .by_seq = info->source == HM_SOURCE_KINETO,
                            .only_comm = HM_NO_ID};
    /* the one communicator of the process, by its run-wide id; the others are holes */
    for (uint32_t id = 0; info->n_comms == 1 && id < hm_rank_n_defs(r, HM_DEF_COMM); id++)
        if (hm_rank_run_id(r, HM_DEF_COMM, id) != HM_NO_ID)
            in.only_comm = hm_rank_run_id(r, HM_DEF_COMM, id);
    for (uint32_t w = 0; w < 64; w++) {
        c.gpu0_ns[w] = INT64_MAX;
        c.gpu1_ns[w] = INT64_MIN;
    }
    hm_status_t s = hm_join_create(&in, &join);
    for (uint32_t w = 0; w < c.n_workers && s == HM_OK; w++)
        if ((s = hm_steps_create(&c.steps[w])) == HM_OK)
            s = hm_engine_counts_create(&c.counts[w]);
    if (s == HM_OK)
        s = read_events(&c, r, join);
    if (s == HM_OK) {
        s = end_progress(&c, info, join);
        if (s == HM_OK)
            s = store_rows(&c);
    }
    for (uint32_t w = 0; w < c.n_workers && s == HM_OK; w++)
        s = hm_engine_suspect(e, c.counts[w]);
    if (s == HM_OK) {
        struct hm_join_stats stats;
        hm_join_stats(join, &stats);
        if (stats.source > e->more->source)
            e->more->source = stats.source;
        info->t0_ns = c.t0_ns == INT64_MAX ? 0 : c.t0_ns;
        info->t1_ns = c.t1_ns;
    }
    for (uint32_t w = 0; w < c.n_workers; w++) {
        hm_steps_destroy(c.steps[w]);
        hm_engine_counts_destroy(c.counts[w]);
        free(c.rows[w].a);
        free(c.rows[w].v);
    }
    hm_join_destroy(join);
    return s;
}

hm_status_t hm_engine_collect(struct hm_engine *e)
{
    const struct hm_query q = {.kinds = UINT64_MAX};
    e->more->step_source = "none";
    e->more->collecting = 1;
    hm_status_t s = hm_scan(e, &q, collect_rank, NULL);
    e->more->collecting = 0;
    return s == HM_OK ? hm_engine_infer(e) : s;
}
