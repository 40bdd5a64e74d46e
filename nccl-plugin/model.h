/* What the parts of the event model share: communicators, slots, identities, the thread's place.
 *
 * Box: nccl-plugin. comm.c, slot.c, words.c below; launch.c (calls, launches, operations), proxy.c
 * (what NCCL's own threads tell) and ops.c (the way in) above. adapt*.c see ops.h only.
 */
#ifndef HM_NCCL_MODEL_H
#define HM_NCCL_MODEL_H

#include "handle.h"
#include "ops.h"
#include "record/state.h"

enum { MAX_COMMS = 16384, MAX_WAITING = 8 };

/* what the plugin keeps in the free words of a slot */
#define SLOT_FLAGS  mark_ns[3]
#define SLOT_PARENT mark_ns[0]
#define SLOT_TYPE   pad
enum {
    OP_OPEN = 1,
    OP_PUSHED = 2, /* on CUPTI's stack */
    OP_BRIEF = 4,  /* in the group of its own: ends where its launch begins */
    OP_LENT = 8    /* begins with the launch's end: no stamps of its own */
};

struct comm {
    uint64_t hash;
    int32_t crank, n_ranks, device;
    uint32_t interface;
    _Atomic uint32_t def;            /* HM_NO_ID while nobody has named it (v1 to v3) */
    _Atomic uint32_t n_calls, n_p2p; /* next call index; kept while the gate is shut */
};
extern struct comm hm_comm[MAX_COMMS];

/* Asks for a line that will be written soon: the tables are walked once around, and the writer has
 * read the events' memory last. On processors without the instruction it does nothing. */
static inline void hm_will_write(const void *at)
{
#ifdef __x86_64__
    __asm__ volatile("prefetchw %0" : : "m"(*(const char *)at));
#else
    __builtin_prefetch(at, 1);
#endif
}

/* ---- comm.c ---- */

/** Index of a context, HM_NO_ID when it is not one of ours (counted). */
uint32_t hm_comm_of(uint64_t ctx);
/** Names a communicator of v1 to v3 by its first operation; n_ranks 0 = unknown. */
void hm_comm_settle(uint32_t comm, const struct hm_nccl_desc *d, int32_t n_ranks);
static inline int hm_comm_is_named(uint32_t comm)
{
    return atomic_load_explicit(&hm_comm[comm].def, memory_order_acquire) != HM_NO_ID;
}
static inline uint32_t hm_comm_def(uint32_t comm)
{
    return comm == HM_NO_ID ? HM_NO_ID
                            : atomic_load_explicit(&hm_comm[comm].def, memory_order_acquire);
}
/** Index of the next collective (p2p = 0) or send/receive (1) of a communicator. */
uint32_t hm_comm_next_call(uint32_t comm, int p2p);

/* ---- words.c ---- */

uint8_t hm_word_func(const char *text);
uint8_t hm_word_dtype(const char *text);
uint8_t hm_word_algo(const char *text);
uint8_t hm_word_proto(const char *text);
/** NCCL may have been loaded anew: pointers seen before mean nothing any more. */
void hm_word_forget(void);

/* ---- slot.c ---- */

struct identity { /* what a child learns from its parent; HM_NO_ID = nothing */
    uint32_t comm, call, launch, group, proxy;
    uint16_t aux; /* function and type of the call, 0 = not told */
    uint8_t flags;
    uint64_t count, user_tag;
};
#define NOBODY ((struct identity){HM_NO_ID, HM_NO_ID, HM_NO_ID, HM_NO_ID, HM_NO_ID, 0, 0, 0, 0})

/** Next serial; from a block of the calling thread's. */
uint64_t hm_slot_serial(void);
/** Takes a slot and writes its handle; the caller fills it in and lets go (hm_op_put). kind 0 =
 *  the identity is kept, no event comes of it. t_ns 0 = read the clock. */
struct hm_op_slot *hm_slot_take(enum hm_nccl_type type, unsigned kind, int64_t t_ns,
                                uint64_t *handle_p);
/** As hm_slot_hold() when somebody works on the slot or it is gone. */
struct hm_op_slot *hm_slot_wait(uint64_t serial);
/** Holds the slot of a serial for some nanoseconds; NULL = gone. */
static inline struct hm_op_slot *hm_slot_hold(uint64_t serial)
{
    if (!hm.view.n_ops)
        return NULL;
    struct hm_op_slot *slot = hm_op_at(&hm.view, serial);
    uint64_t want = serial;
    if (atomic_compare_exchange_strong_explicit(&slot->serial, &want, serial | HM_OP_BUSY,
                                                memory_order_acquire, memory_order_relaxed))
        return slot;
    return (want & ~HM_OP_BUSY) == serial ? hm_slot_wait(serial) : NULL;
}
/** Holds the running operation of a handle. NULL = nothing to do; what is wrong is counted. */
struct hm_op_slot *hm_slot_running(uint64_t handle, enum hm_nccl_type *type_p);
/** The parent's identity. Counted: a handle of another process, one that is too old. */
struct identity hm_slot_identity(uint64_t handle);
/** The operation in a held slot ends at t_ns (0 = its duration stands already); lets go. */
void hm_slot_finish(struct hm_op_slot *slot, int64_t t_ns);
void hm_slot_commit(const struct hm_event *done);

/* ---- launch.c ---- */

static inline int hm_has_root(uint8_t func)
{
    return func == HM_NCCL_BROADCAST || func == HM_NCCL_REDUCE || func == HM_NCCL_GATHER ||
           func == HM_NCCL_SCATTER;
}
/** The launch that an operation announced on this thread belongs to, counting it there; HM_NO_ID
 *  none. *end_ns_p = when it ended if nothing lies between, else 0. */
uint32_t hm_launch_of(uint32_t comm, const struct hm_nccl_desc *d, int64_t *end_ns_p);
/** A number for the next launch. */
uint32_t hm_launch_next(void);
void hm_start_group_api(uint64_t *handle_p, const struct hm_nccl_desc *d);
void hm_start_group(uint64_t *handle_p, const struct hm_nccl_desc *d);
void hm_start_call(uint64_t *handle_p, const struct hm_nccl_desc *d);
void hm_start_launch(uint64_t *handle_p, const struct hm_nccl_desc *d);
void hm_state_group(struct hm_op_slot *slot, int state);
void hm_stop_group(uint64_t launch);
void hm_stop_group_api(struct hm_op_slot *slot);
/** A group of one call ends. 0 = it does not run on this thread. */
int hm_stop_group_of_one(uint64_t serial);
void hm_stop_call(uint64_t serial, struct hm_op_slot *slot);
/** The usual stop of a call or launch on the thread that began it: no look at the slot. 0 = it is
 *  not that. */
int hm_stop_here(uint64_t serial);
void hm_stop_launch(struct hm_op_slot *slot);

/* ---- operation.c ---- */

void hm_start_op(uint64_t *handle_p, const struct hm_nccl_desc *d);
void hm_stop_op(struct hm_op_slot *slot);
void hm_start_ce(uint64_t *handle_p, const struct hm_nccl_desc *d);

/* ---- proxy.c ---- */

void hm_start_proxy_op(uint64_t *handle_p, const struct hm_nccl_desc *d);
void hm_start_proxy_step(uint64_t *handle_p, const struct hm_nccl_desc *d);
void hm_start_proxy_ctrl(uint64_t *handle_p, const struct hm_nccl_desc *d);
void hm_start_kernel_ch(uint64_t *handle_p, const struct hm_nccl_desc *d);
void hm_start_net(uint64_t *handle_p, const struct hm_nccl_desc *d);
void hm_state_proxy(struct hm_op_slot *slot, enum hm_nccl_type type, int state, uint64_t value);
void hm_stop_proxy_step(struct hm_op_slot *slot);

static inline void hm_count_up(_Atomic uint32_t *counter)
{
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

#endif
