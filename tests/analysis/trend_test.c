/* Trends by hand (facts on analysis, E14). */
#include "analysis/trend.h"

#include <criterion/criterion.h>
#include <math.h>

Test(trend, e14_a_change)
{
    const double x[12] = {100, 102, 98, 101, 99, 100, 121, 119, 120, 122, 118, 120};
    size_t at = 0;
    double p = 1;
    cr_assert(hm_trend_change(x, 12, &at, &p));
    cr_assert_eq(at, 6);
    cr_assert(p <= 0.01);
    cr_assert(!hm_trend_change(x, 6, &at, &p)); /* nothing inside a side */
}

/* 15 pairs, 14 up and 1 down: S = 13; without ties var = 6 x 5 x 17 / 18 = 28.333,
 * Z = 12 / 5.3229 = 2.2544. Slopes: 4/3 is the median of the fifteen. */
Test(trend, e14_a_drift)
{
    const double x[6] = {100, 101, 103, 102, 105, 107};
    struct hm_drift d;
    cr_assert(hm_trend_drift(x, 6, &d));
    cr_assert_float_eq(d.s, 13, 1e-12);
    cr_assert_float_eq(d.z, 12 / sqrt(6.0 * 5 * 17 / 18), 1e-12);
    cr_assert_float_eq(d.slope, 4.0 / 3, 1e-12);
    cr_assert_float_eq(d.p, 0.02417, 1e-4); /* two-sided, of 2.2544 */
}

/* [1, 1, 2]: S = 2; var = (3 x 2 x 11 - 2 x 1 x 9) / 18 = 48 / 18. */
Test(trend, ties)
{
    const double x[3] = {1, 1, 2};
    struct hm_drift d;
    cr_assert(hm_trend_drift(x, 3, &d));
    cr_assert_float_eq(d.z, 1 / sqrt(48.0 / 18), 1e-12);
    cr_assert_float_eq(d.slope, 0.5, 1e-12);
    cr_assert(!hm_trend_drift(x, 1, &d));
}

Test(trend, noise_and_small_steps_are_no_change)
{
    double x[60];
    uint64_t s = 88172645463325252u;
    int found = 0;
    for (int run = 0; run < 100; run++) {
        for (int i = 0; i < 60; i++) {
            s ^= s << 13;
            s ^= s >> 7;
            s ^= s << 17;
            x[i] = 100 + (double)(s % 60);
        }
        size_t at;
        double p;
        found += hm_trend_change(x, 60, &at, &p);
    }
    cr_assert_leq(found, 2, "%d of 100 at p 0.01", found);
    for (int i = 0; i < 60; i++) /* clear, but 5 % */
        x[i] = i < 30 ? 100 : 105;
    size_t at;
    double p;
    cr_assert(!hm_trend_change(x, 60, &at, &p));
}
