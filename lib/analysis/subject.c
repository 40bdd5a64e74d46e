/* Subjects: what a set of workers is called, and in which dimension it holds the others up.
 *
 * Box: lib/analysis. Pure. A node, a stage or a group is named when the set is the whole of it and
 * not the whole run: what they have in common is then the better place to look than any of them.
 */
#include "analysis/judge_inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t size_of(const struct hm_judge *j, const uint8_t *set, uint32_t *first_p)
{
    uint32_t n = 0;
    *first_p = HM_NO_ID;
    for (uint32_t w = 0; w < j->n_workers; w++) {
        n += set[w] != 0;
        if (set[w] && *first_p == HM_NO_ID)
            *first_p = w;
    }
    return n;
}

/* Is the set all of the first one's host, and are there others? */
static int is_node(const struct hm_judge *j, const uint8_t *set, uint32_t first)
{
    const char *host = hm_judge_host(j, first);
    if (!*host)
        return 0;
    for (uint32_t w = 0; w < j->n_workers; w++)
        if (set[w] != !strcmp(hm_judge_host(j, w), host))
            return 0;
    return 1;
}

static int is_stage(const struct hm_judge *j, const uint8_t *set, uint32_t first)
{
    uint32_t stage = j->roles.stage[first], world = j->roles.world[first];
    if (stage == HM_NO_ID)
        return 0;
    for (uint32_t w = 0; w < j->n_workers; w++)
        if (set[w] != (j->roles.stage[w] == stage && j->roles.world[w] == world))
            return 0;
    return 1;
}

/* A communicator, smaller than its world, whose members are the set. */
static const struct hm_comm_use *group_of(const struct hm_judge *j, const uint8_t *set, uint32_t n)
{
    for (uint32_t c = 0; c < j->n_uses; c++) {
        const struct hm_comm_use *u = &j->use[c];
        if (u->n_present != n || u->dim == HM_DIM_WORLD || u->dim == HM_DIM_NONE)
            continue;
        uint32_t inside = 0;
        for (uint32_t i = 0; i < u->n_members; i++)
            inside += u->member[i] < j->n_workers && set[u->member[i]];
        if (inside == n)
            return u;
    }
    return NULL;
}

const char *hm_subject_dim(const struct hm_judge *j, const uint8_t *set)
{
    int64_t ns[HM_N_DIMS] = {0};
    int top = HM_DIM_NONE;
    for (uint32_t w = 0; w < j->n_workers; w++)
        for (int d = 0; set[w] && d < HM_N_DIMS; d++)
            ns[d] += j->dim_ns[(size_t)w * HM_N_DIMS + (size_t)d];
    for (int d = HM_DIM_DP; d < HM_N_DIMS; d++)
        if (ns[d] > 0 && (top == HM_DIM_NONE || ns[d] > ns[top]))
            top = d;
    return hm_dim_name((enum hm_dim)top);
}

const char *hm_subject_dim_of(const struct hm_judge *j, uint64_t comm)
{
    for (uint32_t c = 0; c < j->n_uses; c++)
        if (j->use[c].key == comm)
            return hm_dim_name((enum hm_dim)j->use[c].dim);
    return NULL;
}

char *hm_subject_ids(const struct hm_judge *j, const uint8_t *set)
{
    size_t n = 1, len = 0;
    for (uint32_t w = 0; w < j->n_workers; w++)
        n += set[w] ? 11 : 0;
    char *ids = malloc(n);
    if (!ids)
        return NULL;
    ids[0] = 0;
    uint32_t last = HM_NO_ID; /* several devices of a rank: once */
    for (uint32_t w = 0; w < j->n_workers; w++) {
        uint32_t rank = j->in.run->worker[w].rank;
        if (!set[w] || rank == last)
            continue;
        len += (size_t)snprintf(ids + len, n - len, "%s%u", len ? "," : "", rank);
        last = rank;
    }
    return ids;
}

enum hm_subject_kind hm_subject_of(const struct hm_judge *j, const uint8_t *set, char **label_p)
{
    uint32_t first, n = size_of(j, set, &first), world = 0;
    enum hm_subject_kind kind = HM_SUBJECT_RANKS;
    const struct hm_comm_use *group = NULL;
    char *label = NULL;
    if (!n)
        return HM_SUBJECT_RANKS;
    for (uint32_t w = 0; w < j->n_workers; w++)
        world += j->roles.world[w] == j->roles.world[first];
    char *ids = hm_subject_ids(j, set);
    if (n == 1) {
        const struct hm_worker *id = &j->in.run->worker[first];
        kind = HM_SUBJECT_RANK;
        label = id->device == HM_NO_ID ? hm_text("rank %u (%s)", id->rank, hm_judge_host(j, first))
                                       : hm_text("rank %u (%s, gpu %u)", id->rank,
                                                 hm_judge_host(j, first), id->device);
    } else if (n == j->n_workers) {
        kind = HM_SUBJECT_ALL;
        label = strdup("all ranks");
    } else if (is_node(j, set, first)) {
        kind = HM_SUBJECT_NODE;
        label = hm_text("node %s (%u of %u devices)", hm_judge_host(j, first), n, n);
    } else if (is_stage(j, set, first)) {
        kind = HM_SUBJECT_STAGE;
        label = hm_text("stage %u (ranks %s)", j->roles.stage[first], ids ? ids : "");
    } else if (n < world && (group = group_of(j, set, n)) != NULL) {
        kind = HM_SUBJECT_GROUP;
        label = hm_text("the %s group of ranks %s", hm_dim_name((enum hm_dim)group->dim),
                        ids ? ids : "");
    } else {
        label = hm_text("ranks %s", ids ? ids : "");
    }
    free(ids);
    if (j->roles.n_worlds > 1 && kind != HM_SUBJECT_ALL) {
        char *in_world = hm_text("%s in world %u", label ? label : "", j->roles.world[first]);
        free(label);
        label = in_world;
    }
    *label_p = label;
    return kind;
}

const char *hm_subject_name(enum hm_subject_kind kind)
{
    static const char *const name[] = {"rank", "ranks", "node", "stage", "group", "all"};
    return name[kind];
}
