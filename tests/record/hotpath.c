/* What one event costs, beside the least it could cost. Run under the preload by the bench.
 *
 * usage: hotpath [--quick]. Prints a table and one JSON object:
 *   record_ns    one event without a name (hm_step_end()), by the recorder in this process
 *   named_ns     one counter with a known name
 *   limit_ns     one clock read, one 64-byte store and one release store, walking a pre-faulted
 *                memfd of the pool's size: the same memory traffic without any logic
 *   disabled_ns  a mark while recording is stopped
 * Each figure is the median of rounds; a round is small enough for the pool to hold it.
 */
#include "hindmost/hindmost.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { MAX_ROUNDS = 64, EVENTS = 100000, REGION = 48 << 20 };

static int64_t now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC_RAW, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof(*v), by_value);
    return v[n / 2];
}

struct line {
    int64_t t_ns;
    uint64_t rest[7];
};

static struct line *region;
static size_t at;
static _Atomic uint32_t published;

static void limit_event(int i)
{
    struct line *line = &region[at];
    at = at + 1 < REGION / sizeof(struct line) ? at + 1 : 0;
    line->t_ns = now();
    for (int k = 0; k < 7; k++)
        line->rest[k] = (uint64_t)i;
    atomic_store_explicit(&published, (uint32_t)i, memory_order_release);
}

static void one_event(int i)
{
    (void)i;
    hm_step_end();
}

static void named_event(int i)
{
    hm_counter_i64("bench", i);
}

static void stopped_event(int i)
{
    (void)i;
    hm_mark("bench");
}

static double measure(void (*event)(int), int rounds)
{
    double ns[MAX_ROUNDS];
    for (int r = -1; r < rounds; r++) {
        int64_t begin = now();
        for (int i = 0; i < EVENTS; i++)
            event(i);
        double each = (double)(now() - begin) / EVENTS;
        if (r >= 0)
            ns[r] = each;
        usleep(150000); /* the writer empties the pool, and does not compete with the next round */
    }
    return median(ns, rounds);
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 && !strcmp(argv[1], "--quick") ? 7 : 31;
    int fd = (int)syscall(SYS_memfd_create, "limit", 1);
    if (fd < 0 || ftruncate(fd, REGION))
        return 1;
    region = mmap(NULL, REGION, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    if (region == MAP_FAILED)
        return 1;
    memset(region, 1, REGION);
    if (!hm_api_find(1)) {
        fputs("hotpath: run me under LD_PRELOAD of the recorder\n", stderr);
        return 1;
    }
    hm_step(0);
    double limit = measure(limit_event, rounds);
    double record = measure(one_event, rounds);
    double named = measure(named_event, rounds);
    hm_stop();
    double disabled = measure(stopped_event, rounds);
    printf("%-40s %8s %8s\n", "", "ns", "x limit");
    printf("%-40s %8.1f %8s\n", "clock read + 64-byte store (limit)", limit, "1.0");
    printf("%-40s %8.1f %8.2f\n", "one event", record, record / limit);
    printf("%-40s %8.1f %8.2f\n", "one event with a known name", named, named / limit);
    printf("%-40s %8.1f\n", "disabled", disabled);
    printf("{\"record_ns\": %.1f, \"named_ns\": %.1f, \"limit_ns\": %.1f, \"lttng_ns\": null, "
           "\"lttng_ns_why\": \"not measured\", \"disabled_ns\": %.1f}\n",
           record, named, limit, disabled);
    return 0;
}
