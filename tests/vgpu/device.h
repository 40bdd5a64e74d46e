/* Streams, marks and items of the virtual GPU: what device.c gives the runtime's entry points.
 *
 * Box: tests/vgpu. Private to the stand-in libcudart.so.13.
 */
#ifndef VGPU_DEVICE_H
#define VGPU_DEVICE_H

#include "vgpu.h"

#include <stddef.h>

#define VGPU_API __attribute__((visibility("default")))

/* A point on a stream: done from its modelled instant on. Counted references. */
struct vgpu_mark;
struct vgpu_mark *vgpu_mark_hold(struct vgpu_mark *m);
void vgpu_mark_drop(struct vgpu_mark *m);
int vgpu_mark_done(const struct vgpu_mark *m);
int64_t vgpu_mark_wait(struct vgpu_mark *m); /* its modelled instant */

struct vgpu_stream *vgpu_stream_create(unsigned flags, int priority);
void vgpu_stream_destroy(struct vgpu_stream *s);  /* what is enqueued still runs */
struct vgpu_stream *vgpu_stream_of(void *handle); /* NULL, 1 and 2 are the default stream */
uint32_t vgpu_stream_id(const struct vgpu_stream *s);
int vgpu_stream_idle(struct vgpu_stream *s);
struct vgpu_mark *vgpu_stream_mark(struct vgpu_stream *s); /* after all that is on it now */
void vgpu_stream_await(struct vgpu_stream *s, struct vgpu_mark *m);
void vgpu_stream_sync(struct vgpu_stream *s);
void vgpu_device_sync(void);

/** Copies and fills: like vgpu_launch with a kind and facts of their own. */
void vgpu_enqueue(struct vgpu_stream *s, uint32_t kind, uint32_t correlation,
                  const struct vgpu_op *op, const struct vgpu_work *facts);

uint32_t vgpu_api_enter(uint32_t domain, uint32_t cbid);
void vgpu_api_exit(uint32_t domain, uint32_t cbid, uint32_t correlation, int rc);

double vgpu_setting(const char *name, double usual);
/** ns of `flops` on this device, slowdown and pace included. */
int64_t vgpu_compute_ns(double flops);
const char *vgpu_intern(const char *name);

/* cudart_kernel.c */
struct vgpu_kernel;
const struct vgpu_kernel *vgpu_kernel_find(const char *name); /* aborts with the name */

#endif
