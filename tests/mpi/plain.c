/* MPI and nothing else: no mark of ours; a request and a Waitall. Used by jobs.bats. */
#include <mpi.h>

#include <stdio.h>

int main(int argc, char **argv)
{
    int rank, n_ranks, in = -1;
    MPI_Request request[2];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
    MPI_Irecv(&in, 1, MPI_INT, (rank + n_ranks - 1) % n_ranks, 3, MPI_COMM_WORLD, &request[0]);
    MPI_Isend(&rank, 1, MPI_INT, (rank + 1) % n_ranks, 3, MPI_COMM_WORLD, &request[1]);
    MPI_Waitall(2, request, MPI_STATUSES_IGNORE);
    int root = in;
    MPI_Bcast(&root, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (!rank)
        printf("plain: %d ranks, %d\n", n_ranks, in);
    MPI_Finalize();
    return in == (rank + n_ranks - 1) % n_ranks && root == n_ranks - 1 ? 0 : 1;
}
