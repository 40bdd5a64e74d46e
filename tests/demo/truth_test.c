/* The truth of small cases without noise, against times added up by hand.
 *
 * What the hand calculation knows of the model: microseconds of its kernels (forward 700, norm 200,
 * backward 1500, optimizer 900, 8 layers), of its collectives (bucket 2400, tp 150, p2p 120), of
 * the host (input 800, a launch 5 and 3 more until the kernel can start), 1 between two kernels of
 * a stream, 2 where one stream waits for another. The first kernel starts 932 after the step began:
 * 1 + 800 + 1, copy 5 + 3 + 120, 2; the step ends 12 after the optimizer.
 */
#include "demo/demo.h"
#include "demo/shape.h"

#include <criterion/criterion.h>
#include <stdlib.h>

static const int64_t US = 1000;

static struct hm_demo quiet(uint32_t n_ranks, uint32_t n_steps)
{
    return (struct hm_demo){.n_ranks = n_ranks, .n_steps = n_steps, .noise = HM_DEMO_NO_NOISE};
}

static struct hm_demo mesh1(uint32_t n_ranks, enum hm_demo_dim dim)
{
    struct hm_demo d = quiet(n_ranks, 11);
    d.n_dims = 1;
    d.dim[0] = (uint8_t)dim;
    d.size[0] = n_ranks;
    return d;
}

static void fault(struct hm_demo *d, enum hm_demo_kind kind, uint32_t rank, uint32_t step,
                  double value)
{
    d->fault[d->n_faults++] = (struct hm_demo_fault){kind, rank, step, value};
}

static struct hm_demo_truth truth(const struct hm_demo *d)
{
    struct hm_demo_truth t;
    cr_assert_eq(hm_demo_check(d), HM_OK);
    cr_assert_eq(hm_demo_truth(d, &t), HM_OK);
    return t;
}

Test(demo_truth, data_parallel_slow_gpu)
{
    /* Forward from 932: 8 x 900 and 15 gaps, until 8147. Backward: 8 x (1 + 1500), until 20155. The
     * last bucket from 20157 until 22557; optimizer 22559 to 23459; step 23471. */
    struct hm_demo d = quiet(4, 11);
    cr_assert_eq(truth(&d).total_ns, 10 * 23471 * US);
    /* All of that rank's kernels are on the way: 0.2 x (7200 + 12000 + 900). */
    fault(&d, HM_DEMO_SLOW_GPU, 2, 0, 1.2);
    struct hm_demo_truth t = truth(&d);
    cr_assert_eq(t.total_ns, 10 * 27491 * US);
    cr_assert_eq(t.repaired_ns, 10 * 23471 * US);
    cr_assert_eq(t.subject_gain_ns, 10 * 4020 * US);
    cr_assert_eq(t.quiet_ns, t.repaired_ns, "there is no noise");
}

Test(demo_truth, from_a_step_on)
{
    struct hm_demo d = quiet(2, 11);
    fault(&d, HM_DEMO_SLOW_INPUT, 1, 4, 3);
    cr_assert_eq(truth(&d).subject_gain_ns, 7 * 3000 * US, "steps 4 to 10");
    d.n_faults = 0;
    fault(&d, HM_DEMO_LATE_LAUNCH, 0, 0, 5);
    cr_assert_eq(truth(&d).subject_gain_ns, 10 * 5000 * US);
}

Test(demo_truth, more_work_is_shared_out)
{
    /* Matrix kernels alone: 8 x (700 + 1500). Repaired, four ranks have (1.4 + 3) / 4 = 1.1 each.
     */
    struct hm_demo d = quiet(4, 11);
    fault(&d, HM_DEMO_MORE_WORK, 3, 0, 1.4);
    struct hm_demo_truth t = truth(&d);
    cr_assert_eq(t.total_ns, 10 * (23471 + 7040 + 48) * US);
    cr_assert_eq(t.subject_gain_ns, 10 * (7088 - 1772) * US);
}

Test(demo_truth, two_slow_gpus_gain_only_together)
{
    struct hm_demo d = quiet(4, 11);
    struct hm_demo_answer a;
    uint32_t ids[4];
    fault(&d, HM_DEMO_SLOW_GPU, 3, 0, 1.2);
    fault(&d, HM_DEMO_SLOW_GPU, 2, 0, 1.2);
    struct hm_demo_truth t = truth(&d);
    cr_assert_eq(t.gain_ns[0], 0, "the other one holds them up all the same");
    cr_assert_eq(t.gain_ns[1], 0);
    cr_assert_eq(t.n_subject, 2);
    cr_assert_eq(t.subject_gain_ns, 10 * 4020 * US);
    hm_demo_answer(&d, &t, &a, ids, 4);
    cr_assert_str_eq(a.status, "straggler");
    cr_assert_str_eq(a.kind, "ranks");
    cr_assert_eq(a.n_ids, 2);
    cr_assert_eq(ids[0], 2);
    cr_assert_eq(ids[1], 3);
}

Test(demo_truth, tensor_parallel)
{
    /* A layer forward: 700 + 1 + 200 + 2 + 150 + 2; backward: 1500 + 2 + 150 + 2. From 932:
     * 8 x 1055 + 8 x 1654 until the optimizer at 22604; step 23516. */
    struct hm_demo d = mesh1(2, HM_DEMO_TP);
    cr_assert_eq(truth(&d).total_ns, 10 * 23516 * US);
    fault(&d, HM_DEMO_SLOW_GPU, 0, 0, 1.1);
    cr_assert_eq(truth(&d).subject_gain_ns, 10 * 2010 * US);
}

Test(demo_truth, pipeline)
{
    /* Two stages of 4 layers, 4 microbatches at half the durations. Forward of stage 0: embed 10,
     * 1, then 4 x 450 and 7 gaps: 1818; of stage 1: 1807, 1, head 20: 1828. Backward: 4 x 750 and 3
     * gaps. Stage 0 sends its first at 932 + 1818 + 2 = 2752, there at 2872. Stage 1 then takes
     * forward and backward one after another, 1828 + 1 + 3003 = 4832, four times, each with 2 + 120
     * + 2 of sending and receiving; stage 0 needs 10 less for the same. The last gradient is there
     * at 2872 + 4 x (2 + 4832 + 2 + 120) = 22696; stage 0: 2 + 3003 backward, 1 + 900 optimizer, 12
     * to the end. */
    struct hm_demo d = mesh1(2, HM_DEMO_PP);
    cr_assert_eq(truth(&d).total_ns, 10 * 26614 * US);
    /* 1.2 on the last stage: 0.2 x (1800 + 20 + 3000) in each of its four turns */
    fault(&d, HM_DEMO_SLOW_GPU, 1, 0, 1.2);
    cr_assert_eq(truth(&d).subject_gain_ns, 10 * 4 * 964 * US);
}

Test(demo_truth, routing)
{
    /* Four layers with experts, 800 forward and 1600 backward; rank 1 has 2, repaired all have
     * (2 + 3) / 4. */
    struct hm_demo d = mesh1(4, HM_DEMO_EP);
    fault(&d, HM_DEMO_ROUTING, 1, 0, 2);
    cr_assert_eq(truth(&d).subject_gain_ns, 10 * 4 * 1800 * US);
}

Test(demo_truth, checkpoint)
{
    /* Before the steps 10, 20 and 30 of 31; step 0 does not count. */
    struct hm_demo d = quiet(2, 31);
    fault(&d, HM_DEMO_CHECKPOINT, 0, 0, 40);
    cr_assert_eq(truth(&d).subject_gain_ns, 3 * 40000 * US);
}

Test(demo_truth, a_slow_link_lengthens_what_is_not_hidden)
{
    /* A bucket of 2640 still fits beside 3002 of backward; only the last one shows: 240. */
    struct hm_demo d = quiet(4, 11);
    fault(&d, HM_DEMO_SLOW_LINK, 1, 0, 1.1);
    cr_assert_eq(truth(&d).subject_gain_ns, 10 * 240 * US);
}

Test(demo_truth, what_cannot_be_seen_is_no_straggler)
{
    struct hm_demo d = quiet(4, 11);
    struct hm_demo_answer a;
    uint32_t ids[4];
    fault(&d, HM_DEMO_SLOW_NODE, 0, 0, 1.5); /* all four are on it */
    struct hm_demo_truth t = truth(&d);
    hm_demo_answer(&d, &t, &a, ids, 4);
    cr_assert_str_eq(a.status, "none");
    d.node_ranks = 2;
    hm_demo_answer(&d, &t, &a, ids, 4);
    cr_assert_str_eq(a.status, "straggler");
    cr_assert_str_eq(a.kind, "node");
    cr_assert_eq(a.n_ids, 2);
}

Test(demo_truth, mesh)
{
    /* dp=2,pp=3,tp=4: rank = 12 dp + 4 pp + tp */
    struct hm_demo d = {.n_ranks = 24,
                        .n_steps = 1,
                        .n_dims = 3,
                        .dim = {HM_DEMO_DP, HM_DEMO_PP, HM_DEMO_TP},
                        .size = {2, 3, 4}};
    struct hm_demo_shape s;
    uint32_t crank;
    hm_demo_shape(&d, &s);
    cr_assert_eq(hm_demo_coord(&s, 18, HM_DEMO_DP), 1);
    cr_assert_eq(hm_demo_coord(&s, 18, HM_DEMO_PP), 1);
    cr_assert_eq(hm_demo_coord(&s, 18, HM_DEMO_TP), 2);
    uint32_t tp = hm_demo_group(&s, HM_DEMO_C_TP, 18, &crank);
    cr_assert_eq(crank, 2);
    for (uint32_t k = 0; k < 4; k++)
        cr_assert_eq(hm_demo_member(&s, HM_DEMO_C_TP, 18, k), 16 + k);
    cr_assert_eq(hm_demo_group(&s, HM_DEMO_C_TP, 16, &crank), tp);
    cr_assert_neq(hm_demo_group(&s, HM_DEMO_C_TP, 15, &crank), tp);
    cr_assert_eq(hm_demo_member(&s, HM_DEMO_C_DP, 18, 0), 6);
    cr_assert_eq(hm_demo_member(&s, HM_DEMO_C_PP, 18, 2), 22);
}
