/* The model behind the demo. Box: merge/demo, internal. */
#ifndef HM_DEMO_MODEL_H
#define HM_DEMO_MODEL_H

#include "core/event.h"
#include "demo/demo.h"

/* Run-local definition ids; emit.c defines them in this order. */
enum { HM_DEMO_LAYERS = 8, HM_DEMO_BUCKETS = 4, HM_DEMO_LAYERS_PER_BUCKET = 2 };
enum hm_demo_string {
    DEMO_S_EMPTY,
    DEMO_S_FORWARD,
    DEMO_S_BACKWARD,
    DEMO_S_NORM,
    DEMO_S_OPTIMIZER,
    DEMO_S_NCCL,
    DEMO_S_LAUNCH,
    DEMO_S_LAUNCH_EXC,
    DEMO_S_INPUT,
    DEMO_S_MAIN,
    DEMO_S_COMPUTE,
    DEMO_S_COMM,
    DEMO_S_DOMAIN,
    DEMO_S_GPU,
    DEMO_S_WORLD,
    DEMO_N_STRINGS
};
enum hm_demo_track { DEMO_T_HOST, DEMO_T_COMPUTE, DEMO_T_COMM, DEMO_N_TRACKS };
enum hm_demo_kernel {
    DEMO_K_FORWARD,
    DEMO_K_BACKWARD,
    DEMO_K_NORM,
    DEMO_K_OPT,
    DEMO_K_NCCL,
    DEMO_N_KERNELS
};

/* One rank between steps. */
struct hm_demo_rank {
    uint32_t rank, correlation, launch, call;
    int64_t host_ns, compute_ns, comm_ns; /* each line's own front */
};
/* What a rank does before it meets the others in a step. */
struct hm_demo_half {
    int64_t ready_ns[HM_DEMO_BUCKETS];  /* gradients of the bucket are there */
    int64_t launch_ns[HM_DEMO_BUCKETS]; /* end of the launch call */
};
/** Receives events in no particular order; NULL = none are wanted. */
typedef hm_status_t (*hm_demo_out_t)(void *ctx, const struct hm_event *ev);

void hm_demo_rank_init(const struct hm_demo *demo, uint32_t rank, struct hm_demo_rank *r_p);
/** Up to the last launch of the step. */
hm_status_t hm_demo_step_begin(const struct hm_demo *demo, struct hm_demo_rank *r, uint32_t step,
                               struct hm_demo_half *half_p, hm_demo_out_t out, void *ctx);
/** Start of a bucket's kernel on this rank, given where its communication stream stands. */
int64_t hm_demo_bucket_start(const struct hm_demo_rank *r, const struct hm_demo_half *half,
                             uint32_t bucket);
/** The kernel runs from start to the common end plus a little; moves comm_ns. */
hm_status_t hm_demo_bucket_end(const struct hm_demo *demo, struct hm_demo_rank *r, uint32_t step,
                               uint32_t bucket, int64_t start_ns, int64_t last_ns,
                               uint32_t correlation, hm_demo_out_t out, void *ctx);
/** Optimizer and end of the step. */
hm_status_t hm_demo_step_end(const struct hm_demo *demo, struct hm_demo_rank *r, uint32_t step,
                             hm_demo_out_t out, void *ctx);

#endif
