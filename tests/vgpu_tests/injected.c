/* A library for CUDA_INJECTION64_PATH: says that it was called. Box: tests/vgpu_tests. */
#include <stdio.h>

int InitializeInjection(void);
__attribute__((visibility("default"))) int InitializeInjection(void)
{
    fprintf(stderr, "injected\n");
    return 1;
}
