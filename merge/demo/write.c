/* The demo's run folder.
 *
 * Box: merge/demo. Two passes: all ranks together for the instants at which they meet, then rank by
 * rank with those, one file open at a time. Every rank is written through the same calls as the
 * recorder's writer makes.
 */
#include "demo/clock.h"
#include "demo/define.h"
#include "demo/truthfile.h"
#include "store/rankfile.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { BATCH = 1024 };
static const int64_t REAL_START = INT64_C(1767225600000000000); /* 2026-01-01, any day will do */

struct sink {
    struct hm_rankfile *rf;
    const struct hm_demo_sim *sim;
    uint32_t rank;
    int identity; /* the rank's clock is the simulation's */
    uint32_t n;
    struct hm_event ev[BATCH];
};

static hm_status_t put(void *ctx, const struct hm_event *ev)
{
    struct sink *s = ctx;
    s->ev[s->n++] = *ev;
    if (s->n < BATCH)
        return HM_OK;
    s->n = 0;
    return hm_rankfile_append(s->rf, s->ev, BATCH);
}

/* An event in the simulation's time. */
static hm_status_t out(void *ctx, const struct hm_event *ev)
{
    struct sink *s = ctx;
    if (s->identity)
        return put(ctx, ev);
    struct hm_event own = *ev;
    own.t_ns = hm_demo_clock(s->sim, s->rank, ev->t_ns);
    if (ev->dur_ns != HM_DUR_OPEN)
        own.dur_ns = hm_demo_clock(s->sim, s->rank, ev->t_ns + ev->dur_ns) - own.t_ns;
    return put(ctx, &own);
}

static int has_kind(const struct hm_demo *d, enum hm_demo_kind kind, uint32_t rank)
{
    for (uint32_t i = 0; i < d->n_faults; i++)
        if (d->fault[i].kind == kind && d->fault[i].rank == rank)
            return 1;
    return 0;
}

static int any_clock(const struct hm_demo *d)
{
    for (uint32_t i = 0; i < d->n_faults; i++)
        if (d->fault[i].kind == HM_DEMO_CLOCK_OFFSET || d->fault[i].kind == HM_DEMO_CLOCK_DRIFT)
            return 1;
    return d->clocks != HM_DEMO_ONE_CLOCK;
}

static void facts(const struct hm_demo_sim *sim, uint32_t rank, uint32_t attempt,
                  struct hm_rank_meta *m)
{
    const struct hm_demo *d = sim->demo;
    uint32_t node = d->node_ranks ? d->node_ranks : 8;
    int own_clock = d->clocks != HM_DEMO_ONE_CLOCK, leads = own_clock && rank % node == 0;
    int64_t start = sim->step_end_ns[0] == INT64_MIN ? sim->stuck_ns : sim->step_end_ns[0];
    *m = (struct hm_rank_meta){.rank = (int32_t)rank,
                               .n_ranks = (int32_t)d->n_ranks,
                               .local_rank = (int32_t)(rank % node),
                               .pid = (int32_t)(1000 + rank + attempt * 100000),
                               .nonce = d->seed + attempt,
                               .source = HM_SOURCE_DEMO,
                               .domain_leader = (uint32_t)leads};
    m->leader_index = leads ? rank / node : own_clock ? HM_NO_ID : 0;
    m->start_raw_ns = hm_demo_clock(sim, rank, start - 1000000000);
    m->start_real_ns = REAL_START + attempt * INT64_C(600000000000);
    snprintf(m->host, sizeof(m->host), "demo%02u", rank / node);
    if (own_clock)
        snprintf(m->boot_id, sizeof(m->boot_id), "demo%02u", rank / node);
    else
        snprintf(m->boot_id, sizeof(m->boot_id), "demo");
    snprintf(m->run_id, sizeof(m->run_id), "demo-%" PRIu64, d->seed);
    snprintf(m->program, sizeof(m->program), "hindmost demo");
}

/* Writers note the time once in a while, also when the job stands still. */
static hm_status_t heartbeat(struct sink *s)
{
    struct hm_event ev = {.t_ns = s->sim->stuck_ns + INT64_C(120000000000),
                          .kind = HM_EV_CLOCK_SNAPSHOT};
    return out(s, &ev);
}

static hm_status_t write_rank(const struct hm_demo_sim *sim, uint32_t rank, uint32_t attempt,
                              int cut, const char *dir)
{
    const struct hm_demo *d = sim->demo;
    struct hm_rank_meta meta;
    uint64_t lost[HM_N_LOST] = {0}, n_lost = 0;
    int stuck = 0;
    struct sink *sink = calloc(1, sizeof(*sink));
    if (!sink)
        return hm_fail(HM_E_NOMEM, "demo", "out of memory");
    sink->sim = sim;
    sink->rank = rank;
    sink->identity = !any_clock(d);
    facts(sim, rank, attempt, &meta);
    hm_status_t s = hm_rankfile_create(dir, &meta, &sink->rf);
    if (s) {
        free(sink);
        return s;
    }
    s = hm_demo_define(sink->rf, sim, rank);
    if (!s && d->clocks == HM_DEMO_PROBED && meta.domain_leader && rank)
        s = hm_demo_probes(sim, rank, put, sink);
    if (!s)
        s = hm_demo_sim_rank(sim, rank, out, sink, &n_lost, &stuck);
    if (!s && stuck)
        s = heartbeat(sink);
    if (!s && sink->n)
        s = hm_rankfile_append(sink->rf, sink->ev, sink->n);
    lost[HM_LOST_POOL_FULL] = n_lost;
    if (!s && n_lost)
        s = hm_rankfile_lost(sink->rf, lost);
    if (s)
        hm_rankfile_discard(sink->rf);
    else
        s = hm_rankfile_close(sink->rf, stuck                                    ? HM_END_TERM
                                        : cut || has_kind(d, HM_DEMO_HANG, rank) ? HM_END_DIED
                                                                                 : HM_END_CLEAN);
    free(sink);
    return s;
}

static hm_status_t write_ranks(const struct hm_demo *d, uint32_t attempt, int cut, const char *dir)
{
    struct hm_demo_sim sim;
    hm_status_t s = hm_demo_sim_run(d, 0, 0, &sim);
    if (s)
        return s;
    for (uint32_t i = 0; i < d->n_ranks && !s; i++)
        if ((!d->one_only || i == d->only) && !has_kind(d, HM_DEMO_MISSING, i))
            s = write_rank(&sim, i, attempt, cut, dir);
    hm_demo_sim_fini(&sim);
    return s;
}

hm_status_t hm_demo_write(const struct hm_demo *d, const char *dir)
{
    hm_status_t s = hm_demo_check(d);
    if (s)
        return s;
    if (mkdir(dir, 0755)) {
        if (errno == EEXIST)
            return hm_fail(HM_E_DATA, dir, "exists already; name a new folder");
        return hm_fail(HM_E_IO, dir, "cannot be made: %s", strerror(errno));
    }
    if (d->restart_step) { /* the attempt before: the same job, cut short */
        struct hm_demo before = *d;
        before.n_steps = d->restart_step;
        s = write_ranks(&before, 0, 1, dir);
    }
    if (!s)
        s = write_ranks(d, d->restart_step ? 1 : 0, 0, dir);
    return s ? s : hm_demo_truth_write(d, dir);
}
