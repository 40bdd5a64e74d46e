/* 64 threads send numbered events through a small pool while another drains: each event that was
 * committed arrives exactly once and whole, in its thread's order; all others are counted as lost.
 * Plain main: also built with TSan. Argument: events a thread.
 */
#include "check.h"
#include "core/config.h"
#include "core/pool.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { N_THREADS = 64, N_ROUNDS = 2 };

static struct hm_pool_view view;
static uint32_t n_each = 5000;
static uint32_t *committed[N_THREADS]; /* numbers of committed events, in order */
static uint32_t n_committed[N_THREADS], n_seen[N_THREADS];
static uint64_t n_refused;
static _Atomic int n_running;

static void *produce(void *arg)
{
    uint32_t me = (uint32_t)(uintptr_t)arg;
    uint64_t refused = 0;
    struct hm_cursor cursor;
    CHECK(hm_cursor_open(&cursor, &view, (uint32_t)syscall(SYS_gettid)));
    for (uint32_t i = 0; i < n_each; i++) {
        struct hm_event *ev = hm_event_begin(&cursor);
        if (!ev) {
            refused++;
            sched_yield();
            continue;
        }
        memset(ev, 0, sizeof(*ev));
        ev->t_ns = i;
        ev->kind = HM_EV_MARK;
        ev->track = me;
        for (int k = 0; k < 5; k++)
            ev->u.word[k] = (uint64_t)i * 5 + (uint64_t)k;
        hm_event_commit(&cursor);
        committed[me][n_committed[me]++] = i;
    }
    hm_cursor_close(&cursor);
    __atomic_fetch_add(&n_refused, refused, __ATOMIC_RELAXED);
    atomic_fetch_sub(&n_running, 1);
    return NULL;
}

/* Kept aside while threads run: what was committed is compared when they have ended. */
struct seen {
    uint32_t *number;
};
static struct seen seen[N_THREADS];

static hm_status_t take(void *ctx, uint32_t thread, const struct hm_event *ev, uint32_t n)
{
    (void)ctx;
    (void)thread;
    for (uint32_t i = 0; i < n; i++) {
        CHECK(ev[i].kind == HM_EV_MARK && ev[i].track < N_THREADS);
        uint32_t t = ev[i].track;
        for (uint64_t k = 0; k < 5; k++)
            CHECK(ev[i].u.word[k] == (uint64_t)ev[i].t_ns * 5 + k);
        CHECK(n_seen[t] < n_each * N_ROUNDS);
        seen[t].number[n_seen[t]++] = (uint32_t)ev[i].t_ns;
    }
    return HM_OK;
}

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

int main(int argc, char **argv)
{
    static struct hm_config config;
    static pthread_t thread[N_THREADS];
    int fd;
    if (argc > 1)
        n_each = (uint32_t)atoi(argv[1]);
    config.pool = 8 << 20;
    CHECK(hm_pool_create(&config, &view, &fd) == HM_OK);
    uint32_t *drained = calloc(view.n_chunks, sizeof(*drained));
    CHECK(drained);
    for (int t = 0; t < N_THREADS; t++) {
        committed[t] = calloc(n_each, sizeof(uint32_t));
        seen[t].number = calloc(n_each * N_ROUNDS, sizeof(uint32_t));
        CHECK(committed[t] && seen[t].number);
    }
    uint64_t sent = 0, arrived = 0;
    for (int round = 0; round < N_ROUNDS; round++) {
        uint64_t lost_before = atomic_load(&view.pool->lost[HM_LOST_POOL_FULL]);
        memset(n_committed, 0, sizeof(n_committed));
        memset(n_seen, 0, sizeof(n_seen));
        n_refused = 0;
        atomic_store(&n_running, N_THREADS);
        for (uintptr_t t = 0; t < N_THREADS; t++)
            CHECK(!pthread_create(&thread[t], NULL, produce, (void *)t));
        while (atomic_load(&n_running)) {
            CHECK(hm_pool_drain(&view, drained, 0, take, NULL) == HM_OK);
            usleep(2000);
        }
        for (int t = 0; t < N_THREADS; t++)
            pthread_join(thread[t], NULL);
        CHECK(hm_pool_drain(&view, drained, 1, take, NULL) == HM_OK);
        CHECK(hm_pool_fill(&view) == 0);
        CHECK(atomic_load(&view.pool->lost[HM_LOST_POOL_FULL]) - lost_before == n_refused);
        for (int t = 0; t < N_THREADS; t++) {
            CHECK(n_seen[t] == n_committed[t]);
            /* chunks are drained in the order they lie, so numbers are sorted before comparing */
            qsort(seen[t].number, n_seen[t], sizeof(uint32_t), by_number);
            CHECK(!memcmp(seen[t].number, committed[t], n_seen[t] * sizeof(uint32_t)));
            arrived += n_seen[t];
        }
        sent += (uint64_t)N_THREADS * n_each;
        for (uint32_t i = 0; i < view.n_threads; i++)
            CHECK(atomic_load(&view.thread[i].tid) == 0);
    }
    printf("%llu sent, %llu arrived, %llu refused and counted\n", (unsigned long long)sent,
           (unsigned long long)arrived,
           (unsigned long long)atomic_load(&view.pool->lost[HM_LOST_POOL_FULL]));
    CHECK(arrived + atomic_load(&view.pool->lost[HM_LOST_POOL_FULL]) == sent);
    hm_pool_detach(&view);
    close(fd);
    return 0;
}
