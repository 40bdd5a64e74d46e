/* An SQLite export of Nsight Systems, read with distrust.
 *
 * Box: merge/import, inside; the only file that knows SQLite. One thread an object. The file is
 * opened read-only and immutable (nothing is written beside it); only ordinary tables are read, so
 * that no view, trigger or virtual table of a hostile file runs; a walk ends with an error when it
 * yields more rows than the file has bytes or works longer than such a file can need (pages that
 * lead back to themselves).
 */
#ifndef HM_IMPORT_NSYSDB_H
#define HM_IMPORT_NSYSDB_H

#include "core/status.h"

#include <stdint.h>

#define HM_NSYS_NONE INT64_MIN /* no integer in this cell, or no such column */

struct hm_nsysdb;
struct hm_nsys_row; /* of the walk in progress */
typedef hm_status_t (*hm_nsys_visit_t)(void *ctx, const struct hm_nsys_row *row);

/** HM_OK, HM_E_DATA (no database), HM_E_MISSING (built without SQLite), HM_E_NOMEM. */
hm_status_t hm_nsysdb_open(const char *path, struct hm_nsysdb **db_p);
void hm_nsysdb_close(struct hm_nsysdb *db);
/** 1: an ordinary table of that name. */
int hm_nsysdb_has(struct hm_nsysdb *db, const char *table);
/** Visits every row. `columns`: names with spaces between; one that the table lacks reads as NONE.
 *  `order`: a column to sort by, NULL = as stored. A table that is not there has no rows. HM_OK,
 * what visit returned, HM_E_DATA (said), HM_E_NOMEM. */
hm_status_t hm_nsysdb_each(struct hm_nsysdb *db, const char *table, const char *columns,
                           const char *order, hm_nsys_visit_t visit, void *ctx);
int64_t hm_nsys_int(const struct hm_nsys_row *row, int column);
/** "" when there is none; borrowed until the next row. */
const char *hm_nsys_text(const struct hm_nsys_row *row, int column);
/** 1: the file begins like an SQLite database. */
int hm_nsys_is_sqlite(const char *path);

#endif
