/* A plan on its stream: meets the peers, moves and reduces the data, reports the modelled end.
 *
 * Box: tests/vgpu. Thread: the stream's (nccl_plan_run, nccl_plan_done), application (the model).
 * Time: an operation ends at max over ranks of its modelled starts + latency + bytes on a link /
 * link speed, the same number on every rank. VGPU_LINK_GBPS (GB/s, 50) and VGPU_LINK_LATENCY_US
 * (10) must be the same in all processes. Ring volumes: all-reduce 2 (n-1)/n of the buffer,
 * all-gather and reduce-scatter (n-1)/n of the large one, broadcast, reduce and P2P all of it.
 */
#include "nccl_inside.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double setting(const char *name, double usual)
{
    const char *s = getenv(name);
    double v = s ? atof(s) : usual;
    return v > 0 ? v : usual;
}

static int64_t cost_ns(uint64_t wire)
{
    if (!vgpu_paced())
        return 0;
    double gbps = setting("VGPU_LINK_GBPS", 50);
    double latency = setting("VGPU_LINK_LATENCY_US", 10) * 1e3;
    return (int64_t)llround(latency + (double)wire / gbps);
}

/* Sizes, and the choice of algorithm: a rule of thumb, only meant to be plausible. */
void nccl_task_model(struct nccl_task *t)
{
    uint64_t n = (uint64_t)t->comm->n_ranks, one = t->count * nccl_type_bytes(t->dtype);
    int wide = t->func == FUNC_ALL_GATHER || t->func == FUNC_REDUCE_SCATTER;
    t->bytes = wide ? n * one : one;
    t->wire = t->bytes;
    if (wide)
        t->wire = t->bytes / n * (n - 1);
    else if (t->func == FUNC_ALL_REDUCE)
        t->wire = (uint64_t)((double)t->bytes * 2.0 * (double)(n - 1) / (double)n);
    t->n_channels = t->bytes < (64u << 10) ? 1 : t->bytes < (1u << 20) ? 2 : 4;
    t->n_warps = t->bytes < (64u << 10) ? 8 : 16;
    t->algo = "RING";
    t->proto = t->bytes < (64u << 10) ? "LL" : t->bytes < (1u << 20) ? "LL128" : "SIMPLE";
}

/* The name NCCL gives the kernel of the plan's first task, mangled. */
void nccl_plan_kernel(const struct nccl_plan *p, struct vgpu_op *op, char *name, size_t cap)
{
    static const char *const ops[] = {"Sum", "Prod", "MinMax", "MinMax", "SumPostDiv"};
    static const char *const types[] = {"u8",  "u8",  "u32", "u32",  "u64",    "u64",
                                        "f16", "f32", "f64", "bf16", "f8e4m3", "f8e5m2"};
    const struct nccl_task *t = &p->task[0];
    char plain[96];
    uint32_t channels = 0, warps = 0;
    for (size_t i = 0; i < p->n_tasks; i++) {
        if (p->task[i].n_channels > channels)
            channels = p->task[i].n_channels;
        if (p->task[i].n_warps > warps)
            warps = p->task[i].n_warps;
    }
    int reduces =
        t->func == FUNC_ALL_REDUCE || t->func == FUNC_REDUCE || t->func == FUNC_REDUCE_SCATTER;
    int is_int = t->dtype < ncclFloat16;
    if (t->func == FUNC_SEND || t->func == FUNC_RECV)
        snprintf(plain, sizeof plain, "ncclDevKernel_SendRecv");
    else if (reduces)
        snprintf(plain, sizeof plain, "ncclDevKernel_%s_%s_%s_RING_LL", nccl_func_name[t->func],
                 t->op == ncclAvg && !is_int ? "PreMulSum" : ops[t->op], types[t->dtype]);
    else
        snprintf(plain, sizeof plain, "ncclDevKernel_%s_RING_LL", nccl_func_name[t->func]);
    snprintf(name, cap, "_Z%zu%s24ncclDevKernelArgsStorageILm4096EE", strlen(plain), plain);
    op->name = name;
    op->grid[0] = channels;
    op->grid[1] = op->grid[2] = op->block[1] = op->block[2] = 1;
    op->block[0] = warps * 32;
}

/* One staging turn: `fill` puts this rank's bytes into its slot, then all meet. */
static ncclResult_t turn_meet(ncclComm_t c, struct nccl_task *t, int64_t t0, int64_t *latest_p)
{
    uint32_t at = c->turn & 1;
    struct nccl_seat *me = &c->room->seat[c->rank];
    me->post[at].start_ns = t0;
    uint64_t what = (uint64_t)t->func | (uint64_t)t->dtype << 8 | (uint64_t)t->op << 16 |
                    (uint64_t)(uint32_t)t->root << 24;
    me->post[at].signature = what ^ t->count * 0x9e3779b97f4a7c15u;
    ncclResult_t rc = nccl_room_meet(c, &c->room->stream);
    for (int r = 0; r < c->n_ranks && !rc; r++) {
        const struct nccl_seat *s = &c->room->seat[r];
        if (s->post[at].signature != me->post[at].signature)
            return nccl_fail(c, ncclInvalidUsage, "ranks %d and %d call different collectives (%s)",
                             c->rank, r, nccl_func_name[t->func]);
        if (s->post[at].start_ns > *latest_p)
            *latest_p = s->post[at].start_ns;
    }
    return rc;
}

static void reduce_slots(ncclComm_t c, const struct nccl_task *t, size_t first, size_t n, void *out)
{
    const void *in[NCCL_MAX_RANKS];
    size_t size = nccl_type_bytes(t->dtype);
    for (int r = 0; r < c->n_ranks; r++)
        in[r] = nccl_slot(c, c->turn, r) + first * size;
    nccl_reduce(out, in, c->n_ranks, n, t->dtype, t->op);
}

/* All-reduce and reduce: rank r reduces the r-th slice of the chunk into slot 0, then all copy. */
static ncclResult_t run_reduce(ncclComm_t c, struct nccl_task *t, int64_t t0, int64_t *latest_p)
{
    size_t size = nccl_type_bytes(t->dtype), cap = c->slot_bytes / size,
           n_ranks = (size_t)c->n_ranks;
    for (size_t at = 0; at < t->count; at += cap) {
        size_t n = t->count - at < cap ? t->count - at : cap;
        memcpy(nccl_slot(c, c->turn, c->rank), (const uint8_t *)t->send + at * size, n * size);
        ncclResult_t rc = turn_meet(c, t, t0, latest_p);
        if (rc)
            return rc;
        size_t lo = n * (size_t)c->rank / n_ranks, hi = n * ((size_t)c->rank + 1) / n_ranks;
        reduce_slots(c, t, lo, hi - lo, nccl_slot(c, c->turn, 0) + lo * size);
        rc = nccl_room_meet(c, &c->room->stream);
        if (rc)
            return rc;
        if (t->func == FUNC_ALL_REDUCE || t->root == c->rank)
            memcpy((uint8_t *)t->recv + at * size, nccl_slot(c, c->turn, 0), n * size);
        c->turn++;
    }
    return ncclSuccess;
}

static ncclResult_t run_reduce_scatter(ncclComm_t c, struct nccl_task *t, int64_t t0,
                                       int64_t *latest_p)
{
    size_t size = nccl_type_bytes(t->dtype), n_ranks = (size_t)c->n_ranks;
    size_t cap = c->slot_bytes / n_ranks / size;
    for (size_t at = 0; at < t->count; at += cap) {
        size_t n = t->count - at < cap ? t->count - at : cap;
        for (size_t r = 0; r < n_ranks; r++)
            memcpy(nccl_slot(c, c->turn, c->rank) + r * n * size,
                   (const uint8_t *)t->send + (r * t->count + at) * size, n * size);
        ncclResult_t rc = turn_meet(c, t, t0, latest_p);
        if (rc)
            return rc;
        reduce_slots(c, t, (size_t)c->rank * n, n, (uint8_t *)t->recv + at * size);
        c->turn++;
    }
    return ncclSuccess;
}

static ncclResult_t run_copy(ncclComm_t c, struct nccl_task *t, int64_t t0, int64_t *latest_p)
{
    size_t total = t->count * nccl_type_bytes(t->dtype), cap = c->slot_bytes;
    int gather = t->func == FUNC_ALL_GATHER;
    for (size_t at = 0; at < total; at += cap) {
        size_t n = total - at < cap ? total - at : cap;
        if (gather || t->root == c->rank)
            memcpy(nccl_slot(c, c->turn, c->rank), (const uint8_t *)t->send + at, n);
        ncclResult_t rc = turn_meet(c, t, t0, latest_p);
        if (rc)
            return rc;
        for (int r = 0; r < c->n_ranks && gather; r++)
            memcpy((uint8_t *)t->recv + (size_t)r * total + at, nccl_slot(c, c->turn, r), n);
        if (!gather)
            memcpy((uint8_t *)t->recv + at, nccl_slot(c, c->turn, t->root), n);
        c->turn++;
    }
    return ncclSuccess;
}

static ncclResult_t run_collective(struct nccl_task *t, int64_t t0)
{
    ncclComm_t c = t->comm;
    int64_t latest = t0;
    ncclResult_t rc;
    if (t->func == FUNC_ALL_REDUCE || t->func == FUNC_REDUCE)
        rc = run_reduce(c, t, t0, &latest);
    else if (t->func == FUNC_REDUCE_SCATTER)
        rc = run_reduce_scatter(c, t, t0, &latest);
    else
        rc = run_copy(c, t, t0, &latest);
    t->end_ns = latest + cost_ns(t->wire);
    return rc;
}

/* ---- send and receive ---- */

/* First of its kind to its peer among the unfinished: those behind it wait. */
static int is_first(const struct nccl_plan *p, size_t i)
{
    for (size_t j = 0; j < i; j++)
        if (!p->task[j].finished && p->task[j].func == p->task[i].func &&
            p->task[j].root == p->task[i].root)
            return 0;
    return 1;
}

static int progress_send(ncclComm_t c, struct nccl_task *t)
{
    struct nccl_box *b = nccl_box(c, c->rank, t->root);
    uint8_t *data = (uint8_t *)(b + 1);
    uint32_t k = c->n_sent[t->root];
    int moved = 0;
    if (!t->posted) {
        b->send_start[k & 1] = t->start_ns;
        b->bytes[k & 1] = t->bytes;
        atomic_store(&b->sent, k + 1);
        t->posted = 1;
        moved = 1;
    }
    uint32_t w = atomic_load(&b->written);
    while (t->moved < t->bytes && w - atomic_load(&b->read) < 2) {
        uint64_t left = t->bytes - t->moved, n = left < c->chunk_bytes ? left : c->chunk_bytes;
        memcpy(data + (w & 1) * c->chunk_bytes, (const uint8_t *)t->send + t->moved, n);
        t->moved += n;
        atomic_store(&b->written, ++w);
        moved = 1;
    }
    if (moved)
        nccl_room_ring(c, t->root);
    if (t->moved == t->bytes && (int32_t)(atomic_load(&b->received) - k) > 0) {
        int64_t other = b->recv_start[k & 1];
        t->end_ns = (other > t->start_ns ? other : t->start_ns) + cost_ns(t->wire);
        c->n_sent[t->root]++;
        t->finished = 1;
        moved = 1;
    }
    return moved;
}

static int progress_recv(ncclComm_t c, struct nccl_task *t, ncclResult_t *rc_p)
{
    struct nccl_box *b = nccl_box(c, t->root, c->rank);
    const uint8_t *data = (const uint8_t *)(b + 1);
    uint32_t k = c->n_received[t->root];
    int moved = 0;
    if (!t->posted) {
        b->recv_start[k & 1] = t->start_ns;
        atomic_store(&b->received, k + 1);
        t->posted = 1;
        moved = 1;
    }
    if ((int32_t)(atomic_load(&b->sent) - k) > 0) {
        if (b->bytes[k & 1] != t->bytes) {
            *rc_p = nccl_fail(c, ncclInvalidUsage, "rank %d sends %llu bytes, rank %d expects %llu",
                              t->root, (unsigned long long)b->bytes[k & 1], c->rank,
                              (unsigned long long)t->bytes);
            return 1;
        }
        uint32_t r = atomic_load(&b->read);
        while (t->moved < t->bytes && r != atomic_load(&b->written)) {
            uint64_t left = t->bytes - t->moved, n = left < c->chunk_bytes ? left : c->chunk_bytes;
            memcpy((uint8_t *)t->recv + t->moved, data + (r & 1) * c->chunk_bytes, n);
            t->moved += n;
            atomic_store(&b->read, ++r);
            moved = 1;
        }
        if (t->moved == t->bytes) {
            int64_t other = b->send_start[k & 1];
            t->end_ns = (other > t->start_ns ? other : t->start_ns) + cost_ns(t->wire);
            c->n_received[t->root]++;
            t->finished = 1;
            moved = 1;
        }
    }
    if (moved)
        nccl_room_ring(c, t->root);
    return moved;
}

/* Sends to oneself: the k-th send pairs with the k-th receive of the plan. */
static void run_self(struct nccl_plan *p)
{
    size_t r = 0;
    for (size_t s = 0; s < p->n_tasks; s++) {
        struct nccl_task *t = &p->task[s];
        if (t->func != FUNC_SEND || t->root != p->comm->rank)
            continue;
        while (r < p->n_tasks && (p->task[r].func != FUNC_RECV || p->task[r].root != t->root))
            r++;
        if (r < p->n_tasks) {
            memmove(p->task[r].recv, t->send, t->bytes);
            p->task[r++].finished = 1;
        }
        t->finished = 1;
    }
}

static ncclResult_t run_p2p(struct nccl_plan *p, size_t first)
{
    ncclComm_t c = p->comm;
    ncclResult_t rc = ncclSuccess;
    run_self(p);
    while (!rc) {
        uint8_t need[NCCL_MAX_RANKS] = {0};
        uint32_t seen = atomic_load(&c->room->seat[c->rank].bell);
        int open = 0, moved = 0;
        for (size_t i = first; i < p->n_tasks && !rc; i++) {
            struct nccl_task *t = &p->task[i];
            if (t->finished || !is_first(p, i))
                continue;
            moved |= t->func == FUNC_SEND ? progress_send(c, t) : progress_recv(c, t, &rc);
            open |= !t->finished;
            need[t->root] |= !t->finished;
        }
        if (rc || (!open && !moved))
            break;
        if (!moved)
            rc = nccl_room_wait(c, &c->room->seat[c->rank].bell, seen, need);
    }
    return rc;
}

/* ---- the plan ---- */

static ncclResult_t run_tasks(struct nccl_plan *p, int64_t start_ns, int64_t *end_p)
{
    int64_t at = start_ns;
    size_t i = 0;
    for (; i < p->n_tasks && p->task[i].func < FUNC_SEND; i++) {
        p->task[i].start_ns = at;
        ncclResult_t rc = run_collective(&p->task[i], at);
        if (rc)
            return rc;
        at = p->task[i].end_ns;
    }
    for (size_t j = i; j < p->n_tasks; j++) {
        p->task[j].start_ns = p->task[j].end_ns = at;
        p->task[j].moved = 0;
    }
    ncclResult_t rc = i < p->n_tasks ? run_p2p(p, i) : ncclSuccess;
    for (size_t j = i; j < p->n_tasks; j++)
        if (p->task[j].end_ns > at)
            at = p->task[j].end_ns;
    *end_p = at;
    return rc;
}

int64_t nccl_plan_run(void *plan, int64_t start_ns)
{
    struct nccl_plan *p = plan;
    ncclComm_t c = p->comm;
    int64_t end_ns = start_ns;
    /* Plans of a communicator go one after another, also when they sit on two streams. */
    pthread_mutex_lock(&c->lock);
    while (c->n_ran != p->index)
        pthread_cond_wait(&c->ran, &c->lock);
    pthread_mutex_unlock(&c->lock);
    nccl_proxy_started(p, start_ns);
    ncclResult_t rc = atomic_load(&c->error) ? ncclRemoteError : run_tasks(p, start_ns, &end_ns);
    int none = 0;
    if (rc)
        atomic_compare_exchange_strong(&c->error, &none, (int)rc);
    for (size_t i = 0; i < p->n_tasks && !rc; i++)
        nccl_truth(&p->task[i], p->index);
    nccl_proxy_ended(p, end_ns);
    pthread_mutex_lock(&c->lock);
    c->n_ran = p->index + 1;
    pthread_cond_broadcast(&c->ran);
    pthread_mutex_unlock(&c->lock); /* from here on the communicator may be freed */
    return end_ns;
}

void nccl_plan_done(void *plan)
{
    nccl_plan_drop(plan);
}

void nccl_plan_drop(struct nccl_plan *p)
{
    if (atomic_fetch_sub(&p->refs, 1) != 1)
        return;
    free(p->task);
    free(p->proxy_op);
    free(p->kernel_ch);
    free(p);
}
