/* `hindmost config`: the settings in force, and where each comes from.
 *
 * Box: merge/cmd.
 */
#include "core/config.h"

#include "cli.h"

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
    {"file", "FILE", "read this hindmost.conf first", NULL, offsetof(struct args, file), 'f',
     HM_OPT_TEXT}};

/* The value as text: what hm_config_print() says for this key. */
static const char *value_of(const char *text, const char *key)
{
    size_t n = strlen(key);
    for (; *text; text += strlen(text) + 1)
        if (!strncmp(text, key, n) && text[n] == '=')
            return text + n + 1;
    return "";
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
    hm_status_t s = HM_OK;
    if (args->file && access(args->file, R_OK))
        s = hm_fail(HM_E_MISSING, args->file, "cannot be read");
    if (!s)
        s = hm_config_load(&config, origin, args->file, environ);
    size_t need = hm_config_print(&config, NULL, 0);
    char *text = calloc(need + 2, 1);
    if (!text) {
        free(origin);
        return hm_fail(HM_E_NOMEM, "config", "out of memory");
    }
    hm_config_print(&config, text, need + 2);
    for (size_t i = 0; i < hm_n_settings; i++) {
        const struct hm_setting *set = &hm_settings[i];
        if (args->help)
            printf("# %s%s%s%s\n", set->help, set->unit && *set->unit ? " (" : "",
                   set->unit ? set->unit : "", set->unit && *set->unit ? ")" : "");
        if (args->all)
            printf("%s = %s  # %s\n", set->key, value_of(text, set->key),
                   from[origin[i] < 4 ? origin[i] : 0]);
        else if (origin[i] != HM_FROM_DEFAULT || args->help)
            printf("%s = %s\n", set->key, value_of(text, set->key));
    }
    free(text);
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
