/* `hindmost config`: the settings in force, and where each comes from.
 *
 * Box: merge/cmd.
 */
#include "core/config.h"

#include "cli.h"
#include "cmd/launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

struct args {
    int all, help;
    const char *file;
};

static const struct hm_option options[] = {
    {"all", NULL, "every setting with its origin (default, file, environment)", NULL,
     offsetof(struct args, all), 'a', HM_OPT_FLAG},
    {"describe", NULL, "what each setting means", NULL, offsetof(struct args, help), 'd',
     HM_OPT_FLAG},
    {"file", "FILE", "read this file instead of hindmost.conf beside the library", NULL,
     offsetof(struct args, file), 'f', HM_OPT_TEXT}};

/* What the recorder reads too: hindmost.conf in the folder of the library. NULL = there is none. */
static const char *file_beside(char path_p[PATH_MAX + 16])
{
    char library[PATH_MAX];
    char *slash = hm_launch_library(library) ? NULL : strrchr(library, '/');
    if (!slash)
        return NULL;
    snprintf(path_p, PATH_MAX + 16, "%.*s/hindmost.conf", (int)(slash - library), library);
    return access(path_p, R_OK) ? NULL : path_p;
}

static hm_status_t config_run(const void *arguments, int argc, char **argv)
{
    static const char *const from[] = {"default", "file", "environment", "option"};
    const struct args *args = arguments;
    if (argc)
        return hm_fail(HM_E_USAGE, "config", "\"%s\" is not expected", argv[0]);
    struct hm_config config;
    uint8_t *origin = calloc(hm_n_settings + 1, 1);
    if (!origin)
        return hm_fail(HM_E_NOMEM, "config", "out of memory");
    memset(&config, 0, sizeof(config));
    char beside[PATH_MAX + 16];
    const char *file = args->file ? args->file : file_beside(beside);
    hm_status_t s = HM_OK;
    if (args->file && access(args->file, R_OK))
        s = hm_fail(HM_E_MISSING, args->file, "cannot be read");
    if (!s)
        s = hm_config_load(&config, origin, file, environ);
    for (size_t i = 0; i < hm_n_settings; i++) {
        const struct hm_setting *set = &hm_settings[i];
        char value[1100];
        hm_config_value(&config, i, value, sizeof(value));
        if (args->help)
            printf("# %s%s%s%s\n", set->help, set->unit && *set->unit ? " (" : "",
                   set->unit ? set->unit : "", set->unit && *set->unit ? ")" : "");
        if (args->all)
            printf("%s = %s  # %s\n", set->key, value, from[origin[i] < 4 ? origin[i] : 0]);
        else if (origin[i] != HM_FROM_DEFAULT || args->help)
            printf("%s = %s\n", set->key, value);
    }
    free(origin);
    return s;
}

const struct hm_command hm_cmd_config = {"config",
                                         "",
                                         "prints the settings in force",
                                         "hindmost config -a",
                                         options,
                                         sizeof(options) / sizeof(options[0]),
                                         sizeof(struct args),
                                         config_run};
