/* Patterns and chance on series whose answer is plain to see or computed by hand. */
#include "analysis/verdict_inside.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX = 4000 };
static int64_t x[MAX];
static uint32_t number[MAX];

static struct hm_pattern_found pattern(size_t n)
{
    struct hm_pattern_found f;
    for (uint32_t i = 0; i < n; i++)
        number[i] = i + 1; /* the first step of a job is warm-up */
    hm_pattern_of(x, number, n, &f);
    return f;
}
static uint64_t state;
static uint64_t random_u64(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

Test(pattern, always_is_persistent)
{
    for (size_t n = 8; n <= 200; n += 64) {
        for (size_t i = 0; i < n; i++)
            x[i] = 12;
        cr_assert_eq(pattern(n).kind, HM_P_PERSISTENT, "%zu", n);
    }
    for (size_t i = 0; i < 20; i++) /* U26: not in every fifth step */
        x[i] = i % 5 == 4 ? 0 : 40;
    cr_assert_eq(pattern(20).kind, HM_P_PERSISTENT);
    state = 7;
    for (size_t i = 0; i < 100; i++) /* U22: in 30 % of the steps, anywhere */
        x[i] = random_u64() % 10 < 3 ? 120 : 0;
    cr_assert_eq(pattern(100).kind, HM_P_PERSISTENT);
}

Test(pattern, from_a_step_on_with_and_without_noise)
{
    for (uint32_t n = 20; n <= 2000; n *= 10)
        for (uint32_t at = n < 1000 ? 5 : n / 20; at + 5 <= n; at += n / 4) {
            state = n + at;
            for (uint32_t i = 0; i < n; i++)
                x[i] = (i >= at ? 1000 : 0) + (int64_t)(random_u64() % 100);
            struct hm_pattern_found f = pattern(n);
            cr_assert_eq(f.kind, HM_P_FROM_STEP, "n %u at %u: %d", n, at, (int)f.kind);
            cr_assert_eq(f.first, at);
            cr_assert_eq(f.last, n - 1);
        }
}

Test(pattern, an_episode_has_two_ends)
{
    for (uint32_t i = 0; i < 60; i++)
        x[i] = i >= 20 && i < 31 ? 50 : 1;
    struct hm_pattern_found f = pattern(60);
    cr_assert_eq(f.kind, HM_P_EPISODE);
    cr_assert_eq(f.first, 20);
    cr_assert_eq(f.last, 30);
    for (uint32_t i = 0; i < 60; i++) /* until a step */
        x[i] = i < 25 ? 50 : 1;
    f = pattern(60);
    cr_assert_eq(f.kind, HM_P_EPISODE);
    cr_assert_eq(f.first, 0);
    cr_assert_eq(f.last, 24);
}

Test(pattern, a_period_has_a_length_and_a_phase)
{
    static const struct {
        uint32_t n, period, phase;
    } run[] = {{64, 8, 3}, {400, 100, 0}, {40, 5, 4}, {30, 2, 1}, {4000, 500, 17}};
    for (size_t k = 0; k < sizeof(run) / sizeof(run[0]); k++) {
        for (uint32_t i = 0; i < run[k].n; i++) /* a background as well */
            x[i] = 1 + ((i + 1) % run[k].period == run[k].phase ? 4000 : 0);
        struct hm_pattern_found f = pattern(run[k].n);
        cr_assert_eq(f.kind, HM_P_PERIODIC, "%zu: %d", k, (int)f.kind);
        cr_assert_eq(f.period, run[k].period, "%zu: %u", k, f.period);
        cr_assert_eq(f.phase, run[k].phase);
    }
    memset(x, 0, sizeof(x)); /* irregular: at 3, 14, 30, 33, 50, 58 */
    x[3] = x[14] = x[30] = x[33] = x[50] = x[58] = 100;
    cr_assert_neq(pattern(64).kind, HM_P_PERIODIC);
    memset(x, 0, sizeof(x)); /* two make no period */
    x[10] = x[30] = 100;
    cr_assert_neq(pattern(64).kind, HM_P_PERIODIC);
}

Test(pattern, noise_has_no_place_in_time)
{
    int odd = 0;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        state = seed * UINT64_C(0x9e3779b97f4a7c15);
        for (uint32_t i = 0; i < 60; i++)
            x[i] = (int64_t)(random_u64() % 1000);
        odd += pattern(60).kind != HM_P_PERSISTENT;
    }
    cr_assert_eq(odd, 0, "%d of 300", odd);
}

Test(pattern, nothing_and_too_little)
{
    memset(x, 0, sizeof(x));
    cr_assert_eq(pattern(60).kind, HM_P_NONE);
    cr_assert_eq(pattern(0).kind, HM_P_NONE);
    for (uint32_t i = 0; i < 7; i++)
        x[i] = 5;
    cr_assert_eq(pattern(7).kind, HM_P_NONE);
    for (uint32_t i = 0; i < 60; i++)
        x[i] = INT64_MAX / 100;
    cr_assert_eq(pattern(60).kind, HM_P_PERSISTENT);
}

Test(pattern, events_come_once)
{
    uint32_t event[200];
    for (uint32_t i = 0; i < 200; i++)
        x[i] = 10 + i % 3;
    x[57] = 45000;
    cr_assert_eq(hm_pattern_events(x, 200, 100, event), 1);
    for (uint32_t i = 0; i < 200; i++)
        cr_assert_eq(event[i], i == 57);
    x[58] = 4000; /* across a boundary: the same event */
    cr_assert_eq(hm_pattern_events(x, 200, 100, event), 1);
    cr_assert_eq(event[58], 1);
    x[59] = 4000; /* three steps are an episode */
    cr_assert_eq(hm_pattern_events(x, 200, 100, event), 0);
    x[58] = x[59] = 11;
    for (uint32_t i = 0; i < 5; i++) /* five more in 200 steps come again and again */
        x[20 * i] = 45000;
    cr_assert_eq(hm_pattern_events(x, 200, 100, event), 0);
    cr_assert_eq(hm_pattern_events(x, 200, 100000, event), 0);
}

/* All of eight votes of eight ranks: the bound is exact there, 8^-8. Nine of twenty: the exact tail
 * is 3.4e-4 (facts on analysis, E11), the bound exp(-20 KL(9/20, 1/8)) = 1.6e-3. */
Test(chance, votes)
{
    double weight[20];
    uint8_t mine[20];
    for (int i = 0; i < 20; i++)
        weight[i] = 3;
    memset(mine, 1, sizeof(mine));
    double p = hm_chance_votes(weight, mine, 8, 8);
    cr_assert_float_eq(p / pow(8, -8), 1, 1e-3, "%g", p);
    memset(mine, 0, sizeof(mine));
    memset(mine, 1, 9);
    p = hm_chance_votes(weight, mine, 20, 8);
    double kl = 0.45 * log(0.45 / 0.125) + 0.55 * log(0.55 / 0.875);
    cr_assert_float_eq(p, exp(-20 * kl), 1e-6, "%g", p);
    cr_assert(p > 3.4e-4);
    memset(mine, 0, sizeof(mine));
    memset(mine, 1, 2); /* fewer than its share */
    cr_assert_eq(hm_chance_votes(weight, mine, 20, 8), 1);
}

/* Eight positive differences: the exact one-sided p is 1/256; W = 36, mean 18, variance 51:
 * z = 17.5 / 7.1414. */
Test(chance, signed_rank)
{
    double d[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    cr_assert_float_eq(hm_chance_signed_rank(d, 8), 0.5 * erfc(17.5 / sqrt(51) / sqrt(2)), 1e-12);
    for (int i = 0; i < 8; i++)
        d[i] = i % 2 ? d[i] : -d[i];
    cr_assert(hm_chance_signed_rank(d, 8) > 0.2);
    cr_assert_eq(hm_chance_signed_rank(d, 4), 1);
}

Test(chance, a_gain_that_may_be_nothing_is_not_sure)
{
    double gain[40];
    for (int i = 0; i < 40; i++)
        gain[i] = i % 2 ? 1.0 : -0.2;
    cr_assert(hm_chance_is_sure(gain, 40));
    for (int i = 0; i < 40; i++)
        gain[i] = i == 7 ? 50 : -1; /* all of it in one step */
    cr_assert(!hm_chance_is_sure(gain, 40));
}
