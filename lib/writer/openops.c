/* What was under way at the end: NCCL operations and the threads' stacks of ranges, as events of
 * duration HM_DUR_OPEN. Box: lib/writer; the main thread, after the last drain.
 */
#include "writer/writer.h"

#include <string.h>

static void thread_ranges(struct hm_writer *w, const struct hm_thread *row)
{
    const uint32_t cap = sizeof(row->open) / sizeof(row->open[0]);
    uint32_t depth = atomic_load_explicit(&row->depth, memory_order_acquire);
    if (!atomic_load_explicit(&row->tid, memory_order_relaxed))
        return;
    for (uint32_t d = 0; d < depth && d < cap; d++) {
        struct hm_open_range open = row->open[d];
        struct hm_event ev;
        memset(&ev, 0, sizeof(ev));
        ev.t_ns = open.t_ns;
        ev.dur_ns = HM_DUR_OPEN;
        ev.kind = HM_EV_RANGE;
        ev.track = row->track;
        ev.u.range.name = open.name;
        ev.u.range.domain = open.domain;
        ev.u.range.category = HM_NO_ID;
        ev.u.range.depth = (uint16_t)d;
        hm_writer_append(w, &ev, 1);
    }
}

void hm_writer_open_ops(struct hm_writer *w)
{
    struct hm_event ev;
    for (uint32_t i = 0; i < w->view.n_ops; i++) {
        if (!hm_op_peek(&w->view, i, &ev))
            continue;
        ev.dur_ns = HM_DUR_OPEN;
        hm_writer_append(w, &ev, 1);
    }
    for (uint32_t i = 0; i < w->view.n_threads; i++)
        thread_ranges(w, &w->view.thread[i]);
}
