/* Roles, worlds, dimensions: jobs whose layout is known, written down by hand. */
#include "analysis/roles.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RANKS = 64, MAX_COMMS = 96 };

/* A job under construction. */
struct job {
    uint32_t n, rank[MAX_RANKS], n_comms, member[MAX_COMMS][MAX_RANKS], n_mix[MAX_RANKS];
    struct hm_comm_use use[MAX_COMMS];
    struct hm_p2p_edge edge[256];
    size_t n_edges;
    struct hm_mix kernels[MAX_RANKS][4];
    const struct hm_mix *mix[MAX_RANKS];
};

static struct job *job_of(uint32_t n)
{
    struct job *j = calloc(1, sizeof(*j));
    j->n = n;
    for (uint32_t w = 0; w < n; w++) {
        j->rank[w] = w;
        j->mix[w] = j->kernels[w];
    }
    return j;
}

/* `n` ranks from `first` on, `stride` apart. */
static struct hm_comm_use *comm(struct job *j, uint32_t first, uint32_t n, uint32_t stride,
                                const char *name)
{
    struct hm_comm_use *u = &j->use[j->n_comms];
    for (uint32_t i = 0; i < n; i++)
        j->member[j->n_comms][i] = first + i * stride;
    *u = (struct hm_comm_use){
        .key = j->n_comms + 1, .name = name, .member = j->member[j->n_comms], .n_members = n};
    j->n_comms++;
    return u;
}

static void carries(struct hm_comm_use *u, int func, uint64_t n, uint64_t bytes)
{
    u->n[func] += n;
    u->bytes[func] += bytes;
}

static void sends(struct job *j, struct hm_comm_use *u, uint32_t src, uint32_t dst, uint64_t n,
                  uint64_t n_paired)
{
    j->edge[j->n_edges++] = (struct hm_p2p_edge){
        .src = src, .dst = dst, .comm = (uint32_t)(u - j->use), .n = n, .n_paired = n_paired};
    carries(u, HM_NCCL_SEND, n, n << 20);
}

static void runs(struct job *j, uint32_t w, uint32_t name, int64_t ns)
{
    j->kernels[w][j->n_mix[w]++] = (struct hm_mix){.name = name, .n = 10, .ns = ns};
}

static struct hm_roles find(struct job *j, const struct hm_mesh *mesh)
{
    struct hm_roles_in in = {.n_workers = j->n,
                             .rank = j->rank,
                             .use = j->use,
                             .n_comms = j->n_comms,
                             .edge = j->edge,
                             .n_edges = j->n_edges,
                             .mix = j->mix,
                             .n_mix = j->n_mix,
                             .mesh = mesh};
    struct hm_roles r;
    cr_assert_eq(hm_roles_find(&in, &r), HM_OK);
    return r;
}

static void is_dim(const struct hm_comm_use *u, enum hm_dim dim)
{
    cr_assert_str_eq(hm_dim_name((enum hm_dim)u->dim) ? hm_dim_name((enum hm_dim)u->dim) : "none",
                     hm_dim_name(dim) ? hm_dim_name(dim) : "none", "communicator %u",
                     (unsigned)u->key);
}

Test(roles, names_of_frameworks)
{
    static const struct {
        const char *name;
        enum hm_dim dim;
    } row[] = {{"TENSOR_MODEL_PARALLEL_GROUP", HM_DIM_TP},
               {"PIPELINE_MODEL_PARALLEL_GROUP", HM_DIM_PP},
               {"DATA_PARALLEL_GROUP", HM_DIM_DP},
               {"DATA_PARALLEL_GROUP_WITH_CP", HM_DIM_DP},
               {"EXPERT_DATA_PARALLEL_GROUP", HM_DIM_DP},
               {"EXPERT_MODEL_PARALLEL_GROUP", HM_DIM_EP},
               {"CONTEXT_PARALLEL_GROUP", HM_DIM_CP},
               {"mesh_dp_replicate", HM_DIM_DP},
               {"mesh_dp_shard", HM_DIM_FSDP},
               {"mesh_tp", HM_DIM_TP},
               {"default_pg", HM_DIM_NONE},
               {"output", HM_DIM_NONE}, /* "tp" inside a word is no word */
               {"", HM_DIM_NONE}};
    for (size_t i = 0; i < sizeof(row) / sizeof(*row); i++)
        cr_expect_eq(hm_dim_of_name(row[i].name), row[i].dim, "%s", row[i].name);
}

Test(roles, mesh_last_varies_fastest)
{
    struct hm_mesh m;
    cr_assert_eq(hm_mesh_parse("dp=2,pp=4,tp=8", &m), HM_OK);
    cr_assert_eq(hm_mesh_size(&m), 64);
    /* rank 43 = 1 * 32 + 1 * 8 + 3 */
    cr_assert_eq(hm_mesh_at(&m, 43, HM_DIM_DP), 1);
    cr_assert_eq(hm_mesh_at(&m, 43, HM_DIM_PP), 1);
    cr_assert_eq(hm_mesh_at(&m, 43, HM_DIM_TP), 3);
    cr_assert_eq(hm_mesh_at(&m, 43, HM_DIM_EP), 0);
    static const char *const bad[] = {"",     "dp",        "dp=",   "dp=0",     "dp=2,",
                                      "xx=2", "dp=2,dp=2", "dp=-1", "dp=2;tp=2"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        cr_expect_eq(hm_mesh_parse(bad[i], &m), HM_E_USAGE, "%s", bad[i]);
}

/* U7: tensor parallel 8 x data parallel 2. */
Test(roles, tensor_inside_data)
{
    struct job *j = job_of(16);
    for (uint32_t g = 0; g < 2; g++)
        carries(comm(j, 8 * g, 8, 1, ""), HM_NCCL_ALLREDUCE, 200, 200 << 20);
    for (uint32_t i = 0; i < 8; i++)
        carries(comm(j, i, 2, 8, ""), HM_NCCL_ALLREDUCE, 20, 20 << 24);
    carries(comm(j, 0, 16, 1, ""), HM_NCCL_ALLREDUCE, 20, 80);
    struct hm_roles r = find(j, NULL);
    cr_assert_eq(r.n_worlds, 1);
    cr_assert_eq(r.n_roles, 1);
    cr_assert_str_eq(r.of[0].label, "all");
    is_dim(&j->use[0], HM_DIM_TP);
    is_dim(&j->use[1], HM_DIM_TP);
    for (int i = 2; i < 10; i++)
        is_dim(&j->use[i], HM_DIM_DP);
    is_dim(&j->use[10], HM_DIM_WORLD);
    cr_assert_eq(j->use[2].stride, 8);
    hm_roles_clear(&r);
    free(j);
}

Test(roles, one_communicator_is_data_parallel_or_sharded)
{
    struct job *j = job_of(8);
    carries(comm(j, 0, 8, 1, ""), HM_NCCL_ALLREDUCE, 40, 40 << 20);
    struct hm_roles r = find(j, NULL);
    is_dim(&j->use[0], HM_DIM_DP);
    hm_roles_clear(&r);
    carries(&j->use[0], HM_NCCL_ALLGATHER, 80, (uint64_t)80 << 24);
    carries(&j->use[0], HM_NCCL_REDUCESCATTER, 40, (uint64_t)40 << 24);
    r = find(j, NULL);
    is_dim(&j->use[0], HM_DIM_FSDP);
    hm_roles_clear(&r);
    free(j);
}

/* U9: 4 stages x 2 replicas, one communicator for each pair and direction. */
Test(roles, stages_from_chains_of_messages)
{
    struct job *j = job_of(8);
    for (uint32_t d = 0; d < 2; d++)
        for (uint32_t s = 0; s < 3; s++) {
            uint32_t a = 2 * s + d, b = a + 2;
            struct hm_comm_use *down = comm(j, a, 2, 2, "");
            sends(j, down, a, b, 160, 0);
            struct hm_comm_use *up = comm(j, a, 2, 2, "");
            sends(j, up, b, a, 160, 0);
        }
    for (uint32_t s = 0; s < 4; s++)
        carries(comm(j, 2 * s, 2, 1, ""), HM_NCCL_ALLREDUCE, 20, 20 << 20);
    for (uint32_t w = 0; w < 8; w++) {
        runs(j, w, 1, 90);
        if (w >= 6)
            runs(j, w, 2, 30);
    }
    struct hm_roles r = find(j, NULL);
    cr_assert_eq(r.n_stages, 4);
    cr_assert_eq(r.n_roles, 4);
    for (uint32_t w = 0; w < 8; w++) {
        cr_assert_eq(r.stage[w], w / 2);
        cr_assert_eq(r.role[w], w / 2);
    }
    cr_assert_str_eq(r.of[3].label, "stage 3");
    is_dim(&j->use[0], HM_DIM_PP);
    is_dim(&j->use[12], HM_DIM_DP); /* 20 all-reduces beside 120 messages a rank: once a step */
    cr_assert(strstr(r.of[3].evidence, "place 3 in the chain"), "%s", r.of[3].evidence);
    hm_roles_clear(&r);
    /* the mesh says otherwise: 2 replicas of 4 stages, ranks 0..3 in one pipeline */
    struct hm_mesh m;
    cr_assert_eq(hm_mesh_parse("dp=2,pp=4", &m), HM_OK);
    r = find(j, &m);
    for (uint32_t w = 0; w < 8; w++)
        cr_assert_eq(r.stage[w], w % 4);
    hm_roles_clear(&r);
    free(j);
}

/* The groups beside a pipeline launch in every layer of every micro-batch: tensor parallel. */
Test(roles, tensor_beside_a_pipeline)
{
    struct job *j = job_of(8);
    for (uint32_t i = 0; i < 4; i++) {
        struct hm_comm_use *u = comm(j, i, 2, 4, "");
        sends(j, u, i, i + 4, 160, 80);
        sends(j, u, i + 4, i, 160, 80);
    }
    for (uint32_t s = 0; s < 2; s++)
        carries(comm(j, 4 * s, 4, 1, ""), HM_NCCL_ALLREDUCE, 160 * 16, (uint64_t)160 * 16 << 20);
    struct hm_roles r = find(j, NULL);
    is_dim(&j->use[4], HM_DIM_TP);
    is_dim(&j->use[0], HM_DIM_PP);
    cr_assert_eq(r.n_roles, 2);
    hm_roles_clear(&r);
    free(j);
}

/* Ring attention: everybody sends to the next and receives from the one before, at once. */
Test(roles, a_ring_of_messages_is_context_parallel)
{
    struct job *j = job_of(4);
    struct hm_comm_use *u = comm(j, 0, 4, 1, "");
    for (uint32_t i = 0; i < 4; i++)
        sends(j, u, i, (i + 1) % 4, 100, 100);
    struct hm_roles r = find(j, NULL);
    is_dim(u, HM_DIM_CP);
    cr_assert_eq(r.n_stages, 0);
    cr_assert_eq(r.n_roles, 1);
    hm_roles_clear(&r);
    free(j);
}

/* U14: an all-to-all-v in pieces, one pair without bytes. */
Test(roles, most_pairs_exchange_is_expert_parallel)
{
    struct job *j = job_of(8);
    struct hm_comm_use *u = comm(j, 0, 8, 1, "");
    for (uint32_t a = 0; a < 8; a++)
        for (uint32_t b = 0; b < 8; b++)
            if (a != b && !(a == 7 && b == 2))
                sends(j, u, a, b, 100, 100);
    struct hm_roles r = find(j, NULL);
    is_dim(u, HM_DIM_EP);
    cr_assert_eq(r.n_roles, 1);
    hm_roles_clear(&r);
    free(j);
}

/* A trainer of 4 and a generator of 2 that share no communicator. */
Test(roles, worlds_apart)
{
    struct job *j = job_of(7);
    carries(comm(j, 0, 4, 1, ""), HM_NCCL_ALLREDUCE, 10, 10);
    carries(comm(j, 4, 2, 1, ""), HM_NCCL_ALLREDUCE, 10, 10);
    struct hm_roles r = find(j, NULL);
    static const uint32_t want[7] = {0, 0, 0, 0, 1, 1, 2};
    cr_assert_eq(r.n_worlds, 3);
    for (uint32_t w = 0; w < 7; w++)
        cr_assert_eq(r.world[w], want[w]);
    cr_assert_str_eq(r.of[1].label, "world 1");
    hm_roles_clear(&r);
    free(j);
}

/* One world, but half of its ranks run other kernels; who is slower or has more stays. */
Test(roles, kernel_mix_tells_roles_apart)
{
    struct job *j = job_of(6);
    carries(comm(j, 0, 6, 1, ""), HM_NCCL_ALLREDUCE, 10, 10);
    for (uint32_t w = 0; w < 6; w++) {
        runs(j, w, w < 3 ? 1 : 2, w == 1 ? 300 : 100);
        runs(j, w, 3, 60);
    }
    runs(j, 2, 4, 100); /* 100 of 260 in a kernel of its own: still mostly alike */
    struct hm_roles r = find(j, NULL);
    cr_assert_eq(r.n_roles, 2);
    for (uint32_t w = 0; w < 6; w++)
        cr_assert_eq(r.role[w], w / 3);
    cr_assert_str_eq(r.of[0].label, "group A");
    cr_assert_str_eq(r.of[1].label, "group B");
    hm_roles_clear(&r);
    free(j);
}

/* Members that are not in the run, communicators of one, nobody at all. */
Test(roles, odd_jobs)
{
    struct job *j = job_of(2);
    struct hm_comm_use *u = comm(j, 0, 4, 1, "");
    j->member[0][2] = j->member[0][3] = HM_NO_ID;
    carries(u, HM_NCCL_ALLREDUCE, 10, 10);
    carries(comm(j, 0, 1, 1, ""), HM_NCCL_ALLREDUCE, 10, 10);
    struct hm_roles r = find(j, NULL);
    cr_assert_eq(u->n_present, 2);
    cr_assert_eq(r.n_roles, 1);
    hm_roles_clear(&r);
    j->n = 0;
    j->n_comms = 0;
    r = find(j, NULL);
    cr_assert_eq(r.n_roles, 0);
    hm_roles_clear(&r);
    free(j);
}
