/* Writing a rank file.
 *
 * Box: lib/store. One thread a file: the writer process, import, demo.
 * Invariants: only whole chunks of HM_CHUNK_ROWS rows enter HDF5 before close; what
 * hm_rankfile_flush() has returned for lies either below the last commit record in HDF5 or in the
 * tail.
 */
#include "store/rankfile.h"

#include "store/blobs.h"
#include "store/defcols.h"
#include "store/encode.h"
#include "store/meta.h"
#include "store/raw.h"
#include "store/shield.h"
#include "store/tail.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define TAIL_LIMIT (16u << 20)

struct table {
    const struct hm_table *table;
    struct hm_event *staged; /* [HM_CHUNK_ROWS], allocated with the first event */
    uint32_t n, n_tailed;    /* staged; of these, already in the tail */
    uint64_t rows;           /* in HDF5 */
    hid_t col[HM_MAX_COLS];
    int has_columns;
    struct hm_chunk_index *index; /* one a chunk */
    uint32_t n_index, cap_index;
};

struct hm_rankfile {
    char dir[1024], name[200], path[1300];
    struct hm_rank_meta meta;
    hid_t file;
    int tail_fd, lock_fd;
    struct table table[HM_N_KINDS];
    struct hm_blobs def[HM_N_DEFS];
    uint32_t n_def_tailed[HM_N_DEFS];
    uint64_t lost[HM_N_LOST];
    struct hm_note *note;
    uint32_t n_notes, n_notes_tailed;
    uint64_t tail_bytes, live_bytes;
    int meta_new, lost_new, chunk_new;
    uint8_t *packed;       /* [HM_ENCODE_CAP] */
    struct hm_event *sort; /* [HM_CHUNK_ROWS] */
};

static void sibling(const struct hm_rankfile *rf, const char *name, const char *suffix,
                    char path[1300])
{
    snprintf(path, 1300, "%s/%s%s", rf->dir, name, suffix);
}

/* Takes NAME.lock and then the name itself. 1 = taken, 0 = somebody else has it, -1 = error. */
static int claim_name(struct hm_rankfile *rf, const char *name, int *lock_fd_p, int rename_from)
{
    char path[1300], lock[1300];
    sibling(rf, name, ".lock", lock);
    sibling(rf, name, ".h5", path);
    int fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return -1;
    if (flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK) {
        close(fd);
        return 0;
    }
    int rc;
    if (rename_from) {
        rc = renameat2(AT_FDCWD, rf->path, AT_FDCWD, path, RENAME_NOREPLACE);
        if (rc && (errno == EINVAL || errno == ENOSYS)) /* a file system without the flag */
            rc = link(rf->path, path) ? -1 : unlink(rf->path);
    } else {
        int h5 = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        rc = h5 < 0 ? -1 : close(h5);
    }
    if (rc) {
        int taken = errno == EEXIST;
        unlink(lock);
        close(fd);
        return taken ? 0 : -1;
    }
    *lock_fd_p = fd;
    return 1;
}

static hm_status_t take_name(struct hm_rankfile *rf, int rename_from)
{
    char name[200];
    int lock_fd = -1, rc = 0;
    for (unsigned i = 0; i < 1000 && rc == 0; i++) {
        if (rf->meta.rank < 0 && i == 0)
            snprintf(name, sizeof(name), ".part-%.63s-%d", rf->meta.host, rf->meta.pid);
        else if (rf->meta.rank < 0)
            snprintf(name, sizeof(name), ".part-%.63s-%d.%u", rf->meta.host, rf->meta.pid, i);
        else if (i == 0)
            snprintf(name, sizeof(name), "rank-%05d", rf->meta.rank);
        else
            snprintf(name, sizeof(name), "rank-%05d.%u", rf->meta.rank, i);
        for (char *c = name; *c; c++)
            if (*c == '/')
                *c = '_';
        rc = claim_name(rf, name, &lock_fd, rename_from);
    }
    if (rc != 1)
        return hm_fail(HM_E_IO, rf->dir, "no rank file can be made: %s", strerror(errno));
    if (rename_from) {
        char from[1300], to[1300];
        sibling(rf, rf->name, ".tail", from);
        sibling(rf, name, ".tail", to);
        (void)rename(from, to); /* there may be none yet */
        sibling(rf, rf->name, ".lock", from);
        unlink(from);
        close(rf->lock_fd);
    }
    rf->lock_fd = lock_fd;
    snprintf(rf->name, sizeof(rf->name), "%s", name);
    sibling(rf, rf->name, ".h5", rf->path);
    return HM_OK;
}

static void rankfile_free(struct hm_rankfile *rf)
{
    for (int k = 0; k < HM_N_KINDS; k++) {
        free(rf->table[k].staged);
        free(rf->table[k].index);
    }
    for (int k = 0; k < HM_N_DEFS; k++)
        hm_blobs_free(&rf->def[k]);
    free(rf->note);
    free(rf->packed);
    free(rf->sort);
    if (rf->tail_fd >= 0)
        close(rf->tail_fd);
    if (rf->lock_fd >= 0)
        close(rf->lock_fd);
    free(rf);
}

hm_status_t hm_rankfile_create(const char *dir, const struct hm_rank_meta *meta,
                               struct hm_rankfile **rf_p)
{
    struct hm_rankfile *rf = calloc(1, sizeof(*rf));
    if (!rf)
        return HM_E_NOMEM;
    rf->tail_fd = rf->lock_fd = -1;
    rf->file = H5I_INVALID_HID;
    rf->meta = *meta;
    rf->meta_new = rf->lost_new = 1;
    rf->packed = malloc(HM_ENCODE_CAP);
    rf->sort = malloc(HM_CHUNK_ROWS * sizeof(*rf->sort));
    hm_status_t s = HM_E_NOMEM;
    if (!rf->packed || !rf->sort)
        goto err_free;
    for (uint32_t i = 0; i < hm_n_tables; i++)
        rf->table[hm_tables[i].kind].table = &hm_tables[i];
    if ((size_t)snprintf(rf->dir, sizeof(rf->dir), "%s", dir) >= sizeof(rf->dir)) {
        s = hm_fail(HM_E_IO, dir, "the path is too long");
        goto err_free;
    }
    s = take_name(rf, 0);
    if (s)
        goto err_free;
    hm_h5_lock();
    rf->file = hm_h5_create(rf->path);
    int rc = rf->file < 0 ? -1 : hm_meta_write(rf->file, meta, HM_END_OPEN);
    if (rc == 0)
        rc = hm_loss_write(rf->file, rf->lost);
    if (rc == 0)
        rc = H5Fflush(rf->file, H5F_SCOPE_LOCAL);
    hm_h5_unlock();
    if (rc < 0) {
        s = hm_fail(HM_E_IO, rf->path, "cannot be written; is the disk full?");
        hm_rankfile_discard(rf);
        return s;
    }
    *rf_p = rf;
    return HM_OK;
err_free:
    rankfile_free(rf);
    return s;
}

hm_status_t hm_rankfile_define(struct hm_rankfile *rf, enum hm_def_kind kind, uint32_t id,
                               const void *bytes, uint32_t len)
{
    if ((unsigned)kind >= HM_N_DEFS || id != rf->def[kind].n)
        return HM_E_DATA;
    uint32_t want = hm_def_tables[kind].bytes;
    if (!bytes || (want && len != want)) /* a hole; an empty text is a text */
        return hm_blobs_add(&rf->def[kind], NULL, HM_BLOB_HOLE);
    return hm_blobs_add(&rf->def[kind], bytes, len);
}

static hm_status_t open_columns(struct hm_rankfile *rf, struct table *t)
{
    char path[128];
    hm_status_t s = HM_OK;
    hm_h5_lock();
    for (uint32_t c = 0; c < t->table->n_cols && s == HM_OK; c++) {
        const struct hm_column *col = &t->table->col[c];
        snprintf(path, sizeof(path), "%s/%s", t->table->path, col->name);
        t->col[c] = hm_h5_column_create(rf->file, path, hm_h5_type(col->type), col->unit, col->doc,
                                        col->delta);
        if (t->col[c] < 0)
            s = HM_E_IO;
    }
    hm_h5_unlock();
    t->has_columns = s == HM_OK;
    return s;
}

static hm_status_t index_add(struct table *t)
{
    if (t->n_index == t->cap_index) {
        uint32_t cap = t->cap_index ? 2 * t->cap_index : 64;
        struct hm_chunk_index *p = realloc(t->index, cap * sizeof(*p));
        if (!p)
            return HM_E_NOMEM;
        t->index = p;
        t->cap_index = cap;
    }
    t->index[t->n_index++] = hm_chunk_index_of(t->staged, t->n);
    return HM_OK;
}

/* Packs the staged rows (all of them: a whole chunk, or the last one at close) into HDF5. */
static hm_status_t write_chunk(struct hm_rankfile *rf, struct table *t)
{
    hm_status_t s = t->has_columns ? HM_OK : open_columns(rf, t);
    if (s == HM_OK) {
        hm_events_sort(t->staged, t->n, rf->sort);
        s = index_add(t);
    }
    for (uint32_t c = 0; c < t->table->n_cols && s == HM_OK; c++) {
        size_t bytes = hm_encode(&t->table->col[c], t->staged, t->n, rf->packed);
        if (!bytes) {
            s = HM_E_NOMEM;
            break;
        }
        hsize_t extent = t->rows + t->n, offset = t->rows;
        hm_h5_lock();
        if (H5Dset_extent(t->col[c], &extent) < 0 ||
            H5Dwrite_chunk(t->col[c], H5P_DEFAULT, 0, &offset, bytes, rf->packed) < 0)
            s = HM_E_IO;
        hm_h5_unlock();
    }
    if (s == HM_OK) {
        t->rows += t->n;
        rf->chunk_new = 1;
    }
    t->n = t->n_tailed = 0; /* on failure the caller counts the chunk as lost */
    return s;
}

hm_status_t hm_rankfile_append(struct hm_rankfile *rf, const struct hm_event *ev, uint32_t n)
{
    hm_status_t s = HM_OK;
    for (uint32_t i = 0; i < n; i++) {
        struct table *t = ev[i].kind < HM_N_KINDS ? &rf->table[ev[i].kind] : NULL;
        if (!t || !t->table) {
            s = HM_E_DATA;
            continue;
        }
        if (!t->staged && !(t->staged = malloc(HM_CHUNK_ROWS * sizeof(*t->staged))))
            return HM_E_NOMEM;
        t->staged[t->n++] = ev[i];
        if (t->n == HM_CHUNK_ROWS) {
            hm_status_t w = write_chunk(rf, t);
            if (w)
                s = w;
        }
    }
    return s;
}

hm_status_t hm_rankfile_lost(struct hm_rankfile *rf, const uint64_t lost[])
{
    if (memcmp(rf->lost, lost, sizeof(rf->lost))) {
        memcpy(rf->lost, lost, sizeof(rf->lost));
        rf->lost_new = 1;
    }
    return HM_OK;
}

hm_status_t hm_rankfile_meta(struct hm_rankfile *rf, const struct hm_rank_meta *meta)
{
    int renamed = meta->rank != rf->meta.rank;
    rf->meta = *meta;
    rf->meta_new = 1;
    return renamed ? take_name(rf, 1) : HM_OK;
}

hm_status_t hm_rankfile_note(struct hm_rankfile *rf, const struct hm_note *note)
{
    if (rf->n_notes >= 1024)
        return HM_E_LIMIT;
    struct hm_note *p = realloc(rf->note, (rf->n_notes + 1) * sizeof(*p));
    if (!p)
        return HM_E_NOMEM;
    rf->note = p;
    p[rf->n_notes] = *note;
    p[rf->n_notes++].text[sizeof(note->text) - 1] = 0;
    return HM_OK;
}

/* All of what a reader needs beside HDF5: everything (`all`) or what is new since the last time. */
static hm_status_t tail_records(struct hm_rankfile *rf, int all, struct hm_tail_buf *buf)
{
    hm_status_t s = HM_OK;
    uint64_t rows[HM_N_KINDS];
    for (int k = 0; k < HM_N_KINDS; k++)
        rows[k] = rf->table[k].rows;
    if (all || rf->meta_new)
        s = hm_tail_put(buf, HM_TAIL_META, 1, 0, &rf->meta, sizeof(rf->meta));
    if (s == HM_OK && (all || rf->lost_new))
        s = hm_tail_put(buf, HM_TAIL_LOST, 1, 0, rf->lost, sizeof(rf->lost));
    for (uint32_t i = all ? 0 : rf->n_notes_tailed; i < rf->n_notes && s == HM_OK; i++)
        s = hm_tail_put(buf, HM_TAIL_NOTE, 1, i, &rf->note[i], sizeof(*rf->note));
    for (int k = 0; k < HM_N_DEFS && s == HM_OK; k++) {
        const struct hm_blobs *d = &rf->def[k];
        for (uint32_t i = all ? 0 : rf->n_def_tailed[k]; i < d->n && s == HM_OK; i++) {
            uint32_t len = d->at[i].len, stored = len == HM_BLOB_HOLE ? 0 : len + 1;
            uint8_t record[4 + 65536];
            uint32_t n = stored ? (len > 65535 ? 65535 : len) : 0;
            if (stored)
                stored = n + 1;
            memcpy(record, &stored, 4);
            if (n)
                memcpy(record + 4, d->bytes + d->at[i].off, n);
            s = hm_tail_put(buf, (uint8_t)(HM_TAIL_DEF + k), 1, i, record, 4 + n);
        }
    }
    if (s == HM_OK)
        s = hm_tail_put(buf, HM_TAIL_COMMIT, HM_N_KINDS, 0, rows, sizeof(rows));
    for (int k = 0; k < HM_N_KINDS && s == HM_OK; k++) {
        const struct table *t = &rf->table[k];
        uint32_t from = all ? 0 : t->n_tailed;
        if (t->n > from)
            s = hm_tail_put(buf, (uint8_t)k, t->n - from, t->rows + from, t->staged + from,
                            (t->n - from) * sizeof(*t->staged));
    }
    return s;
}

static hm_status_t write_all(int fd, const uint8_t *p, size_t n)
{
    while (n) {
        ssize_t w = write(fd, p, n);
        if (w < 0 && errno == EINTR)
            continue;
        if (w <= 0)
            return HM_E_IO;
        p += w;
        n -= (size_t)w;
    }
    return HM_OK;
}

static hm_status_t rewrite_tail(struct hm_rankfile *rf)
{
    char path[1300], tmp[1300];
    struct hm_tail_buf buf = {0};
    sibling(rf, rf->name, ".tail", path);
    sibling(rf, rf->name, ".tail.new", tmp);
    hm_status_t s = tail_records(rf, 1, &buf);
    int fd = s ? -1 : open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (s == HM_OK)
        s = fd < 0 ? HM_E_IO : write_all(fd, buf.p, buf.n);
    if (s == HM_OK && rename(tmp, path))
        s = HM_E_IO;
    if (s == HM_OK) {
        if (rf->tail_fd >= 0)
            close(rf->tail_fd);
        rf->tail_fd = fd;
        rf->tail_bytes = rf->live_bytes = buf.n;
    } else if (fd >= 0) {
        close(fd);
        unlink(tmp);
    }
    free(buf.p);
    return s;
}

hm_status_t hm_rankfile_flush(struct hm_rankfile *rf)
{
    hm_status_t s = HM_OK;
    if (rf->chunk_new) {
        hm_h5_lock();
        if (H5Fflush(rf->file, H5F_SCOPE_LOCAL) < 0)
            s = HM_E_IO;
        hm_h5_unlock();
        if (s)
            return s;
        rf->chunk_new = 0;
    }
    if (rf->tail_fd < 0 || rf->tail_bytes > TAIL_LIMIT + 2 * rf->live_bytes) {
        s = rewrite_tail(rf);
    } else {
        struct hm_tail_buf buf = {0};
        s = tail_records(rf, 0, &buf);
        if (s == HM_OK)
            s = write_all(rf->tail_fd, buf.p, buf.n);
        rf->tail_bytes += buf.n;
        free(buf.p);
        if (s) /* a torn record would hide those behind it */
            s = rewrite_tail(rf);
    }
    if (s)
        return s;
    for (int k = 0; k < HM_N_KINDS; k++)
        rf->table[k].n_tailed = rf->table[k].n;
    for (int k = 0; k < HM_N_DEFS; k++)
        rf->n_def_tailed[k] = rf->def[k].n;
    rf->n_notes_tailed = rf->n_notes;
    rf->meta_new = rf->lost_new = 0;
    return HM_OK;
}

static int write_strings(hid_t file, const struct hm_blobs *d)
{
    uint32_t *len = calloc(d->n + 1, sizeof(*len));
    uint8_t *text = malloc(d->used + 1), *present = calloc(d->n + 1, 1);
    uint64_t used = 0;
    int rc = -1;
    if (len && text && present) {
        for (uint32_t i = 0; i < d->n; i++) {
            if (d->at[i].len == HM_BLOB_HOLE)
                continue;
            present[i] = 1;
            len[i] = d->at[i].len;
            memcpy(text + used, d->bytes + d->at[i].off, len[i]);
            used += len[i];
        }
        rc = hm_h5_array_put(file, "/def/string/present", H5T_STD_U8LE, present, d->n);
        rc |= hm_h5_array_put(file, "/def/string/len", H5T_STD_U32LE, len, d->n);
        rc |= hm_h5_array_put(file, "/def/string/text", H5T_STD_U8LE, text, used);
    }
    free(len);
    free(text);
    free(present);
    return rc;
}

static int write_defs(hid_t file, int kind, const struct hm_blobs *d)
{
    if (kind == HM_DEF_STRING)
        return write_strings(file, d);
    const struct hm_def_table *t = &hm_def_tables[kind];
    uint8_t *column = calloc(d->n + 1, 8);
    char path[128];
    int rc = column ? 0 : -1;
    for (uint32_t m = 0; rc == 0 && m <= t->n_members; m++) {
        int last = m == t->n_members; /* one more: which ids exist */
        uint8_t type = last ? HM_COL_U8 : t->member[m].type;
        uint32_t width = hm_col_bytes(type);
        for (uint32_t i = 0; i < d->n; i++) {
            const uint8_t *p = hm_blobs_get(d, i, NULL);
            memset(column + (size_t)i * width, last && p, width);
            if (!last && p)
                memcpy(column + (size_t)i * width, p + t->member[m].offset, width);
        }
        snprintf(path, sizeof(path), "%s/%s", t->path, last ? "present" : t->member[m].name);
        rc = hm_h5_array_put(file, path, hm_h5_type(type), column, d->n);
    }
    free(column);
    return rc < 0 ? -1 : 0;
}

static int write_index(hid_t file, const struct table *t)
{
    static const char *const name[] = {"row", "t_min", "t_max", "end_max", "clock"};
    int64_t *column = calloc(t->n_index + 1, sizeof(*column));
    char path[128];
    int rc = column ? 0 : -1;
    for (unsigned c = 0; c < 5 && rc == 0; c++) {
        for (uint32_t i = 0; i < t->n_index; i++) {
            const struct hm_chunk_index *x = &t->index[i];
            int64_t v[5] = {(int64_t)i * HM_CHUNK_ROWS, x->t_min, x->t_max, x->end_max, x->clock};
            column[i] = v[c];
        }
        snprintf(path, sizeof(path), "%s/index/%s", t->table->path, name[c]);
        rc = hm_h5_array_put(file, path, H5T_STD_I64LE, column, t->n_index);
    }
    free(column);
    return rc;
}

static int write_notes(hid_t file, const struct hm_note *note, uint32_t n)
{
    char *text = malloc((size_t)n * sizeof(note->text) + 1);
    size_t used = 0;
    if (!text)
        return -1;
    for (uint32_t i = 0; i < n; i++)
        used += (size_t)sprintf(text + used, "%s\n", note[i].text);
    int rc = hm_h5_array_put(file, "/notes", H5T_STD_U8LE, text, used);
    free(text);
    return rc;
}

/* What a full disk has left is a rank file that every command reads, or it is none. */
static int can_be_read(const char *path)
{
    uint8_t verdict = HM_SHIELD_FAULTY;
    char copy[1300], *list[1] = {copy};
    snprintf(copy, sizeof(copy), "%s", path);
    hm_shield_try(list, 1, &verdict);
    return verdict == HM_SHIELD_GOOD;
}

hm_status_t hm_rankfile_close(struct hm_rankfile *rf, enum hm_end why)
{
    hm_status_t s = HM_OK;
    char path[1300];
    for (int k = 0; k < HM_N_KINDS; k++)
        if (rf->table[k].n) {
            hm_status_t w = write_chunk(rf, &rf->table[k]);
            if (w)
                s = w;
        }
    hm_h5_lock();
    int rc = 0;
    for (int k = 0; k < HM_N_KINDS; k++) {
        struct table *t = &rf->table[k];
        for (uint32_t c = 0; t->has_columns && c < t->table->n_cols; c++)
            H5Dclose(t->col[c]);
        if (t->n_index)
            rc |= write_index(rf->file, t);
    }
    for (int k = 0; k < HM_N_DEFS; k++)
        rc |= write_defs(rf->file, k, &rf->def[k]);
    rc |= write_notes(rf->file, rf->note, rf->n_notes);
    rc |= hm_loss_write(rf->file, rf->lost);
    uint64_t rows[HM_N_KINDS];
    for (int k = 0; k < HM_N_KINDS; k++)
        rows[k] = rf->table[k].rows;
    rc |= hm_rows_write(rf->file, rows);
    /* the last thing: only now may a reader do without the tail */
    rc |= H5Fflush(rf->file, H5F_SCOPE_LOCAL);
    if (rc >= 0 && s == HM_OK)
        rc |= hm_meta_write(rf->file, &rf->meta, why);
    rc |= H5Fclose(rf->file);
    hm_h5_unlock();
    if (s == HM_OK && rc < 0)
        s = HM_E_IO;
    int keep = s == HM_OK || can_be_read(rf->path);
    if (s && keep)
        hm_fail(s, rf->path, "could not be finished; is the disk full? what was flushed is kept");
    else if (s)
        hm_fail(s, rf->path,
                "could not be finished, and what is there cannot be read: removed, nothing of this "
                "rank is kept; is the disk full?");
    sibling(rf, rf->name, ".tail", path);
    if (s == HM_OK || !keep)
        unlink(path);
    if (!keep)
        unlink(rf->path);
    sibling(rf, rf->name, ".lock", path);
    unlink(path);
    rankfile_free(rf);
    return s;
}

void hm_rankfile_abandon(struct hm_rankfile *rf)
{
    char path[1300];
    sibling(rf, rf->name, ".lock", path);
    unlink(path);
    rankfile_free(rf);
}

void hm_rankfile_discard(struct hm_rankfile *rf)
{
    static const char *const suffix[] = {".h5", ".tail", ".lock"};
    char path[1300];
    hm_h5_lock();
    if (rf->file >= 0)
        H5Fclose(rf->file);
    hm_h5_unlock();
    for (int i = 0; i < 3; i++) {
        sibling(rf, rf->name, suffix[i], path);
        unlink(path);
    }
    rankfile_free(rf);
}

const char *hm_rankfile_path(const struct hm_rankfile *rf)
{
    return rf->path;
}

/* Copies all that a reader would take into a new file, which then replaces the old one. */
static hm_status_t copy_raw(struct hm_raw *raw, struct hm_rankfile *to)
{
    hm_status_t s = HM_OK;
    struct hm_event *ev = malloc(HM_CHUNK_ROWS * sizeof(*ev));
    if (!ev)
        return HM_E_NOMEM;
    for (int k = 0; k < HM_N_DEFS && s == HM_OK; k++)
        for (uint32_t i = 0; i < raw->def[k].n && s == HM_OK; i++) {
            uint32_t len = 0;
            const void *p = hm_blobs_get(&raw->def[k], i, &len);
            s = hm_rankfile_define(to, (enum hm_def_kind)k, i, p, len);
        }
    for (int k = 0; k < HM_N_KINDS && s == HM_OK; k++)
        for (uint32_t i = 0; i < hm_raw_n_chunks(raw, (uint8_t)k) && s == HM_OK; i++) {
            uint32_t n;
            s = hm_raw_chunk(raw, (uint8_t)k, i, ev, &n);
            if (s == HM_OK)
                s = hm_rankfile_append(to, ev, n);
        }
    free(ev);
    hm_rankfile_lost(to, raw->lost);
    return s;
}

hm_status_t hm_rankfile_finish(const char *path)
{
    struct hm_raw *raw;
    char what[256] = "";
    hm_status_t s = hm_raw_open(path, HM_RAW_ALL, &raw, what);
    if (s)
        return hm_fail(s, path, "%s", what);
    if (!raw->unfinished) {
        hm_raw_close(raw);
        return HM_OK;
    }
    char dir[1100];
    snprintf(dir, sizeof(dir), "%s", path);
    char *slash = strrchr(dir, '/');
    if (slash)
        *slash = 0;
    else
        strcpy(dir, ".");
    struct hm_rank_meta meta = raw->meta;
    meta.rank = -1; /* a .part name of its own */
    struct hm_rankfile *to = NULL;
    s = hm_rankfile_create(dir, &meta, &to);
    if (s == HM_OK) {
        s = copy_raw(raw, to);
        to->meta.rank = raw->meta.rank;
        char made[1300];
        snprintf(made, sizeof(made), "%s", to->path);
        if (s) {
            hm_rankfile_discard(to);
        } else {
            s = hm_rankfile_close(to, HM_END_RECOVERED);
            if (s == HM_OK && rename(made, path))
                s = hm_fail(HM_E_IO, path, "cannot be replaced: %s", strerror(errno));
        }
    }
    hm_raw_close(raw);
    if (s == HM_OK) {
        char tail[1100];
        snprintf(tail, sizeof(tail), "%.*s.tail", (int)(strlen(path) - 3), path);
        unlink(tail);
        snprintf(tail, sizeof(tail), "%.*s.lock", (int)(strlen(path) - 3), path);
        unlink(tail);
    }
    return s;
}
