/* Making, checking and draining the pool; a producer's cursor.
 *
 * Box: lib/core. Producers: any thread of the training process (hm_cursor_*). Consumer: the writer
 * (hm_pool_drain). Invariants: chunk.h. All sizes and offsets in a view were copied out of the
 * mapping and checked; the mapping itself is never believed again.
 */
#include "core/pool.h"

#include "core/chunk.h"
#include "core/clock.h"
#include "core/config.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MAGIC        UINT64_C(0x314c4f4f504d4948) /* "HIMPOOL1" */
#define VERSION      2
#define HEADER_BYTES 4096
#define MIN_BYTES    (INT64_C(4) << 20)
#define MAX_BYTES    (INT64_C(1) << 38)
#define USUAL_BYTES  (INT64_C(64) << 20) /* the areas below are sized for this one */
#define COPY_EVENTS  256

#ifndef MADV_DONTDUMP
#define MADV_DONTDUMP 16
#endif
#ifndef F_ADD_SEALS
#define F_ADD_SEALS 1033
#endif
enum { SEAL_SEAL = 1, SEAL_SHRINK = 2, SEAL_GROW = 4, ALLOW_SEALING = 2, CLOEXEC = 1 };

static uint64_t round_up(uint64_t n, uint64_t unit)
{
    return (n + unit - 1) / unit * unit;
}

static uint32_t scaled(uint32_t usual, int64_t bytes, uint32_t least)
{
    uint64_t n = (uint64_t)usual * (uint64_t)(bytes >> 20) / (uint64_t)(USUAL_BYTES >> 20);
    /* more memory means more events, not ever more names */
    if (n > (uint64_t)usual * 8)
        n = (uint64_t)usual * 8;
    return n < least ? least : (uint32_t)n;
}

static void defs_caps(int64_t bytes, uint32_t cap_p[HM_N_DEFS], uint64_t *arena_p)
{
    cap_p[HM_DEF_STRING] = scaled(65536, bytes, 1024);
    cap_p[HM_DEF_TRACK] = scaled(8192, bytes, 256);
    cap_p[HM_DEF_KERNEL] = scaled(32768, bytes, 512);
    cap_p[HM_DEF_COMM] = scaled(16384, bytes, 256);
    cap_p[HM_DEF_DEVICE] = 64;
    cap_p[HM_DEF_MPI_COMM] = scaled(4096, bytes, 64);
    *arena_p = (uint64_t)scaled(8U << 20, bytes, 128U << 10);
}

static uint64_t place(struct hm_area *area, uint64_t off, uint32_t n, size_t item, uint64_t unit)
{
    off = round_up(off, unit);
    *area = (struct hm_area){.off = off, .n = n, .item = (uint32_t)item};
    return off + (uint64_t)n * item;
}

/* Making the memfd longer than the limit on file sizes would be a SIGXFSZ in the job. */
static int64_t longest_file(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur > (rlim_t)MAX_BYTES)
        return MAX_BYTES;
    return (int64_t)limit.rlim_cur;
}

static int new_memory(uint64_t bytes)
{
    int fd = (int)syscall(SYS_memfd_create, "hindmost-pool", CLOEXEC | ALLOW_SEALING);
    if (fd < 0)
        return -1;
    if (fd < 3) { /* of a program with closed streams, which may still write to them */
        int high = fcntl(fd, F_DUPFD_CLOEXEC, 3);
        close(fd);
        if ((fd = high) < 0)
            return -1;
    }
    if (ftruncate(fd, (off_t)bytes)) {
        close(fd);
        return -1;
    }
    /* a smaller file under a mapping is a SIGBUS in the job */
    fcntl(fd, F_ADD_SEALS, SEAL_SHRINK | SEAL_GROW | SEAL_SEAL);
    return fd;
}

static uint64_t new_nonce(void)
{
    uint64_t nonce = 0;
    if (syscall(SYS_getrandom, &nonce, sizeof(nonce), 1) == (long)sizeof(nonce) && nonce)
        return nonce;
    nonce = (uint64_t)hm_now() * UINT64_C(0x9e3779b97f4a7c15);
    return (nonce ^ (uint64_t)getpid()) | 1;
}

hm_status_t hm_pool_create(const struct hm_config *config, struct hm_pool_view *view_p, int *fd_p)
{
    uint32_t cap[HM_N_DEFS];
    uint64_t arena;
    int64_t bytes = config->pool < MIN_BYTES ? MIN_BYTES : config->pool;
    if (bytes > longest_file())
        bytes = longest_file();
    if (bytes < MIN_BYTES)
        return HM_E_LIMIT;
    bytes &= ~INT64_C(4095);
    defs_caps(bytes, cap, &arena);
    size_t defs_bytes = round_up(hm_defs_size(cap, arena), 64);

    struct hm_area area[HM_N_AREAS];
    uint64_t off = HEADER_BYTES;
    off = place(&area[HM_AREA_DEFS], off, (uint32_t)(defs_bytes / 64), 64, 64);
    off =
        place(&area[HM_AREA_THREADS], off, scaled(1024, bytes, 128), sizeof(struct hm_thread), 64);
    off = place(&area[HM_AREA_COMMS], off, scaled(16384, bytes, 256), sizeof(struct hm_comm_slot),
                64);
    off = place(&area[HM_AREA_OPS], off, scaled(32768, bytes, 1024), sizeof(struct hm_op_slot), 64);
    off = place(&area[HM_AREA_SPANS], off, scaled(2048, bytes, 256), sizeof(struct hm_op_slot), 64);
    off = place(&area[HM_AREA_NOTES], off, 64, sizeof(struct hm_note), 64);
    off = round_up(off, 4096);
    place(&area[HM_AREA_CHUNKS], off, (uint32_t)(((uint64_t)bytes - off) / HM_CHUNK_BYTES),
          HM_CHUNK_BYTES, 4096);

    int fd = new_memory((uint64_t)bytes);
    if (fd < 0)
        return HM_E_SYS;
    struct hm_pool *pool = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (pool == MAP_FAILED) {
        close(fd);
        return HM_E_NOMEM;
    }
    hm_defs_format((uint8_t *)pool + area[HM_AREA_DEFS].off, cap, arena);
    pool->version = VERSION;
    pool->header_bytes = HEADER_BYTES;
    pool->region_bytes = (uint64_t)bytes;
    pool->nonce = new_nonce();
    memcpy(pool->area, area, sizeof(area));
    pool->pid = (int32_t)getpid();
    pool->uid = (uint32_t)getuid();
    pool->start_raw_ns = hm_now();
    pool->rank = pool->n_ranks = pool->local_rank = pool->n_local = -1;
    atomic_store(&pool->free_epoch, 1);
    pool->magic = MAGIC;
    munmap(pool, (size_t)bytes);
    hm_status_t s = hm_pool_attach(fd, view_p); /* one way to make a view, always checked */
    if (s) {
        close(fd);
        return s;
    }
    *fd_p = fd;
    return HM_OK;
}

static int area_fits(const struct hm_area *a, size_t item, uint64_t unit, uint64_t *from,
                     uint64_t bytes)
{
    if (a->item != item || !a->n || a->off % unit || a->off < *from || a->off > bytes ||
        a->n > (bytes - a->off) / item)
        return 0;
    *from = a->off + (uint64_t)a->n * item;
    return 1;
}

static hm_status_t check(void *map, uint64_t bytes, struct hm_pool_view *view_p)
{
    static const uint32_t item[HM_N_AREAS] = {64,
                                              sizeof(struct hm_thread),
                                              sizeof(struct hm_comm_slot),
                                              sizeof(struct hm_op_slot),
                                              sizeof(struct hm_op_slot),
                                              sizeof(struct hm_note),
                                              HM_CHUNK_BYTES};
    struct hm_pool *pool = map;
    struct hm_area area[HM_N_AREAS];
    uint8_t *base = map;
    uint64_t from = HEADER_BYTES;
    if (pool->magic != MAGIC)
        return HM_E_DATA;
    if (pool->version != VERSION)
        return HM_E_VERSION;
    if (pool->header_bytes != HEADER_BYTES || pool->region_bytes != bytes)
        return HM_E_DATA;
    memcpy(area, pool->area, sizeof(area));
    for (int i = 0; i < HM_N_AREAS; i++)
        if (!area_fits(&area[i], item[i], i == HM_AREA_CHUNKS ? 4096 : 64, &from, bytes))
            return HM_E_DATA;
    struct hm_pool_view v;
    memset(&v, 0, sizeof(v));
    hm_status_t s =
        hm_defs_attach(base + area[HM_AREA_DEFS].off, (size_t)area[HM_AREA_DEFS].n * 64, &v.defs);
    if (s)
        return s;
    v.defs.full = &pool->lost[HM_LOST_DEFS_FULL];
    v.pool = pool;
    v.bytes = bytes;
    v.thread = (struct hm_thread *)(void *)(base + area[HM_AREA_THREADS].off);
    v.comm = (struct hm_comm_slot *)(void *)(base + area[HM_AREA_COMMS].off);
    v.op = (struct hm_op_slot *)(void *)(base + area[HM_AREA_OPS].off);
    v.span = (struct hm_op_slot *)(void *)(base + area[HM_AREA_SPANS].off);
    v.note = (struct hm_note *)(void *)(base + area[HM_AREA_NOTES].off);
    v.chunk = (struct hm_chunk *)(void *)(base + area[HM_AREA_CHUNKS].off);
    v.n_threads = area[HM_AREA_THREADS].n;
    v.n_comms = area[HM_AREA_COMMS].n;
    v.n_ops = area[HM_AREA_OPS].n;
    v.n_spans = area[HM_AREA_SPANS].n;
    v.n_notes = area[HM_AREA_NOTES].n;
    v.n_chunks = area[HM_AREA_CHUNKS].n;
    *view_p = v;
    return HM_OK;
}

hm_status_t hm_pool_attach(int fd, struct hm_pool_view *view_p)
{
    int64_t bytes = (int64_t)lseek(fd, 0, SEEK_END);
    if (bytes < 0)
        return HM_E_SYS;
    if (bytes < HEADER_BYTES || bytes > MAX_BYTES)
        return HM_E_DATA;
    void *map = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return HM_E_NOMEM;
    madvise(map, (size_t)bytes, MADV_DONTDUMP);
    hm_status_t s = check(map, (uint64_t)bytes, view_p);
    if (s)
        munmap(map, (size_t)bytes);
    return s;
}

void hm_pool_detach(struct hm_pool_view *view)
{
    if (view->pool)
        munmap(view->pool, (size_t)view->bytes);
    memset(view, 0, sizeof(*view));
}

int hm_cursor_open(struct hm_cursor *cursor, struct hm_pool_view *view, uint32_t tid)
{
    for (uint32_t i = 0; i < view->n_threads; i++) {
        struct hm_thread *row = &view->thread[i];
        uint32_t nobody = 0;
        if (atomic_load_explicit(&row->tid, memory_order_relaxed) ||
            !atomic_compare_exchange_strong(&row->tid, &nobody, tid))
            continue;
        atomic_store_explicit(&row->depth, 0, memory_order_relaxed);
        row->track = HM_NO_ID;
        row->n_chunks = 0;
        memset(cursor, 0, sizeof(*cursor));
        cursor->view = view;
        cursor->thread = i;
        /* threads begin their search apart from each other */
        cursor->hint = (uint32_t)((uint64_t)i * 2654435761U % view->n_chunks);
        return 1;
    }
    atomic_fetch_add_explicit(&view->pool->lost[HM_LOST_THREADS_FULL], 1, memory_order_relaxed);
    return 0;
}

void hm_cursor_close(struct hm_cursor *cursor)
{
    if (!cursor->view)
        return;
    if (cursor->chunk)
        hm_chunk_hand_over(cursor->chunk);
    struct hm_thread *row = &cursor->view->thread[cursor->thread];
    atomic_store_explicit(&row->depth, 0, memory_order_relaxed);
    atomic_store_explicit(&row->tid, 0, memory_order_release);
    memset(cursor, 0, sizeof(*cursor));
}

static void wake_writer(struct hm_pool *pool)
{
    syscall(SYS_futex, &pool->phase, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* Chunks are taken round and round, so a few samples of the ring tell how full it is, where
 * counting would touch hundreds of cache lines. */
static int looks_full(const struct hm_pool_view *view, uint32_t at)
{
    uint32_t taken = 0;
    for (uint32_t k = 1; k <= 4; k++) {
        uint32_t i = (uint32_t)((at + (uint64_t)k * view->n_chunks / 5) % view->n_chunks);
        taken += atomic_load_explicit(&view->chunk[i].state, memory_order_relaxed) != HM_CHUNK_FREE;
    }
    return taken >= 3;
}

int hm_cursor_refill(struct hm_cursor *c)
{
    struct hm_pool_view *view = c->view;
    struct hm_pool *pool = view->pool;
    if (c->chunk) {
        hm_chunk_hand_over(c->chunk);
        c->chunk = NULL;
        c->next = c->end = NULL;
    }
    /* read before the search: a chunk freed while we look is found the next time */
    uint32_t epoch = atomic_load_explicit(&pool->free_epoch, memory_order_acquire);
    if (c->epoch != epoch) {
        for (uint32_t i = 0; i < view->n_chunks; i++) {
            uint32_t at = c->hint;
            struct hm_chunk *chunk = &view->chunk[at];
            c->hint = at + 1 < view->n_chunks ? at + 1 : 0;
            if (!hm_chunk_own(chunk))
                continue;
            struct hm_thread *row = &view->thread[c->thread];
            hm_chunk_sign(chunk, c->thread, atomic_load_explicit(&row->tid, memory_order_relaxed),
                          row->n_chunks++);
            c->chunk = chunk;
            c->next = chunk->ev;
            c->end = chunk->ev + HM_CHUNK_EVENTS;
            c->epoch = 0;
            if (looks_full(view, at))
                wake_writer(pool);
            return 1;
        }
        c->epoch = epoch;
        wake_writer(pool);
    }
    atomic_fetch_add_explicit(&pool->lost[HM_LOST_POOL_FULL], 1, memory_order_relaxed);
    return 0;
}

/* A signal of number 0 asks whether the thread is there; a zombie is, but then the pidfd and the
 * pipe have told. */
static int thread_is_dead(const struct hm_pool *pool, uint32_t tid)
{
    return syscall(SYS_tgkill, pool->pid, tid, 0) != 0 && errno == ESRCH;
}

static hm_status_t drain_chunk(struct hm_pool_view *view, uint32_t i, uint32_t *drained, int final,
                               hm_drain_func_t func, void *ctx)
{
    struct hm_chunk *chunk = &view->chunk[i];
    struct hm_event copy[COPY_EVENTS];
    uint32_t state = hm_chunk_state(chunk);
    if (state == HM_CHUNK_FREE)
        return HM_OK;
    int full = state == HM_CHUNK_FULL || final;
    if (!full) {
        uint32_t tid = hm_chunk_owner(chunk);
        full = tid && thread_is_dead(view->pool, tid);
    }
    uint32_t n = hm_chunk_count(chunk), thread = 0;
    if (n > drained[i]) /* only then has the owner signed for certain */
        thread = chunk->thread < view->n_threads ? chunk->thread : 0;
    while (drained[i] < n) {
        uint32_t part = n - drained[i] < COPY_EVENTS ? n - drained[i] : COPY_EVENTS;
        memcpy(copy, &chunk->ev[drained[i]], part * sizeof(copy[0]));
        hm_status_t s = func(ctx, thread, copy, part);
        if (s)
            return s;
        drained[i] += part;
    }
    if (full) {
        drained[i] = 0;
        hm_chunk_free(chunk);
        atomic_fetch_add_explicit(&view->pool->free_epoch, 1, memory_order_release);
    }
    return HM_OK;
}

hm_status_t hm_pool_drain(struct hm_pool_view *view, uint32_t *drained, int final,
                          hm_drain_func_t func, void *ctx)
{
    for (uint32_t i = 0; i < view->n_chunks; i++) {
        hm_status_t s = drain_chunk(view, i, drained, final, func, ctx);
        if (s)
            return s;
    }
    return HM_OK;
}

uint32_t hm_pool_fill(const struct hm_pool_view *view)
{
    uint64_t used = 0;
    for (uint32_t i = 0; i < view->n_chunks; i++)
        used += atomic_load_explicit(&view->chunk[i].state, memory_order_relaxed) != HM_CHUNK_FREE;
    return (uint32_t)(used * 1000 / view->n_chunks);
}

void hm_pool_note(struct hm_pool_view *view, hm_status_t status, const char *text)
{
    uint32_t i = atomic_load(&view->pool->n_notes);
    do {
        if (i >= view->n_notes)
            return;
    } while (!atomic_compare_exchange_weak(&view->pool->n_notes, &i, i + 1));
    struct hm_note *note = &view->note[i];
    note->status = (int32_t)status;
    snprintf(note->text, sizeof(note->text), "%s", text);
    /* the time is stored last: a note without one is not written yet */
    int64_t now = hm_now();
    __atomic_store_n(&note->t_ns, now ? now : 1, __ATOMIC_RELEASE);
}
