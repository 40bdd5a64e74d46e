/* Kernels of the tests: libtimes-kernels-cpu.so, found beside the program. Box: tests/vgpu_tests.
 */
#include "vgpu_kernel.h"

#include <stddef.h>

#define EXPORT __attribute__((visibility("default")))

static void add_run(void *const *args, const uint32_t *grid, const uint32_t *block)
{
    int *x = *(int *const *)args[0];
    (void)block;
    x[0] += *(const int *)args[1] * (int)grid[0];
}

static double add_flops(void *const *args, const uint32_t *grid, const uint32_t *block)
{
    (void)args;
    return (double)grid[0] * block[0];
}

static const uint16_t add_params[] = {sizeof(void *), sizeof(int), 0};
EXPORT const struct vgpu_kernel vgpu_kernels[] = {{"_Z3addPii", add_params, add_run, add_flops},
                                                  {NULL, NULL, NULL, NULL}};
