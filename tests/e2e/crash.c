/* Rank 1 records N counters and is killed by signal 9 at once; the others wait for it.
 *
 * Box: tests/e2e. usage: crash N
 */
#include <mpi.h>

#include <hindmost/hindmost.h>
#include <signal.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    int rank;
    long n = argc > 1 ? atol(argv[1]) : 1000;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    hm_step(0);
    if (rank == 1) {
        for (long i = 0; i < n; i++)
            hm_counter_i64("value", i);
        raise(SIGKILL);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
