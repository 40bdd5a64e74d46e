/* Communication beside compute: weights gathered a layer ahead and gradients scattered behind, or
 * gradients reduced in buckets while the backward pass goes on. */
#include "scenarios.h"

enum { RANKS = 4, LAYERS = 8 };

static void gather(struct job *j, int world, int64_t transfer)
{
    /* at most a layer ahead: it awaits the compute launched so far */
    for (int i = 0; i < RANKS; i++)
        gpu_await(&j->r[i], COMM, COMPUTE);
    collective_on(j, world, COMM, HM_NCCL_ALLGATHER, 1 << 20, transfer);
}

static void scatter(struct job *j, int world, int64_t transfer)
{
    for (int i = 0; i < RANKS; i++)
        gpu_await(&j->r[i], COMM2, COMPUTE);
    collective_on(j, world, COMM2, HM_NCCL_REDUCESCATTER, 1 << 20, transfer);
}

static void layer(struct job *j, const char *name, int slow, int64_t ns)
{
    for (int i = 0; i < RANKS; i++)
        gpu_kernel(&j->r[i], COMPUTE, name, 512, i == slow ? ns * 6 / 5 : ns);
}

/* Forward 4 and backward 8 a layer, hiding a gather and a scatter of 1 each; the optimiser takes 2
 * after the last scatter. The GPU of rank `slow`, if any, takes 1.2 times as long. */
static void fsdp(const char *dir, int slow)
{
    struct job j;
    job_open(&j, dir, RANKS, NULL);
    int world = job_comm(&j, NULL, NULL, RANKS), grads = job_comm(&j, NULL, NULL, RANKS);
    for (int s = 0; s <= 40; s++) {
        for (int i = 0; i < RANKS; i++)
            step_ahead(&j.r[i], s);
        gather(&j, world, MS);
        for (int pass = 0; pass < 2; pass++)
            for (int l = 0; l < LAYERS; l++) {
                int64_t have[RANKS]; /* this layer's weights */
                for (int i = 0; i < RANKS; i++)
                    have[i] = j.r[i].gpu[COMM];
                if (l + 1 < LAYERS)
                    gather(&j, world, MS); /* the next one's, beside this layer */
                for (int i = 0; i < RANKS; i++)
                    if (j.r[i].gpu[COMPUTE] < have[i])
                        j.r[i].gpu[COMPUTE] = have[i];
                layer(&j, pass ? "layer_backward" : "layer_forward", slow, (pass ? 8 : 4) * MS);
                if (pass)
                    scatter(&j, grads, MS);
            }
        for (int i = 0; i < RANKS; i++)
            gpu_await(&j.r[i], COMPUTE, COMM2);
        layer(&j, "adam", slow, 2 * MS);
        for (int i = 0; i < RANKS; i++)
            step_done(&j.r[i]);
    }
    for (int i = 0; i < RANKS; i++)
        step_ahead(&j.r[i], 41);
    job_close(&j, job_end(&j));
}

static void fsdp_slow(const char *dir)
{
    fsdp(dir, 2);
}

static void fsdp_even(const char *dir)
{
    fsdp(dir, -1);
}

/* Forward 40 in one, backward 8 x 10 with an all-reduce of 5 behind each layer; rank 1's GPU takes
 * 1.2 times as long, or nobody's. */
static void buckets(const char *dir, int slow)
{
    struct job j;
    job_open(&j, dir, RANKS, NULL);
    int world = job_comm(&j, NULL, NULL, RANKS);
    for (int s = 0; s <= 40; s++) {
        for (int i = 0; i < RANKS; i++)
            step_ahead(&j.r[i], s);
        layer(&j, "forward", slow, 40 * MS);
        for (int l = 0; l < LAYERS; l++) {
            layer(&j, "layer_backward", slow, 10 * MS);
            for (int i = 0; i < RANKS; i++)
                gpu_await(&j.r[i], COMM, COMPUTE);
            collective_on(&j, world, COMM, HM_NCCL_ALLREDUCE, 1 << 20, 5 * MS);
        }
        for (int i = 0; i < RANKS; i++) {
            gpu_await(&j.r[i], COMPUTE, COMM);
            step_done(&j.r[i]);
        }
    }
    for (int i = 0; i < RANKS; i++)
        step_ahead(&j.r[i], 41);
    job_close(&j, job_end(&j));
}

static void ddp_slow(const char *dir)
{
    buckets(dir, 1);
}

static void ddp_even(const char *dir)
{
    buckets(dir, -1);
}

const struct scenario overlap_scenarios[] = {{"fsdp-slow", fsdp_slow},
                                             {"fsdp-even", fsdp_even},
                                             {"overlap-slow", ddp_slow},
                                             {"overlap-even", ddp_even},
                                             {NULL, NULL}};
