/* Compare: own work of the members of a collective since they last left one together.
 *
 * Box: lib/analysis. Pure. A part's chain is its base, the base of that, and so on: what this
 * worker had to have done before. Own work is what lies on the chain outside collectives, so that
 * neither waiting for others nor their transfer counts as its own. Compared are members of one
 * role. Where the common collective lies several links back (replicas whose layers synchronise in
 * groups of their own), what is too much is spread over the links in proportion to their length.
 * Source: facts on analysis 2.5, 2.6; facts on scenarios, rules 3 and 8.
 */
#include "analysis/judge_inside.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_WALK = 8192, COVERS = 1 << 12 };

struct hm_compare {
    struct hm_judge *j;
    int64_t *v; /* [n_workers] */
    struct cover {
        uint32_t of, by;
        uint8_t known, yes;
    } cover[COVERS];
};

/* Parts of a launch lie in order of their workers. */
struct hm_jpart *hm_judge_part_in(const struct hm_judge *j, uint32_t launch, uint32_t worker)
{
    const struct hm_jlaunch *l = &j->launch[launch];
    struct hm_jpart *p = &j->part[l->first_part];
    uint32_t lo = 0, hi = l->n_parts;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (p[mid].worker < worker)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < l->n_parts && p[lo].worker == worker ? &p[lo] : NULL;
}

/* The link before; NULL where the chain begins. Time goes back on every link. */
const struct hm_jpart *hm_judge_link(const struct hm_judge *j, const struct hm_jpart *p)
{
    const struct hm_jpart *b = p->base == HM_NO_ID ? NULL : &j->part[p->base];
    return b && b->end_ns <= p->start_ns && b->start_ns < p->start_ns ? b : NULL;
}

/* Did all members of l take part in x? */
static int covers(struct hm_compare *c, const struct hm_jlaunch *x, const struct hm_jlaunch *l)
{
    if (!hm_judge_is_sync(x))
        return 0;
    if (x->i_use == l->i_use)
        return 1;
    if (x->n_parts < l->n_parts)
        return 0;
    struct cover *k = &c->cover[(l->i_use * 31 + x->i_use) % COVERS];
    if (!k->known || k->of != l->i_use || k->by != x->i_use) {
        *k = (struct cover){l->i_use, x->i_use, 1, 1};
        for (uint32_t i = 0; i < l->n_parts && k->yes; i++)
            k->yes = hm_judge_part_in(c->j, (uint32_t)(x - c->j->launch),
                                      c->j->part[l->first_part + i].worker) != NULL;
    }
    return k->yes;
}

/* The launch that most members find first on their chains; ties go to the earlier one. */
static uint32_t common_base(struct hm_compare *c, const struct hm_jlaunch *l)
{
    const struct hm_judge *j = c->j;
    size_t n = 0, votes = 0;
    uint32_t best = HM_NO_ID;
    for (uint32_t k = 0; k < l->n_parts; k++) {
        const struct hm_jpart *p = hm_judge_link(j, &j->part[l->first_part + k]);
        for (int i = 0; p && i < MAX_WALK && !covers(c, &j->launch[p->launch], l); i++)
            p = hm_judge_link(j, p);
        if (p && covers(c, &j->launch[p->launch], l))
            c->v[n++] = p->launch;
    }
    if (n)
        qsort(c->v, n, sizeof(*c->v), hm_by_i64);
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && c->v[end] == c->v[i];)
            end++;
        if (end - i > votes) {
            votes = end - i;
            best = (uint32_t)c->v[i];
        }
    }
    return best;
}

static int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* A sum over the links of p's chain since from_ns, p's own included. */
struct since {
    int64_t own_ns;    /* own work */
    int64_t excess_ns; /* found too much already, on the links before p's own */
    int64_t room_ns;   /* own work not yet found too much */
    int64_t part_ns[HM_N_C];
    uint32_t n_links;
    int met; /* the chain has a link that ends there */
};

static struct since sum_since(const struct hm_judge *j, const struct hm_jpart *p, int64_t from_ns)
{
    struct since s = {0};
    for (const struct hm_jpart *q = p, *b; q && s.n_links < MAX_WALK; q = b) {
        b = hm_judge_link(j, q);
        int64_t begin = b ? b->end_ns : q->carry_ns, too_much = max64(q->excess_ns, 0);
        int64_t own = max64(q->ready_ns - max64(begin, from_ns), 0);
        s.own_ns += own;
        if (q != p) {
            s.own_ns += max64(q->tail_ns, 0);
            s.excess_ns += too_much;
        }
        for (int c = 0; c < HM_N_C; c++)
            s.part_ns[c] += q->part_ns[c];
        s.n_links++;
        if (begin <= from_ns) {
            s.met = begin == from_ns;
            break;
        }
    }
    return s;
}

static int64_t own_of(const struct hm_judge *j, const struct hm_jpart *q, int64_t from_ns)
{
    const struct hm_jpart *b = hm_judge_link(j, q);
    return max64(q->ready_ns - max64(b ? b->end_ns : q->carry_ns, from_ns), 0);
}

/* What of link q is too much and not yet found so. With a reference of as many links: beyond its
 * counterpart r; else all of it. */
static int64_t room_of(const struct hm_judge *j, const struct hm_jpart *q, int64_t from_ns,
                       const struct hm_jpart *r, int64_t ref_from_ns)
{
    int64_t own = own_of(j, q, from_ns);
    return max64(own - (r ? own_of(j, r, ref_from_ns) : 0) - max64(q->excess_ns, 0), 0);
}

/* Spreads what p's worker did too much over its chain, in proportion to where it is longer than
 * the reference's; p's own link takes what is left. p->excess_ns is 0. */
static void spread(struct hm_judge *j, struct hm_jpart *p, int64_t from_ns, const struct since *s,
                   int64_t too_much)
{
    const struct hm_jpart *ref = &j->part[p->ref];
    int64_t ref_from = ref->common == HM_NO_ID ? ref->carry_ns : j->part[ref->common].end_ns;
    int alike = ref != p && sum_since(j, ref, ref_from).n_links == s->n_links;
    int64_t room = 0, left = too_much;
    for (int pass = 0; pass < 2; pass++) {
        const struct hm_jpart *q = p, *r = alike ? ref : NULL;
        for (uint32_t n = 0; q && n < s->n_links; n++) {
            const struct hm_jpart *b = hm_judge_link(j, q);
            int64_t mine = room_of(j, q, from_ns, r, ref_from);
            if (pass == 0) {
                room += mine;
            } else if (mine > 0 && q != p) {
                int64_t part = (int64_t)((double)too_much * ((double)mine / (double)room));
                part = part < mine ? part : mine;
                part = part < left ? part : left;
                j->part[q - j->part].excess_ns = max64(q->excess_ns, 0) + part;
                left -= part;
            }
            q = b;
            r = r ? hm_judge_link(j, r) : NULL;
        }
    }
    p->excess_ns = left;
}

/* Lower median of own work over the members of l that have p's role; *at_p the one who has it. */
static int64_t role_median(struct hm_compare *c, const struct hm_jlaunch *l, uint32_t role,
                           uint32_t *n_p)
{
    const struct hm_judge *j = c->j;
    uint32_t n = 0;
    for (uint32_t k = 0; k < l->n_parts; k++) {
        const struct hm_jpart *p = &j->part[l->first_part + k];
        if (j->roles.role[p->worker] == role)
            c->v[n++] = p->own_ns;
    }
    *n_p = n;
    return n ? hm_median(c->v, n) : 0;
}

/* What makes the difference to the reference, as far as this comparison found it. */
static void charge_cause(struct hm_judge *j, const struct hm_jpart *p, const struct since *mine,
                         int64_t from_ref_ns, int64_t found, int64_t whole)
{
    const struct hm_jpart *ref = &j->part[p->ref];
    if (!p->has_segment || !ref->has_segment || whole <= 0)
        return;
    struct since other = sum_since(j, ref, from_ref_ns);
    for (int c = 0; c < HM_N_C; c++)
        j->cause_ns[(size_t)p->worker * HM_N_C + (size_t)c] +=
            (int64_t)((double)(mine->part_ns[c] - other.part_ns[c]) *
                      ((double)found / (double)whole));
}

static void compare_role(struct hm_compare *c, struct hm_jlaunch *l, uint32_t role, int all)
{
    struct hm_judge *j = c->j;
    uint32_t n_role = 0, ref = HM_NO_ID;
    int64_t median = role_median(c, l, role, &n_role);
    int64_t error = hm_judge_exit_error(l);
    for (uint32_t k = 0; k < l->n_parts && ref == HM_NO_ID; k++) {
        const struct hm_jpart *p = &j->part[l->first_part + k];
        if (j->roles.role[p->worker] == role && p->own_ns == median)
            ref = l->first_part + k;
    }
    for (uint32_t k = 0; k < l->n_parts; k++) {
        struct hm_jpart *p = &j->part[l->first_part + k];
        if (j->roles.role[p->worker] != role)
            continue;
        p->ref = ref;
        p->excess_ns = p->own_ns - median;
        if (!all && p->base == HM_NO_ID && p->excess_ns > 0)
            p->excess_ns = 0; /* began before the record */
        if (!all || j->part[p->common].end_ns ==
                        (p->base == HM_NO_ID ? p->carry_ns : j->part[p->base].end_ns))
            continue;
        /* several links back: only what the links have not been found to do too much already */
        int64_t from = j->part[p->common].end_ns, whole = p->excess_ns;
        p->excess_ns = 0;
        struct since s = sum_since(j, p, from);
        int64_t found = whole - s.excess_ns;
        if (whole <= error || found <= error)
            continue;
        spread(j, p, from, &s, found);
        if (l->i_step != HM_NO_ID) {
            charge_cause(j, p, &s, j->part[j->part[ref].common].end_ns, found, whole);
            j->dim_ns[(size_t)p->worker * HM_N_DIMS + j->use[l->i_use].dim] += found;
        }
    }
}

/* Own work since the base, and what of the start nothing explains. */
void hm_compare_locals(struct hm_judge *j, const struct hm_jlaunch *l)
{
    struct hm_jpart *p = &j->part[l->first_part];
    for (uint32_t k = 0; k < l->n_parts; k++) {
        int64_t from = p[k].base == HM_NO_ID ? p[k].carry_ns : j->part[p[k].base].end_ns;
        int64_t known = p[k].ready_ns;
        if (p[k].before != HM_NO_ID && j->part[p[k].before].end_ns > known)
            known = j->part[p[k].before].end_ns;
        p[k].local_ns = p[k].own_ns = p[k].ready_ns - from;
        p[k].tail_ns = p[k].start_ns - known;
    }
}

static void take_own(struct hm_judge *j, struct hm_jpart *p)
{
    struct since s = sum_since(j, p, j->part[p->common].end_ns);
    p->own_ns = s.own_ns;
    p->aside = !s.met;
}

/* Own work of every member, and what it is too much. */
void hm_compare_launch(struct hm_compare *c, struct hm_jlaunch *l)
{
    struct hm_judge *j = c->j;
    struct hm_jpart *p = &j->part[l->first_part];
    if (!hm_judge_is_sync(l))
        return;
    uint32_t base = common_base(c, l);
    int all = base != HM_NO_ID;
    for (uint32_t k = 0; all && k < l->n_parts; k++) {
        struct hm_jpart *b = hm_judge_part_in(j, base, p[k].worker);
        all = b && b->end_ns <= p[k].ready_ns;
        p[k].common = b ? (uint32_t)(b - j->part) : HM_NO_ID;
    }
    l->common = all ? base : HM_NO_ID;
    size_t n_floors = 0;
    for (uint32_t k = 0; k < l->n_parts; k++) {
        if (!all)
            p[k].common = HM_NO_ID;
        else
            take_own(j, &p[k]);
        if (p[k].floor != HM_NO_ID)
            c->v[n_floors++] = p[k].floor_ns;
    }
    l->floor_median_ns = n_floors ? hm_median(c->v, n_floors) : 0;
    for (uint32_t k = 0; k < l->n_parts; k++) {
        uint32_t role = j->roles.role[p[k].worker], first = 0;
        while (j->roles.role[p[first].worker] != role)
            first++;
        if (first == k)
            compare_role(c, l, role, all);
    }
}

struct hm_compare *hm_compare_create(struct hm_judge *j)
{
    struct hm_compare *c = calloc(1, sizeof(*c));
    if (!c || !(c->v = malloc((j->n_workers + 1) * sizeof(*c->v)))) {
        free(c);
        return NULL;
    }
    c->j = j;
    return c;
}

void hm_compare_destroy(struct hm_compare *c)
{
    if (c)
        free(c->v);
    free(c);
}
