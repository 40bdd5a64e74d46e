/* The ledger: where the mean time of all ranks goes; integers that sum to it exactly.
 *
 * Box: lib/analysis. Pure. Losses are taken out of the run one after the other, each replay with
 * what was repaired before: the entries are differences of one falling series and cannot overlap.
 * What is left is cut as the partition of the windows has it. Source: facts on scenarios, rule 6.
 */
#include "analysis/verdict_inside.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const uint32_t HOST_PARTS = (1u << HM_N_C) - 1 -
                                   (1u << HM_C_COMPUTE | 1u << HM_C_TRANSFER | 1u << HM_C_WAIT |
                                    1u << HM_C_COPY | 1u << HM_C_INPUT);
static const char *const kind_name[HM_N_LOSSES] = {[HM_L_COMPUTE] = "compute",
                                                   [HM_L_TRANSFER] = "transfer",
                                                   [HM_L_WAIT] = "wait",
                                                   [HM_L_COPY] = "copy",
                                                   [HM_L_INPUT] = "input",
                                                   [HM_L_IDLE] = "idle",
                                                   [HM_L_STRAGGLER] = "straggler",
                                                   [HM_L_ROLE] = "imbalance_role",
                                                   [HM_L_ROTATING] = "imbalance_rotating",
                                                   [HM_L_JITTER] = "jitter",
                                                   [HM_L_BUBBLE] = "bubble",
                                                   [HM_L_CHECKPOINT] = "checkpoint",
                                                   [HM_L_ONE_OFF] = "one_off",
                                                   [HM_L_UNEXPLAINED] = "unexplained"};

/* One more replay: the entry is what it gains beyond all before. */
static int take(struct hm_judge *j, enum hm_loss_kind kind, const struct hm_what_if *what,
                int64_t most, int64_t *so_far)
{
    int64_t gain = hm_judge_what_if(j, what, NULL);
    if (gain == INT64_MIN)
        return 0;
    int64_t more = gain - *so_far;
    more = more > most ? most : more;
    if (more > 0) {
        j->loss_by[kind] += more;
        *so_far = gain;
    }
    return 1;
}

static int saves(const struct hm_judge *j, uint32_t w)
{
    const int64_t *part = j->cause_ns + (size_t)w * HM_N_C;
    int64_t all = 0;
    for (int c = 0; c < HM_N_C; c++)
        all += part[c] > 0 ? part[c] : 0;
    return all > 0 && 2 * part[HM_C_CHECKPOINT] >= all;
}

hm_status_t hm_search_ledger(struct hm_judge *j, const struct hm_result *r, struct hm_search *s)
{
    int64_t so_far = 0, compute = 0, all = 0;
    struct hm_what_if what = {.all_in = s->out};
    int ok = !s->n_events || take(j, HM_L_ONE_OFF, &what, INT64_MAX, &so_far);
    int64_t told = 0; /* a gain in work is told to the mean, and counts as told */
    for (uint32_t i = 0; i < r->n_rows[HM_T_finding]; i++) {
        const struct hm_out_finding *f = hm_result_row(r, HM_T_finding, i);
        if (!strcmp(f->status, "straggler") && f->gain_ns > 0)
            told += f->gain_ns;
    }
    what.repair = s->set;
    for (int saving = 0; saving < 2; saving++) { /* first those that are at fault */
        int any = 0;
        for (uint32_t w = 0; w < j->n_workers; w++) {
            int mine = s->found[w] && saves(j, w) <= saving;
            any |= s->found[w] && saves(j, w) == saving;
            s->set[w] = (uint8_t)mine;
        }
        enum hm_loss_kind kind = saving ? HM_L_CHECKPOINT : HM_L_STRAGGLER;
        ok = ok && (!any || take(j, kind, &what, saving ? INT64_MAX : told, &so_far));
    }
    what.even = HOST_PARTS;
    ok = ok && take(j, HM_L_JITTER, &what, INT64_MAX, &so_far);
    for (uint32_t w = 0; w < j->n_workers; w++)
        for (int c = 0; c < HM_N_C; c++) {
            int64_t part = j->cause_ns[(size_t)w * HM_N_C + (size_t)c];
            all += part > 0 ? part : 0;
            compute += part > 0 && c == HM_C_COMPUTE ? part : 0;
        }
    int64_t most = INT64_MAX;
    const struct hm_what_if spread = {.repair = s->all, .work = 1};
    if (2 * compute > all) { /* work does not vanish */
        int64_t gain = hm_judge_what_if(j, &spread, NULL);
        ok = ok && gain != INT64_MIN;
        most = gain > so_far ? gain - so_far : 0;
    }
    what = (struct hm_what_if){.repair = s->all};
    ok = ok && take(j, HM_L_ROTATING, &what, most, &so_far);
    int64_t mended = hm_judge_what_if(j, &what, NULL);
    so_far = mended > so_far ? mended : so_far;
    what.less = 1u << HM_C_INPUT;
    ok = ok && take(j, HM_L_INPUT, &what, INT64_MAX, &so_far);
    for (uint32_t i = 0; i < r->n_rows[HM_T_finding]; i++) {
        const struct hm_out_finding *f = hm_result_row(r, HM_T_finding, i);
        if (f->kind && !strcmp(f->kind, "stage") && !strcmp(f->status, "imbalance"))
            j->loss_by[HM_L_ROLE] += f->gain_ns > 0 ? f->gain_ns : 0;
    }
    j->loss_by[HM_L_BUBBLE] = j->bubble_ns > 0 ? j->bubble_ns : 0;
    j->has_losses = 1;
    return ok ? HM_OK : hm_fail(HM_E_NOMEM, "judge", "out of memory");
}

/* Time of the chains that is in the losses already, mean over the workers. */
static int64_t counted(const struct hm_judge *j, uint32_t parts)
{
    int64_t sum = 0;
    for (uint32_t w = 0; w < j->n_workers && j->has_losses; w++)
        for (int c = 0; c < HM_N_C; c++) {
            int64_t part = j->cause_ns[(size_t)w * HM_N_C + (size_t)c];
            sum += parts >> c & 1 && part > 0 ? part : 0;
        }
    return j->n_workers ? sum / (int64_t)j->n_workers : 0;
}

hm_status_t hm_judge_ledger(const struct hm_judge *j, struct hm_result *r)
{
    int64_t ns[HM_N_LOSSES] = {0}, mean[6] = {0}, whole = 0, n = j->n_workers ? j->n_workers : 1;
    for (uint32_t w = 0; w < j->n_workers; w++) {
        const struct hm_step_part *s = &j->worker[w].sum;
        int64_t input = s->input_ns < s->idle_ns ? s->input_ns : s->idle_ns;
        const int64_t v[6] = {s->compute_ns, s->transfer_ns, s->wait_ns,
                              s->memcpy_ns,  input,          s->idle_ns - input};
        for (int i = 0; i < 6; i++)
            mean[i] += v[i];
        whole += s->t1_ns;
    }
    whole /= n;
    for (int i = 0; i < 6; i++)
        mean[i] /= n;
    if (j->has_losses) {
        mean[HM_L_COMPUTE] -= counted(j, 1u << HM_C_COMPUTE);
        mean[HM_L_COPY] -= counted(j, 1u << HM_C_COPY);
        mean[HM_L_IDLE] +=
            mean[HM_L_INPUT] - j->loss_by[HM_L_INPUT] - counted(j, HOST_PARTS | 1u << HM_C_INPUT);
        mean[HM_L_INPUT] = j->loss_by[HM_L_INPUT];
    }
    /* who comes first is served first; nothing is given twice, nothing is below zero */
    static const uint8_t order[] = {HM_L_ONE_OFF,  HM_L_STRAGGLER, HM_L_CHECKPOINT, HM_L_JITTER,
                                    HM_L_ROTATING, HM_L_INPUT,     HM_L_ROLE,       HM_L_COMPUTE,
                                    HM_L_BUBBLE,   HM_L_TRANSFER,  HM_L_COPY,       HM_L_IDLE,
                                    HM_L_WAIT};
    int64_t rest = whole;
    for (size_t i = 0; i < sizeof(order); i++) {
        int k = order[i];
        int64_t want = k < 6 ? mean[k] : j->loss_by[k];
        ns[k] = want < 0 ? 0 : want < rest ? want : rest;
        rest -= ns[k];
    }
    ns[HM_L_UNEXPLAINED] = rest;
    for (int k = 0; k < HM_N_LOSSES; k++) {
        struct hm_out_ledger *t = hm_result_add(r, HM_T_ledger);
        if (!t)
            return hm_fail(HM_E_NOMEM, "judge", "out of memory");
        t->kind = strdup(kind_name[k]);
        t->ns = ns[k];
        t->frac = whole > 0 ? hm_ppb((double)ns[k] / (double)whole) : HM_NONE(HM_NONE_NO_STEPS);
    }
    return HM_OK;
}
