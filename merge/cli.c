/* Runs a subcommand: options by table, nearest command, help, exit codes.
 *
 * Box: merge.
 */
#include "cli.h"

#include "cli_run.h"
#include "core/text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const struct hm_command hm_cmd_run, hm_cmd_env, hm_cmd_config, hm_cmd_doctor, hm_cmd_ctl,
    hm_cmd_clockd, hm_cmd_report, hm_cmd_merge, hm_cmd_info, hm_cmd_diff, hm_cmd_import,
    hm_cmd_demo, hm_cmd_watch, hm_cmd_why;

const struct hm_command *const hm_commands[] = {
    &hm_cmd_run,    &hm_cmd_report, &hm_cmd_why,    &hm_cmd_merge,  &hm_cmd_info,
    &hm_cmd_import, &hm_cmd_demo,   &hm_cmd_env,    &hm_cmd_config, &hm_cmd_doctor,
    &hm_cmd_diff,   &hm_cmd_ctl,    &hm_cmd_clockd, &hm_cmd_watch,  NULL};

static int wanted_exit;

void hm_cli_exit_code(int code)
{
    wanted_exit = code;
}

static void print_commands(FILE *f)
{
    fprintf(f, "usage: hindmost COMMAND [OPTIONS] [ARGUMENTS]\n\n"
               "Names the straggler of a multi-GPU training job.\n\ncommands:\n");
    for (const struct hm_command *const *c = hm_commands; *c; c++)
        fprintf(f, "  %-8s %s\n", (*c)->name, (*c)->summary);
    fprintf(f, "\n`hindmost COMMAND --help` tells more; `hindmost --version` the version.\n");
}

/* Names of settings are written with '_' in tables and files, with '-' on the command line. */
static const char *shown(const char *name, char text_p[40])
{
    size_t i = 0;
    for (; name[i] && i < 39; i++)
        text_p[i] = name[i] == '_' ? '-' : name[i];
    text_p[i] = 0;
    return text_p;
}

static void print_help(const struct hm_command *c)
{
    printf("usage: hindmost %s%s %s\n\n%s\n", c->name, c->n_opts ? " [OPTIONS]" : "", c->args,
           c->summary);
    if (c->n_opts)
        printf("\noptions:\n");
    for (uint32_t i = 0; i < c->n_opts; i++) {
        const struct hm_option *o = &c->opt[i];
        char name[80], word[40];
        int n = snprintf(name, sizeof(name), "%c%c --%s%s%s", o->letter ? '-' : ' ',
                         o->letter ? o->letter : ' ', shown(o->name, word), o->arg ? " " : "",
                         o->arg ? o->arg : "");
        if (n < 0)
            return;
        printf("  %-28s %s\n", name, o->help);
    }
    if (c->example)
        printf("\nexample:\n  %s\n", c->example);
}

static const struct hm_option *find_option(const struct hm_command *c, const char *name, size_t len)
{
    char word[40];
    for (uint32_t i = 0; i < c->n_opts; i++)
        if (strlen(shown(c->opt[i].name, word)) == len && !strncmp(word, name, len))
            return &c->opt[i];
    return NULL;
}

static hm_status_t set_option(const struct hm_command *c, const struct hm_option *o, void *args,
                              const char *value)
{
    char *field = (char *)args + o->offset;
    if (o->choices && value) {
        const char *const *v = o->choices;
        while (*v && strcmp(*v, value))
            v++;
        if (!*v)
            return hm_fail(HM_E_USAGE, c->name,
                           "--%s: \"%s\" is not one of its values; see hindmost %s --help", o->name,
                           value, c->name);
    }
    switch ((enum hm_option_type)o->type) {
    case HM_OPT_FLAG:
        *(int *)(void *)field = 1;
        return HM_OK;
    case HM_OPT_INT: {
        char *end;
        errno = 0;
        long long v = strtoll(value, &end, 10);
        if (errno || end == value || *end)
            return hm_fail(HM_E_USAGE, c->name, "--%s: \"%s\" is not a whole number", o->name,
                           value);
        *(int64_t *)(void *)field = v;
        return HM_OK;
    }
    case HM_OPT_TEXT:
        *(const char **)(void *)field = value;
        return HM_OK;
    case HM_OPT_LIST: {
        struct hm_option_list *list = (struct hm_option_list *)(void *)field;
        const char **v = realloc(list->v, (list->n + 1) * sizeof(*v));
        if (!v)
            return hm_fail(HM_E_NOMEM, c->name, "out of memory");
        list->v = v;
        v[list->n++] = value;
        return HM_OK;
    }
    }
    return HM_E_BUG;
}

/* Options may stand anywhere before `--`; operands keep their order at the front of argv. For a
 * command whose operands are a program (args begins with "--"), the first operand ends options. */
static hm_status_t parse(const struct hm_command *c, void *args, int *argc, char **argv)
{
    int n = 0, end = 0;
    int program = !strncmp(c->args, "--", 2);
    for (int i = 0; i < *argc; i++) {
        char *a = argv[i];
        if (end || a[0] != '-' || !a[1]) {
            argv[n++] = a;
            end |= program;
            continue;
        }
        if (!strcmp(a, "--")) {
            end = 1;
            continue;
        }
        const struct hm_option *o = NULL;
        const char *value = NULL;
        if (a[1] == '-') {
            size_t len = strcspn(a + 2, "=");
            o = find_option(c, a + 2, len);
            if (a[2 + len] == '=')
                value = a + 2 + len + 1;
        } else {
            for (uint32_t k = 0; k < c->n_opts; k++)
                if (c->opt[k].letter == a[1])
                    o = &c->opt[k];
            if (o && a[2])
                value = a + 2;
        }
        if (!o) {
            char word[40], nearest[40];
            const char *near = NULL;
            unsigned least = 3;
            for (uint32_t k = 0; k < c->n_opts && a[1] == '-'; k++)
                if (hm_text_distance(a + 2, shown(c->opt[k].name, word)) < least) {
                    least = hm_text_distance(a + 2, word);
                    near = shown(c->opt[k].name, nearest);
                }
            return hm_fail(HM_E_USAGE, c->name, "no option %s; %s%s%s", a,
                           near ? "did you mean --" : "see hindmost ", near ? near : c->name,
                           near ? "?" : " --help");
        }
        if (o->type == HM_OPT_FLAG && value)
            return hm_fail(HM_E_USAGE, c->name, "--%s takes no value", o->name);
        if (o->type != HM_OPT_FLAG && !value) {
            /* an optional value (arg in brackets) is only ever given with = */
            if (o->arg && o->arg[0] == '[') {
                value = "";
            } else {
                if (i + 1 >= *argc)
                    return hm_fail(HM_E_USAGE, c->name, "--%s needs a value: %s", o->name, o->arg);
                value = argv[++i];
            }
        }
        hm_status_t s = set_option(c, o, args, value);
        if (s)
            return s;
    }
    argv[n] = NULL;
    *argc = n;
    return HM_OK;
}

int hm_cli_run(int argc, char **argv)
{
    if (argc < 2) {
        print_commands(stderr);
        return 64;
    }
    const char *name = argv[1];
    if (!strcmp(name, "--help") || !strcmp(name, "-h") || !strcmp(name, "help")) {
        print_commands(stdout);
        return 0;
    }
    if (!strcmp(name, "--version")) {
        printf("hindmost %s\n", HM_VERSION);
        return 0;
    }
    const struct hm_command *cmd = NULL, *near = NULL;
    unsigned least = 3;
    for (const struct hm_command *const *c = hm_commands; *c; c++) {
        unsigned d = hm_text_distance(name, (*c)->name);
        if (d == 0)
            cmd = *c;
        if (d < least) {
            least = d;
            near = *c;
        }
    }
    if (!cmd) {
        hm_say(HM_SAY_ERROR, "%s: no such command; %s%s%s", name,
               near ? "did you mean `hindmost " : "see ", near ? near->name : "`hindmost --help",
               "`");
        return 64;
    }
    void *args = calloc(1, cmd->args_bytes + 1);
    if (!args)
        return 1;
    argc -= 2;
    argv += 2;
    for (int i = 0; i < argc && strcmp(argv[i], "--"); i++) {
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
            print_help(cmd);
            free(args);
            return 0;
        }
        if (!strncmp(cmd->args, "--", 2) && argv[i][0] != '-')
            break;
    }
    hm_status_t s = parse(cmd, args, &argc, argv);
    if (s == HM_OK)
        s = cmd->run(args, argc, argv);
    for (uint32_t i = 0; i < cmd->n_opts; i++)
        if (cmd->opt[i].type == HM_OPT_LIST)
            free(((struct hm_option_list *)(void *)((char *)args + cmd->opt[i].offset))->v);
    free(args);
    errno = 0;
    if (fflush(stdout) || ferror(stdout)) {
        if (errno == EPIPE) /* the reader has seen enough: no fault of ours, and no news */
            return 1;
        hm_say(HM_SAY_ERROR, "stdout: could not be written");
        return 1;
    }
    return s < 0 ? hm_status_exit(s) : wanted_exit;
}
