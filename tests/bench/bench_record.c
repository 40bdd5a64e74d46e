/* What recording one event costs: the recorder's own path against the floor of the machine.
 *
 * Box: tests/bench. One thread. Built from the recorder's sources, so that the very hm_begin() and
 * hm_commit() of the shared object run, with a real pool and a real writer process behind it.
 *   record    clock read + hm_begin + fill + hm_commit, the writer draining
 *   limit     clock read + 64-byte store + release store, walking a pre-faulted memfd
 *   disabled  the test of a shut gate
 *   range     one NVTX push and its pop, by the callbacks that NVTX is given
 * Each figure is the median of batches; all come from the same run.
 */
#include "record/state.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { BATCH = 1000, N_REGION = 1 << 18 };

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v, unsigned n)
{
    qsort(v, n, sizeof(*v), by_value);
    return v[n / 2];
}

static double batch_record(unsigned *n_lost)
{
    int64_t t0 = hm_now();
    for (unsigned i = 0; i < BATCH; i++) {
        struct hm_event *ev = hm_begin(HM_EV_COUNTER);
        if (!ev) {
            ++*n_lost;
            continue;
        }
        ev->t_ns = hm_now();
        ev->u.counter.value.i = (int64_t)i;
        ev->u.counter.name = 1;
        hm_commit();
    }
    return (double)(hm_now() - t0) / BATCH;
}

static double batch_limit(struct hm_event *region, unsigned *at, _Atomic uint32_t *committed)
{
    int64_t t0 = hm_now();
    for (unsigned i = 0; i < BATCH; i++) {
        struct hm_event *ev = &region[*at];
        *at = (*at + 1) % N_REGION;
        int64_t t = hm_now();
        struct hm_event e = {.t_ns = t, .kind = HM_EV_COUNTER};
        e.u.counter.value.i = (int64_t)i;
        memcpy(ev, &e, sizeof(e));
        atomic_store_explicit(committed, *at, memory_order_release);
    }
    return (double)(hm_now() - t0) / BATCH;
}

static double batch_disabled(void)
{
    static volatile unsigned hit;
    int64_t t0 = hm_now();
    for (unsigned i = 0; i < BATCH; i++)
        if (hm_on(HM_EV_NET))
            hit++;
    return (double)(hm_now() - t0) / BATCH;
}

/* Stands in for a module that uses NVTX: its table of the core calls (8 numbers are enough to find
 * push, 11 pop; 16 is what NVTX 3 has). */
int InitializeInjectionNvtx2(const void *(*get_export_table)(uint32_t));
typedef void (*func)(void);
static func slot[16];
static func *table[16];

static int get_table(uint32_t module, func ***table_p, uint32_t *n_p)
{
    for (unsigned i = 0; i < 16; i++)
        table[i] = &slot[i];
    *table_p = table;
    *n_p = module == 1 ? 16 : 0;
    return module == 1;
}

static const void *export_table(uint32_t id)
{
    static const struct {
        size_t size;
        int (*get)(uint32_t, func ***, uint32_t *);
    } callbacks = {sizeof(callbacks), get_table};
    return id == 1 ? &callbacks : NULL;
}

static double batch_range(void)
{
    int (*push)(const char *) = (int (*)(const char *))(uintptr_t)slot[9];
    int (*pop)(void) = (int (*)(void))(uintptr_t)slot[11];
    int64_t t0 = hm_now();
    for (unsigned i = 0; i < BATCH; i++) {
        push("forward");
        pop();
    }
    return (double)(hm_now() - t0) / BATCH;
}

int main(int argc, char **argv)
{
    unsigned n = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 2000;
    double *v = calloc(4 * (size_t)n, sizeof(*v));
    int fd = (int)syscall(SYS_memfd_create, "limit", 0);
    size_t bytes = N_REGION * sizeof(struct hm_event) + 4096;
    if (!v || fd < 0 || ftruncate(fd, (off_t)bytes))
        return 1;
    char *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    if (map == MAP_FAILED)
        return 1;
    if (!hm_wake(HM_CAUSE_API)) {
        fprintf(stderr, "bench_record: the recorder does not wake\n");
        return 1;
    }
    hm_claim(0, 1, 0, 1);
    if (!InitializeInjectionNvtx2(export_table) || !slot[9] || !slot[11])
        return 1;
    unsigned at = 0, n_lost = 0;
    for (unsigned i = 0; i < n; i++) {
        v[i] = batch_record(&n_lost);
        v[n + i] = batch_limit((struct hm_event *)(void *)(map + 4096), &at,
                               (_Atomic uint32_t *)(void *)map);
        v[2 * n + i] = batch_disabled();
        v[3 * n + i] = batch_range();
        if (i % 10 == 9)
            usleep(2000); /* 20,000 events in 2 ms would only measure a full pool */
    }
    printf(
        "{\"record_ns\": %.1f, \"limit_ns\": %.1f, \"disabled_ns\": %.2f, \"record_range_ns\": %.1f, "
        "\"lost\": %u}\n",
        median(v, n), median(v + n, n), median(v + 2 * (size_t)n, n), median(v + 3 * (size_t)n, n),
        n_lost);
    free(v);
    hm_leave();
    return 0;
}
