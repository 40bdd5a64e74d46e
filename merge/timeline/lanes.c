/* Lanes: which slices of a track may share a line.
 *
 * Box: merge/timeline. First fit: the first lane whose open slices have ended, or, on host
 * lanes, whose innermost open slice holds the new one.
 */
#include "timeline/lanes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 64, MAX_SUB = 256 };
struct sub {
    uint32_t lane, depth;
    int64_t end[MAX_DEPTH];
};
struct track {
    enum hm_lane_type type;
    uint32_t n_sub, ordinal;
    uint64_t key;
    char name[64];
    struct sub **sub;
};
struct hm_lanes {
    struct hm_sink *sink;
    uint32_t rank, n_tracks, n_lanes, n_of_type[HM_N_LANE_TYPES];
    struct track *track;
};

hm_status_t hm_lanes_create(uint32_t rank, struct hm_sink *sink, struct hm_lanes **lanes_p)
{
    struct hm_lanes *l = calloc(1, sizeof(*l));
    if (!l)
        return hm_fail(HM_E_NOMEM, "timeline", "out of memory");
    l->rank = rank;
    l->sink = sink;
    *lanes_p = l;
    return HM_OK;
}

void hm_lanes_destroy(struct hm_lanes *l)
{
    for (uint32_t i = 0; l && i < l->n_tracks; i++) {
        for (uint32_t k = 0; k < l->track[i].n_sub; k++)
            free(l->track[i].sub[k]);
        free(l->track[i].sub);
    }
    if (l)
        free(l->track);
    free(l);
}

hm_status_t hm_lanes_track(struct hm_lanes *l, enum hm_lane_type type, uint64_t key,
                           const char *name, uint32_t *track_p)
{
    for (uint32_t i = 0; i < l->n_tracks; i++)
        if (l->track[i].type == type && l->track[i].key == key) {
            *track_p = i;
            return HM_OK;
        }
    struct track *more = realloc(l->track, (l->n_tracks + 1) * sizeof(*more));
    if (!more)
        return hm_fail(HM_E_NOMEM, "timeline", "out of memory");
    l->track = more;
    struct track *t = &l->track[l->n_tracks];
    *t = (struct track){.type = type, .key = key, .ordinal = l->n_of_type[type]++};
    snprintf(t->name, sizeof(t->name), "%s", name);
    *track_p = l->n_tracks++;
    return HM_OK;
}

static hm_status_t add_sub(struct hm_lanes *l, struct track *t, struct sub **sub_p)
{
    struct sub **more = realloc(t->sub, (t->n_sub + 1) * sizeof(*more));
    struct sub *s = calloc(1, sizeof(*s));
    if (more)
        t->sub = more;
    if (!more || !s) {
        free(s);
        return hm_fail(HM_E_NOMEM, "timeline", "out of memory");
    }
    char name[80];
    snprintf(name, sizeof(name), t->n_sub ? "%s (%u)" : "%s", t->name, t->n_sub + 1);
    s->lane = ++l->n_lanes;
    struct hm_lane lane = {.name = name,
                           .rank = l->rank,
                           .id = s->lane,
                           .type = (uint32_t)t->type,
                           .sort = (uint32_t)t->type * 1000000 + t->ordinal * MAX_SUB + t->n_sub};
    t->sub[t->n_sub++] = s;
    *sub_p = s;
    return l->sink->ops->lane(l->sink, &lane);
}

/* Room in this lane? Slices that have ended are taken off its stack. */
static int fits(struct sub *s, int may_nest, int64_t t_ns, int64_t end_ns)
{
    while (s->depth && s->end[s->depth - 1] <= t_ns)
        s->depth--;
    return !s->depth || (may_nest && s->depth < MAX_DEPTH && s->end[s->depth - 1] >= end_ns);
}

hm_status_t hm_lanes_place(struct hm_lanes *l, uint32_t track, int64_t t_ns, int64_t end_ns,
                           uint32_t *lane_p)
{
    struct track *t = &l->track[track];
    struct sub *s = NULL;
    for (uint32_t i = 0; i < t->n_sub && !s; i++)
        if (fits(t->sub[i], t->type == HM_LANE_HOST, t_ns, end_ns))
            s = t->sub[i];
    if (!s && t->n_sub < MAX_SUB) {
        hm_status_t st = add_sub(l, t, &s);
        if (st)
            return st;
    }
    if (!s) { /* more than 256 deep: share the last lane rather than lose the slice */
        *lane_p = t->sub[MAX_SUB - 1]->lane;
        return HM_OK;
    }
    if (end_ns > t_ns)
        s->end[s->depth++] = end_ns;
    *lane_p = s->lane;
    return HM_OK;
}
