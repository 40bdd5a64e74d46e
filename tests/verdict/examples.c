/* The hand-checked examples of single measures, as runs: the figures stand in expected.py. Times of
 * the first five in us, of the others in ms. */
#include "scenarios.h"
#include "schedule_inside.h"

/* An operation of rank r from start to end, in us after ORIGIN, launched 50 us before. */
static void at(struct rank *r, int comm, enum stream stream, struct op op, int64_t start,
               int64_t end)
{
    r->host = ORIGIN + (start - 50) * US;
    struct posted posted = nccl_post(r, comm, stream, &op, 1);
    r->gpu[stream] = posted.ready = ORIGIN + start * US;
    nccl_run(r, &posted, ORIGIN + end * US);
}

static void work_at(struct rank *r, int64_t start, int64_t end)
{
    r->host = ORIGIN + (start - 50) * US;
    r->gpu[COMPUTE] = ORIGIN + start * US;
    gpu_kernel(r, COMPUTE, MATMUL, 512, (end - start) * US);
}

static const struct op reduce_op = {HM_NCCL_ALLREDUCE, 1000000, -1};

static void e1(const char *dir)
{
    static const int64_t s[4] = {100, 130, 180, 110}, e[4] = {221, 220, 222, 220};
    struct job j;
    job_open(&j, dir, 4, NULL);
    int world = job_comm(&j, NULL, NULL, 4);
    for (int i = 0; i < 4; i++)
        at(&j.r[i], world, COMM, reduce_op, s[i], e[i]);
    job_close(&j, job_end(&j));
}

static void e2(const char *dir)
{
    static const int64_t s[3] = {100, 90, 120}, e[3] = {130, 140, 150};
    struct job j;
    job_open(&j, dir, 3, NULL);
    int world = job_comm(&j, NULL, NULL, 3);
    for (int i = 0; i < 3; i++)
        at(&j.r[i], world, COMM, (struct op){HM_NCCL_BROADCAST, 1000000, 0}, s[i], e[i]);
    job_close(&j, job_end(&j));
}

static void e3(const char *dir)
{
    struct job j;
    job_open(&j, dir, 2, NULL);
    int world = job_comm(&j, NULL, NULL, 2);
    work_at(&j.r[0], 90, 150);
    at(&j.r[0], world, COMM, reduce_op, 100, 200);
    at(&j.r[1], world, COMM, reduce_op, 180, 200);
    job_close(&j, job_end(&j));
}

static void e4(const char *dir)
{
    struct job j;
    job_open(&j, dir, 2, NULL);
    int world = job_comm(&j, NULL, NULL, 2);
    struct rank *r = &j.r[0];
    work_at(r, 0, 40);
    at(r, world, COMM, reduce_op, 30, 70);
    r->gpu[COMM2] = ORIGIN + 65 * US;
    r->host = r->gpu[COMM2] - 50 * US;
    gpu_copy(r, COMM2, 1 << 20, 10 * US);
    work_at(r, 80, 95);
    at(&j.r[1], world, COMM, reduce_op, 50, 70);
    job_close(&j, job_end(&j));
}

/* One of 41 all-reduces, or all, ends on rank 0 before it begins on rank 1. */
static void violations(const char *dir, bool all)
{
    struct job j;
    job_open(&j, dir, 2, NULL);
    int world = job_comm(&j, NULL, NULL, 2);
    for (int s = 0; s <= 40; s++) {
        int64_t t = 300 * s;
        for (int i = 0; i < 2; i++) {
            j.r[i].host = ORIGIN + (t - 60) * US;
            step_mark(&j.r[i], s);
            work_at(&j.r[i], t, t + 100);
        }
        if (all || s == 20) {
            at(&j.r[0], world, COMM, reduce_op, t + 100, t + 150);
            at(&j.r[1], world, COMM, reduce_op, t + 160, t + 200);
        } else {
            at(&j.r[0], world, COMM, reduce_op, t + 100, t + 200);
            at(&j.r[1], world, COMM, reduce_op, t + 100, t + 200);
        }
    }
    job_close(&j, job_end(&j));
}

static void e17(const char *dir)
{
    violations(dir, false);
}

static void e17_all(const char *dir)
{
    violations(dir, true);
}

/* r0 computes 60, r1 30, then both meet; r1 computes 10 and meets r2, who computed 45. Afterwards
 * all meet, together. */
static void e7(const char *dir)
{
    struct job j;
    job_open(&j, dir, 3, NULL);
    int world = job_comm(&j, NULL, NULL, 3), g1 = job_comm(&j, NULL, (int[]){0, 1}, 2),
        g2 = job_comm(&j, NULL, (int[]){1, 2}, 2);
    for (int s = 0; s <= 20; s++) {
        for (int i = 0; i < 3; i++)
            step_ahead(&j.r[i], s);
        compute(&j.r[0], 512, 60 * MS);
        compute(&j.r[1], 512, 30 * MS);
        compute(&j.r[2], 512, 45 * MS);
        allreduce(&j, g1, 1 << 20, 5 * MS);
        compute(&j.r[0], 512, 15 * MS);
        compute(&j.r[1], 512, 10 * MS);
        allreduce_on(&j, g2, COMM2, 1 << 20, 5 * MS);
        allreduce_on(&j, world, FWD_IN, 1 << 20, 5 * MS);
        for (int i = 0; i < 3; i++)
            step_done(&j.r[i]);
    }
    for (int i = 0; i < 3; i++)
        step_ahead(&j.r[i], 21);
    job_close(&j, job_end(&j));
}

/* Two phases, each closed by an all-reduce of 5: 45 on r0, then 45 on r2. */
static void e10(const char *dir)
{
    static const int64_t ms[2][4] = {{45, 30, 25, 20}, {35, 30, 45, 30}};
    struct job j;
    job_open(&j, dir, 4, NULL);
    int world = job_comm(&j, NULL, NULL, 4);
    for (int s = 0; s <= 20; s++) {
        for (int i = 0; i < 4; i++)
            step_ahead(&j.r[i], s);
        for (int phase = 0; phase < 2; phase++) {
            for (int i = 0; i < 4; i++)
                compute(&j.r[i], 512, ms[phase][i] * MS);
            allreduce(&j, world, 1 << 20, 5 * MS);
        }
        for (int i = 0; i < 4; i++)
            step_done(&j.r[i]);
    }
    for (int i = 0; i < 4; i++)
        step_ahead(&j.r[i], 21);
    job_close(&j, job_end(&j));
}

/* Compute ms[s][i] in step s, all-reduce 10; over and over. */
static void series(const char *dir, int n, int steps, int64_t (*ms)(int s, int i))
{
    struct job j;
    job_open(&j, dir, n, NULL);
    int world = job_comm(&j, NULL, NULL, n);
    for (int s = 0; s <= steps; s++) {
        for (int i = 0; i < n; i++) {
            step_ahead(&j.r[i], s);
            compute(&j.r[i], 512, ms(s, i) * MS);
        }
        allreduce(&j, world, 1 << 20, 10 * MS);
        for (int i = 0; i < n; i++)
            step_done(&j.r[i]);
    }
    for (int i = 0; i < n; i++)
        step_ahead(&j.r[i], steps + 1);
    job_close(&j, job_end(&j));
}

static int64_t e12_ms(int s, int i)
{
    static const int64_t r2[3] = {130, 100, 160};
    return i == 2 ? r2[(s + 2) % 3] : i == 1 && (s + 2) % 3 == 1 ? 120 : 100;
}

static void e12(const char *dir)
{
    series(dir, 4, 30, e12_ms);
}

static int64_t e14_ms(int s, int i)
{
    static const int64_t t[12] = {100, 102, 98, 101, 99, 100, 121, 119, 120, 122, 118, 120};
    (void)i;
    return t[s ? s - 1 : 0] - 10;
}

static void e14(const char *dir)
{
    series(dir, 4, 12, e14_ms);
}

const struct scenario example_scenarios[] = {
    {"e1", e1},   {"e2", e2},   {"e3", e3},   {"e4", e4},           {"e7", e7},  {"e10", e10},
    {"e12", e12}, {"e14", e14}, {"e17", e17}, {"e17-all", e17_all}, {NULL, NULL}};
