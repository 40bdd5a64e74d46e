/* The event: 64 bytes, one cache line; one payload of 40 bytes per kind.
 *
 * Box: lib/core. The same bytes in the pool, in the tail file and in the reader's batch (little
 * endian). Numbers of kinds and clocks are for ever. Columns of each kind: lib/store/schema.def.
 */
#ifndef HM_EVENT_H
#define HM_EVENT_H

#include <stdint.h>

#define HM_DUR_OPEN INT64_MIN  /* had not ended when written */
#define HM_NO_ID    UINT32_MAX /* unknown definition, call, launch */
struct hm_ev_kernel {
    uint32_t kernel, correlation;
    uint64_t graph_node;
    uint32_t graph, grid[3], channel, channel_type;
};
struct hm_ev_copy {
    uint64_t bytes, graph_node;
    uint32_t graph, correlation;
    uint8_t copy, src, dst, async;
    uint16_t src_device, dst_device;
    uint32_t n_copies, pad;
};
struct hm_ev_set {
    uint64_t bytes, graph_node;
    uint32_t graph, correlation, value, memory;
    uint64_t pad;
};
struct hm_ev_sync {
    uint64_t event_sync;
    uint32_t correlation, stream_track, event;
    int32_t rc;
    uint64_t pad[2];
};
struct hm_ev_api {
    uint64_t external;
    uint32_t correlation, name;
    int32_t rc;
    uint32_t domain;
    uint64_t pad[2];
}; /* external: our NCCL launch, 0 none */
struct hm_ev_memory {
    uint64_t address, bytes, pool, used;
    uint32_t correlation;
    uint8_t op, memory, async, pad;
};
struct hm_ev_overhead {
    uint64_t data;
    uint32_t object, correlation;
    uint64_t pad[3];
};
struct hm_ev_graph {
    uint32_t graph, correlation;
    uint64_t pad[4];
};
struct hm_ev_group { /* both in ns after t_ns, 0 = not told */
    int64_t start_api_ns, end_api_ns;
    uint32_t group;
    int32_t depth;
    uint64_t pad[2];
};
struct hm_ev_launch {
    uint64_t stream_ptr;
    uint32_t comm, launch, group, n_ops;
    uint64_t pad[2];
};
struct hm_ev_op {
    uint64_t count, user_tag;
    uint32_t comm, call, nccl_seq, launch;
    int32_t peer;
    uint8_t algo, proto, n_channels, n_warps;
};
struct hm_ev_ce_part {
    uint64_t bytes;
    uint32_t comm, call, n, complete;
    uint64_t pad[2];
};
struct hm_ev_proxy_op {
    uint64_t bytes;
    uint32_t comm, call, proxy;
    int32_t peer, n_steps, chunk_bytes, origin_pid;
    uint8_t channel, is_send, pad[2];
};
struct hm_ev_proxy_step {
    int64_t phase_ns[3];
    uint64_t bytes;
    uint32_t proxy;
    int32_t step;
}; /* phases in NCCL's order of states, ns after t_ns, 0 = not told */
struct hm_ev_proxy_ctrl {
    uint32_t comm, appended;
    uint64_t pad[4];
};
struct hm_ev_kernel_ch {
    uint64_t gpu_start, gpu_stop;
    uint32_t comm, call;
    uint8_t channel, phase, pad[6];
    uint64_t pad2;
};
struct hm_ev_net {
    int64_t id;
    uint32_t proxy;
    int32_t step;
    uint64_t pad[3];
};
struct hm_ev_nccl_state { /* counts since the communicator began; last_ns 0 = nothing yet */
    int64_t last_ns;
    uint32_t comm, n_called, n_launched, n_announced, n_enqueued, launch, n_unlaunched, alive;
};
struct hm_ev_range {
    uint64_t payload;
    uint32_t name, domain, category, color;
    uint16_t depth;
    uint8_t payload_type, style;
    uint32_t pad;
    uint64_t pad2;
};
struct hm_ev_step {
    int64_t step;
    uint32_t name, source;
    uint32_t shut, pad; /* shut: nothing else of this step is recorded */
    uint64_t pad2[2];
};
struct hm_ev_counter {
    union {
        int64_t i;
        double f;
    } value;
    uint32_t name, domain, is_float, unit;
    uint64_t pad[2];
};
struct hm_ev_mpi {
    uint64_t bytes;
    uint32_t comm;
    int32_t peer, tag;
    uint32_t n_requests;
    uint64_t pad[2];
};
struct hm_ev_gap {
    uint64_t n, pad[4];
};
struct hm_ev_snapshot {
    int64_t mono_ns, real_ns, boot_ns, phc_ns;
    uint32_t width_ns, have;
};
struct hm_ev_probe {
    int64_t t2_ns, t3_ns, t4_ns;
    uint32_t window, peer;
    uint64_t pad;
};
struct hm_ev_window {
    uint32_t window, peer, n_sent, n_lost, rtt_min_ns, rtt_med_ns, rtt_p90_ns, pad;
    uint64_t pad2;
};
struct hm_ev_anchor {
    uint64_t gpu_ns;
    int64_t cupti_ns;
    uint32_t device, pad;
    uint64_t pad2[2];
};
/* Something that had begun and not ended when a snapshot was taken: t = its begin, dur = its age.
 * The thing itself is recorded as ever when it ends. */
struct hm_ev_open {
    uint64_t count;
    uint32_t name, domain, comm, call;
    uint16_t depth, what_aux; /* aux of the thing: function of an operation */
    uint8_t what, pad[3];     /* enum hm_kind */
    uint64_t pad2;
};
struct hm_event {   /* 64 bytes, one cache line, little endian: memory, tail file, reader's batch */
    int64_t t_ns;   /*  0 begin or instant, in the clock named by flags; base clock MONOTONIC_RAW */
    int64_t dur_ns; /*  8 0 = instant, HM_DUR_OPEN */
    uint8_t kind, flags; /* 16 enum hm_kind; HM_EVF_* */
    uint16_t aux;        /* 18 small code, see 3.2 */
    uint32_t track;      /* 20 HM_DEF_TRACK: the host thread or GPU stream */
    union {
        struct hm_ev_kernel kernel;
        struct hm_ev_copy copy;
        struct hm_ev_set set;
        struct hm_ev_sync sync;
        struct hm_ev_api api;
        struct hm_ev_memory memory;
        struct hm_ev_overhead overhead;
        struct hm_ev_graph graph;
        struct hm_ev_group group;
        struct hm_ev_launch launch;
        struct hm_ev_op op;
        struct hm_ev_ce_part ce;
        struct hm_ev_proxy_op proxy_op;
        struct hm_ev_proxy_step proxy_step;
        struct hm_ev_proxy_ctrl proxy_ctrl;
        struct hm_ev_kernel_ch kernel_ch;
        struct hm_ev_net net;
        struct hm_ev_range range;
        struct hm_ev_step step;
        struct hm_ev_counter counter;
        struct hm_ev_mpi mpi;
        struct hm_ev_gap gap;
        struct hm_ev_snapshot snapshot;
        struct hm_ev_probe probe;
        struct hm_ev_window window;
        struct hm_ev_anchor anchor;
        struct hm_ev_open open;
        struct hm_ev_nccl_state nccl_state;
        uint64_t word[5];
    } u; /* 24 */
};
_Static_assert(sizeof(struct hm_event) == 64 && sizeof(((struct hm_event *)0)->u) == 40, "");
enum {
    HM_EVF_CLOCK = 7,
    HM_EVF_BAD_TIME = 8,
    HM_EVF_EVICTED = 16,
    HM_EVF_GRAPH = 32,
    HM_EVF_LATE = 64,
    HM_EVF_NO_TIME = 128
};
enum hm_clock_id { HM_CLOCK_RAW, HM_CLOCK_REAL, HM_CLOCK_GPU, HM_CLOCK_FILE, HM_N_CLOCKS };
enum hm_kind {
    HM_EV_KERNEL = 1,
    HM_EV_MEMCPY,
    HM_EV_MEMSET,
    HM_EV_SYNC,
    HM_EV_API,
    HM_EV_MEMORY,
    HM_EV_OVERHEAD,
    HM_EV_GRAPH,
    HM_EV_NCCL_GROUP = 16,
    HM_EV_NCCL_CALL,
    HM_EV_NCCL_LAUNCH,
    HM_EV_NCCL_COLL,
    HM_EV_NCCL_P2P,
    HM_EV_NCCL_CE,
    HM_EV_NCCL_CE_PART,
    HM_EV_PROXY_OP,
    HM_EV_PROXY_STEP,
    HM_EV_PROXY_CTRL,
    HM_EV_KERNEL_CH,
    HM_EV_NET,
    HM_EV_NCCL_STATE,
    HM_EV_RANGE = 32,
    HM_EV_MARK,
    HM_EV_STEP,
    HM_EV_COUNTER,
    HM_EV_MPI,
    HM_EV_GAP = 48,
    HM_EV_CLOCK_SNAPSHOT,
    HM_EV_CLOCK_PROBE,
    HM_EV_CLOCK_WINDOW,
    HM_EV_GPU_ANCHOR,
    HM_EV_OPEN,
    HM_N_KINDS = 64
}; /* numbers are for ever; a bit each in the gate */

/* aux of STEP events, types of tracks, functions and data types of NCCL operations. */
enum hm_step_edge { HM_STEP_BEGIN = 0, HM_STEP_END = 1 };
enum hm_step_source { HM_STEP_FROM_CALL = 1, HM_STEP_FROM_RANGE = 2 };
enum hm_track_type { HM_TRACK_THREAD = 1, HM_TRACK_STREAM, HM_TRACK_PROXY, HM_TRACK_WRITER };
enum hm_api_domain { HM_API_DRIVER = 1, HM_API_RUNTIME = 2 };
enum hm_nccl_func {
    HM_NCCL_UNKNOWN,
    HM_NCCL_ALLREDUCE,
    HM_NCCL_ALLGATHER,
    HM_NCCL_REDUCESCATTER,
    HM_NCCL_BROADCAST,
    HM_NCCL_REDUCE,
    HM_NCCL_SEND,
    HM_NCCL_RECV,
    HM_NCCL_SENDRECV,
    HM_NCCL_ALLTOALL,
    HM_NCCL_GATHER,
    HM_NCCL_SCATTER,
    HM_NCCL_PUTSIGNAL,
    HM_NCCL_SIGNAL,
    HM_NCCL_WAITSIGNAL,
    HM_NCCL_N_FUNCS
};
/** Bit of a call index: counted among the point-to-point calls of the communicator, not among its
 *  collectives, because a rank need not take part in every send and receive. */
#define HM_CALL_P2P UINT32_C(0x80000000)
/** algo and proto of an operation, 0 = unknown. */
enum hm_nccl_algo {
    HM_NCCL_ALGO_TREE = 1,
    HM_NCCL_ALGO_RING,
    HM_NCCL_ALGO_COLLNET_DIRECT,
    HM_NCCL_ALGO_COLLNET_CHAIN,
    HM_NCCL_ALGO_NVLS,
    HM_NCCL_ALGO_NVLS_TREE,
    HM_NCCL_ALGO_PAT,
    HM_NCCL_N_ALGOS
};
enum hm_nccl_proto {
    HM_NCCL_PROTO_LL = 1,
    HM_NCCL_PROTO_LL128,
    HM_NCCL_PROTO_SIMPLE,
    HM_NCCL_N_PROTOS
};
/** payload_type of ranges and marks: which of its forms the payload's 64 bits hold. 32-bit integers
 *  are extended by their sign, a float stands in the low half. */
enum hm_payload_type {
    HM_PAYLOAD_NONE,
    HM_PAYLOAD_U64,
    HM_PAYLOAD_I64,
    HM_PAYLOAD_F64,
    HM_PAYLOAD_U32,
    HM_PAYLOAD_I32,
    HM_PAYLOAD_F32,
    HM_N_PAYLOADS
};
/** aux of MARK events. CATEGORY: no instant of the program, but the name of a category. */
enum hm_mark_what { HM_MARK_INSTANT, HM_MARK_CATEGORY };
enum hm_range_style { HM_RANGE_PUSHED, HM_RANGE_STARTED };
/** aux of NCCL_STATE events at the end of the recording; else the number of the snapshot. */
#define HM_STATE_AT_END 0xffff
/** aux of NCCL_CE_PART events. */
enum hm_ce_part { HM_CE_SYNC = 1, HM_CE_BATCH = 2 };
/** aux of OVERHEAD events: CUPTI's kinds (1, or 0x100 | n for n << 16), and our own flushes. */
enum hm_overhead_kind {
    HM_OVERHEAD_COMPILER = 1,
    HM_OVERHEAD_BUFFER_FLUSH = 0x101,
    HM_OVERHEAD_INSTRUMENTATION = 0x102,
    HM_OVERHEAD_RESOURCE = 0x103,
    HM_OVERHEAD_MODULE = 0x104,
    HM_OVERHEAD_LAZY_FUNCTION = 0x105,
    HM_OVERHEAD_COMMAND_BUFFER = 0x106,
    HM_OVERHEAD_BUFFER_REQUEST = 0x107,
    HM_OVERHEAD_UVM = 0x108,
    HM_OVERHEAD_OWN_FLUSH = 0x200
};
/** 1 + ncclDataType_t: Int8 0, Uint8 1, Int32 2, Uint32 3, Int64 4, Uint64 5, Float16 6, Float32 7,
 *  Float64 8, Bfloat16 9, Float8e4m3 10, Float8e5m2 11; 0 = unknown. The event's aux is
 *  func | dtype << 8. */
enum hm_nccl_dtype {
    HM_DTYPE_UNKNOWN = 0,
    HM_DTYPE_INT8 = 1,
    HM_DTYPE_FLOAT32 = 8,
    HM_N_DTYPES = 13
};
#define HM_NCCL_AUX(func, dtype) ((uint16_t)((unsigned)(func) | (unsigned)(dtype) << 8))

#endif
