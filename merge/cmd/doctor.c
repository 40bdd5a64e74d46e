/* `hindmost doctor`: can this machine record, and what will be missing?
 *
 * Box: merge/cmd. Looks at this host as the current user, in the current environment. What must be
 * loaded to be looked at (CUPTI, NCCL, MPI) is loaded by a child with a time limit: a broken
 * installation may crash or hang whoever opens it.
 */
#include "cmd/doctor.h"

#include "cli.h"
#include "cmd/launch.h"
#include "core/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHILD_SECONDS = 30 };

extern char **environ;
static unsigned n_bad;

void hm_doctor_say(enum hm_finding finding, const char *subject, const char *fmt, ...)
{
    static const char *const word[] = {"ok", "note", "BAD"};
    va_list ap;
    printf("%-5s %-10s ", word[finding], subject);
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    putchar('\n');
    n_bad += finding == HM_FOUND_BAD;
}

unsigned hm_doctor_n_bad(void)
{
    return n_bad;
}

/* First line of a file, "" when there is none. */
static const char *line_of(const char *path, char text_p[256])
{
    text_p[0] = 0;
    FILE *f = fopen(path, "re");
    if (f && fgets(text_p, 256, f))
        text_p[strcspn(text_p, "\n")] = 0;
    if (f)
        fclose(f);
    return text_p;
}

static void look_at_installation(char library_p[PATH_MAX])
{
    char writer[PATH_MAX + 64];
    if (hm_launch_library(library_p)) { /* it has said so */
        library_p[0] = 0;
        n_bad++;
        return;
    }
    hm_doctor_say(HM_FOUND_GOOD, "recorder", "%s", library_p);
    static const char *const up[] = {"/..", "/../.."};
    char *slash = strrchr(library_p, '/');
    for (size_t i = 0; i < 2; i++) {
        snprintf(writer, sizeof(writer), "%.*s%s/libexec/hindmost/hindmost-writer",
                 (int)(slash - library_p), library_p, up[i]);
        if (!access(writer, X_OK))
            return;
    }
    hm_doctor_say(HM_FOUND_BAD, "writer",
                  "hindmost-writer is not beside the library; reinstall, or set HINDMOST_WRITER");
}

static void look_at_settings(struct hm_config *config_p)
{
    if (hm_config_load(config_p, NULL, NULL, environ)) /* each was said */
        hm_doctor_say(HM_FOUND_BAD, "settings", "a HINDMOST_ variable is wrong (above); repair it");
    const char *off = getenv("HINDMOST");
    if (off && (!strcmp(off, "off") || !strcmp(off, "0") || !strcmp(off, "no")))
        hm_doctor_say(HM_FOUND_BAD, "settings", "HINDMOST=%s switches everything off; unset it",
                      off);
    static const char *const ways[] = {"CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH",
                                       "NCCL_PROFILER_PLUGIN"};
    static const char *const lost[] = {
        "kernels are recorded only once NCCL or hm_step() has started us",
        "NVTX ranges go there and not to hindmost",
        "it runs behind hindmost when it speaks the same interface (HINDMOST_CHAIN)"};
    for (size_t i = 0; i < 3; i++) {
        const char *value = getenv(ways[i]);
        if (value && *value && !strstr(value, "hindmost"))
            hm_doctor_say(HM_FOUND_NOTE, "other tool", "%s=%s: %s", ways[i], value, lost[i]);
    }
    const char *preload = getenv("LD_PRELOAD");
    if (preload && *preload)
        hm_doctor_say(HM_FOUND_NOTE, "preload", "LD_PRELOAD=%s; hindmost is put before it",
                      preload);
}

static void look_at_kernel(void)
{
    struct utsname name;
    int major = 0, minor = 0;
    if (uname(&name))
        return;
    if (sscanf(name.release, "%d.%d", &major, &minor) == 2 &&
        (major < 3 || (major == 3 && minor < 17)))
        hm_doctor_say(HM_FOUND_BAD, "kernel", "Linux %s has no memfd; 3.17 is needed",
                      name.release);
    else if (major < 4 || (major == 4 && minor < 14))
        hm_doctor_say(HM_FOUND_NOTE, "kernel",
                      "Linux %s: children made by clone() directly are not told apart; 4.14 does",
                      name.release);
    else
        hm_doctor_say(HM_FOUND_GOOD, "kernel", "Linux %s on %s", name.release, name.machine);
    int fd = (int)syscall(SYS_memfd_create, "hindmost-doctor", 1U);
    if (fd < 0 || ftruncate(fd, 4096))
        hm_doctor_say(HM_FOUND_BAD, "memory", "no shared memory can be made: %s", strerror(errno));
    if (fd >= 0)
        close(fd);
}

static void look_at_clock(void)
{
    char source[256];
    double cost = 1e9;
    for (int batch = 0; batch < 50; batch++) { /* the best of them: others may be interrupted */
        int64_t t0 = hm_now(), now = t0;
        for (int i = 0; i < 1000; i++)
            now = hm_now();
        if ((double)(now - t0) / 1000 < cost)
            cost = (double)(now - t0) / 1000;
    }
    line_of("/sys/devices/system/clocksource/clocksource0/current_clocksource", source);
    if (cost > 200)
        hm_doctor_say(
            HM_FOUND_NOTE, "clock",
            "%s, %.0f ns a reading: every event costs twice that; the kernel's own choice "
            "is in dmesg (look for clocksource)",
            *source ? source : "unknown source", cost);
    else
        hm_doctor_say(HM_FOUND_GOOD, "clock", "%s, %.0f ns a reading",
                      *source ? source : "unknown source", cost);
}

static void look_at_limits(const struct hm_config *config)
{
    struct rlimit limit;
    if (!getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur != RLIM_INFINITY &&
        limit.rlim_cur < (rlim_t)config->pool)
        hm_doctor_say(limit.rlim_cur < 4 << 20 ? HM_FOUND_BAD : HM_FOUND_NOTE, "limits",
                      "files may have %llu bytes (ulimit -f): the pool of %lld shrinks to that; "
                      "below 4 MiB nothing is recorded",
                      (unsigned long long)limit.rlim_cur, (long long)config->pool);
    if (!getrlimit(RLIMIT_MEMLOCK, &limit) && limit.rlim_cur != RLIM_INFINITY &&
        !access("/sys/class/infiniband", F_OK))
        hm_doctor_say(HM_FOUND_NOTE, "limits",
                      "memory that may be locked: %llu KiB (ulimit -l); InfiniBand wants unlimited "
                      "(hindmost itself locks none)",
                      (unsigned long long)limit.rlim_cur / 1024);
}

static void look_at_container(void)
{
    char name[256], scope[256];
    int inside = !access("/.dockerenv", F_OK) || !access("/run/.containerenv", F_OK) ||
                 getenv("SINGULARITY_NAME") || getenv("APPTAINER_NAME") ||
                 getenv("KUBERNETES_SERVICE_HOST");
    line_of("/proc/1/comm", name);
    if (inside)
        hm_doctor_say(HM_FOUND_NOTE, "container",
                      "its first process is `%s`: when that ends, the writers end too, and what "
                      "came after their last flush (HINDMOST_FLUSH_MS) is lost",
                      *name ? name : "?");
    else
        hm_doctor_say(HM_FOUND_GOOD, "container", "none seen");
    line_of("/proc/sys/kernel/yama/ptrace_scope", scope);
    if (*scope && strcmp(scope, "0") != 0)
        hm_doctor_say(HM_FOUND_GOOD, "ptrace",
                      "restricted (yama %s): hindmost needs none, debuggers of a hanging rank do",
                      scope);
}

static void look_at_folder(const struct hm_config *config)
{
    static const struct {
        long magic;
        const char *name;
    } shared[] = {{0x6969, "NFS"}, {0x0BD00BD0, "Lustre"}, {0x47504653, "GPFS"}};
    char dir[1100];
    struct stat st;
    struct statvfs fs;
    struct statfs kind;
    snprintf(dir, sizeof(dir), "%s", config->out[0] ? config->out : "hindmost.out");
    while (stat(dir, &st)) { /* the nearest folder that is there */
        char *slash = strrchr(dir, '/');
        if (!slash) {
            snprintf(dir, sizeof(dir), ".");
            break;
        }
        slash[slash == dir] = 0;
    }
    if (stat(dir, &st) || !S_ISDIR(st.st_mode) || access(dir, W_OK | X_OK)) {
        hm_doctor_say(HM_FOUND_BAD, "folder", "%s cannot be written; set HINDMOST_OUT", dir);
        return;
    }
    const char *name = "";
    for (size_t i = 0; !statfs(dir, &kind) && i < sizeof(shared) / sizeof(shared[0]); i++)
        if ((long)kind.f_type == shared[i].magic)
            name = shared[i].name;
    unsigned long long mib =
        statvfs(dir, &fs) ? 0 : (unsigned long long)fs.f_bavail * fs.f_frsize >> 20;
    hm_doctor_say(mib < 100 ? HM_FOUND_NOTE : HM_FOUND_GOOD, "folder",
                  "%s can be written, %llu MiB free%s%s%s", dir, mib, *name ? ", on " : "", name,
                  mib < 100 ? "; a million events take about 10 MiB" : "");
}

static void in_child(const char *what, void (*look)(const struct hm_config *),
                     const struct hm_config *config)
{
    int status;
    fflush(stdout);
    pid_t pid = fork();
    if (!pid) {
        alarm(CHILD_SECONDS);
        n_bad = 0;
        look(config);
        fflush(stdout);
        _exit((int)(n_bad < 100 ? n_bad : 100));
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        hm_doctor_say(HM_FOUND_NOTE, what, "could not be looked at: %s", strerror(errno));
    else if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
        hm_doctor_say(HM_FOUND_BAD, what, "loading it takes more than %d s: it hangs",
                      CHILD_SECONDS);
    else if (WIFSIGNALED(status))
        hm_doctor_say(HM_FOUND_BAD, what, "loading it crashes (%s); this installation is broken",
                      strsignal(WTERMSIG(status)));
    else
        n_bad += (unsigned)WEXITSTATUS(status);
}

static hm_status_t doctor_run(const void *args, int argc, char **argv)
{
    static struct hm_config config;
    char library[PATH_MAX] = "";
    (void)args;
    if (argc)
        return hm_fail(HM_E_USAGE, "doctor", "\"%s\" is not expected", argv[0]);
    n_bad = 0;
    look_at_installation(library);
    look_at_settings(&config);
    look_at_kernel();
    look_at_clock();
    look_at_limits(&config);
    look_at_container();
    look_at_folder(&config);
    in_child("gpu", hm_doctor_gpu, &config);
    in_child("nccl", hm_doctor_nccl, &config);
    in_child("mpi", hm_doctor_mpi, &config);
    if (n_bad)
        hm_cli_exit_code(1);
    return HM_OK;
}

const struct hm_command hm_cmd_doctor = {"doctor",
                                         "",
                                         "says what this machine can record, and what is missing",
                                         "mpirun -np 1 hindmost doctor",
                                         NULL,
                                         0,
                                         0,
                                         doctor_run};
