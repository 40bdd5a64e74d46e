/* The rank files of a run folder.
 *
 * Box: lib/store. One thread. Bad files become problems and are left out; nothing is guessed.
 */
#include "store/rank.h"
#include "store/raw.h"
#include "store/shield.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MAX_DEVICES = 64, MAX_FILES = 1 << 20, MAX_COMM_RANKS = 1 << 20 };

struct head { /* what the run needs of one file */
    struct hm_rank_info info;
    struct hm_rank_meta meta;
    char *path;
    uint32_t device[MAX_DEVICES], n_devices;
    struct hm_def_comm *comm;
    uint32_t n_comms;
};

static hm_status_t head_read(const char *path, enum hm_raw_part part, struct head *h,
                             char what[256])
{
    struct hm_raw *raw;
    memset(h, 0, sizeof(*h)); /* a file that was left out may have used it */
    hm_status_t s = hm_raw_open(path, part, &raw, what);
    if (s)
        return s;
    h->meta = raw->meta;
    h->info.rank = raw->meta.rank;
    h->info.end = raw->end;
    h->info.source = raw->meta.source;
    h->info.t0_ns = raw->meta.start_raw_ns;
    memcpy(h->info.lost, raw->lost, sizeof(raw->lost));
    for (int k = 0; k < HM_N_KINDS; k++) {
        uint64_t rows = hm_raw_n_rows(raw, (uint8_t)k);
        h->info.rows[k] = rows > UINT32_MAX ? UINT32_MAX : (uint32_t)rows;
    }
    for (uint32_t i = 0; i < raw->def[HM_DEF_TRACK].n; i++) {
        struct hm_def_track track;
        const void *p = hm_blobs_get(&raw->def[HM_DEF_TRACK], i, NULL);
        if (!p)
            continue;
        memcpy(&track, p, sizeof(track));
        uint32_t d = 0;
        while (d < h->n_devices && h->device[d] != track.device)
            d++;
        if (track.type == HM_TRACK_STREAM && d == h->n_devices && d < MAX_DEVICES)
            h->device[h->n_devices++] = track.device;
    }
    if (!h->n_devices)
        h->device[h->n_devices++] = 0;
    h->info.device = (int32_t)h->device[0];
    h->comm = calloc(raw->def[HM_DEF_COMM].n + 1, sizeof(*h->comm));
    for (uint32_t i = 0; h->comm && i < raw->def[HM_DEF_COMM].n; i++) {
        const void *p = hm_blobs_get(&raw->def[HM_DEF_COMM], i, NULL);
        if (p)
            memcpy(&h->comm[h->n_comms++], p, sizeof(*h->comm));
    }
    h->info.n_comms = h->n_comms;
    hm_raw_close(raw);
    return h->comm ? HM_OK : HM_E_NOMEM;
}

void hm_run_problem(struct hm_run *run, const char *file, const char *what)
{
    struct hm_problem *p = realloc(run->problem, (run->n_problems + 1) * sizeof(*p));
    if (!p)
        return;
    run->problem = p;
    snprintf(p[run->n_problems].file, sizeof(p->file), "%s", file);
    snprintf(p[run->n_problems++].what, sizeof(p->what), "%s", what);
}

/* rank-NNNNN.h5 or rank-NNNNN.K.h5 */
static int is_rank_file(const char *name)
{
    const char *p = name + 5;
    if (strncmp(name, "rank-", 5) || *p < '0' || *p > '9')
        return 0;
    while (*p >= '0' && *p <= '9')
        p++;
    if (*p == '.' && p[1] >= '0' && p[1] <= '9')
        for (p++; *p >= '0' && *p <= '9'; p++)
            ;
    return !strcmp(p, ".h5");
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static int64_t mono_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Is a writer still at work on the file? Waits until the deadline. */
static int still_written(const char *path, int64_t deadline_ms)
{
    char lock[1200];
    snprintf(lock, sizeof(lock), "%.*s.lock", (int)(strlen(path) - 3), path);
    int fd = open(lock, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return 0;
    int busy;
    while ((busy = flock(fd, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK) && mono_ms() < deadline_ms)
        nanosleep(&(struct timespec){0, 20000000}, NULL);
    close(fd);
    return busy;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static hm_status_t list_files(const char *path, char ***file_p, size_t *n_p)
{
    DIR *d = opendir(path);
    if (!d)
        return hm_fail(HM_E_NO_RUN, path, "no such run: %s", strerror(errno));
    char **file = NULL;
    size_t n = 0;
    struct dirent *e;
    while ((e = readdir(d)) && n < MAX_FILES) {
        if (!is_rank_file(e->d_name))
            continue;
        char **p = realloc(file, (n + 1) * sizeof(*p));
        if (!p)
            break;
        file = p;
        if (asprintf(&file[n], "%s/%s", path, e->d_name) < 0)
            break;
        n++;
    }
    closedir(d);
    if (!n) {
        free(file);
        return hm_fail(HM_E_NO_RUN, path, "no run here: the folder holds no rank file");
    }
    qsort(file, n, sizeof(*file), by_text);
    *file_p = file;
    *n_p = n;
    return HM_OK;
}

/* Keeps the files of one run id: the largest set; HM_E_CONFLICT when two are equal. */
static hm_status_t keep_one_run(struct hm_run *run, struct head *h, size_t *n_p)
{
    size_t n = *n_p, best = 0, n_best = 0, n_second = 0;
    for (size_t i = 0; i < n; i++) {
        size_t same = 0, first = i;
        for (size_t k = 0; k < n; k++)
            if (!strcmp(h[k].meta.run_id, h[i].meta.run_id)) {
                same++;
                if (k < first)
                    first = k;
            }
        if (first < i)
            continue;
        if (same > n_best) {
            n_second = n_best;
            n_best = same;
            best = i;
        } else if (same > n_second) {
            n_second = same;
        }
    }
    if (n_best == n)
        return HM_OK;
    if (n_best == n_second)
        return hm_fail(
            HM_E_CONFLICT, run->path,
            "two runs lie in this folder, \"%s\" and others of the same size; move one away",
            h[best].meta.run_id);
    char id[128];
    snprintf(id, sizeof(id), "%s", h[best].meta.run_id);
    size_t out = 0;
    for (size_t i = 0; i < n; i++) {
        if (strcmp(h[i].meta.run_id, id)) {
            hm_run_problem(run, base_name(h[i].path), "belongs to another run; left out");
            free(h[i].path);
            free(h[i].comm);
        } else {
            h[out++] = h[i];
        }
    }
    *n_p = out;
    return HM_OK;
}

static int by_rank(const void *a, const void *b)
{
    const struct head *x = a, *y = b;
    if (x->meta.rank != y->meta.rank)
        return x->meta.rank < y->meta.rank ? -1 : 1;
    return x->meta.start_real_ns > y->meta.start_real_ns
               ? -1
               : x->meta.start_real_ns < y->meta.start_real_ns;
}

/* One file a rank: the newest attempt. */
static void keep_newest(struct hm_run *run, struct head *h, size_t *n_p)
{
    size_t out = 0;
    qsort(h, *n_p, sizeof(*h), by_rank);
    for (size_t i = 0; i < *n_p; i++) {
        if (out && h[out - 1].meta.rank == h[i].meta.rank) {
            hm_run_problem(run, base_name(h[i].path),
                           "an earlier attempt of the same rank; left out");
            free(h[i].path);
            free(h[i].comm);
        } else {
            h[out++] = h[i];
        }
    }
    *n_p = out;
}

static void find_domains(struct hm_run *run)
{
    for (uint32_t i = 0; i < run->n_present; i++) {
        uint32_t k = 0;
        while (k < i && (strcmp(run->meta[k].boot_id, run->meta[i].boot_id) ||
                         strcmp(run->meta[k].timens, run->meta[i].timens)))
            k++;
        run->rank[i].domain = k < i ? run->rank[k].domain : run->n_domains++;
    }
}

/* Is there already a line about a file of this rank? */
static int told(const struct hm_run *run, uint32_t rank)
{
    char start[32];
    int n = snprintf(start, sizeof(start), "rank-%05u.", rank);
    for (uint32_t i = 0; i < run->n_problems; i++)
        if (!strncmp(run->problem[i].file, start, (size_t)n))
            return 1;
    return 0;
}

static void find_missing(struct hm_run *run)
{
    uint32_t n_missing = 0, first = 0;
    char what[256], file[64];
    for (uint32_t rank = 0, i = 0; rank < run->n_ranks; rank++) {
        if (i < run->n_present && (uint32_t)run->rank[i].rank == rank) {
            i++;
        } else if (!told(run, rank)) {
            if (!n_missing++)
                first = rank;
        }
    }
    if (!n_missing)
        return;
    snprintf(file, sizeof(file), "rank-%05u.h5", first);
    if (n_missing == 1)
        snprintf(what, sizeof(what), "missing: rank %u of %u has no file", first, run->n_ranks);
    else
        snprintf(what, sizeof(what), "missing: %u of %u ranks have no file, the first is rank %u",
                 n_missing, run->n_ranks, first);
    hm_run_problem(run, file, what);
}

static int by_key(const void *a, const void *b)
{
    const struct hm_comm *x = a, *y = b;
    return x->key < y->key ? -1 : x->key > y->key;
}

/* Communicators over all ranks: member by its rank in the communicator. */
static hm_status_t find_comms(struct hm_run *run, const struct head *h,
                              const uint32_t *first_worker)
{
    size_t n = 0;
    for (uint32_t i = 0; i < run->n_present; i++)
        n += h[i].n_comms;
    run->comm = calloc(n + 1, sizeof(*run->comm));
    if (!run->comm)
        return HM_E_NOMEM;
    for (uint32_t i = 0; i < run->n_present; i++)
        for (uint32_t c = 0; c < h[i].n_comms; c++) {
            const struct hm_def_comm *d = &h[i].comm[c];
            if (d->n_ranks < 1 || d->n_ranks > MAX_COMM_RANKS)
                continue;
            run->comm[run->n_comms++] = (struct hm_comm){.key = hm_comm_key(d->hash, d->nth),
                                                         .n_ranks = (uint32_t)d->n_ranks};
        }
    qsort(run->comm, run->n_comms, sizeof(*run->comm), by_key);
    uint32_t out = 0;
    for (uint32_t i = 0; i < run->n_comms; i++)
        if (!out || run->comm[out - 1].key != run->comm[i].key)
            run->comm[out++] = run->comm[i];
    run->n_comms = out;
    for (uint32_t c = 0; c < out; c++) {
        uint32_t *w = malloc(run->comm[c].n_ranks * sizeof(*w));
        if (!w)
            return HM_E_NOMEM;
        memset(w, 0xff, run->comm[c].n_ranks * sizeof(*w));
        run->comm[c].worker = w;
    }
    for (uint32_t i = 0; i < run->n_present; i++)
        for (uint32_t c = 0; c < h[i].n_comms; c++) {
            const struct hm_def_comm *d = &h[i].comm[c];
            struct hm_comm key = {.key = hm_comm_key(d->hash, d->nth)};
            struct hm_comm *comm = bsearch(&key, run->comm, run->n_comms, sizeof(key), by_key);
            if (!comm || d->crank < 0 || (uint32_t)d->crank >= comm->n_ranks)
                continue;
            uint32_t worker = first_worker[i];
            for (uint32_t k = 0; k < h[i].n_devices; k++)
                if ((int32_t)run->worker[first_worker[i] + k].device == d->device)
                    worker = first_worker[i] + k;
            uint32_t *at = (uint32_t *)(uintptr_t)&comm->worker[d->crank];
            if (*at == HM_NO_ID)
                comm->n_seen++;
            *at = worker;
        }
    return HM_OK;
}

static int by_u32(const void *a, const void *b)
{
    return *(const uint32_t *)a < *(const uint32_t *)b
               ? -1
               : *(const uint32_t *)a > *(const uint32_t *)b;
}

static const char *keep_text(struct hm_run *run, const char *text)
{
    const void *p = NULL;
    uint32_t len, id = hm_defs_intern(&run->names, HM_DEF_STRING, text, (uint32_t)strlen(text) + 1);
    return hm_defs_get(&run->names, HM_DEF_STRING, id, &p, &len) == HM_OK ? p : "";
}

static hm_status_t settle(struct hm_run *run, struct head *h, size_t n)
{
    uint32_t *first_worker = calloc(n + 1, sizeof(*first_worker));
    run->rank = calloc(n + 1, sizeof(*run->rank));
    run->meta = calloc(n + 1, sizeof(*run->meta));
    size_t n_workers = 0;
    for (size_t i = 0; i < n; i++)
        n_workers += h[i].n_devices;
    run->worker = calloc(n_workers + 1, sizeof(*run->worker));
    if (!first_worker || !run->rank || !run->meta || !run->worker) {
        free(first_worker);
        return HM_E_NOMEM;
    }
    for (size_t i = 0; i < n; i++) {
        run->rank[i] = h[i].info;
        run->meta[i] = h[i].meta;
        run->rank[i].host = keep_text(run, h[i].meta.host);
        run->rank[i].path = keep_text(run, h[i].path);
        if (h[i].meta.n_ranks > 0 && h[i].meta.n_ranks <= MAX_FILES &&
            (uint32_t)h[i].meta.n_ranks > run->n_ranks)
            run->n_ranks = (uint32_t)h[i].meta.n_ranks;
        if ((uint32_t)h[i].meta.rank + 1 > run->n_ranks)
            run->n_ranks = (uint32_t)h[i].meta.rank + 1;
        first_worker[i] = run->n_workers;
        qsort(h[i].device, h[i].n_devices, sizeof(*h[i].device), by_u32);
        for (uint32_t d = 0; d < h[i].n_devices; d++)
            run->worker[run->n_workers++] =
                (struct hm_worker){(uint32_t)h[i].meta.rank, h[i].device[d]};
        run->n_present++;
        if (h[i].info.end == HM_END_OPEN)
            hm_run_problem(run, base_name(h[i].path),
                           "not finished: its writer did not close it; what was flushed is used");
        else if (h[i].info.end == HM_END_DIED)
            hm_run_problem(
                run, base_name(h[i].path),
                "the process ended without saying so (a signal or _exit); all events up to then are used");
    }
    if (n && h[0].meta.source == HM_SOURCE_INSPECTOR)
        hm_run_problem(run, "inspector",
                       "durations alone: the ends of a collective are taken for one, whoever took "
                       "least time came last; resolution 1 us, no steps, nothing of the host");
    find_domains(run);
    find_missing(run);
    hm_status_t s = find_comms(run, h, first_worker);
    free(first_worker);
    return s;
}

hm_status_t hm_run_open(const char *path, int wait_ms, struct hm_run *run_p)
{
    static const uint32_t cap[HM_N_DEFS] = {1 << 18, 16, 1 << 17, 1 << 18, 16, 16};
    char **file = NULL;
    size_t n_files = 0, n = 0;
    struct hm_run run = {0};
    hm_status_t s = list_files(path, &file, &n_files);
    if (s)
        return s;
    int64_t deadline = mono_ms() + wait_ms;
    struct head *h = calloc(n_files, sizeof(*h));
    uint8_t *busy = calloc(n_files, 1), *bad = calloc(n_files, 1);
    s = h && busy && bad ? hm_defs_create(cap, UINT64_C(256) << 20, &run.names) : HM_E_NOMEM;
    if (s == HM_OK) {
        run.path = keep_text(&run, path);
        for (size_t i = 0; i < n_files; i++)
            busy[i] = (uint8_t)still_written(file[i], deadline);
        hm_shield_try(file, n_files, bad);
    }
    for (size_t i = 0; i < n_files && s == HM_OK; i++) {
        char what[256] = "";
        if (bad[i] == HM_SHIELD_DEADLY) {
            hm_run_problem(&run, base_name(file[i]), "damaged: HDF5 cannot read it");
            continue;
        }
        hm_status_t r =
            head_read(file[i], bad[i] == HM_SHIELD_FAULTY ? HM_RAW_ALL : HM_RAW_HEAD, &h[n], what);
        if (r == HM_E_NOMEM)
            s = r;
        else if (r)
            hm_run_problem(&run, base_name(file[i]), what);
        else if (h[n].meta.rank < 0 || h[n].meta.rank >= MAX_FILES)
            hm_run_problem(&run, base_name(file[i]), "no rank is known for it; left out");
        else if (busy[i])
            hm_run_problem(&run, base_name(file[i]),
                           "still being written; what has been flushed is used");
        if (r == HM_OK && h[n].meta.rank >= 0 && h[n].meta.rank < MAX_FILES)
            h[n++].path = strdup(file[i]);
        else
            free(h[n].comm), h[n].comm = NULL;
    }
    if (s == HM_OK && !n) {
        for (uint32_t i = 0; i < run.n_problems; i++)
            hm_say(HM_SAY_ERROR, "%s: %s", run.problem[i].file, run.problem[i].what);
        s = hm_fail(HM_E_DATA, path, "no usable rank file");
    }
    if (s == HM_OK)
        s = keep_one_run(&run, h, &n);
    if (s == HM_OK) {
        keep_newest(&run, h, &n);
        s = settle(&run, h, n);
    }
    for (size_t i = 0; i < n; i++) {
        free(h[i].path);
        free(h[i].comm);
    }
    for (size_t i = 0; i < n_files; i++)
        free(file[i]);
    free(file);
    free(h);
    free(busy);
    free(bad);
    if (s) {
        hm_run_close(&run);
        return s;
    }
    *run_p = run;
    return HM_OK;
}

void hm_run_close(struct hm_run *run)
{
    for (uint32_t c = 0; run->comm && c < run->n_comms; c++)
        free((void *)(uintptr_t)run->comm[c].worker);
    free(run->comm);
    free(run->rank);
    free(run->meta);
    free(run->worker);
    free(run->problem);
    if (run->names.head)
        hm_defs_destroy(&run->names);
    memset(run, 0, sizeof(*run));
}

const char *hm_run_string(const struct hm_run *run, uint32_t id)
{
    const void *p = NULL;
    uint32_t len;
    return hm_defs_get(&run->names, HM_DEF_STRING, id, &p, &len) == HM_OK && len ? p : "";
}
