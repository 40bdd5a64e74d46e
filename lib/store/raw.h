/* A rank file as it lies on disk: rows below the commit from HDF5, then rows of the tail; no clock
 * maps, no merging, ids of the file.
 *
 * Box: lib/store. One thread a file. All numbers are checked before use.
 */
#ifndef HM_STORE_RAW_H
#define HM_STORE_RAW_H

#include "store/blobs.h"
#include "store/h5.h"
#include "store/rankfile.h"
#include "store/schema.h"

enum { HM_MAX_COLS = 20 };
#define HM_CLOCK_MIXED 255
struct hm_chunk_index {
    int64_t t_min, t_max, end_max, clock;
}; /* clock: of all rows, or HM_CLOCK_MIXED */

struct hm_raw_table {
    const struct hm_table *table; /* NULL: no such kind */
    uint64_t rows;                /* usable rows in HDF5 */
    hid_t col[HM_MAX_COLS];
    int open, waits; /* columns are open; they and the index are opened when first asked for */
    struct hm_chunk_index *index; /* [chunks in HDF5], NULL = none stored */
    struct hm_event *tail;        /* rows after those */
    uint64_t n_tail, cap_tail, committed;
};
struct hm_raw {
    hid_t file;
    int unfinished, torn;
    uint32_t end;
    struct hm_rank_meta meta;
    uint64_t lost[HM_N_LOST];
    struct hm_raw_table table[HM_N_KINDS];
    struct hm_blobs def[HM_N_DEFS];
    struct hm_blobs note;
};

struct hm_chunk_index hm_chunk_index_of(const struct hm_event *sorted, uint32_t n);
/** How much of a finished file is opened at once: opening its 200 datasets costs 5 ms. An unfinished
 *  one is always opened whole. */
enum hm_raw_part {
    HM_RAW_ALL,  /* so that what is damaged is found */
    HM_RAW_LAZY, /* all definitions; tables when they are asked for */
    HM_RAW_HEAD  /* numbers of rows; definitions of tracks and communicators */
};
/** HM_OK, HM_E_IO, HM_E_DATA, HM_E_VERSION, HM_E_NOMEM; what_p [256] in words. */
hm_status_t hm_raw_open(const char *path, enum hm_raw_part part, struct hm_raw **raw_p,
                        char what_p[256]);
void hm_raw_close(struct hm_raw *raw);
/** Has HDF5 look up every chunk of every column, reading none. */
void hm_raw_walk(struct hm_raw *raw);
/** Chunks of a kind, those of the tail included. */
uint32_t hm_raw_n_chunks(const struct hm_raw *raw, uint8_t kind);
uint64_t hm_raw_n_rows(const struct hm_raw *raw, uint8_t kind);
/** Decodes chunk i into ev [HM_CHUNK_ROWS]; kind is set; columns that the file lacks are zero. */
hm_status_t hm_raw_chunk(struct hm_raw *raw, uint8_t kind, uint32_t i, struct hm_event *ev,
                         uint32_t *n_p);
/** The stored index of chunk i, 0 = there is none. */
int hm_raw_index(struct hm_raw *raw, uint8_t kind, uint32_t i, struct hm_chunk_index *x_p);

#endif
