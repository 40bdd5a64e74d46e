/* A small job on the virtual NCCL: every kind of operation, on two ranks, checked from outside.
 *
 * Box: tests. usage: job ROUNDS END [CHILDREN]; END = return (no communicator is destroyed),
 * destroy, abort, again (all are destroyed, then one more is made). CHILDREN communicators are made
 * and destroyed on the way. What really happened is written by the virtual NCCL (VGPU_NCCL_TRUTH);
 * what was recorded, by hindmost.
 */
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define NCCL(x)                                                                              \
    do {                                                                                     \
        ncclResult_t rc_ = (x);                                                              \
        if (rc_) {                                                                           \
            fprintf(stderr, "job %d: %s: %s\n", (int)getpid(), #x, ncclGetErrorString(rc_)); \
            exit(1);                                                                         \
        }                                                                                    \
    } while (0)

static float x[1 << 16], y[1 << 16];

static void one_round(ncclComm_t comm, int rank, int i, cudaStream_t s)
{
    size_t n = (size_t)i + 1;
    NCCL(ncclAllReduce(x, y, 1000 + n, ncclFloat, ncclSum, comm, s));
    NCCL(ncclGroupStart());
    NCCL(ncclAllReduce(x, y, 10, ncclFloat, ncclSum, comm, s));
    NCCL(ncclAllReduce(x, y, 5000, ncclFloat16, ncclMax, comm, s));
    NCCL(ncclGroupEnd());
    NCCL(ncclGroupStart());
    NCCL(ncclSend(x, n, ncclInt64, 1 - rank, comm, s));
    NCCL(ncclRecv(y, n, ncclInt64, 1 - rank, comm, s));
    NCCL(ncclGroupEnd());
    NCCL(ncclAllGather(x, y, 3 * n, ncclFloat, comm, s));
    NCCL(ncclBroadcast(x, y, 7, ncclBfloat16, i & 1, comm, s));
    NCCL(ncclReduceScatter(x, y, 64, ncclFloat, ncclSum, comm, s));
    NCCL(ncclReduce(x, y, 5, ncclFloat64, ncclSum, 1, comm, s));
    if (cudaStreamSynchronize(s))
        exit(1);
}

static int run(int rank, const ncclUniqueId id[2], int rounds, const char *end, int children)
{
    ncclComm_t comm, child;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    cudaStream_t s;
    config.commName = "dp";
    NCCL(ncclCommInitRankConfig(&comm, 2, id[0], rank, &config));
    if (cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking))
        return 1;
    for (int i = 0; i < rounds; i++)
        one_round(comm, rank, i, s);
    for (int i = 0; i < children; i++) {
        NCCL(ncclCommSplit(comm, 0, rank, &child, NULL));
        if (i % 1000 == 0) {
            NCCL(ncclAllReduce(x, y, 11, ncclInt64, ncclSum, child, s));
            if (cudaStreamSynchronize(s))
                return 1;
        }
        NCCL(ncclCommDestroy(child));
    }
    if (strcmp(end, "return") && strcmp(end, "abort"))
        NCCL(ncclCommDestroy(comm));
    if (!strcmp(end, "again")) { /* the last communicator is gone: NCCL has unloaded the plugin */
        NCCL(ncclCommInitRankConfig(&comm, 2, id[1], rank, &config));
        one_round(comm, rank, 0, s);
        NCCL(ncclCommDestroy(comm));
    }
    if (!strcmp(end, "abort"))
        NCCL(ncclCommAbort(comm));
    return 0;
}

int main(int argc, char **argv)
{
    ncclUniqueId id[2];
    pid_t pid[2];
    int bad = 0, rounds = argc > 1 ? atoi(argv[1]) : 1, children = argc > 3 ? atoi(argv[3]) : 1;
    if (ncclGetUniqueId(&id[0]) || ncclGetUniqueId(&id[1]))
        return 1;
    for (int r = 0; r < 2; r++)
        if ((pid[r] = fork()) == 0) {
            char text[8];
            snprintf(text, sizeof text, "%d", r);
            setenv("RANK", text, 1);
            setenv("WORLD_SIZE", "2", 1);
            alarm(100);
            exit(run(r, id, rounds, argc > 2 ? argv[2] : "return", children));
        }
    for (int r = 0; r < 2; r++) {
        int status = 0;
        waitpid(pid[r], &status, 0);
        bad |= status;
    }
    return bad != 0;
}
