/* A whole run as one trace file.
 *
 * Box: merge/timeline. Thread: team member. The only file here that knows engine and sink at once.
 */
#include "timeline/chrome.h"

#include <inttypes.h>

static hm_status_t draw_rank(struct hm_engine *e, uint32_t rank, struct hm_rank *r, void *sink)
{
    return hm_timeline_rank(e, rank, r, sink);
}

/* What a timeline shows. */
#define SHOWN                                                                                 \
    (1ull << HM_EV_KERNEL | 1ull << HM_EV_MEMCPY | 1ull << HM_EV_MEMSET | 1ull << HM_EV_API | \
     1ull << HM_EV_RANGE | 1ull << HM_EV_MARK | 1ull << HM_EV_STEP | 1ull << HM_EV_COUNTER |  \
     1ull << HM_EV_MPI | 1ull << HM_EV_NCCL_CALL | 1ull << HM_EV_GAP)

hm_status_t hm_timeline_chrome(struct hm_engine *e, const char *path, int gz)
{
    const struct hm_query query = {.kinds = SHOWN, .t0_ns = INT64_MIN, .t1_ns = INT64_MAX};
    struct hm_outfile *out = NULL;
    struct hm_sink *sink = NULL;
    struct hm_chrome_count count;
    int64_t base = INT64_MAX;
    for (uint32_t i = 0; i < e->run.n_present; i++)
        if (e->run.rank[i].t0_ns < base)
            base = e->run.rank[i].t0_ns;
    hm_status_t st = hm_outfile_create(path, gz, &out);
    if (st)
        return st;
    st = hm_chrome_create(out, base, &sink);
    if (!st)
        st = sink->ops->head(sink, &e->run);
    if (!st)
        st = hm_scan(e, &query, draw_rank, sink);
    if (!st)
        st = sink->ops->tail(sink);
    if (!st) {
        hm_chrome_count(sink, &count);
        st = hm_outfile_commit(out);
        out = NULL;
    }
    if (!st)
        hm_say(HM_SAY_INFO,
               "%s: %u ranks, %" PRIu64 " slices, %" PRIu64 " waits, %" PRIu64
               " arrows; open it in https://ui.perfetto.dev",
               path, e->run.n_present, count.slices, count.waits, count.arrows);
    hm_chrome_destroy(sink);
    hm_outfile_discard(out);
    return st;
}
