/* Interval sets against examples worked by hand (facts on analysis, E3 and E4). */
#include "analysis/intervals.h"

#include <criterion/criterion.h>

#define N(v) (sizeof(v) / sizeof(v[0]))

Test(intervals, union_joins_touching_and_drops_empty)
{
    struct hm_interval v[] = {{80, 95}, {0, 10}, {10, 40}, {5, 5}, {90, 92}};
    size_t n = hm_union(v, N(v));
    cr_assert_eq(n, 2);
    cr_assert(v[0].start_ns == 0 && v[0].end_ns == 40);
    cr_assert(v[1].start_ns == 80 && v[1].end_ns == 95);
    cr_assert_eq(hm_length(v, n), 55);
    cr_assert_eq(hm_inside(v, n, 30, 85), 15);
}

Test(intervals, e3_stall_is_the_wait_that_compute_does_not_hide)
{
    struct hm_interval compute[] = {{90, 150}}, wait[] = {{100, 180}};
    struct hm_layer layer[] = {{compute, 1}, {wait, 1}};
    int64_t out[3];
    hm_partition(layer, 2, 0, 200, out);
    cr_assert_eq(hm_overlap(compute, 1, wait, 1), 50);
    cr_assert_eq(out[1], 30);
}

Test(intervals, e4_partition_sums_to_the_window)
{
    struct hm_interval compute[] = {{0, 40}, {80, 95}}, comm[] = {{30, 70}}, mem[] = {{65, 75}};
    struct hm_layer layer[] = {{compute, 2}, {comm, 1}, {mem, 1}};
    int64_t out[4];
    hm_partition(layer, 3, 0, 95, out);
    cr_assert_eq(hm_overlap(compute, 2, comm, 1), 10);
    cr_assert(out[0] == 55 && out[1] == 30 && out[2] == 5 && out[3] == 5);
    /* with the last arrival at 50: transfer [50, 70), wait [30, 50) */
    struct hm_interval transfer[] = {{50, 70}}, wait[] = {{30, 50}};
    struct hm_layer split[] = {{compute, 2}, {transfer, 1}, {wait, 1}, {mem, 1}};
    int64_t part[5];
    hm_partition(split, 4, 0, 95, part);
    cr_assert(part[1] == 20 && part[2] == 10 && part[3] == 5 && part[4] == 5);
}

Test(intervals, partition_of_random_sets_sums_and_agrees_with_counting)
{
    uint32_t seed = 7;
    for (int round = 0; round < 200; round++) {
        struct hm_interval v[3][12];
        struct hm_layer layer[3];
        uint8_t at[3][256] = {{0}};
        for (int k = 0; k < 3; k++) {
            for (int i = 0; i < 12; i++) {
                seed = seed * 1664525 + 1013904223;
                int64_t s = seed >> 24, e = s + (seed >> 8) % 20;
                v[k][i] = (struct hm_interval){s, e};
                for (int64_t t = s; t < e && t < 256; t++)
                    at[k][t] = 1;
            }
            layer[k] = (struct hm_layer){v[k], hm_union(v[k], 12)};
        }
        int64_t out[4], want[4] = {0};
        hm_partition(layer, 3, 10, 250, out);
        for (int t = 10; t < 250; t++)
            want[at[0][t] ? 0 : at[1][t] ? 1 : at[2][t] ? 2 : 3]++;
        for (int k = 0; k < 4; k++)
            cr_assert_eq(out[k], want[k], "round %d part %d", round, k);
        cr_assert_eq(out[0] + out[1] + out[2] + out[3], 240);
    }
}
