/* hm_ptimer_*() as a filter, for ptimer.py: a line per kernel channel's work in, its start out.
 *
 * Box: tests. In: gpu_start gpu_stop launch seen kernel_start kernel_end channel ("-" unknown).
 * Out: host lo hi of the start, or "no"; the last line: tick, windows, windows that are ok, bad.
 */
#include "align/ptimer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static int64_t time_of(const char *s)
{
    return *s == '-' ? HM_PTIMER_UNKNOWN : strtoll(s, NULL, 10);
}

int main(void)
{
    static struct hm_ptimer_work work[100000];
    char a[24], b[24], c[24], d[24];
    size_t n = 0;
    struct hm_ptimer *t;
    struct hm_ptimer_told told;
    while (n < 100000 &&
           scanf("%" SCNu64 " %" SCNu64 " %23s %23s %23s %23s %" SCNu32, &work[n].gpu_start,
                 &work[n].gpu_stop, a, b, c, d, &work[n].channel) == 7) {
        work[n].launch_ns = time_of(a);
        work[n].seen_ns = time_of(b);
        work[n].kernel_error_ns = 200; /* of the clocks' conversion */
        work[n].kernel_start_ns = time_of(c);
        work[n++].kernel_end_ns = time_of(d);
    }
    if (hm_ptimer_create(work, n, &t, &told))
        return 1;
    for (size_t i = 0; i < n; i++) {
        int64_t host, lo, hi;
        if (hm_ptimer_host(t, work[i].gpu_start, &host, &lo, &hi))
            printf("%" PRId64 " %" PRId64 " %" PRId64 "\n", host, lo, hi);
        else
            printf("no\n");
    }
    printf("%" PRIu64 " %zu %zu %zu\n", told.tick_ns, told.n_windows, told.n_ok, told.n_bad);
    hm_ptimer_destroy(t);
    return 0;
}
