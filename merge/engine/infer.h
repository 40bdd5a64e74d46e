/* Inferred communication in the engine: counts while collecting, then arrivals of what was found.
 * Box: merge/engine, internal. */
#ifndef HM_ENGINE_INFER_H
#define HM_ENGINE_INFER_H

#include "engine/phases.h"

/** Durations of the kernels of one worker, by kernel and grid. */
struct hm_engine_counts;
hm_status_t hm_engine_counts_create(struct hm_engine_counts **counts_p);
/** One kernel of the worker. */
void hm_engine_count(struct hm_engine_counts *counts, const struct hm_event *ev);
/** At the end of a worker: joins its counts with those of the others. */
hm_status_t hm_engine_suspect(struct hm_engine *e, const struct hm_engine_counts *counts);
void hm_engine_counts_destroy(struct hm_engine_counts *counts);
/** After all ranks: looks at what is suspected, and adds the arrivals of what is communication. */
hm_status_t hm_engine_infer(struct hm_engine *e);

#endif
