/* Verdict bench: writes demo runs, analyses each as `hindmost report` does, scores the answers.
 *
 *   bench_verdict N JOBS [WRONG [FIRST]]
 *       cases FIRST (0) to N - 1 in JOBS processes; the wrong ones go to the file WRONG
 *   bench_verdict one I
 *       case I alone, with its command line
 *
 * Each process takes every JOBS-th case; one that dies loses its case only. SIGTERM: the tables of
 * the cases so far.
 */
#include "engine/engine.h"
#include "store/shield.h"
#include "verdict_score.h"
#include "verdict_table.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CASE_SECONDS = 120 };

/* In place of the library's: these files were just written by this process, nobody damaged them,
 * and opening each one twice takes a fifth of the time. */
void hm_shield_try(char *const path[], size_t n, uint8_t bad_p[])
{
    (void)path;
    memset(bad_p, HM_SHIELD_GOOD, n);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static void copy_ids(const char *text, struct verdict_words *w)
{
    while (text && *text) {
        char *end;
        unsigned long id = strtoul(text, &end, 10);
        if (end == text)
            break;
        if (w->n_ids < VERDICT_IDS)
            w->ids[w->n_ids] = (uint32_t)id;
        w->n_ids++;
        text = *end == ',' ? end + 1 : end;
    }
}

static void copy(char *to, size_t size, const char *from)
{
    snprintf(to, size, "%s", from ? from : "");
}

static void read_result(const struct hm_result *r, struct verdict_got *g)
{
    const struct hm_out_finding *f = hm_result_row(r, HM_T_finding, 0);
    const struct hm_out_none *none = hm_result_row(r, HM_T_none, 0);
    struct verdict_words *w = &g->got;
    if (f) {
        copy(w->status, sizeof(w->status), f->status);
        copy(w->kind, sizeof(w->kind), f->kind);
        copy(w->cause, sizeof(w->cause), f->cause);
        copy(w->pattern, sizeof(w->pattern), f->pattern);
        copy_ids(f->ids, w);
        w->gain_ns = HM_IS_NONE(f->gain_ns) ? 0 : f->gain_ns;
        w->gain_frac = HM_IS_NONE(f->gain_frac) ? 0 : (double)f->gain_frac / 1e9;
    } else {
        copy(w->status, sizeof(w->status), none ? none->status : "none");
    }
    for (uint32_t i = 0; i < r->n_rows[HM_T_rank]; i++) {
        const struct hm_out_rank *x = hm_result_row(r, HM_T_rank, i);
        if (!HM_IS_NONE(x->window_ns) &&
            x->window_ns != x->compute_ns + x->exposed_comm_ns + x->memcpy_ns + x->idle_ns)
            g->partition_wrong = 1;
    }
}

struct job {
    const char *run;
    struct verdict_got *got;
};

static hm_status_t analyse(struct hm_team *team, void *arg)
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
    if (s == HM_OK)
        read_result(result, job->got);
    for (uint32_t i = 0; i < e.run.n_present; i++)
        for (unsigned k = 0; k < HM_N_KINDS; k++)
            job->got->events += e.run.rank[i].rows[k];
    hm_engine_close(&e);
    return s;
}

static void run_case(uint32_t i, const char *top, struct verdict_got *g)
{
    struct verdict_case c;
    struct hm_demo_truth t;
    struct hm_demo_answer a;
    char dir[200];
    verdict_case(i, &c);
    snprintf(dir, sizeof(dir), "%s/run-%u", top, i);
    g->state = VERDICT_RUNNING;
    hm_status_t s = hm_demo_truth(&c.demo, &t);
    if (s == HM_OK) {
        hm_demo_answer(&c.demo, &t, &a, g->truth.ids, VERDICT_IDS);
        copy(g->truth.status, sizeof(g->truth.status), a.status);
        copy(g->truth.kind, sizeof(g->truth.kind), a.kind);
        copy(g->truth.cause, sizeof(g->truth.cause), a.cause);
        copy(g->truth.pattern, sizeof(g->truth.pattern), a.pattern);
        g->truth.n_ids = a.n_ids;
        g->truth.gain_ns = t.subject_gain_ns;
        for (uint32_t k = 0; k < c.demo.n_faults; k++)
            g->ambiguous |= !t.in_subject[k] && t.gain_ns[k] * 5 > t.subject_gain_ns * 4;
        double total = t.total_ns > 0 ? (double)t.total_ns : 1;
        g->truth.gain_frac = (double)t.subject_gain_ns / total;
        g->noise_frac = (double)(t.repaired_ns - t.quiet_ns) / total;
        s = hm_demo_write(&c.demo, dir);
    }
    struct job job = {dir, g};
    if (s == HM_OK)
        s = hm_team_run(1, analyse, &job);
    nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    g->state = s == HM_OK ? VERDICT_DONE : VERDICT_FAILED;
}

static void worker(uint32_t first, uint32_t n, uint32_t step, const char *top,
                   struct verdict_got *got)
{
    int null = open("/dev/null", O_WRONLY);
    dup2(null, 2);
    hm_engine_wait_ms = 0;
    for (uint32_t i = first; i < n; i += step)
        if (got[i].state == VERDICT_TODO) {
            alarm(CASE_SECONDS);
            run_case(i, top, &got[i]);
        }
    _exit(0);
}

static volatile sig_atomic_t stopped;

static void stop(int signal_number)
{
    (void)signal_number;
    stopped = 1;
}

static int run_all(uint32_t first, uint32_t n, uint32_t jobs, const char *top,
                   struct verdict_got *got)
{
    pid_t pid[16];
    for (uint32_t w = 0; w < jobs; w++) {
        pid[w] = fork();
        if (!pid[w])
            worker(first + w, n, jobs, top, got);
    }
    struct sigaction act = {.sa_handler = stop};
    sigaction(SIGTERM, &act, NULL);
    for (uint32_t left = jobs; left;) {
        int status;
        pid_t p = wait(&status);
        if (p < 0 && errno == EINTR && stopped) {
            for (uint32_t w = 0; w < jobs; w++)
                if (pid[w] > 0)
                    kill(pid[w], SIGKILL);
            while (wait(NULL) > 0)
                ;
            for (uint32_t i = 0; i < n; i++)
                if (got[i].state == VERDICT_RUNNING)
                    got[i].state = VERDICT_TODO;
            return 1;
        }
        if (p < 0 && errno == EINTR)
            continue;
        if (p < 0)
            return 0;
        uint32_t w = 0;
        while (w < jobs && pid[w] != p)
            w++;
        if (w == jobs)
            continue;
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
            left--;
            pid[w] = -1;
            continue;
        }
        for (uint32_t i = first + w; i < n; i += jobs)
            if (got[i].state == VERDICT_RUNNING)
                got[i].state = VERDICT_CRASHED;
        pid[w] = fork();
        if (!pid[w])
            worker(first + w, n, jobs, top, got);
    }
    return 1;
}

static const char *temporary(void)
{
    static char top[64];
    strcpy(top, "/dev/shm/hm-bench-XXXXXX");
    if (mkdtemp(top))
        return top;
    strcpy(top, "/tmp/hm-bench-XXXXXX");
    return mkdtemp(top);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
    const char *top = argc > 2 ? temporary() : NULL;
    if (!top) {
        fprintf(stderr, "usage: bench_verdict N JOBS [WRONG] | one I\n");
        return 64;
    }
    if (!strcmp(argv[1], "one")) {
        struct verdict_got g = {0};
        uint32_t i = (uint32_t)strtoul(argv[2], NULL, 10);
        run_case(i, top, &g);
        verdict_line(stdout, i, &g);
        rmdir(top);
        return 0;
    }
    uint32_t n = (uint32_t)strtoul(argv[1], NULL, 10), jobs = (uint32_t)strtoul(argv[2], NULL, 10);
    jobs = jobs < 1 ? 1 : jobs > 16 ? 16 : jobs;
    struct verdict_got *got = mmap(NULL, (n + 1) * sizeof(*got), PROT_READ | PROT_WRITE,
                                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (got == MAP_FAILED) {
        fprintf(stderr, "bench_verdict: out of memory\n");
        return 1;
    }
    double t0 = now();
    uint32_t first = argc > 4 ? (uint32_t)strtoul(argv[4], NULL, 10) : 0;
    int ok = run_all(first, n, jobs, top, got);
    nftw(top, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    if (!ok)
        return 1;
    verdict_table(stdout, n, got, now() - t0);
    FILE *wrong = argc > 3 ? fopen(argv[3], "w") : NULL;
    if (wrong) {
        verdict_wrong(wrong, n, got);
        fclose(wrong);
    }
    return 0;
}
