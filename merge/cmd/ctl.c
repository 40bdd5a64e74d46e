/* `hindmost ctl`: orders to a run that is being recorded.
 *
 * Box: merge/cmd. The order is the file RUN/control, renamed into place, so that it reaches every
 * node that sees the folder and no writer reads half of it. Each writer looks once a second and
 * answers in RUN/.seen-RANK; who writes holds a lock on rank-RANK.lock.
 */
#include "cli.h"
#include "core/who.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MAX_RANKS = 65536 };

struct args {
    int64_t wait;
};
static const struct hm_option options[] = {{"wait", "SECONDS", "for the ranks' answers (default 5)",
                                            NULL, offsetof(struct args, wait), 'w', HM_OPT_INT}};

struct control {
    int64_t id;
    char order[8];
    long snapshot;
};

/* --- who is recording --- */

static int is_held(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    int held = flock(fd, LOCK_EX | LOCK_NB) != 0;
    close(fd);
    return held;
}

static int by_value(const void *a, const void *b)
{
    const int *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Ranks whose file is being written now; the caller frees. */
static size_t list_ranks(const char *run, int **rank_p)
{
    char path[1400];
    size_t n = 0, cap = 0;
    int *rank = NULL;
    DIR *d = opendir(run);
    for (struct dirent *e; d && (e = readdir(d));) {
        int r, end = 0;
        if (sscanf(e->d_name, "rank-%d.lock%n", &r, &end) != 1 || !end || e->d_name[end])
            continue;
        snprintf(path, sizeof(path), "%.1023s/%.255s", run, e->d_name);
        if (n >= MAX_RANKS || !is_held(path))
            continue;
        if (n == cap) {
            cap = cap ? 2 * cap : 64;
            int *more = realloc(rank, cap * sizeof(*rank));
            if (!more)
                break;
            rank = more;
        }
        rank[n++] = r;
    }
    if (d)
        closedir(d);
    if (n)
        qsort(rank, n, sizeof(*rank), by_value);
    *rank_p = rank;
    return n;
}

/* --- the order --- */

static void read_old(const char *path, struct control *c)
{
    char line[128], value[8];
    long long number;
    *c = (struct control){.order = "none"};
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof(line), f)) {
        if (sscanf(line, "id %lld", &number) == 1)
            c->id = number;
        else if (sscanf(line, "snapshot %lld", &number) == 1 && number > 0)
            c->snapshot = (long)(number % 32000);
        else if (sscanf(line, "order %7s", value) == 1)
            snprintf(c->order, sizeof(c->order), "%s", value);
    }
    if (f)
        fclose(f);
    if (c->id <= 0) /* not one of ours */
        *c = (struct control){.order = "none"};
}

static hm_status_t give_order(const char *run, const char *word, struct control *c)
{
    char path[1100], temp[1140];
    struct timespec ts;
    snprintf(path, sizeof(path), "%.1023s/control", run);
    snprintf(temp, sizeof(temp), "%s.%d", path, (int)getpid());
    read_old(path, c);
    clock_gettime(CLOCK_REALTIME, &ts);
    int64_t now = (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
    c->id = now > c->id ? now : c->id + 1;
    if (!strcmp(word, "snapshot"))
        c->snapshot++;
    else
        snprintf(c->order, sizeof(c->order), "%s", word);
    FILE *f = fopen(temp, "we");
    if (!f)
        return hm_fail(HM_E_IO, run,
                       "cannot be written; only who may write the run may control it");
    int bad = fprintf(f, "id %lld\norder %s\nsnapshot %ld\n", (long long)c->id, c->order,
                      c->snapshot) < 0;
    bad |= fclose(f) != 0;
    if (bad || rename(temp, path)) {
        unlink(temp);
        return hm_fail(HM_E_IO, path, "could not be put into place; is the disk full?");
    }
    return HM_OK;
}

/* --- the answers --- */

/* The answer of a rank to this order, NULL = none yet. */
static FILE *open_answer(const char *run, int rank, int64_t id)
{
    char path[1100], line[128];
    long long seen = 0;
    snprintf(path, sizeof(path), "%.1023s/.seen-%05d", run, rank);
    FILE *f = fopen(path, "re");
    if (!f)
        return NULL;
    if (fgets(line, sizeof(line), f) && sscanf(line, "id %lld", &seen) == 1 && seen == id)
        return f;
    fclose(f);
    return NULL;
}

/* Waits for all; the ranks that stay silent move to the front. Returns how many they are. */
static size_t await(const char *run, int *rank, size_t n, int64_t id, int64_t wait_s)
{
    size_t silent = n;
    struct timespec nap = {.tv_nsec = 50000000};
    for (int64_t i = 0; silent; i++) {
        for (size_t k = 0; k < silent;) {
            FILE *f = open_answer(run, rank[k], id);
            if (!f) {
                k++;
                continue;
            }
            fclose(f);
            int answered = rank[k];
            rank[k] = rank[--silent];
            rank[silent] = answered;
        }
        if (!silent || i >= wait_s * 20)
            break;
        nanosleep(&nap, NULL);
    }
    return silent;
}

static void print_rank(FILE *f, int rank)
{
    char line[512], host[64] = "", gate[8] = "";
    long long step = 0, age;
    int end = 0, any = 0;
    while (fgets(line, sizeof(line), f)) {
        line[strcspn(line, "\n")] = 0;
        if (sscanf(line, "host %63s", host) != 1)
            (void)sscanf(line, "step %lld", &step);
        if (sscanf(line, "gate %7s", gate) == 1)
            printf("rank %d  %s  step %lld  %s\n", rank, host, step,
                   !strcmp(gate, "open") ? "recording" : "not recording");
        if (sscanf(line, "open %lld %n", &age, &end) == 1) {
            printf("  %10.3f s  %s\n", (double)age * 1e-9, line + end);
            any = 1;
        }
    }
    if (!any)
        printf("              nothing open\n");
}

static hm_status_t ctl_run(const void *arguments, int argc, char **argv)
{
    static const char *const words[] = {"start", "stop", "snapshot"};
    const struct args *args = arguments;
    char latest[1024];
    const char *run = argc > 1 ? argv[1] : latest;
    int which = -1;
    for (int i = 0; argc && i < 3; i++)
        if (!strcmp(argv[0], words[i]))
            which = i;
    if (which < 0 || argc > 2)
        return hm_fail(HM_E_USAGE, "ctl", "usage: hindmost ctl start|stop|snapshot [RUN]");
    hm_status_t s = argc > 1 ? HM_OK : hm_rundir_latest(latest);
    if (s)
        return s;
    struct stat st;
    if (stat(run, &st) || !S_ISDIR(st.st_mode))
        return hm_fail(HM_E_NO_RUN, run, "no such run folder");
    int *rank;
    size_t n = list_ranks(run, &rank);
    if (!n) {
        free(rank);
        return hm_fail(HM_E_NO_RUN, run, "no rank is being recorded here now");
    }
    struct control c;
    s = give_order(run, argv[0], &c);
    size_t silent = s ? 0 : await(run, rank, n, c.id, args->wait > 0 ? args->wait : 5);
    if (!s && which == 2) {
        qsort(rank + silent, n - silent, sizeof(*rank), by_value);
        for (size_t i = silent; i < n; i++) {
            FILE *f = open_answer(run, rank[i], c.id);
            if (f) {
                print_rank(f, rank[i]);
                fclose(f);
            }
        }
    } else if (!s) {
        printf("%s: %zu of %zu ranks\n", which ? "stopped" : "started", n - silent, n);
    }
    if (!s && silent)
        s = hm_fail(HM_E_TIMEOUT, run,
                    "%zu of %zu ranks did not answer, rank %d among them; they obey when they see "
                    "the folder, or have ended",
                    silent, n, rank[0]);
    free(rank);
    return s;
}

const struct hm_command hm_cmd_ctl = {"ctl",
                                      "start|stop|snapshot [RUN]",
                                      "starts and stops recording, shows what ranks are doing",
                                      "hindmost ctl snapshot",
                                      options,
                                      sizeof(options) / sizeof(options[0]),
                                      sizeof(struct args),
                                      ctl_run};
