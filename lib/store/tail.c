/* Records of the tail.
 *
 * Box: lib/store. One thread per file.
 */
#include "store/tail.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

static uint32_t record_crc(struct hm_tail_head head, const void *payload, size_t bytes)
{
    head.crc = 0;
    uLong c = crc32(0, (const Bytef *)&head, sizeof(head));
    return (uint32_t)crc32(c, payload, (uInt)bytes);
}

hm_status_t hm_tail_put(struct hm_tail_buf *buf, uint8_t kind, uint32_t n, uint64_t first_row,
                        const void *payload, size_t bytes)
{
    struct hm_tail_head head = {.magic = HM_TAIL_MAGIC,
                                .kind = kind,
                                .n = n,
                                .bytes = (uint32_t)bytes,
                                .first_row = first_row};
    size_t need = buf->n + sizeof(head) + bytes;
    if (need > buf->cap) {
        size_t cap = buf->cap ? buf->cap : 65536;
        while (cap < need)
            cap *= 2;
        uint8_t *p = realloc(buf->p, cap);
        if (!p)
            return HM_E_NOMEM;
        buf->p = p;
        buf->cap = cap;
    }
    head.crc = record_crc(head, payload, bytes);
    memcpy(buf->p + buf->n, &head, sizeof(head));
    if (bytes)
        memcpy(buf->p + buf->n + sizeof(head), payload, bytes);
    buf->n = need;
    return HM_OK;
}

hm_status_t hm_tail_read(const char *path, hm_tail_func_t func, void *ctx, int *torn_p)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;
    if (fd < 0)
        return HM_E_IO;
    if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size < 0) {
        close(fd);
        return HM_E_IO;
    }
    size_t size = (size_t)st.st_size, at = 0;
    *torn_p = 0;
    if (!size) {
        close(fd);
        return HM_OK;
    }
    /* read, not mapped: the file may shrink under us */
    uint8_t *p = malloc(size);
    size_t got = 0;
    while (p && got < size) {
        ssize_t r = read(fd, p + got, size - got);
        if (r <= 0)
            break;
        got += (size_t)r;
    }
    close(fd);
    if (!p)
        return HM_E_NOMEM;
    hm_status_t s = HM_OK;
    while (s == HM_OK && at < got) {
        struct hm_tail_head head;
        if (got - at < sizeof(head)) {
            *torn_p = 1;
            break;
        }
        memcpy(&head, p + at, sizeof(head));
        if (head.magic != HM_TAIL_MAGIC || head.bytes > got - at - sizeof(head) ||
            head.crc != record_crc(head, p + at + sizeof(head), head.bytes)) {
            *torn_p = 1;
            break;
        }
        s = func(ctx, &head, p + at + sizeof(head));
        at += sizeof(head) + head.bytes;
    }
    free(p);
    return s;
}
