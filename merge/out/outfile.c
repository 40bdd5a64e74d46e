/* An output file that appears whole or not at all, plain or as gzip members.
 *
 * Box: merge/out. One buffer of 1 MiB; a member is deflated as the buffer fills.
 */
#include "out/outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum { BUFFER = 1 << 20 };
struct hm_outfile {
    int fd, gz, direct, error; /* error: errno of the first failure */
    char *path, *temp;         /* temp NULL: no name, or written directly */
    size_t n;
    z_stream z;
    int in_member;
    unsigned char buffer[BUFFER], packed[BUFFER / 4];
};

static void put(struct hm_outfile *f, const void *bytes, size_t n)
{
    const char *p = bytes;
    while (n && !f->error) {
        ssize_t k = write(f->fd, p, n);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0) {
            f->error = k < 0 ? errno : EIO;
            return;
        }
        p += k;
        n -= (size_t)k;
    }
}

static void deflate_some(struct hm_outfile *f, int flush)
{
    if (!f->in_member) {
        if (!f->n && flush == Z_FINISH)
            return; /* an empty member says nothing */
        memset(&f->z, 0, sizeof(f->z));
        if (deflateInit2(&f->z, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
            f->error = ENOMEM;
            return;
        }
        f->in_member = 1;
    }
    f->z.next_in = f->buffer;
    f->z.avail_in = (uInt)f->n;
    do {
        f->z.next_out = f->packed;
        f->z.avail_out = sizeof(f->packed);
        deflate(&f->z, flush);
        put(f, f->packed, sizeof(f->packed) - f->z.avail_out);
    } while (f->z.avail_out == 0 && !f->error);
    f->n = 0;
    if (flush == Z_FINISH) {
        deflateEnd(&f->z);
        f->in_member = 0;
    }
}

static void drain(struct hm_outfile *f, int end_member)
{
    if (f->gz) {
        deflate_some(f, end_member ? Z_FINISH : Z_NO_FLUSH);
        return;
    }
    put(f, f->buffer, f->n);
    f->n = 0;
}

void hm_outfile_write(struct hm_outfile *f, const void *bytes, size_t n)
{
    const char *p = bytes;
    while (n && !f->error) {
        size_t k = BUFFER - f->n < n ? BUFFER - f->n : n;
        memcpy(f->buffer + f->n, p, k);
        f->n += k;
        p += k;
        n -= k;
        if (f->n == BUFFER)
            drain(f, 0);
    }
}

static hm_status_t failed(struct hm_outfile *f)
{
    if (!f->error)
        return HM_OK;
    return hm_fail(HM_E_IO, f->path ? f->path : "output", "cannot write: %s; nothing was changed",
                   strerror(f->error));
}

static hm_status_t open_temp(struct hm_outfile *f)
{
    size_t n = strlen(f->path) + 16;
    f->temp = malloc(n);
    if (!f->temp)
        return hm_fail(HM_E_NOMEM, f->path, "out of memory");
    snprintf(f->temp, n, "%s.tmp-XXXXXX", f->path);
    f->fd = mkostemp(f->temp, O_CLOEXEC);
    if (f->fd < 0) {
        hm_status_t st = hm_fail(HM_E_IO, f->path, "cannot create: %s; name a folder you may write",
                                 strerror(errno));
        free(f->temp);
        f->temp = NULL;
        return st;
    }
    mode_t mask = umask(0); /* mkostemp gives 0600; a new file of the user's has 0666 less this */
    umask(mask);
    if (fchmod(f->fd, 0666 & ~mask))
        f->error = errno;
    return HM_OK;
}

hm_status_t hm_outfile_create(const char *path, int gz, struct hm_outfile **f_p)
{
    struct stat sb;
    struct hm_outfile *f = calloc(1, sizeof(*f));
    hm_status_t st = HM_OK;
    if (!f || !(f->path = strdup(path))) {
        free(f);
        return hm_fail(HM_E_NOMEM, path, "out of memory");
    }
    f->gz = gz;
    f->fd = -1;
    f->direct = !stat(path, &sb) && !S_ISREG(sb.st_mode);
    if (f->direct) {
        f->fd = open(path, O_WRONLY | O_CLOEXEC);
        if (f->fd < 0)
            st = hm_fail(HM_E_IO, path, "cannot open for writing: %s", strerror(errno));
    } else {
        st = open_temp(f);
    }
    if (st) {
        free(f->path);
        free(f);
        return st;
    }
    *f_p = f;
    return HM_OK;
}

hm_status_t hm_outfile_side(const struct hm_outfile *main, struct hm_outfile **f_p)
{
    const char *dir = getenv("TMPDIR");
    char path[4096];
    struct hm_outfile *f = calloc(1, sizeof(*f));
    if (!f)
        return hm_fail(HM_E_NOMEM, main->path, "out of memory");
    f->gz = main->gz;
    /* beside the output, where there is room for it; else in the temporary folder */
    snprintf(path, sizeof(path), "%s.side-XXXXXX", main->path);
    f->fd = main->direct ? -1 : mkostemp(path, O_CLOEXEC);
    if (f->fd < 0) {
        snprintf(path, sizeof(path), "%s/hindmost-XXXXXX", dir && *dir ? dir : "/tmp");
        f->fd = mkostemp(path, O_CLOEXEC);
    }
    if (f->fd < 0) {
        free(f);
        return hm_fail(HM_E_IO, path, "cannot create: %s", strerror(errno));
    }
    unlink(path);
    *f_p = f;
    return HM_OK;
}

hm_status_t hm_outfile_member(struct hm_outfile *f)
{
    if (f->gz)
        drain(f, 1);
    return failed(f);
}

hm_status_t hm_outfile_append(struct hm_outfile *f, struct hm_outfile *side)
{
    drain(f, 1);
    drain(side, 1);
    if (!f->error)
        f->error = side->error;
    if (lseek(side->fd, 0, SEEK_SET) < 0 && !f->error)
        f->error = errno;
    while (!f->error) {
        ssize_t k = read(side->fd, side->buffer, BUFFER);
        if (k < 0 && errno != EINTR)
            f->error = errno;
        if (k == 0)
            break;
        if (k > 0)
            put(f, side->buffer, (size_t)k);
    }
    return failed(f);
}

hm_status_t hm_outfile_commit(struct hm_outfile *f)
{
    drain(f, 1);
    if (f->fd >= 0 && close(f->fd) && !f->error)
        f->error = errno;
    f->fd = -1;
    if (f->temp && !f->error && rename(f->temp, f->path))
        f->error = errno;
    if (f->temp && !f->error) {
        free(f->temp);
        f->temp = NULL;
    }
    hm_status_t st = failed(f);
    hm_outfile_discard(f);
    return st;
}

void hm_outfile_discard(struct hm_outfile *f)
{
    if (!f)
        return;
    if (f->in_member)
        deflateEnd(&f->z);
    if (f->fd >= 0)
        close(f->fd);
    if (f->temp)
        unlink(f->temp);
    free(f->temp);
    free(f->path);
    free(f);
}
