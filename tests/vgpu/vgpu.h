/* The virtual GPU's inside: what the stand-ins of libcudart, libcupti and libnccl share.
 *
 * Box: tests/vgpu. Exported by the stand-in libcudart.so.13 beside the public runtime calls.
 * All times: ns of the true CLOCK_MONOTONIC_RAW (raw system call, no test shim can shift it),
 * modelled by arithmetic on a device timeline, never stamped at wake-up.
 */
#ifndef VGPU_H
#define VGPU_H

#include <stdint.h>

struct vgpu_stream; /* what a cudaStream_t points to */

/* work_done kinds = CUPTI activity kinds */
enum { VGPU_MEMCPY = 1, VGPU_MEMSET = 2, VGPU_KERNEL = 10 };

/** One operation for a stream: its thread calls run() once all before it on the stream and all
 *  awaited events have ended; `start_ns` is the modelled start. run() does the work (and may block
 *  to meet its peers) and returns the modelled end; nothing becomes visible before that instant. */
struct vgpu_op {
    const char *name; /* mangled kernel name, copied */
    uint32_t grid[3], block[3];
    uint32_t domain, cbid; /* the API call that launches it: 1 driver, 2 runtime */
    int64_t (*run)(void *arg, int64_t start_ns);
    void (*done)(void *arg); /* frees arg; may be NULL */
    void *arg;
};
/** Launches on a stream (NULL = default stream): API hooks around it, as cuLaunchKernelEx would.
 *  Returns 0 or a cudaError_t. */
int vgpu_launch(struct vgpu_stream *stream, const struct vgpu_op *op);
int64_t vgpu_now(void);
/** Sleeps until the true clock reads t. */
void vgpu_sleep_until(int64_t t_ns);
/** Speed of this process's device: factor >= 1 lengthens compute kernels (--slow-gpu). */
void vgpu_set_slowdown(double factor);
/** UUID of this process's device. */
void vgpu_uuid(uint8_t uuid[16]);
/** Modelled duration 0 for everything (--pace off). */
int vgpu_paced(void);
void vgpu_set_paced(int on);

/** The CUPTI stand-in listens here; NULL members are skipped. */
struct vgpu_work { /* facts of a finished operation, layout shared with cupti_* */
    const char *name;
    uint32_t grid[3], block[3];
    uint64_t bytes;
    uint32_t copy_kind, src_kind, dst_kind, value, device, context;
};
struct vgpu_hooks {
    uint32_t (*api_enter)(uint32_t domain, uint32_t cbid);
    void (*api_exit)(uint32_t domain, uint32_t cbid, uint32_t correlation, int rc);
    void (*work_done)(uint32_t kind, uint32_t stream, uint32_t correlation, int64_t start_ns,
                      int64_t end_ns, const struct vgpu_work *facts);
    void (*stream_made)(uint32_t stream, uint32_t context);
};
void vgpu_set_hooks(const struct vgpu_hooks *hooks);

#endif
