/* Events of one process -> arrivals.
 *
 * Box: lib/analysis. Pure. One thread per object. Three rules, chosen by what the file holds:
 *   launches   LAUNCH events (interface v5 and later): kernel -> API call -> external id -> launch;
 *              without external ids the API call inside the launch on the same thread.
 *   operations operations but no launches (v4 and older): they follow the launching call on its
 *              thread; without API calls the k-th operation has the k-th kernel.
 *   kernels    nothing but kernels: each is a launch by order on its stream.
 * Launches settle in the order of their host times, so that the sequence of a communicator never
 * depends on which kernel ran first. Source: facts on NCCL plugin 2.5 (order of one group), 2.9.
 */
#include "analysis/join.h"

#include "analysis/corr.h"

#include <stdlib.h>
#include <string.h>

enum rule { RULE_LAUNCHES, RULE_OPS, RULE_KERNELS };
/* Operations are announced right after their launch call: nothing of a launch comes later than
 * this after both its call's end and its kernel's start. */
static const int64_t SETTLE_NS = 2000000;
/* A launch whose kernel has not shown up by then never will. */
static const int64_t LOST_NS = INT64_C(60000000000);
enum { MAX_PENDING = 65536, MAX_LONE = 4096, MAX_CALLS = 4096, MAX_PEERS = 65535 };

struct op {
    int64_t t_ns;
    uint64_t count;
    uint32_t comm, call, launch, track;
    int32_t peer;
    uint8_t kind, func, dtype, used;
};
struct kernel {
    int64_t start_ns, end_ns, api_t_ns, api_end_ns;
    uint32_t correlation, device, api_track, track;
    uint32_t kernel, done;
};
struct launch {
    int64_t t0_ns, t1_ns, host_ns, api_end_ns;
    uint32_t id, comm, track, group;
    struct kernel k;
    uint8_t has_kernel, confidence, has_ops, pad;
    /* operations announced for it, else those that were called before it */
    struct op *op;
    uint32_t n_ops, cap_ops;
};
struct comm_state {
    uint32_t id;
    struct hm_join_comm c;
    int known, all_to_all;
    uint32_t seq, n_open; /* n_open: operations of the last launches, none of which ran */
    int64_t open_ns;
    uint8_t by_seq; /* 0 not asked, 1 no, 2 yes */
};
struct pair_state {
    uint64_t key;
    uint32_t pair, seq, n_open, n_ranks, device; /* n_open: of the last launches, none ran */
    int64_t open_ns;
};
struct order_state {
    uint64_t key;
    uint32_t track, device, seq;
};
struct hm_join {
    struct hm_join_in in;
    enum rule rule;
    int expect_kernels;
    int64_t now_ns;
    struct hm_corr corr;
    uint8_t *nccl; /* per kernel id: 1 = no, 2 = yes */
    uint32_t n_nccl;
    struct launch *launch;
    size_t n_launches, cap_launches, head;
    struct kernel *lone; /* NCCL kernels that came before what they belong to */
    size_t n_lone, cap_lone;
    struct op *call; /* calls not yet bound to a launch */
    size_t n_calls, cap_calls;
    struct comm_state *comm;
    size_t n_comms, cap_comms;
    struct pair_state *pair;
    size_t n_pairs, cap_pairs;
    struct order_state *order;
    size_t n_orders, cap_orders;
    struct hm_part *ready; /* heap by start_ns, then by age */
    size_t n_ready, cap_ready;
    uint64_t serial;
    struct hm_join_stats stats;
};

/* ---- small things ---- */

static uint64_t mix(uint64_t x)
{
    x ^= x >> 30;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    x ^= x >> 27;
    x *= UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

uint64_t hm_comm_key_of_order(uint32_t device, uint32_t i_stream)
{
    (void)device; /* another number on every rank: never part of a key across ranks */
    return mix(UINT64_C(0x6f72646572) + i_stream);
}

int hm_is_nccl_kernel(const char *name)
{
    if (name[0] == '_' && name[1] == 'Z') {
        name += 2;
        while (*name >= '0' && *name <= '9')
            name++;
    }
    return !strncmp(name, "nccl", 4);
}

uint8_t hm_nccl_func_of_name(const char *name)
{
    static const struct {
        const char *text;
        uint8_t func;
    } table[] = {{"AllReduce", HM_NCCL_ALLREDUCE},         {"AllGather", HM_NCCL_ALLGATHER},
                 {"ReduceScatter", HM_NCCL_REDUCESCATTER}, {"Broadcast", HM_NCCL_BROADCAST},
                 {"AllToAll", HM_NCCL_ALLTOALL},           {"AlltoAll", HM_NCCL_ALLTOALL},
                 {"SendRecv", HM_NCCL_ALLTOALL},           {"Reduce", HM_NCCL_REDUCE}};
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        if (strstr(name, table[i].text))
            return table[i].func;
    return HM_NCCL_UNKNOWN;
}

uint32_t hm_dtype_bytes(uint8_t dtype)
{
    static const uint8_t bytes[HM_N_DTYPES] = {0, 1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
    return dtype < HM_N_DTYPES ? bytes[dtype] : 0;
}

static int grow(void *array_p, size_t *cap, size_t n, size_t item)
{
    if (n < *cap)
        return 1;
    size_t want = *cap ? 2 * *cap : 64;
    void *old, *p;
    memcpy(&old, array_p, sizeof(old));
    p = realloc(old, want * item);
    if (!p)
        return 0;
    memcpy(array_p, &p, sizeof(p));
    *cap = want;
    return 1;
}

static hm_status_t no_memory(void)
{
    return hm_fail(HM_E_NOMEM, "join", "out of memory");
}

/* ---- finished arrivals: a heap by start ---- */

static int before(const struct hm_part *a, const struct hm_part *b)
{
    if (a->a.start_ns != b->a.start_ns)
        return a->a.start_ns < b->a.start_ns;
    return a->i_arrival < b->i_arrival;
}

static hm_status_t push_ready(struct hm_join *j, const struct hm_arrival *a, uint32_t device,
                              uint16_t flags)
{
    if (!grow(&j->ready, &j->cap_ready, j->n_ready, sizeof(*j->ready)))
        return no_memory();
    struct hm_part p = {.a = *a, .i_segment = HM_NO_ID};
    p.v.step = p.v.last_worker = HM_NO_ID;
    p.v.flags = flags;
    p.v.device = (uint8_t)(device < 255 ? device : 255);
    p.i_arrival = (uint32_t)j->serial++;
    size_t i = j->n_ready++;
    while (i) {
        size_t up = (i - 1) / 2;
        if (!before(&p, &j->ready[up]))
            break;
        j->ready[i] = j->ready[up];
        i = up;
    }
    j->ready[i] = p;
    j->stats.n_arrivals++;
    if (a->source > j->stats.source)
        j->stats.source = a->source;
    if (a->confidence > j->stats.confidence)
        j->stats.confidence = a->confidence;
    return HM_OK;
}

static struct hm_part pop_ready(struct hm_join *j)
{
    struct hm_part top = j->ready[0], last = j->ready[--j->n_ready];
    size_t i = 0;
    for (;;) {
        size_t c = 2 * i + 1;
        if (c >= j->n_ready)
            break;
        if (c + 1 < j->n_ready && before(&j->ready[c + 1], &j->ready[c]))
            c++;
        if (!before(&j->ready[c], &last))
            break;
        j->ready[i] = j->ready[c];
        i = c;
    }
    if (j->n_ready)
        j->ready[i] = last;
    return top;
}

size_t hm_join_take(struct hm_join *j, struct hm_part *part_p, size_t cap)
{
    /* nothing that is still open can start before its own launch call */
    int64_t horizon = j->now_ns;
    if (j->n_launches && j->launch[j->head].t0_ns < horizon)
        horizon = j->launch[j->head].t0_ns;
    size_t n = 0;
    while (n < cap && j->n_ready && j->ready[0].a.start_ns <= horizon)
        part_p[n++] = pop_ready(j);
    return n;
}

/* ---- communicators and counters ---- */

static struct comm_state *comm_of(struct hm_join *j, uint32_t id)
{
    for (size_t i = 0; i < j->n_comms; i++)
        if (j->comm[i].id == id)
            return &j->comm[i];
    if (!grow(&j->comm, &j->cap_comms, j->n_comms, sizeof(*j->comm)))
        return NULL;
    struct comm_state *c = &j->comm[j->n_comms++];
    *c = (struct comm_state){.id = id};
    c->known = j->in.comm(j->in.ctx, id, &c->c);
    return c;
}

static struct pair_state *pair_of(struct hm_join *j, const struct hm_join_comm *c, uint32_t pair)
{
    size_t i = 0;
    while (i < j->n_pairs && !(j->pair[i].key == c->key && j->pair[i].pair == pair))
        i++;
    if (i == j->n_pairs) {
        if (!grow(&j->pair, &j->cap_pairs, j->n_pairs, sizeof(*j->pair)))
            return NULL;
        j->pair[j->n_pairs++] = (struct pair_state){
            .key = c->key, .pair = pair, .n_ranks = pair ? 2 : c->n_ranks, .device = c->device};
    }
    return &j->pair[i];
}

/* Index of the next launch of a pair; whether it ran is kept for hangs. */
static uint32_t next_of_pair(struct hm_join *j, const struct hm_join_comm *c, uint32_t pair,
                             int ran, int64_t host_ns)
{
    struct pair_state *p = pair_of(j, c, pair);
    if (!p)
        return HM_NO_ID;
    if (!ran && !p->n_open)
        p->open_ns = host_ns;
    p->n_open = ran ? 0 : p->n_open + 1;
    return p->seq++;
}

static int is_nccl(struct hm_join *j, uint32_t kernel)
{
    if (kernel == HM_NO_ID || kernel > (1U << 24))
        return 0;
    if (kernel >= j->n_nccl) {
        uint32_t n = (kernel + 256) / 256 * 256;
        uint8_t *p = realloc(j->nccl, n);
        if (!p)
            return hm_is_nccl_kernel(j->in.kernel_name(j->in.ctx, kernel));
        memset(p + j->n_nccl, 0, n - j->n_nccl);
        j->nccl = p;
        j->n_nccl = n;
    }
    if (!j->nccl[kernel])
        j->nccl[kernel] = (uint8_t)(1 + hm_is_nccl_kernel(j->in.kernel_name(j->in.ctx, kernel)));
    return j->nccl[kernel] == 2;
}

/* ---- operations of a launch -> arrivals ---- */

static int is_rooted(uint8_t func)
{
    return func == HM_NCCL_BROADCAST || func == HM_NCCL_REDUCE || func == HM_NCCL_GATHER ||
           func == HM_NCCL_SCATTER;
}

static int is_p2p(const struct op *o)
{
    return o->func == HM_NCCL_SEND || o->func == HM_NCCL_RECV ||
           (o->call & HM_CALL_P2P && o->call != HM_NO_ID);
}

/* S of nccl-tests: all bytes of the operation where each rank holds a part. */
static uint64_t bytes_of(const struct op *o, uint32_t n_ranks)
{
    uint64_t bytes = o->count * hm_dtype_bytes(o->dtype);
    switch (o->func) {
    case HM_NCCL_ALLGATHER:
    case HM_NCCL_REDUCESCATTER:
    case HM_NCCL_ALLTOALL:
    case HM_NCCL_GATHER:
    case HM_NCCL_SCATTER:
        return bytes * n_ranks;
    default:
        return bytes;
    }
}

static uint32_t signature_of(const struct op *o)
{
    uint64_t h = mix(o->func | (uint64_t)o->dtype << 8);
    h = mix(h ^ o->count);
    return (uint32_t)mix(h ^ (uint64_t)(is_rooted(o->func) ? o->peer : -1));
}

static void sums(struct hm_arrival *a, const struct op *op, uint32_t n, uint32_t n_ranks)
{
    uint64_t largest = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t b = bytes_of(&op[i], n_ranks);
        a->bytes += b;
        a->signature += signature_of(&op[i]);
        if (!i || b > largest) {
            largest = b;
            a->func = op[i].func;
        }
    }
    a->n_ops = (uint8_t)(n < 255 ? n : 255);
}

/* Sends to and receives from the other members in one launch: an all-to-all in pieces (NCCL tells
 * AlltoAll so). Pieces may be empty or left out where a pair exchanges nothing; at least half of
 * the pieces, and more than the two neighbours of a pipeline. Once a communicator was used so,
 * whatever little a launch exchanges is one too. 0 = none, 1 = all pieces, 2 = with holes. */
static int all_to_all_of(const struct op *op, uint32_t n, struct comm_state *cs)
{
    const struct hm_join_comm *c = &cs->c;
    uint32_t n_send = 0, n_recv = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (!is_p2p(&op[i]))
            return 0;
        if (op[i].peer == c->crank || !op[i].count)
            continue;
        n_send += op[i].func == HM_NCCL_SEND;
        n_recv += op[i].func == HM_NCCL_RECV;
    }
    uint32_t others = c->n_ranks - 1, least = others / 2 + others % 2;
    least = least > 3 ? least : 3;
    int full = others > 1 && n_send >= others && n_recv >= others;
    if (full || (n_send >= least && n_recv >= least))
        cs->all_to_all = 1;
    return full ? 1 : cs->all_to_all && n_send + n_recv ? 2 : 0;
}

static hm_status_t emit_p2p(struct hm_join *j, struct hm_arrival a, const struct op *op, uint32_t n,
                            const struct hm_join_comm *c, uint32_t device)
{
    for (uint32_t i = 0; i < n; i++) {
        const struct op *o = &op[i];
        if (!is_p2p(o) || o->peer < 0 || (uint32_t)o->peer >= c->n_ranks || o->peer == c->crank ||
            c->n_ranks > MAX_PEERS)
            continue;
        uint32_t me = (uint32_t)c->crank, peer = (uint32_t)o->peer;
        a.pair = 1 + (o->func == HM_NCCL_SEND ? me * c->n_ranks + peer : peer * c->n_ranks + me);
        a.seq = next_of_pair(j, c, a.pair, 1, a.host_ns);
        a.bytes = o->count * hm_dtype_bytes(o->dtype);
        a.signature = (uint32_t)mix(o->dtype ^ o->count << 8);
        a.func = o->func;
        a.n_ops = 1;
        hm_status_t s = push_ready(j, &a, device, 0);
        if (s)
            return s;
    }
    return HM_OK;
}

/* One launch with its kernel (or the host times in its place) becomes arrivals. */
static hm_status_t emit(struct hm_join *j, struct hm_arrival a, const struct op *op, uint32_t n,
                        uint32_t comm_id, uint32_t device, int present)
{
    struct comm_state *cs = comm_of(j, comm_id);
    if (!cs)
        return no_memory();
    if (!cs->known) {
        j->stats.n_lone_launches++;
        return HM_OK;
    }
    const struct hm_join_comm c = cs->c;
    if (device == HM_NO_ID)
        device = c.device != HM_NO_ID ? c.device : j->in.device;
    a.comm = c.key;
    uint32_t n_p2p = 0;
    for (uint32_t i = 0; i < n; i++)
        n_p2p += (uint32_t)is_p2p(&op[i]);
    int a2a = n_p2p && n_p2p == n ? all_to_all_of(op, n, cs) : 0;
    if (n_p2p && n_p2p == n && !a2a) {
        if (!present) /* the order of each pair goes on all the same */
            for (uint32_t i = 0; i < n; i++)
                if (op[i].peer >= 0 && (uint32_t)op[i].peer < c.n_ranks && c.crank >= 0)
                    next_of_pair(j, &c,
                                 1 + (op[i].func == HM_NCCL_SEND
                                          ? (uint32_t)c.crank * c.n_ranks + (uint32_t)op[i].peer
                                          : (uint32_t)op[i].peer * c.n_ranks + (uint32_t)c.crank),
                                 0, a.host_ns);
        return present ? emit_p2p(j, a, op, n, &c, device) : HM_OK;
    }
    a.seq = cs->seq++;
    if (a2a)
        next_of_pair(j, &c, 0, present, a.host_ns);
    if (!present)
        return HM_OK;
    if (n_p2p == n && n) {
        uint64_t received = 0; /* whichever is more: what the slower direction moves */
        for (uint32_t i = 0; i < n; i++) {
            uint64_t bytes = op[i].count * hm_dtype_bytes(op[i].dtype);
            if (op[i].func == HM_NCCL_SEND && op[i].peer != c.crank)
                a.bytes += bytes;
            else if (op[i].func == HM_NCCL_RECV && op[i].peer != c.crank)
                received += bytes;
        }
        a.bytes = received > a.bytes ? received : a.bytes;
        a.bytes = a.bytes / (c.n_ranks - 1) * c.n_ranks;
        a.func = HM_NCCL_ALLTOALL;
        a.signature = HM_NCCL_ALLTOALL;
        a.n_ops = 1;
    } else {
        sums(&a, op, n, c.n_ranks);
        if (n == 1 && is_rooted(op[0].func) && op[0].peer >= 0 &&
            (uint32_t)op[0].peer < c.n_ranks && c.n_ranks <= MAX_PEERS)
            a.pair = 1 + (uint32_t)op[0].peer * (c.n_ranks + 1);
    }
    return push_ready(j, &a, device, a2a == 2 ? HM_ANNOT_HOLES : 0);
}

/* ---- rule: launches ---- */

static struct launch *launch_by_id(struct hm_join *j, uint64_t id)
{
    for (size_t i = j->n_launches; i; i--)
        if (j->launch[j->head + i - 1].id == id)
            return &j->launch[j->head + i - 1];
    return NULL;
}

static struct launch *launch_by_window(struct hm_join *j, const struct hm_call *call)
{
    for (size_t i = j->n_launches; i; i--) {
        struct launch *l = &j->launch[j->head + i - 1];
        if (l->track == call->track && !l->has_kernel && l->t0_ns <= call->t_ns &&
            call->t_ns <= l->t1_ns)
            return l;
    }
    return NULL;
}

static void free_ops(struct launch *l)
{
    free(l->op);
    l->op = NULL;
    l->n_ops = l->cap_ops = 0;
}

static uint32_t n_collectives(const struct op *op, size_t n, uint32_t comm)
{
    uint32_t k = 0;
    for (size_t i = 0; i < n; i++)
        k += op[i].comm == comm && !is_p2p(&op[i]);
    return k;
}

/* The last launches of a communicator that never ran: what a hang looks like. */
static void note_open(struct hm_join *j, const struct launch *l, int present)
{
    struct comm_state *cs = comm_of(j, l->comm);
    if (!cs)
        return;
    if (present) {
        cs->n_open = 0;
        return;
    }
    if (!cs->n_open)
        cs->open_ns = l->host_ns;
    cs->n_open += n_collectives(l->op, l->n_ops, l->comm);
}

static hm_status_t settle(struct hm_join *j, struct launch *l)
{
    int present = l->has_kernel || !j->expect_kernels;
    struct hm_arrival a = {.host_ns = l->host_ns, .launch_end_ns = l->t1_ns};
    if (l->has_kernel) {
        a.start_ns = l->k.start_ns;
        a.end_ns = l->k.end_ns;
        a.source = HM_ARRIVAL_KERNEL;
        a.confidence = l->confidence;
        if (l->api_end_ns)
            a.launch_end_ns = l->api_end_ns;
    } else {
        a.start_ns = l->t0_ns;
        a.end_ns = l->t1_ns;
        a.source = HM_ARRIVAL_ENQUEUE;
        a.confidence = HM_JOIN_EXTERNAL;
        j->stats.n_lone_launches += (uint64_t)!present;
    }
    note_open(j, l, present);
    hm_status_t s =
        emit(j, a, l->op, l->n_ops, l->comm, l->has_kernel ? l->k.device : HM_NO_ID, present);
    free_ops(l);
    return s;
}

static hm_status_t settle_ready(struct hm_join *j, int all)
{
    while (j->n_launches) {
        struct launch *l = &j->launch[j->head];
        int64_t after = l->has_kernel && l->k.start_ns > l->t1_ns ? l->k.start_ns : l->t1_ns;
        int complete = (l->has_kernel || !j->expect_kernels) && j->now_ns > after + SETTLE_NS;
        int lost = j->now_ns > l->t1_ns + LOST_NS || j->n_launches > MAX_PENDING;
        if (!complete && !lost && !all)
            return HM_OK;
        hm_status_t s = settle(j, l);
        j->head++;
        j->n_launches--;
        if (s)
            return s;
    }
    return HM_OK;
}

static hm_status_t add_op(struct launch *l, const struct op *o)
{
    if (l->n_ops == l->cap_ops) {
        uint32_t cap = l->cap_ops ? 2 * l->cap_ops : 2;
        struct op *p = realloc(l->op, cap * sizeof(*p));
        if (!p)
            return no_memory();
        l->op = p;
        l->cap_ops = cap;
    }
    l->op[l->n_ops++] = *o;
    return HM_OK;
}

static struct op op_of(const struct hm_event *ev)
{
    const struct hm_ev_op *u = &ev->u.op;
    struct op o = {.t_ns = ev->t_ns,
                   .count = u->count,
                   .comm = u->comm,
                   .call = u->call,
                   .launch = u->launch,
                   .track = ev->track,
                   .peer = u->peer,
                   .kind = ev->kind,
                   .func = (uint8_t)(ev->aux & 255),
                   .dtype = (uint8_t)(ev->aux >> 8)};
    return o;
}

static hm_status_t launches_launch(struct hm_join *j, const struct hm_event *ev)
{
    if (j->head && j->head >= j->n_launches) {
        memmove(j->launch, j->launch + j->head, j->n_launches * sizeof(*j->launch));
        j->head = 0;
    }
    if (!grow(&j->launch, &j->cap_launches, j->head + j->n_launches, sizeof(*j->launch)))
        return no_memory();
    struct launch *l = &j->launch[j->head + j->n_launches++];
    *l = (struct launch){.t0_ns = ev->t_ns,
                         .t1_ns = ev->dur_ns > 0 ? ev->t_ns + ev->dur_ns : ev->t_ns,
                         .host_ns = ev->t_ns,
                         .id = ev->u.launch.launch,
                         .comm = ev->u.launch.comm,
                         .track = ev->track,
                         .group = ev->u.launch.group};
    /* what this communicator was called for so far: its operations, unless others are announced */
    size_t n = 0;
    for (size_t i = 0; i < j->n_calls; i++) {
        if (j->call[i].comm != l->comm) {
            j->call[n++] = j->call[i];
            continue;
        }
        if (j->call[i].t_ns < l->host_ns)
            l->host_ns = j->call[i].t_ns;
        hm_status_t s = add_op(l, &j->call[i]);
        if (s)
            return s;
    }
    j->n_calls = n;
    return HM_OK;
}

static hm_status_t launches_op(struct hm_join *j, const struct hm_event *ev)
{
    struct op o = op_of(ev);
    if (ev->kind == HM_EV_NCCL_CALL) {
        if (j->n_calls >= MAX_CALLS) { /* calls that never launch: the oldest go */
            memmove(j->call, j->call + MAX_CALLS / 2, MAX_CALLS / 2 * sizeof(*j->call));
            j->n_calls = MAX_CALLS / 2;
        }
        if (!grow(&j->call, &j->cap_calls, j->n_calls, sizeof(*j->call)))
            return no_memory();
        j->call[j->n_calls++] = o;
        return HM_OK;
    }
    struct launch *l = o.launch != HM_NO_ID ? launch_by_id(j, o.launch) : NULL;
    if (!l)
        return HM_OK;
    /* a group cut into several launches gave all its calls to the first: take this one's home */
    int64_t host = INT64_MAX;
    for (size_t k = 0; k < j->n_launches; k++) {
        struct launch *other = &j->launch[j->head + k];
        if (other->comm != l->comm)
            continue;
        for (uint32_t i = 0; i < other->n_ops; i++)
            if (other->op[i].kind == HM_EV_NCCL_CALL && other->op[i].call == o.call) {
                host = other->op[i].t_ns;
                if (!o.count)
                    o.count = other->op[i].count;
                other->op[i] = other->op[--other->n_ops];
                break;
            }
    }
    if (host < l->host_ns)
        l->host_ns = host;
    /* announced operations replace what is left of the calls */
    if (!l->has_ops) {
        uint32_t n = 0;
        for (uint32_t i = 0; i < l->n_ops; i++)
            if (l->op[i].kind == HM_EV_NCCL_CALL)
                l->op[n++] = l->op[i];
        l->n_ops = n;
        l->has_ops = 1;
    }
    return add_op(l, &o);
}

static struct kernel kernel_of(struct hm_join *j, const struct hm_event *ev)
{
    uint32_t type = 0, device = HM_NO_ID, stream = 0;
    if (!j->in.track(j->in.ctx, ev->track, &type, &device, &stream))
        device = HM_NO_ID;
    struct kernel k = {.start_ns = ev->t_ns,
                       .end_ns = ev->dur_ns > 0 ? ev->t_ns + ev->dur_ns : ev->t_ns,
                       .correlation = ev->u.kernel.correlation,
                       .device = device,
                       .track = ev->track,
                       .kernel = ev->u.kernel.kernel};
    return k;
}

/* Ties a kernel to its launch; 0 = not yet. */
static int tie(struct hm_join *j, const struct kernel *k, const struct hm_call *call)
{
    struct launch *l = call->external ? launch_by_id(j, call->external) : NULL;
    uint8_t how = HM_JOIN_EXTERNAL;
    if (!l && !call->external) {
        l = launch_by_window(j, call);
        how = HM_JOIN_WINDOW;
    }
    if (!l || l->has_kernel)
        return 0;
    l->k = *k;
    l->has_kernel = 1;
    l->confidence = how;
    l->api_end_ns = call->end_ns;
    return 1;
}

static hm_status_t keep_lone(struct hm_join *j, const struct kernel *k)
{
    if (j->rule == RULE_LAUNCHES && j->in.n_apis && j->n_lone >= MAX_LONE) {
        j->stats.n_lone_kernels += MAX_LONE / 2;
        memmove(j->lone, j->lone + MAX_LONE / 2, MAX_LONE / 2 * sizeof(*j->lone));
        j->n_lone = MAX_LONE / 2;
    }
    if (!grow(&j->lone, &j->cap_lone, j->n_lone, sizeof(*j->lone)))
        return no_memory();
    j->lone[j->n_lone++] = *k;
    return HM_OK;
}

static hm_status_t launches_kernel(struct hm_join *j, const struct hm_event *ev)
{
    const struct hm_call *call = hm_corr_find(&j->corr, ev->u.kernel.correlation);
    int nccl = is_nccl(j, ev->u.kernel.kernel);
    if (!nccl && !(call && call->external))
        return HM_OK;
    struct kernel k = kernel_of(j, ev);
    if (call && tie(j, &k, call))
        return HM_OK;
    return nccl ? keep_lone(j, &k) : HM_OK;
}

static void launches_api(struct hm_join *j, const struct hm_event *ev)
{
    hm_corr_add(&j->corr, ev);
    for (size_t i = j->n_lone; i; i--) { /* clocks of host and device cross by some ns */
        struct kernel *k = &j->lone[i - 1];
        if (k->correlation != ev->u.api.correlation || !k->correlation)
            continue;
        const struct hm_call *call = hm_corr_find(&j->corr, k->correlation);
        if (call && tie(j, k, call))
            *k = j->lone[--j->n_lone];
        return;
    }
}

/* No API calls in the file: the k-th launch has the k-th kernel, if the numbers agree. */
static void tie_by_order(struct hm_join *j)
{
    size_t n_open = 0;
    for (size_t i = 0; i < j->n_launches; i++)
        n_open += !j->launch[j->head + i].has_kernel;
    if (n_open != j->n_lone)
        return;
    size_t k = 0;
    for (size_t i = 0; i < j->n_launches; i++) {
        struct launch *l = &j->launch[j->head + i];
        if (l->has_kernel)
            continue;
        l->k = j->lone[k++];
        l->has_kernel = 1;
        l->confidence = HM_JOIN_ORDER;
    }
    j->n_lone = 0;
}

/* ---- rule: operations without launches ---- */

static int by_api(const void *x, const void *y)
{
    const struct kernel *a = x, *b = y;
    if (a->api_track != b->api_track)
        return a->api_track < b->api_track ? -1 : 1;
    return (a->api_t_ns > b->api_t_ns) - (a->api_t_ns < b->api_t_ns);
}

static int by_track(const void *x, const void *y)
{
    const struct op *a = x, *b = y;
    if (a->track != b->track)
        return a->track < b->track ? -1 : 1;
    if (a->t_ns != b->t_ns)
        return a->t_ns < b->t_ns ? -1 : 1;
    return (a->call > b->call) - (a->call < b->call);
}

static int by_op_time(const void *x, const void *y)
{
    const struct op *a = x, *b = y;
    return (a->t_ns > b->t_ns) - (a->t_ns < b->t_ns);
}

static int by_kernel_api_time(const void *x, const void *y)
{
    const struct kernel *a = x, *b = y;
    return (a->api_t_ns > b->api_t_ns) - (a->api_t_ns < b->api_t_ns);
}

struct unit {
    int64_t t_ns;
    size_t op, n, kernel;
    uint8_t confidence;
};

static int by_unit_time(const void *x, const void *y)
{
    const struct unit *a = x, *b = y;
    if (a->t_ns != b->t_ns)
        return a->t_ns < b->t_ns ? -1 : 1;
    return (a->op > b->op) - (a->op < b->op);
}

/* Calls are told beside what was enqueued in some files: the enqueued ones are the launches. */
static void drop_double_calls(struct hm_join *j)
{
    size_t n_enqueued = 0, n = 0;
    for (size_t i = 0; i < j->n_calls; i++)
        n_enqueued += j->call[i].kind != HM_EV_NCCL_CALL;
    if (!n_enqueued)
        return;
    for (size_t i = 0; i < j->n_calls; i++)
        if (j->call[i].kind != HM_EV_NCCL_CALL)
            j->call[n++] = j->call[i];
    j->n_calls = n;
}

/* Do the sequence numbers of a communicator grow from launch to launch? */
static int seq_grows(const struct hm_join *j, const struct unit *unit, size_t n, uint32_t comm)
{
    uint32_t last = HM_NO_ID;
    for (size_t i = 0; i < n; i++) {
        const struct op *o = &j->call[unit[i].op];
        if (o->comm != comm || is_p2p(o))
            continue;
        if (o->call == HM_NO_ID || (last != HM_NO_ID && o->call <= last))
            return 0;
        last = o->call;
    }
    return last != HM_NO_ID;
}

/* Whether each communicator is numbered by its sequence: decided once, at its first launch. */
static void number_by_seq(struct hm_join *j, const struct unit *unit, size_t n, const struct op *op)
{
    struct comm_state *cs = j->in.by_seq && !is_p2p(op) ? comm_of(j, op->comm) : NULL;
    if (!cs)
        return;
    if (!cs->by_seq)
        cs->by_seq = seq_grows(j, unit, n, op->comm) ? 2 : 1;
    if (cs->by_seq == 2)
        cs->seq = op->call;
}

static hm_status_t ops_end(struct hm_join *j)
{
    drop_double_calls(j);
    size_t n_units = 0;
    struct unit *unit = malloc((j->n_calls + 1) * sizeof(*unit));
    if (!unit)
        return no_memory();
    int have_api = j->n_lone > 0;
    for (size_t i = 0; i < j->n_lone; i++)
        have_api &= j->lone[i].api_end_ns != 0;
    if (!j->expect_kernels) {
        for (size_t i = 0; i < j->n_calls; i++)
            unit[n_units++] = (struct unit){j->call[i].t_ns, i, 1, SIZE_MAX, HM_JOIN_ORDER};
    } else if (j->n_calls ==
               j->n_lone) { /* one for one: also where they are told before the call */
        qsort(j->call, j->n_calls, sizeof(*j->call), by_op_time);
        if (have_api)
            qsort(j->lone, j->n_lone, sizeof(*j->lone), by_kernel_api_time);
        for (size_t i = 0; i < j->n_calls; i++)
            unit[n_units++] = (struct unit){j->call[i].t_ns, i, 1, i, HM_JOIN_ORDER};
    } else if (have_api) {
        qsort(j->lone, j->n_lone, sizeof(*j->lone), by_api);
        qsort(j->call, j->n_calls, sizeof(*j->call), by_track);
        size_t o = 0;
        for (size_t k = 0; k < j->n_lone; k++) {
            const struct kernel *kn = &j->lone[k];
            int more = k + 1 < j->n_lone && j->lone[k + 1].api_track == kn->api_track;
            while (o < j->n_calls &&
                   (j->call[o].track < kn->api_track ||
                    (j->call[o].track == kn->api_track && j->call[o].t_ns < kn->api_t_ns)))
                o++;
            size_t first = o;
            while (o < j->n_calls && j->call[o].track == kn->api_track &&
                   (!more || j->call[o].t_ns < j->lone[k + 1].api_t_ns))
                o++;
            if (o > first)
                unit[n_units++] = (struct unit){kn->api_t_ns, first, o - first, k, HM_JOIN_ORDER};
            else
                j->stats.n_lone_kernels++;
        }
    } else {
        j->stats.n_lone_kernels += j->n_lone;
        j->stats.n_lone_launches += j->n_calls;
    }
    qsort(unit, n_units, sizeof(*unit), by_unit_time);
    hm_status_t s = HM_OK;
    for (size_t i = 0; i < n_units && !s; i++) {
        const struct unit *u = &unit[i];
        const struct op *op = &j->call[u->op];
        struct hm_arrival a = {.host_ns = op->t_ns, .confidence = u->confidence};
        uint32_t device = HM_NO_ID;
        if (u->kernel != SIZE_MAX) {
            const struct kernel *k = &j->lone[u->kernel];
            a.start_ns = k->start_ns;
            a.end_ns = k->end_ns;
            a.source = HM_ARRIVAL_KERNEL;
            a.launch_end_ns = k->api_end_ns ? k->api_end_ns : k->start_ns;
            if (k->api_end_ns && k->api_t_ns < a.host_ns)
                a.host_ns = k->api_t_ns;
            device = k->device;
        } else {
            a.start_ns = a.end_ns = a.launch_end_ns = op->t_ns;
            a.source = HM_ARRIVAL_ENQUEUE;
        }
        number_by_seq(j, unit, n_units, op);
        s = emit(j, a, op, (uint32_t)u->n, op->comm, device, 1);
    }
    free(unit);
    j->n_calls = j->n_lone = 0;
    return s;
}

static hm_status_t ops_event(struct hm_join *j, const struct hm_event *ev)
{
    switch (ev->kind) {
    case HM_EV_API:
        hm_corr_add(&j->corr, ev);
        return HM_OK;
    case HM_EV_KERNEL: {
        if (!is_nccl(j, ev->u.kernel.kernel))
            return HM_OK;
        struct kernel k = kernel_of(j, ev);
        const struct hm_call *call = hm_corr_find(&j->corr, k.correlation);
        if (call) {
            k.api_t_ns = call->t_ns;
            k.api_end_ns = call->end_ns;
            k.api_track = call->track;
        }
        return keep_lone(j, &k);
    }
    default:
        if (!grow(&j->call, &j->cap_calls, j->n_calls, sizeof(*j->call)))
            return no_memory();
        j->call[j->n_calls++] = op_of(ev);
        return HM_OK;
    }
}

/* ---- rule: kernels alone ---- */

static hm_status_t kernels_kernel(struct hm_join *j, const struct hm_event *ev)
{
    if (!is_nccl(j, ev->u.kernel.kernel))
        return HM_OK;
    struct kernel k = kernel_of(j, ev);
    if (k.device == HM_NO_ID)
        k.device = j->in.device;
    size_t i = 0;
    uint32_t i_stream = 0;
    while (i < j->n_orders && j->order[i].track != k.track) {
        i_stream += j->order[i].device == k.device;
        i++;
    }
    if (i == j->n_orders) {
        if (!grow(&j->order, &j->cap_orders, j->n_orders, sizeof(*j->order)))
            return no_memory();
        uint64_t key = hm_comm_key_of_order(k.device, i_stream);
        struct hm_join_comm c;
        if (j->in.n_comms == 1 && !i && j->in.comm(j->in.ctx, j->in.only_comm, &c))
            key = c.key;
        j->order[j->n_orders++] = (struct order_state){key, k.track, k.device, 0};
    }
    const struct hm_call *call = hm_corr_find(&j->corr, k.correlation);
    struct hm_arrival a = {.comm = j->order[i].key,
                           .seq = j->order[i].seq++,
                           .start_ns = k.start_ns,
                           .end_ns = k.end_ns,
                           .host_ns = call ? call->t_ns : k.start_ns,
                           .launch_end_ns = call ? call->end_ns : k.start_ns,
                           .func = hm_nccl_func_of_name(j->in.kernel_name(j->in.ctx, k.kernel)),
                           .n_ops = 1,
                           .source = HM_ARRIVAL_KERNEL,
                           .confidence = HM_JOIN_ORDER};
    a.signature = a.func;
    return push_ready(j, &a, k.device, 0);
}

/* ---- the object ---- */

hm_status_t hm_join_create(const struct hm_join_in *in, struct hm_join **join_p)
{
    struct hm_join *j = calloc(1, sizeof(*j));
    if (!j)
        return no_memory();
    j->in = *in;
    j->rule = in->n_launches ? RULE_LAUNCHES : in->n_ops ? RULE_OPS : RULE_KERNELS;
    j->expect_kernels = in->n_kernels > 0;
    j->now_ns = INT64_MIN;
    *join_p = j;
    return HM_OK;
}

hm_status_t hm_join_event(struct hm_join *j, const struct hm_event *ev)
{
    if (ev->flags & (HM_EVF_BAD_TIME | HM_EVF_GRAPH))
        return HM_OK;
    if (ev->t_ns > j->now_ns)
        j->now_ns = ev->t_ns;
    if (ev->kind == HM_EV_KERNEL && ev->dur_ns == HM_DUR_OPEN)
        return HM_OK; /* still running at the end: nobody has left this one */
    hm_status_t s = HM_OK;
    switch (ev->kind) {
    case HM_EV_KERNEL:
    case HM_EV_API:
    case HM_EV_NCCL_CALL:
    case HM_EV_NCCL_COLL:
    case HM_EV_NCCL_P2P:
    case HM_EV_NCCL_LAUNCH:
        break;
    default:
        return HM_OK;
    }
    switch (j->rule) {
    case RULE_KERNELS:
        if (ev->kind == HM_EV_API)
            hm_corr_add(&j->corr, ev);
        else if (ev->kind == HM_EV_KERNEL)
            s = kernels_kernel(j, ev);
        return s;
    case RULE_OPS:
        return ops_event(j, ev);
    case RULE_LAUNCHES:
        break;
    }
    if (ev->kind == HM_EV_API)
        launches_api(j, ev);
    else if (ev->kind == HM_EV_KERNEL)
        s = launches_kernel(j, ev);
    else if (ev->kind == HM_EV_NCCL_LAUNCH)
        s = launches_launch(j, ev);
    else
        s = launches_op(j, ev);
    return s ? s : settle_ready(j, 0);
}

hm_status_t hm_join_end(struct hm_join *j)
{
    hm_status_t s = HM_OK;
    if (j->rule == RULE_OPS) {
        s = ops_end(j);
    } else if (j->rule == RULE_LAUNCHES) {
        if (!j->in.n_apis)
            tie_by_order(j);
        s = settle_ready(j, 1);
        j->stats.n_lone_kernels += j->n_lone;
        j->n_lone = 0;
    }
    j->now_ns = INT64_MAX;
    return s;
}

uint32_t hm_join_open(struct hm_join *j, uint32_t comm, int64_t *since_ns_p)
{
    struct comm_state *cs = j->rule == RULE_LAUNCHES && j->expect_kernels ? comm_of(j, comm) : NULL;
    if (!cs)
        return HM_NO_ID;
    uint32_t n = cs->n_open;
    int64_t since = cs->open_ns;
    for (size_t i = 0; i < j->n_calls; i++) { /* called, and not even launched */
        if (!n_collectives(&j->call[i], 1, comm))
            continue;
        since = n ? since : j->call[i].t_ns;
        n++;
    }
    *since_ns_p = since;
    return n;
}

int hm_join_way(const struct hm_join *j, size_t i, struct hm_join_way *way_p)
{
    if (i >= j->n_pairs || j->rule != RULE_LAUNCHES || !j->expect_kernels)
        return 0;
    const struct pair_state *p = &j->pair[i];
    *way_p =
        (struct hm_join_way){p->key, p->pair, p->seq, p->n_open, p->n_ranks, p->device, p->open_ns};
    return 1;
}

void hm_join_stats(const struct hm_join *j, struct hm_join_stats *stats_p)
{
    *stats_p = j->stats;
}

void hm_join_destroy(struct hm_join *j)
{
    if (!j)
        return;
    for (size_t i = 0; i < j->n_launches; i++)
        free(j->launch[j->head + i].op);
    free(j->nccl);
    free(j->launch);
    free(j->lone);
    free(j->call);
    free(j->comm);
    free(j->pair);
    free(j->order);
    free(j->ready);
    free(j);
}
