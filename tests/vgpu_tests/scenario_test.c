/* The misbehaviours of VGPU_CUPTI, a kernel nobody has, and the injected library.
 *
 * usage: scenario_test NAME. Box: tests/vgpu_tests. One process a scenario; `unknown-kernel` is
 * expected to abort (the test looks for the name on stderr).
 */
#include "vgpu.h"

#include <cuda_runtime_api.h>
#include <cupti.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(x)                                                            \
    do {                                                                    \
        if (!(x)) {                                                         \
            fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #x); \
            exit(1);                                                        \
        }                                                                   \
    } while (0)

void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name,
                            int thread_limit, void *tid, void *bid, void *block, void *grid,
                            int *warp);

static unsigned n_kernels, n_zero, n_unreadable;

static void CUPTIAPI request(uint8_t **buffer, size_t *size, size_t *n_max)
{
    *size = 1 << 20;
    *n_max = 0;
    *buffer = aligned_alloc(8, *size);
}

static void CUPTIAPI complete(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size,
                              size_t valid)
{
    CUpti_Activity *r = NULL;
    CUptiResult rc;
    (void)context, (void)stream, (void)size;
    while (!(rc = cuptiActivityGetNextRecord(buffer, valid, &r))) {
        n_kernels++;
        n_zero += ((CUpti_ActivityKernel10 *)(void *)r)->start == 0;
    }
    n_unreadable += rc == CUPTI_ERROR_INVALID_KIND;
    free(buffer);
}

static const char function_add, function_missing;

static void launch_many(int n)
{
    int *x, one = 1;
    CHECK(!cudaMalloc((void **)&x, sizeof *x));
    void *args[] = {&x, &one};
    for (int i = 0; i < n; i++)
        CHECK(!cudaLaunchKernel(&function_add, (dim3){1, 1, 1}, (dim3){1, 1, 1}, args, 0, NULL));
    CHECK(!cudaDeviceSynchronize());
    CHECK(!cuptiActivityFlushAll(1));
}

static CUptiResult start(char owner[64])
{
    CUpti_SubscriberHandle subscriber;
    CUpti_SubscriberParams params;
    memset(&params, 0, sizeof params);
    params.structSize = CUpti_SubscriberParams_STRUCT_SIZE;
    params.oldSubscriberName = owner;
    params.oldSubscriberSize = 64;
    CUptiResult rc = cuptiSubscribe_v2(&subscriber, NULL, NULL, &params);
    if (!rc)
        rc = cuptiActivityRegisterCallbacks(request, complete);
    return rc ? rc : cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
}

static void aborted(int signal)
{
    _exit(signal == SIGABRT ? 0 : 1); /* ctest takes a program that dies of a signal for failed */
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    char owner[64] = "";
    size_t dropped = 0;
    setenv("VGPU_CUPTI", name, 1);
    setenv("VGPU_FLOPS", "1e9", 1);
    __cudaRegisterFunction(NULL, &function_add, NULL, "_Z3addPii", -1, NULL, NULL, NULL, NULL,
                           NULL);
    CUptiResult rc = start(owner);
    if (!strcmp(name, "foreign")) {
        CHECK(rc == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
        CHECK(!strcmp(owner, "another-tool"));
        return 0;
    }
    if (!strcmp(name, "no-driver")) {
        CHECK(rc == CUPTI_ERROR_UNKNOWN);
        return 0;
    }
    CHECK(!rc);
    CUpti_SubscriberHandle second;
    CHECK(cuptiSubscribe(&second, NULL, NULL) == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
    CHECK(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_KERNEL) == CUPTI_ERROR_NOT_COMPATIBLE);
    if (!strcmp(name, "unknown-kernel")) {
        void *args[] = {NULL};
        signal(SIGABRT, aborted);
        __cudaRegisterFunction(NULL, &function_missing, NULL, "_Z7missingv", -1, NULL, NULL, NULL,
                               NULL, NULL);
        cudaLaunchKernel(&function_missing, (dim3){1, 1, 1}, (dim3){1, 1, 1}, args, 0, NULL);
        return 1;
    }
    launch_many(100);
    CHECK(!cuptiActivityGetNumDroppedRecords(NULL, 0, &dropped));
    if (!strcmp(name, "drop"))
        CHECK(n_kernels == 90 && dropped == 10);
    else if (!strcmp(name, "zero-times"))
        CHECK(n_kernels == 100 && n_zero == 10);
    else if (!strcmp(name, "unknown-kind"))
        CHECK(n_kernels == 20 && n_unreadable == 1);
    else
        CHECK(n_kernels == 100 && n_zero == 0 && n_unreadable == 0 && dropped == 0);
    return 0;
}
