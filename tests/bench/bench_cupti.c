/* What one CUPTI record costs on the parsing thread, from the buffer to the committed event.
 *
 * Box: tests/bench. One thread. The recorder's own parser, pool and writer; buffers as CUPTI fills
 * them for a training step: per launch one driver call and one kernel, 320 kernels of 40 names on
 * two streams. Times of a buffer lie where the one before it ended. record    hm_cupti_parse(), per
 * record step      stepping over the same records by their size, per record: what any reader must
 * do buffer    request, take and recycle of a buffer, per launch
 */
#include "record/cupti_source.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { API_BYTES = 40, KERNEL_BYTES = 216, LAUNCHES = 4000, N_NAMES = 40 };

static uint8_t buffer[LAUNCHES * (API_BYTES + KERNEL_BYTES)] __attribute__((aligned(8)));
static char name[N_NAMES][64];

static void put32(uint8_t *at, uint32_t v)
{
    memcpy(at, &v, sizeof(v));
}
static void put64(uint8_t *at, uint64_t v)
{
    memcpy(at, &v, sizeof(v));
}

static void fill(int64_t t, uint32_t correlation, uint32_t tid)
{
    memset(buffer, 0, sizeof(buffer));
    for (uint32_t i = 0; i < LAUNCHES; i++) {
        uint8_t *api = buffer + i * (API_BYTES + KERNEL_BYTES), *k = api + API_BYTES;
        const char *text = name[i % 320 % N_NAMES];
        put32(api, HM_CUPTI_DRIVER);
        put32(api + 4, 652);
        put64(api + 8, (uint64_t)t);
        put64(api + 16, (uint64_t)t + 4000);
        put32(api + 24, (uint32_t)getpid());
        put32(api + 28, tid);
        put32(api + 32, correlation + i);
        put32(k, HM_CUPTI_KERNEL);
        put64(k + 16, (uint64_t)t + 6000);
        put64(k + 24, (uint64_t)t + 16000 + i % 97);
        put32(k + 44, 0);
        put32(k + 48, i % 5 ? 7 : 20); /* streams and contexts repeat */
        put32(k + 52, 128 + i % 3);
        put32(k + 92, correlation + i);
        put64(k + 104, (uint64_t)(uintptr_t)text);
        t += 20000;
    }
}

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

static int api_name(int domain, uint32_t cbid, const char **name_p)
{
    (void)domain;
    (void)cbid;
    *name_p = "cuLaunchKernelEx";
    return 0;
}

int main(int argc, char **argv)
{
    unsigned n = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 300;
    static struct hm_cupti_reader reader;
    double *v = calloc(3 * (size_t)n, sizeof(*v));
    if (!v || !hm_wake(HM_CAUSE_API) || hm_cupti_buffers_init(1, 0)) {
        fprintf(stderr, "bench_cupti: the recorder does not wake\n");
        return 1;
    }
    hm_claim(0, 1, 0, 1);
    for (int i = 0; i < N_NAMES; i++)
        snprintf(name[i], sizeof(name[i]), "_Z%dkernel_%02d_of_a_training_stepPfS_S_i", 10 + i, i);
    reader.version = 130001;
    reader.clock = HM_CLOCK_RAW;
    reader.begin_ns = hm_now() - INT64_C(1000000000);
    reader.now_ns = INT64_MAX / 2;
    reader.api_name = api_name;
    reader.size[HM_CUPTI_DRIVER] = API_BYTES;
    reader.size[HM_CUPTI_KERNEL] = KERNEL_BYTES;
    int64_t t = hm_now();
    uint32_t tid = (uint32_t)syscall(SYS_gettid);
    uint64_t lost = 0, before = 0;
    for (int i = 0; i < HM_N_LOST; i++)
        before += atomic_load(&hm.view.pool->lost[i]);
    for (unsigned i = 0; i < n; i++) {
        fill(t, 1 + i * LAUNCHES, tid);
        t += (int64_t)LAUNCHES * 20000;
        int64_t t0 = hm_now();
        uint32_t got = hm_cupti_parse(&reader, buffer, sizeof(buffer));
        v[i] = (double)(hm_now() - t0) / (2.0 * LAUNCHES);
        if (got != 2 * LAUNCHES)
            return 1;
        static volatile uint32_t sum;
        t0 = hm_now();
        for (size_t at = 0; at < sizeof(buffer);) {
            uint32_t kind;
            memcpy(&kind, buffer + at, sizeof(kind));
            sum += kind;
            at += reader.size[kind];
        }
        v[n + i] = (double)(hm_now() - t0) / (2.0 * LAUNCHES);
        uint8_t *b;
        size_t size, records, valid;
        t0 = hm_now();
        hm_cupti_buffer_request(&b, &size, &records);
        hm_cupti_buffer_complete(NULL, 0, b, size, 64);
        const uint8_t *taken = hm_cupti_buffer_take(&valid);
        if (taken)
            hm_cupti_buffer_recycle(taken);
        v[2 * n + i] = (double)(hm_now() - t0) / LAUNCHES;
        usleep(3000); /* the writer keeps up: 8,000 events in a buffer */
    }
    for (int i = 0; i < HM_N_LOST; i++)
        lost += atomic_load(&hm.view.pool->lost[i]);
    double record = median(v, n), step = median(v + n, n), hand = median(v + 2 * (size_t)n, n);
    printf("{\"record_ns\": %.1f, \"step_ns\": %.1f, \"launch_added_ns\": %.1f, \"lost\": %" PRIu64
           "}\n",
           record, step, 2 * record + hand, lost - before);
    free(v);
    hm_leave();
    return 0;
}
