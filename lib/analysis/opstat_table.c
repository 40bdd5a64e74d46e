/* Operation statistics of all workers -> the table: all ranks together first, then rank by rank.
 *
 * Box: lib/analysis. Pure. Rows are bounded: the largest by inclusive time.
 */
#include "analysis/host.h"
#include "analysis/judge_inside.h"

#include <stdlib.h>
#include <string.h>

enum { SLOTS = 1 << 14, MAX_NAMES = 1 << 16, SHOWN = 100, SHOWN_RANK = 40, MAX_ROWS = 8192 };

static hm_status_t no_memory(void)
{
    return hm_fail(HM_E_NOMEM, "judge", "out of memory");
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

static struct hm_jopstat *find(struct hm_judge *j, uint32_t kind, uint32_t name)
{
    uint64_t h = ((uint64_t)kind << 32 | name) * UINT64_C(0x9E3779B97F4A7C15);
    uint32_t *head = &j->opstat_slot[(h >> 40) % SLOTS];
    for (uint32_t i = *head; i; i = j->opstat[i - 1].next)
        if (j->opstat[i - 1].sum.kind == kind && j->opstat[i - 1].sum.name == name)
            return &j->opstat[i - 1];
    if (j->n_opstats >= MAX_NAMES ||
        !room((void **)&j->opstat, &j->cap_opstats, j->n_opstats, sizeof(*j->opstat)))
        return NULL;
    j->opstat[j->n_opstats] = (struct hm_jopstat){
        .sum = {.kind = kind, .name = name, .peak_bytes = HM_NONE(1), .step_max = HM_NO_ID},
        .worker = HM_NO_ID,
        .next = *head};
    *head = (uint32_t)++j->n_opstats;
    return &j->opstat[j->n_opstats - 1];
}

static void add(struct hm_opstat *sum, const struct hm_opstat *s)
{
    sum->n += s->n;
    sum->inclusive_ns += s->inclusive_ns;
    sum->exclusive_ns += s->exclusive_ns;
    sum->device_ns += s->device_ns;
    sum->sync_ns += s->sync_ns;
    sum->input_ns += s->input_ns;
    for (int k = 0; k < HM_IDLE_N; k++)
        sum->idle_by_ns[k] += s->idle_by_ns[k];
    if (!HM_IS_NONE(s->peak_bytes) &&
        (HM_IS_NONE(sum->peak_bytes) || s->peak_bytes > sum->peak_bytes))
        sum->peak_bytes = s->peak_bytes;
    sum->n_steps = s->n_steps > sum->n_steps ? s->n_steps : sum->n_steps;
    if (sum->step_max == HM_NO_ID || s->step_max_ns > sum->step_max_ns) {
        sum->step_max_ns = s->step_max_ns;
        sum->step_max = s->step_max;
    }
}

hm_status_t hm_judge_opstat(struct hm_judge *j, uint32_t worker, const struct hm_opstat *s)
{
    if (worker >= j->n_workers)
        return HM_OK;
    if (!j->opstat_slot && !(j->opstat_slot = calloc(SLOTS, sizeof(*j->opstat_slot))))
        return no_memory();
    struct hm_jopstat *o = find(j, s->kind, s->name);
    if (!o)
        return j->n_opstats >= MAX_NAMES ? HM_OK : no_memory();
    add(&o->sum, s);
    o->n_workers++;
    if (o->worker == HM_NO_ID || s->inclusive_ns > o->worst.inclusive_ns) {
        o->worst = *s;
        o->worker = worker;
    }
    /* single ranks as long as there is room: enough for the table's rows and some to choose from */
    if (j->n_opstat_ranks >= 4 * MAX_ROWS)
        return HM_OK;
    if (!room((void **)&j->opstat_rank, &j->cap_opstat_ranks, j->n_opstat_ranks,
              sizeof(*j->opstat_rank)))
        return no_memory();
    j->opstat_rank[j->n_opstat_ranks++] = (struct hm_jopstat_rank){.s = *s, .worker = worker};
    return HM_OK;
}

static char *name_text(const struct hm_judge *j, const struct hm_opstat *s)
{
    static const char *const copy[] = {
        "copy",           "host to device",  "device to host",  "host to array",    "array to host",
        "array to array", "array to device", "device to array", "device to device", "host to host",
        "peer to peer"};
    const void *bytes = NULL;
    uint32_t len = 0;
    if (s->kind == HM_OPSTAT_MPI) {
        const char *mpi = hm_mpi_function(s->name);
        return mpi ? strdup(mpi) : hm_text("MPI function %u", s->name);
    }
    if (s->kind == HM_OPSTAT_COPY)
        return strdup(s->name == 256                             ? "fill"
                      : s->name < sizeof(copy) / sizeof(copy[0]) ? copy[s->name]
                                                                 : copy[0]);
    if (hm_defs_get(&j->in.run->names, HM_DEF_STRING, s->name, &bytes, &len) != HM_OK)
        return strdup("");
    return strndup(bytes, len);
}

static hm_status_t row(struct hm_judge *j, struct hm_result *r, const struct hm_opstat *s,
                       uint32_t worker, const struct hm_jopstat *all)
{
    static const char *const kind[HM_N_OPSTATS] = {"range", "call", "mpi", "kernel", "copy"};
    static const char *const why[HM_IDLE_N] = {[HM_IDLE_CHECKPOINT] = "checkpoint",
                                               [HM_IDLE_INPUT] = "input",
                                               [HM_IDLE_SERIAL] = "serialised",
                                               [HM_IDLE_ALLOC] = "allocator",
                                               [HM_IDLE_MODULE] = "module_load",
                                               [HM_IDLE_SYNC] = "sync",
                                               [HM_IDLE_BLOCKED] = "blocked",
                                               [HM_IDLE_OBSERVER] = "observer",
                                               [HM_IDLE_HOST] = "host",
                                               [HM_IDLE_QUEUE] = "queue"};
    struct hm_out_opstat *t = hm_result_add(r, HM_T_opstat);
    if (!t)
        return no_memory();
    int64_t idle = 0, steps = (int64_t)j->n_steps;
    int top = 0;
    for (int k = 0; k < HM_IDLE_N; k++) {
        idle += s->idle_by_ns[k];
        top = s->idle_by_ns[k] > s->idle_by_ns[top] ? k : top;
    }
    t->rank = all ? HM_NONE(HM_NONE_ALL_RANKS) : j->in.run->worker[worker].rank;
    t->kind = strdup(kind[s->kind < HM_N_OPSTATS ? s->kind : 0]);
    t->name = name_text(j, s);
    t->n = (int64_t)s->n;
    t->inclusive_ns = s->inclusive_ns;
    t->exclusive_ns = s->exclusive_ns;
    t->device_ns = s->device_ns;
    t->sync_ns = s->sync_ns;
    t->input_ns = s->input_ns;
    t->idle_ns = idle;
    t->idle_reason = idle > 0 ? strdup(why[top]) : NULL;
    t->peak_bytes = s->peak_bytes;
    t->n_steps = s->n_steps;
    steps *= all ? all->n_workers : 1;
    t->step_mean_ns = steps > 0 ? s->inclusive_ns / steps : HM_NONE(HM_NONE_NO_STEPS);
    t->step_max_ns = s->step_max_ns;
    t->step_max = s->step_max == HM_NO_ID ? HM_NONE(HM_NONE_NO_STEPS) : s->step_max;
    t->worst_rank = j->in.run->worker[worker].rank;
    t->worst_ns = all ? all->worst.inclusive_ns : s->inclusive_ns;
    return t->kind && t->name ? HM_OK : no_memory();
}

/* By kind, then the longest first. */
static int by_time(const struct hm_opstat *p, const struct hm_opstat *q)
{
    if (p->kind != q->kind)
        return p->kind < q->kind ? -1 : 1;
    if (p->inclusive_ns != q->inclusive_ns)
        return p->inclusive_ns > q->inclusive_ns ? -1 : 1;
    return (p->name > q->name) - (p->name < q->name);
}
static int by_all(const void *x, const void *y)
{
    return by_time(&((const struct hm_jopstat *)x)->sum, &((const struct hm_jopstat *)y)->sum);
}
static int by_rank(const void *x, const void *y)
{
    const struct hm_jopstat_rank *p = x, *q = y;
    if (p->worker != q->worker)
        return p->worker < q->worker ? -1 : 1;
    return by_time(&p->s, &q->s);
}

hm_status_t hm_judge_opstat_table(struct hm_judge *j, struct hm_result *r)
{
    hm_status_t st = HM_OK;
    if (!j->n_opstats)
        return HM_OK;
    qsort(j->opstat, j->n_opstats, sizeof(*j->opstat), by_all);
    uint32_t shown = 0;
    for (size_t i = 0; i < j->n_opstats && st == HM_OK; i++) {
        const struct hm_jopstat *o = &j->opstat[i];
        shown = i && o->sum.kind == o[-1].sum.kind ? shown + 1 : 0;
        if (shown < SHOWN)
            st = row(j, r, &o->sum, o->worker, o);
    }
    qsort(j->opstat_rank, j->n_opstat_ranks, sizeof(*j->opstat_rank), by_rank);
    for (size_t i = 0; i < j->n_opstat_ranks && st == HM_OK; i++) {
        const struct hm_jopstat_rank *o = &j->opstat_rank[i];
        shown = i && o->worker == o[-1].worker && o->s.kind == o[-1].s.kind ? shown + 1 : 0;
        if (shown < SHOWN_RANK && r->n_rows[HM_T_opstat] < MAX_ROWS)
            st = row(j, r, &o->s, o->worker, NULL);
    }
    return st;
}
