/* ncclAllReduce and the others, in front of NCCL. See calls.h.
 *
 * Box: nccl-plugin. Thread: the application's. A call opens a CALL event in a slot, so that one
 * that never returns is seen; its index comes with the operation that NCCL announces inside it (or
 * at the end of its group) and only then is it written: what NCCL never announces (one rank, no
 * elements) was no operation. The outermost call or ncclGroupEnd stands for the kernel launch, with
 * CUPTI's correlation id around it, when all its operations are of one communicator.
 * Per-thread memory is one pointer: a library that is loaded late has little room for more.
 */
#include "calls.h"

#include "calls_inside.h"
#include "model.h"

#include <dlfcn.h>

#define HM_EXPORT __attribute__((visibility("default")))

enum { N_GROUPS = 64, MAX_CALLS = 256 };
struct entry {
    uint64_t serial; /* its slot, 0 none */
    const void *comm;
    void *stream;
    uint64_t count;
    uint8_t func, dtype, matched;
};
struct group { /* of one thread, from its first call to its outermost end */
    _Atomic int taken;
    uint32_t n, first; /* entries; the first that is not matched yet */
    uint64_t launch_serial;
    uint32_t launch, launch_comm, n_ops;
    struct entry call[MAX_CALLS];
};
static struct group groups[N_GROUPS];
static _Thread_local struct group *mine;
static _Thread_local int depth, inside; /* inside: NCCL is at work, and may use its own names */
static _Atomic int wanted;

void hm_call_wanted(void)
{
    atomic_store_explicit(&wanted, 1, memory_order_relaxed);
}

/* ---- NCCL's own functions ---- */

void *hm_call_real(_Atomic(void *) *cache, const char *name)
{
    void *f = atomic_load_explicit(cache, memory_order_relaxed);
    if (f)
        return f;
    f = dlsym(RTLD_NEXT, name);
    if (!f) { /* NCCL was loaded out of the global scope */
        void *lib = dlopen("libnccl.so.2", RTLD_NOW | RTLD_NOLOAD);
        f = lib ? dlsym(lib, name) : NULL;
        if (lib)
            dlclose(lib);
    }
    atomic_store_explicit(cache, f, memory_order_relaxed);
    return f;
}

static int32_t ask(_Atomic(void *) *cache, const char *name, const void *comm, int32_t unknown)
{
    int (*get)(const void *, int *);
    int n = 0;
    *(void **)&get = hm_call_real(cache, name);
    return get && comm && !get(comm, &n) ? n : unknown;
}

int32_t hm_call_size_of(const void *comm)
{
    static _Atomic(void *) cache;
    return ask(&cache, "pncclCommCount", comm, 0);
}

int32_t hm_call_rank_of(const void *comm)
{
    static _Atomic(void *) cache;
    return ask(&cache, "pncclCommUserRank", comm, -1);
}

/* ---- a call begins ---- */

static struct group *my_group(void)
{
    for (int i = 0; !mine && i < N_GROUPS; i++) {
        int free_one = 0;
        if (atomic_compare_exchange_strong(&groups[i].taken, &free_one, 1)) {
            mine = &groups[i];
            mine->n = mine->first = mine->n_ops = 0;
            mine->launch = mine->launch_comm = HM_NO_ID;
            mine->launch_serial = 0;
        }
    }
    return mine; /* NULL: more threads at once than anybody has; their calls go unrecorded */
}

/* The call has its identity. */
static void give(struct group *g, struct entry *e, uint32_t comm, uint32_t def, uint32_t call)
{
    e->matched = 1;
    while (g->first < g->n && g->call[g->first].matched)
        g->first++;
    struct hm_op_slot *slot = e->serial ? hm_slot_hold(e->serial) : NULL;
    if (slot) {
        slot->comm_slot = comm;
        slot->call = call;
        slot->ev.u.op.comm = def;
        slot->ev.u.op.call = call;
        hm_op_put(slot, 0);
    }
    g->launch_comm = comm;
    g->n_ops++;
}

static void begin(uint8_t func, uint64_t count, int dtype, int peer, const void *comm, void *stream)
{
    struct group *g = my_group();
    uint64_t handle = 0, serial = 0;
    enum hm_nccl_type type;
    if (!g || g->n == MAX_CALLS)
        return;
    struct hm_op_slot *slot = hm_slot_take(HM_NT_COLL_API, HM_EV_NCCL_CALL, 0, &handle);
    uint8_t code = dtype >= 0 && dtype + 1 < HM_N_DTYPES ? (uint8_t)(dtype + 1) : 0;
    if (slot) {
        hm_handle_unpack(handle, &type, &serial);
        slot->ev.aux = HM_NCCL_AUX(func, code);
        slot->ev.u.op = (struct hm_ev_op){.count = count,
                                          .comm = HM_NO_ID,
                                          .call = HM_NO_ID,
                                          .nccl_seq = HM_NO_ID,
                                          .launch = HM_NO_ID,
                                          .peer = peer};
        hm_op_put(slot, 0);
    }
    struct entry *e = &g->call[g->n++];
    *e = (struct entry){.serial = serial,
                        .comm = comm,
                        .stream = stream,
                        .count = count,
                        .func = func,
                        .dtype = code};
    uint32_t index = hm_call_comm_of(comm);
    int p2p = func == HM_NCCL_SEND || func == HM_NCCL_RECV;
    if (index == HM_NO_ID || !count || (p2p && peer == hm_comm[index].crank))
        return;
    give(g, e, index, hm_comm_def(index), hm_comm_next_call(index, p2p)); /* nobody else will */
}

/* The outermost call is about to go to NCCL: kernels are launched inside. */
static void launch_begins(void)
{
    struct group *g = mine;
    enum hm_nccl_type type;
    uint64_t handle = 0;
    if (!g || !g->n)
        return;
    for (uint32_t i = 1; i < g->n; i++)
        if (g->call[i].comm != g->call[0].comm)
            return;
    struct hm_op_slot *slot = hm_slot_take(HM_NT_LAUNCH, HM_EV_NCCL_LAUNCH, 0, &handle);
    if (!slot)
        return;
    hm_handle_unpack(handle, &type, &g->launch_serial);
    g->launch = hm_launch_next();
    slot->launch = g->launch;
    slot->ev.u.launch = (struct hm_ev_launch){.stream_ptr = (uint64_t)(uintptr_t)g->call[0].stream,
                                              .comm = HM_NO_ID,
                                              .launch = g->launch,
                                              .group = HM_NO_ID};
    hm_op_put(slot, 0);
    const struct hm_cupti_ops *cupti = atomic_load_explicit(&hm.cupti, memory_order_acquire);
    if (cupti && cupti->push)
        cupti->push(g->launch);
}

/* ---- NCCL announces what came of it ---- */

static int same_work(const struct entry *e, const struct hm_nccl_desc *d, uint8_t func)
{
    static const uint8_t bytes[HM_N_DTYPES] = {0, 1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
    if (e->matched || e->func != func)
        return 0;
    /* gathers and broadcasts are told in bytes */
    return e->count == d->count || e->count * bytes[e->dtype] == d->count;
}

int hm_call_match(const struct hm_nccl_desc *d, uint8_t func, uint32_t comm, uint32_t def,
                  uint32_t call, struct hm_call_match *match_p)
{
    struct group *g = mine;
    struct entry *e = NULL;
    for (uint32_t i = g ? g->first : 0; g && i < g->n; i++)
        if (same_work(&g->call[i], d, func)) {
            e = &g->call[i];
            break;
        }
    if (!e)
        return 0;
    give(g, e, comm, def, call);
    *match_p = (struct hm_call_match){
        .count = e->count, .launch = g->launch, .aux = HM_NCCL_AUX(e->func, e->dtype)};
    return 1;
}

int32_t hm_call_n_ranks(void)
{
    return mine && mine->first < mine->n ? hm_call_size_of(mine->call[mine->first].comm) : 0;
}

/* ---- and ends ---- */

static void call_returns(void)
{
    struct entry *e = mine && mine->n ? &mine->call[mine->n - 1] : NULL;
    struct hm_op_slot *slot = e && e->serial ? hm_slot_hold(e->serial) : NULL;
    if (!slot)
        return;
    if (slot->ev.kind)
        slot->ev.dur_ns = hm_now() - slot->ev.t_ns;
    hm_op_put(slot, 0);
}

static void launch_ends(struct group *g)
{
    const struct hm_cupti_ops *cupti = atomic_load_explicit(&hm.cupti, memory_order_acquire);
    int64_t t_ns = hm_now();
    if (cupti && cupti->pop)
        cupti->pop(g->launch);
    struct hm_op_slot *slot = hm_slot_hold(g->launch_serial);
    if (!slot)
        return;
    if (!g->n_ops) /* nothing was launched as far as NCCL says */
        slot->ev.kind = 0;
    slot->ev.u.launch.n_ops = g->n_ops;
    slot->ev.u.launch.comm = hm_comm_def(g->launch_comm);
    hm_slot_finish(slot, t_ns);
    if (g->launch_comm == HM_NO_ID || !g->n_ops)
        return;
    struct hm_comm_slot *c = &hm.view.comm[g->launch_comm];
    c->launch = g->launch;
    atomic_store_explicit(&c->n_launched,
                          atomic_load_explicit(&c->n_launched, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

static void all_ends(void)
{
    struct group *g = mine;
    if (!g)
        return;
    if (g->launch_serial)
        launch_ends(g);
    for (uint32_t i = 0; i < g->n; i++) {
        struct hm_op_slot *slot = g->call[i].serial ? hm_slot_hold(g->call[i].serial) : NULL;
        if (!slot)
            continue;
        if (!g->call[i].matched)
            slot->ev.kind = 0;
        hm_slot_finish(slot, 0);
    }
    mine = NULL;
    atomic_store(&g->taken, 0);
}

/* ---- NCCL's names ---- */

static int recording(void)
{
    return atomic_load_explicit(&wanted, memory_order_relaxed) && hm.view.pool &&
           !atomic_load_explicit(&hm.in_child, memory_order_relaxed);
}

enum { NCCL_SYSTEM_ERROR = 2 }; /* no NCCL in the process: what else could be said */
#define HM_CALL(name, func_code, DECL, ARGS, count, dtype, peer, comm, stream) \
    HM_EXPORT int nccl##name DECL;                                             \
    int nccl##name DECL                                                        \
    {                                                                          \
        static _Atomic(void *) cache;                                          \
        int(*real) DECL;                                                       \
        *(void **)&real = hm_call_real(&cache, "pnccl" #name);                 \
        if (!real)                                                             \
            return NCCL_SYSTEM_ERROR;                                          \
        if (inside || !recording())                                            \
            return real ARGS;                                                  \
        begin(func_code, count, dtype, peer, comm, stream);                    \
        if (depth == 0)                                                        \
            launch_begins();                                                   \
        depth++;                                                               \
        inside = 1;                                                            \
        int rc = real ARGS;                                                    \
        inside = 0;                                                            \
        call_returns();                                                        \
        if (--depth == 0)                                                      \
            all_ends();                                                        \
        return rc;                                                             \
    }

HM_CALL(AllReduce, HM_NCCL_ALLREDUCE,
        (const void *send, void *recv, size_t count, int type, int op, void *comm, void *stream),
        (send, recv, count, type, op, comm, stream), count, type, -1, comm, stream)
HM_CALL(Broadcast, HM_NCCL_BROADCAST,
        (const void *send, void *recv, size_t count, int type, int root, void *comm, void *stream),
        (send, recv, count, type, root, comm, stream), count, type, root, comm, stream)
HM_CALL(Bcast, HM_NCCL_BROADCAST,
        (void *buff, size_t count, int type, int root, void *comm, void *stream),
        (buff, count, type, root, comm, stream), count, type, root, comm, stream)
HM_CALL(Reduce, HM_NCCL_REDUCE,
        (const void *send, void *recv, size_t count, int type, int op, int root, void *comm,
         void *stream),
        (send, recv, count, type, op, root, comm, stream), count, type, root, comm, stream)
HM_CALL(AllGather, HM_NCCL_ALLGATHER,
        (const void *send, void *recv, size_t count, int type, void *comm, void *stream),
        (send, recv, count, type, comm, stream), count, type, -1, comm, stream)
HM_CALL(ReduceScatter, HM_NCCL_REDUCESCATTER,
        (const void *send, void *recv, size_t count, int type, int op, void *comm, void *stream),
        (send, recv, count, type, op, comm, stream), count, type, -1, comm, stream)
HM_CALL(Send, HM_NCCL_SEND,
        (const void *send, size_t count, int type, int peer, void *comm, void *stream),
        (send, count, type, peer, comm, stream), count, type, peer, comm, stream)
HM_CALL(Recv, HM_NCCL_RECV,
        (void *recv, size_t count, int type, int peer, void *comm, void *stream),
        (recv, count, type, peer, comm, stream), count, type, peer, comm, stream)

HM_EXPORT int ncclGroupStart(void);
HM_EXPORT int ncclGroupEnd(void);

int ncclGroupStart(void)
{
    static _Atomic(void *) cache;
    int (*real)(void);
    *(void **)&real = hm_call_real(&cache, "pncclGroupStart");
    if (!real)
        return NCCL_SYSTEM_ERROR;
    depth += !inside; /* counted always: recording may begin inside a group */
    return real();
}

int ncclGroupEnd(void)
{
    static _Atomic(void *) cache;
    int (*real)(void);
    *(void **)&real = hm_call_real(&cache, "pncclGroupEnd");
    if (!real)
        return NCCL_SYSTEM_ERROR;
    if (inside)
        return real();
    if (depth == 1)
        launch_begins();
    inside = 1;
    int rc = real();
    inside = 0;
    if (depth > 0 && --depth == 0)
        all_ends();
    return rc;
}
