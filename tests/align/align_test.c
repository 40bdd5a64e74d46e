/* Clock alignment: intervals by hand, and simulated clocks whose truth is known.
 *
 * Expected values: hand calculation, and the injected offset, drift and delays.
 */
#include "align/align.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct hm_event probe(int64_t t1, int64_t t2, int64_t t3, int64_t t4, uint32_t window,
                             uint32_t peer)
{
    struct hm_event ev = {.t_ns = t1, .kind = HM_EV_CLOCK_PROBE};
    ev.u.probe.t2_ns = t2;
    ev.u.probe.t3_ns = t3;
    ev.u.probe.t4_ns = t4;
    ev.u.probe.window = window;
    ev.u.probe.peer = peer;
    return ev;
}

Test(align, edge_of_one_probe)
{
    /* peer is 4950 ahead; 10 there, 10 back: [5070 - 130, 5060 - 100], 1 ns for drift */
    struct hm_event p = probe(100, 5060, 5070, 130, 3, 7);
    struct hm_edge e[4];
    cr_assert_eq(hm_edges_from_probes(2, &p, 1, e, 4), 1);
    cr_assert_eq(e[0].a, 2);
    cr_assert_eq(e[0].b, 7);
    cr_assert_eq(e[0].window, 3);
    cr_assert_eq(e[0].lo_ns, 4939);
    cr_assert_eq(e[0].hi_ns, 4961);
    cr_assert_eq(e[0].x_ns, 115);
}

Test(align, edges_of_a_window_intersect)
{
    /* second probe is slow on the way back only: its upper end is as good as the first one's.
     * third: slow there, fast back: narrows nothing above, but below. */
    struct hm_event p[] = {probe(0, 1010, 1010, 40, 0, 1), probe(1000, 2012, 2012, 1500, 0, 1),
                           probe(3000, 4400, 4400, 3405, 0, 1),
                           probe(9000, 10005, 10005, 9500, 1, 1)};
    struct hm_edge e[4];
    cr_assert_eq(hm_edges_from_probes(0, p, 4, e, 4), 2);
    /* window 0: first probe [970, 1010]; third [995, 1400]: [995, 1010] within drift allowances */
    cr_assert(e[0].lo_ns >= 990 && e[0].lo_ns <= 995, "%ld", (long)e[0].lo_ns);
    cr_assert(e[0].hi_ns >= 1010 && e[0].hi_ns <= 1013, "%ld", (long)e[0].hi_ns);
    cr_assert_eq(e[1].window, 1);
    cr_assert_eq(hm_edges_from_probes(0, p, 4, e, 1), 1, "cap holds");
}

Test(align, bad_probes_are_ignored)
{
    struct hm_event p[] = {probe(100, 5000, 4000, 130, 0, 1), /* replies before it receives */
                           probe(100, 5000, 5001, 90, 0, 1),  /* answer before the question */
                           probe(100, 5000, 6000, 130, 0, 1), /* peer works longer than the trip */
                           probe(100, 5000, 5001, 130, 0, 1)};
    p[3].flags = HM_EVF_BAD_TIME;
    struct hm_edge e[4];
    cr_assert_eq(hm_edges_from_probes(0, p, 4, e, 4), 0);
}

/* Two ranks, one collective each way round: i [100, 150], j [160, 200] on their own clocks.
 * end_j >= start_i and end_i >= start_j leave the correction of j in [-100, -10]. */
Test(align, feasible_set_of_a_collective)
{
    struct hm_edge e = {.a = 0, .b = 1, .x_ns = 125, .lo_ns = 10, .hi_ns = 100};
    struct hm_align *al;
    cr_assert_eq(hm_align_fit(2, &e, 1, NULL, 0, &al), HM_OK);
    struct hm_timemap m = hm_align_domain(al, 1);
    int64_t correction = hm_timemap_apply(&m, 180) - 180;
    int64_t eps = hm_timemap_eps(&m, 180);
    cr_assert(correction >= -100 && correction <= -10, "%ld", (long)correction);
    cr_assert(eps >= 45 && eps <= 52, "%ld", (long)eps);
    cr_assert_eq(hm_align_pair_eps(al, 0, 0, 180), 0);
    cr_assert(hm_align_pair_eps(al, 0, 1, 125) >= 45);
    hm_align_free(al);
}

/* Intervals +-10 at x = 0 and x = 1000: every line through both lies within +-10 between them and
 * within +-30 at x = 2000 (from (0, -10) over (1000, 10) to (2000, 30)). */
Test(align, polygon_bound_by_hand)
{
    struct hm_edge e[] = {
        {.a = 0, .b = 1, .x_ns = 0, .lo_ns = -10, .hi_ns = 10},
        {.a = 0, .b = 1, .window = 1, .x_ns = 1000000, .lo_ns = -10, .hi_ns = 10}};
    struct hm_align *al;
    cr_assert_eq(hm_align_fit(2, e, 2, NULL, 0, &al), HM_OK);
    struct hm_timemap m = hm_align_domain(al, 1);
    int64_t at_mid = hm_timemap_eps(&m, 500000), at_end = hm_timemap_eps(&m, 1000000);
    int64_t outside = hm_timemap_eps(&m, 2000000), before = hm_timemap_eps(&m, -1000000);
    cr_assert(at_mid >= 10 && at_mid <= 16, "%ld", (long)at_mid);
    cr_assert(at_end >= 10 && at_end <= 16, "%ld", (long)at_end);
    cr_assert(outside >= 30 && outside <= 40, "%ld", (long)outside);
    cr_assert(before >= 30 && before <= 40, "%ld", (long)before);
    hm_align_free(al);
}

Test(align, errors_add_along_a_chain)
{
    struct hm_edge e[] = {{.a = 0, .b = 1, .x_ns = 0, .lo_ns = 90, .hi_ns = 110},
                          {.a = 2, .b = 1, .x_ns = 0, .lo_ns = -530, .hi_ns = -470}};
    struct hm_align *al;
    cr_assert_eq(hm_align_fit(4, e, 2, NULL, 0, &al), HM_OK);
    /* clock 1 = clock 0 + 100; clock 2 = clock 1 + 500 */
    struct hm_timemap m2 = hm_align_domain(al, 2), m3 = hm_align_domain(al, 3);
    cr_assert_eq(hm_timemap_apply(&m2, 1000), 400);
    int64_t eps = hm_timemap_eps(&m2, 0);
    cr_assert(eps >= 40 && eps <= 50, "%ld", (long)eps);
    struct hm_align_info info;
    hm_align_report(al, 3, &info);
    cr_assert_eq(info.reachable, 0);
    cr_assert_eq(m3.n, 0);
    cr_assert(hm_align_pair_eps(al, 0, 3, 0) > INT64_C(1000000000000));
    hm_align_report(al, 2, &info);
    cr_assert_eq(info.reachable, 1);
    hm_align_free(al);
}

Test(align, narrow_path_wins)
{
    struct hm_edge e[] = {{.a = 0, .b = 2, .x_ns = 0, .lo_ns = -1000, .hi_ns = 1200},
                          {.a = 0, .b = 1, .x_ns = 0, .lo_ns = -10, .hi_ns = 10},
                          {.a = 1, .b = 2, .x_ns = 0, .lo_ns = -10, .hi_ns = 10}};
    struct hm_align *al;
    cr_assert_eq(hm_align_fit(3, e, 3, NULL, 0, &al), HM_OK);
    struct hm_timemap m = hm_align_domain(al, 2);
    cr_assert(hm_timemap_eps(&m, 0) < 40);
    cr_assert(llabs(hm_timemap_apply(&m, 0)) <= 10);
    hm_align_free(al);
}

/* ---- simulated clocks ---- */

static uint64_t rng;
static double uniform(void)
{
    rng = rng * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(rng >> 11) / 9007199254740992.0;
}

struct clock_sim {
    int64_t offset;
    double drift;
};
static int64_t read_clock(const struct clock_sim *c, int64_t t)
{
    return t + c->offset + (int64_t)floorl((long double)t * (long double)c->drift);
}

struct sim {
    struct clock_sim clock[16];
    struct hm_event ev[16][1024];
    size_t n_ev[16];
    struct hm_edge edge[4096];
    size_t n_edges;
};

/* A window of probes from a to b: random delays, one way up to `asym_ns` longer. */
static void run_window(struct sim *s, uint32_t a, uint32_t b, uint32_t window, int64_t t,
                       int64_t asym_ns, int n_probes)
{
    for (int i = 0; i < n_probes; i++) {
        int64_t there = 1000 + (int64_t)(-3000 * log(1 - uniform())) + asym_ns;
        int64_t back = 1000 + (int64_t)(-3000 * log(1 - uniform()));
        int64_t hold = (int64_t)(500 * uniform());
        if (uniform() < 0.02)
            back += 1000000; /* preempted */
        s->ev[a][s->n_ev[a]++] =
            probe(read_clock(&s->clock[a], t), read_clock(&s->clock[b], t + there),
                  read_clock(&s->clock[b], t + there + hold),
                  read_clock(&s->clock[a], t + there + hold + back), window, b);
        t += there + hold + back + 2000;
    }
}

static void one_run(uint64_t seed, uint32_t n, uint32_t n_windows, int64_t *worst_eps,
                    double *worst_error)
{
    struct sim *s = calloc(1, sizeof(*s));
    rng = seed * 7919 + 17;
    const int64_t second = 1000000000;
    for (uint32_t d = 0; d < n; d++) {
        s->clock[d].offset = (int64_t)((uniform() - 0.5) * 1e10);
        s->clock[d].drift = (uniform() - 0.5) * 1e-4; /* +-50 ppm */
    }
    int64_t asym = uniform() < 0.5 ? (int64_t)(40000 * uniform()) : 0;
    for (uint32_t w = 0; w < n_windows; w++)
        for (uint32_t d = 1; d < n; d++) {
            int64_t t = (int64_t)w * 10 * second + (int64_t)(uniform() * 1e8);
            uint32_t peer = (d - 1) / 2; /* a tree, probed from either end */
            if (uniform() < 0.5)
                run_window(s, d, peer, w, t, asym, 8);
            else
                run_window(s, peer, d, w, t, asym, 8);
        }
    for (uint32_t d = 0; d < n; d++)
        s->n_edges +=
            hm_edges_from_probes(d, s->ev[d], s->n_ev[d], s->edge + s->n_edges, 4096 - s->n_edges);
    struct hm_align *al;
    cr_assert_eq(hm_align_fit(n, s->edge, s->n_edges, NULL, 0, &al), HM_OK);
    int64_t span = (int64_t)(n_windows - 1) * 10 * second + second;
    for (uint32_t d = 0; d < n; d++) {
        struct hm_timemap m = hm_align_domain(al, d);
        for (int k = -5; k <= 45; k++) { /* a little before, and after, the windows */
            int64_t t = span / 40 * k;
            int64_t x = read_clock(&s->clock[d], t), truth = read_clock(&s->clock[0], t);
            int64_t got = hm_timemap_apply(&m, x), eps = hm_timemap_eps(&m, x);
            cr_assert(llabs(got - truth) <= eps + 2,
                      "seed %lu domain %u t %ld: error %ld > bound %ld", (unsigned long)seed, d,
                      (long)t, (long)(got - truth), (long)eps);
            if (k >= 0 && k <= 40 && eps > *worst_eps)
                *worst_eps = eps;
            if (k >= 0 && k <= 40 && fabs((double)(got - truth)) > *worst_error)
                *worst_error = fabs((double)(got - truth));
        }
    }
    hm_align_free(al);
    free(s);
}

Test(align, bound_holds_the_truth)
{
    int64_t worst_eps = 0;
    double worst_error = 0;
    for (uint64_t seed = 1; seed <= 500; seed++)
        one_run(seed, 2 + (uint32_t)(seed % 7), 1 + (uint32_t)(seed % 7), &worst_eps, &worst_error);
    cr_log_info("500 runs: worst error %.0f ns, worst bound %ld ns", worst_error, (long)worst_eps);
}

Test(align, bound_is_useful)
{
    /* seven windows 10 s apart, delays of some us, no asymmetry beyond jitter on half the seeds:
     * depth 2 in the tree; a bound above 100 us would be useless, asymmetry is at most 40 us */
    int64_t worst_eps = 0;
    double worst_error = 0;
    for (uint64_t seed = 1000; seed < 1050; seed++)
        one_run(seed, 4, 7, &worst_eps, &worst_error);
    cr_assert(worst_eps < 100000, "%ld", (long)worst_eps);
    cr_assert(worst_error < 50000, "%g", worst_error);
}

/* A clock step between windows: no line fits, the bound opens between the pieces and closes after
 * them. */
Test(align, a_step_is_held_by_the_bound)
{
    struct hm_edge e[6];
    for (int i = 0; i < 6; i++) {
        int64_t off = i < 3 ? 1000 : 501000; /* +500 us between 2 s and 3 s */
        e[i] = (struct hm_edge){.a = 1,
                                .b = 0,
                                .window = (uint32_t)i,
                                .x_ns = i * 1000000000LL,
                                .lo_ns = off - 500,
                                .hi_ns = off + 500};
    }
    struct hm_align *al;
    cr_assert_eq(hm_align_fit(2, e, 6, NULL, 0, &al), HM_OK);
    struct hm_timemap m = hm_align_domain(al, 1);
    for (int64_t x = 0; x <= 5000000000LL; x += 50000000) {
        int64_t error_if_early = llabs(hm_timemap_apply(&m, x) - (x + 1000));
        int64_t error_if_late = llabs(hm_timemap_apply(&m, x) - (x + 501000));
        int64_t eps = hm_timemap_eps(&m, x);
        if (x < 3000000000LL)
            cr_assert(error_if_early <= eps, "x %ld: %ld > %ld", (long)x, (long)error_if_early,
                      (long)eps);
        if (x > 2000000000LL)
            cr_assert(error_if_late <= eps);
    }
    cr_assert(hm_timemap_eps(&m, 1000000000LL) < 2000);
    cr_assert(hm_timemap_eps(&m, 4000000000LL) < 2000);
    hm_align_free(al);
}

Test(align, collective_bounds_validate)
{
    struct hm_edge e = {.a = 0, .b = 1, .x_ns = 1000, .lo_ns = 95, .hi_ns = 105};
    struct hm_bound good = {.a = 0, .b = 1, .x_ns = 1000, .lo_ns = 20};
    struct hm_bound bad = {.a = 0, .b = 1, .x_ns = 1000, .lo_ns = 300};
    struct hm_align *al;
    struct hm_align_info info;
    cr_assert_eq(hm_align_fit(2, &e, 1, &good, 1, &al), HM_OK);
    hm_align_report(al, 1, &info);
    cr_assert_eq(info.n_outliers, 0);
    hm_align_free(al);
    cr_assert_eq(hm_align_fit(2, &e, 1, &bad, 1, &al), HM_OK);
    hm_align_report(al, 1, &info);
    cr_assert_eq(info.n_outliers, 1);
    hm_align_free(al);
}

Test(align, local_map_of_snapshots)
{
    /* REALTIME runs 10 ppm fast against RAW and is stepped by 1 ms before the last pair */
    int64_t x[] = {0, 1000000, 2000000}, y[] = {5000, 1005010, 3005020}, w[] = {20, 30, 40};
    struct hm_timeseg seg[4];
    size_t n = hm_align_local(x, y, w, 3, seg, 4);
    cr_assert_eq(n, 2);
    struct hm_timemap m = {seg, (uint32_t)n, 0};
    cr_assert_eq(hm_timemap_apply(&m, 0), 5000);
    cr_assert_eq(hm_timemap_apply(&m, 500000), 505005);
    cr_assert_eq(hm_timemap_apply(&m, 1000000), 1005010);
    cr_assert_eq(hm_timemap_apply(&m, 1500000), 2005015);
    cr_assert(hm_timemap_eps(&m, 500000) >= 30);
    cr_assert_eq(hm_align_local(x, y, w, 1, seg, 4), 1);
    cr_assert_eq(hm_align_local(x, y, w, 0, seg, 4), 0);
}
