/* MPI without mpi.h: which family is in this process, its constants, its functions by name.
 *
 * Box: lib/core. Recorder: the thread in MPI_Init; tool: main. Silent. Source: mpi.h of Open
 * MPI 4.1 and of MPICH 4.0 (the MPICH ABI initiative keeps the latter's numbers for Intel MPI, Cray
 * MPICH and MVAPICH), compared with the headers by tests/core. Data symbols are asked from the
 * global scope first: a C program holds the live object itself, as a copy relocation.
 */
#include "core/mpi_abi.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

static void *function(const struct hm_mpi *mpi, const char *name)
{
    /* our own library exports some PMPI names: never the global scope first */
    return dlsym(mpi->library, name);
}

static void *object(const struct hm_mpi *mpi, const char *name)
{
    void *at = dlsym(RTLD_DEFAULT, name);
    return at ? at : dlsym(mpi->library, name);
}

static int visit(struct dl_phdr_info *info, size_t size, void *ctx)
{
    (void)size;
    void **found = ctx;
    const char *base = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;
    base = base ? base + 1 : info->dlpi_name;
    if (!base || strncmp(base, "libmpi", 6) != 0)
        return 0;
    void *handle = dlopen(info->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
    if (!handle)
        return 0;
    if (!dlsym(handle, "PMPI_Init")) {
        dlclose(handle);
        return 0;
    }
    *found = handle;
    return 1;
}

static void *load(void)
{
    static const char *const names[] = {"libmpi.so.40", "libmpich.so.12", "libmpi.so.12",
                                        "libmpi.so"};
    void *handle = NULL;
    for (size_t i = 0; !handle && i < sizeof(names) / sizeof(names[0]); i++)
        handle = dlopen(names[i], RTLD_NOW | RTLD_GLOBAL);
    return handle;
}

static void openmpi_constants(struct hm_mpi *mpi)
{
    mpi->family = HM_MPI_OPENMPI;
    mpi->comm_world = (hm_mpi_word_t)object(mpi, "ompi_mpi_comm_world");
    mpi->comm_self = (hm_mpi_word_t)object(mpi, "ompi_mpi_comm_self");
    mpi->comm_null = (hm_mpi_word_t)object(mpi, "ompi_mpi_comm_null");
    mpi->info_null = (hm_mpi_word_t)object(mpi, "ompi_mpi_info_null");
    mpi->type_byte = (hm_mpi_word_t)object(mpi, "ompi_mpi_byte");
    mpi->type_int = (hm_mpi_word_t)object(mpi, "ompi_mpi_int");
    mpi->type_int64 = (hm_mpi_word_t)object(mpi, "ompi_mpi_int64_t");
    mpi->op_min = (hm_mpi_word_t)object(mpi, "ompi_mpi_op_min");
    mpi->op_max = (hm_mpi_word_t)object(mpi, "ompi_mpi_op_max");
    mpi->op_sum = (hm_mpi_word_t)object(mpi, "ompi_mpi_op_sum");
    mpi->null_copy_fn = object(mpi, "OMPI_C_MPI_COMM_NULL_COPY_FN");
    mpi->status_ignore = NULL;
    mpi->any_tag = -1;
    mpi->keyval_invalid = -1;
    mpi->success = 0;
    mpi->comm_type_shared = 0;
}

static void mpich_constants(struct hm_mpi *mpi)
{
    mpi->family = HM_MPI_MPICH;
    mpi->comm_world = 0x44000000;
    mpi->comm_self = 0x44000001;
    mpi->comm_null = 0x04000000;
    mpi->info_null = 0x1c000000;
    mpi->type_byte = 0x4c00010d;
    mpi->type_int = 0x4c000405;
    mpi->type_int64 = 0x4c00083a;
    mpi->op_max = 0x58000001;
    mpi->op_min = 0x58000002;
    mpi->op_sum = 0x58000003;
    mpi->null_copy_fn = NULL;
    mpi->status_ignore = (void *)(uintptr_t)1;
    mpi->any_tag = -1;
    mpi->keyval_invalid = 0x24000000;
    mpi->success = 0;
    mpi->comm_type_shared = 1;
}

/* May be asked before MPI_Init (MPI 3.0, 8.1.1). */
static int says_mpich(const struct hm_mpi *mpi)
{
    static const char *const words[] = {"MPICH", "MVAPICH", "Intel(R) MPI"};
    int (*version)(char *, int *) =
        (int (*)(char *, int *))(uintptr_t)function(mpi, "PMPI_Get_library_version");
    static char text[16384]; /* MPI_MAX_LIBRARY_VERSION_STRING is 8192 in MPICH */
    int len = 0;
    if (!version || version(text, &len))
        return 0;
    text[sizeof(text) - 1] = 0;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strstr(text, words[i]))
            return 1;
    return 0;
}

/* ISO C has no cast from an object pointer to a function; a copy of the bytes is what POSIX means.
 */
#define LOOK_UP(member, name)                    \
    do {                                         \
        void *at_ = function(mpi, "PMPI_" name); \
        memcpy(&mpi->member, &at_, sizeof(at_)); \
    } while (0)

static void functions(struct hm_mpi *mpi)
{
    LOOK_UP(initialized, "Initialized");
    LOOK_UP(finalized, "Finalized");
    LOOK_UP(comm_rank, "Comm_rank");
    LOOK_UP(comm_size, "Comm_size");
    LOOK_UP(comm_split, "Comm_split");
    LOOK_UP(comm_free, "Comm_free");
    LOOK_UP(barrier, "Barrier");
    LOOK_UP(bcast, "Bcast");
    LOOK_UP(allreduce, "Allreduce");
    LOOK_UP(allgather, "Allgather");
    LOOK_UP(gather, "Gather");
    LOOK_UP(gatherv, "Gatherv");
    LOOK_UP(allgatherv, "Allgatherv");
    LOOK_UP(alltoallv, "Alltoallv");
    LOOK_UP(send, "Send");
    LOOK_UP(recv, "Recv");
    LOOK_UP(isend, "Isend");
    LOOK_UP(irecv, "Irecv");
    LOOK_UP(test, "Test");
    LOOK_UP(comm_create_keyval, "Comm_create_keyval");
    LOOK_UP(comm_set_attr, "Comm_set_attr");
    LOOK_UP(init, "Init");
    LOOK_UP(init_thread, "Init_thread");
    LOOK_UP(finalize, "Finalize");
}

hm_status_t hm_mpi_open(struct hm_mpi *mpi_p, int may_load)
{
    struct hm_mpi mpi;
    memset(&mpi, 0, sizeof(mpi));
    dl_iterate_phdr(visit, &mpi.library);
    if (!mpi.library && may_load)
        mpi.library = load();
    if (!mpi.library)
        return HM_E_MISSING;
    if (object(&mpi, "ompi_mpi_comm_world"))
        openmpi_constants(&mpi);
    else if (says_mpich(&mpi))
        mpich_constants(&mpi);
    else
        return HM_E_FOREIGN;
    functions(&mpi);
    if (!mpi.init || !mpi.comm_rank || !mpi.comm_size || !mpi.allreduce)
        return HM_E_FOREIGN;
    *mpi_p = mpi;
    return HM_OK;
}
