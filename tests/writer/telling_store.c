/* A store for tests of the writer: each call becomes a line of DIR/calls. HM_TEST_STORE=full makes
 * every append of marks fail as a full disk does.
 */
#include "store/rankfile.h"
#include "store/shield.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct hm_rankfile {
    FILE *f;
    int full;
};

hm_status_t hm_rankfile_create(const char *dir, const struct hm_rank_meta *meta,
                               struct hm_rankfile **rf_p)
{
    static struct hm_rankfile rf;
    char path[1200];
    const char *mood = getenv("HM_TEST_STORE");
    snprintf(path, sizeof(path), "%s/calls", dir);
    rf.f = fopen(path, "w");
    if (!rf.f)
        return HM_E_IO;
    rf.full = mood && !strcmp(mood, "full");
    fprintf(rf.f, "create rank %d pid %d run %s program %s host %s\n", meta->rank, meta->pid,
            meta->run_id, meta->program, meta->host);
    fflush(rf.f);
    *rf_p = &rf;
    return HM_OK;
}

hm_status_t hm_rankfile_define(struct hm_rankfile *rf, enum hm_def_kind kind, uint32_t id,
                               const void *bytes, uint32_t len)
{
    fprintf(rf->f, "define %d %u %u", (int)kind, id, len);
    if (kind == HM_DEF_STRING && len)
        fprintf(rf->f, " %.*s", (int)len, (const char *)bytes);
    fprintf(rf->f, "\n");
    return HM_OK;
}

hm_status_t hm_rankfile_append(struct hm_rankfile *rf, const struct hm_event *ev, uint32_t n)
{
    if (rf->full && ev->kind == HM_EV_MARK)
        return HM_E_IO;
    for (uint32_t i = 0; i < n; i++)
        fprintf(rf->f, "event %d t %lld %s track %u depth %u\n", ev[i].kind, (long long)ev[i].t_ns,
                ev[i].dur_ns == HM_DUR_OPEN ? "open" : "done", ev[i].track,
                ev[i].kind == HM_EV_RANGE ? ev[i].u.range.depth : 0);
    return HM_OK;
}

hm_status_t hm_rankfile_lost(struct hm_rankfile *rf, const uint64_t lost[])
{
    fprintf(rf->f, "lost writer_io %llu\n", (unsigned long long)lost[HM_LOST_WRITER_IO]);
    return HM_OK;
}

hm_status_t hm_rankfile_meta(struct hm_rankfile *rf, const struct hm_rank_meta *meta)
{
    fprintf(rf->f, "meta rank %d of %d\n", meta->rank, meta->n_ranks);
    return HM_OK;
}

hm_status_t hm_rankfile_note(struct hm_rankfile *rf, const struct hm_note *note)
{
    fprintf(rf->f, "note %s\n", note->text);
    return HM_OK;
}

hm_status_t hm_rankfile_flush(struct hm_rankfile *rf)
{
    fprintf(rf->f, "flush\n");
    return fflush(rf->f) ? HM_E_IO : HM_OK;
}

hm_status_t hm_rankfile_close(struct hm_rankfile *rf, enum hm_end why)
{
    fprintf(rf->f, "close %d\n", (int)why);
    return fclose(rf->f) ? HM_E_IO : HM_OK;
}

void hm_rankfile_discard(struct hm_rankfile *rf)
{
    fprintf(rf->f, "discard\n");
    fclose(rf->f);
}

const char *hm_rankfile_path(const struct hm_rankfile *rf)
{
    (void)rf;
    return "/nonexistent.h5";
}

void hm_rankfile_abandon(struct hm_rankfile *rf)
{
    (void)rf;
}

void hm_shield_try(char *const path[], size_t n, uint8_t bad_p[])
{
    (void)path;
    memset(bad_p, HM_SHIELD_GOOD, n);
}
