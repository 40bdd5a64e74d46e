/* A program in which NCCL, loading the plugin as it does, is all that starts the recorder.
 *
 * Box: tests. usage: alone FAKE_CUPTI RANK N_RANKS STEPS return|kill. The plugin is opened by bare
 * SONAME with RTLD_LOCAL; kernels come from the CUPTI double.
 */
#include "teller.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct profiler ncclProfiler_v4, ncclProfiler_v5; /* copies of the plugin's */

int main(int argc, char **argv)
{
    if (argc < 6)
        return 64;
    int rank = atoi(argv[2]), n_ranks = atoi(argv[3]), steps = atoi(argv[4]);
    void *cupti = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    void *plugin = dlopen("libnccl-profiler-hindmost.so", RTLD_NOW | RTLD_LOCAL);
    if (!cupti || !plugin) {
        fprintf(stderr, "%s\n", dlerror());
        return 69;
    }
    void (*kernel)(const char *, uint64_t) = NULL;
    *(void **)&kernel = dlsym(cupti, "fake_launch");
    memcpy(&ncclProfiler_v5, dlsym(plugin, "ncclProfiler_v5"), sizeof(ncclProfiler_v5));
    void *ctx = NULL;
    int mask = 0;
    init_5_t init = (init_5_t)ncclProfiler_v5.init;
    if (init(&ctx, 0x1234, &mask, "world", 1, n_ranks, rank, NULL) || !ctx || !mask)
        return 1;
    if (!dlsym(RTLD_DEFAULT, "hindmost_api_1")) /* hm_step() of the program must find it */
        return 2;
    for (int i = 0; i < steps; i++) {
        kernel("_Z6matmulPf", 1000);
        void *g = group_api(ctx, 1, 0);
        void *a = coll_api(ctx, g, "AllReduce", 1024, "ncclFloat32", 0);
        end(a);
        void *k = launch(ctx, g, NULL);
        kernel("_Z34ncclDevKernel_AllReduce_Sum_f32_RING_LL", 500);
        end(k);
        void *e = group(5, ctx);
        void *c = coll(5, ctx, a, e, (uint64_t)i, "AllReduce", 1024, "ncclFloat32", 0);
        end(c);
        end(e);
        end(g);
    }
    if (argv[5][0] == 'k') {
        usleep(700000); /* a period of the flush: records still with CUPTI die with us */
        coll_api(ctx, NULL, "Broadcast", 7, "ncclInt8", 1); /* never returns */
        raise(SIGKILL);
    }
    return 0; /* as most programs: no communicator is destroyed */
}
