/* What a profiler plugin hears, word for word, from which thread, in which order.
 *
 * Expected lines: written by hand from the published order of events of one eager group (NCCL 2.28
 * and 2.27) for the calls in use_it(): one all-reduce; two all-reduces in a group (the larger goes
 * first); a send and a receive in a group.
 * argv[1] = directory of the plugins libnccl-profiler-rec{5,4,45}.so.
 */
#include "ranks.h"

#include <stdbool.h>

static ncclUniqueId id;
static char folder[256];

static void use_it(int rank, int n, void *arg)
{
    ncclComm_t comm;
    cudaStream_t stream;
    static float x[8192], y[8192];
    (void)arg;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.commName = "dp";
    NCCL(ncclCommInitRankConfig(&comm, n, id, rank, &config));
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
    NCCL(ncclAllReduce(x, y, 1000, ncclFloat, ncclSum, comm, stream));
    CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
    NCCL(ncclGroupStart());
    NCCL(ncclAllReduce(x, y, 10, ncclFloat, ncclSum, comm, stream));
    NCCL(ncclAllReduce(x, y, 5000, ncclFloat, ncclSum, comm, stream));
    NCCL(ncclGroupEnd());
    NCCL(ncclGroupStart());
    NCCL(ncclSend(x, 7, ncclFloat, 1 - rank, comm, stream));
    NCCL(ncclRecv(y, 7, ncclFloat, 1 - rank, comm, stream));
    NCCL(ncclGroupEnd());
    NCCL(ncclAllGather(x, y, 3, ncclFloat, comm, stream));
    CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
    NCCL(ncclCommDestroy(comm));
}

/* %R = this rank, %P = the other. */
static const char app_v5[] =
    "A start GroupApi1 depth=1\n"
    "A state GroupApi1 23\n"
    "A start CollApi1 parent=GroupApi1 AllReduce count=1000 ncclFloat32 root=0\n"
    "A stop CollApi1\n"
    "A state GroupApi1 24\n"
    "A start KernelLaunch1 parent=GroupApi1\n"
    "A stop KernelLaunch1\n"
    "A start Group1 parent=-\n"
    "A start Coll1 parent=CollApi1 group=Group1 rank=%R AllReduce seq=0 count=1000 ncclFloat32 "
    "root=0 RING LL ch=1 warps=8\n"
    "A stop Coll1\n"
    "A stop Group1\n"
    "A stop GroupApi1\n"
    "A start GroupApi2 depth=2\n"
    "A state GroupApi2 23\n"
    "A start CollApi2 parent=GroupApi2 AllReduce count=10 ncclFloat32 root=0\n"
    "A stop CollApi2\n"
    "A start CollApi3 parent=GroupApi2 AllReduce count=5000 ncclFloat32 root=0\n"
    "A stop CollApi3\n"
    "A state GroupApi2 24\n"
    "A start KernelLaunch2 parent=GroupApi2\n"
    "A stop KernelLaunch2\n"
    "A start Group2 parent=-\n"
    "A start Coll2 parent=CollApi3 group=Group2 rank=%R AllReduce seq=1 count=5000 ncclFloat32 "
    "root=0 RING LL ch=1 warps=8\n"
    "A start Coll3 parent=CollApi2 group=Group2 rank=%R AllReduce seq=2 count=10 ncclFloat32 "
    "root=0 RING LL ch=1 warps=8\n"
    "A stop Coll2\n"
    "A stop Coll3\n"
    "A stop Group2\n"
    "A stop GroupApi2\n"
    "A start GroupApi3 depth=2\n"
    "A state GroupApi3 23\n"
    "A start P2pApi1 parent=GroupApi3 Send count=7 ncclFloat32\n"
    "A stop P2pApi1\n"
    "A start P2pApi2 parent=GroupApi3 Recv count=7 ncclFloat32\n"
    "A stop P2pApi2\n"
    "A state GroupApi3 24\n"
    "A start KernelLaunch3 parent=GroupApi3\n"
    "A stop KernelLaunch3\n"
    "A start Group3 parent=-\n"
    "A start P2p1 parent=P2pApi1 group=Group3 rank=%R Send count=7 ncclFloat32 peer=%P\n"
    "A start P2p2 parent=P2pApi2 group=Group3 rank=%R Recv count=7 ncclFloat32 peer=%P\n"
    "A stop P2p1\n"
    "A stop P2p2\n"
    "A stop Group3\n"
    "A stop GroupApi3\n"
    "A start GroupApi4 depth=1\n"
    "A state GroupApi4 23\n"
    "A start CollApi4 parent=GroupApi4 AllGather count=3 ncclFloat32 root=0\n"
    "A stop CollApi4\n"
    "A state GroupApi4 24\n"
    "A start KernelLaunch4 parent=GroupApi4\n"
    "A stop KernelLaunch4\n"
    "A start Group4 parent=-\n"
    "A start Coll4 parent=CollApi4 group=Group4 rank=%R AllGather seq=0 count=12 ncclInt8 root=0 "
    "RING LL ch=1 warps=8\n"
    "A stop Coll4\n"
    "A stop Group4\n"
    "A stop GroupApi4\n"
    "A finalize ctx=0xc0de\n";

static const char app_v4[] =
    "A start Group1 parent=-\n"
    "A start Coll1 parent=Group1 rank=%R AllReduce seq=0 count=1000 ncclFloat32 root=0 RING LL "
    "ch=1 warps=8\n"
    "A stop Coll1\n"
    "A stop Group1\n"
    "A start Group2 parent=-\n"
    "A start Coll2 parent=Group2 rank=%R AllReduce seq=1 count=5000 ncclFloat32 root=0 RING LL "
    "ch=1 warps=8\n"
    "A start Coll3 parent=Group2 rank=%R AllReduce seq=2 count=10 ncclFloat32 root=0 RING LL ch=1 "
    "warps=8\n"
    "A stop Coll2\n"
    "A stop Coll3\n"
    "A stop Group2\n"
    "A start Group3 parent=-\n"
    "A start P2p1 parent=Group3 rank=%R Send count=7 ncclFloat32 peer=%P\n"
    "A start P2p2 parent=Group3 rank=%R Recv count=7 ncclFloat32 peer=%P\n"
    "A stop P2p1\n"
    "A stop P2p2\n"
    "A stop Group3\n"
    "A start Group4 parent=-\n"
    "A start Coll4 parent=Group4 rank=%R AllGather seq=0 count=12 ncclInt8 root=0 RING LL ch=1 "
    "warps=8\n"
    "A stop Coll4\n"
    "A stop Group4\n"
    "A finalize ctx=0xc0de\n";

/* Mask = Coll alone: its ancestors come too, the launch does not. Only the first call's part. */
static const char app_coll_only[] =
    "A start GroupApi1 depth=1\n"
    "A state GroupApi1 23\n"
    "A start CollApi1 parent=GroupApi1 AllReduce count=1000 ncclFloat32 root=0\n"
    "A stop CollApi1\n"
    "A state GroupApi1 24\n"
    "A start Group1 parent=-\n"
    "A start Coll1 parent=CollApi1 group=Group1 rank=%R AllReduce seq=0 count=1000 ncclFloat32 "
    "root=0 RING LL ch=1 warps=8\n"
    "A stop Coll1\n"
    "A stop Group1\n"
    "A stop GroupApi1\n";

/* The first all-reduce over two nodes: both neighbours are on the other one. */
static const char proxy_first[] = "P start ProxyOp1 parent=Coll1 ch=0 peer=%P steps=1 recv\n"
                                  "P start ProxyOp2 parent=Coll1 ch=0 peer=%P steps=1 send\n"
                                  "P state ProxyOp1 19\n"
                                  "P state ProxyOp2 19\n"
                                  "P start KernelCh1 parent=Coll1 ch=0\n"
                                  "P start ProxyStep1 parent=ProxyOp1 step=0\n"
                                  "P state ProxyStep1 10\n"
                                  "P state ProxyStep1 11 value=4000\n"
                                  "P state ProxyStep1 12\n"
                                  "P stop ProxyStep1\n"
                                  "P stop ProxyOp1\n"
                                  "P start ProxyStep2 parent=ProxyOp2 step=0\n"
                                  "P state ProxyStep2 8\n"
                                  "P state ProxyStep2 20\n"
                                  "P state ProxyStep2 9 value=4000\n"
                                  "P stop ProxyStep2\n"
                                  "P stop ProxyOp2\n"
                                  "P state KernelCh1 22\n"
                                  "P stop KernelCh1\n";

/* ---- comparing ---- */

static void expand(const char *text, int rank, char *out)
{
    for (; *text; text++)
        if (text[0] == '%' && (text[1] == 'R' || text[1] == 'P'))
            *out++ = (char)('0' + (*++text == 'R' ? rank : 1 - rank));
        else
            *out++ = *text;
    *out = 0;
}

/* Lines of one thread, stamps cut, ProxyCtrl apart (how often a thread sleeps is its own affair).
 */
static void lines_of(const char *log, char thread, char *out)
{
    for (const char *s = log; *s;) {
        size_t n = strcspn(s, "\n");
        const char *stamp = memmem(s, n, " @", 2);
        size_t keep = stamp ? (size_t)(stamp - s) : n;
        if (*s == thread && !memmem(s, n, "ProxyCtrl", 9)) {
            memcpy(out, s, keep);
            out += keep;
            *out++ = '\n';
        }
        s += n + (s[n] == '\n');
    }
    *out = 0;
}

static int count(const char *text, const char *what)
{
    int n = 0;
    for (const char *s = text; (s = strstr(s, what)) != NULL; s++)
        n++;
    return n;
}

static bool same(const char *mode, int rank, const char *what, const char *got, const char *want,
                 bool whole)
{
    size_t n = strlen(want);
    if (!strncmp(got, want, n) && (!whole || !got[n]))
        return true;
    fprintf(stderr, "%s, rank %d, %s: expected\n%s--- got\n%s", mode, rank, what, want, got);
    return false;
}

static char *slurp(const char *path)
{
    char *text = calloc(1, 1 << 20);
    FILE *f = fopen(path, "r");
    if (!text || !f) {
        free(text);
        return NULL;
    }
    size_t n = fread(text, 1, (1 << 20) - 1, f);
    text[n] = 0;
    fclose(f);
    return text;
}

struct mode {
    const char *name, *plugin, *interface, *mask, *init, *app;
    bool whole, proxy;
};

/* The stamps of the first kernel channel span what the truth file says of the first call. */
static bool stamps_true(const char *log, const char *truth, int rank)
{
    const char *a = strstr(log, "start KernelCh1"), *b = strstr(log, "state KernelCh1 22");
    char want[64];
    snprintf(want, sizeof want, "\"rank\": %d, \"plan\": 0,", rank);
    const char *t = strstr(truth, want);
    if (!a || !b || !t)
        return false;
    long long start = strtoll(strchr(a, '@') + 1, NULL, 10);
    long long end = strtoll(strchr(b, '@') + 1, NULL, 10);
    long long t0 = strtoll(strstr(t, "\"start\": ") + 9, NULL, 10);
    long long t1 = strtoll(strstr(t, "\"end\": ") + 7, NULL, 10);
    return end - start == t1 - t0 && end > start;
}

static bool check_log(const struct mode *m, int rank, const char *log, const char *truth)
{
    static char got[1 << 20], want[1 << 16];
    lines_of(log, 'O', got);
    expand(m->init, rank, want);
    bool ok = same(m->name, rank, "init thread", got, want, true);
    lines_of(log, 'A', got);
    expand(m->app, rank, want);
    ok &= same(m->name, rank, "application thread", got, want, m->whole);
    lines_of(log, 'P', got);
    if (!m->proxy)
        return ok & same(m->name, rank, "progress thread", got, "", true);
    expand(proxy_first, rank, want);
    const char *first =
        strstr(got, "P start ProxyOp3"); /* appended while the first may still run */
    ok &= first != NULL && count(got, "start KernelCh") == 6 && count(got, "stop KernelCh") == 6 &&
          count(got, "start ProxyOp") == 2 * 4 + 2 && count(got, "stop ProxyOp") == 2 * 4 + 2;
    ok &= same(m->name, rank, "progress thread", got, want, false);
    ok &= count(log, "start ProxyCtrl") == count(log, "stop ProxyCtrl") &&
          count(log, "start ProxyCtrl") >= 4;
    ok &= stamps_true(log, truth, rank);
    if (!ok)
        fprintf(stderr, "%s, rank %d: whole log\n%s", m->name, rank, log);
    return ok;
}

static bool run_mode(const struct mode *m)
{
    char base[300], path[330], truth_path[330];
    snprintf(base, sizeof base, "%s/log-%s", folder, m->name);
    snprintf(truth_path, sizeof truth_path, "%s/truth-%s", folder, m->name);
    setenv("REC_LOG", base, 1);
    setenv("VGPU_NCCL_TRUTH", truth_path, 1);
    setenv("NCCL_PROFILER_PLUGIN", m->plugin, 1);
    setenv("VGPU_NCCL_INTERFACE", m->interface, 1);
    setenv("REC_MASK", m->mask, 1);
    if (ncclGetUniqueId(&id))
        return false;
    pid_t pid[2];
    fflush(NULL);
    for (int r = 0; r < 2; r++)
        if ((pid[r] = fork()) == 0) {
            the_rank = r;
            alarm(60);
            use_it(r, 2, NULL);
            exit(0);
        }
    bool ok = true;
    for (int r = 0; r < 2; r++) {
        int status;
        waitpid(pid[r], &status, 0);
        ok &= status == 0;
    }
    char *truth = slurp(truth_path);
    ok &= truth != NULL;
    for (int r = 0; r < 2 && ok; r++) {
        snprintf(path, sizeof path, "%s.%d", base, (int)pid[r]);
        char *log = slurp(path);
        if (m->app)
            ok &= log != NULL && check_log(m, r, log, truth);
        else
            ok &= log == NULL;
        free(log);
    }
    free(truth);
    printf("%s: %s\n", m->name, ok ? "ok" : "FAILED");
    return ok;
}

/* The end is the same on both ranks: latest start + 10 us + bytes / 50 GB/s (all-reduce of two:
 * wire = buffer). */
static bool times_true(void)
{
    char path[330];
    snprintf(path, sizeof path, "%s/truth-path-v5", folder);
    char *text = slurp(path);
    long long start[2] = {0, 0}, end[2] = {0, 0};
    for (int r = 0; r < 2 && text; r++) {
        char want[64];
        snprintf(want, sizeof want, "\"rank\": %d, \"plan\": 0,", r);
        const char *t = strstr(text, want);
        if (!t)
            break;
        start[r] = strtoll(strstr(t, "\"start\": ") + 9, NULL, 10);
        end[r] = strtoll(strstr(t, "\"end\": ") + 7, NULL, 10);
    }
    free(text);
    long long latest = start[0] > start[1] ? start[0] : start[1];
    bool ok = end[0] == end[1] && end[0] == latest + 10000 + 4000 / 50;
    printf("modelled end: %s\n", ok ? "ok" : "FAILED");
    return ok;
}

int main(int argc, char **argv)
{
    static char path5[300], path4[300], path45[300];
    snprintf(folder, sizeof folder, "/tmp/vgpu-nccl-events-XXXXXX");
    if (argc < 2 || !mkdtemp(folder))
        return 2;
    snprintf(path5, sizeof path5, "%s/libnccl-profiler-rec5.so", argv[1]);
    snprintf(path4, sizeof path4, "%s/libnccl-profiler-rec4.so", argv[1]);
    snprintf(path45, sizeof path45, "%s/libnccl-profiler-rec45.so", argv[1]);
    setenv("VGPU_NCCL_NODES", "2", 1);
    unsetenv("NCCL_DEBUG");
    unsetenv("VGPU_LINK_GBPS");
    unsetenv("VGPU_LINK_LATENCY_US");
    static const char init5[] = "O init v5 hash=set nodes=2 ranks=2 rank=%R name=dp\n";
    static const char init4[] = "O init v4 hash=set nodes=2 ranks=2 rank=%R name=dp\n";
    const struct mode modes[] = {
        {"path-v5", path5, "5", "0xfff", init5, app_v5, true, true},
        {"both-take-v5", path45, "5", "0xfff", init5, app_v5, true, true},
        {"both-in-2.27-take-v4", path45, "4", "0xfff", init4, app_v4, true, true},
        {"shim-v4-in-2.28", path4, "5", "0xfff", init4, app_v4, true, true},
        {"v5-only-in-2.27", path5, "4", "0xfff", NULL, NULL, false, false},
        {"suffix", "rec5", "5", "0x2", init5, app_coll_only, false, false},
        {"bare-name", "libnccl-profiler-rec5.so", "5", "0x2", init5, app_coll_only, false, false},
        {"none", "none", "5", "0xfff", NULL, NULL, false, false},
        {"missing", "/nowhere/libx.so", "5", "0xfff", NULL, NULL, false, false},
    };
    bool ok = true;
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        ok &= run_mode(&modes[i]);
    ok &= times_true();
    if (ok) {
        char cmd[300];
        snprintf(cmd, sizeof cmd, "rm -rf %s", folder);
        if (system(cmd))
            return 1;
    } else {
        fprintf(stderr, "logs are in %s\n", folder);
    }
    return !ok;
}
