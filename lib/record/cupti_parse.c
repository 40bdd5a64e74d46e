/* CUPTI's records -> definitions and events.
 *
 * Box: lib/record. Thread: hm-cupti, or a test. Pure but for the cursor and the definitions.
 * Records are stepped over by learnt size and read at fixed offsets; fields beyond a release's
 * record are left zero. A buffer may hold anything: no offset is used before it is known to lie
 * inside. Times are believed only inside the session; others are kept, flagged and counted.
 * Source: cupti_activity.h, CUDA 11.0 to 13.0.
 */
#include "record/cupti_source.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SECOND INT64_C(1000000000)

static uint16_t get16(const uint8_t *at)
{
    uint16_t v;
    memcpy(&v, at, sizeof(v));
    return v;
}
static uint32_t get32(const uint8_t *at)
{
    uint32_t v;
    memcpy(&v, at, sizeof(v));
    return v;
}
static uint64_t get64(const uint8_t *at)
{
    uint64_t v;
    memcpy(&v, at, sizeof(v));
    return v;
}

/* A field that younger releases have: zero where the record ends before it. */
static uint32_t may32(const uint8_t *rec, uint16_t size, unsigned at)
{
    return size >= at + 4u ? get32(rec + at) : 0;
}
static uint64_t may64(const uint8_t *rec, uint16_t size, unsigned at)
{
    return size >= at + 8u ? get64(rec + at) : 0;
}

uint16_t hm_cupti_need(unsigned kind)
{
    static const uint16_t need[HM_CUPTI_N_KINDS] = {
        [HM_CUPTI_KERNEL] = 120,  [HM_CUPTI_MEMCPY] = 64,   [HM_CUPTI_MEMCPY2] = 72,
        [HM_CUPTI_MEMSET] = 64,   [HM_CUPTI_DRIVER] = 40,   [HM_CUPTI_RUNTIME] = 40,
        [HM_CUPTI_EXTERNAL] = 24, [HM_CUPTI_OVERHEAD] = 40, [HM_CUPTI_SYNC] = 40,
        [HM_CUPTI_DEVICE] = 144};
    return kind < HM_CUPTI_N_KINDS ? need[kind] : 0;
}

/* ---- tracks and names, cached because most records repeat them ---- */

static uint32_t stream_track(struct hm_cupti_reader *r, uint32_t device, uint32_t context,
                             uint32_t stream)
{
    unsigned i = (stream * 2654435761u ^ context * 40503u ^ device * 97u) >> 8 & 63;
    if (r->stream[i].used && r->stream[i].device == device && r->stream[i].context == context &&
        r->stream[i].stream == stream)
        return r->stream[i].track;
    struct hm_def_track def = {.type = HM_TRACK_STREAM,
                               .name = HM_NO_ID,
                               .device = device,
                               .context = context,
                               .stream = stream};
    uint32_t track = hm_define(HM_DEF_TRACK, &def, sizeof(def));
    r->stream[i].device = device;
    r->stream[i].context = context;
    r->stream[i].stream = stream;
    r->stream[i].track = track;
    r->stream[i].used = track != HM_NO_ID;
    return track;
}

/* The track under which that thread itself records, else one of the same form. */
static uint32_t thread_track(struct hm_cupti_reader *r, uint32_t tid)
{
    unsigned i = tid & 63;
    if (tid && r->thread[i].tid == tid)
        return r->thread[i].track;
    uint32_t track = HM_NO_ID;
    for (uint32_t k = 0; k < hm.view.n_threads; k++) {
        const struct hm_thread *row = &hm.view.thread[k];
        if (atomic_load_explicit(&row->tid, memory_order_acquire) == tid) {
            const void *def;
            uint32_t len;
            /* the row may be older than its track */
            if (!hm_defs_get(&hm.view.defs, HM_DEF_TRACK, row->track, &def, &len) &&
                ((const struct hm_def_track *)def)->tid == tid)
                track = row->track;
            break;
        }
    }
    char path[64], name[17] = {0};
    if (track == HM_NO_ID) {
        snprintf(path, sizeof(path), "/proc/self/task/%u/comm", tid);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd >= 0 ? read(fd, name, sizeof(name) - 1) : 0;
        if (fd >= 0)
            close(fd);
        if (n > 0 && name[n - 1] == '\n')
            n--;
        struct hm_def_track def = {.type = HM_TRACK_THREAD,
                                   .name = hm_name(name, n > 0 ? (size_t)n : 0),
                                   .device = HM_NO_ID,
                                   .context = HM_NO_ID,
                                   .stream = HM_NO_ID,
                                   .tid = tid};
        track = hm_define(HM_DEF_TRACK, &def, sizeof(def));
    }
    r->thread[i].tid = track == HM_NO_ID ? 0 : tid;
    r->thread[i].track = track;
    return track;
}

static uint32_t api_name(struct hm_cupti_reader *r, uint32_t domain, uint32_t cbid)
{
    char text[48];
    const char *name = NULL;
    uint32_t *cached = cbid < 1024 ? &r->name[domain == HM_API_RUNTIME][cbid] : NULL;
    if (cached && *cached)
        return *cached - 1;
    if (!r->api_name || r->api_name((int)domain, cbid, &name) || !name) {
        snprintf(text, sizeof(text), "%s call %u", domain == HM_API_RUNTIME ? "runtime" : "driver",
                 cbid);
        name = text;
    }
    uint32_t id = hm_name(name, strlen(name));
    if (cached && id != HM_NO_ID)
        *cached = id + 1;
    return id;
}

/* ---- times ---- */

enum { ENDED, MAY_RUN };
/* Fills t and dur. A record without an end was still running when a forced flush gave it out. */
static void set_times(struct hm_cupti_reader *r, struct hm_event *ev, uint64_t start, uint64_t end,
                      int may_run)
{
    int64_t t0 = (int64_t)start, t1 = (int64_t)end;
    ev->flags = (uint8_t)r->clock;
    int inside = t0 >= r->begin_ns - SECOND && t0 <= r->now_ns + SECOND;
    if (inside && t1 >= t0 && t1 <= r->now_ns + SECOND) {
        ev->t_ns = t0;
        ev->dur_ns = t1 - t0;
        r->good_ns = t0;
    } else if (inside && !end && may_run == MAY_RUN) {
        ev->t_ns = t0;
        ev->dur_ns = HM_DUR_OPEN;
    } else {
        ev->flags |= HM_EVF_BAD_TIME; /* placed beside its neighbours, so that it is found */
        ev->t_ns = inside ? t0 : r->good_ns ? r->good_ns : r->begin_ns;
        ev->dur_ns = 0;
        hm_lose(HM_LOST_CUPTI_BAD_TIME, 1);
    }
}

static uint16_t narrow16(uint32_t v)
{
    return v < UINT16_MAX ? (uint16_t)v : UINT16_MAX;
}
static uint8_t narrow8(uint32_t v)
{
    return v < UINT8_MAX ? (uint8_t)v : UINT8_MAX;
}

/* ---- windows ---- */

/* Inside a window at that time of the record's clock? */
static int on_at(struct hm_cupti_reader *r, unsigned kind, uint64_t t)
{
    return hm_on_at(&r->gate, kind, (int64_t)t + r->to_raw_ns);
}

/* Work of the GPU belongs to the window in which it was launched; where the call is not known
 * (yet), to the one in which it began. */
static int work_on(struct hm_cupti_reader *r, unsigned kind, uint32_t correlation, uint64_t start)
{
    uint32_t call = r->call[correlation & 0xffff];
    if (call >> 2 == correlation >> 16 && call && correlation)
        return (int)(call & 1);
    if (r->first_call && correlation && (int32_t)(correlation - r->first_call) < 0)
        return 0; /* launched before CUPTI was switched on for the window */
    return on_at(r, kind, start);
}

static void know_call(struct hm_cupti_reader *r, const uint8_t *rec)
{
    uint32_t correlation = get32(rec + 32);
    int in = on_at(r, HM_EV_API, get64(rec + 8));
    if (!r->first_call || (int32_t)(correlation - r->first_call) < 0)
        r->first_call = correlation;
    r->call[correlation & 0xffff] = (correlation >> 16) * 4 + 2 + (uint32_t)in;
}

/* ---- kinds ---- */

/* The definition of a kernel; def's name is filled in here. Most records repeat one, so that
 * looking it up by CUPTI's pointer saves hashing the name; the bytes are compared all the same,
 * since the memory of an unloaded module may hold another name by now. */
static uint32_t kernel_of(struct hm_cupti_reader *r, const char *name, struct hm_def_kernel *def)
{
    size_t len = strnlen(name, 4096);
    uint32_t shape = def->block[0] ^ (uint32_t)def->block[1] << 10 ^ def->shared_dynamic;
    uint32_t i = ((uint32_t)((uintptr_t)name >> 4) ^ shape * 2654435761u >> 16) & 255;
    if (r->kernel[i].name == name && r->kernel[i].len == len &&
        !memcmp(r->kernel[i].text, name, len)) {
        def->name = r->kernel[i].def.name;
        if (!memcmp(&r->kernel[i].def, def, sizeof(*def)))
            return r->kernel[i].id;
    }
    const void *text;
    uint32_t text_len;
    def->name = hm_name(name, len);
    uint32_t id = hm_define(HM_DEF_KERNEL, def, sizeof(*def));
    r->kernel[i].name = NULL;
    if (id != HM_NO_ID && def->name != HM_NO_ID &&
        hm_defs_get(&hm.view.defs, HM_DEF_STRING, def->name, &text, &text_len) == HM_OK &&
        text_len == len) {
        r->kernel[i].name = name;
        r->kernel[i].text = text;
        r->kernel[i].len = text_len;
        r->kernel[i].id = id;
        memcpy(&r->kernel[i].def, def, sizeof(*def));
    }
    return id;
}

static void on_kernel(struct hm_cupti_reader *r, const uint8_t *rec, uint16_t size)
{
    r->n_kernels++;
    if (!work_on(r, HM_EV_KERNEL, get32(rec + 92), get64(rec + 16)))
        return;
    const char *name;
    memcpy(&name, rec + 104, sizeof(name));
    struct hm_def_kernel def = {
        .name = HM_NO_ID,
        .block = {narrow16(get32(rec + 64)), narrow16(get32(rec + 68)), narrow16(get32(rec + 72))},
        .registers = get16(rec + 6),
        .shared_static = get32(rec + 76),
        .shared_dynamic = get32(rec + 80),
        .cluster = {narrow8(may32(rec, size, 176)), narrow8(may32(rec, size, 180)),
                    narrow8(may32(rec, size, 184))},
        .launch_type = size >= 144 ? rec[136] : 0};
    uint32_t kernel = name ? kernel_of(r, name, &def) : hm_define(HM_DEF_KERNEL, &def, sizeof(def));
    uint32_t track = stream_track(r, get32(rec + 40), get32(rec + 44), get32(rec + 48));
    struct hm_event *ev = hm_begin_late(HM_EV_KERNEL);
    if (!ev)
        return;
    set_times(r, ev, get64(rec + 16), get64(rec + 24), MAY_RUN);
    ev->track = track;
    struct hm_ev_kernel *k = &ev->u.kernel;
    k->kernel = kernel;
    k->correlation = get32(rec + 92);
    k->graph_node = may64(rec, size, 144);
    /* 11.1 put the graph's id into what was padding before */
    k->graph = size >= 160 && (r->version == 0 || r->version >= 14) ? get32(rec + 156) : 0;
    for (int i = 0; i < 3; i++)
        k->grid[i] = get32(rec + 52 + 4 * i);
    k->channel = may32(rec, size, 168);
    k->channel_type = may32(rec, size, 172);
    if (k->graph_node)
        ev->flags |= HM_EVF_GRAPH;
    hm_commit();
}

static void on_copy(struct hm_cupti_reader *r, const uint8_t *rec, uint16_t size, int peer)
{
    uint32_t device = get32(rec + 32);
    if (!work_on(r, HM_EV_MEMCPY, get32(rec + (peer ? 60 : 44)), get64(rec + 16)))
        return;
    uint32_t track = stream_track(r, device, get32(rec + 36), get32(rec + 40));
    struct hm_event *ev = hm_begin_late(HM_EV_MEMCPY);
    if (!ev)
        return;
    set_times(r, ev, get64(rec + 16), get64(rec + 24), MAY_RUN);
    ev->track = track;
    struct hm_ev_copy *c = &ev->u.copy;
    c->bytes = get64(rec + 8);
    c->copy = rec[4];
    c->src = rec[5];
    c->dst = rec[6];
    c->async = rec[7] & 1;
    c->correlation = get32(rec + (peer ? 60 : 44));
    c->src_device = narrow16(peer ? get32(rec + 44) : device);
    c->dst_device = narrow16(peer ? get32(rec + 52) : device);
    c->graph_node = may64(rec, size, peer ? 72 : 64);
    c->graph = may32(rec, size, peer ? 80 : 72);
    c->n_copies = peer ? 0 : (uint32_t)may64(rec, size, 88);
    if (c->graph_node)
        ev->flags |= HM_EVF_GRAPH;
    hm_commit();
}

static void on_set(struct hm_cupti_reader *r, const uint8_t *rec, uint16_t size)
{
    if (!work_on(r, HM_EV_MEMSET, get32(rec + 44), get64(rec + 16)))
        return;
    uint32_t track = stream_track(r, get32(rec + 32), get32(rec + 36), get32(rec + 40));
    struct hm_event *ev = hm_begin_late(HM_EV_MEMSET);
    if (!ev)
        return;
    set_times(r, ev, get64(rec + 16), get64(rec + 24), MAY_RUN);
    ev->track = track;
    struct hm_ev_set *s = &ev->u.set;
    s->bytes = get64(rec + 8);
    s->value = get32(rec + 4);
    s->correlation = get32(rec + 44);
    s->memory = get16(rec + 50);
    s->graph_node = may64(rec, size, 64);
    s->graph = may32(rec, size, 72);
    if (s->graph_node)
        ev->flags |= HM_EVF_GRAPH;
    hm_commit();
}

static void on_sync(struct hm_cupti_reader *r, const uint8_t *rec, uint16_t size)
{
    if (!on_at(r, HM_EV_SYNC, get64(rec + 8)))
        return;
    uint32_t stream = get32(rec + 32);
    struct hm_event *ev = hm_begin_late(HM_EV_SYNC);
    if (!ev)
        return;
    set_times(r, ev, get64(rec + 8), get64(rec + 16), ENDED);
    ev->aux = (uint16_t)get32(rec + 4);
    ev->track = HM_NO_ID; /* the record names no thread: the API event of its correlation does */
    ev->u.sync.correlation = get32(rec + 24);
    ev->u.sync.stream_track = HM_NO_ID;
    for (int i = 0; i < 64 && stream != UINT32_MAX; i++) /* the device is not in the record */
        if (r->stream[i].used && r->stream[i].context == get32(rec + 28) &&
            r->stream[i].stream == stream)
            ev->u.sync.stream_track = r->stream[i].track;
    ev->u.sync.event = get32(rec + 36);
    ev->u.sync.event_sync = may64(rec, size, 40);
    ev->u.sync.rc = (int32_t)may32(rec, size, 48);
    hm_commit();
}

static void on_overhead(struct hm_cupti_reader *r, const uint8_t *rec, uint16_t size)
{
    uint32_t what = get32(rec + 4), object = get32(rec + 8);
    if (!on_at(r, HM_EV_OVERHEAD, get64(rec + 24)))
        return;
    struct hm_event *ev = hm_begin_late(HM_EV_OVERHEAD);
    if (!ev)
        return;
    set_times(r, ev, get64(rec + 24), get64(rec + 32), ENDED);
    ev->aux = what < 0x10000 ? (uint16_t)what : (uint16_t)(0x100 | (what >> 16 & 0xff));
    ev->u.overhead.object =
        get32(rec + (object == 2 ? 16 : 12)); /* a thread, else what comes first */
    ev->u.overhead.correlation = may32(rec, size, 40);
    ev->u.overhead.data = may64(rec, size, 48);
    hm_commit();
}

/* An external id whose API record was not found behind it. */
static void external_alone(struct hm_cupti_reader *r)
{
    if (!r->has_external)
        return;
    r->has_external = 0;
    struct hm_event *ev = hm_begin(HM_EV_API);
    if (!ev)
        return;
    ev->t_ns = hm_now(); /* when it was read; the flag says that this is no time of the call */
    ev->flags = HM_EVF_NO_TIME | HM_CLOCK_RAW;
    ev->u.api.external = r->external;
    ev->u.api.correlation = r->external_correlation;
    ev->u.api.name = HM_NO_ID;
    hm_commit();
}

static void on_external(struct hm_cupti_reader *r, const uint8_t *rec)
{
    if (get32(rec + 4) != HM_CUPTI_CUSTOM2) /* another tool's */
        return;
    external_alone(r);
    r->n_external++;
    r->has_external = 1;
    r->external = get64(rec + 8);
    r->external_correlation = get32(rec + 16);
}

static void on_api(struct hm_cupti_reader *r, const uint8_t *rec, uint32_t domain)
{
    uint32_t correlation = get32(rec + 32);
    uint64_t external = 0;
    if (r->has_external && r->external_correlation == correlation) {
        external = r->external;
        r->has_external = 0;
    }
    /* A runtime launch and the driver launch inside it share a correlation: the inner one is the
     * call that took the launch to the GPU, the outer one adds nothing but a join to lose. */
    if (domain == HM_API_RUNTIME && r->api_domain == HM_API_DRIVER &&
        r->api_correlation == correlation && correlation &&
        (!external || external == r->api_external)) {
        r->api_domain = 0;
        return;
    }
    if (!on_at(r, HM_EV_API, get64(rec + 8)))
        return;
    uint32_t name = api_name(r, domain, get32(rec + 4)), track = thread_track(r, get32(rec + 28));
    struct hm_event *ev = hm_begin_late(HM_EV_API);
    if (!ev)
        return;
    set_times(r, ev, get64(rec + 8), get64(rec + 16), ENDED);
    ev->track = track;
    ev->u.api = (struct hm_ev_api){.external = external,
                                   .correlation = correlation,
                                   .name = name,
                                   .rc = (int32_t)get32(rec + 36),
                                   .domain = domain};
    hm_commit();
    r->api_correlation = correlation;
    r->api_domain = domain;
    r->api_external = external;
}

/* A GPU, said once: CUPTI's number for it, its UUID, what it is. The name is CUPTI's memory. */
static void on_device(const uint8_t *rec)
{
    const char *name;
    memcpy(&name, rec + 136, sizeof(name));
    struct hm_def_device def = {.memory_bytes = get64(rec + 16),
                                .device = get32(rec + 112),
                                .name = name ? hm_name(name, strnlen(name, 256)) : HM_NO_ID,
                                .pci_domain = HM_NO_ID,
                                .n_sm = get32(rec + 44),
                                .cc = get32(rec + 104) * 10 + get32(rec + 108)};
    memcpy(def.uuid, rec + 120, sizeof(def.uuid));
    hm_define(HM_DEF_DEVICE, &def, sizeof(def));
}

static void on_record(struct hm_cupti_reader *r, uint32_t kind, const uint8_t *rec, uint16_t size)
{
    switch (kind) {
    case HM_CUPTI_DEVICE:
        on_device(rec);
        break;
    case HM_CUPTI_KERNEL:
        on_kernel(r, rec, size);
        break;
    case HM_CUPTI_MEMCPY:
        on_copy(r, rec, size, 0);
        break;
    case HM_CUPTI_MEMCPY2:
        on_copy(r, rec, size, 1);
        break;
    case HM_CUPTI_MEMSET:
        on_set(r, rec, size);
        break;
    case HM_CUPTI_SYNC:
        on_sync(r, rec, size);
        break;
    case HM_CUPTI_OVERHEAD:
        on_overhead(r, rec, size);
        break;
    case HM_CUPTI_EXTERNAL:
        on_external(r, rec);
        break;
    case HM_CUPTI_DRIVER:
        on_api(r, rec, HM_API_DRIVER);
        break;
    case HM_CUPTI_RUNTIME:
        on_api(r, rec, HM_API_RUNTIME);
        break;
    default: /* can be stepped over, tells us nothing */
        break;
    }
}

void hm_cupti_parse_calls(struct hm_cupti_reader *r, const uint8_t *buffer, size_t size)
{
    for (size_t at = 0; size - at >= 8;) {
        uint32_t kind = get32(buffer + at);
        uint16_t step = kind < HM_CUPTI_N_KINDS ? r->size[kind] : 0;
        if (!step || step > size - at)
            return;
        if ((kind == HM_CUPTI_DRIVER || kind == HM_CUPTI_RUNTIME) && step >= hm_cupti_need(kind))
            know_call(r, buffer + at);
        at += step;
    }
}

uint32_t hm_cupti_parse(struct hm_cupti_reader *r, const uint8_t *buffer, size_t size)
{
    uint32_t n = 0;
    size_t at = 0;
    while (size - at >= 8) {
        uint32_t kind = get32(buffer + at);
        uint16_t step = kind < HM_CUPTI_N_KINDS ? r->size[kind] : 0;
        if (!step || step > size - at)
            break;
        if (step >= hm_cupti_need(kind))
            on_record(r, kind, buffer + at, step);
        at += step;
        n++;
    }
    external_alone(r);
    r->api_domain = 0;
    r->n_records += n;
    if (at < size) /* a kind nobody knows, or a record cut short: its end cannot be found */
        hm_lose(HM_LOST_CUPTI_UNREAD, size - at);
    return n;
}
