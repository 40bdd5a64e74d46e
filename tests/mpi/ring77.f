      program ring
      implicit none
      include 'mpif.h'
      integer ierr, rank, other, got, i, total
      integer status(MPI_STATUS_SIZE)
      call MPI_INIT(ierr)
      call MPI_COMM_RANK(MPI_COMM_WORLD, rank, ierr)
      other = 1 - rank
      do i = 1, 10
        call MPI_ALLREDUCE(rank, total, 1, MPI_INTEGER, MPI_SUM,
     &    MPI_COMM_WORLD, ierr)
        call MPI_BARRIER(MPI_COMM_WORLD, ierr)
        call MPI_SENDRECV(rank, 2, MPI_CHARACTER, other, 1, got, 2,
     &    MPI_CHARACTER, other, 1, MPI_COMM_WORLD, status, ierr)
      end do
      if (rank .eq. 0) print '(a,i0)', 'fortran: sum ', total
      call MPI_FINALIZE(ierr)
      end
