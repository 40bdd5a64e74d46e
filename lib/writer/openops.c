/* What is under way: NCCL operations, spans, and the threads' stacks of ranges and MPI calls.
 *
 * Box: lib/writer; the main thread. At the end, after the last drain, they become events of
 * duration HM_DUR_OPEN; in a snapshot of a running process each becomes an event of its own kind,
 * because the thing itself will be recorded when it ends. Read from the pool while the process
 * changes it: what does not hold still for a moment is left out.
 */
#include "core/clock.h"
#include "writer/writer.h"

#include <string.h>

/* The innermost come last, a thread at a time. */
static void each_open(const struct hm_writer *w, hm_open_func_t func, void *ctx)
{
    struct hm_event ev[HM_OPEN_ROWS];
    for (uint32_t i = 0; i < w->view.n_ops; i++)
        if (hm_op_peek(&w->view, i, ev))
            func(ctx, ev, 0);
    for (uint32_t i = 0; i < w->view.n_spans; i++)
        if (hm_span_peek(&w->view, i, ev)) {
            ev[0].dur_ns = HM_DUR_OPEN;
            func(ctx, ev, 0);
        }
    for (uint32_t i = 0; i < w->view.n_threads; i++) {
        const struct hm_thread *row = &w->view.thread[i];
        uint32_t tid = atomic_load_explicit(&row->tid, memory_order_relaxed);
        uint32_t n = tid ? hm_open_peek(row, ev) : 0;
        for (uint32_t k = 0; k < n; k++)
            func(ctx, &ev[k], tid);
    }
}

static void end_open(void *ctx, const struct hm_event *at, uint32_t tid)
{
    (void)tid;
    /* open, or ended and kept back until its parts were counted: its duration says which */
    hm_writer_append(ctx, at, 1);
}

/* Where each communicator stands: of ranks that wait for each other, the one that called less is
 * the one waited for. */
static void comm_states(struct hm_writer *w, uint16_t number)
{
    int64_t now = hm_now();
    for (uint32_t i = 0; i < w->view.n_comms; i++) {
        const struct hm_comm_slot *c = &w->view.comm[i];
        uint32_t alive = atomic_load_explicit(&c->alive, memory_order_acquire);
        if (!alive && number != HM_STATE_AT_END)
            continue;
        struct hm_event ev = {
            .t_ns = now, .kind = HM_EV_NCCL_STATE, .aux = number, .track = HM_NO_ID};
        ev.u.nccl_state = (struct hm_ev_nccl_state){
            .last_ns = atomic_load_explicit(&c->last_ns, memory_order_relaxed),
            .comm = c->comm,
            .n_called = atomic_load_explicit(&c->n_called, memory_order_relaxed),
            .n_launched = atomic_load_explicit(&c->n_launched, memory_order_relaxed),
            .n_announced = atomic_load_explicit(&c->n_coll, memory_order_relaxed),
            .n_enqueued = atomic_load_explicit(&c->n_stopped, memory_order_relaxed),
            .launch = c->launch,
            .n_unlaunched = atomic_load_explicit(&c->n_unbound, memory_order_relaxed),
            .alive = alive};
        if (ev.u.nccl_state.n_called || ev.u.nccl_state.n_announced)
            hm_writer_append(w, &ev, 1);
    }
}

void hm_writer_open_ops(struct hm_writer *w)
{
    comm_states(w, HM_STATE_AT_END);
    each_open(w, end_open, w);
}

/* --- snapshots --- */

struct snapshot {
    struct hm_writer *w;
    int64_t now;
    uint16_t number;
};

static void snap(void *ctx, const struct hm_event *at, uint32_t tid)
{
    (void)tid;
    const struct snapshot *s = ctx;
    if (at->dur_ns != HM_DUR_OPEN)
        return;
    struct hm_event ev = {.t_ns = at->t_ns,
                          .dur_ns = s->now > at->t_ns ? s->now - at->t_ns : 0,
                          .kind = HM_EV_OPEN,
                          .flags = at->flags & HM_EVF_CLOCK,
                          .aux = s->number,
                          .track = at->track};
    ev.u.open = (struct hm_ev_open){.name = HM_NO_ID,
                                    .domain = HM_NO_ID,
                                    .comm = HM_NO_ID,
                                    .what_aux = at->aux,
                                    .what = at->kind};
    switch (at->kind) {
    case HM_EV_RANGE:
        ev.u.open.name = at->u.range.name;
        ev.u.open.domain = at->u.range.domain;
        ev.u.open.depth = at->u.range.depth;
        break;
    case HM_EV_NCCL_CALL:
    case HM_EV_NCCL_COLL:
    case HM_EV_NCCL_P2P:
    case HM_EV_NCCL_CE:
        ev.u.open.comm = at->u.op.comm;
        ev.u.open.call = at->u.op.call;
        ev.u.open.count = at->u.op.count;
        break;
    default:
        break;
    }
    hm_writer_append(s->w, &ev, 1);
}

void hm_snapshot_take(struct hm_writer *w, uint16_t number)
{
    struct snapshot s = {.w = w, .now = hm_now(), .number = number};
    hm_writer_drain(w, 0);
    comm_states(w, number);
    each_open(w, snap, &s);
    hm_writer_drain(w, 0); /* the definitions they name */
    w->control.flush = 1;
}

/* --- for people --- */

static const char *text_of(const struct hm_writer *w, uint32_t id, uint32_t *len_p)
{
    const void *bytes;
    if (id == HM_NO_ID || hm_defs_get(&w->view.defs, HM_DEF_STRING, id, &bytes, len_p))
        return NULL;
    return bytes;
}

static void print_text(const struct hm_writer *w, FILE *f, uint32_t id)
{
    uint32_t len = 0;
    const char *text = text_of(w, id, &len);
    for (uint32_t i = 0; text && i < len && i < 200; i++)
        fputc((unsigned char)text[i] < ' ' ? '?' : text[i], f);
}

struct printer {
    const struct hm_writer *w;
    FILE *f;
    int64_t now;
    uint32_t n;
};

static void print_open(void *ctx, const struct hm_event *at, uint32_t tid)
{
    static const char *const func[HM_NCCL_N_FUNCS] = {
        "NCCL operation", "AllReduce", "AllGather", "ReduceScatter", "Broadcast",
        "Reduce",         "Send",      "Recv",      "SendRecv",      "AllToAll",
        "Gather",         "Scatter",   "PutSignal", "Signal",        "WaitSignal"};
    struct printer *p = ctx;
    if (at->dur_ns != HM_DUR_OPEN || p->n++ >= 64)
        return;
    fprintf(p->f, "open %lld ", (long long)(p->now - at->t_ns));
    if (at->kind == HM_EV_RANGE) {
        fprintf(p->f, "thread %u ", (unsigned)tid);
        print_text(p->w, p->f, at->u.range.name);
    } else if (at->kind == HM_EV_NCCL_CALL || at->kind == HM_EV_NCCL_COLL ||
               at->kind == HM_EV_NCCL_P2P || at->kind == HM_EV_NCCL_CE) {
        unsigned which = at->aux & 0xff;
        fprintf(p->f, "%s %s, call %u", at->kind == HM_EV_NCCL_CALL ? "call of" : "running",
                func[which < HM_NCCL_N_FUNCS ? which : 0],
                (unsigned)(at->u.op.call & ~HM_CALL_P2P));
    } else {
        fprintf(p->f, "event of kind %u", (unsigned)at->kind);
    }
    fputc('\n', p->f);
}

static void print_comms(const struct hm_writer *w, FILE *f, int64_t now)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < w->view.n_comms && n < 64; i++) {
        const struct hm_comm_slot *c = &w->view.comm[i];
        const void *bytes;
        uint32_t len, called = atomic_load_explicit(&c->n_called, memory_order_relaxed);
        if (!atomic_load_explicit(&c->alive, memory_order_acquire) || !called ||
            hm_defs_get(&w->view.defs, HM_DEF_COMM, c->comm, &bytes, &len) ||
            len != sizeof(struct hm_def_comm))
            continue;
        struct hm_def_comm def;
        memcpy(&def, bytes, sizeof(def));
        int64_t last = atomic_load_explicit(&c->last_ns, memory_order_relaxed);
        n++;
        fprintf(f, "comm %016llx rank %d called %u launched %u announced %u last %lld\n",
                (unsigned long long)def.hash, (int)def.crank, (unsigned)called,
                (unsigned)atomic_load_explicit(&c->n_launched, memory_order_relaxed),
                (unsigned)atomic_load_explicit(&c->n_coll, memory_order_relaxed),
                (long long)(last ? now - last : -1));
    }
}

void hm_snapshot_print(const struct hm_writer *w, FILE *f)
{
    struct printer p = {.w = w, .f = f, .now = hm_now()};
    print_comms(w, f, p.now);
    each_open(w, print_open, &p);
}
