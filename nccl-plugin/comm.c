/* Communicators: contexts, identity, what is asked of NCCL.
 *
 * Box: nccl-plugin. Threads: NCCL's init threads, several at once; lookups from any. An entry is
 * never freed: late children of a finalized communicator still find it. Communicators beyond the
 * table (16,384 in a pool of 64 MiB) are counted and not recorded. Invariant: the call counter runs
 * whether or not anything is recorded (it is the identity across ranks).
 */
#include "abi.h"
#include "calls.h"
#include "core/who.h"
#include "model.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

struct comm hm_comm[MAX_COMMS];
static _Atomic uint32_t n_comms;
static pthread_mutex_t init_lock = PTHREAD_MUTEX_INITIALIZER; /* init alone, never a callback */

uint32_t hm_comm_of(uint64_t ctx)
{
    enum hm_nccl_type type;
    uint64_t serial;
    switch (hm_handle_unpack(ctx, &type, &serial)) {
    case HM_HANDLE_NULL:
        hm_lose(HM_LOST_NCCL_STALE, 1);
        return HM_NO_ID;
    case HM_HANDLE_FOREIGN:
        hm_lose(HM_LOST_NCCL_FOREIGN, 1);
        return HM_NO_ID;
    case HM_HANDLE_OURS:
        break;
    }
    if (type != HM_NT_CTX || !serial ||
        serial > atomic_load_explicit(&n_comms, memory_order_acquire)) {
        if (type != HM_NT_VOID)
            hm_lose(HM_LOST_NCCL_STALE, 1);
        return HM_NO_ID;
    }
    return (uint32_t)serial - 1;
}

uint32_t hm_comm_next_call(uint32_t comm, int p2p)
{
    struct comm *c = &hm_comm[comm];
    uint32_t n = atomic_fetch_add_explicit(p2p ? &c->n_p2p : &c->n_calls, 1, memory_order_relaxed);
    uint32_t other = atomic_load_explicit(p2p ? &c->n_calls : &c->n_p2p, memory_order_relaxed);
    /* calls of one communicator are made one after another, by NCCL's rules */
    atomic_store_explicit(&hm.view.comm[comm].n_called, n + 1 + other, memory_order_relaxed);
    return p2p ? HM_CALL_P2P | n : n;
}

/* ---- who and where ---- */

static void *loaded(const char *const *soname)
{
    for (; *soname; soname++) {
        void *lib = dlopen(*soname, RTLD_NOW | RTLD_NOLOAD);
        if (lib)
            return lib;
    }
    return NULL;
}

/* The init thread has chosen its device. -1 = unknown. */
static int32_t current_device(void)
{
    static const char *const driver[] = {"libcuda.so.1", NULL};
    static const char *const runtime[] = {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0",
                                          NULL};
    int device = -1;
    int (*get)(int *) = NULL;
    void *lib = loaded(driver);
    if (lib) {
        *(void **)&get = dlsym(lib, "cuCtxGetDevice");
        if (get && !get(&device))
            return device;
    }
    lib = loaded(runtime);
    if (lib) {
        *(void **)&get = dlsym(lib, "cudaGetDevice");
        if (get && !get(&device))
            return device;
    }
    return -1;
}

static uint32_t nccl_version(void)
{
    static const char *const names[] = {"libnccl.so.2", NULL};
    int version = 0;
    int (*get)(int *) = NULL;
    void *lib = loaded(names);
    if (lib)
        *(void **)&get = dlsym(lib, "ncclGetVersion");
    return get && !get(&version) && version > 0 ? (uint32_t)version : 0;
}

/* The launcher's numbers where they can be true, else those of the first real communicator. */
static void claim(int32_t crank, int32_t n_ranks)
{
    struct hm_who who;
    if (n_ranks < 2)
        return;
    hm_who(&who);
    if (who.rank >= 0 && who.n_ranks >= n_ranks)
        hm_claim(who.rank, who.n_ranks, who.local_rank, who.n_local);
    else
        hm_claim(crank, n_ranks, who.local_rank, who.n_local);
}

/* Releases 2.26 and 2.27 can fail in point-to-point work while they stamp kernels: not asked for
 * there. 2.31 stamps each phase of a kernel at a price of several per cent: only by its own word.
 */
int hm_nccl_mask(unsigned interface)
{
    int mask = HM_NCCL_BIT_COLL | HM_NCCL_BIT_P2P | HM_NCCL_BIT_PROXY_OP;
    if (interface >= 5)
        mask |=
            HM_NCCL_BIT_GROUP_API | HM_NCCL_BIT_COLL_API | HM_NCCL_BIT_P2P_API | HM_NCCL_BIT_LAUNCH;
    else
        mask |= HM_NCCL_BIT_GROUP; /* without it 2.26 and 2.27 announce no operation at all */
    if (interface >= 6)
        mask |= HM_NCCL_BIT_CE_COLL | HM_NCCL_BIT_CE_SYNC | HM_NCCL_BIT_CE_BATCH;
    if (hm.config.proxy_steps) {
        mask |= HM_NCCL_BIT_PROXY_STEP | HM_NCCL_BIT_PROXY_CTRL;
        if (interface >= 3)
            mask |= HM_NCCL_BIT_NET;
    }
    if (hm.config.kernel_ch && interface >= 5)
        mask |= HM_NCCL_BIT_KERNEL_CH;
    if (hm.config.kernel_phases && interface >= 7)
        mask |= HM_NCCL_BIT_KERNEL_CH | HM_NCCL_BIT_PHASE;
    return mask;
}

/* ---- begin and end ---- */

static uint64_t void_handle(void)
{
    return hm_handle_pack(HM_NT_VOID, hm_slot_serial());
}

static uint32_t define(uint32_t i, const char *name, int32_t n_nodes, uint32_t n_entries)
{
    struct comm *c = &hm_comm[i];
    struct hm_def_comm def = {.hash = c->hash,
                              .crank = c->crank,
                              .n_ranks = c->n_ranks,
                              .n_nodes = n_nodes,
                              .device = c->device,
                              .name = name ? hm_name(name, strlen(name)) : HM_NO_ID,
                              .interface = c->interface,
                              .nccl_version = nccl_version()};
    for (uint32_t k = 0; k < n_entries; k++) /* several ranks of one communicator may live here */
        def.nth += k != i && hm_comm[k].hash == c->hash && hm_comm[k].crank == c->crank &&
                   (k < i || atomic_load(&hm_comm[k].def) != HM_NO_ID);
    return hm_define(HM_DEF_COMM, &def, sizeof(def));
}

uint64_t hm_nccl_init(const struct hm_nccl_init *init, int *mask_p)
{
    *mask_p = 0;
    int awake = !atomic_load(&hm.in_child) && hm_wake(HM_CAUSE_NCCL);
    hm_handle_seed(awake ? hm.view.pool->nonce : (uint64_t)hm_now());
    hm_word_forget();
    if (!awake)
        return void_handle();
    claim(init->crank, init->n_ranks);
    hm_cupti_start();
    if (init->interface < 5)
        hm_call_wanted();

    pthread_mutex_lock(&init_lock);
    uint32_t i = atomic_load_explicit(&n_comms, memory_order_relaxed);
    if (i >= MAX_COMMS || i >= hm.view.n_comms) {
        pthread_mutex_unlock(&init_lock);
        hm_lose(HM_LOST_NCCL_EVICTED, 1);
        return void_handle();
    }
    struct comm *c = &hm_comm[i];
    c->hash = init->hash;
    c->crank = init->crank;
    c->n_ranks = init->n_ranks;
    c->interface = init->interface;
    c->device = current_device();
    uint32_t def =
        init->hash == 0 && init->interface < 4 ? HM_NO_ID : define(i, init->name, init->n_nodes, i);
    atomic_store_explicit(&c->def, def, memory_order_release);
    hm.view.comm[i].comm = def;
    hm.view.comm[i].launch = HM_NO_ID;
    atomic_store(&hm.view.comm[i].alive, 1);
    atomic_store_explicit(&n_comms, i + 1, memory_order_release);
    pthread_mutex_unlock(&init_lock);
    *mask_p = hm_nccl_mask(init->interface);
    return hm_handle_pack(HM_NT_CTX, (uint64_t)i + 1);
}

/* Once per communicator: what v4 says at the start, v1 to v3 say with the first operation, all but
 * the number of ranks. A lock here is a lock once. */
void hm_comm_settle(uint32_t comm, const struct hm_nccl_desc *d, int32_t n_ranks)
{
    struct comm *c = &hm_comm[comm];
    if (!d->comm_hash || atomic_load_explicit(&c->def, memory_order_acquire) != HM_NO_ID)
        return; /* hash 0: a newer NCCL's translation for old plugins */
    pthread_mutex_lock(&init_lock);
    if (atomic_load_explicit(&c->def, memory_order_relaxed) == HM_NO_ID) {
        c->hash = d->comm_hash;
        c->crank = d->rank;
        c->n_ranks = n_ranks;
        claim(c->crank, n_ranks);
        uint32_t def = define(comm, d->comm_name, 0, atomic_load(&n_comms));
        hm.view.comm[comm].comm = def;
        atomic_store_explicit(&c->def, def, memory_order_release);
    }
    pthread_mutex_unlock(&init_lock);
}

void hm_nccl_fini(uint64_t ctx)
{
    uint32_t comm = atomic_load(&hm.in_child) ? HM_NO_ID : hm_comm_of(ctx);
    if (comm != HM_NO_ID) /* late children may follow: the entry stays */
        atomic_store(&hm.view.comm[comm].alive, 0);
}
