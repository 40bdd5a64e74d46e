/* Registration and launch as nvcc's host code of CUDA 13 calls them, and the CPU form of kernels.
 *
 * Box: tests/vgpu. Threads: the application's; kernels run on the stream's. A kernel is found by
 * its mangled name in a library's `vgpu_kernels` (vgpu_kernel.h); one that is not there ends the
 * program with its name.
 */
#include "cudart_start.h"
#include "vgpu_kernel.h"

#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct function { /* what a cudaKernel_t points to */
    struct function *next;
    const void *host;
    const char *name;
    const struct vgpu_kernel *kernel; /* looked up at the first launch */
};
static struct function *functions;
static const struct vgpu_kernel *tables[32];
static size_t n_tables;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- libraries of CPU kernels ---- */

static void load(const char *path)
{
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const void *table = handle ? dlsym(handle, "vgpu_kernels") : NULL;
    if (!table) {
        fprintf(stderr, "virtual GPU: %s: %s\n", path,
                handle ? "exports no vgpu_kernels" : dlerror());
        abort();
    }
    if (n_tables < sizeof tables / sizeof *tables)
        tables[n_tables++] = table;
}

static void load_beside_program(void)
{
    char path[PATH_MAX + 32];
    ssize_t n = readlink("/proc/self/exe", path, PATH_MAX);
    if (n <= 0)
        return;
    path[n] = 0;
    char *slash = strrchr(path, '/');
    if (!slash)
        return;
    snprintf(slash + 1, 32, "lib*-kernels-cpu.so");
    glob_t found;
    if (glob(path, 0, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc; i++)
            load(found.gl_pathv[i]);
        globfree(&found);
    }
}

static void load_once(void)
{
    static int loaded; /* under lock */
    if (loaded)
        return;
    loaded = 1;
    const char *named = getenv("VGPU_KERNELS");
    char *all = named && *named ? strdup(named) : NULL, *rest = all;
    for (char *one; rest && (one = strsep(&rest, ":"));)
        if (*one)
            load(one);
    free(all);
    load_beside_program();
}

const struct vgpu_kernel *vgpu_kernel_find(const char *name)
{
    const struct vgpu_kernel *found = NULL;
    pthread_mutex_lock(&lock);
    load_once();
    for (size_t i = 0; i < n_tables && !found; i++)
        for (const struct vgpu_kernel *k = tables[i]; k->name && !found; k++)
            if (!strcmp(k->name, name))
                found = k;
    pthread_mutex_unlock(&lock);
    if (!found) {
        fprintf(stderr, "virtual GPU: no CPU form of kernel %s (VGPU_KERNELS names libraries)\n",
                name);
        abort();
    }
    return found;
}

/* ---- registration ---- */

void **__cudaRegisterFatBinary(void *fatbin);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaUnregisterFatBinary(void **handle);
char __cudaInitModule(void **handle);
void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name,
                            int thread_limit, void *tid, void *bid, void *block, void *grid,
                            int *warp);
void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int ext,
                       size_t size, int constant, int global);
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, struct CUstream_st *s);
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream);
cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *host);
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **args,
                               size_t shared, cudaStream_t stream);

VGPU_API void **__cudaRegisterFatBinary(void *fatbin)
{
    void **handle = malloc(sizeof *handle);
    if (!handle)
        abort();
    *handle = fatbin;
    return handle;
}

VGPU_API void __cudaRegisterFatBinaryEnd(void **handle)
{
    (void)handle;
}

VGPU_API void __cudaUnregisterFatBinary(void **handle)
{
    free(handle);
}

VGPU_API char __cudaInitModule(void **handle)
{
    (void)handle;
    return 1;
}

VGPU_API void __cudaRegisterFunction(void **handle, const char *host, char *device,
                                     const char *name, int thread_limit, void *tid, void *bid,
                                     void *block, void *grid, int *warp)
{
    (void)handle, (void)device, (void)thread_limit, (void)tid, (void)bid, (void)block, (void)grid,
        (void)warp;
    struct function *f = calloc(1, sizeof *f);
    if (!f)
        abort();
    f->host = host;
    f->name = vgpu_intern(name);
    pthread_mutex_lock(&lock);
    f->next = functions;
    functions = f;
    pthread_mutex_unlock(&lock);
}

VGPU_API void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int ext,
                                size_t size, int constant, int global)
{
    (void)handle, (void)host, (void)device, (void)ext, (void)size, (void)constant, (void)global;
    fprintf(stderr, "virtual GPU: device variable %s: not supported\n", name);
    abort();
}

/* ---- launch ---- */

static _Thread_local struct {
    dim3 grid, block;
    size_t shared;
    struct CUstream_st *stream;
} configuration[8];
static _Thread_local unsigned n_configurations;

VGPU_API unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared,
                                              struct CUstream_st *stream)
{
    if (n_configurations == 8)
        return 1;
    configuration[n_configurations].grid = grid;
    configuration[n_configurations].block = block;
    configuration[n_configurations].shared = shared;
    configuration[n_configurations++].stream = stream;
    return 0;
}

VGPU_API cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared,
                                                void *stream)
{
    if (!n_configurations)
        return cudaErrorInvalidValue;
    n_configurations--;
    *grid = configuration[n_configurations].grid;
    *block = configuration[n_configurations].block;
    *shared = configuration[n_configurations].shared;
    *(struct CUstream_st **)stream = configuration[n_configurations].stream;
    return cudaSuccess;
}

VGPU_API cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *host)
{
    pthread_mutex_lock(&lock);
    struct function *f = functions;
    while (f && f->host != host)
        f = f->next;
    pthread_mutex_unlock(&lock);
    *kernel = (cudaKernel_t)(void *)f;
    return f ? cudaSuccess : cudaErrorInvalidDeviceFunction;
}

struct kernel_call {
    const struct vgpu_kernel *kernel;
    uint32_t grid[3], block[3];
    void **args;
};

static int64_t kernel_run(void *arg, int64_t start_ns)
{
    struct kernel_call *c = arg;
    int64_t ns = vgpu_compute_ns(c->kernel->flops(c->args, c->grid, c->block));
    c->kernel->run(c->args, c->grid, c->block);
    return start_ns + ns;
}

/* One block of memory: the call, the pointers, the values. */
static struct kernel_call *call_make(const struct vgpu_kernel *k, void *const *args)
{
    size_t n = 0, bytes = 0;
    for (; k->param_size[n]; n++)
        bytes += (k->param_size[n] + 15u) & ~(size_t)15;
    size_t head = (sizeof(struct kernel_call) + n * sizeof(void *) + 15) & ~(size_t)15;
    uint8_t *block = calloc(1, head + bytes);
    if (!block)
        abort();
    struct kernel_call *c = (struct kernel_call *)(void *)block;
    c->kernel = k;
    c->args = (void **)(void *)(block + sizeof *c);
    uint8_t *at = block + head;
    for (size_t i = 0; i < n; i++) {
        c->args[i] = memcpy(at, args[i], k->param_size[i]);
        at += (k->param_size[i] + 15u) & ~(size_t)15;
    }
    return c;
}

static cudaError_t launch(struct function *f, dim3 grid, dim3 block, void **args,
                          cudaStream_t stream)
{
    if (!f)
        return cudaErrorInvalidDeviceFunction;
    if (!f->kernel)
        f->kernel = vgpu_kernel_find(f->name);
    struct kernel_call *c = call_make(f->kernel, args);
    struct vgpu_op op = {.name = f->name,
                         .grid = {grid.x, grid.y, grid.z},
                         .block = {block.x, block.y, block.z},
                         .domain = 1,
                         .cbid = CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel,
                         .run = kernel_run,
                         .done = free,
                         .arg = c};
    memcpy(c->grid, op.grid, sizeof c->grid);
    memcpy(c->block, op.block, sizeof c->block);
    return (cudaError_t)vgpu_launch((struct vgpu_stream *)(void *)stream, &op);
}

VGPU_API cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **args,
                                        size_t shared, cudaStream_t stream)
{
    (void)shared;
    uint32_t cbid = VGPU_CBID(__cudaLaunchKernel_v13000), c = vgpu_enter(cbid);
    return vgpu_leave(cbid, c,
                      launch((struct function *)(void *)kernel, grid, block, args, stream));
}

VGPU_API cudaError_t cudaLaunchKernel(const void *host, dim3 grid, dim3 block, void **args,
                                      size_t shared, cudaStream_t stream)
{
    (void)shared;
    uint32_t cbid = VGPU_CBID(cudaLaunchKernel_v7000), c = vgpu_enter(cbid);
    cudaKernel_t kernel = NULL;
    cudaError_t rc = __cudaGetKernel(&kernel, host);
    if (!rc)
        rc = launch((struct function *)(void *)kernel, grid, block, args, stream);
    return vgpu_leave(cbid, c, rc);
}
