/* A stand-in for libnvidia-ml.so.1: public calls only, fixed values. Box: tests/writer.
 *
 * The GPUs are those of the virtual GPU: their UUID begins with "vi" and ends with the local rank.
 * One is held down to 500 W and 1230 MHz: all of them, or with HM_TEST_NVML_LIMITED=R only that of
 * rank R while the others have 700 W and 1980 MHz. FAKE_NVML=hang: the power call never returns.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))
typedef void *device_t;
enum { NOT_FOUND = 6, NOT_SUPPORTED = 3, TIMEOUT = 10 };
static int gpu[256];

struct process_info {
    unsigned int pid;
    unsigned long long bytes;
    unsigned int gpu_instance, compute_instance;
};
struct event_data {
    device_t device;
    unsigned long long type, data;
    unsigned int gpu_instance, compute_instance;
};
struct pci_info {
    char old_bus[16];
    unsigned int domain, bus, device, id, subsystem;
    char text[32];
};

static int limited(device_t device)
{
    const char *which = getenv("HM_TEST_NVML_LIMITED");
    return !which || (int *)device - gpu == atoi(which);
}

API int nvmlInit_v2(void);
API int nvmlInit_v2(void)
{
    return 0;
}
API int nvmlShutdown(void);
API int nvmlShutdown(void)
{
    return 0;
}
API int nvmlDeviceGetHandleByUUID(const char *uuid, device_t *device);
API int nvmlDeviceGetHandleByUUID(const char *uuid, device_t *device)
{
    if (strncmp(uuid, "GPU-7669", 8) != 0 || strlen(uuid) != 40)
        return NOT_FOUND;
    *device = &gpu[strtoul(uuid + 32, NULL, 16) >> 24];
    return 0;
}
API int nvmlDeviceGetPciInfo_v3(device_t d, struct pci_info *pci);
API int nvmlDeviceGetPciInfo_v3(device_t d, struct pci_info *pci)
{
    (void)d;
    pci->domain = 0;
    pci->bus = 0x3b;
    pci->device = 0;
    return 0;
}
API int nvmlDeviceGetClockInfo(device_t d, int type, unsigned int *mhz);
API int nvmlDeviceGetClockInfo(device_t d, int type, unsigned int *mhz)
{
    *mhz = type != 1 ? 2619 : limited(d) ? 1230 : 1980;
    return 0;
}
API int nvmlDeviceGetCurrentClocksThrottleReasons(device_t d, unsigned long long *reasons);
API int nvmlDeviceGetCurrentClocksThrottleReasons(device_t d, unsigned long long *reasons)
{
    *reasons = limited(d) ? 4 : 0; /* software power cap */
    return 0;
}
API int nvmlDeviceGetPowerUsage(device_t d, unsigned int *mw);
API int nvmlDeviceGetPowerUsage(device_t d, unsigned int *mw)
{
    (void)d;
    const char *how = getenv("FAKE_NVML");
    while (how && !strcmp(how, "hang"))
        pause();
    *mw = 498700;
    return 0;
}
API int nvmlDeviceGetEnforcedPowerLimit(device_t d, unsigned int *mw);
API int nvmlDeviceGetEnforcedPowerLimit(device_t d, unsigned int *mw)
{
    *mw = limited(d) ? 500000 : 700000;
    return 0;
}
API int nvmlDeviceGetPowerManagementDefaultLimit(device_t d, unsigned int *mw);
API int nvmlDeviceGetPowerManagementDefaultLimit(device_t d, unsigned int *mw)
{
    (void)d;
    *mw = 700000;
    return 0;
}
API int nvmlDeviceGetTemperature(device_t d, int sensor, unsigned int *celsius);
API int nvmlDeviceGetTemperature(device_t d, int sensor, unsigned int *celsius)
{
    (void)d;
    (void)sensor;
    *celsius = 71;
    return 0;
}
API int nvmlDeviceGetTotalEccErrors(device_t d, int type, int counter, unsigned long long *n);
API int nvmlDeviceGetTotalEccErrors(device_t d, int type, int counter, unsigned long long *n)
{
    (void)d;
    (void)type;
    (void)counter;
    (void)n;
    return NOT_SUPPORTED;
}
API int nvmlDeviceGetNvLinkState(device_t d, unsigned int link, int *on);
API int nvmlDeviceGetNvLinkState(device_t d, unsigned int link, int *on)
{
    (void)d;
    *on = link < 2;
    return 0;
}
API int nvmlDeviceGetNvLinkErrorCounter(device_t d, unsigned int link, int counter,
                                        unsigned long long *n);
API int nvmlDeviceGetNvLinkErrorCounter(device_t d, unsigned int link, int counter,
                                        unsigned long long *n)
{
    (void)d;
    *n = link == 1 && counter == 0 ? 5 : 0;
    return 0;
}
API int nvmlDeviceGetComputeRunningProcesses_v3(device_t d, unsigned int *n,
                                                struct process_info *p);
API int nvmlDeviceGetComputeRunningProcesses_v3(device_t d, unsigned int *n, struct process_info *p)
{
    (void)d;
    const char *job = getenv("FAKE_NVML_PID");
    p[0] = (struct process_info){.pid = 4242};
    p[1] = (struct process_info){.pid = job ? (unsigned int)atoi(job) : 1};
    *n = 2;
    return 0;
}
struct memory_info {
    unsigned long long total, free, used;
};
API int nvmlDeviceGetMemoryInfo(device_t d, struct memory_info *m);
API int nvmlDeviceGetMemoryInfo(device_t d, struct memory_info *m)
{
    (void)d;
    *m = (struct memory_info){80000, 900, 79100};
    return 0;
}
API int nvmlEventSetCreate(void **set);
API int nvmlEventSetCreate(void **set)
{
    static int made;
    *set = &made;
    return 0;
}
API int nvmlDeviceRegisterEvents(device_t d, unsigned long long types, void *set);
API int nvmlDeviceRegisterEvents(device_t d, unsigned long long types, void *set)
{
    (void)d;
    (void)set;
    return types == 8 ? 0 : NOT_SUPPORTED;
}
API int nvmlEventSetWait_v2(void *set, struct event_data *data, unsigned int ms);
API int nvmlEventSetWait_v2(void *set, struct event_data *data, unsigned int ms)
{
    static int told;
    (void)set;
    (void)ms;
    if (told++)
        return TIMEOUT;
    *data = (struct event_data){.device = gpu, .type = 8, .data = 63};
    return 0;
}
