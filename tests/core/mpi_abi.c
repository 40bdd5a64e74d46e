/* What hm_mpi_open() finds out about MPI without mpi.h, against mpi.h itself. One process, a
 * singleton: the functions are called, not only found.
 */
#include "core/mpi_abi.h"

#include "check.h"

#include <mpi.h>

int main(int argc, char **argv)
{
    struct hm_mpi mpi;
    int flag = -1, size = 0;
    CHECK(hm_mpi_open(&mpi, 0) == HM_OK);
#if defined(OPEN_MPI)
    CHECK(mpi.family == HM_MPI_OPENMPI);
#elif defined(MPICH_VERSION)
    CHECK(mpi.family == HM_MPI_MPICH);
#endif
    CHECK(mpi.comm_world == (hm_mpi_word_t)MPI_COMM_WORLD);
    CHECK(mpi.comm_self == (hm_mpi_word_t)MPI_COMM_SELF);
    CHECK(mpi.comm_null == (hm_mpi_word_t)MPI_COMM_NULL);
    CHECK(mpi.info_null == (hm_mpi_word_t)MPI_INFO_NULL);
    CHECK(mpi.type_byte == (hm_mpi_word_t)MPI_BYTE);
    CHECK(mpi.type_int == (hm_mpi_word_t)MPI_INT);
    CHECK(mpi.type_int64 == (hm_mpi_word_t)MPI_INT64_T);
    CHECK(mpi.op_min == (hm_mpi_word_t)MPI_MIN);
    CHECK(mpi.op_max == (hm_mpi_word_t)MPI_MAX);
    CHECK(mpi.op_sum == (hm_mpi_word_t)MPI_SUM);
    CHECK(mpi.status_ignore == (void *)MPI_STATUS_IGNORE);
    CHECK(mpi.any_tag == MPI_ANY_TAG && mpi.keyval_invalid == MPI_KEYVAL_INVALID);
    CHECK(mpi.success == MPI_SUCCESS && mpi.comm_type_shared == MPI_COMM_TYPE_SHARED);
    CHECK(mpi.null_copy_fn == (void *)(uintptr_t)MPI_COMM_NULL_COPY_FN);
    CHECK(mpi.initialized(&flag) == MPI_SUCCESS && flag == 0);
    CHECK(MPI_Init(&argc, &argv) == MPI_SUCCESS);
    CHECK(mpi.comm_size(mpi.comm_world, &size) == MPI_SUCCESS && size == 1);
    int64_t one[2] = {INT64_C(1) << 40, 7}, sum[2] = {0, 0};
    CHECK(mpi.allreduce(one, sum, 2, mpi.type_int64, mpi.op_sum, mpi.comm_world) == MPI_SUCCESS);
    CHECK(sum[0] == one[0] && sum[1] == 7);
    MPI_Finalize();
    return 0;
}
