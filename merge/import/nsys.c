/* Exports of Nsight Systems -> a run: which processes are ranks, which host.
 *
 * Box: merge/import. One thread. A process that used a GPU is a rank. In one file ranks go by the
 * device, then by the process; of several files each with one such process the number in the name
 * counts, else the order in which they were named.
 */
#include "import/nsys.h"

#include "import/import.h"
#include "import/rankout.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_FILES = 65536, MAX_PROCESSES = 65536 };
static const int64_t MAX_DUR_NS = INT64_C(7) * 86400 * 1000000000;

const char *hm_nsys_string(const struct hm_nsys_file *f, int64_t id)
{
    size_t lo = 0, hi = f->n_texts;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (f->text[mid].id < id)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < f->n_texts && f->text[lo].id == id ? f->text[lo].text : "";
}

int hm_nsys_time(const struct hm_nsys_file *f, int64_t start, int64_t end, int64_t *t_p,
                 int64_t *dur_p)
{
    int64_t t, dur;
    if (start == HM_NSYS_NONE || end == HM_NSYS_NONE || __builtin_sub_overflow(end, start, &dur) ||
        __builtin_add_overflow(start, f->base_ns, &t) || start < 0 || t < 0 || t > INT64_MAX / 2 ||
        dur < 0 || dur > MAX_DUR_NS)
        return 0;
    *t_p = t;
    *dur_p = dur;
    return 1;
}

/* ---- one file ---- */

static hm_status_t take_string(void *ctx, const struct hm_nsys_row *row)
{
    struct hm_nsys_file *f = ctx;
    int64_t id = hm_nsys_int(row, 0);
    if (id == HM_NSYS_NONE)
        return HM_OK;
    if (f->n_texts == f->cap_texts) {
        size_t cap = f->cap_texts ? 2 * f->cap_texts : 1024;
        struct hm_nsys_text *p = realloc(f->text, cap * sizeof(*p));
        if (!p)
            return hm_fail(HM_E_NOMEM, "import", "out of memory");
        f->text = p;
        f->cap_texts = cap;
    }
    char *text = strndup(hm_nsys_text(row, 1), 4095);
    if (!text)
        return hm_fail(HM_E_NOMEM, "import", "out of memory");
    f->text[f->n_texts++] = (struct hm_nsys_text){id, text};
    return HM_OK;
}

static int by_id(const void *a, const void *b)
{
    const struct hm_nsys_text *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

static hm_status_t take_host(void *ctx, const struct hm_nsys_row *row)
{
    struct hm_nsys_file *f = ctx;
    if (!strcmp(hm_nsys_text(row, 0), "Hostname") && *hm_nsys_text(row, 1))
        snprintf(f->host, sizeof(f->host), "%s", hm_nsys_text(row, 1));
    return HM_OK;
}

static hm_status_t take_int(void *ctx, const struct hm_nsys_row *row)
{
    *(int64_t *)ctx = hm_nsys_int(row, 0);
    return HM_OK;
}

static hm_status_t open_file(const char *path, struct hm_nsys_file *f)
{
    int64_t utc = HM_NSYS_NONE, start = HM_NSYS_NONE;
    *f = (struct hm_nsys_file){.path = path};
    hm_status_t s = hm_nsysdb_open(path, &f->db);
    if (s)
        return s;
    s = hm_nsysdb_each(f->db, "StringIds", "id value", NULL, take_string, f);
    if (f->n_texts)
        qsort(f->text, f->n_texts, sizeof(*f->text), by_id);
    if (!s)
        s = hm_nsysdb_each(f->db, "TARGET_INFO_SYSTEM_ENV", "name value", NULL, take_host, f);
    if (!s)
        s = hm_nsysdb_each(f->db, "TARGET_INFO_SESSION_START_TIME", "utcEpochNs", NULL, take_int,
                           &utc);
    if (!s)
        s = hm_nsysdb_each(f->db, "ANALYSIS_DETAILS", "startTime", NULL, take_int, &start);
    if (utc > 0 && utc < INT64_MAX / 4 && start >= 0 && start < utc)
        f->base_ns = utc - start;
    return s;
}

static void close_file(struct hm_nsys_file *f)
{
    for (size_t i = 0; i < f->n_texts; i++)
        free(f->text[i].text);
    free(f->text);
    hm_nsysdb_close(f->db);
}

/* ---- processes ---- */

struct find {
    struct hm_nsys_file *file;
    struct hm_nsys_process *v;
    uint32_t n, first; /* first: of this file */
};

static hm_status_t take_process(void *ctx, const struct hm_nsys_row *row)
{
    struct find *f = ctx;
    int64_t id = hm_nsys_process_of(hm_nsys_int(row, 0)), device = hm_nsys_int(row, 1), t, dur;
    if (!hm_nsys_time(f->file, hm_nsys_int(row, 2), hm_nsys_int(row, 3), &t, &dur))
        return HM_OK;
    uint32_t i = f->first;
    while (i < f->n && f->v[i].id != id)
        i++;
    if (i == f->n) {
        if (f->n == MAX_PROCESSES)
            return hm_fail(HM_E_LIMIT, f->file->path, "more than %d processes", MAX_PROCESSES);
        if ((f->n & (f->n - 1)) == 0) {
            struct hm_nsys_process *v = realloc(f->v, (f->n ? 2 * f->n : 1) * sizeof(*v));
            if (!v)
                return hm_fail(HM_E_NOMEM, "import", "out of memory");
            f->v = v;
        }
        f->v[f->n++] =
            (struct hm_nsys_process){f->file, id, device < 0 ? HM_NSYS_NONE : device, t, 0, 0};
    }
    if (device >= 0 && (f->v[i].device == HM_NSYS_NONE || device < f->v[i].device))
        f->v[i].device = device;
    if (t < f->v[i].t0_ns)
        f->v[i].t0_ns = t;
    return HM_OK;
}

static int by_device(const void *a, const void *b)
{
    const struct hm_nsys_process *x = a, *y = b;
    if (x->device != y->device)
        return x->device < y->device ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

static int by_rank(const void *a, const void *b)
{
    const struct hm_nsys_process *x = a, *y = b;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

static hm_status_t find_processes(struct find *f)
{
    f->first = f->n;
    hm_status_t s = hm_nsysdb_each(f->file->db, "CUPTI_ACTIVITY_KIND_KERNEL",
                                   "globalPid deviceId start end", NULL, take_process, f);
    /* rows without a process: a process of their own only where no row tells one */
    for (uint32_t i = f->first; f->n - f->first > 1 && i < f->n; i++)
        if (f->v[i].id == HM_NSYS_NONE)
            f->v[i] = f->v[--f->n];
    if (!s && f->n == f->first)
        return hm_fail(HM_E_DATA, f->file->path,
                       "holds no CUDA kernel; record with nsys profile -t cuda,nvtx and export it "
                       "with nsys export --type sqlite");
    if (!s)
        qsort(f->v + f->first, f->n - f->first, sizeof(*f->v), by_device);
    return s;
}

/* Numbers in the names where every file has one process, and each another number. */
static void find_ranks(struct find *f, uint32_t n_files)
{
    int named = f->n == n_files && n_files > 1;
    for (uint32_t i = 0; i < f->n; i++) {
        int64_t rank = hm_import_rank_in_name(f->v[i].file->path);
        f->v[i].rank = (int32_t)rank;
        named &= rank >= 0;
    }
    if (named)
        qsort(f->v, f->n, sizeof(*f->v), by_rank);
    for (uint32_t i = 1; i < f->n && named; i++)
        named = f->v[i].rank != f->v[i - 1].rank;
    for (uint32_t i = 0; i < f->n && !named; i++)
        f->v[i].rank = (int32_t)i;
    for (uint32_t i = 0; i < f->n; i++)
        f->v[i].n_ranks = f->n ? f->v[f->n - 1].rank + 1 : 0;
}

static hm_status_t write_all(const struct find *f, const char *run)
{
    hm_status_t s = hm_import_make_run(run);
    if (s)
        return s;
    int64_t first = INT64_MAX;
    for (uint32_t i = 0; i < f->n; i++)
        first = f->v[i].t0_ns < first ? f->v[i].t0_ns : first;
    for (uint32_t i = 0; i < f->n && !s; i++) {
        const struct hm_nsys_process *p = &f->v[i];
        struct hm_rank_meta meta = {
            .rank = p->rank,
            .n_ranks = p->n_ranks,
            .local_rank = -1,
            .pid = p->id == HM_NSYS_NONE ? -1 : (int32_t)(p->id >> 24 & 0xffffff),
            .nonce = (uint64_t)first,
            .source = HM_SOURCE_NSYS,
            .leader_index = HM_NO_ID,
            .start_raw_ns = p->t0_ns,
            .start_real_ns = p->t0_ns};
        const char *name = hm_import_base_name(p->file->path);
        snprintf(meta.host, sizeof(meta.host), "%s", *p->file->host ? p->file->host : "host");
        /* each capture has a clock of its own; those of two were never compared */
        snprintf(meta.boot_id, sizeof(meta.boot_id), "nsys-%016" PRIx64,
                 hm_import_hash(HM_IMPORT_HASH, p->file->path));
        snprintf(meta.run_id, sizeof(meta.run_id), "nsys-%" PRId64, first);
        snprintf(meta.program, sizeof(meta.program), "%.200s", name);
        s = hm_nsys_write(p, &meta, run);
    }
    if (s)
        hm_import_drop_run(run);
    return s;
}

hm_status_t hm_import_nsys(const char *const *files, uint32_t n, const char *run)
{
    struct stat sb;
    if (!n)
        return hm_fail(HM_E_USAGE, "import", "no files; name the SQLite exports");
    if (n > MAX_FILES)
        return hm_fail(HM_E_LIMIT, "import", "more than %d files", MAX_FILES);
    if (!lstat(run, &sb)) /* before minutes of reading */
        return hm_fail(HM_E_DATA, run, "exists already; name a new folder");
    struct hm_nsys_file *file = calloc(n, sizeof(*file));
    struct find f = {0};
    hm_status_t s = file ? HM_OK : hm_fail(HM_E_NOMEM, "import", "out of memory");
    for (uint32_t i = 0; i < n && !s; i++) {
        s = open_file(files[i], &file[i]);
        f.file = &file[i];
        if (!s)
            s = find_processes(&f);
    }
    if (!s) {
        find_ranks(&f, n);
        s = write_all(&f, run);
    }
    for (uint32_t i = 0; file && i < n; i++)
        close_file(&file[i]);
    free(file);
    free(f.v);
    return s;
}
