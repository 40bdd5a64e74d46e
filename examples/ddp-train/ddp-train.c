/* ddp-train: data-parallel training of a small multi-layer perceptron with MPI, NCCL and CUDA.
 *
 * Every rank has the same weights and its own batch; gradients are summed over the ranks in two
 * buckets on a second stream while the backward pass goes on; all ranks end with bit-identical
 * weights. The host runs two steps ahead of the GPU. Faults can be injected, so that a profiler has
 * something to find:
 *   --slow-gpu R:FACTOR[@STEP]     every compute kernel of rank R takes FACTOR times as long
 *   --more-work R:FACTOR[@STEP]    rank R gets FACTOR times the samples
 *   --slow-input R:MS[@STEP]       making a batch takes rank R MS ms longer, without prefetch
 *   --late-launch R:MS[@STEP]      the host of rank R sleeps MS ms before it launches a step's
 *                                  kernels, and does not run ahead
 * All of them from step STEP on (default 0).
 */
#include "kernels.h"

#include <cuda_runtime_api.h>
#include <mpi.h>
#include <nccl.h>

#include <hindmost/hindmost.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { N_IN = 32, N_HIDDEN = 64, N_OUT = 8, ROWS = 32, AHEAD = 2, RING = AHEAD + 1 };
enum {
    LAYER_3 = (N_HIDDEN + 1) * N_OUT,
    LAYER_2 = (N_HIDDEN + 1) * N_HIDDEN,
    LAYER_1 = (N_IN + 1) * N_HIDDEN
};
/* weights and gradients, in the order in which the backward pass finishes them: bucket 0, bucket 1
 */
enum { AT_3 = 0, AT_2 = LAYER_3, AT_1 = LAYER_3 + LAYER_2, N_WEIGHTS = AT_1 + LAYER_1 };

struct fault {
    int rank, step;
    double value;
};
struct options {
    int steps, launches, collectives, pace;
    uint64_t seed;
    struct fault slow_gpu, more_work, slow_input, late_launch;
};
struct model {
    float *w, *g;                /* [N_WEIGHTS] */
    float *h1, *h2, *y;          /* activations */
    float *dy, *dh2, *dh1;       /* their gradients */
    float *x[RING], *loss[RING]; /* on the device */
    int *label[RING];
    float *host_x[RING], *host_loss[RING]; /* pinned */
    int *host_label[RING];
    float *scratch;
    cudaStream_t compute, comm;
    cudaEvent_t ready[2], reduced[2], done[RING];
    ncclComm_t nccl;
};

static int rank, n_ranks;

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "ddp-train: rank %d: %s: %s\n", rank, what, why);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}
#define CUDA(call)                                \
    do {                                          \
        cudaError_t rc_ = (call);                 \
        if (rc_ != cudaSuccess)                   \
            fail(#call, cudaGetErrorString(rc_)); \
    } while (0)
#define NCCL(call)                                \
    do {                                          \
        ncclResult_t rc_ = (call);                \
        if (rc_ != ncclSuccess)                   \
            fail(#call, ncclGetErrorString(rc_)); \
    } while (0)

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void sleep_ms(double ms)
{
    struct timespec t = {(time_t)(ms / 1000),
                         (long)((ms - 1000 * (double)(long)(ms / 1000)) * 1e6)};
    nanosleep(&t, NULL);
}

/* splitmix64: the same numbers everywhere */
static uint64_t mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static float uniform(uint64_t x)
{
    return (float)(mix(x) >> 40) / (float)(1 << 23) - 1.0f; /* [-1, 1) */
}

static int hits(const struct fault *f, int step)
{
    return f->rank == rank && step >= f->step;
}

/* A batch: random points, labelled by a fixed linear teacher. */
static void make_batch(const struct options *o, int step, int rows, float *x, int *label)
{
    for (int r = 0; r < rows; r++) {
        float best = -1e30f;
        uint64_t sample = mix(o->seed ^ (uint64_t)step << 40 ^ (uint64_t)rank << 24 ^ (uint64_t)r);
        for (int k = 0; k < N_IN; k++)
            x[r * N_IN + k] = uniform(sample + (uint64_t)k);
        for (int c = 0; c < N_OUT; c++) {
            float v = 0;
            for (int k = 0; k < N_IN; k++)
                v += x[r * N_IN + k] * uniform(o->seed * 31 + (uint64_t)(c * N_IN + k));
            if (v > best) {
                best = v;
                label[r] = c;
            }
        }
    }
}

static void open_model(struct model *m, const struct options *o, int max_rows)
{
    size_t rows = (size_t)max_rows;
    CUDA(cudaMalloc((void **)&m->w, N_WEIGHTS * sizeof(float)));
    CUDA(cudaMalloc((void **)&m->g, N_WEIGHTS * sizeof(float)));
    CUDA(cudaMalloc((void **)&m->h1, rows * N_HIDDEN * sizeof(float)));
    CUDA(cudaMalloc((void **)&m->h2, rows * N_HIDDEN * sizeof(float)));
    CUDA(cudaMalloc((void **)&m->y, rows * N_OUT * sizeof(float)));
    CUDA(cudaMalloc((void **)&m->dy, rows * N_OUT * sizeof(float)));
    CUDA(cudaMalloc((void **)&m->dh2, rows * N_HIDDEN * sizeof(float)));
    CUDA(cudaMalloc((void **)&m->dh1, rows * N_HIDDEN * sizeof(float)));
    CUDA(cudaMalloc((void **)&m->scratch, 1024 * sizeof(float)));
    for (int i = 0; i < RING; i++) {
        CUDA(cudaMalloc((void **)&m->x[i], rows * N_IN * sizeof(float)));
        CUDA(cudaMalloc((void **)&m->label[i], rows * sizeof(int)));
        CUDA(cudaMalloc((void **)&m->loss[i], rows * sizeof(float)));
        CUDA(cudaMallocHost((void **)&m->host_x[i], rows * N_IN * sizeof(float)));
        CUDA(cudaMallocHost((void **)&m->host_label[i], rows * sizeof(int)));
        CUDA(cudaMallocHost((void **)&m->host_loss[i], rows * sizeof(float)));
        CUDA(cudaEventCreateWithFlags(&m->done[i], cudaEventDisableTiming));
    }
    CUDA(cudaStreamCreateWithFlags(&m->compute, cudaStreamNonBlocking));
    CUDA(cudaStreamCreateWithFlags(&m->comm, cudaStreamNonBlocking));
    for (int i = 0; i < 2; i++) {
        CUDA(cudaEventCreateWithFlags(&m->ready[i], cudaEventDisableTiming));
        CUDA(cudaEventCreateWithFlags(&m->reduced[i], cudaEventDisableTiming));
    }
    /* only rank 0 draws the weights; a broadcast gives them to all */
    float *w = malloc(N_WEIGHTS * sizeof(*w));
    if (!w)
        fail("weights", "out of memory");
    for (int i = 0; i < N_WEIGHTS; i++)
        w[i] = rank ? 0 : 0.15f * uniform(o->seed * 7 + (uint64_t)i);
    CUDA(cudaMemcpy(m->w, w, N_WEIGHTS * sizeof(*w), cudaMemcpyHostToDevice));
    free(w);
    ncclUniqueId id;
    if (rank == 0)
        NCCL(ncclGetUniqueId(&id));
    MPI_Bcast(&id, sizeof(id), MPI_BYTE, 0, MPI_COMM_WORLD);
    NCCL(ncclCommInitRank(&m->nccl, n_ranks, id, rank));
    NCCL(ncclBroadcast(m->w, m->w, N_WEIGHTS, ncclFloat, 0, m->nccl, m->comm));
    CUDA(cudaStreamSynchronize(m->comm));
}

/* Gradients [from, to) are complete on the compute stream: sum them over the ranks on the other
 * one. */
static void reduce_bucket(struct model *m, int bucket, int from, int to)
{
    CUDA(cudaEventRecord(m->ready[bucket], m->compute));
    CUDA(cudaStreamWaitEvent(m->comm, m->ready[bucket], 0));
    NCCL(ncclAllReduce(m->g + from, m->g + from, (size_t)(to - from), ncclFloat, ncclSum, m->nccl,
                       m->comm));
    CUDA(cudaEventRecord(m->reduced[bucket], m->comm));
}

/* A faulty host does not run ahead: what it does late delays the GPU by as much, as with a loader
 * that does not prefetch. Running ahead would hide any fault shorter than a step. */
static void catch_up(struct model *m, const struct options *o, int step)
{
    if (step > 0 && (hits(&o->slow_input, step) || hits(&o->late_launch, step)))
        CUDA(cudaEventSynchronize(m->done[(step - 1) % RING]));
}

static void train_step(struct model *m, const struct options *o, int step)
{
    catch_up(m, o, step);
    int i = step % RING;
    int rows = hits(&o->more_work, step) ? (int)(ROWS * o->more_work.value) : ROWS;
    int work = hits(&o->slow_gpu, step) ? (int)(100 * o->slow_gpu.value + 0.5) : 100;
    float *w1 = m->w + AT_1, *w2 = m->w + AT_2, *w3 = m->w + AT_3;

    hm_range_push("input");
    make_batch(o, step, rows, m->host_x[i], m->host_label[i]);
    if (hits(&o->slow_input, step))
        sleep_ms(o->slow_input.value);
    hm_range_pop();
    size_t rows_bytes = (size_t)rows * sizeof(float);
    CUDA(cudaMemcpyAsync(m->x[i], m->host_x[i], rows_bytes * N_IN, cudaMemcpyHostToDevice,
                         m->compute));
    CUDA(cudaMemcpyAsync(m->label[i], m->host_label[i], (size_t)rows * sizeof(int),
                         cudaMemcpyHostToDevice, m->compute));

    if (hits(&o->late_launch, step))
        sleep_ms(o->late_launch.value);
    hm_range_push("forward");
    ddp_forward(m->x[i], w1, w1 + N_IN * N_HIDDEN, m->h1, rows, N_IN, N_HIDDEN, 1, work,
                m->compute);
    ddp_forward(m->h1, w2, w2 + N_HIDDEN * N_HIDDEN, m->h2, rows, N_HIDDEN, N_HIDDEN, 1, work,
                m->compute);
    ddp_forward(m->h2, w3, w3 + N_HIDDEN * N_OUT, m->y, rows, N_HIDDEN, N_OUT, 0, work, m->compute);
    ddp_loss(m->y, m->label[i], m->dy, m->loss[i], rows, N_OUT, work, m->compute);
    hm_range_pop();

    hm_range_push("backward");
    ddp_backward_weights(m->h2, m->dy, m->g + AT_3, rows, N_HIDDEN, N_OUT, work, m->compute);
    ddp_backward_input(m->dy, w3, m->h2, m->dh2, rows, N_HIDDEN, N_OUT, work, m->compute);
    ddp_backward_weights(m->h1, m->dh2, m->g + AT_2, rows, N_HIDDEN, N_HIDDEN, work, m->compute);
    reduce_bucket(m, 0, AT_3, AT_1);
    ddp_backward_input(m->dh2, w2, m->h1, m->dh1, rows, N_HIDDEN, N_HIDDEN, work, m->compute);
    ddp_backward_weights(m->x[i], m->dh1, m->g + AT_1, rows, N_IN, N_HIDDEN, work, m->compute);
    reduce_bucket(m, 1, AT_1, N_WEIGHTS);
    for (int k = 0; k < o->launches; k++)
        ddp_nothing(m->scratch, m->compute);
    for (int k = 0; k < o->collectives; k++)
        NCCL(ncclAllReduce(m->scratch, m->scratch, 256, ncclFloat, ncclSum, m->nccl, m->comm));
    hm_range_pop();

    hm_range_push("optimizer");
    CUDA(cudaStreamWaitEvent(m->compute, m->reduced[0], 0));
    CUDA(cudaStreamWaitEvent(m->compute, m->reduced[1], 0));
    ddp_update(m->w, m->g, 0.5f / (float)n_ranks, N_WEIGHTS, work, m->compute);
    hm_range_pop();
    CUDA(cudaMemcpyAsync(m->host_loss[i], m->loss[i], rows_bytes, cudaMemcpyDeviceToHost,
                         m->compute));
    CUDA(cudaEventRecord(m->done[i], m->compute));
}

/* Mean loss over all ranks of a step that has ended. */
static double mean_loss(const struct model *m, int step)
{
    double sum = 0, all = 0;
    for (int r = 0; r < ROWS; r++)
        sum += m->host_loss[step % RING][r];
    MPI_Allreduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return all / (ROWS * n_ranks);
}

static uint64_t hash_weights(const struct model *m)
{
    static float w[N_WEIGHTS];
    uint64_t h = UINT64_C(14695981039346656037);
    CUDA(cudaMemcpy(w, m->w, sizeof(w), cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < sizeof(w); i++)
        h = (h ^ ((const unsigned char *)w)[i]) * UINT64_C(1099511628211);
    return h;
}

static int usage(const char *what)
{
    fprintf(
        stderr,
        "ddp-train: %s\nusage: ddp-train [--steps N] [--seed N] [--pace on|off] [--launches N] [--collectives N]\n"
        "  [--slow-gpu R:FACTOR[@STEP]] [--more-work R:FACTOR[@STEP]] [--slow-input R:MS[@STEP]] "
        "[--late-launch R:MS[@STEP]]\n",
        what);
    return 64;
}

static int read_fault(const char *text, double least, struct fault *f)
{
    int n = 0;
    f->step = 0;
    if (sscanf(text, "%d:%lf%n@%d%n", &f->rank, &f->value, &n, &f->step, &n) < 2 || text[n] ||
        f->rank < 0 || f->value < least || f->value > 1e6 || f->step < 0)
        return 0;
    return 1;
}

static int read_options(int argc, char **argv, struct options *o)
{
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i], *value = i + 1 < argc ? argv[++i] : NULL;
        if (!value)
            return usage(name);
        if (!strcmp(name, "--steps") && atoi(value) > 0)
            o->steps = atoi(value);
        else if (!strcmp(name, "--seed"))
            o->seed = strtoull(value, NULL, 10);
        else if (!strcmp(name, "--launches") && atoi(value) >= 0)
            o->launches = atoi(value);
        else if (!strcmp(name, "--collectives") && atoi(value) >= 0)
            o->collectives = atoi(value);
        else if (!strcmp(name, "--pace") && !strcmp(value, "off"))
            o->pace = 0;
        else if (!strcmp(name, "--pace") && !strcmp(value, "on"))
            continue;
        else if (!(!strcmp(name, "--slow-gpu") && read_fault(value, 1, &o->slow_gpu)) &&
                 !(!strcmp(name, "--more-work") && read_fault(value, 1, &o->more_work)) &&
                 !(!strcmp(name, "--slow-input") && read_fault(value, 0, &o->slow_input)) &&
                 !(!strcmp(name, "--late-launch") && read_fault(value, 0, &o->late_launch)))
            return usage(name);
    }
    return 0;
}

int main(int argc, char **argv)
{
    static const struct fault none = {-1, 0, 0};
    struct options o = {60, 0, 0, 1, 1, none, none, none, none};
    int rc = read_options(argc, argv, &o);
    if (rc)
        return rc;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
    MPI_Comm node;
    int local, n_devices;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &local);
    MPI_Comm_free(&node);
    CUDA(cudaGetDeviceCount(&n_devices));
    if (n_devices < 1)
        fail("cudaGetDeviceCount", "no device");
    CUDA(cudaSetDevice(local % n_devices));
    /* only the virtual GPU has this: no time passes in kernels */
    void (*set_paced)(int) = (void (*)(int))dlsym(RTLD_DEFAULT, "vgpu_set_paced");
    if (set_paced)
        set_paced(o.pace);
    if (rank == 0) {
        struct cudaDeviceProp p;
        CUDA(cudaGetDeviceProperties(&p, local % n_devices));
        printf("device: %s\n", strstr(p.name, "virtual") ? "virtual" : p.name);
        fflush(stdout);
    }

    struct model m;
    int max_rows = o.more_work.rank >= 0 ? (int)(ROWS * o.more_work.value) + 1 : ROWS;
    memset(&m, 0, sizeof(m));
    open_model(&m, &o, max_rows);
    MPI_Barrier(MPI_COMM_WORLD);
    double t0 = now(), first = 0;
    for (int step = 0; step < o.steps; step++) {
        hm_step(step);
        if (step >= RING) /* this slot of the ring must be free */
            CUDA(cudaEventSynchronize(m.done[step % RING]));
        if (step == RING)
            first = mean_loss(&m, 0);
        train_step(&m, &o, step);
    }
    hm_step_end();
    CUDA(cudaStreamSynchronize(m.comm));
    CUDA(cudaStreamSynchronize(m.compute));
    double step_ms = (now() - t0) / o.steps * 1e3;
    if (o.steps <= RING)
        first = mean_loss(&m, 0);
    double last = mean_loss(&m, o.steps - 1);

    uint64_t h = hash_weights(&m), all[2] = {h, ~h}, top[2];
    MPI_Allreduce(all, top, 2, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
    int same = top[0] == h && top[1] == ~h;
    if (!same)
        fprintf(stderr, "ddp-train: rank %d: weights %016llx differ from another rank's\n", rank,
                (unsigned long long)h);
    if (rank == 0) {
        printf("ddp-train: %d steps, %.3f ms each\n", o.steps, step_ms);
        printf("ddp-train: loss %.4f -> %.4f weights %016llx\n", first, last,
               (unsigned long long)h);
    }
    NCCL(ncclCommDestroy(m.nccl));
    MPI_Finalize();
    return same ? 0 : 1;
}
