/* Reading one rank file in time order.
 *
 * Box: lib/store. One thread a reader. A moving front: a chunk is decoded when the front reaches
 * its first time and dropped when it has been given out; tables of one rank are merged by time.
 * Clock maps are applied here: REAL -> RAW by the file's own snapshots, RAW -> global by the
 * caller's map.
 */
#include "store/rank.h"

#include "store/encode.h"
#include "store/raw.h"

#include <stdlib.h>
#include <string.h>

enum { BATCH = 4096, MAX_ACTIVE = 128 };

struct pending {
    int64_t t_min;
    uint32_t chunk;
    uint8_t kind;
};
struct active {
    struct hm_event *ev;
    uint32_t n, at;
};
struct hm_rank {
    struct hm_raw *raw;
    struct hm_defs *names;
    struct hm_timemap map[HM_N_CLOCKS];
    struct hm_timeseg *real_seg;
    struct hm_timemap real_to_raw;
    uint32_t *id_map[HM_N_DEFS]; /* file id -> run id; STRING, KERNEL, COMM */
    struct hm_query query;
    struct pending *pending;
    size_t n_pending, i_pending;
    struct active active[MAX_ACTIVE];
    uint32_t n_active;
    struct hm_event *spare[8];
    uint32_t n_spare;
    struct hm_event *batch; /* [BATCH] */
    int sought;
};

static uint32_t map_id(const struct hm_rank *r, enum hm_def_kind kind, uint32_t id)
{
    return id < r->raw->def[kind].n ? r->id_map[kind][id] : HM_NO_ID;
}

static hm_status_t map_definitions(struct hm_rank *r)
{
    for (int k = 0; k < HM_N_DEFS; k++) {
        if (k != HM_DEF_STRING && k != HM_DEF_KERNEL && k != HM_DEF_COMM)
            continue;
        const struct hm_blobs *d = &r->raw->def[k];
        r->id_map[k] = malloc((d->n + 1) * sizeof(uint32_t));
        if (!r->id_map[k])
            return HM_E_NOMEM;
        for (uint32_t i = 0; i < d->n; i++) {
            uint32_t len = 0;
            const void *p = hm_blobs_get(d, i, &len);
            uint32_t *id = &r->id_map[k][i];
            *id = HM_NO_ID;
            if (!p)
                continue;
            if (k == HM_DEF_STRING) { /* with its NUL, so that it can be borrowed as a C string */
                *id = hm_defs_intern(r->names, HM_DEF_STRING, p, len + 1);
            } else if (k == HM_DEF_KERNEL) {
                struct hm_def_kernel kernel;
                memcpy(&kernel, p, sizeof(kernel));
                kernel.name = map_id(r, HM_DEF_STRING, kernel.name);
                *id = hm_defs_intern(r->names, HM_DEF_KERNEL, &kernel, sizeof(kernel));
            } else {
                struct hm_def_comm comm;
                memcpy(&comm, p, sizeof(comm));
                comm.name = map_id(r, HM_DEF_STRING, comm.name);
                *id = hm_defs_intern(r->names, HM_DEF_COMM, &comm, sizeof(comm));
            }
        }
    }
    return HM_OK;
}

/* REAL -> RAW: straight lines between the file's snapshots, shifted lines before and after. */
static hm_status_t map_real(struct hm_rank *r)
{
    struct hm_event *ev = malloc(HM_CHUNK_ROWS * sizeof(*ev));
    uint32_t n_chunks = hm_raw_n_chunks(r->raw, HM_EV_CLOCK_SNAPSHOT);
    uint64_t rows = hm_raw_n_rows(r->raw, HM_EV_CLOCK_SNAPSHOT);
    if (!ev || rows > UINT64_C(1) << 24 ||
        !(r->real_seg = calloc(rows + 1, sizeof(*r->real_seg)))) {
        free(ev);
        return HM_E_NOMEM;
    }
    uint32_t n = 0;
    for (uint32_t c = 0; c < n_chunks; c++) {
        uint32_t got;
        if (hm_raw_chunk(r->raw, HM_EV_CLOCK_SNAPSHOT, c, ev, &got))
            break; /* what is there serves */
        for (uint32_t i = 0; i < got && n < rows; i++) {
            int64_t real = ev[i].u.snapshot.real_ns;
            if (n && (real <= r->real_seg[n - 1].x0_ns || ev[i].t_ns <= r->real_seg[n - 1].y0_ns))
                continue;
            r->real_seg[n++] = (struct hm_timeseg){
                .x0_ns = real, .y0_ns = ev[i].t_ns, .eps_ns = ev[i].u.snapshot.width_ns};
        }
    }
    free(ev);
    if (!n)
        r->real_seg[n++] = (struct hm_timeseg){.x0_ns = r->raw->meta.start_real_ns,
                                               .y0_ns = r->raw->meta.start_raw_ns};
    for (uint32_t i = 0; i + 1 < n; i++) {
        double dx = (double)r->real_seg[i + 1].x0_ns - (double)r->real_seg[i].x0_ns;
        double dy = (double)r->real_seg[i + 1].y0_ns - (double)r->real_seg[i].y0_ns;
        r->real_seg[i].rate_m1 = (dy - dx) / dx;
    }
    r->real_to_raw = (struct hm_timemap){r->real_seg, n, 0};
    return HM_OK;
}

static int64_t map_time(const struct hm_rank *r, int64_t t, unsigned clock)
{
    if (clock == HM_CLOCK_REAL) {
        t = hm_timemap_apply(&r->real_to_raw, t);
        clock = HM_CLOCK_RAW;
    }
    return hm_timemap_apply(&r->map[clock < HM_N_CLOCKS ? clock : HM_CLOCK_FILE], t);
}

static void map_event(const struct hm_rank *r, struct hm_event *ev)
{
    unsigned clock = ev->flags & HM_EVF_CLOCK;
    int64_t end;
    /* the end by the same map: what follows without a gap still does so */
    if (ev->dur_ns > 0 && !__builtin_add_overflow(ev->t_ns, ev->dur_ns, &end)) {
        int64_t t = map_time(r, ev->t_ns, clock), e = map_time(r, end, clock);
        ev->dur_ns = e > t ? e - t : 0;
    }
    ev->t_ns = map_time(r, ev->t_ns, clock);
    switch (ev->kind) {
    case HM_EV_KERNEL:
        ev->u.kernel.kernel = map_id(r, HM_DEF_KERNEL, ev->u.kernel.kernel);
        break;
    case HM_EV_API:
        ev->u.api.name = map_id(r, HM_DEF_STRING, ev->u.api.name);
        break;
    case HM_EV_NCCL_LAUNCH:
        ev->u.launch.comm = map_id(r, HM_DEF_COMM, ev->u.launch.comm);
        break;
    case HM_EV_NCCL_CALL:
    case HM_EV_NCCL_COLL:
    case HM_EV_NCCL_P2P:
    case HM_EV_NCCL_CE:
        ev->u.op.comm = map_id(r, HM_DEF_COMM, ev->u.op.comm);
        break;
    case HM_EV_NCCL_CE_PART:
        ev->u.ce.comm = map_id(r, HM_DEF_COMM, ev->u.ce.comm);
        break;
    case HM_EV_PROXY_OP:
        ev->u.proxy_op.comm = map_id(r, HM_DEF_COMM, ev->u.proxy_op.comm);
        break;
    case HM_EV_PROXY_CTRL:
        ev->u.proxy_ctrl.comm = map_id(r, HM_DEF_COMM, ev->u.proxy_ctrl.comm);
        break;
    case HM_EV_KERNEL_CH:
        ev->u.kernel_ch.comm = map_id(r, HM_DEF_COMM, ev->u.kernel_ch.comm);
        break;
    case HM_EV_NCCL_STATE:
        ev->u.nccl_state.comm = map_id(r, HM_DEF_COMM, ev->u.nccl_state.comm);
        break;
    case HM_EV_RANGE:
    case HM_EV_MARK:
        ev->u.range.name = map_id(r, HM_DEF_STRING, ev->u.range.name);
        ev->u.range.domain = map_id(r, HM_DEF_STRING, ev->u.range.domain);
        break;
    case HM_EV_STEP:
        ev->u.step.name = map_id(r, HM_DEF_STRING, ev->u.step.name);
        break;
    case HM_EV_COUNTER:
        ev->u.counter.name = map_id(r, HM_DEF_STRING, ev->u.counter.name);
        ev->u.counter.domain = map_id(r, HM_DEF_STRING, ev->u.counter.domain);
        ev->u.counter.unit = map_id(r, HM_DEF_STRING, ev->u.counter.unit);
        break;
    case HM_EV_OPEN:
        ev->u.open.name = map_id(r, HM_DEF_STRING, ev->u.open.name);
        ev->u.open.domain = map_id(r, HM_DEF_STRING, ev->u.open.domain);
        ev->u.open.comm = map_id(r, HM_DEF_COMM, ev->u.open.comm);
        break;
    default:
        break;
    }
}

hm_status_t hm_rank_open(const char *path, const struct hm_timemap map[HM_N_CLOCKS],
                         struct hm_defs *names, struct hm_rank **rank_p)
{
    struct hm_rank *r = calloc(1, sizeof(*r));
    char what[256] = "";
    if (!r)
        return HM_E_NOMEM;
    r->names = names;
    if (map)
        memcpy(r->map, map, sizeof(r->map));
    hm_status_t s = hm_raw_open(path, HM_RAW_LAZY, &r->raw, what);
    if (s) {
        hm_fail(s, path, "%s", what);
        free(r);
        return s;
    }
    s = map_definitions(r);
    if (s == HM_OK)
        s = map_real(r);
    if (s == HM_OK && !(r->batch = malloc(BATCH * sizeof(*r->batch))))
        s = HM_E_NOMEM;
    if (s) {
        hm_rank_close(r);
        return s;
    }
    *rank_p = r;
    return HM_OK;
}

static struct hm_event *buffer_get(struct hm_rank *r)
{
    return r->n_spare ? r->spare[--r->n_spare] : malloc(HM_CHUNK_ROWS * sizeof(struct hm_event));
}

static void buffer_put(struct hm_rank *r, struct hm_event *ev)
{
    if (r->n_spare < sizeof(r->spare) / sizeof(*r->spare))
        r->spare[r->n_spare++] = ev;
    else
        free(ev);
}

/* Decodes a chunk, maps times and ids, and sorts by the mapped time. */
static hm_status_t load_chunk(struct hm_rank *r, uint8_t kind, uint32_t chunk, struct hm_event *ev,
                              uint32_t *n_p)
{
    hm_status_t s = hm_raw_chunk(r->raw, kind, chunk, ev, n_p);
    if (s)
        return s;
    int sorted = 1;
    for (uint32_t i = 0; i < *n_p; i++) {
        map_event(r, &ev[i]);
        if (i && ev[i].t_ns < ev[i - 1].t_ns)
            sorted = 0;
    }
    if (!sorted) {
        struct hm_event *tmp = buffer_get(r);
        if (!tmp)
            return HM_E_NOMEM;
        hm_events_sort(ev, *n_p, tmp);
        buffer_put(r, tmp);
    }
    return HM_OK;
}

static int by_time(const void *a, const void *b)
{
    const struct pending *x = a, *y = b;
    if (x->t_min != y->t_min)
        return x->t_min < y->t_min ? -1 : 1;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    return x->chunk < y->chunk ? -1 : x->chunk > y->chunk;
}

hm_status_t hm_rank_seek(struct hm_rank *r, const struct hm_query *query)
{
    hm_status_t s = HM_OK;
    struct hm_event *ev = NULL;
    while (r->n_active)
        buffer_put(r, r->active[--r->n_active].ev);
    free(r->pending);
    r->pending = NULL;
    r->n_pending = r->i_pending = 0;
    r->query = *query;
    size_t n = 0;
    for (uint8_t k = 0; k < HM_N_KINDS; k++)
        if (query->kinds >> k & 1)
            n += hm_raw_n_chunks(r->raw, k);
    r->pending = calloc(n + 1, sizeof(*r->pending));
    if (!r->pending)
        return HM_E_NOMEM;
    for (uint8_t k = 0; k < HM_N_KINDS && s == HM_OK; k++) {
        if (!(query->kinds >> k & 1))
            continue;
        for (uint32_t c = 0; c < hm_raw_n_chunks(r->raw, k) && s == HM_OK; c++) {
            struct hm_chunk_index x;
            struct pending *p = &r->pending[r->n_pending++];
            p->kind = k;
            p->chunk = c;
            if (hm_raw_index(r->raw, k, c, &x) && x.clock >= 0 && x.clock < HM_N_CLOCKS) {
                p->t_min = map_time(r, x.t_min, (unsigned)x.clock);
                continue;
            }
            uint32_t rows;
            if (!ev && !(ev = buffer_get(r)))
                return HM_E_NOMEM;
            s = load_chunk(r, k, c, ev, &rows);
            p->t_min = s || !rows ? 0 : ev[0].t_ns;
        }
    }
    if (ev)
        buffer_put(r, ev);
    qsort(r->pending, r->n_pending, sizeof(*r->pending), by_time);
    r->sought = 1;
    return s;
}

/* Opens every pending chunk that begins at or before t. */
static hm_status_t advance(struct hm_rank *r, int64_t t, int force)
{
    while (r->i_pending < r->n_pending && (force || r->pending[r->i_pending].t_min <= t)) {
        const struct pending *p = &r->pending[r->i_pending];
        if (r->n_active == MAX_ACTIVE)
            return HM_E_DATA; /* a true file has a few at a time */
        struct active *a = &r->active[r->n_active];
        a->ev = buffer_get(r);
        if (!a->ev)
            return HM_E_NOMEM;
        hm_status_t s = load_chunk(r, p->kind, p->chunk, a->ev, &a->n);
        if (s == HM_OK && a->n && a->ev[0].t_ns < p->t_min)
            s = HM_E_DATA; /* the index lies: time would run backwards */
        if (s) {
            buffer_put(r, a->ev);
            return s;
        }
        a->at = 0;
        r->i_pending++;
        if (a->n)
            r->n_active++;
        else
            buffer_put(r, a->ev);
        force = 0;
        if (r->n_active == 1)
            t = r->active[0].ev[0].t_ns;
    }
    return HM_OK;
}

hm_status_t hm_rank_next(struct hm_rank *r, struct hm_batch *batch_p)
{
    uint32_t n = 0;
    if (!r->sought)
        return HM_E_BUG;
    while (n < BATCH) {
        hm_status_t s = r->n_active ? HM_OK : advance(r, INT64_MIN, 1);
        if (s)
            return s;
        if (!r->n_active)
            break;
        uint32_t best = 0;
        for (uint32_t i = 1; i < r->n_active; i++) {
            const struct hm_event *x = &r->active[i].ev[r->active[i].at];
            const struct hm_event *b = &r->active[best].ev[r->active[best].at];
            if (x->t_ns < b->t_ns || (x->t_ns == b->t_ns && x->kind < b->kind))
                best = i;
        }
        struct active *a = &r->active[best];
        if (r->i_pending < r->n_pending && r->pending[r->i_pending].t_min <= a->ev[a->at].t_ns) {
            s = advance(r, a->ev[a->at].t_ns, 0);
            if (s)
                return s;
            continue;
        }
        const struct hm_event *ev = &a->ev[a->at++];
        int64_t end =
            ev->dur_ns > 0 && ev->t_ns <= INT64_MAX - ev->dur_ns ? ev->t_ns + ev->dur_ns : ev->t_ns;
        if (r->query.t1_ns <= r->query.t0_ns ||
            (ev->t_ns < r->query.t1_ns && end >= r->query.t0_ns))
            r->batch[n++] = *ev;
        if (a->at == a->n) {
            buffer_put(r, a->ev);
            *a = r->active[--r->n_active];
        }
    }
    if (!n)
        return HM_END;
    *batch_p = (struct hm_batch){r->batch, n, 0};
    return HM_OK;
}

const void *hm_rank_def(const struct hm_rank *r, enum hm_def_kind kind, uint32_t id,
                        uint32_t *len_p)
{
    uint32_t len = 0;
    const void *p = NULL;
    if ((unsigned)kind >= HM_N_DEFS)
        return NULL;
    if (r->id_map[kind]) {
        if (hm_defs_get(r->names, kind, id, &p, &len) != HM_OK)
            return NULL;
        if (kind == HM_DEF_STRING)
            len--; /* its NUL */
    } else {
        p = hm_blobs_get(&r->raw->def[kind], id, &len);
    }
    if (p && len_p)
        *len_p = len;
    return p;
}

uint32_t hm_rank_run_id(const struct hm_rank *r, enum hm_def_kind kind, uint32_t id)
{
    return (unsigned)kind < HM_N_DEFS && r->id_map[kind] ? map_id(r, kind, id) : HM_NO_ID;
}

uint32_t hm_rank_n_defs(const struct hm_rank *r, enum hm_def_kind kind)
{
    return (unsigned)kind < HM_N_DEFS ? r->raw->def[kind].n : 0;
}

void hm_rank_close(struct hm_rank *r)
{
    if (!r)
        return;
    while (r->n_active)
        free(r->active[--r->n_active].ev);
    while (r->n_spare)
        free(r->spare[--r->n_spare]);
    for (int k = 0; k < HM_N_DEFS; k++)
        free(r->id_map[k]);
    free(r->pending);
    free(r->real_seg);
    free(r->batch);
    hm_raw_close(r->raw);
    free(r);
}
