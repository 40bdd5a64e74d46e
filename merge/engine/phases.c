/* The order of things: open, collect (collect.c), match (match.c), account (account.c), judge
 * (judge.c).
 *
 * Box: merge/engine.
 */
#include "engine/phases.h"

#include <stdlib.h>
#include <string.h>

hm_status_t hm_engine_open(struct hm_team *team, const char *path, struct hm_engine *e)
{
    memset(e, 0, sizeof(*e));
    e->team = team;
    hm_status_t s = hm_run_open(path, hm_engine_wait_ms, &e->run);
    if (s)
        return s;
    e->rank_hi = e->run.n_present;
    uint32_t n = e->run.n_workers + 1;
    e->more = calloc(1, sizeof(*e->more));
    e->of_rank = calloc(n, sizeof(*e->of_rank));
    e->of_rank_step = calloc(n, sizeof(*e->of_rank_step));
    s = e->more && e->of_rank && e->of_rank_step ? HM_OK : HM_E_NOMEM;
    if (s == HM_OK) {
        hm_engine_select_steps(e, 0, INT64_MAX);
        e->more->window = calloc(n, sizeof(*e->more->window));
        e->more->n_windows = calloc(n, sizeof(*e->more->n_windows));
        e->more->domain_of_worker = calloc(n, sizeof(uint32_t));
        e->more->bad = calloc(n, 1);
        e->more->health = calloc(n, sizeof(*e->more->health));
        e->more->alive = calloc(n, sizeof(*e->more->alive));
        s = e->more->window && e->more->n_windows && e->more->domain_of_worker && e->more->bad &&
                    e->more->health && e->more->alive
                ? HM_OK
                : HM_E_NOMEM;
        for (uint32_t w = 0; s == HM_OK && w < n; w++)
            hm_health_none(&e->more->health[w].sum);
    }
    for (uint32_t i = 0, w = 0; i < e->run.n_present && s == HM_OK; i++)
        for (; w < e->run.n_workers && e->run.worker[w].rank == (uint32_t)e->run.rank[i].rank; w++)
            e->more->domain_of_worker[w] = e->run.rank[i].domain;
    struct {
        struct hm_spool **spool;
        size_t bytes;
    } all[] = {{&e->arrival, sizeof(struct hm_arrival)},
               {&e->annot, sizeof(struct hm_annot)},
               {&e->segment, sizeof(struct hm_segment)},
               {&e->step, sizeof(struct hm_step_part)},
               {&e->more->launch, sizeof(struct hm_launch)},
               {&e->more->part, sizeof(struct hm_part)},
               {&e->more->opstat, sizeof(struct hm_opstat_row)},
               {&e->more->kernel, sizeof(struct hm_kernel_row)}};
    for (size_t i = 0; i < sizeof(all) / sizeof(*all) && s == HM_OK; i++)
        s = hm_spool_create((uint32_t)all[i].bytes, all[i].spool);
    if (s == HM_OK)
        s = hm_engine_clocks(e);
    if (s)
        hm_engine_close(e);
    return s;
}

int hm_engine_wait_ms = 10000;

void hm_engine_select_steps(struct hm_engine *e, int64_t first, int64_t last)
{
    e->more->first_step = first;
    e->more->last_step = last;
}

hm_status_t hm_engine_set_mesh(struct hm_engine *e, const struct hm_mesh *mesh)
{
    if (hm_mesh_size(mesh) != e->run.n_ranks)
        return hm_fail(HM_E_USAGE, "--mesh", "its size is %llu, but the run has %u ranks",
                       (unsigned long long)hm_mesh_size(mesh), e->run.n_ranks);
    e->more->mesh = *mesh;
    return HM_OK;
}

hm_status_t hm_engine_selected(const struct hm_engine *e)
{
    const struct hm_engine_more *m = e->more;
    if (m->n_selected || (m->first_step == 0 && m->last_step == INT64_MAX))
        return HM_OK;
    if (!m->n_has)
        return hm_fail(HM_E_USAGE, "--steps", "no step was found in the run");
    return hm_fail(HM_E_USAGE, "--steps", "no such step; the run has %u..%u", m->has_first,
                   m->has_last);
}

void hm_engine_close(struct hm_engine *e)
{
    struct hm_spool *all[] = {e->arrival, e->annot, e->segment, e->step};
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        hm_spool_destroy(all[i]);
    if (e->more) {
        hm_spool_destroy(e->more->launch);
        hm_spool_destroy(e->more->part);
        hm_spool_destroy(e->more->kernel);
        hm_spool_destroy(e->more->opstat);
        for (uint32_t w = 0; e->more->window && w < e->run.n_workers; w++)
            free(e->more->window[w]);
        free(e->more->window);
        free(e->more->n_windows);
        free(e->more->domain_of_worker);
        for (uint32_t i = 0; e->more->comm && i < e->more->n_comms; i++)
            free((void *)(uintptr_t)e->more->comm[i].member);
        free(e->more->comm);
        free(e->more->lone);
        hm_engine_infer_free(e->more);
        free(e->more->rough);
        free(e->more->bad);
        free(e->more->health);
        free(e->more->link);
        free(e->more->alive);
        free(e->more->progress);
        if (e->more->align)
            hm_align_free(e->more->align);
        hm_result_clear(&e->more->result);
        free(e->more);
    }
    free(e->of_rank);
    free(e->of_rank_step);
    hm_run_close(&e->run);
    memset(e, 0, sizeof(*e));
}
