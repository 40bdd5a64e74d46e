/* A spool: rows of one size in an unlinked file, so that memory does not grow with the run.
 *
 * Box: merge/engine. One thread a spool.
 */
#ifndef HM_ENGINE_SPOOL_H
#define HM_ENGINE_SPOOL_H

#include "core/status.h"

#include <stddef.h>
#include <stdint.h>

struct hm_spool;
hm_status_t hm_spool_create(uint32_t row_bytes, struct hm_spool **spool_p);
hm_status_t hm_spool_append(struct hm_spool *spool, const void *rows, size_t n);
uint64_t hm_spool_count(const struct hm_spool *spool);
/** Reads or overwrites rows [first, first + n); all must exist. */
hm_status_t hm_spool_read(struct hm_spool *spool, uint64_t first, void *rows_p, size_t n);
hm_status_t hm_spool_write(struct hm_spool *spool, uint64_t first, const void *rows, size_t n);
void hm_spool_destroy(struct hm_spool *spool);

#endif
