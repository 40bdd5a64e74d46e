/* The inside of the stand-in libnccl.so.2: communicators, plans, the room in shared memory.
 *
 * Box: tests/vgpu. Knows the public nccl.h, vgpu.h and nothing of hindmost.
 * Threads: application threads (API), a stream's thread (plan_run), one progress thread per
 * communicator (nccl_proxy.c), init threads.
 * Invariants: plans of one communicator run one after another; what one rank reads of another's
 * staging buffer was written before the barrier it passed, and is not overwritten before the
 * barrier after the next.
 */
#ifndef VGPU_NCCL_INSIDE_H
#define VGPU_NCCL_INSIDE_H

#include "vgpu.h"

#include <nccl.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

/* Public functions: ncclX is a weak alias of pncclX, so that a tool may interpose. */
#define NCCL_API(ret, name, ...)                                                          \
    ret name(__VA_ARGS__) __attribute__((weak, alias("p" #name), visibility("default"))); \
    __attribute__((visibility("default"))) ret p##name(__VA_ARGS__)

enum {
    NCCL_MAX_RANKS = 256,
    NCCL_CHECK_MS = 200, /* how often a waiting rank looks whether its peers live */
    SEAT_EMPTY = 0,
    SEAT_TAKEN,
    SEAT_LEFT
};

/* ---- shared memory: one segment per communicator ---- */
struct nccl_seat {
    _Atomic uint32_t state, bell; /* bell: futex, rung when something moved for this rank */
    int32_t pid;
    uint32_t pad;
    uint64_t born; /* start time of the process in ticks: a reused pid is another process */
    int64_t color, key;
    struct {
        int64_t start_ns;
        uint64_t signature;
    } post[2]; /* by turn & 1 */
    uint8_t fill[128 - 24 - 16 - 32];
};
struct nccl_barrier {
    _Atomic uint32_t arrived, turn;
};
struct nccl_room {
    _Atomic uint32_t n_ranks, joined, broken, pad;
    struct nccl_barrier stream, host;
    uint8_t fill[96];
    struct nccl_seat seat[];
};
struct nccl_box { /* from one rank to another */
    _Atomic uint32_t sent, received, written, read;
    int64_t send_start[2], recv_start[2];
    uint64_t bytes[2];
    uint8_t fill[64];
};
_Static_assert(sizeof(struct nccl_seat) == 128 && sizeof(struct nccl_room) == 128, "");

/* ---- operations ---- */
enum nccl_func {
    FUNC_BROADCAST,
    FUNC_REDUCE,
    FUNC_ALL_GATHER,
    FUNC_REDUCE_SCATTER,
    FUNC_ALL_REDUCE,
    FUNC_SEND,
    FUNC_RECV,
    N_FUNCS
};
struct nccl_task {
    enum nccl_func func;
    ncclDataType_t dtype;
    ncclRedOp_t op;
    const void *send;
    void *recv;
    size_t count;
    int root; /* peer for Send and Recv */
    cudaStream_t stream;
    ncclComm_t comm;
    uint64_t call;  /* n-th API call on the communicator */
    uint64_t seq;   /* per function, in plan order */
    uint64_t bytes; /* this rank's buffer: the larger of send and receive side */
    uint64_t wire;  /* bytes a link carries */
    uint8_t n_channels, n_warps;
    const char *algo, *proto;
    void *api_event, *event; /* the profiler's handles */
    int64_t start_ns, end_ns;
    uint64_t moved; /* P2P progress */
    uint8_t posted, finished, hidden; /* hidden: a plugin hears of the call and no more */
    uint32_t index;
};
enum { PLAN_NEW, PLAN_APPENDED, PLAN_STARTED, PLAN_ENDED };
struct nccl_plan {
    ncclComm_t comm;
    struct nccl_task *task;
    size_t n_tasks;
    uint64_t index;
    int mask; /* of the profiler, at the API call */
    void *group_event;
    _Atomic int refs;
    /* under comm->proxy.lock */
    int appended, started, ended;
    int64_t start_ns, end_ns;
    /* the progress thread's own */
    int told_append, told_start;
    void **proxy_op, **kernel_ch;
    size_t n_proxy_op, n_kernel_ch;
    struct nccl_plan *next;
};
struct nccl_proxy {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    pthread_t thread;
    int running, stop;
    struct nccl_plan *plans;
    void *sleep_event;
};
struct ncclComm {
    uint64_t magic, hash;
    int rank, n_ranks, n_nodes, device;
    char name[128], room_name[48];
    char *comm_name;
    struct nccl_room *room;
    size_t room_bytes, slot_bytes, chunk_bytes, slots_off, boxes_off;
    uint32_t turn; /* staging turns so far, the same on all ranks */
    _Atomic int abort, error;
    char last_error[256];
    uint64_t n_calls, n_plans, n_splits, seq[N_FUNCS];
    pthread_mutex_t lock;
    pthread_cond_t ran;
    uint64_t n_ran;
    uint32_t *n_sent, *n_received; /* per peer */
    void *profiler;                /* the plugin's context */
    int profiled, finalized;
    struct nccl_proxy proxy;
};

/* nccl_room.c */
ncclResult_t nccl_room_enter(ncclComm_t c, const char *name);
void nccl_room_leave(ncclComm_t c);
ncclResult_t nccl_room_meet(ncclComm_t c, struct nccl_barrier *b);
/** Waits until *word is not `seen`; need[r] != 0: rank r must act for that (NULL: all must). */
ncclResult_t nccl_room_wait(ncclComm_t c, _Atomic uint32_t *word, uint32_t seen,
                            const uint8_t *need);
void nccl_room_ring(ncclComm_t c, int rank);
ncclResult_t nccl_fail(ncclComm_t c, ncclResult_t code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void nccl_log(int level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static inline uint8_t *nccl_slot(ncclComm_t c, uint32_t turn, int rank)
{
    return (uint8_t *)c->room + c->slots_off +
           ((size_t)(turn & 1) * (size_t)c->n_ranks + (size_t)rank) * c->slot_bytes;
}
static inline struct nccl_box *nccl_box(ncclComm_t c, int from, int to)
{
    size_t i = (size_t)from * (size_t)c->n_ranks + (size_t)to;
    return (struct nccl_box *)(void *)((uint8_t *)c->room + c->boxes_off +
                                       i * (sizeof(struct nccl_box) + 2 * c->chunk_bytes));
}

/* nccl_reduce.c */
size_t nccl_type_bytes(ncclDataType_t t);
int nccl_can_reduce(ncclDataType_t t, ncclRedOp_t op);
/** out[i] = in[0][i] op in[1][i] ..., in this order; out may be in[0]. */
void nccl_reduce(void *out, const void *const *in, int n_in, size_t n, ncclDataType_t t,
                 ncclRedOp_t op);

/* nccl_coll.c */
int64_t nccl_plan_run(void *plan, int64_t start_ns);
void nccl_plan_done(void *plan);
void nccl_plan_drop(struct nccl_plan *p);
void nccl_task_model(struct nccl_task *t);
void nccl_plan_kernel(const struct nccl_plan *p, struct vgpu_op *op, char *name, size_t cap);

/* nccl_group.c */
ncclResult_t nccl_submit(struct nccl_task *t);
typedef struct {
    ncclComm_t *out;
    int n_ranks, rank, device;
    char room_name[48];
    uint64_t hash;
    char *comm_name;
    ncclResult_t result;
    pthread_t thread;
} nccl_init_job;
/** Runs now, or at the end of the thread's group. */
ncclResult_t nccl_submit_init(const nccl_init_job *job);

/* nccl_comm.c */
void *nccl_init_thread(void *job);
int nccl_comm_ok(ncclComm_t c);

/* nccl_scenario.c */
/** Value of a key of the scenario, `usual` where nobody sets it. */
const char *nccl_setting(const char *key, const char *usual);
/** The release we are, as NCCL_VERSION_CODE. */
int nccl_release(void);
/** Is this misbehaviour or feature asked for? */
int nccl_with(const char *what);

/* nccl_profiler.c, nccl_events.c: what a profiler plugin is told, by interface version */
enum {
    EV_GROUP = 1,
    EV_COLL = 2,
    EV_P2P = 4,
    EV_PROXY_OP = 8,
    EV_PROXY_STEP = 16,
    EV_PROXY_CTRL = 32,
    EV_KERNEL_CH = 64,
    EV_NET = 128,
    EV_GROUP_API = 256,
    EV_COLL_API = 512,
    EV_P2P_API = 1024,
    EV_LAUNCH = 2048,
    EV_CE_COLL = 4096,
    EV_CE_SYNC = 8192,
    EV_CE_BATCH = 16384,
    EV_PHASE = 32768
};
enum {
    ST_SEND_POSTED = 0, /* to ST_RECV_DONE: releases up to 2.26 */
    ST_SEND_DONE = 3,
    ST_RECV_POSTED = 4,
    ST_RECV_DONE = 7,
    ST_SEND_GPU_WAIT = 8,
    ST_SEND_WAIT = 9,
    ST_RECV_WAIT = 10,
    ST_RECV_FLUSH_WAIT = 11,
    ST_RECV_GPU_WAIT = 12,
    ST_CTRL_SLEEP = 15,
    ST_CTRL_WAKEUP = 16,
    ST_CTRL_APPEND = 17,
    ST_CTRL_APPEND_END = 18,
    ST_PROXY_OP_IN_PROGRESS = 19,
    ST_SEND_PEER_WAIT = 20,
    ST_NET_UPDATE = 21,
    ST_KERNEL_CH_STOP = 22,
    ST_GROUP_START_API_STOP = 23,
    ST_GROUP_END_API_START = 24,
    ST_PHASE_STOP = 31
};
void nccl_profiler_init(ncclComm_t c);
void nccl_profiler_finalize(ncclComm_t c);
int nccl_profiler_mask(void); /* 0 without a plugin */
/** Newest interface of this release; interface of the plugin that was loaded. */
int nccl_profiler_native(void);
int nccl_profiler_version(void);
void *nccl_plugin_start(void *ctx, void *descr);
void nccl_plugin_stop(void *event);
void nccl_plugin_state(void *event, int state, void *args);

void *nccl_ev_group_api(ncclComm_t c, int depth);
void *nccl_ev_api(const struct nccl_task *t, void *group_api);
void *nccl_ev_launch(ncclComm_t c, void *group_api, cudaStream_t stream);
void *nccl_ev_group(ncclComm_t c);
void *nccl_ev_task(const struct nccl_task *t, void *group);
void *nccl_ev_proxy_op(const struct nccl_task *t, uint8_t channel, int peer, int n_steps,
                       int chunk_bytes, int is_send);
void *nccl_ev_proxy_step(ncclComm_t c, void *proxy_op, int step);
void *nccl_ev_proxy_ctrl(ncclComm_t c);
void *nccl_ev_net(ncclComm_t c, void *step);
void *nccl_ev_kernel_ch(const struct nccl_task *t, uint8_t channel, uint64_t ptimer);
void *nccl_ev_phase(ncclComm_t c, void *kernel_ch, uint8_t channel, uint8_t phase, uint64_t ptimer);
/** All events of a collective that copy engines do. */
void nccl_ev_ce(const struct nccl_task *t);
/** Another rank's work in our proxy: context and parent fault when touched. */
void nccl_ev_pxn(ncclComm_t c);
/** What still comes after the end of a communicator. */
void nccl_ev_late(ncclComm_t c);
void nccl_ev_state(void *event, int state, const uint64_t *value);
void nccl_ev_stop(void *event);

/* nccl_proxy.c */
enum {
    NCCL_PROXY_MASK = EV_PROXY_OP | EV_PROXY_STEP | EV_PROXY_CTRL | EV_KERNEL_CH | EV_NET | EV_PHASE
};
void nccl_proxy_init(ncclComm_t c);
void nccl_proxy_append(struct nccl_plan *p);
void nccl_proxy_started(struct nccl_plan *p, int64_t start_ns);
void nccl_proxy_ended(struct nccl_plan *p, int64_t end_ns);
void nccl_proxy_stop(ncclComm_t c);

/* nccl_truth.c */
void nccl_truth(const struct nccl_task *t, uint64_t plan);
extern const char *const nccl_func_name[N_FUNCS];

#endif
