/* A job as a schedule: what the recorder would have written of it, by plain arithmetic.
 *
 * Box: tests/verdict. Knows the event types and the rank file, nothing of the analyser. A situation
 * is told in the order in which its operations are launched; every call advances the host of one
 * rank, works out when the GPU runs the operation, and appends the events that a recorder leaves
 * behind: API call, launch, NCCL call, kernel. One thread. Any trouble ends the program.
 *
 * The rules of the modelled GPU: a kernel starts when its launch has ended (and 3 us more), the
 * operation before it on its stream is over, and what its stream was told to await is over. All
 * members leave a synchronous collective together, `transfer` after the last came.
 */
#ifndef SCENARIO_SCHEDULE_H
#define SCENARIO_SCHEDULE_H

#include "store/rankfile.h"

#include <stdbool.h>
#include <stdint.h>

#define US     INT64_C(1000)
#define MS     INT64_C(1000000)
#define SEC    INT64_C(1000000000)
#define ORIGIN (1000 * SEC) /* RAW clock when the first kernel of a job may start */

enum { MAX_COMMS = 40, MAX_NAMES = 48, MAX_KERNELS = 24 };
enum stream { COMPUTE, COMM, COMM2, FWD_IN, FWD_OUT, BWD_IN, BWD_OUT, N_STREAMS };

struct member {
    int comm; /* index in job.comm */
    uint32_t n_coll, n_p2p;
};
struct rank {
    struct hm_rankfile *rf;
    struct job *job;
    int me, node, local;
    int64_t clock_off;      /* its clock minus the true one */
    int64_t host;           /* the host thread is free from here on */
    int64_t gpu[N_STREAMS]; /* the stream is free from here on */
    int64_t step_end[2];    /* end of the device's work of the two steps before */
    uint32_t correlation, launch;
    int64_t cpu_run, cpu_wait; /* of the host's thread so far */
    bool no_cupti;             /* nothing of the GPU is recorded */
    bool capturing;            /* into a CUDA graph: what is launched does not run */
    uint32_t n_names, n_kernels, n_members, n_devices;
    const char *name[MAX_NAMES]; /* literals or the job's own texts */
    struct kernel_key {
        const char *name;
        uint16_t block;
    } kernel[MAX_KERNELS];
    struct member member[MAX_COMMS];
};
struct comm {
    uint64_t hash;
    const char *name; /* NULL = has none */
    int n;
    int *ranks; /* ascending is not needed: the position is the rank in the communicator */
};
struct job {
    int n, per_node; /* ranks on a node */
    struct rank *r;
    struct comm comm[MAX_COMMS];
    int n_comms;
    uint64_t random, salt;
    bool probed;
};
/** What differs from a plain job; zero = plain. */
struct plan {
    int per_node;             /* ranks a node, 0 = all on one */
    const int64_t *clock_off; /* [n] or NULL */
    bool no_probes;           /* clocks of the nodes are never compared */
    bool no_devices;          /* no HM_DEF_DEVICE */
    uint64_t nonce;           /* of the attempt: other processes, other communicators */
    const char *run_id;       /* NULL = "scenario" */
    const int *node_of;       /* [n / per_node] physical node, NULL = in order */
    const int *gpu_of;        /* [n] physical GPU (makes the UUID), NULL = the rank */
    int64_t start;            /* offset of the whole job from ORIGIN */
};

void die(const char *what);

/** Opens n rank files; times begin at ORIGIN + plan->start. */
void job_open(struct job *j, const char *dir, int n, const struct plan *plan);
/** Closes all files that are still open; the recording lasts until `end`. */
void job_close(struct job *j, int64_t end);
/** Closes one rank's file as ended by `why`, at `end`. */
void rank_close(struct rank *r, int64_t end, enum hm_end why);
/** A pseudorandom number in [0, below): the same in every run. */
uint64_t job_random(struct job *j, uint64_t below);
/** The latest end of any device operation so far. */
int64_t job_end(const struct job *j);

/** A communicator of the given ranks; returns its index. All ranks where ranks is NULL. */
int job_comm(struct job *j, const char *name, const int *ranks, int n);

/* One rank's host. Each advances r->host. */
void step_mark(struct rank *r, int64_t step);
/** Begins step `step`, a step ahead of the GPU: waits (cudaEventSynchronize) until the device is
 *  through with the step before the one before, then marks. */
void step_ahead(struct rank *r, int64_t step);
/** Begins step `step` after the device has finished all before it (cudaStreamSynchronize). */
void step_synced(struct rank *r, int64_t step);
/** The step is over: remembers where the device ends it. */
void step_done(struct rank *r);
/** The host is busy for ns, with nothing recorded but the time that its thread had a CPU. */
void host_busy(struct rank *r, int64_t ns);
/** The host's thread could run for ns and got no CPU. */
void host_descheduled(struct rank *r, int64_t ns);
/** As host_busy, inside a range of that name (a literal). */
void host_range(struct rank *r, const char *name, int64_t ns);
/** A runtime API call that takes ns. */
void host_api(struct rank *r, const char *name, int64_t ns);
/** The host blocks in `api` until all streams of the device are through. */
void host_sync(struct rank *r, const char *api);
/** Allocation or release: a memory event of now; in_use after it. */
void memory_event(struct rank *r, bool alloc, uint64_t bytes, uint64_t in_use);
/** Overhead of a profiler, aux = enum hm_overhead_kind; takes host time. */
void overhead(struct rank *r, enum hm_overhead_kind kind, int64_t ns);
/** A counter of the application, now. */
void counter(struct rank *r, const char *domain, const char *name, const char *unit, int64_t value);
/** A counter of the writer's health samples, now; it stores those that changed. */
void health(struct rank *r, const char *name, const char *unit, int64_t value);

/* The device. Each is launched by the host of its rank and returns when it ends. */
int64_t gpu_kernel(struct rank *r, enum stream stream, const char *name, uint32_t grid,
                   int64_t dur);
int64_t gpu_copy(struct rank *r, enum stream stream, uint64_t bytes, int64_t dur);
/** `stream` goes on only when `other` is through with what it has. */
void gpu_await(struct rank *r, enum stream stream, enum stream other);

/* Communication. */
struct op {
    enum hm_nccl_func func;
    uint64_t count; /* float32 elements */
    int peer;       /* rank in the communicator, -1 none */
};
/** What was launched and has not run: its earliest start is known, its end is not. */
struct posted {
    enum stream stream;
    enum hm_nccl_func func; /* of its first operation */
    uint32_t correlation;
    int64_t ready;
};
/** One launch of ops on `stream`, host side: CALL, LAUNCH, COLL or P2P, API. */
struct posted nccl_post(struct rank *r, int comm, enum stream stream, const struct op *op,
                        int n_ops);
/** When the kernel of a launch starts, with all before it on the stream run. */
int64_t nccl_start(const struct rank *r, const struct posted *posted);
/** Its kernel runs until `end`. */
void nccl_run(struct rank *r, const struct posted *posted, int64_t end);
/** A collective of all members on that stream, which awaits nothing more than its own past.
 *  count = float32 elements as the caller gives them. */
void collective_on(struct job *j, int comm, enum stream stream, enum hm_nccl_func func,
                   uint64_t count, int64_t transfer);
/** The usual all-reduce: the stream awaits COMPUTE, and COMPUTE awaits its end. */
void allreduce_on(struct job *j, int comm, enum stream stream, uint64_t count, int64_t transfer);
void allreduce(struct job *j, int comm, uint64_t count, int64_t transfer); /* on COMM */
/** All to all with its own bytes for every pair, between COMPUTE before and after: float32 elements
 *  from rank a to b of the communicator in count[a * n + b]. A rank leaves `transfer` after the
 *  last came with whom it exchanges anything. empty: sends and receives of nothing are made too;
 *  NCCL and PyTorch leave them out. */
void alltoallv(struct job *j, int comm, const uint64_t *count, bool empty, int64_t transfer);
/** One message of count float32 elements from rank a to b of the communicator: both sides are
 *  launched by their hosts, then it runs; both leave `transfer` after the later came. */
struct posted post_send(struct job *j, int comm, int a, int b, enum stream stream, uint64_t count);
struct posted post_recv(struct job *j, int comm, int a, int b, enum stream stream, uint64_t count);
void run_message(struct job *j, int comm, int a, int b, const struct posted *send,
                 const struct posted *recv, int64_t transfer);

#endif
