/* The result: tables described once in result.def; text, JSON and CSV are loops over them.
 *
 * Box: lib/analysis. Each TABLE makes struct hm_out_<name>.
 */
#ifndef HM_ANALYSIS_RESULT_H
#define HM_ANALYSIS_RESULT_H

#include "analysis/rows.h"
#include "core/pool.h"
#include "core/status.h"

struct hm_result_col {
    const char *key, *unit, *doc;
    uint16_t offset;
    uint8_t cell, pad;
};
struct hm_result_table {
    const char *name, *doc;
    const struct hm_result_col *col;
    uint16_t n_cols, row_bytes, many;
};
typedef hm_status_t (*hm_launch_visit_t)(void *ctx, const struct hm_launch *l,
                                         const struct hm_part *part);
struct hm_result {
    void *rows[32];
    uint32_t n_rows[32];
    int64_t lost[HM_N_LOST]; /* rows bounded: step <= 2048, heat <= 256 x 512, ops <= 4096 */
    hm_status_t (*each_launch)(void *engine, hm_launch_visit_t visit, void *ctx);
    void *engine;
}; /* --json=full: one more sweep */

#endif
