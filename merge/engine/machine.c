/* See machine.h. Thread: the team member's. */
#include "engine/machine.h"

#include "engine/phases.h"

#include <stdlib.h>
#include <string.h>

hm_status_t hm_machine_begin(struct hm_machine *m, struct hm_engine *e, struct hm_rank *rank,
                             uint32_t worker)
{
    const struct hm_step_window *w = e->more->window[worker];
    size_t n = e->more->n_windows[worker];
    memset(m, 0, sizeof(*m));
    m->e = e;
    m->rank = rank;
    m->worker = worker;
    m->health.t0_ns = n ? w[0].t0_ns : INT64_MIN;
    m->health.t1_ns = n ? w[n - 1].t1_ns : INT64_MAX;
    return hm_network_create(worker, &m->network);
}

/* The communicator's key and the worker of a rank in it; HM_NO_ID = not in this run. */
static uint32_t peer_of(const struct hm_machine *m, uint32_t comm, int32_t crank, uint64_t *key_p)
{
    const struct hm_run *run = &m->e->run;
    uint32_t len;
    const struct hm_def_comm *c = hm_rank_def(m->rank, HM_DEF_COMM, comm, &len);
    *key_p = 0;
    if (!c || len != sizeof(*c))
        return HM_NO_ID;
    *key_p = hm_comm_key(c->hash, c->nth);
    for (uint32_t i = 0; i < run->n_comms; i++)
        if (run->comm[i].key == *key_p)
            return crank >= 0 && (uint32_t)crank < run->comm[i].n_ranks && run->comm[i].worker
                       ? run->comm[i].worker[crank]
                       : HM_NO_ID;
    return HM_NO_ID;
}

int hm_machine_event(struct hm_machine *m, const struct hm_event *ev)
{
    const struct hm_run *run = &m->e->run;
    uint64_t key;
    switch (ev->kind) {
    case HM_EV_COUNTER:
        if (!strcmp(hm_run_string(run, ev->u.counter.domain), "health") && !ev->u.counter.is_float)
            hm_health_event(&m->health, hm_run_string(run, ev->u.counter.name), ev);
        return 1;
    case HM_EV_PROXY_OP: {
        uint32_t to = peer_of(m, ev->u.proxy_op.comm, ev->u.proxy_op.peer, &key);
        hm_network_op(m->network, ev, key, to);
        return 1;
    }
    case HM_EV_PROXY_STEP:
        hm_network_step(m->network, ev, m->health.t0_ns, m->health.t1_ns);
        return 1;
    default:
        return 0;
    }
}

static void find_uuid(const struct hm_machine *m, uint8_t uuid_p[16])
{
    for (uint32_t id = 0; id < hm_rank_n_defs(m->rank, HM_DEF_DEVICE); id++) {
        uint32_t len;
        const struct hm_def_device *def = hm_rank_def(m->rank, HM_DEF_DEVICE, id, &len);
        if (def && len == sizeof(*def) && def->device == m->e->run.worker[m->worker].device)
            memcpy(uuid_p, def->uuid, sizeof(def->uuid));
    }
}

hm_status_t hm_machine_end(struct hm_machine *m)
{
    struct hm_engine_more *more = m->e->more;
    size_t n;
    const struct hm_link_sum *link = hm_network_links(m->network, &n);
    hm_status_t s = HM_OK;
    hm_health_end(&m->health, &more->health[m->worker].sum);
    find_uuid(m, more->health[m->worker].uuid);
    if (n) {
        struct hm_link_sum *all = realloc(more->link, (more->n_links + n) * sizeof(*all));
        if (all) {
            memcpy(all + more->n_links, link, n * sizeof(*all));
            more->link = all;
            more->n_links += n;
        } else {
            s = hm_fail(HM_E_NOMEM, "account", "out of memory");
        }
    }
    hm_network_destroy(m->network);
    return s;
}
