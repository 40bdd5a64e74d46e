/* Pool -> rank file: events, definitions, notes, losses. Box: lib/writer; the main thread.
 *
 * Order: events first, then definitions, so that all definitions an event names are in the file
 * before the next flush makes both last. Definitions go in dense order; one that is not published
 * yet holds up those behind it until its thread publishes it, or the process has ended.
 */
#include "core/clock.h"
#include "writer/writer.h"

#include <stdio.h>
#include <string.h>

static const uint32_t def_bytes[HM_N_DEFS] = {
    [HM_DEF_TRACK] = sizeof(struct hm_def_track),
    [HM_DEF_KERNEL] = sizeof(struct hm_def_kernel),
    [HM_DEF_COMM] = sizeof(struct hm_def_comm),
    [HM_DEF_DEVICE] = sizeof(struct hm_def_device),
    [HM_DEF_MPI_COMM] = sizeof(struct hm_def_mpi_comm),
}; /* 0: any length */

static void lose(struct hm_writer *w, uint64_t n)
{
    atomic_fetch_add(&w->view.pool->lost[HM_LOST_WRITER_IO], n);
}

static int id_ok(const struct hm_writer *w, enum hm_def_kind kind, uint32_t id)
{
    return id == HM_NO_ID ||
           id < atomic_load_explicit(&w->view.defs.head->n[kind], memory_order_acquire);
}

/* The ids that a reader will look up. */
static int ids_ok(const struct hm_writer *w, const struct hm_event *ev)
{
    if (!id_ok(w, HM_DEF_TRACK, ev->track))
        return 0;
    switch (ev->kind) {
    case HM_EV_KERNEL:
        return id_ok(w, HM_DEF_KERNEL, ev->u.kernel.kernel);
    case HM_EV_NCCL_LAUNCH:
        return id_ok(w, HM_DEF_COMM, ev->u.launch.comm);
    case HM_EV_NCCL_CALL:
    case HM_EV_NCCL_COLL:
    case HM_EV_NCCL_P2P:
    case HM_EV_NCCL_CE:
        return id_ok(w, HM_DEF_COMM, ev->u.op.comm);
    case HM_EV_NCCL_STATE:
        return id_ok(w, HM_DEF_COMM, ev->u.nccl_state.comm);
    case HM_EV_RANGE:
    case HM_EV_MARK:
        return id_ok(w, HM_DEF_STRING, ev->u.range.name);
    case HM_EV_STEP:
        return id_ok(w, HM_DEF_STRING, ev->u.step.name);
    case HM_EV_OPEN:
        return id_ok(w, HM_DEF_STRING, ev->u.open.name) &&
               id_ok(w, HM_DEF_STRING, ev->u.open.domain) && id_ok(w, HM_DEF_COMM, ev->u.open.comm);
    case HM_EV_COUNTER:
        return id_ok(w, HM_DEF_STRING, ev->u.counter.name) &&
               id_ok(w, HM_DEF_STRING, ev->u.counter.domain) &&
               id_ok(w, HM_DEF_STRING, ev->u.counter.unit);
    default:
        return 1;
    }
}

static void refuse(struct hm_writer *w, const struct hm_event *ev)
{
    w->n_bad++;
    lose(w, 1);
    if (w->said_bad)
        return;
    w->said_bad = 1;
    char text[120];
    snprintf(text, sizeof(text),
             "an event of kind %u on track %u names what was never defined; it is left out",
             (unsigned)ev->kind, (unsigned)ev->track);
    hm_pool_note(&w->view, HM_E_DATA, text);
}

static void append_good(struct hm_writer *w, const struct hm_event *ev, uint32_t n)
{
    if (!n)
        return;
    hm_status_t s = hm_rankfile_append(w->file, ev, n);
    if (s == HM_OK || s == HM_E_DATA) { /* a kind without a table; the rest is in */
        w->n_events += n;
        return;
    }
    lose(w, n);
    if (!w->said_io)
        hm_pool_note(&w->view, s, "the rank file takes no more events; is the disk full?");
    w->said_io = 1;
}

uint32_t hm_writer_append(struct hm_writer *w, const struct hm_event *ev, uint32_t n)
{
    uint32_t from = 0, n_good = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (ev[i].kind && ev[i].kind < HM_N_KINDS && ids_ok(w, &ev[i])) {
            n_good++;
            w->n_gpu += ev[i].kind == HM_EV_KERNEL || ev[i].kind == HM_EV_NCCL_COLL;
            continue;
        }
        append_good(w, ev + from, i - from);
        from = i + 1;
        refuse(w, &ev[i]);
    }
    append_good(w, ev + from, n - from);
    return n_good;
}

static hm_status_t take(void *ctx, uint32_t thread, const struct hm_event *ev, uint32_t n)
{
    struct hm_writer *w = ctx;
    (void)thread;
    w->n_taken += n;
    if (!w->config.max_events && !w->control.spent_ns) {
        hm_writer_append(w, ev, n);
        return HM_OK; /* what could not be kept is counted; the chunk must become free */
    }
    for (uint32_t i = 0; i < n; i++)
        if (!hm_control_spent(w, &ev[i]))
            hm_writer_append(w, &ev[i], 1);
    return HM_OK;
}

static void define_kind(struct hm_writer *w, enum hm_def_kind kind, int final)
{
    const void *bytes;
    uint32_t len;
    uint32_t n = atomic_load_explicit(&w->view.defs.head->n[kind], memory_order_acquire);
    if (n > w->view.defs.cap[kind])
        n = w->view.defs.cap[kind];
    while (w->n_defined[kind] < n) {
        uint32_t id = w->n_defined[kind];
        hm_status_t s = hm_defs_get(&w->view.defs, kind, id, &bytes, &len);
        if (s == HM_AGAIN && !final)
            return;
        if (s || (def_bytes[kind] && len != def_bytes[kind])) {
            bytes = NULL;
            len = 0;
        }
        if (hm_rankfile_define(w->file, kind, id, bytes, len))
            return; /* tried again at the next drain */
        w->n_defined[kind]++;
    }
}

static void take_notes(struct hm_writer *w)
{
    uint32_t n = atomic_load(&w->view.pool->n_notes);
    for (; w->n_notes < n && w->n_notes < w->view.n_notes; w->n_notes++) {
        struct hm_note *from = &w->view.note[w->n_notes], note;
        note.t_ns = __atomic_load_n(&from->t_ns, __ATOMIC_ACQUIRE);
        if (!note.t_ns)
            return;
        note.status = from->status;
        memcpy(note.text, from->text, sizeof(note.text));
        note.text[sizeof(note.text) - 1] = 0;
        hm_rankfile_note(w->file, &note);
    }
}

void hm_writer_drain(struct hm_writer *w, int final)
{
    uint64_t lost[HM_N_LOST];
    hm_pool_drain(&w->view, w->drained, final, take, w);
    for (int k = 0; k < HM_N_DEFS; k++)
        define_kind(w, (enum hm_def_kind)k, final);
    take_notes(w);
    for (int i = 0; i < HM_N_LOST; i++)
        lost[i] = atomic_load_explicit(&w->view.pool->lost[i], memory_order_relaxed);
    hm_rankfile_lost(w->file, lost);
}
