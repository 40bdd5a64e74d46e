/* What the plugin adds to NCCL's callbacks, over a plugin that does nothing, in the same run.
 *
 * Box: tests/bench. The shared object is opened as NCCL opens it, a real writer drains. One
 * collective = the 12 callbacks of an eager group with one AllReduce (NCCL 2.28, interface v5).
 * usage: bench_plugin N_BATCHES; prints one JSON object.
 */
#include "teller.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct profiler ncclProfiler_v4, ncclProfiler_v5; /* the one under test */

enum { BATCH = 500, N_CALLBACKS = 12 };

static int none_start(void *ctx, void **handle, void *d)
{
    (void)ctx;
    (void)d;
    *handle = (void *)1;
    return 0;
}
static int none_stop(void *handle)
{
    (void)handle;
    return 0;
}
static int none_state(void *handle, int state, void *args)
{
    (void)handle;
    (void)state;
    (void)args;
    return 0;
}
static const struct profiler empty = {"empty", NULL, none_start, none_stop, none_state, none_stop};

static int64_t now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC_RAW, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static double batch(const struct profiler *which, void *ctx)
{
    ncclProfiler_v5 = *which;
    int64_t t0 = now();
    for (int i = 0; i < BATCH; i++) {
        void *g = group_api(ctx, 1, 0);
        ncclProfiler_v5.state(g, 23, NULL);
        void *a = coll_api(ctx, g, "AllReduce", 1024, "ncclFloat32", 0);
        end(a);
        ncclProfiler_v5.state(g, 24, NULL);
        void *k = launch(ctx, g, NULL);
        end(k);
        void *e = group(5, ctx);
        void *c = coll(5, ctx, a, e, (uint64_t)i, "AllReduce", 1024, "ncclFloat32", 0);
        end(c);
        end(e);
        end(g);
    }
    return (double)(now() - t0) / BATCH;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    unsigned n = argc > 1 ? (unsigned)atoi(argv[1]) : 400;
    void *lib = dlopen("libnccl-profiler-hindmost.so", RTLD_NOW | RTLD_LOCAL);
    struct profiler *found = lib ? dlsym(lib, "ncclProfiler_v5") : NULL;
    double *ours = calloc(n, sizeof(*ours)), *none = calloc(n, sizeof(*none));
    void *ctx = NULL;
    int mask = 0;
    if (!found || !ours || !none || !n) {
        fprintf(stderr, "bench_plugin: %s\n", found ? "no memory" : dlerror());
        return 1;
    }
    ((init_5_t)found->init)(&ctx, 1, &mask, "bench", 1, 2, 0, NULL);
    if (!mask) {
        fprintf(stderr, "bench_plugin: the recorder did not start\n");
        return 1;
    }
    for (unsigned i = 0; i < n; i++) {
        ours[i] = batch(found, ctx);
        none[i] = batch(&empty, ctx);
        struct timespec rest = {0, 2000000}; /* 1 million events/s would be no training */
        nanosleep(&rest, NULL);
    }
    qsort(ours, n, sizeof(*ours), by_value);
    qsort(none, n, sizeof(*none), by_value);
    double added = ours[n / 2] - none[n / 2];
    printf(
        "{\"added_per_collective_ns\": %.1f, \"added_per_callback_ns\": %.1f, "
        "\"empty_per_collective_ns\": %.1f, \"p90_per_collective_ns\": %.1f, \"callbacks\": %d}\n",
        added, added / N_CALLBACKS, none[n / 2], ours[n * 9 / 10] - none[n / 2], N_CALLBACKS);
    return 0;
}
