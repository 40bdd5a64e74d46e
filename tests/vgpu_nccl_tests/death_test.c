/* A peer that dies, or never comes, must end in an error on the others, not in a hang.
 *
 * The dead rank stays a zombie until the parent has waited for rank 0, so that case is covered too.
 */
#include "ranks.h"

static ncclUniqueId id;

static void kill_self(void)
{
    raise(SIGKILL);
}

static void wait_for_error(ncclComm_t comm, ncclResult_t called)
{
    ncclResult_t error = called;
    if (!called)
        NCCL(ncclCommGetAsyncError(comm, &error));
    CHECK(error == ncclRemoteError);
    CHECK(strstr(ncclGetLastError(comm), "gone") != NULL);
    CHECK(ncclCommAbort(comm) == ncclSuccess);
}

/* Rank 2 dies between two all-reduces. */
static void in_collectives(int rank, int n, void *arg)
{
    ncclComm_t comm;
    float x = 1, y = 0;
    ncclResult_t rc = ncclSuccess, error = ncclSuccess;
    (void)arg;
    NCCL(ncclCommInitRank(&comm, n, id, rank));
    for (int i = 0; i < 10 && !rc && !error; i++) {
        if (rank == 2 && i == 5)
            kill_self();
        rc = ncclAllReduce(&x, &y, 1, ncclFloat, ncclSum, comm, NULL);
        CHECK(cudaStreamSynchronize(NULL) == cudaSuccess);
        NCCL(ncclCommGetAsyncError(comm, &error));
        CHECK(i >= 5 || (y == (float)n && !error));
    }
    wait_for_error(comm, rc ? rc : error);
}

/* Rank 1 dies; rank 0 waits for its message, ranks 2 and 3 are not concerned. */
static void in_p2p(int rank, int n, void *arg)
{
    ncclComm_t comm;
    int x = rank, y = -1;
    (void)arg;
    NCCL(ncclCommInitRank(&comm, n, id, rank));
    if (rank == 1)
        kill_self();
    if (rank == 0) {
        ncclResult_t rc = ncclRecv(&y, 1, ncclInt32, 1, comm, NULL);
        CHECK(cudaStreamSynchronize(NULL) == cudaSuccess);
        wait_for_error(comm, rc);
        return;
    }
    for (int i = 0; i < 20; i++) {
        NCCL(rank == 2 ? ncclSend(&x, 1, ncclInt32, 3, comm, NULL)
                       : ncclRecv(&y, 1, ncclInt32, 2, comm, NULL));
    }
    CHECK(cudaStreamSynchronize(NULL) == cudaSuccess);
    CHECK(rank == 2 || y == 2);
}

/* Rank 1 leaves in good order; the others call a collective it never joins. */
static void after_leaving(int rank, int n, void *arg)
{
    ncclComm_t comm;
    float x = 1, y = 0;
    (void)arg;
    NCCL(ncclCommInitRank(&comm, n, id, rank));
    if (rank == 1) {
        NCCL(ncclCommDestroy(comm));
        return;
    }
    ncclResult_t rc = ncclAllReduce(&x, &y, 1, ncclFloat, ncclSum, comm, NULL);
    CHECK(cudaStreamSynchronize(NULL) == cudaSuccess);
    wait_for_error(comm, rc);
}

static void never_comes(int rank, int n, void *arg)
{
    ncclComm_t comm;
    (void)arg;
    if (rank == 1)
        return;
    CHECK(ncclCommInitRank(&comm, n, id, rank) != ncclSuccess);
    CHECK(comm == NULL);
}

/* Different counts are an error on every rank. */
static void mismatch(int rank, int n, void *arg)
{
    ncclComm_t comm;
    float x[2] = {1, 1}, y[2];
    ncclResult_t error;
    (void)arg;
    NCCL(ncclCommInitRank(&comm, n, id, rank));
    NCCL(ncclAllReduce(x, y, rank == 1 ? 2 : 1, ncclFloat, ncclSum, comm, NULL));
    CHECK(cudaStreamSynchronize(NULL) == cudaSuccess);
    NCCL(ncclCommGetAsyncError(comm, &error));
    CHECK(error == ncclInvalidUsage || error == ncclRemoteError);
    NCCL(ncclCommAbort(comm));
}

static int scenario(const char *name, void (*fn)(int, int, void *), int dead)
{
    int status[4];
    if (ncclGetUniqueId(&id))
        return 1;
    run_ranks(4, 30, fn, NULL, status);
    for (int r = 0; r < 4; r++) {
        int want = r == dead ? SIGKILL : 0;
        if (status[r] != want) {
            fprintf(stderr, "%s: rank %d ended with status %#x, expected %#x\n", name, r, status[r],
                    want);
            return 1;
        }
    }
    return 0;
}

int main(void)
{
    setenv("VGPU_NCCL_INIT_TIMEOUT", "1.5", 1);
    int bad = scenario("never comes", never_comes, -1);
    setenv("VGPU_NCCL_INIT_TIMEOUT", "60", 1);
    bad += scenario("dies in collectives", in_collectives, 2);
    bad += scenario("dies in P2P", in_p2p, 1);
    bad += scenario("leaves", after_leaving, -1);
    bad += scenario("mismatch", mismatch, -1);
    return bad != 0;
}
