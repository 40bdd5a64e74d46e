/* What `run` and `env` share: the variables that start the recorder. Box: merge/cmd. */
#ifndef HM_CMD_LAUNCH_H
#define HM_CMD_LAUNCH_H

#include "cli.h"

/* One row a setting: field of the arguments, option name, argument, help. The setting's key is the
 * field's name. */
#define HM_LAUNCH_SETTINGS(X)                                                                 \
    X(out, "out", "DIR", "run folder itself (default hindmost.out/<run>)")                    \
    X(run, "run", "ID", "run id (default: from the launcher)")                                \
    X(pool, "pool", "BYTES", "shared memory a rank, e.g. 64M")                                \
    X(kernels, "kernels", "on|off", "record GPU kernels and copies through CUPTI")            \
    X(sync, "sync", "on|off", "record host synchronisation")                                  \
    X(memory, "memory", "on|off", "record device memory operations")                          \
    X(proxy_steps, "proxy-steps", "on|off", "record each step of NCCL's proxy")               \
    X(kernel_ch, "kernel-ch", "on|off", "record NCCL's own kernel stamps, per channel")       \
    X(kernel_phases, "kernel-phases", "on|off", "the same per phase of a kernel (NCCL 2.31)") \
    X(chain, "chain", "on|off", "run an NCCL profiler plugin that was configured already")    \
    X(chain_plugin, "chain-plugin", "FILE", "that plugin, instead of the configured one")     \
    X(steps, "steps", "N..M", "record these steps only")                                      \
    X(step_range, "step-range", "NAME", "NVTX range that marks a step")                       \
    X(flush_ms, "flush-ms", "MS", "time between flushes of the rank file")                    \
    X(finish_ms, "finish-ms", "MS", "limit for the last flush of the GPU's records")          \
    X(exit_wait_ms, "exit-wait-ms", "MS", "limit for waiting on the complete file at exit")   \
    X(clock_window_ms, "clock-window-ms", "MS", "time between clock probe windows")           \
    X(digest, "digest", "on|off", "print three lines at the end")                             \
    X(cupti, "cupti", "FILE", "libcupti to use")                                              \
    X(health, "health", "on|off", "sample the host, the container and the GPU")               \
    X(nvml, "nvml", "FILE", "libnvidia-ml to use")                                            \
    X(writer, "writer", "FILE", "hindmost-writer to use")

struct hm_launch_args {
    int dry, preload, no_preload;
#define HM_FIELD(field, name, arg, help) const char *field;
    HM_LAUNCH_SETTINGS(HM_FIELD)
#undef HM_FIELD
};
#define HM_LAUNCH_OPTION(field, name, arg, help) \
    {name, arg, help, NULL, offsetof(struct hm_launch_args, field), 0, HM_OPT_TEXT},

/** One variable of the list; value NULL = end. */
struct hm_launch_var {
    char name[64];
    const char *value;
};
enum { HM_LAUNCH_VARS = 48 };
/** Fills the variables that the recorder needs: HINDMOST_* from the options (checked), the three
 *  plugin variables where unset, LD_PRELOAD when `preload`. Strings are owned by the process. */
hm_status_t hm_launch_vars(const struct hm_launch_args *args, int preload,
                           struct hm_launch_var var_p[HM_LAUNCH_VARS]);
/** PYTHONPATH with the folder of `python -m hindmost` at its end when the command asks for that
 *  module; NULL = it does not, or the folder is not there. Owned by the process. */
const char *hm_launch_python(int argc, char **argv);

#endif
