/* Spools.
 *
 * Box: merge/engine. The file has no name (O_TMPFILE, else unlinked at once); TMPDIR, else /tmp.
 */
#include "engine/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BUFFER_BYTES = 1 << 18 };

struct hm_spool {
    int fd;
    uint32_t row_bytes, n_buffered;
    uint64_t n_stored;
    uint8_t *buffer;
};

hm_status_t hm_spool_create(uint32_t row_bytes, struct hm_spool **spool_p)
{
    struct hm_spool *s = calloc(1, sizeof(*s));
    const char *dir = getenv("TMPDIR");
    if (!dir || !*dir)
        dir = "/tmp";
    if (!s || !(s->buffer = malloc(BUFFER_BYTES))) {
        free(s);
        return HM_E_NOMEM;
    }
    s->row_bytes = row_bytes;
    s->fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (s->fd < 0) {
        char path[1100];
        snprintf(path, sizeof(path), "%s/hindmost-XXXXXX", dir);
        s->fd = mkostemp(path, O_CLOEXEC);
        if (s->fd >= 0)
            unlink(path);
    }
    if (s->fd < 0) {
        hm_fail(HM_E_MISSING, dir, "no temporary file: %s; set TMPDIR to a folder with room",
                strerror(errno));
        hm_spool_destroy(s);
        return HM_E_MISSING;
    }
    *spool_p = s;
    return HM_OK;
}

static hm_status_t transfer(struct hm_spool *s, uint8_t *p, size_t n, uint64_t at, int out)
{
    while (n) {
        ssize_t k = out ? pwrite(s->fd, p, n, (off_t)at) : pread(s->fd, p, n, (off_t)at);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return hm_fail(HM_E_MISSING, "temporary file", "%s; set TMPDIR to a folder with room",
                           k < 0 ? strerror(errno) : "cut off");
        p += k;
        at += (uint64_t)k;
        n -= (size_t)k;
    }
    return HM_OK;
}

static hm_status_t drain(struct hm_spool *s)
{
    hm_status_t st =
        transfer(s, s->buffer, (size_t)s->n_buffered * s->row_bytes, s->n_stored * s->row_bytes, 1);
    if (st == HM_OK) {
        s->n_stored += s->n_buffered;
        s->n_buffered = 0;
    }
    return st;
}

hm_status_t hm_spool_append(struct hm_spool *s, const void *rows, size_t n)
{
    const uint8_t *p = rows;
    uint32_t cap = BUFFER_BYTES / s->row_bytes;
    while (n) {
        if (s->n_buffered == cap) {
            hm_status_t st = drain(s);
            if (st)
                return st;
        }
        size_t k = cap - s->n_buffered < n ? cap - s->n_buffered : n;
        memcpy(s->buffer + (size_t)s->n_buffered * s->row_bytes, p, k * s->row_bytes);
        s->n_buffered += (uint32_t)k;
        p += k * s->row_bytes;
        n -= k;
    }
    return HM_OK;
}

uint64_t hm_spool_count(const struct hm_spool *s)
{
    return s->n_stored + s->n_buffered;
}

hm_status_t hm_spool_read(struct hm_spool *s, uint64_t first, void *rows_p, size_t n)
{
    if (first + n > hm_spool_count(s))
        return HM_E_BUG;
    hm_status_t st = s->n_buffered && first + n > s->n_stored ? drain(s) : HM_OK;
    return st ? st : transfer(s, rows_p, n * s->row_bytes, first * s->row_bytes, 0);
}

hm_status_t hm_spool_write(struct hm_spool *s, uint64_t first, const void *rows, size_t n)
{
    if (first + n > hm_spool_count(s))
        return HM_E_BUG;
    hm_status_t st = s->n_buffered && first + n > s->n_stored ? drain(s) : HM_OK;
    return st ? st
              : transfer(s, (uint8_t *)(uintptr_t)rows, n * s->row_bytes, first * s->row_bytes, 1);
}

void hm_spool_destroy(struct hm_spool *s)
{
    if (!s)
        return;
    if (s->fd >= 0)
        close(s->fd);
    free(s->buffer);
    free(s);
}
