/* Situations of expert parallel jobs: all to all with bytes by pair, kernels that synchronise and
 * are not NCCL's. */
#include "scenarios.h"

enum { HIDDEN = 4096 };

/* Every rank routes `to[k]` / n tokens to rank k, or brings them back. */
static void route(uint64_t *count, int n, const int *to, bool back)
{
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++)
            count[i * n + k] = (uint64_t)(to[back ? i : k] / n) * HIDDEN;
}

/* The grouped GEMM is a persistent kernel that takes 10 for 1000 tokens, always with one block a
 * multiprocessor. The GPU of rank `slow`, if any, takes 1.3 times as long for everything. */
static void experts(const char *dir, const int *tokens, int slow)
{
    uint64_t there[64], back[64];
    struct job j;
    job_open(&j, dir, 8, NULL);
    int ep = job_comm(&j, NULL, NULL, 8);
    route(there, 8, tokens, false);
    route(back, 8, tokens, true);
    for (int s = 0; s <= 40; s++) {
        for (int i = 0; i < 8; i++) {
            step_ahead(&j.r[i], s);
            compute(&j.r[i], 512, (i == slow ? 65 : 50) * MS);
        }
        alltoallv(&j, ep, there, false, 10 * MS);
        for (int i = 0; i < 8; i++)
            gpu_kernel(&j.r[i], COMPUTE, "grouped_gemm", 132,
                       tokens[i] * (i == slow ? 13 : 10) * US);
        alltoallv(&j, ep, back, false, 10 * MS);
        for (int i = 0; i < 8; i++)
            step_done(&j.r[i]);
    }
    for (int i = 0; i < 8; i++)
        step_ahead(&j.r[i], 41);
    job_close(&j, job_end(&j));
}

static void u12(const char *dir)
{
    static const int tokens[8] = {1000, 1000, 1000, 1000, 1000, 1000, 1900, 1000};
    experts(dir, tokens, -1);
}

static void u12_slow(const char *dir)
{
    static const int tokens[8] = {1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000};
    experts(dir, tokens, 6);
}

/* Ranks 2 and 7 exchange nothing: rank 2 is through [100,150] before rank 7 comes [180,230]. */
static void zero_pair(const char *dir, bool empty)
{
    uint64_t count[64];
    struct job j;
    job_open(&j, dir, 8, NULL);
    int ep = job_comm(&j, NULL, NULL, 8), world = job_comm(&j, NULL, NULL, 8);
    for (int i = 0; i < 64; i++)
        count[i] = i == 2 * 8 + 7 || i == 7 * 8 + 2 ? 0 : 1 << 16;
    for (int s = 0; s <= 40; s++) {
        for (int i = 0; i < 8; i++) {
            step_ahead(&j.r[i], s);
            compute(&j.r[i], 512, (i == 7 ? 180 : 100) * MS);
        }
        alltoallv(&j, ep, count, empty, 50 * MS);
        for (int i = 0; i < 8; i++)
            gpu_kernel(&j.r[i], COMPUTE, "expert", 132, 20 * MS);
        allreduce_on(&j, world, COMM2, 1 << 20, 10 * MS);
        for (int i = 0; i < 8; i++)
            step_done(&j.r[i]);
    }
    for (int i = 0; i < 8; i++)
        step_ahead(&j.r[i], 41);
    job_close(&j, job_end(&j));
}

static void u14(const char *dir)
{
    zero_pair(dir, false);
}

static void u14_empty(const char *dir)
{
    zero_pair(dir, true);
}

/* A dispatch kernel that is not NCCL's and waits for all of its group inside: all leave within 3
 * us, 0.6 after the last came, rank 9, whose input came 299.4 late. */
static void dispatch(const char *dir, const char *name, int64_t input)
{
    struct job j;
    job_open(&j, dir, 16, NULL);
    int world = job_comm(&j, NULL, NULL, 16);
    for (int s = 0; s <= 40; s++) {
        int64_t last = 0;
        for (int i = 0; i < 16; i++) {
            struct rank *r = &j.r[i];
            step_synced(r, s);
            host_range(r, "input", i == 9 ? input : 20 * US);
            compute(r, 512, 100 * MS);
            last = r->gpu[COMPUTE] > last ? r->gpu[COMPUTE] : last;
        }
        for (int i = 0; i < 16; i++) {
            struct rank *r = &j.r[i];
            int64_t end = last + 600 * US + (int64_t)job_random(&j, 3000);
            gpu_kernel(r, COMPUTE, name, 20, end - r->gpu[COMPUTE]);
            gpu_kernel(r, COMPUTE, "expert", 132, 50 * MS);
        }
        allreduce(&j, world, 1 << 20, 10 * MS);
        for (int i = 0; i < 16; i++)
            step_done(&j.r[i]);
    }
    for (int i = 0; i < 16; i++)
        step_synced(&j.r[i], 41);
    job_close(&j, job_end(&j));
}

#define LATE (299400 * US)

static void u15(const char *dir)
{
    dispatch(dir, "_ZN7deep_ep9intranode8dispatchILi8ELi768EEEvPv", LATE);
}

static void u15_unknown(const char *dir)
{
    dispatch(dir, "_Z17exchange_expertsPvS_", LATE);
}

static void u15_even(const char *dir)
{
    dispatch(dir, "_Z17exchange_expertsPvS_", 20 * US);
}

const struct scenario expert_scenarios[] = {{"u12", u12},
                                            {"u12-slow", u12_slow},
                                            {"u14", u14},
                                            {"u15-even", u15_even},
                                            {"u14-empty", u14_empty},
                                            {"u15", u15},
                                            {"u15-unknown", u15_unknown},
                                            {NULL, NULL}};
