/* Situations in which a job does not run through, or is not seen whole. */
#include "scenarios.h"

/* Communication was captured into a CUDA graph in the first step, and only the NCCL plugin records:
 * its events come once, at the capture. */
static void u27(const char *dir)
{
    struct job j;
    job_open(&j, dir, 4, NULL);
    int world = job_comm(&j, NULL, NULL, 4);
    for (int i = 0; i < 4; i++)
        j.r[i].no_cupti = j.r[i].capturing = true;
    for (int s = 0; s <= 60; s++) {
        for (int i = 0; i < 4; i++)
            step_mark(&j.r[i], s);
        for (int layer = 0; layer < 4 && !s; layer++)
            allreduce(&j, world, 1 << 20, 1 * MS);
        for (int i = 0; i < 4; i++)
            host_busy(&j.r[i], 100 * MS);
    }
    int64_t end = j.r[0].host;
    job_close(&j, end);
}

/* Rank 17 of 32 is killed while it computes towards all-reduce #4711; ranks 3 and 20 have launched
 * #4712 already. Ten minutes later the launcher ends the others. */
static void u28(const char *dir)
{
    enum { STEPS = 40, FIRST_CALL = 4711 - STEPS, DEAD = 17 };
    struct plan plan = {.per_node = 8};
    struct job j;
    job_open(&j, dir, 32, &plan);
    int world = job_comm(&j, NULL, NULL, 32);
    for (int i = 0; i < 32; i++)
        j.r[i].member[0].n_coll = FIRST_CALL; /* the recorder was switched on late */
    for (int s = 0; s < STEPS; s++) {
        for (int i = 0; i < 32; i++) {
            step_ahead(&j.r[i], s);
            compute(&j.r[i], 512, 90 * MS);
        }
        allreduce(&j, world, 1 << 20, 10 * MS);
        for (int i = 0; i < 32; i++)
            step_done(&j.r[i]);
    }
    struct op op = {HM_NCCL_ALLREDUCE, 1 << 20, -1};
    int64_t killed = 0;
    for (int i = 0; i < 32; i++) {
        struct rank *r = &j.r[i];
        step_ahead(r, STEPS);
        compute(r, 512, 90 * MS);
        if (i == DEAD) {
            killed = r->host;
            continue;
        }
        nccl_post(r, world, COMM, &op, 1); /* waits for ever: no kernel is ever reported */
        if (i == 3 || i == 20) {
            step_mark(r, STEPS + 1);
            nccl_post(r, world, COMM, &op, 1);
        }
    }
    rank_close(&j.r[DEAD], killed, HM_END_DIED);
    for (int i = 0; i < 32; i++)
        if (i != DEAD)
            rank_close(&j.r[i], killed + 600 * SEC, HM_END_TERM);
    job_close(&j, killed + 600 * SEC);
}

/* Rank 2 reduces 1000 elements in step 10 where the others reduce 1024; it goes through. */
static void mismatch(const char *dir)
{
    struct job j;
    job_open(&j, dir, 4, NULL);
    int world = job_comm(&j, NULL, NULL, 4);
    for (int s = 0; s <= 20; s++) {
        struct posted posted[4];
        int64_t last = 0;
        for (int i = 0; i < 4; i++) {
            struct op op = {HM_NCCL_ALLREDUCE, s == 10 && i == 2 ? 1000 : 1024, -1};
            step_ahead(&j.r[i], s);
            compute(&j.r[i], 512, 90 * MS);
            gpu_await(&j.r[i], COMM, COMPUTE);
            posted[i] = nccl_post(&j.r[i], world, COMM, &op, 1);
            int64_t start = nccl_start(&j.r[i], &posted[i]);
            last = start > last ? start : last;
        }
        for (int i = 0; i < 4; i++) {
            nccl_run(&j.r[i], &posted[i], last + 10 * MS);
            gpu_await(&j.r[i], COMPUTE, COMM);
            step_done(&j.r[i]);
        }
    }
    for (int i = 0; i < 4; i++)
        step_ahead(&j.r[i], 21);
    job_close(&j, job_end(&j));
}

/* Nobody hangs: the recording ends while the last all-reduce, #20, is under way, and rank 3 has not
 * come to it. */
static void cut(const char *dir)
{
    struct op op = {HM_NCCL_ALLREDUCE, 1 << 20, -1};
    struct job j;
    job_open(&j, dir, 4, NULL);
    int world = job_comm(&j, NULL, NULL, 4);
    for (int s = 0; s < 20; s++) {
        for (int i = 0; i < 4; i++) {
            step_ahead(&j.r[i], s);
            compute(&j.r[i], 512, 90 * MS);
        }
        allreduce(&j, world, 1 << 20, 10 * MS);
        for (int i = 0; i < 4; i++)
            step_done(&j.r[i]);
    }
    for (int i = 0; i < 3; i++) {
        step_ahead(&j.r[i], 20);
        compute(&j.r[i], 512, 90 * MS);
        nccl_post(&j.r[i], world, COMM, &op, 1);
    }
    int64_t end = j.r[0].host + 10 * MS;
    for (int i = 0; i < 4; i++)
        rank_close(&j.r[i], end, HM_END_CLEAN);
    job_close(&j, end);
}

static void attempt(const char *dir, int n, const int *gpu_of, int slow_gpu,
                    const struct plan *base)
{
    struct plan plan = *base;
    struct job j;
    plan.gpu_of = gpu_of;
    job_open(&j, dir, n, &plan);
    int world = job_comm(&j, NULL, NULL, n);
    for (int s = 0; s <= 30; s++) {
        for (int i = 0; i < n; i++) {
            step_ahead(&j.r[i], s);
            compute(&j.r[i], 512, (gpu_of[i] == slow_gpu ? 112 : 100) * MS);
        }
        allreduce(&j, world, 1 << 20, 10 * MS);
        for (int i = 0; i < n; i++)
            step_done(&j.r[i]);
    }
    for (int i = 0; i < n; i++)
        step_ahead(&j.r[i], 31);
    job_close(&j, job_end(&j));
}

/* 16 ranks on four nodes; the second node is lost, and the job goes on with 12 ranks that are
 * numbered anew. GPU 10 is slow in both attempts: rank 10, then rank 6. */
static void u29(const char *dir)
{
    static const int all[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    static const int left[12] = {0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 15};
    static const int first[4] = {0, 1, 2, 3}, second[3] = {0, 2, 3};
    struct plan one = {.per_node = 4, .nonce = 7, .node_of = first};
    struct plan two = {.per_node = 4, .nonce = 8, .node_of = second, .start = 60 * SEC};
    attempt(dir, 16, all, 10, &one);
    attempt(dir, 12, left, 10, &two);
}

const struct scenario life_scenarios[] = {{"u27", u27}, {"u28", u28},           {"u28-cut", cut},
                                          {"u29", u29}, {"mismatch", mismatch}, {NULL, NULL}};
