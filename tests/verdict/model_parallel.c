/* Situations of tensor and pipeline parallel jobs. */
#include "scenarios.h"

#include <string.h>

/* Tensor parallel 8 x data parallel 2, ten layers of compute and a tensor parallel all-reduce of 1,
 * then a data parallel all-reduce of 20. slow(i): compute of rank i takes 12 instead of 10. */
static void tp_dp(const char *dir, bool (*slow)(int i), void (*facts)(struct rank *r, int s))
{
    struct plan plan = {.per_node = 8};
    struct job j;
    job_open(&j, dir, 16, &plan);
    int tp[2], dp[8];
    for (int g = 0; g < 2; g++) {
        int ranks[8];
        for (int i = 0; i < 8; i++)
            ranks[i] = 8 * g + i;
        tp[g] = job_comm(&j, NULL, ranks, 8);
    }
    for (int i = 0; i < 8; i++)
        dp[i] = job_comm(&j, NULL, (int[]){i, 8 + i}, 2);
    for (int s = 0; s <= 20; s++) {
        for (int i = 0; i < 16; i++) {
            step_ahead(&j.r[i], s);
            if (facts)
                facts(&j.r[i], s);
        }
        for (int layer = 0; layer < 10; layer++) {
            /* noise of up to 8 us: no two ranks are exactly alike */
            for (int i = 0; i < 16; i++)
                compute(&j.r[i], 512, (slow(i) ? 12 : 10) * MS - (int64_t)job_random(&j, 8) * US);
            allreduce_on(&j, tp[0], COMM, 1 << 18, 1 * MS);
            allreduce_on(&j, tp[1], COMM, 1 << 18, 1 * MS);
        }
        for (int i = 0; i < 8; i++)
            allreduce_on(&j, dp[i], COMM2, 1 << 22, 20 * MS);
        for (int i = 0; i < 16; i++)
            step_done(&j.r[i]);
    }
    for (int i = 0; i < 16; i++)
        step_ahead(&j.r[i], 21);
    job_close(&j, job_end(&j));
}

static bool only_r3(int i)
{
    return i == 3;
}

static bool nobody(int i)
{
    (void)i;
    return false;
}

static void u7_even(const char *dir)
{
    tp_dp(dir, nobody, NULL);
}

static void u7(const char *dir)
{
    tp_dp(dir, only_r3, NULL);
}

/* All eight GPUs of node 1 take 12, for they are held at 500 W. */
static bool node_one(int i)
{
    return i < 8;
}

static void u8_power(struct rank *r, int s)
{
    if (s)
        return; /* nothing changes */
    health(r, "gpu.sm_clock_max", "MHz", 1980);
    health(r, "gpu.sm_clock", "MHz", r->node ? 1785 : 1485);
    health(r, "gpu.clock_reasons", "bits", r->node ? 0 : 4); /* software power cap */
    health(r, "gpu.power_limit", "mW", r->node ? 700000 : 500000);
    health(r, "gpu.power_limit_default", "mW", 700000);
}

static void u8(const char *dir)
{
    tp_dp(dir, node_one, u8_power);
}

/* Pipeline of 4 stages x 2 replicas, 8 microbatches, one forward one backward. Forward 3 and
 * backward 6 on every stage; the last stage has the vocabulary besides, 1 and 2. */
enum { STAGES = 4, MICRO = 8, PP_RANKS = 8 };

struct pipeline {
    struct job j;
    bool vocabulary; /* on the last stage */
    int slow;        /* a rank that takes 1.25 times as long, or -1 */
    int fwd[2][STAGES], bwd[2][STAGES], dp[STAGES]; /* fwd[d][s]: from stage s to s + 1 */
    int ops[STAGES][2 * MICRO];                     /* > 0 forward, < 0 backward */
    int done[2][STAGES];                            /* operations of the list already launched */
    int n_fwd[2][STAGES], n_bwd[2][STAGES];
    struct posted down[2][STAGES][MICRO], up[2][STAGES][MICRO]; /* sent and not yet received */
};

/* Stage s warms up with STAGES - 1 - s forwards, then alternates, then drains. */
static void one_f_one_b(struct pipeline *p)
{
    for (int s = 0; s < STAGES; s++) {
        int warm = STAGES - 1 - s, n = 0;
        for (int m = 0; m < warm; m++)
            p->ops[s][n++] = 1;
        for (int m = 0; m < MICRO; m++) {
            if (warm + m < MICRO)
                p->ops[s][n++] = 1;
            p->ops[s][n++] = -1;
        }
    }
}

static struct rank *stage_rank(struct pipeline *p, int d, int s)
{
    return &p->j.r[2 * s + d];
}

static void work(const struct pipeline *p, struct rank *r, const char *name, uint32_t grid,
                 int64_t ns)
{
    gpu_kernel(r, COMPUTE, name, grid, r->me == p->slow ? ns * 5 / 4 : ns);
}

/* A send that awaits what its rank has computed so far, and not what it computes later. */
static struct posted post_after(struct pipeline *p, struct rank *r, int comm, int a, int b,
                                enum stream stream)
{
    struct posted sent = post_send(&p->j, comm, a, b, stream, 1 << 18);
    if (sent.ready < r->gpu[COMPUTE])
        sent.ready = r->gpu[COMPUTE];
    return sent;
}

#define MESSAGE_ELEMENTS (1 << 18)
#define MESSAGE_NS       (5 * US)

/* Forward of microbatch m on stage s: receive, compute, send. The receive is launched when all that
 * the stage computed before is launched, and runs when that is over. */
static void launch_forward(struct pipeline *p, int d, int s, int m)
{
    struct rank *r = stage_rank(p, d, s);
    if (s) {
        gpu_await(r, FWD_IN, COMPUTE);
        struct posted recv = post_recv(&p->j, p->fwd[d][s - 1], 0, 1, FWD_IN, MESSAGE_ELEMENTS);
        run_message(&p->j, p->fwd[d][s - 1], 0, 1, &p->down[d][s - 1][m], &recv, MESSAGE_NS);
        gpu_await(r, COMPUTE, FWD_IN);
    }
    work(p, r, "layer_forward", 1024, 3 * MS);
    if (s == STAGES - 1 && p->vocabulary)
        work(p, r, "vocab_forward", 256, 1 * MS);
    if (s < STAGES - 1)
        p->down[d][s][m] = post_after(p, r, p->fwd[d][s], 0, 1, FWD_OUT);
}

static void launch_backward(struct pipeline *p, int d, int s, int m)
{
    struct rank *r = stage_rank(p, d, s);
    if (s < STAGES - 1) {
        gpu_await(r, BWD_IN, COMPUTE);
        struct posted recv = post_recv(&p->j, p->bwd[d][s], 1, 0, BWD_IN, MESSAGE_ELEMENTS);
        run_message(&p->j, p->bwd[d][s], 1, 0, &p->up[d][s + 1][m], &recv, MESSAGE_NS);
        gpu_await(r, COMPUTE, BWD_IN);
    } else if (p->vocabulary) {
        work(p, r, "vocab_backward", 256, 2 * MS);
    }
    work(p, r, "layer_backward", 1024, 6 * MS);
    if (s)
        p->up[d][s][m] = post_after(p, r, p->bwd[d][s - 1], 1, 0, BWD_OUT);
}

/* Launches the next operation of stage s when the stage that feeds it has launched its part. */
static bool advance(struct pipeline *p, int d, int s)
{
    if (p->done[d][s] == 2 * MICRO)
        return false;
    bool forward = p->ops[s][p->done[d][s]] > 0;
    if (forward) {
        if (s && p->n_fwd[d][s - 1] <= p->n_fwd[d][s])
            return false;
        launch_forward(p, d, s, p->n_fwd[d][s]++);
    } else {
        if (s < STAGES - 1 && p->n_bwd[d][s + 1] <= p->n_bwd[d][s])
            return false;
        launch_backward(p, d, s, p->n_bwd[d][s]++);
    }
    p->done[d][s]++;
    return true;
}

static void pipeline(const char *dir, bool vocabulary, int slow)
{
    static struct pipeline p;
    p.vocabulary = vocabulary;
    p.slow = slow;
    struct job *j = &p.j;
    job_open(j, dir, PP_RANKS, NULL);
    one_f_one_b(&p);
    for (int d = 0; d < 2; d++)
        for (int s = 0; s + 1 < STAGES; s++) {
            int pair[2] = {2 * s + d, 2 * s + 2 + d};
            p.fwd[d][s] = job_comm(j, NULL, pair, 2);
            p.bwd[d][s] = job_comm(j, NULL, pair, 2);
        }
    for (int s = 0; s < STAGES; s++)
        p.dp[s] = job_comm(j, NULL, (int[]){2 * s, 2 * s + 1}, 2);
    for (int step = 0; step <= 20; step++) {
        for (int i = 0; i < PP_RANKS; i++)
            step_ahead(&j->r[i], step);
        memset(p.done, 0, sizeof(p.done));
        memset(p.n_fwd, 0, sizeof(p.n_fwd));
        memset(p.n_bwd, 0, sizeof(p.n_bwd));
        for (bool moved = true; moved;) {
            moved = false;
            for (int d = 0; d < 2; d++)
                for (int s = 0; s < STAGES; s++)
                    moved |= advance(&p, d, s);
        }
        for (int s = 0; s < STAGES; s++)
            allreduce(j, p.dp[s], 1 << 20, 50 * US);
        for (int i = 0; i < PP_RANKS; i++)
            step_done(&j->r[i]);
    }
    for (int i = 0; i < PP_RANKS; i++)
        step_ahead(&j->r[i], 21);
    job_close(j, job_end(j));
}

static void u9(const char *dir)
{
    pipeline(dir, true, -1);
}

/* Equal stages; the GPU of stage 2 in replica 1 is slow. */
static void u9_slow(const char *dir)
{
    pipeline(dir, false, 5);
}

static void u9_even(const char *dir)
{
    pipeline(dir, false, -1);
}

/* Two stages x 2 replicas, one microbatch of 64 MiB; rank 0 waits 200 for its input, and stage 1
 * launches its receive at the start of the step. */
static void u11_side(struct job *j, int first, int s, int64_t input, int64_t wire)
{
    enum { ELEMENTS = 16 << 20 };
    struct rank *a = &j->r[first], *b = &j->r[first + 1];
    int fwd = 2 * (first / 2), bwd = fwd + 1;
    step_synced(a, s);
    step_synced(b, s);
    struct posted recv = post_recv(j, fwd, 0, 1, FWD_IN, ELEMENTS);
    host_range(a, "input", input);
    compute(a, 512, 100 * MS);
    gpu_await(a, FWD_OUT, COMPUTE);
    struct posted send = post_send(j, fwd, 0, 1, FWD_OUT, ELEMENTS);
    run_message(j, fwd, 0, 1, &send, &recv, wire);
    gpu_await(b, COMPUTE, FWD_IN);
    gpu_kernel(b, COMPUTE, "loss_and_layers", 512, 200 * MS);
    gpu_await(b, BWD_OUT, COMPUTE);
    recv = post_recv(j, bwd, 1, 0, BWD_IN, ELEMENTS);
    send = post_send(j, bwd, 1, 0, BWD_OUT, ELEMENTS);
    run_message(j, bwd, 1, 0, &send, &recv, 400 * US);
    gpu_await(a, COMPUTE, BWD_IN);
    gpu_kernel(a, COMPUTE, "layers_backward", 512, 100 * MS);
}

static void two_stages(const char *dir, int64_t input, int64_t wire)
{
    struct job j;
    job_open(&j, dir, 4, NULL);
    for (int d = 0; d < 4; d++) /* two communicators a replica, one for each direction */
        job_comm(&j, NULL, (int[]){d / 2 * 2, d / 2 * 2 + 1}, 2);
    int dp0 = job_comm(&j, NULL, (int[]){0, 2}, 2), dp1 = job_comm(&j, NULL, (int[]){1, 3}, 2);
    for (int s = 0; s <= 40; s++) {
        u11_side(&j, 0, s, input, wire);
        u11_side(&j, 2, s, 50 * US, 400 * US);
        allreduce(&j, dp0, 1 << 20, 10 * MS);
        allreduce(&j, dp1, 1 << 20, 10 * MS);
        for (int i = 1; i < 4; i += 2) /* so that both stages end a step together */
            gpu_kernel(&j.r[i], COMPUTE, "optimizer", 512, 100 * MS);
        for (int i = 0; i < 4; i++)
            step_done(&j.r[i]);
    }
    for (int i = 0; i < 4; i++)
        step_synced(&j.r[i], 41);
    job_close(&j, job_end(&j));
}

static void u11(const char *dir)
{
    two_stages(dir, 200 * MS, 400 * US);
}

/* No late input, but the message from rank 0 to 1 takes 200.4 after both sides came. */
static void u11_link(const char *dir)
{
    two_stages(dir, 50 * US, 200400 * US);
}

const struct scenario model_parallel_scenarios[] = {{"u7", u7},
                                                    {"u8", u8},
                                                    {"u9", u9},
                                                    {"u7-even", u7_even},
                                                    {"u9-slow", u9_slow},
                                                    {"u9-even", u9_even},
                                                    {"u11-link", u11_link},
                                                    {"u11", u11},
                                                    {NULL, NULL}};
