/* What was under way at the end: NCCL operations and the threads' stacks of ranges, as events of
 * duration HM_DUR_OPEN. Box: lib/writer; the main thread, after the last drain.
 */
#include "writer/writer.h"

static void thread_ranges(struct hm_writer *w, const struct hm_thread *row)
{
    struct hm_event ev[HM_OPEN_ROWS];
    if (atomic_load_explicit(&row->tid, memory_order_relaxed))
        hm_writer_append(w, ev, hm_open_peek(row, ev));
}

void hm_writer_open_ops(struct hm_writer *w)
{
    struct hm_event ev;
    for (uint32_t i = 0; i < w->view.n_ops; i++) {
        if (!hm_op_peek(&w->view, i, &ev))
            continue;
        /* open, or ended and kept back until its parts were counted: its duration says which */
        hm_writer_append(w, &ev, 1);
    }
    for (uint32_t i = 0; i < w->view.n_spans; i++) {
        if (!hm_span_peek(&w->view, i, &ev))
            continue;
        ev.dur_ns = HM_DUR_OPEN;
        hm_writer_append(w, &ev, 1);
    }
    for (uint32_t i = 0; i < w->view.n_threads; i++)
        thread_ranges(w, &w->view.thread[i]);
}
