! The same by the handles of mpi_f08. Used by jobs.bats.
program ring
  use mpi_f08
  implicit none
  integer :: rank, other, got, i, total
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  other = 1 - rank
  do i = 1, 10
    call MPI_Allreduce(rank, total, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
    call MPI_Barrier(MPI_COMM_WORLD)
    call MPI_Sendrecv(rank, 2, MPI_CHARACTER, other, 1, got, 2, MPI_CHARACTER, other, 1, &
                      MPI_COMM_WORLD, MPI_STATUS_IGNORE)
  end do
  if (rank == 0) print '(a,i0)', 'fortran: sum ', total
  call MPI_Finalize()
end program ring
