/* Steps of one worker.
 *
 * Box: lib/analysis. Pure. Memory: 32 bytes a step and a fixed table of recent API calls.
 */
#include "analysis/steps.h"

#include "analysis/corr.h"

#include <stdlib.h>

struct mark {
    int64_t t_ns, end_ns; /* host: begin; where a STEP end was seen, else INT64_MAX */
    int64_t gpu_end_ns;   /* last end of what was launched inside, INT64_MIN = nothing */
    int64_t step;
};
struct hm_steps {
    struct mark *mark;
    size_t n, cap;
    int64_t before_ns; /* last end of what was launched before the first mark */
    int64_t first_ns;  /* first device operation launched in the first step */
    struct hm_corr *corr;
    struct hm_step_window *window;
};

hm_status_t hm_steps_create(struct hm_steps **steps_p)
{
    struct hm_steps *s = calloc(1, sizeof(*s));
    if (!s || !(s->corr = calloc(1, sizeof(*s->corr)))) {
        free(s);
        return HM_E_NOMEM;
    }
    s->before_ns = INT64_MIN;
    s->first_ns = INT64_MAX;
    *steps_p = s;
    return HM_OK;
}

static hm_status_t take_mark(struct hm_steps *s, const struct hm_event *ev)
{
    if (ev->aux == HM_STEP_END) {
        if (s->n && s->mark[s->n - 1].end_ns == INT64_MAX)
            s->mark[s->n - 1].end_ns = ev->t_ns;
        return HM_OK;
    }
    if (ev->u.step.shut) { /* outside the window of the recording: no step to analyse */
        if (s->n && s->mark[s->n - 1].end_ns == INT64_MAX)
            s->mark[s->n - 1].end_ns = ev->t_ns;
        return HM_OK;
    }
    if (s->n == s->cap) {
        size_t cap = s->cap ? 2 * s->cap : 256;
        struct mark *p = realloc(s->mark, cap * sizeof(*p));
        if (!p)
            return HM_E_NOMEM;
        s->mark = p;
        s->cap = cap;
    }
    if (s->n && s->mark[s->n - 1].end_ns == INT64_MAX)
        s->mark[s->n - 1].end_ns = ev->t_ns;
    s->mark[s->n++] = (struct mark){ev->t_ns, INT64_MAX, INT64_MIN, ev->u.step.step};
    return HM_OK;
}

/* Index of the mark that begins at or before t, SIZE_MAX = none. */
static size_t mark_at(const struct hm_steps *s, int64_t t)
{
    size_t lo = 0, hi = s->n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (s->mark[mid].t_ns <= t)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo ? lo - 1 : SIZE_MAX;
}

hm_status_t hm_steps_event(struct hm_steps *s, const struct hm_event *ev, int device_match)
{
    uint32_t correlation;
    switch (ev->kind) {
    case HM_EV_STEP:
        return take_mark(s, ev);
    case HM_EV_API:
        hm_corr_add(s->corr, ev);
        return HM_OK;
    case HM_EV_KERNEL:
        correlation = ev->u.kernel.correlation;
        break;
    case HM_EV_MEMCPY:
        correlation = ev->u.copy.correlation;
        break;
    case HM_EV_MEMSET:
        correlation = ev->u.set.correlation;
        break;
    default:
        return HM_OK;
    }
    if (!device_match || ev->flags & HM_EVF_BAD_TIME || ev->dur_ns < 0)
        return HM_OK;
    const struct hm_call *call = hm_corr_find(s->corr, correlation);
    size_t i = mark_at(s, call ? call->t_ns : ev->t_ns);
    int64_t end = ev->t_ns + ev->dur_ns;
    int64_t *last = i == SIZE_MAX ? &s->before_ns : &s->mark[i].gpu_end_ns;
    if (i == 0 && ev->t_ns < s->first_ns)
        s->first_ns = ev->t_ns;
    if (end > *last)
        *last = end;
    return HM_OK;
}

uint32_t hm_steps_at(const struct hm_steps *s, int64_t t_ns)
{
    size_t i = mark_at(s, t_ns);
    if (i == SIZE_MAX || s->mark[i].step < 0 || s->mark[i].step >= HM_NO_ID)
        return HM_NO_ID;
    return (uint32_t)s->mark[i].step;
}

size_t hm_steps_windows(struct hm_steps *s, const struct hm_step_window **window_p)
{
    size_t n = 0;
    free(s->window);
    s->window = calloc(s->n + 1, sizeof(*s->window));
    if (!s->window)
        return 0;
    int64_t front = s->n ? s->mark[0].t_ns : 0;
    if (s->before_ns != INT64_MIN && s->before_ns > front)
        front = s->before_ns;
    if (s->n && s->mark[0].gpu_end_ns != INT64_MIN && s->first_ns > front)
        front = s->first_ns; /* the GPU has nothing to do before its first operation */
    for (size_t i = 0; i < s->n; i++) {
        const struct mark *m = &s->mark[i];
        if (m->end_ns == INT64_MAX)
            break;
        int64_t end = m->gpu_end_ns != INT64_MIN ? m->gpu_end_ns : m->end_ns;
        if (end < front)
            end = front;
        if (m->step >= 0 && m->step < HM_NO_ID)
            s->window[n++] = (struct hm_step_window){front, end, (uint32_t)m->step, 0};
        front = end;
    }
    *window_p = s->window;
    return n;
}

void hm_steps_destroy(struct hm_steps *s)
{
    if (!s)
        return;
    free(s->mark);
    free(s->corr);
    free(s->window);
    free(s);
}
