/* Links: one slow among its peers, and what repairing it would save.
 *
 * Box: lib/analysis. Pure. A link is compared with the others of its communicator by the mean time
 * its chunks are on the wire; at least 8 chunks each, and one and a half times their lower median
 * is slow (facts on analysis, 2.12). The whole ring or tree goes at its slowest link's pace, so
 * with the link repaired the transfers of the communicator last median / slow of their time.
 */
#include "analysis/verdict_inside.h"

#include <stdlib.h>
#include <string.h>

enum { LEAST_STEPS = 8 };
static const double SLOW = 1.5, FLOOR = 0.005;

hm_status_t hm_judge_links(struct hm_judge *j, const struct hm_link_sum *link, size_t n)
{
    j->link = malloc((n + 1) * sizeof(*link));
    if (!j->link)
        return hm_fail(HM_E_NOMEM, "judge", "out of memory");
    j->n_links = 0;
    for (size_t i = 0; i < n; i++)
        if (link[i].n && link[i].from < j->n_workers && link[i].to < j->n_workers)
            j->link[j->n_links++] = link[i];
    return HM_OK;
}

static int64_t wire_of(const struct hm_link_sum *l)
{
    return l->wire_ns / l->n;
}

/* Lower median of the mean wire times over a communicator's links; 0 = fewer than two. */
static int64_t usual_of(const struct hm_judge *j, uint64_t comm, int64_t *v)
{
    size_t n = 0;
    for (size_t i = 0; i < j->n_links; i++)
        if (j->link[i].comm == comm && j->link[i].n >= LEAST_STEPS)
            v[n++] = wire_of(&j->link[i]);
    return n > 1 ? hm_median(v, n) : 0;
}

static int is_slow(const struct hm_link_sum *l, int64_t usual)
{
    return usual > 0 && l->n >= LEAST_STEPS && (double)wire_of(l) >= SLOW * (double)usual;
}

/* Are all links of its sender (or receiver), two at least, slow? Then that end is the subject. */
static int whole_end(const struct hm_judge *j, const struct hm_link_sum *l, int64_t usual,
                     int sender)
{
    uint32_t n = 0, slow = 0;
    for (size_t i = 0; i < j->n_links; i++) {
        const struct hm_link_sum *o = &j->link[i];
        if (o->comm != l->comm || (sender ? o->from != l->from : o->to != l->to))
            continue;
        n++;
        slow += is_slow(o, usual) != 0;
    }
    return n > 1 && slow == n;
}

static const char *bound_of(const struct hm_link_sum *l)
{
    return 2 * l->wire_ns >= l->step_ns   ? "network"
           : 2 * l->gpu_ns >= l->step_ns  ? "sender"
           : 2 * l->peer_ns >= l->step_ns ? "receiver"
                                          : "mixed";
}

hm_status_t hm_judge_link_table(const struct hm_judge *j, struct hm_result *r)
{
    int64_t *v = malloc((j->n_links + 1) * sizeof(*v));
    if (!v)
        return hm_fail(HM_E_NOMEM, "judge", "out of memory");
    hm_status_t st = HM_OK;
    for (size_t i = 0; i < j->n_links && st == HM_OK; i++) {
        const struct hm_link_sum *l = &j->link[i];
        struct hm_out_link *t = hm_result_add(r, HM_T_link);
        if (!t) {
            st = hm_fail(HM_E_NOMEM, "judge", "out of memory");
            break;
        }
        int64_t usual = usual_of(j, l->comm, v);
        t->comm = l->comm;
        t->from = j->in.run->worker[l->from].rank;
        t->to = j->in.run->worker[l->to].rank;
        t->n = l->n;
        t->wire_ns = wire_of(l);
        t->gpu_wait_ns = l->gpu_ns / l->n;
        t->credit_wait_ns = l->peer_ns / l->n;
        if (l->wire_ns > 0)
            t->wire_bps = (int64_t)((double)l->bytes * 1e9 / (double)l->wire_ns);
        if (usual > 0)
            t->ratio = hm_ppb((double)wire_of(l) / (double)usual);
        t->bound = strdup(bound_of(l));
    }
    free(v);
    return st;
}

static hm_status_t tell(struct hm_judge *j, struct hm_result *r, const struct hm_link_sum *l,
                        int64_t usual, int64_t gain)
{
    struct hm_out_finding *f = hm_result_add(r, HM_T_finding);
    if (!f)
        return hm_fail(HM_E_NOMEM, "judge", "out of memory");
    uint32_t from = j->in.run->worker[l->from].rank, to = j->in.run->worker[l->to].rank;
    int sender = whole_end(j, l, usual, 1), receiver = !sender && whole_end(j, l, usual, 0);
    f->status = strdup("bottleneck");
    f->kind = strdup(sender || receiver ? "rank" : "link");
    if (sender || receiver) {
        f->ids = hm_text("%u", sender ? from : to);
        f->label = hm_text("the network of rank %u (%s)", sender ? from : to,
                           hm_judge_host(j, sender ? l->from : l->to));
    } else {
        f->ids = from < to ? hm_text("%u,%u", from, to) : hm_text("%u,%u", to, from);
        f->label = hm_text("the link from rank %u (%s) to rank %u (%s)", from,
                           hm_judge_host(j, l->from), to, hm_judge_host(j, l->to));
    }
    f->comm = hm_text("%016llx", (unsigned long long)l->comm);
    f->pattern = j->n_steps >= HM_PERSISTENT_STEPS ? strdup("persistent") : NULL;
    f->cause = strdup("network");
    f->gain_ns = gain;
    f->gain_frac = hm_ppb(hm_judge_frac(j, gain));
    f->gain_gpu_ns = gain * (int64_t)j->n_workers;
    f->confidence = strdup(!strcmp(bound_of(l), "network") ? "high" : "likely");
    hm_list_add(&f->evidence,
                "its chunks are on the wire for %.1f us, those of the other links for %.1f us "
                "(%.2fx, %lld chunks)",
                (double)wire_of(l) / 1e3, (double)usual / 1e3, (double)wire_of(l) / (double)usual,
                (long long)l->n);
    hm_list_add(&f->evidence,
                "of a send step: %.0f %% on the wire, %.0f %% waiting for the GPU, "
                "%.0f %% for the receiver's credit",
                100 * (double)l->wire_ns / (double)l->step_ns,
                100 * (double)l->gpu_ns / (double)l->step_ns,
                100 * (double)l->peer_ns / (double)l->step_ns);
    hm_list_add(&f->ruled_out, "slow GPU: all links of a ring go at one pace, only this one's wire "
                               "is busy");
    const char *a = hm_judge_host(j, l->from), *b = hm_judge_host(j, l->to);
    if (strcmp(a, b) != 0)
        hm_list_add(&f->next, "look at the network card, cable and switch port between %s and %s",
                    a, b);
    else
        hm_list_add(&f->next, "look at NVLink and PCIe of %s: nvidia-smi topo -m, nvlink -e", a);
    f->text =
        hm_text("%s is slow: %.2f ms a step, repairing it gains %.1f %%", f->label,
                hm_ms(gain) / (double)(j->n_steps ? j->n_steps : 1), 100 * hm_judge_frac(j, gain));
    return HM_OK;
}

hm_status_t hm_judge_network(struct hm_judge *j, struct hm_result *r)
{
    int64_t *v = malloc((j->n_links + 1) * sizeof(*v));
    int64_t *gains = malloc((j->n_steps + 1) * sizeof(*gains));
    hm_status_t st = v && gains ? HM_OK : hm_fail(HM_E_NOMEM, "judge", "out of memory");
    for (size_t i = 0; i < j->n_links && st == HM_OK; i++) {
        const struct hm_link_sum *l = &j->link[i];
        int64_t usual = usual_of(j, l->comm, v);
        int first = 1; /* the slowest of its communicator speaks for it */
        for (size_t k = 0; k < j->n_links; k++)
            if (j->link[k].comm == l->comm && j->link[k].n >= LEAST_STEPS &&
                (wire_of(&j->link[k]) > wire_of(l) ||
                 (wire_of(&j->link[k]) == wire_of(l) && k < i)))
                first = 0;
        if (!first || !is_slow(l, usual))
            continue;
        const struct hm_what_if mended = {.comm = l->comm,
                                          .comm_scale = (double)usual / (double)wire_of(l)};
        int64_t gain = hm_judge_what_if(j, &mended, gains);
        if (gain == INT64_MIN)
            st = hm_fail(HM_E_NOMEM, "judge", "out of memory");
        else if (hm_judge_frac(j, gain) >= FLOOR && hm_chance_gain_is_sure(gains, j->n_steps))
            st = tell(j, r, l, usual, gain);
    }
    free(v);
    free(gains);
    return st;
}
