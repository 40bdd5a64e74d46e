/* The GPU's own word, through libnvidia-ml loaded at run time. Box: lib/writer.
 *
 * Threads: one of its own calls the driver once a second, the main thread copies what it saw. A
 * call that never returns holds up nobody. Invariant: only functions that the library has are
 * called; a value that cannot be had is left out. Source: NVIDIA's NVML API reference, constants by
 * number.
 */
#include "writer/health.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef void *device_t;
enum { CLOCK_SM = 1, CLOCK_MEM = 2, SENSOR_GPU = 0, UNCORRECTED = 1, VOLATILE = 0 };
enum { N_LINKS = 18, N_LINK_COUNTERS = 4, MAX_PROCESSES = 64 };
static const uint64_t EVENT_XID = 8;

struct process_info { /* of ..._v3 */
    unsigned int pid;
    unsigned long long bytes;
    unsigned int gpu_instance, compute_instance;
};
struct memory_info {
    unsigned long long total, free, used;
};
struct event_data {
    device_t device;
    unsigned long long type, data;
    unsigned int gpu_instance, compute_instance;
};

struct pci_info { /* of ..._v3 */
    char old_bus[16];
    unsigned int domain, bus, device, id, subsystem;
    char text[32];
};

enum value {
    V_SM_MHZ,
    V_SM_MAX_MHZ,
    V_MEM_MHZ,
    V_REASONS,
    V_POWER,
    V_LIMIT,
    V_LIMIT_DEFAULT,
    V_TEMPERATURE,
    V_ECC,
    V_PCIE,
    V_NVLINK,
    V_USED,
    V_TOTAL,
    V_PROCESSES,
    V_OTHER_PID,
    V_XID,
    N_VALUES
};
static const struct {
    const char *name, *unit;
} what[N_VALUES] = {
    [V_SM_MHZ] = {"gpu.sm_clock", "MHz"},
    [V_SM_MAX_MHZ] = {"gpu.sm_clock_max", "MHz"},
    [V_MEM_MHZ] = {"gpu.mem_clock", "MHz"},
    [V_REASONS] = {"gpu.clock_reasons", "bits"},
    [V_POWER] = {"gpu.power", "mW"},
    [V_LIMIT] = {"gpu.power_limit", "mW"},
    [V_LIMIT_DEFAULT] = {"gpu.power_limit_default", "mW"},
    [V_TEMPERATURE] = {"gpu.temperature", "C"},
    [V_ECC] = {"gpu.ecc_uncorrected", "count"},
    [V_PCIE] = {"gpu.pcie_replays", "count"},
    [V_NVLINK] = {"gpu.nvlink_errors", "count"},
    [V_USED] = {"gpu.memory_used", "bytes"},
    [V_TOTAL] = {"gpu.memory_total", "bytes"},
    [V_PROCESSES] = {"gpu.processes", "count"},
    [V_OTHER_PID] = {"gpu.other_pid", "pid"},
    [V_XID] = {"gpu.xid", "code"},
};

struct hm_nvml {
    void *library;
    device_t device;
    void *events;
    int32_t pid;
    char uuid[48], bus[32];
    pthread_t thread;
    pthread_mutex_t lock;
    int64_t value[N_VALUES];
    uint32_t known; /* bit a value */
    _Atomic int stop;
    int (*init)(void), (*shutdown)(void), (*by_uuid)(const char *, device_t *);
    int (*pci)(device_t, struct pci_info *);
    int (*clock)(device_t, int, unsigned int *), (*max_clock)(device_t, int, unsigned int *);
    int (*reasons)(device_t, unsigned long long *), (*power)(device_t, unsigned int *);
    int (*limit)(device_t, unsigned int *), (*limit_default)(device_t, unsigned int *);
    int (*temperature)(device_t, int, unsigned int *), (*pcie)(device_t, unsigned int *);
    int (*ecc)(device_t, int, int, unsigned long long *);
    int (*link_state)(device_t, unsigned int, int *);
    int (*link_errors)(device_t, unsigned int, int, unsigned long long *);
    int (*memory)(device_t, struct memory_info *);
    int (*processes)(device_t, unsigned int *, struct process_info *);
    int (*set_create)(void **), (*set_register)(device_t, unsigned long long, void *);
    int (*set_wait)(void *, struct event_data *, unsigned int);
};

static void bind(struct hm_nvml *n, const char *name, const char *older, void *to)
{
    void *found = dlsym(n->library, name);
    if (!found && older)
        found = dlsym(n->library, older);
    memcpy(to, &found, sizeof(found));
}

static int load(struct hm_nvml *n, const char *library)
{
    n->library = dlopen(library && library[0] ? library : "libnvidia-ml.so.1", RTLD_NOW);
    if (!n->library)
        return 0;
    bind(n, "nvmlInit_v2", "nvmlInit", &n->init);
    bind(n, "nvmlShutdown", NULL, &n->shutdown);
    bind(n, "nvmlDeviceGetHandleByUUID", NULL, &n->by_uuid);
    bind(n, "nvmlDeviceGetPciInfo_v3", NULL, &n->pci);
    bind(n, "nvmlDeviceGetClockInfo", NULL, &n->clock);
    bind(n, "nvmlDeviceGetMaxClockInfo", NULL, &n->max_clock);
    bind(n, "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons",
         &n->reasons);
    bind(n, "nvmlDeviceGetPowerUsage", NULL, &n->power);
    bind(n, "nvmlDeviceGetEnforcedPowerLimit", NULL, &n->limit);
    bind(n, "nvmlDeviceGetPowerManagementDefaultLimit", NULL, &n->limit_default);
    bind(n, "nvmlDeviceGetTemperature", NULL, &n->temperature);
    bind(n, "nvmlDeviceGetPcieReplayCounter", NULL, &n->pcie);
    bind(n, "nvmlDeviceGetTotalEccErrors", NULL, &n->ecc);
    bind(n, "nvmlDeviceGetNvLinkState", NULL, &n->link_state);
    bind(n, "nvmlDeviceGetNvLinkErrorCounter", NULL, &n->link_errors);
    bind(n, "nvmlDeviceGetMemoryInfo", NULL, &n->memory);
    bind(n, "nvmlDeviceGetComputeRunningProcesses_v3", NULL, &n->processes);
    bind(n, "nvmlEventSetCreate", NULL, &n->set_create);
    bind(n, "nvmlDeviceRegisterEvents", NULL, &n->set_register);
    bind(n, "nvmlEventSetWait_v2", "nvmlEventSetWait", &n->set_wait);
    return n->init && n->by_uuid;
}

struct seen {
    int64_t value[N_VALUES];
    uint32_t known;
};

static void see(struct seen *s, enum value v, int64_t value)
{
    s->value[v] = value;
    s->known |= 1u << v;
}

static void sample_clocks(const struct hm_nvml *n, struct seen *s)
{
    unsigned int v;
    unsigned long long wide;
    if (n->clock && !n->clock(n->device, CLOCK_SM, &v))
        see(s, V_SM_MHZ, v);
    if (n->clock && !n->clock(n->device, CLOCK_MEM, &v))
        see(s, V_MEM_MHZ, v);
    if (n->max_clock && !n->max_clock(n->device, CLOCK_SM, &v))
        see(s, V_SM_MAX_MHZ, v);
    if (n->reasons && !n->reasons(n->device, &wide))
        see(s, V_REASONS, (int64_t)wide);
    if (n->power && !n->power(n->device, &v))
        see(s, V_POWER, v);
    if (n->limit && !n->limit(n->device, &v))
        see(s, V_LIMIT, v);
    if (n->limit_default && !n->limit_default(n->device, &v))
        see(s, V_LIMIT_DEFAULT, v);
    if (n->temperature && !n->temperature(n->device, SENSOR_GPU, &v))
        see(s, V_TEMPERATURE, v);
}

static void sample_errors(const struct hm_nvml *n, struct seen *s)
{
    unsigned int v;
    unsigned long long wide;
    if (n->ecc && !n->ecc(n->device, UNCORRECTED, VOLATILE, &wide))
        see(s, V_ECC, (int64_t)wide);
    if (n->pcie && !n->pcie(n->device, &v))
        see(s, V_PCIE, v);
    int any = 0, on;
    uint64_t sum = 0;
    for (unsigned int link = 0; n->link_state && n->link_errors && link < N_LINKS; link++) {
        if (n->link_state(n->device, link, &on) || !on)
            continue;
        for (int c = 0; c < N_LINK_COUNTERS; c++)
            if (!n->link_errors(n->device, link, c, &wide)) {
                sum += wide;
                any = 1;
            }
    }
    if (any)
        see(s, V_NVLINK, (int64_t)sum);
}

/* Who uses the GPU, and how much of its memory. Another process on the GPU is named only where ours
 * is listed: elsewhere (a pid namespace) the numbers are not ours to compare. */
static void sample_tenants(const struct hm_nvml *n, struct seen *s)
{
    struct process_info p[MAX_PROCESSES];
    struct memory_info memory;
    unsigned int count = MAX_PROCESSES, other = 0;
    int ours = 0;
    if (n->memory && !n->memory(n->device, &memory)) {
        see(s, V_USED, (int64_t)memory.used);
        see(s, V_TOTAL, (int64_t)memory.total);
    }
    if (!n->processes || n->processes(n->device, &count, p))
        return;
    for (unsigned int i = 0; i < count && i < MAX_PROCESSES; i++) {
        if (p[i].pid == (unsigned int)n->pid)
            ours = 1;
        else if (!other)
            other = p[i].pid;
    }
    see(s, V_PROCESSES, count);
    if (ours)
        see(s, V_OTHER_PID, other);
}

static void sample_xid(const struct hm_nvml *n, struct seen *s)
{
    struct event_data data;
    memset(&data, 0, sizeof(data));
    for (int i = 0; n->events && i < 16 && !n->set_wait(n->events, &data, 0); i++)
        if (data.type & EVENT_XID)
            see(s, V_XID, (int64_t)data.data);
}

/* As /sys names it. */
static void find_bus(struct hm_nvml *n)
{
    struct pci_info pci;
    memset(&pci, 0, sizeof(pci));
    if (!n->pci || n->pci(n->device, &pci))
        return;
    pthread_mutex_lock(&n->lock);
    snprintf(n->bus, sizeof(n->bus), "%04x:%02x:%02x.0", pci.domain & 0xffff, pci.bus & 0xff,
             pci.device & 0x1f);
    pthread_mutex_unlock(&n->lock);
}

static void *watch(void *arg)
{
    struct hm_nvml *n = arg;
    if (n->init())
        return NULL;
    if (!n->by_uuid(n->uuid, &n->device)) {
        find_bus(n);
        if (n->set_create && n->set_register && n->set_wait && !n->set_create(&n->events) &&
            n->set_register(n->device, EVENT_XID, n->events))
            n->events = NULL;
        while (!n->stop) {
            struct seen s = {.known = 0};
            sample_clocks(n, &s);
            sample_errors(n, &s);
            sample_tenants(n, &s);
            sample_xid(n, &s);
            pthread_mutex_lock(&n->lock);
            for (int v = 0; v < N_VALUES; v++)
                if (s.known >> v & 1)
                    n->value[v] = s.value[v];
            n->known |= s.known;
            pthread_mutex_unlock(&n->lock);
            for (int i = 0; i < 50 && !n->stop; i++)
                nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
        }
    }
    if (n->shutdown)
        n->shutdown();
    return NULL;
}

struct hm_nvml *hm_nvml_start(const char *library, const uint8_t uuid[16], int32_t pid)
{
    struct hm_nvml *n = calloc(1, sizeof(*n));
    if (!n)
        return NULL;
    n->pid = pid;
    char *to = n->uuid + sprintf(n->uuid, "GPU-");
    for (int i = 0; i < 16; i++)
        to += sprintf(to, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
    pthread_mutex_init(&n->lock, NULL);
    if (load(n, library) && !pthread_create(&n->thread, NULL, watch, n))
        return n;
    if (n->library)
        dlclose(n->library);
    free(n);
    return NULL;
}

void hm_nvml_sample(struct hm_nvml *n, hm_sample_func_t fn, void *ctx, char bus_p[32])
{
    int64_t value[N_VALUES];
    pthread_mutex_lock(&n->lock);
    uint32_t known = n->known;
    memcpy(value, n->value, sizeof(value));
    memcpy(bus_p, n->bus, sizeof(n->bus));
    pthread_mutex_unlock(&n->lock);
    for (int v = 0; v < N_VALUES; v++)
        if (known >> v & 1)
            fn(ctx, &(struct hm_sample){what[v].name, what[v].unit, 0, value[v]});
}

int hm_nvml_stop(struct hm_nvml *n)
{
    struct timespec until;
    n->stop = 1;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 300000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    if (pthread_timedjoin_np(n->thread, NULL, &until))
        return 0;
    pthread_mutex_destroy(&n->lock);
    dlclose(n->library);
    free(n);
    return 1;
}
