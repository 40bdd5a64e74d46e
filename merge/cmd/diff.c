/* `hindmost diff`: two runs side by side.
 *
 * Box: merge/cmd. Both are read like `report` reads its run, traces of other tools too.
 */
#include "report/diff.h"

#include "cli.h"
#include "loaded.h"

struct args {
    int json;
};
struct job {
    const struct args *args;
    const char *path[2];
};

static hm_status_t diff_team(struct hm_team *team, void *arg)
{
    const struct job *job = arg;
    struct hm_loaded l[2] = {{.open = 0}, {.open = 0}};
    struct hm_diff d;
    hm_status_t s = hm_loaded_open(team, job->path[0], &l[0]);
    if (s)
        return s;
    s = hm_loaded_open(team, job->path[1], &l[1]);
    if (s == HM_OK) {
        const struct hm_diff_side side[2] = {{&l[0].engine.run, l[0].result},
                                             {&l[1].engine.run, l[1].result}};
        s = hm_diff_make(side, &d);
        if (s == HM_OK) {
            struct hm_report_style style = hm_report_style_of(stdout);
            s = job->args->json ? hm_diff_json(&d, stdout) : hm_diff_text(&d, &style, stdout);
            hm_diff_clear(&d);
        }
        hm_loaded_close(&l[1]);
    }
    hm_loaded_close(&l[0]);
    return s;
}

static hm_status_t diff_run(const void *args, int argc, char **argv)
{
    struct job job = {.args = args};
    if (argc != 2)
        return hm_fail(HM_E_USAGE, "diff", "two runs: hindmost diff BEFORE AFTER");
    job.path[0] = argv[0];
    job.path[1] = argv[1];
    return hm_team_run(1, diff_team, &job);
}

static const struct hm_option options[] = {
    {"json", NULL, "one JSON object on stdout", NULL, offsetof(struct args, json), 0, HM_OPT_FLAG},
};
const struct hm_command hm_cmd_diff = {"diff",
                                       "BEFORE AFTER",
                                       "compare two runs: step time, where it goes, kernels",
                                       "hindmost diff monday.run tuesday.run",
                                       options,
                                       sizeof(options) / sizeof(options[0]),
                                       sizeof(struct args),
                                       diff_run};
