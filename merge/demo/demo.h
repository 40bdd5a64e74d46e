/* The demo: a made-up training run whose faults and gain are known.
 *
 * Box: merge/demo. Deterministic: the same arguments give the same bytes, and a rank written alone
 * is the rank of the whole run, because every random number is a hash of where it is used.
 */
#ifndef HM_DEMO_H
#define HM_DEMO_H

#include "core/status.h"

#include <stdint.h>

/* A fault acts on `rank` from step `from_step` on; `value` is a factor or milliseconds. */
enum hm_demo_kind {
    HM_DEMO_SLOW_GPU,     /* factor: every compute kernel takes that much longer */
    HM_DEMO_SLOW_INPUT,   /* ms more in the range `input`, before the step's first launch */
    HM_DEMO_LATE_LAUNCH,  /* ms in which the host does nothing that is recorded */
    HM_DEMO_MORE_WORK,    /* factor of the matrix kernels, grid and duration */
    HM_DEMO_PAUSES,       /* ms that the host stands still, in one step of five, anywhere in it */
    HM_DEMO_ROUTING,      /* factor of the tokens that its experts get; needs ep */
    HM_DEMO_SLOW_LINK,    /* factor of the transfers it takes part in, but for tp: its link to the
                             next rank of the ring */
    HM_DEMO_SLOW_NODE,    /* factor as SLOW_GPU, on all ranks of node `rank` */
    HM_DEMO_ALLOCATOR,    /* ms of cudaFree and cudaMalloc behind a sync, in 3 of 10 steps */
    HM_DEMO_CHECKPOINT,   /* ms of writing a file, every 10th step */
    HM_DEMO_ROTATE,       /* factor of the matrix kernels, of rank `step mod n` in each step */
    HM_DEMO_CLOCK_OFFSET, /* us by which the clock of its node jumps when from_step begins */
    HM_DEMO_CLOCK_DRIFT,  /* ppm that the clock of its node is fast */
    HM_DEMO_LOST,         /* fraction of its steps of which no event was kept */
    HM_DEMO_MISSING,      /* no file */
    HM_DEMO_HANG,         /* the process dies in step from_step, the others wait for ever */
    HM_DEMO_MISMATCH,     /* one collective of step from_step has half the count */
    HM_DEMO_N_KINDS
};
#define HM_DEMO_EVERYBODY UINT32_MAX
struct hm_demo_fault {
    enum hm_demo_kind kind;
    uint32_t rank, from_step;
    double value;
};
/* Dimensions of parallelism; the last one given varies fastest over the ranks. */
enum hm_demo_dim { HM_DEMO_DP, HM_DEMO_FSDP, HM_DEMO_PP, HM_DEMO_TP, HM_DEMO_EP, HM_DEMO_N_DIMS };
enum hm_demo_clocks {
    HM_DEMO_ONE_CLOCK, /* all ranks read one clock */
    HM_DEMO_PROBED,    /* a clock a node with offset and drift, compared by probes */
    HM_DEMO_UNPROBED   /* the same, never compared */
};
enum { HM_DEMO_MAX_FAULTS = 16 };
#define HM_DEMO_NO_NOISE (-1.0)
/* Zero is the default of every field but the first two. */
struct hm_demo {
    uint32_t n_ranks, n_steps;
    uint64_t seed;
    struct hm_demo_fault fault[HM_DEMO_MAX_FAULTS];
    uint32_t n_faults;
    uint8_t n_dims, dim[HM_DEMO_N_DIMS]; /* order of the mesh; none: dp alone */
    uint32_t size[HM_DEMO_N_DIMS];       /* by place in `dim` */
    double noise;                        /* relative sigma of each kernel; 0 = 0.001 */
    uint32_t n_layers, n_micro;          /* 8; 1, or twice the stages */
    uint32_t node_ranks;                 /* 8 */
    uint32_t n_worlds;                   /* 1: jobs beside each other, equal shares of the ranks */
    uint32_t sync_every;                 /* 1: steps between two waits of the host for the GPU */
    uint32_t restart_step;               /* 0; else an attempt of so many steps came before */
    uint8_t proxy; /* rings go over the network, and NCCL's proxies tell of it (not tp's) */
    uint8_t persistent, spin, one_only, clocks;
    uint32_t only; /* with one_only: the rank whose file is written */
};

/** Total time of the steps after the first, all ranks together on one clock, ns; the same with
 * every fault repaired; the difference is the true gain. */
struct hm_demo_truth {
    int64_t total_ns, repaired_ns;
    int64_t quiet_ns;                       /* repaired, and every kernel exactly its mean */
    int64_t gain_ns[HM_DEMO_MAX_FAULTS];    /* repairing this fault alone */
    uint32_t n_subject, i_main;             /* faults that belong together; the costliest */
    uint8_t in_subject[HM_DEMO_MAX_FAULTS]; /* repaired together, they are the verdict */
    int64_t subject_gain_ns;                /* repairing these */
};
hm_status_t hm_demo_truth(const struct hm_demo *demo, struct hm_demo_truth *truth_p);
/** Which verdict is right. `ids` takes up to `cap` global ranks. */
struct hm_demo_answer {
    const char *status, *kind, *cause, *pattern; /* words of the report; "none", "" */
    uint32_t n_ids;
};
void hm_demo_answer(const struct hm_demo *demo, const struct hm_demo_truth *truth,
                    struct hm_demo_answer *answer_p, uint32_t *ids_p, uint32_t cap);
/** Checks that mesh, faults and sizes fit together: HM_OK or HM_E_USAGE, said. */
hm_status_t hm_demo_check(const struct hm_demo *demo);
/** "slow_gpu", ... */
const char *hm_demo_kind_name(enum hm_demo_kind kind);
const char *hm_demo_dim_name(enum hm_demo_dim dim);
/** Writes rank-NNNNN.h5 of all ranks and truth.json into `dir`, which must not exist. */
hm_status_t hm_demo_write(const struct hm_demo *demo, const char *dir);

#endif
