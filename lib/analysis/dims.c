/* Dimensions of communicators: by the mesh, by name, by what they carry, by stride.
 *
 * Box: lib/analysis. Pure, one thread. Source: facts on scenarios, rule 8. What the rules rest on:
 * tensor parallel groups synchronise in every layer, replicas once a step; frameworks number ranks
 * so that the dimension that talks most has the smallest stride (it stays inside a node).
 */
#include "analysis/roles.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

const char *hm_dim_name(enum hm_dim dim)
{
    static const char *const name[HM_N_DIMS] = {NULL, "dp", "fsdp", "tp",
                                                "pp", "cp", "ep",   "world"};
    return (unsigned)dim < HM_N_DIMS ? name[dim] : NULL;
}

/* ---- by name ---- */

/* Does `name` hold the word, alone or between other characters than letters and digits? */
static int has_word(const char *name, const char *word)
{
    size_t len = strlen(word);
    for (const char *p = name; *p; p++)
        if (!strncasecmp(p, word, len) && (p == name || !isalnum((unsigned char)p[-1])) &&
            !isalnum((unsigned char)p[len]))
            return 1;
    return 0;
}

enum hm_dim hm_dim_of_name(const char *name)
{
    /* in this order: PIPELINE_MODEL_PARALLEL, EXPERT_DATA_PARALLEL, TENSOR_AND_EXPERT_PARALLEL and
     * DATA_PARALLEL_WITH_CP name more than one */
    static const struct {
        enum hm_dim dim;
        const char *word[8];
    } rule[] = {{HM_DIM_PP, {"pp", "pipe", "pipeline"}},
                {HM_DIM_FSDP, {"fsdp", "zero", "shard", "hsdp"}},
                {HM_DIM_DP, {"dp", "ddp", "data", "replicate", "replica"}},
                {HM_DIM_TP, {"tp", "tensor", "mp"}},
                {HM_DIM_CP, {"cp", "sp", "context", "sequence", "ulysses"}},
                {HM_DIM_EP, {"ep", "expert", "moe"}}};
    for (size_t i = 0; i < sizeof(rule) / sizeof(*rule); i++)
        for (int k = 0; k < 8 && rule[i].word[k]; k++)
            if (has_word(name, rule[i].word[k]))
                return rule[i].dim;
    return HM_DIM_NONE;
}

/* ---- by mesh ---- */

hm_status_t hm_mesh_parse(const char *text, struct hm_mesh *mesh_p)
{
    struct hm_mesh m = {0};
    for (const char *p = text; *p;) {
        const char *eq = strchr(p, '=');
        char *end = NULL;
        enum hm_dim dim = HM_DIM_NONE;
        for (int d = HM_DIM_DP; eq && d < HM_DIM_WORLD; d++)
            if (strlen(hm_dim_name((enum hm_dim)d)) == (size_t)(eq - p) &&
                !strncasecmp(p, hm_dim_name((enum hm_dim)d), (size_t)(eq - p)))
                dim = (enum hm_dim)d;
        unsigned long size = eq && isdigit((unsigned char)eq[1]) ? strtoul(eq + 1, &end, 10) : 0;
        int twice = 0;
        for (uint32_t i = 0; i < m.n_dims; i++)
            twice |= m.dim[i] == dim;
        if (!dim || twice || !size || size > 1u << 20 || (*end && (*end != ',' || !end[1])))
            return hm_fail(
                HM_E_USAGE, "mesh",
                "%s: write DIM=SIZE,DIM=SIZE with DIM each once of dp, fsdp, tp, pp, cp, "
                "ep; the last varies fastest, e.g. dp=2,pp=4,tp=8",
                text);
        m.dim[m.n_dims] = dim;
        m.size[m.n_dims++] = (uint32_t)size;
        p = *end ? end + 1 : end;
    }
    if (!m.n_dims)
        return hm_fail(HM_E_USAGE, "mesh", "no dimension given, e.g. dp=2,pp=4,tp=8");
    *mesh_p = m;
    return HM_OK;
}

uint64_t hm_mesh_size(const struct hm_mesh *mesh)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < mesh->n_dims && n < UINT32_MAX; i++)
        n *= mesh->size[i];
    return n;
}

uint32_t hm_mesh_at(const struct hm_mesh *mesh, uint32_t rank, enum hm_dim dim)
{
    for (uint32_t i = mesh->n_dims; i--;) {
        if (mesh->dim[i] == dim)
            return rank % mesh->size[i];
        rank /= mesh->size[i];
    }
    return 0;
}

/* The dimension along which the members differ. Several: gradients are what is reduced over more
 * than one, so replicas go first. */
static enum hm_dim by_mesh(const struct hm_roles_in *in, const struct hm_comm_use *u)
{
    int differs[HM_N_DIMS] = {0};
    uint32_t n = 0, first = HM_NO_ID, dims = 0;
    for (uint32_t i = 0; i < u->n_members; i++) {
        if (u->member[i] == HM_NO_ID)
            continue;
        uint32_t rank = in->rank[u->member[i]];
        if (!n++)
            first = rank;
        for (uint32_t d = 0; d < in->mesh->n_dims; d++)
            differs[in->mesh->dim[d]] |= hm_mesh_at(in->mesh, rank, in->mesh->dim[d]) !=
                                         hm_mesh_at(in->mesh, first, in->mesh->dim[d]);
    }
    enum hm_dim last = HM_DIM_NONE;
    for (int d = 0; d < HM_N_DIMS; d++)
        if (differs[d]) {
            last = (enum hm_dim)d;
            dims++;
        }
    if (n == hm_mesh_size(in->mesh) && dims > 1)
        return HM_DIM_WORLD;
    return differs[HM_DIM_DP] ? HM_DIM_DP : differs[HM_DIM_FSDP] ? HM_DIM_FSDP : last;
}

/* ---- by what they carry, and by stride ---- */

/* Siblings: communicators of one world, size and stride. */
struct family {
    uint32_t world, n_present, stride, n_comms;
    uint64_t n, gather, reduce_scatter, n_gather, n_reduce_scatter, bytes; /* over its members */
};

static uint64_t sync_launches(const struct hm_comm_use *u)
{
    return u->n[HM_NCCL_ALLREDUCE] + u->n[HM_NCCL_ALLGATHER] + u->n[HM_NCCL_REDUCESCATTER];
}

static uint64_t sync_bytes(const struct hm_comm_use *u)
{
    return u->bytes[HM_NCCL_ALLREDUCE] + u->bytes[HM_NCCL_ALLGATHER] +
           u->bytes[HM_NCCL_REDUCESCATTER];
}

static int is_all_to_all(const struct hm_comm_use *u)
{
    return u->n[HM_NCCL_ALLTOALL] && u->bytes[HM_NCCL_ALLTOALL] >= sync_bytes(u);
}

static void set(struct hm_comm_use *u, enum hm_dim dim, const char *from)
{
    u->dim = (uint8_t)dim;
    u->dim_from = from;
}

static int by_launches(const void *x, const void *y)
{
    const struct family *p = x, *q = y;
    uint64_t a = p->n / p->n_comms, b = q->n / q->n_comms;
    if (p->world != q->world)
        return p->world < q->world ? -1 : 1;
    if (a != b)
        return a > b ? -1 : 1;
    return (p->stride > q->stride) - (p->stride < q->stride);
}

/* Gathers weights twice, forward and backward, and scatters gradients once: sharded data. Tensor
 * parallel layers with sequence parallelism gather as often as they scatter. */
static int is_sharded(const struct family *f)
{
    return f->n_gather && f->n_reduce_scatter && 2 * f->n_gather >= 3 * f->n_reduce_scatter;
}

static enum hm_dim replicas(const struct family *f)
{
    return 2 * (f->gather + f->reduce_scatter) >= f->bytes && f->n_gather && f->n_reduce_scatter
               ? HM_DIM_FSDP
               : HM_DIM_DP;
}

/* Family i of the n of one world, the one that launches most first, without that of all ranks.
 * told: a bit for each dimension that is known already. */
static enum hm_dim dim_of(const struct family *f, uint32_t n, uint32_t i, uint64_t messages,
                          unsigned told, const char **from_p)
{
    int has_dp = (told & (1u << HM_DIM_DP | 1u << HM_DIM_FSDP)) != 0;
    int has_tp = (told & 1u << HM_DIM_TP) != 0;
    *from_p = "what it carries and how often";
    if (n == 1) {
        if (has_dp || has_tp)
            return has_tp ? replicas(&f[0]) : HM_DIM_TP;
        /* Beside a pipeline: every micro-batch passes the tensor parallel layers, at least once
         * forward and once backward; gradients are reduced once a step, in buckets. */
        int often = (told & 1u << HM_DIM_PP) && f[0].n / f[0].n_comms >= 2 * messages;
        return often && !is_sharded(&f[0]) ? HM_DIM_TP : replicas(&f[0]);
    }
    *from_p = "how often it is used, and the stride of its ranks";
    if (i == 0 && !has_tp)
        return is_sharded(&f[0]) ? HM_DIM_FSDP : HM_DIM_TP;
    uint32_t widest = has_tp ? 0 : 1;
    for (uint32_t k = widest + 1; k < n; k++)
        if (f[k].stride > f[widest].stride)
            widest = k;
    return i == widest && !has_dp ? replicas(&f[i]) : HM_DIM_CP;
}

static struct family *family_of(struct family *f, uint32_t *n_p, const struct hm_comm_use *u)
{
    for (uint32_t i = 0; i < *n_p; i++)
        if (f[i].world == u->world && f[i].n_present == u->n_present && f[i].stride == u->stride)
            return &f[i];
    f[*n_p] = (struct family){.world = u->world, .n_present = u->n_present, .stride = u->stride};
    return &f[(*n_p)++];
}

void hm_dims_find(const struct hm_roles_in *in, const uint32_t *world)
{
    uint32_t n_families = 0, *size = calloc(in->n_workers + 1, sizeof(*size));
    struct family *f = calloc(in->n_comms + 1, sizeof(*f));
    uint64_t *messages = calloc(in->n_workers + 1, sizeof(*messages)); /* of a world */
    uint8_t *known = calloc(in->n_comms + 1, 1);                       /* dimensions told before */
    for (uint32_t w = 0; size && w < in->n_workers; w++)
        size[world[w]]++;
    for (size_t i = 0; messages && i < in->n_edges; i++)
        if (in->use[in->edge[i].comm].dim == HM_DIM_PP)
            messages[world[in->edge[i].src]] += in->edge[i].n;
    for (uint32_t c = 0; f && size && messages && known && c < in->n_comms; c++) {
        struct hm_comm_use *u = &in->use[c];
        enum hm_dim named = u->name ? hm_dim_of_name(u->name) : HM_DIM_NONE;
        if (in->mesh && (named = by_mesh(in, u)) != HM_DIM_NONE) {
            set(u, named, "the mesh given");
        } else if (named != HM_DIM_NONE && !in->mesh) {
            set(u, named, "its name");
        } else if (u->dim != HM_DIM_NONE || !u->n_present) {
            continue; /* messages alone: decided with the stages */
        } else if (u->inferred) {
            enum hm_dim d = strcasestr(u->inferred, "deep_ep") || strcasestr(u->inferred, "expert")
                                ? HM_DIM_EP
                            : strcasestr(u->inferred, "reduce") ? HM_DIM_TP
                                                                : HM_DIM_NONE;
            set(u, d, "the name of its kernel");
        } else if (is_all_to_all(u)) {
            set(u, HM_DIM_EP, "all-to-all carries most of its bytes");
        } else if (u->n_present > 1 && sync_launches(u)) {
            struct family *g = family_of(f, &n_families, u);
            g->n_comms++;
            g->n += sync_launches(u);
            g->n_gather += u->n[HM_NCCL_ALLGATHER];
            g->n_reduce_scatter += u->n[HM_NCCL_REDUCESCATTER];
            g->gather += u->bytes[HM_NCCL_ALLGATHER];
            g->reduce_scatter += u->bytes[HM_NCCL_REDUCESCATTER];
            g->bytes += sync_bytes(u);
        }
    }
    for (uint32_t c = 0; known && c < in->n_comms; c++)
        known[c] = in->use[c].dim == HM_DIM_WORLD ? 0 : in->use[c].dim;
    if (f && n_families)
        qsort(f, n_families, sizeof(*f), by_launches);
    for (uint32_t c = 0; f && size && messages && known && c < in->n_comms; c++) {
        struct hm_comm_use *u = &in->use[c];
        if (u->dim != HM_DIM_NONE || u->n_present < 2 || !sync_launches(u))
            continue;
        uint32_t n_all = size[u->world], first = 0, n = 0, me = 0;
        while (first < n_families && f[first].world != u->world)
            first++;
        struct family of[16] = {{0}}; /* more are not told apart */
        for (uint32_t i = first; i < n_families && f[i].world == u->world && n < 16; i++) {
            if (f[i].n_present == n_all)
                continue;
            if (f[i].n_present == u->n_present && f[i].stride == u->stride)
                me = n;
            of[n++] = f[i];
        }
        unsigned told = 0, smaller = 0;
        for (uint32_t k = 0; k < in->n_comms; k++)
            if (in->use[k].world == u->world && in->use[k].n_present > 1 && known[k])
                (in->use[k].n_present < n_all ? &smaller : &told)[0] |= 1u << known[k];
        told |= smaller;
        const char *from = NULL;
        if (u->n_present == n_all) {
            struct family *g = family_of(f, &n_families, u);
            if (n || smaller)
                set(u, HM_DIM_WORLD, "all ranks of the world, beside smaller groups");
            else
                set(u, replicas(g), "what it carries: the only one of its world");
        } else if (n) {
            enum hm_dim d =
                dim_of(of, n, me, messages[u->world] / (n_all ? n_all : 1), told, &from);
            set(u, d, from);
        }
    }
    free(size);
    free(f);
    free(messages);
    free(known);
}
