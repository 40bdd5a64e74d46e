/* `hindmost import`: traces of other tools become a run.
 *
 * Box: merge/cmd.
 */
#include "import/import.h"

#include "cli.h"

#include <string.h>
#include <sys/stat.h>

struct args {
    const char *out;
};

static hm_status_t import_run(const void *p, int argc, char **argv)
{
    const struct args *a = p;
    struct stat sb;
    if (argc < 1)
        return hm_fail(HM_E_USAGE, "import", "from what? kineto FILES... -o RUN");
    if (!strcmp(argv[0], "nsys") || !strcmp(argv[0], "inspector"))
        return hm_fail(HM_E_MISSING, "import", "%s: this format is not built yet", argv[0]);
    if (strcmp(argv[0], "kineto") != 0)
        return hm_fail(HM_E_USAGE, "import", "\"%s\" is no known format; kineto is", argv[0]);
    if (!a->out)
        return hm_fail(HM_E_USAGE, "import", "where to? name a new folder with -o");
    if (argc < 2)
        return hm_fail(HM_E_USAGE, "import", "no files; name the traces, one a rank");
    if (argc == 2 && !stat(argv[1], &sb) && S_ISDIR(sb.st_mode))
        return hm_import_kineto_folder(argv[1], a->out);
    return hm_import_kineto((const char *const *)argv + 1, (uint32_t)argc - 1, a->out);
}

static const struct hm_option options[] = {
    {"output", "RUN", "new run folder", NULL, offsetof(struct args, out), 'o', HM_OPT_TEXT},
};

const struct hm_command hm_cmd_import = {
    "import",
    "kineto FILES...|FOLDER",
    "make a run of torch.profiler traces, one file a rank",
    "hindmost import kineto trace_*.json.gz -o imported.run && hindmost report imported.run",
    options,
    sizeof(options) / sizeof(options[0]),
    sizeof(struct args),
    import_run};
