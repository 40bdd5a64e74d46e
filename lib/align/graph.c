/* Many clock domains -> one: each domain reaches domain 0 over the edges with the smallest error;
 * maps are composed along the path and errors add.
 *
 * Box: lib/align. Pure. Invariant: |map(x) - truth| <= eps(x) whenever every interval holds and
 * rates drift as line.c assumes. Source: facts on clocks, section 3.5.
 */
#include "align/align.h"
#include "align/line.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define EPS_NONE (INT64_MAX / 4)
/* beyond the first and last window the rate may wander too */
#define WANDER_RATE 1e-7

struct pair {
    uint32_t a, b; /* a < b */
    size_t first, n;
    int64_t weight; /* largest error of its line at a window */
};
struct map {
    struct hm_timeseg *seg;
    uint32_t n;
};
struct hm_align {
    uint32_t n_domains;
    struct map *map;
    struct hm_align_info *info;
    struct hm_edge *edge; /* sorted by pair */
    size_t n_edges;
    struct pair *pair;
    size_t n_pairs;
};

/* ---- evaluation; the same rule as hm_timemap_apply() and hm_timemap_eps() ---- */

static const struct hm_timeseg *seg_of(const struct map *m, int64_t x)
{
    uint32_t lo = 0, hi = m->n;
    while (hi - lo > 1) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (m->seg[mid].x0_ns <= x)
            lo = mid;
        else
            hi = mid;
    }
    return &m->seg[lo];
}

static int64_t apply(const struct map *m, int64_t x)
{
    if (!m->n)
        return x;
    const struct hm_timeseg *s = seg_of(m, x);
    int64_t dx = x - s->x0_ns;
    return s->y0_ns + dx + (int64_t)llround((double)dx * s->rate_m1);
}

static double rate_at(const struct map *m, int64_t x)
{
    return m->n ? seg_of(m, x)->rate_m1 : 0;
}

static double eps_rate_at(const struct map *m, int64_t x)
{
    return m->n ? seg_of(m, x)->eps_rate : 0;
}

static int64_t eps_at(const struct map *m, int64_t x)
{
    if (!m->n)
        return 0;
    const struct hm_timeseg *s = seg_of(m, x);
    double grown = fabs((double)(x - s->x0_ns)) * s->eps_rate;
    return s->eps_ns + (int64_t)ceil(fmin(grown, (double)EPS_NONE));
}

static int64_t inverse(const struct map *m, int64_t y)
{
    if (!m->n)
        return y;
    uint32_t k = 0;
    while (k + 1 < m->n && m->seg[k + 1].y0_ns <= y)
        k++;
    const struct hm_timeseg *s = &m->seg[k];
    return s->x0_ns + (int64_t)llround((double)(y - s->y0_ns) / (1 + s->rate_m1));
}

/* Largest error around a boundary between segments. */
static int64_t eps_near(const struct map *m, int64_t x)
{
    int64_t e = eps_at(m, x), l = eps_at(m, x - 1), r = eps_at(m, x + 1);
    e = l > e ? l : e;
    return r > e ? r : e;
}

/* ---- pairs ---- */

static int by_pair(const void *x, const void *y)
{
    const struct hm_edge *p = x, *q = y;
    uint32_t pa = p->a < p->b ? p->a : p->b, pb = p->a < p->b ? p->b : p->a;
    uint32_t qa = q->a < q->b ? q->a : q->b, qb = q->a < q->b ? q->b : q->a;
    if (pa != qa)
        return pa < qa ? -1 : 1;
    if (pb != qb)
        return pb < qb ? -1 : 1;
    return 0;
}

static int by_x(const void *x, const void *y)
{
    const struct hm_offset_bound *p = x, *q = y;
    return (p->x_ns > q->x_ns) - (p->x_ns < q->x_ns);
}

/* Bounds on parent - child in the child's clock, from the edges of a pair in both directions. */
static size_t bounds_of(const struct hm_align *al, const struct pair *p, uint32_t child,
                        struct hm_offset_bound *out)
{
    for (size_t i = 0; i < p->n; i++) {
        const struct hm_edge *e = &al->edge[p->first + i];
        if (e->a == child) {
            out[i] = (struct hm_offset_bound){e->x_ns, e->lo_ns, e->hi_ns};
            continue;
        }
        /* the instant is known in the other clock only: +- half the interval */
        int64_t slip = (int64_t)((double)(e->hi_ns - e->lo_ns) * HM_DRIFT_MAX) + 1;
        int64_t mid = e->lo_ns + (e->hi_ns - e->lo_ns) / 2;
        out[i] = (struct hm_offset_bound){e->x_ns + mid, -e->hi_ns - slip, -e->lo_ns + slip};
    }
    qsort(out, p->n, sizeof(*out), by_x);
    return p->n;
}

/* Map child -> parent of one pair. */
static hm_status_t pair_map(const struct hm_align *al, const struct pair *p, uint32_t child,
                            struct map *m_p, int64_t *weight_p)
{
    struct hm_offset_bound *b = malloc(p->n * sizeof(*b));
    struct hm_line *line = malloc(p->n * sizeof(*line));
    struct hm_timeseg *seg = malloc((2 * p->n + 2) * sizeof(*seg));
    if (!b || !line || !seg) {
        free(b);
        free(line);
        free(seg);
        return hm_fail(HM_E_NOMEM, "clock alignment", "out of memory");
    }
    size_t n = hm_line_fit(b, bounds_of(al, p, child, b), line, p->n);
    uint32_t k = 0;
    int64_t worst = 0;
    for (size_t i = 0; i < n; i++) {
        const struct hm_line *l = &line[i];
        double out = fmax(l->slope_hi - l->slope, l->slope - l->slope_lo) + WANDER_RATE;
        int64_t inner = (l->eps0_ns > l->eps1_ns ? l->eps0_ns : l->eps1_ns) + l->wander_ns;
        int64_t y0 = l->x0_ns + l->y0_ns, y1 = l->x1_ns + hm_line_at(l, l->x1_ns);
        worst = inner > worst ? inner : worst;
        if (!i)
            seg[k++] = (struct hm_timeseg){l->x0_ns, y0, l->slope, l->eps0_ns, out};
        if (l->x1_ns > l->x0_ns + 1)
            seg[k++] = (struct hm_timeseg){l->x0_ns + 1, y0 + 1, l->slope, inner, 0};
        if (i + 1 == n) {
            seg[k++] = (struct hm_timeseg){l->x1_ns + 1, y1 + 1, l->slope, l->eps1_ns + 1, out};
            break;
        }
        /* no line fits both pieces: something happened between them. Straight over, and the error
         * holds both continuations. */
        const struct hm_line *next = &line[i + 1];
        int64_t dx = next->x0_ns - l->x1_ns;
        int64_t jump = next->y0_ns - hm_line_at(l, next->x0_ns);
        int64_t back = hm_line_at(next, l->x1_ns) - hm_line_at(l, l->x1_ns);
        int64_t eps = l->eps1_ns + next->eps0_ns + llabs(jump) + llabs(back);
        double rate = dx > 0 ? (double)(next->y0_ns - (y1 - l->x1_ns)) / (double)dx : 0;
        seg[k++] = (struct hm_timeseg){l->x1_ns + 1, y1 + 1, rate, eps, 0};
        worst = eps > worst ? eps : worst;
    }
    free(b);
    free(line);
    *m_p = (struct map){seg, k};
    if (weight_p)
        *weight_p = worst;
    return HM_OK;
}

static int by_int64(const void *x, const void *y)
{
    int64_t p = *(const int64_t *)x, q = *(const int64_t *)y;
    return (p > q) - (p < q);
}

/* outer(inner(x)); takes inner. */
static hm_status_t compose(struct map *inner, const struct map *outer, struct map *m_p)
{
    if (!outer->n) {
        *m_p = *inner;
        return HM_OK;
    }
    size_t n = (size_t)inner->n + outer->n;
    int64_t *knot = malloc(n * sizeof(*knot));
    struct hm_timeseg *seg = malloc((n + 1) * sizeof(*seg));
    if (!knot || !seg) {
        free(knot);
        free(seg);
        free(inner->seg);
        return hm_fail(HM_E_NOMEM, "clock alignment", "out of memory");
    }
    for (uint32_t i = 0; i < inner->n; i++)
        knot[i] = inner->seg[i].x0_ns;
    for (uint32_t i = 0; i < outer->n; i++)
        knot[inner->n + i] = inverse(inner, outer->seg[i].x0_ns);
    qsort(knot, n, sizeof(*knot), by_int64);
    uint32_t k = 0;
    for (size_t i = 0; i < n; i++) {
        if (i && knot[i] == knot[i - 1])
            continue;
        int64_t x = knot[i], y = apply(inner, x);
        int64_t here = eps_near(inner, x) + eps_near(outer, y) + 2;
        double ri = rate_at(inner, x), ro = rate_at(outer, y);
        struct hm_timeseg s = {x, apply(outer, y), ri + ro + ri * ro, here, 0};
        if (!k) { /* everything before the first knot */
            s.eps_rate = eps_rate_at(inner, x - 1) + 1.001 * eps_rate_at(outer, y - 1);
            seg[k++] = s;
            s.eps_rate = 0;
            x++;
            y++;
            ri = rate_at(inner, x);
            ro = rate_at(outer, y);
            s = (struct hm_timeseg){x, apply(outer, apply(inner, x)), ri + ro + ri * ro, here, 0};
        }
        size_t next = i + 1;
        while (next < n && knot[next] == knot[i])
            next++;
        if (next < n) {
            int64_t end = knot[next];
            int64_t there = eps_near(inner, end) + eps_near(outer, apply(inner, end)) + 2;
            s.eps_ns = there > here ? there : here;
        } else {
            s.eps_rate = eps_rate_at(inner, x + 1) + 1.001 * eps_rate_at(outer, y + 1);
        }
        seg[k++] = s;
    }
    free(knot);
    free(inner->seg);
    *m_p = (struct map){seg, k};
    return HM_OK;
}

/* ---- fit ---- */

static hm_status_t make_pairs(struct hm_align *al, const struct hm_edge *edge, size_t n_edges)
{
    al->edge = malloc((n_edges + 1) * sizeof(*al->edge));
    al->pair = calloc(n_edges + 1, sizeof(*al->pair));
    if (!al->edge || !al->pair)
        return hm_fail(HM_E_NOMEM, "clock alignment", "out of memory");
    for (size_t i = 0; i < n_edges; i++) {
        const struct hm_edge *e = &edge[i];
        if (e->a >= al->n_domains || e->b >= al->n_domains || e->a == e->b)
            continue;
        if (e->lo_ns > e->hi_ns) {
            al->info[e->a].n_outliers++;
            al->info[e->b].n_outliers++;
            continue;
        }
        al->info[e->a].n_edges++;
        al->info[e->b].n_edges++;
        al->edge[al->n_edges++] = *e;
    }
    qsort(al->edge, al->n_edges, sizeof(*al->edge), by_pair);
    for (size_t i = 0; i < al->n_edges; i++) {
        struct pair *p = al->n_pairs ? &al->pair[al->n_pairs - 1] : NULL;
        if (!p || by_pair(&al->edge[p->first], &al->edge[i])) {
            p = &al->pair[al->n_pairs++];
            const struct hm_edge *e = &al->edge[i];
            p->a = e->a < e->b ? e->a : e->b;
            p->b = e->a < e->b ? e->b : e->a;
            p->first = i;
        }
        p->n++;
    }
    for (size_t i = 0; i < al->n_pairs; i++) {
        struct map m;
        hm_status_t s = pair_map(al, &al->pair[i], al->pair[i].a, &m, &al->pair[i].weight);
        if (s)
            return s;
        free(m.seg);
    }
    return HM_OK;
}

/* Shortest paths from domain 0 by weight; `via` gets the pair that leads to the parent. */
static hm_status_t grow_tree(struct hm_align *al)
{
    uint32_t n = al->n_domains;
    int64_t *dist = malloc(n * sizeof(*dist));
    size_t *via = malloc(n * sizeof(*via));
    uint8_t *done = calloc(n, 1);
    hm_status_t status = HM_OK;
    if (!dist || !via || !done) {
        status = hm_fail(HM_E_NOMEM, "clock alignment", "out of memory");
        goto out;
    }
    for (uint32_t i = 0; i < n; i++)
        dist[i] = EPS_NONE;
    dist[0] = 0;
    for (;;) {
        uint32_t u = HM_NO_ID;
        for (uint32_t i = 0; i < n; i++)
            if (!done[i] && dist[i] < EPS_NONE && (u == HM_NO_ID || dist[i] < dist[u]))
                u = i;
        if (u == HM_NO_ID)
            break;
        done[u] = 1;
        al->info[u].reachable = 1;
        if (u) {
            const struct pair *p = &al->pair[via[u]];
            uint32_t parent = p->a == u ? p->b : p->a;
            struct map m;
            status = pair_map(al, p, u, &m, NULL);
            if (!status)
                status = compose(&m, &al->map[parent], &al->map[u]);
            if (status)
                goto out;
        }
        for (size_t i = 0; i < al->n_pairs; i++) {
            const struct pair *p = &al->pair[i];
            if (p->a != u && p->b != u)
                continue;
            uint32_t v = p->a == u ? p->b : p->a;
            if (!done[v] && dist[u] + p->weight < dist[v]) {
                dist[v] = dist[u] + p->weight;
                via[v] = i;
            }
        }
    }
out:
    free(dist);
    free(via);
    free(done);
    return status;
}

static void describe(struct hm_align *al, const struct hm_bound *bound, size_t n_bounds)
{
    for (uint32_t d = 0; d < al->n_domains; d++) {
        struct hm_align_info *info = &al->info[d];
        const struct map *m = &al->map[d];
        info->eps_max_ns = info->reachable ? 0 : EPS_NONE;
        double span = 0, rate = 0;
        for (uint32_t i = 0; i < m->n; i++) {
            if (m->seg[i].eps_ns > info->eps_max_ns)
                info->eps_max_ns = m->seg[i].eps_ns;
            double dx = i + 1 < m->n ? (double)(m->seg[i + 1].x0_ns - m->seg[i].x0_ns) : 0;
            span += dx;
            rate += dx * m->seg[i].rate_m1;
        }
        info->drift_ppm = span > 0 ? rate / span * 1e6 : 0;
    }
    /* how far the finished maps lie outside of the intervals that were not on a path */
    for (size_t i = 0; i < al->n_edges; i++) {
        const struct hm_edge *e = &al->edge[i];
        if (!al->info[e->a].reachable || !al->info[e->b].reachable)
            continue;
        int64_t y = apply(&al->map[e->a], e->x_ns);
        int64_t mid = e->x_ns + e->lo_ns + (e->hi_ns - e->lo_ns) / 2;
        int64_t off = llabs(apply(&al->map[e->b], mid) - y);
        for (int k = 0; k < 2; k++) {
            struct hm_align_info *info = &al->info[k ? e->b : e->a];
            info->residual_ns = off > info->residual_ns ? off : info->residual_ns;
        }
    }
    /* bounds from collectives: counted where no clock within the error obeys them */
    for (size_t i = 0; i < n_bounds; i++) {
        const struct hm_bound *b = &bound[i];
        if (b->a >= al->n_domains || b->b >= al->n_domains || !al->info[b->a].reachable ||
            !al->info[b->b].reachable)
            continue;
        int64_t y = apply(&al->map[b->a], b->x_ns), xb = inverse(&al->map[b->b], y);
        int64_t eps = eps_at(&al->map[b->a], b->x_ns) + eps_at(&al->map[b->b], xb);
        if (xb - b->x_ns + eps < b->lo_ns) {
            al->info[b->a].n_outliers++;
            al->info[b->b].n_outliers++;
        }
    }
}

hm_status_t hm_align_fit(uint32_t n_domains, const struct hm_edge *edge, size_t n_edges,
                         const struct hm_bound *bound, size_t n_bounds, struct hm_align **align_p)
{
    struct hm_align *al = calloc(1, sizeof(*al));
    if (!al)
        return hm_fail(HM_E_NOMEM, "clock alignment", "out of memory");
    al->n_domains = n_domains;
    al->map = calloc(n_domains + 1, sizeof(*al->map));
    al->info = calloc(n_domains + 1, sizeof(*al->info));
    hm_status_t s = HM_OK;
    if (!al->map || !al->info)
        s = hm_fail(HM_E_NOMEM, "clock alignment", "out of memory");
    if (!s)
        s = make_pairs(al, edge, n_edges);
    if (!s && n_domains)
        s = grow_tree(al);
    if (s) {
        hm_align_free(al);
        return s;
    }
    describe(al, bound, n_bounds);
    *align_p = al;
    return HM_OK;
}

struct hm_timemap hm_align_domain(const struct hm_align *al, uint32_t domain)
{
    struct hm_timemap m = {0};
    if (domain < al->n_domains) {
        m.seg = al->map[domain].seg;
        m.n = al->map[domain].n;
    }
    return m;
}

void hm_align_report(const struct hm_align *al, uint32_t domain, struct hm_align_info *info_p)
{
    if (domain < al->n_domains)
        *info_p = al->info[domain];
    else
        *info_p = (struct hm_align_info){.eps_max_ns = EPS_NONE};
}

int64_t hm_align_pair_eps(const struct hm_align *al, uint32_t a, uint32_t b, int64_t t_ns)
{
    if (a == b)
        return 0;
    if (a >= al->n_domains || b >= al->n_domains || !al->info[a].reachable ||
        !al->info[b].reachable)
        return EPS_NONE;
    return eps_at(&al->map[a], inverse(&al->map[a], t_ns)) +
           eps_at(&al->map[b], inverse(&al->map[b], t_ns));
}

void hm_align_free(struct hm_align *al)
{
    if (!al)
        return;
    for (uint32_t i = 0; al->map && i < al->n_domains; i++)
        free(al->map[i].seg);
    free(al->map);
    free(al->info);
    free(al->edge);
    free(al->pair);
    free(al);
}
