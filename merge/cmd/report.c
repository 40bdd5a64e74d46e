/* `hindmost report`: who holds the others up, what it costs, why, how sure.
 *
 * Box: merge/cmd. Options -> engine -> one form of the result. JSON and CSV on stdout, talk on
 * stderr.
 */
#include "report/report.h"

#include "cli.h"
#include "core/who.h"
#include "engine/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct args {
    const char *json, *csv, *html, *fail_on;
    int strict, digest;
};
struct job {
    const struct args *args;
    const char *run;   /* folder that is read */
    const char *shown; /* as the user named it */
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
    return hm_report_text(run, result, stdout);
}

static hm_status_t report_team(struct hm_team *team, void *arg)
{
    struct job *job = arg;
    struct hm_engine e;
    struct hm_result *result = NULL;
    hm_status_t s = hm_engine_open(team, job->run, &e);
    if (s)
        return s;
    s = hm_engine_collect(&e);
    if (s == HM_OK)
        s = hm_engine_match(&e);
    if (s == HM_OK)
        s = hm_engine_account(&e);
    if (s == HM_OK)
        s = hm_engine_judge(&e, &result);
    /* the digest is three lines: what is wrong with the files stands in the whole report */
    for (uint32_t i = 0; i < e.run.n_problems && !job->args->digest; i++)
        hm_say(HM_SAY_WARN, "%s: %s", e.run.problem[i].file, e.run.problem[i].what);
    if (s == HM_OK && job->args->strict && e.run.n_problems)
        s = HM_E_DATA; /* said line by line just now */
    if (s == HM_OK)
        s = print(job, &e.run, result);
    if (s == HM_OK && job->args->fail_on)
        s = hm_report_fail_on(result, job->args->fail_on, &job->exit_code);
    hm_engine_close(&e);
    return s;
}

static hm_status_t check(const struct args *a)
{
    if (a->html)
        return hm_fail(HM_E_MISSING, "report", "the HTML page is not built yet; --json is");
    if (!!a->json + !!a->csv + a->digest > 1)
        return hm_fail(HM_E_USAGE, "report", "--json, --csv and --digest: one of them");
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
    if (a->csv) {
        static const char *const known[] = {"ranks",   "steps", "collectives",
                                            "kernels", "ops",   "ledger"};
        for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
            if (!strcmp(a->csv, known[i]))
                return HM_OK;
        return hm_fail(HM_E_USAGE, "report",
                       "--csv %s: no such table; ranks, steps, collectives, kernels, ops, ledger",
                       a->csv);
    }
    return HM_OK;
}

static int is_json(const char *name)
{
    size_t n = strlen(name);
    return (n > 5 && !strcmp(name + n - 5, ".json")) ||
           (n > 8 && !strcmp(name + n - 8, ".json.gz"));
}

/* A file is no run: a rank file alone, or a trace of another tool. */
static hm_status_t check_path(const char *path)
{
    struct stat st;
    if (stat(path, &st) || S_ISDIR(st.st_mode))
        return HM_OK; /* opening the run says what is wrong */
    if (is_json(path))
        return hm_fail(HM_E_MISSING, path,
                       "traces of other tools cannot be read yet; name a run folder");
    return hm_fail(HM_E_DATA, path, "not a run; name the folder that holds the rank files");
}

static hm_status_t report_run(const void *p, int argc, char **argv)
{
    const struct args *a = p;
    char latest[1024];
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
        s = check_path(argv[0]);
    } else {
        s = hm_rundir_latest(latest);
        job.run = job.shown = latest;
    }
    if (s == HM_OK)
        s = hm_team_run(1, report_team, &job);
    if (s == HM_OK && job.exit_code)
        hm_cli_exit_code(job.exit_code);
    return s;
}

static const struct hm_option options[] = {
    {"json", "[=full]", "one JSON object on stdout; =full with every collective", NULL,
     offsetof(struct args, json), 0, HM_OPT_TEXT},
    {"csv", "TABLE", "one table: ranks, steps, collectives, kernels, ops, ledger", NULL,
     offsetof(struct args, csv), 0, HM_OPT_TEXT},
    {"html", "FILE", "a page (not built yet)", NULL, offsetof(struct args, html), 0, HM_OPT_TEXT},
    {"fail-on", "EXPR", "exit 3 when KEY OP NUMBER[%] holds; gain, wait, stall, exposed, lost",
     NULL, offsetof(struct args, fail_on), 0, HM_OPT_TEXT},
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
