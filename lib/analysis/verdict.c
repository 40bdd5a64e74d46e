/* Verdict: who, what pattern, what cause, what gain, how sure; or why there is none.
 *
 * Box: lib/analysis. Pure. Effect before chance: a subject must save at least 0.5 % of the run by
 * replay before its p value is looked at. Source: facts on scenarios, rules 1 to 6; facts on
 * analysis 2.10; Holm 1979 for several ranks, Wilcoxon 1945 for paired steps.
 */
#include "analysis/judge_inside.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MIN_STEPS = 8, PERSISTENT_STEPS = 20, MAX_CANDIDATES = 16, BEFORE = 3, AFTER = 5 };
static const double FLOOR = 0.005, ALPHA = 0.01, ALL_FLOOR = 0.05, INPUT_FLOOR = 0.10;

enum pattern { P_NONE, P_PERSISTENT, P_FROM_STEP, P_ONE_OFF, P_PERIODIC, P_EPISODE };
static const char *const pattern_name[] = {NULL,      "persistent", "from_step",
                                           "one_off", "periodic",   "episode"};
struct candidate {
    uint32_t worker, onset; /* onset: index of the first step of the pattern */
    int64_t gain, *gains;
    enum pattern pattern;
    double p;
};

static double frac(const struct hm_judge *j, int64_t ns)
{
    return j->total_ns > 0 ? (double)ns / (double)j->total_ns : 0;
}
static int64_t ppb(double f)
{
    return (int64_t)llround(f * 1e9);
}

struct signed_diff {
    double size;
    int sign;
};
static int by_size(const void *x, const void *y)
{
    const struct signed_diff *p = x, *q = y;
    return (p->size > q->size) - (p->size < q->size);
}

/* One-sided Wilcoxon signed-rank test of d > 0, normal approximation with ties and continuity. */
static double signed_rank(const double *d, size_t n)
{
    struct signed_diff *v = malloc((n + 1) * sizeof(*v));
    if (!v)
        return 1;
    size_t m = 0;
    for (size_t i = 0; i < n; i++)
        if (d[i] != 0)
            v[m++] = (struct signed_diff){fabs(d[i]), d[i] > 0 ? 1 : -1};
    if (m < 5) {
        free(v);
        return 1;
    }
    qsort(v, m, sizeof(*v), by_size);
    double plus = 0, ties = 0;
    for (size_t i = 0, end; i < m; i = end) {
        for (end = i + 1; end < m && v[end].size <= v[i].size;)
            end++;
        double rank = ((double)i + 1 + (double)end) / 2, t = (double)(end - i);
        ties += t * t * t - t;
        for (size_t k = i; k < end; k++)
            plus += v[k].sign > 0 ? rank : 0;
    }
    double k = (double)m, mean = k * (k + 1) / 4;
    double var = k * (k + 1) * (2 * k + 1) / 24 - ties / 48;
    free(v);
    return var > 0 ? 0.5 * erfc((plus - mean - 0.5) / sqrt(var) / sqrt(2)) : 1;
}

/* Chance of its lateness against the mean of the others, from step `onset` on; in_set: who else
 * belongs to the subject and is not compared with. */
static double chance(const struct hm_judge *j, uint32_t w, uint32_t onset, const uint8_t *in_set)
{
    size_t n = j->n_steps - onset;
    double *d = malloc((n + 1) * sizeof(*d));
    if (!d)
        return 1;
    for (size_t s = 0; s < n; s++) {
        double others = 0;
        uint32_t m = 0;
        for (uint32_t q = 0; q < j->n_workers; q++)
            if (q != w && !(in_set && in_set[q])) {
                others += (double)j->late[(size_t)q * j->n_steps + onset + s];
                m++;
            }
        d[s] = (double)j->late[(size_t)w * j->n_steps + onset + s] - (m ? others / m : 0);
    }
    double p = signed_rank(d, n) * j->n_workers; /* Holm's first, the most severe */
    free(d);
    return p < 1 ? p : 1;
}

static double sum_squares(double sum, double squares, double n)
{
    return n > 0 ? squares - sum * sum / n : 0;
}

static int is_periodic(const int64_t *x, uint32_t n, double all)
{
    for (uint32_t k = 3; k <= n / 3; k++)
        for (uint32_t r = 0; r < k; r++) {
            double sum = 0;
            for (uint32_t s = r; s < n; s += k)
                sum += (double)x[s];
            if (sum >= 0.8 * all)
                return 1;
        }
    return 0;
}

/* Where in the run the lateness lies. */
static void find_pattern(const struct hm_judge *j, struct candidate *c)
{
    const int64_t *x = j->late + (size_t)c->worker * j->n_steps;
    uint32_t n = (uint32_t)j->n_steps;
    double all = 0, squares = 0;
    for (uint32_t s = 0; s < n; s++) {
        all += (double)x[s];
        squares += (double)x[s] * (double)x[s];
    }
    c->pattern = P_NONE;
    c->onset = 0;
    if (all <= 0)
        return;
    for (uint32_t s = 0; s < n; s++)
        if ((double)x[s] + (s + 1 < n ? (double)x[s + 1] : 0) >= 0.8 * all) {
            c->pattern = P_ONE_OFF;
            c->onset = (double)x[s] < 0.1 * all && s + 1 < n ? s + 1 : s;
            return;
        }
    double best = sum_squares(all, squares, n), sum = 0, sq = 0;
    uint32_t at = 0;
    for (uint32_t s = 0; s + AFTER <= n; s++) {
        if (s >= BEFORE) {
            double sse = sum_squares(sum, sq, s) + sum_squares(all - sum, squares - sq, n - s);
            double before = sum / s, after = (all - sum) / (n - s);
            if (sse < 0.5 * best && before < 0.2 * after && (!at || sse < best)) {
                best = sse;
                at = s;
            }
        }
        sum += (double)x[s];
        sq += (double)x[s] * (double)x[s];
    }
    double mean = all / n;
    uint32_t active = 0;
    if (at) {
        sum = 0;
        for (uint32_t s = at; s < n; s++)
            sum += (double)x[s];
        mean = sum / (n - at);
    }
    for (uint32_t s = at; s < n; s++)
        active += (double)x[s] > 0.5 * mean;
    if (2 * active >= n - at) {
        c->pattern = at ? P_FROM_STEP : P_PERSISTENT;
        c->onset = at;
    } else if (is_periodic(x, n, all)) {
        c->pattern = P_PERIODIC;
    }
}

/* Lower end of the gain: block bootstrap over the steps, 1 % quantile of 200 draws. */
static int gain_is_sure(const struct hm_judge *j, const int64_t *gains, uint32_t onset)
{
    enum { DRAWS = 200, BLOCK = 5 };
    int64_t sums[DRAWS];
    size_t n = j->n_steps - onset;
    uint64_t seed = UINT64_C(88172645463325252);
    for (int d = 0; d < DRAWS; d++) {
        sums[d] = 0;
        for (size_t k = 0; k < n;) {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            size_t at = seed % n;
            for (int b = 0; b < BLOCK && k < n; b++, k++)
                sums[d] += gains[onset + (at + (size_t)b) % n];
        }
    }
    qsort(sums, DRAWS, sizeof(*sums), hm_by_i64);
    return sums[DRAWS / 100] > 0;
}

/* --- words ---------------------------------------------------------------------------------- */

static const char *const part_name[HM_N_C] = {"compute",
                                              "transfer of other collectives",
                                              "waiting for others",
                                              "copies",
                                              "input",
                                              "host work before the launch",
                                              "launch queue",
                                              "serialised launches",
                                              "loading code",
                                              "host blocked"};

static double ms(int64_t ns)
{
    return (double)ns / 1e6;
}

static char *label_of(const struct hm_judge *j, uint32_t w)
{
    const struct hm_worker *id = &j->in.run->worker[w];
    if (id->device == HM_NO_ID)
        return hm_text("rank %u (%s)", id->rank, hm_judge_host(j, w));
    return hm_text("rank %u (%s, gpu %u)", id->rank, hm_judge_host(j, w), id->device);
}

/* Cause of the lateness of a set: the largest part, and control kernels where it is compute. */
static hm_status_t find_cause(const struct hm_judge *j, const uint8_t *set, uint32_t first,
                              uint32_t onset, struct hm_out_finding *f)
{
    int64_t part[HM_N_C] = {0}, explained = 0;
    for (uint32_t w = 0; w < j->n_workers; w++)
        for (int c = 0; set[w] && c < HM_N_C; c++)
            part[c] += j->cause_ns[(size_t)w * HM_N_C + (size_t)c];
    int top = 0;
    for (int c = 0; c < HM_N_C; c++) {
        top = part[c] > part[top] ? c : top;
        explained += part[c] > 0 ? part[c] : 0;
    }
    int64_t host = part[HM_C_HOST] + part[HM_C_BLOCKED] + part[HM_C_SERIAL];
    const char *cause = "unknown";
    double share = explained > 0 ? (double)part[top] / (double)explained : 0;
    f->explained_frac = explained > 0 ? ppb(share) : HM_NONE(HM_NONE_UNKNOWN);
    for (int c = 0; explained > 0 && c < HM_N_C; c++) {
        int usual = c == HM_C_COMPUTE || c == HM_C_INPUT || c == HM_C_HOST;
        if (c == top)
            hm_list_add(&f->evidence, "%s: %.1f ms more than its peers, over all steps",
                        part_name[c], ms(part[c]));
        else if (part[c] * 4 >= part[top])
            hm_list_add(&f->evidence, "%s: %.1f ms", part_name[c], ms(part[c]));
        else if (usual || part[c] * 50 > part[top])
            hm_list_add(&f->ruled_out, "%s: %.1f ms", part_name[c],
                        part[c] > 0 ? ms(part[c]) : 0.0);
    }
    if (explained <= 0) {
        hm_list_add(&f->evidence, "what its lateness is made of was not recorded");
    } else if (share < 0.5) { /* several host parts together may still say host */
        cause = host * 2 >= explained ? "host_cpu" : "mixed";
    } else if (top == HM_C_COMPUTE) {
        struct hm_control k;
        unsigned block = (unsigned)(onset * (uint64_t)HM_KERNEL_BLOCKS / j->n_steps);
        if (onset && block + 1 < HM_KERNEL_BLOCKS)
            block++;
        hm_status_t st = hm_judge_control(j, first, block, &k);
        if (st != HM_OK)
            return st;
        if (k.alone >= 0.2) { /* sizes differ: no clock makes a grid larger */
            cause = "more_work";
            hm_list_add(&f->evidence,
                        "%.0f %% of its kernel time goes into grids that no peer runs: it is given "
                        "more",
                        100 * k.alone);
        } else if (k.n && k.ratio > 1.01 && k.agree >= 0.8) {
            cause = "slow_gpu";
            hm_list_add(&f->evidence,
                        "same kernels, same grids, fixed work: %.3fx the time of its peers "
                        "(%u kernels, %.0f %% of their time agrees)",
                        k.ratio, k.n, 100 * k.agree);
            hm_list_add(&f->ruled_out, "more work: control kernels do the same everywhere");
        } else if (k.n && k.ratio > 0.99 && k.ratio <= 1.01) {
            cause = "more_work";
            hm_list_add(&f->evidence,
                        "fixed work takes %.3fx the time of its peers: the GPU is "
                        "healthy, it is given more",
                        k.ratio);
            hm_list_add(&f->ruled_out, "slow GPU: control kernels run at %.3fx", k.ratio);
        } else {
            hm_list_add(&f->evidence, k.n ? "slow GPU or more work: control kernels do not agree"
                                          : "slow GPU or more work: no kernel with fixed work to "
                                            "tell by");
        }
    } else if (top == HM_C_INPUT) {
        cause = "input";
    } else if (top == HM_C_SERIAL) {
        cause = "launch_serialised";
    } else if (top == HM_C_BLOCKED) {
        cause = "host_blocked";
    } else if (top == HM_C_HOST) {
        cause = "host_cpu";
    } else if (top == HM_C_QUEUE) {
        cause = "queue";
    } else if (top == HM_C_MODULE) {
        cause = "module_load";
    } else {
        cause = "mixed";
    }
    f->cause = strdup(cause);
    return HM_OK;
}

static const char *cause_words(const char *cause, int many)
{
    static const char *const word[][3] = {
        {"slow_gpu", "its GPU is slow", "their GPUs are slow"},
        {"more_work", "it has more work", "they have more work"},
        {"input", "its input comes late", "their input comes late"},
        {"host_cpu", "its host launches late", "their hosts launch late"},
        {"host_blocked", "its host is blocked", "their hosts are blocked"},
        {"queue", "its work is launched but starts late", "their work is launched but starts late"},
        {"launch_serialised", "one thread launches for several devices",
         "one thread launches for several devices"},
        {"module_load", "it loads code", "they load code"},
        {"mixed", "several causes", "several causes"}};
    for (size_t i = 0; i < sizeof(word) / sizeof(word[0]); i++)
        if (cause && !strcmp(word[i][0], cause))
            return word[i][many ? 2 : 1];
    return "the cause is not known";
}

static void next_steps(struct hm_out_finding *f, const struct hm_judge *j, uint32_t w)
{
    const char *c = f->cause ? f->cause : "";
    uint32_t device = j->in.run->worker[w].device;
    if (!strcmp(c, "slow_gpu"))
        hm_list_add(&f->next, "nvidia-smi -i %u -q -d CLOCK,PERFORMANCE,TEMPERATURE   on %s",
                    device == HM_NO_ID ? 0 : device, hm_judge_host(j, w));
    else if (!strcmp(c, "more_work"))
        hm_list_add(&f->next, "compare batch sizes, sequence lengths and tokens of the ranks");
    else if (!strcmp(c, "input"))
        hm_list_add(&f->next, "look at the data loader of rank %u: workers, storage, decoding",
                    j->in.run->worker[w].rank);
    else if (!strncmp(c, "host", 4))
        hm_list_add(&f->next, "look at the host of rank %u: CPU binding, other processes, Python",
                    j->in.run->worker[w].rank);
    hm_list_add(&f->next, "hindmost merge -o trace.json   shows the steps on one timeline");
}

static hm_status_t fill_finding(struct hm_judge *j, struct hm_result *r, const uint8_t *set,
                                const struct candidate *c, int64_t gain)
{
    struct hm_out_finding *f = hm_result_add(r, HM_T_finding);
    if (!f)
        return hm_fail(HM_E_NOMEM, "judge", "out of memory");
    uint32_t n = 0, last_in = 0;
    int64_t late = 0;
    char *ids = NULL;
    for (uint32_t w = 0; w < j->n_workers; w++) {
        if (!set[w])
            continue;
        char *more = hm_text("%s%s%u", ids ? ids : "", ids ? "," : "", j->in.run->worker[w].rank);
        free(ids);
        ids = more;
        late += j->worker[w].late_ns;
        last_in += j->worker[w].last_in_steps;
        n++;
    }
    f->ids = ids;
    f->status = strdup("straggler");
    f->dim = strdup("world");
    f->pattern =
        c->pattern == P_NONE || (c->pattern == P_PERSISTENT && j->n_steps < PERSISTENT_STEPS)
            ? NULL
            : strdup(pattern_name[c->pattern]);
    if (c->pattern == P_FROM_STEP || c->pattern == P_ONE_OFF)
        f->from_step = j->step[c->onset].step;
    hm_status_t st = find_cause(j, set, c->worker, c->onset, f);
    if (st != HM_OK)
        return st;
    f->kind = strdup(n > 1                                       ? "ranks"
                     : f->cause && !strcmp(f->cause, "slow_gpu") ? "device"
                                                                 : "rank");
    f->label = n > 1 ? hm_text("ranks %s", ids ? ids : "") : label_of(j, c->worker);
    f->gain_ns = gain;
    f->gain_frac = ppb(frac(j, gain));
    f->gain_gpu_ns = gain * (int64_t)j->n_workers;
    f->lateness_ns = late;
    size_t steps = j->n_steps - c->onset;
    int64_t *v = malloc((steps + 1) * sizeof(*v));
    if (!v)
        return hm_fail(HM_E_NOMEM, "judge", "out of memory");
    memcpy(v, j->late + (size_t)c->worker * j->n_steps + c->onset, steps * sizeof(*v));
    f->lateness_median_ns = hm_median(v, steps);
    free(v);
    f->last_in_steps = last_in;
    f->p_value = c->pattern == P_ONE_OFF ? NAN : c->p;
    const struct hm_out_quality *q = hm_result_row(r, HM_T_quality, 0);
    int full = q && q->grade && !strcmp(q->grade, "full");
    f->confidence = strdup(c->pattern == P_ONE_OFF || (q && !strcmp(q->grade, "none")) ? "low"
                           : full && j->n_steps >= PERSISTENT_STEPS && c->p < 1e-3     ? "high"
                                                                                       : "likely");
    hm_list_add(&f->evidence, "last by its own work in %u of %zu steps", last_in, j->n_steps);
    next_steps(f, j, c->worker);
    double per_step = ms(gain) / (double)(j->n_steps ? j->n_steps : 1);
    if (c->pattern == P_ONE_OFF)
        f->text =
            hm_text("%s holds the others up once, at step %u: %.1f ms; the steady state shows "
                    "no straggler",
                    f->label, j->step[c->onset].step, ms(gain));
    else
        f->text = hm_text("%s hold%s the others up: %.2f ms a step, repairing %s gains %.1f %%; %s",
                          f->label, n > 1 ? "" : "s", per_step, n > 1 ? "them" : "it",
                          100 * frac(j, gain), cause_words(f->cause, n > 1));
    return HM_OK;
}

/* --- no culprit ----------------------------------------------------------------------------- */

static hm_status_t no_finding(struct hm_judge *j, struct hm_result *r, const char *status,
                              double detectable, char *text)
{
    struct hm_out_none *t = hm_result_add(r, HM_T_none);
    if (!t || !text) {
        free(text);
        return hm_fail(HM_E_NOMEM, "judge", "out of memory");
    }
    t->status = strdup(status);
    t->detectable_frac = detectable >= 0 ? ppb(detectable) : HM_NONE(HM_NONE_TOO_SHORT);
    t->text = text;
    /* largest loss: what is not compute, mean over the ranks */
    static const char *const kind[] = {"transfer", "wait", "copy", "input", "idle"};
    int64_t loss[5] = {0}, whole = 0;
    for (uint32_t w = 0; w < j->n_workers; w++) {
        const struct hm_step_part *s = &j->worker[w].sum;
        int64_t input = s->input_ns < s->idle_ns ? s->input_ns : s->idle_ns;
        const int64_t v[5] = {s->transfer_ns, s->wait_ns, s->memcpy_ns, input, s->idle_ns - input};
        for (int i = 0; i < 5; i++)
            loss[i] += v[i];
        whole += s->t1_ns;
    }
    int top = 0;
    for (int i = 1; i < 5; i++)
        top = loss[i] > loss[top] ? i : top;
    if (whole > 0) {
        t->loss_kind = strdup(kind[top]);
        t->loss_ns = loss[top] / (int64_t)(j->n_workers ? j->n_workers : 1);
        t->loss_frac = ppb((double)loss[top] / (double)whole);
    }
    return HM_OK;
}

/* All ranks, none in particular: input on all, rotating imbalance, jitter of the hosts. */
static hm_status_t finding_of_all(struct hm_judge *j, struct hm_result *r, const char *status,
                                  const char *pattern, const char *cause, int64_t gain, char *text)
{
    struct hm_out_finding *f = hm_result_add(r, HM_T_finding);
    if (!f || !text) {
        free(text);
        return hm_fail(HM_E_NOMEM, "judge", "out of memory");
    }
    f->status = strdup(status);
    f->kind = strdup("all");
    f->label = strdup("all ranks");
    f->dim = strdup("world");
    f->pattern = pattern ? strdup(pattern) : NULL;
    f->cause = strdup(cause);
    f->gain_ns = gain;
    f->gain_frac = ppb(frac(j, gain));
    f->gain_gpu_ns = gain * (int64_t)j->n_workers;
    f->confidence = strdup("likely");
    f->text = text;
    hm_list_add(&f->next, "hindmost merge -o trace.json   shows the steps on one timeline");
    return HM_OK;
}

static hm_status_t judge_all(struct hm_judge *j, struct hm_result *r, int64_t loss)
{
    int64_t input = 0;
    for (size_t s = 0; s < j->n_steps; s++)
        input += j->step[s].input_ns;
    if (frac(j, input) >= INPUT_FLOOR)
        return finding_of_all(
            j, r, "bottleneck", "persistent", "input", input,
            hm_text("all ranks wait for input: %.1f %% of the time", 100 * frac(j, input)));
    if (j->n_workers < 3 || frac(j, loss) < ALL_FLOOR)
        return HM_OK;
    int64_t part[HM_N_C] = {0}, all = 0;
    for (uint32_t w = 0; w < j->n_workers; w++)
        for (int c = 0; c < HM_N_C; c++)
            part[c] += j->cause_ns[(size_t)w * HM_N_C + (size_t)c];
    int top = 0;
    for (int c = 0; c < HM_N_C; c++) {
        top = part[c] > part[top] ? c : top;
        all += part[c] > 0 ? part[c] : 0;
    }
    int compute = top == HM_C_COMPUTE;
    const char *cause = all <= 0              ? "unknown"
                        : compute             ? "more_work"
                        : top == HM_C_INPUT   ? "input"
                        : top == HM_C_BLOCKED ? "host_blocked"
                        : top == HM_C_HOST    ? "host_cpu"
                                              : "mixed";
    return finding_of_all(
        j, r, compute ? "imbalance" : "jitter", "rotating", cause, loss,
        hm_text("another rank is late in every step: %.1f %% of the time goes into waiting for "
                "whoever is last; no rank in particular",
                100 * frac(j, loss)));
}

/* --- the verdict ---------------------------------------------------------------------------- */

static int by_late(const void *x, const void *y, void *judge)
{
    const struct hm_judge *j = judge;
    int64_t a = j->worker[*(const uint32_t *)x].late_ns,
            b = j->worker[*(const uint32_t *)y].late_ns;
    if (a != b)
        return a > b ? -1 : 1;
    return (*(const uint32_t *)x > *(const uint32_t *)y) -
           (*(const uint32_t *)x < *(const uint32_t *)y);
}

struct work {
    uint8_t *set, *all;
    uint32_t *order;
    int64_t *gains, *loss;
    struct candidate c[MAX_CANDIDATES];
};

/* A subject that stands the tests: effect, then chance. */
static int holds(const struct hm_judge *j, const struct candidate *c, double floor)
{
    if (frac(j, c->gain) < floor)
        return 0;
    if (c->pattern == P_ONE_OFF)
        return c->gain * (int64_t)j->n_steps >= j->total_ns; /* at least one step's time */
    return c->p <= ALPHA && gain_is_sure(j, c->gains, c->onset);
}

/* Grows the set along the lateness until 80 % of the loss are gained; returns its gain. */
static int64_t greedy_set(struct hm_judge *j, struct work *w, uint32_t n_late, int64_t loss,
                          uint32_t *n_p)
{
    int64_t gain = 0;
    memset(w->set, 0, j->n_workers);
    *n_p = 0;
    for (uint32_t i = 0; i < n_late && gain * 10 < loss * 8; i++) {
        w->set[w->order[i]] = 1;
        gain = hm_judge_replay(j, w->set, w->gains);
        (*n_p)++;
    }
    return gain;
}

static hm_status_t search(struct hm_judge *j, struct hm_result *r, struct work *w, double floor,
                          int64_t loss)
{
    uint32_t n_late = 0, n = 0;
    for (uint32_t i = 0; i < j->n_workers; i++)
        if (j->worker[i].late_ns > 0)
            w->order[n_late++] = i;
    qsort_r(w->order, n_late, sizeof(*w->order), by_late, j);
    struct candidate *best = NULL;
    for (uint32_t i = 0; i < n_late && n < MAX_CANDIDATES; i++) {
        struct candidate *c = &w->c[n];
        if (!(c->gains = malloc((j->n_steps + 1) * sizeof(int64_t))))
            return hm_fail(HM_E_NOMEM, "judge", "out of memory");
        n++;
        c->worker = w->order[i];
        memset(w->set, 0, j->n_workers);
        w->set[c->worker] = 1;
        c->gain = hm_judge_replay(j, w->set, c->gains);
        if (c->gain == INT64_MIN)
            return hm_fail(HM_E_NOMEM, "judge", "out of memory");
        j->worker[c->worker].gain_ns = c->gain;
        find_pattern(j, c);
        c->p = chance(j, c->worker, c->onset, NULL);
        if (!best || c->gain > best->gain)
            best = c;
    }
    if (!best)
        return HM_OK;
    uint32_t n_set = 0;
    int64_t set_gain = greedy_set(j, w, n_late, loss, &n_set);
    if (n_set > 1 && set_gain > 2 * (best->gain > 0 ? best->gain : 0) &&
        frac(j, set_gain) >= floor && 2 * n_set <= j->n_workers) {
        struct candidate c = w->c[0];
        c.gain = set_gain;
        c.gains = w->gains;
        c.p = 0;
        for (uint32_t i = 0; i < n_set; i++) {
            double p = chance(j, w->order[i], c.onset, w->set);
            c.p = p > c.p ? p : c.p;
        }
        if (holds(j, &c, floor))
            return fill_finding(j, r, w->set, &c, set_gain);
    }
    /* single subjects, the largest gain first */
    for (uint32_t done = 0; done < n; done++) {
        struct candidate *top = NULL;
        for (uint32_t i = 0; i < n; i++)
            if (w->c[i].worker != HM_NO_ID && (!top || w->c[i].gain > top->gain))
                top = &w->c[i];
        if (holds(j, top, floor)) {
            memset(w->set, 0, j->n_workers);
            w->set[top->worker] = 1;
            hm_status_t st = fill_finding(j, r, w->set, top, top->gain);
            if (st != HM_OK)
                return st;
        }
        top->worker = HM_NO_ID;
    }
    return HM_OK;
}

static hm_status_t judge_steps(struct hm_judge *j, struct hm_result *r, struct work *w)
{
    struct hm_out_quality *q = r->rows[HM_T_quality];
    memset(w->all, 1, j->n_workers);
    int64_t base = hm_judge_replay(j, NULL, w->gains);
    int64_t loss = hm_judge_replay(j, w->all, w->loss);
    if (base == INT64_MIN || loss == INT64_MIN)
        return hm_fail(HM_E_NOMEM, "judge", "out of memory");
    q->replay_error_ppb = ppb(fabs(frac(j, base)));
    if (fabs(frac(j, base)) > 0.03)
        return no_finding(j, r, "undecided", -1,
                          hm_text("cannot say: the replay misses the measured time by %.1f %%",
                                  100 * fabs(frac(j, base))));
    double mean = (double)loss / (double)j->n_steps, var = 0;
    for (size_t s = 0; s < j->n_steps; s++)
        var += ((double)w->loss[s] - mean) * ((double)w->loss[s] - mean);
    double sd = sqrt(var / (double)(j->n_steps > 1 ? j->n_steps - 1 : 1));
    double detectable = 2.33 * sd * sqrt((double)j->n_steps) / (double)j->total_ns;
    double floor = FLOOR;
    detectable = detectable > FLOOR ? detectable : FLOOR;
    hm_status_t st = search(j, r, w, floor, loss);
    if (st == HM_OK && !r->n_rows[HM_T_finding])
        st = judge_all(j, r, loss);
    if (st != HM_OK || r->n_rows[HM_T_finding])
        return st;
    return no_finding(j, r, "none", detectable,
                      hm_text("no rank holds the others up (%zu steps; an effect of %.1f %% would "
                              "have been seen)%s",
                              j->n_steps, 100 * detectable,
                              j->clock_suspect ? "; clocks suspect, judged by durations" : ""));
}

hm_status_t hm_judge_verdict(struct hm_judge *j, struct hm_result *r)
{
    const struct hm_out_quality *q = hm_result_row(r, HM_T_quality, 0);
    if (!j->n_steps)
        return no_finding(j, r, "insufficient", -1, strdup("cannot say: no steps were found"));
    if (j->n_workers < 2)
        return no_finding(
            j, r, "insufficient", -1,
            strdup("cannot say: one device was seen, there is nobody to compare with"));
    if (!j->n_sync)
        return no_finding(
            j, r, "insufficient", -1,
            strdup(
                "cannot say: no collective was seen on two ranks (was the NCCL plugin loaded?)"));
    if (q && q->grade && !strcmp(q->grade, "none"))
        return no_finding(j, r, "undecided", -1,
                          strdup("cannot say: the data are not good enough (see quality)"));
    if (j->n_steps < MIN_STEPS)
        return no_finding(j, r, "insufficient", -1,
                          hm_text("cannot say: %zu step%s analysed, at least %d are needed",
                                  j->n_steps, j->n_steps == 1 ? "" : "s", MIN_STEPS));
    struct work w = {.set = calloc(j->n_workers + 1, 1),
                     .all = calloc(j->n_workers + 1, 1),
                     .order = calloc(j->n_workers + 1, sizeof(uint32_t)),
                     .gains = calloc(j->n_steps + 1, sizeof(int64_t)),
                     .loss = calloc(j->n_steps + 1, sizeof(int64_t))};
    hm_status_t st = w.set && w.all && w.order && w.gains && w.loss
                         ? judge_steps(j, r, &w)
                         : hm_fail(HM_E_NOMEM, "judge", "out of memory");
    if (st == HM_OK && r->n_rows[HM_T_finding] && j->in.clock_error_ns >= HM_CLOCK_UNKNOWN_NS) {
        /* without any bound on the clocks durations alone have spoken */
        const struct hm_out_finding *f = hm_result_row(r, HM_T_finding, 0);
        char *text = hm_text("cannot say: the clocks of the nodes cannot be compared; by durations "
                             "alone: %s",
                             f->text ? f->text : "");
        st = no_finding(j, r, "undecided", -1, text);
    }
    for (int i = 0; i < MAX_CANDIDATES; i++)
        free(w.c[i].gains);
    free(w.set);
    free(w.all);
    free(w.order);
    free(w.gains);
    free(w.loss);
    return st;
}
