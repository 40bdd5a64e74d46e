/* What the files of the account share: account.c, account_chain.c, account_step.c.
 *
 * Box: lib/analysis, internal. Pure, one thread per object.
 */
#ifndef HM_ANALYSIS_ACCOUNT_INSIDE_H
#define HM_ANALYSIS_ACCOUNT_INSIDE_H

#include "analysis/account.h"
#include "analysis/host.h"
#include "analysis/intervals.h"
#include "analysis/opstats.h"

enum {
    HM_ACC_OPS = 1 << 14,
    HM_ACC_CALLS = 1 << 16,
    HM_ACC_STREAMS = 256,
    HM_ACC_LOOK_BACK = 4096 /* operations of one stream searched for the last one launched before */
};
#define HM_ACC_NO_OP UINT64_MAX

enum hm_acc_type { HM_OP_COMPUTE, HM_OP_COPY, HM_OP_COMM };

struct hm_acc_chain {
    int64_t carry_ns; /* end of the base, or where the chain begins */
    int64_t part[HM_N_C];
    struct hm_host_top top;   /* what took most of its host time */
    uint32_t base, n_kernels; /* base: arrival, HM_NO_ID = none */
    uint64_t base_op;         /* the operation of the base */
    int64_t node_ns;          /* start of the compute on it that waited for the base, INT64_MIN */
};
/* The first compute that waited for a collective, and what else it had to wait for. */
struct hm_acc_node {
    int64_t start_ns, floor_ns;
    uint64_t floor_op; /* operation of the floor */
    uint32_t floor;
    uint8_t known, rested; /* rested: an arrival rests on it */
};
struct hm_acc_op {
    int64_t start_ns, end_ns, last_ns;
    int64_t call_ns, called_ns; /* the launching call; call_ns INT64_MIN = unknown */
    int64_t call0_ns;           /* of an arrival: when the application asked for it */
    uint64_t id, before;        /* before: operation before it on its stream, NO_OP = none */
    uint64_t gate;              /* the operation its chain goes on through, NO_OP = none */
    int64_t gate_ns;            /* up to here the gate counts: its end, or what was clipped */
    int64_t comm0_ns,
        comm1_ns;         /* of an arrival: the collective before it held it up, empty = not */
    int64_t comm_last_ns; /* until then it waited, the rest moved data */
    int64_t host0_ns, host1_ns; /* host time between the gate and this one, empty = none */
    uint32_t stream, arrival, thread, name;
    uint8_t type;
    struct hm_acc_node node;   /* of a collective */
    struct hm_acc_chain chain; /* up to start_ns */
};
struct hm_acc_call {
    int64_t t_ns, end_ns;
    uint32_t correlation, track;
};
struct hm_acc_piece { /* operation of the open step */
    int64_t start_ns, end_ns, last_ns;
    uint32_t stat;
    uint8_t type;
};
struct hm_acc_idle { /* idle time of the open step */
    int64_t start_ns, end_ns;
    uint8_t why; /* enum hm_idle */
};
struct hm_acc_pending {
    struct hm_arrival a;
    struct hm_annot v;
    struct hm_segment s;
    int done;
};
struct hm_account {
    struct hm_account_in in;
    int64_t tolerance_ns;
    struct hm_acc_op *op;
    uint64_t n_ops, tail[HM_ACC_STREAMS];
    uint32_t stream_id[HM_ACC_STREAMS], n_streams;
    struct hm_acc_call *call;
    struct hm_host *host;
    uint8_t *seen; /* by kernel id: was launched before */
    uint32_t n_seen;
    uint8_t *cls; /* by string id: 1 + class as a range | (1 + class as a call) << 4 */
    uint32_t n_names;
    struct hm_acc_pending *wait;
    size_t n_wait, cap_wait, head;
    uint32_t n_taken; /* index of the next arrival to enter `wait` */
    int no_more, has_calls;
    struct hm_acc_piece *piece;
    size_t n_pieces, cap_pieces, i_step;
    struct hm_acc_idle *idle;
    size_t n_idle, cap_idle;
    int64_t gap_by_ns[HM_IDLE_N]; /* the gap before the operation seen last, by reason */
    struct hm_opstats *ops;       /* NULL = not kept */
    int64_t fed_bytes;            /* copied to the device since the last step was closed */
    int64_t memory, memory_peak;  /* device bytes in use; most in the open step, HM_NONE */
    int64_t busy_ns;              /* the device has had something to run up to here */
    struct hm_interval *scratch;
    size_t cap_scratch;
    struct hm_kernel_stat *stat;
    int64_t *last_dur;
    uint32_t n_stats, cap_stats, *slot, n_slots;
    int64_t first_ns, end_ns;
};

static inline int64_t hm_min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}
static inline int64_t hm_max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}
/** Room for one more in an array that doubles; NULL = no memory. */
void *hm_acc_grow(void **v_p, size_t *cap_p, size_t n, size_t size);

/* account_chain.c */
struct hm_acc_op *hm_acc_op_at(struct hm_account *a, uint64_t id);
unsigned hm_acc_stream(struct hm_account *a, uint32_t stream);
/** Fills o->chain: rule 3 for a compute kernel or a copy. */
void hm_acc_chain_of(struct hm_account *a, struct hm_acc_op *o);
/** Rule 3 for an arrival: the chain of its own work, and beside it the collective before it. */
void hm_acc_segment_of(struct hm_account *a, struct hm_acc_op *o, struct hm_segment *s);

/** Gives out the chain of an arrival through in.link. */
void hm_acc_explain(struct hm_account *a, const struct hm_acc_op *o);

/* account_step.c */
/** Row of (kernel, grid), HM_NO_ID = no room. */
uint32_t hm_acc_stat_of(struct hm_account *a, const struct hm_event *ev);
/** Notes the operation, and why the device idled before it. Operations come by start. */
hm_status_t hm_acc_step_op(struct hm_account *a, const struct hm_acc_op *o, uint32_t stat);
/** Closes the open step. */
hm_status_t hm_acc_step_flush(struct hm_account *a, int at_end);
/** Gives out the kernel statistics, by key. */
hm_status_t hm_acc_stats_end(struct hm_account *a);

#endif
