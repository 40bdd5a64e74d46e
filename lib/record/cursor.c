/* A thread's place in the pool, and the calls every source of events makes.
 *
 * Box: lib/record. Any thread of the process, each with a cursor of its own in initial-exec TLS (a
 * lazily allocated TLS block would be a malloc at a thread's first event). Invariant: between
 * hm_begin() and hm_commit() `busy` is set, so that a signal handler or a nested callback that
 * records is dropped and counted instead of tearing the event.
 */
#include "record/record.h"

#include <pthread.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

struct place {
    struct hm_cursor cursor;
    uint32_t track, tid;
    uint32_t depth; /* open operations, also those that found no row */
    uint8_t refused /* no row in the thread table: do not ask again */, has_track;
};
static _Thread_local struct place place;
static pthread_key_t ends; /* its destructor hands the chunk over when a thread ends */
static _Atomic int has_key;

static void thread_ends(void *value)
{
    struct place *p = value;
    if (hm_awake() && p->cursor.view && !p->cursor.busy) {
        hm_cursor_close(&p->cursor);
        memset(&p->cursor, 0, sizeof(p->cursor));
        p->refused = 1;
    }
}

void hm_cursor_init(void)
{
    if (!pthread_key_create(&ends, thread_ends))
        atomic_store(&has_key, 1);
}

void hm_cursor_hand_over(void)
{
    thread_ends(&place);
    place.refused = 0;
}

static int take_row(struct place *p)
{
    if (p->refused)
        return 0;
    p->tid = (uint32_t)syscall(SYS_gettid);
    uint32_t busy = p->cursor.busy; /* opening clears it */
    int taken = hm_cursor_open(&p->cursor, &hm.view, p->tid);
    p->cursor.busy = busy;
    if (!taken) {
        p->refused = 1;
        return 0;
    }
    if (p->has_track)
        hm.view.thread[p->cursor.thread].track = p->track;
    if (atomic_load_explicit(&has_key, memory_order_relaxed))
        pthread_setspecific(ends, p);
    return 1;
}

uint32_t hm_track(void)
{
    struct place *p = &place;
    if (p->has_track)
        return p->track;
    if (!hm_awake())
        return HM_NO_ID;
    char name[17] = {0};
    prctl(PR_GET_NAME, name, 0, 0, 0);
    struct hm_def_track def = {.type = HM_TRACK_THREAD,
                               .name = hm_name(name, strlen(name)),
                               .device = HM_NO_ID,
                               .context = HM_NO_ID,
                               .stream = HM_NO_ID,
                               .tid = (uint32_t)syscall(SYS_gettid)};
    p->track = hm_define(HM_DEF_TRACK, &def, sizeof(def));
    p->has_track = 1;
    if (p->cursor.view)
        hm.view.thread[p->cursor.thread].track = p->track;
    return p->track;
}

void hm_lose(enum hm_loss cause, uint64_t n)
{
    if (hm_awake())
        atomic_fetch_add_explicit(&hm.view.pool->lost[cause], n, memory_order_relaxed);
}

struct hm_event *hm_begin(unsigned kind)
{
    struct place *p = &place;
    /* acquire: behind the pointer all that waking has made may be read */
    const _Atomic uint64_t *gate = atomic_load_explicit(&hm.gate, memory_order_acquire);
    if (!(atomic_load_explicit(gate, memory_order_relaxed) >> kind & 1) ||
        !(atomic_load_explicit(&hm.view.pool->gate, memory_order_relaxed) >> kind & 1))
        return NULL;
    if (p->cursor.busy) {
        hm_lose(HM_LOST_REENTRY, 1);
        return NULL;
    }
    p->cursor.busy = 1;
    atomic_signal_fence(memory_order_seq_cst);
    struct hm_event *ev = NULL;
    if (p->cursor.view || take_row(p))
        ev = hm_event_begin(&p->cursor);
    if (!ev) {
        p->cursor.busy = 0;
        return NULL;
    }
    memset(ev, 0, sizeof(*ev));
    ev->kind = (uint8_t)kind;
    ev->track = p->has_track ? p->track : hm_track();
    return ev;
}

void hm_commit(void)
{
    struct place *p = &place;
    hm_event_commit(&p->cursor);
    atomic_signal_fence(memory_order_seq_cst);
    p->cursor.busy = 0;
}

uint32_t hm_name(const char *text, size_t len)
{
    if (!hm_awake())
        return HM_NO_ID;
    if (len > 4095) {
        len = 4095;
        hm_lose(HM_LOST_TEXT_CUT, 1);
    }
    return hm_defs_intern(&hm.view.defs, HM_DEF_STRING, text, (uint32_t)len);
}

uint32_t hm_define(enum hm_def_kind kind, const void *bytes, uint32_t len)
{
    if (!hm_awake())
        return HM_NO_ID;
    return hm_defs_intern(&hm.view.defs, kind, bytes, len);
}

void hm_open_push(uint32_t name, uint32_t domain, int64_t t_ns)
{
    struct place *p = &place;
    if (!p->cursor.view && !take_row(p))
        return;
    if (!p->has_track)
        hm_track();
    struct hm_thread *row = &hm.view.thread[p->cursor.thread];
    uint32_t cap = sizeof(row->open) / sizeof(row->open[0]);
    if (p->depth < cap) {
        row->open[p->depth] = (struct hm_open_range){.t_ns = t_ns, .name = name, .domain = domain};
        atomic_store_explicit(&row->depth, p->depth + 1, memory_order_release);
    } else {
        hm_lose(HM_LOST_TOO_DEEP, 1);
    }
    p->depth++;
}

int hm_open_pop(struct hm_open_range *open_p, uint16_t *depth_p)
{
    struct place *p = &place;
    if (!p->depth || !p->cursor.view)
        return 0;
    struct hm_thread *row = &hm.view.thread[p->cursor.thread];
    uint32_t cap = sizeof(row->open) / sizeof(row->open[0]);
    p->depth--;
    if (p->depth >= cap)
        return 0;
    *open_p = row->open[p->depth];
    *depth_p = (uint16_t)p->depth;
    atomic_store_explicit(&row->depth, p->depth, memory_order_release);
    return 1;
}
