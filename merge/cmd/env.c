/* `hindmost env`: prints the variables that `hindmost run` would set, for a shell to evaluate.
 *
 * Box: merge/cmd.
 */
#include "cli.h"
#include "cmd/launch.h"

#include <stdio.h>

static const struct hm_option options[] = {
    {"preload", NULL, "with LD_PRELOAD", NULL, offsetof(struct hm_launch_args, preload), 0,
     HM_OPT_FLAG},

#define HM_SETTING HM_LAUNCH_OPTION
#include "core/config.def"
#undef HM_SETTING
};

static void print_quoted(const char *text)
{
    putchar('\'');
    for (; *text; text++) {
        if (*text == '\'')
            fputs("'\\''", stdout);
        else
            putchar(*text);
    }
    putchar('\'');
}

static hm_status_t env_run(const void *arguments, int argc, char **argv)
{
    const struct hm_launch_args *args = arguments;
    struct hm_launch_var var[HM_LAUNCH_VARS];
    if (argc)
        return hm_fail(HM_E_USAGE, "env", "\"%s\" is not expected; to run a program: hindmost run",
                       argv[0]);
    hm_status_t s = hm_launch_vars(args, args->preload, var);
    if (s)
        return s;
    for (size_t i = 0; var[i].value; i++) {
        printf("export %s=", var[i].name);
        print_quoted(var[i].value);
        putchar('\n');
    }
    return HM_OK;
}

const struct hm_command hm_cmd_env = {"env",
                                      "",
                                      "prints the variables that start the recorder",
                                      "eval \"$(hindmost env --preload)\"",
                                      options,
                                      sizeof(options) / sizeof(options[0]),
                                      sizeof(struct hm_launch_args),
                                      env_run};
