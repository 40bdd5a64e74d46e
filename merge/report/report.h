/* Reports: everything said about a run, from hm_result alone, so that all forms agree.
 *
 * Box: merge/report. One thread. Names from the run are hostile: escaped for each form.
 */
#ifndef HM_REPORT_H
#define HM_REPORT_H

#include "analysis/result.h"
#include "store/rank.h"

#include <stdio.h>

struct hm_report_style {
    int columns; /* of a line; at least 60 are used */
    int colour;  /* 1: escape sequences of a terminal */
    int expert;  /* 1: every row and every table of the result */
};
/** As wide as the terminal, 80 columns elsewhere; colours on a terminal unless NO_COLOR is set
 *  (https://no-color.org) or the terminal is a dumb one. */
struct hm_report_style hm_report_style_of(FILE *out);
/** The printed report, plain ASCII. HM_OK, HM_E_IO. */
hm_status_t hm_report_print(const struct hm_run *run, const struct hm_result *result,
                            const struct hm_report_style *style, FILE *out);
/** The same as a pipe gets it: 80 columns, no colour. */
hm_status_t hm_report_text(const struct hm_run *run, const struct hm_result *result, FILE *out);
/** One JSON object (docs/report.schema.json); full: with collectives (needs each_launch). */
hm_status_t hm_report_json(const struct hm_run *run, const struct hm_result *result, FILE *out,
                           int full);
/** The report as Markdown, for an issue. */
hm_status_t hm_report_markdown(const struct hm_run *run, const struct hm_result *result, FILE *out);
/** One page that needs nothing else, written whole or not at all. HM_OK, HM_E_IO, HM_E_NOMEM. */
hm_status_t hm_report_html(const struct hm_run *run, const struct hm_result *result,
                           const char *path);
/** 1 when hm_report_csv() knows the table: "collectives", and every table of the result by its name
 *  or its plural ("rank" or "ranks"; "steps" is the table of single steps). */
int hm_report_csv_knows(const char *table);
/** Names of those tables in `buf`, with commas between. */
const char *hm_report_csv_names(char *buf, size_t cap);
/** One table as CSV with a header line. HM_E_USAGE for another name. */
hm_status_t hm_report_csv(const struct hm_run *run, const struct hm_result *result,
                          const char *table, FILE *out);
/** Ranges, calls and kernels by name, all ranks together; with style->expert rank by rank too. */
hm_status_t hm_report_ops(const struct hm_result *result, const struct hm_report_style *style,
                          FILE *out);
/** The three lines at the end of a job: steps and step time, verdict, next command. `path` is the
 *  run folder as it shall be shown. */
hm_status_t hm_report_digest(const struct hm_run *run, const struct hm_result *result,
                             const char *path, FILE *out);
/** Evaluates KEY OP NUMBER[%], KEY gain, wait, stall, exposed or lost, OP < <= > >= == !=. Without
 *  % the number is seconds (lost: events). *exit_code_p: 0 does not hold, 3 holds, 4 cannot be
 *  evaluated. HM_E_USAGE: the expression is wrong. */
hm_status_t hm_report_fail_on(const struct hm_result *result, const char *expr, int *exit_code_p);

#endif
