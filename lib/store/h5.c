/* HDF5 by its few calls.
 *
 * Box: lib/store. Every function but lock and unlock is called with the lock held.
 * Return values: 0 or a hid_t >= 0 = well, < 0 = failed.
 */
#include "store/h5.h"

#include "store/schema.h"

#include <pthread.h>
#include <string.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

void hm_h5_lock(void)
{
    pthread_mutex_lock(&mutex);
    static int ready;
    if (!ready) {
        H5dont_atexit(); /* a writer that is told to stop closes its files itself */
        H5open();
        ready = 1;
    }
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL); /* per thread in a thread-safe library */
}

void hm_h5_unlock(void)
{
    pthread_mutex_unlock(&mutex);
}

static hid_t access_plist(void)
{
    hid_t p = H5Pcreate(H5P_FILE_ACCESS);
    if (p >= 0) {
#if H5_VERSION_GE(1, 10, 7)
        H5Pset_file_locking(p, 0, 1); /* file systems without flock */
#endif
        H5Pset_fclose_degree(p, H5F_CLOSE_STRONG);
    }
    return p;
}

hid_t hm_h5_create(const char *path)
{
    hid_t create = H5Pcreate(H5P_FILE_CREATE), access = access_plist();
    H5Pset_istore_k(create, 4); /* small chunk B-trees: 730 instead of 2,520 bytes a column */
    hid_t f = H5Fcreate(path, H5F_ACC_TRUNC, create, access);
    H5Pclose(create);
    H5Pclose(access);
    return f;
}

hid_t hm_h5_open(const char *path, int writable)
{
    hid_t access = access_plist();
    hid_t f = H5Fopen(path, writable ? H5F_ACC_RDWR : H5F_ACC_RDONLY, access);
    H5Pclose(access);
    return f;
}

hid_t hm_h5_type(uint8_t col_type)
{
    switch ((enum hm_col_type)col_type) {
    case HM_COL_U8:
        return H5T_STD_U8LE;
    case HM_COL_U16:
        return H5T_STD_U16LE;
    case HM_COL_U32:
        return H5T_STD_U32LE;
    case HM_COL_U64:
        return H5T_STD_U64LE;
    case HM_COL_I32:
        return H5T_STD_I32LE;
    case HM_COL_I64:
        return H5T_STD_I64LE;
    }
    return H5I_INVALID_HID;
}

static hid_t link_plist(void)
{
    hid_t p = H5Pcreate(H5P_LINK_CREATE);
    H5Pset_create_intermediate_group(p, 1);
    return p;
}

hid_t hm_h5_column_create(hid_t file, const char *path, hid_t type, const char *unit,
                          const char *doc, int delta)
{
    hsize_t zero = 0, max = H5S_UNLIMITED, chunk = HM_CHUNK_ROWS;
    hid_t space = H5Screate_simple(1, &zero, &max), create = H5Pcreate(H5P_DATASET_CREATE),
          link = link_plist();
    H5Pset_chunk(create, 1, &chunk);
    H5Pset_shuffle(create);
    H5Pset_deflate(create, 1);
    H5Pset_obj_track_times(create, 0); /* the same rows, the same bytes */
    hid_t d = H5Dcreate2(file, path, type, space, link, create, H5P_DEFAULT);
    H5Sclose(space);
    H5Pclose(create);
    H5Pclose(link);
    if (d >= 0 && (hm_h5_attr_text(d, "unit", unit) < 0 || hm_h5_attr_text(d, "doc", doc) < 0 ||
                   hm_h5_attr_u64(d, "delta", (uint64_t)delta) < 0)) {
        H5Dclose(d);
        return H5I_INVALID_HID;
    }
    return d;
}

int hm_h5_array_put(hid_t file, const char *path, hid_t type, const void *data, uint64_t n)
{
    hsize_t rows = n;
    hid_t space = H5Screate_simple(1, &rows, NULL), create = H5Pcreate(H5P_DATASET_CREATE),
          link = link_plist();
    H5Pset_obj_track_times(create, 0);
    if (n > 256) {
        hsize_t chunk = n < HM_CHUNK_ROWS ? n : HM_CHUNK_ROWS;
        H5Pset_chunk(create, 1, &chunk);
        H5Pset_shuffle(create);
        H5Pset_deflate(create, 1);
    }
    hid_t d = H5Dcreate2(file, path, type, space, link, create, H5P_DEFAULT);
    int rc = d < 0 ? -1 : n ? H5Dwrite(d, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) : 0;
    if (d >= 0)
        H5Dclose(d);
    H5Sclose(space);
    H5Pclose(create);
    H5Pclose(link);
    return rc;
}

static int attr_put(hid_t obj, const char *name, hid_t type, const void *value)
{
    if (H5Aexists(obj, name) > 0)
        H5Adelete(obj, name);
    hid_t space = H5Screate(H5S_SCALAR);
    hid_t a = H5Acreate2(obj, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    int rc = a < 0 ? -1 : H5Awrite(a, type, value);
    if (a >= 0)
        H5Aclose(a);
    H5Sclose(space);
    return rc;
}

int hm_h5_attr_u64(hid_t obj, const char *name, uint64_t value)
{
    return attr_put(obj, name, H5T_STD_U64LE, &value);
}

int hm_h5_attr_i64(hid_t obj, const char *name, int64_t value)
{
    return attr_put(obj, name, H5T_STD_I64LE, &value);
}

int hm_h5_attr_text(hid_t obj, const char *name, const char *value)
{
    hid_t type = H5Tcopy(H5T_C_S1);
    H5Tset_size(type, strlen(value) + 1);
    H5Tset_cset(type, H5T_CSET_UTF8);
    int rc = attr_put(obj, name, type, value);
    H5Tclose(type);
    return rc;
}

int hm_h5_attr_get_i64(hid_t obj, const char *name, int64_t *value_p)
{
    if (H5Aexists(obj, name) <= 0)
        return -1;
    hid_t a = H5Aopen(obj, name, H5P_DEFAULT);
    if (a < 0)
        return -1;
    hid_t type = H5Aget_type(a), space = H5Aget_space(a);
    int rc = -1;
    if (type >= 0 && space >= 0 && H5Tget_class(type) == H5T_INTEGER &&
        H5Sget_simple_extent_npoints(space) == 1)
        rc = H5Aread(a, H5T_NATIVE_INT64, value_p);
    H5Tclose(type);
    H5Sclose(space);
    H5Aclose(a);
    return rc;
}

int hm_h5_attr_get_text(hid_t obj, const char *name, char *value_p, size_t cap)
{
    if (H5Aexists(obj, name) <= 0)
        return -1;
    hid_t a = H5Aopen(obj, name, H5P_DEFAULT);
    if (a < 0)
        return -1;
    hid_t type = H5Aget_type(a), space = H5Aget_space(a);
    char text[4096];
    int rc = -1;
    /* ours are fixed-size strings; a variable-length one in a strange file is not followed */
    if (type >= 0 && space >= 0 && H5Tget_class(type) == H5T_STRING && !H5Tis_variable_str(type) &&
        H5Tget_size(type) <= sizeof(text) && H5Sget_simple_extent_npoints(space) == 1 &&
        H5Aread(a, type, text) >= 0) {
        size_t n = strnlen(text, H5Tget_size(type));
        if (n < cap) {
            memcpy(value_p, text, n);
            value_p[n] = 0;
            rc = 0;
        }
    }
    H5Tclose(type);
    H5Sclose(space);
    H5Aclose(a);
    return rc;
}
