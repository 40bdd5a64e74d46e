/* Roles of a judged run: what its communicators were used for, from the launches.
 *
 * Box: lib/analysis. Pure. Only the analysed steps count; where there are none, everything.
 */
#include "analysis/judge_inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static hm_status_t no_memory(void)
{
    return hm_fail(HM_E_NOMEM, "judge", "out of memory");
}

static int by_u64(const void *x, const void *y)
{
    uint64_t a = *(const uint64_t *)x, b = *(const uint64_t *)y;
    return (a > b) - (a < b);
}

static uint32_t use_of(const struct hm_judge *j, uint64_t key)
{
    uint32_t lo = 0, hi = j->n_uses;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (j->use[mid].key < key)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < j->n_uses && j->use[lo].key == key ? lo : HM_NO_ID;
}

static const struct hm_comm *comm_of(const struct hm_run *run, uint64_t key)
{
    uint32_t lo = 0, hi = run->n_comms;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (run->comm[mid].key < key)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < run->n_comms && run->comm[lo].key == key ? &run->comm[lo] : NULL;
}

/* The names that frameworks gave, from the definitions of the rank files. */
static void take_names(struct hm_judge *j)
{
    const struct hm_defs *defs = &j->in.run->names;
    uint32_t n = defs->head ? defs->head->n[HM_DEF_COMM] : 0;
    for (uint32_t id = 0; id < n; id++) {
        const void *p = NULL, *text = NULL;
        uint32_t len = 0, i;
        struct hm_def_comm c;
        if (hm_defs_get(defs, HM_DEF_COMM, id, &p, &len) != HM_OK || len != sizeof(c))
            continue;
        memcpy(&c, p, sizeof(c));
        if (c.name == HM_NO_ID || (i = use_of(j, hm_comm_key(c.hash, c.nth))) == HM_NO_ID)
            continue;
        if (hm_defs_get(defs, HM_DEF_STRING, c.name, &text, &len) == HM_OK && len &&
            ((const char *)text)[len - 1] == 0)
            j->use[i].name = text;
    }
}

/* Members of a communicator that no definition names: those that launched on it. */
static hm_status_t members_seen(struct hm_judge *j, uint32_t i_use)
{
    struct hm_comm_use *u = &j->use[i_use];
    uint8_t *seen = calloc(j->n_workers + 1, 1);
    uint32_t n = 0, *member = malloc((j->n_workers + 1) * sizeof(*member));
    uint32_t **own = realloc(j->own_members, (j->n_own_members + 1) * sizeof(*own));
    if (own)
        j->own_members = own;
    if (!seen || !member || !own) {
        free(seen);
        free(member);
        return no_memory();
    }
    own[j->n_own_members++] = member;
    for (size_t i = 0; i < j->n_launches; i++)
        for (uint32_t k = 0; j->launch[i].i_use == i_use && k < j->launch[i].n_parts; k++)
            seen[j->part[j->launch[i].first_part + k].worker] = 1;
    for (uint32_t w = 0; w < j->n_workers; w++)
        if (seen[w])
            member[n++] = w;
    free(seen);
    u->member = member;
    u->n_members = n;
    return HM_OK;
}

static hm_status_t take_uses(struct hm_judge *j)
{
    uint64_t *key = malloc((j->n_launches + 1) * sizeof(*key));
    if (!key)
        return no_memory();
    for (size_t i = 0; i < j->n_launches; i++)
        key[i] = j->launch[i].comm;
    if (j->n_launches)
        qsort(key, j->n_launches, sizeof(*key), by_u64);
    for (size_t i = 0; i < j->n_launches; i++)
        if (!i || key[i] != key[i - 1])
            key[j->n_uses++] = key[i];
    j->use = calloc(j->n_uses + 1, sizeof(*j->use));
    for (uint32_t i = 0; j->use && i < j->n_uses; i++) {
        const struct hm_comm *c = comm_of(j->in.run, key[i]);
        j->use[i] = (struct hm_comm_use){.key = key[i], .name = ""};
        for (uint32_t k = 0; k < j->in.n_inferred; k++)
            if (j->in.inferred[k].comm == key[i])
                j->use[i].inferred = j->in.inferred[k].kernel;
        if (c) {
            j->use[i].member = c->worker;
            j->use[i].n_members = c->n_ranks;
        }
    }
    free(key);
    if (!j->use)
        return no_memory();
    for (size_t i = 0; i < j->n_launches; i++) {
        struct hm_jlaunch *l = &j->launch[i];
        l->i_use = use_of(j, l->comm);
        if (l->i_step == HM_NO_ID && j->n_steps)
            continue;
        unsigned f = l->func < HM_NCCL_N_FUNCS ? l->func : 0;
        j->use[l->i_use].n[f]++;
        j->use[l->i_use].bytes[f] += l->bytes;
    }
    hm_status_t s = HM_OK;
    for (uint32_t i = 0; i < j->n_uses && s == HM_OK; i++)
        if (!j->use[i].member)
            s = members_seen(j, i);
    if (s == HM_OK)
        take_names(j);
    return s;
}

/* One side of a message. */
struct side {
    int64_t start_ns, end_ns;
    uint32_t worker, comm, peer, is_send;
};

static int by_kernel(const void *x, const void *y)
{
    const struct side *p = x, *q = y;
    if (p->worker != q->worker)
        return p->worker < q->worker ? -1 : 1;
    if (p->comm != q->comm)
        return p->comm < q->comm ? -1 : 1;
    if (p->start_ns != q->start_ns)
        return p->start_ns < q->start_ns ? -1 : 1;
    if (p->end_ns != q->end_ns)
        return p->end_ns < q->end_ns ? -1 : 1;
    return (p->is_send > q->is_send) - (p->is_send < q->is_send); /* receives first */
}

static int by_edge(const void *x, const void *y)
{
    const struct hm_p2p_edge *p = x, *q = y;
    if (p->comm != q->comm)
        return p->comm < q->comm ? -1 : 1;
    if (p->src != q->src)
        return p->src < q->src ? -1 : 1;
    return (p->dst > q->dst) - (p->dst < q->dst);
}

/* Workers of both ends of a message. */
static int ends_of(const struct hm_judge *j, const struct hm_jlaunch *l, uint32_t *src_p,
                   uint32_t *dst_p)
{
    const struct hm_comm_use *u = &j->use[l->i_use];
    if (!l->pair || !l->n_members)
        return 0;
    uint32_t src = (l->pair - 1) / l->n_members, dst = (l->pair - 1) % l->n_members;
    if (src == dst || src >= u->n_members || dst >= u->n_members)
        return 0;
    *src_p = u->member[src];
    *dst_p = u->member[dst];
    return *src_p < j->n_workers && *dst_p < j->n_workers;
}

static hm_status_t take_edges(struct hm_judge *j, struct hm_p2p_edge **edge_p, size_t *n_p)
{
    size_t n = 0, n_edges = 0, n_parts = 0;
    for (size_t i = 0; i < j->n_launches; i++)
        n_parts += j->launch[i].pair ? j->launch[i].n_parts : 0;
    struct side *side = malloc((n_parts + 1) * sizeof(*side));
    struct hm_p2p_edge *edge = malloc((n_parts + 1) * sizeof(*edge));
    if (!side || !edge) {
        free(side);
        free(edge);
        return no_memory();
    }
    for (size_t i = 0; i < j->n_launches; i++) {
        const struct hm_jlaunch *l = &j->launch[i];
        uint32_t src, dst;
        if ((l->i_step == HM_NO_ID && j->n_steps) || !ends_of(j, l, &src, &dst))
            continue;
        for (uint32_t k = 0; k < l->n_parts; k++) {
            const struct hm_jpart *p = &j->part[l->first_part + k];
            uint32_t is_send = p->worker == src;
            side[n++] = (struct side){p->start_ns, p->end_ns,           p->worker,
                                      l->i_use,    is_send ? dst : src, is_send};
        }
    }
    if (n)
        qsort(side, n, sizeof(*side), by_kernel);
    for (size_t i = 0; i < n; i++) {
        if (!side[i].is_send)
            continue;
        size_t k = i; /* back to the receives of the same kernel */
        while (k && side[k - 1].worker == side[i].worker && side[k - 1].comm == side[i].comm &&
               side[k - 1].start_ns == side[i].start_ns && side[k - 1].end_ns == side[i].end_ns &&
               side[k - 1].is_send)
            k--;
        int paired = k && side[k - 1].worker == side[i].worker &&
                     side[k - 1].comm == side[i].comm && side[k - 1].start_ns == side[i].start_ns &&
                     side[k - 1].end_ns == side[i].end_ns;
        edge[n_edges++] = (struct hm_p2p_edge){.src = side[i].worker,
                                               .dst = side[i].peer,
                                               .comm = side[i].comm,
                                               .n = 1,
                                               .n_paired = (uint64_t)paired};
    }
    free(side);
    if (n_edges)
        qsort(edge, n_edges, sizeof(*edge), by_edge);
    size_t out = 0;
    for (size_t i = 0; i < n_edges; i++)
        if (out && !by_edge(&edge[out - 1], &edge[i])) {
            edge[out - 1].n += edge[i].n;
            edge[out - 1].n_paired += edge[i].n_paired;
        } else {
            edge[out++] = edge[i];
        }
    *edge_p = edge;
    *n_p = out;
    return HM_OK;
}

static int by_name(const void *x, const void *y)
{
    const struct hm_mix *p = x, *q = y;
    return (p->name > q->name) - (p->name < q->name);
}

/* Kernels by name. */
static struct hm_mix *mix_of(const struct hm_judge *j, uint32_t worker, uint32_t *n_p)
{
    const struct hm_jworker *w = &j->worker[worker];
    struct hm_mix *mix = malloc((w->n_kernels + 1) * sizeof(*mix));
    uint32_t n = 0, out = 0;
    for (uint32_t i = 0; mix && i < w->n_kernels; i++) {
        const void *p = NULL;
        uint32_t len = 0;
        struct hm_def_kernel k;
        if (hm_defs_get(&j->in.run->names, HM_DEF_KERNEL, w->kernel[i].kernel, &p, &len) != HM_OK ||
            len != sizeof(k))
            continue;
        memcpy(&k, p, sizeof(k));
        mix[n++] = (struct hm_mix){k.name, w->kernel[i].n_all, w->kernel[i].all_ns};
    }
    if (n)
        qsort(mix, n, sizeof(*mix), by_name);
    for (uint32_t i = 0; i < n; i++)
        if (out && mix[out - 1].name == mix[i].name) {
            mix[out - 1].n += mix[i].n;
            mix[out - 1].ns += mix[i].ns;
        } else {
            mix[out++] = mix[i];
        }
    *n_p = out;
    return mix;
}

hm_status_t hm_judge_roles(struct hm_judge *j)
{
    size_t n = j->n_workers + 1;
    struct hm_p2p_edge *edge = NULL;
    size_t n_edges = 0;
    uint32_t *rank = malloc(n * sizeof(*rank)), *n_mix = calloc(n, sizeof(*n_mix));
    struct hm_mix **mix = calloc(n, sizeof(*mix));
    hm_status_t s = rank && n_mix && mix ? take_uses(j) : no_memory();
    if (s == HM_OK)
        s = take_edges(j, &edge, &n_edges);
    for (uint32_t w = 0; w < j->n_workers && s == HM_OK; w++) {
        rank[w] = j->in.run->worker[w].rank;
        if (!(mix[w] = mix_of(j, w, &n_mix[w])))
            s = no_memory();
    }
    struct hm_roles_in in = {.n_workers = j->n_workers,
                             .rank = rank,
                             .use = j->use,
                             .n_comms = j->n_uses,
                             .edge = edge,
                             .n_edges = n_edges,
                             .mix = (const struct hm_mix *const *)mix,
                             .n_mix = n_mix,
                             .mesh = j->in.mesh};
    if (s == HM_OK && (s = hm_roles_find(&in, &j->roles)) != HM_OK)
        s = no_memory();
    for (uint32_t w = 0; mix && w < j->n_workers; w++)
        free(mix[w]);
    free(mix);
    free(n_mix);
    free(rank);
    free(edge);
    return s;
}

hm_status_t hm_judge_roles_table(struct hm_judge *j, struct hm_result *r)
{
    for (uint32_t i = 0; i < j->roles.n_roles; i++) {
        struct hm_role *q = &j->roles.of[i];
        struct hm_out_role *t = hm_result_add(r, HM_T_role);
        if (!t)
            return no_memory();
        t->label = strdup(q->label);
        t->world = q->world;
        t->stage = q->stage == HM_NO_ID ? HM_NONE(HM_NONE_UNKNOWN) : (int64_t)q->stage;
        t->evidence = q->evidence ? strdup(q->evidence) : NULL;
        size_t len = 0, cap = 12 * (size_t)q->n + 12;
        char *ids = malloc(cap);
        if (!ids)
            return no_memory();
        ids[0] = 0;
        uint32_t last = HM_NO_ID;
        for (uint32_t w = 0; w < j->n_workers; w++) {
            uint32_t rank = j->in.run->worker[w].rank;
            if (j->roles.role[w] == i && rank != last && len + 12 < cap)
                len += (size_t)snprintf(ids + len, cap - len, "%s%u", len ? "," : "", rank);
            last = j->roles.role[w] == i ? rank : last;
        }
        t->ids = ids;
    }
    return HM_OK;
}
