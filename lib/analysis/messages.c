/* Messages that take longer than those between the same roles of the other replicas: slow links.
 *
 * Box: lib/analysis. Pure. Transfer of a message = its end - its later start: nobody waits in it.
 * Compared are means of all messages of a pair with the lower median of its siblings. 1.5 times and
 * 8 samples are the limits of the matrix of links (facts on analysis 2.12).
 */
#include "analysis/verdict_inside.h"

#include <stdlib.h>
#include <string.h>

enum { LEAST = 8 };
static const double SLOW = 1.5, FLOOR = 0.005;

struct pair {
    uint64_t comm;
    int64_t sum_ns;
    uint32_t pair, src, dst, src_role, dst_role, n;
};

static int by_pair(const void *x, const void *y)
{
    const struct pair *p = x, *q = y;
    if (p->comm != q->comm)
        return p->comm < q->comm ? -1 : 1;
    return (p->pair > q->pair) - (p->pair < q->pair);
}

static size_t take_pairs(const struct hm_judge *j, struct pair *v)
{
    size_t n = 0, out = 0;
    for (size_t i = 0; i < j->n_launches; i++) {
        const struct hm_jlaunch *l = &j->launch[i];
        const struct hm_jpart *p = &j->part[l->first_part];
        if (l->i_step == HM_NO_ID || l->n_parts != 2 || hm_judge_is_sync(l) ||
            (p[0].source == HM_NO_ID) == (p[1].source == HM_NO_ID))
            continue;
        const struct hm_jpart *s = p[0].source == HM_NO_ID ? &p[0] : &p[1];
        const struct hm_jpart *d = s == &p[0] ? &p[1] : &p[0];
        int64_t later = s->start_ns > d->start_ns ? s->start_ns : d->start_ns;
        v[n++] = (struct pair){.comm = l->comm,
                               .sum_ns = d->end_ns > later ? d->end_ns - later : 0,
                               .pair = l->pair,
                               .src = s->worker,
                               .dst = d->worker,
                               .src_role = j->roles.role[s->worker],
                               .dst_role = j->roles.role[d->worker],
                               .n = 1};
    }
    if (n)
        qsort(v, n, sizeof(*v), by_pair);
    for (size_t i = 0; i < n; i++)
        if (out && !by_pair(&v[out - 1], &v[i])) {
            v[out - 1].sum_ns += v[i].sum_ns;
            v[out - 1].n++;
        } else {
            v[out++] = v[i];
        }
    return out;
}

/* Lower median of the means of those between the same roles; 0 = there is no other. */
static int64_t usual_of(const struct pair *v, size_t n, const struct pair *p, int64_t *tmp)
{
    size_t m = 0;
    for (size_t i = 0; i < n; i++)
        if (v[i].src_role == p->src_role && v[i].dst_role == p->dst_role && v[i].n == p->n)
            tmp[m++] = v[i].sum_ns / v[i].n;
    return m > 1 ? hm_median(tmp, m) : 0;
}

static hm_status_t tell(struct hm_judge *j, struct hm_result *r, const struct pair *p,
                        int64_t usual, int64_t gain)
{
    struct hm_out_finding *f = hm_result_add(r, HM_T_finding);
    if (!f)
        return hm_fail(HM_E_NOMEM, "judge", "out of memory");
    uint32_t from = j->in.run->worker[p->src].rank, to = j->in.run->worker[p->dst].rank;
    int64_t mean = p->sum_ns / p->n;
    const char *dim = hm_subject_dim_of(j, p->comm);
    f->status = strdup("bottleneck");
    f->kind = strdup("link");
    f->ids = from < to ? hm_text("%u,%u", from, to) : hm_text("%u,%u", to, from);
    f->label = hm_text("the link from rank %u (%s) to rank %u (%s)", from, hm_judge_host(j, p->src),
                       to, hm_judge_host(j, p->dst));
    f->dim = dim ? strdup(dim) : NULL;
    f->world = j->roles.world[p->src];
    f->comm = hm_text("%016llx", (unsigned long long)p->comm);
    f->pattern = j->n_steps >= HM_PERSISTENT_STEPS ? strdup("persistent") : NULL;
    f->cause = strdup("network");
    f->gain_ns = gain;
    f->gain_frac = hm_ppb(hm_judge_frac(j, gain));
    f->gain_gpu_ns = gain * (int64_t)j->n_workers;
    f->confidence = strdup("likely");
    hm_list_add(&f->evidence,
                "its messages take %.2f ms after both ends have come, those between the same roles "
                "of other replicas %.2f ms (%.2fx, %u messages)",
                hm_ms(mean), hm_ms(usual), (double)mean / (double)usual, p->n);
    hm_list_add(&f->ruled_out, "late sender or receiver: the time is counted from the later one");
    hm_list_add(&f->next, "look at the network card, cable and switch port between %s and %s",
                hm_judge_host(j, p->src), hm_judge_host(j, p->dst));
    f->text =
        hm_text("%s is slow: %.2f ms a step, repairing it gains %.1f %%", f->label,
                hm_ms(gain) / (double)(j->n_steps ? j->n_steps : 1), 100 * hm_judge_frac(j, gain));
    return HM_OK;
}

hm_status_t hm_judge_messages(struct hm_judge *j, struct hm_result *r)
{
    size_t n = 0;
    for (size_t i = 0; i < j->n_launches; i++)
        n += j->launch[i].pair && j->launch[i].n_parts == 2;
    if (!n || !j->n_steps)
        return HM_OK;
    struct pair *v = malloc(n * sizeof(*v));
    int64_t *tmp = malloc(n * sizeof(*tmp)), *gains = malloc(j->n_steps * sizeof(*gains));
    hm_status_t st = v && tmp && gains ? HM_OK : hm_fail(HM_E_NOMEM, "judge", "out of memory");
    n = st == HM_OK ? take_pairs(j, v) : 0;
    for (size_t i = 0; i < n && st == HM_OK; i++) {
        int64_t usual = usual_of(v, n, &v[i], tmp), mean = v[i].sum_ns / v[i].n;
        /* what all its messages take too long bounds the gain: no replay for what cannot matter */
        if (v[i].n < LEAST || usual <= 0 || (double)mean < SLOW * (double)usual ||
            hm_judge_frac(j, (mean - usual) * v[i].n) < FLOOR)
            continue;
        const struct hm_what_if mended = {
            .comm = v[i].comm, .pair = v[i].pair, .comm_scale = (double)usual / (double)mean};
        int64_t gain = hm_judge_what_if(j, &mended, gains);
        if (gain == INT64_MIN)
            st = hm_fail(HM_E_NOMEM, "judge", "out of memory");
        else if (hm_judge_frac(j, gain) >= FLOOR && hm_chance_gain_is_sure(gains, j->n_steps))
            st = tell(j, r, &v[i], usual, gain);
    }
    free(v);
    free(tmp);
    free(gains);
    return st;
}
