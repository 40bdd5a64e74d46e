/* What `run` and `env` share: the variables that start the recorder. Box: merge/cmd. */
#ifndef HM_CMD_LAUNCH_H
#define HM_CMD_LAUNCH_H

#include "cli.h"

#include <limits.h>

/* Every setting of core/config.def is an option, its key with '-' for '_', and a text here. */
struct hm_launch_args {
    int dry, preload, no_preload;
#define HM_SETTING(field, type, def, min, max, unit, help) const char *field;
#include "core/config.def"
#undef HM_SETTING
};
#define HM_LAUNCH_ARG_TEXT "TEXT"
#define HM_LAUNCH_ARG_BOOL "on|off"
#define HM_LAUNCH_ARG_INT  "N"
#define HM_LAUNCH_ARG_SIZE "BYTES"
#define HM_LAUNCH_ARG_MS   "TIME"
/* as HM_SETTING before core/config.def is included among the rows of options */
#define HM_LAUNCH_OPTION(field, type, def, min, max, unit, help)                       \
    {#field, HM_LAUNCH_ARG_##type, help, NULL, offsetof(struct hm_launch_args, field), \
     0,      HM_OPT_TEXT},

/** Path of the recorder's library beside this program. HM_OK, HM_E_MISSING (said). */
hm_status_t hm_launch_library(char path_p[PATH_MAX]);
/** One variable of the list; value NULL = end. */
struct hm_launch_var {
    char name[64];
    const char *value;
};
enum { HM_LAUNCH_VARS = 64 };
/** Fills the variables that the recorder needs: HINDMOST_* from the options (checked), the three
 *  plugin variables where unset, LD_PRELOAD when `preload`. Strings are owned by the process. */
hm_status_t hm_launch_vars(const struct hm_launch_args *args, int preload,
                           struct hm_launch_var var_p[HM_LAUNCH_VARS]);
/** PYTHONPATH with the folder of `python -m hindmost` at its end when the command asks for that
 *  module; NULL = it does not, or the folder is not there. Owned by the process. */
const char *hm_launch_python(int argc, char **argv);

#endif
