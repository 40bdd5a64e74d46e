/* Whole runs through the engine, up to the match: clocks, damage, order.
 *
 * Expected values: what the runs were made of (injected offset, drift, lateness; the demo's model).
 */
#include "demo/demo.h"
#include "engine/more.h"
#include "store/rankfile.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char top[64], run[128];

static void begin(void)
{
    strcpy(top, "/tmp/hm-engine-XXXXXX");
    cr_assert_not_null(mkdtemp(top));
    snprintf(run, sizeof(run), "%s/run", top);
    hm_engine_wait_ms = 0;
}
static void end(void)
{
    char path[512];
    DIR *d = opendir(run);
    struct dirent *e;
    while (d && (e = readdir(d))) {
        snprintf(path, sizeof(path), "%s/%s", run, e->d_name);
        unlink(path);
    }
    if (d)
        closedir(d);
    rmdir(run);
    rmdir(top);
}
TestSuite(run, .init = begin, .fini = end);

static hm_status_t work(struct hm_engine *e)
{
    static struct hm_team solo = {.n = 1};
    hm_status_t s = hm_engine_open(&solo, run, e);
    if (s)
        return s;
    s = hm_engine_collect(e);
    return s ? s : hm_engine_match(e);
}

static struct hm_launch *launches(struct hm_engine *e, uint64_t *n_p)
{
    *n_p = hm_spool_count(e->more->launch);
    struct hm_launch *l = calloc(*n_p + 1, sizeof(*l));
    cr_assert_eq(hm_spool_read(e->more->launch, 0, l, *n_p), HM_OK);
    return l;
}

static int problems_with(const struct hm_engine *e, const char *word)
{
    int n = 0;
    for (uint32_t i = 0; i < e->run.n_problems; i++)
        n += strstr(e->run.problem[i].file, word) || strstr(e->run.problem[i].what, word);
    return n;
}

Test(run, demo_with_a_slow_gpu)
{
    struct hm_demo d = {.n_ranks = 4,
                        .n_steps = 10,
                        .seed = 3,
                        .n_faults = 1,
                        .fault = {{HM_DEMO_SLOW_GPU, 2, 0, 1.2}}};
    struct hm_engine e;
    uint64_t n;
    cr_assert_eq(hm_demo_write(&d, run), HM_OK);
    cr_assert_eq(work(&e), HM_OK);
    struct hm_launch *l = launches(&e, &n);
    cr_assert_eq(n, 40, "4 buckets in each of 10 steps");
    cr_assert_eq(e.more->match.n_complete, 40);
    cr_assert_eq(e.more->match.n_violations, 0);
    cr_assert_eq(e.more->match.n_mismatched, 0);
    for (uint64_t i = 0; i < n; i++) {
        cr_assert_eq(l[i].last_worker, 2);
        cr_assert_eq(l[i].seq, i);
        cr_assert_eq(l[i].step, i / 4);
        cr_assert_eq(l[i].bytes, 26214400);
        cr_assert_eq(l[i].func, HM_NCCL_ALLREDUCE);
        cr_assert_eq(l[i].u_ns, 0, "one clock");
        cr_assert_eq(l[i].confidence, HM_JOIN_EXTERNAL);
        /* the optimizer of the step before (0.9 ms), 16 kernels of forward (7.2 ms in all) and 2 of
         * backward (3 ms), all 20 % longer */
        if (i % 4 == 0 && i) /* ranks do not start at one instant */
            cr_assert(llabs(l[i].last_ns - l[i].second_ns - 2220000) < 100000, "%ld",
                      (long)(l[i].last_ns - l[i].second_ns));
    }
    free(l);
    for (uint32_t w = 0; w < 4; w++) {
        cr_assert_eq(e.of_rank[w].n, 40);
        cr_assert_eq(e.more->n_windows[w], 10);
        for (size_t k = 1; k < 10; k++)
            cr_assert_eq(e.more->window[w][k].t0_ns, e.more->window[w][k - 1].t1_ns, "no gap");
    }
    cr_assert_str_eq(e.more->step_source, "marks");
    hm_engine_close(&e);
}

Test(run, demo_is_the_same_for_the_same_seed)
{
    struct hm_demo d = {.n_ranks = 3,
                        .n_steps = 5,
                        .seed = 11,
                        .n_faults = 1,
                        .fault = {{HM_DEMO_SLOW_INPUT, 1, 2, 8}}};
    struct hm_demo_truth t;
    cr_assert_eq(hm_demo_truth(&d, &t), HM_OK);
    /* steps 2, 3 and 4 begin 8 ms later on rank 1, and everybody waits: 24 ms less what jitter
     * hid before */
    cr_assert(llabs(t.total_ns - t.repaired_ns - 24000000) < 200000, "%ld",
              (long)(t.total_ns - t.repaired_ns));
    struct hm_demo healthy = d;
    healthy.n_faults = 0;
    cr_assert_eq(hm_demo_truth(&healthy, &t), HM_OK);
    cr_assert_eq(t.total_ns, t.repaired_ns);
}

Test(run, missing_rank)
{
    struct hm_demo d = {.n_ranks = 4, .n_steps = 5, .seed = 1};
    struct hm_engine e;
    char path[256];
    cr_assert_eq(hm_demo_write(&d, run), HM_OK);
    snprintf(path, sizeof(path), "%s/rank-00001.h5", run);
    cr_assert_eq(unlink(path), 0);
    cr_assert_eq(work(&e), HM_OK);
    cr_assert_eq(e.run.n_present, 3);
    cr_assert_eq(e.run.n_ranks, 4);
    cr_assert_eq(problems_with(&e, "missing"), 1);
    cr_assert_eq(e.more->match.n_complete, 20, "absent ranks are not expected");
    uint64_t n;
    struct hm_launch *l = launches(&e, &n);
    cr_assert_eq(n, 20);
    cr_assert_eq(l[0].n_members, 4);
    cr_assert_eq(l[0].n_present, 3);
    free(l);
    hm_engine_close(&e);
}

static void cut(uint32_t rank, int64_t bytes)
{
    char path[256];
    struct stat st;
    snprintf(path, sizeof(path), "%s/rank-%05u.h5", run, rank);
    cr_assert_eq(stat(path, &st), 0);
    cr_assert_eq(truncate(path, bytes < 0 ? st.st_size / 2 : bytes), 0);
}

Test(run, truncated_file_among_good_ones)
{
    struct hm_demo d = {.n_ranks = 4, .n_steps = 5, .seed = 1};
    struct hm_engine e;
    cr_assert_eq(hm_demo_write(&d, run), HM_OK);
    cut(3, -1);
    cr_assert_eq(work(&e), HM_OK);
    cr_assert_eq(e.run.n_present, 3);
    cr_assert_geq(problems_with(&e, "rank-00003.h5"), 1);
    cr_assert_eq(e.more->match.n_complete, 20);
    hm_engine_close(&e);
}

Test(run, damage_inside_a_file)
{
    /* 64 bytes spoilt at 40 places, one after another: the run stays usable, and the rank is either
     * whole (the bytes were not in use, or only a value), or left out and named */
    struct hm_demo d = {.n_ranks = 3, .n_steps = 20, .seed = 1};
    char path[256];
    uint8_t junk[64], good[64];
    struct stat st;
    int n_left_out = 0;
    cr_assert_eq(hm_demo_write(&d, run), HM_OK);
    memset(junk, 0x5a, sizeof(junk));
    snprintf(path, sizeof(path), "%s/rank-00002.h5", run);
    cr_assert_eq(stat(path, &st), 0);
    int fd = open(path, O_RDWR);
    for (int i = 0; i < 40; i++) {
        struct hm_engine e;
        uint64_t n;
        off_t at = st.st_size / 41 * (i + 1);
        cr_assert_eq(pread(fd, good, sizeof(good), at), (ssize_t)sizeof(good));
        cr_assert_eq(pwrite(fd, junk, sizeof(junk), at), (ssize_t)sizeof(junk));
        cr_assert_eq(work(&e), HM_OK, "at %ld", (long)at);
        int left_out = e.run.n_present == 2 || e.more->bad[2];
        n_left_out += left_out && e.run.n_present == 3;
        cr_assert(!left_out || problems_with(&e, "rank-00002.h5"), "at %ld", (long)at);
        struct hm_launch *l = launches(&e, &n);
        uint64_t n_two = 0;
        for (uint64_t k = 0; k < n; k++)
            n_two += l[k].n_present >= 2;
        cr_assert_geq(n_two, 80, "ranks 0 and 1 are whole; at %ld", (long)at);
        free(l);
        hm_engine_close(&e);
        cr_assert_eq(pwrite(fd, good, sizeof(good), at), (ssize_t)sizeof(good));
    }
    close(fd);
    cr_assert_gt(n_left_out, 0, "no place hit a chunk");
}

Test(run, empty_file_among_good_ones)
{
    struct hm_demo d = {.n_ranks = 2, .n_steps = 3, .seed = 1};
    struct hm_engine e;
    cr_assert_eq(hm_demo_write(&d, run), HM_OK);
    cut(0, 0);
    cr_assert_eq(work(&e), HM_OK);
    cr_assert_eq(e.run.n_present, 1);
    hm_engine_close(&e);
}

Test(run, nothing_usable)
{
    struct hm_demo d = {.n_ranks = 1, .n_steps = 2, .seed = 1};
    struct hm_engine e;
    cr_assert_eq(work(&e), HM_E_NO_RUN, "no such folder");
    cr_assert_eq(hm_demo_write(&d, run), HM_OK);
    cut(0, -1);
    cr_assert_eq(work(&e), HM_E_DATA, "the only file is cut");
}

Test(run, two_runs_in_one_folder)
{
    struct hm_demo d = {.n_ranks = 2, .n_steps = 3, .seed = 1};
    struct hm_engine e;
    char other[200], from[256], to[256];
    cr_assert_eq(hm_demo_write(&d, run), HM_OK);
    snprintf(other, sizeof(other), "%s/other", top);
    d.seed = 2;
    cr_assert_eq(hm_demo_write(&d, other), HM_OK);
    for (int i = 0; i < 2; i++) {
        snprintf(from, sizeof(from), "%s/rank-%05d.h5", other, i);
        snprintf(to, sizeof(to), "%s/rank-%05d.1.h5", run, i);
        cr_assert_eq(rename(from, to), 0);
    }
    snprintf(from, sizeof(from), "%s/truth.json", other);
    unlink(from);
    rmdir(other);
    cr_assert_eq(work(&e), HM_E_CONFLICT);
}

/* ---- two nodes with clocks of their own ---- */

enum { N_STEPS = 12 };
static const int64_t MS = 1000000, OFFSET = INT64_C(5000000000);

/* Node 1's clock: 5 s ahead, 30 ppm fast. */
static int64_t clock_of(uint32_t rank, int64_t t)
{
    return rank < 2 ? t : t + OFFSET + t * 30 / 1000000;
}

static struct hm_rankfile *file_of(uint32_t rank, int with_clocks)
{
    struct hm_rank_meta m = {.rank = (int32_t)rank,
                             .n_ranks = 4,
                             .pid = (int32_t)rank + 1,
                             .source = HM_SOURCE_DEMO,
                             .domain_leader = rank % 2 == 0,
                             .leader_index = rank % 2 ? HM_NO_ID : rank / 2,
                             .start_raw_ns = clock_of(rank, 1000 * MS),
                             .start_real_ns = INT64_C(1767225600000000000) + 1000 * MS};
    struct hm_rankfile *rf;
    (void)with_clocks;
    snprintf(m.host, sizeof(m.host), "node%u", rank / 2);
    snprintf(m.boot_id, sizeof(m.boot_id), "boot%u", rank / 2);
    strcpy(m.run_id, "two-nodes");
    cr_assert_eq(hm_rankfile_create(run, &m, &rf), HM_OK);
    static const char *const text[] = {"main", "stream", "ncclDevKernel_AllReduce_Sum_f32_RING_LL"};
    for (uint32_t i = 0; i < 3; i++)
        cr_assert_eq(hm_rankfile_define(rf, HM_DEF_STRING, i, text[i], (uint32_t)strlen(text[i])),
                     HM_OK);
    struct hm_def_track host = {.type = HM_TRACK_THREAD, .name = 0, .tid = 1};
    struct hm_def_track stream = {.type = HM_TRACK_STREAM, .name = 1, .stream = 7};
    struct hm_def_kernel k = {.name = 2, .block = {256, 1, 1}};
    struct hm_def_comm c = {.hash = 42, .crank = (int32_t)rank, .n_ranks = 4, .name = HM_NO_ID};
    hm_rankfile_define(rf, HM_DEF_TRACK, 0, &host, sizeof(host));
    hm_rankfile_define(rf, HM_DEF_TRACK, 1, &stream, sizeof(stream));
    hm_rankfile_define(rf, HM_DEF_KERNEL, 0, &k, sizeof(k));
    hm_rankfile_define(rf, HM_DEF_COMM, 0, &c, sizeof(c));
    return rf;
}

static void put(struct hm_rankfile *rf, struct hm_event ev)
{
    cr_assert_eq(hm_rankfile_append(rf, &ev, 1), HM_OK);
}

/* One all-reduce a step. Starts: rank 3 200 us late; ends together. All on true time, written in
 * each rank's own clock. */
static void collectives(struct hm_rankfile *rf, uint32_t rank)
{
    for (uint32_t i = 0; i < N_STEPS; i++) {
        int64_t t = 2000 * MS + i * 100 * MS, start = t + rank * 10000 + (rank == 3 ? 200000 : 0);
        struct hm_event launch = {
            .t_ns = clock_of(rank, t - 50000), .dur_ns = 10000, .kind = HM_EV_NCCL_LAUNCH};
        launch.u.launch.launch = i + 1;
        struct hm_event api = {
            .t_ns = clock_of(rank, t - 48000), .dur_ns = 5000, .kind = HM_EV_API};
        api.u.api.correlation = i + 1;
        api.u.api.external = i + 1;
        api.u.api.name = HM_NO_ID;
        struct hm_event op = {
            .t_ns = clock_of(rank, t - 30000), .dur_ns = 1000, .kind = HM_EV_NCCL_COLL};
        op.aux = HM_NCCL_AUX(HM_NCCL_ALLREDUCE, HM_DTYPE_FLOAT32);
        op.u.op = (struct hm_ev_op){.count = 1000, .call = i, .launch = i + 1, .peer = -1};
        struct hm_event kernel = {.t_ns = clock_of(rank, start), .kind = HM_EV_KERNEL, .track = 1};
        kernel.dur_ns = clock_of(rank, t + 700000) - kernel.t_ns;
        kernel.u.kernel.correlation = i + 1;
        put(rf, launch);
        put(rf, api);
        put(rf, op);
        put(rf, kernel);
    }
}

/* Windows of probes from node 1's leader to node 0's at the beginning and the end; one way 3 us,
 * the other 5 us. */
static void probes(struct hm_rankfile *rf)
{
    for (uint32_t w = 0; w < 2; w++)
        for (int i = 0; i < 8; i++) {
            int64_t t = (w ? 4000 : 1000) * MS + i * 20000;
            struct hm_event ev = {.t_ns = clock_of(2, t), .kind = HM_EV_CLOCK_PROBE};
            ev.u.probe.t2_ns = clock_of(0, t + 3000);
            ev.u.probe.t3_ns = clock_of(0, t + 3500);
            ev.u.probe.t4_ns = clock_of(2, t + 8500);
            ev.u.probe.window = w;
            ev.u.probe.peer = 0;
            put(rf, ev);
        }
}

static void two_nodes(int with_probes)
{
    cr_assert_eq(mkdir(run, 0755), 0);
    for (uint32_t rank = 0; rank < 4; rank++) {
        struct hm_rankfile *rf = file_of(rank, with_probes);
        if (rank == 2 && with_probes)
            probes(rf);
        collectives(rf, rank);
        cr_assert_eq(hm_rankfile_close(rf, HM_END_CLEAN), HM_OK);
    }
}

Test(run, two_clocks_become_one)
{
    struct hm_engine e;
    uint64_t n;
    two_nodes(1);
    cr_assert_eq(work(&e), HM_OK);
    cr_assert_eq(e.run.n_domains, 2);
    cr_assert_eq(e.run.n_problems, 0);
    struct hm_launch *l = launches(&e, &n);
    cr_assert_eq(n, N_STEPS);
    for (uint64_t i = 0; i < n; i++) {
        int64_t t = 2000 * MS + (int64_t)i * 100 * MS;
        cr_assert_eq(l[i].last_worker, 3, "late by 200 us, the clock knows 10");
        cr_assert(l[i].u_ns > 0 && l[i].u_ns < 10000, "%ld", (long)l[i].u_ns);
        cr_assert(llabs(l[i].last_ns - (t + 230000)) <= l[i].u_ns, "%ld off",
                  (long)(l[i].last_ns - (t + 230000)));
        cr_assert_eq(l[i].first_ns, t, "rank 0 keeps its own clock");
        cr_assert(!(l[i].flags & HM_LAUNCH_VIOLATION));
    }
    free(l);
    cr_assert_eq(e.more->match.n_complete, N_STEPS);
    hm_engine_close(&e);
}

Test(run, clocks_without_probes_name_nobody)
{
    struct hm_engine e;
    uint64_t n;
    two_nodes(0);
    cr_assert_eq(work(&e), HM_OK);
    cr_assert_eq(problems_with(&e, "clocks"), 1);
    struct hm_launch *l = launches(&e, &n);
    cr_assert_eq(n, N_STEPS);
    for (uint64_t i = 0; i < n; i++) {
        cr_assert_eq(l[i].last_worker, HM_NO_ID);
        cr_assert(l[i].flags & HM_LAUNCH_TIE);
        /* drawn where the time of day puts it: the drift of 2 s is all that is wrong */
        cr_assert(llabs(l[i].last_ns - l[i].first_ns) < MS);
    }
    cr_assert_eq(e.more->match.n_violations, 0);
    free(l);
    hm_engine_close(&e);
}

/* ---- nothing but kernels ---- */

Test(run, kernels_alone_match_by_order)
{
    struct hm_engine e;
    uint64_t n;
    cr_assert_eq(mkdir(run, 0755), 0);
    for (uint32_t rank = 0; rank < 2; rank++) {
        struct hm_rankfile *rf;
        struct hm_rank_meta m = {.rank = (int32_t)rank,
                                 .n_ranks = 2,
                                 .pid = 1,
                                 .leader_index = HM_NO_ID,
                                 .source = HM_SOURCE_KINETO};
        strcpy(m.run_id, "k");
        cr_assert_eq(hm_rankfile_create(run, &m, &rf), HM_OK);
        static const char *const text[] = {"ncclKernel_AllReduce_RING_LL_Sum_float", "gemm"};
        struct hm_def_track stream = {.type = HM_TRACK_STREAM, .name = 0, .device = rank};
        hm_rankfile_define(rf, HM_DEF_STRING, 0, text[0], (uint32_t)strlen(text[0]));
        hm_rankfile_define(rf, HM_DEF_STRING, 1, text[1], (uint32_t)strlen(text[1]));
        stream.stream = 84 + rank; /* another number on each rank */
        hm_rankfile_define(rf, HM_DEF_TRACK, 0, &stream, sizeof(stream));
        struct hm_def_kernel nccl = {.name = 0}, gemm = {.name = 1};
        hm_rankfile_define(rf, HM_DEF_KERNEL, 0, &nccl, sizeof(nccl));
        hm_rankfile_define(rf, HM_DEF_KERNEL, 1, &gemm, sizeof(gemm));
        for (int i = 0; i < 3; i++) {
            struct hm_event g = {.t_ns = 100 + i * 1000, .dur_ns = 300, .kind = HM_EV_KERNEL};
            g.u.kernel.kernel = 1;
            struct hm_event k = {.t_ns = 500 + i * 1000 + (int)rank * 40, .kind = HM_EV_KERNEL};
            k.dur_ns = 600 + i * 1000 - k.t_ns;
            put(rf, g);
            put(rf, k);
        }
        cr_assert_eq(hm_rankfile_close(rf, HM_END_CLEAN), HM_OK);
    }
    cr_assert_eq(work(&e), HM_OK);
    struct hm_launch *l = launches(&e, &n);
    cr_assert_eq(n, 3);
    for (uint64_t i = 0; i < n; i++) {
        cr_assert_eq(l[i].n_present, 2);
        cr_assert_eq(l[i].n_members, 2);
        cr_assert_eq(l[i].last_worker, 1);
        cr_assert_eq(l[i].last_ns - l[i].first_ns, 40);
        cr_assert_eq(l[i].confidence, HM_JOIN_ORDER);
        cr_assert_eq(l[i].step, 0);
    }
    cr_assert_eq(e.more->n_windows[0], 1, "no steps: the whole recording");
    cr_assert_eq(e.more->window[0][0].t0_ns, 100);
    cr_assert_eq(e.more->window[0][0].t1_ns, 2600);
    cr_assert_str_eq(e.more->step_source, "none");
    free(l);
    hm_engine_close(&e);
}
