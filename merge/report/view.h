/* A table as people read it: titles and cells; printed, as Markdown, or as HTML.
 *
 * Box: merge/report. One thread. Built once from hm_result, so that all forms show the same.
 */
#ifndef HM_REPORT_VIEW_H
#define HM_REPORT_VIEW_H

#include "report/report.h"

#include <stdarg.h>

enum { HM_VIEW_COLS = 48 };
struct hm_view_col {
    const char *title;
    uint8_t left; /* 1: text, may be cut to fit the line */
    uint8_t drop; /* 0: never; the highest goes first when the line is too narrow */
};
struct hm_view {
    const char *title;
    char note[160]; /* printed under the table */
    struct hm_view_col col[HM_VIEW_COLS];
    uint32_t n_cols, n_rows, n_cells, cap;
    char **cell;   /* [n_rows][n_cols], heap; NULL = empty */
    uint8_t *mark; /* [n_rows] 1: the subject of the verdict */
    int failed;    /* out of memory: the table is cut there */
};
void hm_view_begin(struct hm_view *v_p, const char *title);
void hm_view_column(struct hm_view *v, const char *title, int left, int drop);
void hm_view_row(struct hm_view *v, int mark);
/** Next cell of the last row. */
void hm_view_cell(struct hm_view *v, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void hm_view_clear(struct hm_view *v);
/** Prints the table, fitted to the style's width, and clears it. */
void hm_view_print(const struct hm_report_style *style, struct hm_view *v, FILE *out);
const char *hm_view_at(const struct hm_view *v, uint32_t row, uint32_t col); /* never NULL */

/** Ranks, the latest first; at most `most` (0 = all), subjects of the verdict among them. */
void hm_view_ranks(const struct hm_result *r, uint32_t most, struct hm_view *v_p);
/** How many ranks are how late, in parts of a step. */
void hm_view_lateness(const struct hm_result *r, struct hm_view *v_p);
void hm_view_ledger(const struct hm_result *r, struct hm_view *v_p);
void hm_view_ops(const struct hm_result *r, uint32_t most, struct hm_view *v_p);
void hm_view_kernels(const struct hm_result *r, uint32_t most, struct hm_view *v_p);
/** A table of the result as it is: keys, raw values as in CSV; at most `most` rows (0 = all). */
void hm_view_table(const struct hm_result *r, enum hm_result_id id, uint32_t most,
                   struct hm_view *v_p);

/** Text of one cell of a result table: integers, decimals, text; "" when unknown. */
const char *hm_cell_text(const struct hm_result_col *col, const void *at, char buf[64]);

#endif
