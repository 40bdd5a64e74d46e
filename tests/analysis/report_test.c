/* Reports of modelled runs: valid JSON whatever the names, one truth in all forms, conditions. */
#include "report/report.h"

#include "model.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define MS INT64_C(1000000)

static int64_t slow(const struct model *m, uint32_t rank, uint32_t step, uint32_t bucket)
{
    (void)step;
    (void)bucket;
    return m->seed && rank == 1 ? 12 * MS : 10 * MS;
}
static const struct model model = {.n_ranks = 4,
                                   .n_steps = 30,
                                   .n_buckets = 2,
                                   .reduce_ns = MS,
                                   .optimizer_ns = MS,
                                   .compute = slow};

static char *text_of(hm_status_t (*f)(const struct hm_run *, const struct hm_result *, FILE *),
                     const struct hm_result *r)
{
    char *s = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&s, &n);
    cr_assert_eq(f(model_last_run(), r, out), HM_OK);
    fclose(out);
    return s;
}
/* Leaves a report for schema_test.py, which sets the variable. */
static void save(const char *name, const char *text)
{
    const char *dir = getenv("HM_TEST_OUT");
    char path[1024];
    if (!dir)
        return;
    snprintf(path, sizeof(path), "%s/%s.json", dir, name);
    FILE *out = fopen(path, "w");
    cr_assert(out);
    fputs(text, out);
    fclose(out);
}
static hm_status_t json(const struct hm_run *run, const struct hm_result *r, FILE *out)
{
    return hm_report_json(run, r, out, 1);
}
static hm_status_t csv(const struct hm_run *run, const struct hm_result *r, FILE *out)
{
    return hm_report_csv(run, r, "ranks", out);
}

Test(report, forms_agree_on_the_verdict)
{
    struct model m = model;
    m.seed = 1;
    struct hm_result r;
    model_run(&m, &r, NULL);
    char *t = text_of(hm_report_text, &r), *j = text_of(json, &r), *c = text_of(csv, &r);
    const struct hm_out_finding *f = hm_result_row(&r, HM_T_finding, 0);
    cr_assert(f);
    cr_assert(strstr(t, "VERDICT   rank 1 (node01, gpu 0)"));
    cr_assert(strstr(t, "CAUSE     slow GPU (slow_gpu)"));
    char gain[64];
    snprintf(gain, sizeof(gain), "\"gain_ns\": %lld", (long long)f->gain_ns);
    cr_assert(strstr(j, gain));
    cr_assert(strstr(j, "\"ids\": [1]"));
    cr_assert_eq(strncmp(c, "rank,host,device,role,window_ns,", 32), 0);
    for (const char *line = t; *line;) {
        size_t n = strcspn(line, "\n");
        cr_assert_leq(n, 80, "%.*s", (int)n, line);
        line += n + (line[n] == '\n');
    }
    save("straggler", j);
    free(t);
    free(j);
    free(c);
    hm_result_clear(&r);
}

Test(report, hostile_names_stay_inside_their_strings)
{
    struct model m = model;
    struct hm_result r;
    model_run(&m, &r, NULL);
    struct hm_out_problem *p = hm_result_add(&r, HM_T_problem);
    p->file = strdup("a\"b\\c\n\x1b[31m\x01</script>\xff\xc3(\xed\xa0\x80\xf0\x9f\x98\x80");
    p->what = strdup("=cmd()");
    struct hm_out_kernel *k = hm_result_add(&r, HM_T_kernel);
    k->name = strdup("=HYPERLINK(\"x\"),\x1b]0;pwned\x07");
    k->grid = strdup("1,1,1");
    k->n = k->total_ns = k->is_control = 0;
    char *t = text_of(hm_report_text, &r), *j = text_of(json, &r);
    cr_assert(!strchr(t, 0x1b) && !strchr(t, 7));
    cr_assert(strstr(j, "a\\\"b\\\\c\\u000a\\u001b[31m\\u0001</script>\\ufffd\\ufffd("));
    cr_assert(!strchr(j, 0x1b));
    save("hostile", j);
    free(t);
    free(j);
    hm_result_clear(&r);
}

Test(report, of_few_steps_and_of_no_fault)
{
    struct model m = model;
    struct hm_result r;
    model_run(&m, &r, NULL);
    char *j = text_of(json, &r);
    save("none", j);
    free(j);
    hm_result_clear(&r);
    m.n_steps = 2;
    model_run(&m, &r, NULL);
    j = text_of(json, &r);
    cr_assert(strstr(j, "\"status\": \"insufficient\""));
    save("few", j);
    free(j);
    hm_result_clear(&r);
}

Test(report, conditions)
{
    struct model m = model;
    struct hm_result none, late, few;
    model_run(&m, &none, NULL);
    m.seed = 1;
    model_run(&m, &late, NULL);
    m.n_steps = 3;
    model_run(&m, &few, NULL);
    /* step 22 -> 26: gain 4 of 26 = 15.4 %, 0.116 s in 29 steps */
    static const struct {
        const char *expr;
        int late, none, few;
    } row[] = {{"gain>5%", 3, 0, 4},    {"gain > 20 %", 0, 0, 4}, {"gain>=0.1", 3, 0, 4},
               {"lost>0", 0, 0, 0},     {"lost==0", 3, 3, 3},     {"exposed>1%", 3, 3, 3},
               {"stall<0.5%", 0, 3, 0}, {"lost>1%", 4, 4, 4},     {"wait<100", 3, 3, 3}};
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
        int code = -1;
        cr_assert_eq(hm_report_fail_on(&late, row[i].expr, &code), HM_OK);
        cr_assert_eq(code, row[i].late, "%s: %d", row[i].expr, code);
        cr_assert_eq(hm_report_fail_on(&none, row[i].expr, &code), HM_OK);
        cr_assert_eq(code, row[i].none, "%s: %d", row[i].expr, code);
        cr_assert_eq(hm_report_fail_on(&few, row[i].expr, &code), HM_OK);
        cr_assert_eq(code, row[i].few, "%s: %d", row[i].expr, code);
    }
    static const char *const bad[] = {"",        "gain",     "gain>",    "gain>x",   "cost>5%",
                                      "gain=>5", "gain>5%%", "gain>nan", "gain>inf", "gain>5 of"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        int code = -1;
        cr_assert_eq(hm_report_fail_on(&late, bad[i], &code), HM_E_USAGE, "%s", bad[i]);
        cr_assert_eq(code, -1);
    }
    hm_result_clear(&none);
    hm_result_clear(&late);
    hm_result_clear(&few);
}
