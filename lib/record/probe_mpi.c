/* Clock windows over MPI: domains, leaders, and the exchange of four time stamps.
 *
 * Box: lib/record. The thread in MPI_Init or MPI_Finalize. Each edge of the leaders' graph is
 * served by both ends in the same order on all leaders (ascending by lower, then higher index), so
 * that no cycle of waiting can arise. The higher index asks and keeps; nothing is corrected here.
 * Source: facts on clocks, section 3; Cristian 1989 for the interval [t3 - t4, t2 - t1].
 */
#include "core/probe.h"
#include "record/mpi.h"

#include <stdlib.h>
#include <string.h>

enum { N_PROBES = 64, N_WARM = 4, N_KEPT = 8, TAG = 4711, TRANSPORT_MPI = 1 };

static uint64_t hash(uint64_t h, const char *text)
{
    for (; *text; text++)
        h = (h ^ (uint8_t)*text) * UINT64_C(1099511628211);
    return h;
}

hm_status_t hm_probe_domains(struct hm_job *job)
{
    char boot[40], timens[24];
    uint32_t n = (uint32_t)job->n_ranks;
    hm_clock_domain(boot, timens);
    uint64_t mine = hash(hash(UINT64_C(14695981039346656037), boot), timens);
    uint64_t *all = malloc(n * sizeof(*all));
    int *leader = malloc(n * sizeof(*leader));
    uint64_t *seen = malloc(n * sizeof(*seen));
    hm_status_t s = all && leader && seen ? HM_OK : HM_E_NOMEM;
    /* the call is collective: a rank without memory must not leave the others in it */
    uint64_t dummy[1];
    if (!all && job->n_ranks > 1)
        goto out;
    if (job->mpi.allgather(&mine, sizeof(mine), job->mpi.type_byte, all ? all : dummy, sizeof(mine),
                           job->mpi.type_byte, job->comm) != job->mpi.success)
        s = HM_E_SYS;
    if (s)
        goto out;
    uint32_t n_leaders = 0, n_local = 0, local_rank = 0, index = 0;
    for (uint32_t r = 0; r < n; r++) {
        uint32_t d = 0;
        while (d < n_leaders && seen[d] != all[r])
            d++;
        if (d == n_leaders) {
            seen[n_leaders] = all[r];
            leader[n_leaders++] = (int)r;
        }
        if (all[r] == mine) {
            index = d;
            local_rank += r < (uint32_t)job->rank;
            n_local++;
        }
    }
    job->leader = leader;
    leader = NULL;
    job->n_leaders = n_leaders;
    job->leader_index = index;
    job->is_leader = job->leader[index] == job->rank;
    job->n_local = n_local;
    job->local_rank = local_rank;
out:
    free(seen);
    free(leader);
    free(all);
    return s;
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static void keep(struct hm_job *job, uint32_t peer, struct hm_event *probe, int64_t t_ns)
{
    int64_t rtt[N_PROBES];
    for (int i = 0; i < N_PROBES; i++)
        rtt[i] = probe[i].u.probe.t4_ns - probe[i].t_ns -
                 (probe[i].u.probe.t3_ns - probe[i].u.probe.t2_ns);
    qsort(rtt, N_PROBES, sizeof(rtt[0]), by_value);
    struct hm_event *ev = hm_begin(HM_EV_CLOCK_WINDOW);
    if (ev) {
        ev->t_ns = t_ns;
        ev->dur_ns = hm_now() - t_ns;
        ev->aux = TRANSPORT_MPI;
        ev->u.window.window = job->window;
        ev->u.window.peer = peer;
        ev->u.window.n_sent = N_PROBES;
        ev->u.window.rtt_min_ns = (uint32_t)rtt[0];
        ev->u.window.rtt_med_ns = (uint32_t)rtt[N_PROBES / 2];
        ev->u.window.rtt_p90_ns = (uint32_t)rtt[N_PROBES * 9 / 10];
        hm_commit();
    }
    uint32_t n = hm_probe_best(probe, N_PROBES, N_KEPT);
    for (uint32_t i = 0; i < n; i++) {
        ev = hm_begin(HM_EV_CLOCK_PROBE);
        if (!ev)
            return;
        ev->t_ns = probe[i].t_ns;
        ev->aux = TRANSPORT_MPI;
        ev->u.probe = probe[i].u.probe;
        hm_commit();
    }
}

static void ask(struct hm_job *job, uint32_t peer)
{
    const struct hm_mpi *mpi = &job->mpi;
    struct hm_event probe[N_PROBES];
    int to = job->leader[peer];
    int64_t begin = hm_now(), answer[2];
    memset(probe, 0, sizeof(probe));
    for (int i = -N_WARM; i < N_PROBES; i++) {
        int64_t t1 = hm_now();
        mpi->send(&t1, sizeof(t1), mpi->type_byte, to, TAG, job->comm);
        mpi->recv(answer, sizeof(answer), mpi->type_byte, to, TAG, job->comm, mpi->status_ignore);
        int64_t t4 = hm_now();
        if (i < 0)
            continue;
        probe[i].t_ns = t1;
        probe[i].kind = HM_EV_CLOCK_PROBE;
        probe[i].u.probe = (struct hm_ev_probe){.t2_ns = answer[0],
                                                .t3_ns = answer[1],
                                                .t4_ns = t4,
                                                .window = job->window,
                                                .peer = peer};
    }
    keep(job, peer, probe, begin);
}

static void serve(struct hm_job *job, uint32_t peer)
{
    const struct hm_mpi *mpi = &job->mpi;
    int to = job->leader[peer];
    int64_t asked, answer[2];
    for (int i = -N_WARM; i < N_PROBES; i++) {
        mpi->recv(&asked, sizeof(asked), mpi->type_byte, to, TAG, job->comm, mpi->status_ignore);
        answer[0] = hm_now();
        answer[1] = hm_now();
        mpi->send(answer, sizeof(answer), mpi->type_byte, to, TAG, job->comm);
    }
}

void hm_probe_mpi(struct hm_job *job)
{
    uint32_t peer[32];
    if (job->is_leader && job->n_leaders > 1) {
        uint32_t n = hm_probe_peers(job->n_leaders, job->leader_index, job->nonce, peer);
        for (uint32_t i = 0; i < n; i++) {
            if (peer[i] < job->leader_index)
                ask(job, peer[i]);
            else
                serve(job, peer[i]);
        }
    }
    job->window++;
}
