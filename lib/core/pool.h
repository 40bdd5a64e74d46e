/* The pool: one memfd shared by the recorder (producer) and its writer process (consumer).
 *
 * Box: lib/core. Header, definitions, threads, communicators, open operations, notes, chunks.
 * A chunk goes FREE -CAS-> OWNED -> FULL -> FREE; the writer alone frees. All offsets are checked
 * on attach; whoever reads copies first, checks, then uses.
 */
#ifndef HM_POOL_H
#define HM_POOL_H

#include "core/defs.h"
#include "core/event.h"

#include <stdalign.h>

struct hm_config;

enum hm_loss {
    HM_LOST_POOL_FULL,
    HM_LOST_DEFS_FULL,
    HM_LOST_THREADS_FULL,
    HM_LOST_TEXT_CUT,
    HM_LOST_BUDGET,
    HM_LOST_CUPTI_DROPPED,
    HM_LOST_CUPTI_UNREAD,
    HM_LOST_CUPTI_BAD_TIME,
    HM_LOST_NCCL_STALE,
    HM_LOST_NCCL_FOREIGN,
    HM_LOST_NCCL_EVICTED,
    HM_LOST_WRITER_IO,
    HM_LOST_CLOCK,
    HM_LOST_REENTRY,  /* an event begun inside another one of the same thread */
    HM_LOST_TOO_DEEP, /* an open operation below the 28 a thread can show */
    HM_N_LOST
}; /* core/loss.def: id, key, sentence, cure */
enum hm_area_id {
    HM_AREA_DEFS,
    HM_AREA_THREADS,
    HM_AREA_COMMS,
    HM_AREA_OPS,
    HM_AREA_SPANS,
    HM_AREA_NOTES,
    HM_AREA_CHUNKS,
    HM_N_AREAS
};
enum hm_phase {
    HM_PHASE_STARTING,
    HM_PHASE_OPEN,
    HM_PHASE_FINISHING,
    HM_PHASE_CLOSED,
    HM_PHASE_FAILED
};
/* What `hindmost ctl` last said; START: windows no longer count. */
enum hm_order { HM_ORDER_NONE, HM_ORDER_START, HM_ORDER_STOP };
/* What goes on when recording pauses: steps, clocks, losses, what the writer itself tells. */
#define HM_GATE_ALWAYS                                                                            \
    (UINT64_C(1) << HM_EV_STEP | UINT64_C(1) << HM_EV_GAP | UINT64_C(1) << HM_EV_CLOCK_SNAPSHOT | \
     UINT64_C(1) << HM_EV_CLOCK_PROBE | UINT64_C(1) << HM_EV_CLOCK_WINDOW |                       \
     UINT64_C(1) << HM_EV_GPU_ANCHOR | UINT64_C(1) << HM_EV_OPEN)
struct hm_area {
    uint64_t off;
    uint32_t n, item;
};
struct hm_pool { /* offset 0; offsets only, every one checked on attach */
    uint64_t magic;
    uint32_t version, header_bytes;
    uint64_t region_bytes, nonce;
    struct hm_area area[HM_N_AREAS];
    int32_t pid;
    uint32_t uid;
    int64_t start_raw_ns;               /* constant */
    alignas(64) _Atomic uint32_t known; /* bits: which of these the recorder has filled in */
    int32_t rank, n_ranks, local_rank, n_local; /* before HM_KNOWN_RANK: the launcher's word */
    uint32_t domain_leader, n_leaders, leader_index;
    char host[64], boot_id[40], timens[24], run_dir[1024];
    _Atomic uint32_t udp_port;
    uint32_t n_peers;
    uint16_t peer_port[32];
    uint8_t peer_addr[32][16];         /* clock neighbours of this leader, IPv6 form */
    alignas(64) _Atomic uint64_t gate; /* a bit per kind, what is recorded now: want & allow */
    _Atomic int64_t step;
    _Atomic uint64_t want, allow; /* the recorder's windows; the writer's orders and budget */
    _Atomic uint64_t all;         /* what the settings ask for, windows apart */
    _Atomic uint32_t order;       /* enum hm_order, by the writer */
    _Atomic int64_t changed_ns;   /* when the gate last changed */
    alignas(64) _Atomic uint32_t
        phase; /* futex; recorder: STARTING, FINISHING; writer: OPEN, CLOSED, FAILED */
    _Atomic uint32_t free_epoch, n_notes;
    int32_t writer_pid;
    _Atomic int64_t writer_beat_ns;
    _Atomic uint32_t flush_asked, flush_done; /* recorder counts asked up; the writer drains,
                                                 flushes, stores done = asked and wakes its futex */
    alignas(64) _Atomic uint64_t lost[HM_N_LOST];
    alignas(64) char config[1024]; /* settings in force, "key=value\0" */
};
_Static_assert(sizeof(struct hm_pool) <= 4096, "");
enum {
    HM_CHUNK_BYTES = 65536,
    HM_CHUNK_EVENTS = 1023,
    HM_CHUNK_FREE = 0,
    HM_CHUNK_OWNED,
    HM_CHUNK_FULL
};
struct hm_chunk {
    _Atomic uint32_t state, n;
    uint32_t thread;
    _Atomic uint32_t tid; /* of the owner; 0 while it is not known */
    uint64_t serial, pad2[5];
    struct hm_event ev[HM_CHUNK_EVENTS];
}; /* n: committed, release store */
struct hm_open_range {
    int64_t t_ns;
    uint64_t payload;
    uint32_t name, domain, category, color;
}; /* 32 */
enum { HM_OPEN_ROWS = 28 };
struct hm_thread {
    _Atomic uint32_t tid;
    _Atomic uint32_t depth; /* low byte: rows in `open`; above it: how often they changed, so that
                             * a reader sees that something happened while it copied */
    uint32_t track, pad;
    uint64_t n_chunks;
    _Atomic int64_t last_ns;
    uint64_t pad2[4];
    struct hm_open_range open[HM_OPEN_ROWS];
    uint8_t payload_type[HM_OPEN_ROWS]; /* its top bit is the owner's */
    uint8_t owner[HM_OPEN_ROWS];        /* who pushed, for his pop */
    uint64_t pad3;
}; /* 1024 */
struct hm_comm_slot {
    uint32_t comm;
    _Atomic uint32_t alive, n_called, n_launched, n_coll, n_stopped, n_unbound;
    uint32_t launch;
    _Atomic int64_t last_ns;
    uint64_t pad[3];
}; /* 64 */
struct hm_op_slot {
    _Atomic uint64_t serial;
    uint32_t comm_slot, tid;
    int64_t mark_ns[4];
    uint32_t launch, call;
    uint64_t pad;
    struct hm_event ev;
}; /* 128 */
struct hm_note {
    int64_t t_ns;
    int32_t status;
    char text[244];
}; /* 256 */
_Static_assert(sizeof(struct hm_chunk) == HM_CHUNK_BYTES && sizeof(struct hm_thread) == 1024 &&
                   sizeof(struct hm_comm_slot) == 64 && sizeof(struct hm_op_slot) == 128 &&
                   sizeof(struct hm_note) == 256,
               "");
struct hm_pool_view {
    struct hm_pool *pool;
    struct hm_defs defs;
    struct hm_thread *thread;
    struct hm_comm_slot *comm;
    struct hm_op_slot *op, *span;
    struct hm_note *note;
    struct hm_chunk *chunk;
    uint32_t n_threads, n_comms, n_ops, n_spans, n_notes, n_chunks;
    uint64_t bytes; /* of the mapping */
};                  /* this process's pointers */
struct hm_cursor {
    struct hm_event *next, *end;
    struct hm_chunk *chunk;
    struct hm_pool_view *view;
    uint32_t thread, hint, epoch, busy;
};                                         /* 48: a producer's place, TLS (initial-exec) */
int hm_cursor_refill(struct hm_cursor *c); /* out of line; 0 = nothing free, counted, not searched
                                              again before free_epoch moves */
static inline struct hm_event *hm_event_begin(struct hm_cursor *c)
{
    return c->next != c->end || hm_cursor_refill(c) ? c->next : NULL;
}
static inline void hm_event_commit(struct hm_cursor *c)
{
    c->next++;
    atomic_store_explicit(&c->chunk->n, (uint32_t)(c->next - c->chunk->ev), memory_order_release);
}

/* bits of hm_pool.known */
enum { HM_KNOWN_RANK = 1, HM_KNOWN_HOST = 2, HM_KNOWN_DIR = 4, HM_KNOWN_PEERS = 8 };

/** Creates memfd and view; sizes from config->pool (bytes), less where the limit on file sizes is
 *  lower (HM_E_LIMIT: below 4 MiB). Owner: caller closes fd, unmaps with
 *  hm_pool_detach(). */
hm_status_t hm_pool_create(const struct hm_config *config, struct hm_pool_view *view_p, int *fd_p);
/** Maps and checks a pool made by another process. HM_E_DATA when anything does not fit. */
hm_status_t hm_pool_attach(int fd, struct hm_pool_view *view_p);
void hm_pool_detach(struct hm_pool_view *view);

/** Opens a producer's place for one thread (takes a row of the thread table). 0 = table full,
 *  counted in lost[HM_LOST_THREADS_FULL]. */
int hm_cursor_open(struct hm_cursor *cursor, struct hm_pool_view *view, uint32_t tid);
/** Hands the last chunk over and frees the thread row. */
void hm_cursor_close(struct hm_cursor *cursor);

/** Called for each run of committed events that have not been drained yet. The events are a copy
 *  or lie in memory that this process alone reads; `thread` is the row in the thread table. */
typedef hm_status_t (*hm_drain_func_t)(void *ctx, uint32_t thread, const struct hm_event *ev,
                                       uint32_t n);
/** Drains every OWNED and FULL chunk once, frees the FULL ones. `drained` is the writer's read
 *  index, [n_chunks], zeroed by the caller before the first call. `final`: the producer is gone,
 *  OWNED counts as FULL. Thread: the writer only. */
hm_status_t hm_pool_drain(struct hm_pool_view *view, uint32_t *drained, int final,
                          hm_drain_func_t func, void *ctx);
/** Bytes of chunks not free, in parts per 1000 (for the writer's pace). */
uint32_t hm_pool_fill(const struct hm_pool_view *view);
/** Adds a note (text cut at 243 bytes) for the other side to read. */
void hm_pool_note(struct hm_pool_view *view, hm_status_t status, const char *text);

/* Operations under way (inflight.c): slot by serial. The serial holds BUSY in its top bit
 * while somebody works on the slot. */
#define HM_OP_BUSY (UINT64_C(1) << 63)
/** Claims the slot of a new serial and clears it (an old occupant is returned through evicted_p,
 * *evicted_p.kind = 0 when there was none). NULL = busy, count and go on. */
struct hm_op_slot *hm_op_take(struct hm_pool_view *view, uint64_t serial,
                              struct hm_event *evicted_p);
/** Holds the slot of a running operation; NULL = not there any more (stale). */
struct hm_op_slot *hm_op_hold(struct hm_pool_view *view, uint64_t serial);
/** Lets go; done = the operation has ended and the slot is free. */
static inline void hm_op_put(struct hm_op_slot *slot, int done)
{
    uint64_t serial = atomic_load_explicit(&slot->serial, memory_order_relaxed);
    atomic_store_explicit(&slot->serial, done ? 0 : serial & ~HM_OP_BUSY, memory_order_release);
}
/** Slot of a serial, by the bits that fit into the table: a division would cost as much as all the
 *  rest. The slots above the largest power of two stay empty. */
static inline struct hm_op_slot *hm_op_at(const struct hm_pool_view *view, uint64_t serial)
{
    return &view->op[serial & (0x7fffffffU >> __builtin_clz(view->n_ops))];
}
/** Copies the event of slot i when an operation is open there; 0 = none. Thread: the writer. */
int hm_op_peek(const struct hm_pool_view *view, uint32_t i, struct hm_event *copy_p);
/** The same for spans, which begin on one thread and may end on another (NVTX start and end): a
 *  table of their own, so that neither pushes the other out. */
struct hm_op_slot *hm_span_take(struct hm_pool_view *view, uint64_t serial,
                                struct hm_event *evicted_p);
struct hm_op_slot *hm_span_hold(struct hm_pool_view *view, uint64_t serial);
int hm_span_peek(const struct hm_pool_view *view, uint32_t i, struct hm_event *copy_p);
/** Copies the open ranges of a thread row as events of duration HM_DUR_OPEN; returns how many. What
 *  changes all the time gives 0 after some tries. Thread: the writer. */
uint32_t hm_open_peek(const struct hm_thread *row, struct hm_event copy_p[HM_OPEN_ROWS]);

/** gate = want & allow. Both sides call it after they changed their word; whoever comes last sees
 *  both. */
void hm_gate_apply(struct hm_pool *pool);

/** Key of a loss as in the report's JSON, sentence and cure (core/loss.def). */
const char *hm_loss_key(enum hm_loss loss);
const char *hm_loss_text(enum hm_loss loss);
const char *hm_loss_cure(enum hm_loss loss);

#endif
