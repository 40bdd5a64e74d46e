/* One Kineto trace -> one rank file: two passes over the text, memory for names and launches only.
 *
 * Box: merge/import. One thread. Times: microseconds with decimals become whole nanoseconds without
 * a float in between; their clock is the file's own. What is said about collectives:
 *   kernels with process group arguments: a COLL or P2P event at the launch call of each
 *   none in the whole file: one communicator, "world"; join makes arrivals by order on the stream
 */
#include "import/kineto_rank.h"

#include "import/jsonin.h"
#include "import/rankout.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_COMMS = HM_RANKOUT_COMMS, MAX_MEMBERS = 65536 };
/* CUPTI now and then writes an end long after the day: as Kineto's own readers do */
static const int64_t MAX_DUR_NS = INT64_C(7) * 86400 * 1000000000;

enum category { C_OTHER, C_KERNEL, C_MEMCPY, C_MEMSET, C_RUNTIME, C_DRIVER, C_SYNC, C_RANGE };
static enum category category_of(const struct hm_kineto_event *ev)
{
    static const struct {
        const char *text;
        enum category category;
    } table[] = {{"kernel", C_KERNEL},         {"gpu_memcpy", C_MEMCPY},
                 {"gpu_memset", C_MEMSET},     {"cuda_runtime", C_RUNTIME},
                 {"cuda_driver", C_DRIVER},    {"cuda_sync", C_SYNC},
                 {"cpu_op", C_RANGE},          {"user_annotation", C_RANGE},
                 {"python_function", C_RANGE}, {"overhead", C_RANGE}};
    for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++)
        if (!strcmp(ev->cat, table[i].text))
            return table[i].category;
    return C_OTHER;
}

static int is_nccl(const char *name)
{
    return !strncmp(name, "nccl", 4) || !strncmp(name, "void nccl", 9);
}

static int64_t device_of(const struct hm_kineto_event *ev)
{
    return ev->device != HM_KINETO_NONE ? ev->device : ev->pid;
}

/* Time with the base, and duration; 0 = unusable. */
static int time_of(const struct hm_kineto_event *ev, int64_t base_ns, int64_t *t_p, int64_t *dur_p)
{
    int64_t t, dur = ev->dur_ns == HM_KINETO_NONE ? 0 : ev->dur_ns;
    if (ev->t_ns == HM_KINETO_NONE || __builtin_add_overflow(ev->t_ns, base_ns, &t) || t < 0 ||
        t > INT64_MAX / 2 || dur < 0 || dur > MAX_DUR_NS)
        return 0;
    *t_p = t;
    *dur_p = dur;
    return 1;
}

/* ---- first pass ---- */

static void keep_thread(struct hm_kineto_scan *s, const struct hm_kineto_event *ev)
{
    if (strcmp(ev->name, "thread_name") != 0 || ev->pid == HM_KINETO_NONE ||
        ev->tid == HM_KINETO_NONE || s->n_threads == HM_KINETO_MAX_THREADS)
        return;
    for (uint32_t i = 0; i < s->n_threads; i++)
        if (s->thread[i].pid == ev->pid && s->thread[i].tid == ev->tid)
            return;
    struct hm_kineto_thread *t = &s->thread[s->n_threads++];
    t->pid = ev->pid;
    t->tid = ev->tid;
    snprintf(t->name, sizeof(t->name), "%.60s", ev->label);
    for (size_t n = strlen(t->name); n && t->name[n - 1] == ' '; n--)
        t->name[n - 1] = 0;
}

static hm_status_t scan_event(void *ctx, const struct hm_kineto_event *ev)
{
    struct hm_kineto_scan *s = ctx;
    int64_t t, dur;
    if (ev->ph[0] == 'M')
        keep_thread(s, ev);
    enum category c = category_of(ev);
    if (ev->ph[0] != 'X' || c == C_OTHER)
        return HM_OK;
    s->n_events++;
    if (time_of(ev, 0, &t, &dur) && t < s->t0_ns)
        s->t0_ns = t; /* the base may stand behind the events: added at the end */
    int64_t d = device_of(ev);
    if ((c == C_KERNEL || c == C_MEMCPY || c == C_MEMSET) && d >= 0 && d < HM_KINETO_MAX_DEVICES)
        s->devices |= UINT64_C(1) << d;
    if (c == C_KERNEL && ev->collective[0] && is_nccl(ev->name))
        s->n_collectives++;
    if ((c == C_RUNTIME || c == C_DRIVER || c == C_RANGE) && s->pid == HM_KINETO_NONE)
        s->pid = ev->pid;
    return HM_OK;
}

hm_status_t hm_kineto_scan(const char *path, struct hm_kineto_scan *s)
{
    *s = (struct hm_kineto_scan){.path = path, .pid = HM_KINETO_NONE, .t0_ns = INT64_MAX};
    s->thread = calloc(HM_KINETO_MAX_THREADS, sizeof(*s->thread));
    if (!s->thread)
        return hm_fail(HM_E_NOMEM, path, "out of memory");
    hm_status_t st = hm_kineto_walk(path, &s->head, scan_event, s);
    if (!st && !s->n_events)
        st = hm_fail(HM_E_DATA, path,
                     "no trace of a profiled program: it has no events of CPU or GPU; "
                     "name the files that torch.profiler wrote");
    if (!st && s->t0_ns != INT64_MAX &&
        (__builtin_add_overflow(s->t0_ns, s->head.base_ns, &s->t0_ns) || s->t0_ns < 0))
        st = hm_fail(HM_E_DATA, path, "its baseTimeNanoseconds is out of range; leave it out");
    if (st)
        hm_kineto_scan_free(s);
    return st;
}

void hm_kineto_scan_free(struct hm_kineto_scan *s)
{
    free(s->thread);
    s->thread = NULL;
}

/* ---- second pass ---- */

struct api {
    uint32_t correlation, track;
    int64_t t_ns;
};
struct coll { /* waits for the launch call of its kernel */
    struct hm_event ev;
    uint32_t correlation;
};
struct member { /* of which communicator definition */
    uint64_t hash;
    int64_t device;
    uint32_t id, n_ranks;
    char *ranks;
};
struct out {
    const struct hm_kineto_scan *scan;
    struct hm_rankout r;
    struct api *api;
    size_t n_apis, cap_apis;
    struct coll *coll;
    size_t n_colls, cap_colls;
    struct member comm[MAX_COMMS];
    uint32_t n_comms;
};

static hm_status_t push(struct out *o, const struct hm_event *ev)
{
    return hm_rankout_push(&o->r, ev);
}

static uint32_t define(struct out *o, enum hm_def_kind kind, const void *bytes, size_t len)
{
    return hm_rankout_define(&o->r, kind, bytes, len);
}

static uint32_t text_id(struct out *o, const char *text)
{
    return hm_rankout_text(&o->r, text);
}

static uint32_t host_track(struct out *o, const struct hm_kineto_event *ev)
{
    char name[64];
    snprintf(name, sizeof(name), "thread %" PRId64, ev->tid);
    for (uint32_t i = 0; i < o->scan->n_threads; i++)
        if (o->scan->thread[i].pid == ev->pid && o->scan->thread[i].tid == ev->tid)
            snprintf(name, sizeof(name), "%s", o->scan->thread[i].name);
    return hm_rankout_thread(&o->r, (uint32_t)(uint64_t)ev->tid, name);
}

static uint32_t stream_track(struct out *o, const struct hm_kineto_event *ev)
{
    int64_t stream = ev->stream != HM_KINETO_NONE ? ev->stream : ev->tid;
    return hm_rankout_stream(&o->r, hm_id32(device_of(ev), 0), hm_id32(ev->context, 0),
                             hm_id32(stream, 0));
}

/* ---- collectives ---- */

/* Place of `rank` in "[0, 4, 8]"; -1 = not in it, or the list was shortened ("..."). */
static int32_t place_in(const char *ranks, int64_t rank)
{
    int32_t i = 0;
    if (strstr(ranks, "..."))
        return -1;
    for (const char *p = ranks; *p && i < MAX_MEMBERS;) {
        char *end;
        if (*p < '0' || *p > '9') {
            p++;
            continue;
        }
        unsigned long v = strtoul(p, &end, 10);
        if ((int64_t)v == rank)
            return i;
        i++;
        p = end;
    }
    return -1;
}

static const struct member *comm_of(struct out *o, const char *group, const char *ranks,
                                    int64_t size, int64_t device)
{
    char text[32];
    int64_t n_ranks = size > 0 && size <= MAX_MEMBERS ? size : o->scan->n_ranks;
    snprintf(text, sizeof(text), "%" PRId64, n_ranks);
    uint64_t hash = hm_import_hash(HM_IMPORT_HASH, group);
    hash = hm_import_hash(hm_import_hash(hash, ranks), text);
    for (uint32_t i = 0; i < o->n_comms; i++)
        if (o->comm[i].hash == hash && o->comm[i].device == device)
            return &o->comm[i];
    if (o->n_comms == MAX_COMMS) {
        o->r.lost[HM_LOST_DEFS_FULL]++;
        return NULL;
    }
    int32_t crank = place_in(ranks, o->scan->rank);
    if (crank < 0 && n_ranks == o->scan->n_ranks)
        crank = o->scan->rank; /* everybody: ranks are places */
    struct hm_def_comm def = {.hash = hash,
                              .crank = crank,
                              .n_ranks = (int32_t)n_ranks,
                              .device = (int32_t)hm_id32(device, 0),
                              .name = text_id(o, group)};
    struct member *m = &o->comm[o->n_comms];
    *m = (struct member){hash, device, define(o, HM_DEF_COMM, &def, sizeof(def)), (uint32_t)n_ranks,
                         strdup(ranks)};
    if (m->id == HM_NO_ID || !m->ranks) {
        free(m->ranks);
        return NULL;
    }
    o->n_comms++;
    return m;
}

/* PyTorch's names of collectives and types. */
static uint8_t func_of(const char *name)
{
    static const struct {
        const char *text;
        uint8_t func;
    } table[] = {{"allreduce", HM_NCCL_ALLREDUCE}, {"all_reduce", HM_NCCL_ALLREDUCE},
                 {"barrier", HM_NCCL_ALLREDUCE},   {"reduce_scatter", HM_NCCL_REDUCESCATTER},
                 {"allgather", HM_NCCL_ALLGATHER}, {"all_gather", HM_NCCL_ALLGATHER},
                 {"broadcast", HM_NCCL_BROADCAST}, {"all_to_all", HM_NCCL_ALLTOALL},
                 {"alltoall", HM_NCCL_ALLTOALL},   {"gather", HM_NCCL_GATHER},
                 {"scatter", HM_NCCL_SCATTER},     {"reduce", HM_NCCL_REDUCE},
                 {"send", HM_NCCL_SEND},           {"recv", HM_NCCL_RECV}};
    for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++)
        if (strstr(name, table[i].text))
            return table[i].func;
    return HM_NCCL_UNKNOWN;
}

static uint8_t dtype_of(const char *name)
{
    static const struct {
        const char *text;
        uint8_t dtype; /* 1 + ncclDataType_t */
    } table[] = {{"Char", 1},      {"Byte", 2},           {"Bool", 2},        {"Int", 3},
                 {"Long", 5},      {"Half", 7},           {"Float", 8},       {"Double", 9},
                 {"BFloat16", 10}, {"Float8_e4m3fn", 11}, {"Float8_e5m2", 12}};
    for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++)
        if (!strcmp(name, table[i].text))
            return table[i].dtype;
    return HM_DTYPE_UNKNOWN;
}

/* The count as NCCL's caller gives it. */
static uint64_t count_of(const struct hm_kineto_event *ev, uint8_t func, uint32_t n_ranks)
{
    int64_t n = func == HM_NCCL_REDUCESCATTER || func == HM_NCCL_RECV ? ev->n_out : ev->n_in;
    if (func == HM_NCCL_ALLTOALL)
        n /= n_ranks;
    return n > 0 ? (uint64_t)n : 0;
}

static int grow(void **array, size_t *cap, size_t n, size_t item)
{
    if (n < *cap)
        return 1;
    size_t want = *cap ? *cap * 2 : 1024;
    void *p = realloc(*array, want * item);
    if (!p)
        return 0;
    *array = p;
    *cap = want;
    return 1;
}

static hm_status_t collective(struct out *o, const struct hm_kineto_event *ev, int64_t t_ns)
{
    const char *group = ev->group[0] ? ev->group : "world";
    if (!o->scan->n_collectives) { /* nobody tells: join goes by order */
        comm_of(o, group, "", o->scan->n_ranks, device_of(ev));
        return HM_OK;
    }
    if (!ev->collective[0])
        return HM_OK;
    const struct member *m = comm_of(o, group, ev->group_ranks, ev->group_size, device_of(ev));
    uint8_t func = func_of(ev->collective);
    if (!m)
        return HM_OK;
    int p2p = func == HM_NCCL_SEND || func == HM_NCCL_RECV;
    uint32_t seq = hm_id32(ev->seq, HM_NO_ID);
    struct hm_event e = {.t_ns = t_ns,
                         .kind = p2p ? HM_EV_NCCL_P2P : HM_EV_NCCL_COLL,
                         .flags = HM_CLOCK_FILE,
                         .aux = HM_NCCL_AUX(func, dtype_of(ev->dtype)),
                         .track = HM_NO_ID};
    e.u.op.count = count_of(ev, func, m->n_ranks);
    e.u.op.comm = m->id;
    e.u.op.call = seq == HM_NO_ID ? HM_NO_ID : p2p ? seq | HM_CALL_P2P : seq & ~HM_CALL_P2P;
    e.u.op.nccl_seq = seq;
    e.u.op.launch = HM_NO_ID;
    /* the trace names global ranks */
    e.u.op.peer = p2p ? place_in(m->ranks, func == HM_NCCL_SEND ? ev->dst : ev->src) : -1;
    if (!grow((void **)&o->coll, &o->cap_colls, o->n_colls, sizeof(*o->coll)))
        return hm_fail(HM_E_NOMEM, "import", "out of memory");
    o->coll[o->n_colls++] = (struct coll){e, hm_id32(ev->correlation, 0)};
    return HM_OK;
}

static int by_correlation(const void *a, const void *b)
{
    const struct api *x = a, *y = b;
    return x->correlation < y->correlation ? -1 : x->correlation > y->correlation;
}

/* An operation stands at the call that launched its kernel: there join looks for it. */
static hm_status_t write_collectives(struct out *o)
{
    hm_status_t s = HM_OK;
    if (o->n_apis)
        qsort(o->api, o->n_apis, sizeof(*o->api), by_correlation);
    for (size_t i = 0; i < o->n_colls && !s; i++) {
        struct api key = {.correlation = o->coll[i].correlation};
        const struct api *a = key.correlation && o->n_apis
                                  ? bsearch(&key, o->api, o->n_apis, sizeof(key), by_correlation)
                                  : NULL;
        if (a) {
            o->coll[i].ev.t_ns = a->t_ns;
            o->coll[i].ev.track = a->track;
        }
        s = push(o, &o->coll[i].ev);
    }
    return s;
}

/* ---- events ---- */

static hm_status_t put_kernel(struct out *o, const struct hm_kineto_event *ev, struct hm_event *e)
{
    struct hm_def_kernel def = {.name = text_id(o, ev->name),
                                .registers = (uint16_t)hm_id32(ev->registers, 0),
                                .shared_static = hm_id32(ev->shared, 0)};
    for (int i = 0; i < 3; i++) {
        def.block[i] = (uint16_t)hm_id32(ev->block[i], 0);
        e->u.kernel.grid[i] = hm_id32(ev->grid[i], 0);
    }
    e->kind = HM_EV_KERNEL;
    e->track = stream_track(o, ev);
    e->u.kernel.kernel = define(o, HM_DEF_KERNEL, &def, sizeof(def));
    e->u.kernel.correlation = hm_id32(ev->correlation, 0);
    e->u.kernel.graph = hm_id32(ev->graph, 0);
    e->u.kernel.graph_node = ev->graph_node > 0 ? (uint64_t)ev->graph_node : 0;
    hm_status_t s = push(o, e);
    return s || !is_nccl(ev->name) ? s : collective(o, ev, e->t_ns);
}

/* "Memcpy HtoD (Pinned -> Device)" in CUPTI's numbers. */
static void copy_kinds(const char *name, struct hm_ev_copy *c)
{
    static const char *const way[] = {"HtoD", "DtoH", "HtoA", "AtoH", "AtoA",
                                      "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"};
    static const char *const memory[] = {"Pageable", "Pinned",        "Device",        "Array",
                                         "Managed",  "Device Static", "Managed Static"};
    for (size_t i = 0; i < sizeof(way) / sizeof(*way); i++)
        if (strstr(name, way[i]))
            c->copy = (uint8_t)(i + 1);
    const char *open = strchr(name, '('), *arrow = open ? strstr(open, " -> ") : NULL;
    const char *close = arrow ? strchr(arrow, ')') : NULL;
    for (size_t i = 0; close && i < sizeof(memory) / sizeof(*memory); i++) {
        size_t n = strlen(memory[i]);
        if (n == (size_t)(arrow - open - 1) && !strncmp(open + 1, memory[i], n))
            c->src = (uint8_t)(i + 1);
        if (n == (size_t)(close - arrow - 4) && !strncmp(arrow + 4, memory[i], n))
            c->dst = (uint8_t)(i + 1);
    }
}

static hm_status_t put_copy(struct out *o, const struct hm_kineto_event *ev, struct hm_event *e)
{
    e->kind = HM_EV_MEMCPY;
    e->track = stream_track(o, ev);
    e->u.copy.bytes = ev->bytes > 0 ? (uint64_t)ev->bytes : 0;
    e->u.copy.correlation = hm_id32(ev->correlation, 0);
    e->u.copy.graph = hm_id32(ev->graph, 0);
    e->u.copy.src_device = e->u.copy.dst_device = (uint16_t)hm_id32(device_of(ev), 0);
    copy_kinds(ev->name, &e->u.copy);
    return push(o, e);
}

static hm_status_t put_set(struct out *o, const struct hm_kineto_event *ev, struct hm_event *e)
{
    e->kind = HM_EV_MEMSET;
    e->track = stream_track(o, ev);
    e->u.set.bytes = ev->bytes > 0 ? (uint64_t)ev->bytes : 0;
    e->u.set.correlation = hm_id32(ev->correlation, 0);
    e->u.set.graph = hm_id32(ev->graph, 0);
    return push(o, e);
}

static hm_status_t put_api(struct out *o, const struct hm_kineto_event *ev, struct hm_event *e,
                           uint32_t domain)
{
    e->kind = HM_EV_API;
    e->track = host_track(o, ev);
    e->u.api.name = text_id(o, ev->name);
    e->u.api.domain = domain;
    e->u.api.correlation = hm_id32(ev->correlation, 0);
    if (o->scan->n_collectives && e->u.api.correlation && strstr(ev->name, "Launch")) {
        if (!grow((void **)&o->api, &o->cap_apis, o->n_apis, sizeof(*o->api)))
            return hm_fail(HM_E_NOMEM, "import", "out of memory");
        o->api[o->n_apis++] = (struct api){e->u.api.correlation, e->track, e->t_ns};
    }
    return push(o, e);
}

static hm_status_t put_sync(struct out *o, const struct hm_kineto_event *ev, struct hm_event *e)
{
    static const char *const type[] = {"Event Sync", "Stream Wait Event", "Stream Sync",
                                       "Context Sync"};
    for (size_t i = 0; i < sizeof(type) / sizeof(*type); i++)
        if (!strncmp(ev->name, type[i], strlen(type[i])))
            e->aux = (uint16_t)(i + 1);
    e->kind = HM_EV_SYNC;
    e->track = HM_NO_ID; /* the thread is not told */
    e->u.sync.correlation = hm_id32(ev->correlation, 0);
    e->u.sync.stream_track = ev->stream >= 0 ? stream_track(o, ev) : HM_NO_ID;
    return push(o, e);
}

/* ProfilerStep#N */
static hm_status_t put_step(struct out *o, const struct hm_kineto_event *ev,
                            const struct hm_event *e, int64_t step)
{
    struct hm_event mark = {.t_ns = e->t_ns,
                            .kind = HM_EV_STEP,
                            .flags = HM_CLOCK_FILE,
                            .aux = HM_STEP_BEGIN,
                            .track = host_track(o, ev)};
    mark.u.step = (struct hm_ev_step){
        .step = step, .name = text_id(o, "ProfilerStep"), .source = HM_STEP_FROM_RANGE};
    hm_status_t s = push(o, &mark);
    mark.t_ns += e->dur_ns;
    mark.aux = HM_STEP_END;
    return s ? s : push(o, &mark);
}

static hm_status_t put_range(struct out *o, const struct hm_kineto_event *ev, struct hm_event *e)
{
    int64_t step;
    if (!strncmp(ev->name, "ProfilerStep#", 13) && hm_decimal(ev->name + 13, 0, &step))
        return put_step(o, ev, e, step);
    e->kind = HM_EV_RANGE;
    e->track = host_track(o, ev);
    e->u.range.name = text_id(o, ev->name);
    e->u.range.domain = text_id(o, ev->cat);
    return push(o, e);
}

static hm_status_t write_event(void *ctx, const struct hm_kineto_event *ev)
{
    struct out *o = ctx;
    enum category c = category_of(ev);
    struct hm_event e = {.flags = HM_CLOCK_FILE};
    if (ev->ph[0] != 'X' || c == C_OTHER)
        return HM_OK;
    int on_gpu = c == C_KERNEL || c == C_MEMCPY || c == C_MEMSET;
    if (!time_of(ev, o->scan->head.base_ns, &e.t_ns, &e.dur_ns) ||
        (!on_gpu && c != C_SYNC && ev->tid == HM_KINETO_NONE)) {
        o->r.lost[HM_LOST_CUPTI_BAD_TIME]++;
        return HM_OK;
    }
    o->r.lost[HM_LOST_TEXT_CUT] += (uint64_t)ev->name_cut;
    switch (c) {
    case C_KERNEL:
        return put_kernel(o, ev, &e);
    case C_MEMCPY:
        return put_copy(o, ev, &e);
    case C_MEMSET:
        return put_set(o, ev, &e);
    case C_RUNTIME:
        return put_api(o, ev, &e, HM_API_RUNTIME);
    case C_DRIVER:
        return put_api(o, ev, &e, HM_API_DRIVER);
    case C_SYNC:
        return put_sync(o, ev, &e);
    case C_RANGE:
        return put_range(o, ev, &e);
    case C_OTHER:
        break;
    }
    return HM_OK;
}

static void define_devices(struct out *o)
{
    for (uint32_t i = 0; i < o->scan->head.n_devices; i++) {
        const struct hm_kineto_device *d = &o->scan->head.device[i];
        if (d->id < 0 || d->id >= HM_KINETO_MAX_DEVICES || !(o->scan->devices >> d->id & 1))
            continue;
        struct hm_def_device def = {.memory_bytes =
                                        d->memory_bytes > 0 ? (uint64_t)d->memory_bytes : 0,
                                    .device = (uint32_t)d->id,
                                    .name = text_id(o, d->name),
                                    .n_sm = hm_id32(d->n_sm, 0),
                                    .cc = hm_id32(d->major, 0) * 10 + hm_id32(d->minor, 0)};
        define(o, HM_DEF_DEVICE, &def, sizeof(def));
    }
}

hm_status_t hm_kineto_write(const struct hm_kineto_scan *scan, const struct hm_rank_meta *meta,
                            const char *run)
{
    struct hm_kineto_head head;
    struct out *o = calloc(1, sizeof(*o));
    if (!o)
        return hm_fail(HM_E_NOMEM, "import", "out of memory");
    o->scan = scan;
    hm_status_t s = hm_rankout_begin(&o->r, run, meta);
    if (s)
        goto err_free;
    s = hm_kineto_walk(scan->path, &head, write_event, o);
    if (!s)
        s = write_collectives(o);
    if (!s)
        define_devices(o);
    s = hm_rankout_end(&o->r, s);
    for (uint32_t i = 0; i < o->n_comms; i++)
        free(o->comm[i].ranks);
    free(o->api);
    free(o->coll);
err_free:
    free(o);
    return s;
}
