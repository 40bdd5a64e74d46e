/* Replay of the collective dependency graph with some workers repaired (rule 1).
 *
 * Box: lib/analysis. Pure. Each arrival starts when its own work is done (end of its base + local)
 * and the collective before it on the stream has ended; a synchronous launch ends a measured time
 * after its last arrival. Repaired: own work as long as the median member's, where it is longer.
 * Source: facts on scenarios rule 1; facts on analysis 2.11.
 */
#include "analysis/judge_inside.h"

#include <stdlib.h>
#include <string.h>

static int64_t start_of(const struct hm_judge *j, const struct hm_jlaunch *l,
                        const struct hm_jpart *p, const int64_t *end, int repair)
{
    int64_t ready = p->base == HM_NO_ID ? p->ready_ns : end[p->base] + p->local_ns;
    if (repair && p->excess_ns > 0) {
        if (p->common != HM_NO_ID) {
            int64_t mended = end[p->common] + l->median_ns;
            ready = mended < ready ? mended : ready;
        } else {
            ready -= p->excess_ns;
        }
    }
    int64_t before = p->before == HM_NO_ID ? INT64_MIN : end[p->before];
    (void)j;
    return (before > ready ? before : ready) + p->tail_ns;
}

int64_t hm_judge_replay(const struct hm_judge *j, const uint8_t *repair, int64_t *gain_p)
{
    int64_t *start = malloc((j->n_parts + 1) * sizeof(*start));
    int64_t *end = malloc((j->n_parts + 1) * sizeof(*end));
    int64_t *step_end = malloc((j->n_steps + 1) * sizeof(*step_end));
    if (!start || !end || !step_end) {
        free(start);
        free(end);
        free(step_end);
        return INT64_MIN;
    }
    for (size_t s = 0; s < j->n_steps; s++)
        step_end[s] = INT64_MIN;
    for (size_t i = 0; i < j->n_launches; i++) {
        const struct hm_jlaunch *l = &j->launch[i];
        const struct hm_jpart *p = &j->part[l->first_part];
        int sync = (l->flags & HM_LAUNCH_SYNCHRONOUS) && l->n_parts >= 2;
        int64_t last = INT64_MIN;
        for (uint32_t k = 0; k < l->n_parts; k++) {
            int64_t t = start_of(j, l, &p[k], end,
                                 repair && repair[p[k].worker] && l->i_step != HM_NO_ID && sync);
            start[l->first_part + k] = t;
            last = t > last ? t : last;
        }
        for (uint32_t k = 0; k < l->n_parts; k++) {
            uint32_t me = l->first_part + k;
            if (sync) {
                end[me] = last + (p[k].end_ns - l->last_ns);
            } else {
                int64_t was = p[k].start_ns, is = start[me];
                if (p[k].source != HM_NO_ID) {
                    int64_t s0 = j->part[p[k].source].start_ns, s1 = start[p[k].source];
                    was = s0 > was ? s0 : was;
                    is = s1 > is ? s1 : is;
                }
                end[me] = is + (p[k].end_ns - was);
            }
            if (l->i_step != HM_NO_ID && end[me] > step_end[l->i_step])
                step_end[l->i_step] = end[me];
        }
    }
    int64_t saved = 0;
    for (size_t s = 0; s < j->n_steps; s++) {
        int64_t now = step_end[s] == INT64_MIN ? saved : j->step[s].end_ns - step_end[s];
        if (gain_p)
            gain_p[s] = now - saved;
        saved = now;
    }
    free(start);
    free(end);
    free(step_end);
    return saved;
}
