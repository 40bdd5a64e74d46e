/* The simulation. Box: merge/demo. Pure.
 *
 * Operations are taken in the order of the host's issue. A kernel starts when its call is through,
 * the operation before it on its stream has ended and so has what it waits for; all that is known
 * then, because only meetings need other ranks, and a rank is held at a meeting until all have
 * come. The host runs ahead of the GPU: holding a rank costs no time.
 */
#include "demo/sim.h"

#include "demo/random.h"

#include <stdlib.h>

static const int64_t US = 1000;
static const int64_t START = INT64_C(1000000000000);
static const int64_t T_INPUT = 800000;

/* The duration of an operation, with its noise. */
static int64_t noisy(const struct hm_demo_sim *sim, const struct hm_demo_rank *r, int64_t ns)
{
    if (sim->noise <= 0)
        return ns;
    uint64_t h = hm_demo_hash(sim->demo->seed, r->rank, r->step, r->pc);
    return ns + (int64_t)((double)ns * sim->noise * hm_demo_normal(h));
}

static int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* When an operation issued at call end `ready` may start. */
static int64_t start_of(const struct hm_demo_rank *r, const struct hm_demo_op *op, int64_t ready)
{
    int64_t t = max64(ready + 3 * US, r->stream_ns[op->stream] + US);
    for (unsigned s = 0; op->wait_streams >> s; s++)
        if (op->wait_streams >> s & 1)
            t = max64(t, r->stream_ns[s] + 2 * US);
    return op->wait_event ? max64(t, r->event_ns[op->wait_event] + 2 * US) : t;
}

static void begin_step(const struct hm_demo_sim *sim, struct hm_demo_rank *r,
                       struct hm_demo_out *out)
{
    hm_demo_effect_at(sim, r->rank, r->step, &r->now);
    r->step_t_ns = r->host_ns;
    int64_t saved = r->now.checkpoint_ns;
    r->host_ns += US + saved;
    int64_t input_t = r->host_ns;
    int64_t input = noisy(sim, r, T_INPUT) + r->now.input_ns;
    r->host_ns += input + US;
    if (out)
        hm_demo_emit_begin(out, r, r->step_t_ns, saved, input_t, input);
    r->host_ns += r->now.late_ns;
}

/* cudaFree and cudaMalloc: the device must be idle first. */
static void allocate(struct hm_demo_rank *r, struct hm_demo_out *out)
{
    int64_t sync = r->host_ns;
    for (unsigned s = 0; s < DEMO_N_STREAMS; s++)
        r->host_ns = max64(r->host_ns, r->stream_ns[s]);
    if (out)
        hm_demo_emit_alloc(out, r, sync, r->host_ns, r->now.alloc_ns);
    r->host_ns += r->now.alloc_ns + 2 * US;
}

static void kernel(const struct hm_demo_sim *sim, struct hm_demo_rank *r,
                   const struct hm_demo_op *op, struct hm_demo_out *out)
{
    int64_t call = r->host_ns, dur = noisy(sim, r, op->ns);
    if (op->kind == DEMO_OP_KERNEL) {
        double f = r->now.gpu;
        if (op->kernel == DEMO_K_FORWARD || op->kernel == DEMO_K_BACKWARD)
            f *= r->now.work;
        else if (op->kernel == DEMO_K_EXPERT)
            f *= r->now.expert;
        dur = (int64_t)((double)dur * f + 0.5);
    }
    if (op->kind == DEMO_OP_COPY) /* more work comes in larger batches */
        dur = (int64_t)((double)dur * r->now.work + 0.5);
    int64_t start = start_of(r, op, call + 5 * US);
    r->correlation++;
    r->stream_ns[op->stream] = start + dur;
    r->host_ns = call + 8 * US;
    if (!out)
        return;
    if (op->kind == DEMO_OP_COPY)
        hm_demo_emit_copy(out, r, op, call, start, dur);
    else
        hm_demo_emit_kernel(out, r, op, call, start, dur);
}

/* ---- meetings ---- */

/* Group of a meeting: for a pair of stages, numbered by the lower one. */
static uint32_t group_of(const struct hm_demo_sim *sim, const struct hm_demo_rank *r,
                         const struct hm_demo_op *op)
{
    uint32_t group = r->group[op->comm];
    if (op->comm != HM_DEMO_C_PP)
        return group;
    return group * sim->n_pairs + r->crank[HM_DEMO_C_PP] - (op->next ? 0 : 1);
}

static uint64_t meeting_of(const struct hm_demo_sim *sim, const struct hm_demo_rank *r,
                           const struct hm_demo_op *op)
{
    uint32_t n = sim->shape.n_groups[op->comm];
    if (op->comm == HM_DEMO_C_PP)
        n *= sim->n_pairs;
    return sim->first_meet[op->comm] +
           ((uint64_t)r->step * n + group_of(sim, r, op)) * sim->n_meets[op->comm] + op->meet;
}

static void arrive(struct hm_demo_rank *r, const struct hm_demo_op *op)
{
    r->call_ns = r->host_ns;
    r->start_ns = start_of(r, op, r->host_ns + 10 * US);
    r->host_ns += 17 * US;
    r->correlation++;
    r->launch++;
}

static void leave(const struct hm_demo_sim *sim, struct hm_demo_rank *r,
                  const struct hm_demo_op *op, uint64_t i_meeting, int64_t last,
                  struct hm_demo_out *out)
{
    uint64_t seed = sim->demo->seed;
    double f = hm_demo_link_factor(sim, r, op, r->step);
    if (sim->noise > 0)
        f *= 1 + sim->noise * hm_demo_normal(hm_demo_hash(seed ^ 0x3ee7, i_meeting, 0, 0));
    int64_t tail =
        sim->noise > 0 ? (int64_t)(hm_demo_hash(seed ^ 0x7a11, i_meeting, r->rank, 0) % 2000) : 0;
    int64_t end = last + (int64_t)((double)op->ns * f + 0.5) + tail;
    r->stream_ns[op->stream] = end;
    if (op->record)
        r->event_ns[op->record] = end;
    if (!out)
        return;
    hm_demo_emit_comm(out, r, op, r->call_ns, r->start_ns, end - r->start_ns);
    if (sim->demo->proxy && op->kind == DEMO_OP_COLL && op->comm != HM_DEMO_C_TP &&
        op->func != HM_NCCL_ALLTOALL)
        hm_demo_emit_proxy(out, r, op, last, end - last);
}

static void end_step(struct hm_demo_sim *sim, struct hm_demo_rank *r, struct hm_demo_out *out)
{
    if (out)
        hm_demo_emit_end(out, r);
    else if (r->host_ns > sim->step_end_ns[r->step])
        sim->step_end_ns[r->step] = r->host_ns;
    r->host_ns += 2 * US;
    r->step++;
    r->done = r->step == sim->demo->n_steps;
}

static void synchronize(struct hm_demo_rank *r, struct hm_demo_out *out)
{
    int64_t t = r->host_ns;
    r->correlation++;
    r->host_ns = max64(t, r->stream_ns[DEMO_ST_COMPUTE]) + 10 * US;
    if (out)
        hm_demo_emit_sync(out, r, t, r->host_ns - US - t);
}

/* One operation that needs nobody else. */
static void alone(struct hm_demo_sim *sim, struct hm_demo_rank *r, const struct hm_demo_op *op,
                  struct hm_demo_out *out)
{
    uint32_t every = sim->demo->sync_every ? sim->demo->sync_every : 1;
    switch (op->kind) {
    case DEMO_OP_BEGIN:
        begin_step(sim, r, out);
        break;
    case DEMO_OP_COPY:
    case DEMO_OP_KERNEL:
        kernel(sim, r, op, out);
        break;
    case DEMO_OP_SYNC:
        if ((r->step + 1) % every == 0 || r->step + 1 == sim->demo->n_steps)
            synchronize(r, out);
        break;
    case DEMO_OP_END:
        end_step(sim, r, out);
        break;
    default:
        break;
    }
}

static void next_op(const struct hm_demo_sim *sim, struct hm_demo_rank *r)
{
    r->pc = r->pc + 1 < sim->program[r->stage].n ? r->pc + 1 : 0;
}

/* Up to the next meeting. Returns the operation of the meeting, NULL = finished or dead. */
static const struct hm_demo_op *run(struct hm_demo_sim *sim, struct hm_demo_rank *r,
                                    struct hm_demo_out *out)
{
    const struct hm_demo_program *p = &sim->program[r->stage];
    while (!r->done && !r->dead) {
        const struct hm_demo_op *op = &p->op[r->pc];
        if (r->pc == r->now.pause_pc && r->pc)
            r->host_ns += r->now.pause_ns;
        if (r->pc == r->now.alloc_pc && r->pc)
            allocate(r, out);
        if (op->kind == DEMO_OP_COLL || op->kind == DEMO_OP_P2P) {
            if (r->now.dies) {
                r->dead = 1;
                return NULL;
            }
            arrive(r, op);
            return op;
        }
        alone(sim, r, op, out);
        next_op(sim, r);
    }
    return NULL;
}

static void rank_init(const struct hm_demo_sim *sim, uint32_t rank, struct hm_demo_rank *r)
{
    *r = (struct hm_demo_rank){.rank = rank};
    r->stage = hm_demo_coord(&sim->shape, rank, HM_DEMO_PP);
    r->host_ns = START + (int64_t)(hm_demo_mix(sim->demo->seed ^ rank) % 300000);
    for (unsigned s = 0; s < DEMO_N_STREAMS; s++)
        r->stream_ns[s] = r->host_ns;
    for (unsigned c = 0; c < HM_DEMO_N_COMMS; c++)
        r->group[c] = hm_demo_group(&sim->shape, (enum hm_demo_comm)c, rank, &r->crank[c]);
    r->now.pause_pc = r->now.alloc_pc = UINT32_MAX;
}

/* All ranks: a queue of those that can go on. */
static void run_all(struct hm_demo_sim *sim)
{
    uint32_t n = sim->demo->n_ranks, n_queued = 0;
    for (uint32_t i = n; i--;) {
        rank_init(sim, i, &sim->rank[i]);
        sim->queue[n_queued++] = i;
    }
    while (n_queued) {
        struct hm_demo_rank *r = &sim->rank[sim->queue[--n_queued]];
        const struct hm_demo_op *op = run(sim, r, NULL);
        if (r->host_ns > sim->stuck_ns)
            sim->stuck_ns = r->host_ns;
        if (!op)
            continue;
        uint64_t i_meeting = meeting_of(sim, r, op);
        struct hm_demo_meeting *m = &sim->meeting[i_meeting];
        uint32_t members = op->kind == DEMO_OP_P2P ? 2 : sim->shape.n_members[op->comm];
        if (!m->n_here++ || r->start_ns > m->last_ns)
            m->last_ns = r->start_ns;
        sim->next_waiting[r->rank] = m->waiting;
        m->waiting = r->rank + 1;
        if (m->n_here < members)
            continue;
        for (uint32_t w = m->waiting; w; w = sim->next_waiting[w - 1]) {
            struct hm_demo_rank *x = &sim->rank[w - 1];
            leave(sim, x, &sim->program[x->stage].op[x->pc], i_meeting, m->last_ns, NULL);
            next_op(sim, x);
            sim->queue[n_queued++] = w - 1;
        }
    }
    for (uint32_t i = 0; i < n; i++)
        sim->n_stuck += !sim->rank[i].done;
}

static hm_status_t prepare(struct hm_demo_sim *sim)
{
    const struct hm_demo *d = sim->demo;
    uint32_t n_stages = sim->shape.size[HM_DEMO_PP];
    sim->n_pairs = n_stages > 1 ? n_stages - 1 : 1;
    sim->program = calloc(n_stages, sizeof(*sim->program));
    for (uint32_t s = 0; s < n_stages && sim->program; s++) {
        if (hm_demo_program(d, &sim->shape, s, &sim->program[s]))
            return HM_E_NOMEM;
        for (unsigned c = 0; c < HM_DEMO_N_COMMS; c++)
            if (sim->program[s].n_meets[c] > sim->n_meets[c])
                sim->n_meets[c] = sim->program[s].n_meets[c];
    }
    for (unsigned c = 0; c < HM_DEMO_N_COMMS; c++) {
        uint64_t groups = sim->shape.n_groups[c];
        sim->first_meet[c] = sim->n_meetings;
        sim->n_meetings +=
            groups * (c == HM_DEMO_C_PP ? sim->n_pairs : 1) * sim->n_meets[c] * d->n_steps;
    }
    sim->meeting = calloc(sim->n_meetings + 1, sizeof(*sim->meeting));
    sim->step_end_ns = malloc(d->n_steps * sizeof(*sim->step_end_ns));
    sim->rank = calloc(d->n_ranks, sizeof(*sim->rank));
    sim->next_waiting = calloc(d->n_ranks, sizeof(*sim->next_waiting));
    sim->queue = calloc(d->n_ranks, sizeof(*sim->queue));
    if (!sim->program || !sim->meeting || !sim->step_end_ns || !sim->rank || !sim->next_waiting ||
        !sim->queue)
        return hm_fail(HM_E_NOMEM, "demo", "out of memory");
    for (uint32_t i = 0; i < d->n_steps; i++)
        sim->step_end_ns[i] = INT64_MIN;
    return HM_OK;
}

hm_status_t hm_demo_sim_run(const struct hm_demo *d, uint32_t repaired, int quiet,
                            struct hm_demo_sim *sim_p)
{
    struct hm_demo_sim sim = {.demo = d, .repaired = repaired};
    sim.noise = quiet || d->noise < 0 ? 0 : d->noise > 0 ? d->noise : 0.001;
    hm_demo_shape(d, &sim.shape);
    hm_status_t s = prepare(&sim);
    if (!s)
        run_all(&sim);
    free(sim.rank);
    free(sim.next_waiting);
    free(sim.queue);
    sim.rank = NULL;
    sim.next_waiting = sim.queue = NULL;
    for (uint64_t i = 0; !s && sim.n_stuck && i < sim.n_meetings; i++)
        if (!sim.meeting[i].n_here)
            sim.meeting[i].last_ns = INT64_MIN;
    if (s)
        hm_demo_sim_fini(&sim);
    else
        *sim_p = sim;
    return s;
}

void hm_demo_sim_fini(struct hm_demo_sim *sim)
{
    for (uint32_t s = 0; sim->program && s < sim->shape.size[HM_DEMO_PP]; s++)
        free(sim->program[s].op);
    free(sim->program);
    free(sim->meeting);
    free(sim->step_end_ns);
    sim->program = NULL;
    sim->meeting = NULL;
    sim->step_end_ns = NULL;
}

int64_t hm_demo_sim_total(const struct hm_demo_sim *sim)
{
    uint32_t n = sim->demo->n_steps;
    while (n > 1 && sim->step_end_ns[n - 1] == INT64_MIN) /* steps that nobody finished */
        n--;
    return n > 1 ? sim->step_end_ns[n - 1] - sim->step_end_ns[0] : 0;
}

hm_status_t hm_demo_sim_rank(const struct hm_demo_sim *sim, uint32_t rank, hm_demo_give_t give,
                             void *ctx, uint64_t *n_lost_p, int *stuck_p)
{
    struct hm_demo_sim one = *sim; /* run() writes step ends only without `out` */
    struct hm_demo_out out = {.give = give, .ctx = ctx, .sim = sim};
    struct hm_demo_rank r;
    const struct hm_demo_op *op;
    rank_init(&one, rank, &r);
    out.n_lost_a_step = 2 * sim->program[r.stage].n; /* a call and what it started */
    while (!out.status && (op = run(&one, &r, &out))) {
        uint64_t i_meeting = meeting_of(&one, &r, op);
        const struct hm_demo_meeting *m = &one.meeting[i_meeting];
        uint32_t members = op->kind == DEMO_OP_P2P ? 2 : one.shape.n_members[op->comm];
        if (m->n_here < members) {
            hm_demo_emit_comm(&out, &r, op, r.call_ns, r.start_ns, HM_DUR_OPEN);
            break;
        }
        leave(&one, &r, op, i_meeting, m->last_ns, &out);
        next_op(&one, &r);
    }
    *n_lost_p = out.n_lost;
    *stuck_p = !r.done && !r.dead;
    return out.status;
}
