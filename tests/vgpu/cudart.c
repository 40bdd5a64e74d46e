/* Entry points of the stand-in libcudart.so.13: start, device, streams, events, errors.
 *
 * Box: tests/vgpu. Threads: the application's. Prototypes are the toolkit's own headers'. What is
 * not here is not exported: the loader names it and stops.
 */
#include "cudart_start.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local cudaError_t last_error;

/* ---- start ---- */

static void inject(void)
{
    const char *path = getenv("CUDA_INJECTION64_PATH");
    if (!path || !*path)
        return;
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    int (*init)(void) = NULL;
    if (handle)
        *(void **)&init = dlsym(handle, "InitializeInjection");
    if (init)
        init();
}

void vgpu_start(void)
{
    static _Atomic int state; /* 0 none, 1 under way, 2 done */
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static _Thread_local int inside;
    if (atomic_load_explicit(&state, memory_order_acquire) == 2 || inside)
        return; /* what the injected library calls itself finds the device started */
    inside = 1;
    pthread_mutex_lock(&lock);
    if (atomic_load(&state) == 0) {
        atomic_store(&state, 1);
        inject();
        atomic_store(&state, 2);
    }
    pthread_mutex_unlock(&lock);
    inside = 0;
}

cudaError_t vgpu_leave(uint32_t cbid, uint32_t correlation, cudaError_t rc)
{
    vgpu_api_exit(2, cbid, correlation, (int)rc);
    if (rc && rc != cudaErrorNotReady)
        last_error = rc;
    return rc;
}

/* ---- device ---- */

/* Rank on this node: names the device, as jobs with a device per process do. */
static int local_rank(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID",
                                        "SLURM_LOCALID", "LOCAL_RANK", "PMI_RANK"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *s = getenv(names[i]);
        if (s && *s)
            return atoi(s);
    }
    return 0;
}

VGPU_API cudaError_t cudaGetDeviceCount(int *count)
{
    uint32_t cbid = VGPU_CBID(cudaGetDeviceCount_v3020), c = vgpu_enter(cbid);
    *count = 1;
    return vgpu_leave(cbid, c, cudaSuccess);
}

VGPU_API cudaError_t cudaSetDevice(int device)
{
    uint32_t cbid = VGPU_CBID(cudaSetDevice_v3020), c = vgpu_enter(cbid);
    return vgpu_leave(cbid, c, device == 0 ? cudaSuccess : cudaErrorInvalidDevice);
}

VGPU_API cudaError_t cudaGetDevice(int *device)
{
    uint32_t cbid = VGPU_CBID(cudaGetDevice_v3020), c = vgpu_enter(cbid);
    *device = 0;
    return vgpu_leave(cbid, c, cudaSuccess);
}

VGPU_API void vgpu_uuid(uint8_t uuid[16])
{
    int rank = local_rank();
    memset(uuid, 0, 16);
    memcpy(uuid, "virtual-gpu", 11);
    memcpy(uuid + 12, &rank, 4);
}

VGPU_API cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device)
{
    uint32_t cbid = VGPU_CBID(cudaGetDeviceProperties_v12000), c = vgpu_enter(cbid);
    if (device != 0)
        return vgpu_leave(cbid, c, cudaErrorInvalidDevice);
    memset(prop, 0, sizeof *prop);
    snprintf(prop->name, sizeof prop->name, "virtual");
    vgpu_uuid((uint8_t *)prop->uuid.bytes);
    prop->major = 9;
    prop->warpSize = 32;
    prop->multiProcessorCount = 1;
    prop->maxThreadsPerBlock = 1024;
    prop->totalGlobalMem = (size_t)1 << 30;
    prop->pciBusID = local_rank() + 1;
    prop->unifiedAddressing = prop->concurrentKernels = prop->asyncEngineCount = 1;
    return vgpu_leave(cbid, c, cudaSuccess);
}

VGPU_API cudaError_t cudaDeviceGetPCIBusId(char *id, int len, int device)
{
    vgpu_start();
    if (device != 0)
        return last_error = cudaErrorInvalidDevice;
    snprintf(id, (size_t)len, "0000:%02X:00.0", (unsigned)local_rank() + 1);
    return cudaSuccess;
}

VGPU_API cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

VGPU_API cudaError_t cudaDriverGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

VGPU_API cudaError_t cudaDeviceSynchronize(void)
{
    uint32_t cbid = VGPU_CBID(cudaDeviceSynchronize_v3020), c = vgpu_enter(cbid);
    vgpu_device_sync();
    return vgpu_leave(cbid, c, cudaSuccess);
}

/* ---- errors ---- */

VGPU_API const char *cudaGetErrorString(cudaError_t error)
{
    switch (error) {
    case cudaSuccess:
        return "no error";
    case cudaErrorInvalidValue:
        return "invalid argument";
    case cudaErrorMemoryAllocation:
        return "out of memory";
    case cudaErrorInvalidDevice:
        return "invalid device ordinal";
    case cudaErrorInvalidResourceHandle:
        return "invalid resource handle";
    case cudaErrorNotReady:
        return "device not ready";
    case cudaErrorInvalidDeviceFunction:
        return "invalid device function";
    default:
        return "unrecognized error code";
    }
}

VGPU_API const char *cudaGetErrorName(cudaError_t error)
{
    switch (error) {
    case cudaSuccess:
        return "cudaSuccess";
    case cudaErrorInvalidValue:
        return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
        return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidDevice:
        return "cudaErrorInvalidDevice";
    case cudaErrorInvalidResourceHandle:
        return "cudaErrorInvalidResourceHandle";
    case cudaErrorNotReady:
        return "cudaErrorNotReady";
    case cudaErrorInvalidDeviceFunction:
        return "cudaErrorInvalidDeviceFunction";
    default:
        return "unrecognized error code";
    }
}

VGPU_API cudaError_t cudaGetLastError(void)
{
    cudaError_t e = last_error;
    last_error = cudaSuccess;
    return e;
}

VGPU_API cudaError_t cudaPeekAtLastError(void)
{
    return last_error;
}

/* ---- streams ---- */

static cudaError_t stream_create(uint32_t cbid, cudaStream_t *stream, unsigned flags, int priority)
{
    uint32_t c = vgpu_enter(cbid);
    if (!stream)
        return vgpu_leave(cbid, c, cudaErrorInvalidValue);
    *stream = (cudaStream_t)(void *)vgpu_stream_create(flags, priority);
    return vgpu_leave(cbid, c, cudaSuccess);
}

VGPU_API cudaError_t cudaStreamCreate(cudaStream_t *stream)
{
    return stream_create(VGPU_CBID(cudaStreamCreate_v3020), stream, 0, 0);
}

VGPU_API cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    return stream_create(VGPU_CBID(cudaStreamCreateWithFlags_v5000), stream, flags, 0);
}

VGPU_API cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags,
                                                  int priority)
{
    return stream_create(VGPU_CBID(cudaStreamCreateWithPriority_v5050), stream, flags, priority);
}

VGPU_API cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    vgpu_start();
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
}

VGPU_API cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    uint32_t cbid = VGPU_CBID(cudaStreamDestroy_v5050), c = vgpu_enter(cbid);
    if ((uintptr_t)stream <= 2)
        return vgpu_leave(cbid, c, cudaErrorInvalidResourceHandle);
    vgpu_stream_destroy(vgpu_stream_of(stream));
    return vgpu_leave(cbid, c, cudaSuccess);
}

VGPU_API cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    uint32_t cbid = VGPU_CBID(cudaStreamSynchronize_v3020), c = vgpu_enter(cbid);
    vgpu_stream_sync(vgpu_stream_of(stream));
    return vgpu_leave(cbid, c, cudaSuccess);
}

VGPU_API cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    uint32_t cbid = VGPU_CBID(cudaStreamQuery_v3020), c = vgpu_enter(cbid);
    int idle = vgpu_stream_idle(vgpu_stream_of(stream));
    return vgpu_leave(cbid, c, idle ? cudaSuccess : cudaErrorNotReady);
}

/* ---- events ---- */

struct vgpu_event {
    pthread_mutex_t lock;
    unsigned flags;
    struct vgpu_mark *mark; /* of the last record */
};

static struct vgpu_event *event_of(cudaEvent_t e)
{
    return (struct vgpu_event *)(void *)e;
}

/* The mark of the last record, held; NULL before the first. */
static struct vgpu_mark *event_mark(cudaEvent_t event)
{
    struct vgpu_event *e = event_of(event);
    pthread_mutex_lock(&e->lock);
    struct vgpu_mark *m = e->mark ? vgpu_mark_hold(e->mark) : NULL;
    pthread_mutex_unlock(&e->lock);
    return m;
}

VGPU_API cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    uint32_t cbid = VGPU_CBID(cudaEventCreateWithFlags_v3020), c = vgpu_enter(cbid);
    struct vgpu_event *e = calloc(1, sizeof *e);
    if (!e)
        return vgpu_leave(cbid, c, cudaErrorMemoryAllocation);
    pthread_mutex_init(&e->lock, NULL);
    e->flags = flags;
    *event = (cudaEvent_t)(void *)e;
    return vgpu_leave(cbid, c, cudaSuccess);
}

VGPU_API cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    return cudaEventCreateWithFlags(event, cudaEventDefault);
}

VGPU_API cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    uint32_t cbid = VGPU_CBID(cudaEventDestroy_v3020), c = vgpu_enter(cbid);
    if (!event)
        return vgpu_leave(cbid, c, cudaErrorInvalidResourceHandle);
    struct vgpu_event *e = event_of(event);
    vgpu_mark_drop(e->mark);
    pthread_mutex_destroy(&e->lock);
    free(e);
    return vgpu_leave(cbid, c, cudaSuccess);
}

VGPU_API cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    uint32_t cbid = VGPU_CBID(cudaEventRecord_v3020), c = vgpu_enter(cbid);
    if (!event)
        return vgpu_leave(cbid, c, cudaErrorInvalidResourceHandle);
    struct vgpu_event *e = event_of(event);
    pthread_mutex_lock(&e->lock);
    vgpu_mark_drop(e->mark);
    e->mark = vgpu_stream_mark(vgpu_stream_of(stream));
    pthread_mutex_unlock(&e->lock);
    return vgpu_leave(cbid, c, cudaSuccess);
}

VGPU_API cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    (void)flags;
    uint32_t cbid = VGPU_CBID(cudaStreamWaitEvent_v3020), c = vgpu_enter(cbid);
    if (!event)
        return vgpu_leave(cbid, c, cudaErrorInvalidResourceHandle);
    struct vgpu_mark *m = event_mark(event);
    if (m)
        vgpu_stream_await(vgpu_stream_of(stream), m);
    vgpu_mark_drop(m);
    return vgpu_leave(cbid, c, cudaSuccess);
}

VGPU_API cudaError_t cudaEventQuery(cudaEvent_t event)
{
    uint32_t cbid = VGPU_CBID(cudaEventQuery_v3020), c = vgpu_enter(cbid);
    if (!event)
        return vgpu_leave(cbid, c, cudaErrorInvalidResourceHandle);
    struct vgpu_mark *m = event_mark(event);
    int done = !m || vgpu_mark_done(m);
    vgpu_mark_drop(m);
    return vgpu_leave(cbid, c, done ? cudaSuccess : cudaErrorNotReady);
}

VGPU_API cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    uint32_t cbid = VGPU_CBID(cudaEventSynchronize_v3020), c = vgpu_enter(cbid);
    if (!event)
        return vgpu_leave(cbid, c, cudaErrorInvalidResourceHandle);
    struct vgpu_mark *m = event_mark(event);
    if (m)
        vgpu_mark_wait(m);
    vgpu_mark_drop(m);
    return vgpu_leave(cbid, c, cudaSuccess);
}

VGPU_API cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)
{
    uint32_t cbid = VGPU_CBID(cudaEventElapsedTime_v12080), c = vgpu_enter(cbid);
    cudaError_t rc = cudaErrorInvalidResourceHandle;
    if (!start || !end ||
        ((event_of(start)->flags | event_of(end)->flags) & cudaEventDisableTiming))
        return vgpu_leave(cbid, c, rc);
    struct vgpu_mark *a = event_mark(start), *b = event_mark(end);
    if (a && b)
        rc = vgpu_mark_done(a) && vgpu_mark_done(b) ? cudaSuccess : cudaErrorNotReady;
    if (!rc)
        *ms = (float)((double)(vgpu_mark_wait(b) - vgpu_mark_wait(a)) / 1e6);
    vgpu_mark_drop(a);
    vgpu_mark_drop(b);
    return vgpu_leave(cbid, c, rc);
}
