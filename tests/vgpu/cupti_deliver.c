/* Records into the client's buffers, and buffers back to the client.
 *
 * Box: tests/vgpu. Threads: application (API and external-id records, buffer requests on the launch
 * path), the device's streams (finished work), one worker that hands full buffers over; a flush
 * hands over what there is on the caller's thread.
 * Invariants: a buffer belongs to one holder, under its lock; no lock is held while the client's
 * functions run. With attribute 9 every application thread has a holder of its own.
 */
#include "cupti_inside.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct full {
    struct full *next;
    uint8_t *at;
    size_t size, used;
};
struct holder {
    struct holder *next;
    pthread_mutex_t lock;
    uint8_t *at;
    size_t size, used;
    unsigned n; /* records put, for the misbehaviours */
};

static CUpti_BuffersCallbackRequestFunc request;
static CUpti_BuffersCallbackCompleteFunc complete;
static _Atomic int started;
static _Atomic size_t dropped;
static struct holder device = {.lock = PTHREAD_MUTEX_INITIALIZER},
                     common = {.lock = PTHREAD_MUTEX_INITIALIZER};
static struct holder *_Atomic holders; /* of threads; never freed */
static _Thread_local struct holder *mine;

static struct {
    pthread_mutex_t lock;
    pthread_cond_t more, idle;
    struct full *first, **end;
    int busy; /* the worker is handing one over */
} queue = {.lock = PTHREAD_MUTEX_INITIALIZER,
           .more = PTHREAD_COND_INITIALIZER,
           .idle = PTHREAD_COND_INITIALIZER};

/* ---- the client's clock for device times ---- */

/* Device times are RAW. A segment says clock = raw + off + rate x (raw - base); a new one begins
 * only when the measured offset leaves the line by more than the reading can explain, and meets
 * the measurement again half a second later. So durations are exact while the clocks agree. */
struct segment {
    int64_t base, off;
    double rate;
};
static struct {
    pthread_mutex_t lock;
    struct segment seg[16];
    unsigned n;
    int64_t last_ns, last_off;
} map = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int64_t line(const struct segment *s, int64_t raw)
{
    return s->off + (int64_t)(s->rate * (double)(raw - s->base));
}

static int64_t offset_now(int64_t *at_p, int64_t *half_width_p)
{
    int64_t best = INT64_MAX, off = 0;
    *at_p = 0;
    for (int i = 0; i < 20; i++) {
        int64_t a = vgpu_now(), c = (int64_t)cupti_now(), b = vgpu_now();
        if (b - a < best) {
            best = b - a;
            *at_p = a + best / 2;
            off = c - *at_p;
        }
    }
    *half_width_p = best / 2 + 1;
    return off;
}

static void map_update(void)
{
    int64_t at, half, off = offset_now(&at, &half);
    pthread_mutex_lock(&map.lock);
    if (!map.n) {
        map.seg[map.n++ % 16] = (struct segment){.base = at, .off = off};
    } else {
        const struct segment *last = &map.seg[(map.n - 1) % 16];
        int64_t told = line(last, at), miss = off - told;
        if ((miss > half + 200 || miss < -half - 200) && at > map.last_ns) {
            double rate = (double)(off - map.last_off) / (double)(at - map.last_ns);
            rate += (double)miss / 5e8;
            map.seg[map.n++ % 16] = (struct segment){.base = at, .off = told, .rate = rate};
        }
    }
    map.last_ns = at;
    map.last_off = off;
    pthread_mutex_unlock(&map.lock);
}

static uint64_t map_time(int64_t raw)
{
    pthread_mutex_lock(&map.lock);
    unsigned i = map.n - 1, oldest = map.n > 16 ? map.n - 16 : 0;
    while (i > oldest && map.seg[i % 16].base > raw)
        i--;
    int64_t t = raw + line(&map.seg[i % 16], raw);
    pthread_mutex_unlock(&map.lock);
    return (uint64_t)t;
}

/* ---- buffers ---- */

static void *worker(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&queue.lock);
    for (;;) {
        while (!queue.first)
            pthread_cond_wait(&queue.more, &queue.lock);
        struct full *f = queue.first;
        queue.first = f->next;
        if (!queue.first)
            queue.end = &queue.first;
        queue.busy = 1;
        pthread_mutex_unlock(&queue.lock);
        complete(NULL, 0, f->at, f->size, f->used);
        free(f);
        pthread_mutex_lock(&queue.lock);
        queue.busy = 0;
        pthread_cond_broadcast(&queue.idle);
    }
    return NULL;
}

void cupti_deliver_start(CUpti_BuffersCallbackRequestFunc req,
                         CUpti_BuffersCallbackCompleteFunc comp)
{
    pthread_t thread;
    request = req; /* the last one wins, as documented */
    complete = comp;
    map_update();
    int was = 0;
    if (!atomic_compare_exchange_strong(&started, &was, 1))
        return;
    queue.end = &queue.first;
    if (pthread_create(&thread, NULL, worker, NULL))
        abort();
    pthread_detach(thread);
}

static void hand_to_worker(struct holder *h)
{
    struct full *f = malloc(sizeof *f);
    if (!f)
        abort();
    *f = (struct full){.at = h->at, .size = h->size, .used = h->used};
    h->at = NULL;
    pthread_mutex_lock(&queue.lock);
    *queue.end = f;
    queue.end = &f->next;
    pthread_cond_signal(&queue.more);
    pthread_mutex_unlock(&queue.lock);
}

/* Asks the client for a buffer, with the holder's lock let go. Called and returns locked. */
static int ask(struct holder *h)
{
    uint8_t *at = NULL;
    size_t size = 0, n_max = 0;
    pthread_mutex_unlock(&h->lock);
    request(&at, &size, &n_max);
    if ((uintptr_t)at % 8) {
        fprintf(stderr, "virtual CUPTI: buffer at %p is not 8-byte aligned\n", (void *)at);
        abort();
    }
    if (at && !cupti_attribute(5)) /* ZEROED_OUT not promised */
        memset(at, 0, size);
    pthread_mutex_lock(&h->lock);
    if (!at)
        return h->at != NULL;
    if (h->at) { /* another thread was quicker: give it back empty */
        pthread_mutex_unlock(&h->lock);
        complete(NULL, 0, at, size, 0);
        pthread_mutex_lock(&h->lock);
    } else {
        h->at = at;
        h->size = size;
        h->used = 0;
    }
    return 1;
}

static void put_bytes(struct holder *h, const void *record, size_t bytes)
{
    if (h->at && h->used + bytes > h->size)
        hand_to_worker(h);
    if ((!h->at && !ask(h)) || h->used + bytes > h->size) {
        atomic_fetch_add(&dropped, 1);
        return;
    }
    memcpy(h->at + h->used, record, bytes);
    h->used += bytes;
}

static void put(struct holder *h, const union cupti_record *r)
{
    pthread_mutex_lock(&h->lock);
    put_bytes(h, r, cupti_record_size(r->kind));
    if (cupti_scenario.unknown_kind && ++h->n % 20 == 0) {
        uint32_t unknown[4] = {63, 1, 2, 3};
        put_bytes(h, unknown, sizeof unknown);
    }
    pthread_mutex_unlock(&h->lock);
}

static struct holder *holder_of_thread(void)
{
    if (!cupti_attribute(9))
        return &common;
    if (!mine) {
        mine = calloc(1, sizeof *mine);
        if (!mine)
            abort();
        pthread_mutex_init(&mine->lock, NULL);
        mine->next = atomic_load(&holders);
        while (!atomic_compare_exchange_weak(&holders, &mine->next, mine))
            ;
    }
    return mine;
}

static void flush_holder(struct holder *h)
{
    pthread_mutex_lock(&h->lock);
    uint8_t *at = h->at;
    size_t size = h->size, used = h->used;
    if (used)
        h->at = NULL;
    h->used = 0;
    pthread_mutex_unlock(&h->lock);
    if (at && used)
        complete(NULL, 0, at, size, used);
}

void cupti_deliver_flush(void)
{
    if (!atomic_load(&started))
        return;
    map_update();
    flush_holder(&common);
    for (struct holder *h = atomic_load(&holders); h; h = h->next)
        flush_holder(h);
    flush_holder(&device);
    pthread_mutex_lock(&queue.lock);
    while (queue.first || queue.busy) /* after a flush the client has all of it */
        pthread_cond_wait(&queue.idle, &queue.lock);
    pthread_mutex_unlock(&queue.lock);
}

size_t cupti_deliver_dropped(void)
{
    return atomic_exchange(&dropped, 0);
}

/* ---- external ids ---- */

static _Thread_local struct {
    uint64_t id[CUPTI_EXTERNAL_DEPTH];
    unsigned n;
} stack[CUPTI_N_EXTERNAL];

CUptiResult cupti_push(uint32_t kind, uint64_t id)
{
    if (kind == 0 || kind >= CUPTI_N_EXTERNAL || stack[kind].n == CUPTI_EXTERNAL_DEPTH)
        return CUPTI_ERROR_INVALID_PARAMETER;
    stack[kind].id[stack[kind].n++] = id;
    return CUPTI_SUCCESS;
}

CUptiResult cupti_pop(uint32_t kind, uint64_t *id_p)
{
    if (kind == 0 || kind >= CUPTI_N_EXTERNAL)
        return CUPTI_ERROR_INVALID_PARAMETER;
    if (!stack[kind].n)
        return CUPTI_ERROR_QUEUE_EMPTY;
    uint64_t id = stack[kind].id[--stack[kind].n];
    if (id_p)
        *id_p = id;
    return CUPTI_SUCCESS;
}

/* ---- hooks ---- */

/* Calls nest: a runtime call's driver call has its correlation id. */
static _Thread_local struct {
    unsigned depth;
    uint32_t correlation;
    int external_told;
    uint64_t begin[4];
} call;

static int is_launch(uint32_t domain, uint32_t cbid)
{
    return domain == 1 && (cbid == CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel ||
                           cbid == CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx);
}

static uint32_t api_enter(uint32_t domain, uint32_t cbid)
{
    static _Atomic uint32_t next = 1;
    if (call.depth == 0) {
        call.correlation = atomic_fetch_add_explicit(&next, 1, memory_order_relaxed);
        call.external_told = 0;
    }
    if (call.depth < 4)
        call.begin[call.depth] = cupti_api_on(domain, cbid) ? cupti_now() : 0;
    call.depth++;
    /* A buffer for the record of the work is asked for on the launching thread. */
    if (atomic_load_explicit(&started, memory_order_acquire) && is_launch(domain, cbid) &&
        cupti_kind_on(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)) {
        pthread_mutex_lock(&device.lock);
        if (!device.at)
            ask(&device);
        pthread_mutex_unlock(&device.lock);
    }
    return call.correlation;
}

static void tell_external(struct holder *h, uint32_t correlation)
{
    if (call.external_told || !cupti_kind_on(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION))
        return;
    call.external_told = 1;
    for (uint32_t kind = 1; kind < CUPTI_N_EXTERNAL; kind++) {
        if (!stack[kind].n)
            continue;
        union cupti_record r = {0};
        r.external.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
        r.external.externalKind = (CUpti_ExternalCorrelationKind)kind;
        r.external.externalId = stack[kind].id[stack[kind].n - 1];
        r.external.correlationId = correlation;
        put(h, &r);
    }
}

static void api_exit(uint32_t domain, uint32_t cbid, uint32_t correlation, int rc)
{
    if (call.depth == 0) /* hooks were set in mid-call */
        return;
    unsigned at = --call.depth;
    if (at >= 4 || !call.begin[at] || !cupti_api_on(domain, cbid) ||
        !atomic_load_explicit(&started, memory_order_acquire))
        return;
    struct holder *h = holder_of_thread();
    tell_external(h, correlation);
    static _Thread_local uint32_t tid;
    if (!tid)
        tid = (uint32_t)syscall(SYS_gettid);
    union cupti_record r = {0};
    r.api.kind = domain == 1 ? CUPTI_ACTIVITY_KIND_DRIVER : CUPTI_ACTIVITY_KIND_RUNTIME;
    r.api.cbid = cbid;
    r.api.start = call.begin[at];
    r.api.end = cupti_now();
    r.api.processId = (uint32_t)getpid();
    r.api.threadId = cupti_thread_ids_are_system() ? tid : (uint32_t)(uintptr_t)pthread_self();
    r.api.correlationId = correlation;
    r.api.returnValue = (uint32_t)rc;
    put(h, &r);
}

/* The device, before its first work. */
static void tell_device(void)
{
    static _Atomic int told;
    if (!cupti_kind_on(CUPTI_ACTIVITY_KIND_DEVICE) || atomic_exchange(&told, 1))
        return;
    union cupti_record r = {0};
    r.device.kind = CUPTI_ACTIVITY_KIND_DEVICE;
    r.device.globalMemorySize = (uint64_t)1 << 30;
    r.device.numMultiprocessors = 1;
    r.device.computeCapabilityMajor = 9;
    r.device.name = "virtual";
    if (vgpu_uuid)
        vgpu_uuid((uint8_t *)r.device.uuid.bytes);
    put(&device, &r);
}

static void work_done(uint32_t kind, uint32_t stream, uint32_t correlation, int64_t start,
                      int64_t end, const struct vgpu_work *facts)
{
    static _Atomic unsigned n;
    if (!cupti_kind_on(kind) || !atomic_load_explicit(&started, memory_order_acquire))
        return;
    tell_device();
    unsigned nth = atomic_fetch_add(&n, 1);
    if (cupti_scenario.drop && nth % 10 == 9) {
        atomic_fetch_add(&dropped, 1);
        return;
    }
    int zero = cupti_scenario.zero_times && kind == VGPU_KERNEL && nth % 10 == 9;
    union cupti_record r;
    cupti_layout_work(&r, kind, stream, correlation, zero ? 0 : map_time(start),
                      zero ? 0 : map_time(end), facts);
    put(&device, &r);
}

const struct vgpu_hooks cupti_hooks = {
    .api_enter = api_enter, .api_exit = api_exit, .work_done = work_done};
