/* The schedules: data-parallel buckets beside backward, FSDP with prefetch, tensor-parallel
 * all-reduces, pipelines in 1F1B order, experts behind all-to-alls; any mix of them.
 *
 * Box: merge/demo. Pure. Source of the pipeline's order: PipeDream-flush (Narayanan et al., 2021),
 * warm-up of p - s - 1 forwards, then pairs, sends and receives of neighbours in one launch.
 * Layers keep their durations whatever the mesh is, but microbatches share a layer's time.
 */
#include "demo/program.h"

#include "core/event.h"

#include <stdlib.h>

static const int64_t US = 1000;
static const int64_t T_FORWARD = 700000, T_NORM = 200000, T_BACKWARD = 1500000, T_OPT = 900000;
static const int64_t T_EXPERT = 800000, T_EMBED = 20000, T_HEAD = 40000;
static const int64_t T_BUCKET = 2400000, T_SHARD = 500000, T_TP = 150000, T_A2A = 250000,
                     T_P2P = 120000;
static const uint64_t BUCKET_COUNT = 6553600; /* 25 MiB of float32 */

struct build {
    const struct hm_demo *d;
    const struct hm_demo_shape *s;
    struct hm_demo_program *p;
    uint32_t stage, n_stages, n_layers, n_micro;
    int64_t share; /* of a layer's time, in 1/1000 */
    int failed;
};

static struct hm_demo_op *add(struct build *b, enum hm_demo_op_kind kind, int64_t ns)
{
    static struct hm_demo_op nowhere;
    struct hm_demo_program *p = b->p;
    if (p->n == p->cap) {
        uint32_t cap = p->cap ? 2 * p->cap : 128;
        struct hm_demo_op *op = realloc(p->op, cap * sizeof(*op));
        if (!op) {
            b->failed = 1;
            return &nowhere;
        }
        p->op = op;
        p->cap = cap;
    }
    p->op[p->n] = (struct hm_demo_op){.ns = ns, .kind = (uint8_t)kind};
    return &p->op[p->n++];
}

/* A compute kernel; it waits for what `streams` hold so far. */
static struct hm_demo_op *kernel(struct build *b, enum hm_demo_kernel k, int64_t ns,
                                 unsigned streams)
{
    struct hm_demo_op *op = add(b, DEMO_OP_KERNEL, ns * b->share / 1000);
    op->kernel = (uint8_t)k;
    op->wait_streams = (uint8_t)streams;
    return op;
}

static struct hm_demo_op *coll(struct build *b, enum hm_demo_comm comm, enum hm_nccl_func func,
                               uint64_t count, int64_t ns)
{
    static const uint8_t stream[HM_DEMO_N_COMMS] = {DEMO_ST_DP, DEMO_ST_FSDP, DEMO_ST_TP,
                                                    DEMO_ST_EP, DEMO_ST_PP};
    struct hm_demo_op *op = add(b, DEMO_OP_COLL, ns);
    op->comm = (uint8_t)comm;
    op->stream = stream[comm];
    op->func = (uint8_t)func;
    op->kernel = func == HM_NCCL_ALLREDUCE       ? DEMO_K_ALLREDUCE
                 : func == HM_NCCL_ALLGATHER     ? DEMO_K_ALLGATHER
                 : func == HM_NCCL_REDUCESCATTER ? DEMO_K_REDUCESCATTER
                                                 : DEMO_K_SENDRECV;
    op->count = count;
    op->wait_streams = 1U << DEMO_ST_COMPUTE;
    op->meet = b->p->n_meets[comm]++;
    return op;
}

static void p2p(struct build *b, int next, unsigned what)
{
    struct hm_demo_op *op = add(b, DEMO_OP_P2P, T_P2P);
    op->comm = HM_DEMO_C_PP;
    op->stream = DEMO_ST_PP;
    op->kernel = DEMO_K_SENDRECV;
    op->func = HM_NCCL_SENDRECV;
    op->what = (uint8_t)what;
    op->next = (uint8_t)next;
    op->count = 2097152;
    op->wait_streams = 1U << DEMO_ST_COMPUTE;
    op->meet = next ? b->p->n_meets[HM_DEMO_C_PP]++ : b->p->n_prev++;
}

static int has(const struct build *b, enum hm_demo_comm comm)
{
    return b->s->n_members[comm] > 1;
}

/* Compute that follows a collective waits for its stream. */
static unsigned after(const struct build *b, enum hm_demo_comm comm)
{
    return has(b, comm) ? 1U << (comm == HM_DEMO_C_TP ? DEMO_ST_TP : DEMO_ST_EP) : 0;
}

/* Shard of a layer, one layer ahead: what needs it waits for its own event, not the stream. */
static void gather(struct build *b, uint32_t layer)
{
    if (!has(b, HM_DEMO_C_FSDP))
        return;
    struct hm_demo_op *op =
        coll(b, HM_DEMO_C_FSDP, HM_NCCL_ALLGATHER, 3276800 / b->s->n_members[HM_DEMO_C_FSDP] + 1,
             T_SHARD * b->share / 1000);
    op->record = (uint8_t)(1 + layer);
    op->wait_streams = 0; /* parameters do not wait for compute */
}

/* Tokens to the experts and back, the experts between. */
static void experts(struct build *b, uint32_t layer, int64_t ns)
{
    if (!has(b, HM_DEMO_C_EP) || layer % 2)
        return;
    kernel(b, DEMO_K_ROUTER, 50 * US, after(b, HM_DEMO_C_TP));
    struct hm_demo_op *op = coll(b, HM_DEMO_C_EP, HM_NCCL_ALLTOALL, 1048576, T_A2A);
    op->layer = (uint8_t)layer;
    if (b->d->spin)
        op->kernel = DEMO_K_DISPATCH;
    op = kernel(b, DEMO_K_EXPERT, ns, 1U << DEMO_ST_EP);
    op->layer = (uint8_t)layer;
    op = coll(b, HM_DEMO_C_EP, HM_NCCL_ALLTOALL, 1048576, T_A2A);
    op->layer = (uint8_t)layer;
    if (b->d->spin)
        op->kernel = DEMO_K_COMBINE;
}

static void forward(struct build *b)
{
    unsigned wait = b->n_stages > 1 ? 1U << DEMO_ST_PP : 1U << DEMO_ST_COPY;
    if (!b->stage && b->n_stages > 1)
        kernel(b, DEMO_K_EMBED, T_EMBED, wait | 1U << DEMO_ST_COPY);
    gather(b, 0);
    for (uint32_t l = 0; l < b->n_layers; l++) {
        if (l + 1 < b->n_layers)
            gather(b, l + 1);
        struct hm_demo_op *op = kernel(b, DEMO_K_FORWARD, T_FORWARD,
                                       wait | after(b, HM_DEMO_C_TP) | after(b, HM_DEMO_C_EP));
        op->wait_event = has(b, HM_DEMO_C_FSDP) ? (uint8_t)(1 + l) : 0;
        kernel(b, DEMO_K_NORM, T_NORM, 0);
        if (has(b, HM_DEMO_C_TP))
            coll(b, HM_DEMO_C_TP, HM_NCCL_ALLREDUCE, 4194304, T_TP);
        experts(b, l, T_EXPERT);
        wait = 0;
    }
    if (b->stage + 1 == b->n_stages && b->n_stages > 1)
        kernel(b, DEMO_K_HEAD, T_HEAD, after(b, HM_DEMO_C_TP) | after(b, HM_DEMO_C_EP));
}

static void backward(struct build *b, int last)
{
    unsigned wait = b->n_stages > 1 ? 1U << DEMO_ST_PP : 0;
    gather(b, b->n_layers - 1);
    for (uint32_t i = 0; i < b->n_layers; i++) {
        uint32_t l = b->n_layers - 1 - i;
        if (l)
            gather(b, l - 1);
        experts(b, l, 2 * T_EXPERT);
        struct hm_demo_op *op = kernel(b, DEMO_K_BACKWARD, T_BACKWARD,
                                       wait | after(b, HM_DEMO_C_TP) | after(b, HM_DEMO_C_EP));
        op->wait_event = has(b, HM_DEMO_C_FSDP) ? (uint8_t)(1 + l) : 0;
        wait = 0;
        if (has(b, HM_DEMO_C_TP))
            coll(b, HM_DEMO_C_TP, HM_NCCL_ALLREDUCE, 4194304, T_TP);
        if (has(b, HM_DEMO_C_FSDP))
            coll(b, HM_DEMO_C_FSDP, HM_NCCL_REDUCESCATTER,
                 3276800 / b->s->n_members[HM_DEMO_C_FSDP] + 1, T_SHARD * b->share / 1000);
        if (last && has(b, HM_DEMO_C_DP) && (i % 2 || i + 1 == b->n_layers)) {
            op = coll(b, HM_DEMO_C_DP, HM_NCCL_ALLREDUCE,
                      BUCKET_COUNT / b->s->n_members[HM_DEMO_C_FSDP],
                      T_BUCKET / b->s->n_members[HM_DEMO_C_FSDP]);
            if (has(b, HM_DEMO_C_FSDP)) /* of the shards that were just reduced */
                op->wait_streams |= 1U << DEMO_ST_FSDP;
        }
    }
}

static void pipeline(struct build *b)
{
    int first = !b->stage, last = b->stage + 1 == b->n_stages;
    uint32_t warm = b->n_stages - b->stage - 1;
    uint32_t rest = b->n_micro - warm;
    for (uint32_t i = 0; i < warm; i++) {
        if (!first)
            p2p(b, 0, DEMO_RECV);
        forward(b);
        p2p(b, 1, DEMO_SEND);
    }
    if (!first)
        p2p(b, 0, DEMO_RECV);
    for (uint32_t i = 0; i < rest; i++) {
        int end = i + 1 == rest;
        forward(b);
        if (!last)
            p2p(b, 1, DEMO_SEND | DEMO_RECV);
        backward(b, end && !warm);
        if (!first)
            p2p(b, 0, end ? DEMO_SEND : DEMO_SEND | DEMO_RECV);
    }
    for (uint32_t i = 0; i < warm; i++) {
        p2p(b, 1, DEMO_RECV);
        backward(b, i + 1 == warm);
        if (!first)
            p2p(b, 0, DEMO_SEND);
    }
}

hm_status_t hm_demo_program(const struct hm_demo *d, const struct hm_demo_shape *s, uint32_t stage,
                            struct hm_demo_program *p)
{
    struct build b = {.d = d, .s = s, .p = p, .stage = stage};
    b.n_stages = s->size[HM_DEMO_PP];
    b.n_layers = (d->n_layers ? d->n_layers : 8) / b.n_stages;
    b.n_layers = b.n_layers ? b.n_layers : 1;
    b.n_micro = d->n_micro ? d->n_micro : b.n_stages > 1 ? 2 * b.n_stages : 1;
    b.share = b.n_micro > 1 ? 2000 / b.n_micro : 1000;
    *p = (struct hm_demo_program){0};
    add(&b, DEMO_OP_BEGIN, 0);
    struct hm_demo_op *op = add(&b, DEMO_OP_COPY, 120 * US);
    op->stream = DEMO_ST_COPY;
    op->count = 1048576;
    if (b.n_stages > 1) {
        pipeline(&b);
    } else {
        for (uint32_t i = 0; i < b.n_micro; i++) {
            forward(&b);
            backward(&b, i + 1 == b.n_micro);
        }
    }
    b.share = 1000;
    kernel(&b, DEMO_K_OPT, T_OPT,
           1U << DEMO_ST_DP | 1U << DEMO_ST_FSDP | 1U << DEMO_ST_TP | 1U << DEMO_ST_EP |
               1U << DEMO_ST_PP);
    add(&b, DEMO_OP_SYNC, 0);
    add(&b, DEMO_OP_END, 0);
    if (!b.failed)
        return HM_OK;
    free(p->op);
    *p = (struct hm_demo_program){0};
    return hm_fail(HM_E_NOMEM, "demo", "out of memory");
}
