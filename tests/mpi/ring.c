/* A job without a GPU: steps with MPI calls in them. Used by jobs.bats.
 *
 * usage: ring N [die R | abort R | late MS R | split | early]. Each step: one Barrier, one
 * Allreduce of 16 doubles, one message around the ring (even ranks send first). die: rank R kills
 * itself after N steps. abort: rank R calls MPI_Abort with 7, the others wait for it. late: rank R
 * sleeps MS before each Barrier. split: the Allreduce runs on halves of the world. early: a mark
 * stands before MPI_Init. Prints the sum on rank 0, so that a job whose messages were mixed up is
 * seen.
 */
#include "hindmost/hindmost.h"

#include <mpi.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int rank, n_ranks, provided;
    int n = argc > 1 ? atoi(argv[1]) : 10;
    const char *how = argc > 2 ? argv[2] : "";
    if (!strcmp(how, "early"))
        hm_mark("before MPI");
    if (!strcmp(how, "split"))
        MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    else
        MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
    MPI_Comm comm = MPI_COMM_WORLD;
    if (!strcmp(how, "split"))
        MPI_Comm_split(MPI_COMM_WORLD, rank * 2 / n_ranks, rank, &comm);
    double total = 0;
    for (int i = 0; i < n; i++) {
        double mine[16], sum[16];
        int token = rank, got = -1;
        hm_step(i);
        if (!strcmp(how, "late") && argc > 4 && rank == atoi(argv[4]))
            usleep((useconds_t)atoi(argv[3]) * 1000);
        MPI_Barrier(MPI_COMM_WORLD);
        for (int k = 0; k < 16; k++)
            mine[k] = rank + k + i;
        MPI_Allreduce(mine, sum, 16, MPI_DOUBLE, MPI_SUM, comm);
        total += sum[0];
        int right = (rank + 1) % n_ranks, left = (rank + n_ranks - 1) % n_ranks;
        if (n_ranks > 1 && rank % 2 == 0)
            MPI_Send(&token, 1, MPI_INT, right, 7, MPI_COMM_WORLD);
        if (n_ranks > 1)
            MPI_Recv(&got, 1, MPI_INT, left, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (n_ranks > 1 && rank % 2)
            MPI_Send(&token, 1, MPI_INT, right, 7, MPI_COMM_WORLD);
        if (n_ranks > 1 && got != left)
            MPI_Abort(MPI_COMM_WORLD, 9);
    }
    if (!strcmp(how, "die") && argc > 3 && rank == atoi(argv[3]))
        raise(SIGKILL);
    if (!strcmp(how, "abort") && argc > 3 && rank == atoi(argv[3]))
        MPI_Abort(MPI_COMM_WORLD, 7);
    if (!strcmp(how, "abort"))
        MPI_Barrier(MPI_COMM_WORLD);
    if (comm != MPI_COMM_WORLD)
        MPI_Comm_free(&comm);
    if (!rank)
        printf("ring: %d ranks, sum %.0f\n", n_ranks, total);
    MPI_Finalize();
    return 0;
}
