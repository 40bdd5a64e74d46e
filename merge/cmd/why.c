/* `hindmost why`: what one rank did before the collective at which the others waited for it.
 *
 * Box: merge/cmd. The run is analysed as `report` does; the chain of the one arrival is then read
 * again, stretch by stretch.
 */
#include "analysis/host.h"
#include "analysis/judge.h"
#include "cli.h"
#include "core/who.h"
#include "loaded.h"
#include "report/report.h"
#include "report/view.h"
#include "report/words.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN = 40, MAX_LINKS = 1 << 16 };
struct args {
    const char *run;
};
struct job {
    const char *path;
    uint32_t rank, step;
};
struct links {
    struct hm_link *v;
    uint32_t n, cap;
};

static const char *const part_name[HM_N_C + 1] = {[HM_C_COMPUTE] = "compute",
                                                  [HM_C_TRANSFER] = "moving data",
                                                  [HM_C_WAIT] = "waiting for others",
                                                  [HM_C_COPY] = "copy",
                                                  [HM_C_INPUT] = "input",
                                                  [HM_C_HOST] = "host",
                                                  [HM_C_QUEUE] = "launched, not started",
                                                  [HM_C_SERIAL] = "launching for other GPUs",
                                                  [HM_C_MODULE] = "loading code",
                                                  [HM_C_BLOCKED] = "host blocked",
                                                  [HM_C_ALLOC] = "allocator",
                                                  [HM_C_SYNC] = "host waits for the GPU",
                                                  [HM_C_CHECKPOINT] = "checkpoint",
                                                  [HM_C_OBSERVER] = "a profiler",
                                                  [HM_N_C] = "too long ago to be kept"};

/* Stretches of the same kind and name become one: a hundred kernels are one line. */
static void take(void *ctx, const struct hm_link *l)
{
    struct links *k = ctx;
    struct hm_link *last = k->n ? &k->v[k->n - 1] : NULL;
    if (last && last->part == l->part && last->name == l->name && last->t1_ns == l->t0_ns) {
        last->t1_ns = l->t1_ns;
        return;
    }
    if (k->n == k->cap) {
        uint32_t cap = k->cap ? 2 * k->cap : 256;
        struct hm_link *v = cap > MAX_LINKS ? NULL : realloc(k->v, cap * sizeof(*v));
        if (!v) { /* the last one stands for the rest */
            if (last)
                last->t1_ns = l->t1_ns;
            return;
        }
        k->v = v;
        k->cap = cap;
    }
    k->v[k->n++] = *l;
}

static const char *name_of(const struct hm_run *run, uint32_t name, char buf[256])
{
    if (name == HM_NO_ID)
        return "";
    if (name & HM_HOST_NAME_MPI) {
        const char *mpi = hm_mpi_function(name & ~HM_HOST_NAME_MPI);
        return mpi ? mpi : "";
    }
    return hm_words_kernel(hm_run_string(run, name), buf);
}

static double ms(int64_t ns)
{
    return (double)ns / 1e6;
}

struct line {
    int64_t t0_ns, ns;
    uint32_t name, n;
    uint8_t part;
};

/* Stretches of at least `least`; neighbours of one name become one line. line [k->n]. */
static uint32_t lines_of(const struct links *k, int64_t least, struct line *line)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < k->n; i++) {
        const struct hm_link *l = &k->v[i];
        struct line *last = n ? &line[n - 1] : NULL;
        int64_t ns = l->t1_ns - l->t0_ns;
        if (ns < least)
            continue;
        if (last && last->part == l->part && last->name == l->name) {
            last->ns += ns;
            last->n++;
        } else {
            line[n++] = (struct line){l->t0_ns, ns, l->name, 1, l->part};
        }
    }
    return n;
}

/* Where there are many stretches the shortest are left out; their time is said. */
static hm_status_t print_links(const struct hm_run *run, const struct links *k, const char *title,
                               const struct hm_report_style *style)
{
    struct hm_view v;
    struct line *line = malloc((k->n + 1) * sizeof(*line));
    if (!line)
        return hm_fail(HM_E_NOMEM, "why", "out of memory");
    int64_t least = 0, shown = 0, sum = k->n ? k->v[k->n - 1].t1_ns - k->v[0].t0_ns : 0;
    uint32_t n = lines_of(k, least, line), n_shown = 0;
    while (n > SHOWN) {
        least = least ? 2 * least : 1000;
        n = lines_of(k, least, line);
    }
    hm_view_begin(&v, title);
    hm_view_column(&v, "from ms", 0, 0);
    hm_view_column(&v, "for ms", 0, 0);
    hm_view_column(&v, "what", 1, 0);
    hm_view_column(&v, "times", 0, 2);
    hm_view_column(&v, "name", 1, 1);
    for (uint32_t i = 0; i < n; i++) {
        char buf[256];
        shown += line[i].ns;
        n_shown += line[i].n;
        hm_view_row(&v, 0);
        hm_view_cell(&v, "%+.3f", ms(line[i].t0_ns - k->v[0].t0_ns));
        hm_view_cell(&v, "%.3f", ms(line[i].ns));
        hm_view_cell(&v, "%s", part_name[line[i].part <= HM_N_C ? line[i].part : HM_N_C]);
        hm_view_cell(&v, "%u", line[i].n);
        hm_view_cell(&v, "%s", name_of(run, line[i].name, buf));
    }
    if (sum > shown)
        snprintf(v.note, sizeof(v.note), "and %u shorter ones, %.3f ms; all together %.3f ms",
                 k->n - n_shown, ms(sum - shown), ms(sum));
    else
        snprintf(v.note, sizeof(v.note), "all together %.3f ms", ms(sum));
    hm_view_print(style, &v, stdout);
    free(line);
    return HM_OK;
}

static void compare_row(struct hm_view *v, const char *what, int64_t a, int64_t b)
{
    if (!a && !b)
        return;
    hm_view_row(v, 0);
    hm_view_cell(v, "%s", what);
    hm_view_cell(v, "%.3f", ms(a));
    hm_view_cell(v, "%.3f", ms(b));
    hm_view_cell(v, "%+.3f", ms(a - b));
}

static void print_compare(const struct hm_run *run, const struct hm_why *w,
                          const struct hm_report_style *style)
{
    struct hm_view v;
    char late[32], ref[32], title[128];
    snprintf(late, sizeof(late), "rank %u", run->worker[w->late.worker].rank);
    snprintf(ref, sizeof(ref), "rank %u", run->worker[w->ref.worker].rank);
    snprintf(title, sizeof(title), "Against %s, the median of its role, ms", ref);
    hm_view_begin(&v, title);
    hm_view_column(&v, "", 1, 0);
    hm_view_column(&v, late, 0, 0);
    hm_view_column(&v, ref, 0, 0);
    hm_view_column(&v, "more", 0, 0);
    for (int c = 0; c < HM_N_C; c++)
        compare_row(&v, part_name[c], w->late.part_ns[c], w->ref.part_ns[c]);
    compare_row(&v, "of that after its own work was done", -w->late.tail_ns, -w->ref.tail_ns);
    compare_row(&v, "before, back to what all rest on", w->late.before_ns, w->ref.before_ns);
    hm_view_row(&v, 1);
    hm_view_cell(&v, "own work: later by");
    hm_view_cell(&v, "%.3f", ms(w->late.own_ns));
    hm_view_cell(&v, "%.3f", ms(w->ref.own_ns));
    hm_view_cell(&v, "%+.3f", ms(w->late_ns));
    hm_view_print(style, &v, stdout);
}

static hm_status_t why_team(struct hm_team *team, void *arg)
{
    const struct job *job = arg;
    struct hm_loaded l;
    struct hm_why why = {.found = 0};
    struct links k = {.v = NULL};
    hm_status_t s = hm_loaded_open_why(team, job->path, &l, &why, job->rank, job->step);
    if (s)
        return s;
    const struct hm_run *run = &l.engine.run;
    struct hm_report_style style = hm_report_style_of(stdout);
    char title[160];
    if (!why.found) {
        s = hm_fail(HM_E_DATA, job->path,
                    "rank %u came to no collective in %s that other ranks were seen to wait in",
                    job->rank, job->step == HM_NO_ID ? "any analysed step" : "that step");
        goto out;
    }
    s = hm_engine_explain(&l.engine, why.late.worker, why.late.arrival, take, &k);
    if (s)
        goto out;
    printf("Rank %u, step %u, at %s #%u of communicator %016" PRIx64 "\n", job->rank, why.step,
           hm_nccl_func_name(why.func), why.seq, why.comm);
    if (why.late_ns > 0)
        printf(
            "By its own work it came %.3f ms later than the median of its role; %u rank%s waited "
            "there, %.3f ms together.\n",
            ms(why.late_ns), why.n_waiting, why.n_waiting == 1 ? "" : "s", ms(why.wait_ns));
    else
        printf("By its own work it came no later than the median of its role.\n");
    if (why.has_base)
        snprintf(title, sizeof(title), "What it did since %s #%u of %016" PRIx64 ", ms",
                 hm_nccl_func_name(why.base_func), why.base_seq, why.base_comm);
    else
        snprintf(title, sizeof(title), "What it did before, ms");
    s = print_links(run, &k, title, &style);
    if (s)
        goto out;
    print_compare(run, &why, &style);
    s = ferror(stdout) ? hm_fail(HM_E_IO, "why", "cannot write") : HM_OK;
out:
    free(k.v);
    hm_loaded_close(&l);
    return s;
}

static hm_status_t number(const char *text, const char *what, uint32_t *v_p)
{
    char *end;
    errno = 0;
    unsigned long v = strtoul(text, &end, 10);
    if (!isdigit((unsigned char)*text) || *end || errno || v >= HM_NO_ID)
        return hm_fail(HM_E_USAGE, "why", "%s is no %s: hindmost why RANK [STEP]", text, what);
    *v_p = (uint32_t)v;
    return HM_OK;
}

static hm_status_t why_run(const void *p, int argc, char **argv)
{
    const struct args *a = p;
    char latest[1024];
    struct job job = {.path = a->run, .step = HM_NO_ID};
    if (argc < 1 || argc > 2)
        return hm_fail(HM_E_USAGE, "why", "which rank? hindmost why RANK [STEP]");
    hm_status_t s = number(argv[0], "rank", &job.rank);
    if (s == HM_OK && argc > 1)
        s = number(argv[1], "step", &job.step);
    if (s == HM_OK && !job.path) {
        s = hm_rundir_latest(latest);
        job.path = latest;
    }
    return s ? s : hm_team_run(1, why_team, &job);
}

static const struct hm_option options[] = {
    {"run", "RUN", "the run folder, default hindmost.out/latest", NULL, offsetof(struct args, run),
     0, HM_OPT_TEXT},
};
const struct hm_command hm_cmd_why = {"why",
                                      "RANK [STEP]",
                                      "what a rank did before the others waited for it",
                                      "hindmost why 5 120 --run hindmost.out/latest",
                                      options,
                                      sizeof(options) / sizeof(options[0]),
                                      sizeof(struct args),
                                      why_run};
