/* Starting CUPTI once: subscriber, attributes, clock, buffers, kinds, thread.
 *
 * Box: lib/record. Called by InitializeInjection, by the plugin's init and at waking; whoever comes
 * first does it. On the first refusal the source is off for good, because each further call would
 * cost 20 to 50 us for nothing. cuptiFinalize is never called, nothing is registered twice.
 * Source: CUPTI guide and release notes, 11.0 to 13.4.
 */
#include "record/cupti_source.h"

#include <time.h>

enum { IDLE, STARTING, RUNNING, OFF };
enum { ATTR_ZEROED_BUFFERS = 5, ATTR_PER_THREAD = 9, THREAD_ID_SYSTEM = 1 };

static _Atomic uint32_t state = IDLE;
static struct hm_cupti_lib lib;
static struct hm_cupti_reader reader;
static _Atomic uint32_t n_push_failed;

/* Calls that start GPU work, by CUPTI's callback ids: few records, and the join to NCCL. */
static const uint16_t driver_calls[] = {307, 442, 477, 478, 514, 515, 652, 653,
                                        776, 777, 796, 797, 462, 463, 667, 668};
/* The same in the runtime, and the calls in which a host thread waits for the GPU. */
static const uint16_t runtime_calls[] = {211, 214, 269, 270, 311, 312, 430, 431, 482, 483,
                                         505, 506, 509, 510, 131, 137, 165, 239, 240};

static const char *rc_text(int rc)
{
    const char *text = NULL;
    if (lib.get_result_string)
        lib.get_result_string(rc, &text);
    return text ? text : "unknown result";
}

/* External ids: pushed by the plugin around a launch, on the launching thread. */
static void push(uint64_t external)
{
    if (atomic_load_explicit(&n_push_failed, memory_order_relaxed) >= 3)
        return;
    if (lib.push(HM_CUPTI_CUSTOM2, external))
        atomic_fetch_add(&n_push_failed, 1);
}

static void pop(uint64_t external)
{
    uint64_t last = 0;
    if (atomic_load_explicit(&n_push_failed, memory_order_relaxed) >= 3)
        return;
    /* a launch that never stopped may have left its id above ours */
    for (int i = 0; i < 64; i++)
        if (lib.pop(HM_CUPTI_CUSTOM2, &last) || last == external)
            return;
}

static void flush(int64_t deadline_ns, int forced)
{
    if (!hm_cupti_thread_flush(deadline_ns, forced) && forced)
        hm_note(HM_E_TIMEOUT, "CUPTI did not hand its last records over in time; kernels of the "
                              "last moments are missing");
}

static const struct hm_cupti_ops ops = {push, pop, flush, hm_cupti_hold};
static const struct hm_cupti_ops ops_no_external = {NULL, NULL, flush, hm_cupti_hold};

static void no_callback(void *user, int domain, uint32_t id, const void *data)
{
    (void)user;
    (void)domain;
    (void)id;
    (void)data;
}

static uint64_t own_clock(void)
{
    return (uint64_t)hm_now();
}

/* Why nothing comes of it, in words the user can act on. No driver at all is no news. */
static void say(int rc, const char *what, const char *owner)
{
    if (rc == HM_CUPTI_FOREIGN)
        hm_note(HM_E_FOREIGN,
                "another tool uses CUPTI (%s); kernels are not recorded, NCCL and host data are; "
                "run without it to see kernels",
                owner && *owner ? owner : "name unknown");
    else if (rc == HM_CUPTI_UNKNOWN)
        hm_say(HM_SAY_DEBUG, "CUPTI %u: %s: no usable driver; no kernels", lib.version, what);
    else if (rc == HM_CUPTI_NOT_INITIALIZED)
        hm_note(HM_E_MISSING,
                "CUPTI %u is newer than the GPU driver; kernels are not recorded; set "
                "HINDMOST_CUPTI to the libcupti of an older toolkit",
                lib.version);
    else
        hm_note(HM_E_MISSING, "CUPTI %u: %s failed: %d %s; kernels are not recorded", lib.version,
                what, rc, rc_text(rc));
}

static int subscribe(void **subscriber_p, char old_name[96])
{
    struct hm_cupti_subscriber_params params = {
        .size = sizeof(params), .name = "hindmost", .old_name = old_name, .old_size = 96};
    void *callback = NULL;
    void (*none)(void *, int, uint32_t, const void *) = no_callback;
    *(void (**)(void *, int, uint32_t, const void *)) & callback = none;
    if (lib.subscribe_2)
        return lib.subscribe_2(subscriber_p, callback, NULL, &params);
    return lib.subscribe ? lib.subscribe(subscriber_p, callback, NULL) : 0;
}

static void set_attribute(int which, uint8_t value, int *worked_p)
{
    size_t size = sizeof(value);
    int rc = lib.set_attribute ? lib.set_attribute(which, &size, &value) : HM_CUPTI_UNKNOWN;
    if (worked_p)
        *worked_p = !rc;
}

static uint64_t enabled; /* kinds; whoever switches them, one at a time */

/* Enables a kind whose record we can read. Returns CUPTI's code; a kind that cannot be had is said
 * and passed over where `needed` is 0. */
static int enable(unsigned kind, const char *name, int needed)
{
    if (lib.size[kind] < hm_cupti_need(kind)) {
        hm_note(HM_E_VERSION, "CUPTI %u: %s records of %u bytes cannot be read; left out",
                lib.version, name, lib.size[kind]);
        return needed ? HM_CUPTI_UNKNOWN : HM_CUPTI_OK;
    }
    int rc = lib.enable((int)kind);
    if (!rc)
        enabled |= UINT64_C(1) << kind;
    if (rc && !needed) {
        hm_note(HM_E_MISSING, "CUPTI %u: no %s records: %d %s", lib.version, name, rc, rc_text(rc));
        return HM_CUPTI_OK;
    }
    return rc;
}

static int enable_kinds(const char **what_p)
{
    *what_p = "recording kernels";
    int rc = enable(HM_CUPTI_KERNEL, "kernel", 1);
    if (rc)
        return rc;
    enable(HM_CUPTI_DEVICE, "device", 0);
    enable(HM_CUPTI_MEMCPY, "memcpy", 0);
    enable(HM_CUPTI_MEMCPY2, "peer copy", 0);
    enable(HM_CUPTI_MEMSET, "memset", 0);
    enable(HM_CUPTI_EXTERNAL, "external correlation", 0);
    enable(HM_CUPTI_OVERHEAD, "overhead", 0);
    if (hm.config.sync) {
        enable(HM_CUPTI_SYNC, "synchronisation", 0);
        if (lib.enable_all_sync) /* queries of unfinished work would be most of the records */
            lib.enable_all_sync(0);
    }
    unsigned n = 0;
    for (size_t i = 0; i < sizeof(driver_calls) / sizeof(driver_calls[0]); i++)
        n += lib.enable_driver && !lib.enable_driver(driver_calls[i], 1);
    for (size_t i = 0; i < sizeof(runtime_calls) / sizeof(runtime_calls[0]); i++)
        n += lib.enable_runtime && !lib.enable_runtime(runtime_calls[i], 1);
    if (!n)
        hm_note(HM_E_MISSING,
                "CUPTI %u records no launch calls; NCCL operations are joined to "
                "kernels by order",
                lib.version);
    return HM_CUPTI_OK;
}

static void disable_kinds(void)
{
    for (int kind = 0; kind < HM_CUPTI_N_KINDS; kind++)
        if (enabled >> kind & 1)
            lib.disable(kind);
    enabled = 0;
    for (size_t i = 0; i < sizeof(driver_calls) / sizeof(driver_calls[0]); i++)
        if (lib.enable_driver)
            lib.enable_driver(driver_calls[i], 0);
    for (size_t i = 0; i < sizeof(runtime_calls) / sizeof(runtime_calls[0]); i++)
        if (lib.enable_runtime)
            lib.enable_runtime(runtime_calls[i], 0);
}

enum { LET_GO, HELD, SWITCHING, REFUSED };
static _Atomic uint32_t held = LET_GO, n_holds;

int hm_cupti_held(void)
{
    return atomic_load_explicit(&held, memory_order_relaxed) == HELD;
}

uint32_t hm_cupti_n_holds(void)
{
    return atomic_load_explicit(&n_holds, memory_order_relaxed);
}

int hm_cupti_wanted(void)
{
    static const uint64_t gpu = 0x1fe; /* kinds of the GPU: HM_EV_KERNEL to HM_EV_GRAPH */
    const _Atomic uint64_t *gate = atomic_load_explicit(&hm.gate, memory_order_acquire);
    return (atomic_load_explicit(gate, memory_order_relaxed) & gpu) != 0;
}

void hm_cupti_hold(int on)
{
    const char *what = "";
    uint32_t was = on ? LET_GO : HELD;
    if ((!on && !lib.disable) || !atomic_compare_exchange_strong(&held, &was, SWITCHING))
        return; /* so it is, or another thread is about it */
    int rc = 0;
    if (on) {
        atomic_fetch_add(&n_holds, 1);
        rc = enable_kinds(&what);
    } else {
        disable_kinds();
    }
    if (rc)
        say(rc, what, "");
    atomic_store(&held, rc ? REFUSED : on ? HELD : LET_GO);
}

static int64_t now_of(uint32_t clock)
{
    struct timespec ts;
    if (clock == HM_CLOCK_RAW)
        return hm_now();
    clock_gettime(CLOCK_REALTIME, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static int start(void)
{
    void *subscriber = NULL;
    char owner[96] = "";
    const char *what = "subscribing";
    int zeroed = 0, rc = subscribe(&subscriber, owner);
    if (rc) {
        owner[sizeof(owner) - 1] = 0;
        say(rc, what, owner);
        return 0;
    }
    set_attribute(ATTR_ZEROED_BUFFERS, 1, &zeroed);
    set_attribute(ATTR_PER_THREAD, 1, NULL);
    if (lib.set_thread_id_type)
        lib.set_thread_id_type(THREAD_ID_SYSTEM);
    reader.clock = HM_CLOCK_REAL;
    if (hm_cupti_clock_ours(lib.version) && lib.register_timestamp &&
        !lib.register_timestamp(own_clock))
        reader.clock = HM_CLOCK_RAW;
    reader.version = lib.version;
    reader.begin_ns = now_of(reader.clock);
    reader.api_name = lib.get_callback_name;
    for (unsigned i = 0; i < HM_CUPTI_N_KINDS; i++)
        reader.size[i] = lib.size[i];
    what = "memory for buffers";
    rc = hm_cupti_buffers_init(lib.version >= 27, zeroed) ? HM_CUPTI_UNKNOWN : 0;
    if (!rc) {
        what = "registering buffers";
        rc = lib.register_callbacks(hm_cupti_buffer_request, hm_cupti_buffer_complete);
    }
    if (!rc && hm_cupti_wanted()) { /* else when the first window opens */
        rc = enable_kinds(&what);
        atomic_store(&held, HELD);
    }
    if (!rc && hm_cupti_thread_start(&lib, &reader)) {
        hm_note(HM_E_SYS, "no thread for CUPTI's records; kernels are not recorded");
        return 0;
    }
    if (rc) {
        say(rc, what, owner);
        if (lib.unsubscribe && subscriber) /* another tool may want it */
            lib.unsubscribe(subscriber);
        return 0;
    }
    atomic_store_explicit(&hm.cupti, lib.push && lib.pop ? &ops : &ops_no_external,
                          memory_order_release);
    return 1;
}

int hm_cupti_start(void)
{
    uint32_t was = atomic_load_explicit(&state, memory_order_acquire);
    if (was != IDLE)
        return was == RUNNING;
    if (atomic_load(&hm.life) != HM_AWAKE || atomic_load(&hm.in_child))
        return 0;
    if (!atomic_compare_exchange_strong(&state, &was, STARTING))
        return was == RUNNING;
    hm_status_t s = hm.config.kernels ? hm_cupti_load(hm.config.cupti, &lib) : HM_E_MISSING;
    int running = !s && start();
    atomic_store_explicit(&state,
                          running         ? RUNNING
                          : s == HM_AGAIN ? IDLE
                                          : OFF,
                          memory_order_release);
    return running;
}
