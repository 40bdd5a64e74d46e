/* What a report is restricted to: --steps and --ranks.
 *
 * Box: merge/report. Steps restrict what is analysed (the engine leaves the others out); ranks
 * restrict what is shown: what a rank did to the others cannot be told without the others.
 */
#ifndef HM_REPORT_SELECT_H
#define HM_REPORT_SELECT_H

#include "report/report.h"

struct hm_select {
    int64_t first_step, last_step; /* 0..INT64_MAX: all */
    int steps;                     /* 1: steps were named */
    struct hm_select_span {
        int64_t first, last;
    } * span; /* ranks; heap */
    uint32_t n_spans;
};

/** "A..B", "A..", "..B" or "A"; "0,3,8..15"; NULL = no restriction. HM_E_USAGE (said). */
hm_status_t hm_select_parse(const char *steps, const char *ranks, struct hm_select *s_p);
void hm_select_clear(struct hm_select *s);
/** Takes the rows of other ranks out of the result and notes the restriction in it. HM_E_USAGE when
 *  a named rank is not in the run. */
hm_status_t hm_select_apply(const struct hm_select *s, struct hm_result *result);
/** 1: a launch of this step (HM_NO_ID: of none) is to be shown. */
int hm_select_step(const struct hm_result *result, uint32_t step);

#endif
