/* Delta, shuffle, deflate and back.
 *
 * Box: lib/store. Pure; called by the writer (packing) and by readers, outside the HDF5 mutex.
 * The byte layout is that of HDF5's stock filters in the order shuffle, deflate level 1, so that
 * any HDF5 reader opens a finished file.
 */
#include "store/encode.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* About half of the columns of a usual run hold nothing but zeros (graph, channel, flags, ...), and
 * the last chunk of every table is mostly padding: packed once, by width. */
static struct {
    uint8_t packed[4096];
    uLongf n; /* 0 = could not be packed: every chunk is packed for itself */
} zeros[9];
static pthread_once_t zeros_once = PTHREAD_ONCE_INIT;

static void pack_zeros(void)
{
    for (size_t width = 1; width <= 8; width *= 2) {
        uLong bytes = (uLong)HM_CHUNK_ROWS * width;
        uint8_t *in = calloc(1, bytes), *out = malloc(HM_ENCODE_CAP);
        uLongf n = HM_ENCODE_CAP;
        if (in && out && compress2(out, &n, in, bytes, 1) == Z_OK &&
            n <= sizeof(zeros[width].packed)) {
            memcpy(zeros[width].packed, out, n);
            zeros[width].n = n;
        }
        free(in);
        free(out);
    }
}

static void merge_sort(struct hm_event *ev, uint32_t n, struct hm_event *tmp)
{
    if (n < 2)
        return;
    uint32_t m = n / 2;
    merge_sort(ev, m, tmp);
    merge_sort(ev + m, n - m, tmp);
    if (ev[m - 1].t_ns <= ev[m].t_ns)
        return;
    memcpy(tmp, ev, m * sizeof(*ev));
    uint32_t i = 0, j = m, k = 0;
    while (i < m && j < n)
        ev[k++] = ev[j].t_ns < tmp[i].t_ns ? ev[j++] : tmp[i++];
    while (i < m)
        ev[k++] = tmp[i++];
}

void hm_events_sort(struct hm_event *ev, uint32_t n, struct hm_event *tmp)
{
    merge_sort(ev, n, tmp);
}

static uint64_t load(const struct hm_column *col, const struct hm_event *ev)
{
    const uint8_t *p = (const uint8_t *)ev + col->offset;
    uint64_t v = 0;
    memcpy(&v, p, hm_col_bytes(col->type)); /* little endian */
    return v;
}

size_t hm_encode(const struct hm_column *col, const struct hm_event *ev, uint32_t n, uint8_t *out)
{
    uint32_t width = hm_col_bytes(col->type);
    size_t bytes = (size_t)HM_CHUNK_ROWS * width;
    uint8_t *shuffled = calloc(1, bytes);
    if (!shuffled)
        return 0;
    uint64_t last = 0, any = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t v = load(col, &ev[i]), stored = col->delta ? v - last : v;
        last = v;
        any |= stored;
        for (uint32_t b = 0; b < width; b++)
            shuffled[(size_t)b * HM_CHUNK_ROWS + i] = (uint8_t)(stored >> 8 * b);
    }
    pthread_once(&zeros_once, pack_zeros);
    if (!any && zeros[width].n) {
        memcpy(out, zeros[width].packed, zeros[width].n);
        free(shuffled);
        return zeros[width].n;
    }
    uLongf out_bytes = HM_ENCODE_CAP;
    int rc = compress2(out, &out_bytes, shuffled, (uLong)bytes, 1);
    free(shuffled);
    return rc == Z_OK ? out_bytes : 0;
}

hm_status_t hm_decode(const struct hm_column *col, const uint8_t *in, size_t in_bytes,
                      struct hm_event *ev, uint32_t n)
{
    uint32_t width = hm_col_bytes(col->type);
    uLongf bytes = (uLongf)HM_CHUNK_ROWS * width;
    pthread_once(&zeros_once, pack_zeros);
    if (zeros[width].n && in_bytes == zeros[width].n &&
        !memcmp(in, zeros[width].packed, in_bytes)) {
        for (uint32_t i = 0; i < n; i++)
            memset((uint8_t *)&ev[i] + col->offset, 0, width);
        return HM_OK;
    }
    uint8_t *shuffled = malloc(bytes);
    if (!shuffled)
        return HM_E_NOMEM;
    uLongf got = bytes;
    if (uncompress(shuffled, &got, in, (uLong)in_bytes) != Z_OK || got != bytes) {
        free(shuffled);
        return HM_E_DATA;
    }
    uint64_t last = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t v = 0;
        for (uint32_t b = 0; b < width; b++)
            v |= (uint64_t)shuffled[(size_t)b * HM_CHUNK_ROWS + i] << 8 * b;
        if (col->delta)
            last = v += last;
        memcpy((uint8_t *)&ev[i] + col->offset, &v, width);
    }
    free(shuffled);
    return HM_OK;
}
