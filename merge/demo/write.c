/* The demo's run folder.
 *
 * Box: merge/demo. Two passes: all ranks together for the instants at which they meet, then rank by
 * rank with those, one file open at a time. Every rank is written through the same calls as the
 * recorder's writer makes.
 */
#include "demo/demo.h"
#include "demo/model.h"
#include "store/rankfile.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { BATCH = 1024 };
static const int64_t REAL_START = INT64_C(1767225600000000000); /* 2026-01-01, any day will do */

/* First pass: last start of each bucket, [n_steps][HM_DEMO_BUCKETS]; and each step's end. */
static hm_status_t meet(const struct hm_demo *d, int64_t *last_p, int64_t *step_end_p)
{
    struct hm_demo_rank *r = calloc(d->n_ranks, sizeof(*r));
    struct hm_demo_half *half = calloc(d->n_ranks, sizeof(*half));
    if (!r || !half) {
        free(r);
        free(half);
        return hm_fail(HM_E_NOMEM, "demo", "out of memory");
    }
    for (uint32_t i = 0; i < d->n_ranks; i++)
        hm_demo_rank_init(d, i, &r[i]);
    for (uint32_t step = 0; step < d->n_steps; step++) {
        for (uint32_t i = 0; i < d->n_ranks; i++)
            hm_demo_step_begin(d, &r[i], step, &half[i], NULL, NULL);
        for (uint32_t b = 0; b < HM_DEMO_BUCKETS; b++) {
            int64_t last = INT64_MIN;
            for (uint32_t i = 0; i < d->n_ranks; i++) {
                int64_t start = hm_demo_bucket_start(&r[i], &half[i], b);
                last = start > last ? start : last;
            }
            for (uint32_t i = 0; i < d->n_ranks; i++)
                hm_demo_bucket_end(d, &r[i], step, b, 0, last, 0, NULL, NULL);
            last_p[step * HM_DEMO_BUCKETS + b] = last;
        }
        int64_t end = INT64_MIN;
        for (uint32_t i = 0; i < d->n_ranks; i++) {
            hm_demo_step_end(d, &r[i], step, NULL, NULL);
            end = r[i].host_ns > end ? r[i].host_ns : end;
        }
        step_end_p[step] = end;
    }
    free(r);
    free(half);
    return HM_OK;
}

static hm_status_t total_of(const struct hm_demo *d, int64_t *ns_p)
{
    int64_t *last = malloc(((size_t)d->n_steps * HM_DEMO_BUCKETS + 1) * sizeof(*last));
    int64_t *end = malloc(((size_t)d->n_steps + 1) * sizeof(*end));
    hm_status_t s = last && end ? meet(d, last, end) : hm_fail(HM_E_NOMEM, "demo", "out of memory");
    if (!s)
        *ns_p = d->n_steps > 1 ? end[d->n_steps - 1] - end[0] : 0;
    free(last);
    free(end);
    return s;
}

hm_status_t hm_demo_truth(const struct hm_demo *d, struct hm_demo_truth *truth_p)
{
    struct hm_demo healthy = *d;
    struct hm_demo_truth t;
    healthy.n_faults = 0;
    hm_status_t s = total_of(d, &t.total_ns);
    if (!s)
        s = total_of(&healthy, &t.repaired_ns);
    if (!s)
        *truth_p = t;
    return s;
}

/* ---- second pass ---- */

struct sink {
    struct hm_rankfile *rf;
    struct hm_event ev[BATCH];
    uint32_t n;
};

static hm_status_t out(void *ctx, const struct hm_event *ev)
{
    struct sink *s = ctx;
    s->ev[s->n++] = *ev;
    if (s->n < BATCH)
        return HM_OK;
    s->n = 0;
    return hm_rankfile_append(s->rf, s->ev, BATCH);
}

static hm_status_t define(struct hm_rankfile *rf, const struct hm_demo *d, uint32_t rank)
{
    static const char *const text[DEMO_N_STRINGS] = {
        [DEMO_S_EMPTY] = "",
        [DEMO_S_FORWARD] = "_Z12gemm_forwardPKfS0_Pfi",
        [DEMO_S_BACKWARD] = "_Z13gemm_backwardPKfS0_Pfi",
        [DEMO_S_NORM] = "_Z10layer_normPKfPfi",
        [DEMO_S_OPTIMIZER] = "_Z8sgd_stepPfPKffi",
        [DEMO_S_NCCL] =
            "_Z40ncclDevKernel_AllReduce_Sum_f32_RING_LL24ncclDevKernelArgsStorageILm4096EE",
        [DEMO_S_LAUNCH] = "cudaLaunchKernel",
        [DEMO_S_LAUNCH_EXC] = "cudaLaunchKernelExC",
        [DEMO_S_INPUT] = "input",
        [DEMO_S_MAIN] = "main",
        [DEMO_S_COMPUTE] = "stream 7",
        [DEMO_S_COMM] = "stream 13",
        [DEMO_S_DOMAIN] = "hindmost",
        [DEMO_S_GPU] = "Demo GPU",
        [DEMO_S_WORLD] = "world"};
    static const uint32_t name[DEMO_N_KERNELS] = {DEMO_S_FORWARD, DEMO_S_BACKWARD, DEMO_S_NORM,
                                                  DEMO_S_OPTIMIZER, DEMO_S_NCCL};
    uint32_t device = rank % 8;
    hm_status_t s = HM_OK;
    for (uint32_t i = 0; i < DEMO_N_STRINGS && !s; i++)
        s = hm_rankfile_define(rf, HM_DEF_STRING, i, text[i], (uint32_t)strlen(text[i]));
    struct hm_def_track track[DEMO_N_TRACKS] = {
        {.type = HM_TRACK_THREAD, .name = DEMO_S_MAIN, .tid = 1000 + rank},
        {.type = HM_TRACK_STREAM,
         .name = DEMO_S_COMPUTE,
         .device = device,
         .context = 1,
         .stream = 7},
        {.type = HM_TRACK_STREAM,
         .name = DEMO_S_COMM,
         .device = device,
         .context = 1,
         .stream = 13}};
    for (uint32_t i = 0; i < DEMO_N_TRACKS && !s; i++)
        s = hm_rankfile_define(rf, HM_DEF_TRACK, i, &track[i], sizeof(track[i]));
    for (uint32_t i = 0; i < DEMO_N_KERNELS && !s; i++) {
        struct hm_def_kernel k = {.name = name[i], .block = {256, 1, 1}, .registers = 64};
        s = hm_rankfile_define(rf, HM_DEF_KERNEL, i, &k, sizeof(k));
    }
    struct hm_def_comm comm = {.hash = UINT64_C(0xd3a0000000000000) ^ d->seed,
                               .crank = (int32_t)rank,
                               .n_ranks = (int32_t)d->n_ranks,
                               .n_nodes = (int32_t)((d->n_ranks + 7) / 8),
                               .device = (int32_t)device,
                               .name = DEMO_S_WORLD,
                               .interface = 5,
                               .nccl_version = 22809};
    struct hm_def_device gpu = {.memory_bytes = UINT64_C(80) << 30,
                                .device = device,
                                .name = DEMO_S_GPU,
                                .n_sm = 132,
                                .cc = 90,
                                .clock_khz = 1980000};
    gpu.uuid[0] = 0xd3;
    gpu.uuid[14] = (uint8_t)(rank >> 8);
    gpu.uuid[15] = (uint8_t)rank;
    if (!s)
        s = hm_rankfile_define(rf, HM_DEF_COMM, 0, &comm, sizeof(comm));
    if (!s)
        s = hm_rankfile_define(rf, HM_DEF_DEVICE, 0, &gpu, sizeof(gpu));
    return s;
}

static hm_status_t write_rank(const struct hm_demo *d, uint32_t rank, const int64_t *last,
                              const char *dir)
{
    struct hm_rank_meta meta = {.rank = (int32_t)rank,
                                .n_ranks = (int32_t)d->n_ranks,
                                .local_rank = (int32_t)(rank % 8),
                                .pid = (int32_t)(1000 + rank),
                                .nonce = d->seed,
                                .source = HM_SOURCE_DEMO};
    struct hm_demo_rank r;
    hm_demo_rank_init(d, rank, &r);
    meta.start_raw_ns = r.host_ns;
    meta.start_real_ns = REAL_START;
    /* one clock for all: the demo is about stragglers, not about clocks */
    snprintf(meta.host, sizeof(meta.host), "demo%02u", rank / 8);
    snprintf(meta.boot_id, sizeof(meta.boot_id), "demo");
    snprintf(meta.run_id, sizeof(meta.run_id), "demo-%" PRIu64, d->seed);
    snprintf(meta.program, sizeof(meta.program), "hindmost demo");
    struct sink *sink = calloc(1, sizeof(*sink));
    if (!sink)
        return hm_fail(HM_E_NOMEM, "demo", "out of memory");
    hm_status_t s = hm_rankfile_create(dir, &meta, &sink->rf);
    if (s) {
        free(sink);
        return s;
    }
    s = define(sink->rf, d, rank);
    for (uint32_t step = 0; step < d->n_steps && !s; step++) {
        struct hm_demo_half half = {{0}, {0}};
        uint32_t first = r.correlation;
        s = hm_demo_step_begin(d, &r, step, &half, out, sink);
        /* launches are numbered in the order they were made: 2 kernels a forward layer, then
         * after every HM_DEMO_LAYERS_PER_BUCKET kernels of backward a collective */
        for (uint32_t b = 0; b < HM_DEMO_BUCKETS && !s; b++) {
            uint32_t correlation =
                first + 2 * HM_DEMO_LAYERS + (b + 1) * (HM_DEMO_LAYERS_PER_BUCKET + 1);
            int64_t start = hm_demo_bucket_start(&r, &half, b);
            s = hm_demo_bucket_end(d, &r, step, b, start, last[step * HM_DEMO_BUCKETS + b],
                                   correlation, out, sink);
        }
        if (!s)
            s = hm_demo_step_end(d, &r, step, out, sink);
    }
    if (!s && sink->n)
        s = hm_rankfile_append(sink->rf, sink->ev, sink->n);
    if (s)
        hm_rankfile_discard(sink->rf);
    else
        s = hm_rankfile_close(sink->rf, HM_END_CLEAN);
    free(sink);
    return s;
}

static hm_status_t write_truth(const struct hm_demo *d, const struct hm_demo_truth *t,
                               const char *dir)
{
    static const char *const kind[] = {"slow_gpu", "slow_input", "late_launch", "more_work"};
    char path[1200];
    snprintf(path, sizeof(path), "%s/truth.json", dir);
    FILE *f = fopen(path, "w");
    if (!f)
        return hm_fail(HM_E_IO, path, "cannot be written: %s", strerror(errno));
    fprintf(f, "{\"ranks\": %u, \"steps\": %u, \"seed\": %" PRIu64 ",\n \"faults\": [", d->n_ranks,
            d->n_steps, d->seed);
    for (uint32_t i = 0; i < d->n_faults; i++)
        fprintf(f, "%s{\"kind\": \"%s\", \"rank\": %u, \"value\": %g, \"from_step\": %u}",
                i ? ", " : "", kind[d->fault[i].kind], d->fault[i].rank, d->fault[i].value,
                d->fault[i].from_step);
    fprintf(f,
            "],\n \"total_ns\": %" PRId64 ", \"repaired_ns\": %" PRId64 ", \"gain_ns\": %" PRId64
            "}\n",
            t->total_ns, t->repaired_ns, t->total_ns - t->repaired_ns);
    int bad = ferror(f);
    if (fclose(f) || bad)
        return hm_fail(HM_E_IO, path, "cannot be written");
    return HM_OK;
}

hm_status_t hm_demo_write(const struct hm_demo *d, const char *dir)
{
    if (mkdir(dir, 0755)) {
        if (errno == EEXIST)
            return hm_fail(HM_E_DATA, dir, "exists already; name a new folder");
        return hm_fail(HM_E_IO, dir, "cannot be made: %s", strerror(errno));
    }
    int64_t *last = malloc(((size_t)d->n_steps * HM_DEMO_BUCKETS + 1) * sizeof(*last));
    int64_t *end = malloc(((size_t)d->n_steps + 1) * sizeof(*end));
    hm_status_t s = last && end ? meet(d, last, end) : hm_fail(HM_E_NOMEM, "demo", "out of memory");
    for (uint32_t i = 0; i < d->n_ranks && !s; i++)
        s = write_rank(d, i, last, dir);
    struct hm_demo_truth truth;
    if (!s)
        s = hm_demo_truth(d, &truth);
    if (!s)
        s = write_truth(d, &truth, dir);
    free(last);
    free(end);
    return s;
}
