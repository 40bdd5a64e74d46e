/* The verdict on modelled runs; every expected value is computed by hand from the model
 * (facts on scenarios U1, U2, U3, U5, U6, U17, U24, U26; facts on analysis E12). */
#include "model.h"

#include <criterion/criterion.h>
#include <string.h>

#define MS INT64_C(1000000)

static const struct hm_out_finding *first(const struct hm_result *r)
{
    return hm_result_row(r, HM_T_none, 0) ? NULL : hm_result_row(r, HM_T_finding, 0);
}
static const char *status(const struct hm_result *r)
{
    const struct hm_out_none *n = hm_result_row(r, HM_T_none, 0);
    const struct hm_out_finding *f = hm_result_row(r, HM_T_finding, 0);
    return n ? n->status : f ? f->status : "";
}

static int64_t u1(const struct model *m, uint32_t rank, uint32_t step, uint32_t bucket)
{
    (void)m;
    (void)step;
    (void)bucket;
    return rank == 5 ? 112 * MS : 100 * MS;
}

Test(verdict, u1_slow_gpu_gains_what_its_replay_says)
{
    struct model m = {.n_ranks = 8,
                      .n_steps = 40,
                      .n_buckets = 1,
                      .reduce_ns = 10 * MS,
                      .compute = u1,
                      .one_stream = 1};
    struct hm_result r;
    struct model_sums sums;
    model_run(&m, &r, &sums);
    cr_assert(sums.n_segments == 320 && !sums.n_bad_segments && !sums.n_bad_steps);
    const struct hm_out_finding *f = first(&r);
    cr_assert(f);
    cr_assert_str_eq(f->status, "straggler");
    cr_assert_str_eq(f->kind, "device");
    cr_assert_str_eq(f->ids, "5");
    cr_assert_str_eq(f->cause, "slow_gpu");
    cr_assert_str_eq(f->pattern, "persistent");
    /* 122 -> 110 in each of 40 steps; the first launch has no base and is left as it is */
    cr_assert_geq(f->gain_ns, 39 * 12 * MS);
    cr_assert_leq(f->gain_ns, 40 * 12 * MS);
    cr_assert_geq(f->gain_frac, 95000000);
    cr_assert_leq(f->gain_frac, 99000000);
    const struct hm_out_rank *q = hm_result_row(&r, HM_T_rank, 5);
    cr_assert_eq(q->last_arrivals, 40);
    cr_assert_eq(q->wait_ns, 0);
    q = hm_result_row(&r, HM_T_rank, 0);
    cr_assert_eq(q->wait_ns, 40 * 12 * MS);
    cr_assert_eq(q->transfer_ns, 40 * 10 * MS);
    hm_result_clear(&r);
}

static int64_t ddp_slow(const struct model *m, uint32_t rank, uint32_t step, uint32_t bucket)
{
    (void)m;
    (void)bucket;
    return rank == 2 && step >= m->seed ? 12 * MS : 10 * MS;
}

Test(verdict, overlapped_buckets_name_the_slow_gpu_and_the_step)
{
    /* 4 buckets of 10 ms, all-reduce 6 ms beside the next bucket: step 40 + 6 + 1, slow 48 + 6 + 1
     */
    struct model m = {.n_ranks = 4,
                      .n_steps = 40,
                      .n_buckets = 4,
                      .reduce_ns = 6 * MS,
                      .optimizer_ns = 1 * MS,
                      .compute = ddp_slow};
    struct hm_result r;
    struct model_sums sums;
    model_run(&m, &r, &sums);
    cr_assert(!sums.n_bad_segments && !sums.n_bad_steps);
    const struct hm_out_finding *f = first(&r);
    cr_assert(f);
    cr_assert_str_eq(f->ids, "2");
    cr_assert_str_eq(f->cause, "slow_gpu");
    cr_assert_geq(f->gain_ns, 39 * 8 * MS);
    cr_assert_leq(f->gain_ns, 40 * 8 * MS);
    hm_result_clear(&r);
    m.seed = 15;
    model_run(&m, &r, NULL);
    f = first(&r);
    cr_assert(f);
    cr_assert_str_eq(f->pattern, "from_step");
    cr_assert_eq(f->from_step, 15);
    cr_assert_str_eq(f->cause, "slow_gpu");
    cr_assert_eq(f->gain_ns, 25 * 8 * MS);
    hm_result_clear(&r);
}

static int64_t even(const struct model *m, uint32_t rank, uint32_t step, uint32_t bucket)
{
    (void)rank;
    (void)bucket;
    (void)step;
    return m->seed ? (int64_t)m->seed : 10 * MS;
}
static int64_t late_host(const struct model *m, uint32_t rank, uint32_t step, int *kind)
{
    (void)m;
    (void)step;
    *kind = m->exit_ns ? 1 : 0;
    return rank == 1 ? 8 * MS : 0;
}

Test(verdict, late_host_is_host_and_late_input_is_input)
{
    struct model m = {.n_ranks = 4,
                      .n_steps = 40,
                      .n_buckets = 2,
                      .reduce_ns = 3 * MS,
                      .optimizer_ns = MS,
                      .compute = even,
                      .host = late_host};
    struct hm_result r;
    for (int input = 0; input < 2; input++) {
        m.exit_ns = input; /* also: everybody leaves within ns */
        model_run(&m, &r, NULL);
        const struct hm_out_finding *f = first(&r);
        cr_assert(f);
        cr_assert_str_eq(f->status, "straggler");
        cr_assert_str_eq(f->kind, "rank");
        cr_assert_str_eq(f->ids, "1");
        cr_assert_str_eq(f->cause, input ? "input" : "host_cpu");
        cr_assert_geq(f->gain_ns, 39 * 8 * MS);
        cr_assert_leq(f->gain_ns, 40 * 8 * MS + MS);
        hm_result_clear(&r);
    }
}

static int64_t more(const struct model *m, uint32_t rank, uint32_t step, uint32_t bucket)
{
    (void)m;
    (void)step;
    return bucket == 0 && rank == 3 ? 19 * MS : 10 * MS;
}
static uint32_t more_grid(const struct model *m, uint32_t rank, uint32_t step, uint32_t bucket)
{
    (void)m;
    (void)step;
    return bucket == 0 ? (rank == 3 ? 19 : 10) : 5;
}

Test(verdict, u12_more_work_where_control_kernels_are_equal)
{
    struct model m = {.n_ranks = 8,
                      .n_steps = 40,
                      .n_buckets = 2,
                      .reduce_ns = MS,
                      .optimizer_ns = MS,
                      .compute = more,
                      .grid = more_grid};
    struct hm_result r;
    model_run(&m, &r, NULL);
    const struct hm_out_finding *f = first(&r);
    cr_assert(f);
    cr_assert_str_eq(f->ids, "3");
    cr_assert_str_eq(f->cause, "more_work");
    hm_result_clear(&r);
}

static int64_t u2(const struct model *m, uint32_t rank, uint32_t step, uint32_t bucket)
{
    (void)m;
    (void)step;
    (void)bucket;
    return rank == 2 ? 112 * MS : rank == 3 ? 110 * MS : 100 * MS;
}

Test(verdict, u2_two_slow_ranks_are_one_subject)
{
    struct model m = {.n_ranks = 4,
                      .n_steps = 40,
                      .n_buckets = 1,
                      .reduce_ns = 10 * MS,
                      .compute = u2,
                      .one_stream = 1};
    struct hm_result r;
    model_run(&m, &r, NULL);
    const struct hm_out_finding *f = first(&r);
    cr_assert(f);
    cr_assert_str_eq(f->kind, "ranks");
    cr_assert_str_eq(f->ids, "2,3");
    cr_assert_geq(f->gain_ns, 39 * 12 * MS);
    cr_assert_leq(f->gain_ns, 40 * 12 * MS);
    const struct hm_out_rank *q = hm_result_row(&r, HM_T_rank, 2);
    cr_assert_eq(q->gain_ns, 39 * 2 * MS);
    q = hm_result_row(&r, HM_T_rank, 3);
    cr_assert_eq(q->gain_ns, 0);
    hm_result_clear(&r);
}

static int64_t u3(const struct model *m, uint32_t rank, uint32_t step, uint32_t bucket)
{
    (void)bucket;
    return rank == step % m->n_ranks ? 120 * MS : 100 * MS;
}

Test(verdict, u3_rotating_imbalance_names_no_rank)
{
    struct model m = {.n_ranks = 8,
                      .n_steps = 40,
                      .n_buckets = 1,
                      .reduce_ns = 10 * MS,
                      .compute = u3,
                      .one_stream = 1};
    struct hm_result r;
    model_run(&m, &r, NULL);
    const struct hm_out_finding *f = first(&r);
    cr_assert(f);
    cr_assert_str_eq(f->status, "imbalance");
    cr_assert_str_eq(f->kind, "all");
    cr_assert_str_eq(f->pattern, "rotating");
    /* work is conserved: everybody gets the mean, (7 x 100 + 120) / 8 = 102.5: 17.5 of 130 */
    cr_assert_geq(f->gain_ns, 39 * 35 * MS / 2);
    cr_assert_leq(f->gain_ns, 40 * 35 * MS / 2);
    hm_result_clear(&r);
}

static int64_t u5(const struct model *m, uint32_t rank, uint32_t step, uint32_t bucket)
{
    (void)m;
    (void)step;
    (void)bucket;
    return rank == 7 ? 400030000 : 400000000;
}

Test(verdict, u5_always_last_but_by_nothing_is_none)
{
    struct model m = {.n_ranks = 8,
                      .n_steps = 200,
                      .n_buckets = 1,
                      .reduce_ns = 10 * MS,
                      .compute = u5,
                      .one_stream = 1,
                      .clock_error_ns = 2000};
    struct hm_result r;
    model_run(&m, &r, NULL);
    const struct hm_out_rank *q = hm_result_row(&r, HM_T_rank, 7);
    cr_assert_eq(q->last_arrivals, 200);
    cr_assert_str_eq(status(&r), "none");
    hm_result_clear(&r);
}

static int64_t u2_late3(const struct model *m, uint32_t rank, uint32_t step, uint32_t bucket)
{
    (void)m;
    (void)step;
    (void)bucket;
    return rank == 3 ? 120 * MS : 100 * MS;
}

Test(verdict, u6_a_shifted_clock_accuses_nobody)
{
    struct model m = {.n_ranks = 4,
                      .n_steps = 40,
                      .n_buckets = 1,
                      .reduce_ns = 1 * MS,
                      .compute = even,
                      .one_stream = 1,
                      .clock_ns = {0, 0, 800000, 800000},
                      .clock_error_ns = 1000};
    struct hm_result r;
    model_run(&m, &r, NULL);
    cr_assert_str_eq(status(&r), "none");
    const struct hm_out_quality *q = hm_result_row(&r, HM_T_quality, 0);
    cr_assert_eq(q->clock_suspect, 1);
    cr_assert_str_eq(q->grade, "limited");
    for (uint32_t i = 0; i < 4; i++) /* durations are equal: nobody waited, nobody was last */
    {
        const struct hm_out_rank *k = hm_result_row(&r, HM_T_rank, i);
        cr_assert_eq(k->wait_ns, 0);
        cr_assert_eq(k->last_arrivals, 0);
    }
    hm_result_clear(&r);
}

Test(verdict, clocks_never_compared_are_undecided_but_durations_speak)
{
    struct model m = {.n_ranks = 4,
                      .n_steps = 40,
                      .n_buckets = 1,
                      .reduce_ns = 10 * MS,
                      .compute = u2_late3,
                      .one_stream = 1,
                      .clock_ns = {0, 0, 9000 * MS, 9000 * MS},
                      .clock_error_ns = INT64_MAX / 4};
    struct hm_result r;
    model_run(&m, &r, NULL);
    cr_assert_str_eq(status(&r), "undecided");
    cr_assert_eq(r.n_rows[HM_T_finding], 1);
    const struct hm_out_finding *f = hm_result_row(&r, HM_T_finding, 0);
    cr_assert_str_eq(f->ids, "3");
    cr_assert_str_eq(f->cause, "slow_gpu");
    const struct hm_out_quality *q = hm_result_row(&r, HM_T_quality, 0);
    cr_assert(HM_IS_NONE(q->clock_error_ns));
    cr_assert_str_eq(q->grade, "limited");
    hm_result_clear(&r);
}

static int64_t u24(const struct model *m, uint32_t rank, uint32_t step, uint32_t bucket)
{
    (void)m;
    (void)bucket;
    return rank == 2 && step == 57 ? 45000 * MS : 400 * MS;
}

Test(verdict, u24_a_single_event_is_one_off)
{
    struct model m = {.n_ranks = 4,
                      .n_steps = 200,
                      .n_buckets = 1,
                      .reduce_ns = 10 * MS,
                      .compute = u24,
                      .one_stream = 1};
    struct hm_result r;
    model_run(&m, &r, NULL);
    const struct hm_out_finding *f = first(&r);
    cr_assert(f);
    cr_assert_str_eq(f->pattern, "one_off");
    cr_assert_eq(f->from_step, 57);
    cr_assert_eq(f->gain_ns, 44600 * MS);
    hm_result_clear(&r);
}

static int64_t u26(const struct model *m, uint32_t rank, uint32_t step, uint32_t bucket)
{
    (void)m;
    (void)bucket;
    return rank == 1 ? (step % 5 == 4 ? 388 : 430) * MS : 390 * MS;
}

Test(verdict, u26_paired_test_sees_what_votes_miss)
{
    struct model m = {.n_ranks = 2,
                      .n_steps = 20,
                      .n_buckets = 1,
                      .reduce_ns = 10 * MS,
                      .compute = u26,
                      .one_stream = 1};
    struct hm_result r;
    model_run(&m, &r, NULL);
    const struct hm_out_finding *f = first(&r);
    cr_assert(f);
    cr_assert_str_eq(f->status, "straggler");
    cr_assert_str_eq(f->ids, "1");
    hm_result_clear(&r);
}

/* U17: launches at 40 and 90, each step's compute 100, all-gather 40: T 130.003; with rank 1
 * launching at 40 the all-gather ends at 80.003 and the compute holds the step at 100: gain 30.003.
 */
static int64_t u17(const struct model *m, uint32_t rank, uint32_t step)
{
    (void)m;
    (void)step;
    return (rank ? 90 : 40) * MS;
}

Test(verdict, u17_late_launch_beside_compute_is_host_and_gains_up_to_the_compute)
{
    struct model m = {
        .n_ranks = 2, .n_steps = 40, .n_buckets = 1, .reduce_ns = 40 * MS, .side_launch = u17};
    struct hm_result r;
    struct model_sums sums;
    model_run(&m, &r, &sums);
    cr_assert(!sums.n_bad_segments && !sums.n_bad_steps);
    const struct hm_out_finding *f = first(&r);
    cr_assert(f);
    cr_assert_str_eq(f->ids, "1");
    cr_assert_str_eq(f->cause, "host_cpu");
    cr_assert_geq(f->gain_ns, 38 * 30003000);
    cr_assert_leq(f->gain_ns, 40 * 30003000 + 20 * MS, "%lld", (long long)f->gain_ns);
    hm_result_clear(&r);
}

/* E12: all 100 except r2 [130, 100, 160] and r1 120 in the second step; all-reduce 10. Four times
 * over: T = 4 x 440; without r2 350, without r1 420. The 30 of the very first step cannot be
 * repaired: its work began before the record. */
static int64_t e12(const struct model *m, uint32_t rank, uint32_t step, uint32_t bucket)
{
    static const int64_t r2[3] = {130, 100, 160};
    (void)m;
    (void)bucket;
    return (rank == 2 ? r2[step % 3] : rank == 1 && step % 3 == 1 ? 120 : 100) * MS;
}

Test(verdict, e12_gains_of_single_ranks_by_replay)
{
    struct model m = {.n_ranks = 4,
                      .n_steps = 12,
                      .n_buckets = 1,
                      .reduce_ns = 10 * MS,
                      .compute = e12,
                      .one_stream = 1};
    struct hm_result r;
    model_run(&m, &r, NULL);
    const struct hm_out_steps *s = hm_result_row(&r, HM_T_steps, 0);
    cr_assert_eq(s->total_ns, 4 * 440 * MS);
    const struct hm_out_rank *q = hm_result_row(&r, HM_T_rank, 2);
    cr_assert_eq(q->gain_ns, (4 * (440 - 350) - 30) * MS);
    q = hm_result_row(&r, HM_T_rank, 1);
    cr_assert_eq(q->gain_ns, 4 * (440 - 420) * MS);
    q = hm_result_row(&r, HM_T_rank, 0);
    cr_assert_eq(q->gain_ns, 0);
    hm_result_clear(&r);
}

/* E7: r0 computes 60, r1 30; G1 = {0, 1} ends at 65, r1 waited 30; r1 computes 10 and meets r2 (45)
 * in G2 = {1, 2} at 75, r2 waits 30. Both waits are r0's: 30 directly, 30 through r1. */
Test(verdict, e7_wait_is_handed_to_its_origin)
{
    struct hm_rank_info info[3] = {
        {.rank = 0, .host = "h"}, {.rank = 1, .host = "h"}, {.rank = 2, .host = "h"}};
    struct hm_worker worker[3] = {{0, 0}, {1, 0}, {2, 0}};
    struct hm_run run = {
        .path = "e7", .n_ranks = 3, .n_present = 3, .n_workers = 3, .rank = info, .worker = worker};
    struct hm_judge_in in = {
        .run = &run, .n_launches_seen = 2, .n_launches_matched = 2, .step_source = "marks"};
    struct hm_part p[4] = {{.a = {.comm = 1, .start_ns = 60, .end_ns = 65},
                            .worker = 0,
                            .i_arrival = 0,
                            .i_segment = 0},
                           {.a = {.comm = 1, .start_ns = 30, .end_ns = 65},
                            .worker = 1,
                            .i_arrival = 0,
                            .i_segment = 1},
                           {.a = {.comm = 2, .start_ns = 75, .end_ns = 80},
                            .worker = 1,
                            .i_arrival = 1,
                            .i_segment = 2},
                           {.a = {.comm = 2, .start_ns = 45, .end_ns = 80},
                            .worker = 2,
                            .i_arrival = 0,
                            .i_segment = 3}};
    for (int i = 0; i < 4; i++) {
        p[i].v.flags = HM_ANNOT_MATCHED;
        p[i].v.last_ns = i < 2 ? 60 : 75;
        p[i].v.last_worker = i < 2 ? 0 : 1;
    }
    /* r1 rests on G1 (its end, 65) before G2; the others began at 0 */
    struct hm_segment s[4] = {
        {.compute_ns = 60, .ready_ns = 60, .base = HM_NO_ID, .before = HM_NO_ID},
        {.compute_ns = 30, .ready_ns = 30, .base = HM_NO_ID, .before = HM_NO_ID},
        {.carry_ns = 65, .compute_ns = 10, .ready_ns = 75, .base = 0, .before = HM_NO_ID},
        {.compute_ns = 45, .ready_ns = 45, .base = HM_NO_ID, .before = HM_NO_ID}};
    struct hm_launch l[2] = {{.comm = 1,
                              .first_ns = 30,
                              .last_ns = 60,
                              .second_ns = 30,
                              .end1_ns = 65,
                              .end2_ns = 65,
                              .i_part = 0,
                              .n_present = 2,
                              .n_members = 2,
                              .last_worker = 0,
                              .func = HM_NCCL_ALLREDUCE,
                              .flags = HM_LAUNCH_COMPLETE | HM_LAUNCH_SYNCHRONOUS},
                             {.comm = 2,
                              .first_ns = 45,
                              .last_ns = 75,
                              .second_ns = 45,
                              .end1_ns = 80,
                              .end2_ns = 80,
                              .i_part = 2,
                              .n_present = 2,
                              .n_members = 2,
                              .last_worker = 1,
                              .func = HM_NCCL_ALLREDUCE,
                              .flags = HM_LAUNCH_COMPLETE | HM_LAUNCH_SYNCHRONOUS}};
    struct hm_window w = {
        .launch = l, .part = p, .segment = s, .n_launches = 2, .n_parts = 4, .n_segments = 4};
    struct hm_step_part step = {.t0_ns = 0, .t1_ns = 80, .compute_ns = 80};
    struct hm_judge *judge;
    struct hm_result r;
    cr_assert_eq(hm_judge_create(&in, &judge), HM_OK);
    cr_assert_eq(hm_judge_window(judge, &w), HM_OK);
    for (uint32_t i = 0; i < 3; i++)
        cr_assert_eq(hm_judge_steps(judge, &step, &i, 1), HM_OK);
    cr_assert_eq(hm_judge_result(judge, &r), HM_OK);
    hm_judge_destroy(judge);
    static const int64_t direct[3] = {30, 0, 0}, indirect[3] = {30, 0, 0};
    for (uint32_t i = 0; i < 3; i++) {
        const struct hm_out_rank *q = hm_result_row(&r, HM_T_rank, i);
        cr_assert_eq(q->wait_caused_ns, direct[i], "rank %u direct %d", i, (int)q->wait_caused_ns);
        cr_assert_eq(q->wait_caused_indirect_ns, indirect[i], "rank %u", i);
    }
    hm_result_clear(&r);
}

static int64_t noise(const struct model *m, uint32_t rank, uint32_t step, uint32_t bucket)
{
    uint64_t x = m->seed + rank * UINT64_C(7919) + step * UINT64_C(104729) + bucket * 31u;
    x ^= x >> 33;
    x *= UINT64_C(0xff51afd7ed558ccd);
    x ^= x >> 33;
    x *= UINT64_C(0xc4ceb9fe1a85ec53);
    x ^= x >> 33;
    return 10 * MS + (int64_t)(x % 400000); /* up to 4 % */
}

Test(verdict, noise_accuses_nobody_and_everything_sums)
{
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct model m = {.n_ranks = 2 + (uint32_t)(seed % 7),
                          .n_steps = 8 + (uint32_t)(seed % 5) * 11,
                          .n_buckets = 1 + (uint32_t)(seed % 4),
                          .reduce_ns = 2 * MS + (int64_t)seed * 100000,
                          .optimizer_ns = seed % 2 ? MS : 0,
                          .one_stream = seed % 3 == 0,
                          .compute = noise,
                          .exit_ns = (int64_t)(seed % 3) * 700,
                          .seed = seed * 1000003};
        struct hm_result r;
        struct model_sums sums;
        model_run(&m, &r, &sums);
        cr_assert_eq(sums.n_segments, (uint64_t)m.n_ranks * m.n_steps * m.n_buckets);
        cr_assert_eq(sums.n_bad_segments, 0, "seed %d", (int)seed);
        cr_assert_eq(sums.n_bad_steps, 0, "seed %d", (int)seed);
        cr_assert_str_eq(status(&r), "none", "seed %d: %s", (int)seed, status(&r));
        int64_t sum = 0, window = 0;
        for (uint32_t i = 0; i < r.n_rows[HM_T_ledger]; i++)
            sum += ((const struct hm_out_ledger *)hm_result_row(&r, HM_T_ledger, i))->ns;
        for (uint32_t i = 0; i < r.n_rows[HM_T_rank]; i++) {
            const struct hm_out_rank *q = hm_result_row(&r, HM_T_rank, i);
            cr_assert_eq(q->compute_ns + q->exposed_comm_ns + q->memcpy_ns + q->idle_ns,
                         q->window_ns);
            window += q->window_ns;
        }
        cr_assert_eq(sum, window / m.n_ranks);
        const struct hm_out_quality *q = hm_result_row(&r, HM_T_quality, 0);
        cr_assert_eq(q->replay_error_ppb, 0);
        hm_result_clear(&r);
    }
}

static int64_t entry(const struct hm_result *r, const char *kind)
{
    for (uint32_t i = 0; i < r->n_rows[HM_T_ledger]; i++) {
        const struct hm_out_ledger *l = hm_result_row(r, HM_T_ledger, i);
        if (!strcmp(l->kind, kind))
            return l->ns;
    }
    return 0;
}

/* U1: 8 ranks, r5 112, the others 100, all-reduce 10. Of 122 in a step 100 are compute, 10 transfer
 * and 12 the straggler's; those of the first step began before the record and stay what they are:
 * waiting, 12 x 7 / 8, and compute, 12 / 8. */
Test(verdict, ledger_of_u1)
{
    struct model m = {.n_ranks = 8,
                      .n_steps = 40,
                      .n_buckets = 1,
                      .reduce_ns = 10 * MS,
                      .compute = u1,
                      .one_stream = 1};
    struct hm_result r;
    model_run(&m, &r, NULL);
    cr_assert_eq(entry(&r, "straggler"), 39 * 12 * MS);
    cr_assert_eq(entry(&r, "transfer"), 400 * MS);
    cr_assert_eq(entry(&r, "compute"), 4000 * MS + 12 * MS / 8);
    cr_assert_eq(entry(&r, "wait"), 12 * MS * 7 / 8);
    int64_t sum = 0;
    for (uint32_t i = 0; i < r.n_rows[HM_T_ledger]; i++)
        sum += ((const struct hm_out_ledger *)hm_result_row(&r, HM_T_ledger, i))->ns;
    cr_assert_eq(sum, 40 * 122 * MS);
    hm_result_clear(&r);
}

/* U24: 44600 once in 200 steps of 410. */
Test(verdict, ledger_of_u24)
{
    struct model m = {.n_ranks = 4,
                      .n_steps = 200,
                      .n_buckets = 1,
                      .reduce_ns = 10 * MS,
                      .compute = u24,
                      .one_stream = 1};
    struct hm_result r;
    model_run(&m, &r, NULL);
    cr_assert_eq(entry(&r, "one_off"), 44600 * MS);
    cr_assert_eq(entry(&r, "straggler"), 0);
    cr_assert_eq(entry(&r, "compute"), 200 * 400 * MS);
    cr_assert_eq(entry(&r, "transfer"), 200 * 10 * MS);
    hm_result_clear(&r);
}

/* Healthy ranks of many kinds: alike, with rare hiccups of some, with a slow wave over the steps of
 * all, in pairs. Nobody may be accused; seeds are fixed, so that the count is. */
static int64_t healthy(const struct model *m, uint32_t rank, uint32_t step, uint32_t bucket)
{
    uint64_t r = (uint64_t)(noise(m, rank, step, bucket) - 10 * MS); /* 0 to 400000 */
    int64_t t = 10 * MS + (int64_t)r / 2;
    switch (m->seed % 4) {
    case 0:
        return t;
    case 1:
        return t + (r % 97 == 0 ? MS : 0);
    case 2:
        return t + (int64_t)(step % 20) * 20000;
    default: /* every rank has slower and faster times */
        return t + (int64_t)((noise(m, rank, step / 8, 99) - 10 * MS) / 4);
    }
}

Test(verdict, two_hundred_healthy_runs_accuse_nobody, .timeout = 120)
{
    int accused = 0;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct model m = {.n_ranks = 2 + (uint32_t)(seed % 7),
                          .n_steps = 10 + (uint32_t)(seed % 6) * 15,
                          .n_buckets = 1 + (uint32_t)(seed % 2),
                          .reduce_ns = 2 * MS,
                          .one_stream = seed % 3 == 0,
                          .compute = healthy,
                          .seed = seed};
        struct hm_result r;
        model_run(&m, &r, NULL);
        for (uint32_t i = 0; i < r.n_rows[HM_T_finding]; i++) {
            const struct hm_out_finding *f = hm_result_row(&r, HM_T_finding, i);
            accused += f->ids && f->ids[0];
        }
        hm_result_clear(&r);
    }
    cr_assert_eq(accused, 0, "%d accused", accused);
}

Test(verdict, few_steps_are_insufficient)
{
    struct model m = {.n_ranks = 8,
                      .n_steps = 7,
                      .n_buckets = 1,
                      .reduce_ns = 10 * MS,
                      .compute = u1,
                      .one_stream = 1};
    struct hm_result r;
    model_run(&m, &r, NULL);
    cr_assert_str_eq(status(&r), "insufficient");
    hm_result_clear(&r);
    m.n_steps = 12; /* enough to accuse, not enough to call it persistent */
    model_run(&m, &r, NULL);
    const struct hm_out_finding *f = first(&r);
    cr_assert(f);
    cr_assert_null(f->pattern);
    cr_assert_str_eq(f->confidence, "likely");
    hm_result_clear(&r);
}

/* Every step ends when the all-reduce does, 10 after rank 2 came, which computed 120 since the one
 * before: all of the path but the transfers is its. */
static int64_t slow_2(const struct model *m, uint32_t rank, uint32_t step, uint32_t bucket)
{
    (void)m, (void)step, (void)bucket;
    return rank == 2 ? 120 * MS : 100 * MS;
}

Test(verdict, critical_path_is_that_of_the_last)
{
    struct model m = {.n_ranks = 4,
                      .n_steps = 20,
                      .n_buckets = 1,
                      .reduce_ns = 10 * MS,
                      .compute = slow_2,
                      .one_stream = 1};
    struct hm_result r;
    model_run(&m, &r, NULL);
    for (uint32_t w = 0; w < 4; w++) {
        const struct hm_out_rank *q = hm_result_row(&r, HM_T_rank, w);
        if (w != 2)
            cr_expect_eq(q->critical_ns, 0, "rank %u", w);
        else /* the host is ahead but in the first step, which it begins */
            cr_expect(q->critical_ns >= 19 * 120 * MS && q->critical_ns <= 20 * 121 * MS, "%lld",
                      (long long)q->critical_ns);
    }
    hm_result_clear(&r);
}
