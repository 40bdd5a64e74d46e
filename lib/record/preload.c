/* How the library gets into a process, and what it does then: nothing but set three variables.
 *
 * Box: lib/record. ld.so runs the constructor (before main, one thread); the CUDA driver and NVTX
 * call the injection entry points from an application thread. The constructor makes no mapping, no
 * thread and no file descriptor: shells, launchers and helpers stay as they were.
 */
#include "record/record.h"

#define HINDMOST_NO_CALLS
#include "hindmost/hindmost.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define HM_SONAME "libnccl-profiler-hindmost.so"
#define HM_EXPORT __attribute__((visibility("default")))

extern const struct hm_api hm_api_here __attribute__((visibility("hidden"))); /* api.c */

static int off; /* constant after the constructor */
static char self_path[PATH_MAX];

int hm_is_off(void)
{
    return off;
}

const char *hm_self_path(void)
{
    return self_path;
}

static int says_off(const char *v)
{
    static const char *const no[] = {"off", "0", "no", "false", "OFF"};
    for (size_t i = 0; v && i < sizeof(no) / sizeof(no[0]); i++)
        if (!strcmp(v, no[i]))
            return 1;
    return 0;
}

int hm_find_program(const char *below_prefix, char path_p[1024])
{
    static const char *const up[] = {"/../", "/../../"};
    char dir[PATH_MAX];
    const char *slash = strrchr(self_path, '/');
    if (!slash || (size_t)(slash - self_path) >= sizeof(dir))
        return 0;
    memcpy(dir, self_path, (size_t)(slash - self_path));
    dir[slash - self_path] = 0;
    for (size_t i = 0; i < sizeof(up) / sizeof(up[0]); i++) {
        size_t a = strlen(dir), b = strlen(up[i]), c = strlen(below_prefix);
        if (a + b + c >= 1024)
            return 0;
        memcpy(path_p, dir, a);
        memcpy(path_p + a, up[i], b);
        memcpy(path_p + a + b, below_prefix, c + 1);
        if (!access(path_p, X_OK))
            return 1;
    }
    return 0;
}

/* NCCL loads one plugin: one that was set for it runs behind ours (nccl-plugin/chain.h). "none"
 * stays what it is. */
static void take_plugin_place(void)
{
    const char *other = getenv("NCCL_PROFILER_PLUGIN");
    const char *slash = other ? strrchr(other, '/') : NULL;
    if (other && (strstr(slash ? slash : other, "hindmost") || !strcasecmp(other, "none")))
        return;
    if (other && *other)
        setenv("HINDMOST_CHAIN_PLUGIN", other, 0);
    setenv("NCCL_PROFILER_PLUGIN", HM_SONAME, 1);
}

__attribute__((constructor)) static void arrive(void)
{
    /* HINDMOST=off is looked at before anything else */
    if (says_off(getenv("HINDMOST"))) {
        off = 1;
        return;
    }
    /* Both are absent where an old C library keeps them in libdl and the program has not loaded
     * it: such a program cannot load CUDA or MPI plugins either. */
    if (!dladdr || !dlsym) {
        off = 1;
        return;
    }
    Dl_info info;
    if (dladdr((void *)(uintptr_t)&hm_api_here, &info) && info.dli_fname &&
        !realpath(info.dli_fname, self_path))
        self_path[0] = 0;
    const void *first = dlsym(RTLD_DEFAULT, "hindmost_api_1");
    if (first && first != (const void *)&hm_api_here) {
        static const char line[] = "hindmost: a second copy of the library was loaded and stays "
                                   "idle; load one file only\n";
        off = 1;
        if (write(2, line, sizeof(line) - 1) < 0) /* nobody to tell */
            return;
        return;
    }
    if (!self_path[0])
        return;
    setenv("CUDA_INJECTION64_PATH", self_path, 0);
    setenv("NVTX_INJECTION64_PATH", self_path, 0);
    take_plugin_place();
}

/* Until a CUPTI source is built in, there is none to start. */
__attribute__((weak)) int hm_cupti_start(void)
{
    return 0;
}

HM_EXPORT int InitializeInjection(void);

/* The driver calls this inside cuInit. A CUDA context alone makes no file: before we are awake it
 * is only remembered, hm_wake_finish() starts CUPTI then. */
int InitializeInjection(void)
{
    if (off)
        return 1;
    hm_promote();
    hm_self.injected = 1;
    if (hm_awake()) {
        hm_cupti_start();
        hm_leave_watch(); /* once more: exit handlers run backwards, and CUDA's are older now */
    }
    return 1;
}
