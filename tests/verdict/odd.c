/* Runs that hold nothing, too little, or what no healthy recorder writes. Nobody is at fault in any
 * of them. */
#include "scenarios.h"
#include "schedule_inside.h"

static void nothing(const char *dir)
{
    struct job j;
    job_open(&j, dir, 4, NULL);
    job_close(&j, ORIGIN + SEC);
}

/* Steps without anything on the device. */
static void marks_only(const char *dir)
{
    struct job j;
    job_open(&j, dir, 4, NULL);
    job_comm(&j, NULL, NULL, 4);
    for (int s = 0; s < 40; s++)
        for (int i = 0; i < 4; i++) {
            step_mark(&j.r[i], s);
            host_busy(&j.r[i], 10 * MS);
        }
    job_close(&j, j.r[0].host);
}

/* Only every third step has work; the windows of the others are empty. */
static void empty_steps(const char *dir)
{
    struct job j;
    job_open(&j, dir, 4, NULL);
    int world = job_comm(&j, NULL, NULL, 4);
    for (int s = 0; s < 60; s++) {
        for (int i = 0; i < 4; i++)
            step_synced(&j.r[i], s);
        if (s % 3)
            continue;
        for (int i = 0; i < 4; i++)
            compute(&j.r[i], 512, 10 * MS);
        allreduce(&j, world, 1 << 20, MS);
    }
    job_close(&j, job_end(&j));
}

/* Equal ranks; `ranks` of them, `steps` steps. */
static void equal(const char *dir, int ranks, int steps, int64_t compute_ns, int64_t transfer)
{
    struct job j;
    job_open(&j, dir, ranks, NULL);
    int world = job_comm(&j, NULL, NULL, ranks);
    for (int s = 0; s < steps; s++) {
        for (int i = 0; i < ranks; i++) {
            step_ahead(&j.r[i], s);
            compute(&j.r[i], 512, compute_ns);
        }
        allreduce(&j, world, 1 << 20, transfer);
        for (int i = 0; i < ranks; i++)
            step_done(&j.r[i]);
    }
    job_close(&j, job_end(&j));
}

static void one_rank(const char *dir)
{
    equal(dir, 1, 40, 10 * MS, MS);
}

static void one_step(const char *dir)
{
    equal(dir, 4, 1, 10 * MS, MS);
}

static void zero_kernels(const char *dir)
{
    equal(dir, 4, 40, 0, 0);
}

/* Every rank has a communicator of its own beside the world. */
static void lonely(const char *dir)
{
    struct job j;
    int own[4];
    job_open(&j, dir, 4, NULL);
    int world = job_comm(&j, NULL, NULL, 4);
    for (int i = 0; i < 4; i++)
        own[i] = job_comm(&j, "own", &i, 1);
    for (int s = 0; s < 40; s++) {
        for (int i = 0; i < 4; i++) {
            step_ahead(&j.r[i], s);
            compute(&j.r[i], 512, 10 * MS);
            allreduce_on(&j, own[i], COMM2, 1 << 20, (i + 1) * MS);
        }
        for (int i = 0; i < 4; i++) /* so that all come together */
            gpu_kernel(&j.r[i], COMPUTE, BIAS, 64, (4 - i) * MS);
        allreduce(&j, world, 1 << 20, MS);
        for (int i = 0; i < 4; i++)
            step_done(&j.r[i]);
    }
    job_close(&j, job_end(&j));
}

/* A ring of messages without content. */
static void empty_messages(const char *dir)
{
    uint64_t count[16] = {0};
    struct job j;
    job_open(&j, dir, 4, NULL);
    int world = job_comm(&j, NULL, NULL, 4);
    for (int s = 0; s < 40; s++) {
        for (int i = 0; i < 4; i++) {
            step_ahead(&j.r[i], s);
            compute(&j.r[i], 512, 10 * MS);
        }
        alltoallv(&j, world, count, true, 20 * US);
        for (int i = 0; i < 4; i++)
            step_done(&j.r[i]);
    }
    job_close(&j, job_end(&j));
}

/* The ranks mark their steps in their own ways: all, every second one, none, and under numbers that
 * go down. */
static void uneven_marks(const char *dir)
{
    struct job j;
    job_open(&j, dir, 4, NULL);
    int world = job_comm(&j, NULL, NULL, 4);
    for (int s = 0; s < 40; s++) {
        for (int i = 0; i < 4; i++) {
            struct rank *r = &j.r[i];
            if (r->host < r->step_end[0])
                r->host = r->step_end[0];
            if (i == 0 || (i == 1 && s % 2))
                step_mark(r, s);
            if (i == 3)
                step_mark(r, 1000 - s);
            compute(r, 512, 10 * MS);
        }
        allreduce(&j, world, 1 << 20, MS);
        for (int i = 0; i < 4; i++)
            step_done(&j.r[i]);
    }
    job_close(&j, job_end(&j));
}

/* The recording of rank 3 ends after half of the steps. */
static void uneven_ends(const char *dir)
{
    struct job j;
    job_open(&j, dir, 4, NULL);
    int world = job_comm(&j, NULL, NULL, 4), three = job_comm(&j, NULL, NULL, 3);
    for (int s = 0; s < 40; s++) {
        int n = s < 20 ? 4 : 3;
        for (int i = 0; i < n; i++) {
            step_ahead(&j.r[i], s);
            compute(&j.r[i], 512, 10 * MS);
        }
        allreduce(&j, n == 4 ? world : three, 1 << 20, MS);
        for (int i = 0; i < n; i++)
            step_done(&j.r[i]);
        if (s == 19)
            rank_close(&j.r[3], job_end(&j), HM_END_CLEAN);
    }
    job_close(&j, job_end(&j));
}

#define ODD_NAME "\x01\x1b[31m\"\\\n\t\xff\xfe \xc3\x28 <script>"

/* Names of kernels, ranges, communicators, counters with control characters, quotes, and bytes that
 * are no UTF-8. */
static void odd_names(const char *dir)
{
    struct job j;
    job_open(&j, dir, 4, NULL);
    int world = job_comm(&j, ODD_NAME, NULL, 4);
    for (int s = 0; s < 40; s++) {
        for (int i = 0; i < 4; i++) {
            struct rank *r = &j.r[i];
            step_ahead(r, s);
            host_range(r, ODD_NAME "range", 10 * US);
            counter(r, ODD_NAME "domain", ODD_NAME "name", ODD_NAME, -1);
            host_api(r, ODD_NAME "api", 10 * US);
            gpu_kernel(r, COMPUTE, ODD_NAME "kernel", 512, 5 * MS);
            gpu_kernel(r, COMPUTE, "", 512, 5 * MS);
        }
        allreduce(&j, world, 1 << 20, MS);
        for (int i = 0; i < 4; i++)
            step_done(&j.r[i]);
    }
    job_close(&j, job_end(&j));
}

static void raw_kernel(struct rank *r, int64_t t, int64_t dur, uint32_t correlation)
{
    struct hm_event k = {
        .t_ns = t, .dur_ns = dur, .kind = HM_EV_KERNEL, .track = stream_track(COMPUTE)};
    k.u.kernel.kernel = kernel_id(r, MATMUL, 256);
    k.u.kernel.correlation = correlation;
    k.u.kernel.grid[0] = k.u.kernel.grid[1] = k.u.kernel.grid[2] = UINT32_MAX;
    put(r, k);
}

/* Equal ranks, and among their kernels some that begin before their launch, inside another of the
 * same stream, last a negative time or have not ended; numbers as large as they get; or, wild, some
 * at the ends of time. */
static void odd_events(const char *dir, bool wild)
{
    struct job j;
    job_open(&j, dir, 4, NULL);
    int world = job_comm(&j, NULL, NULL, 4);
    for (int i = 0; i < 4; i++) {
        j.r[i].correlation = UINT32_MAX - 100; /* wraps around */
        j.r[i].launch = UINT32_MAX - 20;
    }
    for (int s = 0; s < 40; s++) {
        for (int i = 0; i < 4; i++) {
            struct rank *r = &j.r[i];
            step_ahead(r, s);
            int64_t end = gpu_kernel(r, COMPUTE, MATMUL, 512, 10 * MS);
            raw_kernel(r, r->host - 5 * MS, MS, r->correlation);
            raw_kernel(r, end - 3 * MS, MS, 0);
            raw_kernel(r, end - 2 * MS, -MS, 0);
            if (s == 5 && wild) {
                raw_kernel(r, INT64_MAX - SEC, SEC, 0);
                raw_kernel(r, 0, 0, 0);
                raw_kernel(r, INT64_MIN / 2, INT64_MAX, 0);
            } else if (s == 5) {
                raw_kernel(r, end, HM_DUR_OPEN, 0);
                counter(r, "application", "largest", "", INT64_MAX);
                memory_event(r, true, UINT64_MAX, UINT64_MAX);
            }
        }
        allreduce(&j, world, s % 2 ? UINT64_MAX : UINT64_C(1) << 62, MS);
        for (int i = 0; i < 4; i++)
            step_done(&j.r[i]);
    }
    job_close(&j, job_end(&j));
}

static void odd_numbers(const char *dir)
{
    odd_events(dir, false);
}

static void odd_times(const char *dir)
{
    odd_events(dir, true);
}

const struct scenario odd_scenarios[] = {{"odd-nothing", nothing},
                                         {"odd-marks-only", marks_only},
                                         {"odd-empty-steps", empty_steps},
                                         {"odd-one-rank", one_rank},
                                         {"odd-one-step", one_step},
                                         {"odd-zero-kernels", zero_kernels},
                                         {"odd-lonely", lonely},
                                         {"odd-empty-messages", empty_messages},
                                         {"odd-uneven-marks", uneven_marks},
                                         {"odd-uneven-ends", uneven_ends},
                                         {"odd-names", odd_names},
                                         {"odd-numbers", odd_numbers},
                                         {"odd-times", odd_times},
                                         {NULL, NULL}};
