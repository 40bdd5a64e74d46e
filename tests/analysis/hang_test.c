/* Hangs and mismatches by hand: E15, E16 of the facts on analysis, and what must stay silent. */
#include "analysis/mismatch.h"

#include <criterion/criterion.h>
#include <string.h>

#define SEC INT64_C(1000000000)

/* A worker that called `called` collectives on comm, one every 0.1 s up to `last`, of which the
 * last `open` never ran. */
static struct hm_progress at(uint64_t comm, uint32_t worker, uint32_t members, uint32_t called,
                             uint32_t open, int64_t last)
{
    struct hm_progress p = {.comm = comm, .worker = worker, .n_members = members};
    for (uint32_t c = called > 20 ? called - 20 : 0; c < called; c++) {
        struct hm_event ev = {.kind = HM_EV_NCCL_CALL,
                              .t_ns = last - (int64_t)(called - 1 - c) * SEC / 10,
                              .aux = HM_NCCL_AUX(HM_NCCL_ALLREDUCE, HM_DTYPE_FLOAT32)};
        ev.u.op.call = c;
        ev.u.op.count = 1024;
        ev.u.op.peer = -1;
        hm_progress_event(&p, &ev);
    }
    p.n_open = open;
    p.open_ns = last - (open ? (int64_t)(open - 1) * SEC / 10 : 0);
    return p;
}

static int has(const uint32_t *v, size_t n, uint32_t x)
{
    for (size_t i = 0; i < n; i++)
        if (v[i] == x)
            return 1;
    return 0;
}

/* E15: comm A (0-3) enq/done: r0 57/56, r1 57/56, r2 56/56, r3 57/56; comm B (2,3): r2 12/11,
 * r3 11/11 -> A#57 missing r2; B#12 missing r3; 2 and 3 wait for each other. Indices here count
 * from 0, so that A#57 is index 56 and B#12 index 11. */
static size_t e15(struct hm_progress p[6], int with_b)
{
    p[0] = at(1, 0, 4, 57, 1, 100 * SEC);
    p[1] = at(1, 1, 4, 57, 1, 100 * SEC);
    p[2] = at(1, 2, 4, 56, 0, 99 * SEC);
    p[3] = at(1, 3, 4, 57, 1, 100 * SEC);
    p[4] = at(2, 2, 2, 12, 1, 99 * SEC + SEC / 2);
    p[5] = at(2, 3, 2, 11, 0, 98 * SEC);
    return with_b ? 6 : 4;
}

Test(hang, e15_two_communicators_in_another_order)
{
    struct hm_progress p[6];
    struct hm_alive alive[4];
    struct hm_hangs g;
    for (int w = 0; w < 4; w++)
        alive[w] = (struct hm_alive){200 * SEC, INT64_MIN, HM_NO_ID, HM_LEFT_STOPPED};
    cr_assert_eq(hm_hang_find(p, e15(p, 1), alive, 4, &g), HM_OK);
    cr_assert_eq(g.n, 2);
    const struct hm_hang *a = g.hang[0].comm == 1 ? &g.hang[0] : &g.hang[1];
    const struct hm_hang *b = g.hang[0].comm == 1 ? &g.hang[1] : &g.hang[0];
    cr_assert_eq(a->seq, 56);
    cr_assert_eq(a->n_waiting, 3);
    cr_assert_eq(a->n_missing, 1);
    cr_assert_eq(a->missing[0], 2);
    cr_assert_eq(a->age_ns, 100 * SEC);
    cr_assert_eq(a->sig.func, HM_NCCL_ALLREDUCE);
    cr_assert_eq(b->seq, 11);
    cr_assert_eq(b->n_missing, 1);
    cr_assert_eq(b->missing[0], 3);
    cr_assert_eq(g.n_roots, 0);
    cr_assert_eq(g.n_cycle, 2);
    cr_assert(has(g.cycle, g.n_cycle, 2) && has(g.cycle, g.n_cycle, 3));
    hm_hang_clear(&g);

    /* without B: rank 2 is stuck outside NCCL */
    cr_assert_eq(hm_hang_find(p, e15(p, 0), alive, 4, &g), HM_OK);
    cr_assert_eq(g.n, 1);
    cr_assert_eq(g.n_cycle, 0);
    cr_assert_eq(g.n_roots, 1);
    cr_assert_eq(g.root[0], 2);
    hm_hang_clear(&g);
}

/* A chain: 0 and 1 wait for 2 on A, 2 waits for 3 on B: only 3 is at fault. */
Test(hang, the_origin_not_the_messenger)
{
    struct hm_progress p[5] = {at(1, 0, 3, 10, 1, 100 * SEC), at(1, 1, 3, 10, 1, 100 * SEC),
                               at(1, 2, 3, 9, 0, 99 * SEC), at(2, 2, 2, 5, 1, 99 * SEC),
                               at(2, 3, 2, 4, 0, 98 * SEC)};
    struct hm_alive alive[4];
    struct hm_hangs g;
    for (int w = 0; w < 4; w++)
        alive[w] = (struct hm_alive){200 * SEC, INT64_MIN, HM_NO_ID, HM_LEFT_STOPPED};
    cr_assert_eq(hm_hang_find(p, 5, alive, 4, &g), HM_OK);
    cr_assert_eq(g.n, 2);
    cr_assert_eq(g.n_roots, 1);
    cr_assert_eq(g.root[0], 3);
    hm_hang_clear(&g);
}

static size_t find(struct hm_progress *p, size_t n, int64_t end, enum hm_left left,
                   struct hm_hangs *g)
{
    struct hm_alive alive[8];
    for (int w = 0; w < 8; w++)
        alive[w] = (struct hm_alive){end, INT64_MIN, HM_NO_ID, (uint8_t)left};
    cr_assert_eq(hm_hang_find(p, n, alive, 8, g), HM_OK);
    return g->n;
}

Test(hang, hosts_that_run_ahead_do_not_hide_who_is_in_flight)
{
    /* #100 is stuck on all; hosts called 101, 103 and 105: nobody is missing */
    struct hm_progress p[3] = {at(1, 0, 3, 101, 1, 100 * SEC), at(1, 1, 3, 103, 3, 100 * SEC),
                               at(1, 2, 3, 105, 5, 100 * SEC)};
    struct hm_hangs g;
    cr_assert_eq(find(p, 3, 200 * SEC, HM_LEFT_STOPPED, &g), 1);
    cr_assert_eq(g.hang[0].seq, 100);
    cr_assert_eq(g.hang[0].n_missing, 0);
    cr_assert_eq(g.hang[0].n_waiting, 3);
    cr_assert(g.hang[0].in_flight);
    cr_assert_eq(g.n_roots + g.n_cycle, 0);
    hm_hang_clear(&g);
}

Test(hang, an_ordinary_end_is_no_hang)
{
    struct hm_hangs g;
    /* ended in good order, all ran */
    struct hm_progress even[2] = {at(1, 0, 2, 50, 0, 100 * SEC), at(1, 1, 2, 50, 0, 100 * SEC)};
    cr_assert_eq(find(even, 2, 1000 * SEC, HM_LEFT_CLEAN, &g), 0);
    /* stopped in the middle of a step: open for 5 s, one is a call behind */
    struct hm_progress cut[2] = {at(1, 0, 2, 50, 1, 100 * SEC), at(1, 1, 2, 49, 0, 100 * SEC)};
    cr_assert_eq(find(cut, 2, 105 * SEC, HM_LEFT_STOPPED, &g), 0);
    /* all died at once */
    cr_assert_eq(find(cut, 2, 100 * SEC + SEC / 2, HM_LEFT_DIED, &g), 0);
    /* nothing of kernels is known and the end is clean: one called less (graphs, sampling) */
    struct hm_progress plain[2] = {at(1, 0, 2, 50, HM_NO_ID, 100 * SEC),
                                   at(1, 1, 2, 49, HM_NO_ID, 100 * SEC)};
    cr_assert_eq(find(plain, 2, 1000 * SEC, HM_LEFT_CLEAN, &g), 0);
    /* the same and stopped: it is missing */
    cr_assert_eq(find(plain, 2, 1000 * SEC, HM_LEFT_STOPPED, &g), 1);
    cr_assert_eq(g.hang[0].seq, 49);
    cr_assert_eq(g.hang[0].missing[0], 1);
    hm_hang_clear(&g);
}

/* Calls lie 10 s apart (a long step): 60 s are no hang yet, ten times the usual is needed, to the
 * next power of two: 171.8 s. */
Test(hang, patience_grows_with_what_is_usual)
{
    struct hm_hangs g;
    struct hm_progress p[2];
    for (uint32_t w = 0; w < 2; w++) {
        p[w] = (struct hm_progress){.comm = 1, .worker = w, .n_members = 2};
        for (uint32_t c = 0; c < 20 - w; c++) {
            struct hm_event ev = {.kind = HM_EV_NCCL_CALL, .t_ns = 10 * SEC * (c + 1)};
            ev.u.op.call = c;
            hm_progress_event(&p[w], &ev);
        }
        p[w].n_open = 1 - w;
        p[w].open_ns = 200 * SEC;
    }
    cr_assert_eq(find(p, 2, 260 * SEC, HM_LEFT_STOPPED, &g), 0);
    cr_assert_eq(find(p, 2, 400 * SEC, HM_LEFT_STOPPED, &g), 1);
    hm_hang_clear(&g);
}

/* A dead rank needs less patience, and its own last kernels need not have been recorded. */
Test(hang, a_dead_rank_is_found_before_the_launcher_acts)
{
    struct hm_progress p[3] = {at(1, 0, 3, 50, 1, 100 * SEC), at(1, 1, 3, 49, 2, 100 * SEC),
                               at(1, 2, 3, 50, 1, 100 * SEC)};
    struct hm_alive alive[3] = {{103 * SEC, INT64_MIN, HM_NO_ID, HM_LEFT_STOPPED},
                                {100 * SEC, INT64_MIN, HM_NO_ID, HM_LEFT_DIED},
                                {103 * SEC, INT64_MIN, HM_NO_ID, HM_LEFT_STOPPED}};
    struct hm_hangs g;
    cr_assert_eq(hm_hang_find(p, 3, alive, 3, &g), HM_OK);
    cr_assert_eq(g.n, 1);
    cr_assert_eq(g.hang[0].seq, 49);
    cr_assert_eq(g.n_roots, 1);
    cr_assert_eq(g.root[0], 1);
    cr_assert_eq(g.hang[0].age_ns, 3 * SEC);
    hm_hang_clear(&g);
}

Test(hang, hostile_calls)
{
    struct hm_progress p = {.comm = 1};
    struct hm_event ev = {.kind = HM_EV_NCCL_CALL, .t_ns = 5};
    ev.u.op.call = HM_NO_ID;
    hm_progress_event(&p, &ev);
    ev.u.op.call = 7 | HM_CALL_P2P;
    hm_progress_event(&p, &ev);
    ev.u.op.call = 7;
    ev.flags = HM_EVF_BAD_TIME;
    hm_progress_event(&p, &ev);
    cr_assert_eq(p.n_called, 0);
    ev.flags = 0;
    ev.t_ns = INT64_MAX;
    hm_progress_event(&p, &ev);
    ev.t_ns = INT64_MIN + 1; /* back in time */
    ev.u.op.call = 3;
    hm_progress_event(&p, &ev);
    cr_assert_eq(p.n_called, 8);
    struct hm_hangs g;
    struct hm_alive alive = {0, 0, HM_NO_ID, HM_LEFT_DIED};
    cr_assert_eq(hm_hang_find(&p, 1, &alive, 1, &g), HM_OK); /* one member: whatever it says */
    hm_hang_clear(&g);
    cr_assert_eq(hm_hang_find(NULL, 0, NULL, 0, &g), HM_OK);
    cr_assert_eq(g.n, 0);
}

/* --- mismatches --------------------------------------------------------------------------------
 */

static struct hm_sig sig(uint8_t func, uint64_t count)
{
    return (struct hm_sig){.count = count, .root = -1, .func = func, .dtype = HM_DTYPE_FLOAT32};
}

/* E16: r0, r1 AR f32 1024; r2 AR f32 1000; r3 AG f32 1024 -> majority AR/f32/1024; r2 count; r3
 * func. */
Test(mismatch, e16_signatures)
{
    struct hm_sig s[4] = {sig(HM_NCCL_ALLREDUCE, 1024), sig(HM_NCCL_ALLREDUCE, 1024),
                          sig(HM_NCCL_ALLREDUCE, 1000), sig(HM_NCCL_ALLGATHER, 1024)};
    uint8_t d[4];
    cr_assert_eq(hm_sig_vote(s, 4, d), 0);
    cr_assert_eq(d[0] | d[1], 0);
    cr_assert_eq(d[2], HM_SIG_COUNT);
    cr_assert_eq(d[3], HM_SIG_FUNC);
    /* two votes each: no majority */
    struct hm_sig t[4] = {s[0], s[2], s[0], s[2]};
    cr_assert_eq(hm_sig_vote(t, 4, d), SIZE_MAX);
    cr_assert_eq(d[0] | d[1] | d[2] | d[3], 0);
    /* counts of an all-to-all may differ, the root only counts where there is one */
    struct hm_sig u[2] = {sig(HM_NCCL_ALLTOALL, 10), sig(HM_NCCL_ALLTOALL, 20)};
    cr_assert_eq(hm_sig_vote(u, 2, d), 0);
    cr_assert_eq(d[1], 0);
    struct hm_sig b[3] = {sig(HM_NCCL_BROADCAST, 8), sig(HM_NCCL_BROADCAST, 8),
                          sig(HM_NCCL_BROADCAST, 8)};
    b[0].root = b[1].root = 0;
    b[2].root = 1;
    cr_assert_eq(hm_sig_vote(b, 3, d), 0);
    cr_assert_eq(d[2], HM_SIG_ROOT);
}

static struct hm_launch launch(uint32_t seq, const uint32_t *signature, uint32_t n,
                               struct hm_part *part)
{
    for (uint32_t i = 0; i < n; i++) {
        part[i] = (struct hm_part){.worker = i};
        part[i].a.signature = signature[i];
        part[i].a.func = HM_NCCL_ALLREDUCE;
        part[i].a.bytes = 4 * signature[i];
    }
    return (struct hm_launch){
        .comm = 9, .seq = seq, .n_present = n, .confidence = HM_JOIN_EXTERNAL};
}

/* Rank 2 leaves #57 out: what it calls as #57 is what the others call as #58. Rank 1 makes a call
 * more in the second run. */
Test(mismatch, shifts)
{
    static const uint32_t good[4] = {10, 10, 10, 10}, out57[4] = {20, 20, 30, 20},
                          out58[4] = {30, 30, 40, 30}, more57[4] = {20, 99, 20, 20},
                          more58[4] = {30, 20, 30, 30};
    struct hm_mismatches m = {0};
    struct hm_part part[4];
    struct hm_launch l = launch(56, good, 4, part);
    cr_assert_eq(hm_mismatch_launch(&m, &l, part), HM_OK);
    cr_assert_eq(m.n, 0);
    l = launch(57, out57, 4, part);
    cr_assert_eq(hm_mismatch_launch(&m, &l, part), HM_OK);
    l = launch(58, out58, 4, part);
    cr_assert_eq(hm_mismatch_launch(&m, &l, part), HM_OK);
    cr_assert_eq(m.n, 1);
    cr_assert_eq(m.n_launches, 2);
    cr_assert_eq(m.row[0].seq, 57);
    cr_assert_eq(m.row[0].majority, 0);
    cr_assert_eq(m.row[0].member[2].differs, HM_SIG_COUNT);
    cr_assert_eq(m.row[0].member[1].differs, 0);
    cr_assert_eq(hm_mismatch_shift(&m.row[0], 2), -1);
    cr_assert_eq(hm_mismatch_shift(&m.row[0], 1), 0);
    hm_mismatch_clear(&m);

    l = launch(57, more57, 4, part);
    cr_assert_eq(hm_mismatch_launch(&m, &l, part), HM_OK);
    l = launch(58, more58, 4, part);
    cr_assert_eq(hm_mismatch_launch(&m, &l, part), HM_OK);
    cr_assert_eq(hm_mismatch_shift(&m.row[0], 1), 1);
    hm_mismatch_clear(&m);
}

Test(mismatch, what_is_not_compared)
{
    static const uint32_t two[2] = {1, 2};
    struct hm_mismatches m = {0};
    struct hm_part part[2];
    struct hm_launch l = launch(0, two, 2, part);
    l.pair = 3; /* point to point */
    cr_assert_eq(hm_mismatch_launch(&m, &l, part), HM_OK);
    l.pair = 0;
    l.confidence = HM_JOIN_ORDER; /* matched by order: nothing is known */
    cr_assert_eq(hm_mismatch_launch(&m, &l, part), HM_OK);
    l.confidence = HM_JOIN_EXTERNAL;
    part[1].worker = 0; /* one worker twice: the key is not what it seems */
    cr_assert_eq(hm_mismatch_launch(&m, &l, part), HM_OK);
    cr_assert_eq(m.n, 0);
    part[1].worker = 1;
    cr_assert_eq(hm_mismatch_launch(&m, &l, part), HM_OK);
    cr_assert_eq(m.n, 1);
    cr_assert_eq(m.row[0].majority, HM_NO_ID); /* one vote each */
    hm_mismatch_clear(&m);
}
