/* Kineto traces of one job -> a run: who is which rank, which host; all or nothing.
 *
 * Box: merge/import. One thread. Every file is read through before the first byte is written, so a
 * file that is cut off leaves nothing behind.
 */
#include "import/import.h"
#include "import/jsonin.h"
#include "import/kineto_rank.h"
#include "import/rankout.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_FILES = 65536 };

static int by_rank(const void *a, const void *b)
{
    const struct hm_kineto_scan *x = a, *y = b;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* distributedInfo, else digits of the names, else the order in which the files were named. */
static hm_status_t find_ranks(struct hm_kineto_scan *s, uint32_t n)
{
    uint32_t n_told = 0, n_named = 0;
    for (uint32_t i = 0; i < n; i++) {
        n_told += s[i].head.rank >= 0 && s[i].head.rank < MAX_FILES;
        n_named += hm_import_rank_in_name(s[i].path) >= 0;
    }
    for (int how = n_told == n ? 0 : n_named == n ? 1 : 2; how < 3; how++) {
        for (uint32_t i = 0; i < n; i++)
            s[i].rank = (int32_t)(how == 0   ? s[i].head.rank
                                  : how == 1 ? hm_import_rank_in_name(s[i].path)
                                             : i);
        qsort(s, n, sizeof(*s), by_rank);
        uint32_t i = 1;
        while (i < n && s[i].rank != s[i - 1].rank)
            i++;
        if (i >= n)
            break;
        if (how == 0)
            return hm_fail(HM_E_CONFLICT, s[i].path,
                           "says that it is rank %d, and so does %s; name one file a rank",
                           s[i].rank, hm_import_base_name(s[i - 1].path));
    }
    int64_t n_ranks = (int64_t)s[n - 1].rank + 1;
    for (uint32_t i = 0; i < n; i++)
        if (s[i].head.n_ranks > n_ranks && s[i].head.n_ranks <= MAX_FILES)
            n_ranks = s[i].head.n_ranks;
    for (uint32_t i = 0; i < n; i++)
        s[i].n_ranks = (int32_t)n_ranks;
    return HM_OK;
}

/* "HOST_PID.TIME.pt.trace.json": torch's own naming. 0 = another name. */
static int host_in_name(const struct hm_kineto_scan *s, char host[64])
{
    char tail[32];
    const char *name = hm_import_base_name(s->path);
    if (s->pid == HM_KINETO_NONE)
        return 0;
    snprintf(tail, sizeof(tail), "_%" PRId64 ".", s->pid);
    const char *p = strstr(name, tail);
    if (!p || p == name || p - name >= 64)
        return 0;
    memcpy(host, name, (size_t)(p - name));
    host[p - name] = 0;
    return 1;
}

/* Files do not name their host. Ranks that follow each other on different devices share one; where
 * a device comes again, the next host begins: clocks of different hosts were never compared. */
static void find_host(const struct hm_kineto_scan *s, uint32_t *i_host, uint64_t *used,
                      struct hm_rank_meta *meta)
{
    if (*used & s->devices) {
        ++*i_host;
        *used = 0;
    }
    *used |= s->devices;
    if (!host_in_name(s, meta->host))
        snprintf(meta->host, sizeof(meta->host), "host%u", *i_host);
    snprintf(meta->boot_id, sizeof(meta->boot_id), "kineto-%016" PRIx64,
             hm_import_hash(HM_IMPORT_HASH, meta->host));
}

static hm_status_t write_all(const struct hm_kineto_scan *s, uint32_t n, const char *run)
{
    uint32_t i_host = 0, i = 0;
    uint64_t used = 0;
    int64_t first = INT64_MAX;
    hm_status_t st = HM_OK;
    st = hm_import_make_run(run);
    if (st)
        return st;
    for (uint32_t k = 0; k < n; k++)
        first = s[k].t0_ns < first ? s[k].t0_ns : first;
    for (; i < n && !st; i++) {
        struct hm_rank_meta meta = {.rank = s[i].rank,
                                    .n_ranks = s[i].n_ranks,
                                    .local_rank = -1,
                                    .pid = s[i].pid > 0 && s[i].pid <= INT32_MAX ? (int32_t)s[i].pid
                                                                                 : -1,
                                    .nonce = (uint64_t)first,
                                    .source = HM_SOURCE_KINETO,
                                    .leader_index = HM_NO_ID};
        meta.start_raw_ns = meta.start_real_ns = s[i].t0_ns == INT64_MAX ? 0 : s[i].t0_ns;
        find_host(&s[i], &i_host, &used, &meta);
        snprintf(meta.run_id, sizeof(meta.run_id), "kineto-%" PRId64, first);
        snprintf(meta.program, sizeof(meta.program), "%.200s", hm_import_base_name(s[i].path));
        st = hm_kineto_write(&s[i], &meta, run);
    }
    if (st) /* all or nothing */
        hm_import_drop_run(run);
    return st;
}

/* leave_out: a file that cannot be used is named (hm_kineto_scan did) and the others go on. */
static hm_status_t import_files(const char *const *files, uint32_t n, const char *run,
                                int leave_out)
{
    struct stat sb;
    if (!n)
        return hm_fail(HM_E_USAGE, "import", "no files; name the traces, one a rank");
    if (n > MAX_FILES)
        return hm_fail(HM_E_LIMIT, "import", "more than %d files", MAX_FILES);
    if (!lstat(run, &sb)) /* before minutes of reading */
        return hm_fail(HM_E_DATA, run, "exists already; name a new folder");
    struct hm_kineto_scan *s = calloc(n, sizeof(*s));
    if (!s)
        return hm_fail(HM_E_NOMEM, "import", "out of memory");
    hm_status_t st = HM_OK, bad = HM_OK;
    uint32_t n_good = 0;
    for (uint32_t i = 0; i < n && !st; i++) {
        st = hm_kineto_scan(files[i], &s[n_good]);
        n_good += st == HM_OK;
        if (st == HM_E_DATA && leave_out) {
            bad = st;
            st = HM_OK;
        }
    }
    if (!st && !n_good)
        st = bad;
    if (!st)
        st = find_ranks(s, n_good);
    if (!st)
        st = write_all(s, n_good, run);
    for (uint32_t i = 0; i < n_good; i++)
        hm_kineto_scan_free(&s[i]);
    free(s);
    return st;
}

hm_status_t hm_import_kineto(const char *const *files, uint32_t n, const char *run)
{
    return import_files(files, n, run, 0);
}

/* ---- files and folders ---- */

static int ends_with(const char *name, const char *tail)
{
    size_t n = strlen(name), k = strlen(tail);
    return n > k && !strcmp(name + n - k, tail);
}

static int is_trace_file(const char *path)
{
    static const char *const key[] = {"schemaVersion", "deviceProperties", "distributedInfo",
                                      "baseTimeNanoseconds", "record_shapes"};
    struct hm_jsonin *j;
    struct stat sb;
    int yes = 0;
    if (stat(path, &sb) || !S_ISREG(sb.st_mode) || hm_jsonin_open(path, &j))
        return 0;
    int more = hm_jsonin_next(j) == HM_JSON_OBJECT;
    while (more && !yes && hm_jsonin_next(j) == HM_JSON_KEY) {
        const char *text = hm_jsonin_text(j, NULL);
        for (size_t i = 0; i < sizeof(key) / sizeof(*key); i++)
            yes |= !strcmp(text, key[i]);
        more = strcmp(text, "traceEvents") != 0 && hm_jsonin_skip(j, hm_jsonin_next(j));
    }
    hm_jsonin_close(j);
    return yes;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Names ending in .json or .json.gz, sorted; has_runs_p: is there a rank file too? */
static char **list(const char *folder, uint32_t *n_p, int *has_run_p)
{
    char **file = NULL;
    uint32_t n = 0;
    DIR *d = opendir(folder);
    *has_run_p = 0;
    *n_p = 0;
    if (!d)
        return NULL;
    const struct dirent *e;
    while ((e = readdir(d)) && n < MAX_FILES) {
        if (!strncmp(e->d_name, "rank-", 5) && ends_with(e->d_name, ".h5"))
            *has_run_p = 1;
        if (e->d_name[0] == '.' ||
            !(ends_with(e->d_name, ".json") || ends_with(e->d_name, ".json.gz")))
            continue;
        char **p = realloc(file, (n + 1) * sizeof(*p));
        if (!p)
            break;
        file = p;
        if (asprintf(&file[n], "%s/%s", folder, e->d_name) < 0)
            break;
        n++;
    }
    closedir(d);
    if (n)
        qsort(file, n, sizeof(*file), by_text);
    *n_p = n;
    return file;
}

static void free_list(char **file, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        free(file[i]);
    free(file);
}

int hm_import_is_kineto(const char *path)
{
    struct stat sb;
    if (stat(path, &sb))
        return 0;
    if (!S_ISDIR(sb.st_mode))
        return is_trace_file(path);
    uint32_t n;
    int has_run, yes = 0;
    char **file = list(path, &n, &has_run);
    for (uint32_t i = 0; i < n && !yes && !has_run; i++)
        yes = is_trace_file(file[i]);
    free_list(file, n);
    return yes;
}

hm_status_t hm_import_kineto_folder(const char *folder, const char *run)
{
    uint32_t n, n_traces = 0;
    int has_run;
    char **file = list(folder, &n, &has_run);
    const char **trace = calloc(n + 1, sizeof(*trace));
    hm_status_t s = trace ? HM_OK : hm_fail(HM_E_NOMEM, "import", "out of memory");
    for (uint32_t i = 0; i < n && !s; i++)
        if (is_trace_file(file[i]))
            trace[n_traces++] = file[i];
    if (!s && !n_traces)
        s = hm_fail(HM_E_NO_RUN, folder, "holds no trace of torch.profiler (*.json, *.json.gz)");
    if (!s)
        s = import_files(trace, n_traces, run, 1);
    free(trace);
    free_list(file, n);
    return s;
}
