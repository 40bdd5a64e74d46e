/* Communicators of an NCCL without a profiler interface (before 2.23), from the application's
 * calls.
 *
 * Box: nccl-plugin. Thread: the application's. Identity over all ranks: a hash of the unique id,
 * for a split of the parent's hash, the number of the split and the colour; like NCCL's own hash
 * from 2.23 on, and never mixed with it, because there NCCL tells the communicators itself.
 */
#include "calls.h"
#include "calls_inside.h"
#include "model.h"

#include <pthread.h>

#define HM_EXPORT __attribute__((visibility("default")))

enum { N_KNOWN = 4096, FIRST_WITH_PROFILER = 22300 };
struct known { /* pointer of a living communicator -> ours; a hole = NULL */
    _Atomic(const void *) comm;
    uint64_t ctx, hash;
    uint32_t index, n_splits;
};
static struct known known[N_KNOWN];
static _Atomic uint32_t n_known;                         /* places used so far */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* making and ending only */

typedef struct {
    char bytes[128];
} unique_id_t; /* passed by value, as NCCL's */

static uint64_t mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * UINT64_C(0x9fb21c651e98df25);
    return h ^ h >> 32;
}

static struct known *find(const void *comm)
{
    uint32_t n = atomic_load_explicit(&n_known, memory_order_acquire);
    for (uint32_t i = 0; i < n; i++) /* a handful in a job of that age */
        if (atomic_load_explicit(&known[i].comm, memory_order_acquire) == comm)
            return &known[i];
    return NULL;
}

uint32_t hm_call_comm_of(const void *comm)
{
    struct known *k = comm ? find(comm) : NULL;
    return k ? k->index : HM_NO_ID;
}

static int too_old(void)
{
    static _Atomic(void *) cache;
    static _Atomic int version;
    int v = atomic_load_explicit(&version, memory_order_relaxed);
    int (*get)(int *);
    *(void **)&get = v ? NULL : hm_call_real(&cache, "pncclGetVersion");
    if (get && !get(&v))
        atomic_store_explicit(&version, v, memory_order_relaxed);
    return v > 0 && v < FIRST_WITH_PROFILER;
}

static void made(const void *comm, uint64_t hash, int n_ranks, int rank)
{
    int mask;
    struct hm_nccl_init init = {.hash = hash, .crank = rank, .n_ranks = n_ranks, .interface = 0};
    if (!comm || n_ranks < 2)
        return;
    uint64_t ctx = hm_nccl_init(&init, &mask), serial = 0;
    enum hm_nccl_type type = HM_NT_VOID;
    if (hm_handle_unpack(ctx, &type, &serial) != HM_HANDLE_OURS || type != HM_NT_CTX)
        return;
    pthread_mutex_lock(&lock);
    uint32_t n = atomic_load(&n_known), i = 0;
    while (i < n && atomic_load(&known[i].comm))
        i++;
    if (i < N_KNOWN) {
        known[i].ctx = ctx;
        known[i].hash = hash;
        known[i].index = (uint32_t)serial - 1;
        known[i].n_splits = 0;
        atomic_store_explicit(&known[i].comm, comm, memory_order_release);
        if (i == n)
            atomic_store_explicit(&n_known, n + 1, memory_order_release);
    }
    pthread_mutex_unlock(&lock);
}

static void ends(const void *comm)
{
    struct known *k = comm ? find(comm) : NULL;
    if (!k)
        return;
    hm_nccl_fini(k->ctx);
    pthread_mutex_lock(&lock);
    atomic_store(&k->comm, NULL);
    pthread_mutex_unlock(&lock);
}

static uint64_t hash_of(const unique_id_t *id)
{
    uint64_t h = 0;
    for (size_t i = 0; i < sizeof(id->bytes); i += 8) {
        uint64_t word;
        __builtin_memcpy(&word, id->bytes + i, 8);
        h = mix(h, word);
    }
    return h;
}

enum { NCCL_SYSTEM_ERROR = 2 };
#define HM_REAL(name, DECL)                                \
    static _Atomic(void *) cache;                          \
    int(*real) DECL;                                       \
    *(void **)&real = hm_call_real(&cache, "pnccl" #name); \
    if (!real)                                             \
    return NCCL_SYSTEM_ERROR

HM_EXPORT int ncclCommInitRank(void **comm, int n, unique_id_t id, int rank);
int ncclCommInitRank(void **comm, int n, unique_id_t id, int rank)
{
    HM_REAL(CommInitRank, (void **, int, unique_id_t, int));
    int rc = real(comm, n, id, rank);
    if (!rc && comm && too_old())
        made(*comm, hash_of(&id), n, rank);
    return rc;
}

HM_EXPORT int ncclCommInitRankConfig(void **comm, int n, unique_id_t id, int rank, void *config);
int ncclCommInitRankConfig(void **comm, int n, unique_id_t id, int rank, void *config)
{
    HM_REAL(CommInitRankConfig, (void **, int, unique_id_t, int, void *));
    int rc = real(comm, n, id, rank, config);
    if ((!rc || rc == 7) && comm && too_old()) /* 7: being made, not blocking */
        made(*comm, hash_of(&id), n, rank);
    return rc;
}

HM_EXPORT int ncclCommSplit(void *comm, int color, int key, void **child, void *config);
int ncclCommSplit(void *comm, int color, int key, void **child, void *config)
{
    HM_REAL(CommSplit, (void *, int, int, void **, void *));
    int rc = real(comm, color, key, child, config);
    struct known *k = too_old() ? find(comm) : NULL;
    if (!k)
        return rc;
    uint64_t hash = mix(mix(k->hash, ++k->n_splits), (uint64_t)(uint32_t)color);
    if (!rc && child && *child)
        made(*child, hash, hm_call_size_of(*child), hm_call_rank_of(*child));
    return rc;
}

HM_EXPORT int ncclCommDestroy(void *comm);
int ncclCommDestroy(void *comm)
{
    HM_REAL(CommDestroy, (void *));
    ends(comm);
    return real(comm);
}

HM_EXPORT int ncclCommAbort(void *comm);
int ncclCommAbort(void *comm)
{
    HM_REAL(CommAbort, (void *));
    ends(comm);
    return real(comm);
}
