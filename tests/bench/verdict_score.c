/* Right or wrong. Wording that the interface leaves open is accepted: a device for its rank, any of
 * the host's causes for a host that is late. */
#include "verdict_score.h"

#include <string.h>

static int has(const struct verdict_case *c, enum hm_demo_kind kind)
{
    for (uint32_t i = 0; i < c->demo.n_faults; i++)
        if (c->demo.fault[i].kind == kind)
            return 1;
    return 0;
}

/* A link is told from a slow network by other groups of the same kind, or by a change in time. */
static int link_shows(const struct verdict_case *c)
{
    const struct hm_demo *d = &c->demo;
    for (uint32_t i = 0; i < d->n_faults; i++)
        if (d->fault[i].kind == HM_DEMO_SLOW_LINK && d->fault[i].from_step)
            return 1;
    return d->proxy || d->n_dims > 1 || d->n_worlds > 1;
}

enum verdict_class verdict_class(const struct verdict_case *c, const struct verdict_got *g)
{
    int stops = !strcmp(g->truth.status, "hang") || !strcmp(g->truth.status, "mismatch");
    int found = strcmp(g->truth.status, "none") != 0;
    if (stops)
        return VERDICT_MUST;
    if (!found || g->truth.gain_frac < 0.005)
        return VERDICT_NOBODY;
    if (has(c, HM_DEMO_SLOW_LINK) && !link_shows(c))
        return VERDICT_UNKNOWABLE;
    if (g->ambiguous)
        return VERDICT_GREY;
    if (has(c, HM_DEMO_LOST) || has(c, HM_DEMO_MISSING) || c->demo.clocks == HM_DEMO_UNPROBED)
        return VERDICT_GREY; /* less may be said than is true */
    return g->truth.gain_frac >= 0.05 ? VERDICT_MUST : VERDICT_GREY;
}

int verdict_names_somebody(const struct verdict_got *g)
{
    return g->got.kind[0] && strcmp(g->got.kind, "all") != 0;
}

/* Members of the communicator of a step's first collective. */
static uint32_t first_members(const struct hm_demo *d)
{
    uint32_t size[HM_DEMO_N_DIMS] = {0};
    for (unsigned i = 0; i < d->n_dims; i++)
        size[d->dim[i]] = d->size[i];
    if (size[HM_DEMO_FSDP] > 1)
        return size[HM_DEMO_FSDP];
    if (size[HM_DEMO_TP] > 1)
        return size[HM_DEMO_TP];
    return (size[HM_DEMO_DP] ? size[HM_DEMO_DP] : 1) * (size[HM_DEMO_EP] ? size[HM_DEMO_EP] : 1);
}

int verdict_subject_right(const struct verdict_case *c, const struct verdict_got *g)
{
    const struct verdict_words *t = &g->truth, *v = &g->got;
    if (!strcmp(t->status, "none"))
        return !verdict_names_somebody(g);
    if (!strcmp(t->kind, "all"))
        return !strcmp(v->kind, "all");
    if (has(c, HM_DEMO_SLOW_LINK)) { /* the link, its group, or all that it is a part of */
        int in = !strcmp(v->kind, "all"), exact = t->n_ids == 2 && v->n_ids == 2;
        if (!strcmp(v->kind, "link"))
            return exact && v->ids[0] == t->ids[0] && v->ids[1] == t->ids[1];
        for (uint32_t i = 0; i < v->n_ids && i < VERDICT_IDS; i++)
            in |= v->ids[i] == t->ids[0];
        return v->kind[0] && in;
    }
    if (has(c, HM_DEMO_MISMATCH) && v->n_ids == 2 && first_members(&c->demo) == 2)
        return v->ids[0] == t->ids[0] || v->ids[1] == t->ids[0]; /* two have no majority */
    if (t->n_ids != v->n_ids)
        return 0;
    return !memcmp(t->ids, v->ids,
                   (t->n_ids < VERDICT_IDS ? t->n_ids : VERDICT_IDS) * sizeof(t->ids[0]));
}

int verdict_cause_right(const struct verdict_case *c, const struct verdict_got *g)
{
    const char *t = g->truth.cause, *v = g->got.cause;
    if (!strcmp(g->truth.status, "hang") || !strcmp(g->truth.status, "mismatch"))
        return 1;
    if (c->demo.persistent && !strcmp(t, "more_work") && !strcmp(v, "unknown"))
        return 1; /* equal grids, and only the input's bytes to tell by: "cannot tell" is true */
    if (!strcmp(t, "host_cpu"))
        return !strncmp(v, "host_", 5);
    return !strcmp(t, v);
}

int verdict_status_right(const struct verdict_case *c, const struct verdict_got *g)
{
    const char *t = g->truth.status, *v = g->got.status;
    if (!strcmp(t, v))
        return 1;
    /* one rank that always has more is an imbalance as well as a straggler */
    if ((has(c, HM_DEMO_ROUTING) || has(c, HM_DEMO_MORE_WORK)) &&
        !strcmp(g->truth.cause, "more_work"))
        return !strcmp(v, "straggler") || !strcmp(v, "imbalance");
    return 0;
}
