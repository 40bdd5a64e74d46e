/* Finds, loads and starts a profiler plugin as the release of the scenario does.
 *
 * Box: tests/vgpu. Threads: as NCCL: init threads, application threads, the progress thread.
 * Each release tries the newest interface it knows and then all older ones; the first symbol wins.
 * The events themselves: nccl_events.c.
 */
#include "nccl_inside.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { OPS_NAME = 0, OPS_INIT = 8, OPS_START = 16, OPS_STOP = 24, OPS_STATE = 32, OPS_FINI = 40 };

typedef void (*log_func_t)(int level, unsigned long subsys, const char *file, int line,
                           const char *fmt, ...);
typedef int (*init_v1_t)(void **ctx, int *mask);
typedef int (*init_v4_t)(void **ctx, int *mask, const char *name, uint64_t hash, int n_nodes,
                         int n_ranks, int rank, log_func_t log);
typedef int (*init_v5_t)(void **ctx, uint64_t id, int *mask, const char *name, int n_nodes,
                         int n_ranks, int rank, log_func_t log);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *library;
static const uint8_t *ops;
static int version, n_users, gave_up;
static int event_mask; /* one for the process; the plugin holds a pointer to it */

static void *member(int at)
{
    void *p;
    memcpy(&p, ops + at, sizeof p);
    return p;
}

int nccl_profiler_native(void)
{
    static const int first[] = {0, 22300, 22400, 22600, 22700, 22800, 22900, 23100};
    int v = 7;
    while (v > 0 && nccl_release() < first[v]) /* 0: before 2.23, none */
        v--;
    return v;
}

int nccl_profiler_version(void)
{
    return version;
}

/* ---- loading ---- */

static void *open_named(const char *name)
{
    void *lib = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!lib)
        nccl_log(3, "PROFILER/Plugin: %s", dlerror());
    return lib;
}

static void *open_library(void)
{
    const char *s = getenv("NCCL_PROFILER_PLUGIN");
    int release = nccl_release();
    char name[256 + 32];
    if (!s || !*s)
        return open_named("libnccl-profiler.so");
    if (!strcasecmp(s, "none") && release >= 22800)
        return NULL;
    int broken = release >= 22700 && release <= 22703; /* takes no path */
    if (!strncmp(s, "STATIC_PLUGIN", 13) && !broken)
        return dlopen(NULL, RTLD_NOW | RTLD_LOCAL);
    if (release >= 22600 && strlen(s) > 254) { /* cut, so it will not be found */
        snprintf(name, sizeof name, "%.254s", s);
        return open_named(name);
    }
    void *lib = broken && strncmp(s, "libnccl-profiler", 16) ? NULL : open_named(s);
    if (lib || release < 22600)
        return lib;
    snprintf(name, sizeof name, "libnccl-profiler-%.200s.so", s);
    return open_named(name);
}

static void load(void)
{
    library = open_library();
    for (int v = nccl_profiler_native(); library && v >= 1 && !ops; v--) {
        char symbol[32];
        snprintf(symbol, sizeof symbol, "ncclProfiler_v%d", v);
        version = v;
        __atomic_store_n(&ops, dlsym(library, symbol), __ATOMIC_RELEASE);
    }
    if (ops) {
        nccl_log(3, "PROFILER/Plugin: loaded %s (v%d)", (const char *)member(OPS_NAME), version);
        return;
    }
    if (library)
        dlclose(library);
    library = NULL;
    gave_up = 1; /* for the rest of the process */
}

static void plugin_log(int level, unsigned long subsys, const char *file, int line, const char *fmt,
                       ...) __attribute__((format(printf, 5, 6)));
static void plugin_log(int level, unsigned long subsys, const char *file, int line, const char *fmt,
                       ...)
{
    char text[400];
    va_list ap;
    (void)subsys;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    nccl_log(level, "%s:%d %s", file, line, text);
}

/* Called by the init thread, outside any lock. */
static int call_init(ncclComm_t c)
{
    void *f = member(OPS_INIT);
    const char *name = nccl_release() < 22700 ? NULL : c->comm_name;
    if (version < 4)
        return ((init_v1_t)(uintptr_t)f)(&c->profiler, &event_mask);
    if (version == 4)
        return ((init_v4_t)(uintptr_t)f)(&c->profiler, &event_mask, name, c->hash, c->n_nodes,
                                         c->n_ranks, c->rank, plugin_log);
    int rc = ((init_v5_t)(uintptr_t)f)(&c->profiler, c->hash, &event_mask, name, c->n_nodes,
                                       c->n_ranks, c->rank, plugin_log);
    if (version == 5 && nccl_profiler_native() > 5)
        event_mask &= ~(EV_CE_COLL | EV_CE_SYNC | EV_CE_BATCH);
    return rc;
}

void nccl_profiler_init(ncclComm_t c)
{
    if (!nccl_profiler_native())
        return;
    pthread_mutex_lock(&lock);
    if (!ops && !gave_up)
        load();
    int have = ops != NULL;
    n_users += have;
    pthread_mutex_unlock(&lock);
    if (!have)
        return;
    c->profiled = 1;
    if (call_init(c)) { /* as 2.28: goes on, events keep coming with a NULL context */
        nccl_log(3, "PROFILER/Plugin: init failed, continue without profiler");
        c->profiler = NULL;
    }
}

static void call_finalize(void *ctx)
{
    ((int (*)(void *))(uintptr_t)member(OPS_FINI))(ctx);
}

void nccl_profiler_finalize(ncclComm_t c)
{
    if (!c->profiled)
        return;
    if (c->profiler)
        call_finalize(c->profiler);
    if (nccl_with("late")) /* a proxy thread that a child communicator shares goes on */
        nccl_ev_late(c);
    c->profiled = 0;
    pthread_mutex_lock(&lock);
    if (--n_users == 0) {
        dlclose(library);
        library = NULL;
        ops = NULL;
        event_mask = 0;
    }
    pthread_mutex_unlock(&lock);
}

int nccl_profiler_mask(void)
{
    int mask = __atomic_load_n(&event_mask, __ATOMIC_RELAXED);
    return __atomic_load_n(&ops, __ATOMIC_ACQUIRE) ? mask : 0;
}

/* ---- the plugin's functions ---- */

void *nccl_plugin_start(void *ctx, void *descr)
{
    void *handle = NULL;
    ((int (*)(void *, void **, void *))(uintptr_t)member(OPS_START))(ctx, &handle, descr);
    return handle;
}

void nccl_plugin_stop(void *event)
{
    ((int (*)(void *))(uintptr_t)member(OPS_STOP))(event);
}

void nccl_plugin_state(void *event, int state, void *args)
{
    ((int (*)(void *, int, void *))(uintptr_t)member(OPS_STATE))(event, state, args);
}
