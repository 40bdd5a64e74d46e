/* Opening a rank file, finished or not.
 *
 * Box: lib/store. One thread a file; HDF5 under its lock. The file is hostile input.
 */
#include "store/raw.h"

#include "store/defcols.h"
#include "store/encode.h"
#include "store/meta.h"
#include "store/tail.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_DEFS = 1 << 24 };
#define MAX_TEXT (UINT64_C(1) << 28)
#define MAX_ROWS (UINT64_C(1) << 36)

struct hm_chunk_index hm_chunk_index_of(const struct hm_event *sorted, uint32_t n)
{
    struct hm_chunk_index x = {sorted[0].t_ns, sorted[n - 1].t_ns, sorted[0].t_ns,
                               sorted[0].flags & HM_EVF_CLOCK};
    for (uint32_t i = 0; i < n; i++) {
        int64_t end = sorted[i].t_ns;
        if (sorted[i].dur_ns > 0 && end <= INT64_MAX - sorted[i].dur_ns)
            end += sorted[i].dur_ns;
        if (end > x.end_max)
            x.end_max = end;
        if ((sorted[i].flags & HM_EVF_CLOCK) != x.clock)
            x.clock = HM_CLOCK_MIXED;
    }
    return x;
}

/* Reads a whole one-dimensional dataset of at most max rows as `type`; NULL = not there or odd. */
static void *array_get(hid_t group, const char *name, hid_t type, size_t width, uint64_t max,
                       uint64_t *n_p)
{
    hid_t d = H5Dopen2(group, name, H5P_DEFAULT);
    if (d < 0)
        return NULL;
    hid_t space = H5Dget_space(d), have = H5Dget_type(d);
    hsize_t n = 0;
    void *p = NULL;
    if (space >= 0 && have >= 0 && H5Sget_simple_extent_ndims(space) == 1 &&
        H5Sget_simple_extent_dims(space, &n, NULL) == 1 && n <= max &&
        H5Tget_class(have) == H5T_INTEGER && H5Tget_size(have) == width)
        p = calloc(n + 1, width);
    if (p && n && H5Dread(d, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, p) < 0) {
        free(p);
        p = NULL;
    }
    if (p)
        *n_p = n;
    H5Tclose(have);
    H5Sclose(space);
    H5Dclose(d);
    return p;
}

/* The group itself: opening what lies in it by a path would walk that path each time. < 0 = it is
 * not there. */
static hid_t group_open(hid_t file, const char *path)
{
    return H5Gopen2(file, path, H5P_DEFAULT);
}

static hm_status_t read_strings(hid_t file, struct hm_blobs *d)
{
    uint64_t n = 0, n_present = 0, n_text = 0, used = 0;
    hid_t group = group_open(file, "/def/string");
    if (group < 0)
        return HM_OK;
    uint32_t *len = array_get(group, "len", H5T_NATIVE_UINT32, 4, MAX_DEFS, &n);
    uint8_t *present = array_get(group, "present", H5T_NATIVE_UINT8, 1, MAX_DEFS, &n_present);
    uint8_t *text = array_get(group, "text", H5T_NATIVE_UINT8, 1, MAX_TEXT, &n_text);
    H5Gclose(group);
    hm_status_t s = len && present && text && n == n_present ? HM_OK : HM_E_DATA;
    for (uint64_t i = 0; i < n && s == HM_OK; i++) {
        if (!present[i]) {
            s = hm_blobs_add(d, NULL, HM_BLOB_HOLE);
            continue;
        }
        if (len[i] > n_text - used)
            s = HM_E_DATA;
        else
            s = hm_blobs_add(d, text + used, len[i]);
        used += len[i];
    }
    free(len);
    free(present);
    free(text);
    return s;
}

static hm_status_t read_structs(hid_t file, const struct hm_def_table *t, struct hm_blobs *d)
{
    uint64_t n = 0, n_col = 0;
    hid_t group = group_open(file, t->path);
    if (group < 0)
        return HM_OK;
    uint8_t *present = array_get(group, "present", H5T_NATIVE_UINT8, 1, MAX_DEFS, &n);
    uint8_t *rows = present ? calloc(n + 1, t->bytes) : NULL;
    hm_status_t s = rows ? HM_OK : HM_E_DATA;
    for (uint32_t m = 0; m < t->n_members && s == HM_OK; m++) {
        uint32_t width = hm_col_bytes(t->member[m].type);
        uint8_t *col = array_get(group, t->member[m].name, hm_h5_type(t->member[m].type), width,
                                 MAX_DEFS, &n_col);
        if (!col || n_col != n)
            s = HM_E_DATA;
        for (uint64_t i = 0; i < n && s == HM_OK; i++)
            memcpy(rows + i * t->bytes + t->member[m].offset, col + i * width, width);
        free(col);
    }
    for (uint64_t i = 0; i < n && s == HM_OK; i++)
        s = present[i] ? hm_blobs_add(d, rows + i * t->bytes, t->bytes)
                       : hm_blobs_add(d, NULL, HM_BLOB_HOLE);
    H5Gclose(group);
    free(present);
    free(rows);
    return s;
}

static void read_index(hid_t file, struct hm_raw_table *t)
{
    static const char *const name[] = {"t_min", "t_max", "end_max", "clock"};
    char path[128];
    int64_t *col[4] = {NULL};
    uint64_t n_chunks = (t->rows + HM_CHUNK_ROWS - 1) / HM_CHUNK_ROWS, n = 0;
    snprintf(path, sizeof(path), "%s/index", t->table->path);
    hid_t group = group_open(file, path);
    int ok = group >= 0;
    for (int c = 0; c < 4 && ok; c++) {
        col[c] = array_get(group, name[c], H5T_NATIVE_INT64, 8, MAX_DEFS, &n);
        ok = col[c] && n == n_chunks;
    }
    if (group >= 0)
        H5Gclose(group);
    t->index = ok ? calloc(n_chunks + 1, sizeof(*t->index)) : NULL;
    for (uint64_t i = 0; t->index && i < n_chunks; i++)
        t->index[i] = (struct hm_chunk_index){col[0][i], col[1][i], col[2][i], col[3][i]};
    for (int c = 0; c < 4; c++)
        free(col[c]);
}

/* Opens the columns of a table; each must be what hm_h5_column_create() makes. */
static hm_status_t open_table(hid_t file, struct hm_raw_table *t)
{
    hid_t group = group_open(file, t->table->path);
    if (group < 0)
        return HM_OK;
    hm_status_t s = HM_OK;
    uint64_t told = t->rows;
    for (uint32_t c = 0; c < t->table->n_cols; c++)
        t->col[c] = H5I_INVALID_HID;
    t->open = 1;
    for (uint32_t c = 0; c < t->table->n_cols && s == HM_OK; c++) {
        const struct hm_column *col = &t->table->col[c];
        hid_t d = t->col[c] = H5Dopen2(group, col->name, H5P_DEFAULT);
        if (d < 0 && H5Lexists(group, col->name, H5P_DEFAULT) <= 0) {
            s = c < 5 ? HM_E_DATA : HM_OK; /* an older file may lack a later column */
            continue;
        }
        hid_t space = d < 0 ? d : H5Dget_space(d), type = d < 0 ? d : H5Dget_type(d),
              create = d < 0 ? d : H5Dget_create_plist(d);
        hsize_t rows = 0, chunk = 0;
        if (space < 0 || type < 0 || create < 0 || H5Sget_simple_extent_ndims(space) != 1 ||
            H5Sget_simple_extent_dims(space, &rows, NULL) != 1 || rows > MAX_ROWS ||
            H5Tget_size(type) != hm_col_bytes(col->type) || H5Pget_layout(create) != H5D_CHUNKED ||
            H5Pget_chunk(create, 1, &chunk) != 1 || chunk != HM_CHUNK_ROWS)
            s = HM_E_DATA;
        else if (c == 0)
            t->rows = rows;
        else if (rows < t->rows)
            t->rows = rows; /* killed between two columns of a chunk: below the commit all agree */
        H5Pclose(create);
        H5Tclose(type);
        H5Sclose(space);
    }
    H5Gclose(group);
    return s == HM_OK && t->rows < told ? HM_E_DATA : s; /* the head told of more */
}

/* Opens a table that waits. */
static hm_status_t table_ready(struct hm_raw *raw, struct hm_raw_table *t)
{
    if (!t->waits)
        return HM_OK;
    t->waits = 0;
    hm_h5_lock();
    uint64_t rows = t->rows;
    hm_status_t s = open_table(raw->file, t);
    if (s == HM_OK && !t->open && rows)
        s = HM_E_DATA; /* the head told of rows, and there is no table */
    if (s == HM_OK && rows)
        read_index(raw->file, t);
    hm_h5_unlock();
    if (s)
        t->rows = 0;
    return s;
}

static hm_status_t tail_events(struct hm_raw *raw, const struct hm_tail_head *h,
                               const uint8_t *payload)
{
    struct hm_raw_table *t = &raw->table[h->kind];
    if (!t->table || h->bytes != (uint64_t)h->n * sizeof(struct hm_event))
        return HM_OK; /* of a later version */
    uint64_t have = t->committed + t->n_tail;
    if (h->first_row > have) {
        raw->torn = 1; /* a hole: the rows before were lost with their chunk */
        t->n_tail = 0;
        t->committed = h->first_row;
        have = h->first_row;
    }
    uint64_t skip = have - h->first_row; /* rows that are there already */
    if (skip >= h->n)
        return HM_OK;
    uint64_t n = h->n - skip;
    if (t->n_tail + n > t->cap_tail) {
        uint64_t cap = 2 * (t->n_tail + n);
        struct hm_event *p = realloc(t->tail, cap * sizeof(*p));
        if (!p)
            return HM_E_NOMEM;
        t->tail = p;
        t->cap_tail = cap;
    }
    memcpy(t->tail + t->n_tail, payload + skip * sizeof(struct hm_event),
           n * sizeof(struct hm_event));
    for (uint64_t i = t->n_tail; i < t->n_tail + n; i++)
        t->tail[i].kind = h->kind;
    t->n_tail += n;
    return HM_OK;
}

static hm_status_t tail_def(struct hm_raw *raw, const struct hm_tail_head *h,
                            const uint8_t *payload)
{
    unsigned kind = (unsigned)(h->kind - HM_TAIL_DEF);
    uint32_t stored, want = hm_def_tables[kind].bytes;
    struct hm_blobs *d = &raw->def[kind];
    if (h->bytes < 4 || h->first_row != d->n) /* a repeat after a rewrite, or a gap */
        return HM_OK;
    memcpy(&stored, payload, 4);
    if (!stored || stored - 1 != h->bytes - 4 || (want && stored - 1 != want))
        return hm_blobs_add(d, NULL, HM_BLOB_HOLE);
    return hm_blobs_add(d, payload + 4, stored - 1);
}

static hm_status_t take_tail(void *ctx, const struct hm_tail_head *h, const uint8_t *payload)
{
    struct hm_raw *raw = ctx;
    if (h->kind < HM_N_KINDS)
        return tail_events(raw, h, payload);
    if (h->kind >= HM_TAIL_DEF && h->kind < HM_TAIL_DEF + HM_N_DEFS)
        return tail_def(raw, h, payload);
    if (h->kind == HM_TAIL_META && h->bytes == sizeof(raw->meta)) {
        memcpy(&raw->meta, payload, sizeof(raw->meta));
        raw->meta.host[sizeof(raw->meta.host) - 1] = 0;
        raw->meta.boot_id[sizeof(raw->meta.boot_id) - 1] = 0;
        raw->meta.timens[sizeof(raw->meta.timens) - 1] = 0;
        raw->meta.run_id[sizeof(raw->meta.run_id) - 1] = 0;
        raw->meta.program[sizeof(raw->meta.program) - 1] = 0;
        raw->meta.config[sizeof(raw->meta.config) - 1] = 0;
    } else if (h->kind == HM_TAIL_LOST && h->bytes == sizeof(raw->lost)) {
        memcpy(raw->lost, payload, sizeof(raw->lost));
    } else if (h->kind == HM_TAIL_NOTE && h->bytes == sizeof(struct hm_note)) {
        struct hm_note note;
        memcpy(&note, payload, sizeof(note));
        return hm_blobs_add(&raw->note, note.text, (uint32_t)strnlen(note.text, sizeof(note.text)));
    } else if (h->kind == HM_TAIL_COMMIT && h->bytes == HM_N_KINDS * sizeof(uint64_t)) {
        for (int k = 0; k < HM_N_KINDS; k++) {
            struct hm_raw_table *t = &raw->table[k];
            uint64_t rows;
            memcpy(&rows, payload + 8 * k, 8);
            if (rows <= t->committed || rows > t->rows)
                continue;                        /* HDF5 must really hold them */
            uint64_t gone = rows - t->committed; /* these tail rows are in HDF5 now */
            if (gone >= t->n_tail)
                t->n_tail = 0;
            else
                memmove(t->tail, t->tail + gone, (t->n_tail -= gone) * sizeof(*t->tail));
            t->committed = rows;
        }
    }
    return HM_OK;
}

static hm_status_t read_tail(struct hm_raw *raw, const char *path)
{
    char tail[1100];
    size_t n = strlen(path);
    if (n < 3 || n + 3 > sizeof(tail))
        return HM_OK;
    snprintf(tail, sizeof(tail), "%.*s.tail", (int)(n - 3), path);
    hm_status_t s = access(tail, F_OK) ? HM_OK : hm_tail_read(tail, take_tail, raw, &raw->torn);
    for (int k = 0; k < HM_N_KINDS; k++)
        raw->table[k].rows = raw->table[k].committed;
    return s;
}

hm_status_t hm_raw_open(const char *path, enum hm_raw_part part, struct hm_raw **raw_p,
                        char what[256])
{
    struct hm_raw *raw = calloc(1, sizeof(*raw));
    if (!raw)
        return HM_E_NOMEM;
    hm_status_t s = HM_OK;
    const char *why = NULL;
    raw->file = H5I_INVALID_HID;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;
    if (fd < 0 || fstat(fd, &st)) {
        snprintf(what, 256, "cannot be opened: %m");
        if (fd >= 0)
            close(fd);
        free(raw);
        return HM_E_IO;
    }
    if (!S_ISREG(st.st_mode)) { /* a pipe would be waited for */
        snprintf(what, 256, "not a regular file");
        close(fd);
        free(raw);
        return HM_E_DATA;
    }
    close(fd);
    hm_h5_lock();
    raw->file = hm_h5_open(path, 0);
    if (raw->file < 0) {
        s = HM_E_DATA;
        why = "not a rank file, or cut off";
    } else {
        s = hm_meta_read(raw->file, &raw->meta, &raw->end, raw->lost);
        why = s == HM_E_VERSION
                  ? "written by another version of the format; use that version of hindmost"
                  : "its head is damaged";
    }
    raw->unfinished = raw->end == HM_END_OPEN;
    uint64_t rows[HM_N_KINDS];
    if (raw->unfinished || (s == HM_OK && hm_rows_read(raw->file, rows)))
        part = HM_RAW_ALL;
    for (uint32_t i = 0; i < hm_n_tables && s == HM_OK; i++) {
        struct hm_raw_table *t = &raw->table[hm_tables[i].kind];
        t->table = &hm_tables[i];
        if (part != HM_RAW_ALL) {
            t->rows = rows[hm_tables[i].kind];
            t->waits = 1;
            s = t->rows <= MAX_ROWS ? HM_OK : HM_E_DATA;
        } else {
            s = open_table(raw->file, t);
        }
        why = "a table is damaged";
    }
    for (int k = 0; k < HM_N_DEFS && s == HM_OK && !raw->unfinished; k++) {
        if (part == HM_RAW_HEAD && k != HM_DEF_TRACK && k != HM_DEF_COMM)
            continue;
        s = k == HM_DEF_STRING ? read_strings(raw->file, &raw->def[k])
                               : read_structs(raw->file, &hm_def_tables[k], &raw->def[k]);
        why = "its definitions are damaged";
    }
    for (int k = 0; k < HM_N_KINDS && s == HM_OK && !raw->unfinished; k++)
        if (raw->table[k].rows && !raw->table[k].waits)
            read_index(raw->file, &raw->table[k]);
    hm_h5_unlock();
    if (s == HM_OK && raw->unfinished) {
        s = read_tail(raw, path);
        why = "its tail cannot be read";
    }
    if (s) {
        snprintf(what, 256, "%s", s == HM_E_NOMEM ? "out of memory" : why);
        hm_raw_close(raw);
        return s;
    }
    *raw_p = raw;
    return HM_OK;
}

void hm_raw_close(struct hm_raw *raw)
{
    if (!raw)
        return;
    hm_h5_lock();
    for (int k = 0; k < HM_N_KINDS; k++) {
        struct hm_raw_table *t = &raw->table[k];
        for (uint32_t c = 0; t->open && c < t->table->n_cols; c++)
            if (t->col[c] >= 0)
                H5Dclose(t->col[c]);
        free(t->index);
        free(t->tail);
    }
    if (raw->file >= 0)
        H5Fclose(raw->file);
    hm_h5_unlock();
    for (int k = 0; k < HM_N_DEFS; k++)
        hm_blobs_free(&raw->def[k]);
    hm_blobs_free(&raw->note);
    free(raw);
}

static uint32_t h5_chunks(const struct hm_raw_table *t)
{
    return (uint32_t)((t->rows + HM_CHUNK_ROWS - 1) / HM_CHUNK_ROWS);
}

void hm_raw_walk(struct hm_raw *raw)
{
    hm_h5_lock();
    for (int k = 0; k < HM_N_KINDS; k++) {
        const struct hm_raw_table *t = &raw->table[k];
        for (uint32_t c = 0; t->open && c < t->table->n_cols; c++)
            for (hsize_t at = 0; t->col[c] >= 0 && at < t->rows; at += HM_CHUNK_ROWS) {
                hsize_t bytes;
                if (H5Dget_chunk_storage_size(t->col[c], &at, &bytes) < 0)
                    break; /* reading it will say so */
            }
    }
    hm_h5_unlock();
}

uint32_t hm_raw_n_chunks(const struct hm_raw *raw, uint8_t kind)
{
    const struct hm_raw_table *t = &raw->table[kind];
    return h5_chunks(t) + (uint32_t)((t->n_tail + HM_CHUNK_ROWS - 1) / HM_CHUNK_ROWS);
}

uint64_t hm_raw_n_rows(const struct hm_raw *raw, uint8_t kind)
{
    return raw->table[kind].rows + raw->table[kind].n_tail;
}

int hm_raw_index(struct hm_raw *raw, uint8_t kind, uint32_t i, struct hm_chunk_index *x_p)
{
    struct hm_raw_table *t = &raw->table[kind];
    if (table_ready(raw, t) || !t->index || i >= h5_chunks(t))
        return 0;
    *x_p = t->index[i];
    return 1;
}

hm_status_t hm_raw_chunk(struct hm_raw *raw, uint8_t kind, uint32_t i, struct hm_event *ev,
                         uint32_t *n_p)
{
    struct hm_raw_table *t = &raw->table[kind];
    hm_status_t ready = table_ready(raw, t);
    if (ready)
        return ready;
    uint32_t n_h5 = h5_chunks(t);
    if (i >= n_h5) {
        uint64_t first = (uint64_t)(i - n_h5) * HM_CHUNK_ROWS;
        if (first >= t->n_tail)
            return HM_E_DATA;
        uint64_t n = t->n_tail - first;
        *n_p = (uint32_t)(n < HM_CHUNK_ROWS ? n : HM_CHUNK_ROWS);
        memcpy(ev, t->tail + first, *n_p * sizeof(*ev));
        return HM_OK;
    }
    uint64_t first = (uint64_t)i * HM_CHUNK_ROWS;
    uint32_t n = (uint32_t)(t->rows - first < HM_CHUNK_ROWS ? t->rows - first : HM_CHUNK_ROWS);
    uint8_t *in = malloc(HM_ENCODE_CAP);
    if (!in)
        return HM_E_NOMEM;
    memset(ev, 0, n * sizeof(*ev));
    hm_status_t s = HM_OK;
    for (uint32_t c = 0; c < t->table->n_cols && s == HM_OK; c++) {
        if (t->col[c] < 0)
            continue;
        hsize_t offset = first, bytes = 0;
        uint32_t mask = 0;
        hm_h5_lock();
        if (H5Dget_chunk_storage_size(t->col[c], &offset, &bytes) < 0 || bytes == 0 ||
            bytes > HM_ENCODE_CAP ||
            H5Dread_chunk(t->col[c], H5P_DEFAULT, &offset, &mask, in) < 0 || mask)
            s = HM_E_DATA;
        hm_h5_unlock();
        if (s == HM_OK)
            s = hm_decode(&t->table->col[c], in, bytes, ev, n);
    }
    free(in);
    for (uint32_t r = 0; r < n; r++)
        ev[r].kind = kind;
    *n_p = n;
    return s;
}
