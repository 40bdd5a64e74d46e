/* A producer is killed in the middle of its work, many times: each event that was committed is
 * drained once and whole, and nothing else is.
 */
#include "check.h"
#include "core/config.h"
#include "core/pool.h"

#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { N_KILLS = 200 };

static uint64_t next; /* the number the next event must carry */

static hm_status_t take(void *ctx, uint32_t thread, const struct hm_event *ev, uint32_t n)
{
    uint8_t *seen = ctx;
    (void)thread;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t number = (uint64_t)ev[i].t_ns;
        for (int k = 0; k < 5; k++)
            CHECK(ev[i].u.word[k] == number);
        CHECK(number < 1 << 24 && !seen[number]);
        seen[number] = 1;
        next++;
    }
    return HM_OK;
}

static void produce(struct hm_pool_view *view, _Atomic uint64_t *committed)
{
    struct hm_cursor cursor;
    if (!hm_cursor_open(&cursor, view, (uint32_t)syscall(SYS_gettid)))
        _exit(1);
    for (uint64_t i = 0;; i++) {
        struct hm_event *ev = hm_event_begin(&cursor);
        if (!ev) /* the pool is full: wait for the end */
            pause();
        ev->t_ns = (int64_t)i;
        ev->kind = HM_EV_MARK;
        for (int k = 0; k < 5; k++)
            ev->u.word[k] = i;
        hm_event_commit(&cursor);
        atomic_store_explicit(committed, i + 1, memory_order_release);
    }
}

int main(void)
{
    static struct hm_config config;
    static uint8_t seen[1 << 24];
    _Atomic uint64_t *committed =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint64_t total = 0;
    int n_unfinished = 0;
    config.pool = 16 << 20;
    CHECK(committed != MAP_FAILED);
    for (int i = 0; i < N_KILLS; i++) {
        struct hm_pool_view mine, view;
        int fd;
        CHECK(hm_pool_create(&config, &mine, &fd) == HM_OK);
        CHECK(hm_pool_attach(fd, &view) == HM_OK);
        atomic_store(committed, 0);
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (!pid)
            produce(&mine, committed);
        /* between 0 and 2 ms of its life, a different point each time */
        struct timespec ts = {.tv_nsec = (long)(i * 7919L % 2000) * 1000};
        while (!atomic_load(committed))
            ;
        nanosleep(&ts, NULL);
        kill(pid, SIGKILL);
        CHECK(waitpid(pid, NULL, 0) == pid);
        uint32_t *drained = calloc(view.n_chunks, sizeof(*drained));
        CHECK(drained);
        next = 0;
        CHECK(hm_pool_drain(&view, drained, 1, take, seen) == HM_OK);
        uint64_t told = atomic_load(committed);
        /* one may have been committed whose number the producer could not tell any more */
        CHECK(next == told || next == told + 1);
        for (uint64_t k = 0; k < next; k++)
            CHECK(seen[k]);
        memset(seen, 0, next);
        CHECK(hm_pool_fill(&view) == 0);
        n_unfinished += next % HM_CHUNK_EVENTS != 0;
        total += next;
        free(drained);
        hm_pool_detach(&view);
        hm_pool_detach(&mine);
        close(fd);
    }
    printf("%d kills, %llu events, %d with a chunk begun\n", N_KILLS, (unsigned long long)total,
           n_unfinished);
    CHECK(n_unfinished > N_KILLS / 2);
    return 0;
}
