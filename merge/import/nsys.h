/* One process of an Nsight Systems export -> one rank file.
 *
 * Box: merge/import, inside.
 */
#ifndef HM_IMPORT_NSYS_H
#define HM_IMPORT_NSYS_H

#include "import/nsysdb.h"
#include "store/rankfile.h"

struct hm_nsys_text { /* StringIds */
    int64_t id;
    char *text;
};
struct hm_nsys_file {
    const char *path;
    struct hm_nsysdb *db;
    int64_t base_ns; /* added to every time: start of the capture by the time of day */
    char host[64];
    struct hm_nsys_text *text; /* by id */
    size_t n_texts, cap_texts;
};
struct hm_nsys_process {
    struct hm_nsys_file *file;
    int64_t id;     /* globalPid, HM_NSYS_NONE = the export does not tell */
    int64_t device; /* lowest */
    int64_t t0_ns;  /* first GPU operation, base added */
    int32_t rank, n_ranks;
};

const char *hm_nsys_string(const struct hm_nsys_file *file, int64_t id); /* "" unknown */
/** A globalPid or globalTid holds the process in bits 24 to 47 and the thread below. */
static inline int64_t hm_nsys_process_of(int64_t global)
{
    return global == HM_NSYS_NONE ? HM_NSYS_NONE : global & ~INT64_C(0xffffff);
}
/** Begin and end of a row with the base added; 0 = unusable. */
int hm_nsys_time(const struct hm_nsys_file *file, int64_t start, int64_t end, int64_t *t_p,
                 int64_t *dur_p);
/** Makes the rank file in folder `run`. */
hm_status_t hm_nsys_write(const struct hm_nsys_process *p, const struct hm_rank_meta *meta,
                          const char *run);

#endif
