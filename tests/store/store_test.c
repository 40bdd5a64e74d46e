/* Rank files: round trip of every table, order, unfinished files, damage, kills.
 *
 * Box: tests/store. usage: store_test DIR  (an empty folder; DIR/h5py is left for h5py_test.py)
 * Expected values are what was put in.
 */
#include "store/encode.h"
#include "store/rank.h"
#include "store/schema.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(x)                                                              \
    do {                                                                      \
        if (!(x)) {                                                           \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #x); \
            exit(1);                                                          \
        }                                                                     \
    } while (0)

static uint64_t state = 88172645463325252u;
static uint64_t rnd(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static void quiet(void *ctx, int level, hm_status_t status, const char *line)
{
    (void)ctx;
    (void)level;
    (void)status;
    (void)line;
}

static struct hm_rank_meta meta_of(int rank, int n)
{
    struct hm_rank_meta m = {.rank = rank,
                             .n_ranks = n,
                             .local_rank = rank,
                             .pid = 77,
                             .nonce = 5,
                             .start_raw_ns = 1000,
                             .start_real_ns = 1000};
    strcpy(m.host, "node01");
    strcpy(m.boot_id, "boot");
    strcpy(m.timens, "0");
    strcpy(m.run_id, "run-1");
    strcpy(m.program, "test");
    return m;
}

static void define_few(struct hm_rankfile *rf)
{
    struct hm_def_track t = {.type = HM_TRACK_STREAM, .name = 0, .device = 3, .stream = 7};
    struct hm_def_kernel k = {.name = 1, .block = {128, 1, 1}};
    struct hm_def_comm c = {
        .hash = 0xabcdef, .crank = 1, .n_ranks = 2, .device = 3, .name = HM_NO_ID};
    CHECK(hm_rankfile_define(rf, HM_DEF_STRING, 0, "stream", 6) == HM_OK);
    CHECK(hm_rankfile_define(rf, HM_DEF_STRING, 1, "kernel", 6) == HM_OK);
    CHECK(hm_rankfile_define(rf, HM_DEF_STRING, 2, "", 0) == HM_OK);
    CHECK(hm_rankfile_define(rf, HM_DEF_STRING, 3, NULL, 0) == HM_OK); /* a hole */
    CHECK(hm_rankfile_define(rf, HM_DEF_STRING, 4, "last \"\n\xff", 8) == HM_OK);
    CHECK(hm_rankfile_define(rf, HM_DEF_STRING, 9, "x", 1) == HM_E_DATA); /* not dense */
    CHECK(hm_rankfile_define(rf, HM_DEF_TRACK, 0, &t, sizeof(t)) == HM_OK);
    CHECK(hm_rankfile_define(rf, HM_DEF_KERNEL, 0, &k, sizeof(k)) == HM_OK);
    CHECK(hm_rankfile_define(rf, HM_DEF_COMM, 0, &c, sizeof(c)) == HM_OK);
}

/* Random bytes in every stored member; ids stay 0 so that they survive the mapping; clock RAW. */
static struct hm_event random_event(const struct hm_table *t, int64_t time)
{
    struct hm_event ev = {0};
    for (uint32_t c = 1; c < t->n_cols; c++) {
        uint64_t v = rnd();
        const char *unit = t->col[c].unit;
        if (!strcmp(unit, "id"))
            v = 0;
        if (!strcmp(t->col[c].name, "flags"))
            v = 0;
        memcpy((uint8_t *)&ev + t->col[c].offset, &v, hm_col_bytes(t->col[c].type));
    }
    ev.t_ns = time;
    ev.kind = t->kind;
    return ev;
}

static void round_trip(const char *dir)
{
    struct hm_rank_meta m = meta_of(1, 2);
    struct hm_rankfile *rf;
    enum { N = 40000 };
    CHECK(hm_rankfile_create(dir, &m, &rf) == HM_OK);
    define_few(rf);
    uint64_t sum[HM_N_KINDS] = {0}, count[HM_N_KINDS] = {0};
    for (int i = 0; i < N; i++)
        for (uint32_t t = 0; t < hm_n_tables; t++) {
            if (i >= 20 && t > 2) /* three long tables, the rest short */
                continue;
            struct hm_event ev =
                random_event(&hm_tables[t], 1000000 + i * 100 + (int64_t)(rnd() % 5000));
            for (int w = 0; w < 5; w++)
                sum[ev.kind] += ev.u.word[w] * (uint64_t)(w + 1) ^ (uint64_t)ev.t_ns;
            count[ev.kind]++;
            CHECK(hm_rankfile_append(rf, &ev, 1) == HM_OK);
        }
    struct hm_event bad = {.kind = 200};
    CHECK(hm_rankfile_append(rf, &bad, 1) == HM_E_DATA);
    uint64_t lost[HM_N_LOST] = {0};
    lost[HM_LOST_BUDGET] = 12;
    hm_rankfile_lost(rf, lost);
    CHECK(hm_rankfile_close(rf, HM_END_CLEAN) == HM_OK);

    struct hm_run run;
    CHECK(hm_run_open(dir, 0, &run) == HM_OK);
    CHECK(run.n_present == 1 && run.n_ranks == 2 && run.n_problems == 1); /* rank 0 is missing */
    CHECK(run.rank[0].lost[HM_LOST_BUDGET] == 12 && run.rank[0].end == HM_END_CLEAN);
    CHECK(run.n_workers == 1 && run.worker[0].rank == 1 && run.worker[0].device == 3);
    CHECK(run.n_comms == 1 && run.comm[0].key == 0xabcdef && run.comm[0].worker[1] == 0 &&
          run.comm[0].worker[0] == HM_NO_ID);
    struct hm_rank *r;
    CHECK(hm_rank_open(run.rank[0].path, NULL, &run.names, &r) == HM_OK);
    struct hm_query q = {.kinds = UINT64_MAX};
    struct hm_batch b;
    int64_t last = INT64_MIN;
    CHECK(hm_rank_seek(r, &q) == HM_OK);
    while (hm_rank_next(r, &b) == HM_OK)
        for (uint32_t i = 0; i < b.n; i++) {
            struct hm_event ev = b.ev[i];
            CHECK(ev.t_ns >= last);
            last = ev.t_ns;
            count[ev.kind]--;
            /* mapped ids back to the file's 0 */
            if (ev.kind == HM_EV_KERNEL) {
                const struct hm_def_kernel *k =
                    hm_rank_def(r, HM_DEF_KERNEL, ev.u.kernel.kernel, NULL);
                CHECK(k && !strcmp(hm_run_string(&run, k->name), "kernel"));
                ev.u.kernel.kernel = 0;
                for (int w = 0; w < 5; w++)
                    sum[ev.kind] -= ev.u.word[w] * (uint64_t)(w + 1) ^ (uint64_t)ev.t_ns;
            }
            if (ev.kind == HM_EV_MEMCPY)
                for (int w = 0; w < 5; w++)
                    sum[ev.kind] -= ev.u.word[w] * (uint64_t)(w + 1) ^ (uint64_t)ev.t_ns;
        }
    for (int k = 0; k < HM_N_KINDS; k++)
        CHECK(count[k] == 0);
    CHECK(sum[HM_EV_KERNEL] == 0 && sum[HM_EV_MEMCPY] == 0);
    hm_rank_close(r);
    hm_run_close(&run);
}

/* A known file for h5py_test.py: t = 1000 i, correlation = i, grid_x = i mod 7. */
static void for_h5py(const char *dir)
{
    struct hm_rank_meta m = meta_of(0, 1);
    struct hm_rankfile *rf;
    CHECK(hm_rankfile_create(dir, &m, &rf) == HM_OK);
    define_few(rf);
    for (uint32_t i = 0; i < 40000; i++) {
        struct hm_event ev = {.t_ns = 1000 * (int64_t)i, .dur_ns = 500, .kind = HM_EV_KERNEL};
        ev.u.kernel.correlation = i;
        ev.u.kernel.grid[0] = i % 7;
        CHECK(hm_rankfile_append(rf, &ev, 1) == HM_OK);
    }
    CHECK(hm_rankfile_close(rf, HM_END_CLEAN) == HM_OK);
}

/* Counters with values 0..n-1: how many are there, and are they the first ones, each once? */
static uint64_t count_values(const char *dir, int *whole_p)
{
    struct hm_run run;
    CHECK(hm_run_open(dir, 0, &run) == HM_OK);
    struct hm_rank *r;
    CHECK(hm_rank_open(run.rank[0].path, NULL, &run.names, &r) == HM_OK);
    struct hm_query q = {.kinds = UINT64_C(1) << HM_EV_COUNTER};
    struct hm_batch b;
    uint64_t n = 0;
    CHECK(hm_rank_seek(r, &q) == HM_OK);
    *whole_p = 1;
    hm_status_t s;
    while ((s = hm_rank_next(r, &b)) == HM_OK)
        for (uint32_t i = 0; i < b.n; i++)
            if (b.ev[i].u.counter.value.i != (int64_t)n++)
                *whole_p = 0;
    CHECK(s == HM_END);
    hm_rank_close(r);
    hm_run_close(&run);
    return n;
}

static void put_values(struct hm_rankfile *rf, uint64_t from, uint64_t to)
{
    for (uint64_t i = from; i < to; i++) {
        struct hm_event ev = {.t_ns = (int64_t)i + 1, .kind = HM_EV_COUNTER};
        ev.u.counter.value.i = (int64_t)i;
        CHECK(hm_rankfile_append(rf, &ev, 1) == HM_OK);
    }
}

/* The writer is killed at a random moment of a burst; a pipe tells what had been flushed. */
static void killed(const char *top, unsigned n_kills)
{
    char dir[512];
    unsigned in_burst = 0;
    for (unsigned k = 0; k < n_kills; k++) {
        snprintf(dir, sizeof(dir), "%s/kill-%u", top, k);
        mkdir(dir, 0700);
        int fd[2];
        CHECK(pipe(fd) == 0);
        uint64_t step = 200 + rnd() % 9000;
        pid_t pid = fork();
        if (!pid) {
            struct hm_rank_meta m = meta_of(0, 1);
            struct hm_rankfile *rf;
            close(fd[0]);
            CHECK(hm_rankfile_create(dir, &m, &rf) == HM_OK);
            define_few(rf);
            for (uint64_t at = 0;; at += step) {
                put_values(rf, at, at + step);
                CHECK(hm_rankfile_flush(rf) == HM_OK);
                uint64_t flushed = at + step;
                if (write(fd[1], &flushed, 8) != 8)
                    _exit(0);
            }
        }
        close(fd[1]);
        uint64_t flushed = 0, got;
        CHECK(read(fd[0], &flushed, 8) == 8);
        uint64_t target = rnd() % 60000; /* how far, told by the burst itself, not by a clock */
        while (flushed < target)
            CHECK(read(fd[0], &flushed, 8) == 8);
        nanosleep(&(struct timespec){0, (long)(rnd() % 500000)}, NULL); /* somewhere in the next */
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        while (read(fd[0], &got, 8) == 8)
            flushed = got;
        close(fd[0]);
        int whole;
        uint64_t n = count_values(dir, &whole);
        if (n < flushed || !whole) {
            fprintf(stderr, "kill %u: %" PRIu64 " of %" PRIu64 " flushed rows, whole %d\n", k, n,
                    flushed, whole);
            exit(1);
        }
        in_burst += flushed > 16384;
        if (k % 8 == 0) { /* and the file can be made whole */
            char path[600];
            snprintf(path, sizeof(path), "%s/rank-00000.h5", dir);
            CHECK(hm_rankfile_finish(path) == HM_OK);
            CHECK(count_values(dir, &whole) == n && whole);
            snprintf(path, sizeof(path), "%s/rank-00000.tail", dir);
            CHECK(access(path, F_OK) && errno == ENOENT);
        }
        snprintf(dir, sizeof(dir), "rm -rf %s/kill-%u", top, k);
        CHECK(system(dir) == 0);
    }
    CHECK(in_burst > n_kills / 4); /* kills really fell behind the first chunk */
    printf("%u kills: every flushed row present\n", n_kills);
}

/* Cut and flipped files: any answer but a crash or a hang. */
static void damaged(const char *top, unsigned n_tries)
{
    char dir[512], path[600], tail[600];
    snprintf(dir, sizeof(dir), "%s/damage", top);
    mkdir(dir, 0700);
    snprintf(path, sizeof(path), "%s/rank-00000.h5", dir);
    snprintf(tail, sizeof(tail), "%s/rank-00000.tail", dir);
    uint8_t *good[2];
    size_t size[2];
    const char *name[2] = {path, tail};
    pid_t pid = fork(); /* killed, so that a tail stays */
    if (!pid) {
        struct hm_rank_meta m = meta_of(0, 1);
        struct hm_rankfile *rf;
        CHECK(hm_rankfile_create(dir, &m, &rf) == HM_OK);
        define_few(rf);
        put_values(rf, 0, 20000);
        CHECK(hm_rankfile_flush(rf) == HM_OK);
        raise(SIGKILL);
    }
    waitpid(pid, NULL, 0);
    for (int f = 0; f < 2; f++) {
        struct stat st;
        int fd = open(name[f], O_RDONLY);
        CHECK(fd >= 0 && fstat(fd, &st) == 0);
        size[f] = (size_t)st.st_size;
        good[f] = malloc(size[f]);
        CHECK(good[f] && read(fd, good[f], size[f]) == (ssize_t)size[f]);
        close(fd);
    }
    unsigned n_read = 0;
    for (unsigned i = 0; i < n_tries; i++) {
        for (int f = 0; f < 2; f++) {
            size_t n = size[f];
            uint8_t *bad = malloc(n);
            CHECK(bad);
            memcpy(bad, good[f], n);
            if (i % 2 == (unsigned)f) {
                for (uint64_t k = 0; k < 1 + rnd() % 4; k++)
                    bad[rnd() % (f || i % 3 ? n : 4096)] ^= (uint8_t)(1u << rnd() % 8);
                if (rnd() % 4 == 0)
                    n = rnd() % n;
            }
            int fd = open(name[f], O_WRONLY | O_TRUNC);
            CHECK(fd >= 0 && write(fd, bad, n) == (ssize_t)n);
            close(fd);
            free(bad);
        }
        pid = fork(); /* a crash inside shows as a signal here */
        if (!pid) {
            alarm(20);
            struct hm_run run;
            if (hm_run_open(dir, 0, &run))
                _exit(3);
            struct hm_rank *r;
            if (hm_rank_open(run.rank[0].path, NULL, &run.names, &r))
                _exit(3);
            struct hm_query q = {.kinds = UINT64_MAX};
            struct hm_batch b;
            int64_t last = INT64_MIN;
            hm_status_t s = hm_rank_seek(r, &q);
            while (s == HM_OK && (s = hm_rank_next(r, &b)) == HM_OK)
                for (uint32_t e = 0; e < b.n; e++) {
                    if (b.ev[e].t_ns < last || b.ev[e].kind >= HM_N_KINDS)
                        _exit(9);
                    last = b.ev[e].t_ns;
                }
            hm_rank_close(r);
            hm_run_close(&run);
            _exit(s == HM_END ? 0 : 3);
        }
        int st;
        waitpid(pid, &st, 0);
        if (!WIFEXITED(st) || (WEXITSTATUS(st) != 0 && WEXITSTATUS(st) != 3)) {
            fprintf(stderr, "damage %u: status %x\n", i, st);
            exit(1);
        }
        n_read += WEXITSTATUS(st) == 0;
    }
    printf("%u damaged files: no crash, %u read\n", n_tries, n_read);
    CHECK(n_read > 0);
    free(good[0]);
    free(good[1]);
}

/* One byte of HDF5's own structures: a chunk rank of 0 makes the library divide by it, other bytes
 * make it read outside its memory. The file is left out; the good one beside it is read. */
static void poisoned(const char *top)
{
    char dir[512], path[600], good_path[600];
    snprintf(dir, sizeof(dir), "%s/poison", top);
    mkdir(dir, 0700);
    for (int rank = 0; rank < 2; rank++) {
        struct hm_rank_meta m = meta_of(rank, 2);
        struct hm_rankfile *rf;
        CHECK(hm_rankfile_create(dir, &m, &rf) == HM_OK);
        define_few(rf);
        put_values(rf, 0, 10);
        CHECK(hm_rankfile_close(rf, HM_END_CLEAN) == HM_OK);
    }
    snprintf(good_path, sizeof(good_path), "%s/rank-00000.h5", dir);
    snprintf(path, sizeof(path), "%s/rank-00001.h5", dir);
    struct stat st;
    int fd = open(path, O_RDWR);
    CHECK(fd >= 0 && fstat(fd, &st) == 0);
    size_t n = (size_t)st.st_size;
    uint8_t *good = malloc(n);
    CHECK(good && pread(fd, good, n, 0) == (ssize_t)n);
    unsigned n_layouts = 0, n_crashed = 0, n_tried = 0;
    for (size_t at = 2; at < n; at++) {
        /* every chunked layout (version 3, class 2, rank + 1 = 2), and every 97th byte of the rest
         */
        int layout = good[at - 2] == 3 && good[at - 1] == 2 && good[at] == 2;
        if (!layout && at % 97)
            continue;
        uint8_t byte = layout ? 0 : 0xff;
        n_layouts += (unsigned)layout;
        n_tried++;
        CHECK(pwrite(fd, &byte, 1, (off_t)at) == 1);
        pid_t pid = fork();
        if (!pid) {
            alarm(30);
            struct hm_run run;
            hm_status_t s = hm_run_open(dir, 0, &run);
            _exit(s == HM_OK && run.rank[0].rank == 0 ? 0 : 3); /* the good rank is never lost */
        }
        int status;
        waitpid(pid, &status, 0);
        n_crashed += !WIFEXITED(status) || WEXITSTATUS(status) != 0;
        CHECK(pwrite(fd, &good[at], 1, (off_t)at) == 1);
    }
    close(fd);
    free(good);
    printf("%u poisoned bytes, %u of them chunk ranks: %u times the good rank was lost\n", n_tried,
           n_layouts, n_crashed);
    CHECK(n_layouts > 0 && n_crashed == 0);
    /* what is no regular file is not waited for */
    CHECK(unlink(path) == 0 && mkfifo(path, 0600) == 0);
    alarm(30);
    struct hm_run run;
    CHECK(hm_run_open(dir, 0, &run) == HM_OK && run.n_present == 1 && run.n_problems == 1);
    hm_run_close(&run);
    alarm(0);
}

static void names(const char *top)
{
    char dir[512];
    struct hm_rankfile *a, *b, *part;
    snprintf(dir, sizeof(dir), "%s/names", top);
    mkdir(dir, 0700);
    struct hm_rank_meta m = meta_of(4, 8);
    CHECK(hm_rankfile_create(dir, &m, &a) == HM_OK &&
          strstr(hm_rankfile_path(a), "/rank-00004.h5"));
    CHECK(hm_rankfile_create(dir, &m, &b) == HM_OK &&
          strstr(hm_rankfile_path(b), "/rank-00004.1.h5"));
    struct stat st;
    CHECK(stat(hm_rankfile_path(a), &st) == 0 && (st.st_mode & 0777) == 0600);
    m.rank = -1;
    CHECK(hm_rankfile_create(dir, &m, &part) == HM_OK &&
          strstr(hm_rankfile_path(part), "/.part-node01-77.h5"));
    put_values(part, 0, 10);
    CHECK(hm_rankfile_flush(part) == HM_OK);
    m.rank = 5;
    CHECK(hm_rankfile_meta(part, &m) == HM_OK && strstr(hm_rankfile_path(part), "/rank-00005.h5"));
    CHECK(access(hm_rankfile_path(part), F_OK) == 0);
    hm_rankfile_discard(b);
    CHECK(hm_rankfile_close(a, HM_END_CLEAN) == HM_OK);
    CHECK(hm_rankfile_close(part, HM_END_DIED) == HM_OK);
    struct hm_run run;
    CHECK(hm_run_open(dir, 0, &run) == HM_OK && run.n_present == 2 && run.rank[1].rank == 5);
    CHECK(run.rank[1].rows[HM_EV_COUNTER] == 10 && run.rank[1].end == HM_END_DIED);
    hm_run_close(&run);
}

static void real_clock(const char *top)
{
    /* REALTIME = RAW + 5 s, drifting by 10 us over 1 s: an event read at REAL maps back to RAW */
    char dir[512];
    snprintf(dir, sizeof(dir), "%s/clock", top);
    mkdir(dir, 0700);
    struct hm_rank_meta m = meta_of(0, 1);
    struct hm_rankfile *rf;
    CHECK(hm_rankfile_create(dir, &m, &rf) == HM_OK);
    define_few(rf);
    for (int i = 0; i < 2; i++) {
        struct hm_event ev = {.t_ns = i * 1000000000LL, .kind = HM_EV_CLOCK_SNAPSHOT};
        ev.u.snapshot.real_ns = ev.t_ns + 5000000000LL + i * 10000;
        CHECK(hm_rankfile_append(rf, &ev, 1) == HM_OK);
    }
    struct hm_event k = {
        .t_ns = 5500005000LL, .dur_ns = 10, .kind = HM_EV_KERNEL, .flags = HM_CLOCK_REAL};
    CHECK(hm_rankfile_append(rf, &k, 1) == HM_OK);
    for (int i = 0; i < 1000; i++) { /* back to back for 0.4 s */
        k.t_ns += k.dur_ns;
        k.dur_ns = 400000 + i;
        CHECK(hm_rankfile_append(rf, &k, 1) == HM_OK);
    }
    CHECK(hm_rankfile_close(rf, HM_END_CLEAN) == HM_OK);
    struct hm_run run;
    struct hm_rank *r;
    struct hm_batch b;
    struct hm_timeseg seg = {.x0_ns = 0, .y0_ns = 77};
    struct hm_timemap map[HM_N_CLOCKS] = {[HM_CLOCK_RAW] = {&seg, 1, 0}};
    CHECK(hm_run_open(dir, 0, &run) == HM_OK);
    CHECK(hm_rank_open(run.rank[0].path, map, &run.names, &r) == HM_OK);
    struct hm_query q = {.kinds = UINT64_C(1) << HM_EV_KERNEL};
    CHECK(hm_rank_seek(r, &q) == HM_OK && hm_rank_next(r, &b) == HM_OK && b.n == 1001);
    CHECK(b.ev[0].t_ns == 500000000 + 77); /* halfway: RAW 0.5 s, then the caller's map */
    for (uint32_t i = 1; i < b.n; i++)     /* neither gaps nor overlaps come from the map */
        CHECK(b.ev[i].t_ns == b.ev[i - 1].t_ns + b.ev[i - 1].dur_ns);
    hm_rank_close(r);
    hm_run_close(&run);
}

static void bytes_per_event(const char *top)
{
    /* a periodic step of 320 kernels with jitter, each with its launch call */
    char dir[512];
    snprintf(dir, sizeof(dir), "%s/size", top);
    mkdir(dir, 0700);
    struct hm_rank_meta m = meta_of(0, 1);
    struct hm_rankfile *rf;
    CHECK(hm_rankfile_create(dir, &m, &rf) == HM_OK);
    define_few(rf);
    enum { N = 400000 };
    int64_t t = 0;
    for (uint32_t i = 0; i < N; i++) {
        struct hm_event k = {.t_ns = t,
                             .dur_ns = 20000 + (int64_t)(i % 320) * 100 + (int64_t)(rnd() % 512),
                             .kind = HM_EV_KERNEL};
        k.u.kernel.correlation = i;
        k.u.kernel.grid[0] = 64 + i % 320;
        k.u.kernel.kernel = 0;
        struct hm_event a = {.t_ns = t - 500000 + (int64_t)(rnd() % 256),
                             .dur_ns = 3000 + (int64_t)(rnd() % 256),
                             .kind = HM_EV_API};
        a.u.api.correlation = i;
        CHECK(hm_rankfile_append(rf, &k, 1) == HM_OK && hm_rankfile_append(rf, &a, 1) == HM_OK);
        t += k.dur_ns + 1500 + (int64_t)(rnd() % 256);
    }
    CHECK(hm_rankfile_close(rf, HM_END_CLEAN) == HM_OK);
    struct stat st;
    char path[600];
    snprintf(path, sizeof(path), "%s/rank-00000.h5", dir);
    CHECK(stat(path, &st) == 0);
    printf("%.2f bytes an event\n", (double)st.st_size / (2.0 * N));
    CHECK(st.st_size < 8 * 2 * N);
}

int main(int argc, char **argv)
{
    char dir[512];
    CHECK(argc >= 2);
    snprintf(dir, sizeof(dir), "rm -rf '%s'", argv[1]); /* of an earlier run */
    CHECK(system(dir) == 0);
    mkdir(argv[1], 0700);
    snprintf(dir, sizeof(dir), "%s/trip", argv[1]);
    mkdir(dir, 0700);
    round_trip(dir);
    snprintf(dir, sizeof(dir), "%s/h5py", argv[1]);
    mkdir(dir, 0700);
    for_h5py(dir);
    names(argv[1]);
    hm_log_sink(quiet, NULL);
    poisoned(argv[1]);
    hm_log_sink(NULL, NULL);
    real_clock(argv[1]);
    bytes_per_event(argv[1]);
    killed(argv[1], argc > 2 ? (unsigned)atoi(argv[2]) : 100);
    hm_log_sink(quiet, NULL);
    damaged(argv[1], argc > 2 ? (unsigned)atoi(argv[2]) * 4 : 400);
    return 0;
}
