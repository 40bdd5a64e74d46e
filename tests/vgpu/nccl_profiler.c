/* Loads the profiler plugin as NCCL 2.27 and 2.28 do and tells it what happens.
 *
 * Box: tests/vgpu. Threads: as NCCL: init threads, application threads, the progress thread.
 * Descriptors are written by byte offset from the published layouts of interfaces v4 and v5, not
 * through any plugin's header: a second opinion on the plugin under test.
 * VGPU_NCCL_INTERFACE=4: a 2.27 that knows v4 (events Group, Coll, P2p, parent = Group).
 * 5 (usual): a 2.28 that takes v5, else v4 through a shim: no API events, parent = Group, and the
 * shim's descriptor is not cleared first (junk where v4 has no field or the shim writes none).
 */
#include "nccl_inside.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* v4 and v5 agree on these offsets; v5 adds the last ones. */
enum {
    AT_TYPE = 0,
    AT_PARENT = 8,
    AT_RANK = 16,
    COLL_SEQ = 24,
    COLL_FUNC = 32,
    COLL_SEND = 40,
    COLL_RECV = 48,
    COLL_COUNT = 56,
    COLL_ROOT = 64,
    COLL_DTYPE = 72,
    COLL_CHANNELS = 80,
    COLL_WARPS = 81,
    COLL_ALGO = 88,
    COLL_PROTO = 96,
    COLL_GROUP_V5 = 104,
    P2P_FUNC = 24,
    P2P_BUFF = 32,
    P2P_DTYPE = 40,
    P2P_COUNT = 48,
    P2P_PEER = 56,
    P2P_CHANNELS = 60,
    P2P_GROUP_V5 = 64,
    PROXY_PID = 24,
    PROXY_CHANNEL = 28,
    PROXY_PEER = 32,
    PROXY_STEPS = 36,
    PROXY_CHUNK = 40,
    PROXY_IS_SEND = 44,
    STEP_STEP = 24,
    KERNEL_CHANNEL = 24,
    KERNEL_PTIMER = 32,
    GROUP_CAPTURED = 24,
    GROUP_DEPTH = 28,
    API_FUNC = 24,
    API_COUNT = 32,
    API_DTYPE = 40,
    COLL_API_ROOT = 48,
    COLL_API_STREAM = 56,
    P2P_API_STREAM = 48,
    LAUNCH_STREAM = 24,
    BYTES_V4 = 104,
    BYTES_V5 = 112,
    OPS_NAME = 0,
    OPS_INIT = 8,
    OPS_START = 16,
    OPS_STOP = 24,
    OPS_STATE = 32,
    OPS_FINALIZE = 40
};

typedef void (*log_func_t)(int level, unsigned long subsys, const char *file, int line,
                           const char *fmt, ...);
typedef int (*init_v4_t)(void **ctx, int *mask, const char *name, uint64_t hash, int n_nodes,
                         int n_ranks, int rank, log_func_t log);
typedef int (*init_v5_t)(void **ctx, uint64_t id, int *mask, const char *name, int n_nodes,
                         int n_ranks, int rank, log_func_t log);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *library;
static const uint8_t *ops;
static int version, n_users, gave_up;
static int event_mask; /* one for the process; the plugin holds a pointer to it */

static void *member(int at)
{
    void *p;
    memcpy(&p, ops + at, sizeof p);
    return p;
}

int nccl_profiler_interface(void)
{
    const char *s = getenv("VGPU_NCCL_INTERFACE");
    return s && atoi(s) == 4 ? 4 : 5;
}

/* ---- loading ---- */

static void *open_named(const char *name)
{
    void *lib = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!lib)
        nccl_log(3, "PROFILER/Plugin: %s", dlerror());
    return lib;
}

static void *open_library(void)
{
    const char *s = getenv("NCCL_PROFILER_PLUGIN");
    char name[256 + 32];
    if (!s || !*s)
        return open_named("libnccl-profiler.so");
    if (!strcasecmp(s, "none") && nccl_profiler_interface() >= 5)
        return NULL;
    if (!strncmp(s, "STATIC_PLUGIN", 13))
        return dlopen(NULL, RTLD_NOW | RTLD_LOCAL);
    void *lib = open_named(s);
    if (lib)
        return lib;
    snprintf(name, sizeof name, "libnccl-profiler-%.200s.so", s);
    return open_named(name);
}

static void load(void)
{
    library = open_library();
    for (int v = nccl_profiler_interface(); library && v >= 4 && !ops; v--) {
        char symbol[32];
        snprintf(symbol, sizeof symbol, "ncclProfiler_v%d", v);
        ops = dlsym(library, symbol);
        version = v;
    }
    if (ops) {
        nccl_log(3, "PROFILER/Plugin: loaded %s (v%d)", (const char *)member(OPS_NAME), version);
        return;
    }
    if (library)
        dlclose(library);
    library = NULL;
    gave_up = 1; /* for the rest of the process */
}

static void plugin_log(int level, unsigned long subsys, const char *file, int line, const char *fmt,
                       ...) __attribute__((format(printf, 5, 6)));
static void plugin_log(int level, unsigned long subsys, const char *file, int line, const char *fmt,
                       ...)
{
    char text[400];
    va_list ap;
    (void)subsys;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    nccl_log(level, "%s:%d %s", file, line, text);
}

/* Called by the init thread, outside any lock. */
static int call_init(ncclComm_t c)
{
    void *f = member(OPS_INIT);
    if (version == 4)
        return ((init_v4_t)(uintptr_t)f)(&c->profiler, &event_mask, c->comm_name, c->hash,
                                         c->n_nodes, c->n_ranks, c->rank, plugin_log);
    return ((init_v5_t)(uintptr_t)f)(&c->profiler, c->hash, &event_mask, c->comm_name, c->n_nodes,
                                     c->n_ranks, c->rank, plugin_log);
}

void nccl_profiler_init(ncclComm_t c)
{
    pthread_mutex_lock(&lock);
    if (!ops && !gave_up)
        load();
    int have = ops != NULL;
    n_users += have;
    pthread_mutex_unlock(&lock);
    if (!have)
        return;
    c->profiled = 1;
    if (call_init(c)) { /* as 2.28: goes on, events keep coming with a NULL context */
        nccl_log(3, "PROFILER/Plugin: init failed, continue without profiler");
        c->profiler = NULL;
    }
}

void nccl_profiler_finalize(ncclComm_t c)
{
    if (!c->profiled)
        return;
    if (c->profiler)
        ((int (*)(void *))(uintptr_t)member(OPS_FINALIZE))(c->profiler);
    c->profiled = 0;
    pthread_mutex_lock(&lock);
    if (--n_users == 0) {
        dlclose(library);
        library = NULL;
        ops = NULL;
        event_mask = 0;
    }
    pthread_mutex_unlock(&lock);
}

int nccl_profiler_mask(void)
{
    int mask = __atomic_load_n(&event_mask, __ATOMIC_RELAXED);
    return __atomic_load_n(&ops, __ATOMIC_ACQUIRE) ? mask : 0;
}

/* ---- descriptors ---- */

struct descr {
    _Alignas(8) uint8_t at[BYTES_V5];
};

static void put(struct descr *d, int at, const void *v, size_t n)
{
    memcpy(d->at + at, v, n);
}
static void put_ptr(struct descr *d, int at, const void *v)
{
    put(d, at, &v, sizeof v);
}
static void put_int(struct descr *d, int at, int v)
{
    put(d, at, &v, sizeof v);
}
static void put_u64(struct descr *d, int at, uint64_t v)
{
    put(d, at, &v, sizeof v);
}

static struct descr descr_for(int type, void *parent, int rank)
{
    struct descr d;
    int shim = version == 4 && nccl_profiler_interface() >= 5;
    memset(&d, shim ? 0xa5 : 0, sizeof d);
    if (version == 4)
        d.at[AT_TYPE] = (uint8_t)type; /* one byte; its padding stays as it was */
    else
        put_u64(&d, AT_TYPE, (uint64_t)type);
    put_ptr(&d, AT_PARENT, parent);
    put_int(&d, AT_RANK, rank);
    return d;
}

static void *start(ncclComm_t c, struct descr *d)
{
    void *handle = NULL;
    ((int (*)(void *, void **, void *))(uintptr_t)member(OPS_START))(c->profiler, &handle, d->at);
    return handle;
}

static const char *type_name(ncclDataType_t t)
{
    static const char *const names[] = {"ncclInt8",     "Unknown",        "ncclInt32",
                                        "ncclUint32",   "ncclInt64",      "ncclUint64",
                                        "ncclFloat16",  "ncclFloat32",    "ncclFloat64",
                                        "ncclBfloat16", "ncclFloat8e4m3", "ncclFloat8e5m2"};
    return (unsigned)t < 12 ? names[t] : "Unknown";
}

void nccl_ev_stop(void *event)
{
    if (event)
        ((int (*)(void *))(uintptr_t)member(OPS_STOP))(event);
}

void nccl_ev_state(void *event, int state, const uint64_t *value)
{
    uint64_t args = value ? *value : 0;
    if (event)
        ((int (*)(void *, int, void *))(uintptr_t)member(OPS_STATE))(event, state,
                                                                     value ? &args : NULL);
}

void *nccl_ev_group_api(ncclComm_t c, int depth)
{
    if (version < 5)
        return NULL;
    struct descr d = descr_for(EV_GROUP_API, NULL, 0);
    d.at[GROUP_CAPTURED] = 0;
    put_int(&d, GROUP_DEPTH, depth);
    return start(c, &d);
}

void *nccl_ev_api(const struct nccl_task *t, void *group_api)
{
    if (version < 5)
        return NULL;
    int p2p = t->func >= FUNC_SEND;
    struct descr d = descr_for(p2p ? EV_P2P_API : EV_COLL_API, group_api, 0);
    put_ptr(&d, API_FUNC, nccl_func_name[t->func]);
    put_u64(&d, API_COUNT, t->count);
    put_ptr(&d, API_DTYPE, type_name(t->dtype));
    if (!p2p)
        put_int(&d, COLL_API_ROOT, t->root);
    put_ptr(&d, p2p ? P2P_API_STREAM : COLL_API_STREAM, t->stream);
    return start(t->comm, &d);
}

void *nccl_ev_launch(ncclComm_t c, void *group_api, cudaStream_t stream)
{
    if (version < 5)
        return NULL;
    struct descr d = descr_for(EV_LAUNCH, group_api, 0);
    put_ptr(&d, LAUNCH_STREAM, stream);
    return start(c, &d);
}

void *nccl_ev_group(ncclComm_t c)
{
    struct descr d = descr_for(EV_GROUP, NULL, 0);
    return start(c, &d);
}

static void *coll_event(const struct nccl_task *t, void *group)
{
    struct descr d = descr_for(EV_COLL, version < 5 ? group : t->api_event, t->comm->rank);
    int in_bytes = t->func == FUNC_ALL_GATHER || t->func == FUNC_BROADCAST;
    put_u64(&d, COLL_SEQ, t->seq);
    put_ptr(&d, COLL_FUNC, nccl_func_name[t->func]);
    put_ptr(&d, COLL_SEND, t->send);
    put_ptr(&d, COLL_RECV, t->recv);
    put_u64(&d, COLL_COUNT, in_bytes ? t->count * nccl_type_bytes(t->dtype) : t->count);
    put_int(&d, COLL_ROOT, t->root);
    put_ptr(&d, COLL_DTYPE, in_bytes ? "ncclInt8" : type_name(t->dtype));
    d.at[COLL_CHANNELS] = t->n_channels;
    d.at[COLL_WARPS] = t->n_warps;
    put_ptr(&d, COLL_ALGO, t->algo);
    put_ptr(&d, COLL_PROTO, t->proto);
    if (version >= 5)
        put_ptr(&d, COLL_GROUP_V5, group);
    return start(t->comm, &d);
}

void *nccl_ev_task(const struct nccl_task *t, void *group)
{
    if (t->func < FUNC_SEND)
        return coll_event(t, group);
    struct descr d = descr_for(EV_P2P, version < 5 ? group : t->api_event, t->comm->rank);
    put_ptr(&d, P2P_FUNC, nccl_func_name[t->func]);
    put_ptr(&d, P2P_BUFF, t->func == FUNC_SEND ? t->send : t->recv);
    put_ptr(&d, P2P_DTYPE, type_name(t->dtype));
    put_u64(&d, P2P_COUNT, t->count);
    put_int(&d, P2P_PEER, t->root);
    if (version >= 5 || nccl_profiler_interface() == 4) /* the shim leaves it as it was */
        d.at[P2P_CHANNELS] = t->n_channels;
    if (version >= 5)
        put_ptr(&d, P2P_GROUP_V5, group);
    return start(t->comm, &d);
}

void *nccl_ev_proxy_op(const struct nccl_task *t, uint8_t channel, int peer, int n_steps,
                       int chunk_bytes, int is_send)
{
    struct descr d = descr_for(EV_PROXY_OP, t->event, t->comm->rank);
    put_int(&d, PROXY_PID, t->comm->room->seat[t->comm->rank].pid);
    d.at[PROXY_CHANNEL] = channel;
    put_int(&d, PROXY_PEER, peer);
    put_int(&d, PROXY_STEPS, n_steps);
    put_int(&d, PROXY_CHUNK, chunk_bytes);
    put_int(&d, PROXY_IS_SEND, is_send);
    return start(t->comm, &d);
}

void *nccl_ev_proxy_step(ncclComm_t c, void *proxy_op, int step)
{
    struct descr d = descr_for(EV_PROXY_STEP, proxy_op, c->rank);
    put_int(&d, STEP_STEP, step);
    return start(c, &d);
}

void *nccl_ev_proxy_ctrl(ncclComm_t c)
{
    struct descr d = descr_for(EV_PROXY_CTRL, NULL, 0);
    return start(c, &d);
}

void *nccl_ev_kernel_ch(const struct nccl_task *t, uint8_t channel, uint64_t ptimer)
{
    struct descr d = descr_for(EV_KERNEL_CH, t->event, 0);
    d.at[KERNEL_CHANNEL] = channel;
    put_u64(&d, KERNEL_PTIMER, ptimer);
    return start(t->comm, &d);
}
