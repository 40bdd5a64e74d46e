/* Clocks of a run: domains, probes, maps.
 *
 * Box: merge/engine. One domain needs nothing: its ranks share one clock.
 */
#include "engine/more.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_EDGES = 4096 };

void hm_engine_maps(const struct hm_engine *e, uint32_t i_rank, struct hm_timemap map[HM_N_CLOCKS])
{
    memset(map, 0, HM_N_CLOCKS * sizeof(*map));
    uint32_t domain = e->run.rank[i_rank].domain;
    if (!e->more->align)
        return;
    map[HM_CLOCK_RAW] = hm_align_domain(e->more->align, domain);
    if (!map[HM_CLOCK_RAW].n && e->more->rough && domain)
        map[HM_CLOCK_RAW] = (struct hm_timemap){&e->more->rough[domain], 1, 0};
}

static hm_status_t read_probes(struct hm_engine *e, uint32_t i_rank,
                               const uint32_t *domain_of_leader, uint32_t n_leaders,
                               struct hm_edge *edge, size_t *n_p)
{
    struct hm_rank *r;
    struct hm_batch b;
    struct hm_query q = {.kinds = UINT64_C(1) << HM_EV_CLOCK_PROBE};
    hm_status_t s = hm_rank_open(e->run.rank[i_rank].path, NULL, &e->run.names, &r);
    if (s)
        return s;
    s = hm_rank_seek(r, &q);
    struct hm_event *probe = NULL;
    size_t n = 0;
    while (s == HM_OK && (s = hm_rank_next(r, &b)) == HM_OK) {
        struct hm_event *p = realloc(probe, (n + b.n) * sizeof(*p));
        if (!p) {
            s = HM_E_NOMEM;
            break;
        }
        probe = p;
        for (uint32_t i = 0; i < b.n; i++) {
            uint32_t peer = b.ev[i].u.probe.peer;
            if (peer >= n_leaders || domain_of_leader[peer] == HM_NO_ID)
                continue; /* the peer's files are not here */
            probe[n] = b.ev[i];
            probe[n++].u.probe.peer = domain_of_leader[peer];
        }
    }
    hm_rank_close(r);
    if (s == HM_END) {
        s = HM_OK;
        *n_p += hm_edges_from_probes(e->run.rank[i_rank].domain, probe, n, edge + *n_p,
                                     MAX_EDGES - *n_p);
    }
    free(probe);
    return s;
}

/* A domain that no probe reaches is put where its wall clock says, so that a picture of it makes
 * sense. Nothing is concluded from it: its error stays unbounded. */
static hm_status_t place_roughly(struct hm_engine *e)
{
    const struct hm_run *run = &e->run;
    int64_t ahead0 = 0;
    e->more->rough = calloc(run->n_domains, sizeof(*e->more->rough));
    if (!e->more->rough)
        return HM_E_NOMEM;
    for (uint32_t i = run->n_present; i; i--) { /* the first rank of a domain speaks for it */
        const struct hm_rank_meta *m = &run->meta[i - 1];
        int64_t ahead;
        if (__builtin_sub_overflow(m->start_real_ns, m->start_raw_ns, &ahead) || !m->start_real_ns)
            continue;
        if (!run->rank[i - 1].domain)
            ahead0 = ahead;
        e->more->rough[run->rank[i - 1].domain].y0_ns = ahead;
    }
    for (uint32_t d = 0; d < run->n_domains; d++) {
        struct hm_timeseg *r = &e->more->rough[d];
        int64_t ahead = r->y0_ns;
        if (!ahead || __builtin_sub_overflow(ahead, ahead0, &r->y0_ns))
            r->y0_ns = 0;
    }
    return HM_OK;
}

hm_status_t hm_engine_clocks(struct hm_engine *e)
{
    struct hm_run *run = &e->run;
    if (run->n_domains < 2)
        return HM_OK;
    uint32_t n_leaders = 0;
    for (uint32_t i = 0; i < run->n_present; i++)
        if (run->meta[i].leader_index != HM_NO_ID && run->meta[i].leader_index >= n_leaders &&
            run->meta[i].leader_index < (1u << 20))
            n_leaders = run->meta[i].leader_index + 1;
    uint32_t *domain_of_leader = malloc((n_leaders + 1) * sizeof(*domain_of_leader));
    struct hm_edge *edge = calloc(MAX_EDGES, sizeof(*edge));
    size_t n = 0;
    hm_status_t s = domain_of_leader && edge ? HM_OK : HM_E_NOMEM;
    for (uint32_t i = 0; i < n_leaders && s == HM_OK; i++)
        domain_of_leader[i] = HM_NO_ID;
    for (uint32_t i = 0; i < run->n_present && s == HM_OK; i++)
        if (run->meta[i].leader_index < n_leaders)
            domain_of_leader[run->meta[i].leader_index] = run->rank[i].domain;
    for (uint32_t i = 0; i < run->n_present && s == HM_OK; i++)
        if (run->rank[i].rows[HM_EV_CLOCK_PROBE] && n < MAX_EDGES)
            s = read_probes(e, i, domain_of_leader, n_leaders, edge, &n);
    if (s == HM_OK)
        s = hm_align_fit(run->n_domains, edge, n, NULL, 0, &e->more->align);
    uint32_t n_unknown = 0;
    for (uint32_t d = 0; d < run->n_domains && s == HM_OK; d++) {
        struct hm_align_info info;
        hm_align_report(e->more->align, d, &info);
        n_unknown += d && !info.reachable;
    }
    if (n_unknown) {
        char what[256];
        snprintf(
            what, sizeof(what),
            "the clocks of %u of %u nodes were never compared: times across nodes are not used; "
            "start under MPI so that clocks are probed",
            n_unknown, run->n_domains);
        s = place_roughly(e);
        hm_run_problem(&e->run, "clocks", what);
    }
    free(domain_of_leader);
    free(edge);
    return s;
}
