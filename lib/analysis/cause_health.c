/* What the machine's counters add to a cause: a GPU held down or shared, a host without a CPU.
 *
 * Box: lib/analysis. Pure. A counter speaks only where it sets the subject apart from the others
 * (median of those outside the set): what all have alike explains no lateness. Bounds: 2 % for
 * clocks and power limits, since the SM clock moves in steps of 15 MHz (0.8 %); a host counts as
 * descheduled when the time it waited for a CPU is at least half of its lateness.
 */
#include "analysis/verdict_inside.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static int64_t field(const struct hm_judge *j, uint32_t w, size_t offset)
{
    int64_t v;
    memcpy(&v, (const char *)&j->worker[w].health + offset, sizeof(v));
    return v;
}

/* Median over the workers outside the set; HM_NONE = nobody has it. */
static int64_t others(const struct hm_judge *j, const uint8_t *set, size_t offset)
{
    int64_t *v = malloc((j->n_workers + 1) * sizeof(*v)), median = HM_NONE(HM_NONE_UNKNOWN);
    size_t n = 0;
    for (uint32_t w = 0; v && w < j->n_workers; w++)
        if (!set[w] && !HM_IS_NONE(field(j, w, offset)))
            v[n++] = field(j, w, offset);
    if (n)
        median = hm_median(v, n);
    free(v);
    return median;
}
#define OTHERS(member) others(j, set, offsetof(struct hm_health_sum, member))

static int below(int64_t v, int64_t than)
{
    return !HM_IS_NONE(v) && !HM_IS_NONE(than) && (double)v < 0.98 * (double)than;
}

static void say_reasons(struct hm_out_finding *f, int64_t reasons)
{
    static const struct {
        int64_t bit;
        const char *what;
    } word[] = {{0x4, "software power cap"},    {0x8, "hardware slowdown"},
                {0x20, "software thermal"},     {0x40, "hardware thermal"},
                {0x80, "hardware power brake"}, {0x2, "application clocks were set"},
                {0x100, "display clocks"}};
    for (size_t i = 0; i < sizeof(word) / sizeof(word[0]); i++)
        if (!HM_IS_NONE(reasons) && reasons & word[i].bit)
            hm_list_add(&f->evidence, "the driver's reason for the clock: %s", word[i].what);
}

static const char *gpu(const struct hm_judge *j, const uint8_t *set, uint32_t first,
                       struct hm_out_finding *f)
{
    const struct hm_health_sum *h = &j->worker[first].health;
    const char *cause = "slow_gpu";
    int64_t limit = OTHERS(power_limit_mw), clock = OTHERS(sm_mhz);
    if (HM_IS_NONE(limit)) /* nobody to compare with: against what the GPU comes with */
        limit = h->limit_default_mw;
    if (below(h->power_limit_mw, limit)) {
        cause = "gpu_config";
        hm_list_add(&f->evidence, "power limit %lld W, its peers %lld W",
                    (long long)h->power_limit_mw / 1000, (long long)limit / 1000);
    }
    if (below(h->sm_mhz, clock)) {
        hm_list_add(&f->evidence, "SM clock %lld MHz on average, its peers %lld MHz",
                    (long long)h->sm_mhz, (long long)clock);
        say_reasons(f, h->reasons);
    } else if (!HM_IS_NONE(h->sm_mhz) && !HM_IS_NONE(clock)) {
        hm_list_add(&f->ruled_out, "a lower clock: %lld MHz, its peers %lld MHz",
                    (long long)h->sm_mhz, (long long)clock);
    }
    int64_t shared = OTHERS(other_pid);
    if (!HM_IS_NONE(h->other_pid) && h->other_pid > 0 && !(shared > 0)) {
        cause = "gpu_shared";
        hm_list_add(&f->evidence, "process %lld computes on its GPU too", (long long)h->other_pid);
    }
    int64_t usual = OTHERS(temperature_c);
    if (below(usual, h->temperature_c))
        hm_list_add(&f->evidence, "%lld C, its peers %lld C", (long long)h->temperature_c,
                    (long long)usual);
    return cause;
}

static const char *host(const struct hm_judge *j, const uint8_t *set, uint32_t first,
                        int64_t late_ns, struct hm_out_finding *f)
{
    const struct hm_health_sum *h = &j->worker[first].health;
    const char *cause = "host_cpu";
    int64_t usual = OTHERS(wait_ns);
    if (!HM_IS_NONE(h->wait_ns)) {
        int64_t more = h->wait_ns - (HM_IS_NONE(usual) ? 0 : usual);
        if (late_ns > 0 && more >= late_ns / 2) {
            cause = "host_descheduled";
            hm_list_add(&f->evidence, "its thread was ready but without a CPU for %.1f ms",
                        hm_ms(h->wait_ns));
        } else {
            hm_list_add(&f->ruled_out, "descheduled: without a CPU for %.1f ms only",
                        hm_ms(h->wait_ns));
        }
    }
    if (!HM_IS_NONE(h->throttled_us) && h->throttled_us * 1000 >= late_ns / 2 && late_ns > 0) {
        cause = "host_descheduled";
        hm_list_add(&f->evidence, "its container was throttled for %.1f ms",
                    (double)h->throttled_us / 1e3);
    }
    if (!HM_IS_NONE(h->n_near) && h->n_near == 0)
        hm_list_add(&f->evidence, "none of its %lld CPUs is near its GPU", (long long)h->n_cpus);
    return cause;
}

static void errors(const struct hm_health_sum *h, struct hm_out_finding *f)
{
    if (!HM_IS_NONE(h->xid) && h->xid)
        hm_list_add(&f->evidence, "the driver reported XID %lld", (long long)h->xid);
    if (!HM_IS_NONE(h->ecc) && h->ecc > 0)
        hm_list_add(&f->evidence, "%lld uncorrected memory errors", (long long)h->ecc);
    if (!HM_IS_NONE(h->nvlink_errors) && h->nvlink_errors > 0)
        hm_list_add(&f->evidence, "%lld NVLink errors", (long long)h->nvlink_errors);
    if (!HM_IS_NONE(h->pcie_replays) && h->pcie_replays > 0)
        hm_list_add(&f->evidence, "%lld PCIe replays", (long long)h->pcie_replays);
}

const char *hm_cause_health(const struct hm_judge *j, const uint8_t *set, uint32_t first,
                            const char *cause, struct hm_out_finding *f)
{
    const struct hm_health_sum *h = &j->worker[first].health;
    if (!strcmp(cause, "slow_gpu"))
        cause = gpu(j, set, first, f);
    else if (!strcmp(cause, "host_cpu"))
        cause = host(j, set, first, j->worker[first].late_ns, f);
    else if (!strcmp(cause, "allocator") && !HM_IS_NONE(h->memory_used) && h->memory_total > 0)
        hm_list_add(&f->evidence, "device memory: %.1f of %.1f GB used",
                    (double)h->memory_used / 1e9, (double)h->memory_total / 1e9);
    errors(h, f);
    return cause;
}

char *hm_judge_uuid(const struct hm_judge *j, uint32_t worker)
{
    static const uint8_t none[16];
    const uint8_t *u = j->worker[worker].uuid;
    if (!memcmp(u, none, sizeof(none)))
        return NULL;
    return hm_text("GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0],
                   u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13],
                   u[14], u[15]);
}

static int is_sampled(const struct hm_health_sum *h)
{
    const int64_t *v = (const int64_t *)h;
    for (size_t i = 0; i < sizeof(*h) / sizeof(*v); i++)
        if (!HM_IS_NONE(v[i]))
            return 1;
    return 0;
}

hm_status_t hm_judge_health_table(const struct hm_judge *j, struct hm_result *r)
{
    for (uint32_t w = 0; w < j->n_workers; w++) {
        const struct hm_health_sum *h = &j->worker[w].health;
        if (!is_sampled(h))
            continue;
        struct hm_out_health *t = hm_result_add(r, HM_T_health);
        if (!t)
            return hm_fail(HM_E_NOMEM, "judge", "out of memory");
        t->rank = j->in.run->worker[w].rank;
        if (j->in.run->worker[w].device != HM_NO_ID)
            t->device = j->in.run->worker[w].device;
        t->sm_clock_mhz = h->sm_mhz;
        t->mem_clock_mhz = h->mem_mhz;
        t->power_mw = h->power_mw;
        t->power_limit_mw = h->power_limit_mw;
        t->temperature_c = h->temperature_c;
        t->memory_used_bytes = h->memory_used;
        t->memory_total_bytes = h->memory_total;
        t->clock_reasons = h->reasons;
        t->other_pid = h->other_pid;
        t->xid = h->xid;
        t->ecc_errors = h->ecc;
        t->nvlink_errors = h->nvlink_errors;
        t->pcie_replays = h->pcie_replays;
        t->cpu_wait_ns = h->wait_ns;
        t->major_faults = h->faults;
        t->throttled_us = h->throttled_us;
        t->memory_pressure_us = h->memory_pressure_us;
        t->cpus = h->n_cpus;
        t->cpus_near_gpu = h->n_near;
    }
    return HM_OK;
}
