/* How a library of CPU kernels tells the virtual GPU what it has.
 *
 * Box: tests/vgpu. A library named in VGPU_KERNELS (colon separated), or any lib*-kernels-cpu.so
 * beside the program, exports the array `vgpu_kernels`, ended by an entry without a name.
 */
#ifndef VGPU_KERNEL_H
#define VGPU_KERNEL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct vgpu_kernel {
    const char *name;           /* mangled, as the program registers it */
    const uint16_t *param_size; /* bytes of each parameter, ended by 0: they are copied at launch */
    /** Computes the whole grid. args[i] points to parameter i. Thread: the stream's. */
    void (*run)(void *const *args, const uint32_t grid[3], const uint32_t block[3]);
    /** Modelled work: the duration is this / VGPU_FLOPS. A function of its arguments alone. */
    double (*flops)(void *const *args, const uint32_t grid[3], const uint32_t block[3]);
};
extern const struct vgpu_kernel vgpu_kernels[];

#ifdef __cplusplus
}
#endif
#endif
