/* What the machine does to the job: host, container, network card and GPU, as counters.
 *
 * Box: lib/writer. Sampled in the writer process, never in the application. Every source is
 * optional: one that is not there is left out without a word. Values are told when they changed and
 * hold until the next. Names: docs/recording.md.
 */
#ifndef HM_WRITER_HEALTH_H
#define HM_WRITER_HEALTH_H

#include "core/status.h"

#include <stddef.h>
#include <stdint.h>

/** One value from now on. */
struct hm_sample {
    const char *name, *unit;
    uint32_t tid; /* the thread it belongs to, 0 = process, device or node */
    int64_t value;
};
typedef void (*hm_sample_func_t)(void *ctx, const struct hm_sample *sample);

struct hm_health;
/** root: "" (a test's tree otherwise) before /proc and /sys; pid: whom to watch; per_node: sample
 *  the node's network cards too (one process a node does). NULL = no memory. */
struct hm_health *hm_health_create(const char *root, int32_t pid, int per_node);
/** The GPU in use, by its UUID. library: libnvidia-ml to load, "" = search. Starts a thread of its
 *  own, since a call into a driver in trouble may not return. */
void hm_health_gpu(struct hm_health *h, const uint8_t uuid[16], const char *library);
/** Tells what changed, at most ten times a second for threads (tid[n], the first one leads), once a
 *  second for the rest. now_ns: any monotonic clock. */
void hm_health_tick(struct hm_health *h, int64_t now_ns, const uint32_t *tid, size_t n,
                    hm_sample_func_t fn, void *ctx);
/** 0 = a thread is still inside the driver: leave the process by _exit(). */
int hm_health_destroy(struct hm_health *h);

/* --- the sources ----------------------------------------------------------------------------- */

/** First line or all of a small file; 0 = not there. buf is ended by NUL. */
size_t hm_health_read(const char *root, char *buf, size_t cap, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/** Bits set in a CPU list ("0-3,8"), and how many of them are in `other` too. */
void hm_health_cpus(const char *list, const char *other, int64_t *n_p, int64_t *n_both_p);

struct hm_cgroup {
    char cpu[1100], memory[1100]; /* folders; "" = none */
    int version;
};
void hm_cgroup_find(const char *root, int32_t pid, struct hm_cgroup *cgroup_p);
void hm_cgroup_sample(const char *root, const struct hm_cgroup *cgroup, hm_sample_func_t fn,
                      void *ctx);

struct hm_ib;
struct hm_ib *hm_ib_open(const char *root); /* NULL = none */
void hm_ib_sample(const struct hm_ib *ib, hm_sample_func_t fn, void *ctx);
void hm_ib_close(struct hm_ib *ib);

struct hm_nvml;
/** NULL = no library, no such GPU. Calls into the driver only from the thread it starts. */
struct hm_nvml *hm_nvml_start(const char *library, const uint8_t uuid[16], int32_t pid);
/** What the thread saw last. bus_p: where the GPU sits ("0000:3b:00.0"), "" = not known yet. */
void hm_nvml_sample(struct hm_nvml *nvml, hm_sample_func_t fn, void *ctx, char bus_p[32]);
/** 0 = its thread did not stop in time; nothing is freed then. */
int hm_nvml_stop(struct hm_nvml *nvml);

#endif
