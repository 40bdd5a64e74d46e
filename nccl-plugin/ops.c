/* The event model behind NCCL's profiler callbacks.
 *
 * Box: nccl-plugin. Threads: application threads (calls, launches, enqueued operations), NCCL's
 * init and group threads, proxy threads, CUDA host-callback threads; all at once.
 * An operation under way is the event being filled in, in a slot of the pool; its handle is the
 * slot's serial. After its stop the slot keeps the identity (communicator, call) until the serial
 * comes round again, because children start after their parents have stopped: that is the normal
 * case. Invariants: the call counter runs whether or not anything is recorded (it is the identity
 * across ranks); every push to CUPTI has its pop on the same thread; no pointer of NCCL's is
 * followed but constant strings of descriptors that NCCL built in this process.
 * Source: NVIDIA/nccl, plugin interfaces v4 and v5 as loaded by 2.27 to 2.30.
 */
#include "ops.h"

#include "abi.h"
#include "core/who.h"
#include "handle.h"
#include "record/state.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

enum { MAX_COMMS = 16384, MAX_PENDING = 8 };
enum { OP_OPEN = 1, OP_PUSHED = 2 };
/* what ops.c keeps in the free words of a slot */
#define SLOT_FLAGS mark_ns[3]
#define SLOT_TYPE  pad

struct comm {
    uint64_t hash;
    int32_t crank, n_ranks;
    uint32_t def, interface;
    _Atomic uint32_t n_calls, n_p2p; /* next call index; kept while the gate is shut */
};
static struct comm comms[MAX_COMMS];
static _Atomic uint32_t n_comms;
static pthread_mutex_t init_lock = PTHREAD_MUTEX_INITIALIZER; /* init alone, never a callback */

static _Atomic uint64_t next_serial = 1;
static _Atomic uint32_t next_launch = 1, next_proxy = 1; /* 0 = none */

/* Launches of this thread whose operations have not been announced yet. */
struct pending {
    uint32_t comm, launch, bound;
};
static _Thread_local struct {
    struct pending item[MAX_PENDING];
    uint32_t n;
} waiting;

/* ---- texts of NCCL -> codes ---- */

static const char *const func_names[HM_NCCL_N_FUNCS] = {[HM_NCCL_ALLREDUCE] = "AllReduce",
                                                        [HM_NCCL_ALLGATHER] = "AllGather",
                                                        [HM_NCCL_REDUCESCATTER] = "ReduceScatter",
                                                        [HM_NCCL_BROADCAST] = "Broadcast",
                                                        [HM_NCCL_REDUCE] = "Reduce",
                                                        [HM_NCCL_SEND] = "Send",
                                                        [HM_NCCL_RECV] = "Recv",
                                                        [HM_NCCL_SENDRECV] = "SendRecv",
                                                        [HM_NCCL_ALLTOALL] = "AlltoAll",
                                                        [HM_NCCL_GATHER] = "Gather",
                                                        [HM_NCCL_SCATTER] = "Scatter",
                                                        [HM_NCCL_PUTSIGNAL] = "PutSignal",
                                                        [HM_NCCL_SIGNAL] = "Signal",
                                                        [HM_NCCL_WAITSIGNAL] = "WaitSignal"};
static const char *const dtype_names[HM_N_DTYPES] = {NULL,
                                                     "ncclInt8",
                                                     "Unknown" /* what NCCL calls ncclUint8 */,
                                                     "ncclInt32",
                                                     "ncclUint32",
                                                     "ncclInt64",
                                                     "ncclUint64",
                                                     "ncclFloat16",
                                                     "ncclFloat32",
                                                     "ncclFloat64",
                                                     "ncclBfloat16",
                                                     "ncclFloat8e4m3",
                                                     "ncclFloat8e5m2"};
static const char *const algo_names[HM_NCCL_N_ALGOS] = {
    [HM_NCCL_ALGO_TREE] = "TREE",
    [HM_NCCL_ALGO_RING] = "RING",
    [HM_NCCL_ALGO_COLLNET_DIRECT] = "COLLNET_DIRECT",
    [HM_NCCL_ALGO_COLLNET_CHAIN] = "COLLNET_CHAIN",
    [HM_NCCL_ALGO_NVLS] = "NVLS",
    [HM_NCCL_ALGO_NVLS_TREE] = "NVLS_TREE",
    [HM_NCCL_ALGO_PAT] = "PAT"};
static const char *const proto_names[HM_NCCL_N_PROTOS] = {
    [HM_NCCL_PROTO_LL] = "LL", [HM_NCCL_PROTO_LL128] = "LL128", [HM_NCCL_PROTO_SIMPLE] = "SIMPLE"};

struct vocabulary {
    const char *const *name;
    unsigned n;
    _Atomic uint32_t last; /* code found last: most calls repeat it */
};
static struct vocabulary funcs = {func_names, HM_NCCL_N_FUNCS, 0};
static struct vocabulary dtypes = {dtype_names, HM_N_DTYPES, 0};
static struct vocabulary algos = {algo_names, HM_NCCL_N_ALGOS, 0};
static struct vocabulary protos = {proto_names, HM_NCCL_N_PROTOS, 0};

static uint8_t code_of(struct vocabulary *v, const char *text)
{
    if (!text)
        return 0;
    uint32_t last = atomic_load_explicit(&v->last, memory_order_relaxed);
    if (last && !strcmp(text, v->name[last]))
        return (uint8_t)last;
    for (unsigned i = 1; i < v->n; i++) {
        if (v->name[i] && !strcmp(text, v->name[i])) {
            atomic_store_explicit(&v->last, i, memory_order_relaxed);
            return (uint8_t)i;
        }
    }
    return 0;
}

static int has_root(uint8_t func)
{
    return func == HM_NCCL_BROADCAST || func == HM_NCCL_REDUCE || func == HM_NCCL_GATHER ||
           func == HM_NCCL_SCATTER;
}

/* ---- slots ---- */

/* Holds the slot of a serial. A child resolving its parent holds it for some nanoseconds: only a
 * serial that has moved on is gone. */
static struct hm_op_slot *hold(uint64_t serial)
{
    if (!hm.view.n_ops)
        return NULL;
    _Atomic uint64_t *word = &hm.view.op[serial % hm.view.n_ops].serial;
    for (int i = 0; i < 100000; i++) {
        struct hm_op_slot *slot = hm_op_hold(&hm.view, serial);
        if (slot)
            return slot;
        if ((atomic_load_explicit(word, memory_order_relaxed) & ~HM_OP_BUSY) != serial)
            return NULL;
    }
    return NULL;
}

static void commit(const struct hm_event *done)
{
    struct hm_event *ev = hm_begin(done->kind);
    if (ev) {
        *ev = *done;
        hm_commit();
    }
}

/* Takes a slot and writes its handle; the caller fills it in and lets go. kind 0 = the identity is
 * kept, no event comes of it. */
static struct hm_op_slot *take(enum hm_nccl_type type, unsigned kind, uint64_t *handle_p)
{
    struct hm_event evicted = {0};
    uint64_t serial = atomic_fetch_add_explicit(&next_serial, 1, memory_order_relaxed);
    struct hm_op_slot *slot = hm_op_take(&hm.view, serial, &evicted);
    if (evicted.kind) { /* never stopped: aborted, or NCCL forgot */
        evicted.flags |= HM_EVF_EVICTED;
        evicted.dur_ns = HM_DUR_OPEN;
        commit(&evicted);
        hm_lose(HM_LOST_NCCL_EVICTED, 1);
    }
    if (!slot) {
        hm_lose(HM_LOST_NCCL_EVICTED, 1);
        return NULL;
    }
    *handle_p = hm_handle_pack(type, serial);
    slot->comm_slot = slot->launch = slot->call = HM_NO_ID;
    slot->SLOT_TYPE = (uint64_t)type;
    slot->SLOT_FLAGS = OP_OPEN;
    if (kind && hm_on(kind)) {
        slot->ev.kind = (uint8_t)kind;
        slot->ev.track = hm_track();
        slot->ev.t_ns = hm_now();
        slot->ev.dur_ns = HM_DUR_OPEN;
    }
    return slot;
}

struct identity { /* what a child learns from its parent; HM_NO_ID = nothing */
    uint32_t comm, call, launch, group, proxy;
    uint8_t flags;
};

/* The parent's identity. Counted: a handle of another process, one that is too old. */
static struct identity identity_of(uint64_t handle)
{
    struct identity id = {HM_NO_ID, HM_NO_ID, HM_NO_ID, HM_NO_ID, HM_NO_ID, 0};
    enum hm_nccl_type type;
    uint64_t serial;
    switch (hm_handle_unpack(handle, &type, &serial)) {
    case HM_HANDLE_NULL: /* allowed: NCCL announces children without a parent */
        return id;
    case HM_HANDLE_FOREIGN:
        hm_lose(HM_LOST_NCCL_FOREIGN, 1);
        return id;
    case HM_HANDLE_OURS:
        break;
    }
    if (type == HM_NT_VOID)
        return id;
    if (type == HM_NT_BOUND) {
        id.launch = (uint32_t)serial;
        return id;
    }
    if (type == HM_NT_GROUP_API || type == HM_NT_GRAPH_API) { /* all there is to know of a group */
        id.group = (uint32_t)serial;
        id.flags = type == HM_NT_GRAPH_API ? HM_EVF_GRAPH : 0;
        return id;
    }
    struct hm_op_slot *slot = type == HM_NT_CTX ? NULL : hold(serial);
    if (slot && slot->SLOT_TYPE != (uint64_t)type) {
        hm_op_put(slot, 0);
        slot = NULL;
    }
    if (!slot) {
        hm_lose(HM_LOST_NCCL_STALE, 1);
        return id;
    }
    id.comm = slot->comm_slot;
    id.call = slot->call;
    id.launch = slot->launch;
    id.flags = slot->ev.flags;
    if (type == HM_NT_PROXY_OP)
        id.proxy = slot->ev.u.proxy_op.proxy;
    hm_op_put(slot, 0);
    return id;
}

/* Index of a context, HM_NO_ID when it is not one of ours (counted). */
static uint32_t comm_of(uint64_t ctx)
{
    enum hm_nccl_type type;
    uint64_t serial;
    switch (hm_handle_unpack(ctx, &type, &serial)) {
    case HM_HANDLE_NULL:
        hm_lose(HM_LOST_NCCL_STALE, 1);
        return HM_NO_ID;
    case HM_HANDLE_FOREIGN:
        hm_lose(HM_LOST_NCCL_FOREIGN, 1);
        return HM_NO_ID;
    case HM_HANDLE_OURS:
        break;
    }
    if (type != HM_NT_CTX || !serial ||
        serial > atomic_load_explicit(&n_comms, memory_order_acquire)) {
        if (type != HM_NT_VOID)
            hm_lose(HM_LOST_NCCL_STALE, 1);
        return HM_NO_ID;
    }
    return (uint32_t)serial - 1;
}

static uint32_t def_of(uint32_t comm)
{
    return comm == HM_NO_ID ? HM_NO_ID : comms[comm].def;
}

static void progress(_Atomic uint32_t *counter)
{
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

/* ---- launches and the operations that follow them on the same thread ---- */

static void launch_made(uint32_t comm, uint32_t launch)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < waiting.n; i++) /* what this communicator has bound is over */
        if (waiting.item[i].comm != comm || !waiting.item[i].bound)
            waiting.item[n++] = waiting.item[i];
    if (n == MAX_PENDING) { /* the oldest goes: its operations never came */
        memmove(waiting.item, waiting.item + 1, sizeof(waiting.item[0]) * (MAX_PENDING - 1));
        n--;
    }
    waiting.item[n] = (struct pending){.comm = comm, .launch = launch, .bound = 0};
    waiting.n = n + 1;
}

/* A group of enqueued operations begins: it belongs to the oldest launch not spoken for. */
static uint32_t launch_of_group(uint32_t comm)
{
    for (uint32_t i = 0; i < waiting.n; i++) {
        if (waiting.item[i].comm == comm && !waiting.item[i].bound) {
            waiting.item[i].bound = 1;
            return waiting.item[i].launch;
        }
    }
    return HM_NO_ID;
}

/* An operation without a group: with its predecessor's launch while no newer one was made. */
static uint32_t launch_of_op(uint32_t comm)
{
    for (uint32_t i = 0; i < waiting.n; i++)
        if (waiting.item[i].comm == comm && waiting.item[i].bound)
            return waiting.item[i].launch;
    return launch_of_group(comm);
}

/* ---- the communicator ---- */

static void *loaded(const char *const *soname)
{
    for (; *soname; soname++) {
        void *lib = dlopen(*soname, RTLD_NOW | RTLD_NOLOAD);
        if (lib)
            return lib;
    }
    return NULL;
}

/* The init thread has chosen its device. -1 = unknown. */
static int32_t current_device(void)
{
    static const char *const driver[] = {"libcuda.so.1", NULL};
    static const char *const runtime[] = {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0",
                                          NULL};
    int device = -1;
    int (*get)(int *) = NULL;
    void *lib = loaded(driver);
    if (lib) {
        *(void **)&get = dlsym(lib, "cuCtxGetDevice");
        if (get && !get(&device))
            return device;
    }
    lib = loaded(runtime);
    if (lib) {
        *(void **)&get = dlsym(lib, "cudaGetDevice");
        if (get && !get(&device))
            return device;
    }
    return -1;
}

static uint32_t nccl_version(void)
{
    static const char *const names[] = {"libnccl.so.2", NULL};
    int version = 0;
    int (*get)(int *) = NULL;
    void *lib = loaded(names);
    if (lib)
        *(void **)&get = dlsym(lib, "ncclGetVersion");
    return get && !get(&version) && version > 0 ? (uint32_t)version : 0;
}

/* The launcher's numbers where they can be true, else those of the first real communicator. */
static void claim(const struct hm_nccl_init *init)
{
    struct hm_who who;
    if (init->n_ranks < 2)
        return;
    hm_who(&who);
    if (who.rank >= 0 && who.n_ranks >= init->n_ranks)
        hm_claim(who.rank, who.n_ranks, who.local_rank, who.n_local);
    else
        hm_claim(init->crank, init->n_ranks, who.local_rank, who.n_local);
}

int hm_nccl_mask(unsigned interface)
{
    int mask = HM_NCCL_BIT_COLL | HM_NCCL_BIT_P2P | HM_NCCL_BIT_PROXY_OP;
    if (interface >= 5)
        mask |=
            HM_NCCL_BIT_GROUP_API | HM_NCCL_BIT_COLL_API | HM_NCCL_BIT_P2P_API | HM_NCCL_BIT_LAUNCH;
    else
        mask |= HM_NCCL_BIT_GROUP; /* without it 2.26 and 2.27 announce no operation at all */
    if (hm.config.proxy_steps)
        mask |= HM_NCCL_BIT_PROXY_STEP;
    if (hm.config.kernel_ch)
        mask |= HM_NCCL_BIT_KERNEL_CH;
    return mask;
}

static uint64_t void_handle(void)
{
    return hm_handle_pack(HM_NT_VOID,
                          atomic_fetch_add_explicit(&next_serial, 1, memory_order_relaxed));
}

uint64_t hm_nccl_init(const struct hm_nccl_init *init, int *mask_p)
{
    *mask_p = 0;
    int awake = !atomic_load(&hm.in_child) && hm_wake(HM_CAUSE_NCCL);
    hm_handle_seed(awake ? hm.view.pool->nonce : (uint64_t)hm_now());
    if (!awake)
        return void_handle();
    claim(init);
    hm_cupti_start();

    struct hm_def_comm def = {.hash = init->hash,
                              .crank = init->crank,
                              .n_ranks = init->n_ranks,
                              .n_nodes = init->n_nodes,
                              .device = current_device(),
                              .name =
                                  init->name ? hm_name(init->name, strlen(init->name)) : HM_NO_ID,
                              .interface = init->interface,
                              .nccl_version = nccl_version()};
    pthread_mutex_lock(&init_lock);
    uint32_t i = atomic_load_explicit(&n_comms, memory_order_relaxed);
    if (i >= MAX_COMMS || i >= hm.view.n_comms) {
        pthread_mutex_unlock(&init_lock);
        hm_lose(HM_LOST_NCCL_EVICTED, 1);
        return void_handle();
    }
    for (uint32_t k = 0; k < i; k++) /* several ranks of one communicator may live here */
        def.nth += comms[k].hash == init->hash && comms[k].crank == init->crank;
    comms[i].hash = init->hash;
    comms[i].crank = init->crank;
    comms[i].n_ranks = init->n_ranks;
    comms[i].interface = init->interface;
    comms[i].def = hm_define(HM_DEF_COMM, &def, sizeof(def));
    hm.view.comm[i].comm = comms[i].def;
    hm.view.comm[i].launch = HM_NO_ID;
    atomic_store(&hm.view.comm[i].alive, 1);
    atomic_store_explicit(&n_comms, i + 1, memory_order_release);
    pthread_mutex_unlock(&init_lock);
    *mask_p = hm_nccl_mask(init->interface);
    return hm_handle_pack(HM_NT_CTX, (uint64_t)i + 1);
}

void hm_nccl_fini(uint64_t ctx)
{
    uint32_t comm = atomic_load(&hm.in_child) ? HM_NO_ID : comm_of(ctx);
    if (comm != HM_NO_ID) /* late children may follow: the entry stays */
        atomic_store(&hm.view.comm[comm].alive, 0);
}

/* ---- events ---- */

/* The group's number is the serial in its handle: children need no look at the slot. */
static void start_group_api(uint64_t *handle_p, const struct hm_nccl_desc *d)
{
    enum hm_nccl_type type = d->graph ? HM_NT_GRAPH_API : HM_NT_GROUP_API;
    struct hm_op_slot *slot = take(type, HM_EV_NCCL_GROUP, handle_p);
    if (!slot)
        return;
    uint64_t serial = 0;
    hm_handle_unpack(*handle_p, &type, &serial);
    slot->ev.u.group.group = (uint32_t)serial;
    slot->ev.u.group.depth = d->type == HM_NT_GROUP ? -1 : d->depth;
    slot->ev.flags = d->graph ? HM_EVF_GRAPH : 0;
    hm_op_put(slot, 0);
}

/* v5: the bracket around the operations of one launch; the handle is that launch, no slot. */
static void start_group(uint64_t *handle_p, const struct hm_nccl_desc *d)
{
    if (d->interface < 5) {
        start_group_api(handle_p, d);
        return;
    }
    uint32_t launch = launch_of_group(comm_of(d->ctx));
    if (launch != HM_NO_ID)
        *handle_p = hm_handle_pack(HM_NT_BOUND, launch);
}

static void start_call(uint64_t *handle_p, const struct hm_nccl_desc *d)
{
    uint32_t comm = comm_of(d->ctx), call = HM_NO_ID;
    if (comm != HM_NO_ID) {
        call = d->type == HM_NT_COLL_API
                   ? atomic_fetch_add_explicit(&comms[comm].n_calls, 1, memory_order_relaxed)
                   : HM_CALL_P2P |
                         atomic_fetch_add_explicit(&comms[comm].n_p2p, 1, memory_order_relaxed);
        progress(&hm.view.comm[comm].n_called);
    }
    struct hm_op_slot *slot = take(d->type, HM_EV_NCCL_CALL, handle_p);
    if (!slot)
        return;
    slot->comm_slot = comm;
    slot->call = call;
    struct hm_event *ev = &slot->ev;
    ev->flags = d->graph ? HM_EVF_GRAPH : 0;
    if (ev->kind) {
        uint8_t func = code_of(&funcs, d->func);
        ev->aux = HM_NCCL_AUX(func, code_of(&dtypes, d->dtype));
        ev->u.op = (struct hm_ev_op){.count = d->count,
                                     .user_tag = d->user_tag,
                                     .comm = def_of(comm),
                                     .call = call,
                                     .nccl_seq = HM_NO_ID,
                                     .launch = HM_NO_ID,
                                     .peer = has_root(func) ? d->peer : -1};
    }
    hm_op_put(slot, 0);
}

static void start_launch(uint64_t *handle_p, const struct hm_nccl_desc *d)
{
    uint32_t comm = comm_of(d->ctx);
    struct identity parent = identity_of(d->parent);
    uint32_t launch = atomic_fetch_add_explicit(&next_launch, 1, memory_order_relaxed);
    struct hm_op_slot *slot = take(d->type, HM_EV_NCCL_LAUNCH, handle_p);
    if (!slot) /* nothing would ever pop */
        return;
    slot->comm_slot = comm;
    slot->launch = launch;
    slot->ev.flags = parent.flags & HM_EVF_GRAPH;
    slot->ev.u.launch = (struct hm_ev_launch){
        .stream_ptr = d->stream, .comm = def_of(comm), .launch = launch, .group = parent.group};
    launch_made(comm, launch);
    if (comm != HM_NO_ID) {
        hm.view.comm[comm].launch = launch;
        progress(&hm.view.comm[comm].n_launched);
    }
    const struct hm_cupti_ops *cupti = atomic_load_explicit(&hm.cupti, memory_order_acquire);
    if (cupti && cupti->push)
        slot->SLOT_FLAGS |= OP_PUSHED;
    int push = slot->SLOT_FLAGS & OP_PUSHED;
    hm_op_put(slot, 0);
    if (push)
        cupti->push(launch);
}

static void start_op(uint64_t *handle_p, const struct hm_nccl_desc *d)
{
    uint32_t comm = comm_of(d->ctx), launch = HM_NO_ID;
    struct identity parent = {HM_NO_ID, HM_NO_ID, HM_NO_ID, HM_NO_ID, HM_NO_ID, 0};
    uint32_t call = HM_NO_ID;
    if (d->interface >= 5) {
        parent = identity_of(d->parent);
        call = parent.call;
        if (comm == HM_NO_ID)
            comm = parent.comm;
        launch = d->group ? identity_of(d->group).launch : HM_NO_ID;
        if (launch == HM_NO_ID)
            launch = launch_of_op(comm);
    } else if (comm != HM_NO_ID) { /* no calls are told: our own count, in the plan's order */
        call = d->type == HM_NT_COLL
                   ? atomic_fetch_add_explicit(&comms[comm].n_calls, 1, memory_order_relaxed)
                   : HM_CALL_P2P |
                         atomic_fetch_add_explicit(&comms[comm].n_p2p, 1, memory_order_relaxed);
    }
    unsigned kind = d->type == HM_NT_COLL ? HM_EV_NCCL_COLL : HM_EV_NCCL_P2P;
    struct hm_op_slot *slot = take(d->type, kind, handle_p);
    if (comm != HM_NO_ID)
        progress(&hm.view.comm[comm].n_coll);
    if (!slot)
        return;
    slot->comm_slot = comm;
    slot->call = call;
    slot->launch = launch;
    struct hm_event *ev = &slot->ev;
    ev->flags = parent.flags & HM_EVF_GRAPH;
    if (ev->kind) {
        uint8_t func = code_of(&funcs, d->func);
        ev->aux = HM_NCCL_AUX(func, code_of(&dtypes, d->dtype));
        ev->u.op = (struct hm_ev_op){.count = d->count,
                                     .user_tag = d->user_tag,
                                     .comm = def_of(comm),
                                     .call = call,
                                     .nccl_seq = d->have_seq ? (uint32_t)d->seq : HM_NO_ID,
                                     .launch = launch,
                                     .peer = d->type == HM_NT_P2P || has_root(func) ? d->peer : -1,
                                     .algo = code_of(&algos, d->algo),
                                     .proto = code_of(&protos, d->proto),
                                     .n_channels = d->n_channels,
                                     .n_warps = d->n_warps};
    }
    hm_op_put(slot, 0);
}

static void start_proxy_op(uint64_t *handle_p, const struct hm_nccl_desc *d)
{
    uint32_t comm = HM_NO_ID;
    struct identity parent = {HM_NO_ID, HM_NO_ID, HM_NO_ID, HM_NO_ID, HM_NO_ID, 0};
    if (d->pid && d->pid != hm.view.pool->pid) { /* another rank's, forwarded through our proxy:
                                                    parent and context are words of that process */
        hm_lose(HM_LOST_NCCL_FOREIGN, 1);
    } else {
        comm = comm_of(d->ctx);
        parent = identity_of(d->parent);
        if (comm == HM_NO_ID)
            comm = parent.comm;
    }
    struct hm_op_slot *slot = take(d->type, HM_EV_PROXY_OP, handle_p);
    if (!slot)
        return;
    slot->comm_slot = comm;
    slot->call = parent.call;
    slot->launch = parent.launch;
    slot->ev.aux = d->is_send;
    slot->ev.u.proxy_op = (struct hm_ev_proxy_op){
        .comm = def_of(comm),
        .call = parent.call,
        .proxy = atomic_fetch_add_explicit(&next_proxy, 1, memory_order_relaxed),
        .peer = d->peer,
        .n_steps = d->n_steps,
        .chunk_bytes = d->chunk_bytes,
        .origin_pid = d->pid,
        .channel = d->channel,
        .is_send = d->is_send};
    hm_op_put(slot, 0);
}

static void start_proxy_step(uint64_t *handle_p, const struct hm_nccl_desc *d)
{
    if (!hm_on(HM_EV_PROXY_STEP))
        return;
    struct identity parent = identity_of(d->parent);
    struct hm_op_slot *slot = take(d->type, HM_EV_PROXY_STEP, handle_p);
    if (!slot)
        return;
    slot->ev.u.proxy_step.proxy = parent.proxy;
    slot->ev.u.proxy_step.step = d->step;
    slot->mark_ns[0] = (int64_t)d->parent; /* bytes are added up there */
    hm_op_put(slot, 0);
}

static void start_kernel_ch(uint64_t *handle_p, const struct hm_nccl_desc *d)
{
    struct identity parent = identity_of(d->parent);
    uint32_t comm = parent.comm != HM_NO_ID ? parent.comm : comm_of(d->ctx);
    struct hm_op_slot *slot = take(d->type, HM_EV_KERNEL_CH, handle_p);
    if (!slot)
        return;
    slot->comm_slot = comm;
    slot->ev.u.kernel_ch = (struct hm_ev_kernel_ch){
        .gpu_start = d->gpu_ns, .comm = def_of(comm), .call = parent.call, .channel = d->channel};
    hm_op_put(slot, 0);
}

void hm_nccl_start(uint64_t *handle_p, const struct hm_nccl_desc *d)
{
    *handle_p = hm_handle_pack(HM_NT_VOID, 0);
    if (!*handle_p) { /* never initialised: a caller that is not NCCL */
        hm_handle_seed((uint64_t)hm_now());
        *handle_p = hm_handle_pack(HM_NT_VOID, 0);
    }
    if (!hm.view.pool || atomic_load_explicit(&hm.in_child, memory_order_relaxed))
        return;
    switch (d->type) {
    case HM_NT_GROUP:
        start_group(handle_p, d);
        break;
    case HM_NT_GROUP_API:
        start_group_api(handle_p, d);
        break;
    case HM_NT_COLL_API:
    case HM_NT_P2P_API:
        start_call(handle_p, d);
        break;
    case HM_NT_LAUNCH:
        start_launch(handle_p, d);
        break;
    case HM_NT_COLL:
    case HM_NT_P2P:
        start_op(handle_p, d);
        break;
    case HM_NT_PROXY_OP:
        start_proxy_op(handle_p, d);
        break;
    case HM_NT_PROXY_STEP:
        start_proxy_step(handle_p, d);
        break;
    case HM_NT_KERNEL_CH:
        start_kernel_ch(handle_p, d);
        break;
    default: /* not asked for */
        break;
    }
}

/* Holds the running operation of a handle. NULL = nothing to do; what is wrong is counted. */
static struct hm_op_slot *running(uint64_t handle, enum hm_nccl_type *type_p)
{
    uint64_t serial;
    if (!hm.view.pool || atomic_load_explicit(&hm.in_child, memory_order_relaxed))
        return NULL;
    switch (hm_handle_unpack(handle, type_p, &serial)) {
    case HM_HANDLE_NULL:
        hm_lose(HM_LOST_NCCL_STALE, 1);
        return NULL;
    case HM_HANDLE_FOREIGN:
        hm_lose(HM_LOST_NCCL_FOREIGN, 1);
        return NULL;
    case HM_HANDLE_OURS:
        break;
    }
    if (*type_p == HM_NT_VOID || *type_p == HM_NT_BOUND)
        return NULL;
    struct hm_op_slot *slot = *type_p == HM_NT_CTX ? NULL : hold(serial);
    if (slot &&
        (slot->SLOT_TYPE != (uint64_t)*type_p || !(slot->SLOT_FLAGS & OP_OPEN))) { /* twice */
        hm_op_put(slot, 0);
        slot = NULL;
    }
    if (!slot)
        hm_lose(HM_LOST_NCCL_STALE, 1);
    return slot;
}

static void mark_step(struct hm_event *ev, int state, uint64_t bytes)
{
    static const int8_t phase_of[] = {
        [HM_NCCL_STATE_SEND_GPU_WAIT] = 1,   [HM_NCCL_STATE_SEND_PEER_WAIT] = 2,
        [HM_NCCL_STATE_SEND_WAIT] = 3,       [HM_NCCL_STATE_RECV_WAIT] = 1,
        [HM_NCCL_STATE_RECV_FLUSH_WAIT] = 2, [HM_NCCL_STATE_RECV_GPU_WAIT] = 3};
    if (state < 0 || (size_t)state >= sizeof(phase_of) || !phase_of[state])
        return;
    ev->aux = state >= HM_NCCL_STATE_RECV_WAIT && state <= HM_NCCL_STATE_RECV_GPU_WAIT ? 0 : 1;
    ev->u.proxy_step.phase_ns[phase_of[state] - 1] = hm_now() - ev->t_ns;
    if (bytes)
        ev->u.proxy_step.bytes = bytes;
}

void hm_nccl_state(uint64_t handle, int state, uint64_t value)
{
    enum hm_nccl_type type;
    struct hm_op_slot *slot = running(handle, &type);
    if (!slot)
        return;
    struct hm_event *ev = &slot->ev;
    if (ev->kind) {
        /* a call without ncclGroupStart has neither end: two clock reads saved */
        int is_group =
            (type == HM_NT_GROUP_API || type == HM_NT_GRAPH_API) && ev->u.group.depth > 1;
        if (is_group && state == HM_NCCL_STATE_START_API_STOP)
            ev->u.group.start_api_ns = hm_now() - ev->t_ns;
        else if (is_group && state == HM_NCCL_STATE_END_API_START)
            ev->u.group.end_api_ns = hm_now() - ev->t_ns;
        else if (type == HM_NT_PROXY_STEP)
            mark_step(ev, state, value);
        else if (type == HM_NT_KERNEL_CH && state == HM_NCCL_STATE_KERNEL_CH_STOP)
            ev->u.kernel_ch.gpu_stop = value;
    }
    hm_op_put(slot, 0);
}

/* A step's bytes go to its operation as well, while that is under way. */
static void add_bytes(uint64_t parent, uint64_t bytes)
{
    enum hm_nccl_type type;
    uint64_t serial;
    if (!bytes || hm_handle_unpack(parent, &type, &serial) != HM_HANDLE_OURS ||
        type != HM_NT_PROXY_OP)
        return;
    struct hm_op_slot *slot = hold(serial);
    if (!slot)
        return;
    if (slot->SLOT_TYPE == HM_NT_PROXY_OP)
        slot->ev.u.proxy_op.bytes += bytes;
    hm_op_put(slot, 0);
}

void hm_nccl_stop(uint64_t handle)
{
    enum hm_nccl_type type;
    struct hm_op_slot *slot = running(handle, &type);
    if (!slot)
        return;
    struct hm_event done = slot->ev;
    uint32_t comm = slot->comm_slot;
    uint64_t parent = (uint64_t)slot->mark_ns[0];
    int pushed = slot->SLOT_FLAGS & OP_PUSHED;
    uint32_t launch = slot->launch;
    slot->SLOT_FLAGS = 0;
    slot->ev.kind = 0; /* over; who it was stays for its children */
    hm_op_put(slot, 0);
    if (pushed) {
        const struct hm_cupti_ops *cupti = atomic_load_explicit(&hm.cupti, memory_order_acquire);
        if (cupti && cupti->pop)
            cupti->pop(launch);
    }
    if (comm != HM_NO_ID && (type == HM_NT_COLL || type == HM_NT_P2P))
        progress(&hm.view.comm[comm].n_stopped);
    if (type == HM_NT_PROXY_STEP)
        add_bytes(parent, done.u.proxy_step.bytes);
    if (!done.kind)
        return;
    done.dur_ns = hm_now() - done.t_ns;
    commit(&done);
}
