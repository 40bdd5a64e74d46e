/* Health counters summed over a window; values by hand. */
#include "analysis/health.h"

#include <criterion/criterion.h>
#include <string.h>

static struct hm_health_state s;
static struct hm_health_sum sum;

static void setup(void)
{
    memset(&s, 0, sizeof(s));
    s.t0_ns = 1000;
    s.t1_ns = 2000;
}
TestSuite(health, .init = setup);

static void count(const char *name, int64_t t, int64_t value, uint32_t track)
{
    struct hm_event ev = {.t_ns = t, .kind = HM_EV_COUNTER, .track = track};
    ev.u.counter.value.i = value;
    hm_health_event(&s, name, &ev);
}

Test(health, a_mean_weighs_by_time)
{
    count("gpu.sm_clock", 500, 1980, 1);  /* holds from the begin of the window to 1250 */
    count("gpu.sm_clock", 1250, 1180, 1); /* to its end */
    count("gpu.sm_clock", 2500, 99, 1);   /* after it */
    hm_health_end(&s, &sum);
    cr_assert_eq(sum.sm_mhz, (1980 * 250 + 1180 * 750) / 1000); /* 1380 */
    cr_assert(HM_IS_NONE(sum.mem_mhz) && HM_IS_NONE(sum.wait_ns) && HM_IS_NONE(sum.xid));
}

Test(health, first_seen_in_the_window)
{
    count("gpu.power", 1500, 700000, 1);
    hm_health_end(&s, &sum);
    cr_assert_eq(sum.power_mw, 700000, "what was not sampled does not count as 0");
}

Test(health, growth_begins_with_the_last_value_before)
{
    count("mem.major_faults", 100, 5, 1);
    count("mem.major_faults", 900, 8, 1);
    count("mem.major_faults", 1900, 20, 1);
    count("mem.major_faults", 2100, 90, 1);
    hm_health_end(&s, &sum);
    cr_assert_eq(sum.faults, 12);
}

Test(health, of_threads_the_one_that_waited_most)
{
    count("cpu.wait", 900, 1000000, 3);
    count("cpu.wait", 900, 5, 4);
    count("cpu.wait", 1500, 1000040, 3);
    count("cpu.wait", 1900, 65, 4);
    hm_health_end(&s, &sum);
    cr_assert_eq(sum.wait_ns, 60);
}

Test(health, bits_largest_smallest_last)
{
    count("gpu.clock_reasons", 500, 0x20, 1); /* was over before the window */
    count("gpu.clock_reasons", 800, 0x4, 1);
    count("gpu.clock_reasons", 1100, 0x8, 1);
    count("gpu.temperature", 700, 91, 1);
    count("gpu.temperature", 990, 60, 1);
    count("gpu.temperature", 1200, 71, 1);
    count("gpu.temperature", 1300, 65, 1);
    count("cpu.near_gpu", 900, 4, 1);
    count("cpu.near_gpu", 1900, 0, 1);
    count("gpu.other_pid", 1100, 31337, 1);
    count("gpu.other_pid", 1900, 0, 1);
    count("no.such_counter", 1100, 1, 1);
    hm_health_end(&s, &sum);
    cr_assert_eq(sum.reasons, 0xc);
    cr_assert_eq(sum.temperature_c, 71);
    cr_assert_eq(sum.n_near, 0);
    cr_assert_eq(sum.other_pid, 31337);
}

Test(health, values_that_cannot_be)
{
    count("mem.major_faults", 1100, INT64_MAX, 1);
    count("mem.major_faults", 1200, INT64_MIN, 1);
    count("gpu.sm_clock", INT64_MIN, INT64_MAX, 1);
    for (uint32_t i = 0; i < 100; i++)
        count("cpu.wait", 1100, (int64_t)i, i); /* more threads than are kept */
    hm_health_end(&s, &sum);
    cr_assert_eq(sum.faults, 0);
    cr_assert(HM_IS_NONE(sum.sm_mhz));
}
