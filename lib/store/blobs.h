/* A dense list of byte strings: the definitions of one kind, id = index.
 *
 * Box: lib/store. One thread.
 */
#ifndef HM_STORE_BLOBS_H
#define HM_STORE_BLOBS_H

#include "core/status.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define HM_BLOB_HOLE UINT32_MAX
struct hm_blob {
    uint64_t off;
    uint32_t len, pad;
}; /* len HM_BLOB_HOLE: no such definition */
struct hm_blobs {
    struct hm_blob *at;
    uint32_t n, cap;
    uint8_t *bytes;
    uint64_t used, room;
};

static inline hm_status_t hm_blobs_add(struct hm_blobs *b, const void *bytes, uint32_t len)
{
    if (b->n == b->cap) {
        uint32_t cap = b->cap ? 2 * b->cap : 256;
        struct hm_blob *at = realloc(b->at, cap * sizeof(*at));
        if (!at)
            return HM_E_NOMEM;
        b->at = at;
        b->cap = cap;
    }
    uint32_t n = len == HM_BLOB_HOLE ? 0 : len;
    if (b->used + n + 8 > b->room) {
        uint64_t room = b->room ? 2 * b->room : 16384;
        while (room < b->used + n + 8)
            room *= 2;
        uint8_t *p = realloc(b->bytes, room);
        if (!p)
            return HM_E_NOMEM;
        b->bytes = p;
        b->room = room;
    }
    b->at[b->n++] = (struct hm_blob){b->used, len, 0};
    if (n)
        memcpy(b->bytes + b->used, bytes, n);
    b->bytes[b->used + n] = 0;  /* texts can be read as C strings */
    b->used += (n + 8) / 8 * 8; /* the next one is aligned for any definition */
    return HM_OK;
}

/** Bytes of an id, NULL = hole or out of range. */
static inline const void *hm_blobs_get(const struct hm_blobs *b, uint32_t id, uint32_t *len_p)
{
    if (id >= b->n || b->at[id].len == HM_BLOB_HOLE)
        return NULL;
    if (len_p)
        *len_p = b->at[id].len;
    return b->bytes + b->at[id].off;
}

static inline void hm_blobs_free(struct hm_blobs *b)
{
    free(b->at);
    free(b->bytes);
    memset(b, 0, sizeof(*b));
}

#endif
