/* NVTX: ranges, marks and step boundaries of the program, NCCL and PyTorch.
 *
 * Box: lib/record. Application threads, from the program's own NVTX calls. NVTX is header-only:
 * each module that uses it loads the library named by NVTX_INJECTION64_PATH at its first call and
 * lets it fill in tables of callbacks. Push and pop go through the thread's stack of open
 * operations, start and end through slots, so that what is open is seen by the writer at any time;
 * the event is written at the end. Pushes and pops are followed also while the gate is shut. A
 * program that uses NVTX alone sleeps on, until a range with the name of the step range begins.
 * Source: NVTX 3 documentation; see nvtx.h.
 */
#include "record/nvtx.h"

#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { STEP = 0x80, N_EARLY = 64, NO_TRACKING = -2 };

static _Thread_local uint32_t n_step_open; /* step ranges open on this thread: none is nested */
static _Atomic int64_t next_step;
static _Atomic uint64_t next_span = 1;

void hm_nvtx_say_ascii(struct hm_nvtx_said *said, const char *text)
{
    said->text = text;
    said->len = text ? strnlen(text, 4097) : 0;
    said->registered = NULL;
    said->more = NULL;
}

void hm_nvtx_say_wide(struct hm_nvtx_said *said, const wchar_t *text)
{
    said->text = text ? said->narrow : NULL;
    said->len = text ? hm_nvtx_narrow(text, said->narrow) : 0;
    said->registered = NULL;
    said->more = NULL;
}

void hm_nvtx_say_attributes(struct hm_nvtx_said *said, const struct hm_nvtx_attributes *a)
{
    hm_nvtx_say_ascii(said, NULL);
    if (!a || a->size < sizeof(*a))
        return;
    said->more = a;
    if (a->message_type == HM_NVTX_WIDE)
        hm_nvtx_say_wide(said, a->message);
    else if (a->message_type == HM_NVTX_ASCII)
        hm_nvtx_say_ascii(said, a->message);
    else if (a->message_type == HM_NVTX_REGISTERED)
        said->registered = a->message;
    said->more = a;
}

static uint32_t domain_of(const void *handle)
{
    return handle ? hm_nvtx_handle_id(handle) : HM_NO_ID;
}

static uint32_t name_of(const struct hm_nvtx_said *said, uint32_t domain)
{
    if (said->registered)
        return hm_nvtx_handle_id(said->registered);
    return said->text ? hm_nvtx_name(domain, said->text, said->len) : HM_NO_ID;
}

/* The payload in 64 bits; pointers to structures of extended payloads are nobody's business. */
static uint64_t payload_of(const struct hm_nvtx_attributes *a, unsigned *type_p)
{
    *type_p = HM_PAYLOAD_NONE;
    if (!a || a->payload_type <= HM_PAYLOAD_NONE || a->payload_type >= HM_N_PAYLOADS)
        return 0;
    *type_p = (unsigned)a->payload_type;
    if (*type_p == HM_PAYLOAD_I32)
        return (uint64_t)(int64_t)(int32_t)(uint32_t)a->payload;
    return *type_p == HM_PAYLOAD_U32 || *type_p == HM_PAYLOAD_F32 ? (uint32_t)a->payload
                                                                  : a->payload;
}

static struct hm_open_range open_of(const struct hm_nvtx_said *said, uint32_t domain,
                                    unsigned *type_p)
{
    const struct hm_nvtx_attributes *a = said->more;
    return (struct hm_open_range){.payload = payload_of(a, type_p),
                                  .name = name_of(said, domain),
                                  .domain = domain,
                                  .category = a && a->category ? a->category : HM_NO_ID,
                                  .color = a && a->color_type == 1 ? a->color : 0};
}

/* 1 = a step begins here; its number from the name, the payload, or one more than the last. */
static int step_begins(const struct hm_nvtx_said *said, int64_t *step_p)
{
    unsigned type;
    size_t len = said->len;
    const char *text = said->registered ? hm_nvtx_handle_text(said->registered, &len) : said->text;
    if (!text || n_step_open || !hm_nvtx_is_step(text, len, step_p))
        return 0;
    uint64_t payload = payload_of(said->more, &type);
    int whole = type == HM_PAYLOAD_U64 || type == HM_PAYLOAD_I64 || type == HM_PAYLOAD_U32 ||
                type == HM_PAYLOAD_I32;
    if (*step_p < 0 && whole && payload <= INT64_MAX)
        *step_p = (int64_t)payload;
    if (*step_p < 0)
        *step_p = atomic_load_explicit(&next_step, memory_order_relaxed);
    atomic_store_explicit(&next_step, *step_p + 1, memory_order_relaxed);
    return hm_awake() || hm_wake(HM_CAUSE_NVTX);
}

int hm_nvtx_push(const void *domain_handle, const struct hm_nvtx_said *said)
{
    int64_t step;
    unsigned type;
    int is_step = step_begins(said, &step);
    if (!hm_awake())
        return NO_TRACKING;
    uint32_t domain = domain_of(domain_handle);
    struct hm_open_range open = open_of(said, domain, &type);
    if (is_step) {
        hm_step_boundary(step, open.name, HM_STEP_FROM_RANGE);
        n_step_open++;
    }
    open.t_ns = hm_now();
    return hm_open_push(&open, HM_OWNER_NVTX, type | (is_step ? STEP : 0));
}

static void step_ends(uint32_t name)
{
    hm_step_range_end(name);
    if (n_step_open)
        n_step_open--;
}

int hm_nvtx_pop(const void *domain_handle)
{
    struct hm_open_range open;
    unsigned type;
    if (!hm_awake())
        return NO_TRACKING;
    uint32_t domain = domain_of(domain_handle);
    int depth = hm_open_pop(HM_OWNER_NVTX, domain, &open, &type);
    if (depth < 0)
        return NO_TRACKING;
    struct hm_event *ev = hm_on(HM_EV_RANGE) ? hm_begin(HM_EV_RANGE) : NULL;
    if (ev) {
        ev->t_ns = open.t_ns;
        ev->dur_ns = hm_now() - open.t_ns;
        ev->u.range = (struct hm_ev_range){.payload = open.payload,
                                           .name = open.name,
                                           .domain = open.domain,
                                           .category = open.category,
                                           .color = open.color,
                                           .depth = (uint16_t)depth,
                                           .payload_type = (uint8_t)(type & ~(unsigned)STEP)};
        hm_commit();
    }
    if (type & STEP)
        step_ends(open.name);
    return depth;
}

void hm_nvtx_mark(const void *domain_handle, const struct hm_nvtx_said *said)
{
    unsigned type;
    if (!hm_on(HM_EV_MARK))
        return;
    uint32_t domain = domain_of(domain_handle);
    struct hm_open_range open = open_of(said, domain, &type);
    struct hm_event *ev = hm_begin(HM_EV_MARK);
    if (!ev)
        return;
    ev->t_ns = hm_now();
    ev->u.range = (struct hm_ev_range){.payload = open.payload,
                                       .name = open.name,
                                       .domain = open.domain,
                                       .category = open.category,
                                       .color = open.color,
                                       .payload_type = (uint8_t)type};
    hm_commit();
}

/* A span pushed out by younger ones is kept as one that never ended. */
static void keep_evicted(struct hm_event *evicted)
{
    struct hm_event *ev = evicted->kind == HM_EV_RANGE ? hm_begin(HM_EV_RANGE) : NULL;
    if (!ev)
        return;
    *ev = *evicted;
    ev->dur_ns = HM_DUR_OPEN;
    ev->flags |= HM_EVF_EVICTED;
    hm_commit();
}

uint64_t hm_nvtx_start(const void *domain_handle, const struct hm_nvtx_said *said)
{
    int64_t step;
    unsigned type;
    int is_step = step_begins(said, &step);
    if (!hm_on(HM_EV_RANGE) && !(is_step && hm_awake()))
        return 0;
    uint32_t domain = domain_of(domain_handle);
    struct hm_open_range open = open_of(said, domain, &type);
    if (is_step)
        hm_step_boundary(step, open.name, HM_STEP_FROM_RANGE);
    uint64_t serial = atomic_fetch_add_explicit(&next_span, 1, memory_order_relaxed);
    struct hm_event evicted;
    struct hm_op_slot *slot = hm_span_take(&hm.view, serial, &evicted);
    if (!slot)
        return 0;
    slot->ev = (struct hm_event){.t_ns = hm_now(), .kind = HM_EV_RANGE, .track = hm_track()};
    slot->ev.u.range = (struct hm_ev_range){.payload = open.payload,
                                            .name = open.name,
                                            .domain = open.domain,
                                            .category = open.category,
                                            .color = open.color,
                                            .payload_type = (uint8_t)type,
                                            .style = HM_RANGE_STARTED};
    slot->call = (uint32_t)is_step;
    hm_op_put(slot, 0);
    keep_evicted(&evicted);
    return serial;
}

void hm_nvtx_end(uint64_t serial)
{
    if (!serial || serial & HM_OP_BUSY || !hm_awake())
        return;
    struct hm_op_slot *slot = hm_span_hold(&hm.view, serial);
    if (!slot)
        return;
    struct hm_event begun = slot->ev;
    int is_step = slot->call == 1;
    hm_op_put(slot, 1);
    struct hm_event *ev = hm_on(HM_EV_RANGE) ? hm_begin(HM_EV_RANGE) : NULL;
    if (ev) {
        *ev = begun;
        ev->dur_ns = hm_now() - begun.t_ns;
        hm_commit();
    }
    if (is_step)
        hm_step_range_end(begun.u.range.name);
}

/* --- names of categories and threads --- */

static struct {
    const void *domain;
    void *name;
    uint32_t category;
} early[N_EARLY]; /* categories named while we slept */
static _Atomic uint32_t n_early;

static void put_category(const void *domain, uint32_t category, uint32_t name)
{
    struct hm_event *ev = hm_begin(HM_EV_MARK);
    if (!ev)
        return;
    ev->t_ns = hm_now();
    ev->aux = HM_MARK_CATEGORY;
    ev->u.range =
        (struct hm_ev_range){.name = name, .domain = domain_of(domain), .category = category};
    hm_commit();
}

void hm_nvtx_name_category(const void *domain, uint32_t category, const struct hm_nvtx_said *said)
{
    if (!said->text)
        return;
    if (hm_awake()) {
        put_category(domain, category, hm_name(said->text, said->len));
        return;
    }
    uint32_t i = atomic_fetch_add(&n_early, 1);
    if (i >= N_EARLY)
        return;
    early[i].domain = domain;
    early[i].category = category;
    __atomic_store_n(&early[i].name, hm_nvtx_handle(said->text, said->len), __ATOMIC_RELEASE);
}

void hm_nvtx_awake(void)
{
    for (uint32_t i = 0; i < atomic_load(&n_early) && i < N_EARLY; i++) {
        void *name = __atomic_load_n(&early[i].name, __ATOMIC_ACQUIRE);
        if (name)
            put_category(early[i].domain, early[i].category, hm_nvtx_handle_id(name));
    }
}

void hm_nvtx_name_thread(uint32_t tid, const struct hm_nvtx_said *said)
{
    if (said->text && tid == (uint32_t)syscall(SYS_gettid))
        hm_track_name(hm_nvtx_handle(said->text, said->len));
}
