/* The CUPTI source: what its files share. GPU work as CUPTI sees it, reached by dlopen alone.
 *
 * Box: lib/record. load -> start -> (buffer: CUPTI's threads) -> (thread + parse: hm-cupti).
 * No header of CUPTI is included: records are read by kind, learnt size and fixed offset, so that
 * one build reads every release. Source: cupti_activity.h of CUDA 11.0 to 13.0 (layouts grow at
 * the end only), CUPTI user's guide.
 */
#ifndef HM_RECORD_CUPTI_SOURCE_H
#define HM_RECORD_CUPTI_SOURCE_H

#include "record/state.h"

enum hm_cupti_kind {
    HM_CUPTI_MEMCPY = 1,
    HM_CUPTI_MEMSET = 2,
    HM_CUPTI_DRIVER = 4,
    HM_CUPTI_RUNTIME = 5,
    HM_CUPTI_DEVICE = 8,
    HM_CUPTI_KERNEL = 10,
    HM_CUPTI_OVERHEAD = 17,
    HM_CUPTI_MEMCPY2 = 22,
    HM_CUPTI_SYNC = 38,
    HM_CUPTI_EXTERNAL = 39,
    HM_CUPTI_N_KINDS = 64
};
enum { HM_CUPTI_CUSTOM2 = 5 }; /* kind of external id; others use CUSTOM0 and CUSTOM1 */
enum hm_cupti_rc {
    HM_CUPTI_OK = 0,
    HM_CUPTI_NOT_INITIALIZED = 15,
    HM_CUPTI_QUEUE_EMPTY = 18,
    HM_CUPTI_FOREIGN = 39,
    HM_CUPTI_UNKNOWN = 999
};

typedef void (*hm_cupti_request_t)(uint8_t **buffer, size_t *size, size_t *max_records);
typedef void (*hm_cupti_complete_t)(void *context, uint32_t stream, uint8_t *buffer, size_t size,
                                    size_t valid);
struct hm_cupti_subscriber_params {
    size_t size;
    const char *name;
    char *old_name;
    size_t old_size;
};

struct hm_cupti_lib { /* symbols of the loaded library, NULL = it has none */
    void *handle;
    uint32_t version;
    uint16_t size[HM_CUPTI_N_KINDS]; /* learnt record sizes, 0 = unknown kind */
    int (*get_version)(uint32_t *);
    int (*get_result_string)(int, const char **);
    int (*get_callback_name)(int, uint32_t, const char **);
    int (*register_callbacks)(hm_cupti_request_t, hm_cupti_complete_t);
    int (*register_timestamp)(uint64_t (*)(void));
    int (*enable)(int), (*disable)(int);
    int (*enable_driver)(uint32_t, uint8_t);
    int (*enable_runtime)(uint32_t, uint8_t);
    int (*set_attribute)(int, size_t *, void *);
    int (*set_thread_id_type)(int);
    int (*flush_all)(uint32_t);
    int (*next_record)(uint8_t *, size_t, void **);
    int (*n_dropped)(void *, uint32_t, size_t *);
    int (*push)(int, uint64_t);
    int (*pop)(int, uint64_t *);
    int (*subscribe)(void **, void *, void *);
    int (*subscribe_2)(void **, void *, void *, struct hm_cupti_subscriber_params *);
    int (*unsubscribe)(void *);
    int (*enable_all_sync)(uint8_t);
};
/** Finds and opens CUPTI: one that is in the process already, `path` when not empty, the usual
 *  names. HM_OK; HM_AGAIN = no CUDA in this process (yet), in silence; HM_E_MISSING = not found or
 *  unusable, said once. */
hm_status_t hm_cupti_load(const char *path, struct hm_cupti_lib *lib_p);
/** Learns record sizes by letting the library step over made-up records. Pure but for the call. */
void hm_cupti_learn(int (*next_record)(uint8_t *, size_t, void **),
                    uint16_t size_p[HM_CUPTI_N_KINDS]);
/** May the clock be replaced by our own? Releases 12.6 to 13.0 lose kernel times when it is. */
int hm_cupti_clock_ours(uint32_t version);
/** Bytes of a kind's record that the parser must be able to read; 0 = a kind it does not know. */
uint16_t hm_cupti_need(unsigned kind);

/** Turns records into events. One reader for one thread; zeroed before the first use, then the
 *  first block set. */
struct hm_cupti_reader {
    uint16_t size[HM_CUPTI_N_KINDS];
    uint32_t version;
    uint32_t clock;           /* HM_CLOCK_REAL or HM_CLOCK_RAW */
    int64_t begin_ns, now_ns; /* session, in that clock; now_ns renewed for each call */
    int64_t to_raw_ns;        /* add to a time of that clock to have hm_now()'s */
    int (*api_name)(int, uint32_t, const char **); /* cuptiGetCallbackName or NULL */

    uint64_t n_kernels, n_records, n_external;
    uint64_t external; /* waits for the API record that follows it */
    uint32_t external_correlation, has_external;
    uint32_t api_correlation, api_domain;
    uint64_t api_external;
    int64_t good_ns; /* last believable time */
    struct {
        uint32_t device, context, stream, track, used;
    } stream[64];
    struct {
        uint32_t tid, track;
    } thread[64];
    uint32_t name[2][1024]; /* 1 + string id of an API function */
    struct {
        const char *name, *text; /* CUPTI's pointer, and the same bytes as they were interned */
        struct hm_def_kernel def;
        uint32_t len, id;
    } kernel[256];
    struct hm_gate_view gate;
    /* Was the call made inside a window? Its kernel may run when that is over. Index: low half of
     * the correlation; 0 = not seen, else upper half * 4 + 2 + answer. */
    uint32_t call[1 << 16];
    uint32_t first_call, n_holds; /* first call since CUPTI was last switched on; 0 = none yet */
};
/** Parses one buffer; returns the number of records read. Bytes behind a record that cannot be
 *  stepped over are given up and counted. Thread: the reader's. */
uint32_t hm_cupti_parse(struct hm_cupti_reader *reader, const uint8_t *buffer, size_t size);

/** Only the calls of a buffer, for the question which window they were made in: before the records
 *  of what they launched are parsed, which may come in an older buffer. */
void hm_cupti_parse_calls(struct hm_cupti_reader *reader, const uint8_t *buffer, size_t size);

/* Buffers: handed to CUPTI on the application's launch path, taken back by our thread. */
enum { HM_CUPTI_BUFFER = 1 << 20, HM_CUPTI_MAX_BUFFERS = 64, HM_CUPTI_WARM_BUFFERS = 8 };
/** Reserves address space. `may_refuse`: CUPTI copes with a NULL buffer. `clear`: we hand out
 *  zeroed buffers. */
hm_status_t hm_cupti_buffers_init(int may_refuse, int clear);
void hm_cupti_buffer_request(uint8_t **buffer, size_t *size, size_t *max_records);
void hm_cupti_buffer_complete(void *context, uint32_t stream, uint8_t *buffer, size_t size,
                              size_t valid);
/** Touches the first buffers so that the launch path need not. Thread: hm-cupti. */
void hm_cupti_buffers_warm(void);
/** Oldest completed buffer, NULL = none; give it back with hm_cupti_buffer_recycle(). */
const uint8_t *hm_cupti_buffer_take(size_t *valid_p);
void hm_cupti_buffer_recycle(const uint8_t *buffer);
/** Records that went into the discard buffer since the last call (old CUPTI only), in bytes. */
uint64_t hm_cupti_buffers_discarded(void);

/** Starts the thread; lib and reader must stay. HM_OK or HM_E_SYS. */
hm_status_t hm_cupti_thread_start(const struct hm_cupti_lib *lib, struct hm_cupti_reader *reader);
/** Wakes the thread: buffers are running short. Thread: any, one system call at most. */
void hm_cupti_thread_wake(void);
/** Kinds on, when a window opens (on = 1, by any thread), or off (our thread alone). Only what was
 *  asked for at the start. */
void hm_cupti_hold(int on);
int hm_cupti_held(void);
uint32_t hm_cupti_n_holds(void);
/** Does the gate ask for anything of CUPTI now? */
int hm_cupti_wanted(void);
/** Asks the thread for a flush and waits until the deadline (ns of hm_now()). 1 = done. */
int hm_cupti_thread_flush(int64_t deadline_ns, int forced);

#endif
