/* Scan: my ranks one after another, events of each in time order.
 *
 * Box: merge/engine. A rank file that turns out to be damaged is left out with a problem line.
 */
#include "engine/more.h"

#include <stdio.h>
#include <string.h>

/* Collect reads every table, so that damage is met there, before anything of the rank is used. */
static hm_status_t leave_out(struct hm_engine *e, uint32_t i, hm_status_t s)
{
    const char *path = e->run.rank[i].path, *slash = strrchr(path, '/');
    if (!e->more->collecting)
        return hm_fail(s, path, "damaged; take it out of the folder and try again");
    uint32_t rank = (uint32_t)e->run.rank[i].rank;
    for (uint32_t w = hm_engine_first_worker(e, i);
         w < e->run.n_workers && e->run.worker[w].rank == rank; w++)
        e->more->bad[w] = 1;
    hm_run_problem(&e->run, slash ? slash + 1 : path, "damaged inside; the rank is left out");
    return HM_OK;
}

hm_status_t hm_scan(struct hm_engine *e, const struct hm_query *q, hm_scan_func_t fn, void *ctx)
{
    hm_status_t s = HM_OK;
    uint32_t n = 0;
    for (uint32_t i = e->rank_lo; i < e->rank_hi && s == HM_OK; i++) {
        struct hm_timemap map[HM_N_CLOCKS];
        struct hm_rank *r = NULL;
        if (e->more->bad[hm_engine_first_worker(e, i)])
            continue;
        hm_engine_maps(e, i, map);
        s = hm_rank_open(e->run.rank[i].path, map, &e->run.names, &r);
        if (s == HM_OK)
            s = hm_rank_seek(r, q);
        if (s == HM_OK)
            s = fn(e, (uint32_t)e->run.rank[i].rank, r, ctx);
        hm_rank_close(r);
        if (s == HM_E_DATA)
            s = leave_out(e, i, s);
        else
            n += s == HM_OK;
    }
    if (s == HM_OK && !n && e->rank_hi > e->rank_lo)
        s = hm_fail(HM_E_DATA, e->run.path, "no usable rank file");
    return s;
}

uint32_t hm_engine_first_worker(const struct hm_engine *e, uint32_t i_rank)
{
    uint32_t lo = 0, hi = e->run.n_workers, rank = (uint32_t)e->run.rank[i_rank].rank;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (e->run.worker[mid].rank < rank)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

size_t hm_engine_arrivals(struct hm_engine *e, uint32_t worker, uint64_t first,
                          struct hm_arrival *arrival_p, struct hm_annot *annot_p, size_t n)
{
    if (worker >= e->run.n_workers || first >= e->of_rank[worker].n)
        return 0;
    uint64_t left = e->of_rank[worker].n - first;
    if (n > left)
        n = left;
    uint64_t at = e->of_rank[worker].first + first;
    if (hm_spool_read(e->arrival, at, arrival_p, n) || hm_spool_read(e->annot, at, annot_p, n))
        return 0;
    return n;
}
