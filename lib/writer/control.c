/* What is recorded, as far as the writer decides: orders of `hindmost ctl`, times, budget.
 *
 * Box: lib/writer; the main thread. The file RUN/control is renamed into place by the tool, on any
 * node; each writer looks at it once a second and answers in RUN/.seen-RANK. The gate is shut in
 * the pool (core/gate.c); the recorder's hooks see it at the next event.
 */
#include "core/clock.h"
#include "writer/writer.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MS   INT64_C(1000000)
#define LOOK (1000 * MS)

void hm_control_init(struct hm_writer *w)
{
    struct hm_control *c = &w->control;
    memset(c, 0, sizeof(*c));
    c->progress_at = c->look_at = INT64_MIN;
}

/* Shut or open, all things considered. */
static void set_allow(struct hm_writer *w)
{
    struct hm_pool *pool = w->view.pool;
    struct hm_control *c = &w->control;
    uint32_t order = atomic_load(&pool->order);
    int64_t age = hm_now() - pool->start_raw_ns;
    int64_t from = w->config.start_after_ms * MS, length = w->config.record_for_ms * MS;
    int shut = order == HM_ORDER_STOP || c->spent_ns;
    if (order != HM_ORDER_START)
        shut |= age < from || (length && age - from >= length);
    uint64_t allow = shut ? HM_GATE_ALWAYS : ~UINT64_C(0);
    if (atomic_load(&pool->allow) == allow && c->order == order)
        return;
    c->order = order;
    atomic_store(&pool->allow, allow);
    if (order == HM_ORDER_START) /* asked for: the windows no longer count */
        atomic_store(&pool->want, atomic_load(&pool->all));
    hm_gate_apply(pool);
}

static int64_t file_bytes(const struct hm_writer *w)
{
    char tail[1200];
    struct stat st;
    const char *path = hm_rankfile_path(w->file);
    int64_t bytes = 0;
    if (!path)
        return 0;
    if (!stat(path, &st))
        bytes += (int64_t)st.st_size;
    int n = snprintf(tail, sizeof(tail), "%.1150s", path);
    if (n > 3 && !strcmp(tail + n - 3, ".h5")) {
        memcpy(tail + n - 3, ".tail", 6);
        if (!stat(tail, &st))
            bytes += (int64_t)st.st_size;
    }
    return bytes;
}

int hm_control_spent(struct hm_writer *w, const struct hm_event *ev)
{
    struct hm_control *c = &w->control;
    int64_t limit = w->config.max_events;
    if (HM_GATE_ALWAYS >> ev->kind & 1)
        return 0;
    if (c->spent_ns) {
        atomic_fetch_add(&w->view.pool->lost[HM_LOST_BUDGET], 1);
        return 1;
    }
    if (limit && ++c->n_budget >= (uint64_t)limit)
        hm_control_spend(w, "events");
    return 0;
}

void hm_control_spend(struct hm_writer *w, const char *what)
{
    char text[160];
    w->control.spent_ns = hm_now();
    set_allow(w);
    snprintf(text, sizeof(text), "the budget of %s is spent; only steps and clocks from here on",
             what);
    hm_pool_note(&w->view, HM_OK, text);
}

/* --- orders --- */

struct order {
    int64_t id;
    uint32_t order, snapshot;
};

/* Lines of "key value"; what is not known is passed over. 1 = a whole order. */
static int read_order(const char *path, struct order *order_p)
{
    static const char *const words[] = {"none", "start", "stop"};
    char text[1024], key[16], value[64];
    struct order order = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return 0;
    ssize_t n = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (n <= 0)
        return 0;
    text[n] = 0;
    long long number;
    for (char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        if (sscanf(line, "%15s %63s", key, value) != 2)
            continue;
        if (!strcmp(key, "id") && sscanf(value, "%lld", &number) == 1)
            order.id = number;
        if (!strcmp(key, "snapshot") && sscanf(value, "%lld", &number) == 1 && number > 0 &&
            number < 32768)
            order.snapshot = (uint32_t)number;
        for (uint32_t i = 0; !strcmp(key, "order") && i < 3; i++)
            if (!strcmp(value, words[i]))
                order.order = i;
    }
    if (order.id <= 0)
        return 0;
    *order_p = order;
    return 1;
}

static void answer(const struct hm_writer *w, int64_t id)
{
    char path[1200], temp[1220];
    if (!(w->known & HM_KNOWN_RANK))
        return;
    snprintf(path, sizeof(path), "%.1023s/.seen-%05d", w->view.pool->run_dir, (int)w->meta.rank);
    snprintf(temp, sizeof(temp), "%s.new", path);
    FILE *f = fopen(temp, "we");
    if (!f)
        return;
    uint64_t gate = atomic_load(&w->view.pool->gate);
    fprintf(f, "id %lld\nrank %d\nhost %.63s\npid %d\nstep %lld\ngate %s\nevents %llu\n",
            (long long)id, (int)w->meta.rank, w->meta.host, (int)w->meta.pid,
            (long long)atomic_load(&w->view.pool->step), gate & ~HM_GATE_ALWAYS ? "open" : "shut",
            (unsigned long long)w->n_events);
    hm_snapshot_print(w, f);
    if (fclose(f) || rename(temp, path))
        unlink(temp);
}

static void look(struct hm_writer *w)
{
    struct hm_control *c = &w->control;
    char path[1200];
    struct order order;
    snprintf(path, sizeof(path), "%.1023s/control", w->view.pool->run_dir);
    int first = !c->looked;
    c->looked = 1;
    if (!read_order(path, &order) || order.id == c->id)
        return;
    c->id = order.id;
    atomic_store(&w->view.pool->order, order.order);
    set_allow(w);
    /* one that was asked of those who came before us is not ours to take; the id is a time */
    int take = order.snapshot != c->snapshot && (!first || order.id > w->meta.start_real_ns);
    c->snapshot = order.snapshot;
    if (take)
        hm_snapshot_take(w, (uint16_t)order.snapshot);
    answer(w, order.id);
}

/* --- no progress --- */

static void watch(struct hm_writer *w, int64_t now)
{
    struct hm_control *c = &w->control;
    int64_t step = atomic_load_explicit(&w->view.pool->step, memory_order_relaxed);
    uint64_t gate = atomic_load_explicit(&w->view.pool->gate, memory_order_relaxed);
    int blind = !(gate & ~HM_GATE_ALWAYS);
    if (c->n_seen != w->n_taken || c->step != step || c->progress_at == INT64_MIN || blind) {
        c->n_seen = w->n_taken;
        c->step = step;
        c->progress_at = now;
        c->barked = 0;
        return;
    }
    if (!w->config.watchdog_ms || c->barked || !w->n_taken ||
        now - c->progress_at < w->config.watchdog_ms * MS)
        return;
    char text[200];
    c->barked = 1;
    snprintf(text, sizeof(text),
             "no event for %lld s in step %lld: a snapshot of what is open was taken",
             (long long)((now - c->progress_at) / (1000 * MS)), (long long)step);
    hm_pool_note(&w->view, HM_OK, text);
    hm_snapshot_take(w, (uint16_t)(HM_SNAPSHOT_WATCHDOG | (++c->n_barks & 0x7fff)));
}

/* --- gaps --- */

static void put_gap(struct hm_writer *w, enum hm_loss cause, int64_t from, int64_t to, uint64_t n)
{
    struct hm_event ev = {.t_ns = from,
                          .dur_ns = to > from ? to - from : 0,
                          .kind = HM_EV_GAP,
                          .aux = (uint16_t)cause,
                          .track = w->track};
    ev.u.gap.n = n;
    hm_writer_append(w, &ev, 1);
}

/* The counters tell how many were lost, the time between two looks when: 50 ms or less. */
void hm_control_gaps(struct hm_writer *w, int last)
{
    static const enum hm_loss causes[] = {HM_LOST_POOL_FULL, HM_LOST_THREADS_FULL,
                                          HM_LOST_WRITER_IO};
    struct hm_control *c = &w->control;
    int64_t now = hm_now(), before = c->ticked_ns ? c->ticked_ns : w->view.pool->start_raw_ns;
    for (size_t i = 0; i < sizeof(causes) / sizeof(causes[0]); i++) {
        enum hm_loss k = causes[i];
        uint64_t lost = atomic_load_explicit(&w->view.pool->lost[k], memory_order_relaxed);
        uint64_t more = lost - c->gap[k].seen;
        c->gap[k].seen = lost;
        if (more && !c->gap[k].n)
            c->gap[k].t_ns = before;
        c->gap[k].n += more;
        if (c->gap[k].n && (!more || last)) {
            put_gap(w, k, c->gap[k].t_ns, more ? now : before, c->gap[k].n);
            c->gap[k].n = 0;
        }
    }
    if (last && c->spent_ns)
        put_gap(w, HM_LOST_BUDGET, c->spent_ns, now,
                atomic_load(&w->view.pool->lost[HM_LOST_BUDGET]));
    c->ticked_ns = now;
}

void hm_control_tick(struct hm_writer *w, int64_t now)
{
    struct hm_control *c = &w->control;
    set_allow(w);
    hm_control_gaps(w, 0);
    watch(w, now);
    if (now < c->look_at)
        return;
    c->look_at = now + LOOK;
    look(w);
    if (w->config.max_bytes && !c->spent_ns && file_bytes(w) >= w->config.max_bytes)
        hm_control_spend(w, "bytes");
}
