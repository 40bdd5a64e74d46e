/* The engine: open, collect, match, account, judge; one code path for one or many members.
 *
 * Box: merge/engine. I/O and parallelism live here; what is computed lives in lib/analysis.
 */
#ifndef HM_ENGINE_H
#define HM_ENGINE_H

#include "align/align.h"
#include "analysis/result.h"
#include "analysis/roles.h"
#include "analysis/rows.h"
#include "analysis/why.h"
#include "store/rank.h"

struct hm_team {
    uint32_t n, me;
    void *impl; /* solo, threads, MPI: three small files, one code path above them */
    hm_status_t (*meet)(struct hm_team *,
                        hm_status_t mine); /* barrier; the worst status reaches all */
    hm_status_t (*share)(struct hm_team *, const void *mine, size_t n, void **all_p,
                         size_t *n_p); /* concatenated in member order */
    hm_status_t (*trade)(struct hm_team *, const void *out, const size_t n_out[], void **in_p,
                         size_t n_in[]);
};
struct hm_spool; /* rows of one size in an unlinked file: append, read(i, n), write(i, n) */
struct hm_span {
    uint64_t first, n;
};
struct hm_engine {
    struct hm_team *team;
    struct hm_run run;
    uint32_t rank_lo, rank_hi;
    struct hm_why *want_why; /* set before judge: filled for this rank and step */
    uint32_t why_rank, why_step;
    int want_ops; /* set before account: keep statistics of ranges, calls and kernels by name */
    struct hm_spool *arrival, *annot, *segment, *step;
    struct hm_engine_more *more; /* of phases.c and sweep.c */
    struct hm_span *of_rank, *of_rank_step;
};
typedef hm_status_t (*hm_scan_func_t)(struct hm_engine *, uint32_t rank, struct hm_rank *,
                                      void *ctx);
hm_status_t hm_scan(struct hm_engine *e, const struct hm_query *q, hm_scan_func_t fn,
                    void *ctx); /* my ranks one after another, events in time order */

/** Runs fn once per member; solo here, threads and MPI through the same call later. */
typedef hm_status_t (*hm_team_func_t)(struct hm_team *team, void *arg);
hm_status_t hm_team_run(uint32_t n_threads, hm_team_func_t fn, void *arg);

/** How long hm_engine_open() waits for files that are still being written, ms (default 10 s). */
extern int hm_engine_wait_ms;
/** Phases, in this order. Each needs the ones before it (timeline needs up to match). */
hm_status_t hm_engine_open(struct hm_team *team, const char *run, struct hm_engine *e_p);
/** Before collect: only steps first..last are analysed (all when never called). */
void hm_engine_select_steps(struct hm_engine *e, int64_t first, int64_t last);
/** Before judge: the layout of the ranks, in place of what would be found (copied). HM_OK, or
 *  HM_E_USAGE (said) when its size is not the number of ranks. */
hm_status_t hm_engine_set_mesh(struct hm_engine *e, const struct hm_mesh *mesh);
hm_status_t hm_engine_collect(struct hm_engine *e);
hm_status_t hm_engine_match(struct hm_engine *e);
hm_status_t hm_engine_account(struct hm_engine *e);
/** Owner of *result_p: the engine, until hm_engine_close(). */
hm_status_t hm_engine_judge(struct hm_engine *e, struct hm_result **result_p);
/** After judge: the gate chain of a worker's arrival, stretch by stretch. Reads the rank again. */
hm_status_t hm_engine_explain(struct hm_engine *e, uint32_t worker, uint32_t arrival,
                              void (*link)(void *ctx, const struct hm_link *link), void *ctx);
void hm_engine_close(struct hm_engine *e);

/** After collect: HM_OK, or HM_E_USAGE (said) when none of the selected steps is in the run. */
hm_status_t hm_engine_selected(const struct hm_engine *e);
/** Arrivals and annotations of one worker in start order, for a timeline: reads up to n rows from
 *  row `first` of the worker; returns how many. Same index in both arrays. */
size_t hm_engine_arrivals(struct hm_engine *e, uint32_t worker, uint64_t first,
                          struct hm_arrival *arrival_p, struct hm_annot *annot_p, size_t n);

#endif
