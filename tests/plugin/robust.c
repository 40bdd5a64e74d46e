/* What NCCL must never do and does: counted and ignored, never a crash. One named case a process.
 *
 * Box: tests. usage: robust [CASE...]; a plain program, so that valgrind and the sanitizers see
 * all of it. Each case states what has to be counted and what recorded.
 */
#include "recorder_double.h"
#include "teller.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define POOL (8 << 20)
#define CHECK(x)                                                            \
    do {                                                                    \
        if (!(x)) {                                                         \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #x); \
            exit(1);                                                        \
        }                                                                   \
    } while (0)

static void *comm(uint64_t hash, int rank, int n_ranks)
{
    void *ctx = NULL;
    int mask = -1;
    init_5_t init = (init_5_t)ncclProfiler_v5.init;
    CHECK(init(&ctx, hash, &mask, "robust", 1, n_ranks, rank, NULL) == 0 && ctx);
    return ctx;
}

static uint64_t stale(void)
{
    return double_lost(HM_LOST_NCCL_STALE);
}

static uint64_t foreign(void)
{
    return double_lost(HM_LOST_NCCL_FOREIGN);
}

static void one_allreduce(void *ctx, uint64_t seq)
{
    void *g = group_api(ctx, 1, 0);
    void *a = coll_api(ctx, g, "AllReduce", 8, "ncclFloat32", 0);
    end(a);
    end(launch(ctx, g, NULL));
    void *e = group(5, ctx);
    void *c = coll(5, ctx, a, e, seq, "AllReduce", 8, "ncclFloat32", 0);
    end(c);
    end(e);
    end(g);
}

static void null_handles(void)
{
    double_start(POOL);
    comm(1, 0, 2);
    end(NULL);
    ncclProfiler_v5.state(NULL, 9, NULL);
    ncclProfiler_v5.finalize(NULL);
    CHECK(stale() == 3);
    end(coll_api(NULL, NULL, "AllReduce", 1, "ncclFloat32", 0));
    CHECK(stale() == 4);
    CHECK(((init_5_t)ncclProfiler_v5.init)(NULL, 0, NULL, NULL, 0, 0, 0, NULL) == 0);
    CHECK(ncclProfiler_v5.start(NULL, NULL, NULL) == 0);
    CHECK(double_nth(HM_EV_NCCL_CALL, 0)->u.op.comm == HM_NO_ID);
}

/* Random words as handles, contexts and parents; the seed is fixed. */
static void unknown_handles(void)
{
    double_start(POOL);
    void *ctx = comm(1, 0, 2);
    uint64_t x = 0x9e3779b97f4a7c15;
    for (int i = 0; i < 20000; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        void *h = (void *)(uintptr_t)(x ^ x >> 29);
        end(h);
        ncclProfiler_v5.state(h, (int)(x >> 40 & 63), NULL);
        end(coll(5, i & 1 ? h : ctx, h, h, 0, "AllReduce", 1, "ncclFloat32", 0));
        ncclProfiler_v5.finalize(h);
    }
    CHECK(stale() + foreign() >= 20000 * 4);
    CHECK(double_count(HM_EV_NCCL_COLL) == 20000);
}

/* Words that bear our own mark and were never handed out: bits of true handles turned. */
static void forged_handles(void)
{
    double_start(POOL);
    void *ctx = comm(1, 0, 2);
    void *a = coll_api(ctx, NULL, "AllReduce", 8, "ncclFloat32", 0);
    for (int bit = 0; bit < 44; bit++) {
        void *h = (void *)((uintptr_t)a ^ (uintptr_t)1 << bit);
        end(h);
        ncclProfiler_v5.state(h, 9, NULL);
        end(proxy_op(5, ctx, h, getpid(), 0, 1, 1, 1, 1));
        ncclProfiler_v5.finalize((void *)((uintptr_t)ctx ^ (uintptr_t)1 << bit));
    }
    end(a);
    CHECK(double_count(HM_EV_NCCL_CALL) == 1);
    CHECK(stale() > 44);
}

static void stale_handles(void)
{
    double_start(POOL);
    void *ctx = comm(1, 0, 2);
    void *old = coll_api(ctx, NULL, "AllReduce", 8, "ncclFloat32", 0);
    end(old);
    for (uint32_t i = 0; i < hm.view.n_ops + 64; i++) /* its slot is somebody else's by now */
        end(p2p_api(ctx, NULL, "Send", 1));
    CHECK(stale() == 0);
    end(old);
    ncclProfiler_v5.state(old, 22, NULL);
    end(coll(5, ctx, old, NULL, 0, "AllReduce", 1, "ncclFloat32", 0));
    CHECK(stale() == 3);
    CHECK(double_nth(HM_EV_NCCL_COLL, 0)->u.op.call == HM_NO_ID);
}

/* PXN: context and parent are pointers of another process; here they fault when touched. */
static void pointers_that_fault(void)
{
    double_start(POOL);
    hm.config.proxy_steps = 1;
    comm(1, 0, 2);
    char *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    for (int pid = 0; pid < 2; pid++) {
        void *op = proxy_op(5, page, page + 64, getpid() + pid, 3, 1, 2, 512, 0);
        end(proxy_step(5, page, op, 0));
        end(proxy_step(5, page, page + 8, 0));
        struct descr d = descr_of(5, 128, page + 16, 0);
        end(begin(5, page, &d));
        d = descr_of(5, 32, NULL, 0);
        end(begin(5, page, &d));
        end(kernel_ch(5, page, page + 24, 1, 5));
        end(op);
    }
    end(page);
    ncclProfiler_v5.state(page, 9, NULL);
    ncclProfiler_v5.finalize(page);
    CHECK(foreign() >= 10);
    CHECK(double_count(HM_EV_PROXY_OP) == 2 && double_count(HM_EV_KERNEL_CH) == 2);
}

static void late_events_after_finalize(void)
{
    double_start(POOL);
    hm.config.proxy_steps = 1;
    void *ctx = comm(1, 0, 2);
    void *a = coll_api(ctx, NULL, "AllReduce", 8, "ncclFloat32", 0);
    end(a);
    ncclProfiler_v5.finalize(ctx);
    ncclProfiler_v5.finalize(ctx);
    end(proxy_op(5, ctx, a, getpid(), 0, 1, 1, 1, 1));
    struct descr d = descr_of(5, 32, NULL, 0);
    end(begin(5, ctx, &d));
    one_allreduce(ctx, 0);
    CHECK(double_nth(HM_EV_PROXY_OP, 0)->u.proxy_op.call == 0);
    CHECK(double_nth(HM_EV_PROXY_CTRL, 0)->u.proxy_ctrl.comm == 0);
    CHECK(double_nth(HM_EV_NCCL_COLL, 0)->u.op.call == 1);
    CHECK(stale() == 0 && foreign() == 0);
}

/* Aborted: started and never stopped, children and all; a new communicator goes on. */
static void abort_leaves_all_open(void)
{
    double_start(POOL);
    for (int i = 0; i < 50; i++) {
        void *ctx = comm((uint64_t)i, 0, 2);
        void *g = group_api(ctx, 1, 0);
        void *a = coll_api(ctx, g, "AllReduce", 8, "ncclFloat32", 0);
        end(a);
        launch(ctx, g, NULL);
        void *c = coll(5, ctx, a, group(5, ctx), 0, "AllReduce", 8, "ncclFloat32", 0);
        proxy_op(5, ctx, c, getpid(), 0, 1, 1, 1, 1);
    }
    uint32_t n_calls = double_count(HM_EV_NCCL_CALL); /* each ended where its launch began */
    CHECK(n_calls == 50);
    struct hm_event ev;
    uint32_t open = 0;
    for (uint32_t i = 0; i < hm.view.n_ops; i++)
        open += (uint32_t)hm_op_peek(&hm.view, i, &ev);
    CHECK(open == 50 * 3); /* launch, operation, network work */
    CHECK(stale() == 0 && double_lost(HM_LOST_NCCL_EVICTED) == 0);
}

static pthread_barrier_t together;
static void *init_and_use(void *arg)
{
    int me = (int)(intptr_t)arg;
    pthread_barrier_wait(&together);
    for (int i = 0; i < 100; i++) {
        void *ctx = comm(7, me, 8); /* one communicator, its ranks in one process */
        one_allreduce(ctx, 0);
        ncclProfiler_v5.finalize(ctx);
    }
    return NULL;
}
static void concurrent_init(void)
{
    double_start(64 << 20);
    pthread_t t[8];
    pthread_barrier_init(&together, NULL, 8);
    for (intptr_t i = 0; i < 8; i++)
        CHECK(!pthread_create(&t[i], NULL, init_and_use, (void *)i));
    for (int i = 0; i < 8; i++)
        pthread_join(t[i], NULL);
    uint8_t seen[8][100] = {{0}};
    for (uint32_t i = 0; i < 800; i++) {
        const struct hm_def_comm *def = double_def(HM_DEF_COMM, i);
        CHECK(def && def->hash == 7 && def->crank >= 0 && def->crank < 8 && def->nth < 100);
        CHECK(!seen[def->crank][def->nth]++);
    }
    CHECK(double_count(HM_EV_NCCL_COLL) == 800);
    CHECK(stale() == 0 && double_lost(HM_LOST_NCCL_EVICTED) == 0);
}

static void ten_thousand_communicators(void)
{
    double_start(64 << 20);
    for (uint64_t i = 0; i < 10000; i++) {
        void *ctx = comm(1000 + i, (int)(i % 4), 4);
        if (i % 100 == 0)
            one_allreduce(ctx, 0);
        ncclProfiler_v5.finalize(ctx);
    }
    CHECK(double_count(HM_EV_NCCL_COLL) == 100);
    for (uint32_t i = 0; i < 100; i++) {
        uint32_t id = double_nth(HM_EV_NCCL_COLL, i)->u.op.comm;
        const struct hm_def_comm *def = double_def(HM_DEF_COMM, id);
        CHECK(def && def->hash == 1000 + 100 * i && def->nth == 0);
    }
    CHECK(double_lost(HM_LOST_NCCL_EVICTED) == 0 && double_lost(HM_LOST_DEFS_FULL) == 0);
}

/* More than the table holds: counted, the application goes on, old ones still work. */
static void more_communicators_than_room(void)
{
    double_start(POOL);
    void *first = comm(1, 0, 2), *last = NULL;
    for (uint32_t i = 0; i < hm.view.n_comms + 10; i++)
        last = comm(2 + i, 0, 2);
    CHECK(double_lost(HM_LOST_NCCL_EVICTED) >= 10);
    one_allreduce(last, 0);
    one_allreduce(first, 0);
    CHECK(double_nth(HM_EV_NCCL_COLL, 0)->u.op.comm == HM_NO_ID);
    CHECK(double_nth(HM_EV_NCCL_COLL, 1)->u.op.comm == 0);
}

/* Children of a split have hashes of their own; 2.23.4 gives two splits of a colour the same. */
static void split_and_shrink(void)
{
    double_start(POOL);
    void *parent = comm(0xaaaaaaaaaaaaaaaa, 0, 8);
    void *one = comm(0xbbbbbbbbbbbbbbbb, 0, 4), *same = comm(0xbbbbbbbbbbbbbbbb, 0, 4),
         *shrunk = comm(0xcccccccccccccccc, 0, 7);
    one_allreduce(same, 0);
    one_allreduce(one, 0);
    one_allreduce(shrunk, 0);
    ncclProfiler_v5.finalize(parent);
    one_allreduce(shrunk, 1);
    static const uint32_t comm_id[] = {2, 1, 3, 3}, call[] = {0, 0, 0, 1};
    for (uint32_t i = 0; i < 4; i++) {
        CHECK(double_nth(HM_EV_NCCL_COLL, i)->u.op.comm == comm_id[i]);
        CHECK(double_nth(HM_EV_NCCL_COLL, i)->u.op.call == call[i]);
    }
    const struct hm_def_comm *a = double_def(HM_DEF_COMM, 1), *b = double_def(HM_DEF_COMM, 2);
    CHECK(a->nth == 0 && b->nth == 1 && hm_comm_key(a->hash, 0) != hm_comm_key(b->hash, 1));
}

static void kernel_channel_200_and_zero_stamps(void)
{
    double_start(POOL);
    hm.config.kernel_ch = 1;
    void *ctx = comm(1, 0, 2);
    void *c = coll(5, ctx, NULL, NULL, 0, "AllReduce", 8, "ncclFloat32", 0);
    end(c);
    void *k = kernel_ch(5, ctx, c, 200, 0);
    uint64_t zero = 0;
    ncclProfiler_v5.state(k, 22, &zero);
    ncclProfiler_v5.state(k, 22, NULL);
    end(k);
    end(k);
    end(kernel_ch(5, ctx, c, 255, UINT64_MAX));
    const struct hm_event *ev = double_nth(HM_EV_KERNEL_CH, 0);
    CHECK(ev->u.kernel_ch.channel == 200 && ev->u.kernel_ch.gpu_stop == 0);
    CHECK(double_nth(HM_EV_KERNEL_CH, 1)->u.kernel_ch.channel == 255);
    CHECK(stale() == 1);
}

/* 600,000 operations: the same memory as for one, nothing lost. */
static void many_operations(void)
{
    double_start(POOL);
    void *ctx = comm(1, 0, 2);
    double_gate(0); /* the double keeps no more than 100,000 events */
    for (uint64_t i = 0; i < 600000; i++)
        one_allreduce(ctx, i);
    double_gate(UINT64_MAX);
    one_allreduce(ctx, 600000);
    CHECK(double_nth(HM_EV_NCCL_COLL, 0)->u.op.call == 600000);
    CHECK(double_nth(HM_EV_NCCL_LAUNCH, 0)->u.launch.n_ops == 1);
    CHECK(stale() == 0 && double_lost(HM_LOST_NCCL_EVICTED) == 0);
}

static void a_forked_child_is_silent(void)
{
    double_start(POOL);
    void *ctx = comm(1, 0, 2);
    void *a = coll_api(ctx, NULL, "AllReduce", 8, "ncclFloat32", 0);
    atomic_store(&hm.in_child, 1);
    end(a);
    one_allreduce(ctx, 0);
    ncclProfiler_v5.finalize(ctx);
    comm(2, 0, 2);
    CHECK(double_n_events() == 0 && stale() == 0);
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {{"null-handles", null_handles},
             {"unknown-handles", unknown_handles},
             {"forged-handles", forged_handles},
             {"stale-handles", stale_handles},
             {"pointers-that-fault", pointers_that_fault},
             {"late-events-after-finalize", late_events_after_finalize},
             {"abort-leaves-all-open", abort_leaves_all_open},
             {"concurrent-init", concurrent_init},
             {"ten-thousand-communicators", ten_thousand_communicators},
             {"more-communicators-than-room", more_communicators_than_room},
             {"split-and-shrink", split_and_shrink},
             {"kernel-channel-200-and-zero-stamps", kernel_channel_200_and_zero_stamps},
             {"many-operations", many_operations},
             {"a-forked-child-is-silent", a_forked_child_is_silent}};

int main(int argc, char **argv)
{
    int bad = 0;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int wanted = argc < 2, status;
        for (int k = 1; k < argc; k++)
            wanted |= !strcmp(argv[k], cases[i].name);
        if (!wanted)
            continue;
        fflush(NULL);
        pid_t pid = fork();
        if (pid == 0) {
            alarm(100);
            cases[i].run();
            exit(0);
        }
        waitpid(pid, &status, 0);
        printf("%s %s\n", status ? "FAIL" : "ok  ", cases[i].name);
        bad |= status;
    }
    return bad != 0;
}
