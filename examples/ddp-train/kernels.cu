/* Kernels of ddp-train: one body for the GPU and for the CPU.
 *
 * nvcc makes the device code and the launchers; a C++ compiler makes the same bodies into
 * libddp-kernels-cpu.so, which the virtual GPU asks for them (tests/vgpu/vgpu_kernel.h).
 */
#include "kernels.h"

#include <math.h>

#ifdef __CUDACC__
#define BODY  __host__ __device__ static inline
#define ENTRY __global__
#define INDEX (int)(blockIdx.x * blockDim.x + threadIdx.x)
#else
#define BODY static inline
#endif

/* Work beyond 100 %: the inner loop goes on around; what it adds is taken away again exactly. */
BODY float dot(const float *a, int step_a, const float *b, int step_b, int n, int work)
{
    float sum = 0, extra = 0;
    for (int k = 0; k < n; k++)
        sum += a[k * step_a] * b[k * step_b];
#ifdef __CUDACC__
    int more = (int)((long long)n * (work - 100) / 100);
    for (int k = 0; k < more; k++)
        extra += a[k % n * step_a] * b[k % n * step_b];
    if (extra == 1e30f) /* never; keeps the loop */
        sum = 0;
#else
    (void)work; /* the virtual GPU charges the time by flops() */
    (void)extra;
#endif
    return sum;
}

BODY void forward_at(int i, const float *x, const float *w, const float *b, float *y, int rows, int n_in, int n_out,
                     int relu, int work)
{
    if (i >= rows * n_out)
        return;
    int r = i / n_out, c = i % n_out;
    float v = dot(x + r * n_in, 1, w + c, n_out, n_in, work) + b[c];
    y[i] = relu && v < 0 ? 0 : v;
}

BODY void loss_at(int r, const float *y, const int *label, float *dy, float *loss, int rows, int n_out, int work)
{
    (void)work;
    if (r >= rows)
        return;
    const float *row = y + r * n_out;
    float max = row[0], sum = 0;
    for (int c = 1; c < n_out; c++)
        max = row[c] > max ? row[c] : max;
    for (int c = 0; c < n_out; c++)
        sum += expf(row[c] - max);
    for (int c = 0; c < n_out; c++)
        dy[r * n_out + c] = expf(row[c] - max) / sum - (c == label[r] ? 1.0f : 0.0f);
    loss[r] = logf(sum) - (row[label[r]] - max);
}

/* Adds what `rows` of the batch's `total` rows give; the first slice of rows begins at 0. */
BODY void backward_weights_at(int i, const float *x, const float *dy, float *dw, int rows, int n_in, int n_out,
                              int total, int first, int work)
{
    if (i >= (n_in + 1) * n_out)
        return;
    int k = i / n_out, c = i % n_out;
    float sum = 0;
    if (k < n_in) {
        sum = dot(x + k, n_in, dy + c, n_out, rows, work);
    } else {
        for (int r = 0; r < rows; r++)
            sum += dy[r * n_out + c];
    }
    dw[i] = (first ? 0 : dw[i]) + sum / (float)total;
}

BODY void backward_input_at(int i, const float *dy, const float *w, const float *x, float *dx, int rows, int n_in,
                            int n_out, int work)
{
    if (i >= rows * n_in)
        return;
    int r = i / n_in, k = i % n_in;
    dx[i] = x[i] > 0 ? dot(dy + r * n_out, 1, w + k * n_out, 1, n_out, work) : 0;
}

BODY void update_at(int i, float *w, const float *g, float rate, int n, int work)
{
    (void)work;
    if (i < n)
        w[i] -= rate * g[i];
}

#ifdef __CUDACC__

ENTRY void forward_kernel(const float *x, const float *w, const float *b, float *y, int rows, int n_in, int n_out,
                          int relu, int work)
{
    forward_at(INDEX, x, w, b, y, rows, n_in, n_out, relu, work);
}
ENTRY void loss_kernel(const float *y, const int *label, float *dy, float *loss, int rows, int n_out, int work)
{
    loss_at(INDEX, y, label, dy, loss, rows, n_out, work);
}
ENTRY void backward_weights_kernel(const float *x, const float *dy, float *dw, int rows, int n_in, int n_out,
                                   int total, int first, int work)
{
    backward_weights_at(INDEX, x, dy, dw, rows, n_in, n_out, total, first, work);
}
ENTRY void backward_input_kernel(const float *dy, const float *w, const float *x, float *dx, int rows, int n_in,
                                 int n_out, int work)
{
    backward_input_at(INDEX, dy, w, x, dx, rows, n_in, n_out, work);
}
ENTRY void update_kernel(float *w, const float *g, float rate, int n, int work)
{
    update_at(INDEX, w, g, rate, n, work);
}
ENTRY void nothing_kernel(float *x)
{
    (void)x;
}

enum { BLOCK = 128 };
static unsigned blocks(int n)
{
    return (unsigned)((n + BLOCK - 1) / BLOCK);
}

void ddp_forward(const float *x, const float *w, const float *b, float *y, int rows, int n_in, int n_out, int relu,
                 int work, cudaStream_t stream)
{
    forward_kernel<<<blocks(rows * n_out), BLOCK, 0, stream>>>(x, w, b, y, rows, n_in, n_out, relu, work);
}
void ddp_loss(const float *y, const int *label, float *dy, float *loss, int rows, int n_out, int work,
              cudaStream_t stream)
{
    loss_kernel<<<(unsigned)rows, 1, 0, stream>>>(y, label, dy, loss, rows, n_out, work);
}
void ddp_backward_weights(const float *x, const float *dy, float *dw, int rows, int n_in, int n_out, int work,
                          cudaStream_t stream)
{
    /* Slices of fixed work: a larger batch means more launches, never longer ones of the same grid. */
    for (int at = 0; at < rows; at += DDP_SLICE_ROWS) {
        int n = rows - at < DDP_SLICE_ROWS ? rows - at : DDP_SLICE_ROWS;
        backward_weights_kernel<<<blocks((n_in + 1) * n_out), BLOCK, 0, stream>>>(
            x + at * n_in, dy + at * n_out, dw, n, n_in, n_out, rows, at == 0, work);
    }
}
void ddp_backward_input(const float *dy, const float *w, const float *x, float *dx, int rows, int n_in, int n_out,
                        int work, cudaStream_t stream)
{
    backward_input_kernel<<<blocks(rows * n_in), BLOCK, 0, stream>>>(dy, w, x, dx, rows, n_in, n_out, work);
}
void ddp_update(float *w, const float *g, float rate, int n, int work, cudaStream_t stream)
{
    update_kernel<<<blocks(n), BLOCK, 0, stream>>>(w, g, rate, n, work);
}
void ddp_nothing(float *x, cudaStream_t stream)
{
    nothing_kernel<<<1, 1, 0, stream>>>(x);
}

#else /* the CPU form, for the virtual GPU */

#include "vgpu_kernel.h"

#define ARG(i, type) (*(type *)args[i])
#define PTR          sizeof(void *)
#define INT          sizeof(int)

static void run_forward(void *const *args, const uint32_t *, const uint32_t *)
{
    int n = ARG(4, int) * ARG(6, int);
    for (int i = 0; i < n; i++)
        forward_at(i, ARG(0, const float *), ARG(1, const float *), ARG(2, const float *), ARG(3, float *),
                   ARG(4, int), ARG(5, int), ARG(6, int), ARG(7, int), ARG(8, int));
}
static double flops_forward(void *const *args, const uint32_t *, const uint32_t *)
{
    return 2.0 * ARG(4, int) * ARG(5, int) * ARG(6, int) * ARG(8, int) / 100;
}
static void run_loss(void *const *args, const uint32_t *, const uint32_t *)
{
    for (int i = 0; i < ARG(4, int); i++)
        loss_at(i, ARG(0, const float *), ARG(1, const int *), ARG(2, float *), ARG(3, float *), ARG(4, int),
                ARG(5, int), ARG(6, int));
}
static double flops_loss(void *const *args, const uint32_t *, const uint32_t *)
{
    return 40.0 * ARG(4, int) * ARG(5, int) * ARG(6, int) / 100;
}
static void run_backward_weights(void *const *args, const uint32_t *, const uint32_t *)
{
    int n = (ARG(4, int) + 1) * ARG(5, int);
    for (int i = 0; i < n; i++)
        backward_weights_at(i, ARG(0, const float *), ARG(1, const float *), ARG(2, float *), ARG(3, int),
                            ARG(4, int), ARG(5, int), ARG(6, int), ARG(7, int), ARG(8, int));
}
static double flops_backward_weights(void *const *args, const uint32_t *, const uint32_t *)
{
    return 2.0 * ARG(3, int) * (ARG(4, int) + 1) * ARG(5, int) * ARG(8, int) / 100;
}
static void run_backward_input(void *const *args, const uint32_t *, const uint32_t *)
{
    int n = ARG(4, int) * ARG(5, int);
    for (int i = 0; i < n; i++)
        backward_input_at(i, ARG(0, const float *), ARG(1, const float *), ARG(2, const float *), ARG(3, float *),
                          ARG(4, int), ARG(5, int), ARG(6, int), ARG(7, int));
}
static double flops_backward_input(void *const *args, const uint32_t *, const uint32_t *)
{
    return 2.0 * ARG(4, int) * ARG(5, int) * ARG(6, int) * ARG(7, int) / 100;
}
static void run_update(void *const *args, const uint32_t *, const uint32_t *)
{
    for (int i = 0; i < ARG(3, int); i++)
        update_at(i, ARG(0, float *), ARG(1, const float *), ARG(2, float), ARG(3, int), ARG(4, int));
}
static double flops_update(void *const *args, const uint32_t *, const uint32_t *)
{
    return 2.0 * ARG(3, int) * ARG(4, int) / 100;
}
static void run_nothing(void *const *, const uint32_t *, const uint32_t *)
{
}
static double flops_nothing(void *const *, const uint32_t *, const uint32_t *)
{
    return 0;
}

static const uint16_t args_forward[] = {PTR, PTR, PTR, PTR, INT, INT, INT, INT, INT, 0};
static const uint16_t args_loss[] = {PTR, PTR, PTR, PTR, INT, INT, INT, 0};
static const uint16_t args_backward_weights[] = {PTR, PTR, PTR, INT, INT, INT, INT, INT, INT, 0};
static const uint16_t args_backward_input[] = {PTR, PTR, PTR, PTR, INT, INT, INT, INT, 0};
static const uint16_t args_update[] = {PTR, PTR, sizeof(float), INT, INT, 0};
static const uint16_t args_nothing[] = {PTR, 0};

extern "C" __attribute__((visibility("default"))) const struct vgpu_kernel vgpu_kernels[] = {
    {"_Z14forward_kernelPKfS0_S0_Pfiiiii", args_forward, run_forward, flops_forward},
    {"_Z11loss_kernelPKfPKiPfS3_iii", args_loss, run_loss, flops_loss},
    {"_Z23backward_weights_kernelPKfS0_Pfiiiiii", args_backward_weights, run_backward_weights, flops_backward_weights},
    {"_Z21backward_input_kernelPKfS0_S0_Pfiiii", args_backward_input, run_backward_input, flops_backward_input},
    {"_Z13update_kernelPfPKffii", args_update, run_update, flops_update},
    {"_Z14nothing_kernelPf", args_nothing, run_nothing, flops_nothing},
    {nullptr, nullptr, nullptr, nullptr}};

#endif
