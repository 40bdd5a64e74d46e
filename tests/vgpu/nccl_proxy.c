/* The proxy progress thread of a communicator: ProxyOp, ProxyStep, ProxyCtrl and KernelCh events.
 *
 * Box: tests/vgpu. Thread: one "NCCL Progress" thread per communicator, started when a plugin's
 * mask first asks for it. Events come when the true clock has reached the modelled instant.
 * ProxyOps exist only between nodes, as in NCCL: VGPU_NCCL_NODES=N pretends that the ranks sit on
 * N nodes (blocks of equal size). KernelCh stamps are in the GPU's own time: CLOCK_REALTIME at
 * start-up as the scenario bends it (nccl_scenario.c).
 */
#include "nccl_inside.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int node_of(ncclComm_t c, int rank)
{
    return (int)((int64_t)rank * c->n_nodes / c->n_ranks);
}

/* The GPU's timer: time of day, shifted, too fast, in steps. */
static uint64_t globaltimer(int64_t t_ns)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static int64_t offset, origin, tick;
    static double drift;
    pthread_mutex_lock(&lock);
    if (!tick) {
        struct timespec ts;
        const char *s = getenv("VGPU_GLOBALTIMER_OFFSET_NS");
        clock_gettime(CLOCK_REALTIME, &ts);
        origin = vgpu_now();
        offset = (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec - origin;
        offset += strtoll(s ? s : nccl_setting("gpu_clock_ns", "0"), NULL, 10);
        drift = atof(nccl_setting("gpu_drift_ppm", "0")) * 1e-6;
        tick = strtoll(nccl_setting("gpu_tick_ns", "1"), NULL, 10);
        tick = tick < 1 ? 1 : tick;
    }
    int64_t g = t_ns + offset + (int64_t)((double)(t_ns - origin) * drift);
    pthread_mutex_unlock(&lock);
    return (uint64_t)(g - g % tick);
}

/* ---- one plan's events, on the progress thread ---- */

struct side { /* one direction of one channel of one task that leaves the node */
    const struct nccl_task *t;
    int peer, is_send;
};

static size_t sides_of(const struct nccl_task *t, struct side out[2])
{
    ncclComm_t c = t->comm;
    size_t n = 0;
    if (t->hidden)
        return 0;
    if (t->func >= FUNC_SEND) {
        if (t->root != c->rank && node_of(c, t->root) != node_of(c, c->rank))
            out[n++] = (struct side){t, t->root, t->func == FUNC_SEND};
        return n;
    }
    int next = (c->rank + 1) % c->n_ranks, prev = (c->rank + c->n_ranks - 1) % c->n_ranks;
    if (node_of(c, prev) != node_of(c, c->rank))
        out[n++] = (struct side){t, prev, 0};
    if (node_of(c, next) != node_of(c, c->rank))
        out[n++] = (struct side){t, next, 1};
    return n;
}

enum { STEP_BYTES = 512 << 10, MAX_STEPS = 8 };
static int steps_of(const struct nccl_task *t)
{
    uint64_t n = (t->wire / t->n_channels + STEP_BYTES - 1) / STEP_BYTES;
    return n < 1 ? 1 : n > MAX_STEPS ? MAX_STEPS : (int)n;
}

static void tell_append(struct nccl_plan *p)
{
    ncclComm_t c = p->comm;
    size_t most = 0;
    for (size_t i = 0; i < p->n_tasks; i++)
        most += 2u * p->task[i].n_channels;
    p->proxy_op = calloc(most + 1, sizeof *p->proxy_op);
    p->kernel_ch = calloc(most + 1, sizeof *p->kernel_ch);
    if (!p->proxy_op || !p->kernel_ch)
        abort();
    int wanted = p->mask & (EV_PROXY_OP | EV_PROXY_STEP);
    void *ctrl = NULL;
    if (p->mask & EV_PROXY_CTRL) {
        ctrl = nccl_ev_proxy_ctrl(c);
        nccl_ev_state(ctrl, ST_CTRL_APPEND, NULL);
    }
    for (size_t i = 0; i < p->n_tasks && wanted; i++) {
        struct side s[2];
        size_t n = sides_of(&p->task[i], s);
        for (uint8_t ch = 0; n && ch < p->task[i].n_channels; ch++)
            for (size_t k = 0; k < n; k++)
                p->proxy_op[p->n_proxy_op++] = nccl_ev_proxy_op(
                    s[k].t, ch, s[k].peer, steps_of(s[k].t), STEP_BYTES, s[k].is_send);
    }
    uint64_t appended = p->n_proxy_op;
    nccl_ev_state(ctrl, ST_CTRL_APPEND_END, &appended);
    nccl_ev_stop(ctrl);
}

enum { HIGH_CHANNEL = 200 };
static uint8_t channel_of(uint8_t ch)
{
    return nccl_with("high-channel") ? (uint8_t)(ch + HIGH_CHANNEL) : ch;
}

static void tell_start(struct nccl_plan *p)
{
    uint64_t zero = 0;
    for (size_t i = 0; i < p->n_proxy_op; i++) {
        nccl_ev_state(p->proxy_op[i], ST_PROXY_OP_IN_PROGRESS, &zero);
        nccl_ev_state(p->proxy_op[i], ST_SEND_POSTED + 1, &zero);
    }
    /* "reorder": the end of some was seen first, their start is never told */
    int lost = nccl_with("reorder") && p->index % 3 == 2;
    uint64_t stamp = nccl_with("zero-stamps") && p->index % 3 == 1 ? 0 : globaltimer(p->start_ns);
    for (size_t i = 0; i < p->n_tasks && (p->mask & (EV_KERNEL_CH | EV_PHASE)) && !lost; i++)
        for (uint8_t ch = 0; p->task[i].event && ch < p->task[i].n_channels; ch++)
            p->kernel_ch[p->n_kernel_ch++] = nccl_ev_kernel_ch(&p->task[i], channel_of(ch), stamp);
    if (nccl_with("pxn") && p->mask & EV_PROXY_OP)
        nccl_ev_pxn(p->comm);
}

static void tell_phases(struct nccl_plan *p)
{
    for (size_t i = 0; i < p->n_kernel_ch && p->mask & EV_PHASE; i++)
        for (uint8_t phase = 0; phase < 3; phase++) { /* a quarter, a half, a quarter */
            static const int64_t edge[] = {0, 1, 3, 4};
            int64_t len = p->end_ns - p->start_ns;
            uint64_t stop = globaltimer(p->start_ns + len * edge[phase + 1] / 4);
            void *e = nccl_ev_phase(p->comm, p->kernel_ch[i], channel_of((uint8_t)i), phase,
                                    globaltimer(p->start_ns + len * edge[phase] / 4));
            nccl_ev_state(e, ST_PHASE_STOP, &stop);
            nccl_ev_stop(e);
        }
}

static void tell_step(ncclComm_t c, void *proxy_op, int step, const struct side *s)
{
    uint64_t zero = 0, bytes = s->t->wire / s->t->n_channels / (uint64_t)steps_of(s->t);
    void *e = nccl_ev_proxy_step(c, proxy_op, step), *net = NULL;
    if (s->is_send) {
        nccl_ev_state(e, ST_SEND_GPU_WAIT, &zero);
        nccl_ev_state(e, ST_SEND_PEER_WAIT, &zero);
        nccl_ev_state(e, ST_SEND_WAIT, &bytes);
        if (nccl_with("net-plugin") && nccl_profiler_mask() & EV_NET)
            net = nccl_ev_net(c, e);
    } else {
        nccl_ev_state(e, ST_RECV_WAIT, &zero);
        nccl_ev_state(e, ST_RECV_FLUSH_WAIT, &bytes);
        nccl_ev_state(e, ST_RECV_GPU_WAIT, &zero);
    }
    nccl_ev_stop(net);
    /* 2.24 to 2.26 lose count of what they receive: some steps never stop */
    if (s->is_send || nccl_release() < 22400 || nccl_release() >= 22700)
        nccl_ev_stop(e);
}

static void tell_end(struct nccl_plan *p)
{
    size_t op = 0;
    for (size_t i = 0; i < p->n_tasks && p->n_proxy_op; i++) {
        struct side s[2];
        size_t n = sides_of(&p->task[i], s);
        for (uint8_t ch = 0; n && ch < p->task[i].n_channels; ch++)
            for (size_t k = 0; k < n; k++, op++) {
                for (int step = 0; step < steps_of(s[k].t) && (p->mask & EV_PROXY_STEP); step++)
                    tell_step(p->comm, p->proxy_op[op], step, &s[k]);
                uint64_t sent = s[k].t->wire / s[k].t->n_channels;
                nccl_ev_state(p->proxy_op[op], s[k].is_send ? ST_SEND_DONE : ST_RECV_DONE, &sent);
                nccl_ev_stop(p->proxy_op[op]);
            }
    }
    tell_phases(p);
    uint64_t stamp = globaltimer(p->end_ns);
    for (size_t i = 0; i < p->n_kernel_ch; i++) {
        nccl_ev_state(p->kernel_ch[i], ST_KERNEL_CH_STOP, &stamp);
        nccl_ev_stop(p->kernel_ch[i]);
        if (nccl_with("stale") && nccl_release() < 23100)
            nccl_ev_stop(p->kernel_ch[i]);
    }
}

/* ---- the thread ---- */

/* Moves the plans on as far as the clock allows, the lock released around callbacks. Returns how
 * long to sleep: ns until something is due, -1 = until told. */
static int64_t advance(struct nccl_proxy *x)
{
    int64_t due = -1, now = vgpu_now();
    for (struct nccl_plan **at = &x->plans, *p; (p = *at) != NULL;) {
        int64_t wait = -1;
        void (*tell)(struct nccl_plan *) = NULL;
        if (!p->told_append && p->appended)
            tell = tell_append;
        else if (p->told_append && !p->told_start && p->started && (wait = p->start_ns - now) <= 0)
            tell = tell_start;
        else if (p->told_start && p->ended && (wait = p->end_ns - now) <= 0)
            tell = tell_end;
        if (tell) {
            pthread_mutex_unlock(&x->lock);
            tell(p);
            pthread_mutex_lock(&x->lock);
            if (tell == tell_end) {
                for (at = &x->plans; *at != p;)
                    at = &(*at)->next;
                *at = p->next;
                nccl_plan_drop(p);
            } else {
                p->told_start |= tell == tell_start;
                p->told_append = 1;
            }
            at = &x->plans; /* others may have been added meanwhile */
            due = -1;
            now = vgpu_now();
            continue;
        }
        if (wait > 0 && (due < 0 || wait < due))
            due = wait;
        at = &p->next;
    }
    return due;
}

enum { POLL_NS = 200000 };
static void sleep_on(ncclComm_t c, int64_t due)
{
    struct nccl_proxy *x = &c->proxy;
    if (due < 0 && (nccl_profiler_mask() & EV_PROXY_CTRL) && !x->sleep_event) {
        x->sleep_event = nccl_ev_proxy_ctrl(c);
        nccl_ev_state(x->sleep_event, ST_CTRL_SLEEP, NULL);
    }
    /* NCCL polls its kernel channels without pause; a sleeper would come 50 us late */
    if (due >= 0 && due < POLL_NS && nccl_profiler_mask() & EV_KERNEL_CH) {
        pthread_mutex_unlock(&x->lock);
        sched_yield();
        pthread_mutex_lock(&x->lock);
    } else if (due < 0) {
        pthread_cond_wait(&x->moved, &x->lock);
    } else {
        if (nccl_profiler_mask() & EV_KERNEL_CH)
            due -= POLL_NS;
        struct timespec ts;
        clock_gettime(CLOCK_MONOTONIC, &ts);
        int64_t t = (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec + due;
        ts.tv_sec = t / 1000000000;
        ts.tv_nsec = t % 1000000000;
        pthread_cond_timedwait(&x->moved, &x->lock, &ts);
    }
    if (x->sleep_event) {
        nccl_ev_state(x->sleep_event, ST_CTRL_WAKEUP, NULL);
        nccl_ev_stop(x->sleep_event);
        x->sleep_event = NULL;
    }
}

static void *progress(void *arg)
{
    ncclComm_t c = arg;
    struct nccl_proxy *x = &c->proxy;
    pthread_setname_np(pthread_self(), "NCCL Progress");
    pthread_mutex_lock(&x->lock);
    for (;;) {
        int64_t due = advance(x);
        if (x->stop && !x->plans)
            break;
        sleep_on(c, due);
    }
    pthread_mutex_unlock(&x->lock);
    return NULL;
}

void nccl_proxy_init(ncclComm_t c)
{
    pthread_condattr_t a;
    pthread_condattr_init(&a);
    pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
    pthread_cond_init(&c->proxy.moved, &a);
    pthread_condattr_destroy(&a);
    pthread_mutex_init(&c->proxy.lock, NULL);
}

void nccl_proxy_append(struct nccl_plan *p)
{
    struct nccl_proxy *x = &p->comm->proxy;
    pthread_mutex_lock(&x->lock);
    p->appended = 1;
    if (p->mask & NCCL_PROXY_MASK) {
        if (!x->running)
            x->running = !pthread_create(&x->thread, NULL, progress, p->comm);
        struct nccl_plan **at = &x->plans;
        while (*at)
            at = &(*at)->next;
        *at = p;
        atomic_fetch_add(&p->refs, 1);
        pthread_cond_signal(&x->moved);
    }
    pthread_mutex_unlock(&x->lock);
}

void nccl_proxy_started(struct nccl_plan *p, int64_t start_ns)
{
    struct nccl_proxy *x = &p->comm->proxy;
    pthread_mutex_lock(&x->lock);
    p->started = 1;
    p->start_ns = start_ns;
    pthread_cond_signal(&x->moved);
    pthread_mutex_unlock(&x->lock);
}

void nccl_proxy_ended(struct nccl_plan *p, int64_t end_ns)
{
    struct nccl_proxy *x = &p->comm->proxy;
    pthread_mutex_lock(&x->lock);
    p->ended = 1;
    p->end_ns = end_ns;
    pthread_cond_signal(&x->moved);
    pthread_mutex_unlock(&x->lock);
}

void nccl_proxy_stop(ncclComm_t c)
{
    struct nccl_proxy *x = &c->proxy;
    pthread_mutex_lock(&x->lock);
    x->stop = 1;
    pthread_cond_signal(&x->moved);
    int running = x->running;
    pthread_mutex_unlock(&x->lock);
    if (running)
        pthread_join(x->thread, NULL);
    pthread_mutex_destroy(&x->lock);
    pthread_cond_destroy(&x->moved);
}
