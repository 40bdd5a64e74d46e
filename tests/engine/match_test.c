/* Launches from arrivals: the worked examples as rows.
 *
 * Expected values: facts on analysis 2.1 (E1, E2) and hand calculation; times in us there, ns here.
 */
#include "analysis/match.h"

#include "analysis/causality.h"

#include <criterion/criterion.h>

enum { US = 1000 };

static struct hm_part part(uint32_t worker, uint8_t func, int64_t start_us, int64_t end_us)
{
    struct hm_part p = {.worker = worker, .i_segment = HM_NO_ID};
    p.a.comm = 7;
    p.a.start_ns = start_us * US;
    p.a.end_ns = end_us * US;
    p.a.func = func;
    p.a.source = HM_ARRIVAL_KERNEL;
    p.a.confidence = HM_JOIN_EXTERNAL;
    p.a.n_ops = 1;
    p.a.bytes = 4000000;
    return p;
}

static int64_t clock_error_us; /* between any two workers */
static int64_t error_of(void *ctx, uint32_t a, uint32_t b, int64_t t)
{
    (void)ctx, (void)a, (void)b, (void)t;
    return clock_error_us * US;
}
static uint32_t member_of(void *ctx, uint64_t comm, uint32_t crank)
{
    (void)ctx, (void)comm;
    return crank;
}

static size_t match(uint32_t n_ranks, uint32_t n_present, struct hm_part *p, size_t n, int last,
                    struct hm_launch *l, struct hm_match_stats *stats_p)
{
    struct hm_match_comm c = {7, n_ranks, n_present, NULL};
    struct hm_match_in in = {.comm = &c, .n_comms = 1, .error = error_of, .member = member_of};
    struct hm_match *m;
    cr_assert_eq(hm_match_create(&in, &m), HM_OK);
    size_t k = hm_match_window(m, p, n, last, l, n);
    if (stats_p)
        hm_match_stats(m, stats_p);
    hm_match_destroy(m);
    return k;
}

static void example_1(struct hm_part p[4])
{
    static const int64_t s[] = {100, 130, 180, 110}, e[] = {221, 220, 222, 220};
    for (uint32_t i = 0; i < 4; i++)
        p[i] = part(i, HM_NCCL_ALLREDUCE, s[i], e[i]);
}

Test(match, all_reduce_of_four)
{
    static const int64_t wait[] = {80, 50, 0, 70}, tail[] = {1, 0, 2, 0};
    struct hm_part p[4];
    struct hm_launch l[4];
    struct hm_match_stats stats;
    clock_error_us = 0;
    example_1(p);
    cr_assert_eq(match(4, 4, p, 4, 0, l, &stats), 1);
    cr_assert_eq(l->last_ns - l->first_ns, 80 * US, "skew");
    cr_assert_eq(l->last_worker, 2);
    cr_assert_eq(l->last_ns - l->second_ns, 50 * US, "margin");
    cr_assert_eq(l->end1_ns - l->last_ns, 40 * US, "core");
    cr_assert_eq(l->end2_ns - l->last_ns, 42 * US);
    cr_assert(l->flags & HM_LAUNCH_COMPLETE && l->flags & HM_LAUNCH_SYNCHRONOUS);
    cr_assert(!(l->flags & (HM_LAUNCH_TIE | HM_LAUNCH_VIOLATION)));
    for (int i = 0; i < 4; i++) {
        int64_t w = hm_wait_of(&p[i].a, &p[i].v);
        cr_assert_eq(w, wait[p[i].worker] * US);
        /* wait + core + tail = duration */
        cr_assert_eq(p[i].a.end_ns - p[i].v.end1_ns, tail[p[i].worker] * US);
        cr_assert_eq(w + (p[i].v.end1_ns - p[i].v.last_ns) + tail[p[i].worker] * US,
                     p[i].a.end_ns - p[i].a.start_ns);
        cr_assert_eq(!!(p[i].v.flags & HM_ANNOT_LATE), p[i].worker == 2);
        /* arrivals 100 110 130 180: the lower median is 110, rank 3 */
        cr_assert_eq(!!(p[i].v.flags & HM_ANNOT_REFERENCE), p[i].worker == 3);
    }
    cr_assert_eq(stats.n_complete, 1);
    cr_assert_eq(stats.n_violations, 0);
}

Test(match, nobody_is_named_below_the_clock_error)
{
    struct hm_part p[4];
    struct hm_launch l[4];
    clock_error_us = 60; /* above the margin of 50 */
    example_1(p);
    cr_assert_eq(match(4, 4, p, 4, 0, l, NULL), 1);
    cr_assert(l->flags & HM_LAUNCH_TIE);
    cr_assert_eq(l->last_worker, HM_NO_ID);
    cr_assert_eq(l->u_ns, 60 * US);
    for (int i = 0; i < 4; i++)
        cr_assert(p[i].v.flags & HM_ANNOT_TIE && !(p[i].v.flags & HM_ANNOT_LATE));
}

Test(match, broadcast_is_one_sided)
{
    /* root r0 at 100; r1 at 90 waits 10; r2 at 120 waits for nobody; the root ends before r2's end
     * and may: it is not a violation */
    struct hm_part p[] = {part(0, HM_NCCL_BROADCAST, 100, 110), part(1, HM_NCCL_BROADCAST, 90, 131),
                          part(2, HM_NCCL_BROADCAST, 120, 130)};
    struct hm_launch l[3];
    struct hm_match_stats stats;
    clock_error_us = 0;
    for (int i = 0; i < 3; i++)
        p[i].a.pair = 1; /* root 0: 1 + 0 (3 + 1) */
    cr_assert_eq(match(3, 3, p, 3, 0, l, &stats), 1);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(hm_wait_of(&p[i].a, &p[i].v), p[i].worker == 1 ? 10 * US : 0);
        cr_assert(p[i].v.flags & HM_ANNOT_ONE_SIDED);
    }
    cr_assert(!(l->flags & HM_LAUNCH_SYNCHRONOUS));
    cr_assert_eq(stats.n_violations, 0);
    cr_assert(l->flags & HM_LAUNCH_COMPLETE);
}

Test(match, reduce_makes_the_root_wait)
{
    /* root r1 starts at 50, senders at 40 and 90: the root waits 40 */
    struct hm_part p[] = {part(0, HM_NCCL_REDUCE, 40, 100), part(1, HM_NCCL_REDUCE, 50, 101),
                          part(2, HM_NCCL_REDUCE, 90, 99)};
    struct hm_launch l[3];
    clock_error_us = 0;
    for (int i = 0; i < 3; i++)
        p[i].a.pair = 1 + 1 * 4;
    cr_assert_eq(match(3, 3, p, 3, 0, l, NULL), 1);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(hm_wait_of(&p[i].a, &p[i].v), p[i].worker == 1 ? 40 * US : 0);
}

Test(match, receive_waits_for_its_send)
{
    /* posted 300 early, then 0.4 of transfer: the wait is the sender's */
    struct hm_part p[] = {part(0, HM_NCCL_SEND, 400, 405), part(1, HM_NCCL_RECV, 100, 405)};
    struct hm_launch l[2];
    struct hm_match_stats stats;
    clock_error_us = 0;
    p[0].a.pair = p[1].a.pair = 1 + 0 * 8 + 1; /* 0 -> 1 of 8 */
    cr_assert_eq(match(8, 8, p, 2, 0, l, &stats), 1);
    cr_assert_eq(l->n_present, 2);
    cr_assert(l->flags & HM_LAUNCH_COMPLETE, "two members are all of a pair");
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(hm_wait_of(&p[i].a, &p[i].v), p[i].worker == 1 ? 300 * US : 0);
        cr_assert(!(p[i].v.flags & HM_ANNOT_PARTIAL));
        cr_assert_eq(p[i].v.last_worker, 0);
    }
}

Test(match, missing_members_are_not_expected)
{
    /* four ranks, the file of one is missing */
    struct hm_part p[4];
    struct hm_launch l[4];
    clock_error_us = 0;
    example_1(p);
    cr_assert_eq(match(4, 3, p, 3, 0, l, NULL), 1);
    cr_assert_eq(l->n_present, 3);
    cr_assert_eq(l->n_members, 4);
    cr_assert(l->flags & HM_LAUNCH_COMPLETE);
    for (int i = 0; i < 3; i++)
        cr_assert(p[i].v.flags & HM_ANNOT_PARTIAL && p[i].v.flags & HM_ANNOT_MATCHED);
}

Test(match, incomplete_launches_wait_for_the_next_window)
{
    struct hm_part p[4];
    struct hm_launch l[4];
    struct hm_match_stats stats;
    clock_error_us = 0;
    example_1(p);
    cr_assert_eq(match(4, 4, p, 3, 0, l, &stats), 0);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(p[i].keep, 1);
    cr_assert_eq(match(4, 4, p, 3, 1, l, &stats), 1, "the end decides");
    cr_assert(!(l->flags & HM_LAUNCH_COMPLETE));
    cr_assert_eq(stats.n_complete, 0);
    cr_assert_eq(stats.n_launches, 1);
}

Test(match, given_up_after_64_later_ones)
{
    /* sequence 0 lacks rank 1 for ever; 1 to 66 are complete */
    struct hm_part p[1 + 2 * 66];
    struct hm_launch l[1 + 2 * 66];
    size_t n = 0;
    clock_error_us = 0;
    p[n++] = part(0, HM_NCCL_ALLREDUCE, 0, 5);
    for (uint32_t seq = 1; seq <= 66; seq++)
        for (uint32_t w = 0; w < 2; w++) {
            p[n] = part(w, HM_NCCL_ALLREDUCE, seq * 100, seq * 100 + 10);
            p[n++].a.seq = seq;
        }
    cr_assert_eq(match(2, 2, p, n, 0, l, NULL), 67);
    cr_assert_eq(l[0].seq, 0);
    cr_assert_eq(l[0].n_present, 1);
    for (uint32_t k = 1; k < 67; k++)
        cr_assert_eq(l[k].seq, k, "in order of the last start");
}

Test(match, violations_beyond_the_error)
{
    /* E17: i [100, 150], j [160, 200]: i ended 10 before j started */
    struct hm_part p[] = {part(0, HM_NCCL_ALLREDUCE, 100, 150),
                          part(1, HM_NCCL_ALLREDUCE, 160, 200)};
    struct hm_launch l[2];
    struct hm_match_stats stats;
    size_t early, late;
    cr_assert_eq(hm_causality_gap(p, 2, &early, &late), 10 * US);
    cr_assert_eq(p[early].worker, 0);
    cr_assert_eq(p[late].worker, 1);
    clock_error_us = 5;
    cr_assert_eq(match(2, 2, p, 2, 0, l, &stats), 1);
    cr_assert_eq(stats.n_violations, 1);
    cr_assert(l->flags & HM_LAUNCH_VIOLATION);
    clock_error_us = 20;
    cr_assert_eq(match(2, 2, p, 2, 0, l, &stats), 1);
    cr_assert_eq(stats.n_violations, 0, "within the error");
}

Test(match, clocks_never_compared_give_no_waits)
{
    struct hm_part p[4];
    struct hm_launch l[4];
    clock_error_us = INT64_C(1) << 50;
    example_1(p);
    cr_assert_eq(match(4, 4, p, 4, 0, l, NULL), 1);
    for (int i = 0; i < 4; i++)
        cr_assert_eq(hm_wait_of(&p[i].a, &p[i].v), 0);
    cr_assert(l->flags & HM_LAUNCH_TIE);
}

/* U14: r1 and r2 exchange nothing, so r1 is through before r2 comes; r0 needs both. */
Test(match, empty_pairs_of_an_all_to_all_bind_nothing)
{
    struct hm_part p[3] = {part(0, HM_NCCL_ALLTOALL, 110, 230), part(1, HM_NCCL_ALLTOALL, 100, 150),
                           part(2, HM_NCCL_ALLTOALL, 180, 230)};
    struct hm_launch l[3];
    struct hm_match_stats stats;
    clock_error_us = 0;
    p[1].v.flags = p[2].v.flags = HM_ANNOT_HOLES;
    cr_assert_eq(match(3, 3, p, 3, 0, l, &stats), 1);
    cr_assert_eq(stats.n_violations, 0);
    cr_assert_eq(l->last_worker, 2);
    static const int64_t wait[] = {70, 10, 0}, whom[] = {2, 0, 2};
    for (int i = 0; i < 3; i++) {
        cr_expect_eq(hm_wait_of(&p[i].a, &p[i].v), wait[i] * US, "worker %d", i);
        cr_expect_eq(p[i].v.last_worker, whom[i], "worker %d", i);
    }
}
