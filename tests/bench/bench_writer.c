/* How fast events become a rank file, and how large it is.
 *
 * Box: tests/bench. One thread. The writer's own calls (hm_rankfile_*) on a periodic step of 320
 * kernels with jitter and their launch calls; the same events through zlib's fastest level, whole
 * and unsorted, as the measure of what compressing them costs without any thought. bench_writer DIR
 * EVENTS
 */
#include "core/clock.h"
#include "store/rankfile.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

enum { PIECE = 4096 };

static uint64_t random_state = 88172645463325252;
static uint32_t noise(uint32_t n)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)(random_state % n);
}

static void make(struct hm_event *ev, size_t n, int kernels, int calls)
{
    int64_t t = 1000000000;
    uint32_t correlation = 1, at = 0;
    for (size_t i = 0; i < n; at = (at + 1) % 320) {
        int64_t length = 8000 + 500 * (at % 37) + noise(200);
        if (calls) {
            ev[i] = (struct hm_event){
                .t_ns = t - 50000 - noise(3000), .dur_ns = 3500 + noise(800), .kind = HM_EV_API};
            ev[i].u.api = (struct hm_ev_api){.correlation = correlation, .domain = 1};
            i++;
        }
        if (kernels && i < n) {
            ev[i] = (struct hm_event){
                .t_ns = t, .dur_ns = length, .kind = HM_EV_KERNEL, .track = 1 + (at % 5 == 0)};
            ev[i].u.kernel = (struct hm_ev_kernel){.kernel = at % 40,
                                                   .correlation = correlation,
                                                   .grid = {128u + at % 7, 1 + at % 3, 1},
                                                   .channel = 3};
            i++;
        }
        correlation++;
        t += length + 700 + noise(300);
    }
}

/* Seconds for all events; bytes of the closed file in *bytes_p. */
static double write_file(const char *dir, const struct hm_event *ev, size_t n, int64_t *bytes_p)
{
    struct hm_rank_meta meta = {.rank = 0, .n_ranks = 1, .source = HM_SOURCE_DEMO};
    struct hm_rankfile *rf;
    struct stat sb;
    char path[4096];
    mkdir(dir, 0700);
    if (hm_rankfile_create(dir, &meta, &rf))
        exit(1);
    snprintf(path, sizeof(path), "%s", hm_rankfile_path(rf));
    int64_t t0 = hm_now();
    for (size_t i = 0; i < n; i += PIECE)
        if (hm_rankfile_append(rf, ev + i, (uint32_t)(n - i < PIECE ? n - i : PIECE)))
            exit(1);
    if (hm_rankfile_close(rf, HM_END_CLEAN))
        exit(1);
    double s = (double)(hm_now() - t0) / 1e9;
    if (stat(path, &sb))
        exit(1);
    *bytes_p = sb.st_size;
    remove(path);
    return s;
}

static double deflate_all(const struct hm_event *ev, size_t n)
{
    enum { BLOCK = 16384 };
    uLongf cap = compressBound(BLOCK * sizeof(*ev));
    Bytef *out = malloc(cap);
    int64_t t0 = hm_now();
    for (size_t i = 0; i + BLOCK <= n; i += BLOCK) {
        uLongf len = cap;
        compress2(out, &len, (const Bytef *)(ev + i), BLOCK * sizeof(*ev), 1);
    }
    free(out);
    return (double)(hm_now() - t0) / 1e9;
}

int main(int argc, char **argv)
{
    size_t n = argc > 2 ? strtoul(argv[2], NULL, 10) : 2000000;
    struct hm_event *ev = malloc(n * sizeof(*ev));
    int64_t both_bytes, kernel_bytes, call_bytes;
    if (!ev || argc < 2)
        return 1;
    make(ev, n, 1, 1);
    double deflated = deflate_all(ev, n), both = write_file(argv[1], ev, n, &both_bytes);
    make(ev, n, 1, 0);
    double kernels = write_file(argv[1], ev, n, &kernel_bytes);
    make(ev, n, 0, 1);
    double calls = write_file(argv[1], ev, n, &call_bytes);
    double m = (double)n;
    printf("{\"events_per_s\": %.0f, \"bytes_per_event\": %.2f, \"bytes_per_kernel\": %.2f, "
           "\"kernels_per_s\": %.0f, \"calls_per_s\": %.0f, \"deflate_per_s\": %.0f}\n",
           m / both, (double)both_bytes / m, (double)kernel_bytes / m, m / kernels, m / calls,
           m / deflated);
    free(ev);
    return 0;
}
