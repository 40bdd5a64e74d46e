/* Arrivals from events: each rule by hand. */
#include "analysis/join.h"

#include <criterion/criterion.h>
#include <string.h>

enum { TRACK_HOST = 0, TRACK_COMM = 1, K_NCCL = 0, K_GEMM = 1 };

static int track(void *ctx, uint32_t t, uint32_t *type_p, uint32_t *device_p, uint32_t *stream_p)
{
    (void)ctx;
    *type_p = t == TRACK_HOST ? HM_TRACK_THREAD : HM_TRACK_STREAM;
    *device_p = 3;
    *stream_p = t;
    return 1;
}
static const char *kernel_name(void *ctx, uint32_t k)
{
    (void)ctx;
    return k == K_NCCL ? "_Z40ncclDevKernel_AllReduce_Sum_f32_RING_LL24ncclDevKernelArgs" : "gemm";
}
static int comm(void *ctx, uint32_t id, struct hm_join_comm *c)
{
    (void)ctx;
    if (id > 1)
        return 0;
    *c = (struct hm_join_comm){.key = 100 + id, .n_ranks = 4, .device = 3, .crank = 2};
    return 1;
}

static struct hm_event at(uint8_t kind, int64_t t, int64_t dur)
{
    return (struct hm_event){.t_ns = t, .dur_ns = dur, .kind = kind, .track = TRACK_HOST};
}
static struct hm_event api(int64_t t, uint32_t correlation, uint64_t external)
{
    struct hm_event ev = at(HM_EV_API, t, 5);
    ev.u.api.correlation = correlation;
    ev.u.api.external = external;
    return ev;
}
static struct hm_event kernel(int64_t t, int64_t dur, uint32_t correlation, uint32_t id)
{
    struct hm_event ev = at(HM_EV_KERNEL, t, dur);
    ev.track = TRACK_COMM;
    ev.u.kernel.correlation = correlation;
    ev.u.kernel.kernel = id;
    return ev;
}
static struct hm_event launch(int64_t t, uint32_t id, uint32_t comm_id)
{
    struct hm_event ev = at(HM_EV_NCCL_LAUNCH, t, 10);
    ev.u.launch.launch = id;
    ev.u.launch.comm = comm_id;
    return ev;
}
static struct hm_event op(uint8_t kind, int64_t t, uint8_t func, uint32_t comm_id, uint32_t call,
                          uint32_t launch_id, uint64_t count, int32_t peer)
{
    struct hm_event ev = at(kind, t, 1);
    ev.aux = HM_NCCL_AUX(func, HM_DTYPE_FLOAT32);
    ev.u.op = (struct hm_ev_op){.count = count,
                                .comm = comm_id,
                                .call = call,
                                .nccl_seq = HM_NO_ID,
                                .launch = launch_id,
                                .peer = peer};
    return ev;
}

static struct hm_part got[64];
static struct hm_join_stats stats;
static int by_seq; /* of the next join() */
static size_t join(const struct hm_event *ev, size_t n)
{
    struct hm_join_in in = {.track = track,
                            .kernel_name = kernel_name,
                            .comm = comm,
                            .device = 3,
                            .only_comm = HM_NO_ID,
                            .by_seq = by_seq};
    for (size_t i = 0; i < n; i++) {
        in.n_kernels += ev[i].kind == HM_EV_KERNEL;
        in.n_apis += ev[i].kind == HM_EV_API;
        in.n_launches += ev[i].kind == HM_EV_NCCL_LAUNCH;
        in.n_ops += ev[i].kind == HM_EV_NCCL_COLL || ev[i].kind == HM_EV_NCCL_P2P;
    }
    struct hm_join *j;
    size_t k = 0;
    cr_assert_eq(hm_join_create(&in, &j), HM_OK);
    for (size_t i = 0; i < n; i++) {
        cr_assert_eq(hm_join_event(j, &ev[i]), HM_OK);
        k += hm_join_take(j, got + k, 64 - k);
    }
    cr_assert_eq(hm_join_end(j), HM_OK);
    k += hm_join_take(j, got + k, 64 - k);
    hm_join_stats(j, &stats);
    hm_join_destroy(j);
    for (size_t i = 1; i < k; i++)
        cr_assert(got[i].a.start_ns >= got[i - 1].a.start_ns, "start order");
    return k;
}
#define JOIN(ev) join(ev, sizeof(ev) / sizeof(*(ev)))

Test(join, external_correlation)
{
    /* two buckets; a gemm between; the operation is announced after its kernel has started */
    struct hm_event ev[] = {
        op(HM_EV_NCCL_CALL, 100, HM_NCCL_ALLREDUCE, 0, 0, HM_NO_ID, 10, -1),
        launch(110, 1, 0),
        api(112, 7, 1),
        kernel(118, 500, 7, K_NCCL),
        op(HM_EV_NCCL_COLL, 125, HM_NCCL_ALLREDUCE, 0, 0, 1, 10, -1),
        api(130, 8, 0),
        kernel(140, 60, 8, K_GEMM),
        op(HM_EV_NCCL_CALL, 200, HM_NCCL_ALLREDUCE, 0, 1, HM_NO_ID, 30, -1),
        launch(210, 2, 0),
        api(212, 9, 2),
        op(HM_EV_NCCL_COLL, 225, HM_NCCL_ALLREDUCE, 0, 1, 2, 30, -1),
        kernel(700, 100, 9, K_NCCL),
    };
    cr_assert_eq(JOIN(ev), 2);
    cr_assert_eq(got[0].a.comm, 100);
    cr_assert_eq(got[0].a.seq, 0);
    cr_assert_eq(got[0].a.start_ns, 118);
    cr_assert_eq(got[0].a.end_ns, 618);
    cr_assert_eq(got[0].a.host_ns, 100, "the call");
    cr_assert_eq(got[0].a.launch_end_ns, 117, "the launch API's end");
    cr_assert_eq(got[0].a.bytes, 40);
    cr_assert_eq(got[0].a.func, HM_NCCL_ALLREDUCE);
    cr_assert_eq(got[0].a.confidence, HM_JOIN_EXTERNAL);
    cr_assert_eq(got[0].a.source, HM_ARRIVAL_KERNEL);
    cr_assert_eq(got[0].v.device, 3);
    cr_assert_eq(got[1].a.seq, 1);
    cr_assert_eq(got[1].a.start_ns, 700);
    cr_assert_eq(got[1].a.bytes, 120);
    cr_assert_eq(stats.n_lone_kernels, 0);
}

Test(join, launch_call_inside_the_launch)
{
    struct hm_event ev[] = {op(HM_EV_NCCL_CALL, 100, HM_NCCL_ALLGATHER, 0, 0, HM_NO_ID, 10, -1),
                            launch(110, 1, 0), api(112, 7, 0),
                            op(HM_EV_NCCL_COLL, 125, HM_NCCL_ALLGATHER, 0, 0, 1, 10, -1),
                            kernel(300, 100, 7, K_NCCL)};
    cr_assert_eq(JOIN(ev), 1);
    cr_assert_eq(got[0].a.confidence, HM_JOIN_WINDOW);
    cr_assert_eq(got[0].a.bytes, 160, "10 floats of each of 4 ranks");
}

Test(join, group_of_two_is_one_launch)
{
    struct hm_event ev[] = {op(HM_EV_NCCL_CALL, 100, HM_NCCL_ALLREDUCE, 0, 0, HM_NO_ID, 10, -1),
                            op(HM_EV_NCCL_CALL, 102, HM_NCCL_ALLREDUCE, 0, 1, HM_NO_ID, 90, -1),
                            launch(110, 1, 0),
                            api(112, 7, 1),
                            op(HM_EV_NCCL_COLL, 125, HM_NCCL_ALLREDUCE, 0, 1, 1, 90, -1),
                            op(HM_EV_NCCL_COLL, 126, HM_NCCL_ALLREDUCE, 0, 0, 1, 10, -1),
                            kernel(300, 100, 7, K_NCCL)};
    cr_assert_eq(JOIN(ev), 1);
    cr_assert_eq(got[0].a.n_ops, 2);
    cr_assert_eq(got[0].a.bytes, 400);
    cr_assert_eq(got[0].a.host_ns, 100);
}

Test(join, group_cut_into_two_launches)
{
    struct hm_event ev[] = {op(HM_EV_NCCL_CALL, 100, HM_NCCL_ALLREDUCE, 0, 0, HM_NO_ID, 10, -1),
                            op(HM_EV_NCCL_CALL, 102, HM_NCCL_ALLREDUCE, 0, 1, HM_NO_ID, 90, -1),
                            launch(110, 1, 0),
                            api(112, 7, 1),
                            op(HM_EV_NCCL_COLL, 125, HM_NCCL_ALLREDUCE, 0, 0, 1, 10, -1),
                            launch(130, 2, 0),
                            api(132, 8, 2),
                            op(HM_EV_NCCL_COLL, 145, HM_NCCL_ALLREDUCE, 0, 1, 2, 90, -1),
                            kernel(300, 100, 7, K_NCCL),
                            kernel(400, 100, 8, K_NCCL)};
    cr_assert_eq(JOIN(ev), 2);
    cr_assert_eq(got[0].a.bytes, 40);
    cr_assert_eq(got[0].a.n_ops, 1);
    cr_assert_eq(got[1].a.bytes, 360);
    cr_assert_eq(got[1].a.seq, 1);
}

Test(join, symmetric_kernels_are_told_by_the_call_alone)
{
    struct hm_event ev[] = {op(HM_EV_NCCL_CALL, 100, HM_NCCL_ALLREDUCE, 0, 0, HM_NO_ID, 10, -1),
                            launch(110, 1, 0), api(112, 7, 1), kernel(300, 100, 7, K_NCCL)};
    cr_assert_eq(JOIN(ev), 1);
    cr_assert_eq(got[0].a.func, HM_NCCL_ALLREDUCE);
    cr_assert_eq(got[0].a.bytes, 40);
}

Test(join, a_lost_kernel_keeps_the_count)
{
    struct hm_event ev[] = {op(HM_EV_NCCL_CALL, 100, HM_NCCL_ALLREDUCE, 0, 0, HM_NO_ID, 10, -1),
                            launch(110, 1, 0),
                            api(112, 7, 1),
                            op(HM_EV_NCCL_CALL, 200, HM_NCCL_ALLREDUCE, 0, 1, HM_NO_ID, 10, -1),
                            launch(210, 2, 0),
                            api(212, 8, 2),
                            kernel(400, 100, 8, K_NCCL)};
    cr_assert_eq(JOIN(ev), 1);
    cr_assert_eq(got[0].a.seq, 1, "the second launch of the communicator");
    cr_assert_eq(stats.n_lone_launches, 1);
}

Test(join, kernel_seen_before_its_call)
{
    /* clocks of host and device cross by 3 ns */
    struct hm_event ev[] = {op(HM_EV_NCCL_CALL, 100, HM_NCCL_ALLREDUCE, 0, 0, HM_NO_ID, 10, -1),
                            launch(108, 1, 0), kernel(109, 100, 7, K_NCCL), api(112, 7, 1)};
    cr_assert_eq(JOIN(ev), 1);
    cr_assert_eq(got[0].a.start_ns, 109);
    cr_assert_eq(got[0].a.confidence, HM_JOIN_EXTERNAL);
}

Test(join, send_and_receive_are_pairs)
{
    /* rank 2 of 4 sends to 3 and receives from 1 in one launch */
    uint32_t p2p = HM_CALL_P2P;
    struct hm_event ev[] = {op(HM_EV_NCCL_CALL, 100, HM_NCCL_SEND, 0, p2p, HM_NO_ID, 8, -1),
                            op(HM_EV_NCCL_CALL, 101, HM_NCCL_RECV, 0, p2p + 1, HM_NO_ID, 8, -1),
                            launch(110, 1, 0),
                            api(112, 7, 1),
                            op(HM_EV_NCCL_P2P, 125, HM_NCCL_SEND, 0, p2p, 1, 8, 3),
                            op(HM_EV_NCCL_P2P, 126, HM_NCCL_RECV, 0, p2p + 1, 1, 8, 1),
                            kernel(300, 100, 7, K_NCCL)};
    cr_assert_eq(JOIN(ev), 2);
    uint32_t send = 1 + 2 * 4 + 3, recv = 1 + 1 * 4 + 2;
    cr_assert((got[0].a.pair == send && got[1].a.pair == recv) ||
              (got[0].a.pair == recv && got[1].a.pair == send));
    cr_assert_eq(got[0].a.bytes, 32);
    cr_assert_eq(got[0].a.seq, 0);
}

Test(join, all_to_all_in_pieces_is_one_unit)
{
    struct hm_event ev[16];
    size_t n = 0;
    ev[n++] = launch(110, 1, 0);
    ev[n++] = api(112, 7, 1);
    for (int32_t peer = 0; peer < 4; peer++) {
        ev[n] = op(HM_EV_NCCL_P2P, 125 + peer, HM_NCCL_SEND, 0, HM_CALL_P2P, 1, 100, peer);
        n++;
        ev[n] = op(HM_EV_NCCL_P2P, 125 + peer, HM_NCCL_RECV, 0, HM_CALL_P2P, 1, 100, peer);
        n++;
    }
    ev[n++] = kernel(300, 100, 7, K_NCCL);
    cr_assert_eq(join(ev, n), 1);
    cr_assert_eq(got[0].a.pair, 0);
    cr_assert_eq(got[0].a.func, HM_NCCL_ALLTOALL);
    cr_assert_eq(got[0].a.bytes, 1600, "4 ranks times 100 floats");
}

Test(join, root_is_part_of_the_key)
{
    struct hm_event ev[] = {op(HM_EV_NCCL_CALL, 100, HM_NCCL_BROADCAST, 0, 0, HM_NO_ID, 10, 3),
                            launch(110, 1, 0), api(112, 7, 1),
                            op(HM_EV_NCCL_COLL, 125, HM_NCCL_BROADCAST, 0, 0, 1, 10, 3),
                            kernel(300, 100, 7, K_NCCL)};
    cr_assert_eq(JOIN(ev), 1);
    cr_assert_eq(got[0].a.pair, 1 + 3 * 4 + 3);
}

Test(join, two_communicators_count_apart)
{
    /* the second one's kernel starts first */
    struct hm_event ev[] = {launch(110, 1, 0),          api(112, 7, 1),
                            launch(210, 2, 1),          api(212, 8, 2),
                            kernel(400, 10, 8, K_NCCL), kernel(500, 10, 7, K_NCCL)};
    cr_assert_eq(JOIN(ev), 2);
    cr_assert_eq(got[0].a.comm, 101);
    cr_assert_eq(got[1].a.comm, 100);
    cr_assert_eq(got[0].a.seq, 0);
    cr_assert_eq(got[1].a.seq, 0);
}

Test(join, operations_without_launches)
{
    /* interface v4: the launching call, then the group's operations; two kernels, three operations
     */
    struct hm_event ev[] = {api(100, 7, 0),
                            op(HM_EV_NCCL_COLL, 110, HM_NCCL_ALLREDUCE, 0, 0, HM_NO_ID, 10, -1),
                            op(HM_EV_NCCL_COLL, 111, HM_NCCL_ALLREDUCE, 0, 1, HM_NO_ID, 10, -1),
                            api(200, 8, 0),
                            op(HM_EV_NCCL_COLL, 210, HM_NCCL_ALLREDUCE, 0, 2, HM_NO_ID, 70, -1),
                            kernel(300, 50, 7, K_NCCL),
                            kernel(400, 50, 8, K_NCCL)};
    cr_assert_eq(JOIN(ev), 2);
    cr_assert_eq(got[0].a.n_ops, 2);
    cr_assert_eq(got[0].a.bytes, 80);
    cr_assert_eq(got[1].a.bytes, 280);
    cr_assert_eq(got[1].a.seq, 1);
    cr_assert_eq(got[1].a.start_ns, 400);
    cr_assert_eq(got[0].a.confidence, HM_JOIN_ORDER);
}

Test(join, kernels_alone)
{
    struct hm_event ev[] = {api(90, 7, 0), kernel(300, 50, 7, K_NCCL), kernel(360, 10, 9, K_GEMM),
                            kernel(400, 50, 8, K_NCCL)};
    cr_assert_eq(JOIN(ev), 2);
    cr_assert_eq(got[0].a.comm, hm_comm_key_of_order(0, 0));
    cr_assert_eq(got[1].a.seq, 1);
    cr_assert_eq(got[0].a.func, HM_NCCL_ALLREDUCE);
    cr_assert_eq(got[0].a.host_ns, 90);
    cr_assert_eq(got[0].a.confidence, HM_JOIN_ORDER);
}

Test(join, without_kernels_the_host_times_stand_in)
{
    struct hm_event ev[] = {op(HM_EV_NCCL_CALL, 100, HM_NCCL_ALLREDUCE, 0, 0, HM_NO_ID, 10, -1),
                            launch(110, 1, 0)};
    cr_assert_eq(JOIN(ev), 1);
    cr_assert_eq(got[0].a.source, HM_ARRIVAL_ENQUEUE);
    cr_assert_eq(got[0].a.start_ns, 110);
    cr_assert_eq(got[0].a.end_ns, 120);
}

/* Traces of a profiler begin at different collectives on different ranks: the sequence numbers of
 * the process group tie what belongs together, where they grow from launch to launch. */
Test(join, sequence_numbers_of_imported_traces)
{
    struct hm_event ev[] = {op(HM_EV_NCCL_COLL, 110, HM_NCCL_ALLREDUCE, 0, 17, HM_NO_ID, 10, -1),
                            op(HM_EV_NCCL_COLL, 210, HM_NCCL_ALLREDUCE, 0, 19, HM_NO_ID, 10, -1),
                            op(HM_EV_NCCL_COLL, 310, HM_NCCL_ALLREDUCE, 0, 20, HM_NO_ID, 10, -1),
                            kernel(120, 50, 0, K_NCCL),
                            kernel(220, 50, 0, K_NCCL),
                            kernel(320, 50, 0, K_NCCL)};
    struct hm_event order[] = {ev[0], ev[3], ev[1], ev[4], ev[2], ev[5]};
    by_seq = 1;
    cr_assert_eq(JOIN(order), 3);
    cr_assert_eq(got[0].a.seq, 17);
    cr_assert_eq(got[1].a.seq, 19);
    cr_assert_eq(got[2].a.seq, 20);
    /* one number twice, or one missing: by order, as without any */
    order[2].u.op.call = 17;
    cr_assert_eq(JOIN(order), 3);
    cr_assert_eq(got[2].a.seq, 2);
    order[2].u.op.call = HM_NO_ID;
    cr_assert_eq(JOIN(order), 3);
    cr_assert_eq(got[0].a.seq, 0);
    /* what was recorded by the plugin counts from the communicator's birth: by order */
    by_seq = 0;
    order[2].u.op.call = 19;
    cr_assert_eq(JOIN(order), 3);
    cr_assert_eq(got[0].a.seq, 0);
}
