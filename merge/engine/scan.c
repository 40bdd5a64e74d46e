/* Scan: my ranks one after another, events of each in time order.
 *
 * Box: merge/engine. A rank file that turns out to be damaged is left out with a problem line.
 */
#include "engine/more.h"

#include <stdio.h>
#include <string.h>

hm_status_t hm_scan(struct hm_engine *e, const struct hm_query *q, hm_scan_func_t fn, void *ctx)
{
    hm_status_t s = HM_OK;
    for (uint32_t i = e->rank_lo; i < e->rank_hi && s == HM_OK; i++) {
        struct hm_timemap map[HM_N_CLOCKS];
        struct hm_rank *r;
        hm_engine_maps(e, i, map);
        s = hm_rank_open(e->run.rank[i].path, map, &e->run.names, &r);
        if (s)
            break;
        s = hm_rank_seek(r, q);
        if (s == HM_OK)
            s = fn(e, (uint32_t)e->run.rank[i].rank, r, ctx);
        hm_rank_close(r);
        if (s == HM_E_DATA)
            hm_fail(s, e->run.rank[i].path, "damaged; take it out of the folder and try again");
    }
    return s;
}

uint32_t hm_engine_first_worker(const struct hm_engine *e, uint32_t i_rank)
{
    uint32_t w = 0;
    while (w < e->run.n_workers && e->run.worker[w].rank != (uint32_t)e->run.rank[i_rank].rank)
        w++;
    return w;
}

uint32_t hm_engine_worker(const struct hm_engine *e, uint32_t rank, uint32_t device)
{
    uint32_t lo = 0, hi = e->run.n_workers;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        const struct hm_worker *w = &e->run.worker[mid];
        if (w->rank < rank || (w->rank == rank && w->device < device))
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < e->run.n_workers && e->run.worker[lo].rank == rank &&
                   e->run.worker[lo].device == device
               ? lo
               : HM_NO_ID;
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
