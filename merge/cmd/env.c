/* `hindmost env`: not built yet.
 *
 * Box: merge/cmd.
 */
#include "cli.h"

static hm_status_t env_run(const void *args, int argc, char **argv)
{
    (void)args;
    (void)argc;
    (void)argv;
    return hm_fail(HM_E_MISSING, "env", "this command is not built yet");
}

const struct hm_command hm_cmd_env = {"env", "", "(not built yet)", NULL, NULL, 0, 0, env_run};
