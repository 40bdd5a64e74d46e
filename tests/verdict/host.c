/* Situations whose cause lies on the host, and what an observer does to a job. */
#include "scenarios.h"

#include <stdio.h>

/* What the host of rank i does in step s between the synchronisation and the launches. */
typedef void (*host_fn)(struct rank *r, int s);

/* Every step is launched after the device finished the one before it, so that what holds the host
 * holds the device: compute ns, all-reduce ar. `steps` steps after the first. */
static void synced(const char *dir, int n, int64_t ns, int64_t ar, int steps, host_fn before)
{
    struct job j;
    job_open(&j, dir, n, NULL);
    int world = job_comm(&j, NULL, NULL, n);
    for (int s = 0; s <= steps; s++) {
        for (int i = 0; i < n; i++) {
            step_synced(&j.r[i], s);
            before(&j.r[i], s);
            compute(&j.r[i], 512, ns);
        }
        allreduce(&j, world, 1 << 20, ar);
        for (int i = 0; i < n; i++)
            step_done(&j.r[i]);
    }
    for (int i = 0; i < n; i++)
        step_synced(&j.r[i], steps + 1);
    job_close(&j, job_end(&j));
}

/* Compute [0,100) on both; the all-gather on the side stream is launched at 40 and at 90, takes 40
 * after the last start: the step is 130.003 instead of 100. */
static void u17(const char *dir)
{
    static const int64_t launch[2] = {40 * MS, 90 * MS};
    struct job j;
    job_open(&j, dir, 2, NULL);
    int world = job_comm(&j, NULL, NULL, 2);
    for (int s = 0; s <= 40; s++) {
        int64_t t = job_end(&j);
        for (int i = 0; i < 2; i++) {
            struct rank *r = &j.r[i];
            r->host = t - 2 * MS;
            step_mark(r, s);
            compute(r, 512, 100 * MS);
            r->host = t + launch[i] - 9 * US; /* its launch ends 9 us later */
        }
        collective_on(&j, world, COMM, HM_NCCL_ALLGATHER, 1 << 20, 40 * MS);
        for (int i = 0; i < 2; i++)
            gpu_await(&j.r[i], COMPUTE, COMM);
    }
    for (int i = 0; i < 2; i++) {
        j.r[i].host = job_end(&j);
        step_mark(&j.r[i], 41);
    }
    job_close(&j, job_end(&j));
}

/* All wait 80 of 400 for input in the same steps. */
static void u19_input(struct rank *r, int s)
{
    (void)s;
    host_range(r, "input", 80 * MS);
}

/* The same on rank 3 alone. */
static void one_input(struct rank *r, int s)
{
    (void)s;
    host_range(r, "input", r->me == 3 ? 80 * MS : 50 * US);
}

static void u19_one(const char *dir)
{
    synced(dir, 8, 310 * MS, 10 * MS, 40, one_input);
}

static void u19(const char *dir)
{
    synced(dir, 8, 310 * MS, 10 * MS, 40, u19_input);
}

/* Eight loader workers that do not keep up: every eighth batch comes 400 late. */
static void u20_input(struct rank *r, int s)
{
    host_range(r, "input", s % 8 == 7 ? 400 * MS : 50 * US);
}

static void u20(const char *dir)
{
    synced(dir, 4, 190 * MS, 10 * MS, 64, u20_input);
}

/* Rank 0 writes a checkpoint of 4 s every 100 steps. */
static void u21_checkpoint(struct rank *r, int s)
{
    if (!r->me && s % 100 == 50)
        host_range(r, "checkpoint", 4 * SEC);
}

static void u21(const char *dir)
{
    synced(dir, 4, 390 * MS, 10 * MS, 400, u21_checkpoint);
}

/* Rank 2 compiles once, 45 s. */
static void u24_compile(struct rank *r, int s)
{
    if (r->me == 2 && s == 57)
        host_busy(r, 45 * SEC);
}

static void u24(const char *dir)
{
    synced(dir, 4, 390 * MS, 10 * MS, 200, u24_compile);
}

/* Each of 512 ranks stops for 150 once in 500 steps, at random: here 32 ranks, eight times each in
 * 250 steps, so that as large a part of the steps is hit. Of a stop nothing is recorded, no call
 * and no range, but that the thread had a CPU or, descheduled, wanted one. */
enum { U4_RANKS = 32, U4_STEPS = 250, U4_STOPS = 8 };
static uint8_t u4_stops[U4_RANKS][U4_STEPS + 1];

static void u4_busy(struct rank *r, int s)
{
    if (u4_stops[r->me][s])
        host_busy(r, 150 * MS);
}

static void u4_descheduled(struct rank *r, int s)
{
    if (u4_stops[r->me][s])
        host_descheduled(r, 150 * MS);
}

static void stops(const char *dir, host_fn stop)
{
    struct job random = {.random = 88172645463325252U};
    for (int i = 0; i < U4_RANKS; i++)
        for (int k = 0; k < U4_STOPS;) {
            uint64_t s = 1 + job_random(&random, U4_STEPS);
            k += !u4_stops[i][s];
            u4_stops[i][s] = 1;
        }
    int hit = 0;
    for (int s = 1; s <= U4_STEPS; s++) {
        int any = 0;
        for (int i = 0; i < U4_RANKS; i++)
            any |= u4_stops[i][s];
        hit += any;
    }
    printf("hit %d\n", hit);
    synced(dir, U4_RANKS, 390 * MS, 10 * MS, U4_STEPS, stop);
}

static void u4(const char *dir)
{
    stops(dir, u4_busy);
}

static void descheduled(const char *dir)
{
    stops(dir, u4_descheduled);
}

/* Rank 4's memory is all but full: in 30 of 100 steps the allocator has to give cached blocks back
 * before it can allocate, which waits for the device and then takes 120. */
enum { U22_STEPS = 100, U22_HITS = 30 };
#define GIB (UINT64_C(1) << 30)

static void u22_allocate(struct rank *r)
{
    const uint64_t full = UINT64_C(79100) << 20; /* 79.1 of 80 GB */
    host_api(r, "cudaMalloc_v3020", 200 * US);   /* fails */
    host_sync(r, "cudaDeviceSynchronize_v3020");
    for (int i = 0; i < 39; i++) {
        host_api(r, "cudaFree_v3020", 3 * MS);
        memory_event(r, false, GIB / 4, full - (uint64_t)(i + 1) * (GIB / 4));
    }
    host_api(r, "cudaMalloc_v3020", 3 * MS);
    memory_event(r, true, 39 * (GIB / 4), full);
}

static void u22(const char *dir)
{
    bool hit[U22_STEPS + 1] = {false};
    struct job j;
    job_open(&j, dir, 8, NULL);
    int world = job_comm(&j, NULL, NULL, 8);
    for (int k = 0; k < U22_HITS;) {
        uint64_t s = 1 + job_random(&j, U22_STEPS);
        k += !hit[s];
        hit[s] = true;
    }
    for (int s = 0; s <= U22_STEPS; s++) {
        for (int i = 0; i < 8; i++) {
            struct rank *r = &j.r[i];
            step_ahead(r, s);
            gpu_kernel(r, COMPUTE, MATMUL, 512, 195 * MS);
            if (i == 4 && hit[s])
                u22_allocate(r);
            gpu_kernel(r, COMPUTE, BIAS, 64, 195 * MS);
        }
        allreduce(&j, world, 1 << 20, 10 * MS);
        for (int i = 0; i < 8; i++)
            step_done(&j.r[i]);
    }
    for (int i = 0; i < 8; i++)
        step_ahead(&j.r[i], U22_STEPS + 1);
    job_close(&j, job_end(&j));
}

/* torch.profiler on rank 0 alone, in steps 100 to 110: its kernels and calls take longer under
 * another user of CUPTI, which also writes its trace (2 s) when it stops. */
static void u32_profiler(struct rank *r, int s)
{
    if (r->me || s < 100 || s > 110)
        return;
    overhead(r, HM_OVERHEAD_INSTRUMENTATION, 20 * MS);
    overhead(r, HM_OVERHEAD_BUFFER_FLUSH, 10 * MS);
    if (s == 110)
        overhead(r, HM_OVERHEAD_BUFFER_FLUSH, 2 * SEC);
}

static void u32(const char *dir)
{
    synced(dir, 4, 190 * MS, 10 * MS, 200, u32_profiler);
}

/* Rank 2's host thread computes for 30 in every step before it launches, or waits for a CPU. */
static void busy_host(struct rank *r, int s)
{
    (void)s;
    if (r->me == 2)
        host_busy(r, 30 * MS);
}

static void crowded_host(struct rank *r, int s)
{
    (void)s;
    if (r->me == 2)
        host_descheduled(r, 30 * MS);
}

static void busy(const char *dir)
{
    synced(dir, 4, 100 * MS, 10 * MS, 40, busy_host);
}

static void crowded(const char *dir)
{
    synced(dir, 4, 100 * MS, 10 * MS, 40, crowded_host);
}

const struct scenario host_scenarios[] = {{"u4", u4},
                                          {"u4-descheduled", descheduled},
                                          {"u17", u17},
                                          {"host-busy", busy},
                                          {"host-crowded", crowded},
                                          {"u19", u19},
                                          {"u19-one", u19_one},
                                          {"u20", u20},
                                          {"u21", u21},
                                          {"u22", u22},
                                          {"u24", u24},
                                          {"u32", u32},
                                          {NULL, NULL}};
