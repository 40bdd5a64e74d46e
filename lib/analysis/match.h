/* Match: arrivals of all workers -> launches; who came last, by how much, what each waited.
 *
 * Box: lib/analysis. Pure. Source: facts on analysis 2.1 (skew, margin, wait, core, tail; one-sided
 * rules), 2.16 (causality), 3 (lessons 7, 22).
 */
#ifndef HM_ANALYSIS_MATCH_H
#define HM_ANALYSIS_MATCH_H

#include "analysis/rows.h"
#include "core/status.h"

/** A communicator as the run shows it; sorted by key. */
struct hm_match_comm {
    uint64_t key;
    uint32_t n_members;     /* ranks of the communicator, known or not */
    uint32_t n_present;     /* members that are in this run: all of them are expected */
    const uint32_t *member; /* [n_present] workers, in order of crank where known; may be NULL */
};
struct hm_match_in {
    void *ctx;
    const struct hm_match_comm *comm;
    uint32_t n_comms;
    /** Clock error bound between two workers at t, ns. NULL = one clock, 0. */
    int64_t (*error)(void *ctx, uint32_t worker_a, uint32_t worker_b, int64_t t_ns);
    /** Worker of a member by its rank in the communicator; NULL or HM_NO_ID = unknown. */
    uint32_t (*member)(void *ctx, uint64_t comm, uint32_t crank);
};
struct hm_match_stats {
    uint64_t n_launches;   /* units seen */
    uint64_t n_complete;   /* seen on all present members */
    uint64_t n_checked;    /* causality was checked */
    uint64_t n_violations; /* an end before another's start, beyond the clock error */
    uint64_t n_mismatched; /* members disagree in what they call */
    int64_t error_max_ns;  /* largest clock error of a compared pair */
    uint8_t source, confidence;
};
struct hm_match;
hm_status_t hm_match_create(const struct hm_match_in *in, struct hm_match **match_p);
/** Matches a window of parts (any order; they are sorted here by key and worker). Fills v of every
 *  part that is decided, sets keep = 1 on parts that wait for more (give them again with the next
 *  window), writes the launches decided to launch_p in order of last_ns, i_part pointing into p.
 *  `last`: nothing more comes, everything is decided. cap >= n. Returns the number of launches. */
size_t hm_match_window(struct hm_match *match, struct hm_part *p, size_t n, int last,
                       struct hm_launch *launch_p, size_t cap);
void hm_match_stats(const struct hm_match *match, struct hm_match_stats *stats_p);
void hm_match_destroy(struct hm_match *match);

/** How long this part waited for others: until v.last_ns, at most until its own end. */
static inline int64_t hm_wait_of(const struct hm_arrival *a, const struct hm_annot *v)
{
    if (!(v->flags & HM_ANNOT_MATCHED))
        return 0;
    int64_t until = v->last_ns < a->end_ns ? v->last_ns : a->end_ns;
    return until > a->start_ns ? until - a->start_ns : 0;
}

#endif
