/* Probes -> interval bounds on the offset of two clocks.
 *
 * Box: lib/align. Pure. One probe: the prober sends at t1 and receives at t4 (its own clock), the
 * peer receives at t2 and replies at t3 (the peer's clock). Whatever the delays and however
 * unequal, peer - prober lies in [t3 - t4, t2 - t1]. Source: facts on clocks, sections 0.2 and 1.
 */
#include "align/align.h"
#include "align/line.h"

/* The two ends of the interval hold at instants up to one round trip apart, and the probes of a
 * window at instants up to the window's length apart: each costs the drift over that time. */
static int64_t drift_over(int64_t ns)
{
    if (ns < 0)
        ns = -ns;
    return (int64_t)((double)ns * HM_DRIFT_MAX) + 1;
}

static int usable(const struct hm_event *ev)
{
    const struct hm_ev_probe *p = &ev->u.probe;
    return ev->kind == HM_EV_CLOCK_PROBE && !(ev->flags & (HM_EVF_BAD_TIME | HM_EVF_NO_TIME)) &&
           p->t4_ns >= ev->t_ns && p->t3_ns >= p->t2_ns &&
           p->t4_ns - ev->t_ns >= p->t3_ns - p->t2_ns && p->t4_ns - ev->t_ns < INT64_C(10000000000);
}

static struct hm_edge edge_of(uint32_t domain, const struct hm_event *ev)
{
    const struct hm_ev_probe *p = &ev->u.probe;
    int64_t slip = drift_over(p->t4_ns - ev->t_ns);
    struct hm_edge e = {.a = domain, .b = p->peer, .window = p->window};
    e.x_ns = ev->t_ns + (p->t4_ns - ev->t_ns) / 2;
    e.lo_ns = p->t3_ns - p->t4_ns - slip;
    e.hi_ns = p->t2_ns - ev->t_ns + slip;
    return e;
}

/* Narrows `e` by another interval of the same window; an empty intersection (a clock step inside
 * the window) leaves e as it is. */
static void narrow(struct hm_edge *e, const struct hm_edge *other)
{
    int64_t slip = drift_over(e->x_ns - other->x_ns);
    int64_t lo = other->lo_ns - slip > e->lo_ns ? other->lo_ns - slip : e->lo_ns;
    int64_t hi = other->hi_ns + slip < e->hi_ns ? other->hi_ns + slip : e->hi_ns;
    if (lo > hi)
        return;
    e->lo_ns = lo;
    e->hi_ns = hi;
}

size_t hm_edges_from_probes(uint32_t domain, const struct hm_event *probe, size_t n,
                            struct hm_edge *edge_p, size_t cap)
{
    size_t n_edges = 0;
    /* first pass: the narrowest probe of each (peer, window); windows of a peer come in time
     * order, so that the search from the back is short */
    for (size_t i = 0; i < n; i++) {
        if (!usable(&probe[i]))
            continue;
        struct hm_edge e = edge_of(domain, &probe[i]);
        size_t k = n_edges;
        while (k && !(edge_p[k - 1].b == e.b && edge_p[k - 1].window == e.window))
            k--;
        if (!k) {
            if (n_edges < cap)
                edge_p[n_edges++] = e;
            continue;
        }
        if (e.hi_ns - e.lo_ns < edge_p[k - 1].hi_ns - edge_p[k - 1].lo_ns)
            edge_p[k - 1] = e;
    }
    for (size_t i = 0; i < n; i++) {
        if (!usable(&probe[i]))
            continue;
        struct hm_edge e = edge_of(domain, &probe[i]);
        for (size_t k = n_edges; k; k--)
            if (edge_p[k - 1].b == e.b && edge_p[k - 1].window == e.window) {
                narrow(&edge_p[k - 1], &e);
                break;
            }
    }
    return n_edges;
}
