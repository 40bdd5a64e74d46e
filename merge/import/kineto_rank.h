/* One Kineto trace -> one rank file.
 *
 * Box: merge/import, inside.
 */
#ifndef HM_IMPORT_KINETO_RANK_H
#define HM_IMPORT_KINETO_RANK_H

#include "import/kineto.h"
#include "store/rankfile.h"

enum { HM_KINETO_MAX_THREADS = 1024 };
struct hm_kineto_thread {
    int64_t pid, tid;
    char name[64];
};
/** What a first pass over the file tells. */
struct hm_kineto_scan {
    const char *path;
    struct hm_kineto_head head;
    struct hm_kineto_thread *thread; /* [HM_KINETO_MAX_THREADS] */
    uint32_t n_threads;
    uint64_t devices; /* bit d: something ran on device d */
    int64_t pid;      /* of the host side, HM_KINETO_NONE */
    int64_t t0_ns;    /* first event, base added; INT64_MAX none */
    uint64_t n_events, n_collectives;
    int32_t rank, n_ranks; /* settled by the caller */
};

/** First pass. HM_E_DATA also when nothing in the file can be used. */
hm_status_t hm_kineto_scan(const char *path, struct hm_kineto_scan *scan_p);
void hm_kineto_scan_free(struct hm_kineto_scan *scan);
/** Second pass: makes the rank file in folder `run`. */
hm_status_t hm_kineto_write(const struct hm_kineto_scan *scan, const struct hm_rank_meta *meta,
                            const char *run);

#endif
