/* Walks every order in which two producers, the writer and a thread's death can act on the chunks,
 * each action being one of the real steps of core/chunk.h. 3 events, chunks of 1 or 2 events.
 *
 * In every state: the writer sees only events that were committed, each once. In every end: all
 * that were committed have been seen and every chunk is free. Two wrong writers (n before the
 * state; a chunk without a known owner taken for a dead one's) must be caught, so that the walk is
 * known to be able to fail.
 */
#include "check.h"
#include "core/chunk.h"

#include <string.h>

enum { N_PRODUCERS = 2, MAX_CHUNKS = 2, MAX_EVENTS = 2 };
enum p_pc { P_OWN, P_SIGN, P_WRITE, P_COMMIT, P_HAND, P_DONE, P_DEAD };
enum w_pc { W_STATE, W_TID, W_DEAD, W_N, W_TAKE, W_FREE, W_NEXT, W_END };
enum wrong { RIGHT, N_FIRST, UNKNOWN_IS_DEAD };

struct mini_chunk {
    uint8_t state, n, tid, ev[MAX_EVENTS];
};
struct state {
    struct mini_chunk chunk[MAX_CHUNKS];
    struct {
        uint8_t pc, chunk, scan, k, sent;
    } p[N_PRODUCERS];
    struct {
        uint8_t pc, i, state, tid, full, n, final, drained[MAX_CHUNKS];
    } w;
    uint8_t committed, seen, n_deaths;
};

static struct {
    uint32_t n_chunks, n_events;
    int may_die;
    enum wrong wrong;
} model;
static const uint8_t n_to_send[N_PRODUCERS] = {2, 1};
static const uint8_t first_bit[N_PRODUCERS] = {0, 2};
static int violated;

/* The real object, made from the small state before a step and copied back after it. */
static struct hm_chunk real;

static void load(const struct mini_chunk *m)
{
    atomic_store(&real.state, m->state);
    atomic_store(&real.n, m->n);
    atomic_store(&real.tid, m->tid);
    for (int i = 0; i < MAX_EVENTS; i++)
        real.ev[i].t_ns = m->ev[i];
}

static void save(struct mini_chunk *m)
{
    m->state = (uint8_t)atomic_load(&real.state);
    m->n = (uint8_t)atomic_load(&real.n);
    m->tid = (uint8_t)atomic_load(&real.tid);
    for (int i = 0; i < MAX_EVENTS; i++)
        m->ev[i] = (uint8_t)real.ev[i].t_ns;
}

static int stopped(const struct state *s, int p)
{
    return s->p[p].pc == P_DONE || s->p[p].pc == P_DEAD;
}

/* What follows an event that was sent or given up. */
static void p_next(struct state *s, int p)
{
    if (s->p[p].sent == n_to_send[p])
        s->p[p].pc = s->p[p].chunk == 255 ? P_DONE : P_HAND; /* hm_cursor_close */
    else if (s->p[p].chunk == 255)
        s->p[p].pc = P_OWN;
    else
        s->p[p].pc = s->p[p].k < model.n_events ? P_WRITE : P_HAND;
}

static void p_own(struct state *s, int p)
{
    struct mini_chunk *m = &s->chunk[s->p[p].scan];
    load(m);
    if (hm_chunk_own(&real)) {
        save(m);
        s->p[p].chunk = s->p[p].scan;
        s->p[p].scan = s->p[p].k = 0;
        s->p[p].pc = P_SIGN;
    } else if (++s->p[p].scan == model.n_chunks) { /* nothing free: this event is lost */
        s->p[p].scan = 0;
        s->p[p].sent++;
        p_next(s, p);
    }
}

static void p_commit(struct state *s, int p)
{
    struct hm_cursor cursor = {.chunk = &real, .next = real.ev + s->p[p].k};
    hm_event_commit(&cursor);
    s->p[p].k = (uint8_t)(cursor.next - real.ev);
    s->committed |= (uint8_t)(1 << (first_bit[p] + s->p[p].sent));
    s->p[p].sent++;
    p_next(s, p);
}

static void p_step(struct state *s, int p)
{
    if (s->p[p].pc == P_OWN) {
        p_own(s, p);
        return;
    }
    struct mini_chunk *m = &s->chunk[s->p[p].chunk];
    load(m);
    switch (s->p[p].pc) {
    case P_SIGN:
        hm_chunk_sign(&real, (uint32_t)p, (uint32_t)p + 1, 0);
        s->p[p].pc = P_WRITE;
        break;
    case P_WRITE:
        real.ev[s->p[p].k].t_ns = first_bit[p] + s->p[p].sent;
        s->p[p].pc = P_COMMIT;
        break;
    case P_COMMIT:
        p_commit(s, p);
        break;
    default: /* P_HAND */
        hm_chunk_hand_over(&real);
        s->p[p].chunk = 255;
        p_next(s, p);
    }
    save(m);
}

static int tid_is_dead(const struct state *s, uint32_t tid)
{
    return tid && s->p[tid - 1].pc == P_DEAD;
}

static void w_take(struct state *s, const struct mini_chunk *m)
{
    uint8_t *drained = &s->w.drained[s->w.i];
    for (; *drained < s->w.n; (*drained)++) {
        uint8_t bit = (uint8_t)(1 << m->ev[*drained]);
        if (!(s->committed & bit) || (s->seen & bit))
            violated = 1;
        s->seen |= bit;
    }
    s->w.pc = s->w.full ? W_FREE : W_NEXT;
}

static void w_next(struct state *s)
{
    s->w.pc = W_STATE;
    s->w.state = s->w.tid = s->w.full = s->w.n = 0;
    if (++s->w.i < model.n_chunks)
        return;
    s->w.i = 0;
    if (s->w.final)
        s->w.pc = W_END;
    else if (stopped(s, 0) && stopped(s, 1)) /* the process is gone: one more pass */
        s->w.final = 1;
}

static void w_step(struct state *s)
{
    struct mini_chunk *m = &s->chunk[s->w.i];
    load(m);
    switch (s->w.pc) {
    case W_STATE:
        if (model.wrong == N_FIRST && !s->w.n) {
            s->w.n = (uint8_t)(hm_chunk_count(&real) + 1);
            break;
        }
        s->w.state = (uint8_t)hm_chunk_state(&real);
        s->w.full = s->w.state == HM_CHUNK_FULL || s->w.final;
        s->w.pc = s->w.state == HM_CHUNK_FREE ? W_NEXT : s->w.full ? W_N : W_TID;
        break;
    case W_TID:
        s->w.tid = (uint8_t)hm_chunk_owner(&real);
        s->w.pc = W_DEAD;
        break;
    case W_DEAD:
        s->w.full = (uint8_t)tid_is_dead(s, s->w.tid);
        if (model.wrong == UNKNOWN_IS_DEAD && !s->w.tid)
            s->w.full = 1;
        s->w.pc = W_N;
        break;
    case W_N:
        s->w.n = model.wrong == N_FIRST ? (uint8_t)(s->w.n - 1) : (uint8_t)hm_chunk_count(&real);
        s->w.pc = W_TAKE;
        break;
    case W_TAKE:
        w_take(s, m);
        break;
    case W_FREE:
        s->w.drained[s->w.i] = 0;
        hm_chunk_free(&real);
        save(m);
        s->w.pc = W_NEXT;
        break;
    default:
        w_next(s);
    }
}

static void check_end(const struct state *s)
{
    if (s->seen != s->committed)
        violated = 1;
    for (uint32_t i = 0; i < model.n_chunks; i++)
        if (s->chunk[i].state != HM_CHUNK_FREE || s->chunk[i].n || s->chunk[i].tid)
            violated = 1;
}

/* Set of states visited, and those still to be continued. */
enum { TABLE = 1 << 22 };
static struct state *table, *todo;
static uint8_t *used;
static size_t n_states, n_todo;

static void visit(const struct state *s)
{
    uint64_t h = 1469598103934665603U;
    const uint8_t *b = (const uint8_t *)s;
    for (size_t i = 0; i < sizeof(*s); i++)
        h = (h ^ b[i]) * 1099511628211U;
    size_t at = (size_t)(h ^ h >> 31) % TABLE;
    while (used[at] && memcmp(&table[at], s, sizeof(*s)) != 0)
        at = (at + 1) % TABLE;
    if (used[at])
        return;
    CHECK(++n_states < TABLE / 2);
    used[at] = 1;
    table[at] = *s;
    todo[n_todo++] = *s;
}

static size_t walk(uint32_t n_chunks, uint32_t n_events, int may_die, enum wrong wrong)
{
    struct state s;
    size_t n_ends = 0;
    model.n_chunks = n_chunks;
    model.n_events = n_events;
    model.may_die = may_die;
    model.wrong = wrong;
    memset(used, 0, TABLE);
    n_states = n_todo = 0;
    violated = 0;
    memset(&s, 0, sizeof(s));
    for (int p = 0; p < N_PRODUCERS; p++)
        s.p[p].chunk = 255;
    visit(&s);
    while (n_todo && !violated) {
        const struct state now = todo[--n_todo];
        if (now.w.pc == W_END) {
            check_end(&now);
            n_ends++;
            continue;
        }
        for (int p = 0; p < N_PRODUCERS; p++) {
            if (stopped(&now, p))
                continue;
            s = now;
            p_step(&s, p);
            visit(&s);
            if (!model.may_die || now.n_deaths)
                continue;
            s = now;
            s.p[p].pc = P_DEAD;
            s.n_deaths++;
            visit(&s);
        }
        s = now;
        w_step(&s);
        visit(&s);
    }
    return n_ends;
}

int main(void)
{
    table = calloc(TABLE, sizeof(*table));
    todo = calloc(TABLE, sizeof(*todo));
    used = calloc(TABLE, 1);
    CHECK(table && todo && used);
    for (uint32_t n_chunks = 1; n_chunks <= MAX_CHUNKS; n_chunks++) {
        for (uint32_t n_events = 1; n_events <= MAX_EVENTS; n_events++) {
            size_t n_ends = walk(n_chunks, n_events, 1, RIGHT);
            printf("%u chunks of %u: %zu states, %zu ends\n", n_chunks, n_events, n_states, n_ends);
            CHECK(!violated && n_ends > 0);
        }
    }
    walk(2, 2, 1, N_FIRST);
    CHECK(violated);
    walk(2, 2, 0, UNKNOWN_IS_DEAD);
    CHECK(violated);
    free(table);
    free(todo);
    free(used);
    return 0;
}
