/* Test library: gives each rank clocks of its own, and a machine of its own.
 *
 * Loaded before the recorder: LD_PRELOAD="libhm-clockshim.so libhindmost.so". It interposes
 * clock_gettime() and the reading of the boot id, so that ranks on one host look like ranks on
 * hosts whose clocks disagree by a known truth. The recorder reads clocks through the PLT for this
 * reason. Nothing else in the process is told: limits and pacing use raw system calls.
 *
 *   HM_TEST_CLOCK  entries RANK:CLOCK=OFFSET_NS/PPB separated by ';'. CLOCK is raw, mono, boot or
 *                  real; PPB is parts per billion. A reading t (ns) of the true clock becomes
 *                      t + OFFSET_NS + floor(t * PPB / 1e9)
 *                  so the truth of any shifted time is known without a log. Example, rank 1 is 5 ms
 *                  ahead and gains 20 ppm:  HM_TEST_CLOCK="1:raw=5000000/20000"
 *   HM_TEST_BOOT   1 = each rank reads a boot id of its own: it is a clock domain of its own, and
 *                  the clock windows run.
 *   HM_TEST_WRITER_PRELOAD  path of this library: the recorder hands it (and HM_TEST_*, and
 *                  HM_TEST_RANK) to its writer, so that both read the same clocks.
 * The rank is HM_TEST_RANK, else what Open MPI or PMI put into the environment, else 0.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
__extension__ typedef __int128 wide;
enum { N_CLOCKS = 8 }; /* CLOCK_REALTIME 0, MONOTONIC 1, MONOTONIC_RAW 4, BOOTTIME 7 */

static struct {
    int64_t offset_ns, ppb;
} shift[N_CLOCKS];
static int own_boot, rank;
static int ready;

static int clock_of(const char *name, size_t len)
{
    static const struct {
        const char *name;
        int id;
    } known[] = {{"raw", CLOCK_MONOTONIC_RAW},
                 {"mono", CLOCK_MONOTONIC},
                 {"boot", CLOCK_BOOTTIME},
                 {"real", CLOCK_REALTIME}};
    for (size_t i = 0; i < 4; i++)
        if (strlen(known[i].name) == len && !strncmp(known[i].name, name, len))
            return known[i].id;
    return -1;
}

static void read_settings(void)
{
    static const char *const rank_names[] = {"HM_TEST_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK"};
    ready = 1;
    for (size_t i = 0; i < 3; i++) {
        const char *v = getenv(rank_names[i]);
        if (v) {
            rank = atoi(v);
            break;
        }
    }
    const char *boot = getenv("HM_TEST_BOOT");
    own_boot = boot && *boot == '1';
    const char *p = getenv("HM_TEST_CLOCK");
    while (p && *p) {
        char *end;
        long who = strtol(p, &end, 10);
        const char *eq = *end == ':' ? strchr(end, '=') : NULL;
        int id = eq ? clock_of(end + 1, (size_t)(eq - end - 1)) : -1;
        if (id < 0) {
            fprintf(stderr, "clockshim: HM_TEST_CLOCK: cannot read \"%s\"\n", p);
            abort();
        }
        int64_t offset = strtoll(eq + 1, &end, 10);
        int64_t ppb = *end == '/' ? strtoll(end + 1, &end, 10) : 0;
        if (who == rank) {
            shift[id].offset_ns = offset;
            shift[id].ppb = ppb;
        }
        p = *end == ';' ? end + 1 : NULL;
    }
}

__attribute__((constructor)) static void arrive(void)
{
    if (!ready)
        read_settings();
}

EXPORT int clock_gettime(clockid_t id, struct timespec *ts)
{
    if (!ready)
        read_settings();
    long rc = syscall(SYS_clock_gettime, id, ts);
    if (rc || id < 0 || id >= N_CLOCKS || (!shift[id].offset_ns && !shift[id].ppb))
        return (int)rc;
    int64_t t = (int64_t)ts->tv_sec * 1000000000 + ts->tv_nsec;
    wide drift = (wide)t * shift[id].ppb;
    int64_t d = (int64_t)(drift / 1000000000);
    if (drift < 0 && drift % 1000000000)
        d--;
    t += shift[id].offset_ns + d;
    ts->tv_sec = t / 1000000000;
    ts->tv_nsec = t % 1000000000;
    if (ts->tv_nsec < 0) {
        ts->tv_nsec += 1000000000;
        ts->tv_sec--;
    }
    return 0;
}

static int open_boot_id(void)
{
    char text[64];
    int fd = (int)syscall(SYS_memfd_create, "boot_id", 0);
    int n = snprintf(text, sizeof(text), "00000000-0000-4000-8000-%012x\n", (unsigned)rank + 1);
    if (fd < 0 || write(fd, text, (size_t)n) != n || lseek(fd, 0, SEEK_SET))
        return -1;
    return fd;
}

static int open_any(int dir, const char *path, int flags, mode_t mode)
{
    if (!ready)
        read_settings();
    if (own_boot && path && !strcmp(path, "/proc/sys/kernel/random/boot_id"))
        return open_boot_id();
    return (int)syscall(SYS_openat, dir, path, flags, mode);
}

#define MODE(flags, mode)                  \
    mode_t mode = 0;                       \
    if ((flags) & (O_CREAT | O_TMPFILE)) { \
        va_list ap;                        \
        va_start(ap, flags);               \
        mode = va_arg(ap, mode_t);         \
        va_end(ap);                        \
    }

EXPORT int open(const char *path, int flags, ...)
{
    MODE(flags, mode)
    return open_any(AT_FDCWD, path, flags, mode);
}

EXPORT int open64(const char *path, int flags, ...)
{
    MODE(flags, mode)
    return open_any(AT_FDCWD, path, flags, mode);
}

EXPORT int openat(int dir, const char *path, int flags, ...)
{
    MODE(flags, mode)
    return open_any(dir, path, flags, mode);
}
