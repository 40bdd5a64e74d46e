/* The tables of a rank file: one row per column in schema.def generates writer, reader, attributes
 * and the tables of docs/format.md.
 *
 * Box: lib/store. Pure data.
 */
#ifndef HM_STORE_SCHEMA_H
#define HM_STORE_SCHEMA_H

#include "core/event.h"

#include <stdint.h>

#define HM_SCHEMA_VERSION 1
#define HM_CHUNK_ROWS     16384

enum hm_col_type { HM_COL_U8 = 1, HM_COL_U16, HM_COL_U32, HM_COL_U64, HM_COL_I32, HM_COL_I64 };
struct hm_column {
    const char *name;
    uint16_t offset;     /* in struct hm_event */
    uint8_t type, delta; /* enum hm_col_type; 1 = stored as difference, restarting in each chunk */
    const char *unit, *doc;
};
struct hm_table {
    const char *path; /* "/kernel" */
    uint8_t kind;
    const struct hm_column *col; /* t, dur, track, flags first */
    uint32_t n_cols;
    const char *doc;
};
extern const struct hm_table hm_tables[];
extern const uint32_t hm_n_tables;
/** Bytes of a column type. */
uint32_t hm_col_bytes(uint8_t type);

#endif
