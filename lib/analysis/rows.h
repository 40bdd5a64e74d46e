/* Rows: what the engine keeps of a run (fixed size, in spool files).
 *
 * Box: lib/analysis. Units ns on the global timeline, bytes. Unknown values are HM_NONE(reason).
 */
#ifndef HM_ANALYSIS_ROWS_H
#define HM_ANALYSIS_ROWS_H

#include "core/event.h"

#include <stddef.h>
#include <stdint.h>

#define HM_NONE(reason)                                                                           \
    (INT64_MIN + 1 + (reason)) /* unknown is a value; hm_why() gives the sentence for "<key>_why" \
                                */
#define HM_IS_NONE(v) ((v) < INT64_MIN + 256)
struct hm_arrival {
    uint64_t comm;
    uint32_t seq, pair;
    int64_t start_ns, end_ns, host_ns, launch_end_ns;
    uint64_t bytes; /* a worker's part in a launch: key comm, seq, pair */
    uint32_t signature;
    uint8_t func, n_ops, source, confidence;
}; /* 64; pair 0 = collective, else 1 + src * n_ranks + dst (n_ranks < 65,536), src = dst = root for
      a rooted collective; seq = index of the launch among the collective ones of the communicator,
      or of the operation among those of the pair */
struct hm_annot {
    int64_t last_ns, end1_ns;
    uint32_t last_worker, u_ns, step;
    uint16_t flags;
    uint8_t device, pad;
}; /* 32: what the others make of it, same index; flags: tie, late, reference ... */
/* What a gate chain is made of. */
enum hm_chain_part {
    HM_C_COMPUTE,
    HM_C_TRANSFER,
    HM_C_WAIT,
    HM_C_COPY,
    HM_C_INPUT,
    HM_C_HOST,
    HM_C_QUEUE,
    HM_C_SERIAL,
    HM_C_MODULE,
    HM_C_BLOCKED,
    HM_C_ALLOC,
    HM_C_SYNC,
    HM_C_CHECKPOINT,
    HM_C_OBSERVER,
    HM_N_C
};
struct hm_segment {
    /* The parts from compute_ns to idle_blocked_ns, and those at the end, sum to start - carry:
     * hm_segment_sum(). */
    int64_t carry_ns, compute_ns, comm_transfer_ns, comm_wait_ns, memcpy_ns, idle_input_ns,
        idle_host_ns, idle_queue_ns, idle_serial_ns, idle_module_ns, idle_blocked_ns;
    int64_t ready_ns; /* when this worker's own work let it arrive; start is this or later */
    uint32_t base;    /* the arrival of this worker whose end is carry_ns; HM_NO_ID = none */
    uint32_t before;  /* the arrival before it on its stream; HM_NO_ID = none */
    uint32_t top_kernel, n_kernels;
    uint64_t mix;
    /* The compute that waited for the base began node_ns after its end, and not before other
     * compute was done: floor_ns after the compute that waited for arrival `floor` had begun. */
    int64_t node_ns, floor_ns; /* HM_NONE = no such compute, no such floor */
    uint32_t floor;            /* HM_NO_ID = none */
    uint8_t gate, via_node;    /* enum hm_gate; 1: the arrival rests on that compute */
    uint8_t host_class;        /* enum hm_host_class of host_name */
    uint8_t pad;
    int64_t idle_alloc_ns, idle_sync_ns, idle_checkpoint_ns, idle_observer_ns;
    int64_t host_name_ns; /* the named call or range that took most of the idle parts */
    uint32_t host_name;   /* string, or HM_HOST_NAME_MPI | function; HM_NO_ID = none */
    uint32_t pad2;
}; /* 192: the end of the base (when its gate chain last rested on others) -> arrival */
/* Why a device had nothing to run. */
enum hm_idle {
    HM_IDLE_CHECKPOINT,
    HM_IDLE_INPUT,
    HM_IDLE_SERIAL,
    HM_IDLE_ALLOC,
    HM_IDLE_MODULE,
    HM_IDLE_SYNC,
    HM_IDLE_BLOCKED,
    HM_IDLE_OBSERVER,
    HM_IDLE_HOST,
    HM_IDLE_QUEUE, /* launched, not started */
    HM_IDLE_N
};
struct hm_step_part {
    int64_t t0_ns, t1_ns, compute_ns, transfer_ns, wait_ns, memcpy_ns, idle_ns, comm_ns, overlap_ns,
        stall_ns, blocking_ns, host_sync_ns, input_ns, peak_bytes;
    uint32_t device, flags, step, n_kernels;
    /* host time of the launching threads, whatever the device did meanwhile */
    int64_t alloc_ns, module_ns, blocked_ns, checkpoint_ns;
    /* idle_ns by reason; what they do not add up to is not explained */
    int64_t idle_by_ns[HM_IDLE_N];
    int64_t fed_bytes; /* copied from the host to the device */
}; /* one worker, one step; compute..idle sum to t1 - t0; flags: warm-up, our own flush inside */
struct hm_launch {
    uint64_t comm;
    uint32_t seq, pair;
    int64_t first_ns, last_ns, second_ns, end1_ns, end2_ns, u_ns;
    uint64_t bytes; /* the matched unit */
    uint32_t i_part, n_present, n_members, last_worker, step, signature;
    uint8_t func, source, confidence, n_ops;
    uint32_t flags;
}; /* 104 */
struct hm_part {
    struct hm_arrival a;
    struct hm_annot v;
    uint32_t worker, i_arrival, i_segment, keep;
}; /* 112: keep = show me again in the next window */
struct hm_window {
    const struct hm_launch *launch;
    const struct hm_part *part;
    const struct hm_segment *segment;
    size_t n_launches, n_parts, n_segments;
    int64_t t0_ns, t1_ns;
};

/* hm_arrival.source: where start_ns comes from; .confidence: how kernel and operation were joined.
 */
enum hm_arrival_source { HM_ARRIVAL_KERNEL = 1, HM_ARRIVAL_PTIMER, HM_ARRIVAL_ENQUEUE };
enum hm_join_confidence { HM_JOIN_EXTERNAL = 1, HM_JOIN_WINDOW, HM_JOIN_ORDER, HM_JOIN_GRAPH };
/* hm_segment.gate: what came last before the arrival. */
enum hm_gate { HM_GATE_NONE, HM_GATE_DEVICE, HM_GATE_COMM, HM_GATE_HOST, HM_GATE_UNKNOWN };
/* One (kernel, grid) of one worker, over the analysed steps, where no communication ran beside it:
 * what rule 4 compares between workers. Times in blocks of a sixteenth of the steps each. */
enum { HM_KERNEL_BLOCKS = 16 };
struct hm_kernel_stat {
    uint64_t key; /* the same on every worker: kernel definition and grid */
    uint32_t kernel, grid[3];
    uint32_t n, n_jumps; /* occurrences; how many differ by over 2 % from the one before */
    uint32_t block_n[HM_KERNEL_BLOCKS];
    int64_t block_ns[HM_KERNEL_BLOCKS];
    int64_t all_ns; /* and with communication beside it: what a worker does at all */
    uint32_t n_all, pad;
}; /* 240; n may be 0 */
_Static_assert(sizeof(struct hm_arrival) == 64 && sizeof(struct hm_annot) == 32 &&
                   sizeof(struct hm_segment) == 192 && sizeof(struct hm_step_part) == 248 &&
                   sizeof(struct hm_launch) == 104 && sizeof(struct hm_part) == 112 &&
                   sizeof(struct hm_kernel_stat) == 240,
               "");

static inline int64_t hm_segment_sum(const struct hm_segment *s)
{
    return s->compute_ns + s->comm_transfer_ns + s->comm_wait_ns + s->memcpy_ns + s->idle_input_ns +
           s->idle_host_ns + s->idle_queue_ns + s->idle_serial_ns + s->idle_module_ns +
           s->idle_blocked_ns + s->idle_alloc_ns + s->idle_sync_ns + s->idle_checkpoint_ns +
           s->idle_observer_ns;
}

/* hm_annot.flags */
enum {
    HM_ANNOT_MATCHED = 1,    /* last_ns, end1_ns, last_worker are set */
    HM_ANNOT_TIE = 2,        /* margin <= clock error: no last worker (last_worker = HM_NO_ID) */
    HM_ANNOT_LATE = 4,       /* this worker is the last one */
    HM_ANNOT_REFERENCE = 8,  /* the lower-median arriver against which the late one is explained */
    HM_ANNOT_PARTIAL = 16,   /* members are missing */
    HM_ANNOT_ONE_SIDED = 32, /* rooted or point-to-point: no common wait */
    HM_ANNOT_HOLES = 64      /* an all-to-all in pieces of which this worker's are not all there;
                                the join sets it, the match keeps it */
};
/* hm_step_part.flags */
enum { HM_STEP_WARMUP = 1, HM_STEP_OWN_FLUSH = 2, HM_STEP_PARTIAL = 4, HM_STEP_OBSERVED = 8 };
/* hm_launch.flags */
enum {
    HM_LAUNCH_COMPLETE = 1,
    HM_LAUNCH_SYNCHRONOUS = 2,
    HM_LAUNCH_TIE = 4,
    HM_LAUNCH_VIOLATION = 8,
    HM_LAUNCH_HOLES = 16 /* an all-to-all in which some pairs exchange nothing */
};

#endif
