/* Account: device operations in start order -> step parts, gate chains, kernel statistics.
 *
 * Box: lib/analysis. Pure, one thread per object. Each operation is given, when it is seen, what
 * lies between it and the collective that its gate chain rests on (chain); that is one addition to
 * what its gate has, so an arrival costs no walk. Memory: the last OPS operations, CALLS host
 * calls and HOSTS host intervals; the operations of the open step.
 * Invariant: the parts of a chain sum to (start - carry), the parts of a step to its window.
 * Source: facts on analysis 2.2, 2.3, 2.5; facts on scenarios, rules 3 and 4.
 */
#include "analysis/account.h"

#include "analysis/intervals.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    OPS = 1 << 14,
    CALLS = 1 << 16,
    HOSTS = 1 << 12,
    STREAMS = 256,
    LOOK_BACK = 4096, /* operations of one stream searched for the last one launched before */
    SYNC_NS = 50000   /* a host wait returns this long after the operation it waited for */
};
static const int64_t TOLERANCE_NS = 10000; /* rule 3: max(10 us, 3 clock errors) */
static const int64_t SLACK_NS = 1000;      /* starts and ends of one device are this exact */

enum part { COMPUTE, TRANSFER, WAIT, COPY, INPUT, HOST, QUEUE, SERIAL, MODULE, BLOCKED, N_PARTS };
enum op_type { OP_COMPUTE, OP_COPY, OP_COMM };

struct chain {
    int64_t carry_ns; /* end of the base, or where the chain begins */
    int64_t part[N_PARTS];
    uint32_t base, n_kernels; /* base: arrival, HM_NO_ID = none */
    uint64_t base_op;         /* the operation of the base */
    int64_t node_ns;          /* start of the compute on it that waited for the base, INT64_MIN */
};
/* The first compute that waited for a collective, and what else it had to wait for. */
struct node {
    int64_t start_ns, floor_ns;
    uint32_t floor;
    int known;
};
struct op {
    int64_t start_ns, end_ns, last_ns;
    int64_t call_ns, called_ns; /* the launching call; call_ns INT64_MIN = unknown */
    uint64_t id, before;        /* before: operation before it on its stream, NO_OP = none */
    uint32_t stream, arrival;
    uint8_t type;
    struct node node;   /* of a collective */
    struct chain chain; /* up to start_ns */
};
static const uint64_t NO_OP = UINT64_MAX;

struct call {
    int64_t t_ns, end_ns;
    uint32_t correlation;
};
struct host_list { /* recent host intervals in order of start */
    struct hm_interval v[HOSTS];
    uint64_t n;
};
struct piece { /* operation of the open step */
    int64_t start_ns, end_ns, last_ns;
    uint32_t stat;
    uint8_t type;
};
struct pending {
    struct hm_arrival a;
    struct hm_annot v;
    struct hm_segment s;
    int done;
};
struct hm_account {
    struct hm_account_in in;
    int64_t tolerance_ns;
    struct op *op;
    uint64_t n_ops, tail[STREAMS];
    uint32_t stream_id[STREAMS], n_streams;
    struct call *call;
    struct host_list *input, *blocked;
    uint8_t *is_input; /* by string id: 0 not asked, 1 no, 2 input, 3 blocking call */
    uint32_t n_names;
    struct pending *wait;
    size_t n_wait, cap_wait, head;
    uint32_t n_taken; /* index of the next arrival to enter `wait` */
    int no_more, has_calls;
    struct piece *piece;
    size_t n_pieces, cap_pieces, i_step;
    struct hm_interval *scratch;
    size_t cap_scratch;
    struct hm_kernel_stat *stat;
    int64_t *last_dur;
    uint32_t n_stats, cap_stats, *slot, n_slots;
    int64_t first_ns, end_ns;
};

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}
static int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

hm_status_t hm_account_create(const struct hm_account_in *in, struct hm_account **account_p)
{
    struct hm_account *a = calloc(1, sizeof(*a));
    if (!a)
        return hm_fail(HM_E_NOMEM, "account", "out of memory");
    a->in = *in;
    a->tolerance_ns = max64(TOLERANCE_NS, 3 * in->clock_error_ns);
    a->n_slots = 1024;
    a->op = calloc(OPS, sizeof(*a->op));
    a->call = calloc(CALLS, sizeof(*a->call));
    a->input = calloc(1, sizeof(*a->input));
    a->blocked = calloc(1, sizeof(*a->blocked));
    a->slot = calloc(a->n_slots, sizeof(*a->slot));
    a->first_ns = INT64_MAX;
    a->end_ns = INT64_MIN;
    if (!a->op || !a->call || !a->input || !a->blocked || !a->slot) {
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
    free(a->op);
    free(a->call);
    free(a->input);
    free(a->blocked);
    free(a->is_input);
    free(a->wait);
    free(a->piece);
    free(a->scratch);
    free(a->stat);
    free(a->last_dur);
    free(a->slot);
    free(a);
}

/* Room for one more; NULL = no memory. */
static void *grow(void **v_p, size_t *cap_p, size_t n, size_t size)
{
    if (n >= *cap_p) {
        size_t cap = *cap_p ? 2 * *cap_p : 64;
        void *v = realloc(*v_p, cap * size);
        if (!v)
            return NULL;
        *v_p = v;
        *cap_p = cap;
    }
    return (char *)*v_p + n * size;
}

/* --- host side ------------------------------------------------------------------------------ */

static int name_class(struct hm_account *a, uint32_t id)
{
    if (id == HM_NO_ID || id > (1u << 24))
        return 1;
    if (id >= a->n_names) {
        uint32_t n = id + 1024;
        uint8_t *v = realloc(a->is_input, n);
        if (!v)
            return 1;
        memset(v + a->n_names, 0, n - a->n_names);
        a->is_input = v;
        a->n_names = n;
    }
    if (!a->is_input[id]) {
        const char *s = a->in.string ? a->in.string(a->in.ctx, id) : "";
        a->is_input[id] = !strcasecmp(s, "input") || strcasestr(s, "dataloader") ? 2
                          : strstr(s, "Synchronize")                             ? 3
                                                                                 : 1;
    }
    return a->is_input[id];
}

static void host_add(struct host_list *l, int64_t start, int64_t dur)
{
    if (dur > 0)
        l->v[l->n++ % HOSTS] = (struct hm_interval){start, start + dur};
}

/* Copies what lies in [t0, t1) to out (room for HOSTS) and unites it. */
static size_t host_inside(const struct host_list *l, int64_t t0, int64_t t1,
                          struct hm_interval *out)
{
    size_t n = 0;
    uint64_t from = l->n > HOSTS ? l->n - HOSTS : 0;
    for (uint64_t i = from; i < l->n; i++) {
        struct hm_interval v = l->v[i % HOSTS];
        v.start_ns = max64(v.start_ns, t0);
        v.end_ns = min64(v.end_ns, t1);
        if (v.end_ns > v.start_ns)
            out[n++] = v;
    }
    return hm_union(out, n);
}

/* Host time [t0, t1) on a chain: input ranges, blocking calls, the rest. */
static void charge_host(struct hm_account *a, struct chain *c, int64_t t0, int64_t t1)
{
    if (t1 <= t0)
        return;
    static _Thread_local struct hm_interval input[HOSTS], blocked[HOSTS];
    size_t n = host_inside(a->input, t0, t1, input), m = host_inside(a->blocked, t0, t1, blocked);
    int64_t in = hm_length(input, n);
    int64_t held = hm_length(blocked, m) - hm_overlap(input, n, blocked, m);
    c->part[INPUT] += in;
    c->part[BLOCKED] += held;
    c->part[HOST] += t1 - t0 - in - held;
}

/* --- device side ---------------------------------------------------------------------------- */

static struct op *op_at(struct hm_account *a, uint64_t i)
{
    return i == NO_OP || i >= a->n_ops || i + OPS < a->n_ops + 1 ? NULL : &a->op[i % OPS];
}

static unsigned stream_slot(struct hm_account *a, uint32_t stream)
{
    for (unsigned i = 0; i < a->n_streams; i++)
        if (a->stream_id[i] == stream)
            return i;
    if (a->n_streams == STREAMS)
        return STREAMS - 1;
    a->stream_id[a->n_streams] = stream;
    a->tail[a->n_streams] = NO_OP;
    return a->n_streams++;
}

static int launched_before(const struct op *o, const struct op *than)
{
    return o->call_ns == INT64_MIN || than->call_ns == INT64_MIN || o->call_ns < than->call_ns;
}

/* What `o` may have waited for by an event: the operation of another stream, launched before it,
 * that ended last before it started. near: it must have ended within the tolerance. */
static struct op *awaited(struct hm_account *a, const struct op *o, int with_comm, int near)
{
    struct op *best = NULL;
    for (unsigned s = 0; s < a->n_streams; s++) {
        if (a->stream_id[s] == o->stream)
            continue;
        struct op *w = op_at(a, a->tail[s]);
        for (int i = 0; w && i < LOOK_BACK && !launched_before(w, o); i++)
            w = op_at(a, w->before);
        int last = 1; /* w is the last one launched before o: an event stands behind it */
        for (; w && w->end_ns > o->start_ns + SLACK_NS; last = 0)
            w = op_at(a, w->before);
        while (w && w->type == OP_COMM && !with_comm) {
            w = op_at(a, w->before);
            last = 0;
        }
        if (!w || (!with_comm && w->type == OP_COMM))
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
static struct chain chain_through(const struct op *o, int64_t t)
{
    struct chain c;
    if (o->type == OP_COMM) {
        memset(&c, 0, sizeof(c));
        c.carry_ns = t;
        c.base = o->arrival;
        c.base_op = o->id;
        c.node_ns = INT64_MIN;
        return c;
    }
    c = o->chain;
    c.part[o->type == OP_COPY ? COPY : COMPUTE] += t - o->start_ns;
    c.n_kernels++;
    return c;
}

/* From the end of `d` to the host's launch at h: if the host was blocked on the device in between,
 * the chain goes on through what it waited for. */
static struct chain chain_host(struct hm_account *a, struct op *d, int64_t h)
{
    int64_t from = d->end_ns;
    struct op *through = d;
    const struct host_list *l = a->blocked;
    uint64_t oldest = l->n > HOSTS ? l->n - HOSTS : 0;
    for (uint64_t i = l->n; i-- > oldest;) {
        int64_t end = l->v[i % HOSTS].end_ns;
        if (end > h || end <= from)
            continue;
        for (unsigned s = 0; s < a->n_streams; s++) {
            struct op *o = op_at(a, a->tail[s]);
            for (int k = 0; o && k < LOOK_BACK && o->end_ns > end + SLACK_NS; k++)
                o = op_at(a, o->before);
            if (o && o->end_ns >= end - SYNC_NS && o->end_ns > through->end_ns && o->end_ns <= h)
                through = o;
        }
        break; /* the latest one counts */
    }
    struct chain c = chain_through(through, through->end_ns);
    charge_host(a, &c, through->end_ns, h);
    return c;
}

/* `o` waited for collective `p`: it begins a new stretch of compute, which also had to wait for the
 * compute before it on its stream. */
static void node_of(struct hm_account *a, struct op *o, struct op *p)
{
    o->chain.node_ns = o->start_ns;
    if (p->node.known)
        return;
    p->node = (struct node){.start_ns = o->start_ns, .floor = HM_NO_ID, .known = 1};
    const struct op *c = op_at(a, o->before);
    if (c && c->type != OP_COMM && c->chain.base != HM_NO_ID && c->chain.node_ns != INT64_MIN) {
        p->node.floor = c->chain.base;
        p->node.floor_ns = min64(c->end_ns, o->start_ns) - c->chain.node_ns;
    }
}

/* Rule 3 for a compute kernel or a copy. */
static void chain_of(struct hm_account *a, struct op *o)
{
    struct op *p = op_at(a, o->before), *w = awaited(a, o, 1, 1);
    int64_t h = o->call_ns == INT64_MIN ? INT64_MIN : min64(o->called_ns, o->start_ns);
    if (w && (!p || w->end_ns > p->end_ns) && w->end_ns >= h)
        p = w;
    memset(&o->chain, 0, sizeof(o->chain));
    o->chain.base = HM_NO_ID;
    o->chain.base_op = NO_OP;
    o->chain.node_ns = INT64_MIN;
    o->chain.carry_ns = o->start_ns;
    if (!p)
        return;
    int64_t until = min64(p->end_ns, o->start_ns);
    /* A launch that is not on record although launches are (copies are not by default): the device
     * was idle for longer than any queue takes, so the host had not launched it yet. */
    if (h == INT64_MIN && a->has_calls && o->start_ns - until > a->tolerance_ns)
        h = o->start_ns;
    if (h > until) {
        o->chain = chain_host(a, p, h);
        o->chain.part[QUEUE] += o->start_ns - h;
    } else {
        o->chain = chain_through(p, until);
        o->chain.part[QUEUE] += o->start_ns - until;
    }
    if (p->type == OP_COMM && o->chain.base_op == p->id && o->type == OP_COMPUTE)
        node_of(a, o, p);
}

/* Rule 3 for an arrival: the chain of its own work, and beside it the collective before it. */
static void segment_of(struct hm_account *a, struct op *o, struct hm_segment *s)
{
    struct op *p = op_at(a, o->before), *q = awaited(a, o, 0, 0);
    int64_t h = o->call_ns == INT64_MIN ? INT64_MIN : min64(o->called_ns, o->start_ns);
    if (p && p->type != OP_COMM) {
        q = !q || p->end_ns >= q->end_ns ? p : q;
        p = NULL;
    }
    int64_t tp = p ? min64(p->end_ns, o->start_ns) : INT64_MIN;
    int64_t tq = q ? min64(q->end_ns, o->start_ns) : INT64_MIN;
    struct chain c = {
        .carry_ns = o->start_ns, .base = HM_NO_ID, .base_op = NO_OP, .node_ns = INT64_MIN};
    int64_t ready = o->start_ns;
    if (q) {
        ready = max64(tq, h);
        int64_t done = tq; /* charged up to here */
        if (h > tq && h > tp) {
            if (tp > tq) { /* the collective before it, then the host */
                c = chain_through(q, tq);
                int64_t wait = max64(0, min64(p->last_ns, tp) - tq);
                c.part[WAIT] += wait;
                c.part[TRANSFER] += tp - tq - wait;
                charge_host(a, &c, tp, h);
            } else {
                c = q->end_ns <= h ? chain_host(a, q, h) : chain_through(q, h);
            }
            done = h;
        } else {
            c = chain_through(q, tq);
            if (h > tq) {
                charge_host(a, &c, tq, h);
                done = h;
            }
            if (tp > done) {
                int64_t wait = max64(0, min64(p->last_ns, tp) - done);
                c.part[WAIT] += wait;
                c.part[TRANSFER] += tp - done - wait;
                done = tp;
            }
        }
        c.part[QUEUE] += o->start_ns - done;
    } else if (p) {
        c = h > p->end_ns ? chain_host(a, p, h) : chain_through(p, tp);
        ready = max64(tp, h);
        c.part[QUEUE] += o->start_ns - ready;
    }
    int64_t gate = max64(max64(tp, tq), h);
    memset(s, 0, sizeof(*s));
    s->carry_ns = c.carry_ns;
    s->compute_ns = c.part[COMPUTE];
    s->comm_transfer_ns = c.part[TRANSFER];
    s->comm_wait_ns = c.part[WAIT];
    s->memcpy_ns = c.part[COPY];
    s->idle_input_ns = c.part[INPUT];
    s->idle_host_ns = c.part[HOST];
    s->idle_queue_ns = c.part[QUEUE];
    s->idle_serial_ns = c.part[SERIAL];
    s->idle_module_ns = c.part[MODULE];
    s->idle_blocked_ns = c.part[BLOCKED];
    s->ready_ns = ready;
    s->base = c.base;
    s->before = p ? p->arrival : HM_NO_ID;
    s->node_ns = s->floor_ns = HM_NONE(0);
    s->floor = HM_NO_ID;
    const struct op *base = op_at(a, c.base_op);
    if (base && base->type == OP_COMM && base->node.known && base->node.start_ns <= o->start_ns) {
        s->node_ns = base->node.start_ns - c.carry_ns;
        s->floor = base->node.floor;
        s->floor_ns = s->floor == HM_NO_ID ? HM_NONE(0) : base->node.floor_ns;
        s->via_node = c.node_ns == base->node.start_ns;
    }
    s->top_kernel = HM_NO_ID;
    s->n_kernels = c.n_kernels;
    s->gate = gate == INT64_MIN                      ? HM_GATE_NONE
              : gate < o->start_ns - a->tolerance_ns ? HM_GATE_UNKNOWN
              : h == gate && h > tq && h > tp        ? HM_GATE_HOST
              : tp == gate && tp > tq                ? HM_GATE_COMM
                                                     : HM_GATE_DEVICE;
}

/* --- steps ---------------------------------------------------------------------------------- */

static uint32_t stat_of(struct hm_account *a, const struct hm_event *ev)
{
    const struct hm_ev_kernel *k = &ev->u.kernel;
    uint64_t key = k->kernel + UINT64_C(0x9E3779B97F4A7C15);
    for (int i = 0; i < 3; i++) {
        key = (key ^ k->grid[i]) * UINT64_C(0xBF58476D1CE4E5B9);
        key ^= key >> 29;
    }
    if (2 * a->n_stats >= a->n_slots) {
        uint32_t n = 2 * a->n_slots, *slot = n > (1u << 20) ? NULL : calloc(n, sizeof(*slot));
        if (!slot)
            return HM_NO_ID;
        for (uint32_t i = 0; i < a->n_stats; i++) {
            uint32_t h = (uint32_t)a->stat[i].key & (n - 1);
            while (slot[h])
                h = (h + 1) & (n - 1);
            slot[h] = i + 1;
        }
        free(a->slot);
        a->slot = slot;
        a->n_slots = n;
    }
    uint32_t h = (uint32_t)key & (a->n_slots - 1);
    for (; a->slot[h]; h = (h + 1) & (a->n_slots - 1))
        if (a->stat[a->slot[h] - 1].key == key)
            return a->slot[h] - 1;
    if (a->n_stats == a->cap_stats) {
        uint32_t cap = a->cap_stats ? 2 * a->cap_stats : 64;
        struct hm_kernel_stat *stat = realloc(a->stat, cap * sizeof(*stat));
        if (!stat)
            return HM_NO_ID;
        a->stat = stat;
        int64_t *last = realloc(a->last_dur, cap * sizeof(*last));
        if (!last)
            return HM_NO_ID;
        a->last_dur = last;
        a->cap_stats = cap;
    }
    a->stat[a->n_stats] = (struct hm_kernel_stat){
        .key = key, .kernel = k->kernel, .grid = {k->grid[0], k->grid[1], k->grid[2]}};
    a->last_dur[a->n_stats] = -1;
    a->slot[h] = ++a->n_stats;
    return a->n_stats - 1;
}

static void stat_add(struct hm_account *a, uint32_t i_stat, int64_t dur, unsigned block)
{
    struct hm_kernel_stat *k = &a->stat[i_stat];
    int64_t last = a->last_dur[i_stat];
    k->n_jumps += last >= 0 && 50 * llabs(dur - last) > last;
    a->last_dur[i_stat] = dur;
    k->n++;
    k->block_n[block]++;
    k->block_ns[block] += dur;
}

static size_t collect(const struct hm_account *a, int type, int64_t t0, int64_t t1,
                      struct hm_interval *out, int only_wait)
{
    size_t n = 0;
    for (size_t i = 0; i < a->n_pieces; i++) {
        const struct piece *p = &a->piece[i];
        if (p->type != type)
            continue;
        int64_t s = p->start_ns, e = p->end_ns, last = min64(max64(p->last_ns, s), e);
        if (only_wait > 0)
            e = last;
        if (only_wait < 0)
            s = last;
        s = max64(s, t0);
        e = min64(e, t1);
        if (e > s)
            out[n++] = (struct hm_interval){s, e};
    }
    return hm_union(out, n);
}

static hm_status_t step_flush(struct hm_account *a, int at_end)
{
    const struct hm_step_window *w = &a->in.step[a->i_step];
    int64_t t0 = w->t0_ns, t1 = w->t1_ns;
    /* the window of a run: from the first device operation to the last */
    if (a->i_step == 0)
        t0 = max64(t0, min64(a->first_ns, t1));
    if (at_end && a->i_step + 1 == a->in.n_steps)
        t1 = min64(t1, max64(a->end_ns, t0));
    size_t n = a->n_pieces + 1;
    if (a->cap_scratch < 5 * n + 2 * HOSTS) {
        size_t cap = 2 * (5 * n + 2 * HOSTS);
        struct hm_interval *v = realloc(a->scratch, cap * sizeof(*v));
        if (!v)
            return hm_fail(HM_E_NOMEM, "account", "out of memory");
        a->scratch = v;
        a->cap_scratch = cap;
    }
    struct hm_interval *compute = a->scratch, *comm = compute + n, *transfer = comm + n,
                       *wait = transfer + n, *copy = wait + n, *host = copy + n;
    size_t n_compute = collect(a, OP_COMPUTE, t0, t1, compute, 0);
    size_t n_comm = collect(a, OP_COMM, t0, t1, comm, 0);
    size_t n_transfer = collect(a, OP_COMM, t0, t1, transfer, -1);
    size_t n_wait = collect(a, OP_COMM, t0, t1, wait, 1);
    size_t n_copy = collect(a, OP_COPY, t0, t1, copy, 0);
    struct hm_layer layer[4] = {
        {compute, n_compute}, {transfer, n_transfer}, {wait, n_wait}, {copy, n_copy}};
    int64_t part[5];
    hm_partition(layer, 4, t0, t1, part);
    struct hm_step_part p = {.t0_ns = t0,
                             .t1_ns = t1,
                             .compute_ns = part[0],
                             .transfer_ns = part[1],
                             .wait_ns = part[2],
                             .memcpy_ns = part[3],
                             .idle_ns = part[4],
                             .comm_ns = hm_length(comm, n_comm),
                             .overlap_ns = hm_overlap(compute, n_compute, comm, n_comm),
                             .peak_bytes = HM_NONE(1),
                             .device = a->in.device,
                             .flags = w->flags,
                             .step = w->step};
    struct hm_layer first[2] = {{compute, n_compute}, {wait, n_wait}};
    hm_partition(first, 2, t0, t1, part);
    p.stall_ns = part[1];
    struct hm_layer busy[3] = {{compute, n_compute}, {copy, n_copy}, {wait, n_wait}};
    hm_partition(busy, 3, t0, t1, part);
    p.blocking_ns = part[2];
    p.input_ns = hm_length(host, host_inside(a->input, t0, t1, host));
    p.host_sync_ns = hm_length(host, host_inside(a->blocked, t0, t1, host));
    unsigned block = (unsigned)(a->i_step * HM_KERNEL_BLOCKS / a->in.n_steps);
    size_t kept = 0;
    for (size_t i = 0; i < a->n_pieces; i++) {
        const struct piece *q = &a->piece[i];
        int mine = q->start_ns >= t0 && q->start_ns < t1;
        p.n_kernels += mine && q->type != OP_COPY;
        if (mine && q->stat != HM_NO_ID) {
            a->stat[q->stat].all_ns += q->end_ns - q->start_ns;
            a->stat[q->stat].n_all++;
            if (!hm_inside(comm, n_comm, q->start_ns, q->end_ns))
                stat_add(a, q->stat, q->end_ns - q->start_ns, block);
        }
        if (q->end_ns > t1 || q->start_ns >= t1)
            a->piece[kept++] = *q;
    }
    a->n_pieces = kept;
    a->i_step++;
    return a->in.step_part ? a->in.step_part(a->in.ctx, &p) : HM_OK;
}

/* --- joining with arrivals ------------------------------------------------------------------ */

static hm_status_t fill(struct hm_account *a, int64_t t)
{
    while (!a->no_more && (a->n_wait == 0 || a->wait[a->n_wait - 1].a.start_ns <= t)) {
        struct hm_arrival arrival[64];
        struct hm_annot annot[64];
        size_t n = a->in.arrivals ? a->in.arrivals(a->in.ctx, arrival, annot, 64) : 0;
        a->no_more = n == 0;
        for (size_t i = 0; i < n; i++) {
            struct pending *w = grow((void **)&a->wait, &a->cap_wait, a->n_wait, sizeof(*w));
            if (!w)
                return hm_fail(HM_E_NOMEM, "account", "out of memory");
            *w = (struct pending){.a = arrival[i], .v = annot[i]};
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

static hm_status_t op_add(struct hm_account *a, struct op *o, uint32_t stat, struct pending *w)
{
    unsigned s = stream_slot(a, o->stream);
    o->before = a->tail[s];
    if (w) {
        segment_of(a, o, &w->s);
        w->done = 1;
    } else if (o->type != OP_COMM) {
        chain_of(a, o);
    }
    o->id = a->n_ops;
    a->op[a->n_ops % OPS] = *o;
    a->tail[s] = a->n_ops++;
    a->first_ns = min64(a->first_ns, o->start_ns);
    a->end_ns = max64(a->end_ns, o->end_ns);
    if (a->i_step >= a->in.n_steps || o->end_ns <= a->in.step[a->i_step].t0_ns)
        return HM_OK;
    struct piece *p = grow((void **)&a->piece, &a->cap_pieces, a->n_pieces, sizeof(*p));
    if (!p)
        return hm_fail(HM_E_NOMEM, "account", "out of memory");
    *p = (struct piece){o->start_ns, o->end_ns, o->last_ns, stat, o->type};
    a->n_pieces++;
    return HM_OK;
}

static int64_t boundary(const struct pending *w)
{
    return w->v.flags & HM_ANNOT_MATCHED ? w->v.last_ns : w->a.start_ns;
}

static struct op op_of_arrival(const struct hm_account *a, size_t i, uint32_t stream)
{
    const struct pending *w = &a->wait[i];
    return (struct op){.start_ns = w->a.start_ns,
                       .end_ns = max64(w->a.end_ns, w->a.start_ns),
                       .last_ns = boundary(w),
                       .call_ns = HM_IS_NONE(w->a.host_ns) ? INT64_MIN : w->a.host_ns,
                       .called_ns =
                           HM_IS_NONE(w->a.launch_end_ns) ? w->a.host_ns : w->a.launch_end_ns,
                       .stream = stream,
                       .arrival = a->n_taken + (uint32_t)(i - a->head),
                       .type = OP_COMM};
}

/* Arrivals before t without a kernel (host times only, or a kernel that is not in the file). */
static hm_status_t lone_until(struct hm_account *a, int64_t t)
{
    hm_status_t st = fill(a, t);
    for (size_t i = a->head; st == HM_OK && i < a->n_wait && a->wait[i].a.start_ns < t; i++) {
        if (a->wait[i].done)
            continue;
        struct op o = op_of_arrival(a, i, HM_NO_ID - 1 - (uint32_t)(a->wait[i].a.comm & 0xff));
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
            st = step_flush(a, 0);
    return st;
}

static hm_status_t device_event(struct hm_account *a, const struct hm_event *ev)
{
    uint32_t type = 0, device = 0, stream = 0;
    if (!a->in.track || !a->in.track(a->in.ctx, ev->track, &type, &device, &stream))
        return HM_OK;
    if (type != HM_TRACK_STREAM || device != a->in.device || ev->dur_ns < 0 ||
        (ev->flags & (HM_EVF_BAD_TIME | HM_EVF_NO_TIME)))
        return HM_OK;
    hm_status_t st = lone_until(a, ev->t_ns);
    if (st != HM_OK)
        return st;
    int64_t end = ev->t_ns + ev->dur_ns;
    struct pending *w = NULL;
    size_t i = a->head;
    for (; ev->kind == HM_EV_KERNEL && i < a->n_wait && a->wait[i].a.start_ns == ev->t_ns; i++)
        if (!a->wait[i].done && a->wait[i].a.end_ns == end) {
            w = &a->wait[i];
            break;
        }
    uint32_t correlation = ev->kind == HM_EV_KERNEL   ? ev->u.kernel.correlation
                           : ev->kind == HM_EV_MEMCPY ? ev->u.copy.correlation
                                                      : ev->u.set.correlation;
    struct op o = {.start_ns = ev->t_ns, .end_ns = end, .call_ns = INT64_MIN, .stream = stream};
    if (w)
        o = op_of_arrival(a, i, stream);
    const struct call *c = &a->call[correlation % CALLS];
    if (correlation && c->correlation == correlation) {
        o.call_ns = c->t_ns;
        o.called_ns = c->end_ns;
    } else if (w && HM_IS_NONE(w->a.launch_end_ns)) {
        o.call_ns = INT64_MIN; /* an enqueue alone does not say when it was launched */
    }
    uint32_t stat = HM_NO_ID;
    if (!w) {
        const char *name = "";
        if (ev->kind == HM_EV_KERNEL && a->in.kernel_name && a->in.string)
            name = a->in.string(a->in.ctx, a->in.kernel_name(a->in.ctx, ev->u.kernel.kernel));
        if (!strncmp(name, "nccl", 4)) { /* communication that was not matched: all transfer */
            o.type = OP_COMM;
            o.arrival = HM_NO_ID;
            o.last_ns = o.start_ns;
        } else {
            o.type = ev->kind == HM_EV_KERNEL ? OP_COMPUTE : OP_COPY;
            if (ev->kind == HM_EV_KERNEL)
                stat = stat_of(a, ev);
        }
    }
    st = op_add(a, &o, stat, w);
    return st == HM_OK ? emit(a) : st;
}

hm_status_t hm_account_event(struct hm_account *a, const struct hm_event *ev)
{
    hm_status_t st = steps_until(a, ev->t_ns);
    if (st != HM_OK)
        return st;
    switch (ev->kind) {
    case HM_EV_KERNEL:
    case HM_EV_MEMCPY:
    case HM_EV_MEMSET:
        return device_event(a, ev);
    case HM_EV_API:
        if (ev->flags & HM_EVF_NO_TIME)
            return HM_OK;
        if (ev->u.api.correlation) {
            a->has_calls = 1;
            a->call[ev->u.api.correlation % CALLS] =
                (struct call){ev->t_ns, ev->t_ns + max64(ev->dur_ns, 0), ev->u.api.correlation};
        }
        if (name_class(a, ev->u.api.name) == 3)
            host_add(a->blocked, ev->t_ns, ev->dur_ns);
        return HM_OK;
    case HM_EV_SYNC:
    case HM_EV_MPI:
        host_add(a->blocked, ev->t_ns, ev->dur_ns);
        return HM_OK;
    case HM_EV_RANGE:
        if (name_class(a, ev->u.range.name) == 2)
            host_add(a->input, ev->t_ns, ev->dur_ns);
        return HM_OK;
    default:
        return HM_OK;
    }
}

static int by_key(const void *x, const void *y)
{
    const struct hm_kernel_stat *p = x, *q = y;
    return (p->key > q->key) - (p->key < q->key);
}

hm_status_t hm_account_end(struct hm_account *a)
{
    hm_status_t st = lone_until(a, INT64_MAX);
    while (st == HM_OK && a->i_step < a->in.n_steps)
        st = step_flush(a, 1);
    if (st != HM_OK || !a->in.kernel_stat)
        return st;
    if (a->n_stats)
        qsort(a->stat, a->n_stats, sizeof(*a->stat), by_key);
    for (uint32_t i = 0; st == HM_OK && i < a->n_stats; i++)
        if (a->stat[i].n_all)
            st = a->in.kernel_stat(a->in.ctx, &a->stat[i]);
    return st;
}
