/* What the files of the stand-in runtime share. Box: tests/vgpu. */
#ifndef VGPU_CUDART_START_H
#define VGPU_CUDART_START_H

#include "device.h"

#include <cuda_runtime_api.h>
#include <cupti_driver_cbid.h>
#include <cupti_runtime_cbid.h>

/** The first call that touches the device: loads CUDA_INJECTION64_PATH as the driver's cuInit. */
void vgpu_start(void);

/* Around every entry point that a profiler may see. */
static inline uint32_t vgpu_enter(uint32_t cbid)
{
    vgpu_start();
    return vgpu_api_enter(2, cbid);
}
cudaError_t vgpu_leave(uint32_t cbid, uint32_t correlation, cudaError_t rc);

#define VGPU_CBID(name) ((uint32_t)CUPTI_RUNTIME_TRACE_CBID_##name)

#endif
