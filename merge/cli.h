/* The command line: one row per subcommand and per option.
 *
 * Box: merge. Every cmd/NAME.c defines `const struct hm_command hm_cmd_NAME`.
 */
#ifndef HM_CLI_H
#define HM_CLI_H

#include "core/status.h"

#include <stddef.h>
#include <stdint.h>

/* hm_option.type and the C type of the field at `offset` */
enum hm_option_type {
    HM_OPT_FLAG, /* int: set to 1 */
    HM_OPT_INT,  /* int64_t */
    HM_OPT_TEXT, /* const char * */
    HM_OPT_LIST  /* struct hm_option_list: may be given several times */
};
struct hm_option_list {
    const char **v;
    uint32_t n;
};
struct hm_option {
    const char *name, *arg, *help;
    const char *const *choices;
    uint16_t offset;
    char letter;
    uint8_t type;
};
struct hm_command {
    const char *name, *args, *summary, *example;
    const struct hm_option *opt;
    uint32_t n_opts, args_bytes;
    hm_status_t (*run)(const void *args, int argc, char **argv);
};

extern const struct hm_command *const hm_commands[]; /* NULL at the end */
/** Exit status that a command wants although nothing failed (--fail-on: 3 or 4). */
void hm_cli_exit_code(int code);

#endif
