/* Situations of data parallel jobs: compute, then one all-reduce that all leave together. */
#include "scenarios.h"

/* compute of rank i in step s */
typedef int64_t (*work_fn)(int s, int i);

/* `steps` steps and one before them: the first is never analysed. */
static void data_parallel(const char *dir, int n, work_fn ns, int64_t ar, int steps,
                          const struct plan *plan)
{
    struct job j;
    job_open(&j, dir, n, plan);
    int world = job_comm(&j, NULL, NULL, n);
    for (int s = 0; s <= steps; s++) {
        for (int i = 0; i < n; i++) {
            step_ahead(&j.r[i], s);
            compute(&j.r[i], 512, ns(s, i));
        }
        allreduce(&j, world, 1 << 20, ar);
        for (int i = 0; i < n; i++)
            step_done(&j.r[i]);
    }
    for (int i = 0; i < n; i++)
        step_ahead(&j.r[i], steps + 1);
    job_close(&j, job_end(&j));
}

static int64_t u1_ns(int s, int i)
{
    (void)s;
    return (i == 5 ? 112 : 100) * MS;
}

static void u1(const char *dir)
{
    data_parallel(dir, 8, u1_ns, 10 * MS, 40, NULL);
}

static int64_t u2_ns(int s, int i)
{
    static const int64_t ms[] = {100, 100, 112, 110};
    (void)s;
    return ms[i] * MS;
}

static void u2(const char *dir)
{
    data_parallel(dir, 4, u2_ns, 10 * MS, 40, NULL);
}

/* The load goes round: in step s rank s mod 8 has 1.2 times the tokens, and so 1.2 times the blocks
 * and the bytes of its batch. */
static void u3_work(const char *dir)
{
    struct job j;
    job_open(&j, dir, 8, NULL);
    int world = job_comm(&j, NULL, NULL, 8);
    for (int s = 0; s <= 40; s++) {
        for (int i = 0; i < 8; i++) {
            bool more = s % 8 == i;
            step_ahead(&j.r[i], s);
            gpu_copy(&j.r[i], COMPUTE, more ? 120000 : 100000, 10 * US);
            gpu_kernel(&j.r[i], COMPUTE, MATMUL, more ? 1200 : 1000, (more ? 60 : 50) * MS);
            gpu_kernel(&j.r[i], COMPUTE, BIAS, more ? 120 : 100, (more ? 60 : 50) * MS - 10 * US);
        }
        allreduce(&j, world, 1 << 20, 10 * MS);
        for (int i = 0; i < 8; i++)
            step_done(&j.r[i]);
    }
    for (int i = 0; i < 8; i++)
        step_ahead(&j.r[i], 41);
    job_close(&j, job_end(&j));
}

/* The same times, but equal work everywhere: in step s the host of rank s mod 8 stops for 20 before
 * it launches, each step's launches coming after a synchronisation. */
static void u3_pause(const char *dir)
{
    struct job j;
    job_open(&j, dir, 8, NULL);
    int world = job_comm(&j, NULL, NULL, 8);
    for (int s = 0; s <= 40; s++) {
        for (int i = 0; i < 8; i++) {
            step_synced(&j.r[i], s);
            if (s % 8 == i)
                host_busy(&j.r[i], 20 * MS);
            compute(&j.r[i], 512, 100 * MS);
        }
        allreduce(&j, world, 1 << 20, 10 * MS);
        for (int i = 0; i < 8; i++)
            step_done(&j.r[i]);
    }
    for (int i = 0; i < 8; i++)
        step_synced(&j.r[i], 41);
    job_close(&j, job_end(&j));
}

static int64_t u5_ns(int s, int i)
{
    (void)s;
    return 390 * MS + (i == 7 ? 30 * US : 0);
}

static void u5(const char *dir)
{
    data_parallel(dir, 8, u5_ns, 10 * MS, 200, NULL);
}

static int64_t u6_ns(int s, int i)
{
    (void)s;
    (void)i;
    return 20 * MS;
}

/* All start and end together in truth; node 2's clock is 0.8 ahead, and there are no probes. */
static void u6(const char *dir)
{
    static const int64_t off[8] = {0, 0, 0, 0, 800 * US, 800 * US, 800 * US, 800 * US};
    struct plan plan = {.per_node = 4, .clock_off = off, .no_probes = true};
    data_parallel(dir, 8, u6_ns, 1 * MS, 60, &plan);
}

/* r1 takes 40 longer in 16 of 20 steps (1 to 20) and 2 less in the others. */
static int64_t u26_ns(int s, int i)
{
    return (390 + (i == 0 ? 0 : s % 5 == 2 ? -2 : 40)) * MS;
}

static void u26(const char *dir)
{
    data_parallel(dir, 2, u26_ns, 10 * MS, 20, NULL);
}

/* r5 gets slow at step 21 of 40. */
static int64_t from_step_ns(int s, int i)
{
    return (i == 5 && s >= 21 ? 112 : 100) * MS;
}

static void from_step(const char *dir)
{
    data_parallel(dir, 8, from_step_ns, 10 * MS, 40, NULL);
}

/* r5 is slow in steps 21 to 30 of 60. */
static int64_t episode_ns(int s, int i)
{
    return (i == 5 && s >= 21 && s <= 30 ? 130 : 100) * MS;
}

static void episode(const char *dir)
{
    data_parallel(dir, 8, episode_ns, 10 * MS, 60, NULL);
}

static int64_t even_ns(int s, int i)
{
    (void)s;
    (void)i;
    return 100 * MS;
}

static void even(const char *dir)
{
    data_parallel(dir, 4, even_ns, 10 * MS, 40, NULL);
}

static int64_t two_nodes_ns(int s, int i)
{
    (void)s;
    return (i == 3 ? 120 : 100) * MS;
}

/* Rank 3 is slow for certain, but the clocks of the two nodes were never compared. */
static void two_nodes(const char *dir)
{
    static const int64_t off[4] = {0, 0, 9 * SEC, 9 * SEC};
    struct plan plan = {.per_node = 2, .clock_off = off, .no_probes = true};
    data_parallel(dir, 4, two_nodes_ns, 10 * MS, 40, &plan);
}

/* The same with probes: the offset of 9 s is known to 5 us. */
static void two_nodes_probed(const char *dir)
{
    static const int64_t off[4] = {0, 0, 9 * SEC, 9 * SEC};
    struct plan plan = {.per_node = 2, .clock_off = off};
    data_parallel(dir, 4, two_nodes_ns, 10 * MS, 40, &plan);
}

static int64_t few_ns(int s, int i)
{
    (void)s;
    return (i == 2 ? 150 : 100) * MS;
}

static void few_steps(const char *dir)
{
    data_parallel(dir, 4, few_ns, 10 * MS, 2, NULL);
}

/* What the driver says of a GPU. */
static void u31_health(struct rank *r, bool limited, bool shared)
{
    health(r, "gpu.sm_clock_max", "MHz", 1980);
    health(r, "gpu.sm_clock", "MHz", limited ? 1590 : 1785);
    health(r, "gpu.clock_reasons", "bits", limited ? 4 : 0); /* software power cap */
    health(r, "gpu.power_limit", "mW", limited ? 500000 : 700000);
    health(r, "gpu.power_limit_default", "mW", 700000);
    health(r, "gpu.processes", "count", shared ? 2 : 1);
    health(r, "gpu.other_pid", "pid", shared ? 31337 : 0);
}

/* Two nodes of 8; rank 9's compute takes 112, the others' 100. */
static void u31(const char *dir, int limited, int shared)
{
    struct plan plan = {.per_node = 8};
    struct job j;
    job_open(&j, dir, 16, &plan);
    int world = job_comm(&j, NULL, NULL, 16);
    for (int s = 0; s <= 40; s++) {
        for (int i = 0; i < 16; i++) {
            struct rank *r = &j.r[i];
            step_ahead(r, s);
            if (!s)
                u31_health(r, i == limited, i == shared);
            compute(r, 512, (i == 9 ? 112 : 100) * MS);
        }
        allreduce(&j, world, 1 << 20, 10 * MS);
        for (int i = 0; i < 16; i++)
            step_done(&j.r[i]);
    }
    for (int i = 0; i < 16; i++)
        step_ahead(&j.r[i], 41);
    job_close(&j, job_end(&j));
}

static void u31_limit(const char *dir)
{
    u31(dir, 9, -1);
}

static void u31_shared(const char *dir)
{
    u31(dir, -1, 9);
}

/* Rank 9 is slow, and rank 3 has the lower limit. */
static void other_limited(const char *dir)
{
    u31(dir, 3, -1);
}

const struct scenario data_parallel_scenarios[] = {{"u1", u1},
                                                   {"u2", u2},
                                                   {"u3-work", u3_work},
                                                   {"u3-pause", u3_pause},
                                                   {"u5", u5},
                                                   {"u6", u6},
                                                   {"u26", u26},
                                                   {"u31-limit", u31_limit},
                                                   {"u31-shared", u31_shared},
                                                   {"even", even},
                                                   {"from-step", from_step},
                                                   {"episode", episode},
                                                   {"u31-other", other_limited},
                                                   {"two-nodes", two_nodes},
                                                   {"two-nodes-probed", two_nodes_probed},
                                                   {"few", few_steps},
                                                   {NULL, NULL}};
