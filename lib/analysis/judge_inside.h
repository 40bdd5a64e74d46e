/* What the parts of the judge share. Box: lib/analysis, internal. */
#ifndef HM_ANALYSIS_JUDGE_INSIDE_H
#define HM_ANALYSIS_JUDGE_INSIDE_H

#include "analysis/judge.h"
#include "analysis/mismatch.h"
#include "analysis/roles.h"

/* From here on a clock bound says that the clocks were never compared. */
#define HM_CLOCK_UNKNOWN_NS INT64_C(1000000000)

/* A worker's part in a launch. */
struct hm_jpart {
    int64_t start_ns, end_ns, ready_ns, carry_ns, wait_ns;
    int64_t local_ns, tail_ns; /* own work since the base; start after all that is known */
    int64_t part_ns[HM_N_C];
    uint32_t worker, launch, base, before; /* base, before: parts of the same worker, or HM_NO_ID */
    uint32_t common;                       /* part in the launch that all members rest on */
    uint32_t source;                       /* one-sided: the part that it waits for */
    uint32_t ref, pad0;                    /* part of the median member of its role */
    int64_t own_ns;                        /* own work since the common base */
    int64_t excess_ns;                     /* what of local_ns is more than its role does */
    int64_t node_ns, floor_ns;             /* as in hm_segment */
    uint32_t floor;                        /* part */
    uint8_t has_segment, gate, via_node, aside; /* aside: its chain passes the common base by */
};
struct hm_jlaunch {
    uint64_t comm, bytes;
    int64_t first_ns, last_ns, end1_ns, end2_ns, u_ns;
    int64_t floor_median_ns; /* of floor, over the members that have one */
    uint32_t first_part, n_parts, seq, i_step, last_worker, n_members, flags;
    uint32_t common;      /* launch that all members rest on, HM_NO_ID = none */
    uint32_t pair, i_use; /* as in hm_arrival; index of its communicator in hm_judge.use */
    uint8_t func, pad[7];
};
enum { HM_N_JNAMES = 16 };
struct hm_jname { /* a call or range that took host time on the gate chains */
    int64_t ns;
    uint32_t name; /* as hm_segment.host_name */
    uint8_t cls;   /* enum hm_host_class */
};
struct hm_jworker {
    uint32_t *of_arrival, n_arrivals, cap_arrivals; /* arrival index -> part */
    struct hm_step_part sum;                        /* over the analysed steps */
    struct hm_step_part watched;                    /* over those in which a profiler worked */
    int64_t wait_ns, transfer_ns, late_ns, gain_ns, caused_ns, indirect_ns;
    int64_t critical_ns; /* own work on the critical path */
    uint32_t last_arrivals, last_in_steps;
    struct hm_kernel_stat *kernel;
    uint32_t n_kernels, cap_kernels;
    struct hm_jname name[HM_N_JNAMES];
    uint64_t all_to_all_bytes; /* sent or received, whichever is more */
    uint32_t n_all_to_all, pad;
    struct hm_health_sum health;
    uint8_t uuid[16]; /* of its GPU, all 0 = unknown */
};
struct hm_jstep {
    int64_t time_ns, compute_ns, exposed_ns, stall_ns, end_ns, input_ns, late_ns;
    int64_t t0_ns, t1_ns; /* of all workers */
    uint32_t step, n, last_worker;
    uint8_t left_out, watched, pad[2];
};
struct hm_jopstat {              /* a name over all workers */
    struct hm_opstat sum, worst; /* worst: of the worker with most inclusive time */
    uint32_t worker, n_workers, next, pad;
};
struct hm_jopstat_rank {
    struct hm_opstat s;
    uint32_t worker, pad;
};
/* Entries of the ledger; the first six are always told. */
enum hm_loss_kind {
    HM_L_COMPUTE,
    HM_L_TRANSFER,
    HM_L_WAIT,
    HM_L_COPY,
    HM_L_INPUT,
    HM_L_IDLE,
    HM_L_STRAGGLER,
    HM_L_ROLE,
    HM_L_ROTATING,
    HM_L_JITTER,
    HM_L_BUBBLE,
    HM_L_CHECKPOINT,
    HM_L_ONE_OFF,
    HM_L_UNEXPLAINED,
    HM_N_LOSSES
};
struct hm_judge {
    struct hm_judge_in in;
    struct hm_jpart *part;
    struct hm_jlaunch *launch;
    struct hm_jstep *step;
    struct hm_jworker *worker;
    size_t n_parts, cap_parts, n_launches, cap_launches, n_steps, cap_steps;
    struct hm_link_sum *link;
    size_t n_links;
    uint32_t n_workers, n_skipped;
    struct hm_mismatches mismatches;
    struct hm_jopstat *opstat; /* by name, over all workers */
    struct hm_jopstat_rank *opstat_rank;
    size_t n_opstats, cap_opstats, n_opstat_ranks, cap_opstat_ranks;
    uint32_t *opstat_slot;
    uint32_t n_watched, watched_from, watched_to; /* steps left out because a profiler worked */
    int64_t *late;                                /* [n_workers][n_steps] own lateness per step */
    int64_t *dim_ns;         /* [n_workers][HM_N_DIMS] in which dimension it was found */
    int64_t schedule_ns;     /* waits between stages that are nobody's */
    int64_t bubble_ns;       /* of an evenly split pipeline, mean over the workers, all steps */
    int64_t *cause_ns;       /* [n_workers][HM_N_C] what that lateness was made of */
    int64_t total_ns, t0_ns; /* sum of step times */
    int64_t shift_max_ns;    /* largest disagreement of clocks and durations */
    uint32_t clock_suspect, n_sync, replay_holds, has_losses;
    int64_t loss_by[HM_N_LOSSES]; /* enum hm_loss_kind, by replay; where has_losses */
    struct hm_roles roles;
    struct hm_comm_use *use; /* [n_uses] communicators by key */
    uint32_t n_uses, n_own_members, **own_members;
};

/** Estimator A against B: ends of synchronous launches must agree over the members. Where they do
 *  not, the clock is moved to fit the durations and clock_suspect is set. */
void hm_judge_clocks(struct hm_judge *j);
enum { HM_EXIT_SKEW_NS = 50000 }; /* all leave a collective within this */
static inline int hm_judge_is_sync(const struct hm_jlaunch *l)
{
    return (l->flags & HM_LAUNCH_SYNCHRONOUS) && l->n_parts >= 2;
}
/** Own work is told by one clock alone: its error is the exit skew at most. */
static inline int64_t hm_judge_exit_error(const struct hm_jlaunch *l)
{
    return l->u_ns < HM_EXIT_SKEW_NS ? l->u_ns : HM_EXIT_SKEW_NS;
}
/** Part of a worker in a launch, NULL = none. */
struct hm_jpart *hm_judge_part_in(const struct hm_judge *j, uint32_t launch, uint32_t worker);
/** The link before on a part's chain, NULL = it begins here. */
const struct hm_jpart *hm_judge_link(const struct hm_judge *j, const struct hm_jpart *p);
struct hm_compare;
struct hm_compare *hm_compare_create(struct hm_judge *j);
/** Fills local, own, tail of a launch. */
void hm_compare_locals(struct hm_judge *j, const struct hm_jlaunch *l);
/** Messages against those of the other replicas: ref, excess. After the locals of all. */
hm_status_t hm_judge_siblings(struct hm_judge *j);
/** Fills own, common, ref, excess of a launch; all earlier launches have been. */
void hm_compare_launch(struct hm_compare *c, struct hm_jlaunch *l);
void hm_compare_destroy(struct hm_compare *c);
/** Fills critical_ns of the workers. */
hm_status_t hm_judge_critical(struct hm_judge *j);
/** Charges all waits: caused, indirect, schedule. After all launches were compared. */
void hm_judge_charge(struct hm_judge *j);
/** Worlds, roles, dimensions. */
hm_status_t hm_judge_roles(struct hm_judge *j);
hm_status_t hm_judge_roles_table(struct hm_judge *j, struct hm_result *result);
/** Fills common, local, excess, waits and their propagation, late[], cause_ns[]. */
hm_status_t hm_judge_propagate(struct hm_judge *j);
/** Replays the run with the workers of `repair` [n_workers] as fast as their median peer.
 *  gain_p [n_steps]: by how much each step gets shorter. Returns the sum; INT64_MIN = no memory. */
int64_t hm_judge_replay(const struct hm_judge *j, const uint8_t *repair, int64_t *gain_p);
/** What the replay changes. */
struct hm_what_if {
    const uint8_t *repair; /* [n_workers] no more own work than the median of their role; or NULL */
    int work;              /* 1: what is taken from them is spread evenly over their role */
    const double *scale;   /* [n_workers] factor of all compute on chains; NULL = 1 */
    uint64_t comm;         /* a communicator whose transfers last comm_scale of their time */
    double comm_scale;     /* 0 = none */
    uint32_t pair;         /* not 0: those messages of it alone */
    const uint8_t *not_in; /* [n_steps] 1: `repair` does not hold in this step; or NULL */
    const uint8_t *all_in; /* [n_steps] 1: everybody is repaired in this step; or NULL */
    uint32_t less;         /* bits 1 << HM_C_*: such time is taken out of everybody's chains */
    uint32_t even;         /* bits: such time beyond the median's of the role is taken out */
    int no_transfer;       /* 1: all leave a synchronous launch when the last one comes */
};
int64_t hm_judge_what_if(const struct hm_judge *j, const struct hm_what_if *what, int64_t *gain_p);
/** Unequal stages of a pipeline: a finding where splitting the work evenly gains enough; fills
 *  bubble_ns. */
hm_status_t hm_judge_stages(struct hm_judge *j, struct hm_result *result);
/** How GPU `worker` compares with its peers in work that is the same (rule 4). */
struct hm_control {
    double ratio; /* common ratio of control time, 1 = as its peers */
    double agree; /* part of the control time that shows it */
    uint32_t n;   /* control kernels */
    double alone; /* part of its kernel time in (kernel, grid) that no peer runs */
    double error; /* standard error of ratio */
    double same;  /* part of the control time that takes as long as on the peers, beside agree */
    double bytes; /* what it exchanges in all-to-all over its peers, 0 = nothing to compare */
    int is_fed;   /* 1: bytes is what is copied to it from the host instead */
    uint32_t n_follow; /* kernels that are longer by that */
};
hm_status_t hm_judge_control(const struct hm_judge *j, uint32_t worker, unsigned from_block,
                             struct hm_control *control_p);
/** Hangs and mismatches, which come before any straggler. */
hm_status_t hm_judge_stuck(struct hm_judge *j, struct hm_result *result);
hm_status_t hm_judge_verdict(struct hm_judge *j, struct hm_result *result);
/** Tables pop and trend. After the verdict. */
hm_status_t hm_judge_pop(const struct hm_judge *j, struct hm_result *result);
hm_status_t hm_judge_ledger(const struct hm_judge *j, struct hm_result *result);
hm_status_t hm_judge_trends(const struct hm_judge *j, struct hm_result *result);
hm_status_t hm_judge_tables(struct hm_judge *j, struct hm_result *result);
/** UUID of a worker's GPU as nvidia-smi spells it; fresh memory, NULL = unknown. */
char *hm_judge_uuid(const struct hm_judge *j, uint32_t worker);
hm_status_t hm_judge_link_table(const struct hm_judge *j, struct hm_result *result);
/** Findings of messages that take longer than those of the other replicas. */
hm_status_t hm_judge_messages(struct hm_judge *j, struct hm_result *result);
/** Findings of slow links. */
hm_status_t hm_judge_network(struct hm_judge *j, struct hm_result *result);
hm_status_t hm_judge_health_table(const struct hm_judge *j, struct hm_result *result);
hm_status_t hm_judge_opstat_table(struct hm_judge *j, struct hm_result *result);
hm_status_t hm_judge_quality(struct hm_judge *j, struct hm_result *result);
/** The call or range of a part of the gate chains (enum hm_chain_part) in which the worker spent
 *  most; fresh memory, NULL = nothing has a name or no memory. */
char *hm_judge_call(const struct hm_judge *j, uint32_t worker, int part, int64_t *ns_p);
enum hm_subject_kind {
    HM_SUBJECT_RANK,
    HM_SUBJECT_RANKS,
    HM_SUBJECT_NODE,
    HM_SUBJECT_STAGE,
    HM_SUBJECT_GROUP,
    HM_SUBJECT_ALL
};
/** What a set [n_workers] of workers is; *label_p: fresh memory, NULL = no memory. */
enum hm_subject_kind hm_subject_of(const struct hm_judge *j, const uint8_t *set, char **label_p);
const char *hm_subject_name(enum hm_subject_kind kind);
/** Dimension in which their lateness was found, NULL = not known. */
const char *hm_subject_dim(const struct hm_judge *j, const uint8_t *set);
/** Dimension of a communicator, NULL = not known. */
const char *hm_subject_dim_of(const struct hm_judge *j, uint64_t comm);
/** Their global ranks with commas, fresh memory. */
char *hm_subject_ids(const struct hm_judge *j, const uint8_t *set);
/** printf into fresh memory; NULL = no memory. */
char *hm_text(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/** Appends a line to a LIST cell. */
void hm_list_add(char **list_p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/** Host of a worker, "" when unknown. */
const char *hm_judge_host(const struct hm_judge *j, uint32_t worker);
int64_t hm_median(int64_t *v, size_t n); /* lower median; sorts v; n > 0 */
int hm_by_i64(const void *x, const void *y);

#endif
