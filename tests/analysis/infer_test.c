/* Synchronising kernels by behaviour: series written by hand (rule 7 of the scenarios). */
#include "analysis/infer.h"

#include <criterion/criterion.h>
#include <string.h>

enum { US = 1000 };

/* Worker w of n: starts w * gap after the period's begin; `together`: all leave 1000 us after it
 * (2 us apart), else each takes 300 us. */
static void fill(struct hm_infer_series *s, uint32_t n, uint32_t k, int64_t gap_us, int together)
{
    memset(s, 0, n * sizeof(*s));
    for (uint32_t w = 0; w < n; w++) {
        s[w].worker = w;
        s[w].n = k;
        for (uint32_t i = 0; i < k && i < HM_INFER_KEEP; i++) {
            int64_t begin = (int64_t)i * 5000 * US;
            s[w].start_ns[i] = begin + (int64_t)w * gap_us * US;
            s[w].end_ns[i] = together ? begin + 1000 * US + (int64_t)(w % 2) * 2 * US
                                      : s[w].start_ns[i] + 300 * US;
        }
    }
}

static int is_collective(const struct hm_infer_series *s, uint32_t n)
{
    const struct hm_infer_series *v[16];
    for (uint32_t i = 0; i < n; i++)
        v[i] = &s[i];
    return hm_infer_is_collective(v, n, HM_INFER_MIN);
}

Test(infer, all_leave_together_whoever_came_when)
{
    struct hm_infer_series s[8];
    fill(s, 8, 40, 100, 1);
    cr_assert(is_collective(s, 8));
    fill(s, 8, 20, 100, 1);
    cr_assert(is_collective(s, 8));
    fill(s, 8, 19, 100, 1); /* not often enough */
    cr_assert_not(is_collective(s, 8));
    cr_assert_not(is_collective(s, 1));
}

Test(infer, late_compute_ends_late)
{
    struct hm_infer_series s[8];
    fill(s, 8, 40, 100, 0);
    cr_assert_not(is_collective(s, 8));
}

Test(infer, nothing_is_said_where_all_start_together)
{
    struct hm_infer_series s[4]; /* starts equal, ends 2 us apart */
    fill(s, 4, 40, 0, 1);
    cr_assert_not(is_collective(s, 4));
}

Test(infer, instances_belong_together_only_where_all_have_as_many)
{
    struct hm_infer_series s[4];
    fill(s, 4, 40, 100, 1);
    s[2].n = 39;
    cr_assert_not(is_collective(s, 4));
}

static int in_candidate(void *ctx, size_t candidate, uint32_t worker)
{
    (void)ctx; /* everybody, then the two halves */
    return !candidate || worker / 4 == candidate - 1;
}

Test(infer, the_largest_group_that_fits)
{
    struct hm_infer_series s[8];
    uint32_t group[8];
    fill(s, 8, 40, 100, 1);
    cr_assert_eq(hm_infer_groups(s, 8, HM_INFER_MIN, 3, in_candidate, NULL, group), 1);
    for (int i = 0; i < 8; i++)
        cr_assert_eq(group[i], 0);
    for (int i = 4; i < 8; i++) /* the second half runs 2 ms later, on its own */
        for (int k = 0; k < HM_INFER_KEEP; k++) {
            s[i].start_ns[k] += 2000 * US;
            s[i].end_ns[k] += 2000 * US;
        }
    cr_assert_eq(hm_infer_groups(s, 8, HM_INFER_MIN, 3, in_candidate, NULL, group), 2);
    for (uint32_t i = 0; i < 8; i++)
        cr_assert_eq(group[i], 1 + i / 4);
}

static int suspect(const char *name, uint32_t n, int64_t min, int64_t max, int64_t sum,
                   int64_t least, int64_t most, int64_t sum_means)
{
    const struct hm_infer_durations d = {n, 8, min, max, sum, least, most, sum_means};
    return hm_infer_suspect(name, &d, 100000000);
}

Test(infer, suspects)
{
    const char *name = "_Z17exchange_expertsPvS_";
    /* all means alike: what varies is told by the longest and the shortest */
    cr_assert(suspect(name, 20, 600, 300000, 10000000, 500, 500, 4000));
    cr_assert_not(suspect(name, 19, 600, 300000, 10000000, 500, 500, 4000));
    cr_assert_not(suspect(name, 20, 600, 1200, 10000000, 500, 500, 4000)); /* not over twice */
    cr_assert_not(suspect(name, 20, 600, 300000, 500000, 500, 500, 4000)); /* 0.5 % */
    /* two of eight workers are quick, the others wait 100 us: 20 x 100 us is 2 % */
    cr_assert(suspect(name, 20, 400000, 500000, 10000000, 400000, 500000, 3800000));
    cr_assert_not(suspect(name, 20, 400000, 420000, 10000000, 400000, 420000, 3320000)); /* 0.4 % */
    /* one of eight is slow: a slow GPU */
    cr_assert_not(suspect(name, 20, 400000, 500000, 10000000, 400000, 500000, 3300000));
    cr_assert(suspect("_ZN7deep_ep9intranode8dispatchE", 4, 600, 700, 5, 600, 700, 5200));
    cr_assert_not(hm_infer_known("gemm"));
}
