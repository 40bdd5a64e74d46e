/* Starting, running and stopping the CUPTI source against a library that does as it is told.
 *
 * Box: tests. A process for each test (Criterion forks). Needs no toolkit and no GPU.
 */
#include "fake_cupti.h"
#include "record/cupti_source.h"
#include "record/record.h"
#include "recorder_double.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* what cupti_thread.c takes from the recorder */
static _Atomic int handed_over;
void hm_cursor_hand_over(void)
{
    handed_over++;
}
void hm_word_wait(_Atomic uint32_t *word, uint32_t value, int64_t limit_ns)
{
    struct timespec ts = {.tv_sec = limit_ns / 1000000000, .tv_nsec = limit_ns % 1000000000};
    syscall(SYS_futex, word, FUTEX_WAIT, value, &ts, NULL, 0);
}

static struct fake *the_fake;
static void (*launch)(const char *, uint64_t);

static void load(void)
{
    double_start(16 << 20);
    void *lib = dlopen(HM_TEST_FAKE, RTLD_NOW | RTLD_LOCAL);
    cr_assert(lib, "%s", dlerror());
    the_fake = dlsym(lib, "fake");
    *(void **)&launch = dlsym(lib, "fake_launch");
}
static int64_t second(int n)
{
    return hm_now() + n * INT64_C(1000000000);
}
static const struct hm_cupti_ops *ops(void)
{
    return atomic_load(&hm.cupti);
}

Test(cupti_start, no_cuda_is_no_news_and_no_verdict)
{
    double_start(16 << 20);
    cr_assert_eq(hm_cupti_start(), 0);
    cr_assert_str_empty(double_notes);
    void *lib = dlopen(HM_TEST_FAKE, RTLD_NOW); /* CUDA comes later */
    cr_assert(lib);
    cr_assert_eq(hm_cupti_start(), 1);
}

Test(cupti_start, records_launch_kernel_and_external_id, .init = load)
{
    hm.config.sync = 1;
    cr_assert_eq(hm_cupti_start(), 1);
    cr_assert_eq(hm_cupti_start(), 1);
    cr_assert_eq(the_fake->n_registered, 1);
    cr_assert_eq(the_fake->n_subscribed, 1);
    cr_assert_eq(the_fake->n_clock, 0, "13.0 loses kernel times when the clock is replaced");
    cr_assert_eq(the_fake->attributes, 1u << 5 | 1u << 9);
    cr_assert_eq(the_fake->thread_id_type, 1);
    cr_assert_eq(the_fake->launch_traced, 3);
    /* MEMCPY MEMSET DEVICE KERNEL OVERHEAD MEMCPY2 SYNC EXTERNAL, and neither API kind as a whole
     */
    cr_assert_eq(the_fake->enabled, 1u << 1 | 1u << 2 | 1u << 8 | 1u << 10 | 1u << 17 | 1u << 22 |
                                        UINT64_C(1) << 38 | UINT64_C(1) << 39);
    ops()->push(77);
    launch("nccl_kernel", 5000);
    ops()->pop(77);
    launch("user_kernel", 6000);
    ops()->flush(second(20), 1);
    cr_assert_eq(the_fake->n_forced, 1);
    cr_assert_geq(handed_over, 1);
    cr_assert_eq(double_count(HM_EV_KERNEL), 2);
    cr_assert_eq(double_count(HM_EV_API), 2);
    const struct hm_event *k = double_nth(HM_EV_KERNEL, 0), *a = double_nth(HM_EV_API, 0);
    cr_assert_eq(a->u.api.external, 77);
    cr_assert_eq(a->u.api.correlation, k->u.kernel.correlation);
    cr_assert_eq(double_nth(HM_EV_API, 1)->u.api.external, 0);
    cr_assert_eq(k->dur_ns, 5000);
    cr_assert_eq(k->flags & HM_EVF_CLOCK, HM_CLOCK_REAL);
    cr_assert_geq(double_count(HM_EV_OVERHEAD), 1);
    cr_assert_eq(double_nth(HM_EV_OVERHEAD, 0)->aux, HM_OVERHEAD_OWN_FLUSH);
    cr_assert_str_empty(double_notes);
}

Test(cupti_start, own_clock_where_it_works, .init = load)
{
    the_fake->version = 130100;
    cr_assert_eq(hm_cupti_start(), 1);
    cr_assert_eq(the_fake->n_clock, 1);
}

Test(cupti_start, another_tool_is_named, .init = load)
{
    the_fake->rc_subscribe = 39;
    cr_assert_eq(hm_cupti_start(), 0);
    cr_assert(strstr(double_notes, "Nsight"), "%s", double_notes);
    cr_assert_eq(the_fake->n_registered, 0, "its buffers are left alone");
    cr_assert_null(ops());
    size_t said = strlen(double_notes);
    cr_assert_eq(hm_cupti_start(), 0);
    cr_assert_eq(strlen(double_notes), said, "one line");
    cr_assert_eq(the_fake->n_subscribed, 1, "off for good");
}

Test(cupti_start, no_driver_is_quiet, .init = load)
{
    the_fake->rc_enable = 999;
    cr_assert_eq(hm_cupti_start(), 0);
    cr_assert_str_empty(double_notes);
    cr_assert_null(ops());
    cr_assert_eq(the_fake->n_unsubscribed, 1);
}

Test(cupti_start, newer_than_the_driver, .init = load)
{
    the_fake->rc_enable = 15;
    cr_assert_eq(hm_cupti_start(), 0);
    cr_assert(strstr(double_notes, "HINDMOST_CUPTI"), "%s", double_notes);
}

Test(cupti_start, switched_off_by_setting, .init = load)
{
    hm.config.kernels = 0;
    cr_assert_eq(hm_cupti_start(), 0);
    cr_assert_eq(the_fake->n_subscribed, 0);
}

Test(cupti_start, a_flush_that_hangs_is_left_behind, .init = load)
{
    cr_assert_eq(hm_cupti_start(), 1);
    the_fake->hang = 1;
    int64_t t0 = hm_now();
    ops()->flush(t0 + 100000000, 1);
    int64_t took = hm_now() - t0;
    cr_assert(took >= 100000000 && took < INT64_C(5000000000), "%lld ns", (long long)took);
    cr_assert(strstr(double_notes, "in time"), "%s", double_notes);
}

Test(cupti_start, dropped_records_are_counted, .init = load)
{
    cr_assert_eq(hm_cupti_start(), 1);
    the_fake->n_dropped = 41;
    ops()->flush(second(20), 0);
    cr_assert_eq(double_lost(HM_LOST_CUPTI_DROPPED), 41);
    const struct hm_event *gap = double_nth(HM_EV_GAP, 0);
    cr_assert_eq(gap->u.gap.n, 41);
    cr_assert_eq(gap->aux, HM_LOST_CUPTI_DROPPED);
    cr_assert_geq(gap->dur_ns, 0);
}

/* More than fits into all buffers at once: nothing is lost without being counted, buffers come
 * back clean. 400,000 launches are 102 MB of records. */
Test(cupti_start, buffers_go_round, .init = load)
{
    cr_assert_eq(hm_cupti_start(), 1);
    uint32_t n = 400000, missing = 0;
    double_gate(UINT64_C(1) << HM_EV_MEMCPY); /* the double keeps few events: count by the reader */
    for (uint32_t i = 0; i < n; i++) {
        launch("k", 10);
        if (i % 50000 == 0)
            ops()->flush(second(20), 0);
    }
    ops()->flush(second(20), 1);
    missing = (uint32_t)double_lost(HM_LOST_CUPTI_DROPPED);
    cr_assert_eq(missing, 0, "%u records found no buffer", missing);
    cr_assert_eq(the_fake->n_dirty, 0, "CUPTI was promised zeroed buffers");
    cr_assert_eq(double_lost(HM_LOST_CUPTI_UNREAD), 0);
}

/* The thread does not come: every buffer out, then NULL, which CUPTI counts. */
Test(cupti_start, all_buffers_out, .init = load)
{
    uint8_t *b;
    size_t size, records = 5;
    cr_assert_eq(hm_cupti_buffers_init(1, 0), HM_OK);
    for (int i = 0; i < HM_CUPTI_MAX_BUFFERS; i++) {
        hm_cupti_buffer_request(&b, &size, &records);
        cr_assert(b && size == HM_CUPTI_BUFFER && !records && !((uintptr_t)b & 7));
    }
    uint8_t *last = b;
    hm_cupti_buffer_request(&b, &size, &records);
    cr_assert_null(b);
    hm_cupti_buffer_complete(NULL, 0, last, size, 100);
    hm_cupti_buffer_complete(NULL, 0, last + 8, size, 100); /* not one of ours */
    hm_cupti_buffer_complete(NULL, 0, (uint8_t *)&b, size, 100);
    size_t valid;
    cr_assert_eq(hm_cupti_buffer_take(&valid), last);
    cr_assert_eq(valid, 100);
    cr_assert_null(hm_cupti_buffer_take(&valid));
    hm_cupti_buffer_recycle(last);
    hm_cupti_buffer_request(&b, &size, &records);
    cr_assert_eq(b, last);
    cr_assert_eq(hm_cupti_buffers_init(0, 0), HM_OK); /* before 12.9 NULL crashes CUPTI */
    hm_cupti_buffer_request(&b, &size, &records);
    cr_assert(b && size >= 4096);
    hm_cupti_buffer_complete(NULL, 0, b, size, 640);
    cr_assert_eq(hm_cupti_buffers_discarded(), 640);
    cr_assert_null(hm_cupti_buffer_take(&valid));
}

Test(cupti_start, pop_finds_its_own_id, .init = load)
{
    cr_assert_eq(hm_cupti_start(), 1);
    ops()->push(5);
    ops()->push(6); /* a launch that was never stopped */
    ops()->pop(5);
    ops()->pop(5); /* empty */
    ops()->push(8);
    launch("k", 1);
    ops()->pop(8);
    ops()->flush(second(20), 1);
    cr_assert_eq(double_nth(HM_EV_API, 0)->u.api.external, 8);
}

/* Outside windows CUPTI records nothing; it is let go of when a window has been shut for a while,
 * by the source's own thread. */
Test(cupti_start, held_for_windows_only, .init = load)
{
    double_gate(0);
    cr_assert_eq(hm_cupti_start(), 1);
    cr_assert_eq(the_fake->enabled, 0, "no window is open");
    cr_assert_eq(the_fake->launch_traced, 0);
    double_gate(UINT64_MAX);
    ops()->hold(1); /* as the step mark does that opens it */
    cr_assert(the_fake->enabled >> HM_CUPTI_KERNEL & 1);
    cr_assert_eq(the_fake->launch_traced, 3);
    ops()->hold(1);
    launch("k", 10);
    double_gate(0);
    for (int i = 0; i < 200 && hm_cupti_held(); i++)
        usleep(50000);
    cr_assert_eq(the_fake->enabled, 0, "let go of after two seconds");
    cr_assert_eq(the_fake->launch_traced, 0);
    cr_assert(double_nth(HM_EV_KERNEL, 0) || the_fake->n_flushed, "fetched before");
    double_gate(UINT64_MAX); /* an order from outside: our thread sees it */
    for (int i = 0; i < 200 && !hm_cupti_held(); i++)
        usleep(50000);
    cr_assert(the_fake->enabled >> HM_CUPTI_KERNEL & 1);
}
