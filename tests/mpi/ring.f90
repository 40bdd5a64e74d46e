! Fortran enters MPI by its own names: what it calls must be seen once. Used by jobs.bats.
program ring
  use mpi
  implicit none
  integer :: ierr, rank, n_ranks, i, total
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, n_ranks, ierr)
  do i = 1, 10
    call MPI_Allreduce(rank, total, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
    call MPI_Barrier(MPI_COMM_WORLD, ierr)
  end do
  if (rank == 0) print '(a,i0)', 'fortran: sum ', total
  call MPI_Finalize(ierr)
end program ring
