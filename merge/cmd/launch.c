/* The variables that start the recorder in a program and its children.
 *
 * Box: merge/cmd. Used by `run`, which sets them and execs, and `env`, which prints them.
 */
#include "cmd/launch.h"

#include "core/config.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

extern char **environ;

#define SONAME "libnccl-profiler-hindmost.so"

/* The folder that holds bin/: an install tree or a build tree. */
static hm_status_t find_prefix(char exe[PATH_MAX])
{
    ssize_t n = readlink("/proc/self/exe", exe, PATH_MAX - 1);
    if (n < 0)
        return hm_fail(HM_E_SYS, "run", "/proc/self/exe cannot be read");
    exe[n] = 0;
    for (int up = 0; up < 2; up++) {
        char *slash = strrchr(exe, '/');
        if (slash)
            *slash = 0;
    }
    return HM_OK;
}

/* The library lies beside bin/, in lib/ or a folder below it. */
hm_status_t hm_launch_library(char path_p[PATH_MAX])
{
    static const char *const dirs[] = {"lib", "lib64", "lib/x86_64-linux-gnu",
                                       "lib/aarch64-linux-gnu"};
    char prefix[PATH_MAX], try[PATH_MAX + 64];
    hm_status_t s = find_prefix(prefix);
    if (s)
        return s;
    for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
        snprintf(try, sizeof(try), "%s/%s/" SONAME, prefix, dirs[i]);
        if (realpath(try, path_p))
            return HM_OK;
    }
    return hm_fail(HM_E_MISSING, SONAME, "not found beside %s/bin; reinstall hindmost", prefix);
}

const char *hm_launch_python(int argc, char **argv)
{
    static char path[2 * PATH_MAX];
    char prefix[PATH_MAX];
    for (int i = 0; i + 1 < argc; i++) {
        if (strcmp(argv[i], "-m") != 0 || strcmp(argv[i + 1], "hindmost") != 0)
            continue;
        const char *before = getenv("PYTHONPATH");
        if (find_prefix(prefix))
            return NULL;
        int n = snprintf(path, sizeof(path), "%s%s%s/share/hindmost/python", before ? before : "",
                         before && *before ? ":" : "", prefix);
        int there = n > 0 && (size_t)n < sizeof(path) &&
                    !access(path + (before && *before ? strlen(before) + 1 : 0), R_OK);
        return there ? path : NULL;
    }
    return NULL;
}

struct list {
    struct hm_launch_var *var;
    size_t n;
};

static void add(struct list *l, const char *name, const char *value)
{
    if (l->n + 1 >= HM_LAUNCH_VARS)
        return;
    snprintf(l->var[l->n].name, sizeof(l->var[l->n].name), "%s", name);
    l->var[l->n++].value = value;
    l->var[l->n].value = NULL;
}

static hm_status_t add_setting(struct list *l, const char *key, const char *value)
{
    static struct hm_config scratch;
    static char full[PATH_MAX];
    char name[64];
    if (!value)
        return HM_OK;
    hm_status_t s = hm_config_option(&scratch, key, value);
    if (s)
        return s; /* it has said what is wrong */
    /* ranks may be started in other folders than this command */
    if (!strcmp(key, "out") && value[0] != '/') {
        char cwd[PATH_MAX / 2];
        if (!getcwd(cwd, sizeof(cwd)))
            return hm_fail(HM_E_SYS, "run", "the current folder is gone");
        snprintf(full, sizeof(full), "%s/%s", cwd, value);
        value = full;
    }
    int n = snprintf(name, sizeof(name), "HINDMOST_%s", key);
    for (int i = 0; i < n; i++)
        if (name[i] >= 'a' && name[i] <= 'z')
            name[i] = (char)(name[i] - 'a' + 'A');
    add(l, name, value);
    return HM_OK;
}

hm_status_t hm_launch_vars(const struct hm_launch_args *args, int preload,
                           struct hm_launch_var var_p[HM_LAUNCH_VARS])
{
    static char library[PATH_MAX], chain[2 * PATH_MAX];
    struct list l = {var_p, 0};
    var_p[0].value = NULL;
    hm_status_t s = hm_launch_library(library);
    /* a variable that the recorder would only grumble at: here somebody is there to repair it */
    static struct hm_config scratch;
    if (!s)
        s = hm_config_load(&scratch, NULL, NULL, environ);
#define HM_SETTING(field, type, def, min, max, unit, help) \
    if (!s)                                                \
        s = add_setting(&l, #field, args->field);
#include "core/config.def"
#undef HM_SETTING
    if (s)
        return s;
    const char *before = getenv("LD_PRELOAD");
    if (preload && !(before && strstr(before, "hindmost"))) {
        snprintf(chain, sizeof(chain), "%s%s%s", library, before && *before ? ":" : "",
                 before ? before : "");
        add(&l, "LD_PRELOAD", chain);
    }
    /* a program that set them itself keeps its choice */
    if (!getenv("CUDA_INJECTION64_PATH"))
        add(&l, "CUDA_INJECTION64_PATH", library);
    if (!getenv("NVTX_INJECTION64_PATH"))
        add(&l, "NVTX_INJECTION64_PATH", library);
    /* NCCL loads one plugin: one that was set runs behind ours. The bare name is found only by a
     * process that has the library already. */
    const char *other = getenv("NCCL_PROFILER_PLUGIN");
    const char *slash = other ? strrchr(other, '/') : NULL;
    int ours = other && (strstr(slash ? slash : other, "hindmost") || !strcasecmp(other, "none"));
    if (other && *other && !ours && !args->chain_plugin && !getenv("HINDMOST_CHAIN_PLUGIN"))
        add(&l, "HINDMOST_CHAIN_PLUGIN", other);
    if (!ours)
        add(&l, "NCCL_PROFILER_PLUGIN", preload ? SONAME : library);
    return HM_OK;
}
