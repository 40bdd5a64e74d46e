/* What a kernel library tells the virtual GPU: the CPU form of each kernel and its cost.
 *
 * Box: tests/vgpu. The stand-in libcudart opens the libraries named in VGPU_KERNELS (colon
 * separated) and libddp-kernels-cpu.so beside the program, and asks each for its table.
 */
#ifndef VGPU_KERNEL_H
#define VGPU_KERNEL_H

#include <stddef.h>
#include <stdint.h>

struct vgpu_kernel {
    const char *name; /* mangled, as the host code registers it */
    uint32_t n_args;
    const uint16_t *arg_bytes; /* [n_args]: values are copied at launch */
    /** Computes the whole grid; args[i] points to the value of argument i. */
    void (*run)(const uint32_t grid[3], const uint32_t block[3], void *const *args);
    /** Floating-point operations of the launch; duration = flops / speed x slowdown. */
    double (*flops)(const uint32_t grid[3], const uint32_t block[3], void *const *args);
};

/** Exported by a kernel library. */
#define VGPU_KERNELS_SYMBOL "vgpu_kernels"
typedef const struct vgpu_kernel *(*vgpu_kernels_func_t)(size_t *n_p);

#endif
