/* Tells the formats apart. Box: merge/import. See foreign.h. */
#include "import/foreign.h"

#include "import/nsysdb.h"
#include "import/rankout.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_FILES = 65536 };

static int ends_with(const char *name, const char *tail)
{
    size_t n = strlen(name), k = strlen(tail);
    return n > k && !strcmp(name + n - k, tail);
}

static int is_file(const char *path)
{
    struct stat st;
    return !stat(path, &st) && S_ISREG(st.st_mode);
}

static enum hm_foreign detect_file(const char *path)
{
    if (!is_file(path))
        return HM_FOREIGN_NONE;
    if (hm_nsys_is_sqlite(path))
        return HM_FOREIGN_NSYS;
    if (hm_import_is_kineto(path))
        return HM_FOREIGN_KINETO;
    return hm_import_is_inspector(path) ? HM_FOREIGN_INSPECTOR : HM_FOREIGN_NONE;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void free_list(char **file, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        free(file[i]);
    free(file);
}

/* Regular files of a folder by name; none when it holds a rank file. */
static char **list(const char *folder, uint32_t *n_p)
{
    char **file = NULL;
    uint32_t n = 0;
    int has_run = 0;
    DIR *d = opendir(folder);
    const struct dirent *e;
    while (d && (e = readdir(d)) && n < MAX_FILES) {
        char *path = NULL;
        has_run |= !strncmp(e->d_name, "rank-", 5) && ends_with(e->d_name, ".h5");
        if (e->d_name[0] == '.' || asprintf(&path, "%s/%s", folder, e->d_name) < 0)
            continue;
        char **v = is_file(path) ? realloc(file, (n + 1) * sizeof(*v)) : NULL;
        if (v) {
            file = v;
            file[n++] = path;
        } else {
            free(path);
        }
    }
    if (d)
        closedir(d);
    if (has_run) {
        free_list(file, n);
        file = NULL;
        n = 0;
    }
    if (n)
        qsort(file, n, sizeof(*file), by_text);
    *n_p = n;
    return file;
}

enum hm_foreign hm_import_detect(const char *path)
{
    struct stat st;
    if (stat(path, &st))
        return HM_FOREIGN_NONE;
    if (!S_ISDIR(st.st_mode))
        return detect_file(path);
    uint32_t n;
    enum hm_foreign found = HM_FOREIGN_NONE;
    char **file = list(path, &n);
    for (uint32_t i = 0; i < n && !found; i++)
        found = detect_file(file[i]);
    free_list(file, n);
    return found;
}

static hm_status_t import_files(enum hm_foreign format, const char *const *files, uint32_t n,
                                const char *run)
{
    switch (format) {
    case HM_FOREIGN_KINETO:
        return hm_import_kineto(files, n, run);
    case HM_FOREIGN_NSYS:
        return hm_import_nsys(files, n, run);
    case HM_FOREIGN_INSPECTOR:
        return hm_import_inspector(files, n, run);
    case HM_FOREIGN_NONE:
        break;
    }
    return HM_E_BUG;
}

hm_status_t hm_import_foreign(enum hm_foreign format, const char *const *paths, uint32_t n,
                              const char *run)
{
    struct stat st;
    if (n != 1 || stat(paths[0], &st) || !S_ISDIR(st.st_mode))
        return import_files(format, paths, n, run);
    if (format == HM_FOREIGN_KINETO) /* names and leaves out the damaged ones */
        return hm_import_kineto_folder(paths[0], run);
    uint32_t n_all, n_good = 0;
    char **file = list(paths[0], &n_all);
    const char **good = calloc(n_all + 1, sizeof(*good));
    hm_status_t s = good ? HM_OK : hm_fail(HM_E_NOMEM, "import", "out of memory");
    for (uint32_t i = 0; i < n_all && !s; i++)
        if (detect_file(file[i]) == format)
            good[n_good++] = file[i];
    if (!s && !n_good)
        s = hm_fail(HM_E_NO_RUN, paths[0], "holds no file of this format");
    if (!s)
        s = import_files(format, good, n_good, run);
    free(good);
    free_list(file, n_all);
    return s;
}

/* ---- for the time of a command ---- */

static hm_status_t unknown(const char *path)
{
    if (ends_with(path, ".nsys-rep") || ends_with(path, ".qdrep"))
        return hm_fail(HM_E_DATA, path,
                       "a report of Nsight Systems cannot be read as it is; run `nsys export "
                       "--type sqlite` on it and name what that writes");
    return hm_fail(HM_E_DATA, path,
                   "neither a run folder nor a trace of torch.profiler, Nsight Systems (SQLite "
                   "export) or the NCCL inspector; name the folder that holds the rank files");
}

/* In the janitor: makes the folder, tells its name, waits for the end of the pipe `alive`. */
static void janitor(struct hm_import_temp *t, int alive, int name)
{
    char byte;
    for (int fd = 3; fd < 1024;
         fd++) /* the other end of `alive` too, and those of other janitors */
        if (fd != alive && fd != name)
            close(fd);
    setsid(); /* Ctrl-C in the terminal is not for it */
    if (!mkdtemp(t->top))
        t->top[0] = 0;
    if (write(name, t->top, sizeof(t->top)) != (ssize_t)sizeof(t->top) || !t->top[0])
        _exit(1);
    while (read(alive, &byte, 1) < 0 && errno == EINTR)
        ;
    snprintf(t->run, sizeof(t->run), "%s/run", t->top);
    hm_import_drop_run(t->run);
    rmdir(t->top);
    _exit(0);
}

/* A folder that goes away with this process, whatever ends it: a process of its own makes it, and
 * removes it once nobody holds the other end of a pipe. */
static int make_folder(struct hm_import_temp *t)
{
    int alive[2], name[2];
    if (pipe2(alive, O_CLOEXEC))
        return 0;
    if (pipe2(name, O_CLOEXEC)) {
        close(alive[0]);
        close(alive[1]);
        return 0;
    }
    t->janitor = fork();
    if (!t->janitor)
        janitor(t, alive[0], name[1]);
    close(alive[0]);
    close(name[1]);
    ssize_t n;
    while ((n = read(name[0], t->top, sizeof(t->top))) < 0 && errno == EINTR)
        ;
    close(name[0]);
    if (t->janitor < 0 || n != (ssize_t)sizeof(t->top) || !t->top[0]) {
        close(alive[1]);
        if (t->janitor > 0)
            waitpid(t->janitor, NULL, 0);
        return 0;
    }
    t->alive = alive[1];
    return 1;
}

hm_status_t hm_import_temp(const char *path, struct hm_import_temp *t)
{
    const char *tmp = getenv("TMPDIR");
    struct stat st;
    memset(t, 0, sizeof(*t));
    if (stat(path, &st))
        return HM_OK;
    enum hm_foreign format = hm_import_detect(path);
    if (!format)
        return S_ISDIR(st.st_mode) ? HM_OK : unknown(path);
    snprintf(t->top, sizeof(t->top), "%s/hindmost-XXXXXX",
             tmp && *tmp && strlen(tmp) < 900 ? tmp : "/tmp");
    if (!make_folder(t)) {
        t->top[0] = 0;
        return hm_fail(HM_E_IO, tmp && *tmp ? tmp : "/tmp",
                       "no folder can be made in it; set TMPDIR to one that can be written");
    }
    snprintf(t->run, sizeof(t->run), "%s/run", t->top);
    hm_status_t s = hm_import_foreign(format, &path, 1, t->run);
    if (s)
        hm_import_temp_remove(t);
    return s;
}

void hm_import_temp_remove(struct hm_import_temp *t)
{
    if (!t->top[0])
        return;
    close(t->alive);
    while (waitpid(t->janitor, NULL, 0) < 0 && errno == EINTR)
        ;
    t->top[0] = t->run[0] = 0;
}
