/* Reading clocks. Box: lib/core. Any thread. Source: facts on clocks, sections 0 and 3. */
#include "core/clock.h"

#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BRACKETS 10

static int64_t read_clock(clockid_t clock)
{
    struct timespec ts = {0, 0};
    clock_gettime(clock, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

int64_t hm_now(void)
{
    return read_clock(CLOCK_MONOTONIC_RAW);
}

void hm_clock_snapshot(struct hm_event *ev_p)
{
    struct hm_event ev, best;
    memset(&ev, 0, sizeof(ev));
    best = ev;
    int64_t narrowest = INT64_MAX;
    for (int i = 0; i < BRACKETS; i++) {
        int64_t before = hm_now();
        ev.u.snapshot.mono_ns = read_clock(CLOCK_MONOTONIC);
        ev.u.snapshot.real_ns = read_clock(CLOCK_REALTIME);
        ev.u.snapshot.boot_ns = read_clock(CLOCK_BOOTTIME);
        int64_t width = hm_now() - before;
        if (width >= narrowest)
            continue;
        narrowest = width;
        best = ev;
        best.t_ns = before + width / 2;
    }
    best.kind = HM_EV_CLOCK_SNAPSHOT;
    best.flags = HM_CLOCK_RAW;
    best.track = HM_NO_ID;
    best.u.snapshot.width_ns = narrowest > UINT32_MAX ? UINT32_MAX : (uint32_t)narrowest;
    best.u.snapshot.have = HM_HAVE_MONO | HM_HAVE_REAL | HM_HAVE_BOOT;
    *ev_p = best;
}

void hm_clock_domain(char boot_p[40], char timens_p[24])
{
    memset(boot_p, 0, 40);
    memset(timens_p, 0, 24);
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        ssize_t n = read(fd, boot_p, 39);
        if (n < 0)
            boot_p[0] = 0;
        close(fd);
        boot_p[strcspn(boot_p, "\n")] = 0;
    }
    char link[64];
    ssize_t n = readlink("/proc/self/ns/time", link, sizeof(link) - 1);
    if (n > 0) { /* time:[4026531834] */
        link[n] = 0;
        const char *from = strchr(link, '[');
        size_t len = from ? strcspn(from + 1, "]") : 0;
        if (len && len < 24)
            memcpy(timens_p, from + 1, len);
    }
}
