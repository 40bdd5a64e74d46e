/* Jobs that stand still: who is missing where, inverted orders, calls that do not fit. */
#include "scenarios.h"

enum { DONE = 57 }; /* collectives #0 to #56 are over on all; #57 never ends */
#define WAITED (600 * SEC)

static const struct op reduce_op = {HM_NCCL_ALLREDUCE, 1024, -1};

/* Four ranks in communicator A, ranks 2 and 3 in B beside it: 57 and 12 collectives, all over. */
static void begin(struct job *j, const char *dir, int *a_p, int *b_p)
{
    job_open(j, dir, 4, NULL);
    *a_p = job_comm(j, NULL, NULL, 4);
    *b_p = job_comm(j, NULL, (int[]){2, 3}, 2);
    for (int s = 0; s < DONE; s++) {
        for (int i = 0; i < 4; i++) {
            step_ahead(&j->r[i], s);
            compute(&j->r[i], 512, 20 * MS);
        }
        allreduce(j, *a_p, 1024, MS);
        if (s % 5 == 0) {
            allreduce_on(j, *b_p, COMM2, 1024, MS);
            for (int i = 0; i < 2; i++) /* so that all meet again together */
                gpu_kernel(&j->r[i], COMPUTE, BIAS, 64, MS);
        }
        for (int i = 0; i < 4; i++)
            step_done(&j->r[i]);
    }
    for (int i = 0; i < 4; i++) {
        step_ahead(&j->r[i], DONE);
        compute(&j->r[i], 512, 20 * MS);
    }
}

static void end(struct job *j)
{
    int64_t t = job_end(j) + WAITED;
    for (int i = 0; i < 4; i++)
        rank_close(&j->r[i], t, HM_END_TERM);
    job_close(j, t);
}

/* All but rank 2 wait in A #57; rank 2 is somewhere outside NCCL. */
static void missing(const char *dir)
{
    struct job j;
    int a, b;
    begin(&j, dir, &a, &b);
    for (int i = 0; i < 4; i++)
        if (i != 2)
            nccl_post(&j.r[i], a, COMM, &reduce_op, 1);
    end(&j);
}

/* Rank 2 calls B before A, rank 3 A before B. */
static void inverted(const char *dir)
{
    struct job j;
    int a, b;
    begin(&j, dir, &a, &b);
    for (int i = 0; i < 4; i++)
        nccl_post(&j.r[i], i == 2 ? b : a, i == 2 ? COMM2 : COMM, &reduce_op, 1);
    end(&j);
}

/* #57 is an all-reduce of 1024 on ranks 0 and 1, of 1000 on rank 2, and an all-gather on rank 3. */
static void mismatch(const char *dir)
{
    static const struct op op[4] = {{HM_NCCL_ALLREDUCE, 1024, -1},
                                    {HM_NCCL_ALLREDUCE, 1024, -1},
                                    {HM_NCCL_ALLREDUCE, 1000, -1},
                                    {HM_NCCL_ALLGATHER, 1024, -1}};
    struct job j;
    int a, b;
    begin(&j, dir, &a, &b);
    for (int i = 0; i < 4; i++)
        nccl_post(&j.r[i], a, COMM, &op[i], 1);
    end(&j);
}

const struct scenario stuck_scenarios[] = {
    {"e15-missing", missing}, {"e15", inverted}, {"e16", mismatch}, {NULL, NULL}};
