/* The verdict in words: texts, evidence and next steps of a finding, or why there is none.
 *
 * Box: lib/analysis. Pure. Source: facts on scenarios, rule 10.
 */
#include "analysis/verdict_inside.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int64_t hm_ppb(double f)
{
    return (int64_t)llround(f * 1e9);
}

/* Every cause that a finding may have: what is said of one, of many, and what to do about it. */
struct cause_word {
    const char *cause, *one, *many, *next;
};
static const struct cause_word words[] = {
    {"slow_gpu", "its GPU is slow", "their GPUs are slow", NULL},
    {"gpu_config", "its GPU is held down by its settings", "their GPUs are held down by settings",
     NULL},
    {"gpu_shared", "another process computes on its GPU", "other processes compute on their GPUs",
     NULL},
    {"more_work", "it has more work", "they have more work",
     "compare batch sizes, sequence lengths and tokens of the ranks"},
    {"input", "its input comes late", "their input comes late",
     "look at the data loader: workers, storage, decoding"},
    {"checkpoint", "it writes a checkpoint", "they write a checkpoint",
     "write checkpoints beside the training, or from every rank a share"},
    {"observer", "a profiler holds it up", "a profiler holds them up",
     "measure without the other profiler"},
    {"host_cpu", "its host launches late", "their hosts launch late",
     "look at the host: CPU binding, other processes, Python between the launches"},
    {"host_blocked", "its host is blocked", "their hosts are blocked",
     "look at what blocks the host: the calls named above"},
    {"host_descheduled", "its host thread waits for a CPU", "their host threads wait for a CPU",
     "give the ranks CPUs of their own: binding, fewer threads, the container's CPU limit"},
    {"allocator", "it allocates and frees device memory", "they allocate and free device memory",
     "reuse memory: a caching allocator, a smaller batch, expandable segments"},
    {"sync", "its host waits for the GPU before it launches on",
     "their hosts wait for the GPU before they launch on",
     "remove synchronisations from the step: .item(), prints, blocking copies"},
    {"queue", "its work is launched but starts late", "their work is launched but starts late",
     "look for events and streams that the work waits for"},
    {"launch_serialised", "one thread launches for several devices",
     "one thread launches for several devices", "one process, or one thread, for each GPU"},
    {"module_load", "it loads code", "they load code",
     "load code before the first step (CUDA_MODULE_LOADING=EAGER, a warm-up)"},
    {"network", "its network is slow", "their network is slow",
     "look at network cards, cables and switch ports"},
    {"mixed", "several causes", "several causes", NULL}};

static const struct cause_word *word_of(const char *cause)
{
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (cause && !strcmp(words[i].cause, cause))
            return &words[i];
    return NULL;
}

static const char *cause_words(const char *cause, int many)
{
    const struct cause_word *w = word_of(cause);
    return !w ? "the cause is not known" : many ? w->many : w->one;
}

static void next_steps(struct hm_out_finding *f, const struct hm_judge *j, uint32_t w)
{
    const struct cause_word *word = word_of(f->cause);
    uint32_t device = j->in.run->worker[w].device;
    char *uuid = hm_judge_uuid(j, w);
    const char *host = hm_judge_host(j, w);
    if (word && !word->next && strstr(word->cause, "gpu")) {
        const char *what =
            !strcmp(word->cause, "gpu_shared") ? "PIDS,UTILIZATION" : "CLOCK,PERFORMANCE,POWER";
        if (uuid) /* numbers of devices differ between a job and its host */
            hm_list_add(&f->next, "nvidia-smi -i %s -q -d %s   on %s", uuid, what, host);
        else
            hm_list_add(&f->next, "nvidia-smi -i %u -q -d %s   on %s",
                        device == HM_NO_ID ? 0 : device, what, host);
    } else if (word && word->next) {
        hm_list_add(&f->next, "%s (rank %u, %s)", word->next, j->in.run->worker[w].rank, host);
    }
    free(uuid);
    hm_list_add(&f->next, "hindmost merge -o trace.json   shows the steps on one timeline");
}

static void say_pattern(const struct hm_judge *j, const struct hm_pattern_found *p,
                        struct hm_out_finding *f)
{
    if (p->kind == HM_P_NONE || (p->kind == HM_P_PERSISTENT && j->n_steps < HM_PERSISTENT_STEPS))
        return;
    f->pattern = strdup(hm_pattern_name[p->kind]);
    if (p->kind == HM_P_FROM_STEP || p->kind == HM_P_ONE_OFF || p->kind == HM_P_EPISODE)
        f->from_step = j->step[p->first].step;
    if (p->kind == HM_P_EPISODE)
        f->to_step = j->step[p->last].step;
    if (p->kind == HM_P_PERIODIC) {
        f->period_steps = p->period;
        f->period_at = p->phase;
    }
}

char *hm_words_when(const struct hm_out_finding *f)
{
    const char *p = f->pattern ? f->pattern : "";
    if (!strcmp(p, "from_step"))
        return hm_text(" from step %lld on", (long long)f->from_step);
    if (!strcmp(p, "episode"))
        return hm_text(" in steps %lld to %lld", (long long)f->from_step, (long long)f->to_step);
    if (!strcmp(p, "periodic"))
        return hm_text(" every %lld steps", (long long)f->period_steps);
    return strdup("");
}

hm_status_t hm_words_finding(struct hm_judge *j, struct hm_result *r, const uint8_t *set,
                             const struct hm_candidate *c)
{
    enum hm_pattern pattern = c->found.kind;
    int64_t gain = c->gain;
    struct hm_out_finding *f = hm_result_add(r, HM_T_finding);
    if (!f)
        return hm_fail(HM_E_NOMEM, "judge", "out of memory");
    uint32_t n = 0, last_in = 0;
    int64_t late = 0;
    for (uint32_t w = 0; w < j->n_workers; w++) {
        if (!set[w])
            continue;
        late += j->worker[w].late_ns;
        last_in += j->worker[w].last_in_steps;
        n++;
    }
    f->ids = hm_subject_ids(j, set);
    f->status = strdup("straggler");
    const char *dim = hm_subject_dim(j, set);
    f->dim = strdup(dim ? dim : "world");
    f->world = j->roles.world[c->worker];
    say_pattern(j, &c->found, f);
    hm_status_t st = hm_cause_find(j, set, c->worker, c->found.first, f);
    if (st != HM_OK)
        return st;
    /* work does not vanish, its role gets it; a single event is no share of the work */
    if (f->cause && !strcmp(f->cause, "more_work") && pattern != HM_P_ONE_OFF) {
        const struct hm_what_if even = {.repair = set, .work = 1};
        int64_t spread = hm_judge_what_if(j, &even, NULL);
        gain = spread == INT64_MIN ? gain : spread;
    }
    for (uint32_t u = 0; u < j->n_uses; u++)
        if (j->use[u].inferred)
            hm_list_add(&f->evidence,
                        "inferred: %s is communication, all leave it together and who comes later "
                        "stays shorter",
                        j->use[u].inferred);
    enum hm_subject_kind kind = hm_subject_of(j, set, &f->label);
    f->kind = strdup(kind == HM_SUBJECT_RANK && f->cause && !strncmp(f->cause, "slow_gpu", 8)
                         ? "device"
                         : hm_subject_name(kind));
    int one = kind != HM_SUBJECT_RANKS && kind != HM_SUBJECT_ALL;
    f->gpu_uuid = n > 1 ? NULL : hm_judge_uuid(j, c->worker);
    f->gain_ns = gain;
    f->gain_frac = hm_ppb(hm_judge_frac(j, gain));
    f->gain_gpu_ns = gain * (int64_t)j->n_workers;
    f->lateness_ns = late;
    size_t steps = c->found.last - c->found.first + 1;
    int64_t *v = malloc((steps + 1) * sizeof(*v));
    if (!v)
        return hm_fail(HM_E_NOMEM, "judge", "out of memory");
    memcpy(v, j->late + (size_t)c->worker * j->n_steps + c->found.first, steps * sizeof(*v));
    f->lateness_median_ns = hm_median(v, steps);
    free(v);
    f->last_in_steps = last_in;
    f->p_value = pattern == HM_P_ONE_OFF ? NAN : c->p;
    const struct hm_out_quality *q = hm_result_row(r, HM_T_quality, 0);
    int full = q && q->grade && !strcmp(q->grade, "full");
    f->confidence = strdup(pattern == HM_P_ONE_OFF || (q && !strcmp(q->grade, "none")) ? "low"
                           : full && j->n_steps >= HM_PERSISTENT_STEPS && c->p < 1e-3  ? "high"
                                                                                       : "likely");
    hm_list_add(&f->evidence, "last by its own work in %u of %zu steps", last_in, j->n_steps);
    next_steps(f, j, c->worker);
    int exempt = f->cause && (!strcmp(f->cause, "checkpoint") || !strcmp(f->cause, "observer"));
    if (exempt) { /* it does what it is told to: no straggler */
        free(f->status);
        f->status = strdup("bottleneck");
    }
    /* where it lies in a stretch of the run: a step of that stretch */
    size_t in = pattern == HM_P_FROM_STEP || pattern == HM_P_EPISODE
                    ? (size_t)c->found.last - c->found.first + 1
                    : j->n_steps;
    double per_step = hm_ms(gain) / (double)(in ? in : 1);
    char *when = hm_words_when(f);
    if (pattern == HM_P_ONE_OFF)
        f->text =
            hm_text("%s hold%s the others up once, at step %u: %.1f ms%s", f->label, one ? "s" : "",
                    j->step[c->found.first].step, hm_ms(gain),
                    r->n_rows[HM_T_finding] > 1 ? "" : "; the steady state shows no straggler");
    else
        f->text = hm_text("%s hold%s the others up%s: %.2f ms a step, %s gains %.1f %%; %s",
                          f->label, one ? "s" : "", when ? when : "", per_step,
                          exempt ? "without it the run"
                          : one  ? "repairing it"
                                 : "repairing them",
                          100 * hm_judge_frac(j, gain), cause_words(f->cause, n > 1));
    free(when);
    return HM_OK;
}

/* --- no culprit ----------------------------------------------------------------------------- */

hm_status_t hm_words_none(struct hm_judge *j, struct hm_result *r, const char *status,
                          double detectable, char *text)
{
    struct hm_out_none *t = hm_result_add(r, HM_T_none);
    if (!t || !text) {
        free(text);
        return hm_fail(HM_E_NOMEM, "judge", "out of memory");
    }
    t->status = strdup(status);
    t->detectable_frac = detectable >= 0 ? hm_ppb(detectable) : HM_NONE(HM_NONE_TOO_SHORT);
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
        t->loss_frac = hm_ppb((double)loss[top] / (double)whole);
    }
    return HM_OK;
}

/* All ranks, none in particular: input on all, rotating imbalance, jitter of the hosts. */
hm_status_t hm_words_all(struct hm_judge *j, struct hm_result *r, const char *status,
                         const struct hm_pattern_found *found, const char *cause, int64_t gain,
                         char *text)
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
    if (found)
        say_pattern(j, found, f);
    else
        f->pattern = strdup("rotating");
    f->cause = strdup(cause);
    f->gain_ns = gain;
    f->gain_frac = hm_ppb(hm_judge_frac(j, gain));
    f->gain_gpu_ns = gain * (int64_t)j->n_workers;
    f->confidence = strdup("likely");
    f->text = text;
    hm_list_add(&f->next, "hindmost merge -o trace.json   shows the steps on one timeline");
    return HM_OK;
}
