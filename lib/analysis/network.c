/* Send steps -> one row a link. Box: lib/analysis. Pure. */
#include "analysis/network.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_LINKS = 256, OPS = 4096, PENDING = 256 };

struct op {
    uint32_t proxy, link; /* link + 1, 0 = empty or not a send */
};
struct hm_network {
    uint32_t worker;
    struct hm_link_sum link[MAX_LINKS];
    size_t n_links;
    struct op op[OPS]; /* by proxy number modulo OPS: the latest wins */
    struct hm_event pending[PENDING];
    size_t n_pending;
};

hm_status_t hm_network_create(uint32_t worker, struct hm_network **network_p)
{
    struct hm_network *n = calloc(1, sizeof(*n));
    if (!n)
        return hm_fail(HM_E_NOMEM, "network", "out of memory");
    n->worker = worker;
    *network_p = n;
    return HM_OK;
}

void hm_network_destroy(struct hm_network *n)
{
    free(n);
}

static int add(struct hm_network *n, const struct hm_event *ev)
{
    const struct hm_ev_proxy_step *s = &ev->u.proxy_step;
    const struct op *op = &n->op[s->proxy % OPS];
    if (op->proxy != s->proxy)
        return 0;
    if (!op->link) /* a receive, or to somebody unknown */
        return 1;
    /* states in NCCL's order: waiting for the GPU, for the peer's credit, for the wire; a release
     * that does not tell the credit tells 0, and its wait counts as the GPU's */
    int64_t gpu = s->phase_ns[0], peer = s->phase_ns[1], wire = s->phase_ns[2];
    if (wire <= 0 || wire > ev->dur_ns || gpu < 0 || gpu > wire)
        return 1; /* never on the wire, or not to be believed */
    if (peer < gpu || peer > wire)
        peer = wire;
    struct hm_link_sum *l = &n->link[op->link - 1];
    l->n++;
    l->step_ns += ev->dur_ns;
    l->gpu_ns += peer - gpu;
    l->peer_ns += wire - peer;
    l->wire_ns += ev->dur_ns - wire;
    l->bytes += s->bytes < (uint64_t)1 << 40 ? (int64_t)s->bytes : 0;
    return 1;
}

void hm_network_op(struct hm_network *n, const struct hm_event *ev, uint64_t comm, uint32_t to)
{
    const struct hm_ev_proxy_op *p = &ev->u.proxy_op;
    uint32_t link = 0;
    if (p->is_send && to != HM_NO_ID) {
        while (link < n->n_links && (n->link[link].comm != comm || n->link[link].to != to))
            link++;
        if (link == n->n_links && link < MAX_LINKS)
            n->link[n->n_links++] = (struct hm_link_sum){.comm = comm, .from = n->worker, .to = to};
        link = link < n->n_links ? link + 1 : 0;
    }
    n->op[p->proxy % OPS] = (struct op){p->proxy, link};
    size_t kept = 0;
    for (size_t i = 0; i < n->n_pending; i++)
        if (!add(n, &n->pending[i]))
            n->pending[kept++] = n->pending[i];
    n->n_pending = kept;
}

void hm_network_step(struct hm_network *n, const struct hm_event *ev, int64_t t0_ns, int64_t t1_ns)
{
    if (ev->t_ns < t0_ns || ev->t_ns >= t1_ns || ev->dur_ns <= 0 || add(n, ev))
        return;
    if (n->n_pending == PENDING) /* the oldest will find nobody any more */
        memmove(n->pending, n->pending + 1, (--n->n_pending) * sizeof(*n->pending));
    n->pending[n->n_pending++] = *ev;
}

const struct hm_link_sum *hm_network_links(const struct hm_network *n, size_t *n_p)
{
    *n_p = n->n_links;
    return n->link;
}
