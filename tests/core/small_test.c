/* Clock maps, probe graph, statuses, losses: the small pure things. Box: tests/core. */
#include "core/clock.h"
#include "core/pool.h"
#include "core/probe.h"
#include "core/status.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

Test(timemap, none_is_identity)
{
    const struct hm_timemap map = {NULL, 0, 0};
    cr_assert_eq(hm_timemap_apply(&map, 123456789012345), 123456789012345);
    cr_assert_eq(hm_timemap_eps(&map, 5), 0);
}

/* By hand: offset +500 and 10 ppm from x = 1 s; from 3 s on, offset +520 (what 10 ppm would not
 * give: a step), 0 ppm. 2 s after 1 s: 2e9 ns * 10e-6 = 20,000 ns more. */
static const struct hm_timeseg segs[] = {
    {1000000000, 1000000500, 10e-6, 100, 50e-9},
    {3000000000, 3000000520, 0, 40, 0},
};
static const struct hm_timemap map = {segs, 2, 0};

Test(timemap, by_hand)
{
    cr_assert_eq(hm_timemap_apply(&map, 1000000000), 1000000500);
    cr_assert_eq(hm_timemap_apply(&map, 2000000000), 2000000500 + 10000);
    cr_assert_eq(hm_timemap_apply(&map, 2999999999), 2999999999 + 500 + 20000);
    cr_assert_eq(hm_timemap_apply(&map, 3000000000), 3000000520);
    cr_assert_eq(hm_timemap_apply(&map, 9000000000), 9000000520, "the last one goes on");
    cr_assert_eq(hm_timemap_apply(&map, 0), 500 - 10000, "the first one too, backwards");
    cr_assert_eq(hm_timemap_eps(&map, 1000000000), 100);
    cr_assert_eq(hm_timemap_eps(&map, 2000000000), 150, "100 ns and 50 ns a second");
    cr_assert_eq(hm_timemap_eps(&map, 2000000001), 151, "a bound is rounded up");
    cr_assert_eq(hm_timemap_eps(&map, 0), 150);
    cr_assert_eq(hm_timemap_eps(&map, 5000000000), 40);
}

Test(timemap, large_times_lose_no_nanosecond)
{
    const int64_t big = INT64_C(1) << 62;
    const struct hm_timeseg s = {big, 5, 0, 0, 0};
    const struct hm_timemap m = {&s, 1, 0};
    cr_assert_eq(hm_timemap_apply(&m, big + 3), 8);
    cr_assert_eq(hm_timemap_apply(&m, big + 123456789), 123456794);
    hm_timemap_apply(&m, INT64_MIN); /* must not overflow; any number will do */
    hm_timemap_eps(&m, INT64_MIN);
}

Test(clock, snapshot_brackets)
{
    struct hm_event ev;
    int64_t before = hm_now();
    hm_clock_snapshot(&ev);
    int64_t after = hm_now();
    cr_assert(ev.t_ns >= before && ev.t_ns <= after);
    cr_assert_eq(ev.kind, HM_EV_CLOCK_SNAPSHOT);
    cr_assert_leq(ev.u.snapshot.width_ns, after - before);
    /* seconds since 1970: between 2020 and 2120 */
    cr_assert(ev.u.snapshot.real_ns > INT64_C(1577836800000000000) &&
              ev.u.snapshot.real_ns < INT64_C(4733510400000000000));
    cr_assert_geq(ev.u.snapshot.boot_ns, ev.u.snapshot.mono_ns);
    cr_assert_eq(ev.u.snapshot.have, HM_HAVE_MONO | HM_HAVE_REAL | HM_HAVE_BOOT);
}

Test(clock, domain_is_what_the_kernel_says)
{
    char boot[40], timens[24], want[64] = "";
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "r");
    cr_assert_not_null(f);
    cr_assert_not_null(fgets(want, sizeof(want), f));
    fclose(f);
    want[strcspn(want, "\n")] = 0;
    hm_clock_domain(boot, timens);
    cr_assert_str_eq(boot, want);
    for (const char *p = timens; *p; p++)
        cr_assert(*p >= '0' && *p <= '9');
}

static int has(const uint32_t *peer, uint32_t n, uint32_t x)
{
    for (uint32_t i = 0; i < n; i++)
        if (peer[i] == x)
            return 1;
    return 0;
}

Test(probe, peers_are_mutual_bounded_and_hold_the_tree)
{
    static uint32_t peer[600][32], n_of[600];
    for (uint32_t n = 1; n <= 600; n += n < 40 ? 1 : 93) {
        for (uint64_t nonce = 1; nonce <= 3; nonce++) {
            uint64_t ends = 0;
            for (uint32_t i = 0; i < n; i++) {
                n_of[i] = hm_probe_peers(n, i, nonce * 77777, peer[i]);
                if (n_of[i] > 32)
                    cr_assert_fail("degree");
                ends += n_of[i];
                for (uint32_t k = 0; k < n_of[i]; k++) {
                    if (peer[i][k] >= n || peer[i][k] == i || (k && peer[i][k] <= peer[i][k - 1]))
                        cr_assert_fail("n %u: %u of %u: ascending, no doubles, not itself", n, k,
                                       i);
                }
            }
            for (uint32_t i = 0; i < n; i++) {
                for (uint32_t k = 0; k < n_of[i]; k++)
                    if (!has(peer[peer[i][k]], n_of[peer[i][k]], i))
                        cr_assert_fail("n %u: %u-%u", n, i, peer[i][k]);
                if (i && !has(peer[i], n_of[i], (i - 1) / 16))
                    cr_assert_fail("n %u: %u without its parent", n, i);
            }
            /* tree and two random edges a leader: about 3 n edges, fewer where they coincide */
            if (n > 100)
                cr_assert(ends / 2 > 5 * n / 2 && ends / 2 <= 3 * n, "%u: %u", n,
                          (unsigned)(ends / 2));
        }
    }
    cr_assert_eq(hm_probe_peers(1, 0, 5, peer[0]), 0);
    cr_assert_eq(hm_probe_peers(2, 1, 5, peer[0]), 1);
    /* two different picks of two others: every pair, whatever the nonce */
    for (uint64_t nonce = 0; nonce < 1000; nonce++)
        for (uint32_t i = 0; i < 3; i++)
            cr_assert_eq(hm_probe_peers(3, i, nonce, peer[i]), 2, "nonce %u", (unsigned)nonce);
}

Test(probe, best_are_the_shortest_in_time_order)
{
    /* round trips by hand: (t4 - t1) - (t3 - t2) = 30, 10, 20, 10, 50 */
    static const int64_t t[5][4] = {
        {100, 0, 5, 135}, {200, 0, 5, 215}, {300, 7, 7, 320}, {400, 0, 90, 500}, {500, 0, 0, 550}};
    struct hm_event ev[5];
    memset(ev, 0, sizeof(ev));
    for (int i = 0; i < 5; i++) {
        ev[i].t_ns = t[i][0];
        ev[i].u.probe.t2_ns = t[i][1];
        ev[i].u.probe.t3_ns = t[i][2];
        ev[i].u.probe.t4_ns = t[i][3];
    }
    cr_assert_eq(hm_probe_best(ev, 5, 3), 3);
    cr_assert(ev[0].t_ns == 200 && ev[1].t_ns == 300 && ev[2].t_ns == 400);
    cr_assert_eq(hm_probe_best(ev, 3, 8), 3);
    cr_assert_eq(hm_probe_best(ev, 0, 8), 0);
}

Test(status, exit_codes)
{
    static const struct {
        hm_status_t status;
        int code;
    } rows[] = {{HM_OK, 0},          {HM_AGAIN, 0},    {HM_END, 0},       {HM_E_NOMEM, 1},
                {HM_E_BUG, 1},       {HM_E_USAGE, 64}, {HM_E_DATA, 65},   {HM_E_VERSION, 65},
                {HM_E_CONFLICT, 65}, {HM_E_CLOCK, 65}, {HM_E_NO_RUN, 66}, {HM_E_MISSING, 69},
                {HM_E_FOREIGN, 69}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        cr_assert_eq(hm_status_exit(rows[i].status), rows[i].code, "%s",
                     hm_status_name(rows[i].status));
    cr_assert_str_eq(hm_status_name(HM_E_NO_RUN), "HM_E_NO_RUN");
    cr_assert_not_null(hm_status_name((hm_status_t)-77));
}

Test(loss, every_cause_has_key_sentence_and_cure)
{
    cr_assert_str_eq(hm_loss_key(HM_LOST_POOL_FULL), "pool_full");
    cr_assert_str_eq(hm_loss_key(HM_LOST_NCCL_STALE), "nccl_stale");
    for (int i = 0; i < HM_N_LOST; i++) {
        const char *key = hm_loss_key((enum hm_loss)i);
        cr_assert(key && key[0], "%d", i);
        cr_assert_eq(strspn(key, "abcdefghijklmnopqrstuvwxyz_"), strlen(key));
        cr_assert_gt(strlen(hm_loss_text((enum hm_loss)i)), 10);
        cr_assert_gt(strlen(hm_loss_cure((enum hm_loss)i)), 10);
        for (int j = 0; j < i; j++)
            cr_assert_str_neq(key, hm_loss_key((enum hm_loss)j));
    }
    cr_assert_str_eq(hm_loss_key((enum hm_loss)HM_N_LOST), "");
}
