/* `hindmost config`: not built yet.
 *
 * Box: merge/cmd.
 */
#include "cli.h"

static hm_status_t config_run(const void *args, int argc, char **argv)
{
    (void)args;
    (void)argc;
    (void)argv;
    return hm_fail(HM_E_MISSING, "config", "this command is not built yet");
}

const struct hm_command hm_cmd_config = {"config", "", "(not built yet)", NULL, NULL,
                                         0,        0,  config_run};
