/* Modelled times, from the runtime's calls to CUPTI's records, against the arithmetic by hand.
 *
 * Box: tests/vgpu_tests. The device computes 1e6 FLOP/s here (VGPU_FLOPS), so a kernel of n FLOP
 * takes n us; copies take 2 us + bytes / (10 GB/s). CUPTI's clock is set to the device's, so that
 * records can be compared to the nanosecond.
 */
#include "vgpu.h"

#include <cuda_runtime_api.h>
#include <cupti.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CHECK(x)                                                            \
    do {                                                                    \
        if (!(x)) {                                                         \
            fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #x); \
            exit(1);                                                        \
        }                                                                   \
    } while (0)

/* What nvcc's host code of CUDA 13 calls (crt/host_runtime.h, crt/device_functions.h). */
void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name,
                            int thread_limit, void *tid, void *bid, void *block, void *grid,
                            int *warp);
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, struct CUstream_st *s);
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream);
cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *host);
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **args,
                               size_t shared, cudaStream_t stream);

enum { MAX_RECORDS = 4096, BUFFER = 64 * 1024 };
static struct {
    pthread_mutex_t lock;
    CUpti_ActivityKernel10 kernel[MAX_RECORDS];
    CUpti_ActivityMemcpy6 copy[MAX_RECORDS];
    CUpti_ActivityMemset4 fill[MAX_RECORDS];
    CUpti_ActivityAPI api[MAX_RECORDS];
    CUpti_ActivityExternalCorrelation external[MAX_RECORDS];
    unsigned n_kernel, n_copy, n_fill, n_api, n_external, n_bad;
} got = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void CUPTIAPI request(uint8_t **buffer, size_t *size, size_t *n_max)
{
    *size = BUFFER;
    *n_max = 0;
    *buffer = aligned_alloc(8, BUFFER);
}

static void CUPTIAPI complete(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size,
                              size_t valid)
{
    CUpti_Activity *r = NULL;
    (void)context, (void)stream, (void)size;
    pthread_mutex_lock(&got.lock);
    CUptiResult rc;
    while (!(rc = cuptiActivityGetNextRecord(buffer, valid, &r))) {
        if (r->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)
            memcpy(&got.kernel[got.n_kernel++], r, sizeof got.kernel[0]);
        else if (r->kind == CUPTI_ACTIVITY_KIND_MEMCPY)
            memcpy(&got.copy[got.n_copy++], r, sizeof got.copy[0]);
        else if (r->kind == CUPTI_ACTIVITY_KIND_MEMSET)
            memcpy(&got.fill[got.n_fill++], r, sizeof got.fill[0]);
        else if (r->kind == CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION)
            memcpy(&got.external[got.n_external++], r, sizeof got.external[0]);
        else
            memcpy(&got.api[got.n_api++], r, sizeof got.api[0]);
    }
    got.n_bad += rc != CUPTI_ERROR_MAX_LIMIT_REACHED;
    pthread_mutex_unlock(&got.lock);
    free(buffer);
}

static uint64_t CUPTIAPI device_clock(void)
{
    return (uint64_t)vgpu_now();
}

static void forget(void)
{
    CHECK(!cuptiActivityFlushAll(1));
    pthread_mutex_lock(&got.lock);
    got.n_kernel = got.n_copy = got.n_fill = got.n_api = got.n_external = 0;
    pthread_mutex_unlock(&got.lock);
}

static const char host_function; /* stands for the address of the host's stub */

static void launch(cudaStream_t stream, unsigned flops, int *x, int value)
{
    cudaKernel_t kernel;
    dim3 grid, block;
    size_t shared;
    cudaStream_t s;
    void *args[] = {&x, &value};
    CHECK(!__cudaGetKernel(&kernel, &host_function));
    CHECK(!__cudaPushCallConfiguration((dim3){flops, 1, 1}, (dim3){1, 1, 1}, 0, stream));
    CHECK(!__cudaPopCallConfiguration(&grid, &block, &shared, &s));
    CHECK(!__cudaLaunchKernel(kernel, grid, block, args, shared, s));
    value = -1000; /* arguments count as they were at the launch */
    x = NULL;
}

static int64_t start_of(unsigned i)
{
    return (int64_t)got.kernel[i].start;
}
static int64_t end_of(unsigned i)
{
    return (int64_t)got.kernel[i].end;
}

/* A blocking head start keeps the device behind the host, as a training job does. */
static void queue_up(cudaStream_t s, int *x)
{
    launch(s, 20000, x, 0);
}

static void one_stream(cudaStream_t s, int *x)
{
    int64_t before = vgpu_now();
    queue_up(s, x);
    launch(s, 700, x, 1);
    launch(s, 1300, x, 2);
    int64_t after = vgpu_now();
    CHECK(cudaStreamQuery(s) == cudaErrorNotReady);
    CHECK(!cudaStreamSynchronize(s));
    CHECK(!cuptiActivityFlushAll(0));
    CHECK(got.n_kernel == 3);
    CHECK(start_of(0) >= before && start_of(0) <= after); /* launched then, the device was idle */
    CHECK(end_of(0) - start_of(0) == 20000000);
    CHECK(start_of(1) == end_of(0) && end_of(1) - start_of(1) == 700000);
    CHECK(start_of(2) == end_of(1) && end_of(2) - start_of(2) == 1300000);
    CHECK(vgpu_now() >= end_of(2)); /* nothing shows before its end */
    CHECK(x[0] == 700 + 2 * 1300);
    CHECK(!strcmp(got.kernel[1].name, "_Z3addPii") && got.kernel[1].gridX == 700);
    forget();
}

static void two_streams(cudaStream_t a, cudaStream_t b, int *x)
{
    cudaEvent_t e, f;
    float ms;
    CHECK(!cudaEventCreate(&e) && !cudaEventCreate(&f));
    queue_up(a, x);
    launch(a, 500, x, 0);
    CHECK(!cudaEventRecord(e, a));
    launch(a, 4000, x, 0);
    CHECK(!cudaStreamWaitEvent(b, e, 0));
    launch(b, 250, x, 0);
    CHECK(!cudaEventRecord(f, b));
    CHECK(cudaEventQuery(f) == cudaErrorNotReady);
    CHECK(!cudaEventSynchronize(f));
    CHECK(!cudaEventElapsedTime(&ms, e, f));
    CHECK(ms == 0.25f);
    CHECK(!cudaDeviceSynchronize());
    CHECK(!cuptiActivityFlushAll(0));
    CHECK(got.n_kernel == 4);
    unsigned on_b = 0;
    while (on_b < 4 && got.kernel[on_b].gridX != 250)
        on_b++;
    unsigned first = 0, long_one = 0;
    for (unsigned i = 0; i < 4; i++) {
        first = got.kernel[i].gridX == 500 ? i : first;
        long_one = got.kernel[i].gridX == 4000 ? i : long_one;
    }
    CHECK(on_b < 4 && start_of(on_b) == end_of(first) && start_of(long_one) == end_of(first));
    CHECK(got.kernel[on_b].streamId != got.kernel[first].streamId);
    CHECK(!cudaEventDestroy(e) && !cudaEventDestroy(f));
    forget();
}

static void copies(cudaStream_t s, int *x)
{
    static char host[50000];
    char *device;
    CHECK(!cudaMalloc((void **)&device, sizeof host));
    queue_up(s, x);
    for (size_t i = 0; i < sizeof host; i++)
        host[i] = (char)i;
    CHECK(!cudaMemcpyAsync(device, host, sizeof host, cudaMemcpyHostToDevice, s));
    memset(host, 0, sizeof host); /* a pageable source was staged at the call */
    CHECK(!cudaMemcpyAsync(host, device, sizeof host, cudaMemcpyDeviceToHost, s));
    CHECK(!cudaMemsetAsync(device, 7, 1000, s));
    CHECK(!cudaStreamSynchronize(s) && !cuptiActivityFlushAll(0));
    for (size_t i = 0; i < sizeof host; i++)
        CHECK(host[i] == (char)i);
    CHECK(device[0] == 7 && device[999] == 7);
    CHECK(got.n_copy == 2 && got.n_fill == 1);
    CHECK((int64_t)got.copy[0].start == end_of(0));
    CHECK(got.copy[0].end - got.copy[0].start == 2000 + 5000);
    CHECK(got.copy[0].copyKind == CUPTI_ACTIVITY_MEMCPY_KIND_HTOD && got.copy[0].bytes == 50000);
    CHECK(got.copy[0].srcKind == CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE);
    CHECK(got.copy[1].copyKind == CUPTI_ACTIVITY_MEMCPY_KIND_DTOH);
    CHECK(got.copy[1].start == got.copy[0].end);
    CHECK(got.fill[0].start == got.copy[1].end && got.fill[0].end - got.fill[0].start == 2100);
    CHECK(got.fill[0].value == 7 && got.fill[0].bytes == 1000);
    CHECK(!cudaFree(device));
    forget();
}

/* <<<>>> is a runtime and a driver call with one correlation id; an external id comes with it. */
static void calls(cudaStream_t s, int *x)
{
    uint64_t id = 0;
    CHECK(cuptiActivityPopExternalCorrelationId(5, &id) == CUPTI_ERROR_QUEUE_EMPTY);
    CHECK(!cuptiActivityPushExternalCorrelationId(5, 77));
    launch(s, 10, x, 0);
    CHECK(!cuptiActivityPopExternalCorrelationId(5, &id) && id == 77);
    launch(s, 11, x, 0);
    CHECK(!cudaStreamSynchronize(s) && !cuptiActivityFlushAll(0));
    CHECK(got.n_kernel == 2 && got.n_external == 1 && got.n_api == 5);
    CHECK(got.external[0].externalKind == 5 && got.external[0].externalId == 77);
    CHECK(got.external[0].correlationId == got.kernel[0].correlationId);
    CHECK(got.kernel[0].correlationId != got.kernel[1].correlationId);
    for (unsigned i = 0; i < 4; i += 2) { /* the inner call ends first */
        CUpti_ActivityAPI *driver = &got.api[i], *runtime = &got.api[i + 1];
        CHECK(driver->kind == CUPTI_ACTIVITY_KIND_DRIVER && driver->cbid == 307);
        CHECK(runtime->kind == CUPTI_ACTIVITY_KIND_RUNTIME && runtime->cbid == 505);
        CHECK(driver->correlationId == got.kernel[i / 2].correlationId);
        CHECK(runtime->correlationId == driver->correlationId);
        CHECK(runtime->start <= driver->start && driver->end <= runtime->end);
        CHECK(driver->threadId == (uint32_t)syscall(SYS_gettid));
        CHECK(driver->start <= got.kernel[i / 2].start);
    }
    CHECK(got.api[4].cbid == 131);
    forget();
}

static void unpaced(cudaStream_t s, int *x)
{
    vgpu_set_slowdown(1.05);
    queue_up(s, x);
    launch(s, 1000, x, 0);
    CHECK(!cudaStreamSynchronize(s) && !cuptiActivityFlushAll(0));
    CHECK(got.n_kernel == 2 && end_of(1) - start_of(1) == 1050000);
    forget();
    vgpu_set_slowdown(1);
    vgpu_set_paced(0);
    for (int i = 0; i < 1000; i++)
        launch(s, 100000, x, 0);
    CHECK(!cudaStreamSynchronize(s) && !cuptiActivityFlushAll(0));
    CHECK(got.n_kernel == 1000);
    for (unsigned i = 0; i < 1000; i++)
        CHECK(start_of(i) == end_of(i) && (i == 0 || start_of(i) >= start_of(i - 1)));
    vgpu_set_paced(1);
    forget();
}

/* The default stream and blocking streams wait for each other, others do not. */
static void default_stream(int *x)
{
    cudaStream_t blocking;
    CHECK(!cudaStreamCreate(&blocking));
    launch(blocking, 3000, x, 0);
    launch(NULL, 100, x, 0);
    launch(blocking, 50, x, 0);
    CHECK(!cudaDeviceSynchronize() && !cuptiActivityFlushAll(0));
    CHECK(got.n_kernel == 3);
    CHECK(start_of(1) == end_of(0) && start_of(2) == end_of(1));
    CHECK(got.kernel[1].streamId == 7);
    CHECK(!cudaStreamDestroy(blocking));
    forget();
}

static void start_cupti(void)
{
    static const uint32_t kinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                     CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET,
                                     CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION};
    CUpti_SubscriberHandle subscriber;
    CHECK(!cuptiSubscribe(&subscriber, NULL, NULL));
    CHECK(!cuptiActivityRegisterTimestampCallback(device_clock));
    CHECK(!cuptiSetThreadIdType(CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM));
    CHECK(!cuptiActivityRegisterCallbacks(request, complete));
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        CHECK(!cuptiActivityEnable(kinds[i]));
    CHECK(!cuptiActivityEnableDriverApi(307, 1));
    CHECK(!cuptiActivityEnableRuntimeApi(505, 1));
    CHECK(!cuptiActivityEnableRuntimeApi(131, 1));
}

int main(void)
{
    cudaStream_t a, b;
    int *x;
    setenv("VGPU_FLOPS", "1e6", 1);
    start_cupti();
    __cudaRegisterFunction(NULL, &host_function, NULL, "_Z3addPii", -1, NULL, NULL, NULL, NULL,
                           NULL);
    CHECK(!cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
    CHECK(!cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
    CHECK(!cudaMalloc((void **)&x, sizeof *x));
    CHECK(!cudaMemset(x, 0, sizeof *x));
    CHECK(!cudaDeviceSynchronize());
    forget();
    one_stream(a, x);
    two_streams(a, b, x);
    copies(a, x);
    calls(a, x);
    default_stream(x);
    unpaced(a, x);
    CHECK(got.n_bad == 0);
    size_t n;
    CHECK(!cuptiActivityGetNumDroppedRecords(NULL, 0, &n) && n == 0);
    CHECK(!cudaFree(x) && !cudaStreamDestroy(a) && !cudaStreamDestroy(b));
    printf("modelled times: all exact\n");
    return 0;
}
