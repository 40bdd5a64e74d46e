/* The few HDF5 calls we make, under one mutex. Only lib/store includes this.
 *
 * Box: lib/store. Debian's serial library is thread safe, others are not: the mutex is ours.
 */
#ifndef HM_STORE_H5_H
#define HM_STORE_H5_H

#include "core/status.h"

#include <hdf5.h>

#include <stdint.h>

void hm_h5_lock(void); /* also initialises the library, error printing off */
void hm_h5_unlock(void);
/* All below: the caller holds the lock. */
hid_t hm_h5_create(const char *path);
hid_t hm_h5_open(const char *path, int writable);
/** A chunked, extendible, shuffled and deflated one-dimensional table column. */
hid_t hm_h5_column_create(hid_t file, const char *path, hid_t type, const char *unit,
                          const char *doc, int delta);
/** An unchunked dataset with all its rows. */
int hm_h5_array_put(hid_t file, const char *path, hid_t type, const void *data, uint64_t n);
int hm_h5_attr_u64(hid_t obj, const char *name, uint64_t value);
int hm_h5_attr_i64(hid_t obj, const char *name, int64_t value);
int hm_h5_attr_text(hid_t obj, const char *name, const char *value);
int hm_h5_attr_get_i64(hid_t obj, const char *name, int64_t *value_p);
int hm_h5_attr_get_text(hid_t obj, const char *name, char *value_p, size_t cap);
hid_t hm_h5_type(uint8_t col_type);

#endif
