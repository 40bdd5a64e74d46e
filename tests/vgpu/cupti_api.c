/* The calls of the stand-in libcupti.so.13: subscriber, kinds, filters, attributes, clock.
 *
 * Box: tests/vgpu. Threads: any. Without the stand-in libcudart in the process (or with VGPU_CUPTI=
 * no-driver) it answers like the real library on a machine without a GPU: 999.
 */
#include "cupti_inside.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { N_ATTRIBUTES = 16 };

struct cupti_scenario cupti_scenario;

static struct {
    _Atomic int ready, subscribed;
    char owner[64];
    _Atomic uint8_t kind[CUPTI_N_KINDS];
    _Atomic uint8_t driver[CUPTI_N_CBIDS], runtime[CUPTI_N_CBIDS];
    _Atomic int system_ids;
    uint64_t attribute[N_ATTRIBUTES];
    size_t attribute_size[N_ATTRIBUTES];
    uint64_t (*_Atomic clock)(void);
} api = {
    .attribute = {[0] = 3200000, [1] = 8u << 20, [2] = 250, [6] = 3, [9] = 1, [10] = 16u << 20},
    .attribute_size = {8, 8, 8, 8, 8, 1, 8, 8, 1, 1, 8}};

static void read_scenario(void)
{
    const char *s = getenv("VGPU_CUPTI");
    if (!s)
        return;
    cupti_scenario.foreign = strstr(s, "foreign") != NULL;
    cupti_scenario.zero_times = strstr(s, "zero-times") != NULL;
    cupti_scenario.drop = strstr(s, "drop") != NULL;
    cupti_scenario.unknown_kind = strstr(s, "unknown-kind") != NULL;
    cupti_scenario.no_driver = strstr(s, "no-driver") != NULL;
}

/* 0, or the code of a call that needs a device. */
static CUptiResult usable(void)
{
    int was = 0;
    if (atomic_compare_exchange_strong(&api.ready, &was, 1))
        read_scenario();
    if (cupti_scenario.no_driver || !vgpu_set_hooks)
        return CUPTI_ERROR_UNKNOWN;
    return CUPTI_SUCCESS;
}

int cupti_kind_on(uint32_t kind)
{
    return kind < CUPTI_N_KINDS && atomic_load_explicit(&api.kind[kind], memory_order_relaxed);
}

int cupti_api_on(uint32_t domain, uint32_t cbid)
{
    if (cbid >= CUPTI_N_CBIDS)
        return 0;
    return atomic_load_explicit(domain == 1 ? &api.driver[cbid] : &api.runtime[cbid],
                                memory_order_relaxed);
}

int cupti_thread_ids_are_system(void)
{
    return atomic_load_explicit(&api.system_ids, memory_order_relaxed);
}

uint64_t (*cupti_clock(void))(void)
{
    return atomic_load_explicit(&api.clock, memory_order_acquire);
}

uint64_t cupti_now(void)
{
    uint64_t (*clock)(void) = cupti_clock();
    if (clock)
        return clock();
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts); /* through libc: a test library may shift it */
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

uint8_t cupti_attribute(int which)
{
    return (uint8_t)api.attribute[which];
}

VGPU_API CUptiResult cuptiGetVersion(uint32_t *version)
{
    if (!version)
        return CUPTI_ERROR_INVALID_PARAMETER;
    *version = 130001;
    return CUPTI_SUCCESS;
}

VGPU_API CUptiResult cuptiGetTimestamp(uint64_t *t)
{
    if (!t)
        return CUPTI_ERROR_INVALID_PARAMETER;
    *t = cupti_now();
    return CUPTI_SUCCESS;
}

VGPU_API CUptiResult cuptiGetLastError(void)
{
    return CUPTI_SUCCESS;
}

VGPU_API CUptiResult cuptiGetResultString(CUptiResult result, const char **text)
{
    static const struct {
        CUptiResult code;
        const char *name;
    } names[] = {{0, "CUPTI_SUCCESS"},
                 {1, "CUPTI_ERROR_INVALID_PARAMETER"},
                 {7, "CUPTI_ERROR_INVALID_OPERATION"},
                 {8, "CUPTI_ERROR_OUT_OF_MEMORY"},
                 {12, "CUPTI_ERROR_MAX_LIMIT_REACHED"},
                 {14, "CUPTI_ERROR_NOT_COMPATIBLE"},
                 {15, "CUPTI_ERROR_NOT_INITIALIZED"},
                 {18, "CUPTI_ERROR_QUEUE_EMPTY"},
                 {21, "CUPTI_ERROR_INVALID_KIND"},
                 {27, "CUPTI_ERROR_NOT_SUPPORTED"},
                 {38, "CUPTI_ERROR_LEGACY_PROFILER_NOT_SUPPORTED"},
                 {39, "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED"},
                 {999, "CUPTI_ERROR_UNKNOWN"}};
    if (!text)
        return CUPTI_ERROR_INVALID_PARAMETER;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].code == result) {
            *text = names[i].name;
            return CUPTI_SUCCESS;
        }
    *text = "<unknown>";
    return CUPTI_ERROR_INVALID_PARAMETER;
}

/* Only the calls the stand-in runtime makes have a name here. */
VGPU_API CUptiResult cuptiGetCallbackName(CUpti_CallbackDomain domain, uint32_t cbid,
                                          const char **name)
{
#define RUNTIME(n)                                                    \
    {                                                                 \
        CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_##n, #n \
    }
#define DRIVER(n)                                                   \
    {                                                               \
        CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_##n, #n \
    }
    static const struct {
        uint32_t domain, cbid;
        const char *name;
    } names[] = {DRIVER(cuLaunchKernel),
                 DRIVER(cuLaunchKernelEx),
                 RUNTIME(__cudaLaunchKernel_v13000),
                 RUNTIME(cudaLaunchKernel_v7000),
                 RUNTIME(cudaStreamSynchronize_v3020),
                 RUNTIME(cudaStreamQuery_v3020),
                 RUNTIME(cudaStreamWaitEvent_v3020),
                 RUNTIME(cudaEventRecord_v3020),
                 RUNTIME(cudaEventQuery_v3020),
                 RUNTIME(cudaEventSynchronize_v3020),
                 RUNTIME(cudaEventElapsedTime_v12080),
                 RUNTIME(cudaEventCreateWithFlags_v3020),
                 RUNTIME(cudaEventDestroy_v3020),
                 RUNTIME(cudaStreamCreate_v3020),
                 RUNTIME(cudaStreamCreateWithFlags_v5000),
                 RUNTIME(cudaStreamCreateWithPriority_v5050),
                 RUNTIME(cudaStreamDestroy_v5050),
                 RUNTIME(cudaDeviceSynchronize_v3020),
                 RUNTIME(cudaGetDeviceCount_v3020),
                 RUNTIME(cudaGetDevice_v3020),
                 RUNTIME(cudaSetDevice_v3020),
                 RUNTIME(cudaGetDeviceProperties_v12000),
                 RUNTIME(cudaMalloc_v3020),
                 RUNTIME(cudaFree_v3020),
                 RUNTIME(cudaHostAlloc_v3020),
                 RUNTIME(cudaMallocHost_v3020),
                 RUNTIME(cudaFreeHost_v3020),
                 RUNTIME(cudaMemcpy_v3020),
                 RUNTIME(cudaMemcpyAsync_v3020),
                 RUNTIME(cudaMemset_v3020),
                 RUNTIME(cudaMemsetAsync_v3020)};
#undef RUNTIME
#undef DRIVER
    if (!name)
        return CUPTI_ERROR_INVALID_PARAMETER;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].domain == (uint32_t)domain && names[i].cbid == cbid) {
            *name = names[i].name;
            return CUPTI_SUCCESS;
        }
    return CUPTI_ERROR_INVALID_PARAMETER;
}

/* ---- subscriber ---- */

static CUptiResult subscribe(CUpti_SubscriberHandle *subscriber, const char *name,
                             CUpti_SubscriberParams *params)
{
    CUptiResult rc = usable();
    if (rc)
        return rc;
    if (!subscriber)
        return CUPTI_ERROR_INVALID_PARAMETER;
    int was = 0;
    if (cupti_scenario.foreign || !atomic_compare_exchange_strong(&api.subscribed, &was, 1)) {
        const char *owner = cupti_scenario.foreign ? "another-tool" : api.owner;
        if (params && params->oldSubscriberName && params->oldSubscriberSize)
            snprintf(params->oldSubscriberName, params->oldSubscriberSize, "%s", owner);
        return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
    }
    snprintf(api.owner, sizeof api.owner, "%s", name ? name : "");
    *subscriber = (CUpti_SubscriberHandle)(void *)&api;
    vgpu_set_hooks(&cupti_hooks);
    return CUPTI_SUCCESS;
}

VGPU_API CUptiResult cuptiSubscribe(CUpti_SubscriberHandle *subscriber, CUpti_CallbackFunc callback,
                                    void *user)
{
    (void)callback, (void)user; /* no callback is ever made, see README.md */
    return subscribe(subscriber, NULL, NULL);
}

VGPU_API CUptiResult cuptiSubscribe_v2(CUpti_SubscriberHandle *subscriber,
                                       CUpti_CallbackFunc callback, void *user,
                                       CUpti_SubscriberParams *params)
{
    (void)callback, (void)user;
    if (params && params->structSize < CUpti_SubscriberParams_STRUCT_SIZE)
        return CUPTI_ERROR_INVALID_PARAMETER;
    return subscribe(subscriber, params ? params->subscriberName : NULL, params);
}

VGPU_API CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle subscriber)
{
    CUptiResult rc = usable();
    if (rc)
        return rc;
    if (subscriber != (CUpti_SubscriberHandle)(void *)&api)
        return CUPTI_ERROR_INVALID_PARAMETER;
    atomic_store(&api.subscribed, 0);
    return CUPTI_SUCCESS;
}

VGPU_API CUptiResult cuptiEnableCallback(uint32_t enable, CUpti_SubscriberHandle subscriber,
                                         CUpti_CallbackDomain domain, CUpti_CallbackId cbid)
{
    (void)enable, (void)domain, (void)cbid;
    CUptiResult rc = usable();
    return rc ? rc : subscriber ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER;
}

VGPU_API CUptiResult cuptiEnableDomain(uint32_t enable, CUpti_SubscriberHandle subscriber,
                                       CUpti_CallbackDomain domain)
{
    return cuptiEnableCallback(enable, subscriber, domain, 0);
}

/* ---- kinds and filters ---- */

static void set_all(_Atomic uint8_t *filter, int on)
{
    for (size_t i = 0; i < CUPTI_N_CBIDS; i++)
        atomic_store_explicit(&filter[i], (uint8_t)on, memory_order_relaxed);
}

static CUptiResult switch_kind(uint32_t kind, int on)
{
    static const uint64_t refused = 1u << 0 | 1u << CUPTI_ACTIVITY_KIND_CDP_KERNEL |
                                    1u << CUPTI_ACTIVITY_KIND_ENVIRONMENT |
                                    1u << CUPTI_ACTIVITY_KIND_DEVICE_ATTRIBUTE;
    CUptiResult rc = usable();
    if (rc)
        return rc;
    if (!cupti_record_size(kind) || refused >> kind & 1)
        return on ? CUPTI_ERROR_NOT_COMPATIBLE : CUPTI_SUCCESS;
    uint32_t other = kind == CUPTI_ACTIVITY_KIND_KERNEL ? CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL
                     : kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL ? CUPTI_ACTIVITY_KIND_KERNEL
                                                                     : 0;
    if (on && other && cupti_kind_on(other))
        return CUPTI_ERROR_NOT_COMPATIBLE;
    if (on)
        vgpu_set_hooks(&cupti_hooks);
    atomic_store(&api.kind[kind], (uint8_t)on);
    if (kind == CUPTI_ACTIVITY_KIND_DRIVER) /* the whole kind overrides single functions */
        set_all(api.driver, on);
    if (kind == CUPTI_ACTIVITY_KIND_RUNTIME)
        set_all(api.runtime, on);
    return CUPTI_SUCCESS;
}

VGPU_API CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind)
{
    return switch_kind((uint32_t)kind, 1);
}

VGPU_API CUptiResult cuptiActivityEnableAndDump(CUpti_ActivityKind kind)
{
    return switch_kind((uint32_t)kind, 1);
}

VGPU_API CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind)
{
    return switch_kind((uint32_t)kind, 0);
}

static CUptiResult switch_call(_Atomic uint8_t *filter, uint32_t cbid, int on)
{
    CUptiResult rc = usable();
    if (rc)
        return rc;
    if (cbid == 0 || cbid >= CUPTI_N_CBIDS)
        return CUPTI_ERROR_INVALID_PARAMETER;
    if (on)
        vgpu_set_hooks(&cupti_hooks);
    atomic_store(&filter[cbid], on != 0);
    return CUPTI_SUCCESS;
}

VGPU_API CUptiResult cuptiActivityEnableDriverApi(CUpti_CallbackId cbid, uint8_t enable)
{
    return switch_call(api.driver, cbid, enable);
}

VGPU_API CUptiResult cuptiActivityEnableRuntimeApi(CUpti_CallbackId cbid, uint8_t enable)
{
    return switch_call(api.runtime, cbid, enable);
}

VGPU_API CUptiResult cuptiActivityEnableAllSyncRecords(uint8_t enable)
{
    (void)enable;
    return usable();
}

VGPU_API CUptiResult cuptiActivityEnableLatencyTimestamps(uint8_t enable)
{
    (void)enable;
    return usable();
}

/* ---- attributes, clock, threads ---- */

VGPU_API CUptiResult cuptiActivitySetAttribute(CUpti_ActivityAttribute which, size_t *size,
                                               void *value)
{
    CUptiResult rc = usable();
    if (rc)
        return rc;
    if (!size || !value || (unsigned)which >= N_ATTRIBUTES || !api.attribute_size[which])
        return CUPTI_ERROR_INVALID_PARAMETER;
    if (*size < api.attribute_size[which])
        return CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT;
    api.attribute[which] = 0;
    memcpy(&api.attribute[which], value, api.attribute_size[which]);
    return CUPTI_SUCCESS;
}

VGPU_API CUptiResult cuptiActivityGetAttribute(CUpti_ActivityAttribute which, size_t *size,
                                               void *value)
{
    CUptiResult rc = usable();
    if (rc)
        return rc;
    if (!size || !value || (unsigned)which >= N_ATTRIBUTES || !api.attribute_size[which])
        return CUPTI_ERROR_INVALID_PARAMETER;
    if (*size < api.attribute_size[which])
        return CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT;
    memcpy(value, &api.attribute[which], api.attribute_size[which]);
    *size = api.attribute_size[which];
    return CUPTI_SUCCESS;
}

VGPU_API CUptiResult cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc func)
{
    if (!func)
        return CUPTI_ERROR_INVALID_PARAMETER;
    CUptiResult rc = usable();
    if (!rc)
        atomic_store(&api.clock, (uint64_t(*)(void))func);
    return rc;
}

VGPU_API CUptiResult cuptiSetThreadIdType(CUpti_ActivityThreadIdType type)
{
    CUptiResult rc = usable();
    if (!rc)
        atomic_store(&api.system_ids, type == CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
    return rc;
}

VGPU_API CUptiResult cuptiGetThreadIdType(CUpti_ActivityThreadIdType *type)
{
    CUptiResult rc = usable();
    if (!rc)
        *type = cupti_thread_ids_are_system() ? CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM
                                              : CUPTI_ACTIVITY_THREAD_ID_TYPE_DEFAULT;
    return rc;
}

/* ---- buffers and external ids: cupti_deliver.c ---- */

VGPU_API CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
                                                    CUpti_BuffersCallbackCompleteFunc complete)
{
    if (!request || !complete)
        return CUPTI_ERROR_INVALID_PARAMETER;
    if (!usable()) /* the real one says 0 without a driver, too */
        cupti_deliver_start(request, complete);
    return CUPTI_SUCCESS;
}

VGPU_API CUptiResult cuptiActivityFlushAll(uint32_t flag)
{
    (void)flag; /* only finished operations have records here */
    CUptiResult rc = usable();
    if (!rc)
        cupti_deliver_flush();
    return rc;
}

VGPU_API CUptiResult cuptiActivityFlushPeriod(uint32_t ms)
{
    (void)ms; /* full buffers are handed over at once anyway */
    return usable();
}

VGPU_API CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext context, uint32_t stream,
                                                       size_t *n)
{
    (void)context, (void)stream;
    if (!n)
        return CUPTI_ERROR_INVALID_PARAMETER;
    *n = cupti_deliver_dropped();
    return CUPTI_SUCCESS;
}

VGPU_API CUptiResult cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind kind,
                                                            uint64_t id)
{
    CUptiResult rc = usable();
    return rc ? rc : cupti_push((uint32_t)kind, id);
}

VGPU_API CUptiResult cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind kind,
                                                           uint64_t *last)
{
    CUptiResult rc = usable();
    return rc ? rc : cupti_pop((uint32_t)kind, last);
}

VGPU_API CUptiResult cuptiFinalize(void)
{
    if (vgpu_set_hooks)
        vgpu_set_hooks(NULL);
    return CUPTI_SUCCESS;
}
