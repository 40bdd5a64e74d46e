/* What the files of the verdict share: pattern.c, chance.c,
 * subjects.c, everybody.c, cause_of.c, words.c, verdict.c.
 * Box: lib/analysis, internal. */
#ifndef HM_ANALYSIS_VERDICT_INSIDE_H
#define HM_ANALYSIS_VERDICT_INSIDE_H

#include "analysis/judge_inside.h"

enum { HM_MIN_STEPS = 8, HM_PERSISTENT_STEPS = 20 };
enum hm_pattern {
    HM_P_NONE,
    HM_P_PERSISTENT,
    HM_P_FROM_STEP,
    HM_P_ONE_OFF,
    HM_P_PERIODIC,
    HM_P_EPISODE
};
extern const char *const hm_pattern_name[];

/* first, last: indices of the series; period and phase count step numbers; chance: of a period by
 * luck. */
struct hm_pattern_found {
    enum hm_pattern kind;
    uint32_t first, last, period, phase;
    double chance;
};
struct hm_candidate {
    uint32_t worker;
    struct hm_pattern_found found; /* first, last: indices of analysed steps */
    int64_t gain, *gains;
    double p;
    int sure;
};

static inline double hm_judge_frac(const struct hm_judge *j, int64_t ns)
{
    return j->total_ns > 0 ? (double)ns / (double)j->total_ns : 0;
}
int64_t hm_ppb(double f);
static inline double hm_ms(int64_t ns)
{
    return (double)ns / 1e6;
}

/** Pattern of a series of n steps with ascending step numbers. */
void hm_pattern_of(const int64_t *x, const uint32_t *number, size_t n, struct hm_pattern_found *f);
/** Events that come once: at most two neighbouring steps that stand out from the rest by `least`
 *  and by five robust deviations. event [n]: 0 or 1 + number of the event. Returns how many; where
 *  they come more often than once in 50 steps, they are not single events: 0. */
uint32_t hm_pattern_events(const int64_t *x, size_t n, int64_t least, uint32_t *event);

/** One-sided Wilcoxon signed-rank test of d > 0, normal approximation with ties and continuity. */
double hm_chance_signed_rank(const double *d, size_t n);
/** Votes that weigh: at most the chance that so much of the weight falls to one of n_ranks, if each
 *  vote falls to any of them alike (Chernoff's bound). */
double hm_chance_votes(const double *weight, const uint8_t *mine, size_t n, uint32_t n_ranks);
/** Is the sum positive in 99 of 100 block bootstrap draws (blocks of 5)? */
int hm_chance_is_sure(const double *gain, size_t n);
int hm_chance_gain_is_sure(const int64_t *gain, size_t n); /* the same */
/* Analysed steps that a test looks at. */
struct hm_selection {
    uint32_t *step; /* indices */
    size_t n;
};
/** Chance of the worker's lateness against the others, over all workers (Holm's first), and whether
 *  its gain [n_steps] is surely above its share. in_set [n_workers]: who else belongs to the
 *  subject and is not compared with, or NULL. */
void hm_chance_test(const struct hm_judge *j, const struct hm_selection *sel, uint32_t worker,
                    const uint8_t *in_set, const int64_t *gains, double *p_p, int *sure_p);

/* What the search for subjects knows. */
struct hm_search {
    uint8_t *set, *all, *found; /* [n_workers] found: in a finding about the steady state */
    uint8_t *out, *in;          /* [n_steps] out: holds an event; in: scratch */
    uint32_t *event, n_events;  /* [n_steps] */
    uint32_t *steady, *number;  /* [n_steady] steps without an event; their numbers */
    size_t n_steady;
    int64_t *loss, *gains, *x; /* [n_steps] loss: if everybody is repaired; others: scratch */
    int64_t loss_ns;           /* of the steady steps */
    struct hm_selection sel;
    uint32_t *order; /* [n_workers] */
    int64_t *late;   /* [n_workers] own lateness in the steady state */
};
/** Smallest effect that could be told from the scatter of x over the steady steps, of the run. */
double hm_search_detectable(const struct hm_judge *j, const struct hm_search *s, const int64_t *x);
/** Pattern of x [n_steps] over the steady steps. */
void hm_search_pattern(const struct hm_judge *j, struct hm_search *s, const int64_t *x,
                       struct hm_pattern_found *f);
/** Ranks and sets of ranks that hold up the steady state; single events. */
hm_status_t hm_search_subjects(struct hm_judge *j, struct hm_result *r, struct hm_search *s);
/** What holds up all: input, imbalance, jitter. */
hm_status_t hm_search_everybody(struct hm_judge *j, struct hm_result *r, struct hm_search *s);
/** Losses for the ledger, after all findings. Changes s->set. */
hm_status_t hm_search_ledger(struct hm_judge *j, const struct hm_result *r, struct hm_search *s);

/** Cause of the lateness of a set: the largest part, and control kernels where it is compute.
 *  Fills cause, explained_frac, evidence and ruled_out. */
hm_status_t hm_cause_find(const struct hm_judge *j, const uint8_t *set, uint32_t first,
                          uint32_t onset, struct hm_out_finding *f);

/** What the machine's counters say of it: the cause, made narrower where they know more; evidence
 *  added. */
const char *hm_cause_health(const struct hm_judge *j, const uint8_t *set, uint32_t first,
                            const char *cause, struct hm_out_finding *f);

/** A finding about a subject. */
hm_status_t hm_words_finding(struct hm_judge *j, struct hm_result *r, const uint8_t *set,
                             const struct hm_candidate *c);
/** No finding; takes text. detectable < 0: unknown. */
hm_status_t hm_words_none(struct hm_judge *j, struct hm_result *r, const char *status,
                          double detectable, char *text);
/** " every 8 steps", "" for a pattern of the whole run; fresh memory. */
char *hm_words_when(const struct hm_out_finding *f);
/** All ranks, none in particular; takes text; found NULL: rotating. */
hm_status_t hm_words_all(struct hm_judge *j, struct hm_result *r, const char *status,
                         const struct hm_pattern_found *found, const char *cause, int64_t gain,
                         char *text);

#endif
