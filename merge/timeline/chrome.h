/* The Chrome trace sink, apart from the engine, for tests. Box: merge/timeline. */
#ifndef HM_CHROME_H
#define HM_CHROME_H

#include "out/outfile.h"
#include "timeline/timeline.h"

struct hm_chrome_count {
    uint64_t slices, waits, arrows;
};
/** A sink that writes to `out`; base_ns = the instant that becomes 0. Frees nothing of `out`. */
hm_status_t hm_chrome_create(struct hm_outfile *out, int64_t base_ns, struct hm_sink **sink_p);
void hm_chrome_count(const struct hm_sink *sink, struct hm_chrome_count *count_p);
void hm_chrome_destroy(struct hm_sink *sink);

#endif
