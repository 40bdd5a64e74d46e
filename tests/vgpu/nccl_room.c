/* Where the ranks of a communicator meet: a segment of shared memory named by the unique id.
 *
 * Box: tests/vgpu. Any thread. All waits are futex waits with a limit, after which the waiting
 * rank looks whether the peers it needs are alive; a dead or departed one breaks the room, so that
 * nobody waits for ever. A peer that is alive and late is waited for without end, as NCCL does.
 */
#include "nccl_inside.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long futex(_Atomic uint32_t *word, int op, uint32_t value, const struct timespec *limit)
{
    return syscall(SYS_futex, (uint32_t *)(void *)word, op, value, limit, NULL, 0);
}

void nccl_log(int level, const char *fmt, ...)
{
    const char *s = getenv("NCCL_DEBUG");
    int shown = !s ? 0 : !strcasecmp(s, "WARN") ? 2 : !strcasecmp(s, "VERSION") ? 1 : 3;
    if (level > shown)
        return;
    char line[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    fprintf(stderr, "vgpu nccl %d %s %s\n", (int)getpid(), level <= 2 ? "WARN" : "INFO", line);
}

ncclResult_t nccl_fail(ncclComm_t c, ncclResult_t code, const char *fmt, ...)
{
    char text[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    nccl_log(2, "%s", text);
    if (c) {
        pthread_mutex_lock(&c->lock);
        memcpy(c->last_error, text, sizeof text);
        pthread_mutex_unlock(&c->lock);
    }
    return code;
}

/* State letter and start time of a process; 0 = no such process. */
static char process_state(int pid, uint64_t *born_p)
{
    char path[32], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0)
        return 0;
    text[n] = 0;
    char *s = strrchr(text, ')'); /* the name may hold anything */
    if (!s || s[1] != ' ')
        return 0;
    char state = s[2];
    s += 2;
    for (int i = 3; i < 22 && s; i++)
        s = strchr(s + 1, ' ');
    *born_p = s ? strtoull(s, NULL, 10) : 0;
    return state;
}

static int seat_dead(const struct nccl_seat *s)
{
    uint64_t born = 0;
    char state = process_state(s->pid, &born);
    return !state || state == 'Z' || state == 'X' || born != s->born;
}

static void break_room(ncclComm_t c)
{
    atomic_store(&c->room->broken, 1);
    futex(&c->room->stream.turn, FUTEX_WAKE, INT32_MAX, NULL);
    futex(&c->room->host.turn, FUTEX_WAKE, INT32_MAX, NULL);
    for (int r = 0; r < c->n_ranks; r++)
        nccl_room_ring(c, r);
}

/* Looks at the peers that have to act; the word is read again after them: one may have acted and
 * then left in good order. */
static ncclResult_t look_around(ncclComm_t c, _Atomic uint32_t *word, uint32_t seen,
                                const uint8_t *need)
{
    for (int r = 0; r < c->n_ranks; r++) {
        if (r == c->rank || (need && !need[r]))
            continue;
        struct nccl_seat *s = &c->room->seat[r];
        uint32_t state = atomic_load(&s->state);
        int gone = state == SEAT_LEFT || (state == SEAT_TAKEN && seat_dead(s));
        if (!gone || atomic_load(word) != seen)
            continue;
        break_room(c);
        return nccl_fail(c, ncclRemoteError, "rank %d of communicator %016llx is gone (pid %d)", r,
                         (unsigned long long)c->hash, s->pid);
    }
    return ncclSuccess;
}

ncclResult_t nccl_room_wait(ncclComm_t c, _Atomic uint32_t *word, uint32_t seen,
                            const uint8_t *need)
{
    static const struct timespec limit = {.tv_nsec = NCCL_CHECK_MS * 1000000L};
    while (atomic_load(word) == seen) {
        if (atomic_load(&c->abort))
            return nccl_fail(c, ncclInternalError, "communicator aborted");
        if (atomic_load(&c->room->broken))
            return nccl_fail(c, ncclRemoteError, "a peer of communicator %016llx is gone",
                             (unsigned long long)c->hash);
        if (futex(word, FUTEX_WAIT, seen, &limit) != 0 && errno == ETIMEDOUT) {
            ncclResult_t rc = look_around(c, word, seen, need);
            if (rc)
                return rc;
        }
    }
    return ncclSuccess;
}

void nccl_room_ring(ncclComm_t c, int rank)
{
    atomic_fetch_add(&c->room->seat[rank].bell, 1);
    futex(&c->room->seat[rank].bell, FUTEX_WAKE, INT32_MAX, NULL);
}

ncclResult_t nccl_room_meet(ncclComm_t c, struct nccl_barrier *b)
{
    if (atomic_load(&c->room->broken))
        return nccl_fail(c, ncclRemoteError, "a peer is gone");
    uint32_t turn = atomic_load(&b->turn);
    if (atomic_fetch_add(&b->arrived, 1) + 1 == (uint32_t)c->n_ranks) {
        atomic_store(&b->arrived, 0);
        atomic_fetch_add(&b->turn, 1);
        futex(&b->turn, FUTEX_WAKE, INT32_MAX, NULL);
        return ncclSuccess;
    }
    return nccl_room_wait(c, &b->turn, turn, NULL);
}

static void lay_out(ncclComm_t c)
{
    size_t n = (size_t)c->n_ranks, slot = ((size_t)16 << 20) / n;
    c->slot_bytes = slot > (512u << 10) ? 512u << 10 : slot < (64u << 10) ? 64u << 10 : slot;
    c->slot_bytes &= ~(size_t)4095;
    c->chunk_bytes = n > 16 ? 16u << 10 : 64u << 10;
    c->slots_off = (sizeof(struct nccl_room) + n * sizeof(struct nccl_seat) + 4095) & ~(size_t)4095;
    c->boxes_off = c->slots_off + 2 * n * c->slot_bytes;
    c->room_bytes = c->boxes_off + n * n * (sizeof(struct nccl_box) + 2 * c->chunk_bytes);
}

static ncclResult_t open_room(ncclComm_t c, const char *name)
{
    lay_out(c);
    int fd = shm_open(name, O_RDWR | O_CREAT, 0600);
    if (fd < 0)
        return nccl_fail(NULL, ncclSystemError, "/dev/shm%s: %s", name, strerror(errno));
    /* The boxes stay sparse; what every rank touches is reserved now: a full file system is an
     * error here and a SIGBUS later. */
    int rc = ftruncate(fd, (off_t)c->room_bytes) ? errno : 0;
    if (!rc)
        rc = posix_fallocate(fd, 0, (off_t)c->boxes_off);
    if (!rc) {
        c->room = mmap(NULL, c->room_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (c->room == MAP_FAILED) {
            c->room = NULL;
            rc = errno;
        }
    }
    close(fd);
    return rc ? nccl_fail(NULL, ncclSystemError, "/dev/shm%s: %s", name, strerror(rc))
              : ncclSuccess;
}

static int64_t init_limit_ns(void)
{
    const char *s = getenv("VGPU_NCCL_INIT_TIMEOUT");
    double seconds = s ? atof(s) : 120;
    return (int64_t)(seconds * 1e9);
}

static ncclResult_t wait_for_all(ncclComm_t c)
{
    static const struct timespec limit = {.tv_nsec = NCCL_CHECK_MS * 1000000L};
    int64_t end = vgpu_now() + init_limit_ns();
    for (;;) {
        uint32_t joined = atomic_load(&c->room->joined);
        if (joined >= (uint32_t)c->n_ranks)
            return ncclSuccess;
        if (vgpu_now() > end)
            return nccl_fail(NULL, ncclSystemError, "%u of %d ranks joined %s in time", joined,
                             c->n_ranks, c->room_name);
        if (atomic_load(&c->room->broken))
            return nccl_fail(NULL, ncclRemoteError, "a peer is gone");
        if (futex(&c->room->joined, FUTEX_WAIT, joined, &limit) != 0 && errno == ETIMEDOUT) {
            ncclResult_t rc = look_around(c, &c->room->joined, joined, NULL);
            if (rc)
                return rc;
        }
    }
}

ncclResult_t nccl_room_enter(ncclComm_t c, const char *name)
{
    ncclResult_t rc = open_room(c, name);
    if (rc)
        return rc;
    snprintf(c->room_name, sizeof c->room_name, "%s", name);
    uint32_t none = 0;
    if (!atomic_compare_exchange_strong(&c->room->n_ranks, &none, (uint32_t)c->n_ranks) &&
        none != (uint32_t)c->n_ranks)
        return nccl_fail(NULL, ncclInvalidArgument, "nranks %d here, %u elsewhere", c->n_ranks,
                         none);
    struct nccl_seat *s = &c->room->seat[c->rank];
    s->pid = (int32_t)getpid();
    process_state(s->pid, &s->born);
    uint32_t empty = SEAT_EMPTY;
    if (!atomic_compare_exchange_strong(&s->state, &empty, SEAT_TAKEN))
        return nccl_fail(NULL, ncclInvalidUsage, "rank %d joined twice", c->rank);
    atomic_fetch_add(&c->room->joined, 1);
    futex(&c->room->joined, FUTEX_WAKE, INT32_MAX, NULL);
    rc = wait_for_all(c);
    if (rc || c->rank == 0)
        shm_unlink(name); /* all have it mapped, or nobody will need it */
    return rc;
}

void nccl_room_leave(ncclComm_t c)
{
    if (!c->room)
        return;
    atomic_store(&c->room->seat[c->rank].state, SEAT_LEFT);
    munmap(c->room, c->room_bytes);
    c->room = NULL;
}
