/* Demo runs on disk: the same bytes for the same seed, faults that leave traces, and the report.
 *
 * Expected values: what was asked for; the truth, which tests/demo/truth_test.c checks by hand.
 */
#include "demo/demo.h"
#include "engine/engine.h"
#include "store/rank.h"
#include "store/rankfile.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char top[64];

static void begin(void)
{
    strcpy(top, "/tmp/hm-demo-XXXXXX");
    cr_assert_not_null(mkdtemp(top));
    hm_engine_wait_ms = 0;
}

static void empty(const char *dir)
{
    char path[512];
    DIR *d = opendir(dir);
    struct dirent *e;
    while (d && (e = readdir(d))) {
        snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
        if (e->d_name[0] != '.' && unlink(path)) {
            empty(path);
            rmdir(path);
        }
    }
    if (d)
        closedir(d);
}

static void end(void)
{
    empty(top);
    rmdir(top);
}
TestSuite(demo_run, .init = begin, .fini = end);

static const char *in(const char *name)
{
    static char path[4][256];
    static unsigned i;
    i = (i + 1) % 4;
    snprintf(path[i], sizeof(path[i]), "%s/%s", top, name);
    return path[i];
}

static int same(const char *a, const char *b)
{
    FILE *f = fopen(a, "rb"), *g = fopen(b, "rb");
    int x = 0, y = 0;
    cr_assert(f && g, "%s and %s", a, b);
    while (x == y && x != EOF) {
        x = fgetc(f);
        y = fgetc(g);
    }
    fclose(f);
    fclose(g);
    return x == y;
}

static struct hm_demo mixed(void)
{
    return (struct hm_demo){.n_ranks = 8,
                            .n_steps = 6,
                            .seed = 5,
                            .n_faults = 2,
                            .fault = {{HM_DEMO_PAUSES, 1, 0, 3}, {HM_DEMO_LOST, 2, 0, 0.5}},
                            .n_dims = 3,
                            .dim = {HM_DEMO_DP, HM_DEMO_PP, HM_DEMO_EP},
                            .size = {2, 2, 2}};
}

Test(demo_run, same_seed_same_bytes)
{
    struct hm_demo d = mixed();
    cr_assert_eq(hm_demo_write(&d, in("a")), HM_OK);
    cr_assert_eq(hm_demo_write(&d, in("b")), HM_OK);
    d.one_only = 1;
    d.only = 5;
    cr_assert_eq(hm_demo_write(&d, in("one")), HM_OK);
    d = mixed();
    d.seed = 6;
    cr_assert_eq(hm_demo_write(&d, in("other")), HM_OK);
    for (int i = 0; i < 8; i++) {
        char a[32], b[32];
        snprintf(a, sizeof(a), "a/rank-%05d.h5", i);
        snprintf(b, sizeof(b), "b/rank-%05d.h5", i);
        cr_assert(same(in(a), in(b)), "rank %d", i);
    }
    cr_assert(same(in("a/truth.json"), in("b/truth.json")));
    cr_assert(same(in("a/rank-00005.h5"), in("one/rank-00005.h5")), "alone");
    cr_assert(access(in("one/rank-00004.h5"), F_OK) < 0);
    cr_assert(!same(in("a/rank-00005.h5"), in("other/rank-00005.h5")));
    cr_assert_eq(hm_demo_write(&d, in("a")), HM_E_DATA, "never into a run that is there");
}

/* ---- through the engine ---- */

struct seen {
    const char *run;
    char status[16], ids[64], cause[20], pattern[16];
    int64_t gain_ns, lost;
    uint32_t n_present, n_domains, n_comms, n_problems, end[64];
    uint32_t gap_rows, memory_rows;
};

static hm_status_t analyse(struct hm_team *team, void *arg)
{
    struct seen *x = arg;
    struct hm_engine e;
    struct hm_result *r = NULL;
    hm_status_t s = hm_engine_open(team, x->run, &e);
    if (s)
        return s;
    s = hm_engine_collect(&e);
    if (!s)
        s = hm_engine_match(&e);
    if (!s)
        s = hm_engine_account(&e);
    if (!s)
        s = hm_engine_judge(&e, &r);
    if (!s) {
        const struct hm_out_finding *f = hm_result_row(r, HM_T_finding, 0);
        const struct hm_out_none *none = hm_result_row(r, HM_T_none, 0);
        snprintf(x->status, sizeof(x->status), "%s", f ? f->status : none ? none->status : "");
        snprintf(x->ids, sizeof(x->ids), "%s", f && f->ids ? f->ids : "");
        snprintf(x->cause, sizeof(x->cause), "%s", f && f->cause ? f->cause : "");
        snprintf(x->pattern, sizeof(x->pattern), "%s", f && f->pattern ? f->pattern : "");
        x->gain_ns = f ? f->gain_ns : 0;
        x->lost = r->lost[HM_LOST_POOL_FULL];
    }
    x->n_present = e.run.n_present;
    x->n_domains = e.run.n_domains;
    x->n_comms = e.run.n_comms;
    for (uint32_t i = 0; i < e.run.n_present && i < 64; i++) {
        x->end[i] = e.run.rank[i].end;
        x->gap_rows += e.run.rank[i].rows[HM_EV_GAP];
        x->memory_rows += e.run.rank[i].rows[HM_EV_MEMORY];
    }
    hm_engine_close(&e);
    return s;
}

static struct seen see(const struct hm_demo *d)
{
    static int i;
    char name[16];
    snprintf(name, sizeof(name), "run%d", i++);
    struct seen x = {.run = in(name)};
    cr_assert_eq(hm_demo_write(d, x.run), HM_OK);
    cr_assert_eq(hm_team_run(1, analyse, &x), HM_OK);
    return x;
}

/* The report must name the rank and the cause, and the gain within a tenth. */
static void is_named(const struct hm_demo *d, const char *ids, const char *cause)
{
    struct hm_demo_truth t;
    struct seen x = see(d);
    cr_assert_eq(hm_demo_truth(d, &t), HM_OK);
    cr_assert_str_eq(x.status, "straggler");
    cr_assert_str_eq(x.ids, ids);
    cr_assert(!strncmp(x.cause, cause, strlen(cause)), "%s", x.cause);
    cr_assert(llabs(x.gain_ns - t.subject_gain_ns) * 10 <= t.subject_gain_ns, "%ld of %ld",
              (long)x.gain_ns, (long)t.subject_gain_ns);
}

Test(demo_run, the_report_names_the_truth)
{
    struct hm_demo d = {.n_ranks = 4,
                        .n_steps = 24,
                        .seed = 2,
                        .n_faults = 1,
                        .fault = {{HM_DEMO_SLOW_GPU, 2, 0, 1.2}}};
    is_named(&d, "2", "slow_gpu");
    d.fault[0] = (struct hm_demo_fault){HM_DEMO_LATE_LAUNCH, 1, 0, 4};
    is_named(&d, "1", "host_");
    d.fault[0] = (struct hm_demo_fault){HM_DEMO_SLOW_INPUT, 0, 0, 4};
    is_named(&d, "0", "input");
    d.n_dims = 2;
    d.dim[0] = HM_DEMO_DP;
    d.dim[1] = HM_DEMO_TP;
    d.size[0] = d.size[1] = 2;
    d.fault[0] = (struct hm_demo_fault){HM_DEMO_SLOW_GPU, 3, 0, 1.2};
    is_named(&d, "3", "slow_gpu");
}

Test(demo_run, the_report_names_nobody)
{
    struct hm_demo d = {.n_ranks = 8,
                        .n_steps = 24,
                        .seed = 2,
                        .n_dims = 3,
                        .dim = {HM_DEMO_DP, HM_DEMO_PP, HM_DEMO_TP},
                        .size = {2, 2, 2}};
    struct seen x = see(&d);
    cr_assert_str_eq(x.status, "none");
    cr_assert_eq(x.n_domains, 1);
    cr_assert_eq(x.n_comms, 12, "4 of each dimension");
}

Test(demo_run, a_clock_a_node)
{
    struct hm_demo d = {.n_ranks = 4,
                        .n_steps = 24,
                        .node_ranks = 2,
                        .clocks = HM_DEMO_PROBED,
                        .n_faults = 1,
                        .fault = {{HM_DEMO_SLOW_GPU, 2, 0, 1.2}}};
    is_named(&d, "2", "slow_gpu");
    struct seen x = see(&d);
    cr_assert_eq(x.n_domains, 2);
    cr_assert_eq(x.n_present, 4);
}

Test(demo_run, losses_are_counted)
{
    struct hm_demo d = {.n_ranks = 2,
                        .n_steps = 40,
                        .n_faults = 2,
                        .fault = {{HM_DEMO_LOST, 1, 0, 0.25}, {HM_DEMO_ALLOCATOR, 0, 0, 4}}};
    struct seen x = see(&d);
    cr_assert(x.gap_rows > 2 && x.gap_rows < 20, "%u of 40 steps", x.gap_rows);
    cr_assert_gt(x.lost, 0);
    cr_assert(x.memory_rows > 4 && x.memory_rows < 40, "two in 3 of 10 steps: %u", x.memory_rows);
}

Test(demo_run, missing_and_dead_ranks)
{
    struct hm_demo d = {.n_ranks = 4,
                        .n_steps = 12,
                        .n_faults = 2,
                        .fault = {{HM_DEMO_MISSING, 0, 0, 0}, {HM_DEMO_HANG, 2, 6, 0}}};
    struct seen x = see(&d);
    cr_assert_eq(x.n_present, 3);
    cr_assert_eq(x.end[0], HM_END_TERM, "rank 1 waited");
    cr_assert_eq(x.end[1], HM_END_DIED, "rank 2");
    cr_assert_eq(x.end[2], HM_END_TERM);
}

Test(demo_run, restart_leaves_two_attempts)
{
    struct hm_demo d = {.n_ranks = 2, .n_steps = 12, .restart_step = 5};
    struct seen x = see(&d);
    cr_assert_eq(x.n_present, 2, "the newest attempt of each rank");
    char path[320];
    snprintf(path, sizeof(path), "%s/rank-00001.1.h5", x.run);
    cr_assert_eq(access(path, F_OK), 0);
    cr_assert_eq(x.end[0], HM_END_CLEAN);
}

Test(demo_run, nonsense_is_refused)
{
    struct hm_demo d = {.n_ranks = 4, .n_steps = 3, .n_dims = 1, .dim = {HM_DEMO_TP}, .size = {3}};
    cr_assert_eq(hm_demo_write(&d, in("x")), HM_E_USAGE, "3 is not 4");
    d.size[0] = 4;
    d.n_faults = 1;
    d.fault[0] = (struct hm_demo_fault){HM_DEMO_ROUTING, 1, 0, 2};
    cr_assert_eq(hm_demo_write(&d, in("x")), HM_E_USAGE, "there are no experts");
    d.fault[0] = (struct hm_demo_fault){HM_DEMO_SLOW_GPU, 4, 0, 2};
    cr_assert_eq(hm_demo_write(&d, in("x")), HM_E_USAGE, "there is no rank 4");
    d.fault[0] = (struct hm_demo_fault){HM_DEMO_SLOW_GPU, 1, 0, 0.5};
    cr_assert_eq(hm_demo_write(&d, in("x")), HM_E_USAGE, "faster");
    cr_assert(access(in("x"), F_OK) < 0, "nothing was made");
}
