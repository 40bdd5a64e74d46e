/* The end: flush, gate shut, writer told, bounded wait for the complete file.
 *
 * Box: lib/record. exit() or return from main, one thread; idempotent. After _exit, a signal or
 * exec nothing here runs: the writer sees the end by itself.
 */
#include "record/record.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#define MS INT64_C(1000000)

int64_t hm_true_now(void)
{
    struct timespec ts;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

void hm_nap(int64_t ns)
{
    struct timespec ts = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    syscall(SYS_nanosleep, &ts, NULL);
}

void hm_word_wait(_Atomic uint32_t *word, uint32_t value, int64_t limit_ns)
{
    struct timespec ts = {.tv_sec = limit_ns / 1000000000, .tv_nsec = limit_ns % 1000000000};
    syscall(SYS_futex, word, FUTEX_WAIT, value, &ts, NULL, 0);
}

/* A writer that is gone must not cost the job its whole wait. A pidfd tells also when nobody has
 * buried it yet, as in containers whose first process never does. */
static int writer_lives(void)
{
    int32_t pid = hm.view.pool->writer_pid;
    if (pid <= 0)
        return 1;
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd < 0)
        return errno != ESRCH && (!kill(pid, 0) || errno == EPERM);
    struct pollfd gone = {.fd = fd, .events = POLLIN};
    int n = poll(&gone, 1, 0);
    close(fd);
    return n <= 0;
}

/* It sleeps on the phase between two drains. */
static void wake_writer(struct hm_pool *pool)
{
    syscall(SYS_futex, &pool->phase, FUTEX_WAKE, 64, NULL, NULL, 0);
}

static void flush_gpu(int limit_ms, int forced)
{
    const struct hm_cupti_ops *cupti = atomic_load(&hm.cupti);
    if (cupti && cupti->flush)
        cupti->flush(hm_now() + limit_ms * MS, forced);
}

int hm_flush(int limit_ms)
{
    if (!hm_awake())
        return 0;
    struct hm_pool *pool = hm.view.pool;
    flush_gpu(limit_ms, 0);
    uint32_t asked = atomic_fetch_add(&pool->flush_asked, 1) + 1;
    wake_writer(pool);
    int64_t until = hm_true_now() + limit_ms * MS;
    for (;;) {
        uint32_t done = atomic_load(&pool->flush_done);
        if ((int32_t)(done - asked) >= 0)
            return 1;
        int64_t left = until - hm_true_now();
        if (left <= 0 || !writer_lives())
            return 0;
        hm_word_wait(&pool->flush_done, done, left < 50 * MS ? left : 50 * MS);
    }
}

void hm_leave(void)
{
    uint32_t life = HM_AWAKE;
    if (!hm_awake() || !atomic_compare_exchange_strong(&hm.life, &life, HM_LEAVING))
        return;
    struct hm_pool *pool = hm.view.pool;
    flush_gpu((int)hm.config.finish_ms, 1);
    hm_cursor_hand_over();
    hm_gate_set(0);
    atomic_store(&hm_self.wiped->alive, 0);
    uint32_t phase = atomic_load(&pool->phase);
    /* the writer may be opening its file this very moment: CLOSED and FAILED are its last words */
    while (phase != HM_PHASE_CLOSED && phase != HM_PHASE_FAILED &&
           !atomic_compare_exchange_weak(&pool->phase, &phase, HM_PHASE_FINISHING))
        ;
    wake_writer(pool);
    if (hm_self.pipe_fd >= 0)
        close(hm_self.pipe_fd);
    hm_self.pipe_fd = -1;
    int64_t until = hm_true_now() + hm.config.exit_wait_ms * MS;
    for (;;) {
        phase = atomic_load(&pool->phase);
        int64_t left = until - hm_true_now();
        if (phase == HM_PHASE_CLOSED || phase == HM_PHASE_FAILED || left <= 0 || !writer_lives())
            break;
        hm_word_wait(&pool->phase, phase, left < 50 * MS ? left : 50 * MS);
    }
    atomic_store(&hm.life, HM_OFF);
    if (!hm_pass_on_notes() && phase == HM_PHASE_FAILED)
        hm_note(HM_E_IO,
                "%s: the rank file could not be finished; `hindmost info --finish` may "
                "save it",
                hm_self.run_dir);
}

static void at_exit(void)
{
    hm_leave();
}

void hm_leave_watch(void)
{
    atexit(at_exit);
}
