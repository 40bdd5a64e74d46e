/* Communicators: identity, init, split, end; and the collective calls, thin over nccl_submit().
 *
 * Box: tests/vgpu. Thread: application; init runs in a thread of its own as in NCCL.
 * commHash: of the unique id; of a split: of the parent's hash, the number of the split and the
 * colour. The unique id holds the random name of the shared memory segment.
 */
#include "nccl_inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define COMM_MAGIC 0x6d6d6f636c63636eull

static uint64_t mix(uint64_t h, uint64_t v)
{
    h ^= v + 0x9e3779b97f4a7c15u + (h << 6) + (h >> 2);
    h *= 0xff51afd7ed558ccdu;
    return h ^ h >> 33;
}

int nccl_comm_ok(ncclComm_t c)
{
    return c && c->magic == COMM_MAGIC;
}

static int nodes_of(int n_ranks)
{
    int n = atoi(nccl_setting("nodes", "1"));
    return n < 1 ? 1 : n > n_ranks ? n_ranks : n;
}

static void comm_free(ncclComm_t c)
{
    nccl_room_leave(c);
    pthread_mutex_destroy(&c->lock);
    pthread_cond_destroy(&c->ran);
    free(c->n_sent);
    free(c->n_received);
    free(c->comm_name);
    c->magic = 0;
    free(c);
}

void *nccl_init_thread(void *arg)
{
    nccl_init_job *j = arg;
    ncclComm_t c = calloc(1, sizeof *c);
    pthread_setname_np(pthread_self(), "NCCL Init");
    if (!c)
        abort();
    c->magic = COMM_MAGIC;
    c->hash = j->hash;
    c->rank = j->rank;
    c->n_ranks = j->n_ranks;
    c->n_nodes = nodes_of(j->n_ranks);
    c->device = j->device;
    c->comm_name = j->comm_name;
    c->n_sent = calloc((size_t)j->n_ranks, sizeof *c->n_sent);
    c->n_received = calloc((size_t)j->n_ranks, sizeof *c->n_received);
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->ran, NULL);
    j->result = cudaSetDevice(j->device) ? ncclUnhandledCudaError : ncclSuccess;
    if (!j->result)
        j->result = nccl_room_enter(c, j->room_name);
    if (j->result) {
        comm_free(c);
        return NULL;
    }
    nccl_profiler_init(c);
    nccl_proxy_init(c);
    nccl_log(3, "comm %016llx rank %d nranks %d nNodes %d", (unsigned long long)c->hash, c->rank,
             c->n_ranks, c->n_nodes);
    *j->out = c;
    return NULL;
}

/* ---- init ---- */

NCCL_API(ncclResult_t, ncclGetVersion, int *version)
{
    if (!version)
        return ncclInvalidArgument;
    *version = nccl_release();
    return ncclSuccess;
}

NCCL_API(ncclResult_t, ncclGetUniqueId, ncclUniqueId *id)
{
    uint64_t r[2];
    if (!id)
        return ncclInvalidArgument;
    if (getrandom(r, sizeof r, 0) != (ssize_t)sizeof r)
        return ncclSystemError;
    memset(id, 0, sizeof *id);
    snprintf(id->internal, sizeof id->internal, "/vgpu-nccl-%016llx%016llx",
             (unsigned long long)r[0], (unsigned long long)r[1]);
    return ncclSuccess;
}

static uint64_t text_hash(const char *s)
{
    uint64_t h = 1469598103934665603u;
    for (; *s; s++)
        h = mix(h, (uint8_t)*s);
    return h;
}

static ncclResult_t init_rank(ncclComm_t *comm, int n_ranks, const ncclUniqueId *id, int rank,
                              int device, const ncclConfig_t *config)
{
    if (!comm || n_ranks < 1 || n_ranks > NCCL_MAX_RANKS || rank < 0 || rank >= n_ranks)
        return nccl_fail(NULL, ncclInvalidArgument, "rank %d of %d", rank, n_ranks);
    if (strncmp(id->internal, "/vgpu-nccl-", 11) || strlen(id->internal) >= 48)
        return nccl_fail(NULL, ncclInvalidArgument, "not a unique id of this library");
    if (config && (config->size < 32 || config->magic != 0xcafebeef))
        return nccl_fail(NULL, ncclInvalidArgument, "configuration not initialised");
    nccl_init_job j = {.out = comm, .n_ranks = n_ranks, .rank = rank, .device = device};
    snprintf(j.room_name, sizeof j.room_name, "%s", id->internal);
    j.hash = text_hash(id->internal);
    j.comm_name = config && config->commName ? strdup(config->commName) : NULL;
    *comm = NULL;
    return nccl_submit_init(&j);
}

NCCL_API(ncclResult_t, ncclCommInitRankConfig, ncclComm_t *comm, int nranks, ncclUniqueId commId,
         int rank, ncclConfig_t *config)
{
    int device = 0;
    if (cudaGetDevice(&device))
        return ncclUnhandledCudaError;
    return init_rank(comm, nranks, &commId, rank, device, config);
}

NCCL_API(ncclResult_t, ncclCommInitRank, ncclComm_t *comm, int nranks, ncclUniqueId commId,
         int rank)
{
    return pncclCommInitRankConfig(comm, nranks, commId, rank, NULL);
}

NCCL_API(ncclResult_t, ncclCommInitAll, ncclComm_t *comm, int ndev, const int *devlist)
{
    ncclUniqueId id;
    ncclResult_t rc = pncclGetUniqueId(&id);
    if (!rc)
        rc = pncclGroupStart();
    for (int i = 0; i < ndev && !rc; i++)
        rc = init_rank(&comm[i], ndev, &id, i, devlist ? devlist[i] : i, NULL);
    ncclResult_t end = pncclGroupEnd();
    return rc ? rc : end;
}

static int by_key(const void *a, const void *b)
{
    const int64_t *x = a, *y = b; /* key, rank */
    if (x[0] != y[0])
        return x[0] < y[0] ? -1 : 1;
    return x[1] < y[1] ? -1 : 1;
}

NCCL_API(ncclResult_t, ncclCommSplit, ncclComm_t comm, int color, int key, ncclComm_t *newcomm,
         ncclConfig_t *config)
{
    if (!nccl_comm_ok(comm) || !newcomm || (color < 0 && color != NCCL_SPLIT_NOCOLOR))
        return ncclInvalidArgument;
    *newcomm = NULL;
    struct nccl_seat *seat = comm->room->seat;
    seat[comm->rank].color = color;
    seat[comm->rank].key = key;
    ncclResult_t rc = nccl_room_meet(comm, &comm->room->host);
    int64_t pair[NCCL_MAX_RANKS][2];
    int n = 0, rank = 0;
    for (int r = 0; r < comm->n_ranks && !rc; r++) {
        if (seat[r].color != color)
            continue;
        pair[n][0] = seat[r].key;
        pair[n++][1] = r;
    }
    if (!rc)
        rc = nccl_room_meet(comm, &comm->room->host); /* all have read */
    uint64_t nth = comm->n_splits++;
    if (rc || color == NCCL_SPLIT_NOCOLOR)
        return rc;
    qsort(pair, (size_t)n, sizeof pair[0], by_key);
    while (pair[rank][1] != comm->rank)
        rank++;
    nccl_init_job j = {.out = newcomm, .n_ranks = n, .rank = rank, .device = comm->device};
    j.hash = mix(mix(comm->hash, nth + 1), (uint64_t)color + 1);
    /* Not guessable from the hash alone: the parent's random name goes in. */
    snprintf(j.room_name, sizeof j.room_name, "/vgpu-nccl-%016llx%016llx",
             (unsigned long long)mix(text_hash(comm->room_name), j.hash),
             (unsigned long long)j.hash);
    const char *name = config && config->commName ? config->commName : comm->comm_name;
    j.comm_name = name ? strdup(name) : NULL;
    return nccl_submit_init(&j);
}

/* ---- end ---- */

static void drain(ncclComm_t c)
{
    pthread_mutex_lock(&c->lock);
    while (c->n_ran < c->n_plans)
        pthread_cond_wait(&c->ran, &c->lock);
    pthread_mutex_unlock(&c->lock);
}

NCCL_API(ncclResult_t, ncclCommFinalize, ncclComm_t comm)
{
    if (!nccl_comm_ok(comm))
        return ncclInvalidArgument;
    drain(comm);
    comm->finalized = 1;
    return ncclSuccess;
}

static ncclResult_t destroy(ncclComm_t c)
{
    drain(c);
    nccl_proxy_stop(c);
    nccl_profiler_finalize(c);
    comm_free(c);
    return ncclSuccess;
}

NCCL_API(ncclResult_t, ncclCommDestroy, ncclComm_t comm)
{
    if (!comm)
        return ncclSuccess;
    return nccl_comm_ok(comm) ? destroy(comm) : ncclInvalidArgument;
}

NCCL_API(ncclResult_t, ncclCommAbort, ncclComm_t comm)
{
    if (!comm)
        return ncclSuccess;
    if (!nccl_comm_ok(comm))
        return ncclInvalidArgument;
    atomic_store(&comm->abort, 1); /* waiting threads look at it at least each NCCL_CHECK_MS */
    return destroy(comm);
}

/* ---- questions ---- */

NCCL_API(ncclResult_t, ncclCommCount, const ncclComm_t comm, int *count)
{
    if (!nccl_comm_ok(comm) || !count)
        return ncclInvalidArgument;
    *count = comm->n_ranks;
    return ncclSuccess;
}

NCCL_API(ncclResult_t, ncclCommCuDevice, const ncclComm_t comm, int *device)
{
    if (!nccl_comm_ok(comm) || !device)
        return ncclInvalidArgument;
    *device = comm->device;
    return ncclSuccess;
}

NCCL_API(ncclResult_t, ncclCommUserRank, const ncclComm_t comm, int *rank)
{
    if (!nccl_comm_ok(comm) || !rank)
        return ncclInvalidArgument;
    *rank = comm->rank;
    return ncclSuccess;
}

NCCL_API(ncclResult_t, ncclCommGetAsyncError, ncclComm_t comm, ncclResult_t *asyncError)
{
    if (!nccl_comm_ok(comm) || !asyncError)
        return ncclInvalidArgument;
    *asyncError = (ncclResult_t)atomic_load(&comm->error);
    return ncclSuccess;
}

NCCL_API(const char *, ncclGetErrorString, ncclResult_t result)
{
    static const char *const text[] = {"no error",
                                       "unhandled cuda error",
                                       "unhandled system error",
                                       "internal error",
                                       "invalid argument",
                                       "invalid usage",
                                       "remote process exited or there was a network error",
                                       "NCCL operation in progress"};
    return (unsigned)result < ncclNumResults ? text[result] : "unknown result code";
}

NCCL_API(const char *, ncclGetLastError, ncclComm_t comm)
{
    return nccl_comm_ok(comm) ? comm->last_error : "";
}

/* ---- memory: host memory here, nothing to register ---- */

NCCL_API(ncclResult_t, ncclMemAlloc, void **ptr, size_t size)
{
    return cudaMalloc(ptr, size) ? ncclUnhandledCudaError : ncclSuccess;
}

NCCL_API(ncclResult_t, ncclMemFree, void *ptr)
{
    return cudaFree(ptr) ? ncclUnhandledCudaError : ncclSuccess;
}

NCCL_API(ncclResult_t, ncclCommRegister, const ncclComm_t comm, void *buff, size_t size,
         void **handle)
{
    if (!nccl_comm_ok(comm) || !handle || !size)
        return ncclInvalidArgument;
    *handle = buff;
    return ncclSuccess;
}

NCCL_API(ncclResult_t, ncclCommDeregister, const ncclComm_t comm, void *handle)
{
    (void)handle;
    return nccl_comm_ok(comm) ? ncclSuccess : ncclInvalidArgument;
}

/* ---- operations ---- */

NCCL_API(ncclResult_t, ncclAllReduce, const void *sendbuff, void *recvbuff, size_t count,
         ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    return nccl_submit(&(struct nccl_task){.func = FUNC_ALL_REDUCE,
                                           .dtype = datatype,
                                           .op = op,
                                           .send = sendbuff,
                                           .recv = recvbuff,
                                           .count = count,
                                           .comm = comm,
                                           .stream = stream});
}

NCCL_API(ncclResult_t, ncclReduce, const void *sendbuff, void *recvbuff, size_t count,
         ncclDataType_t datatype, ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream)
{
    return nccl_submit(&(struct nccl_task){.func = FUNC_REDUCE,
                                           .dtype = datatype,
                                           .op = op,
                                           .send = sendbuff,
                                           .recv = recvbuff,
                                           .count = count,
                                           .root = root,
                                           .comm = comm,
                                           .stream = stream});
}

NCCL_API(ncclResult_t, ncclReduceScatter, const void *sendbuff, void *recvbuff, size_t recvcount,
         ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    return nccl_submit(&(struct nccl_task){.func = FUNC_REDUCE_SCATTER,
                                           .dtype = datatype,
                                           .op = op,
                                           .send = sendbuff,
                                           .recv = recvbuff,
                                           .count = recvcount,
                                           .comm = comm,
                                           .stream = stream});
}

static ncclResult_t copying(enum nccl_func func, const void *send, void *recv, size_t count,
                            ncclDataType_t dtype, int root, ncclComm_t comm, cudaStream_t stream)
{
    return nccl_submit(&(struct nccl_task){.func = func,
                                           .dtype = dtype,
                                           .send = send,
                                           .recv = recv,
                                           .count = count,
                                           .root = root,
                                           .comm = comm,
                                           .stream = stream});
}

NCCL_API(ncclResult_t, ncclBroadcast, const void *sendbuff, void *recvbuff, size_t count,
         ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream)
{
    return copying(FUNC_BROADCAST, sendbuff, recvbuff, count, datatype, root, comm, stream);
}

NCCL_API(ncclResult_t, ncclBcast, void *buff, size_t count, ncclDataType_t datatype, int root,
         ncclComm_t comm, cudaStream_t stream)
{
    return copying(FUNC_BROADCAST, buff, buff, count, datatype, root, comm, stream);
}

NCCL_API(ncclResult_t, ncclAllGather, const void *sendbuff, void *recvbuff, size_t sendcount,
         ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream)
{
    return copying(FUNC_ALL_GATHER, sendbuff, recvbuff, sendcount, datatype, 0, comm, stream);
}

NCCL_API(ncclResult_t, ncclSend, const void *sendbuff, size_t count, ncclDataType_t datatype,
         int peer, ncclComm_t comm, cudaStream_t stream)
{
    return copying(FUNC_SEND, sendbuff, NULL, count, datatype, peer, comm, stream);
}

NCCL_API(ncclResult_t, ncclRecv, void *recvbuff, size_t count, ncclDataType_t datatype, int peer,
         ncclComm_t comm, cudaStream_t stream)
{
    return copying(FUNC_RECV, NULL, recvbuff, count, datatype, peer, comm, stream);
}

/* NCCL makes these of sends and receives: no collective event exists for them. */
static ncclResult_t by_peers(const void *send, int send_all, int to, void *recv, int recv_all,
                             int from, size_t count, ncclDataType_t dtype, ncclComm_t comm,
                             cudaStream_t stream)
{
    if (!nccl_comm_ok(comm))
        return ncclInvalidArgument;
    size_t bytes = count * nccl_type_bytes(dtype);
    ncclResult_t rc = pncclGroupStart();
    for (int r = 0; r < comm->n_ranks && !rc; r++) {
        size_t at = (size_t)r * bytes;
        if (send && (to < 0 || to == r))
            rc = pncclSend((const uint8_t *)send + (send_all ? at : 0), count, dtype, r, comm,
                           stream);
        if (!rc && recv && (from < 0 || from == r))
            rc = pncclRecv((uint8_t *)recv + (recv_all ? at : 0), count, dtype, r, comm, stream);
    }
    ncclResult_t end = pncclGroupEnd();
    return rc ? rc : end;
}

NCCL_API(ncclResult_t, ncclAlltoAll, const void *sendbuff, void *recvbuff, size_t count,
         ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream)
{
    return by_peers(sendbuff, 1, -1, recvbuff, 1, -1, count, datatype, comm, stream);
}

NCCL_API(ncclResult_t, ncclGather, const void *sendbuff, void *recvbuff, size_t count,
         ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream)
{
    void *recv = nccl_comm_ok(comm) && comm->rank == root ? recvbuff : NULL;
    return by_peers(sendbuff, 0, root, recv, 1, -1, count, datatype, comm, stream);
}

NCCL_API(ncclResult_t, ncclScatter, const void *sendbuff, void *recvbuff, size_t count,
         ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream)
{
    const void *send = nccl_comm_ok(comm) && comm->rank == root ? sendbuff : NULL;
    return by_peers(send, 1, -1, recvbuff, 0, root, count, datatype, comm, stream);
}
