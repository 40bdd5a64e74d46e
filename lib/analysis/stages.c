/* Stages: pipeline stages that do unequal work by design, and the bubble of the schedule.
 *
 * Box: lib/analysis. Pure. Ranks of different stages are never compared as peers; stages are, by
 * what an even split of the same work would gain (facts on scenarios, rules 1 and 10). Slowness and
 * design are told apart as elsewhere: kernels that all stages run (rule 4), and whether all
 * replicas of a stage agree.
 */
#include "analysis/verdict_inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double FLOOR = 0.005; /* as every effect */

struct stages {
    uint32_t n;    /* stages of the world */
    int64_t *work; /* [n] mean useful compute of a worker, all analysed steps */
    int64_t *least, *most;
    uint32_t *n_of; /* [n] workers */
    double mean;
};

static void stages_free(struct stages *s)
{
    free(s->work);
    free(s->least);
    free(s->most);
    free(s->n_of);
}

static hm_status_t measure(const struct hm_judge *j, uint32_t world, struct stages *s)
{
    size_t n = j->roles.n_stages + 1;
    *s = (struct stages){.work = calloc(n, sizeof(int64_t)),
                         .least = calloc(n, sizeof(int64_t)),
                         .most = calloc(n, sizeof(int64_t)),
                         .n_of = calloc(n, sizeof(uint32_t))};
    int64_t *v = malloc((j->n_workers + 1) * sizeof(*v));
    if (!s->work || !s->least || !s->most || !s->n_of || !v) {
        stages_free(s);
        free(v);
        return hm_fail(HM_E_NOMEM, "judge", "out of memory");
    }
    for (uint32_t w = 0; w < j->n_workers; w++) {
        uint32_t k = j->roles.stage[w];
        if (j->roles.world[w] != world || k == HM_NO_ID)
            continue;
        int64_t u = j->worker[w].sum.compute_ns;
        s->least[k] = !s->n_of[k] || u < s->least[k] ? u : s->least[k];
        s->most[k] = u > s->most[k] ? u : s->most[k];
        s->n_of[k]++;
        if (k >= s->n)
            s->n = k + 1;
    }
    double sum = 0;
    /* the median: a stage is unequal by design only where its replicas are alike; one that is not
     * has been compared with them */
    for (uint32_t k = 0; k < s->n; k++) {
        size_t m = 0;
        for (uint32_t w = 0; w < j->n_workers; w++)
            if (j->roles.world[w] == world && j->roles.stage[w] == k)
                v[m++] = j->worker[w].sum.compute_ns;
        s->work[k] = m ? hm_median(v, m) : 0;
        sum += (double)s->work[k];
    }
    free(v);
    s->mean = s->n ? sum / s->n : 0;
    return HM_OK;
}

/* Messages of one direction between two neighbours in a step: micro-batches, times the chunks that
 * an interleaved schedule gives every stage. */
static double micro_batches(const struct hm_judge *j, uint32_t world)
{
    uint64_t n = 0, n_edges = 0;
    for (size_t i = 0; i < j->n_launches; i++) {
        const struct hm_jlaunch *l = &j->launch[i];
        n += l->i_step != HM_NO_ID && l->pair && j->use[l->i_use].dim == HM_DIM_PP &&
             j->use[l->i_use].world == world &&
             (l->func == HM_NCCL_SEND || l->func == HM_NCCL_RECV);
    }
    uint32_t n_stages = 0, n_workers = 0;
    for (uint32_t w = 0; w < j->n_workers; w++)
        if (j->roles.world[w] == world && j->roles.stage[w] != HM_NO_ID) {
            n_workers++;
            if (j->roles.stage[w] >= n_stages)
                n_stages = j->roles.stage[w] + 1;
        }
    if (n_stages > 1) /* both directions of every link of every replica */
        n_edges = 2 * (uint64_t)(n_workers / n_stages) * (n_stages - 1);
    return n_edges && j->n_steps ? (double)n / (double)n_edges / (double)j->n_steps : 0;
}

/* Kernels of the heaviest stage that the other stages run too: their common ratio, and the part of
 * its time that no other stage's kernels explain. */
struct kernels {
    double ratio, only_here;
    char *names; /* those only there */
    uint32_t n_common;
};

struct mean {
    uint64_t key;
    int64_t here_ns, else_ns;
    uint64_t here_n, else_n;
    uint32_t kernel, pad;
};

static int by_key(const void *x, const void *y)
{
    const struct mean *p = x, *q = y;
    return (p->key > q->key) - (p->key < q->key);
}

static int by_i64_ratio(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

static const char *kernel_name(const struct hm_judge *j, uint32_t kernel)
{
    const void *p = NULL;
    uint32_t len = 0;
    struct hm_def_kernel k;
    if (hm_defs_get(&j->in.run->names, HM_DEF_KERNEL, kernel, &p, &len) != HM_OK ||
        len != sizeof(k))
        return "";
    memcpy(&k, p, sizeof(k));
    if (hm_defs_get(&j->in.run->names, HM_DEF_STRING, k.name, &p, &len) != HM_OK || !len)
        return "";
    return ((const char *)p)[len - 1] ? "" : p;
}

static hm_status_t compare_kernels(const struct hm_judge *j, const uint8_t *set, uint32_t world,
                                   struct kernels *c)
{
    size_t n = 0, out = 0;
    for (uint32_t w = 0; w < j->n_workers; w++)
        n += j->worker[w].n_kernels;
    struct mean *v = malloc((n + 1) * sizeof(*v));
    double *ratio = malloc((n + 1) * sizeof(*ratio));
    *c = (struct kernels){.ratio = 1};
    if (!v || !ratio) {
        free(v);
        free(ratio);
        return hm_fail(HM_E_NOMEM, "judge", "out of memory");
    }
    n = 0;
    for (uint32_t w = 0; w < j->n_workers; w++)
        for (uint32_t i = 0; j->roles.world[w] == world && i < j->worker[w].n_kernels; i++) {
            const struct hm_kernel_stat *k = &j->worker[w].kernel[i];
            v[n++] = (struct mean){.key = k->key,
                                   .kernel = k->kernel,
                                   .here_ns = set[w] ? k->all_ns : 0,
                                   .here_n = set[w] ? k->n_all : 0,
                                   .else_ns = set[w] ? 0 : k->all_ns,
                                   .else_n = set[w] ? 0 : k->n_all};
        }
    if (n)
        qsort(v, n, sizeof(*v), by_key);
    for (size_t i = 0; i < n; i++)
        if (out && v[out - 1].key == v[i].key) {
            v[out - 1].here_ns += v[i].here_ns;
            v[out - 1].here_n += v[i].here_n;
            v[out - 1].else_ns += v[i].else_ns;
            v[out - 1].else_n += v[i].else_n;
        } else {
            v[out++] = v[i];
        }
    int64_t all = 0, only = 0;
    uint32_t named = 0;
    for (size_t i = 0; i < out; i++) {
        all += v[i].here_ns;
        if (v[i].here_n && !v[i].else_n) {
            only += v[i].here_ns;
            if (named++ < 4) {
                char *more = hm_text("%s%s%s", c->names ? c->names : "", c->names ? ", " : "",
                                     kernel_name(j, v[i].kernel));
                free(c->names);
                c->names = more;
            }
        } else if (v[i].here_n && v[i].else_n && v[i].else_ns > 0) {
            ratio[c->n_common++] = ((double)v[i].here_ns / (double)v[i].here_n) /
                                   ((double)v[i].else_ns / (double)v[i].else_n);
        }
    }
    c->only_here = all > 0 ? (double)only / (double)all : 0;
    if (c->n_common) {
        qsort(ratio, c->n_common, sizeof(*ratio), by_i64_ratio);
        c->ratio = ratio[(c->n_common - 1) / 2];
    }
    free(v);
    free(ratio);
    return HM_OK;
}

static hm_status_t finding(struct hm_judge *j, struct hm_result *r, const struct stages *s,
                           uint32_t world, uint32_t top, const uint8_t *set, int64_t gain)
{
    struct hm_out_finding *f = hm_result_add(r, HM_T_finding);
    struct kernels c;
    if (!f)
        return hm_fail(HM_E_NOMEM, "judge", "out of memory");
    hm_status_t st = compare_kernels(j, set, world, &c);
    if (st != HM_OK)
        return st;
    double others = 0, more, frac = hm_judge_frac(j, gain);
    for (uint32_t k = 0; k < s->n; k++)
        others += k == top ? 0 : (double)s->work[k];
    others /= s->n > 1 ? s->n - 1 : 1;
    more = others > 0 ? (double)s->work[top] / others : 0;
    int design = !c.n_common || (c.ratio > 0.99 && c.ratio < 1.01);
    const char *cause = c.n_common && design                                          ? "more_work"
                        : c.n_common && c.ratio > 1 && c.ratio > 1 + 0.8 * (more - 1) ? "slow_gpu"
                        : c.only_here > 0                                             ? "mixed"
                                                                                      : "unknown";
    f->status = strdup("imbalance");
    f->kind = strdup("stage");
    f->ids = hm_subject_ids(j, set);
    f->label = hm_text("stage %u (ranks %s)", top, f->ids ? f->ids : "");
    f->dim = strdup("pp");
    f->world = world;
    f->pattern = j->n_steps >= HM_PERSISTENT_STEPS ? strdup("persistent") : NULL;
    f->cause = strdup(cause);
    f->gain_ns = gain;
    f->gain_frac = hm_ppb(frac);
    f->gain_gpu_ns = gain * (int64_t)j->n_workers;
    f->confidence = strdup(design && c.n_common ? "high" : "likely");
    hm_list_add(&f->evidence,
                "compute of a rank: %.1f ms a step in stage %u, %.1f ms in the others",
                hm_ms(s->work[top]) / (double)j->n_steps, top, others / 1e6 / (double)j->n_steps);
    if (s->n_of[top] > 1)
        hm_list_add(&f->evidence, "its %u replicas: %.1f to %.1f ms a step", s->n_of[top],
                    hm_ms(s->least[top]) / (double)j->n_steps,
                    hm_ms(s->most[top]) / (double)j->n_steps);
    if (c.names)
        hm_list_add(&f->evidence, "%.0f %% of its compute is in kernels of its own: %s",
                    100 * c.only_here, c.names);
    if (c.n_common && design)
        hm_list_add(&f->ruled_out,
                    "slow GPUs: the %u kernels that other stages run too take %.3fx as long",
                    c.n_common, c.ratio);
    else if (c.n_common)
        hm_list_add(&f->evidence, "the %u kernels that other stages run too take %.3fx as long",
                    c.n_common, c.ratio);
    else
        hm_list_add(&f->evidence, "slow GPUs or more work: no kernel runs in other stages too");
    hm_list_add(&f->next, "move layers from stage %u to the others", top);
    hm_list_add(&f->next, "hindmost merge -o trace.json   shows the steps on one timeline");
    f->text = hm_text("stage %u does %.2fx the work of the other stages%s; an even split gains "
                      "%.1f %%, %.2f ms a step",
                      top, more, design && c.n_common ? " by design" : "", 100 * frac,
                      hm_ms(gain) / (double)j->n_steps);
    free(c.names);
    return HM_OK;
}

static hm_status_t judge_world(struct hm_judge *j, struct hm_result *r, uint32_t world,
                               double *scale, uint8_t *set, int64_t *gains)
{
    struct stages s;
    hm_status_t st = measure(j, world, &s);
    if (st != HM_OK)
        return st;
    uint32_t top = 0, n_workers = 0;
    for (uint32_t k = 1; k < s.n; k++)
        top = s.work[k] > s.work[top] ? k : top;
    for (uint32_t w = 0; w < j->n_workers; w++) {
        uint32_t k = j->roles.stage[w];
        int mine = j->roles.world[w] == world && k != HM_NO_ID;
        n_workers += (uint32_t)mine;
        scale[w] = mine && s.work[k] > 0 ? s.mean / (double)s.work[k] : 1;
        set[w] = (uint8_t)(mine && k == top);
    }
    double m = micro_batches(j, world);
    if (s.n < 2 || s.mean <= 0 || m < 1)
        goto out;
    /* (stages - 1) micro-batches pass before the last stage begins and after it has ended */
    j->bubble_ns += (int64_t)(s.mean * (s.n - 1) / m * n_workers / j->n_workers);
    const struct hm_what_if what = {.scale = scale};
    int64_t gain = hm_judge_what_if(j, &what, gains);
    if (gain == INT64_MIN)
        st = hm_fail(HM_E_NOMEM, "judge", "out of memory");
    else if (hm_judge_frac(j, gain) >= FLOOR && hm_chance_gain_is_sure(gains, j->n_steps))
        st = finding(j, r, &s, world, top, set, gain);
out:
    stages_free(&s);
    return st;
}

hm_status_t hm_judge_stages(struct hm_judge *j, struct hm_result *r)
{
    if (j->roles.n_stages < 2 || !j->n_steps)
        return HM_OK;
    double *scale = malloc((j->n_workers + 1) * sizeof(*scale));
    uint8_t *set = malloc(j->n_workers + 1);
    int64_t *gains = malloc((j->n_steps + 1) * sizeof(*gains));
    hm_status_t st = scale && set && gains ? HM_OK : hm_fail(HM_E_NOMEM, "judge", "out of memory");
    for (uint32_t world = 0; world < j->roles.n_worlds && st == HM_OK; world++)
        st = judge_world(j, r, world, scale, set, gains);
    free(scale);
    free(set);
    free(gains);
    return st;
}
