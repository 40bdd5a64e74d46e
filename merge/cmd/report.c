/* `hindmost report`: who holds the others up, what it costs, why, how sure.
 *
 * Box: merge/cmd. Options -> engine -> one form of the result. JSON and CSV on stdout, talk on
 * stderr.
 */
#include "report/report.h"

#include "cli.h"
#include "core/who.h"
#include "engine/engine.h"
#include "import/foreign.h"
#include "report/select.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct args {
    const char *json, *csv, *html, *fail_on, *steps, *ranks, *mesh;
    int md, strict, digest, expert, ops;
};
struct job {
    const struct args *args;
    const char *run;   /* folder that is read */
    const char *shown; /* as the user named it */
    struct hm_select select;
    struct hm_mesh mesh;
    int exit_code;
};

static hm_status_t print(const struct job *job, const struct hm_run *run,
                         const struct hm_result *result)
{
    const struct args *a = job->args;
    if (a->digest)
        return hm_report_digest(run, result, job->shown, stdout);
    if (a->json)
        return hm_report_json(run, result, stdout, !strcmp(a->json, "full"));
    if (a->csv)
        return hm_report_csv(run, result, a->csv, stdout);
    if (a->html && !a->md)
        return HM_OK; /* the page is the report */
    if (a->md)
        return hm_report_markdown(run, result, stdout);
    struct hm_report_style style = hm_report_style_of(stdout);
    style.expert = a->expert;
    if (a->ops)
        return hm_report_ops(result, &style, stdout);
    return hm_report_print(run, result, &style, stdout);
}

/* One line each: those of the files, and what the analysis found wrong with the data. The digest is
 * three lines: there they stand in the whole report. */
static uint32_t say_problems(const struct job *job, const struct hm_run *run,
                             const struct hm_result *result)
{
    uint32_t n = result ? result->n_rows[HM_T_problem] : run->n_problems;
    for (uint32_t i = 0; i < n && !job->args->digest; i++) {
        const struct hm_out_problem *p = result ? hm_result_row(result, HM_T_problem, i) : NULL;
        hm_say(HM_SAY_WARN, "%s: %s", p ? p->file : run->problem[i].file,
               p ? p->what : run->problem[i].what);
    }
    return n;
}

static hm_status_t report_team(struct hm_team *team, void *arg)
{
    struct job *job = arg;
    struct hm_engine e;
    struct hm_result *result = NULL;
    hm_status_t s = hm_engine_open(team, job->run, &e);
    if (s)
        return s;
    e.want_ops = job->args->ops || job->args->json || job->args->html ||
                 (job->args->csv && !strncmp(job->args->csv, "opstat", 6));
    e.run.path = job->shown; /* an imported trace goes by its own name */
    hm_engine_select_steps(&e, job->select.first_step, job->select.last_step);
    if (job->args->mesh)
        s = hm_engine_set_mesh(&e, &job->mesh);
    if (s == HM_OK)
        s = hm_engine_collect(&e);
    if (s == HM_OK)
        s = hm_engine_selected(&e);
    if (s == HM_OK)
        s = hm_engine_match(&e);
    if (s == HM_OK)
        s = hm_engine_account(&e);
    if (s == HM_OK)
        s = hm_engine_judge(&e, &result);
    uint32_t n = say_problems(job, &e.run, s == HM_OK ? result : NULL);
    if (s == HM_OK && job->args->strict && n)
        s = HM_E_DATA; /* said line by line just now */
    if (s == HM_OK && job->args->fail_on)
        s = hm_report_fail_on(result, job->args->fail_on, &job->exit_code);
    if (s == HM_OK)
        s = hm_select_apply(&job->select, result);
    if (s == HM_OK && job->args->html) {
        s = hm_report_html(&e.run, result, job->args->html);
        if (s == HM_OK)
            hm_say(HM_SAY_INFO, "wrote %s", job->args->html);
    }
    if (s == HM_OK)
        s = print(job, &e.run, result);
    hm_engine_close(&e);
    return s;
}

static hm_status_t check(const struct args *a)
{
    if (!!a->json + !!a->csv + a->md + a->digest > 1)
        return hm_fail(HM_E_USAGE, "report", "--json, --csv, --md and --digest: one of them");
    if (a->json && *a->json && strcmp(a->json, "full") != 0)
        return hm_fail(HM_E_USAGE, "report", "--json=%s: only --json and --json=full are known",
                       a->json);
    if (a->fail_on) { /* before anything is read: an empty result tells a wrong expression too */
        const struct hm_result empty = {0};
        int ignored = 0;
        hm_status_t s = hm_report_fail_on(&empty, a->fail_on, &ignored);
        if (s)
            return s;
    }
    if (a->csv && !hm_report_csv_knows(a->csv)) {
        char names[512];
        return hm_fail(HM_E_USAGE, "report", "--csv %s: no such table; %s", a->csv,
                       hm_report_csv_names(names, sizeof(names)));
    }
    return HM_OK;
}

static hm_status_t report_run(const void *p, int argc, char **argv)
{
    const struct args *a = p;
    char latest[1024];
    struct hm_import_temp temp = {.alive = -1};
    hm_status_t s = check(a);
    if (s)
        return s;
    if (argc > 1)
        return hm_fail(HM_E_USAGE, "report", "one run at a time; `hindmost diff` compares two");
    struct job job = {.args = a};
    if (a->digest)
        hm_engine_wait_ms = 0; /* at the end of a job: its rank files are closed, or late */
    if (argc) {
        job.run = job.shown = argv[0];
        s = hm_import_temp(argv[0], &temp);
        if (temp.run[0])
            job.run = temp.run;
    } else {
        s = hm_rundir_latest(latest);
        job.run = job.shown = latest;
    }
    if (s == HM_OK)
        s = hm_select_parse(a->steps, a->ranks, &job.select);
    if (s == HM_OK && a->mesh)
        s = hm_mesh_parse(a->mesh, &job.mesh);
    if (s == HM_OK)
        s = hm_team_run(1, report_team, &job);
    hm_select_clear(&job.select);
    hm_import_temp_remove(&temp);
    if (s == HM_OK && job.exit_code)
        hm_cli_exit_code(job.exit_code);
    return s;
}

static const struct hm_option options[] = {
    {"json", "[=full]", "one JSON object on stdout; =full with every collective", NULL,
     offsetof(struct args, json), 0, HM_OPT_TEXT},
    {"csv", "TABLE", "one table: ranks, steps, collectives, kernels, ops, ledger, ...", NULL,
     offsetof(struct args, csv), 0, HM_OPT_TEXT},
    {"md", NULL, "Markdown, for an issue", NULL, offsetof(struct args, md), 0, HM_OPT_FLAG},
    {"html", "FILE", "one page that opens offline, beside what is printed", NULL,
     offsetof(struct args, html), 0, HM_OPT_TEXT},
    {"fail-on", "EXPR", "exit 3 when KEY OP NUMBER[%] holds; gain, wait, stall, exposed, lost",
     NULL, offsetof(struct args, fail_on), 0, HM_OPT_TEXT},
    {"steps", "A..B", "only these steps are analysed", NULL, offsetof(struct args, steps), 0,
     HM_OPT_TEXT},
    {"ranks", "LIST", "only these ranks are shown, such as 0,3,8..15; all are analysed", NULL,
     offsetof(struct args, ranks), 0, HM_OPT_TEXT},
    {"mesh", "DIM=N,...", "layout of the ranks, the last varies fastest, such as dp=2,pp=4,tp=8",
     NULL, offsetof(struct args, mesh), 0, HM_OPT_TEXT},
    {"ops", NULL, "ranges, calls and kernels by name, instead of the report", NULL,
     offsetof(struct args, ops), 0, HM_OPT_FLAG},
    {"expert", NULL, "every row and every table of the result", NULL, offsetof(struct args, expert),
     0, HM_OPT_FLAG},
    {"strict", NULL, "any problem with a file is an error", NULL, offsetof(struct args, strict), 0,
     HM_OPT_FLAG},
    {"digest", NULL, "three lines: steps, verdict, next command", NULL,
     offsetof(struct args, digest), 0, HM_OPT_FLAG},
};
const struct hm_command hm_cmd_report = {"report",
                                         "[RUN]",
                                         "name the straggler: what it costs, why, how sure",
                                         "hindmost report --json --fail-on 'gain > 2%'",
                                         options,
                                         sizeof(options) / sizeof(options[0]),
                                         sizeof(struct args),
                                         report_run};
