/* Stacks of open ranges and calls per thread -> times by name.
 *
 * Box: lib/analysis. Pure. A frame is pushed when its begin is seen, with its end known; frames
 * that have ended are taken out wherever they stand, so that ranges which overlap without nesting
 * do no harm. A call remembers the path of names around it until what it launched has been seen.
 */
#include "analysis/opstats.h"

#include "analysis/host.h"

#include <stdlib.h>
#include <string.h>

enum { THREADS = 64, DEPTH = 64, NODES = 1 << 16, SLOTS = 1 << 16, NAMES = 1 << 16 };

struct name {
    struct hm_opstat s;
    uint32_t step;      /* the step that is being added up */
    int64_t in_step_ns; /* so far */
    uint32_t next;      /* of the same hash, 1 + index */
};
struct node { /* a path: this name inside its parent's */
    uint32_t parent, name, next;
    int64_t device_ns, sync_ns, input_ns, idle_by_ns[HM_IDLE_N], peak_bytes;
};
struct frame {
    int64_t end_ns, covered_ns; /* covered: by inner ones, up to here */
    uint32_t node, name;
    uint8_t is_sync, is_input;
};
struct thread {
    uint32_t track, depth;
    struct frame v[DEPTH];
};
struct slot {
    uint32_t correlation, node, step;
};
struct hm_opstats {
    struct hm_opstats_in in;
    struct thread *thread;
    uint32_t n_threads;
    struct name *name;
    size_t n_names, cap_names;
    uint32_t *name_slot, *node_slot; /* [NAMES], [NODES]: 1 + index */
    struct node *node;
    size_t n_nodes, cap_nodes;
    struct slot *slot;
    uint32_t step; /* in which the host is; HM_NO_ID = none that counts */
    int has_marks, has_memory;
    int64_t memory;
    struct hm_opstat *row;
};

static hm_status_t no_memory(void)
{
    return hm_fail(HM_E_NOMEM, "account", "out of memory");
}

/* Index of a window by step number, or by time; SIZE_MAX = none, or one that is left out. */
static size_t window_of(const struct hm_opstats *o, int by_time, int64_t key)
{
    size_t lo = 0, hi = o->in.n_steps;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        const struct hm_step_window *w = &o->in.step[mid];
        if (by_time ? w->t1_ns <= key : (int64_t)w->step < key)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo == o->in.n_steps || o->in.step[lo].flags)
        return SIZE_MAX;
    const struct hm_step_window *w = &o->in.step[lo];
    return (by_time ? w->t0_ns <= key : (int64_t)w->step == key) ? lo : SIZE_MAX;
}

hm_status_t hm_opstats_create(const struct hm_opstats_in *in, struct hm_opstats **ops_p)
{
    struct hm_opstats *o = calloc(1, sizeof(*o));
    if (!o)
        return no_memory();
    o->in = *in;
    o->thread = calloc(THREADS, sizeof(*o->thread));
    o->name_slot = calloc(NAMES, sizeof(*o->name_slot));
    o->node_slot = calloc(NODES, sizeof(*o->node_slot));
    o->slot = calloc(SLOTS, sizeof(*o->slot));
    o->step = HM_NO_ID;
    /* without marks there is one window, and all of it counts */
    if (in->n_steps == 1 && !in->step[0].flags)
        o->step = in->step[0].step;
    if (!o->thread || !o->name_slot || !o->node_slot || !o->slot) {
        hm_opstats_destroy(o);
        return no_memory();
    }
    *ops_p = o;
    return HM_OK;
}

void hm_opstats_destroy(struct hm_opstats *o)
{
    if (!o)
        return;
    free(o->thread);
    free(o->name);
    free(o->name_slot);
    free(o->node_slot);
    free(o->node);
    free(o->slot);
    free(o->row);
    free(o);
}

/* --- tables ------------------------------------------------------------------------------------
 */

static uint32_t hash_of(uint32_t a, uint32_t b)
{
    uint64_t h = ((uint64_t)a << 32 | b) * UINT64_C(0x9E3779B97F4A7C15);
    return (uint32_t)(h >> 40);
}

static int room(void **v_p, size_t *cap_p, size_t n, size_t size)
{
    if (n < *cap_p)
        return 1;
    size_t cap = *cap_p ? 2 * *cap_p : 256;
    void *v = realloc(*v_p, cap * size);
    if (!v)
        return 0;
    *v_p = v;
    *cap_p = cap;
    return 1;
}

/* Index of a name; HM_NO_ID = the table is full. */
static uint32_t name_of(struct hm_opstats *o, uint32_t kind, uint32_t name)
{
    uint32_t *head = &o->name_slot[hash_of(kind, name) % NAMES];
    for (uint32_t i = *head; i; i = o->name[i - 1].next)
        if (o->name[i - 1].s.kind == kind && o->name[i - 1].s.name == name)
            return i - 1;
    if (o->n_names >= NAMES ||
        !room((void **)&o->name, &o->cap_names, o->n_names, sizeof(*o->name)))
        return HM_NO_ID;
    o->name[o->n_names] = (struct name){
        .s = {.kind = kind, .name = name, .peak_bytes = HM_NONE(1), .step_max = HM_NO_ID},
        .step = HM_NO_ID,
        .next = *head};
    *head = (uint32_t)++o->n_names;
    return *head - 1;
}

static uint32_t node_of(struct hm_opstats *o, uint32_t parent, uint32_t name)
{
    uint32_t *head = &o->node_slot[hash_of(parent, name) % NODES];
    for (uint32_t i = *head; i; i = o->node[i - 1].next)
        if (o->node[i - 1].parent == parent && o->node[i - 1].name == name)
            return i - 1;
    if (o->n_nodes >= NODES ||
        !room((void **)&o->node, &o->cap_nodes, o->n_nodes, sizeof(*o->node)))
        return HM_NO_ID;
    o->node[o->n_nodes] =
        (struct node){.parent = parent, .name = name, .next = *head, .peak_bytes = INT64_MIN};
    *head = (uint32_t)++o->n_nodes;
    return *head - 1;
}

/* Inclusive time of a name, added up by step. */
static void add_time(struct name *n, uint32_t step, int64_t ns)
{
    n->s.inclusive_ns += ns;
    if (step != n->step) {
        n->s.n_steps++;
        n->step = step;
        n->in_step_ns = 0;
    }
    n->in_step_ns += ns;
    if (n->s.step_max == HM_NO_ID || n->in_step_ns > n->s.step_max_ns) {
        n->s.step_max_ns = n->in_step_ns;
        n->s.step_max = step;
    }
}

/* --- host --------------------------------------------------------------------------------------
 */

static struct thread *thread_of(struct hm_opstats *o, uint32_t track)
{
    for (uint32_t i = 0; i < o->n_threads; i++)
        if (o->thread[i].track == track)
            return &o->thread[i];
    if (o->n_threads == THREADS)
        return NULL;
    o->thread[o->n_threads].track = track;
    return &o->thread[o->n_threads++];
}

static void take_out_ended(struct thread *t, int64_t now)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->depth; i++)
        if (t->v[i].end_ns > now)
            t->v[n++] = t->v[i];
    t->depth = n;
}

/* Something named begins on a thread. Its node is returned, HM_NO_ID = none. */
static uint32_t begin(struct hm_opstats *o, uint32_t track, uint32_t kind, uint32_t id,
                      int64_t start, int64_t dur, enum hm_host_class cls)
{
    struct thread *t = thread_of(o, track);
    uint32_t name = name_of(o, kind, id);
    if (!t || name == HM_NO_ID)
        return HM_NO_ID;
    take_out_ended(t, start);
    int64_t end = start + dur, from = start;
    int sync = cls == HM_HOST_SYNC, input = cls == HM_HOST_INPUT;
    struct name *n = &o->name[name];
    for (uint32_t i = 0; i < t->depth; i++) {
        struct frame *f = &t->v[i];
        int64_t until = end < f->end_ns ? end : f->end_ns;
        int64_t since = start > f->covered_ns ? start : f->covered_ns;
        if (until > since) {
            o->name[f->name].s.exclusive_ns -= until - since;
            f->covered_ns = until;
        }
        if (f->name == name && f->end_ns > from)
            from = f->end_ns; /* inside one of its own name: counted there */
        sync &= !f->is_sync;
        input &= !f->is_input;
    }
    n->s.n++;
    n->s.exclusive_ns += dur;
    add_time(n, o->step, end > from ? end - from : 0);
    uint32_t node = node_of(o, t->depth ? t->v[t->depth - 1].node : HM_NO_ID, name);
    if (node == HM_NO_ID)
        return HM_NO_ID;
    if (sync)
        o->node[node].sync_ns += dur;
    if (input)
        o->node[node].input_ns += dur;
    if (o->has_memory && o->memory > o->node[node].peak_bytes)
        o->node[node].peak_bytes = o->memory;
    if (t->depth < DEPTH && dur > 0)
        t->v[t->depth++] = (struct frame){.end_ns = end,
                                          .covered_ns = start,
                                          .node = node,
                                          .name = name,
                                          .is_sync = cls == HM_HOST_SYNC,
                                          .is_input = cls == HM_HOST_INPUT};
    return node;
}

static void memory_event(struct hm_opstats *o, const struct hm_event *ev)
{
    const struct hm_ev_memory *m = &ev->u.memory;
    if (m->memory == 1 || m->memory == 2 || m->bytes > INT64_MAX / 2)
        return; /* the host's own */
    int64_t bytes = (int64_t)m->bytes;
    o->has_memory = 1;
    if (m->used && m->used <= INT64_MAX)
        o->memory = (int64_t)m->used;
    else if (m->op == 1)
        o->memory = o->memory > INT64_MAX - bytes ? INT64_MAX : o->memory + bytes;
    else
        o->memory = o->memory > bytes ? o->memory - bytes : 0;
    struct thread *t = thread_of(o, ev->track);
    if (!t)
        return;
    take_out_ended(t, ev->t_ns);
    if (t->depth && o->memory > o->node[t->v[t->depth - 1].node].peak_bytes)
        o->node[t->v[t->depth - 1].node].peak_bytes = o->memory;
}

hm_status_t hm_opstats_host(struct hm_opstats *o, const struct hm_event *ev)
{
    int64_t dur = ev->dur_ns > 0 ? ev->dur_ns : 0;
    if ((ev->flags & (HM_EVF_BAD_TIME | HM_EVF_NO_TIME)) ||
        (ev->t_ns > 0 && dur > INT64_MAX - ev->t_ns))
        return HM_OK;
    if (ev->kind == HM_EV_STEP) {
        size_t w = ev->aux == HM_STEP_BEGIN ? window_of(o, 0, ev->u.step.step) : SIZE_MAX;
        if (o->in.n_steps > 1 || w != SIZE_MAX)
            o->step = w == SIZE_MAX ? HM_NO_ID : o->in.step[w].step;
        return HM_OK;
    }
    if (ev->kind == HM_EV_MEMORY) {
        memory_event(o, ev);
        return HM_OK;
    }
    if (o->step == HM_NO_ID || ev->dur_ns == HM_DUR_OPEN)
        return HM_OK;
    const char *s;
    uint32_t node;
    switch (ev->kind) {
    case HM_EV_RANGE:
        s = o->in.string(o->in.ctx, ev->u.range.name);
        begin(o, ev->track, HM_OPSTAT_RANGE, ev->u.range.name, ev->t_ns, dur, hm_host_of_range(s));
        return HM_OK;
    case HM_EV_MPI:
        begin(o, ev->track, HM_OPSTAT_MPI, ev->aux, ev->t_ns, dur, HM_HOST_BLOCKED);
        return HM_OK;
    case HM_EV_API:
        s = o->in.string(o->in.ctx, ev->u.api.name);
        node =
            begin(o, ev->track, HM_OPSTAT_CALL, ev->u.api.name, ev->t_ns, dur, hm_host_of_call(s));
        if (ev->u.api.correlation)
            o->slot[ev->u.api.correlation % SLOTS] =
                (struct slot){ev->u.api.correlation, node, o->step};
        return HM_OK;
    default:
        return HM_OK;
    }
}

/* --- device ------------------------------------------------------------------------------------
 */

hm_status_t hm_opstats_device(struct hm_opstats *o, const struct hm_event *ev, uint32_t name,
                              const int64_t *idle_by)
{
    uint32_t correlation = ev->kind == HM_EV_KERNEL   ? ev->u.kernel.correlation
                           : ev->kind == HM_EV_MEMCPY ? ev->u.copy.correlation
                                                      : ev->u.set.correlation;
    const struct slot *c = &o->slot[correlation % SLOTS];
    uint32_t step = HM_NO_ID, node = HM_NO_ID;
    if (correlation && c->correlation == correlation) {
        step = c->step;
        node = c->node;
    } else { /* launched by a call that is not on record: by its own time */
        size_t w = window_of(o, 1, ev->t_ns);
        step = w == SIZE_MAX ? HM_NO_ID : o->in.step[w].step;
    }
    if (step == HM_NO_ID || ev->dur_ns < 0)
        return HM_OK;
    uint32_t kind = ev->kind == HM_EV_KERNEL ? HM_OPSTAT_KERNEL : HM_OPSTAT_COPY;
    uint32_t i = name_of(o, kind,
                         ev->kind == HM_EV_KERNEL   ? name
                         : ev->kind == HM_EV_MEMCPY ? ev->u.copy.copy
                                                    : 256);
    if (i != HM_NO_ID) {
        struct name *n = &o->name[i];
        n->s.n++;
        n->s.exclusive_ns += ev->dur_ns;
        n->s.device_ns += ev->dur_ns;
        add_time(n, step, ev->dur_ns);
        for (int k = 0; idle_by && k < HM_IDLE_N; k++)
            n->s.idle_by_ns[k] += idle_by[k];
    }
    if (node == HM_NO_ID)
        return HM_OK;
    o->node[node].device_ns += ev->dur_ns;
    for (int k = 0; idle_by && k < HM_IDLE_N; k++)
        o->node[node].idle_by_ns[k] += idle_by[k];
    return HM_OK;
}

/* --- the rows ----------------------------------------------------------------------------------
 */

/* What lies at a path counts for every name on it, once each. */
static void charge(struct hm_opstats *o, const struct node *p)
{
    uint32_t seen[DEPTH + 1], n = 0;
    for (const struct node *q = p;; q = &o->node[q->parent]) {
        uint32_t i = 0;
        while (i < n && seen[i] != q->name)
            i++;
        if (i == n && n <= DEPTH) {
            struct hm_opstat *s = &o->name[q->name].s;
            seen[n++] = q->name;
            s->device_ns += p->device_ns;
            s->sync_ns += p->sync_ns;
            s->input_ns += p->input_ns;
            for (int k = 0; k < HM_IDLE_N; k++)
                s->idle_by_ns[k] += p->idle_by_ns[k];
            if (p->peak_bytes != INT64_MIN &&
                (HM_IS_NONE(s->peak_bytes) || p->peak_bytes > s->peak_bytes))
                s->peak_bytes = p->peak_bytes;
        }
        if (q->parent == HM_NO_ID)
            return;
    }
}

static int by_name(const void *x, const void *y)
{
    const struct hm_opstat *p = x, *q = y;
    if (p->kind != q->kind)
        return p->kind < q->kind ? -1 : 1;
    return (p->name > q->name) - (p->name < q->name);
}

hm_status_t hm_opstats_end(struct hm_opstats *o, const struct hm_opstat **row_p, size_t *n_p)
{
    for (size_t i = 0; i < o->n_nodes; i++)
        charge(o, &o->node[i]);
    free(o->row);
    o->row = malloc((o->n_names + 1) * sizeof(*o->row));
    if (!o->row)
        return no_memory();
    for (size_t i = 0; i < o->n_names; i++)
        o->row[i] = o->name[i].s;
    if (o->n_names)
        qsort(o->row, o->n_names, sizeof(*o->row), by_name);
    *row_p = o->row;
    *n_p = o->n_names;
    return HM_OK;
}
