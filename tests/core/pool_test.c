/* Pool: layout, cursor, drain, notes, operations, hostile memory. Box: tests/core. */
#include "core/pool.h"

#include "core/config.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct hm_pool_view view;
static int fd;
static uint32_t *drained;
static uint64_t n_taken, sum_taken;

static void make(int64_t bytes)
{
    static struct hm_config config;
    config.pool = bytes;
    n_taken = sum_taken = 0;
    cr_assert_eq(hm_pool_create(&config, &view, &fd), HM_OK);
    drained = calloc(view.n_chunks, sizeof(*drained));
}

static void end(void)
{
    free(drained);
    hm_pool_detach(&view);
    close(fd);
}

static hm_status_t take(void *ctx, uint32_t thread, const struct hm_event *ev, uint32_t n)
{
    (void)ctx;
    (void)thread;
    for (uint32_t i = 0; i < n; i++)
        sum_taken += (uint64_t)ev[i].t_ns;
    n_taken += n;
    return HM_OK;
}

static uint32_t send_some(struct hm_cursor *c, uint32_t n)
{
    uint32_t sent = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct hm_event *ev = hm_event_begin(c);
        if (!ev)
            continue;
        memset(ev, 0, sizeof(*ev));
        ev->t_ns = i;
        ev->kind = HM_EV_MARK;
        hm_event_commit(c);
        sent++;
    }
    return sent;
}

static uint32_t my_tid(void)
{
    return (uint32_t)syscall(SYS_gettid);
}

Test(pool, usual_size_has_the_promised_rooms)
{
    make(64 << 20);
    cr_assert(view.n_chunks >= 745 && view.n_chunks <= 765, "%u", view.n_chunks);
    cr_assert_eq(view.n_threads, 1024);
    cr_assert_eq(view.n_comms, 16384);
    cr_assert_eq(view.n_ops, 32768);
    cr_assert_eq(view.n_spans, 2048);
    cr_assert_eq(view.pool->pid, getpid());
    cr_assert_neq(view.pool->nonce, 0);
    end();
    make(4 << 20);
    cr_assert_geq(view.n_chunks, 8, "%u", view.n_chunks);
    end();
}

Test(pool, events_arrive_and_chunks_come_back)
{
    struct hm_cursor c;
    make(4 << 20);
    cr_assert(hm_cursor_open(&c, &view, my_tid()));
    cr_assert_eq(send_some(&c, 10), 10);
    hm_pool_drain(&view, drained, 0, take, NULL);
    cr_assert(n_taken == 10 && sum_taken == 45);
    cr_assert_gt(hm_pool_fill(&view), 0, "the chunk is still ours");
    cr_assert_eq(send_some(&c, 5), 5);
    hm_pool_drain(&view, drained, 0, take, NULL);
    cr_assert(n_taken == 15 && sum_taken == 55);
    hm_cursor_close(&c);
    hm_pool_drain(&view, drained, 0, take, NULL);
    cr_assert_eq(n_taken, 15);
    cr_assert_eq(hm_pool_fill(&view), 0);
    end();
}

Test(pool, full_is_counted_and_ends_when_the_writer_frees)
{
    struct hm_cursor c;
    make(4 << 20);
    uint32_t room = view.n_chunks * HM_CHUNK_EVENTS;
    cr_assert(hm_cursor_open(&c, &view, my_tid()));
    cr_assert_eq(send_some(&c, room + 100), room);
    cr_assert_eq(atomic_load(&view.pool->lost[HM_LOST_POOL_FULL]), 100);
    hm_pool_drain(&view, drained, 0, take, NULL);
    cr_assert_eq(n_taken, room);
    cr_assert_eq(send_some(&c, 50), 50);
    hm_pool_drain(&view, drained, 1, take, NULL);
    cr_assert_eq(n_taken, room + 50);
    cr_assert_eq(hm_pool_fill(&view), 0);
    end();
}

static hm_status_t refuse(void *ctx, uint32_t thread, const struct hm_event *ev, uint32_t n)
{
    (void)thread;
    (void)ev;
    (void)n;
    ++*(int *)ctx;
    return HM_E_IO;
}

Test(pool, what_the_caller_refuses_is_shown_again)
{
    struct hm_cursor c;
    int asked = 0;
    make(4 << 20);
    cr_assert(hm_cursor_open(&c, &view, my_tid()));
    send_some(&c, 7);
    cr_assert_eq(hm_pool_drain(&view, drained, 1, refuse, &asked), HM_E_IO);
    cr_assert_eq(asked, 1);
    cr_assert_eq(hm_pool_drain(&view, drained, 1, take, NULL), HM_OK);
    cr_assert_eq(n_taken, 7);
    end();
}

static void *send_and_end(void *arg)
{
    struct hm_cursor *c = arg; /* not closed: as if the destructor had not run */
    hm_cursor_open(c, &view, my_tid());
    send_some(c, 3);
    return NULL;
}

Test(pool, a_dead_threads_chunk_is_freed)
{
    struct hm_cursor mine, dead;
    pthread_t thread;
    make(4 << 20);
    cr_assert(hm_cursor_open(&mine, &view, my_tid()));
    send_some(&mine, 4);
    pthread_create(&thread, NULL, send_and_end, &dead);
    pthread_join(thread, NULL);
    uint32_t both = hm_pool_fill(&view);
    /* the kernel forgets a thread a moment after its join */
    for (int i = 0; i < 1000 && hm_pool_fill(&view) == both; i++) {
        hm_pool_drain(&view, drained, 0, take, NULL);
        usleep(1000);
    }
    cr_assert_eq(n_taken, 7);
    cr_assert_eq(atomic_load(&dead.chunk->state), HM_CHUNK_FREE);
    cr_assert_eq(atomic_load(&mine.chunk->state), HM_CHUNK_OWNED);
    end();
}

Test(pool, thread_table_full_is_counted)
{
    static struct hm_cursor c[2000];
    make(4 << 20);
    for (uint32_t i = 0; i < view.n_threads; i++)
        cr_assert(hm_cursor_open(&c[i], &view, 1000 + i));
    cr_assert_not(hm_cursor_open(&c[view.n_threads], &view, 7));
    cr_assert_eq(atomic_load(&view.pool->lost[HM_LOST_THREADS_FULL]), 1);
    hm_cursor_close(&c[5]);
    cr_assert(hm_cursor_open(&c[view.n_threads], &view, 7));
    cr_assert_eq(c[view.n_threads].thread, 5);
    end();
}

Test(pool, notes_are_cut_and_bounded)
{
    char text[400];
    make(4 << 20);
    memset(text, 'n', sizeof(text));
    text[399] = 0;
    for (uint32_t i = 0; i < view.n_notes + 10; i++)
        hm_pool_note(&view, HM_E_IO, text);
    cr_assert_eq(atomic_load(&view.pool->n_notes), view.n_notes);
    cr_assert_eq(strlen(view.note[0].text), 243);
    cr_assert_eq(view.note[view.n_notes - 1].status, HM_E_IO);
    cr_assert_gt(view.note[0].t_ns, 0);
    end();
}

Test(pool, operation_slots)
{
    struct hm_event evicted, copy;
    make(4 << 20);
    uint64_t first = 5, again = 5 + view.n_ops;
    struct hm_op_slot *slot = hm_op_take(&view, first, &evicted);
    cr_assert(slot && !evicted.kind);
    slot->ev.kind = HM_EV_NCCL_COLL;
    slot->ev.t_ns = 77;
    cr_assert_eq(hm_op_peek(&view, 5, &copy), 0, "somebody works on it");
    cr_assert_null(hm_op_hold(&view, first));
    cr_assert_null(hm_op_take(&view, again, &evicted));
    hm_op_put(slot, 0);
    cr_assert_eq(hm_op_peek(&view, 5, &copy), 1);
    cr_assert(copy.kind == HM_EV_NCCL_COLL && copy.t_ns == 77);
    cr_assert_null(hm_op_hold(&view, again), "another serial of the same slot");
    /* the next operation of the slot pushes the open one out and hands it to the caller */
    slot = hm_op_take(&view, again, &evicted);
    cr_assert(slot && evicted.kind == HM_EV_NCCL_COLL && evicted.t_ns == 77);
    cr_assert_eq(slot->ev.kind, 0);
    slot->ev.kind = HM_EV_NCCL_P2P;
    hm_op_put(slot, 0);
    cr_assert_null(hm_op_hold(&view, first), "stale");
    slot = hm_op_hold(&view, again);
    cr_assert_not_null(slot);
    hm_op_put(slot, 1);
    cr_assert_eq(hm_op_peek(&view, 5, &copy), 0);
    cr_assert_null(hm_op_hold(&view, again), "ended");
    end();
}

/* A memory file with these bytes, without the seals of ours. */
static int copy_of(const uint8_t *bytes, size_t n)
{
    int f = (int)syscall(SYS_memfd_create, "copy", 1);
    cr_assert(f >= 0 && write(f, bytes, n) == (ssize_t)n);
    return f;
}

static void use(struct hm_pool_view *v)
{
    struct hm_cursor c;
    struct hm_event ev;
    uint32_t *index = calloc(v->n_chunks, sizeof(*index));
    hm_pool_fill(v);
    if (hm_cursor_open(&c, v, my_tid()))
        send_some(&c, 3);
    hm_pool_drain(v, index, 0, take, NULL);
    hm_pool_drain(v, index, 1, take, NULL);
    hm_pool_note(v, HM_OK, "x");
    for (uint32_t i = 0; i < v->n_ops; i++)
        hm_op_peek(v, i, &ev);
    hm_defs_intern(&v->defs, HM_DEF_STRING, "a name", 6);
    free(index);
}

Test(pool, every_flipped_bit_of_the_head_is_refused_or_harmless, .timeout = 100)
{
    make(4 << 20);
    struct hm_cursor c;
    cr_assert(hm_cursor_open(&c, &view, my_tid()));
    send_some(&c, 2000);
    const size_t bytes = 4 << 20;
    uint8_t *copy = malloc(bytes);
    memcpy(copy, view.pool, bytes);
    int f = copy_of(copy, bytes);
    uint32_t n_refused = 0, n_attached = 0;
    const size_t head = offsetof(struct hm_pool, known) + 8;
    for (size_t bit = 0; bit < head * 8; bit++) {
        uint8_t was = copy[bit / 8], flipped = was ^ (uint8_t)(1 << bit % 8);
        struct hm_pool_view v;
        cr_assert_eq(pwrite(f, &flipped, 1, (off_t)(bit / 8)), 1);
        if (hm_pool_attach(f, &v)) {
            n_refused++;
        } else {
            if (n_attached++ % 8 == 0)
                use(&v);
            hm_pool_detach(&v);
        }
        cr_assert_eq(pwrite(f, &was, 1, (off_t)(bit / 8)), 1);
    }
    cr_assert(n_refused > 400 && n_attached > 50, "%u %u", n_refused, n_attached);
    close(f);
    free(copy);
    end();
}

Test(pool, random_damage_anywhere_is_harmless, .timeout = 100)
{
    make(4 << 20);
    const size_t bytes = 4 << 20;
    uint8_t *copy = malloc(bytes);
    memcpy(copy, view.pool, bytes);
    srand(20);
    for (int round = 0; round < 30; round++) {
        int f = copy_of(copy, bytes);
        struct hm_pool_view v;
        for (int i = 0; i < 20000; i++) { /* past the checked head: what may change under way */
            uint8_t b = (uint8_t)rand();
            off_t at = (off_t)(512 + (size_t)rand() % (bytes - 512));
            if (pwrite(f, &b, 1, at) != 1)
                cr_assert_fail("pwrite");
        }
        if (!hm_pool_attach(f, &v)) {
            /* states and counts of chunks beyond all bounds */
            for (uint32_t i = 0; i < v.n_chunks; i++) {
                atomic_store(&v.chunk[i].state, (uint32_t)rand() % 5);
                atomic_store(&v.chunk[i].n, (uint32_t)rand());
                v.chunk[i].thread = (uint32_t)rand();
                atomic_store(&v.chunk[i].tid, (uint32_t)rand());
            }
            use(&v);
            hm_pool_detach(&v);
        }
        close(f);
    }
    free(copy);
    end();
}

Test(pool, wrong_files_are_refused)
{
    struct hm_pool_view v;
    make(4 << 20);
    uint8_t *copy = malloc(4 << 20);
    memcpy(copy, view.pool, 4 << 20);
    int f = copy_of(copy, (4 << 20) - 4096);
    cr_assert_eq(hm_pool_attach(f, &v), HM_E_DATA, "cut short");
    close(f);
    f = copy_of(copy, 100);
    cr_assert_eq(hm_pool_attach(f, &v), HM_E_DATA, "smaller than its head");
    close(f);
    cr_assert_lt(hm_pool_attach(-1, &v), 0);
    cr_assert_neq(ftruncate(fd, 4096), 0, "sealed: a smaller file would be a SIGBUS in the job");
    free(copy);
    end();
}
