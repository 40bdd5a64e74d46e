/* What all importers share. Box: merge/import. See rankout.h. */
#include "import/rankout.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

hm_status_t hm_rankout_begin(struct hm_rankout *o, const char *run, const struct hm_rank_meta *meta)
{
    static const uint32_t cap[HM_N_DEFS] = {1 << 20, 1 << 14, 1 << 17, HM_RANKOUT_COMMS, 64, 16};
    memset(o, 0, sizeof(*o));
    hm_status_t s = hm_defs_create(cap, UINT64_C(256) << 20, &o->defs);
    if (s)
        return s;
    s = hm_rankfile_create(run, meta, &o->rf);
    if (s)
        hm_defs_destroy(&o->defs);
    else
        hm_rankout_text(o, "");
    return s;
}

uint32_t hm_rankout_define(struct hm_rankout *o, enum hm_def_kind kind, const void *bytes,
                           size_t len)
{
    uint32_t id = hm_defs_intern(&o->defs, kind, bytes, (uint32_t)len);
    if (id == HM_NO_ID) {
        o->lost[HM_LOST_DEFS_FULL]++;
        return id;
    }
    for (uint32_t i = o->n_defined[kind]; i <= id; i++) { /* tells the file what is new */
        const void *p = NULL;
        uint32_t n = 0;
        if (hm_defs_get(&o->defs, kind, i, &p, &n))
            p = NULL;
        hm_status_t s = hm_rankfile_define(o->rf, kind, i, p, n);
        if (s) {
            o->status = o->status ? o->status : s;
            return HM_NO_ID;
        }
        o->n_defined[kind] = i + 1;
    }
    return id;
}

uint32_t hm_rankout_text(struct hm_rankout *o, const char *text)
{
    return hm_rankout_define(o, HM_DEF_STRING, text, strlen(text));
}

uint32_t hm_rankout_thread(struct hm_rankout *o, uint32_t tid, const char *name)
{
    char text[64];
    struct hm_def_track t = {.type = HM_TRACK_THREAD, .tid = tid};
    snprintf(text, sizeof(text), "thread %u", tid);
    t.name = hm_rankout_text(o, name && *name ? name : text);
    return hm_rankout_define(o, HM_DEF_TRACK, &t, sizeof(t));
}

uint32_t hm_rankout_stream(struct hm_rankout *o, uint32_t device, uint32_t context, uint32_t stream)
{
    char text[64];
    struct hm_def_track t = {
        .type = HM_TRACK_STREAM, .device = device, .context = context, .stream = stream};
    snprintf(text, sizeof(text), "stream %u", stream);
    t.name = hm_rankout_text(o, text);
    return hm_rankout_define(o, HM_DEF_TRACK, &t, sizeof(t));
}

hm_status_t hm_rankout_push(struct hm_rankout *o, const struct hm_event *ev)
{
    o->ev[o->n++] = *ev;
    if (o->n < HM_RANKOUT_BATCH)
        return o->status;
    o->n = 0;
    hm_status_t s = hm_rankfile_append(o->rf, o->ev, HM_RANKOUT_BATCH);
    o->status = o->status ? o->status : s;
    return o->status;
}

hm_status_t hm_rankout_end(struct hm_rankout *o, hm_status_t s)
{
    if (!s)
        s = o->status;
    if (!s && o->n)
        s = hm_rankfile_append(o->rf, o->ev, o->n);
    if (!s)
        s = hm_rankfile_lost(o->rf, o->lost);
    if (s)
        hm_rankfile_discard(o->rf);
    else
        s = hm_rankfile_close(o->rf, HM_END_CLEAN);
    hm_defs_destroy(&o->defs);
    return s;
}

uint64_t hm_import_hash(uint64_t h, const char *text)
{
    for (; *text; text++)
        h = (h ^ (uint8_t)*text) * UINT64_C(0x100000001b3);
    return (h ^ 0xff) * UINT64_C(0x100000001b3);
}

const char *hm_import_base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

int64_t hm_import_rank_in_name(const char *path)
{
    enum { MAX_RANK = 65536 };
    static const char *const word[] = {"rank", "worker"};
    const char *name = hm_import_base_name(path), *p = NULL;
    for (size_t i = 0; i < sizeof(word) / sizeof(*word) && !p; i++) {
        p = strstr(name, word[i]);
        if (p)
            p += strlen(word[i]);
        if (p && (*p == '-' || *p == '_'))
            p++;
        if (p && (*p < '0' || *p > '9'))
            p = NULL;
    }
    if (!p)
        p = name + strcspn(name, "0123456789");
    char *end;
    errno = 0;
    long long v = strtoll(p, &end, 10);
    return end == p || errno || v < 0 || v >= MAX_RANK ? -1 : v;
}

hm_status_t hm_import_make_run(const char *run)
{
    if (!mkdir(run, 0700))
        return HM_OK;
    if (errno == EEXIST)
        return hm_fail(HM_E_DATA, run, "exists already; name a new folder");
    return hm_fail(HM_E_IO, run, "cannot be made: %s", strerror(errno));
}

void hm_import_drop_run(const char *run)
{
    char path[1400];
    DIR *d = opendir(run);
    const struct dirent *e;
    while (d && (e = readdir(d)))
        if (!strncmp(e->d_name, "rank-", 5)) {
            snprintf(path, sizeof(path), "%s/%s", run, e->d_name);
            unlink(path);
        }
    if (d)
        closedir(d);
    rmdir(run);
}
