/* Writes the rank files of one situation with a known right answer.
 *
 * Box: tests/verdict. Written apart from the analyser: it knows the event types and the rank file,
 * nothing of lib/analysis. Every situation is a schedule of kernels computed by plain arithmetic
 * here; the expected verdicts stand in verdict_test.py, from hand calculation.
 *
 *   scenario NAME DIR
 *
 * Common shape: every rank computes on stream 7 (half matmul, half bias kernel) and communicates on
 * stream 20; the next step's compute waits for the collective. The host launches one step ahead
 * unless the situation says otherwise.
 */
#include "core/clock.h"
#include "store/rankfile.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MS     1000000LL
#define US     1000LL
#define ORIGIN (1000LL * 1000 * MS) /* RAW clock at the first step */

enum { MAX_RANKS = 16 };
enum {
    S_MAIN_THREAD,
    S_STREAM,
    S_MATMUL,
    S_BIAS,
    S_ALLREDUCE,
    S_ALLGATHER,
    S_API,
    S_HOST,
    N_STRINGS
};
enum { T_HOST, T_COMPUTE, T_COMM };
enum { K_MATMUL, K_BIAS, K_ALLREDUCE, K_ALLGATHER };

struct rank {
    struct hm_rankfile *rf;
    int64_t clock_off; /* this rank's clock minus the true one */
    uint32_t correlation, launch;
    int me, n;
};

static void die(const char *what)
{
    fprintf(stderr, "scenario: %s\n", what);
    exit(1);
}

static void put(struct rank *r, struct hm_event ev)
{
    ev.t_ns += r->clock_off;
    if (hm_rankfile_append(r->rf, &ev, 1) < 0)
        die("append");
}

static void define(struct rank *r, enum hm_def_kind kind, uint32_t id, const void *bytes,
                   size_t len)
{
    if (hm_rankfile_define(r->rf, kind, id, bytes, (uint32_t)len) < 0)
        die("define");
}

static void open_rank(struct rank *r, const char *dir, int me, int n, const char *node, int64_t off)
{
    static const char *const text[N_STRINGS] = {
        "main thread",
        "stream",
        "_Z6matmulPKfS0_Pf",
        "_Z4biasPf",
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "cuLaunchKernelEx",
        "host"};
    struct hm_rank_meta m = {.rank = me,
                             .n_ranks = n,
                             .local_rank = me,
                             .pid = 1000 + me,
                             .nonce = 7,
                             .start_raw_ns = ORIGIN - 2000 * MS + off,
                             .start_real_ns = ORIGIN,
                             .source = HM_SOURCE_DEMO,
                             .domain_leader = 1};
    memset(r, 0, sizeof(*r));
    r->clock_off = off;
    r->me = me;
    r->n = n;
    snprintf(m.host, sizeof(m.host), "%s", node);
    snprintf(m.boot_id, sizeof(m.boot_id), "boot-of-%s", node);
    snprintf(m.timens, sizeof(m.timens), "0");
    snprintf(m.run_id, sizeof(m.run_id), "scenario");
    snprintf(m.program, sizeof(m.program), "scenario");
    if (hm_rankfile_create(dir, &m, &r->rf) < 0)
        die("create");
    for (uint32_t i = 0; i < N_STRINGS; i++)
        define(r, HM_DEF_STRING, i, text[i], strlen(text[i]));
    struct hm_def_track host = {
        .type = HM_TRACK_THREAD, .name = S_MAIN_THREAD, .tid = 1000 + (uint32_t)me};
    struct hm_def_track compute = {
        .type = HM_TRACK_STREAM, .name = S_STREAM, .context = 1, .stream = 7};
    struct hm_def_track comm = {
        .type = HM_TRACK_STREAM, .name = S_STREAM, .context = 1, .stream = 20};
    define(r, HM_DEF_TRACK, T_HOST, &host, sizeof(host));
    define(r, HM_DEF_TRACK, T_COMPUTE, &compute, sizeof(compute));
    define(r, HM_DEF_TRACK, T_COMM, &comm, sizeof(comm));
    static const uint32_t kernel_name[] = {S_MATMUL, S_BIAS, S_ALLREDUCE, S_ALLGATHER};
    for (uint32_t i = 0; i < 4; i++) {
        struct hm_def_kernel k = {.name = kernel_name[i], .block = {256, 1, 1}, .registers = 32};
        define(r, HM_DEF_KERNEL, i, &k, sizeof(k));
    }
    struct hm_def_comm c = {.hash = 0x1122334455667788u,
                            .crank = me,
                            .n_ranks = n,
                            .n_nodes = 1,
                            .name = HM_NO_ID,
                            .interface = 5,
                            .nccl_version = 22809};
    define(r, HM_DEF_COMM, 0, &c, sizeof(c));
}

static void close_rank(struct rank *r, int64_t t_end)
{
    for (int i = 0; i < 2; i++) {
        struct hm_event ev = {.t_ns = i ? t_end : ORIGIN - 1000 * MS, .kind = HM_EV_CLOCK_SNAPSHOT};
        ev.u.snapshot.mono_ns = ev.u.snapshot.real_ns = ev.u.snapshot.boot_ns = ev.t_ns;
        ev.u.snapshot.width_ns = 100;
        put(r, ev);
    }
    if (hm_rankfile_close(r->rf, HM_END_CLEAN) < 0)
        die("close");
}

/* A kernel launched by an API call that ends at launch_end; returns its end. */
static int64_t kernel(struct rank *r, uint32_t track, uint32_t id, int64_t launch_end,
                      int64_t start, int64_t dur, uint64_t external)
{
    uint32_t correlation = ++r->correlation;
    struct hm_event api = {
        .t_ns = launch_end - 5 * US, .dur_ns = 5 * US, .kind = HM_EV_API, .track = T_HOST};
    api.u.api.external = external;
    api.u.api.correlation = correlation;
    api.u.api.name = S_API;
    api.u.api.domain = HM_API_DRIVER;
    put(r, api);
    struct hm_event k = {.t_ns = start, .dur_ns = dur, .kind = HM_EV_KERNEL, .track = track};
    k.u.kernel.kernel = id;
    k.u.kernel.correlation = correlation;
    k.u.kernel.grid[0] = id == K_MATMUL ? 512 : 64;
    k.u.kernel.grid[1] = k.u.kernel.grid[2] = 1;
    put(r, k);
    return start + dur;
}

static void collective(struct rank *r, enum hm_nccl_func func, uint64_t count, int64_t launch_end,
                       int64_t start, int64_t end)
{
    uint32_t call = r->launch++; /* one operation a launch */
    struct hm_ev_op op = {.count = count,
                          .comm = 0,
                          .call = call,
                          .nccl_seq = call,
                          .launch = r->launch,
                          .peer = 0,
                          .n_channels = 2};
    struct hm_event ev = {.t_ns = launch_end - 20 * US,
                          .dur_ns = 18 * US,
                          .kind = HM_EV_NCCL_CALL,
                          .track = T_HOST,
                          .aux = HM_NCCL_AUX(func, HM_DTYPE_FLOAT32)};
    ev.u.op = op;
    put(r, ev);
    struct hm_event launch = {
        .t_ns = launch_end - 8 * US, .dur_ns = 8 * US, .kind = HM_EV_NCCL_LAUNCH, .track = T_HOST};
    launch.u.launch.comm = 0;
    launch.u.launch.launch = r->launch;
    launch.u.launch.n_ops = 1;
    put(r, launch);
    ev.kind = HM_EV_NCCL_COLL;
    ev.t_ns = launch_end + 1 * US;
    ev.dur_ns = 2 * US;
    put(r, ev);
    kernel(r, T_COMM, func == HM_NCCL_ALLGATHER ? K_ALLGATHER : K_ALLREDUCE, launch_end, start,
           end - start, r->launch);
}

static void step_mark(struct rank *r, int64_t t, int64_t step)
{
    struct hm_event ev = {.t_ns = t, .kind = HM_EV_STEP, .track = T_HOST, .aux = HM_STEP_BEGIN};
    ev.u.step.step = step;
    ev.u.step.name = HM_NO_ID;
    ev.u.step.source = HM_STEP_FROM_CALL;
    put(r, ev);
}

/* Data parallel: compute_ns[r], then one all-reduce of ar ns that all leave together. */
static void data_parallel(const char *dir, int n, const int64_t compute_ns[], int64_t ar, int steps,
                          const char *const node[], const int64_t clock_off[])
{
    static struct rank r[MAX_RANKS];
    int64_t t = ORIGIN;
    for (int i = 0; i < n; i++)
        open_rank(&r[i], dir, i, n, node ? node[i] : "node01", clock_off ? clock_off[i] : 0);
    for (int s = 0; s < steps; s++) {
        int64_t last = 0, arrival[MAX_RANKS];
        for (int i = 0; i < n; i++) {
            int64_t ahead = t - 60 * MS; /* the host is a step ahead */
            step_mark(&r[i], ahead, s);
            int64_t half = compute_ns[i] / 2;
            int64_t e = kernel(&r[i], T_COMPUTE, K_MATMUL, ahead + 50 * US, t, half, 0);
            e = kernel(&r[i], T_COMPUTE, K_BIAS, ahead + 60 * US, e, compute_ns[i] - half, 0);
            arrival[i] = e;
            last = e > last ? e : last;
        }
        for (int i = 0; i < n; i++)
            collective(&r[i], HM_NCCL_ALLREDUCE, 1 << 20, t - 59 * MS, arrival[i], last + ar);
        t = last + ar;
    }
    for (int i = 0; i < n; i++) {
        step_mark(&r[i], t - 60 * MS, steps);
        close_rank(&r[i], t + 1 * MS);
    }
}

static void u1(const char *dir)
{
    int64_t c[8];
    for (int i = 0; i < 8; i++)
        c[i] = (i == 5 ? 112 : 100) * MS;
    data_parallel(dir, 8, c, 10 * MS, 40, NULL, NULL);
}

static void u2(const char *dir)
{
    int64_t c[4] = {100 * MS, 100 * MS, 112 * MS, 110 * MS};
    data_parallel(dir, 4, c, 10 * MS, 40, NULL, NULL);
}

static void u5(const char *dir)
{
    int64_t c[8];
    for (int i = 0; i < 8; i++)
        c[i] = 390 * MS + (i == 7 ? 30 * US : 0);
    data_parallel(dir, 8, c, 10 * MS, 200, NULL, NULL);
}

static void u6(const char *dir)
{
    /* all start and end together in truth; node B's clock is 0.8 ms ahead, and there are no probes
     */
    int64_t c[8], off[8];
    const char *node[8];
    for (int i = 0; i < 8; i++) {
        c[i] = 20 * MS;
        off[i] = i < 4 ? 0 : 800 * US;
        node[i] = i < 4 ? "nodeA" : "nodeB";
    }
    data_parallel(dir, 8, c, 1 * MS, 60, node, off);
}

static void u17(const char *dir)
{
    /* compute [0,100) on both; the all-gather on the side stream is launched at 40 and at 90, takes
     * 40 after the last start: the step is 130.003 instead of 100 */
    static struct rank r[2];
    static const int64_t launch[2] = {40 * MS, 90 * MS};
    int64_t t = ORIGIN;
    for (int i = 0; i < 2; i++)
        open_rank(&r[i], dir, i, 2, "node01", 0);
    for (int s = 0; s < 40; s++) {
        int64_t last = t + launch[1] + 3 * US, end = last + 40 * MS;
        for (int i = 0; i < 2; i++) {
            step_mark(&r[i], t + 100 * US, s);
            int64_t e = kernel(&r[i], T_COMPUTE, K_MATMUL, t - 2 * MS, t, 50 * MS, 0);
            kernel(&r[i], T_COMPUTE, K_BIAS, t - 1 * MS, e, 50 * MS, 0);
            collective(&r[i], HM_NCCL_ALLGATHER, 1 << 20, t + launch[i], t + launch[i] + 3 * US,
                       end);
        }
        t = end;
    }
    for (int i = 0; i < 2; i++) {
        step_mark(&r[i], t + 100 * US, 40);
        close_rank(&r[i], t + 1 * MS);
    }
}

static void even(const char *dir)
{
    int64_t c[4] = {100 * MS, 100 * MS, 100 * MS, 100 * MS};
    data_parallel(dir, 4, c, 10 * MS, 40, NULL, NULL);
}

static void two_nodes(const char *dir)
{
    /* rank 3 is slow for certain, but the clocks of the two nodes were never compared */
    int64_t c[4] = {100 * MS, 100 * MS, 100 * MS, 120 * MS}, off[4] = {0, 0, 9000 * MS, 9000 * MS};
    const char *node[4] = {"nodeA", "nodeA", "nodeB", "nodeB"};
    data_parallel(dir, 4, c, 10 * MS, 40, node, off);
}

static void few_steps(const char *dir)
{
    int64_t c[4] = {100 * MS, 100 * MS, 150 * MS, 100 * MS};
    data_parallel(dir, 4, c, 10 * MS, 3, NULL, NULL);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(const char *);
    } all[] = {{"u1", u1},   {"u2", u2},     {"u5", u5},         {"u6", u6},
               {"u17", u17}, {"even", even}, {"few", few_steps}, {"two-nodes", two_nodes}};
    if (argc != 3)
        die("usage: scenario NAME DIR");
    mkdir(argv[2], 0700);
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        if (!strcmp(argv[1], all[i].name)) {
            all[i].run(argv[2]);
            return 0;
        }
    die("no such scenario");
    return 1;
}
