/* Reports: everything said about a run, from hm_result alone, so that all forms agree.
 *
 * Box: merge/report. One thread. Names from the run are hostile: escaped for each form.
 */
#ifndef HM_REPORT_H
#define HM_REPORT_H

#include "analysis/result.h"
#include "store/rank.h"

#include <stdio.h>

/** The printed report, 100 columns, plain ASCII. HM_OK, HM_E_IO. */
hm_status_t hm_report_text(const struct hm_run *run, const struct hm_result *result, FILE *out);
/** One JSON object (docs/report.schema.json); full: with collectives (needs each_launch). */
hm_status_t hm_report_json(const struct hm_run *run, const struct hm_result *result, FILE *out,
                           int full);
/** One table as CSV with a header line; "ranks", "steps", "collectives", "kernels", "ops",
 *  "ledger". HM_E_USAGE for another name. */
hm_status_t hm_report_csv(const struct hm_run *run, const struct hm_result *result,
                          const char *table, FILE *out);
/** The three lines at the end of a job: steps and step time, verdict, next command. `path` is the
 *  run folder as it shall be shown. */
hm_status_t hm_report_digest(const struct hm_run *run, const struct hm_result *result,
                             const char *path, FILE *out);
/** Evaluates KEY OP NUMBER[%], KEY gain, wait, stall, exposed or lost, OP < <= > >= == !=. Without
 *  % the number is seconds (lost: events). *exit_code_p: 0 does not hold, 3 holds, 4 cannot be
 *  evaluated. HM_E_USAGE: the expression is wrong. */
hm_status_t hm_report_fail_on(const struct hm_result *result, const char *expr, int *exit_code_p);

#endif
