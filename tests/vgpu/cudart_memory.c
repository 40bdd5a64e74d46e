/* Memory of the virtual device: host memory in disguise, copies and fills as stream operations.
 *
 * Box: tests/vgpu. Threads: the application's; copies run on the stream's. A copy takes 2 us plus
 * bytes / VGPU_COPY_GBPS (GB/s, 10). Pageable sources are staged at the call, as drivers do.
 */
#include "cudart_start.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { PAGEABLE = 1, PINNED = 2, DEVICE = 3 }; /* CUPTI's memory kinds */

static struct range {
    struct range *next;
    uint8_t *at;
    size_t bytes;
    int kind;
} * ranges;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static cudaError_t allocate(void **p, size_t bytes, int kind)
{
    if (!p)
        return cudaErrorInvalidValue;
    struct range *r = malloc(sizeof *r);
    void *at = NULL;
    if (!r || posix_memalign(&at, 256, bytes ? bytes : 1)) {
        free(r);
        return cudaErrorMemoryAllocation;
    }
    /* not zero: a program that forgets to clear its memory shall notice */
    memset(at, 0xa5, bytes);
    *r = (struct range){.at = at, .bytes = bytes, .kind = kind};
    pthread_mutex_lock(&lock);
    r->next = ranges;
    ranges = r;
    pthread_mutex_unlock(&lock);
    *p = at;
    return cudaSuccess;
}

static cudaError_t release(void *p, int kind)
{
    if (!p)
        return cudaSuccess;
    vgpu_device_sync(); /* as the real one: nothing may still use it */
    struct range *r = NULL;
    pthread_mutex_lock(&lock);
    for (struct range **at = &ranges; *at; at = &(*at)->next)
        if ((*at)->at == p && (*at)->kind == kind) {
            r = *at;
            *at = r->next;
            break;
        }
    pthread_mutex_unlock(&lock);
    if (!r)
        return cudaErrorInvalidValue;
    free(r->at);
    free(r);
    return cudaSuccess;
}

static int kind_of(const void *p)
{
    const uint8_t *at = p;
    int kind = PAGEABLE;
    pthread_mutex_lock(&lock);
    for (struct range *r = ranges; r; r = r->next)
        if (at >= r->at && at < r->at + r->bytes) {
            kind = r->kind;
            break;
        }
    pthread_mutex_unlock(&lock);
    return kind;
}

VGPU_API cudaError_t cudaMalloc(void **p, size_t bytes)
{
    uint32_t cbid = VGPU_CBID(cudaMalloc_v3020), c = vgpu_enter(cbid);
    return vgpu_leave(cbid, c, allocate(p, bytes, DEVICE));
}

VGPU_API cudaError_t cudaFree(void *p)
{
    uint32_t cbid = VGPU_CBID(cudaFree_v3020), c = vgpu_enter(cbid);
    return vgpu_leave(cbid, c, release(p, DEVICE));
}

VGPU_API cudaError_t cudaHostAlloc(void **p, size_t bytes, unsigned flags)
{
    (void)flags;
    uint32_t cbid = VGPU_CBID(cudaHostAlloc_v3020), c = vgpu_enter(cbid);
    return vgpu_leave(cbid, c, allocate(p, bytes, PINNED));
}

VGPU_API cudaError_t cudaMallocHost(void **p, size_t bytes)
{
    uint32_t cbid = VGPU_CBID(cudaMallocHost_v3020), c = vgpu_enter(cbid);
    return vgpu_leave(cbid, c, allocate(p, bytes, PINNED));
}

VGPU_API cudaError_t cudaFreeHost(void *p)
{
    uint32_t cbid = VGPU_CBID(cudaFreeHost_v3020), c = vgpu_enter(cbid);
    return vgpu_leave(cbid, c, release(p, PINNED));
}

/* ---- copies and fills ---- */

struct copy {
    void *to;
    const void *from; /* NULL: a fill */
    size_t bytes;
    int value;
    uint8_t staged[];
};

static int64_t copy_run(void *arg, int64_t start_ns)
{
    struct copy *c = arg;
    if (c->from)
        memmove(c->to, c->from, c->bytes);
    else
        memset(c->to, c->value, c->bytes);
    if (!vgpu_paced())
        return start_ns;
    return start_ns + 2000 + llround((double)c->bytes / vgpu_setting("VGPU_COPY_GBPS", 10));
}

static cudaError_t copy_enqueue(void *to, const void *from, size_t bytes, int value,
                                cudaStream_t stream, uint32_t correlation)
{
    static const uint8_t direction[2][2] = {{9, 1}, {2, 8}}; /* [from device][to device] */
    if (!bytes)
        return cudaSuccess;
    if (!to)
        return cudaErrorInvalidValue;
    int to_kind = kind_of(to), from_kind = from ? kind_of(from) : DEVICE;
    size_t staged = from && from_kind == PAGEABLE ? bytes : 0;
    struct copy *c = malloc(sizeof *c + staged);
    if (!c)
        return cudaErrorMemoryAllocation;
    *c = (struct copy){.to = to, .from = from, .bytes = bytes, .value = value};
    if (staged)
        c->from = memcpy(c->staged, from, bytes);
    struct vgpu_op op = {.run = copy_run, .done = free, .arg = c};
    struct vgpu_work w = {.bytes = bytes};
    if (from) {
        w.copy_kind = direction[from_kind == DEVICE][to_kind == DEVICE];
        w.src_kind = (uint32_t)from_kind;
        w.dst_kind = (uint32_t)to_kind;
    } else {
        w.value = (uint32_t)value & 0xff;
        w.dst_kind = (uint32_t)to_kind;
    }
    vgpu_enqueue(vgpu_stream_of(stream), from ? VGPU_MEMCPY : VGPU_MEMSET, correlation, &op, &w);
    return cudaSuccess;
}

VGPU_API cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes,
                                     enum cudaMemcpyKind kind, cudaStream_t stream)
{
    (void)kind; /* addresses tell */
    uint32_t cbid = VGPU_CBID(cudaMemcpyAsync_v3020), c = vgpu_enter(cbid);
    cudaError_t rc = from    ? copy_enqueue(to, from, bytes, 0, stream, c)
                     : bytes ? cudaErrorInvalidValue
                             : cudaSuccess;
    return vgpu_leave(cbid, c, rc);
}

VGPU_API cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    (void)kind;
    uint32_t cbid = VGPU_CBID(cudaMemcpy_v3020), c = vgpu_enter(cbid);
    cudaError_t rc = from    ? copy_enqueue(to, from, bytes, 0, NULL, c)
                     : bytes ? cudaErrorInvalidValue
                             : cudaSuccess;
    vgpu_stream_sync(vgpu_stream_of(NULL));
    return vgpu_leave(cbid, c, rc);
}

VGPU_API cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream)
{
    uint32_t cbid = VGPU_CBID(cudaMemsetAsync_v3020), c = vgpu_enter(cbid);
    return vgpu_leave(cbid, c, copy_enqueue(to, NULL, bytes, value, stream, c));
}

VGPU_API cudaError_t cudaMemset(void *to, int value, size_t bytes)
{
    uint32_t cbid = VGPU_CBID(cudaMemset_v3020), c = vgpu_enter(cbid);
    return vgpu_leave(cbid, c, copy_enqueue(to, NULL, bytes, value, NULL, c));
}
