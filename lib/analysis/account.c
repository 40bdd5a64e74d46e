/* Account: device operations in start order -> step parts, gate chains, kernel statistics.
 *
 * Box: lib/analysis. Pure, one thread per object. Each operation is given, when it is seen, what
 * lies between it and the collective that its gate chain rests on (account_chain.c), and goes to
 * the open step (account_step.c). Memory: the last OPS operations and CALLS host calls, a ring of
 * host intervals (host.c); the operations of the open step. Source: facts on
 * analysis 2.2, 2.3, 2.5; facts on scenarios, rules 3 and 4.
 */
#include "analysis/account_inside.h"

#include <stdlib.h>
#include <string.h>

static const int64_t TOLERANCE_NS = 10000; /* rule 3: max(10 us, 3 clock errors) */
/* A first launch that takes this long loads its code: a launch takes some 10 us, loading 4 to 5 ms
 * (facts on analysis, 3.14). */
static const int64_t LOAD_NS = 1000000;

hm_status_t hm_account_create(const struct hm_account_in *in, struct hm_account **account_p)
{
    struct hm_account *a = calloc(1, sizeof(*a));
    if (!a)
        return hm_fail(HM_E_NOMEM, "account", "out of memory");
    a->in = *in;
    a->tolerance_ns = hm_max64(TOLERANCE_NS, 3 * in->clock_error_ns);
    a->n_slots = 1024;
    a->op = calloc(HM_ACC_OPS, sizeof(*a->op));
    a->call = calloc(HM_ACC_CALLS, sizeof(*a->call));
    a->slot = calloc(a->n_slots, sizeof(*a->slot));
    a->first_ns = INT64_MAX;
    a->end_ns = a->busy_ns = INT64_MIN;
    a->memory_peak = HM_NONE(1);
    struct hm_opstats_in ops = {in->ctx, in->step, in->n_steps, in->string};
    hm_status_t st = in->opstat && in->string ? hm_opstats_create(&ops, &a->ops) : HM_OK;
    if (st != HM_OK || !a->op || !a->call || !a->slot || hm_host_create(&a->host) != HM_OK) {
        hm_account_destroy(a);
        return hm_fail(HM_E_NOMEM, "account", "out of memory");
    }
    *account_p = a;
    return HM_OK;
}

void hm_account_destroy(struct hm_account *a)
{
    if (!a)
        return;
    hm_host_destroy(a->host);
    hm_opstats_destroy(a->ops);
    free(a->op);
    free(a->call);
    free(a->seen);
    free(a->cls);
    free(a->wait);
    free(a->piece);
    free(a->idle);
    free(a->scratch);
    free(a->stat);
    free(a->last_dur);
    free(a->slot);
    free(a);
}

/* --- host side ------------------------------------------------------------------------------ */

/* A byte per id, grown as needed; NULL = no memory or not an id. */
static uint8_t *byte_of(uint8_t **v_p, uint32_t *n_p, uint32_t id)
{
    if (id == HM_NO_ID || id > (1u << 24))
        return NULL;
    if (id >= *n_p) {
        uint32_t n = id + 1024;
        uint8_t *v = realloc(*v_p, n);
        if (!v)
            return NULL;
        memset(v + *n_p, 0, n - *n_p);
        *v_p = v;
        *n_p = n;
    }
    return &(*v_p)[id];
}

/* What a name stands for as a range or as a call. */
static enum hm_host_class class_of(struct hm_account *a, uint32_t id, int as_call)
{
    uint8_t *c = byte_of(&a->cls, &a->n_names, id);
    if (!c)
        return HM_HOST_OTHER;
    if (!*c) {
        const char *s = a->in.string ? a->in.string(a->in.ctx, id) : "";
        *c = (uint8_t)((1 + hm_host_of_range(s)) | (1 + hm_host_of_call(s)) << 4);
    }
    return (enum hm_host_class)(as_call ? (*c >> 4) - 1 : (*c & 15) - 1);
}

static const struct hm_acc_call *call_of(const struct hm_account *a, uint32_t correlation)
{
    const struct hm_acc_call *c = &a->call[correlation % HM_ACC_CALLS];
    return correlation && c->correlation == correlation ? c : NULL;
}

static void api_event(struct hm_account *a, const struct hm_event *ev)
{
    if (ev->flags & HM_EVF_NO_TIME)
        return;
    int64_t dur = hm_max64(ev->dur_ns, 0);
    if (ev->u.api.correlation) {
        a->has_calls = 1;
        a->call[ev->u.api.correlation % HM_ACC_CALLS] =
            (struct hm_acc_call){ev->t_ns, ev->t_ns + dur, ev->u.api.correlation, ev->track};
    }
    hm_host_add(a->host, class_of(a, ev->u.api.name, 1), ev->track, ev->u.api.name, ev->t_ns, dur);
}

/* A wait for the device; the record names no thread, the call of its correlation does. Type 2 makes
 * a stream wait, not the host. */
static void sync_event(struct hm_account *a, const struct hm_event *ev)
{
    const struct hm_acc_call *c = call_of(a, ev->u.sync.correlation);
    if (ev->aux != 2)
        hm_host_add(a->host, HM_HOST_SYNC, c ? c->track : HM_NO_ID, HM_NO_ID, ev->t_ns, ev->dur_ns);
}

/* --- device side ---------------------------------------------------------------------------- */

/* --- joining with arrivals ------------------------------------------------------------------ */

static hm_status_t fill(struct hm_account *a, int64_t t)
{
    while (!a->no_more && (a->n_wait == 0 || a->wait[a->n_wait - 1].a.start_ns <= t)) {
        struct hm_arrival arrival[64];
        struct hm_annot annot[64];
        size_t n = a->in.arrivals ? a->in.arrivals(a->in.ctx, arrival, annot, 64) : 0;
        a->no_more = n == 0;
        for (size_t i = 0; i < n; i++) {
            struct hm_acc_pending *w =
                hm_acc_grow((void **)&a->wait, &a->cap_wait, a->n_wait, sizeof(*w));
            if (!w)
                return hm_fail(HM_E_NOMEM, "account", "out of memory");
            *w = (struct hm_acc_pending){.a = arrival[i], .v = annot[i]};
            a->n_wait++;
        }
    }
    return HM_OK;
}

static hm_status_t emit(struct hm_account *a)
{
    hm_status_t st = HM_OK;
    for (; st == HM_OK && a->head < a->n_wait && a->wait[a->head].done; a->head++) {
        a->n_taken++;
        if (a->in.segment)
            st = a->in.segment(a->in.ctx, &a->wait[a->head].s);
    }
    if (a->head > 256 && 2 * a->head > a->n_wait) {
        memmove(a->wait, a->wait + a->head, (a->n_wait - a->head) * sizeof(*a->wait));
        a->n_wait -= a->head;
        a->head = 0;
    }
    return st;
}

static hm_status_t op_add(struct hm_account *a, struct hm_acc_op *o, uint32_t stat,
                          struct hm_acc_pending *w)
{
    unsigned s = hm_acc_stream(a, o->stream);
    o->before = a->tail[s];
    o->gate = HM_ACC_NO_OP;
    if (w) {
        hm_acc_segment_of(a, o, &w->s);
        w->done = 1;
        if (a->in.link && o->arrival == a->in.explain)
            hm_acc_explain(a, o);
    } else if (o->type != HM_OP_COMM) {
        hm_acc_chain_of(a, o);
    }
    o->id = a->n_ops;
    a->op[a->n_ops % HM_ACC_OPS] = *o;
    a->tail[s] = a->n_ops++;
    return hm_acc_step_op(a, o, stat);
}

static int64_t boundary(const struct hm_acc_pending *w)
{
    return w->v.flags & HM_ANNOT_MATCHED ? w->v.last_ns : w->a.start_ns;
}

static struct hm_acc_op op_of_arrival(const struct hm_account *a, size_t i, uint32_t stream)
{
    const struct hm_acc_pending *w = &a->wait[i];
    return (struct hm_acc_op){.start_ns = w->a.start_ns,
                              .end_ns = hm_max64(w->a.end_ns, w->a.start_ns),
                              .last_ns = boundary(w),
                              .call_ns = HM_IS_NONE(w->a.host_ns) ? INT64_MIN : w->a.host_ns,
                              .called_ns = HM_IS_NONE(w->a.launch_end_ns) ? w->a.host_ns
                                                                          : w->a.launch_end_ns,
                              .call0_ns = HM_IS_NONE(w->a.host_ns) ? INT64_MIN : w->a.host_ns,
                              .stream = stream,
                              .thread = HM_NO_ID,
                              .name = HM_NO_ID,
                              .arrival = a->n_taken + (uint32_t)(i - a->head),
                              .type = HM_OP_COMM};
}

/* Arrivals before t without a kernel (host times only, or a kernel that is not in the file). */
static hm_status_t lone_until(struct hm_account *a, int64_t t)
{
    hm_status_t st = fill(a, t);
    for (size_t i = a->head; st == HM_OK && i < a->n_wait && a->wait[i].a.start_ns < t; i++) {
        if (a->wait[i].done)
            continue;
        struct hm_acc_op o =
            op_of_arrival(a, i, HM_NO_ID - 1 - (uint32_t)(a->wait[i].a.comm & 0xff));
        st = op_add(a, &o, HM_NO_ID, &a->wait[i]);
    }
    return st == HM_OK ? emit(a) : st;
}

/* Steps that end before t can be closed: all their operations have been seen. */
static hm_status_t steps_until(struct hm_account *a, int64_t t)
{
    hm_status_t st = HM_OK;
    while (st == HM_OK && a->i_step + 1 < a->in.n_steps && a->in.step[a->i_step].t1_ns <= t)
        if ((st = lone_until(a, a->in.step[a->i_step].t1_ns)) == HM_OK)
            st = hm_acc_step_flush(a, 0);
    return st;
}

static uint32_t correlation_of(const struct hm_event *ev)
{
    return ev->kind == HM_EV_KERNEL   ? ev->u.kernel.correlation
           : ev->kind == HM_EV_MEMCPY ? ev->u.copy.correlation
                                      : ev->u.set.correlation;
}

/* The first launch of a kernel loads its code where that is done lazily. */
static void first_launch(struct hm_account *a, const struct hm_event *ev,
                         const struct hm_acc_call *c)
{
    uint8_t *seen =
        ev->kind == HM_EV_KERNEL ? byte_of(&a->seen, &a->n_seen, ev->u.kernel.kernel) : NULL;
    if (!seen || *seen)
        return;
    *seen = 1;
    if (c->end_ns - c->t_ns >= LOAD_NS)
        hm_host_add(a->host, HM_HOST_MODULE, c->track,
                    a->in.kernel_name ? a->in.kernel_name(a->in.ctx, ev->u.kernel.kernel)
                                      : HM_NO_ID,
                    c->t_ns, c->end_ns - c->t_ns);
}

static hm_status_t device_event(struct hm_account *a, const struct hm_event *ev)
{
    uint32_t type = 0, device = 0, stream = 0;
    if (!a->in.track || !a->in.track(a->in.ctx, ev->track, &type, &device, &stream))
        return HM_OK;
    if (type != HM_TRACK_STREAM || ev->dur_ns < 0 ||
        (ev->t_ns > 0 && ev->dur_ns > INT64_MAX - ev->t_ns) ||
        (ev->flags & (HM_EVF_BAD_TIME | HM_EVF_NO_TIME)))
        return HM_OK;
    const struct hm_acc_call *c = call_of(a, correlation_of(ev));
    if (device != a->in.device) { /* its launch kept the thread from launching here */
        if (c)
            hm_host_add(a->host, HM_HOST_SERIAL, c->track, HM_NO_ID, c->t_ns, c->end_ns - c->t_ns);
        return HM_OK;
    }
    hm_status_t st = lone_until(a, ev->t_ns);
    if (st != HM_OK)
        return st;
    int64_t end = ev->t_ns + ev->dur_ns;
    struct hm_acc_pending *w = NULL;
    size_t i = a->head;
    for (; ev->kind == HM_EV_KERNEL && i < a->n_wait && a->wait[i].a.start_ns == ev->t_ns; i++)
        if (!a->wait[i].done && a->wait[i].a.end_ns == end) {
            w = &a->wait[i];
            break;
        }
    struct hm_acc_op o = {.start_ns = ev->t_ns,
                          .end_ns = end,
                          .call_ns = INT64_MIN,
                          .call0_ns = INT64_MIN,
                          .stream = stream,
                          .thread = HM_NO_ID};
    if (w)
        o = op_of_arrival(a, i, stream);
    if (c) {
        o.call_ns = c->t_ns;
        o.called_ns = c->end_ns;
        o.thread = c->track;
        hm_host_launcher(a->host, c->track);
        first_launch(a, ev, c);
    } else if (w && HM_IS_NONE(w->a.launch_end_ns)) {
        o.call_ns = INT64_MIN; /* an enqueue alone does not say when it was launched */
    }
    o.name = ev->kind == HM_EV_KERNEL && a->in.kernel_name
                 ? a->in.kernel_name(a->in.ctx, ev->u.kernel.kernel)
                 : HM_NO_ID;
    uint32_t stat = HM_NO_ID;
    if (!w) {
        const char *name =
            o.name != HM_NO_ID && a->in.string ? a->in.string(a->in.ctx, o.name) : "";
        if (!strncmp(name, "nccl", 4)) { /* communication that was not matched: all transfer */
            o.type = HM_OP_COMM;
            o.arrival = HM_NO_ID;
            o.last_ns = o.start_ns;
        } else {
            o.type = ev->kind == HM_EV_KERNEL ? HM_OP_COMPUTE : HM_OP_COPY;
            if (ev->kind == HM_EV_KERNEL)
                stat = hm_acc_stat_of(a, ev);
        }
    }
    if (ev->kind == HM_EV_MEMCPY && ev->u.copy.copy == 1 &&
        ev->u.copy.bytes < (uint64_t)(INT64_MAX - a->fed_bytes) / 2)
        a->fed_bytes += (int64_t)ev->u.copy.bytes;
    st = op_add(a, &o, stat, w);
    if (st == HM_OK && a->ops)
        st = hm_opstats_device(a->ops, ev, o.name, a->gap_by_ns);
    return st == HM_OK ? emit(a) : st;
}

/* Device memory in use: as the record says where it does, else by what was seen come and go. */
static void memory_event(struct hm_account *a, const struct hm_event *ev)
{
    const struct hm_ev_memory *m = &ev->u.memory;
    if (m->memory == 1 || m->memory == 2 || m->bytes > INT64_MAX / 2)
        return; /* the host's own */
    int64_t bytes = (int64_t)m->bytes;
    if (m->used && m->used <= INT64_MAX)
        a->memory = (int64_t)m->used;
    else if (m->op == 1)
        a->memory = a->memory > INT64_MAX - bytes ? INT64_MAX : a->memory + bytes;
    else
        a->memory = a->memory > bytes ? a->memory - bytes : 0;
    if (HM_IS_NONE(a->memory_peak) || a->memory > a->memory_peak)
        a->memory_peak = a->memory;
}

hm_status_t hm_account_event(struct hm_account *a, const struct hm_event *ev)
{
    hm_status_t st = steps_until(a, ev->t_ns);
    if (st == HM_OK && a->ops)
        st = hm_opstats_host(a->ops, ev);
    if (st != HM_OK)
        return st;
    switch (ev->kind) {
    case HM_EV_MEMORY:
        memory_event(a, ev);
        return HM_OK;
    case HM_EV_KERNEL:
    case HM_EV_MEMCPY:
    case HM_EV_MEMSET:
        return device_event(a, ev);
    case HM_EV_API:
        api_event(a, ev);
        return HM_OK;
    case HM_EV_SYNC:
        sync_event(a, ev);
        return HM_OK;
    case HM_EV_MPI:
        hm_host_add(a->host, HM_HOST_BLOCKED, ev->track, HM_HOST_NAME_MPI | ev->aux, ev->t_ns,
                    ev->dur_ns);
        return HM_OK;
    case HM_EV_OVERHEAD: /* its record names no thread of ours */
        hm_host_add(a->host, hm_host_of_overhead(ev->aux), HM_NO_ID, HM_NO_ID, ev->t_ns,
                    ev->dur_ns);
        return HM_OK;
    case HM_EV_RANGE:
        hm_host_add(a->host, class_of(a, ev->u.range.name, 0), ev->track, ev->u.range.name,
                    ev->t_ns, ev->dur_ns);
        return HM_OK;
    default:
        return HM_OK;
    }
}

hm_status_t hm_account_end(struct hm_account *a)
{
    hm_status_t st = lone_until(a, INT64_MAX);
    while (st == HM_OK && a->i_step < a->in.n_steps)
        st = hm_acc_step_flush(a, 1);
    if (st == HM_OK)
        st = hm_acc_stats_end(a);
    const struct hm_opstat *row = NULL;
    size_t n = 0;
    if (st == HM_OK && a->ops)
        st = hm_opstats_end(a->ops, &row, &n);
    for (size_t i = 0; st == HM_OK && i < n; i++)
        st = a->in.opstat(a->in.ctx, &row[i]);
    return st;
}
