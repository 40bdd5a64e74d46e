/* One rank's events and annotations -> rows.
 *
 * Box: merge/timeline. Thread: the team member that owns the rank.
 * One pass in time order. Tracks: `steps`, `comm HASH`, `stream N`, `host TID`. An NCCL kernel is
 * on its stream (cat kernel) and, with what the others make of it, on its communicator: a slice
 * (cat nccl) and in it the wait from the rank's own start to the last start. Arrows lie on the
 * kernel (on the communicator's slice where the kernel is unknown): the last arriver begins one
 * for each waiter at its start L, each waiter ends its own at L + 1 ns; both know the arrow's id,
 * the hash of launch and waiter, so no rank's rows need another rank's. One-sided launches (rooted,
 * point to point) have waits and no arrows: the awaited rank does not know who waited.
 */
#include "timeline/lanes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TIES = 256, AHEAD = 256 };

/* A worker's arrivals, read ahead; [i, n) are still to be drawn. */
struct cursor {
    uint32_t worker, device;
    uint64_t next;
    size_t i, n;
    struct hm_arrival a[AHEAD];
    struct hm_annot v[AHEAD];
    uint8_t has_kernel[AHEAD];
};
struct rows {
    struct hm_engine *e;
    struct hm_rank *rank;
    struct hm_sink *sink;
    struct hm_lanes *lanes;
    const struct hm_rank_info *info;
    struct cursor *cursor;
    uint32_t n_cursors;
    struct hm_event tie[MAX_TIES]; /* events of one instant, waiting for their order */
    uint32_t n_ties;
    uint32_t step_track, wait_name, step_name;
    int step_open;
    int64_t step_t_ns, step_no;
    uint32_t *track_of; /* by HM_DEF_TRACK id, HM_NO_ID = not met yet */
    uint32_t n_track_of;
};

static uint32_t name_of(struct rows *w, const char *text)
{
    return hm_defs_intern(&w->e->run.names, HM_DEF_STRING, text, (uint32_t)strlen(text));
}

static const char *func_name(uint8_t func)
{
    static const char *const name[HM_NCCL_N_FUNCS] = {
        "NCCL",   "AllReduce", "AllGather", "ReduceScatter", "Broadcast",
        "Reduce", "Send",      "Recv",      "SendRecv",      "AlltoAll",
        "Gather", "Scatter",   "PutSignal", "Signal",        "WaitSignal"};
    return name[func < HM_NCCL_N_FUNCS ? func : 0];
}

/* ---- slices ---- */

struct slice {
    int64_t t_ns, end_ns;
    uint32_t name, number, n_args;
    enum hm_category category;
    int instant;
    struct hm_arg arg[8];
};

static void add_arg(struct slice *s, enum hm_arg_key key, enum hm_arg_type type, uint64_t v)
{
    if (s->n_args < 8)
        s->arg[s->n_args++] =
            (struct hm_arg){.key = (uint16_t)key, .type = (uint16_t)type, .v.u = v};
}

static void add_name(struct slice *s, enum hm_arg_key key, uint32_t name)
{
    add_arg(s, key, HM_ARG_NAME, 0);
    s->arg[s->n_args - 1].name = name;
}

static hm_status_t put_slice(struct rows *w, const struct slice *s, uint32_t lane)
{
    struct hm_row row = {.t_ns = s->t_ns,
                         .dur_ns = s->end_ns - s->t_ns,
                         .lane = lane,
                         .name = s->name,
                         .number = s->number,
                         .type = s->instant ? HM_ROW_INSTANT : HM_ROW_SLICE,
                         .category = (uint8_t)s->category,
                         .n_args = (uint8_t)s->n_args,
                         .arg = s->arg};
    return w->sink->ops->row(w->sink, &row);
}

static hm_status_t place(struct rows *w, const struct slice *s, uint32_t track, uint32_t *lane_p)
{
    hm_status_t st = hm_lanes_place(w->lanes, track, s->t_ns, s->end_ns, lane_p);
    return st ? st : put_slice(w, s, *lane_p);
}

/* End of an event; one that never ended is drawn to the end of its rank's record. */
static int64_t end_of(struct rows *w, const struct hm_event *ev, struct slice *s)
{
    if (ev->dur_ns != HM_DUR_OPEN)
        return ev->t_ns + (ev->dur_ns > 0 ? ev->dur_ns : 0);
    if (s)
        add_arg(s, HM_ARG_UNFINISHED, HM_ARG_I64, 1);
    return w->info->t1_ns > ev->t_ns ? w->info->t1_ns : ev->t_ns;
}

/* ---- arrows ---- */

static uint64_t mix(uint64_t h, uint64_t v)
{
    h ^= v;
    h = (h ^ h >> 30) * 0xbf58476d1ce4e5b9u;
    h = (h ^ h >> 27) * 0x94d049bb133111ebu;
    return h ^ h >> 31;
}

static uint64_t arrow_id(const struct hm_arrival *a, uint32_t waiter)
{
    return mix(mix(mix(a->comm, (uint64_t)a->seq << 32 | a->pair), waiter), 0x686d);
}

static hm_status_t put_arrow(struct rows *w, enum hm_row_type type, uint64_t id, int64_t t_ns,
                             uint32_t lane)
{
    struct hm_row row = {.t_ns = t_ns,
                         .flow = id,
                         .lane = lane,
                         .name = w->wait_name,
                         .number = HM_NO_ID,
                         .type = (uint8_t)type,
                         .category = HM_CAT_WAIT};
    return w->sink->ops->row(w->sink, &row);
}

static const struct hm_comm *find_comm(const struct hm_run *run, uint64_t key)
{
    for (uint32_t i = 0; i < run->n_comms; i++)
        if (run->comm[i].key == key)
            return &run->comm[i];
    return NULL;
}

/* Has the worker a part in this launch? Asked only where members are missing: one that stopped
 * early has its highest index on the communicator below ours. */
static int took_part(struct rows *w, uint32_t worker, const struct hm_arrival *a)
{
    enum { BACK = 64 };
    struct hm_arrival other[BACK];
    struct hm_annot unused[BACK];
    uint64_t n = w->e->of_rank[worker].n, first = n > BACK ? n - BACK : 0;
    size_t got = hm_engine_arrivals(w->e, worker, first, other, unused, BACK);
    uint32_t most = 0, found = 0;
    for (size_t i = 0; i < got; i++)
        if (other[i].comm == a->comm && (!found || other[i].seq > most)) {
            most = other[i].seq;
            found = 1;
        }
    return found ? most >= a->seq : first > 0;
}

static hm_status_t put_arrows(struct rows *w, const struct cursor *c, size_t i, uint32_t lane)
{
    const struct hm_arrival *a = &c->a[i];
    const struct hm_annot *v = &c->v[i];
    if (!(v->flags & HM_ANNOT_MATCHED) || v->flags & (HM_ANNOT_TIE | HM_ANNOT_ONE_SIDED) ||
        v->last_worker == HM_NO_ID)
        return HM_OK;
    if (v->last_worker != c->worker)
        return v->last_ns < a->end_ns
                   ? put_arrow(w, HM_ROW_FLOW_END, arrow_id(a, c->worker), v->last_ns + 1, lane)
                   : HM_OK;
    const struct hm_comm *comm = find_comm(&w->e->run, a->comm);
    hm_status_t st = HM_OK;
    for (uint32_t k = 0; comm && k < comm->n_ranks && !st; k++) {
        uint32_t waiter = comm->worker[k];
        if (waiter == HM_NO_ID || waiter == c->worker ||
            (v->flags & HM_ANNOT_PARTIAL && !took_part(w, waiter, a)))
            continue;
        st = put_arrow(w, HM_ROW_FLOW_BEGIN, arrow_id(a, waiter), a->start_ns, lane);
    }
    return st;
}

/* ---- communicators ---- */

static hm_status_t put_wait(struct rows *w, const struct cursor *c, size_t i, uint32_t lane)
{
    const struct hm_arrival *a = &c->a[i];
    const struct hm_annot *v = &c->v[i];
    int64_t end = v->last_ns < a->end_ns ? v->last_ns : a->end_ns;
    if (!(v->flags & HM_ANNOT_MATCHED) || v->flags & HM_ANNOT_TIE || v->last_worker == HM_NO_ID ||
        v->last_worker == c->worker || end <= a->start_ns)
        return HM_OK;
    struct slice s = {.t_ns = a->start_ns,
                      .end_ns = end,
                      .name = w->wait_name,
                      .number = w->e->run.worker[v->last_worker].rank,
                      .category = HM_CAT_WAIT};
    add_arg(&s, HM_ARG_RANK, HM_ARG_U64, s.number);
    add_arg(&s, HM_ARG_COMM, HM_ARG_HEX, a->comm);
    add_arg(&s, HM_ARG_SEQ, HM_ARG_U64, a->seq);
    return put_slice(w, &s, lane);
}

static void add_launch_args(struct rows *w, struct slice *s, const struct hm_arrival *a)
{
    add_arg(s, HM_ARG_COMM, HM_ARG_HEX, a->comm);
    add_arg(s, HM_ARG_SEQ, HM_ARG_U64, a->seq);
    add_name(s, HM_ARG_FUNC, name_of(w, func_name(a->func)));
    add_arg(s, HM_ARG_BYTES, HM_ARG_U64, a->bytes);
    if (a->n_ops > 1)
        add_arg(s, HM_ARG_N_OPS, HM_ARG_U64, a->n_ops);
}

/* Draws the cursor's first arrival on its communicator's track and moves on. */
static hm_status_t put_arrival(struct rows *w, struct cursor *c)
{
    const struct hm_arrival *a = &c->a[c->i];
    char name[32];
    uint32_t track, lane;
    struct slice s = {.t_ns = a->start_ns,
                      .end_ns = a->end_ns > a->start_ns ? a->end_ns : a->start_ns,
                      .name = name_of(w, func_name(a->func)),
                      .number = HM_NO_ID,
                      .category = HM_CAT_NCCL};
    add_launch_args(w, &s, a);
    if (c->v[c->i].step != HM_NO_ID)
        add_arg(&s, HM_ARG_STEP, HM_ARG_U64, c->v[c->i].step);
    snprintf(name, sizeof(name), "comm %016" PRIx64, a->comm);
    hm_status_t st = hm_lanes_track(w->lanes, HM_LANE_COMM, a->comm, name, &track);
    if (!st)
        st = place(w, &s, track, &lane);
    if (!st)
        st = put_wait(w, c, c->i, lane);
    if (!st && !c->has_kernel[c->i])
        st = put_arrows(w, c, c->i, lane);
    c->i++;
    return st;
}

static void refill(struct rows *w, struct cursor *c)
{
    size_t left = c->n - c->i;
    memmove(c->a, c->a + c->i, left * sizeof(c->a[0]));
    memmove(c->v, c->v + c->i, left * sizeof(c->v[0]));
    memmove(c->has_kernel, c->has_kernel + c->i, left);
    c->i = 0;
    size_t got =
        hm_engine_arrivals(w->e, c->worker, c->next, c->a + left, c->v + left, AHEAD - left);
    memset(c->has_kernel + left, 0, got);
    c->n = left + got;
    c->next += got;
}

/* Draws the arrivals before t; what starts at t or later is read ahead. */
static hm_status_t advance(struct rows *w, struct cursor *c, int64_t t_ns)
{
    hm_status_t st = HM_OK;
    while (!st) {
        if (c->i == c->n || c->n - c->i < AHEAD / 2)
            refill(w, c);
        if (c->i == c->n || c->a[c->i].start_ns >= t_ns)
            break;
        st = put_arrival(w, c);
    }
    return st;
}

/* The arrival that is this kernel: same start and end. */
static int find_arrival(struct cursor *c, int64_t t_ns, int64_t end_ns, size_t *i_p)
{
    for (size_t i = c->i; i < c->n && c->a[i].start_ns <= t_ns; i++)
        if (c->a[i].start_ns == t_ns && c->a[i].end_ns == end_ns && !c->has_kernel[i]) {
            *i_p = i;
            return 1;
        }
    return 0;
}

/* ---- events ---- */

static hm_status_t track_for(struct rows *w, uint32_t id, const struct hm_def_track **def_p,
                             uint32_t *track_p)
{
    uint32_t len = 0;
    const struct hm_def_track *d = hm_rank_def(w->rank, HM_DEF_TRACK, id, &len);
    *def_p = d && len >= sizeof(*d) ? d : NULL;
    if (id < w->n_track_of && w->track_of[id] != HM_NO_ID) {
        *track_p = w->track_of[id];
        return HM_OK;
    }
    char name[64];
    enum hm_lane_type type = HM_LANE_HOST;
    if (*def_p && d->type == HM_TRACK_STREAM) {
        type = HM_LANE_STREAM;
        if (w->n_cursors > 1 || (w->info->device >= 0 && d->device != (uint32_t)w->info->device))
            snprintf(name, sizeof(name), "gpu%u stream %u", d->device, d->stream);
        else
            snprintf(name, sizeof(name), "stream %u", d->stream);
    } else {
        snprintf(name, sizeof(name), "host %u", *def_p ? d->tid : 0);
    }
    hm_status_t st = hm_lanes_track(w->lanes, type, id, name, track_p);
    if (!st && id < w->n_track_of)
        w->track_of[id] = *track_p;
    return st;
}

static struct cursor *cursor_of(struct rows *w, uint32_t device)
{
    for (uint32_t i = 0; i < w->n_cursors; i++)
        if (w->cursor[i].device == device)
            return &w->cursor[i];
    return w->n_cursors == 1 ? &w->cursor[0] : NULL;
}

static hm_status_t put_kernel(struct rows *w, const struct hm_event *ev)
{
    const struct hm_def_track *def;
    uint32_t track, lane, len = 0;
    size_t i = 0;
    const struct hm_ev_kernel *k = &ev->u.kernel;
    const struct hm_def_kernel *kernel = hm_rank_def(w->rank, HM_DEF_KERNEL, k->kernel, &len);
    struct slice s = {.t_ns = ev->t_ns, .number = HM_NO_ID, .category = HM_CAT_KERNEL};
    s.name = kernel && len >= sizeof(*kernel) ? kernel->name : name_of(w, "unknown kernel");
    s.end_ns = end_of(w, ev, &s);
    add_arg(&s, HM_ARG_CORRELATION, HM_ARG_U64, k->correlation);
    add_arg(&s, HM_ARG_GRID, HM_ARG_DIM3,
            (uint64_t)k->grid[0] | (uint64_t)(k->grid[1] & 0xffff) << 32 |
                (uint64_t)(k->grid[2] & 0xffff) << 48);
    hm_status_t st = track_for(w, ev->track, &def, &track);
    struct cursor *c = cursor_of(w, def ? def->device : 0);
    if (!st && c)
        st = advance(w, c, ev->t_ns);
    int nccl = !st && c && find_arrival(c, s.t_ns, s.end_ns, &i);
    if (nccl)
        add_launch_args(w, &s, &c->a[i]);
    if (!st)
        st = place(w, &s, track, &lane);
    if (!st && nccl) {
        c->has_kernel[i] = 1;
        st = put_arrows(w, c, i, lane);
    }
    return st;
}

static const char *copy_name(const struct hm_ev_copy *c)
{
    static const char *const name[] = {"Memcpy",      "Memcpy HtoD", "Memcpy DtoH", "Memcpy HtoA",
                                       "Memcpy AtoH", "Memcpy AtoA", "Memcpy AtoD", "Memcpy DtoA",
                                       "Memcpy DtoD", "Memcpy HtoH", "Memcpy PtoP"};
    return name[c->copy < 11 ? c->copy : 0];
}

static const char *mpi_name(uint16_t number)
{
    switch (number) {
#define HM_MPI(n, name, n_args, roles) \
    case n:                            \
        return "MPI_" #name;
#include "core/mpi.def"
#undef HM_MPI
    default:
        return "MPI";
    }
}

static hm_status_t put_step(struct rows *w, int64_t t_ns)
{
    uint32_t lane;
    if (!w->step_open)
        return HM_OK;
    w->step_open = 0;
    int whole = w->step_no >= 0 && w->step_no < (int64_t)HM_NO_ID;
    struct slice s = {.t_ns = w->step_t_ns,
                      .end_ns = t_ns > w->step_t_ns ? t_ns : w->step_t_ns,
                      .name = w->step_name,
                      .number = whole ? (uint32_t)w->step_no : HM_NO_ID,
                      .category = HM_CAT_STEP};
    add_arg(&s, HM_ARG_STEP, HM_ARG_I64, (uint64_t)w->step_no);
    return place(w, &s, w->step_track, &lane);
}

static hm_status_t take_step(struct rows *w, const struct hm_event *ev)
{
    hm_status_t st = hm_lanes_track(w->lanes, HM_LANE_STEPS, 0, "steps", &w->step_track);
    if (!st)
        st = put_step(w, ev->t_ns);
    if (ev->aux == HM_STEP_BEGIN) {
        w->step_open = 1;
        w->step_t_ns = ev->t_ns;
        w->step_no = ev->u.step.step;
    }
    return st;
}

static hm_status_t put_counter(struct rows *w, const struct hm_event *ev)
{
    struct hm_arg arg = {.key = HM_ARG_VALUE, .type = HM_ARG_I64, .v.i = ev->u.counter.value.i};
    if (ev->u.counter.is_float) {
        arg.type = HM_ARG_F64;
        arg.v.f = ev->u.counter.value.f;
    }
    struct hm_row row = {.t_ns = ev->t_ns,
                         .name = ev->u.counter.name,
                         .number = HM_NO_ID,
                         .type = HM_ROW_COUNTER,
                         .category = HM_CAT_RANGE,
                         .n_args = 1,
                         .arg = &arg};
    return w->sink->ops->row(w->sink, &row);
}

/* Where events are missing, a reader of the timeline must see that they are. */
static hm_status_t put_gap(struct rows *w, const struct hm_event *ev)
{
    uint32_t track, lane;
    struct slice s = {.t_ns = ev->t_ns, .number = HM_NO_ID, .category = HM_CAT_LOST};
    s.name = name_of(w, "lost events");
    s.end_ns = end_of(w, ev, &s);
    add_arg(&s, HM_ARG_LOST, HM_ARG_U64, ev->u.gap.n);
    hm_status_t st = hm_lanes_track(w->lanes, HM_LANE_HOST, UINT64_MAX, "lost", &track);
    return st ? st : place(w, &s, track, &lane);
}

static void name_call(struct rows *w, struct slice *s, const struct hm_event *ev)
{
    char text[40];
    uint8_t func = (uint8_t)(ev->aux & 0xff);
    snprintf(text, sizeof(text), "nccl%s", func ? func_name(func) : " call");
    s->name = name_of(w, text);
    s->category = HM_CAT_API;
    add_arg(s, HM_ARG_SEQ, HM_ARG_U64, ev->u.op.call);
    if (ev->u.op.peer >= 0)
        add_arg(s, HM_ARG_PEER, HM_ARG_I64, (uint64_t)(int64_t)ev->u.op.peer);
}

static hm_status_t put_event(struct rows *w, const struct hm_event *ev)
{
    struct slice s = {.t_ns = ev->t_ns, .number = HM_NO_ID, .category = HM_CAT_RANGE};
    const struct hm_def_track *def;
    uint32_t track, lane;
    if (ev->flags & (HM_EVF_NO_TIME | HM_EVF_BAD_TIME))
        return HM_OK; /* no place on a timeline; the report counts them */
    switch (ev->kind) {
    case HM_EV_KERNEL:
        return put_kernel(w, ev);
    case HM_EV_STEP:
        return take_step(w, ev);
    case HM_EV_COUNTER:
        return put_counter(w, ev);
    case HM_EV_GAP:
        return put_gap(w, ev);
    case HM_EV_NCCL_CALL:
        name_call(w, &s, ev);
        break;
    case HM_EV_MEMCPY:
        s.category = HM_CAT_MEMCPY;
        s.name = name_of(w, copy_name(&ev->u.copy));
        add_arg(&s, HM_ARG_CORRELATION, HM_ARG_U64, ev->u.copy.correlation);
        add_arg(&s, HM_ARG_BYTES, HM_ARG_U64, ev->u.copy.bytes);
        break;
    case HM_EV_MEMSET:
        s.category = HM_CAT_MEMCPY;
        s.name = name_of(w, "Memset");
        add_arg(&s, HM_ARG_CORRELATION, HM_ARG_U64, ev->u.set.correlation);
        add_arg(&s, HM_ARG_BYTES, HM_ARG_U64, ev->u.set.bytes);
        break;
    case HM_EV_API:
        s.category = HM_CAT_API;
        s.name = ev->u.api.name;
        add_arg(&s, HM_ARG_CORRELATION, HM_ARG_U64, ev->u.api.correlation);
        break;
    case HM_EV_MPI:
        s.category = HM_CAT_MPI;
        s.name = name_of(w, mpi_name(ev->aux));
        add_arg(&s, HM_ARG_BYTES, HM_ARG_U64, ev->u.mpi.bytes);
        add_arg(&s, HM_ARG_PEER, HM_ARG_I64, (uint64_t)(int64_t)ev->u.mpi.peer);
        break;
    case HM_EV_MARK:
        s.instant = 1;
        s.name = ev->u.range.name;
        break;
    case HM_EV_RANGE:
        s.name = ev->u.range.name;
        break;
    default:
        return HM_OK;
    }
    s.end_ns = end_of(w, ev, &s);
    hm_status_t st = track_for(w, ev->track, &def, &track);
    return st ? st : place(w, &s, track, &lane);
}

/* ---- one instant ---- */

static int64_t length(const struct hm_event *ev)
{
    return ev->dur_ns == HM_DUR_OPEN ? INT64_MAX : ev->dur_ns;
}

/* Of the events of one instant the longest goes first: it may hold the others. */
static hm_status_t flush_ties(struct rows *w)
{
    hm_status_t st = HM_OK;
    for (uint32_t i = 1; i < w->n_ties; i++) {
        struct hm_event ev = w->tie[i];
        uint32_t k = i;
        for (; k > 0 && length(&w->tie[k - 1]) < length(&ev); k--)
            w->tie[k] = w->tie[k - 1];
        w->tie[k] = ev;
    }
    for (uint32_t i = 0; i < w->n_ties && !st; i++)
        st = put_event(w, &w->tie[i]);
    w->n_ties = 0;
    return st;
}

static hm_status_t take(struct rows *w, const struct hm_event *ev)
{
    hm_status_t st = HM_OK;
    if (w->n_ties && (w->tie[0].t_ns != ev->t_ns || w->n_ties == MAX_TIES))
        st = flush_ties(w);
    w->tie[w->n_ties++] = *ev;
    return st;
}

/* ---- the rank ---- */

static hm_status_t make_cursors(struct rows *w, uint32_t rank)
{
    const struct hm_run *run = &w->e->run;
    uint32_t lo = 0, hi = run->n_workers;
    while (lo < hi) { /* workers are sorted by rank */
        uint32_t mid = lo + (hi - lo) / 2;
        if (run->worker[mid].rank < rank)
            lo = mid + 1;
        else
            hi = mid;
    }
    for (hi = lo; hi < run->n_workers && run->worker[hi].rank == rank;)
        hi++;
    w->n_cursors = hi - lo;
    w->cursor = calloc(w->n_cursors + 1, sizeof(*w->cursor));
    w->n_track_of = hm_rank_n_defs(w->rank, HM_DEF_TRACK);
    w->track_of = malloc((w->n_track_of + 1) * sizeof(*w->track_of));
    if (!w->cursor || !w->track_of)
        return hm_fail(HM_E_NOMEM, "timeline", "out of memory");
    memset(w->track_of, 0xff, (w->n_track_of + 1) * sizeof(*w->track_of));
    for (uint32_t i = 0; i < w->n_cursors; i++) {
        w->cursor[i].worker = lo + i;
        w->cursor[i].device = run->worker[lo + i].device;
    }
    return HM_OK;
}

static hm_status_t run_rank(struct rows *w, uint32_t rank)
{
    struct hm_batch batch;
    hm_status_t st = make_cursors(w, rank);
    if (!st)
        st = hm_lanes_create(rank, w->sink, &w->lanes);
    if (st)
        return st;
    w->wait_name = name_of(w, "wait for rank");
    w->step_name = name_of(w, "step");
    while (!st && (st = hm_rank_next(w->rank, &batch)) == HM_OK)
        for (uint32_t i = 0; i < batch.n && !st; i++)
            st = take(w, &batch.ev[i]);
    if (st == HM_END)
        st = flush_ties(w);
    if (!st)
        st = put_step(w, w->info->t1_ns);
    for (uint32_t i = 0; i < w->n_cursors && !st; i++)
        st = advance(w, &w->cursor[i], INT64_MAX);
    return st ? st : w->sink->ops->rank_end(w->sink, rank);
}

static const struct hm_rank_info *info_of(const struct hm_run *run, uint32_t rank)
{
    for (uint32_t i = 0; i < run->n_present; i++)
        if (run->rank[i].rank == (int32_t)rank)
            return &run->rank[i];
    return NULL;
}

hm_status_t hm_timeline_rank(struct hm_engine *e, uint32_t rank, struct hm_rank *r,
                             struct hm_sink *sink)
{
    struct rows *w = calloc(1, sizeof(*w));
    if (!w)
        return hm_fail(HM_E_NOMEM, "timeline", "out of memory");
    w->e = e;
    w->rank = r;
    w->sink = sink;
    w->info = info_of(&e->run, rank);
    hm_status_t st = w->info ? run_rank(w, rank) : HM_E_BUG;
    hm_lanes_destroy(w->lanes);
    free(w->cursor);
    free(w->track_of);
    free(w);
    return st;
}
