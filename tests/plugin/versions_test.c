/* Every interface version driven by byte offsets: what each of them can tell arrives, and no more.
 *
 * Box: tests. The offsets in the tables below are those measured on NCCL's own headers, not taken
 * from the plugin's description of them; -1 = the version has no such member. Members that follow
 * a one-byte type are filled with junk first, as NCCL's translations leave them.
 */
#include "recorder_double.h"
#include "teller.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <unistd.h>

#define POOL (8 << 20)
typedef int (*init_old_t)(void **, int *);

extern struct profiler ncclProfiler_v1, ncclProfiler_v2, ncclProfiler_v3, ncclProfiler_v6,
    ncclProfiler_v7;

struct version {
    int n, args_bytes, mask;
    int name, hash, seq, func, count, root, dtype, channels, algo, proto, group, tag; /* coll */
    int p_name, p_hash, p_func, p_dtype, p_count, p_peer, p_channels, p_group, p_tag;
};
enum { OLD_MASK = 1 | 2 | 4 | 8, NEW_MASK = 256 | 512 | 1024 | 2048 | 2 | 4 | 8, CE = 0x7000 };
static struct version versions[] = {
    {1,   16, OLD_MASK, 24, 32, 40, 48, 72, 80, 84, 104, 106,
     107, -1, -1,       24, 32, 40, 56, 64, 72, -1, -1,  -1},
    {2,   16, OLD_MASK, 24, 32, 40, 48, 72, 80, 88, 104, 112,
     120, -1, -1,       24, 32, 40, 56, 64, 72, -1, -1,  -1},
    {3,   16, OLD_MASK, 24, 32, 40, 48, 72, 80, 88, 96, 104,
     112, -1, -1,       24, 32, 40, 56, 64, 72, -1, -1, -1},
    {4,  8,  OLD_MASK, -1, -1, 24, 32, 56, 64, 72, 80, 88,
     96, -1, -1,       -1, -1, 24, 40, 48, 56, 60, -1, -1},
    {5,  8,   NEW_MASK, -1, -1, 24, 32, 56, 64, 72, 80, 88,
     96, 104, -1,       -1, -1, 24, 40, 48, 56, 60, 64, -1},
    {6,  8,  NEW_MASK | CE, -1, -1, 24, 32, 56, 64, 72, 80,
     88, 96, 104,           -1, -1, -1, 24, 40, 48, 56, 60,
     64, -1},
    {7,  8,   NEW_MASK | CE, -1, -1, 24, 32, 56, 64, 72, 80, 88,
     96, 104, 128,           -1, -1, 24, 40, 48, 56, 60, 64, 72},
};

static const struct profiler *ops_of(int v)
{
    const struct profiler *const all[] = {NULL,
                                          &ncclProfiler_v1,
                                          &ncclProfiler_v2,
                                          &ncclProfiler_v3,
                                          &ncclProfiler_v4,
                                          &ncclProfiler_v5,
                                          &ncclProfiler_v6,
                                          &ncclProfiler_v7};
    return all[v];
}

static void *make_comm(int v, uint64_t hash, int *mask_p)
{
    void *ctx = NULL;
    void *f = ops_of(v)->init;
    int rc = v < 4    ? ((init_old_t)f)(&ctx, mask_p)
             : v == 4 ? ((init_4_t)f)(&ctx, mask_p, "dp", hash, 1, 4, 3, NULL)
                      : ((init_5_t)f)(&ctx, hash, mask_p, "dp", 1, 4, 3, NULL);
    cr_assert_eq(rc, 0);
    return ctx;
}

static struct descr blank(int v, unsigned type, void *parent)
{
    struct descr d = descr_of(v < 5 ? 4 : 5, type, parent, 3);
    return d;
}

static void *go(int v, void *ctx, struct descr *d)
{
    void *handle = (void *)0x5a5a;
    cr_assert_eq(ops_of(v)->start(ctx, &handle, d), 0);
    cr_assert((uint64_t)(uintptr_t)handle >> 63, "v%d gives a handle", v);
    return handle;
}

static void text(struct descr *d, int at, const char *value)
{
    if (at >= 0)
        PUT(d, (unsigned)at, const char *, value);
}

static void *tell_coll(const struct version *v, void *ctx, void *parent, uint64_t hash)
{
    struct descr d = blank(v->n, 2, parent);
    text(&d, v->name, "dp");
    if (v->hash >= 0)
        PUT(&d, (unsigned)v->hash, uint64_t, hash);
    PUT(&d, (unsigned)v->seq, uint64_t, 41);
    PUT(&d, (unsigned)v->count, size_t, 4321);
    PUT(&d, (unsigned)v->root, int, 2);
    if (v->n == 1) { /* numbers: Reduce, ncclFloat16, NVLS_TREE, LL128 */
        d.b[v->func] = 1;
        d.b[v->dtype] = 6;
        d.b[v->algo] = 5;
        d.b[v->proto] = 1;
    } else {
        text(&d, v->func, "Reduce");
        text(&d, v->dtype, "ncclFloat16");
        text(&d, v->algo, "NVLS_TREE");
        text(&d, v->proto, "LL128");
    }
    d.b[v->channels] = 24;
    d.b[v->channels + 1] = 20;
    if (v->group >= 0)
        PUT(&d, (unsigned)v->group, void *, NULL);
    if (v->tag >= 0)
        PUT(&d, (unsigned)v->tag, uint64_t, 0xabcdef0123);
    return go(v->n, ctx, &d);
}

static void *tell_p2p(const struct version *v, void *ctx, void *parent, uint64_t hash)
{
    struct descr d = blank(v->n, 4, parent);
    text(&d, v->p_name, "dp");
    if (v->p_hash >= 0)
        PUT(&d, (unsigned)v->p_hash, uint64_t, hash);
    if (v->n == 1) { /* Recv, ncclInt64 */
        d.b[v->p_func] = 7;
        d.b[v->p_dtype] = 4;
    } else {
        text(&d, v->p_func, "Recv");
        text(&d, v->p_dtype, "ncclInt64");
    }
    PUT(&d, (unsigned)v->p_count, size_t, 99);
    PUT(&d, (unsigned)v->p_peer, int, 1);
    if (v->p_channels >= 0)
        d.b[v->p_channels] = 8;
    if (v->p_group >= 0)
        PUT(&d, (unsigned)v->p_group, void *, NULL);
    if (v->p_tag >= 0)
        PUT(&d, (unsigned)v->p_tag, uint64_t, 77);
    return go(v->n, ctx, &d);
}

ParameterizedTestParameters(versions, operations)
{
    return cr_make_param_array(struct version, versions, 7);
}
ParameterizedTest(struct version *v, versions, operations)
{
    const uint64_t hash = 0xfedcba9876543210;
    double_start(POOL);
    unsetenv("RANK");
    int mask = -1;
    void *ctx = make_comm(v->n, hash, &mask);
    cr_assert_eq(mask, v->mask, "v%d: mask %#x", v->n, (unsigned)mask);
    cr_assert_str_eq(ops_of(v->n)->name, "hindmost");
    void *parent = NULL;
    if (v->n < 5) {
        struct descr d = blank(v->n, 1, NULL);
        parent = go(v->n, ctx, &d);
    }
    ops_of(v->n)->stop(tell_coll(v, ctx, parent, hash));
    ops_of(v->n)->stop(tell_p2p(v, ctx, parent, hash));
    const struct hm_event *c = double_nth(HM_EV_NCCL_COLL, 0), *p = double_nth(HM_EV_NCCL_P2P, 0);
    cr_assert(c && p);
    cr_assert_eq(c->aux, HM_NCCL_AUX(HM_NCCL_REDUCE, 7));
    cr_assert_eq(c->u.op.count, 4321);
    cr_assert_eq(c->u.op.nccl_seq, 41);
    cr_assert_eq(c->u.op.peer, 2);
    cr_assert_eq(c->u.op.algo, HM_NCCL_ALGO_NVLS_TREE);
    cr_assert_eq(c->u.op.proto, HM_NCCL_PROTO_LL128);
    cr_assert_eq(c->u.op.n_channels, 24);
    cr_assert_eq(c->u.op.n_warps, 20);
    cr_assert_eq(c->u.op.user_tag, v->tag < 0 ? 0 : 0xabcdef0123);
    cr_assert_eq(p->aux, HM_NCCL_AUX(HM_NCCL_RECV, 5));
    cr_assert_eq(p->u.op.count, 99);
    cr_assert_eq(p->u.op.peer, 1);
    cr_assert_eq(p->u.op.n_channels, v->p_channels < 0 ? 0 : 8);
    cr_assert_eq(p->u.op.user_tag, v->p_tag < 0 ? 0 : 77);
    cr_assert_eq(c->u.op.comm, 0);
    cr_assert_eq(p->u.op.comm, 0);
    const struct hm_def_comm *def = double_def(HM_DEF_COMM, 0);
    cr_assert(def, "v%d: the communicator is known", v->n);
    cr_assert_eq(def->hash, hash);
    cr_assert_eq(def->crank, 3);
    cr_assert_eq(def->n_ranks, v->n < 4 ? 0 : 4);
    cr_assert_eq(def->interface, (uint32_t)v->n);
    cr_assert_str_eq(double_text(def->name), "dp");
    cr_assert_null(double_def(HM_DEF_COMM, 1));
    ops_of(v->n)->finalize(ctx);
}

ParameterizedTestParameters(versions, proxies)
{
    return cr_make_param_array(struct version, versions, 7);
}
ParameterizedTest(struct version *v, versions, proxies)
{
    double_start(POOL);
    hm.config.proxy_steps = 1;
    const struct profiler *ops = ops_of(v->n);
    int mask = 0;
    void *ctx = make_comm(v->n, 5, &mask);
    cr_assert_eq(mask & (16 | 32), 16 | 32);
    cr_assert_eq(mask & 128, v->n >= 3 ? 128 : 0);
    void *c = tell_coll(v, ctx, NULL, 5);
    struct descr d = blank(v->n, 8, c);
    PUT(&d, 24, int, getpid());
    d.b[28] = 9;
    PUT(&d, 32, int, 1);
    PUT(&d, 36, int, 4);
    PUT(&d, 40, int, 1 << 17);
    PUT(&d, 44, int, 1);
    void *op = go(v->n, ctx, &d);
    d = blank(v->n, 16, op);
    PUT(&d, 24, int, 3);
    void *step = go(v->n, ctx, &d);
    size_t sent = 1000;
    ops->state(step, 8, NULL);
    ops->state(step, 9, v->n < 4 ? NULL : &sent);
    ops->stop(step);
    struct {
        size_t bytes;
        int steps;
    } old = {2000, 4};
    ops->state(op, 2, v->n < 4 ? (void *)&old : NULL); /* Transmitted, up to 2.26 */
    d = blank(v->n, 32, NULL);
    void *ctrl = go(v->n, ctx, &d);
    int appended = 5;
    ops->state(ctrl, 17, NULL);
    ops->state(ctrl, 18, &appended);
    ops->stop(ctrl);
    if (v->n >= 3) {
        d = blank(v->n, 128, step);
        PUT(&d, 24, int64_t, (1 << 16) | 1);
        ops->stop(go(v->n, ctx, &d));
    }
    ops->stop(op);
    ops->stop(c);
    const struct hm_event *o = double_nth(HM_EV_PROXY_OP, 0), *s = double_nth(HM_EV_PROXY_STEP, 0),
                          *k = double_nth(HM_EV_PROXY_CTRL, 0), *n = double_nth(HM_EV_NET, 0);
    cr_assert(o && s && k);
    cr_assert_eq(o->u.proxy_op.channel, 9);
    cr_assert_eq(o->u.proxy_op.peer, 1);
    cr_assert_eq(o->u.proxy_op.n_steps, 4);
    cr_assert_eq(o->u.proxy_op.chunk_bytes, 1 << 17);
    cr_assert_eq(o->u.proxy_op.is_send, 1);
    cr_assert_eq(o->u.proxy_op.bytes, v->n < 4 ? 2000 : 1000);
    cr_assert_eq(o->u.proxy_op.call, 0 - (v->n >= 5), "v5 on: the call is the parent's, here none");
    cr_assert_eq(s->u.proxy_step.step, 3);
    cr_assert_eq(s->u.proxy_step.proxy, o->u.proxy_op.proxy);
    cr_assert_eq(s->aux, 1);
    cr_assert_eq(k->aux, 17);
    cr_assert_eq(k->u.proxy_ctrl.appended, 5);
    cr_assert_eq(k->u.proxy_ctrl.comm, 0);
    cr_assert_eq(n != NULL, v->n >= 3);
    if (n) {
        cr_assert_eq(n->u.net.id, 65537);
        cr_assert_eq(n->u.net.proxy, o->u.proxy_op.proxy);
    }
    cr_assert_eq(double_lost(HM_LOST_NCCL_STALE), 0);
    cr_assert_eq(double_lost(HM_LOST_NCCL_FOREIGN), 0);
}

/* A newer NCCL's translation for plugins of v1 to v3 has no name and no hash: nothing is invented.
 */
Test(versions, no_hash_no_communicator)
{
    double_start(POOL);
    int mask;
    void *ctx = make_comm(2, 0, &mask);
    ops_of(2)->stop(tell_coll(&versions[1], ctx, NULL, 0));
    cr_assert_eq(double_nth(HM_EV_NCCL_COLL, 0)->u.op.comm, HM_NO_ID);
    cr_assert_null(double_def(HM_DEF_COMM, 0));
}

/* Kernel stamps: not from 2.26 and 2.27, where they can break; phases only by their own word. */
Test(versions, masks_of_kernel_stamps)
{
    double_start(POOL);
    int mask;
    hm.config.kernel_ch = 1;
    for (int v = 1; v <= 7; v++) {
        make_comm(v, 1, &mask);
        cr_assert_eq(mask & 64, v >= 5 ? 64 : 0, "v%d", v);
        cr_assert_eq(mask & 32768, 0, "v%d", v);
    }
    hm.config.kernel_ch = 0;
    hm.config.kernel_phases = 1;
    make_comm(6, 1, &mask);
    cr_assert_eq(mask & (64 | 32768), 0);
    make_comm(7, 1, &mask);
    cr_assert_eq(mask & (64 | 32768), 64 | 32768);
}

Test(versions, copy_engine_collective_and_user_tag)
{
    double_start(POOL);
    int mask;
    void *ctx = make_comm(7, 1, &mask);
    const struct profiler *ops = ops_of(7);
    struct descr d = blank(7, 256, NULL);
    PUT(&d, 28, int, 1);
    void *g = go(7, ctx, &d);
    d = blank(7, 512, g);
    text(&d, 24, "AllGather");
    PUT(&d, 32, size_t, 10);
    text(&d, 40, "ncclFloat32");
    PUT(&d, 72, uint64_t, 4711);
    void *api = go(7, ctx, &d);
    ops->stop(api);
    d = blank(7, 4096, api);
    PUT(&d, 24, uint64_t, 3);
    text(&d, 32, "AllGather");
    PUT(&d, 56, size_t, 40);
    text(&d, 72, "ncclInt8");
    PUT(&d, 112, uint64_t, 4711);
    void *ce = go(7, ctx, &d);
    d = blank(7, 8192, ce);
    d.b[24] = 1;
    PUT(&d, 28, int, 4);
    ops->stop(go(7, ctx, &d));
    d = blank(7, 16384, ce);
    PUT(&d, 24, int, 3);
    PUT(&d, 32, size_t, 120);
    ops->stop(go(7, ctx, &d));
    ops->stop(ce);
    ops->stop(g);
    const struct hm_event *e = double_nth(HM_EV_NCCL_CE, 0), *a = double_nth(HM_EV_NCCL_CE_PART, 0),
                          *b = double_nth(HM_EV_NCCL_CE_PART, 1);
    cr_assert(e && a && b);
    cr_assert_eq(double_nth(HM_EV_NCCL_CALL, 0)->u.op.user_tag, 4711);
    cr_assert_eq(e->u.op.call, 0);
    cr_assert_eq(e->u.op.nccl_seq, 3);
    cr_assert_eq(e->u.op.count, 10, "as the caller gave it");
    cr_assert_eq(e->aux, HM_NCCL_AUX(HM_NCCL_ALLGATHER, 8));
    cr_assert_eq(e->u.op.user_tag, 4711);
    cr_assert_eq(a->aux, HM_CE_SYNC);
    cr_assert_eq(a->u.ce.complete, 1);
    cr_assert_eq(a->u.ce.n, 4);
    cr_assert_eq(a->u.ce.call, 0);
    cr_assert_eq(b->aux, HM_CE_BATCH);
    cr_assert_eq(b->u.ce.n, 3);
    cr_assert_eq(b->u.ce.bytes, 120);
}

Test(versions, phases_of_a_kernel)
{
    double_start(POOL);
    hm.config.kernel_phases = 1;
    int mask;
    void *ctx = make_comm(7, 1, &mask);
    const struct profiler *ops = ops_of(7);
    void *c = tell_coll(&versions[6], ctx, NULL, 1);
    struct descr d = blank(7, 64, c);
    d.b[24] = 200;
    PUT(&d, 32, uint64_t, 1000);
    void *k = go(7, ctx, &d);
    d = blank(7, 32768, k);
    d.b[24] = 200;
    d.b[25] = 1;
    PUT(&d, 40, uint64_t, 1100);
    void *phase = go(7, ctx, &d);
    uint64_t stop = 1900;
    ops->state(phase, 31, &stop);
    ops->stop(phase);
    stop = 2000;
    ops->state(k, 22, &stop);
    ops->stop(k);
    const struct hm_event *a = double_nth(HM_EV_KERNEL_CH, 0), *b = double_nth(HM_EV_KERNEL_CH, 1);
    cr_assert(a && b);
    cr_assert_eq(a->aux, 1);
    cr_assert_eq(a->u.kernel_ch.channel, 200);
    cr_assert_eq(a->u.kernel_ch.phase, 1);
    cr_assert_eq(a->u.kernel_ch.gpu_start, 1100);
    cr_assert_eq(a->u.kernel_ch.gpu_stop, 1900);
    cr_assert_eq(b->aux, 0);
    cr_assert_eq(b->u.kernel_ch.channel, 200);
    cr_assert_eq(b->u.kernel_ch.gpu_start, 1000);
    cr_assert_eq(b->u.kernel_ch.gpu_stop, 2000);
}
