/* Parts of the HTML page. Box: merge/report, inside. */
#ifndef HM_REPORT_HTML_H
#define HM_REPORT_HTML_H

#include "report/report.h"

/** Text of the page: everything that HTML would act on is escaped, control characters become
 *  U+FFFD, bytes that are no UTF-8 too. */
void hm_html_text(FILE *out, const char *s);
/** Bars: where each of the latest ranks spends a step. */
void hm_html_ranks(const struct hm_result *r, FILE *out);
/** Columns: the steps one after another, by what they are made of. */
void hm_html_steps(const struct hm_result *r, FILE *out);
/** The colours of the parts. */
void hm_html_legend(FILE *out);

#endif
