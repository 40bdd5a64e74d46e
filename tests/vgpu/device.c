/* The virtual device: streams as threads, and a device timeline kept by arithmetic.
 *
 * Box: tests/vgpu. Threads: the application's enqueue, one thread a stream runs.
 * Time: an operation starts at max(modelled end of the one before it on the stream, its launch on
 * the host, modelled instants of the marks its stream awaited) and ends where its run() says.
 * Wake-up times never enter; a stream's thread sleeps only so that nothing shows before its
 * modelled end. Invariants: items of a stream run in order; a mark is done only after its modelled
 * instant.
 */
#include "device.h"

#include <limits.h>
#include <linux/futex.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { FIRST_STREAM = 14, DEFAULT_STREAM = 7, CONTEXT = 1, NON_BLOCKING = 1 };

struct vgpu_mark {
    _Atomic uint32_t done;
    _Atomic int refs;
    int64_t t_ns;
};

enum item_kind { ITEM_OP, ITEM_MARK, ITEM_AWAIT, ITEM_STOP };
struct item {
    struct item *next;
    enum item_kind kind;
    int64_t launch_ns;
    struct vgpu_mark *mark;
    struct vgpu_op op;
    struct vgpu_work facts;
    uint32_t work_kind, correlation;
};

struct vgpu_stream {
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct item *head, *tail;
    unsigned n_open; /* enqueued and not finished */
    uint32_t id;
    unsigned flags;
    int64_t end_ns; /* modelled; the stream's thread */
    pthread_t thread;
    struct vgpu_stream *next; /* all streams, under device.lock */
};

static struct {
    pthread_mutex_t lock;
    struct vgpu_stream *streams;
    struct vgpu_stream *_Atomic usual; /* the default stream */
    uint32_t next_id;
    _Atomic(const struct vgpu_hooks *) hooks;
    double slowdown, speed;
    _Atomic int unpaced;
} device = {.lock = PTHREAD_MUTEX_INITIALIZER, .next_id = FIRST_STREAM, .slowdown = 1};

/* ---- time ---- */

VGPU_API int64_t vgpu_now(void)
{
    struct timespec ts;
    /* not through libc: a test library may shift clock_gettime, the device stays true */
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC_RAW, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

VGPU_API void vgpu_sleep_until(int64_t t_ns)
{
    for (;;) {
        int64_t left = t_ns - vgpu_now();
        if (left <= 0)
            return;
        struct timespec ts = {.tv_sec = left / 1000000000, .tv_nsec = left % 1000000000};
        syscall(SYS_nanosleep, &ts, NULL);
    }
}

VGPU_API int vgpu_paced(void)
{
    return !atomic_load_explicit(&device.unpaced, memory_order_relaxed);
}

VGPU_API void vgpu_set_paced(int on)
{
    atomic_store(&device.unpaced, !on);
}

VGPU_API void vgpu_set_slowdown(double factor)
{
    device.slowdown = factor >= 1 ? factor : 1;
}

double vgpu_setting(const char *name, double usual)
{
    const char *s = getenv(name);
    double v = s ? atof(s) : usual;
    return v > 0 ? v : usual;
}

int64_t vgpu_compute_ns(double flops)
{
    if (!vgpu_paced())
        return 0;
    if (device.speed <= 0)
        device.speed = vgpu_setting("VGPU_FLOPS", 5e7);
    return (int64_t)llround(flops * device.slowdown / device.speed * 1e9);
}

/* Names outlive the operation: a profiler keeps the pointer. */
const char *vgpu_intern(const char *name)
{
    static struct name {
        struct name *next;
        char text[];
    } * names[256];
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    uint32_t hash = 2166136261u;
    for (const char *c = name; *c; c++)
        hash = (hash ^ (uint8_t)*c) * 16777619u;
    struct name **at = &names[hash % 256], *n;
    pthread_mutex_lock(&lock);
    for (n = *at; n && strcmp(n->text, name) != 0; n = n->next)
        ;
    if (!n) {
        size_t len = strlen(name) + 1;
        n = malloc(sizeof *n + len);
        if (!n)
            abort();
        memcpy(n->text, name, len);
        n->next = *at;
        *at = n;
    }
    pthread_mutex_unlock(&lock);
    return n->text;
}

/* ---- hooks ---- */

VGPU_API void vgpu_set_hooks(const struct vgpu_hooks *hooks)
{
    atomic_store(&device.hooks, hooks);
}

uint32_t vgpu_api_enter(uint32_t domain, uint32_t cbid)
{
    const struct vgpu_hooks *h = atomic_load_explicit(&device.hooks, memory_order_acquire);
    return h && h->api_enter ? h->api_enter(domain, cbid) : 0;
}

void vgpu_api_exit(uint32_t domain, uint32_t cbid, uint32_t correlation, int rc)
{
    const struct vgpu_hooks *h = atomic_load_explicit(&device.hooks, memory_order_acquire);
    if (h && h->api_exit)
        h->api_exit(domain, cbid, correlation, rc);
}

/* ---- marks ---- */

static void futex(_Atomic uint32_t *word, int op, uint32_t value)
{
    syscall(SYS_futex, word, op, value, NULL, NULL, 0);
}

static struct vgpu_mark *mark_make(int refs)
{
    struct vgpu_mark *m = calloc(1, sizeof *m);
    if (!m)
        abort();
    atomic_init(&m->refs, refs);
    return m;
}

struct vgpu_mark *vgpu_mark_hold(struct vgpu_mark *m)
{
    atomic_fetch_add(&m->refs, 1);
    return m;
}

void vgpu_mark_drop(struct vgpu_mark *m)
{
    if (m && atomic_fetch_sub(&m->refs, 1) == 1)
        free(m);
}

int vgpu_mark_done(const struct vgpu_mark *m)
{
    return atomic_load_explicit(&m->done, memory_order_acquire) != 0;
}

int64_t vgpu_mark_wait(struct vgpu_mark *m)
{
    while (!vgpu_mark_done(m))
        futex(&m->done, FUTEX_WAIT_PRIVATE, 0);
    return m->t_ns;
}

/* ---- a stream's thread ---- */

static void run_op(struct vgpu_stream *s, struct item *i)
{
    int64_t start = i->launch_ns > s->end_ns ? i->launch_ns : s->end_ns;
    int64_t end = i->op.run ? i->op.run(i->op.arg, start) : start;
    if (end < start)
        end = start;
    s->end_ns = end;
    vgpu_sleep_until(end);
    const struct vgpu_hooks *h = atomic_load_explicit(&device.hooks, memory_order_acquire);
    if (h && h->work_done && i->work_kind)
        h->work_done(i->work_kind, s->id, i->correlation, start, end, &i->facts);
    if (i->op.done)
        i->op.done(i->op.arg);
}

static void run_item(struct vgpu_stream *s, struct item *i)
{
    int64_t t;
    switch (i->kind) {
    case ITEM_OP:
        run_op(s, i);
        break;
    case ITEM_MARK:
        i->mark->t_ns = i->launch_ns > s->end_ns ? i->launch_ns : s->end_ns;
        vgpu_sleep_until(i->mark->t_ns);
        atomic_store_explicit(&i->mark->done, 1, memory_order_release);
        futex(&i->mark->done, FUTEX_WAKE_PRIVATE, INT_MAX);
        break;
    case ITEM_AWAIT:
        t = vgpu_mark_wait(i->mark);
        if (t > s->end_ns)
            s->end_ns = t;
        break;
    case ITEM_STOP:
        break;
    }
    vgpu_mark_drop(i->mark);
}

static struct item *take(struct vgpu_stream *s, int wait)
{
    pthread_mutex_lock(&s->lock);
    while (!s->head && wait)
        pthread_cond_wait(&s->more, &s->lock);
    struct item *i = s->head;
    if (i && !(s->head = i->next))
        s->tail = NULL;
    pthread_mutex_unlock(&s->lock);
    return i;
}

static void finish(struct vgpu_stream *s, struct item *i)
{
    run_item(s, i);
    free(i);
    pthread_mutex_lock(&s->lock);
    s->n_open--;
    pthread_mutex_unlock(&s->lock);
}

static void *stream_thread(void *arg)
{
    struct vgpu_stream *s = arg;
    prctl(PR_SET_NAME, "vgpu-stream", 0, 0, 0);
    prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0);
    int stop = 0;
    while (!stop) {
        struct item *i = take(s, 1);
        stop = i->kind == ITEM_STOP;
        finish(s, i);
    }
    pthread_mutex_lock(&device.lock);
    for (struct vgpu_stream **p = &device.streams; *p; p = &(*p)->next)
        if (*p == s) {
            *p = s->next;
            break;
        }
    pthread_mutex_unlock(&device.lock);
    /* nobody finds it any more; a synchronisation may have put a mark behind the stop */
    for (struct item *i; (i = take(s, 0));)
        finish(s, i);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->more);
    free(s);
    return NULL;
}

/* ---- streams ---- */

static struct vgpu_stream *stream_make(uint32_t id, unsigned flags)
{
    struct vgpu_stream *s = calloc(1, sizeof *s);
    if (!s)
        abort();
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->more, NULL);
    s->id = id;
    s->flags = flags;
    s->next = device.streams;
    device.streams = s;
    sigset_t all, before;
    sigfillset(&all); /* signals of the application go to its own threads */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&s->thread, NULL, stream_thread, s)) {
        fprintf(stderr, "virtual GPU: no thread for a stream\n");
        abort();
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_detach(s->thread);
    const struct vgpu_hooks *h = atomic_load(&device.hooks);
    if (h && h->stream_made)
        h->stream_made(id, CONTEXT);
    return s;
}

struct vgpu_stream *vgpu_stream_create(unsigned flags, int priority)
{
    (void)priority; /* streams never compete here */
    pthread_mutex_lock(&device.lock);
    struct vgpu_stream *s = stream_make(device.next_id++, flags);
    pthread_mutex_unlock(&device.lock);
    return s;
}

struct vgpu_stream *vgpu_stream_of(void *handle)
{
    if ((uintptr_t)handle > 2) /* cudaStreamLegacy, cudaStreamPerThread */
        return handle;
    struct vgpu_stream *s = atomic_load_explicit(&device.usual, memory_order_acquire);
    if (s)
        return s;
    pthread_mutex_lock(&device.lock);
    s = atomic_load(&device.usual);
    if (!s) {
        s = stream_make(DEFAULT_STREAM, 0);
        atomic_store(&device.usual, s);
    }
    pthread_mutex_unlock(&device.lock);
    return s;
}

uint32_t vgpu_stream_id(const struct vgpu_stream *s)
{
    return s->id;
}

static void push(struct vgpu_stream *s, struct item *i)
{
    pthread_mutex_lock(&s->lock);
    i->launch_ns = vgpu_now(); /* under the lock: in the order of the queue */
    if (s->tail)
        s->tail->next = i;
    else
        s->head = i;
    s->tail = i;
    s->n_open++;
    pthread_cond_signal(&s->more);
    pthread_mutex_unlock(&s->lock);
}

static struct item *item_make(enum item_kind kind)
{
    struct item *i = calloc(1, sizeof *i);
    if (!i)
        abort();
    i->kind = kind;
    return i;
}

int vgpu_stream_idle(struct vgpu_stream *s)
{
    pthread_mutex_lock(&s->lock);
    int idle = s->n_open == 0;
    pthread_mutex_unlock(&s->lock);
    return idle;
}

struct vgpu_mark *vgpu_stream_mark(struct vgpu_stream *s)
{
    struct item *i = item_make(ITEM_MARK);
    struct vgpu_mark *m = i->mark = mark_make(2);
    push(s, i);
    return m;
}

void vgpu_stream_await(struct vgpu_stream *s, struct vgpu_mark *m)
{
    struct item *i = item_make(ITEM_AWAIT);
    i->mark = vgpu_mark_hold(m);
    push(s, i);
}

void vgpu_stream_destroy(struct vgpu_stream *s)
{
    push(s, item_make(ITEM_STOP));
}

void vgpu_stream_sync(struct vgpu_stream *s)
{
    if (vgpu_stream_idle(s))
        return;
    struct vgpu_mark *m = vgpu_stream_mark(s);
    vgpu_mark_wait(m);
    vgpu_mark_drop(m);
}

void vgpu_device_sync(void)
{
    struct vgpu_mark *marks[256];
    size_t n = 0;
    pthread_mutex_lock(&device.lock);
    for (struct vgpu_stream *s = device.streams; s && n < 256; s = s->next)
        if (!vgpu_stream_idle(s))
            marks[n++] = vgpu_stream_mark(s);
    pthread_mutex_unlock(&device.lock);
    while (n--) {
        vgpu_mark_wait(marks[n]);
        vgpu_mark_drop(marks[n]);
    }
}

/* The default stream and streams made without NonBlocking wait for each other. */
static void follow_usual(struct vgpu_stream *s)
{
    struct vgpu_stream *usual = atomic_load_explicit(&device.usual, memory_order_acquire);
    if (!usual || (s->flags & NON_BLOCKING))
        return;
    struct vgpu_mark *m;
    if (s != usual) {
        if (!vgpu_stream_idle(usual)) {
            m = vgpu_stream_mark(usual);
            vgpu_stream_await(s, m);
            vgpu_mark_drop(m);
        }
        return;
    }
    pthread_mutex_lock(&device.lock);
    for (struct vgpu_stream *o = device.streams; o; o = o->next)
        if (o != usual && !(o->flags & NON_BLOCKING) && !vgpu_stream_idle(o)) {
            m = vgpu_stream_mark(o);
            vgpu_stream_await(usual, m);
            vgpu_mark_drop(m);
        }
    pthread_mutex_unlock(&device.lock);
}

void vgpu_enqueue(struct vgpu_stream *s, uint32_t kind, uint32_t correlation,
                  const struct vgpu_op *op, const struct vgpu_work *facts)
{
    struct item *i = item_make(ITEM_OP);
    i->op = *op;
    i->facts = *facts;
    i->facts.device = 0;
    i->facts.context = CONTEXT;
    i->work_kind = kind;
    i->correlation = correlation;
    follow_usual(s);
    push(s, i);
}

VGPU_API int vgpu_launch(struct vgpu_stream *stream, const struct vgpu_op *op)
{
    struct vgpu_work facts = {.name = vgpu_intern(op->name)};
    memcpy(facts.grid, op->grid, sizeof facts.grid);
    memcpy(facts.block, op->block, sizeof facts.block);
    uint32_t correlation = vgpu_api_enter(op->domain, op->cbid);
    vgpu_enqueue(vgpu_stream_of(stream), VGPU_KERNEL, correlation, op, &facts);
    vgpu_api_exit(op->domain, op->cbid, correlation, 0);
    return 0;
}
