/* Situations whose cause lies on the host, and what an observer does to a job. */
#include "scenarios.h"

#include <stdlib.h>

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

const struct scenario host_scenarios[] = {{"u17", u17}, {"u19", u19}, {"u20", u20},
                                          {"u21", u21}, {"u24", u24}, {NULL, NULL}};
