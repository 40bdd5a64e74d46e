/* Judge: launches with their parts, step parts and kernel statistics, in order -> the result.
 *
 * Box: merge/engine. What is computed lives in lib/analysis/judge.h.
 */
#include "engine/phases.h"

#include <stdlib.h>

enum { JUDGE_LAUNCHES = 256 };

static hm_status_t judge_launches(struct hm_engine *e, struct hm_judge *judge)
{
    struct hm_launch launch[JUDGE_LAUNCHES];
    uint64_t n_all = hm_spool_count(e->more->launch);
    struct hm_part *part = NULL;
    struct hm_segment *segment = NULL;
    hm_status_t s = HM_OK;
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
        for (size_t i = 0; i < n_parts && s == HM_OK; i++) {
            part[i].i_segment = (uint32_t)i;
            s = hm_spool_read(e->segment, e->of_rank[part[i].worker].first + part[i].i_arrival,
                              &segment[i], 1);
        }
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
    for (uint32_t w = 0; w < e->run.n_workers; w++)
        hm_judge_health(judge, w, &e->more->health[w].sum, e->more->health[w].uuid);
    if (s == HM_OK)
        s = hm_judge_result(judge, &e->more->result);
    hm_judge_destroy(judge);
    if (s == HM_OK) {
        e->more->result.each_launch = each_launch;
        e->more->result.engine = e;
        *result_p = &e->more->result;
    }
    return s;
}
