/* The result: tables described once in result.def; text, JSON and CSV are loops over them.
 *
 * Box: lib/analysis. Each TABLE makes struct hm_out_<name>.
 */
#ifndef HM_ANALYSIS_RESULT_H
#define HM_ANALYSIS_RESULT_H

#include "analysis/rows.h"
#include "core/pool.h"
#include "core/status.h"

enum hm_cell {
    HM_CELL_I64,
    HM_CELL_PPB,
    HM_CELL_F64,
    HM_CELL_STR,
    HM_CELL_LIST,
    HM_CELL_IDS,
    HM_CELL_U64
};
struct hm_result_col {
    const char *key, *unit, *doc;
    uint16_t offset; /* 8 bytes a column, in order */
    uint8_t cell, pad;
};
struct hm_result_table {
    const char *name, *doc;
    const struct hm_result_col *col;
    uint16_t n_cols, row_bytes, many;
};

/* struct hm_out_<name> for each table */
#define HM_COL_I64                int64_t
#define HM_COL_PPB                int64_t
#define HM_COL_F64                double
#define HM_COL_STR                char *
#define HM_COL_LIST               char *
#define HM_COL_IDS                char *
#define HM_COL_U64                uint64_t
#define TABLE(name, many, doc)    struct hm_out_##name {
#define COL(type, key, unit, doc) HM_COL_##type key;
#define END(name) \
    }             \
    ;
#include "analysis/result.def"
#undef TABLE
#undef COL
#undef END

enum hm_result_id {
#define TABLE(name, many, doc) HM_T_##name,
#define COL(type, key, unit, doc)
#define END(name)
#include "analysis/result.def"
#undef TABLE
#undef COL
#undef END
    HM_N_TABLES
};
extern const struct hm_result_table hm_result_tables[HM_N_TABLES];

typedef hm_status_t (*hm_launch_visit_t)(void *ctx, const struct hm_launch *l,
                                         const struct hm_part *part);
struct hm_result {
    void *rows[32];
    uint32_t n_rows[32];
    int64_t lost[HM_N_LOST]; /* rows bounded: step <= 2048, heat <= 256 x 512, ops <= 4096 */
    hm_status_t (*each_launch)(void *engine, hm_launch_visit_t visit, void *ctx);
    void *engine;
    int64_t t0_ns; /* origin of every time shown: start of the first analysed step */
}; /* --json=full: one more sweep; the engine sets each_launch and engine, else NULL */

/** Adds a row to a table: zeroed, but unknown (I64, PPB: HM_NONE(0); F64: NAN; else NULL). NULL =
 *  no memory. Pointers to earlier rows of the table become invalid. */
void *hm_result_add(struct hm_result *result, enum hm_result_id table);
/** Takes the last row of a table away again. */
void hm_result_drop(struct hm_result *result, enum hm_result_id table);
/** Row i of a table, NULL when there is none. */
const void *hm_result_row(const struct hm_result *result, enum hm_result_id table, uint32_t i);
/** The sentence of an unknown value. */
const char *hm_why(int64_t none);
/** Frees the rows; the object can be used again. */
void hm_result_clear(struct hm_result *result);

/* Reasons of HM_NONE() */
enum hm_none {
    HM_NONE_UNKNOWN,
    HM_NONE_NOT_RECORDED,
    HM_NONE_NO_STEPS,
    HM_NONE_NO_COLLECTIVES,
    HM_NONE_BELOW_CLOCK,
    HM_NONE_ONE_SIDED,
    HM_NONE_MISSING,
    HM_NONE_REPLAY,
    HM_NONE_NO_PATTERN,
    HM_NONE_NO_ROLES,
    HM_NONE_TOO_SHORT,
    HM_NONE_NO_CLOCK,
    HM_NONE_ALL_RANKS,
    HM_N_NONES
};

#endif
