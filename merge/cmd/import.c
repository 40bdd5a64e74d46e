/* `hindmost import`: traces of other tools become a run.
 *
 * Box: merge/cmd.
 */
#include "cli.h"
#include "import/foreign.h"

#include <string.h>

struct args {
    const char *out;
};

static hm_status_t import_run(const void *p, int argc, char **argv)
{
    static const struct {
        const char *name;
        enum hm_foreign format;
    } known[] = {{"kineto", HM_FOREIGN_KINETO},
                 {"nsys", HM_FOREIGN_NSYS},
                 {"inspector", HM_FOREIGN_INSPECTOR}};
    const struct args *a = p;
    enum hm_foreign format = HM_FOREIGN_NONE;
    if (argc < 1)
        return hm_fail(HM_E_USAGE, "import",
                       "from what? kineto, nsys or inspector, FILES..., -o RUN");
    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
        if (!strcmp(known[i].name, argv[0]))
            format = known[i].format;
    if (!format)
        return hm_fail(HM_E_USAGE, "import",
                       "\"%s\" is no known format; kineto, nsys and inspector are", argv[0]);
    if (!a->out)
        return hm_fail(HM_E_USAGE, "import", "where to? name a new folder with -o");
    if (argc < 2)
        return hm_fail(HM_E_USAGE, "import", "no files; name the traces");
    return hm_import_foreign(format, (const char *const *)argv + 1, (uint32_t)argc - 1, a->out);
}

static const struct hm_option options[] = {
    {"output", "RUN", "new run folder", NULL, offsetof(struct args, out), 'o', HM_OPT_TEXT},
};

const struct hm_command hm_cmd_import = {
    "import",
    "kineto|nsys|inspector FILES...|FOLDER",
    "make a run of torch.profiler, nsys or NCCL inspector files",
    "hindmost import kineto trace_*.json.gz -o imported.run && hindmost report imported.run",
    options,
    sizeof(options) / sizeof(options[0]),
    sizeof(struct args),
    import_run};
