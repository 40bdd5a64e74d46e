/* Worlds, pipeline stages, kernel mix -> roles.
 *
 * Box: lib/analysis. Pure, one thread. Invariant: every worker has one world and one role; workers
 * of one role are of one world and one stage. Source: facts on scenarios, rule 8.
 */
#include "analysis/roles.h"

#include "analysis/judge_inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Two workers do the same when at least half of the compute time of each lies in kernels that the
 * other runs too: more alike than not. Times differ with slow GPUs and more work, names do not. */
static const double ALIKE = 0.5;
enum { MAX_GROUPS = 64 }; /* kernel mixes told apart in one stage */

/* ---- worlds ---- */

static uint32_t root_of(uint32_t *up, uint32_t i)
{
    while (up[i] != i) {
        up[i] = up[up[i]];
        i = up[i];
    }
    return i;
}

uint32_t hm_worlds_find(const struct hm_roles_in *in, uint32_t *world)
{
    for (uint32_t w = 0; w < in->n_workers; w++)
        world[w] = w;
    for (uint32_t c = 0; c < in->n_comms; c++) {
        const struct hm_comm_use *u = &in->use[c];
        uint32_t first = HM_NO_ID;
        for (uint32_t i = 0; i < u->n_members; i++) {
            if (u->member[i] >= in->n_workers)
                continue;
            uint32_t a = root_of(world, u->member[i]);
            uint32_t b = first == HM_NO_ID ? a : root_of(world, first);
            if (a != b)
                world[a > b ? a : b] = a < b ? a : b;
            first = u->member[i];
        }
    }
    /* roots are the lowest of their world: numbered in order of their first worker */
    uint32_t n = 0;
    for (uint32_t w = 0; w < in->n_workers; w++) {
        uint32_t r = root_of(world, w);
        if (r != w)
            world[w] = r;
    }
    for (uint32_t w = 0; w < in->n_workers; w++)
        world[w] = world[w] == w ? n++ : world[world[w]];
    return n;
}

/* ---- pipeline stages ---- */

/* Undirected neighbours of each worker: up to 3 are kept, more make it no chain. */
struct near {
    uint32_t n, at[3];
};

static void add_neighbour(struct near *v, uint32_t a, uint32_t b)
{
    for (uint32_t i = 0; i < v[a].n && i < 3; i++)
        if (v[a].at[i] == b)
            return;
    if (v[a].n < 3)
        v[a].at[v[a].n] = b;
    v[a].n++;
}

/* First edge of a communicator. */
static size_t edges_of(const struct hm_roles_in *in, uint32_t comm)
{
    size_t lo = 0, hi = in->n_edges;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (in->edge[mid].comm < comm)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* What a communicator that carries only messages is for, by its own messages. */
static enum hm_dim dim_of_messages(const struct hm_roles_in *in, uint32_t comm)
{
    const struct hm_comm_use *u = &in->use[comm];
    uint64_t n = 0, n_paired = 0, n_edges = 0, n_back = 0;
    size_t first = edges_of(in, comm), end = edges_of(in, comm + 1);
    for (size_t i = first; i < end; i++) {
        const struct hm_p2p_edge *e = &in->edge[i];
        n_edges++;
        n += e->n;
        n_paired += e->n_paired;
        if (end - first > 2 * (size_t)u->n_present)
            continue; /* no ring: most pairs, below, or a mesh of messages */
        for (size_t k = first; k < end; k++)
            n_back += in->edge[k].src == e->dst && in->edge[k].dst == e->src;
    }
    if (!n_edges || u->n_present < 3)
        return n_edges && n == n_paired ? HM_DIM_CP : HM_DIM_PP;
    if (2 * n_edges > (uint64_t)u->n_present * (u->n_present - 1))
        return HM_DIM_EP; /* most pairs exchange: an all-to-all in pieces */
    if (n_edges == u->n_present && !n_back && n == n_paired)
        return HM_DIM_CP; /* a ring, one way, everybody sends and receives at once */
    return HM_DIM_PP;
}

static int messages_only(const struct hm_comm_use *u)
{
    uint64_t n = 0, p2p = u->n[HM_NCCL_SEND] + u->n[HM_NCCL_RECV] + u->n[HM_NCCL_SENDRECV];
    for (int f = 0; f < HM_NCCL_N_FUNCS; f++)
        n += u->n[f];
    return p2p && 2 * p2p > n;
}

/* Walks the chain from one end; 0 = it is none. Rings begin at their lowest worker. */
static uint32_t walk(const struct near *v, uint32_t start, uint32_t *stage)
{
    uint32_t n = 0, at = start, from = HM_NO_ID;
    while (at != HM_NO_ID && stage[at] == HM_NO_ID) {
        if (v[at].n > 2)
            return 0;
        stage[at] = n++;
        uint32_t next = HM_NO_ID;
        for (uint32_t i = 0; i < v[at].n; i++)
            if (v[at].at[i] != from && stage[v[at].at[i]] == HM_NO_ID &&
                (next == HM_NO_ID || v[at].at[i] < next))
                next = v[at].at[i];
        from = at;
        at = next;
    }
    return n;
}

uint32_t hm_stages_find(const struct hm_roles_in *in, uint32_t *stage)
{
    struct near *v = calloc(in->n_workers + 1, sizeof(*v));
    uint32_t most = 0;
    memset(stage, 0xff, in->n_workers * sizeof(*stage));
    if (!v)
        return UINT32_MAX;
    for (uint32_t c = 0; c < in->n_comms; c++) {
        struct hm_comm_use *u = &in->use[c];
        if (!messages_only(u))
            continue;
        enum hm_dim named = u->name ? hm_dim_of_name(u->name) : HM_DIM_NONE;
        u->dim = (uint8_t)(named != HM_DIM_NONE ? named : dim_of_messages(in, c));
        u->dim_from = named != HM_DIM_NONE ? "its name" : "who sends to whom";
    }
    for (size_t i = 0; i < in->n_edges; i++) {
        const struct hm_p2p_edge *e = &in->edge[i];
        if (in->use[e->comm].dim != HM_DIM_PP || e->src == e->dst)
            continue;
        add_neighbour(v, e->src, e->dst);
        add_neighbour(v, e->dst, e->src);
    }
    /* ends of chains first, each from the end with the lower rank; what is left are rings */
    for (int rings = 0; rings < 2; rings++)
        for (uint32_t w = 0; w < in->n_workers; w++)
            if (stage[w] == HM_NO_ID && v[w].n && (rings || v[w].n == 1)) {
                uint32_t n = walk(v, w, stage);
                most = n > most ? n : most;
            }
    /* not a chain after all: a worker with three neighbours leaves its whole component without */
    for (int again = 1; again;) {
        again = 0;
        for (uint32_t w = 0; w < in->n_workers; w++) {
            if (!v[w].n || (v[w].n <= 2 && stage[w] != HM_NO_ID))
                continue;
            for (uint32_t i = 0; i < v[w].n && i < 3; i++) {
                again |= stage[v[w].at[i]] != HM_NO_ID;
                stage[v[w].at[i]] = HM_NO_ID;
            }
            stage[w] = HM_NO_ID;
        }
    }
    free(v);
    most = 0;
    for (uint32_t w = 0; w < in->n_workers; w++)
        if (stage[w] != HM_NO_ID && stage[w] >= most)
            most = stage[w] + 1;
    return most;
}

/* ---- kernel mix ---- */

/* Part of a's time in names that b runs too. */
static double shared(const struct hm_mix *a, uint32_t n_a, const struct hm_mix *b, uint32_t n_b)
{
    int64_t all = 0, both = 0;
    for (uint32_t i = 0, k = 0; i < n_a; i++) {
        while (k < n_b && b[k].name < a[i].name)
            k++;
        all += a[i].ns;
        if (k < n_b && b[k].name == a[i].name)
            both += a[i].ns;
    }
    return all > 0 ? (double)both / (double)all : 1;
}

static int alike(const struct hm_roles_in *in, uint32_t a, uint32_t b)
{
    if (!in->mix || !in->n_mix[a] || !in->n_mix[b])
        return 1;
    return shared(in->mix[a], in->n_mix[a], in->mix[b], in->n_mix[b]) >= ALIKE &&
           shared(in->mix[b], in->n_mix[b], in->mix[a], in->n_mix[a]) >= ALIKE;
}

/* ---- roles ---- */

static hm_status_t new_role(struct hm_roles *r, uint32_t w, uint32_t *first_of)
{
    struct hm_role *of = realloc(r->of, (r->n_roles + 1) * sizeof(*of));
    if (!of)
        return HM_E_NOMEM;
    r->of = of;
    of[r->n_roles] = (struct hm_role){.world = r->world[w], .stage = r->stage[w]};
    first_of[r->n_roles] = w;
    r->role[w] = r->n_roles++;
    return HM_OK;
}

static hm_status_t label(struct hm_roles *r, uint32_t i)
{
    struct hm_role *q = &r->of[i];
    uint32_t n_groups = 0, group = 0, n_in_world = 0;
    for (uint32_t k = 0; k < r->n_roles; k++) {
        n_in_world += r->of[k].world == q->world;
        if (r->of[k].world != q->world || r->of[k].stage != q->stage)
            continue;
        group += k < i;
        n_groups++;
    }
    char part[64], world[32] = "";
    if (r->n_worlds > 1)
        snprintf(world, sizeof(world), "world %u", q->world);
    if (n_groups > 1)
        snprintf(part, sizeof(part), "group %c%s", (char)('A' + group % 26),
                 q->stage == HM_NO_ID ? "" : " of ");
    else
        part[0] = 0;
    if (q->stage != HM_NO_ID)
        snprintf(part + strlen(part), sizeof(part) - strlen(part), "stage %u", q->stage);
    if (!part[0] && !world[0])
        snprintf(part, sizeof(part), "all");
    q->label = hm_text("%s%s%s", world, world[0] && part[0] ? " " : "", part);
    return q->label ? HM_OK : HM_E_NOMEM;
}

static void explain(const struct hm_roles_in *in, struct hm_roles *r, uint32_t i)
{
    struct hm_role *q = &r->of[i];
    uint32_t n_min = UINT32_MAX, n_max = 0, n_size = 0;
    double least = 1;
    uint32_t first = HM_NO_ID;
    for (uint32_t w = 0; w < r->n_workers; w++) {
        n_size += r->world[w] == q->world;
        if (r->role[w] != i)
            continue;
        uint32_t n = 0;
        for (uint32_t k = 0; in->mix && k < in->n_mix[w]; k++)
            n += in->mix[w][k].n;
        n_min = n < n_min ? n : n_min;
        n_max = n > n_max ? n : n_max;
        if (first == HM_NO_ID) {
            first = w;
        } else if (in->mix) {
            double s = shared(in->mix[w], in->n_mix[w], in->mix[first], in->n_mix[first]);
            least = s < least ? s : least;
        }
    }
    if (r->n_worlds > 1)
        hm_list_add(&q->evidence, "no communicator connects its world of %u with the others",
                    n_size);
    if (q->stage != HM_NO_ID)
        hm_list_add(&q->evidence,
                    in->mesh ? "place %u along pp in the mesh given"
                             : "place %u in the chain of messages",
                    q->stage);
    if (n_max)
        hm_list_add(&q->evidence,
                    "kernels: %.0f %% of the time or more in the same ones; %u to %u launches",
                    100 * least, n_min, n_max);
    for (int d = HM_DIM_DP; d < HM_N_DIMS; d++) {
        const struct hm_comm_use *example = NULL;
        uint32_t n = 0;
        for (uint32_t c = 0; c < in->n_comms; c++) {
            const struct hm_comm_use *u = &in->use[c];
            int mine = 0;
            for (uint32_t k = 0; u->dim == d && k < u->n_members; k++)
                mine |= u->member[k] < r->n_workers && r->role[u->member[k]] == i;
            n += (uint32_t)mine;
            if (mine && !example)
                example = u;
        }
        if (example)
            hm_list_add(&q->evidence, "%s: in %u communicator%s of %u, by %s",
                        hm_dim_name((enum hm_dim)d), n, n == 1 ? "" : "s", example->n_members,
                        example->dim_from);
    }
}

static void strides(const struct hm_roles_in *in, const uint32_t *world)
{
    for (uint32_t c = 0; c < in->n_comms; c++) {
        struct hm_comm_use *u = &in->use[c];
        uint32_t last = HM_NO_ID;
        int regular = 1;
        u->n_present = u->stride = u->dim = 0;
        u->dim_from = NULL;
        u->world = HM_NO_ID;
        for (uint32_t i = 0; i < u->n_members; i++) {
            if (u->member[i] >= in->n_workers)
                continue;
            uint32_t rank = in->rank[u->member[i]];
            if (u->n_present == 1)
                u->stride = rank - last;
            else if (u->n_present > 1)
                regular &= rank - last == u->stride;
            last = rank;
            u->n_present++;
            u->world = world[u->member[i]];
        }
        if (!regular || u->stride > in->n_workers)
            u->stride = 0;
    }
}

hm_status_t hm_roles_find(const struct hm_roles_in *in, struct hm_roles *roles_p)
{
    size_t n = in->n_workers + 1;
    struct hm_roles r = {.n_workers = in->n_workers,
                         .world = calloc(n, sizeof(uint32_t)),
                         .stage = calloc(n, sizeof(uint32_t)),
                         .role = calloc(n, sizeof(uint32_t))};
    uint32_t *first_of = calloc(n, sizeof(*first_of));
    hm_status_t s = r.world && r.stage && r.role && first_of ? HM_OK : HM_E_NOMEM;
    if (s == HM_OK) {
        r.n_worlds = hm_worlds_find(in, r.world);
        strides(in, r.world);
        r.n_stages = hm_stages_find(in, r.stage);
        if (r.n_stages == UINT32_MAX)
            s = HM_E_NOMEM;
    }
    if (s == HM_OK && in->mesh) {
        int has_pp = 0;
        for (uint32_t d = 0; d < in->mesh->n_dims; d++)
            has_pp |= in->mesh->dim[d] == HM_DIM_PP;
        r.n_stages = 0;
        for (uint32_t w = 0; w < in->n_workers; w++) {
            r.stage[w] = has_pp ? hm_mesh_at(in->mesh, in->rank[w], HM_DIM_PP) : HM_NO_ID;
            if (has_pp && r.stage[w] >= r.n_stages)
                r.n_stages = r.stage[w] + 1;
        }
    }
    if (s == HM_OK)
        hm_dims_find(in, r.world);
    for (uint32_t w = 0; w < in->n_workers && s == HM_OK; w++) {
        uint32_t i = 0, n_same = 0;
        for (; i < r.n_roles; i++) {
            if (r.of[i].world != r.world[w] || r.of[i].stage != r.stage[w])
                continue;
            if (++n_same >= MAX_GROUPS || alike(in, w, first_of[i]))
                break;
        }
        if (i < r.n_roles)
            r.role[w] = i;
        else
            s = new_role(&r, w, first_of);
        if (s == HM_OK)
            r.of[r.role[w]].n++;
    }
    for (uint32_t i = 0; i < r.n_roles && s == HM_OK; i++) {
        s = label(&r, i);
        explain(in, &r, i);
    }
    free(first_of);
    if (s == HM_OK)
        *roles_p = r;
    else
        hm_roles_clear(&r);
    return s;
}

void hm_roles_clear(struct hm_roles *r)
{
    for (uint32_t i = 0; i < r->n_roles; i++) {
        free(r->of[i].label);
        free(r->of[i].evidence);
    }
    free(r->of);
    free(r->world);
    free(r->stage);
    free(r->role);
    memset(r, 0, sizeof(*r));
}
