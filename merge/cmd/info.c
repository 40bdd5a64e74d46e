/* `hindmost info`: what is in a run; --finish makes unfinished files whole.
 *
 * Box: merge/cmd.
 */
#include "cli.h"
#include "core/who.h"
#include "import/foreign.h"
#include "report/json.h"
#include "store/rank.h"
#include "store/schema.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct info_args {
    int json, finish;
};

/* "/nccl/coll" -> "nccl_coll" */
static void table_key(const char *path, char key[64])
{
    snprintf(key, 64, "%s", path + 1);
    for (char *c = key; *c; c++)
        if (*c == '/')
            *c = '_';
}

static void print_json(const struct hm_run *run)
{
    struct hm_json j = {.out = stdout, .first = 1, .line = 3};
    char key[64];
    hm_json_open(&j, NULL, '{');
    hm_json_i64(&j, "schema", 1);
    hm_json_i64(&j, "ranks_present", run->n_present);
    hm_json_i64(&j, "ranks_expected", run->n_ranks);
    hm_json_open(&j, "problems", '[');
    for (uint32_t i = 0; i < run->n_problems; i++) {
        hm_json_open(&j, NULL, '{');
        hm_json_str(&j, "file", run->problem[i].file);
        hm_json_str(&j, "what", run->problem[i].what);
        hm_json_close(&j, '}');
    }
    hm_json_close(&j, ']');
    hm_json_open(&j, "ranks", '[');
    for (uint32_t i = 0; i < run->n_present; i++) {
        const struct hm_rank_info *r = &run->rank[i];
        struct stat st = {0};
        stat(r->path, &st);
        hm_json_open(&j, NULL, '{');
        hm_json_i64(&j, "rank", r->rank);
        hm_json_str(&j, "host", r->host);
        hm_json_str(&j, "end", hm_end_name(r->end));
        hm_json_i64(&j, "bytes", st.st_size);
        hm_json_str(&j, "file", r->path);
        hm_json_open(&j, "events", '{');
        for (uint32_t t = 0; t < hm_n_tables; t++)
            if (r->rows[hm_tables[t].kind]) {
                table_key(hm_tables[t].path, key);
                hm_json_i64(&j, key, r->rows[hm_tables[t].kind]);
            }
        hm_json_close(&j, '}');
        hm_json_open(&j, "lost", '{');
        for (int l = 0; l < HM_N_LOST; l++)
            hm_json_i64(&j, hm_loss_key((enum hm_loss)l), (int64_t)r->lost[l]);
        hm_json_close(&j, '}');
        hm_json_close(&j, '}');
    }
    hm_json_close(&j, ']');
    hm_json_close(&j, '}');
    putchar('\n');
}

static void print_text(const struct hm_run *run)
{
    char key[64];
    printf("%u of %u ranks, %u clock domain%s, %u communicator%s\n\n", run->n_present, run->n_ranks,
           run->n_domains, run->n_domains == 1 ? "" : "s", run->n_comms,
           run->n_comms == 1 ? "" : "s");
    printf("%5s  %-16s %-9s %10s  %s\n", "rank", "host", "end", "KiB", "events");
    for (uint32_t i = 0; i < run->n_present; i++) {
        const struct hm_rank_info *r = &run->rank[i];
        struct stat st = {0};
        stat(r->path, &st);
        printf("%5d  %-16.16s %-9s %10lld ", r->rank, r->host, hm_end_name(r->end),
               (long long)st.st_size / 1024);
        for (uint32_t t = 0; t < hm_n_tables; t++)
            if (r->rows[hm_tables[t].kind]) {
                table_key(hm_tables[t].path, key);
                printf(" %s %u", key, r->rows[hm_tables[t].kind]);
            }
        for (int l = 0; l < HM_N_LOST; l++)
            if (r->lost[l])
                printf("  LOST %s %" PRIu64, hm_loss_key((enum hm_loss)l), r->lost[l]);
        putchar('\n');
    }
}

static hm_status_t info_run(const void *args, int argc, char **argv)
{
    const struct info_args *a = args;
    char latest[1024];
    const char *path = argc ? argv[0] : latest;
    if (argc > 1)
        return hm_fail(HM_E_USAGE, "info", "one run at most");
    struct hm_import_temp temp = {.alive = -1};
    hm_status_t s = argc ? hm_import_temp(path, &temp) : hm_rundir_latest(latest);
    struct hm_run run;
    if (s == HM_OK)
        s = hm_run_open(temp.run[0] ? temp.run : path, 10000, &run);
    if (s) {
        hm_import_temp_remove(&temp);
        return s;
    }
    for (uint32_t i = 0; i < run.n_problems; i++)
        hm_say(HM_SAY_WARN, "%s: %s", run.problem[i].file, run.problem[i].what);
    if (a->finish) {
        uint32_t n = 0;
        for (uint32_t i = 0; i < run.n_present && s == HM_OK; i++)
            if (run.rank[i].end == HM_END_OPEN) {
                s = hm_rankfile_finish(run.rank[i].path);
                n += s == HM_OK;
            }
        if (s == HM_OK)
            printf("%u file%s made whole\n", n, n == 1 ? "" : "s");
    } else if (a->json) {
        print_json(&run);
    } else {
        print_text(&run);
    }
    hm_run_close(&run);
    hm_import_temp_remove(&temp);
    return s;
}

static const struct hm_option options[] = {
    {"json", NULL, "as JSON", NULL, offsetof(struct info_args, json), 0, HM_OPT_FLAG},
    {"finish", NULL, "make files whole that a dead writer left", NULL,
     offsetof(struct info_args, finish), 0, HM_OPT_FLAG},
};
const struct hm_command hm_cmd_info = {"info",
                                       "[RUN]",
                                       "what is in a run: ranks, events, losses",
                                       "hindmost info",
                                       options,
                                       2,
                                       sizeof(struct info_args),
                                       info_run};
