/* Calling another plugin with what NCCL tells us. See chain.h.
 *
 * Box: nccl-plugin. Threads: any. Two tables that are only ever written whole: contexts (entered
 * under a lock, never removed, closed at finalize) and handles (by serial; an old one is written
 * over when 65,536 newer ones have come). Invariants: the other plugin sees its own contexts,
 * handles and parents only; each event is stopped once; nothing of a finalized communicator or of
 * another process is passed on, so that it meets fewer oddities of NCCL than without us.
 */
#include "chain_inside.h"
#include "handle.h"
#include "record/state.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

struct ops { /* the same six words in every version */
    const char *name;
    void *init;
    int (*start)(void *ctx, void **handle, void *descr);
    int (*stop)(void *handle);
    int (*state)(void *handle, int state, void *args);
    int (*finalize)(void *ctx);
};
typedef int (*init_1_t)(void **, int *);
typedef int (*init_4_t)(void **, int *, const char *, uint64_t, int, int, int, hm_nccl_log_t);
typedef int (*init_5_t)(void **, uint64_t, int *, const char *, int, int, int, hm_nccl_log_t);

enum { N_CONTEXTS = 32768, N_LINKS = 65536, DESCR_MAX = 136 };
struct context {
    _Atomic uint64_t ours;
    void *theirs;
    _Atomic int closed;
};
struct link {
    _Atomic uint64_t ours; /* 0 while it is being written */
    void *theirs;
    uint32_t context;
    _Atomic uint32_t stopped;
};
_Atomic int hm_chain_is_on;
static const struct ops *ops; /* constant once hm_chain_is_on */
static struct context contexts[N_CONTEXTS];
static struct link links[N_LINKS];
static _Atomic uint32_t n_contexts;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* init alone */
static int tried;
static _Atomic int their_mask, seen_mask; /* they may write it whenever they like */
static int our_mask;
static _Atomic(int *) nccl_mask; /* NULL when no communicator holds libnccl any more */
static _Atomic uint32_t n_alive;

/* ---- loading ---- */

static void say_which(void *lib, const char *name, unsigned version)
{
    char has[64] = "";
    for (unsigned v = 1; v <= 7; v++) {
        char symbol[32];
        snprintf(symbol, sizeof(symbol), "ncclProfiler_v%u", v);
        if (dlsym(lib, symbol)) {
            size_t n = strlen(has);
            snprintf(has + n, sizeof(has) - n, "%s%u", n ? ", " : "", v);
        }
    }
    hm_note(HM_OK,
            "%.200s: has interface %s of NCCL's profiler, this NCCL uses %u with us: it does not "
            "run; HINDMOST=off runs it alone",
            name, *has ? has : "no", version);
}

static void load(unsigned version)
{
    char name[1024], full[1100], symbol[32];
    tried = 1;
    if (!hm_chain_find(name))
        return;
    void *lib = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!lib && snprintf(full, sizeof(full), "libnccl-profiler-%s.so", name) > 0)
        lib = dlopen(full, RTLD_NOW | RTLD_LOCAL);
    if (!lib) {
        hm_note(HM_OK,
                "%.200s: the NCCL profiler plugin that was configured cannot be loaded; "
                "recording goes on without it",
                name);
        return;
    }
    snprintf(symbol, sizeof(symbol), "ncclProfiler_v%u", version);
    const struct ops *found = dlsym(lib, symbol);
    if (!found || !found->init || !found->start || !found->stop || !found->state ||
        !found->finalize) {
        say_which(lib, name, version);
        dlclose(lib);
        return;
    }
    ops = found;
    atomic_store(&hm_chain_is_on, 1);
    hm_note(HM_OK, "the NCCL profiler plugin %.200s (%.60s) runs behind this recording", name,
            found->name ? found->name : "no name");
}

/* ---- contexts ---- */

static struct context *context_of(const void *ctx)
{
    uint64_t ours = (uint64_t)(uintptr_t)ctx;
    uint32_t n = atomic_load_explicit(&n_contexts, memory_order_acquire);
    enum hm_nccl_type type;
    uint64_t serial;
    if (hm_handle_unpack(ours, &type, &serial) != HM_HANDLE_OURS)
        return NULL;
    for (uint32_t i = 0; i < N_CONTEXTS && i < n; i++) { /* open addressing: often the first */
        struct context *c = &contexts[(serial + i) % N_CONTEXTS];
        uint64_t found = atomic_load_explicit(&c->ours, memory_order_acquire);
        if (found == ours)
            return atomic_load_explicit(&c->closed, memory_order_relaxed) ? NULL : c;
        if (!found)
            return NULL;
    }
    return NULL;
}

static void enter(const void *ctx, void *theirs)
{
    uint64_t ours = (uint64_t)(uintptr_t)ctx, serial = 0;
    enum hm_nccl_type type;
    uint32_t n = atomic_load(&n_contexts);
    if (n >= N_CONTEXTS / 2 || hm_handle_unpack(ours, &type, &serial) != HM_HANDLE_OURS)
        return; /* its events are not passed on */
    for (uint32_t i = 0;; i++) {
        struct context *c = &contexts[(serial + i) % N_CONTEXTS];
        if (atomic_load(&c->ours))
            continue;
        c->theirs = theirs;
        atomic_store_explicit(&c->ours, ours, memory_order_release);
        break;
    }
    atomic_store_explicit(&n_contexts, n + 1, memory_order_release);
    atomic_fetch_add(&n_alive, 1);
}

void hm_chain_init(void *ctx, int *mask, const struct hm_nccl_init *init, hm_nccl_log_t log)
{
    pthread_mutex_lock(&lock);
    if (!tried)
        load(init->interface);
    pthread_mutex_unlock(&lock);
    if (!hm_chain_on())
        return;
    void *theirs = NULL, *f = ops->init;
    int wanted = atomic_load(&their_mask), rc;
    if (init->interface < 4)
        rc = ((init_1_t)(uintptr_t)f)(&theirs, (int *)&their_mask);
    else if (init->interface == 4)
        rc = ((init_4_t)(uintptr_t)f)(&theirs, (int *)&their_mask, init->name, init->hash,
                                      init->n_nodes, init->n_ranks, init->crank, log);
    else
        rc = ((init_5_t)(uintptr_t)f)(&theirs, init->hash, (int *)&their_mask, init->name,
                                      init->n_nodes, init->n_ranks, init->crank, log);
    if (rc) { /* NCCL itself would crash or go half-deaf after that */
        hm_note(HM_OK,
                "the NCCL profiler plugin behind this recording refused a communicator "
                "(%d); it hears nothing of it",
                rc);
        return;
    }
    pthread_mutex_lock(&lock);
    enter(ctx, theirs);
    wanted = atomic_load(&their_mask);
    if (mask) {
        our_mask |= *mask;
        atomic_store(&seen_mask, wanted);
        __atomic_store_n(mask, our_mask | wanted, __ATOMIC_RELAXED);
        atomic_store(&nccl_mask, mask);
    }
    pthread_mutex_unlock(&lock);
}

void hm_chain_fini(void *ctx)
{
    struct context *c = context_of(ctx);
    if (!c || atomic_exchange(&c->closed, 1))
        return;
    if (atomic_fetch_sub(&n_alive, 1) == 1) /* NCCL may unload itself from here on */
        atomic_store(&nccl_mask, NULL);
    ops->finalize(c->theirs);
}

/* ---- events ---- */

static struct link *link_of(const void *handle)
{
    uint64_t ours = (uint64_t)(uintptr_t)handle, serial;
    enum hm_nccl_type type;
    if (hm_handle_unpack(ours, &type, &serial) != HM_HANDLE_OURS)
        return NULL;
    struct link *l = &links[serial % N_LINKS];
    if (atomic_load_explicit(&l->ours, memory_order_acquire) != ours)
        return NULL;
    return l;
}

static void *theirs_of(const void *handle)
{
    struct link *l = handle ? link_of(handle) : NULL;
    return l ? l->theirs : NULL;
}

/* Bits whose events NCCL would send for a mask: a child brings its parents along. */
static uint64_t with_parents(uint64_t mask)
{
    const uint64_t below = HM_NCCL_BIT_PROXY_OP | HM_NCCL_BIT_PROXY_STEP | HM_NCCL_BIT_KERNEL_CH |
                           HM_NCCL_BIT_NET | HM_NCCL_BIT_PHASE;
    const uint64_t ce = HM_NCCL_BIT_CE_COLL | HM_NCCL_BIT_CE_SYNC | HM_NCCL_BIT_CE_BATCH;
    if (mask & HM_NCCL_BIT_PHASE)
        mask |= HM_NCCL_BIT_KERNEL_CH;
    if (mask & (HM_NCCL_BIT_PROXY_STEP | HM_NCCL_BIT_NET))
        mask |= HM_NCCL_BIT_PROXY_OP | HM_NCCL_BIT_PROXY_STEP;
    if (mask & below)
        mask |= HM_NCCL_BIT_COLL | HM_NCCL_BIT_P2P;
    if (mask & ce)
        mask |= HM_NCCL_BIT_CE_COLL | HM_NCCL_BIT_COLL_API;
    if (mask & HM_NCCL_BIT_COLL)
        mask |= HM_NCCL_BIT_GROUP | HM_NCCL_BIT_COLL_API;
    if (mask & HM_NCCL_BIT_P2P)
        mask |= HM_NCCL_BIT_GROUP | HM_NCCL_BIT_P2P_API;
    if (mask & (HM_NCCL_BIT_COLL_API | HM_NCCL_BIT_P2P_API | HM_NCCL_BIT_LAUNCH))
        mask |= HM_NCCL_BIT_GROUP_API;
    return mask;
}

/* They changed their mask: NCCL is told what both want now. */
static uint64_t mask_now(void)
{
    int now = atomic_load_explicit(&their_mask, memory_order_relaxed);
    if (now != atomic_load_explicit(&seen_mask, memory_order_relaxed)) {
        atomic_store_explicit(&seen_mask, now, memory_order_relaxed);
        int *to = atomic_load(&nccl_mask);
        if (to)
            __atomic_store_n(to, our_mask | now, __ATOMIC_RELAXED);
    }
    return (uint64_t)(uint32_t)now;
}

static void patch(uint8_t *copy, size_t at)
{
    void *p;
    memcpy(&p, copy + at, sizeof(p));
    p = theirs_of(p);
    memcpy(copy + at, &p, sizeof(p));
}

void hm_chain_start(unsigned version, void *ctx, uint64_t made, const void *descr)
{
    static const uint8_t bytes[] = {0, 120, 128, 120, 104, 112, 112, 136};
    enum { AT_PARENT = 8, COLL_GROUP = 104, P2P_GROUP = 64 };
    struct context *c = context_of(ctx);
    enum hm_nccl_type type;
    uint64_t serial, bit = 0;
    _Alignas(8) uint8_t copy[DESCR_MAX];
    if (!c || !descr || hm_handle_unpack(made, &type, &serial) != HM_HANDLE_OURS)
        return;
    memcpy(copy, descr, bytes[version]);
    if (version < 5)
        bit = copy[0];
    else
        memcpy(&bit, copy, sizeof(bit));
    if (!(with_parents(mask_now()) & bit))
        return;
    patch(copy, AT_PARENT);
    if (version >= 5 && bit == HM_NCCL_BIT_COLL)
        patch(copy, COLL_GROUP);
    else if (version >= 5 && bit == HM_NCCL_BIT_P2P)
        patch(copy, P2P_GROUP);
    void *theirs = NULL;
    ops->start(c->theirs, &theirs, copy);
    if (!theirs)
        return;
    struct link *l = &links[serial % N_LINKS];
    atomic_store_explicit(&l->ours, 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    l->theirs = theirs;
    l->context = (uint32_t)(c - contexts);
    atomic_store_explicit(&l->stopped, 0, memory_order_relaxed);
    atomic_store_explicit(&l->ours, made, memory_order_release);
}

static struct link *open_link(const void *handle)
{
    struct link *l = link_of(handle);
    if (!l || atomic_load_explicit(&l->stopped, memory_order_relaxed) ||
        atomic_load_explicit(&contexts[l->context].closed, memory_order_relaxed))
        return NULL;
    return l;
}

void hm_chain_state(void *handle, int state, void *args)
{
    struct link *l = open_link(handle);
    if (l)
        ops->state(l->theirs, state, args);
}

void hm_chain_stop(void *handle)
{
    struct link *l = open_link(handle);
    if (l && !atomic_exchange_explicit(&l->stopped, 1, memory_order_acq_rel))
        ops->stop(l->theirs);
}
