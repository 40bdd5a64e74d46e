/* Head of a rank file: /meta and /loss attributes.
 *
 * Box: lib/store. The caller holds the HDF5 lock.
 */
#ifndef HM_STORE_META_H
#define HM_STORE_META_H

#include "store/h5.h"
#include "store/rankfile.h"

int hm_meta_write(hid_t file, const struct hm_rank_meta *meta, enum hm_end end);
int hm_loss_write(hid_t file, const uint64_t lost[HM_N_LOST]);
/** Rows of each kind, as one attribute of /meta, so that they are known without opening a table. */
int hm_rows_write(hid_t file, const uint64_t rows[HM_N_KINDS]);
int hm_rows_read(hid_t file, uint64_t rows_p[HM_N_KINDS]); /* < 0: not told */
/** HM_OK, HM_E_DATA (no such attributes), HM_E_VERSION. Every text ends with NUL. */
hm_status_t hm_meta_read(hid_t file, struct hm_rank_meta *meta_p, uint32_t *end_p,
                         uint64_t lost_p[HM_N_LOST]);

#endif
