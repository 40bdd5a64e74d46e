/* Gate chains: what lies between an operation and the collective that it rests on (rule 3).
 *
 * Box: lib/analysis. Pure. One addition to what the gate has, so an arrival costs no walk.
 * Invariant: the parts of a chain sum to (start - carry).
 * Source: facts on analysis 2.5; facts on scenarios, rule 3.
 */
#include "analysis/account_inside.h"

#include <stdlib.h>
#include <string.h>

enum { SYNC_NS = 50000 /* a host wait returns this long after the operation it waited for */ };
static const int64_t SLACK_NS = 1000; /* starts and ends of one device are this exact */

struct hm_acc_op *hm_acc_op_at(struct hm_account *a, uint64_t i)
{
    return i == HM_ACC_NO_OP || i >= a->n_ops || i + HM_ACC_OPS < a->n_ops + 1
               ? NULL
               : &a->op[i % HM_ACC_OPS];
}

unsigned hm_acc_stream(struct hm_account *a, uint32_t stream)
{
    for (unsigned i = 0; i < a->n_streams; i++)
        if (a->stream_id[i] == stream)
            return i;
    if (a->n_streams == HM_ACC_STREAMS)
        return HM_ACC_STREAMS - 1;
    a->stream_id[a->n_streams] = stream;
    a->tail[a->n_streams] = HM_ACC_NO_OP;
    return a->n_streams++;
}

static int launched_before(const struct hm_acc_op *o, const struct hm_acc_op *than)
{
    return o->call_ns == INT64_MIN || than->call_ns == INT64_MIN || o->call_ns < than->call_ns;
}

/* What `o` may have waited for by an event: the operation of another stream, launched before it,
 * that ended last before it started. near: it must have ended within the tolerance. */
static struct hm_acc_op *awaited(struct hm_account *a, const struct hm_acc_op *o, int with_comm,
                                 int near)
{
    struct hm_acc_op *best = NULL;
    for (unsigned s = 0; s < a->n_streams; s++) {
        if (a->stream_id[s] == o->stream)
            continue;
        struct hm_acc_op *w = hm_acc_op_at(a, a->tail[s]);
        for (int i = 0; w && i < HM_ACC_LOOK_BACK && !launched_before(w, o); i++)
            w = hm_acc_op_at(a, w->before);
        int last = 1; /* w is the last one launched before o: an event stands behind it */
        for (; w && w->end_ns > o->start_ns + SLACK_NS; last = 0)
            w = hm_acc_op_at(a, w->before);
        while (w && w->type == HM_OP_COMM && !with_comm) {
            w = hm_acc_op_at(a, w->before);
            last = 0;
        }
        if (!w || (!with_comm && w->type == HM_OP_COMM))
            continue;
        if ((near || !last || w->call_ns == INT64_MIN) && w->end_ns < o->start_ns - a->tolerance_ns)
            continue;
        if (!best || w->end_ns > best->end_ns)
            best = w;
    }
    return best;
}

/* The chain behind an operation that ended at `t` (clipped): its own chain and itself; a
 * collective is a base. */
static struct hm_acc_chain chain_through(const struct hm_acc_op *o, int64_t t)
{
    struct hm_acc_chain c;
    if (o->type == HM_OP_COMM) {
        memset(&c, 0, sizeof(c));
        c.carry_ns = t;
        c.base = o->arrival;
        c.base_op = o->id;
        c.top.name = HM_NO_ID;
        c.node_ns = INT64_MIN;
        return c;
    }
    c = o->chain;
    c.part[o->type == HM_OP_COPY ? HM_C_COPY : HM_C_COMPUTE] += t - o->start_ns;
    c.n_kernels++;
    return c;
}

static struct hm_acc_chain chain_none(int64_t t)
{
    return (struct hm_acc_chain){.carry_ns = t,
                                 .base = HM_NO_ID,
                                 .base_op = HM_ACC_NO_OP,
                                 .node_ns = INT64_MIN,
                                 .top.name = HM_NO_ID};
}

/* Host time [t0, t1) before the launch of `o`. */
static void charge_host(struct hm_account *a, struct hm_acc_chain *c, struct hm_acc_op *o,
                        int64_t t0, int64_t t1)
{
    if (t1 <= t0)
        return;
    int64_t ns[HM_HOST_N] = {0};
    hm_host_charge(a->host, o->thread, t0, t1, ns, &c->top);
    for (unsigned k = 0; k < HM_HOST_N; k++)
        c->part[hm_part_of_host[k]] += ns[k];
    o->host0_ns = t0;
    o->host1_ns = t1;
}

/* From the end of `d` to the host's launch of `o` at h: if the host waited for the device in
 * between, the chain goes on through what it waited for. */
static struct hm_acc_chain chain_host(struct hm_account *a, struct hm_acc_op *o,
                                      struct hm_acc_op *d, int64_t h)
{
    struct hm_acc_op *through = d;
    int64_t end = hm_host_sync_end(a->host, d->end_ns, h);
    for (unsigned s = 0; end != INT64_MIN && s < a->n_streams; s++) {
        struct hm_acc_op *w = hm_acc_op_at(a, a->tail[s]);
        for (int k = 0; w && k < HM_ACC_LOOK_BACK && w->end_ns > end + SLACK_NS; k++)
            w = hm_acc_op_at(a, w->before);
        if (w && w->end_ns >= end - SYNC_NS && w->end_ns > through->end_ns && w->end_ns <= h)
            through = w;
    }
    struct hm_acc_chain c = chain_through(through, through->end_ns);
    o->gate = through->id;
    o->gate_ns = through->end_ns;
    charge_host(a, &c, o, through->end_ns, h);
    return c;
}

/* `o` waited for collective `p`: it begins a new stretch of compute, which also had to wait for the
 * compute before it on its stream. */
static void node_of(struct hm_account *a, struct hm_acc_op *o, struct hm_acc_op *p)
{
    o->chain.node_ns = o->start_ns;
    if (p->node.known)
        return;
    p->node = (struct hm_acc_node){.start_ns = o->start_ns, .floor = HM_NO_ID, .known = 1};
    const struct hm_acc_op *c = hm_acc_op_at(a, o->before);
    if (c && c->type != HM_OP_COMM && c->chain.base != HM_NO_ID && c->chain.node_ns != INT64_MIN) {
        p->node.floor = c->chain.base;
        p->node.floor_op = c->chain.base_op;
        p->node.floor_ns = hm_min64(c->end_ns, o->start_ns) - c->chain.node_ns;
        /* one on which no arrival rests is told to nobody: on to what it waited for itself */
        const struct hm_acc_op *b = hm_acc_op_at(a, p->node.floor_op);
        for (int i = 0; i < HM_ACC_LOOK_BACK && b && b->type == HM_OP_COMM && b->node.known &&
                        !b->node.rested && b->node.floor != HM_NO_ID;
             i++) {
            p->node.floor = b->node.floor;
            p->node.floor_op = b->node.floor_op;
            p->node.floor_ns += b->node.floor_ns;
            b = hm_acc_op_at(a, p->node.floor_op);
        }
    }
}

void hm_acc_chain_of(struct hm_account *a, struct hm_acc_op *o)
{
    struct hm_acc_op *p = hm_acc_op_at(a, o->before), *w = awaited(a, o, 1, 1);
    int64_t h = o->call_ns == INT64_MIN ? INT64_MIN : hm_min64(o->called_ns, o->start_ns);
    if (w && (!p || w->end_ns > p->end_ns) && w->end_ns >= h)
        p = w;
    o->chain = chain_none(o->start_ns);
    o->gate = HM_ACC_NO_OP;
    if (!p)
        return;
    int64_t until = hm_min64(p->end_ns, o->start_ns);
    /* A launch that is not on record although launches are (copies are not by default): the device
     * was idle for longer than any queue takes, so the host had not launched it yet. */
    if (h == INT64_MIN && a->has_calls && o->start_ns - until > a->tolerance_ns)
        h = o->start_ns;
    if (h > until) {
        o->chain = chain_host(a, o, p, h);
        o->chain.part[HM_C_QUEUE] += o->start_ns - h;
    } else {
        o->chain = chain_through(p, until);
        o->gate = p->id;
        o->gate_ns = until;
        o->chain.part[HM_C_QUEUE] += o->start_ns - until;
    }
    if (p->type == HM_OP_COMM && o->chain.base_op == p->id && o->type == HM_OP_COMPUTE)
        node_of(a, o, p);
}

/* The collective before an arrival on its stream, [t0, t1): waiting, then transfer. */
static void charge_comm(struct hm_acc_chain *c, struct hm_acc_op *o, const struct hm_acc_op *p,
                        int64_t t0, int64_t t1)
{
    o->comm0_ns = t0;
    o->comm1_ns = t1;
    o->comm_last_ns = p->last_ns;
    int64_t wait = hm_max64(0, hm_min64(p->last_ns, t1) - t0);
    c->part[HM_C_WAIT] += wait;
    c->part[HM_C_TRANSFER] += t1 - t0 - wait;
}

static void fill_segment(struct hm_segment *s, const struct hm_acc_chain *c)
{
    memset(s, 0, sizeof(*s));
    s->carry_ns = c->carry_ns;
    s->compute_ns = c->part[HM_C_COMPUTE];
    s->comm_transfer_ns = c->part[HM_C_TRANSFER];
    s->comm_wait_ns = c->part[HM_C_WAIT];
    s->memcpy_ns = c->part[HM_C_COPY];
    s->idle_input_ns = c->part[HM_C_INPUT];
    s->idle_host_ns = c->part[HM_C_HOST];
    s->idle_queue_ns = c->part[HM_C_QUEUE];
    s->idle_serial_ns = c->part[HM_C_SERIAL];
    s->idle_module_ns = c->part[HM_C_MODULE];
    s->idle_blocked_ns = c->part[HM_C_BLOCKED];
    s->idle_alloc_ns = c->part[HM_C_ALLOC];
    s->idle_sync_ns = c->part[HM_C_SYNC];
    s->idle_checkpoint_ns = c->part[HM_C_CHECKPOINT];
    s->idle_observer_ns = c->part[HM_C_OBSERVER];
    s->host_name = c->top.name;
    s->host_name_ns = c->top.ns;
    s->host_class = c->top.cls;
    s->base = c->base;
    s->node_ns = s->floor_ns = HM_NONE(0);
    s->floor = s->top_kernel = HM_NO_ID;
    s->n_kernels = c->n_kernels;
}

void hm_acc_segment_of(struct hm_account *a, struct hm_acc_op *o, struct hm_segment *s)
{
    struct hm_acc_op *p = hm_acc_op_at(a, o->before), *q = awaited(a, o, 0, 0);
    int64_t h = o->call_ns == INT64_MIN ? INT64_MIN : hm_min64(o->called_ns, o->start_ns);
    if (p && p->type != HM_OP_COMM) {
        q = !q || p->end_ns >= q->end_ns ? p : q;
        p = NULL;
    }
    /* A collective of another stream that ended just before: the compute stream awaited it, and
     * this one what stands on the compute stream (replicas after the layers' own collectives). */
    struct hm_acc_op *w = awaited(a, o, 1, 1);
    if (w && w->type == HM_OP_COMM && (!q || w->end_ns > q->end_ns) &&
        (!p || w->end_ns > p->end_ns))
        q = w;
    int64_t tp = p ? hm_min64(p->end_ns, o->start_ns) : INT64_MIN;
    int64_t tq = q ? hm_min64(q->end_ns, o->start_ns) : INT64_MIN;
    struct hm_acc_chain c = chain_none(o->start_ns);
    int64_t ready = o->start_ns;
    o->gate = HM_ACC_NO_OP;
    if (q) {
        ready = hm_max64(tq, h);
        int64_t done = tq; /* charged up to here */
        o->gate = q->id;
        o->gate_ns = tq;
        if (h > tq && h > tp) {
            if (tp > tq) { /* the collective before it, then the host */
                c = chain_through(q, tq);
                charge_comm(&c, o, p, tq, tp);
                charge_host(a, &c, o, tp, h);
            } else {
                o->gate_ns = q->end_ns <= h ? o->gate_ns : h;
                c = q->end_ns <= h ? chain_host(a, o, q, h) : chain_through(q, h);
            }
            done = h;
        } else {
            c = chain_through(q, tq);
            if (h > tq) {
                charge_host(a, &c, o, tq, h);
                done = h;
            }
            if (tp > done) {
                charge_comm(&c, o, p, done, tp);
                done = tp;
            }
        }
        c.part[HM_C_QUEUE] += o->start_ns - done;
    } else if (p) {
        o->gate = p->id;
        o->gate_ns = tp;
        c = h > p->end_ns ? chain_host(a, o, p, h) : chain_through(p, tp);
        ready = hm_max64(tp, h);
        c.part[HM_C_QUEUE] += o->start_ns - ready;
    } else if (h != INT64_MIN && o->call0_ns != INT64_MIN && o->call0_ns < h) {
        /* the device's first work: all that is known is what its host did since it called */
        c = chain_none(o->call0_ns);
        charge_host(a, &c, o, o->call0_ns, h);
        c.part[HM_C_QUEUE] += o->start_ns - h;
        ready = h;
    }
    int64_t gate = hm_max64(hm_max64(tp, tq), h);
    fill_segment(s, &c);
    s->ready_ns = ready;
    s->before = p ? p->arrival : HM_NO_ID;
    struct hm_acc_op *base = hm_acc_op_at(a, c.base_op);
    if (base && base->type == HM_OP_COMM)
        base->node.rested = 1;
    if (base && base->type == HM_OP_COMM && base->node.known &&
        base->node.start_ns <= o->start_ns) {
        s->node_ns = base->node.start_ns - c.carry_ns;
        s->floor = base->node.floor;
        s->floor_ns = s->floor == HM_NO_ID ? HM_NONE(0) : base->node.floor_ns;
        s->via_node = c.node_ns == base->node.start_ns;
    }
    s->gate = gate == INT64_MIN                      ? HM_GATE_NONE
              : gate < o->start_ns - a->tolerance_ns ? HM_GATE_UNKNOWN
              : h == gate && h > tq && h > tp        ? HM_GATE_HOST
              : tp == gate && tp > tq                ? HM_GATE_COMM
                                                     : HM_GATE_DEVICE;
}

/* --- a chain in single stretches ----------------------------------------------------------------
 */

static void give(struct hm_account *a, int64_t t0, int64_t t1, unsigned part, uint32_t name)
{
    struct hm_link l = {t0, t1, name, (uint8_t)part};
    if (t1 > t0)
        a->in.link(a->in.ctx, &l);
}

enum { CUTS = 1024 };
struct cut { /* pieces of a host gap: named after the gap is cut, both use the host's scratch */
    uint32_t n;
    struct hm_link v[CUTS];
};

static void keep_cut(void *ctx, int64_t t0, int64_t t1, unsigned cls)
{
    struct cut *c = ctx;
    if (c->n == CUTS)
        c->v[CUTS - 1].t1_ns = t1; /* too many: the last one stands for the rest */
    else
        c->v[c->n++] = (struct hm_link){t0, t1, cls, hm_part_of_host[cls]};
}

static void give_host(struct hm_account *a, const struct hm_acc_op *o)
{
    static _Thread_local struct cut c;
    c.n = 0;
    hm_host_cut(a->host, o->thread, o->host0_ns, o->host1_ns, keep_cut, &c);
    for (uint32_t i = 0; i < c.n; i++) {
        const struct hm_link *l = &c.v[i];
        int64_t ns[HM_HOST_N] = {0};
        struct hm_host_top top = {0, HM_NO_ID, HM_HOST_OTHER};
        hm_host_charge(a->host, o->thread, l->t0_ns, l->t1_ns, ns, &top);
        give(a, l->t0_ns, l->t1_ns, l->part, top.cls == l->name ? top.name : HM_NO_ID);
    }
}

/* From the gate of `o` to its start: host and the collective before it where they lie, queue in
 * between. */
static void give_gap(struct hm_account *a, const struct hm_acc_op *o, int64_t from)
{
    int64_t t = from;
    for (int k = 0; k < 2; k++) { /* whichever comes first */
        int host = o->host1_ns > o->host0_ns && o->host0_ns >= t &&
                   (o->comm1_ns <= o->comm0_ns || o->comm0_ns < t || o->host0_ns <= o->comm0_ns);
        int comm = !host && o->comm1_ns > o->comm0_ns && o->comm0_ns >= t;
        if (host) {
            give(a, t, o->host0_ns, HM_C_QUEUE, HM_NO_ID);
            give_host(a, o);
            t = o->host1_ns;
        } else if (comm) {
            int64_t last = hm_max64(o->comm0_ns, hm_min64(o->comm_last_ns, o->comm1_ns));
            give(a, t, o->comm0_ns, HM_C_QUEUE, HM_NO_ID);
            give(a, o->comm0_ns, last, HM_C_WAIT, HM_NO_ID);
            give(a, last, o->comm1_ns, HM_C_TRANSFER, HM_NO_ID);
            t = o->comm1_ns;
        }
    }
    give(a, t, o->start_ns, HM_C_QUEUE, HM_NO_ID);
}

void hm_acc_explain(struct hm_account *a, const struct hm_acc_op *arrival)
{
    /* back to the base: the operations on the way, the latest first */
    uint64_t *way = malloc(HM_ACC_OPS * sizeof(*way));
    size_t n = 0;
    const struct hm_acc_op *o = arrival;
    if (!way)
        return;
    for (; n < HM_ACC_OPS && o->gate != HM_ACC_NO_OP; n++) {
        const struct hm_acc_op *g = hm_acc_op_at(a, o->gate);
        if (!g || g->type == HM_OP_COMM)
            break;
        way[n] = o->gate;
        o = g;
    }
    int64_t carry = arrival->gate == HM_ACC_NO_OP && arrival->host1_ns > arrival->host0_ns
                        ? arrival->host0_ns
                    : arrival->gate == HM_ACC_NO_OP ? arrival->start_ns
                    : o->gate == HM_ACC_NO_OP       ? o->start_ns
                                                    : o->gate_ns;
    if (o->gate != HM_ACC_NO_OP && !hm_acc_op_at(a, o->gate)) {
        give(a, o->chain.carry_ns, o->start_ns, HM_N_C, HM_NO_ID); /* forgotten */
        carry = o->start_ns;
    }
    for (size_t i = n; i-- > 0;) {
        const struct hm_acc_op *g = hm_acc_op_at(a, way[i]);
        const struct hm_acc_op *next = i ? hm_acc_op_at(a, way[i - 1]) : arrival;
        give_gap(a, g, carry);
        give(a, g->start_ns, next->gate_ns, g->type == HM_OP_COPY ? HM_C_COPY : HM_C_COMPUTE,
             g->name);
        carry = next->gate_ns;
    }
    give_gap(a, arrival, carry);
    free(way);
}
