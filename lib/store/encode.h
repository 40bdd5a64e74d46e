/* One chunk of one column: events -> bytes of HDF5's stock filters (shuffle, deflate), and back.
 *
 * Box: lib/store. Pure.
 */
#ifndef HM_STORE_ENCODE_H
#define HM_STORE_ENCODE_H

#include "core/status.h"
#include "store/schema.h"

#include <stddef.h>

/** Enough for any chunk of any column. */
#define HM_ENCODE_CAP (HM_CHUNK_ROWS * 8 + HM_CHUNK_ROWS / 8 + 4096)

/** Sorts events by t_ns; equal times keep their order. `tmp` [n]. */
void hm_events_sort(struct hm_event *ev, uint32_t n, struct hm_event *tmp);
/** Packs n events (n <= HM_CHUNK_ROWS, padded with zeros to a whole chunk) of one column into
 *  out [HM_ENCODE_CAP]; returns bytes, 0 = out of memory. */
size_t hm_encode(const struct hm_column *col, const struct hm_event *ev, uint32_t n, uint8_t *out);
/** Unpacks a stored chunk into the column's member of ev [n]. HM_OK, HM_E_DATA. */
hm_status_t hm_decode(const struct hm_column *col, const uint8_t *in, size_t in_bytes,
                      struct hm_event *ev, uint32_t n);

#endif
