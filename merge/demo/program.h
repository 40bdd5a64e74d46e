/* What a rank does in one step: operations in the order in which its host issues them.
 *
 * Box: merge/demo, internal. Pure. One program a pipeline stage, the same for all steps.
 */
#ifndef HM_DEMO_PROGRAM_H
#define HM_DEMO_PROGRAM_H

#include "demo/shape.h"

enum hm_demo_op_kind {
    DEMO_OP_BEGIN,  /* step mark; range `input` on the host; whatever makes this step late */
    DEMO_OP_COPY,   /* the batch, host to device */
    DEMO_OP_KERNEL, /* compute */
    DEMO_OP_COLL,   /* a collective: starts after the compute issued so far */
    DEMO_OP_P2P,    /* send and receive with one neighbour of the pipeline, in one launch */
    DEMO_OP_SYNC,   /* the host waits for the compute stream */
    DEMO_OP_END     /* step mark */
};
enum hm_demo_stream {
    DEMO_ST_COMPUTE,
    DEMO_ST_DP,
    DEMO_ST_FSDP,
    DEMO_ST_TP,
    DEMO_ST_EP,
    DEMO_ST_PP,
    DEMO_ST_COPY,
    DEMO_N_STREAMS
};
enum hm_demo_kernel {
    DEMO_K_FORWARD,
    DEMO_K_BACKWARD,
    DEMO_K_NORM,
    DEMO_K_OPT,
    DEMO_K_ROUTER,
    DEMO_K_EXPERT,
    DEMO_K_EMBED,
    DEMO_K_HEAD,
    DEMO_K_ALLREDUCE,
    DEMO_K_ALLGATHER,
    DEMO_K_REDUCESCATTER,
    DEMO_K_SENDRECV,
    DEMO_K_DISPATCH, /* the last two: synchronising kernels that are not NCCL's */
    DEMO_K_COMBINE,
    DEMO_N_KERNELS
};
enum { DEMO_SEND = 1, DEMO_RECV = 2, DEMO_N_EVENTS = 20, DEMO_MAX_LAYERS = 16 };
struct hm_demo_op {
    int64_t ns;     /* mean duration; of a collective its transfer */
    uint64_t count; /* elements of float32 */
    uint32_t meet;  /* index among the meetings of its communicator (or pair) in the step */
    uint8_t kind, stream, kernel, comm;
    uint8_t func, what; /* P2P: DEMO_SEND | DEMO_RECV */
    uint8_t next;       /* P2P: 1 = with the next stage, 0 = with the one before */
    uint8_t layer;
    uint8_t wait_streams;       /* bits of streams whose work so far must be done */
    uint8_t wait_event, record; /* 0 = none */
    uint8_t pad;
};
struct hm_demo_program {
    struct hm_demo_op *op;
    uint32_t n, cap;
    uint32_t n_meets[HM_DEMO_N_COMMS]; /* in a step; PP: with the next stage, see n_prev */
    uint32_t n_prev;
};
hm_status_t hm_demo_program(const struct hm_demo *demo, const struct hm_demo_shape *shape,
                            uint32_t stage, struct hm_demo_program *program_p);

#endif
