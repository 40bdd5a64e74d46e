/* What is said above the tables, as labelled lines; the same in every form.
 *
 * Box: merge/report. One thread.
 */
#ifndef HM_REPORT_WORDS_H
#define HM_REPORT_WORDS_H

#include "report/report.h"

enum hm_ink { HM_INK_PLAIN, HM_INK_BAD, HM_INK_GOOD, HM_INK_UNSURE };
struct hm_line {
    const char *label; /* "" continues the one above */
    char *text;
    enum hm_ink ink;
};
struct hm_lines {
    struct hm_line *v;
    uint32_t n;
};
void hm_lines_add(struct hm_lines *l, const char *label, enum hm_ink ink, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void hm_lines_clear(struct hm_lines *l);
/** Prints them with their labels in front. */
void hm_lines_print(const struct hm_report_style *style, const struct hm_lines *l, FILE *out);

/** "8 ranks, 1 host, 59 steps, 2.558 s, 43.35 ms a step (median)" and what was selected. */
void hm_words_run(const struct hm_run *run, const struct hm_result *r, struct hm_lines *l);
/** VERDICT, GAIN, CAUSE, RULED OUT, SURE, NEXT, also. */
void hm_words_head(const struct hm_run *run, const struct hm_result *r, struct hm_lines *l);
/** Clocks, losses, problems. */
void hm_words_tail(const struct hm_result *r, struct hm_lines *l);

int hm_words_is_subject(const struct hm_result *r, int64_t rank);
const char *hm_words_cause(const char *cause); /* "slow_gpu" -> "slow GPU" */
const char *hm_words_ledger(const char *kind); /* "wait" -> "wait for the last rank" */
/** A kernel's name as a programmer wrote it; buf is returned. */
const char *hm_words_kernel(const char *name, char buf[256]);
/** The lines of NEXT with the run named in commands that read one; heap, NULL = none. */
char *hm_words_next(const struct hm_run *run, const char *next);

#endif
