/* What the files of the verdict share: pattern.c, cause_of.c, words.c, verdict.c.
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

struct hm_candidate {
    uint32_t worker, onset; /* onset: index of the first step of the pattern */
    int64_t gain, *gains;
    enum hm_pattern pattern;
    double p;
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

/** Where in the run the lateness lies. */
void hm_pattern_find(const struct hm_judge *j, struct hm_candidate *c);
/** Chance of its lateness against the mean of the others, from step `onset` on; in_set [n_workers]:
 *  who else belongs to the subject and is not compared with, or NULL. */
double hm_pattern_chance(const struct hm_judge *j, uint32_t worker, uint32_t onset,
                         const uint8_t *in_set);
/** Is the gain positive in 99 of 100 draws? gains [n_steps]. */
int hm_pattern_gain_is_sure(const struct hm_judge *j, const int64_t *gains, uint32_t onset);

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
                             const struct hm_candidate *c, int64_t gain);
/** No finding; takes text. detectable < 0: unknown. */
hm_status_t hm_words_none(struct hm_judge *j, struct hm_result *r, const char *status,
                          double detectable, char *text);
/** All ranks, none in particular; takes text. */
hm_status_t hm_words_all(struct hm_judge *j, struct hm_result *r, const char *status,
                         const char *pattern, const char *cause, int64_t gain, char *text);

#endif
