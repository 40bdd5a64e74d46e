/* What the plugin is told, in the form of the interface it was loaded through.
 *
 * Box: tests/vgpu. Threads: as NCCL. Descriptors are written by byte offset from the published
 * layouts of interfaces v1 to v7, not through any plugin's header: a second opinion on the plugin
 * under test. A plugin older than the release gets what NCCL's translation leaves of an event.
 */
#include "nccl_inside.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { AT_TYPE = 0, AT_PARENT = 8, AT_RANK = 16, BYTES = 136 };

/* by interface; -1 = not there */
static const struct {
    int name, hash, seq, func, send, recv, count, root, dtype, channels, warps, algo, proto, group;
} coll_at[] = {{0},
               {24, 32, 40, 48, 56, 64, 72, 80, 84, 104, 105, 106, 107, -1},
               {24, 32, 40, 48, 56, 64, 72, 80, 88, 104, 105, 112, 120, -1},
               {24, 32, 40, 48, 56, 64, 72, 80, 88, 96, 97, 104, 112, -1},
               {-1, -1, 24, 32, 40, 48, 56, 64, 72, 80, 81, 88, 96, -1},
               {-1, -1, 24, 32, 40, 48, 56, 64, 72, 80, 81, 88, 96, 104},
               {-1, -1, 24, 32, 40, 48, 56, 64, 72, 80, 81, 88, 96, 104},
               {-1, -1, 24, 32, 40, 48, 56, 64, 72, 80, 81, 88, 96, 104}};
static const struct {
    int name, hash, func, buff, dtype, count, peer, channels, group;
} p2p_at[] = {{0},
              {24, 32, 40, 48, 56, 64, 72, -1, -1},
              {24, 32, 40, 48, 56, 64, 72, -1, -1},
              {24, 32, 40, 48, 56, 64, 72, -1, -1},
              {-1, -1, 24, 32, 40, 48, 56, 60, -1},
              {-1, -1, 24, 32, 40, 48, 56, 60, 64},
              {-1, -1, 24, 32, 40, 48, 56, 60, 64},
              {-1, -1, 24, 32, 40, 48, 56, 60, 64}};

struct descr {
    _Alignas(8) uint8_t at[BYTES];
};

static void put(struct descr *d, int at, const void *v, size_t n)
{
    if (at >= 0)
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
static void put_u8(struct descr *d, int at, unsigned v)
{
    uint8_t b = (uint8_t)v;
    put(d, at, &b, 1);
}

/* a translation is at work: the plugin is older than the release */
static int shim(void)
{
    return nccl_profiler_version() < nccl_profiler_native();
}

static struct descr descr_for(int type, void *parent, int rank)
{
    struct descr d;
    memset(&d, nccl_profiler_version() <= 4 && shim() ? 0xa5 : 0, sizeof d);
    if (nccl_profiler_version() <= 4)
        put_u8(&d, AT_TYPE, (unsigned)type); /* one byte; its padding stays as it was */
    else
        put_u64(&d, AT_TYPE, (uint64_t)type);
    put_ptr(&d, AT_PARENT, parent);
    put_int(&d, AT_RANK, rank);
    return d;
}

static void *start(ncclComm_t c, struct descr *d)
{
    return nccl_plugin_start(c->profiler, d->at);
}

static const char *type_name(ncclDataType_t t)
{
    static const char *const names[] = {"ncclInt8",     "Unknown",        "ncclInt32",
                                        "ncclUint32",   "ncclInt64",      "ncclUint64",
                                        "ncclFloat16",  "ncclFloat32",    "ncclFloat64",
                                        "ncclBfloat16", "ncclFloat8e4m3", "ncclFloat8e5m2"};
    return (unsigned)t < 12 ? names[t] : "Unknown";
}

/* ---- states ---- */

void nccl_ev_stop(void *event)
{
    if (event)
        nccl_plugin_stop(event);
}

void nccl_ev_state(void *event, int state, const uint64_t *value)
{
    int v = nccl_profiler_version(), native = nccl_profiler_native();
    uint64_t args[2] = {value ? *value : 0, 1};
    if (!event)
        return;
    if (state <= ST_RECV_DONE) { /* v1 to v3 at home only; v1, v2 lose them in 2.26 */
        if (native <= 3 && v == native)
            nccl_plugin_state(event, state, args);
        return;
    }
    int since = state < ST_PROXY_OP_IN_PROGRESS   ? 1
                : state < ST_GROUP_START_API_STOP ? 4
                : state <= ST_GROUP_END_API_START ? 5
                                                  : 7;
    if (v < since || native < since)
        return;
    int step = state >= ST_SEND_GPU_WAIT && state <= ST_RECV_GPU_WAIT;
    int group = state == ST_GROUP_START_API_STOP || state == ST_GROUP_END_API_START;
    void *given = value ? args : NULL;
    if (step && v < 4)
        given = NULL;
    if (v == 5 && native > 5 && (group || state == ST_PROXY_OP_IN_PROGRESS)) {
        args[0] = 0xdeadbeefdeadbeef; /* points to nothing that was ever set */
        given = args;
    }
    nccl_plugin_state(event, state, given);
}

/* ---- calls and launches: releases from 2.28 on ---- */

static int no_api(void)
{
    return nccl_profiler_version() < 5 || nccl_profiler_native() < 5;
}

void *nccl_ev_group_api(ncclComm_t c, int depth)
{
    if (no_api())
        return NULL;
    struct descr d = descr_for(EV_GROUP_API, NULL, 0);
    put_u8(&d, 24, 0);
    put_int(&d, 28, depth);
    return start(c, &d);
}

void *nccl_ev_api(const struct nccl_task *t, void *group_api)
{
    if (no_api())
        return NULL;
    int p2p = t->func >= FUNC_SEND;
    struct descr d = descr_for(p2p ? EV_P2P_API : EV_COLL_API, group_api, 0);
    put_ptr(&d, 24, nccl_func_name[t->func]);
    put_u64(&d, 32, t->count);
    put_ptr(&d, 40, type_name(t->dtype));
    if (!p2p)
        put_int(&d, 48, t->root);
    put_ptr(&d, p2p ? 48 : 56, t->stream);
    if (nccl_profiler_version() >= 7)
        put_u64(&d, p2p ? 64 : 72, t->call + 1000); /* a tag nobody gave; the test knows it */
    return start(t->comm, &d);
}

void *nccl_ev_launch(ncclComm_t c, void *group_api, cudaStream_t stream)
{
    if (no_api())
        return NULL;
    struct descr d = descr_for(EV_LAUNCH, group_api, 0);
    put_ptr(&d, 24, stream);
    return start(c, &d);
}

/* ---- operations ---- */

void *nccl_ev_group(ncclComm_t c)
{
    struct descr d = descr_for(EV_GROUP, NULL, 0);
    return start(c, &d);
}

/* v1 says by number what the others say by name */
static unsigned func_number(enum nccl_func f)
{
    static const uint8_t number[N_FUNCS] = {0, 1, 2, 3, 4, 6, 7};
    return number[f];
}

static void *coll_event(const struct nccl_task *t, void *group)
{
    int v = nccl_profiler_version();
    struct descr d = descr_for(EV_COLL, no_api() ? group : t->api_event, t->comm->rank);
    int in_bytes = t->func == FUNC_ALL_GATHER || t->func == FUNC_BROADCAST;
    ncclDataType_t type = in_bytes ? ncclInt8 : t->dtype;
    put_ptr(&d, coll_at[v].name, nccl_profiler_native() < 4 ? t->comm->comm_name : NULL);
    put_u64(&d, coll_at[v].hash, nccl_profiler_native() < 4 ? t->comm->hash : 0);
    put_u64(&d, coll_at[v].seq, t->seq);
    put_ptr(&d, coll_at[v].send, t->send);
    put_ptr(&d, coll_at[v].recv, t->recv);
    put_u64(&d, coll_at[v].count, in_bytes ? t->count * nccl_type_bytes(t->dtype) : t->count);
    put_int(&d, coll_at[v].root, t->root);
    put_u8(&d, coll_at[v].channels, t->n_channels);
    put_u8(&d, coll_at[v].warps, t->n_warps);
    if (v == 1) {
        put_u8(&d, coll_at[v].func, func_number(t->func));
        put_u8(&d, coll_at[v].dtype, (unsigned)type);
        put_u8(&d, coll_at[v].algo, 1); /* RING */
        put_u8(&d, coll_at[v].proto, !strcmp(t->proto, "LL") ? 0 : t->proto[2] == '1' ? 1 : 2);
    } else {
        put_ptr(&d, coll_at[v].func, nccl_func_name[t->func]);
        put_ptr(&d, coll_at[v].dtype, type_name(type));
        put_ptr(&d, coll_at[v].algo, t->algo);
        put_ptr(&d, coll_at[v].proto, t->proto);
    }
    put_ptr(&d, coll_at[v].group, group);
    if (v >= 7)
        put_u64(&d, 128, t->call + 1000);
    return start(t->comm, &d);
}

void *nccl_ev_task(const struct nccl_task *t, void *group)
{
    int v = nccl_profiler_version();
    if (t->func < FUNC_SEND)
        return coll_event(t, group);
    struct descr d = descr_for(EV_P2P, no_api() ? group : t->api_event, t->comm->rank);
    put_ptr(&d, p2p_at[v].name, nccl_profiler_native() < 4 ? t->comm->comm_name : NULL);
    put_u64(&d, p2p_at[v].hash, nccl_profiler_native() < 4 ? t->comm->hash : 0);
    put_ptr(&d, p2p_at[v].buff, t->func == FUNC_SEND ? t->send : t->recv);
    put_u64(&d, p2p_at[v].count, t->count);
    put_int(&d, p2p_at[v].peer, t->root);
    if (v == 1) {
        put_u8(&d, p2p_at[v].func, func_number(t->func));
        put_u8(&d, p2p_at[v].dtype, (unsigned)t->dtype);
    } else {
        put_ptr(&d, p2p_at[v].func, nccl_func_name[t->func]);
        put_ptr(&d, p2p_at[v].dtype, type_name(t->dtype));
    }
    if (v != 4 || !shim()) /* the translation leaves it as it was */
        put_u8(&d, p2p_at[v].channels, t->n_channels);
    put_ptr(&d, p2p_at[v].group, group);
    if (v >= 7)
        put_u64(&d, 72, t->call + 1000);
    return start(t->comm, &d);
}

void nccl_ev_ce(const struct nccl_task *t)
{
    if (nccl_profiler_native() < 6 || nccl_profiler_version() < 6)
        return;
    int mask = nccl_profiler_mask();
    struct descr d = descr_for(EV_CE_COLL, t->api_event, t->comm->rank);
    put_u64(&d, 24, t->call); /* the copy engines' own number */
    put_ptr(&d, 32, nccl_func_name[t->func]);
    put_ptr(&d, 40, t->send);
    put_ptr(&d, 48, t->recv);
    put_u64(&d, 56, t->count);
    put_int(&d, 64, t->root);
    put_ptr(&d, 72, type_name(t->dtype));
    put_ptr(&d, 80, "MC");
    put_ptr(&d, 104, t->stream);
    void *ce = mask & EV_CE_COLL ? start(t->comm, &d) : NULL;
    for (int part = 0; part < 3; part++) { /* synchronise, copy, synchronise */
        int type = part == 1 ? EV_CE_BATCH : EV_CE_SYNC;
        d = descr_for(type, ce, t->comm->rank);
        put_int(&d, type == EV_CE_SYNC ? 28 : 24, t->comm->n_ranks);
        put_u8(&d, type == EV_CE_SYNC ? 24 : 40, part == 2);
        if (type == EV_CE_BATCH)
            put_u64(&d, 32, t->bytes);
        if (mask & type)
            nccl_ev_stop(start(t->comm, &d));
    }
    nccl_ev_stop(ce);
}

/* ---- the proxy's ---- */

void *nccl_ev_proxy_op(const struct nccl_task *t, uint8_t channel, int peer, int n_steps,
                       int chunk_bytes, int is_send)
{
    struct descr d = descr_for(EV_PROXY_OP, t->event, t->comm->rank);
    put_int(&d, 24, t->comm->room->seat[t->comm->rank].pid);
    put_u8(&d, 28, channel);
    put_int(&d, 32, peer);
    put_int(&d, 36, n_steps);
    put_int(&d, 40, chunk_bytes);
    put_int(&d, 44, is_send);
    return start(t->comm, &d);
}

void *nccl_ev_proxy_step(ncclComm_t c, void *proxy_op, int step)
{
    if (!proxy_op && nccl_release() < 22800)
        return NULL;
    struct descr d = descr_for(EV_PROXY_STEP, proxy_op, c->rank);
    put_int(&d, 24, step);
    return start(c, &d);
}

void *nccl_ev_proxy_ctrl(ncclComm_t c)
{
    struct descr d = descr_for(EV_PROXY_CTRL, NULL, 0);
    return start(c, &d);
}

void *nccl_ev_net(ncclComm_t c, void *step)
{
    if (nccl_profiler_version() < 3 || nccl_profiler_native() < 3)
        return NULL;
    struct descr d = descr_for(EV_NET, step, c->rank);
    put_u64(&d, 24, 1 << 16 | 1);
    return start(c, &d);
}

void *nccl_ev_kernel_ch(const struct nccl_task *t, uint8_t channel, uint64_t ptimer)
{
    if (nccl_profiler_version() < 3 || nccl_profiler_native() < 3)
        return NULL;
    struct descr d = descr_for(EV_KERNEL_CH, t->event, 0);
    put_u8(&d, 24, channel);
    if (nccl_profiler_version() >= 4)
        put_u64(&d, 32, ptimer);
    return start(t->comm, &d);
}

void *nccl_ev_phase(ncclComm_t c, void *kernel_ch, uint8_t channel, uint8_t phase, uint64_t ptimer)
{
    static const char *const names[] = {"initial sync", "compute", "final sync"};
    if (nccl_profiler_version() < 7 || nccl_profiler_native() < 7)
        return NULL;
    struct descr d = descr_for(EV_PHASE, kernel_ch, 0);
    put_u8(&d, 24, channel);
    put_u8(&d, 25, phase);
    put_ptr(&d, 32, names[phase]);
    put_u64(&d, 40, ptimer);
    return start(c, &d);
}

/* ---- what should not be ---- */

void nccl_ev_pxn(ncclComm_t c)
{
    static uint8_t *page;
    if (!page)
        page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct descr d = descr_for(EV_PROXY_OP, page + 64, c->rank);
    put_int(&d, 24, (int)getpid() + 1);
    put_int(&d, 36, 1);
    put_int(&d, 44, 1);
    void *op = nccl_plugin_start(page, d.at);
    d = descr_for(EV_PROXY_STEP, op, c->rank);
    put_int(&d, 24, 0);
    nccl_ev_stop(nccl_plugin_start(page, d.at)); /* no process id: the context alone tells */
    nccl_ev_stop(op);
    nccl_plugin_stop(page + 128);
}

void nccl_ev_late(ncclComm_t c)
{
    struct descr d = descr_for(EV_PROXY_CTRL, NULL, 0);
    nccl_ev_stop(nccl_plugin_start(c->profiler, d.at));
    d = descr_for(EV_PROXY_OP, NULL, c->rank);
    put_int(&d, 24, (int)getpid());
    nccl_ev_stop(nccl_plugin_start(c->profiler, d.at));
}
