/* Judge: launches with their parts, step parts and kernel statistics, in order -> the result.
 *
 * Box: merge/engine. What is computed lives in lib/analysis/judge.h.
 */
#include "engine/phases.h"

#include <stdlib.h>

enum { JUDGE_LAUNCHES = 256 };

/* Segments of a window: those of one worker lie close together, so they are read in one go. */
struct fetch {
    uint32_t *head, *next; /* [n_workers], [n_parts]: parts of a worker, linked */
    uint32_t *touched, n_touched;
    struct hm_segment *row;
    size_t cap_row, cap_next;
};

static void fetch_free(struct fetch *f)
{
    free(f->head);
    free(f->next);
    free(f->touched);
    free(f->row);
}

static hm_status_t fetch_init(struct fetch *f, uint32_t n_workers)
{
    *f = (struct fetch){.head = malloc((n_workers + 1) * sizeof(uint32_t)),
                        .touched = malloc((n_workers + 1) * sizeof(uint32_t))};
    if (!f->head || !f->touched)
        return HM_E_NOMEM;
    for (uint32_t w = 0; w <= n_workers; w++)
        f->head[w] = HM_NO_ID;
    return HM_OK;
}

/* Those of worker w: rows [lo, hi]. Where the window uses few of them, one by one. */
static hm_status_t fetch_worker(struct hm_engine *e, struct fetch *f, uint32_t w,
                                const struct hm_part *part, struct hm_segment *segment)
{
    uint32_t lo = HM_NO_ID, hi = 0, n = 0;
    for (uint32_t i = f->head[w]; i != HM_NO_ID; i = f->next[i], n++) {
        lo = part[i].i_arrival < lo ? part[i].i_arrival : lo;
        hi = part[i].i_arrival > hi ? part[i].i_arrival : hi;
    }
    uint64_t first = e->of_rank[w].first;
    size_t n_rows = (size_t)hi - lo + 1;
    hm_status_t s = HM_OK;
    if (n_rows > 8 * (size_t)n) {
        for (uint32_t i = f->head[w]; i != HM_NO_ID && s == HM_OK; i = f->next[i])
            s = hm_spool_read(e->segment, first + part[i].i_arrival, &segment[i], 1);
        return s;
    }
    if (n_rows > f->cap_row) {
        struct hm_segment *row = realloc(f->row, n_rows * sizeof(*row));
        if (!row)
            return HM_E_NOMEM;
        f->row = row;
        f->cap_row = n_rows;
    }
    s = hm_spool_read(e->segment, first + lo, f->row, n_rows);
    for (uint32_t i = f->head[w]; i != HM_NO_ID && s == HM_OK; i = f->next[i])
        segment[i] = f->row[part[i].i_arrival - lo];
    return s;
}

static hm_status_t fetch_segments(struct hm_engine *e, struct fetch *f, struct hm_part *part,
                                  struct hm_segment *segment, size_t n_parts)
{
    if (n_parts > f->cap_next) {
        uint32_t *next = realloc(f->next, n_parts * sizeof(*next));
        if (!next)
            return HM_E_NOMEM;
        f->next = next;
        f->cap_next = n_parts;
    }
    f->n_touched = 0;
    for (uint32_t i = 0; i < n_parts; i++) {
        uint32_t w = part[i].worker;
        if (f->head[w] == HM_NO_ID)
            f->touched[f->n_touched++] = w;
        part[i].i_segment = i;
        f->next[i] = f->head[w];
        f->head[w] = i;
    }
    hm_status_t s = HM_OK;
    for (uint32_t t = 0; t < f->n_touched; t++) {
        if (s == HM_OK)
            s = fetch_worker(e, f, f->touched[t], part, segment);
        f->head[f->touched[t]] = HM_NO_ID;
    }
    return s;
}

static hm_status_t judge_launches(struct hm_engine *e, struct hm_judge *judge)
{
    struct hm_launch launch[JUDGE_LAUNCHES];
    uint64_t n_all = hm_spool_count(e->more->launch);
    struct hm_part *part = NULL;
    struct hm_segment *segment = NULL;
    struct fetch fetch;
    hm_status_t s = fetch_init(&fetch, e->run.n_workers);
    for (uint64_t at = 0; at < n_all && s == HM_OK; at += JUDGE_LAUNCHES) {
        size_t n = n_all - at < JUDGE_LAUNCHES ? (size_t)(n_all - at) : JUDGE_LAUNCHES, n_parts = 0;
        s = hm_spool_read(e->more->launch, at, launch, n);
        if (s)
            break;
        uint64_t first = launch[0].i_part;
        for (size_t i = 0; i < n; i++)
            n_parts += launch[i].n_present;
        free(part);
        free(segment);
        part = malloc((n_parts + 1) * sizeof(*part));
        segment = malloc((n_parts + 1) * sizeof(*segment));
        s = part && segment ? hm_spool_read(e->more->part, first, part, n_parts) : HM_E_NOMEM;
        if (s == HM_OK)
            s = fetch_segments(e, &fetch, part, segment, n_parts);
        for (size_t i = 0; i < n; i++)
            launch[i].i_part = (uint32_t)(launch[i].i_part - first);
        struct hm_window w = {.launch = launch,
                              .part = part,
                              .segment = segment,
                              .n_launches = n,
                              .n_parts = n_parts,
                              .n_segments = n_parts};
        if (s == HM_OK)
            s = hm_judge_window(judge, &w);
    }
    fetch_free(&fetch);
    free(part);
    free(segment);
    return s;
}

/* The next unread step part of a worker; step = HM_NO_ID when there is none. */
static hm_status_t next_step(struct hm_engine *e, uint32_t worker, uint64_t at,
                             struct hm_step_part *row_p)
{
    row_p->step = HM_NO_ID;
    if (at >= e->of_rank_step[worker].n)
        return HM_OK;
    return hm_spool_read(e->step, e->of_rank_step[worker].first + at, row_p, 1);
}

static hm_status_t judge_steps(struct hm_engine *e, struct hm_judge *judge)
{
    uint32_t n_workers = e->run.n_workers;
    struct hm_step_part *head = calloc(n_workers + 1, sizeof(*head)); /* of each worker */
    struct hm_step_part *p = calloc(n_workers + 1, sizeof(*p));
    uint32_t *worker = calloc(n_workers + 1, sizeof(*worker));
    uint64_t *at = calloc(n_workers + 1, sizeof(*at));
    hm_status_t s = head && p && worker && at ? HM_OK : HM_E_NOMEM;
    for (uint32_t w = 0; w < n_workers && s == HM_OK; w++)
        s = next_step(e, w, 0, &head[w]);
    while (s == HM_OK) { /* each turn: the lowest step that any worker has next */
        uint32_t lowest = HM_NO_ID, n = 0;
        for (uint32_t w = 0; w < n_workers; w++)
            if (head[w].step < lowest)
                lowest = head[w].step;
        if (lowest == HM_NO_ID)
            break;
        for (uint32_t w = 0; w < n_workers && s == HM_OK; w++)
            if (head[w].step == lowest) {
                p[n] = head[w];
                worker[n++] = w;
                s = next_step(e, w, ++at[w], &head[w]);
            }
        if (s == HM_OK)
            s = hm_judge_steps(judge, p, worker, n);
    }
    free(head);
    free(p);
    free(worker);
    free(at);
    return s;
}

static hm_status_t judge_kernels(struct hm_engine *e, struct hm_judge *judge)
{
    uint64_t n_all = hm_spool_count(e->more->kernel);
    hm_status_t s = HM_OK;
    for (uint64_t at = 0; at < n_all && s == HM_OK; at++) {
        struct hm_kernel_row row;
        s = hm_spool_read(e->more->kernel, at, &row, 1);
        if (s == HM_OK)
            s = hm_judge_kernels(judge, row.worker, &row.stat, 1);
    }
    return s;
}

static hm_status_t judge_opstats(struct hm_engine *e, struct hm_judge *judge)
{
    uint64_t n_all = hm_spool_count(e->more->opstat);
    hm_status_t s = HM_OK;
    for (uint64_t at = 0; at < n_all && s == HM_OK; at++) {
        struct hm_opstat_row row;
        s = hm_spool_read(e->more->opstat, at, &row, 1);
        if (s == HM_OK)
            s = hm_judge_opstat(judge, row.worker, &row.stat);
    }
    return s;
}

static hm_status_t each_launch(void *engine, hm_launch_visit_t visit, void *ctx)
{
    struct hm_engine *e = engine;
    uint64_t n = hm_spool_count(e->more->launch);
    hm_status_t s = HM_OK;
    for (uint64_t i = 0; i < n && s == HM_OK; i++) {
        struct hm_launch l;
        s = hm_spool_read(e->more->launch, i, &l, 1);
        struct hm_part *p = s ? NULL : malloc((l.n_present + 1) * sizeof(*p));
        if (s == HM_OK && !p)
            s = HM_E_NOMEM;
        if (s == HM_OK)
            s = hm_spool_read(e->more->part, l.i_part, p, l.n_present);
        if (s == HM_OK)
            s = visit(ctx, &l, p);
        free(p);
    }
    return s;
}

hm_status_t hm_engine_judge(struct hm_engine *e, struct hm_result **result_p)
{
    const struct hm_match_stats *m = &e->more->match;
    uint32_t most = 0, skip = 0;
    for (uint32_t w = 0; w < e->run.n_workers; w++)
        if (e->more->n_windows[w] > most) {
            most = (uint32_t)e->more->n_windows[w];
            skip = e->more->window[w][0].flags & HM_STEP_WARMUP ? 1 : 0;
        }
    struct hm_judge_in in = {.run = &e->run,
                             .n_launches_seen = m->n_launches,
                             .n_launches_matched = m->n_complete,
                             .n_violations = m->n_violations,
                             .clock_error_ns = m->error_max_ns,
                             .arrival_source = e->more->source,
                             .step_source = e->more->step_source,
                             .progress = e->more->progress,
                             .n_progress = e->more->n_progress,
                             .alive = e->more->alive,
                             .n_graph_ranks = e->more->n_graph_ranks,
                             .mesh = e->more->mesh.n_dims ? &e->more->mesh : NULL,
                             .inferred = e->more->inferred,
                             .n_inferred = e->more->n_inferred,
                             .n_steps = most - skip,
                             .n_skipped = skip};
    for (uint32_t i = 0; i < e->run.n_present; i++)
        if (e->run.rank[i].source == HM_SOURCE_INSPECTOR)
            in.arrival_source = HM_ARRIVAL_PTIMER; /* durations by the GPU's timer, no starts */
    struct hm_judge *judge;
    hm_status_t s = hm_judge_create(&in, &judge);
    if (s)
        return s;
    s = judge_launches(e, judge);
    if (s == HM_OK)
        s = judge_steps(e, judge);
    if (s == HM_OK)
        s = judge_kernels(e, judge);
    if (s == HM_OK)
        s = hm_judge_links(judge, e->more->link, e->more->n_links);
    if (s == HM_OK)
        s = judge_opstats(e, judge);
    for (uint32_t w = 0; w < e->run.n_workers; w++)
        hm_judge_health(judge, w, &e->more->health[w].sum, e->more->health[w].uuid);
    if (s == HM_OK)
        s = hm_judge_result(judge, &e->more->result);
    for (uint32_t w = 0; s == HM_OK && e->want_why && w < e->run.n_workers; w++) {
        struct hm_why why;
        if (e->run.worker[w].rank == e->why_rank && hm_judge_why(judge, w, e->why_step, &why) &&
            (!e->want_why->found || why.late_ns > e->want_why->late_ns))
            *e->want_why = why;
    }
    hm_judge_destroy(judge);
    if (s == HM_OK) {
        e->more->result.each_launch = each_launch;
        e->more->result.engine = e;
        *result_p = &e->more->result;
    }
    return s;
}
