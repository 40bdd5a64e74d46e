/* The same event through LTTng-UST: a clock read, a counter value and a name id.
 *
 * Box: tests/bench. A peer, measured in the same run as the recorder (tests/bench/record).
 */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "bench_lttng_tp.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { BATCH = 1000 };

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

int main(int argc, char **argv)
{
    unsigned n = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 2000;
    double *v = calloc(n, sizeof(*v));
    if (!v)
        return 1;
    for (unsigned i = 0; i < n; i++) {
        double t0 = now();
        for (unsigned k = 0; k < BATCH; k++)
            lttng_ust_tracepoint(hm_bench, event, k, 1);
        v[i] = (now() - t0) / BATCH;
        if (i % 20 == 19)
            usleep(2000);
    }
    qsort(v, n, sizeof(*v), by_value);
    printf("%.1f\n", v[n / 2]);
    free(v);
    return 0;
}
