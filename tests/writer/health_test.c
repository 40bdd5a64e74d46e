/* Health on a made-up tree of /proc and /sys and a stand-in libnvidia-ml. Box: tests/writer.
 *
 *   health_test FAKE_NVML      the values told are those written here, by hand
 */
#include "writer/health.h"

#include "core/status.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MAX = 256 };
static char root[64];
static int n_failed;
static struct told {
    char name[64], unit[16];
    uint32_t tid;
    int64_t value;
} told[MAX];
static size_t n_told;

static void check(int good, const char *fmt, ...)
{
    va_list args;
    if (good)
        return;
    n_failed++;
    va_start(args, fmt);
    vprintf(fmt, args);
    va_end(args);
    printf("\n");
}

static void put(const char *path, const char *text)
{
    char full[512];
    snprintf(full, sizeof(full), "%s%s", root, path);
    for (char *p = full + 1; (p = strchr(p, '/')); p++) {
        *p = 0;
        mkdir(full, 0700);
        *p = '/';
    }
    FILE *f = fopen(full, "w");
    if (!f || fputs(text, f) < 0 || fclose(f)) {
        printf("%s: %s\n", full, strerror(errno));
        exit(1);
    }
}

static void tell(void *ctx, const struct hm_sample *s)
{
    (void)ctx;
    if (n_told == MAX)
        return;
    struct told *t = &told[n_told++];
    snprintf(t->name, sizeof(t->name), "%s", s->name);
    snprintf(t->unit, sizeof(t->unit), "%s", s->unit);
    t->tid = s->tid;
    t->value = s->value;
}

static const struct told *find(const char *name, uint32_t tid)
{
    for (size_t i = n_told; i-- > 0;)
        if (!strcmp(told[i].name, name) && told[i].tid == tid)
            return &told[i];
    return NULL;
}

static void expect(const char *name, uint32_t tid, int64_t value, const char *unit)
{
    const struct told *t = find(name, tid);
    if (!t)
        check(0, "%s of thread %u was not told", name, tid);
    else
        check(t->value == value && !strcmp(t->unit, unit), "%s: %lld %s, expected %lld %s", name,
              (long long)t->value, t->unit, (long long)value, unit);
}

static void make_tree(void)
{
    put("/proc/77/task/77/schedstat", "1234567 89012 42\n");
    put("/proc/77/task/80/schedstat", "5 6 1\n");
    /* the program's name holds what could be taken for the fields */
    put("/proc/77/stat", "77 (a) b) R 1 2 3 4 5 6 10 20 31 40 50 60\n");
    put("/proc/77/status", "Name:\ta\nCpus_allowed:\tff\nCpus_allowed_list:\t0-3,8,10-11\n");
    put("/proc/77/cgroup", "0::/job/step\n");
    put("/sys/fs/cgroup/job/step/cpu.stat",
        "usage_usec 9\nnr_periods 7\nnr_throttled 3\nthrottled_usec 4500\n");
    put("/sys/fs/cgroup/job/step/cpu.pressure",
        "some avg10=1.00 avg60=0.50 avg300=0.10 total=777\nfull avg10=0.00 total=1\n");
    put("/sys/fs/cgroup/job/step/memory.pressure", "some avg10=0.00 total=12\n");
    put("/sys/fs/cgroup/job/step/memory.events", "low 0\nhigh 2\nmax 0\noom 1\noom_kill 1\n");
    put("/sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error", "17\n");
    put("/sys/class/infiniband/mlx5_0/ports/1/hw_counters/out_of_sequence", "not a number\n");
    put("/sys/bus/pci/devices/0000:3b:00.0/local_cpulist", "8-15\n");
}

static void host(void)
{
    static const uint32_t tid[] = {77, 80, 81};
    struct hm_health *h = hm_health_create(root, 77, 1);
    hm_health_tick(h, 1000, tid, 3, tell, NULL);
    expect("cpu.run", 77, 1234567, "ns");
    expect("cpu.wait", 77, 89012, "ns");
    expect("cpu.run", 80, 5, "ns");
    check(!find("cpu.run", 81), "a thread that is not there was told");
    expect("mem.major_faults", 0, 31, "count");
    expect("cpu.allowed", 0, 7, "count");
    check(!find("cpu.near_gpu", 0), "no GPU is known yet");
    expect("cgroup.throttled", 0, 3, "count");
    expect("cgroup.throttled_time", 0, 4500, "us");
    expect("cgroup.cpu_pressure", 0, 777, "us");
    expect("cgroup.memory_pressure", 0, 12, "us");
    expect("cgroup.memory_high", 0, 2, "count");
    expect("cgroup.oom_kill", 0, 1, "count");
    expect("ib.mlx5_0.1.symbol_error", 0, 17, "count");
    check(!find("ib.mlx5_0.1.out_of_sequence", 0), "told what is no number");
    /* nothing new: nothing told; a change: that alone; threads ten times as often */
    n_told = 0;
    hm_health_tick(h, 1000 + 2000000000, tid, 3, tell, NULL);
    check(n_told == 0, "%zu values told again", n_told);
    put("/proc/77/task/77/schedstat", "1234567 99012 42\n");
    hm_health_tick(h, 1000 + 2050000000, tid, 3, tell, NULL);
    check(n_told == 0, "threads sampled after 50 ms");
    hm_health_tick(h, 1000 + 2100000000, tid, 3, tell, NULL);
    check(n_told == 1, "%zu values told for one change", n_told);
    expect("cpu.wait", 77, 99012, "ns");
    check(hm_health_destroy(h), "destroy");
}

static void old_cgroup(void)
{
    put("/proc/78/cgroup", "4:memory:/m\n3:cpu,cpuacct:/not/mounted/here\n");
    put("/sys/fs/cgroup/cpu/cpu.stat", "nr_periods 7\nnr_throttled 2\nthrottled_time 3000000\n");
    struct hm_health *h = hm_health_create(root, 78, 0);
    n_told = 0;
    hm_health_tick(h, 1, NULL, 0, tell, NULL);
    expect("cgroup.throttled", 0, 2, "count");
    expect("cgroup.throttled_time", 0, 3000, "us");
    check(!find("ib.mlx5_0.1.symbol_error", 0), "the node's card told by every process");
    check(hm_health_destroy(h), "destroy");
}

static void nothing(void)
{
    struct hm_health *h = hm_health_create("/nowhere", 1, 1);
    static const uint32_t tid[] = {1};
    static const uint8_t uuid[16] = "virtual";
    n_told = 0;
    hm_health_gpu(h, uuid, "/nowhere/libnvidia-ml.so.1");
    hm_health_tick(h, 1, tid, 1, tell, NULL);
    check(n_told == 0, "%zu values from nowhere", n_told);
    check(hm_health_destroy(h), "destroy");
}

/* Until the GPU's thread has seen everything, at most 20 s on a slow machine. */
static void gpu(const char *library)
{
    static const uint8_t uuid[16] = "virtual-gpu";
    struct hm_health *h = hm_health_create(root, 77, 0);
    setenv("FAKE_NVML_PID", "77", 1);
    n_told = 0;
    hm_health_gpu(h, uuid, library);
    for (int64_t i = 0; i < 400 && !(find("gpu.xid", 0) && find("cpu.near_gpu", 0)); i++) {
        hm_health_tick(h, i * 1000000000, NULL, 0, tell, NULL);
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    }
    expect("gpu.sm_clock", 0, 1230, "MHz");
    expect("gpu.mem_clock", 0, 2619, "MHz");
    expect("gpu.clock_reasons", 0, 4, "bits");
    expect("gpu.power", 0, 498700, "mW");
    expect("gpu.power_limit", 0, 500000, "mW");
    expect("gpu.power_limit_default", 0, 700000, "mW");
    expect("gpu.temperature", 0, 71, "C");
    expect("gpu.nvlink_errors", 0, 5, "count");
    expect("gpu.memory_used", 0, 79100, "bytes");
    expect("gpu.memory_total", 0, 80000, "bytes");
    expect("gpu.processes", 0, 2, "count");
    expect("gpu.other_pid", 0, 4242, "pid");
    expect("gpu.xid", 0, 63, "code");
    expect("cpu.near_gpu", 0, 3, "count"); /* 8, 10, 11 of 0-3,8,10-11 lie in 8-15 */
    check(!find("gpu.ecc_uncorrected", 0), "told what the GPU does not support");
    check(!find("gpu.sm_clock_max", 0), "told what the library does not have");
    check(hm_health_destroy(h), "destroy");
}

static void hang(const char *library)
{
    static const uint8_t uuid[16] = "virtual-gpu";
    struct hm_health *h = hm_health_create(root, 77, 0);
    setenv("FAKE_NVML", "hang", 1);
    n_told = 0;
    hm_health_gpu(h, uuid, library);
    nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
    hm_health_tick(h, 1, NULL, 0, tell, NULL);
    expect("mem.major_faults", 0, 31, "count"); /* the rest goes on */
    check(!hm_health_destroy(h), "a thread inside the driver was taken for stopped");
}

static void cpus(void)
{
    static const struct {
        const char *list, *other;
        int64_t n, both;
    } c[] = {{"0-3", "2-5", 4, 2}, {"", "0", 0, 0},         {"7", "", 1, 0},
             {"x", "0", 0, 0},     {"0-999999", "0", 0, 0}, {"3-1", "0", 0, 0}};
    for (size_t i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
        int64_t n, both;
        hm_health_cpus(c[i].list, c[i].other, &n, &both);
        check(n == c[i].n && both == c[i].both, "\"%s\": %lld %lld", c[i].list, (long long)n,
              (long long)both);
    }
}

int main(int argc, char **argv)
{
    (void)argc;
    snprintf(root, sizeof(root), "/tmp/hm_health.XXXXXX");
    if (!mkdtemp(root))
        return 1;
    make_tree();
    cpus();
    host();
    old_cgroup();
    nothing();
    gpu(argv[1]);
    hang(argv[1]);
    char command[128];
    snprintf(command, sizeof(command), "rm -r '%s'", root);
    if (system(command))
        n_failed++;
    printf("%d failed\n", n_failed);
    _exit(n_failed ? 1 : 0);
}
