/* Own lateness: what each worker needed beyond its median peer since they last left together.
 *
 * Box: lib/analysis. Pure. Waits are charged to the last worker as far as its own work explains
 * them, the rest to whom it waited for itself (facts on analysis 2.6). The two estimators of
 * arrival: facts on scenarios, rule 2.
 */
#include "analysis/judge_inside.h"

#include <stdlib.h>
#include <string.h>

enum { DEPTH = 8 };
static const int64_t EXIT_SKEW_NS = 50000; /* all leave a collective within this */

static int is_sync(const struct hm_jlaunch *l)
{
    return (l->flags & HM_LAUNCH_SYNCHRONOUS) && l->n_parts >= 2;
}

/* Moves the clock of each worker by -shift: all times of its parts. */
static void shift_clocks(struct hm_judge *j, const int64_t *shift)
{
    for (size_t i = 0; i < j->n_parts; i++) {
        struct hm_jpart *p = &j->part[i];
        p->start_ns -= shift[p->worker];
        p->end_ns -= shift[p->worker];
        p->ready_ns -= shift[p->worker];
        p->carry_ns -= shift[p->worker];
    }
}

static void measure_again(struct hm_judge *j)
{
    for (size_t i = 0; i < j->n_launches; i++) {
        struct hm_jlaunch *l = &j->launch[i];
        if (!is_sync(l))
            continue;
        struct hm_jpart *p = &j->part[l->first_part];
        int64_t second = INT64_MIN;
        l->first_ns = l->last_ns = p->start_ns;
        l->end1_ns = l->end2_ns = p->end_ns;
        l->last_worker = p->worker;
        for (uint32_t k = 1; k < l->n_parts; k++) {
            if (p[k].start_ns > l->last_ns) {
                second = l->last_ns;
                l->last_ns = p[k].start_ns;
                l->last_worker = p[k].worker;
            } else if (p[k].start_ns > second) {
                second = p[k].start_ns;
            }
            if (p[k].start_ns < l->first_ns)
                l->first_ns = p[k].start_ns;
            if (p[k].end_ns < l->end1_ns)
                l->end1_ns = p[k].end_ns;
            if (p[k].end_ns > l->end2_ns)
                l->end2_ns = p[k].end_ns;
        }
        for (uint32_t k = 0; k < l->n_parts; k++) {
            int64_t until = l->last_ns < p[k].end_ns ? l->last_ns : p[k].end_ns;
            p[k].wait_ns = until > p[k].start_ns ? until - p[k].start_ns : 0;
        }
        if (l->last_ns - second <= EXIT_SKEW_NS) /* durations do not order what is this close */
            l->last_worker = HM_NO_ID;
    }
}

/* Ends of each worker against the median end of its launches: one row per part, by worker. */
static size_t end_skews(const struct hm_judge *j, int64_t *skew, size_t *first, int64_t *ends)
{
    memset(first, 0, (j->n_workers + 1) * sizeof(*first));
    for (size_t i = 0; i < j->n_launches; i++)
        for (uint32_t k = 0; is_sync(&j->launch[i]) && k < j->launch[i].n_parts; k++)
            first[j->part[j->launch[i].first_part + k].worker + 1]++;
    for (uint32_t w = 0; w < j->n_workers; w++)
        first[w + 1] += first[w];
    for (size_t i = 0; i < j->n_launches; i++) {
        const struct hm_jlaunch *l = &j->launch[i];
        const struct hm_jpart *p = &j->part[l->first_part];
        if (!is_sync(l))
            continue;
        for (uint32_t k = 0; k < l->n_parts; k++)
            ends[k] = p[k].end_ns;
        int64_t median = hm_median(ends, l->n_parts);
        for (uint32_t k = 0; k < l->n_parts; k++)
            skew[first[p[k].worker]++] = p[k].end_ns - median;
    }
    return j->n_workers ? first[j->n_workers - 1] : 0; /* first[w] is now the end of w's rows */
}

void hm_judge_clocks(struct hm_judge *j)
{
    int64_t *skew = malloc((j->n_parts + 1) * sizeof(*skew));
    int64_t *ends = malloc((j->n_parts + 1) * sizeof(*ends));
    size_t *first = malloc((j->n_workers + 1) * sizeof(*first));
    int64_t *shift_of = calloc(j->n_workers + 1, sizeof(*shift_of));
    if (!skew || !ends || !first || !shift_of || j->n_workers < 2)
        goto out;
    int64_t u = 0;
    for (size_t i = 0; i < j->n_launches; i++)
        if (is_sync(&j->launch[i]) && j->launch[i].u_ns > u)
            u = j->launch[i].u_ns;
    int unknown = u >= HM_CLOCK_UNKNOWN_NS, moved = unknown;
    end_skews(j, skew, first, ends);
    for (uint32_t w = 0; w < j->n_workers; w++) {
        size_t from = w ? first[w - 1] : 0;
        if (first[w] == from)
            continue;
        int64_t shift = hm_median(skew + from, first[w] - from), size = llabs(shift);
        j->shift_max_ns = size > j->shift_max_ns ? size : j->shift_max_ns;
        if (size > (unknown ? 0 : u) + EXIT_SKEW_NS) {
            shift_of[w] = shift;
            moved = 1;
        }
    }
    if (moved) {
        j->clock_suspect = 1;
        shift_clocks(j, shift_of);
        measure_again(j);
    }
out:
    free(skew);
    free(ends);
    free(first);
    free(shift_of);
}

/* Parts of a launch lie in order of their workers. */
static struct hm_jpart *part_in(struct hm_judge *j, uint32_t launch, uint32_t worker)
{
    struct hm_jlaunch *l = &j->launch[launch];
    struct hm_jpart *p = &j->part[l->first_part];
    uint32_t lo = 0, hi = l->n_parts;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (p[mid].worker < worker)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < l->n_parts && p[lo].worker == worker ? &p[lo] : NULL;
}

/* The launch on which most members rest; ties go to the earlier one. */
static uint32_t common_base(const struct hm_judge *j, const struct hm_jlaunch *l, int64_t *v)
{
    size_t n = 0, votes = 0;
    uint32_t best = HM_NO_ID;
    for (uint32_t k = 0; k < l->n_parts; k++)
        if (j->part[l->first_part + k].base != HM_NO_ID)
            v[n++] = j->part[j->part[l->first_part + k].base].launch;
    qsort(v, n, sizeof(*v), hm_by_i64);
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && v[end] == v[i];)
            end++;
        if (end - i > votes) {
            votes = end - i;
            best = (uint32_t)v[i];
        }
    }
    return best;
}

static void localise(struct hm_judge *j, struct hm_jlaunch *l, int64_t *v)
{
    struct hm_jpart *p = &j->part[l->first_part];
    for (uint32_t k = 0; k < l->n_parts; k++) {
        int64_t from = p[k].base == HM_NO_ID ? p[k].carry_ns : j->part[p[k].base].end_ns;
        int64_t known = p[k].ready_ns;
        if (p[k].before != HM_NO_ID && j->part[p[k].before].end_ns > known)
            known = j->part[p[k].before].end_ns;
        p[k].local_ns = p[k].ready_ns - from;
        p[k].tail_ns = p[k].start_ns - known;
    }
    if (!is_sync(l))
        return;
    uint32_t base = common_base(j, l, v);
    int all = base != HM_NO_ID;
    for (uint32_t k = 0; all && k < l->n_parts; k++) {
        struct hm_jpart *b = part_in(j, base, p[k].worker);
        all = b && b->end_ns <= p[k].ready_ns;
        p[k].common = b ? (uint32_t)(b - j->part) : HM_NO_ID;
    }
    for (uint32_t k = 0; k < l->n_parts; k++) {
        if (!all)
            p[k].common = HM_NO_ID;
        v[k] = all ? p[k].ready_ns - j->part[p[k].common].end_ns : p[k].local_ns;
        p[k].excess_ns = v[k];
    }
    l->median_ns = hm_median(v, l->n_parts);
    size_t n_floors = 0;
    for (uint32_t k = 0; k < l->n_parts; k++)
        if (p[k].floor != HM_NO_ID)
            v[n_floors++] = p[k].floor_ns;
    l->floor_median_ns = n_floors ? hm_median(v, n_floors) : 0;
    for (uint32_t k = 0; k < l->n_parts; k++) {
        if (p[k].excess_ns == l->median_ns && l->reference == HM_NO_ID)
            l->reference = l->first_part + k;
        p[k].excess_ns -= l->median_ns;
        if (!all && p[k].base == HM_NO_ID)
            p[k].excess_ns = p[k].excess_ns < 0 ? p[k].excess_ns : 0; /* began before the record */
    }
}

/* Charges the waits of one launch: to the last worker what its own work explains, the rest to whom
 * it waited for, newest first. */
static void charge_waits(struct hm_judge *j, const struct hm_jlaunch *l)
{
    if (l->last_worker == HM_NO_ID)
        return;
    j->worker[l->last_worker].last_arrivals++;
    for (uint32_t k = 0; k < l->n_parts; k++) {
        const struct hm_jpart *p = &j->part[l->first_part + k];
        if (p->worker == l->last_worker)
            continue;
        int64_t rest = p->wait_ns;
        const struct hm_jlaunch *at = l;
        uint32_t reached = l->last_worker; /* what nobody's own work explains stays with it */
        int depth = 0;
        for (; rest > 0 && depth < DEPTH; depth++) {
            const struct hm_jpart *q =
                at->last_worker == HM_NO_ID
                    ? NULL
                    : part_in(j, (uint32_t)(at - j->launch), at->last_worker);
            if (!q)
                break;
            int64_t own = q->excess_ns > 0 ? q->excess_ns : 0;
            own = own < rest ? own : rest;
            if (depth == 0)
                j->worker[q->worker].caused_ns += own;
            else
                j->worker[q->worker].indirect_ns += own;
            rest -= own;
            reached = q->worker;
            if (q->base == HM_NO_ID || j->part[q->base].wait_ns <= 0)
                break;
            at = &j->launch[j->part[q->base].launch];
        }
        if (rest > 0 && reached == l->last_worker)
            j->worker[reached].caused_ns += rest;
        else if (rest > 0)
            j->worker[reached].indirect_ns += rest;
    }
}

/* The largest own lateness of a worker since one base counts once: later arrivals since the same
 * base repeat it. */
struct group {
    uint32_t base, part;
    int64_t excess;
};

static void close_group(struct hm_judge *j, uint32_t w, struct group *g)
{
    if (g->part == HM_NO_ID || g->excess <= 0)
        return;
    const struct hm_jpart *p = &j->part[g->part];
    const struct hm_jlaunch *l = &j->launch[p->launch];
    if (l->i_step != HM_NO_ID) {
        j->late[(size_t)w * j->n_steps + l->i_step] += g->excess;
        j->worker[w].late_ns += g->excess;
        const struct hm_jpart *ref = &j->part[l->reference];
        int same = p->has_segment && ref->has_segment && p->base != HM_NO_ID &&
                   ref->base != HM_NO_ID && j->part[p->base].launch == j->part[ref->base].launch;
        for (int c = 0; same && c < HM_N_C; c++)
            j->cause_ns[(size_t)w * HM_N_C + (size_t)c] += p->part_ns[c] - ref->part_ns[c];
    }
    g->part = HM_NO_ID;
    g->excess = 0;
}

hm_status_t hm_judge_propagate(struct hm_judge *j)
{
    size_t n = j->n_workers + 1;
    int64_t *v = malloc(n * sizeof(*v));
    struct group *g = malloc(n * sizeof(*g));
    j->late = calloc(n * (j->n_steps + 1), sizeof(*j->late));
    j->cause_ns = calloc(n * HM_N_C, sizeof(*j->cause_ns));
    if (!v || !g || !j->late || !j->cause_ns) {
        free(v);
        free(g);
        return hm_fail(HM_E_NOMEM, "judge", "out of memory");
    }
    for (uint32_t w = 0; w < j->n_workers; w++)
        g[w] = (struct group){HM_NO_ID, HM_NO_ID, 0};
    for (size_t i = 0; i < j->n_launches; i++) {
        struct hm_jlaunch *l = &j->launch[i];
        if (l->n_parts > j->n_workers)
            l->n_parts = j->n_workers; /* two parts of one worker: the key is not what it seems */
        localise(j, l, v);
        j->n_sync += is_sync(l) ? 1u : 0u;
        for (uint32_t k = 0; k < l->n_parts; k++) {
            const struct hm_jpart *p = &j->part[l->first_part + k];
            if (l->i_step != HM_NO_ID) {
                j->worker[p->worker].wait_ns += p->wait_ns;
                j->worker[p->worker].transfer_ns += p->end_ns - p->start_ns - p->wait_ns;
                if (p->end_ns > j->step[l->i_step].end_ns)
                    j->step[l->i_step].end_ns = p->end_ns;
            }
            if (!is_sync(l) || l->i_step == HM_NO_ID)
                continue;
            uint32_t base = p->common != HM_NO_ID ? j->part[p->common].launch
                            : p->base != HM_NO_ID ? j->part[p->base].launch
                                                  : HM_NO_ID;
            struct group *mine = &g[p->worker];
            if (mine->part != HM_NO_ID && mine->base != base)
                close_group(j, p->worker, mine);
            /* own lateness is told by one clock alone: its error is the exit skew at most */
            int64_t error = l->u_ns < EXIT_SKEW_NS ? l->u_ns : EXIT_SKEW_NS;
            if (p->excess_ns > mine->excess && p->excess_ns > error) {
                mine->part = (uint32_t)(p - j->part);
                mine->excess = p->excess_ns;
                mine->base = base;
            }
        }
        if (is_sync(l) && l->i_step != HM_NO_ID)
            charge_waits(j, l);
    }
    for (uint32_t w = 0; w < j->n_workers; w++)
        close_group(j, w, &g[w]);
    for (size_t s = 0; s < j->n_steps; s++) {
        struct hm_jstep *step = &j->step[s];
        for (uint32_t w = 0; w < j->n_workers; w++) {
            int64_t late = j->late[(size_t)w * j->n_steps + s];
            if (late > step->late_ns) {
                step->late_ns = late;
                step->last_worker = w;
            }
        }
        if (step->last_worker != HM_NO_ID && step->late_ns > step->time_ns / 1000)
            j->worker[step->last_worker].last_in_steps++;
    }
    free(v);
    free(g);
    return HM_OK;
}
