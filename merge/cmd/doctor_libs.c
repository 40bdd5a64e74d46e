/* CUPTI, NCCL and MPI as `hindmost doctor` finds them: opened the way the recorder will.
 *
 * Box: merge/cmd. Each function runs in a process of its own.
 */
#include "cmd/doctor.h"
#include "cmd/launch.h"
#include "core/mpi_abi.h"

#include <dirent.h>
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ISO C has no cast from an object pointer to a function. */
#define GET(handle, function, name)                  \
    do {                                             \
        void *at_ = dlsym(handle, name);             \
        memcpy(&(function), &at_, sizeof(function)); \
    } while (0)

static const char *path_of(void *handle)
{
    struct link_map *map = NULL;
    return !dlinfo(handle, RTLD_DI_LINKMAP, &map) && map && map->l_name[0] ? map->l_name : "?";
}

static void *open_first(const char *const *names)
{
    void *handle = NULL;
    for (; !handle && *names; names++)
        handle = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
    return handle;
}

static void *find_cupti(const char *configured)
{
    static const char *const names[] = {"libcupti.so.13",   "libcupti.so.12",   "libcupti.so.11.8",
                                        "libcupti.so.11.7", "libcupti.so.11.6", NULL};
    static const char *const folder[] = {"extras/CUPTI/lib64", "lib64"};
    const char *const roots[] = {getenv("CUDA_HOME"), "/usr/local/cuda"};
    char path[1100];
    void *handle = NULL;
    if (configured[0]) {
        handle = dlopen(configured, RTLD_NOW | RTLD_LOCAL);
        if (!handle)
            hm_doctor_say(HM_FOUND_BAD, "cupti", "HINDMOST_CUPTI=%s cannot be loaded: %s",
                          configured, dlerror());
    }
    if (!handle)
        handle = open_first(names);
    for (size_t r = 0; r < 2 && !handle && roots[r]; r++)
        for (size_t f = 0; f < 2 && !handle; f++)
            for (const char *const *n = names; *n && !handle; n++) {
                snprintf(path, sizeof(path), "%s/%s/%s", roots[r], folder[f], *n);
                handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
            }
    return handle;
}

/* 0 = no driver that works. */
static int driver_version(void)
{
    int version = 0, (*init)(unsigned), (*get)(int *), (*count)(int *), n = 0;
    void *handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        hm_doctor_say(HM_FOUND_NOTE, "driver",
                      "libcuda.so.1 was not found: no GPU work here; steps, MPI and ranges only");
        return 0;
    }
    if (strstr(path_of(handle), "/stubs/")) {
        hm_doctor_say(HM_FOUND_BAD, "driver",
                      "%s is the toolkit's stub and hides the driver; take its folder out of "
                      "LD_LIBRARY_PATH",
                      path_of(handle));
        return 0;
    }
    GET(handle, init, "cuInit");
    GET(handle, get, "cuDriverGetVersion");
    GET(handle, count, "cuDeviceGetCount");
    int rc = init ? init(0) : -1;
    if (rc || !get || get(&version)) {
        hm_doctor_say(HM_FOUND_BAD, "driver", "%s: cuInit gives %d; look at nvidia-smi",
                      path_of(handle), rc);
        return 0;
    }
    if (count)
        count(&n);
    hm_doctor_say(n ? HM_FOUND_GOOD : HM_FOUND_NOTE, "driver", "CUDA %d.%d, %d GPU%s",
                  version / 1000, version % 1000 / 10, n, n == 1 ? "" : "s");
    return version;
}

void hm_doctor_gpu(const struct hm_config *config)
{
    uint32_t version = 0;
    int (*get)(uint32_t *);
    int driver = driver_version();
    if (!config->kernels) {
        hm_doctor_say(HM_FOUND_NOTE, "cupti", "kernels are switched off (HINDMOST_KERNELS)");
        return;
    }
    void *handle = find_cupti(config->cupti);
    if (!handle) {
        hm_doctor_say(driver ? HM_FOUND_BAD : HM_FOUND_NOTE, "cupti",
                      "libcupti was not found: no kernels; install the CUDA toolkit's CUPTI or set "
                      "HINDMOST_CUPTI");
        return;
    }
    GET(handle, get, "cuptiGetVersion");
    if (!get || get(&version)) {
        hm_doctor_say(HM_FOUND_BAD, "cupti", "%s does not tell its version; set HINDMOST_CUPTI",
                      path_of(handle));
        return;
    }
    int major = (int)(version / 10000), of_driver = driver / 1000;
    hm_doctor_say(HM_FOUND_GOOD, "cupti", "version %u, %s", version, path_of(handle));
    if (driver && version >= 100000 && major > of_driver)
        hm_doctor_say(HM_FOUND_BAD, "cupti",
                      "is of CUDA %d, the driver of CUDA %d: it will refuse; set HINDMOST_CUPTI to "
                      "the libcupti of CUDA %d",
                      major, of_driver, of_driver);
    char line[256];
    FILE *f = fopen("/proc/driver/nvidia/params", "re");
    while (f && fgets(line, sizeof(line), f))
        if (!strncmp(line, "RmProfilingAdminOnly: 1", 23))
            hm_doctor_say(HM_FOUND_GOOD, "cupti",
                          "hardware counters are for administrators; hindmost needs none");
    if (f)
        fclose(f);
}

static void look_at_conf(const char *path)
{
    char line[512];
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof(line), f)) {
        line[strcspn(line, "\n")] = 0;
        if (!strncmp(line, "NCCL_PROFILER_PLUGIN", 20) && !strstr(line, "hindmost"))
            hm_doctor_say(HM_FOUND_NOTE, "nccl",
                          "%s says %s: it runs behind hindmost when it speaks the same interface",
                          path, line);
    }
    if (f)
        fclose(f);
}

void hm_doctor_nccl(const struct hm_config *config)
{
    static const char *const names[] = {"libnccl.so.2", NULL};
    int version = 0, (*get)(int *);
    char library[PATH_MAX], home[1100], name[32], known[64] = "";
    (void)config;
    void *handle = open_first(names);
    GET(handle ? handle : RTLD_DEFAULT, get, "ncclGetVersion");
    if (!handle)
        hm_doctor_say(HM_FOUND_NOTE, "nccl",
                      "libnccl.so.2 is not in the search path (PyTorch brings its own)");
    else if (!get || get(&version))
        hm_doctor_say(HM_FOUND_NOTE, "nccl", "%s does not tell its version", path_of(handle));
    else if (version < 22300)
        hm_doctor_say(HM_FOUND_NOTE, "nccl",
                      "%d.%d.%d has no profiler plugins; operations are seen by their kernels; "
                      "2.23 has them",
                      version / 10000, version % 10000 / 100, version % 100);
    else
        hm_doctor_say(HM_FOUND_GOOD, "nccl", "%d.%d.%d, %s", version / 10000, version % 10000 / 100,
                      version % 100, path_of(handle));
    void *ours = hm_launch_library(library) ? NULL : dlopen(library, RTLD_NOW | RTLD_LOCAL);
    for (int v = 1; ours && v < 20; v++) {
        snprintf(name, sizeof(name), "ncclProfiler_v%d", v);
        size_t used = strlen(known);
        if (dlsym(ours, name))
            snprintf(known + used, sizeof(known) - used, "%sv%d", used ? " " : "", v);
    }
    if (known[0])
        hm_doctor_say(HM_FOUND_GOOD, "plugin", "%s speaks %s", library, known);
    else
        hm_doctor_say(HM_FOUND_BAD, "plugin", "%s cannot be loaded: %s", library, dlerror());
    look_at_conf("/etc/nccl.conf");
    if (getenv("HOME")) {
        snprintf(home, sizeof(home), "%s/.nccl.conf", getenv("HOME"));
        look_at_conf(home);
    }
}

void hm_doctor_mpi(const struct hm_config *config)
{
    static const char *const signs[][2] = {{"OMPI_COMM_WORLD_RANK", "Open MPI's mpirun"},
                                           {"PMIX_RANK", "a PMIx launcher"},
                                           {"PMI_RANK", "a PMI launcher (MPICH, Intel MPI)"},
                                           {"SLURM_STEP_ID", "srun"},
                                           {"TORCHELASTIC_RUN_ID", "torchrun"}};
    static const char *const family[] = {"?", "Open MPI", "MPICH or a relative"};
    struct hm_mpi mpi;
    static char text[16384];
    int len = 0, (*version)(char *, int *);
    (void)config;
    hm_status_t s = hm_mpi_open(&mpi, 1);
    if (s == HM_E_MISSING) {
        hm_doctor_say(HM_FOUND_NOTE, "mpi", "no libmpi in the search path; torchrun needs none");
    } else if (s) {
        hm_doctor_say(HM_FOUND_NOTE, "mpi",
                      "an MPI of a kind hindmost does not know: no clock windows, ranks by the "
                      "launcher's variables");
    } else {
        GET(mpi.library, version, "PMPI_Get_library_version");
        if (!version || version(text, &len))
            text[0] = 0;
        text[strcspn(text, "\n,")] = 0;
        hm_doctor_say(HM_FOUND_GOOD, "mpi", "%s: %s", family[mpi.family], text);
    }
    for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++)
        if (getenv(signs[i][0]))
            hm_doctor_say(HM_FOUND_GOOD, "launcher", "%s", signs[i][1]);
}
