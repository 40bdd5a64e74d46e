/* Files of NCCL's inspector plugin -> a run: who is which rank, and a time for every collective.
 *
 * Box: merge/import. One thread. The plugin tells how long a collective took on each rank and not
 * when it was. In a collective in which all wait for all the ranks leave together (facts on
 * scenarios, rule 2, estimator A): so every rank's kernel is placed to end at one common instant,
 * and its duration says when it came. Instances of a communicator follow each other; what ran
 * between them is not known, and nothing is concluded from it.
 */
#include "import/inspector.h"

#include "import/import.h"
#include "import/rankout.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_FILES = 65536, GAP_NS = 1000 };

void hm_insp_clear(struct hm_insp *in)
{
    free(in->comm);
    free(in->seat);
    free(in->process);
    free(in->record);
    free(in->instance);
    free(in->rank);
    memset(in, 0, sizeof(*in));
}

/* ---- ranks ---- */

static uint32_t rank_file_of(struct hm_insp *in, uint32_t process, int32_t crank)
{
    for (uint32_t i = in->n_ranks_here; i; i--)
        if (in->rank[i - 1].process == process && in->rank[i - 1].crank == crank)
            return i - 1;
    in->rank[in->n_ranks_here] = (struct hm_insp_rank){process, crank, -1};
    return in->n_ranks_here++;
}

static hm_status_t find_ranks(struct hm_insp *in)
{
    in->rank = calloc(in->n_seats + 1, sizeof(*in->rank));
    int32_t *widest = calloc(in->n_seats + 1, sizeof(*widest));
    if (!in->rank || !widest) {
        free(widest);
        return hm_fail(HM_E_NOMEM, "import", "out of memory");
    }
    /* the rank in the widest communicator, as the recorder has it */
    for (uint32_t i = 0; i < in->n_seats; i++) {
        struct hm_insp_seat *s = &in->seat[i];
        int32_t n = in->comm[s->comm].n_ranks;
        s->rank_file = rank_file_of(in, s->process, in->process[s->process].many ? s->crank : -1);
        if (n > widest[s->rank_file]) {
            widest[s->rank_file] = n;
            in->rank[s->rank_file].rank = s->crank;
        }
        in->n_ranks = n > in->n_ranks ? n : in->n_ranks;
    }
    if (in->n_ranks_here > MAX_FILES) {
        free(widest);
        return hm_fail(HM_E_LIMIT, "import", "more than %d ranks", MAX_FILES);
    }
    uint8_t *taken = calloc((size_t)in->n_ranks + 1, 1);
    int unique = taken != NULL;
    for (uint32_t i = 0; unique && i < in->n_ranks_here; i++)
        unique = !taken[in->rank[i].rank]++;
    for (uint32_t i = 0; !unique && i < in->n_ranks_here; i++)
        in->rank[i].rank = (int32_t)i; /* several worlds: in the order they were met */
    if ((uint32_t)in->n_ranks < in->n_ranks_here)
        in->n_ranks = (int32_t)in->n_ranks_here;
    free(taken);
    free(widest);
    return HM_OK;
}

/* ---- times ---- */

static int by_instance(const void *a, const void *b)
{
    const struct hm_insp_instance *x = a, *y = b;
    if (x->comm != y->comm)
        return x->comm < y->comm ? -1 : 1;
    return (x->sn > y->sn) - (x->sn < y->sn);
}

static int by_seat(const void *a, const void *b)
{
    const struct hm_insp_record *x = a, *y = b;
    if (x->seat != y->seat)
        return x->seat < y->seat ? -1 : 1;
    return (x->sn > y->sn) - (x->sn < y->sn);
}

static hm_status_t place(struct hm_insp *in)
{
    in->instance = calloc(in->n_records + 1, sizeof(*in->instance));
    if (!in->instance)
        return hm_fail(HM_E_NOMEM, "import", "out of memory");
    for (uint64_t i = 0; i < in->n_records; i++)
        in->instance[i] = (struct hm_insp_instance){in->record[i].comm, 0, in->record[i].sn,
                                                    in->record[i].exec_ns, 0};
    qsort(in->instance, in->n_records, sizeof(*in->instance), by_instance);
    for (uint64_t i = 0; i < in->n_records; i++) { /* one for all members: the longest */
        struct hm_insp_instance *last = in->n_instances ? &in->instance[in->n_instances - 1] : NULL;
        if (!last || by_instance(last, &in->instance[i]) != 0)
            in->instance[in->n_instances++] = in->instance[i];
        else if (in->instance[i].longest_ns > last->longest_ns)
            last->longest_ns = in->instance[i].longest_ns;
    }
    int64_t start = in->stamp_us > 0 && in->stamp_us < INT64_MAX / 4000 ? in->stamp_us * 1000 : 0;
    int64_t at = start;
    for (uint64_t i = 0; i < in->n_instances; i++) {
        struct hm_insp_instance *v = &in->instance[i];
        struct hm_insp_comm *c = &in->comm[v->comm];
        if (!i || in->instance[i - 1].comm != v->comm) {
            at = start;
            c->first = (uint32_t)i;
        }
        if (__builtin_add_overflow(at, v->longest_ns + 2 * GAP_NS, &at) || at > INT64_MAX / 2)
            return hm_fail(HM_E_LIMIT, "import", "durations of %s are too long to be true", c->id);
        v->end_ns = at;
        c->n++;
    }
    qsort(in->record, in->n_records, sizeof(*in->record), by_seat);
    uint64_t n = 0;
    for (uint64_t i = 0; i < in->n_records; i++) /* the same one twice: two dumps, or two files */
        if (!n || by_seat(&in->record[n - 1], &in->record[i]) != 0)
            in->record[n++] = in->record[i];
    in->n_records = n;
    return HM_OK;
}

hm_status_t hm_insp_settle(struct hm_insp *in)
{
    hm_status_t s = find_ranks(in);
    return s ? s : place(in);
}

hm_status_t hm_import_inspector(const char *const *files, uint32_t n, const char *run)
{
    struct hm_insp in = {0};
    struct stat sb;
    if (!n || n > MAX_FILES)
        return hm_fail(HM_E_USAGE, "import", "name between 1 and %d files", MAX_FILES);
    if (!lstat(run, &sb))
        return hm_fail(HM_E_DATA, run, "exists already; name a new folder");
    hm_status_t s = HM_OK;
    for (uint32_t i = 0; i < n && !s; i++)
        s = hm_insp_read(files[i], &in);
    if (!s)
        s = hm_insp_settle(&in);
    if (!s)
        s = hm_import_make_run(run);
    if (!s) {
        for (uint32_t i = 0; i < in.n_ranks_here && !s; i++)
            s = hm_insp_write(&in, i, run);
        if (s)
            hm_import_drop_run(run);
    }
    if (!s && in.n_unused)
        hm_say(HM_SAY_INFO, "import: %" PRIu64 " records (sends, receives, proxy, damaged) unused",
               in.n_unused);
    hm_insp_clear(&in);
    return s;
}
