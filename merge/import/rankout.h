/* A rank file that an importer fills: names are interned, events go out in batches.
 *
 * Box: merge/import, inside. One thread. Errors are kept until hm_rankout_end(): an importer's
 * callbacks need not look each time.
 */
#ifndef HM_IMPORT_RANKOUT_H
#define HM_IMPORT_RANKOUT_H

#include "store/rankfile.h"

enum { HM_RANKOUT_BATCH = 1024, HM_RANKOUT_COMMS = 4096 };
struct hm_rankout {
    struct hm_rankfile *rf;
    struct hm_defs defs;
    uint32_t n_defined[HM_N_DEFS];
    uint64_t lost[HM_N_LOST];
    struct hm_event ev[HM_RANKOUT_BATCH];
    uint32_t n;
    hm_status_t status; /* the first failure */
};

/** Makes the file in folder `run`; o is 64 KiB, keep it on the heap. Nothing is left on failure. */
hm_status_t hm_rankout_begin(struct hm_rankout *o, const char *run,
                             const struct hm_rank_meta *meta);
/** Id of a definition, new or known; HM_NO_ID and counted when there is no room. */
uint32_t hm_rankout_define(struct hm_rankout *o, enum hm_def_kind kind, const void *bytes,
                           size_t len);
uint32_t hm_rankout_text(struct hm_rankout *o, const char *text);
uint32_t hm_rankout_thread(struct hm_rankout *o, uint32_t tid,
                           const char *name); /* NULL: "thread N" */
uint32_t hm_rankout_stream(struct hm_rankout *o, uint32_t device, uint32_t context,
                           uint32_t stream);
hm_status_t hm_rankout_push(struct hm_rankout *o, const struct hm_event *ev);
/** Closes the file; `s` bad, or an error before: removes it. Returns the first error. */
hm_status_t hm_rankout_end(struct hm_rankout *o, hm_status_t s);

/** v, or `unknown` when it is no uint32. */
static inline uint32_t hm_id32(int64_t v, uint32_t unknown)
{
    return v < 0 || v > UINT32_MAX ? unknown : (uint32_t)v;
}
/** FNV-1a of a text, going on from h; a text and its end. */
uint64_t hm_import_hash(uint64_t h, const char *text);
#define HM_IMPORT_HASH UINT64_C(0xcbf29ce484222325)
/** Rank that a file's name tells: behind "rank" or "worker", else its first number; -1 none. */
int64_t hm_import_rank_in_name(const char *path);
/** "DIR/NAME" -> "NAME". */
const char *hm_import_base_name(const char *path);
/** Makes the new folder of an imported run. */
hm_status_t hm_import_make_run(const char *run);
/** Takes it away again with the rank files in it. */
void hm_import_drop_run(const char *run);

#endif
