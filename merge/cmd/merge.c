/* `hindmost merge`: all ranks on one timeline.
 *
 * Box: merge/cmd.
 */
#include "cli.h"
#include "core/who.h"
#include "import/foreign.h"
#include "timeline/timeline.h"

#include <string.h>

struct merge_args {
    const char *out, *format;
    int strict;
};

struct job {
    const struct merge_args *args;
    const char *run;
    int gz;
};

static hm_status_t merge_team(struct hm_team *team, void *arg)
{
    const struct job *job = arg;
    struct hm_engine e;
    hm_status_t s = hm_engine_open(team, job->run, &e);
    if (s)
        return s;
    s = hm_engine_collect(&e);
    if (s == HM_OK)
        s = hm_engine_match(&e);
    for (uint32_t i = 0; i < e.run.n_problems; i++)
        hm_say(HM_SAY_WARN, "%s: %s", e.run.problem[i].file, e.run.problem[i].what);
    if (s == HM_OK && job->args->strict && e.run.n_problems)
        s = HM_E_DATA;
    if (s == HM_OK)
        s = hm_timeline_chrome(&e, job->args->out, job->gz);
    hm_engine_close(&e);
    return s;
}

static int ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), k = strlen(end);
    return n >= k && !strcmp(text + n - k, end);
}

static hm_status_t merge_run(const void *args, int argc, char **argv)
{
    const struct merge_args *a = args;
    struct job job = {.args = a};
    char latest[1024];
    if (argc > 1)
        return hm_fail(HM_E_USAGE, "merge", "one run at most");
    if (!a->out)
        return hm_fail(HM_E_USAGE, "merge", "-o FILE is needed, for example -o trace.json");
    job.gz = ends_with(a->out, ".json.gz");
    int chrome = job.gz || ends_with(a->out, ".json");
    if (a->format ? strcmp(a->format, "chrome") != 0
                  : ends_with(a->out, ".pftrace") || ends_with(a->out, ".tar"))
        return hm_fail(HM_E_MISSING, "merge",
                       "only the chrome format is built yet; name the file .json or .json.gz");
    if (!chrome && !a->format)
        return hm_fail(HM_E_USAGE, "merge", "%s: the suffix names no format; .json or .json.gz",
                       a->out);
    struct hm_import_temp temp = {.alive = -1};
    hm_status_t s = argc ? hm_import_temp(argv[0], &temp) : hm_rundir_latest(latest);
    job.run = !argc ? latest : temp.run[0] ? temp.run : argv[0];
    if (s == HM_OK)
        s = hm_team_run(1, merge_team, &job);
    hm_import_temp_remove(&temp);
    return s;
}

static const char *const formats[] = {"chrome", "perfetto", "archive", NULL};
static const struct hm_option options[] = {
    {"output", "FILE", "where the trace goes: .json or .json.gz", NULL,
     offsetof(struct merge_args, out), 'o', HM_OPT_TEXT},
    {"format", "NAME", "chrome, perfetto or archive; else by suffix", formats,
     offsetof(struct merge_args, format), 0, HM_OPT_TEXT},
    {"strict", NULL, "any problem with a file is an error", NULL,
     offsetof(struct merge_args, strict), 0, HM_OPT_FLAG},
};
const struct hm_command hm_cmd_merge = {
    "merge", "[RUN]", "one timeline of all ranks", "hindmost merge -o trace.json",
    options, 3,       sizeof(struct merge_args),   merge_run};
