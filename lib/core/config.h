/* Settings: one table (config.def) behind the environment, the file and the command line.
 *
 * Box: lib/core. The recorder loads them once, at waking; the writer reads them from the pool.
 */
#ifndef HM_CONFIG_H
#define HM_CONFIG_H

#include "core/status.h"

#include <stddef.h>
#include <stdint.h>

/** Field widths of text settings follow config.def; see there for default, range, unit and help. */
struct hm_config {
    char out[1024];               /* run folder itself; empty = hindmost.out/<run> */
    char run[128];                /* run id; empty = from the launcher */
    int64_t pool;                 /* bytes of shared memory a rank */
    int32_t kernels;              /* 0 off, 1 on */
    int32_t sync;                 /* 0 off, 1 on: host synchronisation records */
    int32_t memory;               /* 0 off, 1 on */
    int32_t proxy_steps;          /* 0 off, 1 on */
    int32_t kernel_ch;            /* 0 off, 1 on: NCCL's own stamps of its kernels, per channel */
    int32_t kernel_phases, chain; /* 0 off, 1 on */
    char chain_plugin[1024];      /* plugin to run behind ours; empty = the configured one */
    char steps[64];               /* window of steps "N..M" or empty */
    int64_t step_every;           /* of these, every n-th */
    char step_range[128];         /* NVTX range that marks steps */
    int64_t start_after_ms, record_for_ms; /* 0 = at once; 0 = to the end */
    int64_t max_events, max_bytes;         /* budget of a rank, 0 = none */
    int64_t watchdog_ms;                   /* 0 = off */
    int64_t flush_ms, finish_ms, exit_wait_ms, clock_window_ms;
    int32_t digest;    /* 1 = three lines at the end */
    char cupti[1024];  /* path of libcupti; empty = search */
    char writer[1024]; /* path of hindmost-writer; empty = beside the library */
    int32_t health;    /* 1 = sample host, container and GPU */
    char nvml[1024];   /* path of libnvidia-ml; empty = search */
};

enum hm_origin { HM_FROM_DEFAULT, HM_FROM_FILE, HM_FROM_ENV, HM_FROM_OPTION };
enum hm_setting_type { HM_SET_TEXT, HM_SET_BOOL, HM_SET_INT, HM_SET_SIZE, HM_SET_MS };
struct hm_setting {
    const char *key;     /* "pool"; environment HINDMOST_POOL */
    uint8_t type, bytes; /* enum hm_setting_type; size of an integer field */
    uint16_t offset, cap;
    const char *def;
    int64_t min, max;
    const char *unit, *help;
};
extern const struct hm_setting hm_settings[];
extern const size_t hm_n_settings;

/** Loads defaults, then file (may be NULL), then HINDMOST_* of envp. Unknown or bad entries: one
 *  hm_say line each, with the nearest name; the default stays. origin_p[hm_n_settings] may be NULL.
 *  HM_OK, or HM_E_USAGE when anything was unknown or bad (settings are filled in all the same). */
hm_status_t hm_config_load(struct hm_config *config_p, uint8_t origin_p[], const char *file,
                           char *const *envp);
hm_status_t hm_config_set(struct hm_config *config, const char *key, const char *value);
/** The same for an option of the tool: what is wrong is said. */
hm_status_t hm_config_option(struct hm_config *config, const char *key, const char *value);
/** The value of hm_settings[i] as text; returns its length, as snprintf() does. */
size_t hm_config_value(const struct hm_config *config, size_t i, char *text_p, size_t cap);
/** Nearest setting name (edit distance <= 2) or NULL. */
const char *hm_config_nearest(const char *key);
/** "key=value\0key=value\0\0" into text_p, texts last and only where they are not the default;
 *  returns bytes used or needed. What does not fit is left out whole. */
size_t hm_config_print(const struct hm_config *config, char *text_p, size_t cap);
/** Reads what hm_config_print() wrote. */
hm_status_t hm_config_parse(struct hm_config *config_p, const char *text, size_t len);

#endif
