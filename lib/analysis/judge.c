/* Judge: takes launches, segments, step parts and kernel statistics; asks the parts in order.
 *
 * Box: lib/analysis. Pure, one thread per object. Memory: about 250 bytes a part of the analysed
 * run, because the replay needs the whole graph.
 */
#include "analysis/judge_inside.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int hm_by_i64(const void *x, const void *y)
{
    int64_t a = *(const int64_t *)x, b = *(const int64_t *)y;
    return (a > b) - (a < b);
}

int64_t hm_median(int64_t *v, size_t n)
{
    qsort(v, n, sizeof(*v), hm_by_i64);
    return v[(n - 1) / 2];
}

char *hm_text(const char *fmt, ...)
{
    char *s = NULL;
    va_list ap;
    va_start(ap, fmt);
    if (vasprintf(&s, fmt, ap) < 0)
        s = NULL;
    va_end(ap);
    return s;
}

void hm_list_add(char **list_p, const char *fmt, ...)
{
    char *s = NULL, *all = NULL;
    va_list ap;
    va_start(ap, fmt);
    if (vasprintf(&s, fmt, ap) < 0)
        s = NULL;
    va_end(ap);
    if (s && asprintf(&all, "%s%s\n", *list_p ? *list_p : "", s) > 0) {
        free(*list_p);
        *list_p = all;
    }
    free(s);
}

const char *hm_judge_host(const struct hm_judge *j, uint32_t worker)
{
    const struct hm_run *run = j->in.run;
    for (uint32_t i = 0; i < run->n_present; i++)
        if (run->rank[i].rank == (int32_t)run->worker[worker].rank)
            return run->rank[i].host ? run->rank[i].host : "";
    return "";
}

hm_status_t hm_judge_create(const struct hm_judge_in *in, struct hm_judge **judge_p)
{
    struct hm_judge *j = calloc(1, sizeof(*j));
    if (!j || !(j->worker = calloc(in->run->n_workers + 1, sizeof(*j->worker)))) {
        free(j);
        return hm_fail(HM_E_NOMEM, "judge", "out of memory");
    }
    j->in = *in;
    for (uint32_t w = 0; w < in->run->n_workers; w++)
        j->worker[w].sum.peak_bytes = j->worker[w].watched.peak_bytes =
            HM_NONE(HM_NONE_NOT_RECORDED);
    j->n_workers = in->run->n_workers;
    for (uint32_t w = 0; w < j->n_workers; w++)
        hm_health_none(&j->worker[w].health);
    j->t0_ns = INT64_MAX;
    *judge_p = j;
    return HM_OK;
}

void hm_judge_destroy(struct hm_judge *j)
{
    if (!j)
        return;
    for (uint32_t w = 0; w < j->n_workers; w++) {
        free(j->worker[w].of_arrival);
        free(j->worker[w].kernel);
    }
    free(j->worker);
    free(j->part);
    free(j->launch);
    free(j->step);
    free(j->late);
    free(j->cause_ns);
    free(j->link);
    free(j->dim_ns);
    hm_mismatch_clear(&j->mismatches);
    free(j->opstat);
    free(j->opstat_rank);
    free(j->opstat_slot);
    for (uint32_t i = 0; i < j->n_own_members; i++)
        free(j->own_members[i]);
    free(j->own_members);
    free(j->use);
    hm_roles_clear(&j->roles);
    free(j);
}

static int reserve(void **v_p, size_t *cap_p, size_t n, size_t size)
{
    if (n <= *cap_p)
        return 1;
    size_t cap = *cap_p ? *cap_p : 256;
    while (cap < n)
        cap *= 2;
    void *v = realloc(*v_p, cap * size);
    if (!v)
        return 0;
    *v_p = v;
    *cap_p = cap;
    return 1;
}

static uint32_t part_of_arrival(const struct hm_jworker *w, uint32_t i)
{
    return i < w->n_arrivals ? w->of_arrival[i] : HM_NO_ID;
}

static int remember(struct hm_jworker *w, uint32_t i_arrival, uint32_t part)
{
    if (i_arrival >= w->n_arrivals) {
        size_t cap = w->cap_arrivals;
        if (!reserve((void **)&w->of_arrival, &cap, (size_t)i_arrival + 1, sizeof(uint32_t)))
            return 0;
        w->cap_arrivals = (uint32_t)cap;
        for (uint32_t i = w->n_arrivals; i < i_arrival; i++)
            w->of_arrival[i] = HM_NO_ID;
        w->n_arrivals = i_arrival + 1;
    }
    w->of_arrival[i_arrival] = part;
    return 1;
}

static int64_t wait_of(const struct hm_part *p)
{
    if (!(p->v.flags & HM_ANNOT_MATCHED))
        return 0;
    int64_t until = p->v.last_ns < p->a.end_ns ? p->v.last_ns : p->a.end_ns;
    return until > p->a.start_ns ? until - p->a.start_ns : 0;
}

/* Adds up what the named calls of a worker's chains took; the smallest makes room. */
static void take_name(struct hm_jworker *w, const struct hm_segment *s)
{
    struct hm_jname *to = &w->name[0];
    if (s->host_name == HM_NO_ID || s->host_name_ns <= 0)
        return;
    for (int i = 0; i < HM_N_JNAMES; i++) {
        if (w->name[i].ns && w->name[i].name == s->host_name) {
            w->name[i].ns += s->host_name_ns;
            return;
        }
        to = w->name[i].ns < to->ns ? &w->name[i] : to;
    }
    if (s->host_name_ns > to->ns)
        *to = (struct hm_jname){s->host_name_ns, s->host_name, s->host_class};
}

static void take_part(struct hm_judge *j, const struct hm_window *w, const struct hm_part *p,
                      uint32_t launch, struct hm_jpart *q)
{
    struct hm_jworker *worker = &j->worker[p->worker];
    *q = (struct hm_jpart){.start_ns = p->a.start_ns,
                           .end_ns = p->a.end_ns,
                           .ready_ns = p->a.start_ns,
                           .carry_ns = p->a.start_ns,
                           .wait_ns = wait_of(p),
                           .worker = p->worker,
                           .launch = launch,
                           .base = HM_NO_ID,
                           .before = HM_NO_ID,
                           .common = HM_NO_ID,
                           .source = HM_NO_ID,
                           .ref = HM_NO_ID,
                           .node_ns = HM_NONE(0),
                           .floor = HM_NO_ID};
    if (p->a.func == HM_NCCL_ALLTOALL && !p->a.pair) {
        worker->all_to_all_bytes += p->a.bytes;
        worker->n_all_to_all++;
    }
    if (p->i_segment == HM_NO_ID || p->i_segment >= w->n_segments)
        return;
    const struct hm_segment *s = &w->segment[p->i_segment];
    q->has_segment = 1;
    take_name(worker, s);
    q->gate = s->gate;
    q->ready_ns = s->ready_ns;
    q->carry_ns = s->carry_ns;
    q->base = part_of_arrival(worker, s->base);
    q->before = part_of_arrival(worker, s->before);
    q->node_ns = q->base == HM_NO_ID ? HM_NONE(0) : s->node_ns;
    q->floor = part_of_arrival(worker, s->floor);
    q->floor_ns = s->floor_ns;
    q->via_node = s->via_node && !HM_IS_NONE(q->node_ns);
    const int64_t part[HM_N_C] = {s->compute_ns,         s->comm_transfer_ns, s->comm_wait_ns,
                                  s->memcpy_ns,          s->idle_input_ns,    s->idle_host_ns,
                                  s->idle_queue_ns,      s->idle_serial_ns,   s->idle_module_ns,
                                  s->idle_blocked_ns,    s->idle_alloc_ns,    s->idle_sync_ns,
                                  s->idle_checkpoint_ns, s->idle_observer_ns};
    memcpy(q->part_ns, part, sizeof(part));
}

/* One-sided: who waits for whom. A receiver for its sender, whoever came first; in rooted ones as
 * the match found it. */
static void take_sources(struct hm_judge *j, const struct hm_window *w, const struct hm_launch *l,
                         const struct hm_jlaunch *q)
{
    int message = l->func == HM_NCCL_SEND || l->func == HM_NCCL_RECV;
    uint32_t sender = HM_NO_ID;
    for (uint32_t k = 0; message && k < l->n_present; k++)
        if (w->part[l->i_part + k].a.func == HM_NCCL_SEND)
            sender = w->part[l->i_part + k].worker;
    for (uint32_t k = 0, i = 0; k < l->n_present && i < q->n_parts; k++) {
        const struct hm_part *p = &w->part[l->i_part + k];
        if (p->worker >= j->n_workers)
            continue;
        uint32_t from = message ? sender : p->v.last_worker;
        const struct hm_jpart *source =
            from == p->worker ? NULL : hm_judge_part_in(j, (uint32_t)(q - j->launch), from);
        if (source)
            j->part[q->first_part + i].source = (uint32_t)(source - j->part);
        i++;
    }
}

hm_status_t hm_judge_window(struct hm_judge *j, const struct hm_window *w)
{
    size_t n = 0;
    for (size_t i = 0; i < w->n_launches; i++)
        n += w->launch[i].n_present;
    if (j->n_parts + n >= HM_NO_ID)
        return hm_fail(HM_E_LIMIT, "judge", "more than 4 G parts of launches");
    if (!reserve((void **)&j->part, &j->cap_parts, j->n_parts + n, sizeof(*j->part)) ||
        !reserve((void **)&j->launch, &j->cap_launches, j->n_launches + w->n_launches,
                 sizeof(*j->launch)))
        return hm_fail(HM_E_NOMEM, "judge", "out of memory");
    for (size_t i = 0; i < w->n_launches; i++) {
        const struct hm_launch *l = &w->launch[i];
        hm_status_t st = hm_mismatch_launch(&j->mismatches, l, w->part + l->i_part);
        if (st != HM_OK)
            return st;
        uint32_t first = (uint32_t)j->n_parts, i_launch = (uint32_t)j->n_launches++;
        struct hm_jlaunch *q = &j->launch[i_launch];
        *q = (struct hm_jlaunch){.comm = l->comm,
                                 .bytes = l->bytes,
                                 .first_ns = l->first_ns,
                                 .last_ns = l->last_ns,
                                 .end1_ns = l->end1_ns,
                                 .end2_ns = l->end2_ns,
                                 .u_ns = l->u_ns,
                                 .first_part = first,
                                 .seq = l->seq,
                                 .i_step = l->step, /* the step's number until all are known */
                                 .last_worker = l->last_worker,
                                 .n_members = l->n_members,
                                 .common = HM_NO_ID,
                                 .flags = l->flags,
                                 .pair = l->pair,
                                 .func = l->func};
        for (uint32_t k = 0; k < l->n_present; k++) {
            const struct hm_part *p = &w->part[l->i_part + k];
            if (p->worker >= j->n_workers)
                continue;
            take_part(j, w, p, i_launch, &j->part[j->n_parts]);
            if (!remember(&j->worker[p->worker], p->i_arrival, (uint32_t)j->n_parts))
                return hm_fail(HM_E_NOMEM, "judge", "out of memory");
            j->n_parts++;
        }
        q->n_parts = (uint32_t)j->n_parts - first;
        if (!(l->flags & HM_LAUNCH_SYNCHRONOUS))
            take_sources(j, w, l, q);
    }
    return HM_OK;
}

static void add_parts(struct hm_step_part *sum, const struct hm_step_part *p)
{
    sum->t1_ns += p->t1_ns - p->t0_ns;
    sum->compute_ns += p->compute_ns;
    sum->transfer_ns += p->transfer_ns;
    sum->wait_ns += p->wait_ns;
    sum->memcpy_ns += p->memcpy_ns;
    sum->idle_ns += p->idle_ns;
    sum->comm_ns += p->comm_ns;
    sum->overlap_ns += p->overlap_ns;
    sum->stall_ns += p->stall_ns;
    sum->input_ns += p->input_ns;
    sum->host_sync_ns += p->host_sync_ns;
    sum->alloc_ns += p->alloc_ns;
    sum->module_ns += p->module_ns;
    sum->blocked_ns += p->blocked_ns;
    sum->checkpoint_ns += p->checkpoint_ns;
    for (int k = 0; k < HM_IDLE_N; k++)
        sum->idle_by_ns[k] += p->idle_by_ns[k];
    if (!HM_IS_NONE(p->peak_bytes) &&
        (HM_IS_NONE(sum->peak_bytes) || p->peak_bytes > sum->peak_bytes))
        sum->peak_bytes = p->peak_bytes;
    if (p->fed_bytes > 0 && sum->fed_bytes < INT64_MAX / 2)
        sum->fed_bytes += p->fed_bytes;
    sum->n_kernels += p->n_kernels;
}

hm_status_t hm_judge_steps(struct hm_judge *j, const struct hm_step_part *p, const uint32_t *worker,
                           size_t n)
{
    unsigned flags = 0; /* of any worker: a step is left out as a whole */
    for (size_t i = 0; i < n; i++)
        flags |= worker[i] < j->n_workers ? p[i].flags : 0;
    for (size_t i = 0; i < n; i++) {
        if (worker[i] >= j->n_workers)
            continue;
        int fresh = !j->n_steps || j->step[j->n_steps - 1].step != p[i].step;
        if (fresh) {
            if (!reserve((void **)&j->step, &j->cap_steps, j->n_steps + 1, sizeof(*j->step)))
                return hm_fail(HM_E_NOMEM, "judge", "out of memory");
            j->step[j->n_steps++] = (struct hm_jstep){
                .step = p[i].step, .last_worker = HM_NO_ID, .t0_ns = INT64_MAX, .t1_ns = INT64_MIN};
        }
        struct hm_jstep *s = &j->step[j->n_steps - 1];
        s->left_out |= (flags & (HM_STEP_WARMUP | HM_STEP_OWN_FLUSH | HM_STEP_PARTIAL)) != 0;
        s->watched |= (flags & HM_STEP_OBSERVED) != 0;
        s->n++;
        s->t0_ns = p[i].t0_ns < s->t0_ns ? p[i].t0_ns : s->t0_ns;
        s->t1_ns = p[i].t1_ns > s->t1_ns ? p[i].t1_ns : s->t1_ns;
        s->time_ns += p[i].t1_ns - p[i].t0_ns;
        s->compute_ns += p[i].compute_ns;
        s->exposed_ns += p[i].comm_ns - p[i].overlap_ns;
        s->stall_ns += p[i].stall_ns;
        s->input_ns += p[i].input_ns < p[i].idle_ns ? p[i].input_ns : p[i].idle_ns;
        if (s->left_out)
            continue;
        struct hm_jworker *w = &j->worker[worker[i]];
        add_parts(s->watched ? &w->watched : &w->sum, &p[i]);
        j->t0_ns = p[i].t0_ns < j->t0_ns ? p[i].t0_ns : j->t0_ns;
    }
    return HM_OK;
}

hm_status_t hm_judge_kernels(struct hm_judge *j, uint32_t worker, const struct hm_kernel_stat *k,
                             size_t n)
{
    if (worker >= j->n_workers)
        return HM_OK;
    struct hm_jworker *w = &j->worker[worker];
    size_t cap = w->cap_kernels;
    if (!reserve((void **)&w->kernel, &cap, w->n_kernels + n, sizeof(*k)))
        return hm_fail(HM_E_NOMEM, "judge", "out of memory");
    w->cap_kernels = (uint32_t)cap;
    if (n)
        memcpy(w->kernel + w->n_kernels, k, n * sizeof(*k));
    w->n_kernels += (uint32_t)n;
    return HM_OK;
}

void hm_judge_health(struct hm_judge *j, uint32_t worker, const struct hm_health_sum *sum,
                     const uint8_t uuid[16])
{
    if (worker >= j->n_workers)
        return;
    j->worker[worker].health = *sum;
    memcpy(j->worker[worker].uuid, uuid, sizeof(j->worker[worker].uuid));
}

/* Keeps the analysed steps, turns step numbers of launches into indices. */
static void settle_steps(struct hm_judge *j)
{
    size_t n = 0, n_watched = 0;
    for (size_t i = 0; i < j->n_steps; i++)
        n_watched += !j->step[i].left_out && j->step[i].watched;
    /* a profiler that works in most of the steps is part of the run */
    int keep = 2 * n_watched > j->n_steps;
    for (uint32_t w = 0; keep && w < j->n_workers; w++) {
        struct hm_step_part *p = &j->worker[w].watched;
        add_parts(&j->worker[w].sum, p); /* its t0_ns is 0 */
    }
    for (size_t i = 0; i < j->n_steps; i++) {
        struct hm_jstep s = j->step[i];
        if (!s.left_out && s.watched && !keep) {
            j->watched_from = j->n_watched++ ? j->watched_from : s.step;
            j->watched_to = s.step;
            s.left_out = 1;
        }
        if (s.left_out) {
            j->n_skipped++;
            continue;
        }
        int64_t k = s.n ? s.n : 1;
        s.time_ns /= k;
        s.compute_ns /= k;
        s.exposed_ns /= k;
        s.stall_ns /= k;
        s.input_ns /= k;
        j->total_ns += s.time_ns;
        j->step[n++] = s;
    }
    j->n_steps = n;
    for (size_t i = 0; i < j->n_launches; i++) {
        uint32_t lo = 0, hi = (uint32_t)n, step = j->launch[i].i_step;
        while (lo < hi) {
            uint32_t mid = lo + (hi - lo) / 2;
            if (j->step[mid].step < step)
                lo = mid + 1;
            else
                hi = mid;
        }
        j->launch[i].i_step = lo < n && j->step[lo].step == step ? lo : HM_NO_ID;
    }
    if (j->t0_ns == INT64_MAX)
        j->t0_ns = j->n_launches ? j->launch[0].first_ns : 0;
}

hm_status_t hm_judge_result(struct hm_judge *j, struct hm_result *result_p)
{
    memset(result_p, 0, sizeof(*result_p));
    settle_steps(j);
    hm_judge_clocks(j);
    hm_status_t st = hm_judge_roles(j);
    if (st == HM_OK)
        st = hm_judge_propagate(j);
    if (st == HM_OK)
        st = hm_judge_quality(j, result_p);
    if (st == HM_OK)
        st = hm_judge_stuck(j, result_p);
    if (st == HM_OK && !result_p->n_rows[HM_T_finding]) /* a stuck run has no other culprit */
        st = hm_judge_verdict(j, result_p);
    if (st == HM_OK)
        st = hm_judge_pop(j, result_p);
    if (st == HM_OK)
        st = hm_judge_trends(j, result_p);
    if (st == HM_OK)
        st = hm_judge_tables(j, result_p);
    if (st == HM_OK)
        st = hm_judge_opstat_table(j, result_p);
    result_p->t0_ns = j->t0_ns;
    if (st != HM_OK)
        hm_result_clear(result_p);
    return st;
}
