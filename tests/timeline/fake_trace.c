/* The hand-made run through rows and sink alone: fake_trace FILE [SEED].
 *
 * Box: tests/timeline. Stands in for reader and engine: gives the events in order of time, and
 * arrivals and annotations worked out by hand (last start of the first all-reduce: rank 1; nobody
 * is late in the second). With SEED each rank gets N_RANDOM kernels, ranges, copies and API calls
 * more that overlap, nest, touch and begin together at random; prints how many.
 */
#include "hand_run.h"
#include "timeline/chrome.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_RANDOM = 3000, MAX_EVENTS = 64 + N_RANDOM, MAX_DEFS = 32 };
struct hm_rank {
    struct hm_event ev[MAX_EVENTS];
    uint32_t n, next;
    struct {
        uint8_t bytes[128];
        uint32_t len, run_id;
    } def[HM_N_DEFS][MAX_DEFS];
    uint32_t n_defs[HM_N_DEFS];
};
static struct hm_rank the_rank;
static struct hm_run run;

static void define(enum hm_def_kind kind, uint32_t id, const void *bytes, uint32_t len)
{
    struct hm_rank *r = &the_rank;
    memcpy(r->def[kind][id].bytes, bytes, len);
    r->def[kind][id].len = len;
    r->n_defs[kind]++;
    if (kind == HM_DEF_KERNEL) { /* the reader maps names to the run's ids */
        struct hm_def_kernel *k = (void *)r->def[kind][id].bytes;
        k->name = r->def[HM_DEF_STRING][k->name].run_id;
    }
    r->def[kind][id].run_id = hm_defs_intern(&run.names, kind, r->def[kind][id].bytes, len);
}

static void append(const struct hm_event *ev)
{
    struct hm_event *e = &the_rank.ev[the_rank.n++];
    *e = *ev;
    if (ev->kind == HM_EV_API)
        e->u.api.name = the_rank.def[HM_DEF_STRING][ev->u.api.name].run_id;
    if (ev->kind == HM_EV_RANGE || ev->kind == HM_EV_MARK)
        e->u.range.name = the_rank.def[HM_DEF_STRING][ev->u.range.name].run_id;
    if (ev->kind == HM_EV_KERNEL)
        e->u.kernel.kernel = the_rank.def[HM_DEF_KERNEL][ev->u.kernel.kernel].run_id;
}

/* ---- reader and engine ---- */

const char *hm_run_string(const struct hm_run *r, uint32_t id)
{
    static char text[128];
    const void *bytes;
    uint32_t len;
    if (hm_defs_get(&r->names, HM_DEF_STRING, id, &bytes, &len))
        return "";
    memcpy(text, bytes, len);
    text[len] = 0;
    return text;
}

hm_status_t hm_rank_next(struct hm_rank *r, struct hm_batch *batch_p)
{
    if (r->next == r->n)
        return HM_END;
    *batch_p =
        (struct hm_batch){.ev = r->ev + r->next, .n = r->n - r->next > 5 ? 5 : r->n - r->next};
    r->next += batch_p->n;
    return HM_OK;
}

const void *hm_rank_def(const struct hm_rank *r, enum hm_def_kind kind, uint32_t id,
                        uint32_t *len_p)
{
    for (uint32_t i = 0; i < r->n_defs[kind]; i++)
        if ((kind == HM_DEF_KERNEL ? r->def[kind][i].run_id : i) == id) {
            *len_p = r->def[kind][i].len;
            return r->def[kind][i].bytes;
        }
    return NULL;
}

uint32_t hm_rank_n_defs(const struct hm_rank *r, enum hm_def_kind kind)
{
    return r->n_defs[kind];
}

size_t hm_engine_arrivals(struct hm_engine *e, uint32_t worker, uint64_t first,
                          struct hm_arrival *a, struct hm_annot *v, size_t n)
{
    size_t i = 0;
    (void)e;
    for (; i < n && first + i < 2; i++) {
        int second = first + i == 1;
        int64_t start = second ? 70000 : hand_first[worker];
        a[i] = (struct hm_arrival){.comm = HAND_COMM,
                                   .seq = (uint32_t)(first + i),
                                   .start_ns = HAND_T0 + start,
                                   .end_ns = HAND_T0 + (second ? 80000 : 60000),
                                   .bytes = 4000,
                                   .func = HM_NCCL_ALLREDUCE,
                                   .n_ops = 1,
                                   .source = HM_ARRIVAL_KERNEL};
        v[i] = (struct hm_annot){.flags = HM_ANNOT_MATCHED, .step = 0};
        v[i].last_ns = HAND_T0 + (second ? 70000 : 42345);
        v[i].last_worker = second ? HM_NO_ID : 1;
        if (second)
            v[i].flags |= HM_ANNOT_TIE;
        else if (worker == 1)
            v[i].flags |= HM_ANNOT_LATE;
    }
    return i;
}

static uint32_t chance(uint64_t *seed, uint32_t n)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33) % n;
}

static void add_random(uint64_t *seed)
{
    static const uint8_t kinds[] = {HM_EV_KERNEL, HM_EV_MEMCPY, HM_EV_API, HM_EV_RANGE};
    for (int i = 0; i < N_RANDOM; i++) {
        struct hm_event ev;
        memset(&ev, 0, sizeof(ev));
        ev.kind = kinds[chance(seed, 4)];
        ev.track = ev.kind >= HM_EV_API && ev.kind != HM_EV_MEMCPY ? 0 : 1; /* host, stream */
        ev.t_ns = HAND_T0 + 1000 + 10 * chance(seed, 20000); /* coarse: many begin together */
        ev.dur_ns = 10 * chance(seed, chance(seed, 10) ? 40 : 4000);
        if (!chance(seed, 500))
            ev.dur_ns = HM_DUR_OPEN;
        append(&ev);
    }
}

static int by_time(const void *a, const void *b)
{
    const struct hm_event *x = a, *y = b;
    return (x->t_ns > y->t_ns) - (x->t_ns < y->t_ns);
}

int main(int argc, char **argv)
{
    static const uint32_t cap[HM_N_DEFS] = {256, 16, 64, 16, 16, 16};
    static struct hm_rank_info info[HAND_RANKS];
    static struct hm_rank_meta meta[HAND_RANKS];
    static struct hm_worker worker[HAND_RANKS];
    static const uint32_t members[HAND_RANKS] = {0, 1, 2};
    struct hm_comm comm = {HAND_COMM, HAND_RANKS, HAND_RANKS, members};
    struct hm_outfile *out;
    struct hm_sink *sink;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
    if (argc < 2 || hm_defs_create(cap, 1 << 16, &run.names))
        return 64;
    run.n_ranks = run.n_present = run.n_workers = HAND_RANKS;
    run.n_comms = 1;
    run.rank = info;
    run.meta = meta;
    run.worker = worker;
    run.comm = &comm;
    for (int r = 0; r < HAND_RANKS; r++) {
        info[r] = (struct hm_rank_info){.rank = r, .host = "node0"};
        info[r].t0_ns = HAND_T0 + 1000;
        info[r].t1_ns = HAND_T0 + 201000;
        worker[r] = (struct hm_worker){(uint32_t)r, 0};
    }
    struct hm_engine e = {.run = run};
    hm_status_t st = hm_outfile_create(argv[1], 0, &out);
    if (!st)
        st = hm_chrome_create(out, HAND_T0 + 1000, &sink);
    if (!st)
        st = sink->ops->head(sink, &e.run);
    for (int r = 0; r < HAND_RANKS && !st; r++) {
        memset(&the_rank, 0, sizeof(the_rank));
        hand_rank(r, &(struct hand_out){define, append});
        if (argc > 2)
            add_random(&seed);
        qsort(the_rank.ev, the_rank.n, sizeof(the_rank.ev[0]), by_time);
        st = hm_timeline_rank(&e, (uint32_t)r, &the_rank, sink);
    }
    if (!st)
        st = sink->ops->tail(sink);
    if (!st)
        st = hm_outfile_commit(out);
    if (argc > 2)
        printf("%d\n", HAND_RANKS * N_RANDOM);
    hm_chrome_destroy(sink);
    hm_defs_destroy(&run.names);
    return st != HM_OK;
}
