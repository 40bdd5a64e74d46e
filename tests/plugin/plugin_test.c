/* The exported profiler objects driven in NCCL's real sequences, and what is recorded of them.
 *
 * Box: tests. Each test is a process of its own (Criterion forks). Sequences: NCCL 2.28 for v5,
 * 2.27 for v4.
 */
#include "recorder_double.h"
#include "teller.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#define POOL (8 << 20)

static void *comm_5(uint64_t hash, int rank, int n_ranks, int *mask_p)
{
    void *ctx = NULL;
    int mask = -1;
    cr_assert_eq(
        ((init_5_t)ncclProfiler_v5.init)(&ctx, hash, &mask, "world", 2, n_ranks, rank, NULL), 0);
    if (mask_p)
        *mask_p = mask;
    return ctx;
}

static void *comm_4(uint64_t hash, int rank, int n_ranks, int *mask_p)
{
    void *ctx = NULL;
    int mask = -1;
    cr_assert_eq(((init_4_t)ncclProfiler_v4.init)(&ctx, &mask, NULL, hash, 2, n_ranks, rank, NULL),
                 0);
    if (mask_p)
        *mask_p = mask;
    return ctx;
}

Test(plugin, init_names_the_communicator_and_claims_the_rank)
{
    double_start(POOL);
    unsetenv("OMPI_COMM_WORLD_RANK");
    unsetenv("RANK");
    int mask;
    void *one = comm_5(0x11, 0, 1, NULL);
    cr_assert_eq(double_claimed.n, 0, "a communicator of one says nothing about the rank");
    void *ctx = comm_5(0xfeedfacecafebeefull, 3, 8, &mask);
    /* GroupApi CollApi P2pApi KernelLaunch Coll P2p ProxyOp */
    cr_assert_eq(mask, 256 | 512 | 1024 | 2048 | 2 | 4 | 8);
    cr_assert(ctx && one && ctx != one);
    cr_assert_eq(double_claimed.rank, 3);
    cr_assert_eq(double_claimed.n_ranks, 8);
    cr_assert_eq(double_n_cupti_starts, 2);
    const struct hm_def_comm *def = double_def(HM_DEF_COMM, 1);
    cr_assert_eq(def->hash, 0xfeedfacecafebeefull);
    cr_assert_eq(def->crank, 3);
    cr_assert_eq(def->n_ranks, 8);
    cr_assert_eq(def->n_nodes, 2);
    cr_assert_eq(def->interface, 5);
    cr_assert_eq(def->nth, 0);
    cr_assert_str_eq(double_text(def->name), "world");
}

/* One AllReduce and one Broadcast in one explicit group, fused into one kernel. */
Test(plugin, v5_eager_group)
{
    double_start(POOL);
    double_cupti();
    void *ctx = comm_5(0xabc, 3, 8, NULL);
    void *g = group_api(ctx, 2, 0);
    ncclProfiler_v5.state(g, 23, NULL);
    void *a = coll_api(ctx, g, "AllReduce", 1000, "ncclFloat32", 0);
    end(a);
    void *b = coll_api(ctx, g, "Broadcast", 77, "ncclBfloat16", 5);
    end(b);
    ncclProfiler_v5.state(g, 24, NULL);
    void *k = launch(ctx, g, (void *)0x7f00);
    cr_assert_eq(double_n_pushed, 1);
    end(k);
    cr_assert_eq(double_n_pushed, 2);
    cr_assert_eq(double_pushed[0], -double_pushed[1]);
    void *eager = group(5, ctx);
    /* the plan is sorted by traffic: the broadcast comes first, in bytes */
    void *cb = coll(5, ctx, b, eager, 0, "Broadcast", 154, "ncclInt8", 5);
    void *ca = coll(5, ctx, a, eager, 4, "AllReduce", 1000, "ncclFloat32", 0);
    end(cb);
    end(ca);
    end(eager);
    end(g);

    cr_assert_eq(double_count(HM_EV_NCCL_CALL), 2);
    cr_assert_eq(double_count(HM_EV_NCCL_COLL), 2);
    cr_assert_eq(double_count(HM_EV_NCCL_LAUNCH), 1);
    cr_assert_eq(double_count(HM_EV_NCCL_GROUP), 1);
    cr_assert_eq(double_n_events(), 6, "the eager group leaves no event");
    const struct hm_event *call = double_nth(HM_EV_NCCL_CALL, 1);
    cr_assert_eq(call->aux, HM_NCCL_AUX(HM_NCCL_BROADCAST, 10));
    cr_assert_eq(call->u.op.count, 77);
    cr_assert_eq(call->u.op.call, 1);
    cr_assert_eq(call->u.op.peer, 5);
    cr_assert_eq(double_nth(HM_EV_NCCL_CALL, 0)->u.op.peer, -1, "an AllReduce has no root");
    const struct hm_event *l = double_nth(HM_EV_NCCL_LAUNCH, 0);
    cr_assert_eq(l->u.launch.launch, (uint32_t)double_pushed[0]);
    cr_assert_eq(l->u.launch.stream_ptr, 0x7f00);
    const struct hm_event *gr = double_nth(HM_EV_NCCL_GROUP, 0);
    cr_assert_eq(l->u.launch.group, gr->u.group.group);
    cr_assert_eq(gr->u.group.depth, 2);
    cr_assert_geq(gr->u.group.end_api_ns, gr->u.group.start_api_ns);
    cr_assert_gt(gr->u.group.start_api_ns, 0);
    cr_assert_leq(gr->u.group.end_api_ns, gr->dur_ns);
    const struct hm_event *first = double_nth(HM_EV_NCCL_COLL, 0);
    const struct hm_event *second = double_nth(HM_EV_NCCL_COLL, 1);
    cr_assert_eq(first->u.op.call, 1, "the identity is that of the call, not of the plan");
    cr_assert_eq(second->u.op.call, 0);
    cr_assert_eq(first->u.op.launch, l->u.launch.launch);
    cr_assert_eq(second->u.op.launch, l->u.launch.launch);
    cr_assert_eq(second->u.op.nccl_seq, 4);
    cr_assert_eq(second->u.op.algo, HM_NCCL_ALGO_RING);
    cr_assert_eq(second->u.op.proto, HM_NCCL_PROTO_SIMPLE);
    cr_assert_eq(second->u.op.n_channels, 16);
    cr_assert_eq(second->u.op.n_warps, 17);
    cr_assert_eq(first->u.op.count, 77, "as the caller gave it, not the bytes of the plan");
    cr_assert_eq(first->aux, HM_NCCL_AUX(HM_NCCL_BROADCAST, 10));
    cr_assert_eq(l->u.launch.n_ops, 2);
    for (uint32_t i = 0; i < double_n_events(); i++) {
        cr_assert_gt(double_event[i].t_ns, 0);
        cr_assert_geq(double_event[i].dur_ns, 0);
    }
    cr_assert_eq(double_lost(HM_LOST_NCCL_STALE), 0);
    cr_assert_eq(double_lost(HM_LOST_NCCL_FOREIGN), 0);
    cr_assert_eq(double_lost(HM_LOST_NCCL_EVICTED), 0);
}

/* Two plans of one group: each eager group belongs to its launch, in order; the same without. */
Test(plugin, launches_bind_in_order)
{
    double_start(POOL);
    void *ctx = comm_5(0xabc, 0, 2, NULL);
    for (int with_group = 0; with_group < 2; with_group++) {
        void *g = group_api(ctx, 2, 0), *api[4];
        for (int i = 0; i < 4; i++)
            end(api[i] = coll_api(ctx, g, "AllReduce", 10, "ncclFloat32", 0));
        for (int plan = 0; plan < 2; plan++) {
            end(launch(ctx, g, (void *)0x1));
            void *e = with_group ? group(5, ctx) : NULL;
            for (int i = 0; i < 2; i++)
                end(coll(5, ctx, api[2 * plan + i], e, 0, "AllReduce", 10, "ncclFloat32", 0));
            if (e)
                end(e);
        }
        end(g);
    }
    uint32_t n = 0;
    for (uint32_t i = 0; i < 8; i++) {
        const struct hm_event *c = double_nth(HM_EV_NCCL_COLL, i);
        cr_assert_eq(c->u.op.call, i);
        cr_assert_eq(c->u.op.launch, double_nth(HM_EV_NCCL_LAUNCH, i / 2)->u.launch.launch, "op %u",
                     i);
        n++;
    }
    cr_assert_eq(n, 8);
}

/* Both launches are made before either group of operations is announced. */
Test(plugin, oldest_launch_first)
{
    double_start(POOL);
    void *ctx = comm_5(0xabc, 0, 2, NULL);
    void *g = group_api(ctx, 2, 0);
    void *a = coll_api(ctx, g, "AllReduce", 10, "ncclFloat32", 0);
    void *b = coll_api(ctx, g, "AllReduce", 20, "ncclFloat32", 0);
    end(launch(ctx, g, NULL));
    end(launch(ctx, g, NULL));
    void *g1 = group(5, ctx), *g2 = group(5, ctx);
    end(coll(5, ctx, b, g2, 1, "AllReduce", 20, "ncclFloat32", 0));
    end(coll(5, ctx, a, g1, 0, "AllReduce", 10, "ncclFloat32", 0));
    end(g);
    cr_assert_eq(double_nth(HM_EV_NCCL_COLL, 0)->u.op.launch,
                 double_nth(HM_EV_NCCL_LAUNCH, 1)->u.launch.launch);
    cr_assert_eq(double_nth(HM_EV_NCCL_COLL, 1)->u.op.launch,
                 double_nth(HM_EV_NCCL_LAUNCH, 0)->u.launch.launch);
}

/* One group call that carries two communicators: parents cross contexts. */
Test(plugin, two_communicators_in_one_group)
{
    double_start(POOL);
    void *x = comm_5(0x1, 0, 2, NULL), *y = comm_5(0x2, 1, 2, NULL);
    void *g = group_api(x, 2, 0);
    void *ax = coll_api(x, g, "AllReduce", 10, "ncclFloat32", 0);
    void *ay = coll_api(y, g, "AllGather", 20, "ncclFloat32", 0);
    void *ay2 = coll_api(y, g, "AllGather", 30, "ncclFloat32", 0);
    end(launch(x, g, NULL));
    end(launch(y, g, NULL));
    void *gy = group(5, y);
    end(coll(5, y, ay, gy, 0, "AllGather", 20, "ncclInt8", 0));
    end(coll(5, y, ay2, gy, 1, "AllGather", 30, "ncclInt8", 0));
    void *gx = group(5, x);
    end(coll(5, x, ax, gx, 0, "AllReduce", 10, "ncclFloat32", 0));
    end(g);
    cr_assert_eq(double_nth(HM_EV_NCCL_LAUNCH, 0)->u.launch.n_ops, 1);
    cr_assert_eq(double_nth(HM_EV_NCCL_LAUNCH, 1)->u.launch.n_ops, 2);
    const struct hm_event *y0 = double_nth(HM_EV_NCCL_COLL, 0),
                          *x0 = double_nth(HM_EV_NCCL_COLL, 2);
    cr_assert_eq(y0->u.op.comm, 1);
    cr_assert_eq(y0->u.op.call, 0);
    cr_assert_eq(double_nth(HM_EV_NCCL_COLL, 1)->u.op.call, 1);
    cr_assert_eq(x0->u.op.comm, 0);
    cr_assert_eq(x0->u.op.call, 0);
    cr_assert_eq(y0->u.op.launch, double_nth(HM_EV_NCCL_LAUNCH, 1)->u.launch.launch);
    cr_assert_eq(x0->u.op.launch, double_nth(HM_EV_NCCL_LAUNCH, 0)->u.launch.launch);
}

/* The k-th collective stays the k-th, however many sends a rank made in between. */
Test(plugin, sends_do_not_shift_collectives)
{
    double_start(POOL);
    void *ctx = comm_5(0x1, 0, 4, NULL);
    void *g = group_api(ctx, 1, 0);
    end(coll_api(ctx, g, "AllReduce", 10, "ncclFloat32", 0));
    void *s = p2p_api(ctx, g, "Send", 100);
    end(s);
    end(p2p_api(ctx, g, "Recv", 100));
    end(coll_api(ctx, g, "AllReduce", 10, "ncclFloat32", 0));
    end(launch(ctx, g, NULL));
    end(p2p(5, ctx, s, NULL, "Send", 100, 2));
    cr_assert_eq(double_nth(HM_EV_NCCL_CALL, 0)->u.op.call, 0);
    cr_assert_eq(double_nth(HM_EV_NCCL_CALL, 1)->u.op.call, HM_CALL_P2P | 0);
    cr_assert_eq(double_nth(HM_EV_NCCL_CALL, 2)->u.op.call, HM_CALL_P2P | 1);
    cr_assert_eq(double_nth(HM_EV_NCCL_CALL, 3)->u.op.call, 1);
    const struct hm_event *p = double_nth(HM_EV_NCCL_P2P, 0);
    cr_assert_eq(p->u.op.call, HM_CALL_P2P | 0);
    cr_assert_eq(p->u.op.peer, 2);
    cr_assert_eq(p->u.op.n_channels, 2);
    cr_assert_eq(p->aux, HM_NCCL_AUX(HM_NCCL_SEND, 7));
}

/* Proxy operations start after everything above them has stopped: that is the normal case. */
Test(plugin, children_after_their_parents)
{
    double_start(POOL);
    hm.config.proxy_steps = hm.config.kernel_ch = 1;
    int mask;
    void *ctx = comm_5(0x1, 3, 8, &mask);
    cr_assert_eq(mask & (16 | 64), 16 | 64);
    void *g = group_api(ctx, 1, 0);
    end(coll_api(ctx, g, "AllReduce", 9, "ncclFloat32", 0)); /* call 0 */
    void *a = coll_api(ctx, g, "AllReduce", 9, "ncclFloat32", 0);
    end(a);
    end(launch(ctx, g, NULL));
    void *c = coll(5, ctx, a, NULL, 1, "AllReduce", 9, "ncclFloat32", 0);
    end(c);
    end(g);
    void *op = proxy_op(5, ctx, c, getpid(), 7, 4, 6, 131072, 1);
    ncclProfiler_v5.state(op, 19, (void *)1); /* not to be followed */
    void *step = proxy_step(5, ctx, op, 2);
    size_t sent = 4096;
    ncclProfiler_v5.state(step, 8, NULL);
    ncclProfiler_v5.state(step, 20, (void *)1);
    ncclProfiler_v5.state(step, 9, &sent);
    end(step);
    void *k = kernel_ch(5, ctx, c, 5, 1000);
    uint64_t gpu = 1700;
    ncclProfiler_v5.state(k, 22, &gpu);
    end(k);
    end(op);
    const struct hm_event *o = double_nth(HM_EV_PROXY_OP, 0);
    cr_assert_eq(o->u.proxy_op.comm, 0);
    cr_assert_eq(o->u.proxy_op.call, 1);
    cr_assert_eq(o->u.proxy_op.channel, 7);
    cr_assert_eq(o->u.proxy_op.peer, 4);
    cr_assert_eq(o->u.proxy_op.n_steps, 6);
    cr_assert_eq(o->u.proxy_op.chunk_bytes, 131072);
    cr_assert_eq(o->u.proxy_op.is_send, 1);
    cr_assert_eq(o->u.proxy_op.origin_pid, getpid());
    cr_assert_eq(o->u.proxy_op.bytes, 4096);
    const struct hm_event *s = double_nth(HM_EV_PROXY_STEP, 0);
    cr_assert_eq(s->u.proxy_step.proxy, o->u.proxy_op.proxy);
    cr_assert_eq(s->u.proxy_step.step, 2);
    cr_assert_eq(s->u.proxy_step.bytes, 4096);
    cr_assert(s->u.proxy_step.phase_ns[0] > 0 &&
              s->u.proxy_step.phase_ns[0] <= s->u.proxy_step.phase_ns[1] &&
              s->u.proxy_step.phase_ns[1] <= s->u.proxy_step.phase_ns[2]);
    const struct hm_event *kc = double_nth(HM_EV_KERNEL_CH, 0);
    cr_assert_eq(kc->u.kernel_ch.gpu_start, 1000);
    cr_assert_eq(kc->u.kernel_ch.gpu_stop, 1700);
    cr_assert_eq(kc->u.kernel_ch.channel, 5);
    cr_assert_eq(kc->u.kernel_ch.call, 1);
    cr_assert_eq(double_lost(HM_LOST_NCCL_STALE), 0);
}

Test(plugin, stopped_twice_counts_once)
{
    double_start(POOL);
    void *ctx = comm_5(0x1, 0, 2, NULL);
    void *c = coll_api(ctx, NULL, "AllReduce", 9, "ncclFloat32", 0);
    end(c);
    end(c);
    cr_assert_eq(double_count(HM_EV_NCCL_CALL), 1);
    cr_assert_eq(double_lost(HM_LOST_NCCL_STALE), 1);
    ncclProfiler_v5.state(c, 22, NULL);
    cr_assert_eq(double_lost(HM_LOST_NCCL_STALE), 2);
    end(NULL);
    cr_assert_eq(double_lost(HM_LOST_NCCL_STALE), 3);
    end(ctx); /* a context is no event */
    cr_assert_eq(double_lost(HM_LOST_NCCL_STALE), 4);
    cr_assert_eq(double_n_events(), 1);
}

/* PXN: parent and context are pointers of another process. Here they fault when touched. */
Test(plugin, pointers_of_another_process)
{
    double_start(POOL);
    hm.config.proxy_steps = 1;
    comm_5(0x1, 0, 2, NULL);
    char *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *op = proxy_op(5, page, page + 64, getpid() + 1, 3, 1, 2, 512, 0);
    cr_assert(op && op != (void *)0x5a5a);
    void *step = proxy_step(5, page, op, 0);
    end(step);
    end(op);
    end(page);
    ncclProfiler_v5.state(page, 9, NULL);
    /* even when the originator's number looks like ours */
    end(proxy_op(5, page, page + 64, getpid(), 3, 1, 2, 512, 0));
    end(coll(5, page, page + 8, page + 16, 0, "AllReduce", 1, "ncclFloat32", 0));
    ncclProfiler_v5.finalize(page);
    const struct hm_event *o = double_nth(HM_EV_PROXY_OP, 0);
    cr_assert_eq(o->u.proxy_op.origin_pid, getpid() + 1);
    cr_assert_eq(o->u.proxy_op.comm, HM_NO_ID);
    cr_assert_eq(o->u.proxy_op.call, HM_NO_ID);
    cr_assert_geq(double_lost(HM_LOST_NCCL_FOREIGN), 4);
}

Test(plugin, late_events_after_finalize)
{
    double_start(POOL);
    void *ctx = comm_5(0x1, 0, 2, NULL);
    void *a = coll_api(ctx, NULL, "AllReduce", 9, "ncclFloat32", 0);
    end(a);
    cr_assert_eq(ncclProfiler_v5.finalize(ctx), 0);
    cr_assert_eq(ncclProfiler_v5.finalize(ctx), 0);
    end(proxy_op(5, ctx, a, getpid(), 0, 1, 1, 1, 1));
    cr_assert_eq(double_nth(HM_EV_PROXY_OP, 0)->u.proxy_op.call, 0);
    /* the same hash again is the next communicator of that name */
    comm_5(0x1, 0, 2, NULL);
    const struct hm_def_comm *def = double_def(HM_DEF_COMM, 1);
    cr_assert_eq(def->nth, 1);
}

Test(plugin, v4_counts_its_own_calls)
{
    double_start(POOL);
    int mask;
    void *ctx = comm_4(0x77, 1, 4, &mask);
    cr_assert_eq(mask, 1 | 2 | 4 | 8, "no bit that v4 does not know");
    for (uint32_t i = 0; i < 3; i++) {
        void *g = group(4, ctx);
        void *c = coll(4, ctx, g, NULL, 10 + i, "ReduceScatter", 500, "ncclFloat16", 0);
        void *p = i == 1 ? p2p(4, ctx, g, NULL, "Recv", 12, 3) : NULL;
        ncclProfiler_v4.stop(c);
        if (p)
            ncclProfiler_v4.stop(p);
        ncclProfiler_v4.stop(g);
        ncclProfiler_v4.stop(proxy_op(4, ctx, c, getpid(), 0, 1, 1, 64, 1));
    }
    cr_assert_eq(double_count(HM_EV_NCCL_CALL), 0);
    cr_assert_eq(double_count(HM_EV_NCCL_LAUNCH), 0);
    cr_assert_eq(double_count(HM_EV_NCCL_COLL), 3);
    for (uint32_t i = 0; i < 3; i++) {
        const struct hm_event *c = double_nth(HM_EV_NCCL_COLL, i);
        cr_assert_eq(c->u.op.call, i);
        cr_assert_eq(c->u.op.nccl_seq, 10 + i);
        cr_assert_eq(c->u.op.launch, HM_NO_ID);
        cr_assert_eq(c->u.op.count, 500);
        cr_assert_eq(c->aux, HM_NCCL_AUX(HM_NCCL_REDUCESCATTER, 7));
        cr_assert_eq(double_nth(HM_EV_PROXY_OP, i)->u.proxy_op.call, i);
    }
    const struct hm_event *p = double_nth(HM_EV_NCCL_P2P, 0);
    cr_assert_eq(p->u.op.call, HM_CALL_P2P | 0);
    cr_assert_eq(p->u.op.peer, 3);
    const struct hm_def_comm *def = double_def(HM_DEF_COMM, 0);
    cr_assert_eq(def->interface, 4);
    cr_assert_eq(def->name, HM_NO_ID);
}

/* The index is the identity across ranks: it runs on while nothing is recorded. */
Test(plugin, calls_are_counted_behind_a_shut_gate)
{
    double_start(POOL);
    void *ctx = comm_5(0x1, 0, 2, NULL);
    double_gate(0);
    for (int i = 0; i < 5; i++)
        end(coll_api(ctx, NULL, "AllReduce", 9, "ncclFloat32", 0));
    cr_assert_eq(double_n_events(), 0);
    double_gate(UINT64_MAX);
    end(coll_api(ctx, NULL, "AllReduce", 9, "ncclFloat32", 0));
    cr_assert_eq(double_nth(HM_EV_NCCL_CALL, 0)->u.op.call, 5);
    cr_assert_eq(double_lost(HM_LOST_NCCL_STALE), 0);
}

Test(plugin, never_stopped_operations_are_kept)
{
    double_start(POOL);
    void *ctx = comm_5(0x1, 0, 2, NULL);
    void *stuck = coll_api(ctx, NULL, "AllReduce", 123, "ncclFloat32", 0);
    struct hm_event open;
    uint32_t n_open = 0;
    for (uint32_t i = 0; i < hm.view.n_ops; i++)
        n_open += (uint32_t)hm_op_peek(&hm.view, i, &open);
    cr_assert_eq(n_open, 1, "the writer sees it while it runs");
    for (uint32_t i = 0; i < hm.view.n_ops; i++)
        end(p2p_api(ctx, NULL, "Send", 1));
    const struct hm_event *ev = double_nth(HM_EV_NCCL_CALL, hm.view.n_ops - 1);
    for (uint32_t i = 0; i < double_n_events(); i++)
        if (double_event[i].u.op.count == 123)
            ev = &double_event[i];
    cr_assert_eq(ev->u.op.count, 123);
    cr_assert(ev->flags & HM_EVF_EVICTED);
    cr_assert_eq(ev->dur_ns, HM_DUR_OPEN);
    cr_assert_eq(double_lost(HM_LOST_NCCL_EVICTED), 1);
    end(stuck);
    cr_assert_eq(double_lost(HM_LOST_NCCL_STALE), 1);
}

/* Operations captured into a graph are announced again at every replay, on another thread. */
static void *replay(void *arg)
{
    void **a = arg;
    end(coll(5, a[0], a[1], NULL, 0, "AllReduce", 9, "ncclFloat32", 0));
    return NULL;
}
Test(plugin, graph_replay_has_no_launch)
{
    double_start(POOL);
    void *ctx = comm_5(0x1, 0, 2, NULL);
    void *g = group_api(ctx, 1, 1);
    struct descr d = descr_of(5, 512, g, 0);
    PUT(&d, 24, const char *, "AllReduce");
    PUT(&d, 64, _Bool, 1);
    void *a[2] = {ctx, begin(5, ctx, &d)};
    end(a[1]);
    end(launch(ctx, g, NULL));
    end(g);
    pthread_t t;
    pthread_create(&t, NULL, replay, a);
    pthread_join(t, NULL);
    const struct hm_event *c = double_nth(HM_EV_NCCL_COLL, 0);
    cr_assert_eq(c->u.op.call, 0);
    cr_assert_eq(c->u.op.launch, HM_NO_ID);
    cr_assert(c->flags & HM_EVF_GRAPH);
    cr_assert(double_nth(HM_EV_NCCL_LAUNCH, 0)->flags & HM_EVF_GRAPH);
}

/* A communicator that does not block: its launches and operations come from NCCL's group thread,
 * after the group has ended for the application. */
static void *group_thread(void *arg)
{
    void **a = arg;
    for (int plan = 0; plan < 2; plan++) {
        end(launch(a[0], a[1], (void *)0x9));
        void *e = group(5, a[0]);
        void *c = coll(5, a[0], a[2 + plan], e, (uint64_t)plan, "AllReduce", 10, "ncclFloat32", 0);
        end(c);
        end(e);
    }
    return NULL;
}
Test(plugin, launches_on_the_group_thread)
{
    double_start(POOL);
    double_cupti();
    void *ctx = comm_5(0x1, 0, 2, NULL);
    void *g = group_api(ctx, 2, 0);
    void *a[4] = {ctx, g};
    end(a[2] = coll_api(ctx, g, "AllReduce", 10, "ncclFloat32", 0));
    end(a[3] = coll_api(ctx, g, "AllReduce", 10, "ncclFloat32", 0));
    end(g);
    pthread_t t;
    pthread_create(&t, NULL, group_thread, a);
    pthread_join(t, NULL);
    for (uint32_t i = 0; i < 2; i++) {
        const struct hm_event *l = double_nth(HM_EV_NCCL_LAUNCH, i),
                              *c = double_nth(HM_EV_NCCL_COLL, i);
        cr_assert(l && c && l->dur_ns >= 0);
        cr_assert_eq(l->u.launch.group, double_nth(HM_EV_NCCL_GROUP, 0)->u.group.group);
        cr_assert_eq(c->u.op.launch, l->u.launch.launch);
        cr_assert_eq(c->u.op.call, i);
        cr_assert_eq(double_pushed[2 * i], -double_pushed[2 * i + 1]);
    }
    cr_assert_eq(double_lost(HM_LOST_NCCL_STALE), 0);
}

Test(plugin, types_nobody_asked_for)
{
    double_start(POOL);
    void *ctx = comm_5(0x1, 0, 2, NULL);
    const unsigned types[] = {4096, 8192, 16384, 32768, 0, 3, 1u << 31};
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        struct descr d = descr_of(5, types[i], NULL, 0);
        void *h = begin(5, ctx, &d);
        cr_assert(h && h != (void *)0x5a5a, "type %u", types[i]);
        cr_assert((uint64_t)(uintptr_t)h >> 63, "no address looks like this");
        end(h);
    }
    cr_assert_eq(ncclProfiler_v5.start(ctx, NULL, NULL), 0);
    cr_assert_eq(double_n_events(), 0);
    cr_assert_eq(double_lost(HM_LOST_NCCL_STALE), 0);
    /* strings may be missing */
    end(coll_api(ctx, NULL, NULL, 1, NULL, 0));
    cr_assert_eq(double_nth(HM_EV_NCCL_CALL, 0)->aux, 0);
}

Test(plugin, switched_off)
{
    double_start_off();
    int mask5, mask4;
    void *x = comm_5(0x1, 0, 2, &mask5), *y = comm_4(0x1, 0, 2, &mask4);
    cr_assert(x && y && x != y, "NCCL crashes on a NULL context");
    cr_assert_eq(mask5, 0);
    cr_assert_eq(mask4, 0);
    void *h = coll_api(x, NULL, "AllReduce", 1, "ncclFloat32", 0);
    cr_assert(h && h != (void *)0x5a5a);
    end(h);
    ncclProfiler_v5.state(h, 23, NULL);
    cr_assert_eq(ncclProfiler_v5.finalize(x), 0);
}

enum { N_THREADS = 8, N_CALLS = 500 };
static pthread_barrier_t together;
static void *ctx_of[N_THREADS];
static void *one_rank(void *arg)
{
    int me = (int)(intptr_t)arg;
    pthread_barrier_wait(&together);
    /* half of them share hash and rank: a communicator made again and again */
    ctx_of[me] = comm_5(0x5eed, me % 4, 4, NULL);
    for (int i = 0; i < N_CALLS; i++) {
        void *g = group_api(ctx_of[me], 1, 0);
        void *a = coll_api(ctx_of[me], g, "AllReduce", (size_t)i, "ncclFloat32", 0);
        end(a);
        end(launch(ctx_of[me], g, NULL));
        void *e = group(5, ctx_of[me]);
        void *c = coll(5, ctx_of[me], a, e, (uint64_t)i, "AllReduce", (size_t)i, "ncclFloat32", 0);
        end(c);
        end(e);
        end(g);
    }
    return NULL;
}

Test(plugin, many_threads_at_once)
{
    double_start(64 << 20); /* a thread off its core keeps its slots meanwhile */
    pthread_t t[N_THREADS];
    pthread_barrier_init(&together, NULL, N_THREADS);
    for (intptr_t i = 0; i < N_THREADS; i++)
        pthread_create(&t[i], NULL, one_rank, (void *)i);
    for (int i = 0; i < N_THREADS; i++)
        pthread_join(t[i], NULL);
    uint32_t seen_nth[4] = {0};
    for (uint32_t i = 0; i < N_THREADS; i++) {
        const struct hm_def_comm *def = double_def(HM_DEF_COMM, i);
        cr_assert_lt(def->nth, 2);
        seen_nth[def->crank] |= 1u << def->nth;
        for (uint32_t k = 0; k < i; k++)
            cr_assert_neq(ctx_of[i], ctx_of[k]);
    }
    for (int i = 0; i < 4; i++)
        cr_assert_eq(seen_nth[i], 3);
    cr_assert_eq(double_count(HM_EV_NCCL_COLL), N_THREADS * N_CALLS);
    static uint8_t launched[N_THREADS * N_CALLS + 1];
    for (uint32_t i = 0; i < N_THREADS * N_CALLS; i++) {
        const struct hm_event *c = double_nth(HM_EV_NCCL_COLL, i);
        cr_assert_eq(c->u.op.call, c->u.op.count, "call of its own communicator");
        cr_assert(c->u.op.launch >= 1 && c->u.op.launch <= N_THREADS * N_CALLS);
        cr_assert_eq(launched[c->u.op.launch]++, 0, "every launch carries one operation");
    }
    cr_assert_eq(double_lost(HM_LOST_NCCL_STALE), 0);
    cr_assert_eq(double_lost(HM_LOST_NCCL_EVICTED), 0);
}
