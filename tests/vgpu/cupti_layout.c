/* Records as libcupti 13.0 lays them out: sizes, filling, and the walk over a buffer.
 *
 * Box: tests/vgpu. Threads: any; no state. Sizes and codes are compared with the toolkit's own
 * library by tests/vgpu_tests (real_cupti).
 */
#include "cupti_inside.h"

#include <string.h>

/* Kinds without a struct in the public headers have the size the real library steps by. */
static const uint8_t size_of[CUPTI_N_KINDS] = {
    [CUPTI_ACTIVITY_KIND_MEMCPY] = sizeof(CUpti_ActivityMemcpy6),
    [CUPTI_ACTIVITY_KIND_MEMSET] = sizeof(CUpti_ActivityMemset4),
    [CUPTI_ACTIVITY_KIND_KERNEL] = sizeof(CUpti_ActivityKernel10),
    [CUPTI_ACTIVITY_KIND_DRIVER] = sizeof(CUpti_ActivityAPI),
    [CUPTI_ACTIVITY_KIND_RUNTIME] = sizeof(CUpti_ActivityAPI),
    [CUPTI_ACTIVITY_KIND_DEVICE] = sizeof(CUpti_ActivityDevice5),
    [CUPTI_ACTIVITY_KIND_CONTEXT] = sizeof(CUpti_ActivityContext3),
    [CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL] = sizeof(CUpti_ActivityKernel10),
    [CUPTI_ACTIVITY_KIND_NAME] = sizeof(CUpti_ActivityName),
    [CUPTI_ACTIVITY_KIND_MARKER] = sizeof(CUpti_ActivityMarker2),
    [CUPTI_ACTIVITY_KIND_MARKER_DATA] = 40,
    [CUPTI_ACTIVITY_KIND_OVERHEAD] = sizeof(CUpti_ActivityOverhead3),
    [CUPTI_ACTIVITY_KIND_CDP_KERNEL] = 144,
    [CUPTI_ACTIVITY_KIND_PREEMPTION] = 40,
    [CUPTI_ACTIVITY_KIND_ENVIRONMENT] = 40,
    [CUPTI_ACTIVITY_KIND_MEMCPY2] = sizeof(CUpti_ActivityMemcpyPtoP4),
    [CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER] = 104,
    [CUPTI_ACTIVITY_KIND_FUNCTION] = 32,
    [CUPTI_ACTIVITY_KIND_MODULE] = 24,
    [CUPTI_ACTIVITY_KIND_DEVICE_ATTRIBUTE] = 24,
    [CUPTI_ACTIVITY_KIND_OPENACC_DATA] = 152,
    [CUPTI_ACTIVITY_KIND_OPENACC_LAUNCH] = 152,
    [CUPTI_ACTIVITY_KIND_OPENACC_OTHER] = 120,
    [CUPTI_ACTIVITY_KIND_CUDA_EVENT] = sizeof(CUpti_ActivityCudaEvent2),
    [CUPTI_ACTIVITY_KIND_STREAM] = sizeof(CUpti_ActivityStream),
    [CUPTI_ACTIVITY_KIND_SYNCHRONIZATION] = sizeof(CUpti_ActivitySynchronization2),
    [CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION] = sizeof(CUpti_ActivityExternalCorrelation),
    [CUPTI_ACTIVITY_KIND_NVLINK] = 136,
    [CUPTI_ACTIVITY_KIND_MEMORY] = 80,
    [CUPTI_ACTIVITY_KIND_PCIE] = 168,
    [CUPTI_ACTIVITY_KIND_OPENMP] = 40,
    [CUPTI_ACTIVITY_KIND_INTERNAL_LAUNCH_API] = sizeof(CUpti_ActivityAPI),
    [CUPTI_ACTIVITY_KIND_MEMORY2] = 128,
    [CUPTI_ACTIVITY_KIND_MEMORY_POOL] = 80,
    [CUPTI_ACTIVITY_KIND_GRAPH_TRACE] = sizeof(CUpti_ActivityGraphTrace2),
    [CUPTI_ACTIVITY_KIND_JIT] = 72,
    [CUPTI_ACTIVITY_KIND_DEVICE_GRAPH_TRACE] = 56,
    [CUPTI_ACTIVITY_KIND_MEM_DECOMPRESS] = 64,
    [55] = 32};

size_t cupti_record_size(uint32_t kind)
{
    return kind < CUPTI_N_KINDS ? size_of[kind] : 0;
}

VGPU_API CUptiResult cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid,
                                                CUpti_Activity **record)
{
    if (!buffer || !record)
        return CUPTI_ERROR_INVALID_PARAMETER;
    size_t at = 0;
    uint32_t kind;
    if (*record) {
        memcpy(&kind, *record, sizeof kind);
        size_t size = cupti_record_size(kind);
        if (!size)
            return CUPTI_ERROR_INVALID_KIND;
        at = (size_t)((uint8_t *)*record - buffer) + size;
    }
    if (at + sizeof kind > valid)
        return CUPTI_ERROR_MAX_LIMIT_REACHED;
    memcpy(&kind, buffer + at, sizeof kind);
    size_t size = cupti_record_size(kind);
    if (!size)
        return CUPTI_ERROR_INVALID_KIND;
    if (at + size > valid)
        return CUPTI_ERROR_MAX_LIMIT_REACHED;
    *record = (CUpti_Activity *)(void *)(buffer + at);
    return CUPTI_SUCCESS;
}

static void kernel(CUpti_ActivityKernel10 *k, const struct vgpu_work *w)
{
    k->gridX = (int32_t)w->grid[0];
    k->gridY = (int32_t)w->grid[1];
    k->gridZ = (int32_t)w->grid[2];
    k->blockX = (int32_t)w->block[0];
    k->blockY = (int32_t)w->block[1];
    k->blockZ = (int32_t)w->block[2];
    k->registersPerThread = 32;
    k->name = w->name;
    k->gridId = 0;
    k->deviceId = w->device;
    k->contextId = w->context;
    k->channelType = CUPTI_CHANNEL_TYPE_COMPUTE;
}

void cupti_layout_work(union cupti_record *out, uint32_t kind, uint32_t stream,
                       uint32_t correlation, uint64_t start, uint64_t end,
                       const struct vgpu_work *w)
{
    memset(out, 0, sizeof *out);
    switch (kind) {
    case CUPTI_ACTIVITY_KIND_MEMCPY:
        out->copy.copyKind = (uint8_t)w->copy_kind;
        out->copy.srcKind = (uint8_t)w->src_kind;
        out->copy.dstKind = (uint8_t)w->dst_kind;
        out->copy.flags = CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC;
        out->copy.bytes = w->bytes;
        out->copy.start = start;
        out->copy.end = end;
        out->copy.deviceId = w->device;
        out->copy.contextId = w->context;
        out->copy.streamId = stream;
        out->copy.correlationId = correlation;
        out->copy.channelType = CUPTI_CHANNEL_TYPE_ASYNC_MEMCPY;
        out->copy.copyCount = 1;
        break;
    case CUPTI_ACTIVITY_KIND_MEMSET:
        out->fill.value = w->value;
        out->fill.bytes = w->bytes;
        out->fill.start = start;
        out->fill.end = end;
        out->fill.deviceId = w->device;
        out->fill.contextId = w->context;
        out->fill.streamId = stream;
        out->fill.correlationId = correlation;
        out->fill.memoryKind = (uint16_t)w->dst_kind;
        break;
    default:
        kernel(&out->kernel, w);
        out->kernel.start = start;
        out->kernel.end = end;
        out->kernel.streamId = stream;
        out->kernel.correlationId = correlation;
        break;
    }
    out->kind = kind;
}
