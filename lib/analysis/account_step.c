/* Steps: the partition of each window, why the device idled, kernel statistics.
 *
 * Box: lib/analysis. Pure. Memory: the operations and gaps of the open step.
 * Invariant: compute, transfer, wait, copies and idle sum to the window; the reasons of idle time
 * to at most the idle time.
 * Source: facts on analysis 2.2, 2.3; facts on scenarios, rule 4.
 */
#include "analysis/account_inside.h"

#include <stdlib.h>
#include <string.h>

/* A profiler whose own work leaves the device idle for a two-hundredth of a step changes what is
 * measured: as much as the smallest effect that is ever reported (0.5 %). */
enum { OBSERVED_PART = 200 };

static hm_status_t no_memory(void)
{
    return hm_fail(HM_E_NOMEM, "account", "out of memory");
}

void *hm_acc_grow(void **v_p, size_t *cap_p, size_t n, size_t size)
{
    if (n >= *cap_p) {
        size_t cap = *cap_p ? 2 * *cap_p : 64;
        void *v = realloc(*v_p, cap * size);
        if (!v)
            return NULL;
        *v_p = v;
        *cap_p = cap;
    }
    return (char *)*v_p + n * size;
}

/* --- kernels -------------------------------------------------------------------------------- */

uint32_t hm_acc_stat_of(struct hm_account *a, const struct hm_event *ev)
{
    const struct hm_ev_kernel *k = &ev->u.kernel;
    uint64_t key = k->kernel + UINT64_C(0x9E3779B97F4A7C15);
    for (int i = 0; i < 3; i++) {
        key = (key ^ k->grid[i]) * UINT64_C(0xBF58476D1CE4E5B9);
        key ^= key >> 29;
    }
    if (2 * a->n_stats >= a->n_slots) {
        uint32_t n = 2 * a->n_slots, *slot = n > (1u << 20) ? NULL : calloc(n, sizeof(*slot));
        if (!slot)
            return HM_NO_ID;
        for (uint32_t i = 0; i < a->n_stats; i++) {
            uint32_t h = (uint32_t)a->stat[i].key & (n - 1);
            while (slot[h])
                h = (h + 1) & (n - 1);
            slot[h] = i + 1;
        }
        free(a->slot);
        a->slot = slot;
        a->n_slots = n;
    }
    uint32_t h = (uint32_t)key & (a->n_slots - 1);
    for (; a->slot[h]; h = (h + 1) & (a->n_slots - 1))
        if (a->stat[a->slot[h] - 1].key == key)
            return a->slot[h] - 1;
    if (a->n_stats == a->cap_stats) {
        uint32_t cap = a->cap_stats ? 2 * a->cap_stats : 64;
        struct hm_kernel_stat *stat = realloc(a->stat, cap * sizeof(*stat));
        if (!stat)
            return HM_NO_ID;
        a->stat = stat;
        int64_t *last = realloc(a->last_dur, cap * sizeof(*last));
        if (!last)
            return HM_NO_ID;
        a->last_dur = last;
        a->cap_stats = cap;
    }
    a->stat[a->n_stats] = (struct hm_kernel_stat){
        .key = key, .kernel = k->kernel, .grid = {k->grid[0], k->grid[1], k->grid[2]}};
    a->last_dur[a->n_stats] = -1;
    a->slot[h] = ++a->n_stats;
    return a->n_stats - 1;
}

static void stat_add(struct hm_account *a, uint32_t i_stat, int64_t dur, unsigned block)
{
    struct hm_kernel_stat *k = &a->stat[i_stat];
    int64_t last = a->last_dur[i_stat];
    k->n_jumps += last >= 0 && 50 * llabs(dur - last) > last;
    a->last_dur[i_stat] = dur;
    k->n++;
    k->block_n[block]++;
    k->block_ns[block] += dur;
}

/* --- idle time ------------------------------------------------------------------------------ */

static const uint8_t why_of_host[HM_HOST_N] = {[HM_HOST_CHECKPOINT] = HM_IDLE_CHECKPOINT,
                                               [HM_HOST_INPUT] = HM_IDLE_INPUT,
                                               [HM_HOST_SERIAL] = HM_IDLE_SERIAL,
                                               [HM_HOST_ALLOC] = HM_IDLE_ALLOC,
                                               [HM_HOST_MODULE] = HM_IDLE_MODULE,
                                               [HM_HOST_SYNC] = HM_IDLE_SYNC,
                                               [HM_HOST_BLOCKED] = HM_IDLE_BLOCKED,
                                               [HM_HOST_OBSERVER] = HM_IDLE_OBSERVER,
                                               [HM_HOST_OTHER] = HM_IDLE_HOST};

static void idle_add(struct hm_account *a, int64_t t0, int64_t t1, unsigned why)
{
    if (t1 > t0)
        a->gap_by_ns[why] += t1 - t0;
    struct hm_acc_idle *last = a->n_idle ? &a->idle[a->n_idle - 1] : NULL;
    if (t1 <= t0)
        return;
    if (last && last->why == why && last->end_ns == t0) {
        last->end_ns = t1;
        return;
    }
    struct hm_acc_idle *p =
        hm_acc_grow((void **)&a->idle, &a->cap_idle, a->n_idle, sizeof(*a->idle));
    if (!p)
        return; /* then this much stays unexplained */
    *p = (struct hm_acc_idle){t0, t1, (uint8_t)why};
    a->n_idle++;
}

static void idle_piece(void *ctx, int64_t t0, int64_t t1, unsigned cls)
{
    idle_add(ctx, t0, t1, why_of_host[cls]);
}

/* The device had nothing to run from busy_ns until `o`: the host until it had launched it, then the
 * queue. As in a chain, a launch without a record is late by any longer gap. */
static void idle_before(struct hm_account *a, const struct hm_acc_op *o)
{
    int64_t from = a->busy_ns, h = from;
    if (from == INT64_MIN || o->start_ns <= from)
        return;
    if (o->call_ns != INT64_MIN)
        h = hm_min64(hm_max64(o->called_ns, from), o->start_ns);
    else if (a->has_calls && o->start_ns - from > a->tolerance_ns)
        h = o->start_ns;
    else if (!a->has_calls)
        return; /* no launches on record: nothing tells */
    hm_host_cut(a->host, o->thread, from, h, idle_piece, a);
    idle_add(a, h, o->start_ns, HM_IDLE_QUEUE);
}

static void idle_sum(struct hm_account *a, int64_t t0, int64_t t1, int64_t by[HM_IDLE_N])
{
    size_t kept = 0;
    for (size_t i = 0; i < a->n_idle; i++) {
        const struct hm_acc_idle *p = &a->idle[i];
        int64_t s = hm_max64(p->start_ns, t0), e = hm_min64(p->end_ns, t1);
        if (e > s)
            by[p->why] += e - s;
        if (p->end_ns > t1)
            a->idle[kept++] = *p;
    }
    a->n_idle = kept;
}

/* --- the step ------------------------------------------------------------------------------- */

hm_status_t hm_acc_step_op(struct hm_account *a, const struct hm_acc_op *o, uint32_t stat)
{
    int counts = a->i_step < a->in.n_steps && o->end_ns > a->in.step[a->i_step].t0_ns;
    memset(a->gap_by_ns, 0, sizeof(a->gap_by_ns));
    if (counts)
        idle_before(a, o);
    a->busy_ns = hm_max64(a->busy_ns, o->end_ns);
    a->first_ns = hm_min64(a->first_ns, o->start_ns);
    a->end_ns = hm_max64(a->end_ns, o->end_ns);
    if (!counts)
        return HM_OK;
    struct hm_acc_piece *p =
        hm_acc_grow((void **)&a->piece, &a->cap_pieces, a->n_pieces, sizeof(*p));
    if (!p)
        return no_memory();
    *p = (struct hm_acc_piece){o->start_ns, o->end_ns, o->last_ns, stat, o->type};
    a->n_pieces++;
    return HM_OK;
}

static size_t collect(const struct hm_account *a, int type, int64_t t0, int64_t t1,
                      struct hm_interval *out, int only_wait)
{
    size_t n = 0;
    for (size_t i = 0; i < a->n_pieces; i++) {
        const struct hm_acc_piece *p = &a->piece[i];
        if (p->type != type)
            continue;
        int64_t s = p->start_ns, e = p->end_ns, last = hm_min64(hm_max64(p->last_ns, s), e);
        if (only_wait > 0)
            e = last;
        if (only_wait < 0)
            s = last;
        s = hm_max64(s, t0);
        e = hm_min64(e, t1);
        if (e > s)
            out[n++] = (struct hm_interval){s, e};
    }
    return hm_union(out, n);
}

hm_status_t hm_acc_step_flush(struct hm_account *a, int at_end)
{
    const struct hm_step_window *w = &a->in.step[a->i_step];
    int64_t t0 = w->t0_ns, t1 = w->t1_ns;
    /* the window of a run: from the first device operation to the last */
    if (a->i_step == 0)
        t0 = hm_max64(t0, hm_min64(a->first_ns, t1));
    if (at_end && a->i_step + 1 == a->in.n_steps)
        t1 = hm_min64(t1, hm_max64(a->end_ns, t0));
    size_t n = a->n_pieces + 1;
    if (a->cap_scratch < 5 * n) {
        size_t cap = 2 * 5 * n;
        struct hm_interval *v = realloc(a->scratch, cap * sizeof(*v));
        if (!v)
            return no_memory();
        a->scratch = v;
        a->cap_scratch = cap;
    }
    struct hm_interval *compute = a->scratch, *comm = compute + n, *transfer = comm + n,
                       *wait = transfer + n, *copy = wait + n;
    size_t n_compute = collect(a, HM_OP_COMPUTE, t0, t1, compute, 0);
    size_t n_comm = collect(a, HM_OP_COMM, t0, t1, comm, 0);
    size_t n_transfer = collect(a, HM_OP_COMM, t0, t1, transfer, -1);
    size_t n_wait = collect(a, HM_OP_COMM, t0, t1, wait, 1);
    size_t n_copy = collect(a, HM_OP_COPY, t0, t1, copy, 0);
    struct hm_layer layer[4] = {
        {compute, n_compute}, {transfer, n_transfer}, {wait, n_wait}, {copy, n_copy}};
    int64_t part[5];
    hm_partition(layer, 4, t0, t1, part);
    struct hm_step_part p = {.t0_ns = t0,
                             .t1_ns = t1,
                             .compute_ns = part[0],
                             .transfer_ns = part[1],
                             .wait_ns = part[2],
                             .memcpy_ns = part[3],
                             .idle_ns = part[4],
                             .comm_ns = hm_length(comm, n_comm),
                             .overlap_ns = hm_overlap(compute, n_compute, comm, n_comm),
                             .peak_bytes = a->memory_peak,
                             .fed_bytes = a->fed_bytes,
                             .device = a->in.device,
                             .flags = w->flags,
                             .step = w->step};
    struct hm_layer first[2] = {{compute, n_compute}, {wait, n_wait}};
    hm_partition(first, 2, t0, t1, part);
    p.stall_ns = part[1];
    struct hm_layer busy[3] = {{compute, n_compute}, {copy, n_copy}, {wait, n_wait}};
    hm_partition(busy, 3, t0, t1, part);
    p.blocking_ns = part[2];
    p.input_ns = hm_host_inside(a->host, HM_HOST_INPUT, t0, t1);
    p.host_sync_ns = hm_host_inside(a->host, HM_HOST_SYNC, t0, t1);
    p.alloc_ns = hm_host_inside(a->host, HM_HOST_ALLOC, t0, t1);
    p.module_ns = hm_host_inside(a->host, HM_HOST_MODULE, t0, t1);
    p.blocked_ns = hm_host_inside(a->host, HM_HOST_BLOCKED, t0, t1);
    p.checkpoint_ns = hm_host_inside(a->host, HM_HOST_CHECKPOINT, t0, t1);
    idle_sum(a, t0, t1, p.idle_by_ns);
    if (p.idle_by_ns[HM_IDLE_OBSERVER] * OBSERVED_PART > t1 - t0)
        p.flags |= HM_STEP_OBSERVED;
    unsigned block = (unsigned)(a->i_step * HM_KERNEL_BLOCKS / a->in.n_steps);
    size_t kept = 0;
    for (size_t i = 0; i < a->n_pieces; i++) {
        const struct hm_acc_piece *q = &a->piece[i];
        int mine = q->start_ns >= t0 && q->start_ns < t1;
        p.n_kernels += mine && q->type != HM_OP_COPY;
        if (mine && q->stat != HM_NO_ID) {
            a->stat[q->stat].all_ns += q->end_ns - q->start_ns;
            a->stat[q->stat].n_all++;
            if (!hm_inside(comm, n_comm, q->start_ns, q->end_ns))
                stat_add(a, q->stat, q->end_ns - q->start_ns, block);
        }
        if (q->end_ns > t1 || q->start_ns >= t1)
            a->piece[kept++] = *q;
    }
    a->n_pieces = kept;
    a->fed_bytes = 0;
    if (!HM_IS_NONE(a->memory_peak))
        a->memory_peak = a->memory;
    a->i_step++;
    return a->in.step_part ? a->in.step_part(a->in.ctx, &p) : HM_OK;
}

static int by_key(const void *x, const void *y)
{
    const struct hm_kernel_stat *p = x, *q = y;
    return (p->key > q->key) - (p->key < q->key);
}

hm_status_t hm_acc_stats_end(struct hm_account *a)
{
    hm_status_t st = HM_OK;
    if (a->n_stats)
        qsort(a->stat, a->n_stats, sizeof(*a->stat), by_key);
    for (uint32_t i = 0; st == HM_OK && a->in.kernel_stat && i < a->n_stats; i++)
        if (a->stat[i].n_all)
            st = a->in.kernel_stat(a->in.ctx, &a->stat[i]);
    return st;
}
