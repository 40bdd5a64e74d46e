/* Health: when to sample what, and telling only what changed. Box: lib/writer; the main thread.
 *
 * Source: proc(5) for schedstat, stat and status; cgroups(7); the kernel's documentation of
 * /sys/class/infiniband.
 */
#include "writer/health.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MS INT64_C(1000000)
enum { MAX_SEEN = 512, MAX_THREADS = 4 };

struct seen {
    const char *name;
    uint32_t tid;
    int64_t value;
};
struct hm_health {
    char root[512], bus[32];
    int32_t pid;
    struct hm_cgroup cgroup;
    struct hm_ib *ib;
    struct hm_nvml *nvml;
    int64_t thread_at_ns, rest_at_ns;
    hm_sample_func_t fn;
    void *ctx;
    struct seen seen[MAX_SEEN];
};

size_t hm_health_read(const char *root, char *buf, size_t cap, const char *fmt, ...)
{
    char path[2048];
    int at = snprintf(path, sizeof(path), "%s", root);
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(path + at, sizeof(path) - (size_t)at, fmt, args);
    va_end(args);
    buf[0] = 0;
    if (n < 0 || (size_t)(at + n) >= sizeof(path))
        return 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return 0;
    ssize_t got = read(fd, buf, cap - 1);
    close(fd);
    buf[got > 0 ? got : 0] = 0;
    return got > 0 ? (size_t)got : 0;
}

struct hm_health *hm_health_create(const char *root, int32_t pid, int per_node)
{
    struct hm_health *h = calloc(1, sizeof(*h));
    if (!h)
        return NULL;
    snprintf(h->root, sizeof(h->root), "%s", root);
    h->pid = pid;
    hm_cgroup_find(h->root, pid, &h->cgroup);
    if (per_node)
        h->ib = hm_ib_open(h->root);
    return h;
}

void hm_health_gpu(struct hm_health *h, const uint8_t uuid[16], const char *library)
{
    if (!h->nvml)
        h->nvml = hm_nvml_start(library, uuid, h->pid);
}

/* Passes on what is new. Names are constants or live as long as their source. */
static void changed(void *ctx, const struct hm_sample *s)
{
    struct hm_health *h = ctx;
    uintptr_t key = (uintptr_t)s->name * 31 + s->tid * 2654435761u;
    for (unsigned i = 0; i < MAX_SEEN; i++) {
        struct seen *e = &h->seen[(key / 8 + i) % MAX_SEEN];
        if (e->name == s->name && e->tid == s->tid) {
            if (e->value == s->value)
                return;
            e->value = s->value;
            break;
        }
        if (!e->name) {
            *e = (struct seen){s->name, s->tid, s->value};
            break;
        }
    } /* full: told each time */
    h->fn(h->ctx, s);
}

static void tell(struct hm_health *h, const char *name, const char *unit, uint32_t tid,
                 int64_t value)
{
    changed(h, &(struct hm_sample){name, unit, tid, value});
}

/* schedstat: ns on a CPU, ns runnable but waiting for one, turns. */
static void sample_thread(struct hm_health *h, uint32_t tid)
{
    char text[128];
    unsigned long long run, wait;
    if (hm_health_read(h->root, text, sizeof(text), "/proc/%d/task/%u/schedstat", (int)h->pid,
                       tid) &&
        sscanf(text, "%llu %llu", &run, &wait) == 2) {
        tell(h, "cpu.run", "ns", tid, (int64_t)run);
        tell(h, "cpu.wait", "ns", tid, (int64_t)wait);
    }
}

static void sample_process(struct hm_health *h)
{
    char text[4096], local[1024];
    long long faults;
    /* the name in parentheses may hold anything: what counts begins behind the last ')' */
    if (hm_health_read(h->root, text, sizeof(text), "/proc/%d/stat", (int)h->pid)) {
        const char *p = strrchr(text, ')');
        if (p && sscanf(p + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %lld", &faults) == 1)
            tell(h, "mem.major_faults", "count", 0, faults);
    }
    if (hm_health_read(h->root, text, sizeof(text), "/proc/%d/status", (int)h->pid)) {
        const char *p = strstr(text, "\nCpus_allowed_list:");
        if (!p)
            return;
        p += strlen("\nCpus_allowed_list:");
        int64_t n, near;
        int known = h->bus[0] && hm_health_read(h->root, local, sizeof(local),
                                                "/sys/bus/pci/devices/%s/local_cpulist", h->bus);
        hm_health_cpus(p, known ? local : "", &n, &near);
        tell(h, "cpu.allowed", "count", 0, n);
        if (known)
            tell(h, "cpu.near_gpu", "count", 0, near);
    }
}

void hm_health_tick(struct hm_health *h, int64_t now_ns, const uint32_t *tid, size_t n,
                    hm_sample_func_t fn, void *ctx)
{
    h->fn = fn;
    h->ctx = ctx;
    if (now_ns >= h->thread_at_ns) {
        h->thread_at_ns = now_ns + 100 * MS;
        for (size_t i = 0; i < n && i < MAX_THREADS; i++)
            sample_thread(h, tid[i]);
    }
    if (now_ns >= h->rest_at_ns) {
        h->rest_at_ns = now_ns + 1000 * MS;
        sample_process(h);
        hm_cgroup_sample(h->root, &h->cgroup, changed, h);
        if (h->ib)
            hm_ib_sample(h->ib, changed, h);
        if (h->nvml)
            hm_nvml_sample(h->nvml, changed, h, h->bus);
    }
}

int hm_health_destroy(struct hm_health *h)
{
    if (!h)
        return 1;
    if (h->nvml && !hm_nvml_stop(h->nvml))
        return 0;
    hm_ib_close(h->ib);
    free(h);
    return 1;
}

enum { MAX_CPUS = 8192 };

/* Next range of a list; 0 = its end, or what is no list. */
static int next_range(const char **list_p, long *from_p, long *to_p)
{
    const char *p = *list_p;
    char *end;
    while (*p == ' ' || *p == '\t' || *p == ',')
        p++;
    if (*p < '0' || *p > '9')
        return 0;
    *from_p = *to_p = strtol(p, &end, 10);
    if (*end == '-')
        *to_p = strtol(end + 1, &end, 10);
    *list_p = end;
    return *from_p <= *to_p && *to_p < MAX_CPUS;
}

static int holds(const char *list, long cpu)
{
    long from, to;
    while (next_range(&list, &from, &to))
        if (from <= cpu && cpu <= to)
            return 1;
    return 0;
}

void hm_health_cpus(const char *list, const char *other, int64_t *n_p, int64_t *n_both_p)
{
    long from, to;
    *n_p = *n_both_p = 0;
    while (next_range(&list, &from, &to))
        for (long cpu = from; cpu <= to; cpu++) {
            (*n_p)++;
            *n_both_p += holds(other, cpu);
        }
}
