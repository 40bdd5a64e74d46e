/* See recorder_double.h. */
#include "recorder_double.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static _Atomic uint64_t gate;
struct hm_state hm = {.gate = &gate};
struct hm_event double_event[100000];
struct double_claim double_claimed;
int double_n_cupti_starts, double_n_wakes;
int64_t double_pushed[1000];
uint32_t double_n_pushed;
char double_notes[4096];

static uint32_t n_events;
static int off;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local struct hm_event staged;

void double_start(int64_t pool_bytes)
{
    int fd;
    hm.config.pool = pool_bytes;
    hm.config.kernels = 1;
    if (hm_pool_create(&hm.config, &hm.view, &fd)) {
        fprintf(stderr, "no pool\n");
        abort();
    }
    atomic_store(&hm.life, HM_AWAKE);
    atomic_store(&gate, UINT64_MAX);
}

void double_start_off(void)
{
    off = 1;
}

void double_gate(uint64_t kinds)
{
    atomic_store(&gate, kinds);
}

uint32_t double_n_events(void)
{
    return n_events;
}

const struct hm_event *double_nth(unsigned kind, uint32_t n)
{
    for (uint32_t i = 0; i < n_events; i++)
        if (double_event[i].kind == kind && !n--)
            return &double_event[i];
    return NULL;
}

uint32_t double_count(unsigned kind)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < n_events; i++)
        n += double_event[i].kind == kind;
    return n;
}

uint64_t double_lost(enum hm_loss cause)
{
    return atomic_load(&hm.view.pool->lost[cause]);
}

const void *double_def(enum hm_def_kind kind, uint32_t id)
{
    const void *bytes;
    uint32_t len;
    return hm_defs_get(&hm.view.defs, kind, id, &bytes, &len) ? NULL : bytes;
}

const char *double_text(uint32_t id)
{
    static char text[4096];
    const void *bytes;
    uint32_t len;
    if (hm_defs_get(&hm.view.defs, HM_DEF_STRING, id, &bytes, &len))
        return "(none)";
    snprintf(text, sizeof(text), "%.*s", (int)len, (const char *)bytes);
    return text;
}

int hm_wake(enum hm_cause cause)
{
    (void)cause;
    __atomic_fetch_add(&double_n_wakes, 1, __ATOMIC_RELAXED);
    return !off;
}

void hm_claim(int32_t rank, int32_t n_ranks, int32_t local_rank, int32_t n_local)
{
    (void)local_rank;
    (void)n_local;
    pthread_mutex_lock(&lock);
    if (!double_claimed.n++) {
        double_claimed.rank = rank;
        double_claimed.n_ranks = n_ranks;
    }
    pthread_mutex_unlock(&lock);
}

struct hm_event *hm_begin(unsigned kind)
{
    if (!hm_on(kind))
        return NULL;
    memset(&staged, 0, sizeof(staged));
    staged.kind = (uint8_t)kind;
    staged.track = hm_track();
    return &staged;
}

struct hm_event *hm_begin_late(unsigned kind)
{
    memset(&staged, 0, sizeof(staged));
    staged.kind = (uint8_t)kind;
    staged.track = hm_track();
    return &staged;
}

/* Windows as a test sets them: double_windows[i] is open from its first to before its last. */
int64_t double_windows[8][2];

void hm_gate_look(struct hm_gate_view *view, int64_t t_ns)
{
    *view = (struct hm_gate_view){.lo_ns = t_ns, .hi_ns = t_ns + 1};
    for (unsigned i = 0; i < 8; i++)
        if (t_ns >= double_windows[i][0] && t_ns < double_windows[i][1])
            view->gate = UINT64_MAX;
}

void hm_gate_follow(void) {}

void hm_commit(void)
{
    pthread_mutex_lock(&lock);
    if (n_events < sizeof(double_event) / sizeof(double_event[0]))
        double_event[n_events++] = staged;
    pthread_mutex_unlock(&lock);
}

uint32_t hm_name(const char *text, size_t len)
{
    return hm_defs_intern(&hm.view.defs, HM_DEF_STRING, text, (uint32_t)len);
}

uint32_t hm_define(enum hm_def_kind kind, const void *bytes, uint32_t len)
{
    return hm_defs_intern(&hm.view.defs, kind, bytes, len);
}

uint32_t hm_track(void)
{
    struct hm_def_track def = {.type = HM_TRACK_THREAD,
                               .name = hm_name("test", 4),
                               .device = HM_NO_ID,
                               .context = HM_NO_ID,
                               .stream = HM_NO_ID,
                               .tid = (uint32_t)syscall(SYS_gettid)};
    return hm_define(HM_DEF_TRACK, &def, sizeof(def));
}

void hm_lose(enum hm_loss cause, uint64_t n)
{
    if (hm.view.pool)
        atomic_fetch_add(&hm.view.pool->lost[cause], n);
}

void hm_note(hm_status_t status, const char *fmt, ...)
{
    (void)status;
    va_list ap;
    va_start(ap, fmt);
    size_t at = strlen(double_notes);
    vsnprintf(double_notes + at, sizeof(double_notes) - at, fmt, ap);
    va_end(ap);
}

static void push(uint64_t external)
{
    double_pushed[double_n_pushed++] = (int64_t)external;
}
static void pop(uint64_t external)
{
    double_pushed[double_n_pushed++] = -(int64_t)external;
}
static const struct hm_cupti_ops ops = {push, pop, NULL, NULL};

void double_cupti(void)
{
    atomic_store(&hm.cupti, &ops);
}

/* the plugin's tests have no CUPTI source; those of CUPTI bring the real one */
__attribute__((weak)) int hm_cupti_start(void)
{
    __atomic_fetch_add(&double_n_cupti_starts, 1, __ATOMIC_RELAXED);
    return 0;
}
