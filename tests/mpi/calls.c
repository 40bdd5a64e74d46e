/* Most MPI calls that are timed, each once, on two ranks. Used by jobs.bats.
 *
 * usage: calls EXPECTED-PREFIX FILE. Beside the calls stands by hand what must be recorded of them:
 * bytes that this rank hands in (or asks for), peer, size of the communicator (0: none is named),
 * requests. It is written to EXPECTED-PREFIX.RANK; every result is checked.
 */
#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>

static FILE *expected;
static int rank, other, failed;

/* N ints each, so that a byte more or less is seen */
enum { N = 3, I = sizeof(int) };

static void check(int ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "calls: rank %d: %s\n", rank, what);
        failed = 1;
    }
}
#define CALL(name, bytes, peer, size, requests, ...)                                         \
    do {                                                                                     \
        check(MPI_##name(__VA_ARGS__) == MPI_SUCCESS, #name);                                \
        fprintf(expected, "%s|%d|%d|%d|%d\n", #name, (int)(bytes), (int)(peer), (int)(size), \
                (int)(requests));                                                            \
    } while (0)

static void collectives(MPI_Comm w)
{
    int a[2 * N] = {rank, 1, 2, rank, 4, 5}, b[2 * N] = {0};
    int counts[2] = {1, 2}, displs[2] = {0, 3}, both[2] = {N, N};
    CALL(Barrier, 0, -1, 2, 0, w);
    CALL(Bcast, N * I, 1, 2, 0, a, N, MPI_INT, 1, w);
    check(a[0] == 1, "Bcast's value");
    a[0] = rank;
    CALL(Allreduce, N * I, -1, 2, 0, a, b, N, MPI_INT, MPI_SUM, w);
    check(b[0] == 1 && b[1] == 2, "Allreduce's values");
    CALL(Allreduce, 8, -1, 2, 0, MPI_IN_PLACE, b, 1, MPI_DOUBLE, MPI_MAX, w);
    CALL(Reduce, N * I, 0, 2, 0, a, b, N, MPI_INT, MPI_MAX, 0, w);
    CALL(Gather, N * I, 0, 2, 0, a, N, MPI_INT, b, N, MPI_INT, 0, w);
    CALL(Gatherv, N * I, 1, 2, 0, a, N, MPI_INT, b, both, displs, MPI_INT, 1, w);
    CALL(Scatter, N * I, 0, 2, 0, a, N, MPI_INT, b, N, MPI_INT, 0, w);
    CALL(Scatterv, N * I, 0, 2, 0, a, both, displs, MPI_INT, b, N, MPI_INT, 0, w);
    CALL(Allgather, N * I, -1, 2, 0, a, N, MPI_INT, b, N, MPI_INT, w);
    /* count and type of the send side mean nothing: this type is none */
    CALL(Allgather, 0, -1, 2, 0, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, b, N, MPI_INT, w);
    CALL(Allgatherv, N * I, -1, 2, 0, a, N, MPI_INT, b, both, displs, MPI_INT, w);
    CALL(Alltoall, 2 * N * I, -1, 2, 0, a, N, MPI_INT, b, N, MPI_INT, w);
    CALL(Alltoallv, 2 * N * I, -1, 2, 0, a, both, displs, MPI_INT, b, both, displs, MPI_INT, w);
    CALL(Alltoallv, 0, -1, 2, 0, MPI_IN_PLACE, NULL, NULL, MPI_DATATYPE_NULL, b, both, displs,
         MPI_INT, w);
    CALL(Reduce_scatter, 3 * I, -1, 2, 0, a, b, counts, MPI_INT, MPI_SUM, w);
    CALL(Reduce_scatter_block, 2 * N * I, -1, 2, 0, a, b, N, MPI_INT, MPI_SUM, w);
    CALL(Scan, N * I, -1, 2, 0, a, b, N, MPI_INT, MPI_SUM, w);
    CALL(Exscan, N * I, -1, 2, 0, a, b, N, MPI_INT, MPI_SUM, w);
    MPI_Request r[3];
    CALL(Ibarrier, 0, -1, 2, 0, w, &r[0]);
    CALL(Iallreduce, N * I, -1, 2, 0, a, b, N, MPI_INT, MPI_SUM, w, &r[1]);
    CALL(Ialltoall, 2 * I, -1, 2, 0, a + N, 1, MPI_INT, b + N, 1, MPI_INT, w, &r[2]);
    CALL(Waitall, 0, -1, 0, 3, 3, r, MPI_STATUSES_IGNORE);
    check(b[0] == 1, "Iallreduce's value");
}

static void messages(MPI_Comm w)
{
    int a[N] = {rank, 7, 8}, b[N] = {-1, -1, -1}, flag = 0, index;
    MPI_Request r[2];
    MPI_Message message;
    CALL(Irecv, N * I, other, 2, 0, b, N, MPI_INT, other, 5, w, &r[0]);
    CALL(Isend, N * I, other, 2, 0, a, N, MPI_INT, other, 5, w, &r[1]);
    CALL(Wait, 0, -1, 0, 0, &r[1], MPI_STATUS_IGNORE);
    CALL(Waitany, 0, -1, 0, 1, 1, r, &index, MPI_STATUS_IGNORE);
    check(b[0] == other, "Isend's value");
    CALL(Sendrecv, I, other, 2, 0, a, 1, MPI_INT, other, 1, b, 1, MPI_INT, other, 1, w,
         MPI_STATUS_IGNORE);
    CALL(Sendrecv_replace, N * I, other, 2, 0, a, N, MPI_INT, other, 1, other, 1, w,
         MPI_STATUS_IGNORE);
    /* polls that find nothing leave no trace; the one that does is seen */
    if (!rank) {
        MPI_Iprobe(1, 9, w, &flag, MPI_STATUS_IGNORE);
        check(!flag, "nothing was sent yet");
    }
    CALL(Barrier, 0, -1, 2, 0, w);
    if (rank) {
        CALL(Ssend, I, 0, 2, 0, a, 1, MPI_INT, 0, 9, w);
        CALL(Send, 0, 0, 2, 0, NULL, 0, MPI_INT, 0, 10, w);
        CALL(Send, I, 0, 2, 0, a, 1, MPI_INT, 0, 11, w);
    } else {
        CALL(Probe, 0, 1, 2, 0, 1, 9, w, MPI_STATUS_IGNORE);
        CALL(Recv, I, 1, 2, 0, b, 1, MPI_INT, 1, 9, w, MPI_STATUS_IGNORE);
        CALL(Recv, 0, 1, 2, 0, NULL, 0, MPI_INT, 1, 10, w, MPI_STATUS_IGNORE);
        CALL(Mprobe, 0, 1, 2, 0, 1, 11, w, &message, MPI_STATUS_IGNORE);
        CALL(Mrecv, I, -1, 0, 0, b, 1, MPI_INT, &message, MPI_STATUS_IGNORE);
    }
    MPI_Send_init(a, 1, MPI_INT, MPI_PROC_NULL, 1, w, &r[0]);
    CALL(Start, 0, -1, 0, 0, &r[0]);
    for (flag = 0; !flag;)
        MPI_Test(&r[0], &flag, MPI_STATUS_IGNORE);
    fprintf(expected, "Test|0|-1|0|0\n");
    MPI_Request_free(&r[0]);
}

static void windows(MPI_Comm w)
{
    int *memory = NULL, a[N] = {rank + 1, 2, 3}, b[N] = {0};
    MPI_Win win;
    CALL(Win_allocate, 0, -1, 2, 0, 2 * N * I, I, MPI_INFO_NULL, w, (void *)&memory, &win);
    for (int i = 0; i < 2 * N; i++)
        memory[i] = 0;
    CALL(Win_fence, 0, -1, 0, 0, 0, win);
    CALL(Put, N * I, other, 0, 0, a, N, MPI_INT, other, 0, N, MPI_INT, win);
    CALL(Win_fence, 0, -1, 0, 0, 0, win);
    check(memory[0] == other + 1 && memory[2] == 3, "Put's values");
    CALL(Win_lock, 0, other, 0, 0, MPI_LOCK_SHARED, other, 0, win);
    CALL(Get, N * I, other, 0, 0, b, N, MPI_INT, other, 0, N, MPI_INT, win);
    CALL(Win_unlock, 0, other, 0, 0, other, win);
    check(b[0] == rank + 1, "Get's value");
    CALL(Win_lock_all, 0, -1, 0, 0, 0, win);
    CALL(Accumulate, I, other, 0, 0, a, 1, MPI_INT, other, N, 1, MPI_INT, MPI_SUM, win);
    CALL(Win_flush, 0, other, 0, 0, other, win);
    CALL(Fetch_and_op, 0, other, 0, 0, a, b, MPI_INT, other, N, MPI_SUM, win);
    CALL(Win_unlock_all, 0, -1, 0, 0, win);
    CALL(Win_free, 0, -1, 0, 0, &win);
}

static void files(MPI_Comm w, const char *path)
{
    int a[N] = {rank, 1, 2}, b[N] = {-1, -1, -1};
    MPI_File f;
    CALL(File_open, 0, -1, 2, 0, w, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &f);
    CALL(File_write_at, N * I, -1, 0, 0, f, (MPI_Offset)rank * N * I, a, N, MPI_INT,
         MPI_STATUS_IGNORE);
    CALL(File_sync, 0, -1, 0, 0, f);
    CALL(Barrier, 0, -1, 2, 0, w);
    CALL(File_read_at_all, N * I, -1, 0, 0, f, (MPI_Offset)other * N * I, b, N, MPI_INT,
         MPI_STATUS_IGNORE);
    check(b[0] == other && b[2] == 2, "what the file holds");
    CALL(File_close, 0, -1, 0, 0, &f);
}

int main(int argc, char **argv)
{
    char path[4096];
    MPI_Comm half, twin;
    if (argc < 3)
        return 64;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    other = 1 - rank;
    snprintf(path, sizeof(path), "%s.%d", argv[1], rank);
    expected = fopen(path, "w");
    if (!expected)
        MPI_Abort(MPI_COMM_WORLD, 2);
    collectives(MPI_COMM_WORLD);
    messages(MPI_COMM_WORLD);
    windows(MPI_COMM_WORLD);
    files(MPI_COMM_WORLD, argv[2]);
    CALL(Comm_split, 0, -1, 2, 0, MPI_COMM_WORLD, rank, 0, &half);
    CALL(Comm_dup, 0, -1, 1, 0, half, &twin);
    CALL(Barrier, 0, -1, 1, 0, twin);
    MPI_Comm_free(&twin);
    MPI_Comm_disconnect(&half);
    fclose(expected);
    MPI_Finalize();
    return failed;
}
