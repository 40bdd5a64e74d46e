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
    void *name;     /* given by the program before the track was defined */
    uint32_t depth; /* open operations, also those beyond the rows */
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
    uint32_t name_id = p->name ? hm_nvtx_handle_id(p->name) : HM_NO_ID;
    if (name_id == HM_NO_ID) {
        prctl(PR_GET_NAME, name, 0, 0, 0);
        name_id = hm_name(name, strlen(name));
    }
    struct hm_def_track def = {.type = HM_TRACK_THREAD,
                               .name = name_id,
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

void hm_track_name(void *nvtx_handle)
{
    if (!place.has_track)
        place.name = nvtx_handle;
}

void hm_lose(enum hm_loss cause, uint64_t n)
{
    if (hm_awake())
        atomic_fetch_add_explicit(&hm.view.pool->lost[cause], n, memory_order_relaxed);
}

static inline struct hm_event *begin(struct place *p, unsigned kind)
{
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

struct hm_event *hm_begin(unsigned kind)
{
    /* acquire: behind the pointer all that waking has made may be read */
    const _Atomic uint64_t *gate = atomic_load_explicit(&hm.gate, memory_order_acquire);
    if (!(atomic_load_explicit(gate, memory_order_relaxed) >> kind & 1) ||
        !(atomic_load_explicit(&hm.view.pool->gate, memory_order_relaxed) >> kind & 1))
        return NULL;
    return begin(&place, kind);
}

struct hm_event *hm_begin_late(unsigned kind)
{
    return hm_awake() ? begin(&place, kind) : NULL;
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

/* The rows are rewritten only after the word that counts them has changed: a reader that sees the
 * same word before and after has copied what belongs together. */
static void set_depth(struct hm_thread *row, uint32_t rows)
{
    uint32_t before = atomic_load_explicit(&row->depth, memory_order_relaxed);
    atomic_store_explicit(&row->depth, (before & ~UINT32_C(0xff)) + 0x100 + rows,
                          memory_order_release);
    atomic_thread_fence(memory_order_release);
}

int hm_open_push(const struct hm_open_range *open, enum hm_owner owner, unsigned payload_type)
{
    struct place *p = &place;
    if (!p->cursor.view && !take_row(p))
        return -1;
    if (!p->has_track)
        hm_track();
    struct hm_thread *row = &hm.view.thread[p->cursor.thread];
    if (p->depth < HM_OPEN_ROWS) {
        row->open[p->depth] = *open;
        row->payload_type[p->depth] = (uint8_t)payload_type;
        row->owner[p->depth] = (uint8_t)owner;
        set_depth(row, p->depth + 1);
    } else {
        hm_lose(HM_LOST_TOO_DEEP, 1);
    }
    return (int)p->depth++;
}

/* Takes row `at` out of the middle: domains may end in another order than they began. */
static void close_gap(struct hm_thread *row, uint32_t at, uint32_t n)
{
    set_depth(row, at);
    for (uint32_t i = at; i + 1 < n; i++) {
        row->open[i] = row->open[i + 1];
        row->payload_type[i] = row->payload_type[i + 1];
        row->owner[i] = row->owner[i + 1];
    }
    set_depth(row, n - 1);
}

int hm_open_pop(enum hm_owner owner, uint32_t domain, struct hm_open_range *open_p,
                unsigned *payload_type_p)
{
    struct place *p = &place;
    if (!p->depth || !p->cursor.view)
        return -1;
    if (p->depth > HM_OPEN_ROWS) { /* pushed too deep to be kept: the innermost one it must be */
        p->depth--;
        return -1;
    }
    struct hm_thread *row = &hm.view.thread[p->cursor.thread];
    uint32_t at = p->depth;
    while (at-- > 0) {
        if (row->owner[at] != (uint8_t)owner || row->open[at].domain != domain)
            continue;
        *open_p = row->open[at];
        *payload_type_p = row->payload_type[at];
        if (at + 1 == p->depth)
            set_depth(row, at);
        else
            close_gap(row, at, p->depth);
        p->depth--;
        return (int)at;
    }
    return -1;
}
