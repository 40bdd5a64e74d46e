/* What the engine's files share. Box: merge/engine. */
#ifndef HM_ENGINE_MORE_H
#define HM_ENGINE_MORE_H

#include "analysis/health.h"
#include "analysis/judge.h"
#include "analysis/match.h"
#include "analysis/network.h"
#include "analysis/opstats.h"
#include "analysis/steps.h"
#include "engine/engine.h"
#include "engine/spool.h"

struct hm_kernel_row {
    struct hm_kernel_stat stat;
    uint32_t worker, pad;
};
struct hm_opstat_row {
    struct hm_opstat stat;
    uint32_t worker, pad;
};
struct hm_lone_comm { /* a communicator known by order alone, and one of its workers */
    uint64_t key;
    uint32_t worker, pad;
};
struct hm_engine_more {
    struct hm_align *align;         /* NULL: one domain */
    uint32_t *domain_of_worker;     /* domain as the fit numbers them */
    struct hm_step_window **window; /* [n_workers] */
    size_t *n_windows;
    struct hm_spool *launch, *part; /* matched launches; their parts, in the same order */
    struct hm_spool *kernel, *opstat;
    struct hm_engine_health {
        struct hm_health_sum sum;
        uint8_t uuid[16];
    } * health; /* [n_workers] */
    struct hm_link_sum *link;
    size_t n_links;
    struct hm_match_stats match;
    struct hm_match_comm *comm; /* those of the run, then the ones known by order; by key */
    uint32_t n_comms;
    struct hm_lone_comm *lone;
    size_t n_lone;
    struct hm_engine_counts *counts; /* of kernels, over all workers */
    struct hm_suspect *suspect;      /* kernels that may synchronise */
    struct hm_inferred *inferred;
    uint32_t n_suspects, n_inferred;
    struct hm_progress *progress; /* how far each worker got on each communicator */
    size_t n_progress, cap_progress;
    struct hm_alive *alive; /* [n_workers] */
    uint32_t n_graph_ranks; /* ranks whose collectives run inside graphs, without kernel records */
    uint8_t *bad;           /* [n_workers] the file turned out to be damaged: left out */
    int collecting;
    int64_t first_step, last_step;                   /* windows of other steps are left out */
    uint32_t has_first, has_last, n_has, n_selected; /* steps of the run; windows there and kept */
    struct hm_timeseg *rough; /* [n_domains] clocks never compared: placed by the time of day */
    uint8_t source;           /* weakest arrival source */
    const char *step_source;
    struct hm_mesh mesh; /* n_dims 0: none given */
    struct hm_result result;
};

void hm_engine_infer_free(struct hm_engine_more *more);
/** Clock maps of a rank file. */
void hm_engine_maps(const struct hm_engine *e, uint32_t i_rank, struct hm_timemap map[HM_N_CLOCKS]);
/** Probes of the leaders -> e->more->align. */
hm_status_t hm_engine_clocks(struct hm_engine *e);
/** First worker of run.rank[i]. */
uint32_t hm_engine_first_worker(const struct hm_engine *e, uint32_t i_rank);

#endif
