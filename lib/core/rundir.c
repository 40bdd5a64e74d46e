/* The run folder that all ranks of a job agree on without talking to each other.
 *
 * Box: lib/core. The waking thread (recorder), the tool. base/.job-<job> is a symlink to the
 * folder's name: symlink(2) fails when it is there, so the first process chooses and the rest read.
 * Launchers reuse job ids, so a link older than a day is taken for another job's and replaced,
 * under a lock on base/.lock so that all who come late agree as well.
 */
#include "core/who.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define BASE       "hindmost.out"
#define STALE_S    (24 * 3600)
#define PATH_BYTES 1024

/* Makes a folder and those above it; the last one is for its owner alone. */
static hm_status_t make_folders(const char *path)
{
    char part[PATH_BYTES];
    size_t len = strlen(path);
    if (!len || len >= sizeof(part))
        return HM_E_LIMIT;
    memcpy(part, path, len + 1);
    while (len > 1 && part[len - 1] == '/')
        part[--len] = 0;
    for (char *p = part + 1; *p; p++) {
        if (*p != '/')
            continue;
        *p = 0;
        if (mkdir(part, 0777) && errno != EEXIST && errno != EACCES && errno != EROFS)
            return HM_E_IO;
        *p = '/';
    }
    if (!mkdir(part, 0700))
        return HM_OK;
    int made = errno == EEXIST;
    int fd = made ? open(part, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd < 0)
        return HM_E_IO;
    close(fd);
    return HM_OK;
}

static hm_status_t join(char path_p[PATH_BYTES], const char *dir, const char *prefix,
                        const char *name)
{
    int n = snprintf(path_p, PATH_BYTES, "%s/%s%s", dir, prefix, name);
    return n > 0 && n < PATH_BYTES ? HM_OK : HM_E_LIMIT;
}

/* A folder name that a job id cannot lead out of base. */
static void clean(char *text)
{
    for (; *text; text++) {
        int ok = (*text >= '0' && *text <= '9') || (*text >= 'A' && *text <= 'Z') ||
                 (*text >= 'a' && *text <= 'z') || *text == '-' || *text == '_' || *text == '.';
        if (!ok)
            *text = '_';
    }
}

static void choose_name(const struct hm_who *who, char name_p[128])
{
    time_t now = time(NULL);
    struct tm tm;
    char when[32] = "run";
    if (localtime_r(&now, &tm))
        strftime(when, sizeof(when), "%Y%m%d-%H%M%S", &tm);
    snprintf(name_p, 128, "%s-%.60s-%d", when, who->host, (int)getpid());
    clean(name_p);
}

/* Name behind the link; HM_AGAIN = no link, or one of long ago. */
static hm_status_t read_link(const char *link, char name_p[128])
{
    struct stat st;
    char name[128];
    ssize_t n = readlink(link, name, sizeof(name) - 1);
    if (n < 0)
        return errno == ENOENT ? HM_AGAIN : HM_E_IO;
    name[n] = 0;
    /* somebody else's link must not send our files elsewhere */
    if (!n || strchr(name, '/') || name[0] == '.')
        return HM_E_DATA;
    if (!lstat(link, &st) && time(NULL) - st.st_mtime > STALE_S)
        return HM_AGAIN;
    memcpy(name_p, name, (size_t)n + 1);
    return HM_OK;
}

/* Replaces a link of long ago; whoever comes second finds a fresh one and takes it. */
static hm_status_t replace_link(const char *base, const char *link, char name_p[128])
{
    char lock[PATH_BYTES], fresh[PATH_BYTES], name[128];
    hm_status_t s = join(lock, base, "", ".lock");
    if (s)
        return s;
    int fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return HM_E_IO;
    while (flock(fd, LOCK_EX) && errno == EINTR)
        ;
    s = read_link(link, name);
    if (s == HM_AGAIN) {
        snprintf(name, sizeof(name), "%s", name_p);
        int n = snprintf(fresh, sizeof(fresh), "%s.%d", link, (int)getpid());
        s = HM_OK;
        if (n < 0 || n >= (int)sizeof(fresh) || symlink(name, fresh) || rename(fresh, link))
            s = HM_E_IO;
    }
    close(fd);
    if (!s)
        memcpy(name_p, name, sizeof(name));
    return s;
}

static hm_status_t agree_on_name(const char *base, const struct hm_who *who, char name_p[128])
{
    char link[PATH_BYTES], job[128];
    choose_name(who, name_p);
    if (!who->job[0])
        return HM_OK;
    snprintf(job, sizeof(job), "%s", who->job);
    clean(job);
    hm_status_t s = join(link, base, ".job-", job);
    if (s)
        return s;
    if (!symlink(name_p, link))
        return HM_OK;
    if (errno != EEXIST)
        return HM_E_IO;
    s = read_link(link, name_p);
    return s == HM_AGAIN ? replace_link(base, link, name_p) : s;
}

hm_status_t hm_rundir_agree(const char *base, const char *out, const struct hm_who *who,
                            char path_p[1024])
{
    char name[128], path[PATH_BYTES];
    hm_status_t s;
    if (out && out[0]) {
        if (strlen(out) >= sizeof(path))
            return HM_E_LIMIT;
        memcpy(path, out, strlen(out) + 1);
    } else {
        if (mkdir(base, 0777) && errno != EEXIST)
            return HM_E_IO;
        s = agree_on_name(base, who, name);
        if (!s)
            s = join(path, base, "", name);
        if (s)
            return s;
    }
    s = make_folders(path);
    if (!s)
        memcpy(path_p, path, sizeof(path));
    return s;
}

hm_status_t hm_rundir_set_latest(const char *run)
{
    char real[PATH_MAX], link[PATH_BYTES], fresh[PATH_BYTES];
    if (!realpath(run, real))
        return HM_E_IO;
    char *name = strrchr(real, '/');
    if (!name || name == real)
        return HM_OK;
    *name++ = 0;
    /* a folder that the user named is no place for links of ours */
    const char *base = strrchr(real, '/');
    if (!base || strcmp(base + 1, BASE) != 0)
        return HM_OK;
    int n = snprintf(link, sizeof(link), "%.900s/latest", real);
    int m = snprintf(fresh, sizeof(fresh), "%.900s/.latest.%d", real, (int)getpid());
    if (n < 0 || m < 0)
        return HM_E_LIMIT;
    unlink(fresh);
    if (symlink(name, fresh))
        return HM_E_IO;
    if (rename(fresh, link)) {
        unlink(fresh);
        return HM_E_IO;
    }
    return HM_OK;
}

hm_status_t hm_rundir_latest(char path_p[1024])
{
    static const char latest[] = BASE "/latest";
    if (access(latest, F_OK))
        return hm_fail(HM_E_NO_RUN, latest,
                       "there is no run here; name a run folder, or record one with hindmost run");
    memcpy(path_p, latest, sizeof(latest));
    return HM_OK;
}
