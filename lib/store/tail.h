/* The tail: an append-only file beside an unfinished rank file, with all that HDF5 does not hold
 * yet.
 *
 * Box: lib/store. Record = head of 32 bytes, then `bytes` of payload; the CRC covers both (with crc
 * taken as 0). A reader stops at the first record that does not check.
 */
#ifndef HM_STORE_TAIL_H
#define HM_STORE_TAIL_H

#include "core/event.h"
#include "core/status.h"

#include <stddef.h>
#include <stdint.h>

#define HM_TAIL_MAGIC UINT32_C(0x6c69746d) /* "mtil" */
enum {
    /* below HM_N_KINDS: n events of 64 bytes, rows first_row .. of that kind */
    HM_TAIL_DEF = 128,   /* + enum hm_def_kind: n definitions from id first_row; each u32 1 + bytes
                            (0 = hole), then the bytes */
    HM_TAIL_NOTE = 252,  /* struct hm_note */
    HM_TAIL_LOST = 253,  /* u64 [HM_N_LOST] */
    HM_TAIL_META = 254,  /* struct hm_rank_meta */
    HM_TAIL_COMMIT = 255 /* u64 [HM_N_KINDS]: rows that HDF5 holds for certain */
};
struct hm_tail_head {
    uint32_t magic;
    uint8_t kind, pad[3];
    uint32_t n, bytes, crc, pad2;
    uint64_t first_row;
};
_Static_assert(sizeof(struct hm_tail_head) == 32, "");

/** A buffer of records to be written with one write(2). */
struct hm_tail_buf {
    uint8_t *p;
    size_t n, cap;
};
hm_status_t hm_tail_put(struct hm_tail_buf *buf, uint8_t kind, uint32_t n, uint64_t first_row,
                        const void *payload, size_t bytes);

typedef hm_status_t (*hm_tail_func_t)(void *ctx, const struct hm_tail_head *head,
                                      const uint8_t *payload);
/** Calls func for every sound record in order. HM_OK also when the end is torn (*torn_p = 1);
 *  HM_E_IO when the file cannot be read; whatever func returns when that is not HM_OK. */
hm_status_t hm_tail_read(const char *path, hm_tail_func_t func, void *ctx, int *torn_p);

#endif
