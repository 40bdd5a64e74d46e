/* Findings that stand before any straggler: a hang, and members that call different things.
 *
 * Box: lib/analysis. Pure. Source: facts on analysis 2.14, 2.15; facts on scenarios U27, U28.
 */
#include "analysis/verdict_inside.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char *func_of(unsigned func)
{
    return func && func < HM_NCCL_N_FUNCS ? hm_nccl_func_name(func) : "a collective";
}

static double seconds(int64_t ns)
{
    return (double)ns / 1e9;
}

/* "3", "3, 7 and 9", "3, 7, 9 and 12 more" */
static char *list_of(const struct hm_judge *j, const uint32_t *worker, size_t n)
{
    enum { SHOWN = 8 };
    char *s = NULL;
    size_t shown = n <= SHOWN ? n : SHOWN;
    for (size_t i = 0; i < shown; i++) {
        const char *between = !s ? "" : i + 1 == n ? " and " : ", ";
        char *more = hm_text("%s%s%u", s ? s : "", between, j->in.run->worker[worker[i]].rank);
        free(s);
        s = more;
    }
    if (n > shown) {
        char *more = hm_text("%s and %zu more", s ? s : "", n - shown);
        free(s);
        s = more;
    }
    return s;
}

static char *ids_of(const struct hm_judge *j, const uint32_t *worker, size_t n)
{
    char *s = NULL;
    for (size_t i = 0; i < n; i++) {
        char *more = hm_text("%s%s%u", s ? s : "", s ? "," : "", j->in.run->worker[worker[i]].rank);
        free(s);
        s = more;
    }
    return s;
}

static int lost_events(const struct hm_judge *j, uint32_t worker)
{
    const struct hm_run *run = j->in.run;
    for (uint32_t i = 0; i < run->n_present; i++)
        for (unsigned k = 0;
             run->rank[i].rank == (int32_t)run->worker[worker].rank && k < HM_N_LOST; k++)
            if (run->rank[i].lost[k] && k != HM_LOST_TEXT_CUT && k != HM_LOST_NCCL_FOREIGN)
                return 1;
    return 0;
}

/* What became of a rank that does not come. */
static char *fate(const struct hm_judge *j, uint32_t w, const char **short_p)
{
    const struct hm_alive *a = &j->in.alive[w];
    int64_t end = INT64_MIN;
    for (uint32_t i = 0; i < j->n_workers; i++)
        end = j->in.alive[i].last_ns > end ? j->in.alive[i].last_ns : end;
    const void *bytes = NULL;
    uint32_t len = 0, rank = j->in.run->worker[w].rank;
    if (a->in != HM_NO_ID &&
        hm_defs_get(&j->in.run->names, HM_DEF_STRING, a->in, &bytes, &len) != HM_OK)
        len = 0;
    *short_p = a->left == HM_LEFT_DIED    ? "it died"
               : a->left == HM_LEFT_CLEAN ? "it has left"
                                          : "it is held elsewhere";
    double quiet = seconds(end - a->last_ns);
    if (a->left == HM_LEFT_DIED)
        return hm_text("rank %u died (killed or crashed): its recording has no end; last sign of "
                       "life %.1f s before the last of the others",
                       rank, quiet);
    if (a->left == HM_LEFT_CLEAN)
        return hm_text("rank %u ended in good order %.1f s before the last of the others", rank,
                       quiet);
    if (len)
        return hm_text("rank %u is inside %.*s, for %.1f s", rank, (int)(len < 100 ? len : 100),
                       (const char *)bytes, seconds(a->last_ns - a->mark_ns));
    return hm_text("rank %u runs on outside NCCL; nothing tells where", rank);
}

static hm_status_t hang_row(struct hm_judge *j, struct hm_result *r, const struct hm_hang *h)
{
    struct hm_out_hang *t = hm_result_add(r, HM_T_hang);
    if (!t)
        return hm_fail(HM_E_NOMEM, "judge", "out of memory");
    size_t n = h->n_missing < HM_HANG_MISSING ? h->n_missing : HM_HANG_MISSING;
    t->comm = h->of;
    t->seq = h->seq;
    t->func = strdup(func_of(h->sig.func));
    t->n_waiting = h->n_waiting;
    t->missing = ids_of(j, h->missing, n);
    t->n_missing = h->n_missing;
    t->n_absent = h->n_absent;
    t->age_ns = h->age_ns;
    t->in_flight = h->in_flight;
    return HM_OK;
}

static struct hm_out_finding *add_finding(struct hm_result *r, const char *status)
{
    struct hm_out_finding *f = hm_result_add(r, HM_T_finding);
    if (!f)
        return NULL;
    f->status = strdup(status);
    f->dim = strdup("world");
    f->cause = strdup("unknown");
    f->confidence = strdup("high");
    return f;
}

static void say_hang(struct hm_out_finding *f, const struct hm_judge *j, const struct hm_hang *h)
{
    size_t n = h->n_missing < HM_HANG_MISSING ? h->n_missing : HM_HANG_MISSING;
    char *who = list_of(j, h->missing, n);
    hm_list_add(&f->evidence,
                h->in_flight ? "communicator %016" PRIx64 ": %s #%u was called by all and never "
                               "completed; %u wait, the longest for %.1f s%s"
                             : "communicator %016" PRIx64 ": %s #%u: %u wait, the longest for "
                               "%.1f s; not called by rank %s",
                h->of, func_of(h->sig.func), h->seq, h->n_waiting, seconds(h->age_ns),
                h->in_flight ? ""
                : who        ? who
                             : "");
    if (h->n_absent)
        hm_list_add(&f->evidence, "%u of its members have no rank file here", h->n_absent);
    free(who);
}

static hm_status_t hang_finding(struct hm_judge *j, struct hm_result *r, const struct hm_hangs *g)
{
    const struct hm_hang *h = &g->hang[0];
    struct hm_out_finding *f = add_finding(r, "hang");
    if (!f)
        return hm_fail(HM_E_NOMEM, "judge", "out of memory");
    const uint32_t *who = g->n_roots ? g->root : g->cycle;
    size_t n = g->n_roots ? g->n_roots : g->n_cycle;
    for (size_t i = 0; g->n_roots && i < g->n; i++) /* tell of the one the root holds up */
        for (uint32_t k = 0; k < g->hang[i].n_missing && k < HM_HANG_MISSING; k++)
            if (g->hang[i].missing[k] == g->root[0] && h->missing[0] != g->root[0])
                h = &g->hang[i];
    char *list = list_of(j, who, n);
    const char *what = "";
    char *first = n ? fate(j, who[0], &what) : NULL;
    f->kind = strdup(n == 0 ? "all" : n == 1 ? "rank" : "ranks");
    f->ids = ids_of(j, who, n);
    f->label = n == 0 ? strdup("all ranks") : hm_text("rank%s %s", n > 1 ? "s" : "", list);
    f->comm = hm_text("%016" PRIx64, h->of);
    if (n == 0)
        f->text = hm_text("hang: all called %s #%u and it never completed: %u ranks wait in it for "
                          "%.1f s (communicator %016" PRIx64 ")",
                          func_of(h->sig.func), h->seq, h->n_waiting, seconds(h->age_ns), h->of);
    else if (g->n_roots)
        f->text = hm_text("hang: rank%s %s do%s not come to %s #%u%s%s%s; %u rank%s for %.1f s "
                          "(communicator %016" PRIx64 ")",
                          n > 1 ? "s" : "", list, n > 1 ? "" : "es", func_of(h->sig.func), h->seq,
                          n > 1 ? "" : " (", n > 1 ? "" : what, n > 1 ? "" : ")", h->n_waiting,
                          h->n_waiting == 1 ? " waits" : "s wait", seconds(h->age_ns), h->of);
    else
        f->text = hm_text("hang: ranks %s wait for one another in different communicators: their "
                          "collectives come in another order (%s #%u of communicator %016" PRIx64
                          ", for %.1f s)",
                          list, func_of(h->sig.func), h->seq, h->of, seconds(h->age_ns));
    for (size_t i = 0; i < g->n && i < 4; i++)
        say_hang(f, j, &g->hang[i]);
    if (first && g->n_roots)
        hm_list_add(&f->evidence, "%s", first);
    for (size_t i = 1; g->n_roots && i < n && i < 4; i++) {
        const char *ignored;
        char *s = fate(j, who[i], &ignored);
        if (s)
            hm_list_add(&f->evidence, "%s", s);
        free(s);
    }
    for (size_t i = 0; i < n; i++)
        if (lost_events(j, who[i])) {
            hm_list_add(&f->evidence,
                        "events of rank %u were lost: it may have called and not be seen",
                        j->in.run->worker[who[i]].rank);
            free(f->confidence);
            f->confidence = strdup("low");
            break;
        }
    if (n)
        hm_list_add(&f->next,
                    "look at the log and the kernel messages of rank %u's node for its "
                    "end, or at its stack with py-spy or gdb while it hangs",
                    j->in.run->worker[who[0]].rank);
    hm_list_add(&f->next, "hindmost merge -o trace.json   shows the last steps on one timeline");
    free(list);
    free(first);
    return HM_OK;
}

/* --- mismatch ----------------------------------------------------------------------------------
 */

static hm_status_t mismatch_row(struct hm_judge *j, struct hm_result *r, uint64_t comm,
                                uint32_t seq, uint32_t worker, const char *differs, char *got,
                                char *most)
{
    struct hm_out_mismatch *t = hm_result_add(r, HM_T_mismatch);
    if (!t) {
        free(got);
        free(most);
        return hm_fail(HM_E_NOMEM, "judge", "out of memory");
    }
    t->comm = comm;
    t->seq = seq;
    t->rank = j->in.run->worker[worker].rank;
    t->differs = strdup(differs);
    t->got = got;
    t->majority = most;
    return HM_OK;
}

static hm_status_t mismatch_finding(struct hm_judge *j, struct hm_result *r, uint64_t comm,
                                    uint32_t seq, const uint32_t *who, size_t n, int no_majority,
                                    const char *what, const char *shift)
{
    struct hm_out_finding *f = add_finding(r, "mismatch");
    if (!f)
        return hm_fail(HM_E_NOMEM, "judge", "out of memory");
    char *list = list_of(j, who, n);
    f->kind = strdup(n == 1 ? "rank" : "ranks");
    f->ids = ids_of(j, who, n);
    f->label = hm_text("rank%s %s", n > 1 ? "s" : "", list);
    f->comm = hm_text("%016" PRIx64, comm);
    f->text = no_majority
                  ? hm_text("mismatch: the members of communicator %016" PRIx64
                            " call different things as #%u, and no call has a majority: ranks %s",
                            comm, seq, list)
                  : hm_text("mismatch: rank%s %s call%s %s than the others as #%u of communicator "
                            "%016" PRIx64,
                            n > 1 ? "s" : "", list, n > 1 ? "" : "s", what, seq, comm);
    /* the rows of these ranks were added last */
    uint32_t n_rows = r->n_rows[HM_T_mismatch], from = n_rows > n ? n_rows - (uint32_t)n : 0;
    for (uint32_t i = from; i < n_rows && i < from + 4; i++) {
        const struct hm_out_mismatch *m = hm_result_row(r, HM_T_mismatch, i);
        hm_list_add(&f->evidence,
                    m->majority ? "rank %lld calls %s; most call %s" : "rank %lld calls %s%s",
                    (long long)m->rank, m->got ? m->got : "", m->majority ? m->majority : "");
    }
    if (shift)
        hm_list_add(&f->evidence, "%s", shift);
    hm_list_add(&f->evidence,
                "what comes after it on this communicator is not compared: it may be shifted");
    hm_list_add(&f->next, "hindmost report --csv mismatch   lists what each of them called");
    free(list);
    return HM_OK;
}

static char *call_text(unsigned func, uint64_t bytes)
{
    return hm_text("%s, %" PRIu64 " bytes", func_of(func), bytes);
}

/* The first disagreement of a communicator, seen on launches. */
static hm_status_t mismatch_launch(struct hm_judge *j, struct hm_result *r,
                                   const struct hm_mismatch_row *row)
{
    uint32_t *who = malloc((row->n + 1) * sizeof(*who));
    size_t n = 0;
    int none = row->majority == HM_NO_ID, shift = 0;
    uint8_t fields = 0;
    if (!who)
        return hm_fail(HM_E_NOMEM, "judge", "out of memory");
    hm_status_t st = HM_OK;
    for (uint32_t i = 0; i < row->n && st == HM_OK; i++) {
        const struct hm_mismatch_member *m = &row->member[i];
        if (!none && !m->differs)
            continue;
        fields |= m->differs;
        shift = shift ? shift : hm_mismatch_shift(row, i);
        who[n++] = m->worker;
        st = mismatch_row(
            j, r, row->comm, row->seq, m->worker, none ? "no majority" : hm_sig_words(m->differs),
            call_text(m->func, m->bytes),
            none ? NULL
                 : call_text(row->member[row->majority].func, row->member[row->majority].bytes));
    }
    if (st == HM_OK)
        st = mismatch_finding(j, r, row->comm, row->seq, who, n, none, hm_sig_words(fields),
                              shift > 0 ? "its next call is what the others call here: it makes a "
                                          "call more"
                              : shift < 0 ? "its call is what the others call next: it leaves a "
                                            "call out"
                                          : NULL);
    free(who);
    return st;
}

/* A stuck collective whose callers do not agree: the hang's cause. Their kernels never ran, so that
 * no launch tells of it. */
static hm_status_t mismatch_stuck(struct hm_judge *j, struct hm_result *r, const struct hm_hang *h)
{
    const struct hm_progress *p = j->in.progress;
    size_t n = 0, n_who = 0, best = SIZE_MAX;
    struct hm_sig *sig = malloc((j->in.n_progress + 1) * sizeof(*sig));
    uint32_t *worker = malloc((j->in.n_progress + 1) * sizeof(*worker));
    uint8_t *differs = calloc(j->in.n_progress + 1, 1);
    hm_status_t st =
        sig && worker && differs ? HM_OK : hm_fail(HM_E_NOMEM, "judge", "out of memory");
    for (size_t i = 0; st == HM_OK && i < j->in.n_progress; i++) {
        const int k = (int)(h->seq % HM_PROGRESS_CALLS);
        if (p[i].comm != h->comm || p[i].call[k].call != h->seq || !p[i].call[k].t_ns)
            continue;
        sig[n] = p[i].call[k].sig;
        worker[n++] = p[i].worker;
    }
    uint8_t fields = 0;
    if (st == HM_OK && n)
        best = hm_sig_vote(sig, n, differs);
    for (size_t i = 0; st == HM_OK && best != SIZE_MAX && i < n; i++)
        if (differs[i]) {
            fields |= differs[i];
            st = mismatch_row(
                j, r, h->of, h->seq, worker[i], hm_sig_words(differs[i]),
                hm_text("%s, %" PRIu64 " elements, type %u, root %d", func_of(sig[i].func),
                        sig[i].count, sig[i].dtype, sig[i].root),
                hm_text("%s, %" PRIu64 " elements, type %u, root %d", func_of(sig[best].func),
                        sig[best].count, sig[best].dtype, sig[best].root));
            worker[n_who++] = worker[i];
        }
    if (st == HM_OK && n_who)
        st = mismatch_finding(j, r, h->of, h->seq, worker, n_who, 0, hm_sig_words(fields),
                              "the collective never completed");
    else if (st == HM_OK && n > 1 && best == SIZE_MAX)
        st = mismatch_finding(j, r, h->of, h->seq, worker, n, 1, NULL,
                              "the collective never completed");
    free(sig);
    free(worker);
    free(differs);
    return st;
}

hm_status_t hm_judge_stuck(struct hm_judge *j, struct hm_result *r)
{
    struct hm_hangs g = {0};
    hm_status_t st = HM_OK;
    for (uint32_t i = 0; i < j->mismatches.n && st == HM_OK; i++)
        st = mismatch_launch(j, r, &j->mismatches.row[i]);
    if (st == HM_OK && j->in.n_progress)
        st = hm_hang_find(j->in.progress, j->in.n_progress, j->in.alive, j->n_workers, &g);
    for (size_t i = 0; i < g.n && st == HM_OK; i++) {
        st = hang_row(j, r, &g.hang[i]);
        if (st == HM_OK)
            st = mismatch_stuck(j, r, &g.hang[i]);
    }
    if (g.n && st == HM_OK)
        st = hang_finding(j, r, &g);
    hm_hang_clear(&g);
    return st;
}
