/* A run that is analysed from its path, whoever wrote it. Box: merge/cmd. */
#ifndef HM_CMD_LOADED_H
#define HM_CMD_LOADED_H

#include "engine/engine.h"
#include "import/foreign.h"

struct hm_loaded {
    struct hm_import_temp temp;
    struct hm_engine engine;
    struct hm_result *result; /* of the engine */
    int open;
};
/** Opens and judges the run, or a trace that can be imported; problems are said, one line each. On
 *  failure nothing is held. */
hm_status_t hm_loaded_open(struct hm_team *team, const char *path, struct hm_loaded *l_p);
/** The same, and the latest arrival of a rank in a step (HM_NO_ID = of all): *why_p. */
hm_status_t hm_loaded_open_why(struct hm_team *team, const char *path, struct hm_loaded *l_p,
                               struct hm_why *why_p, uint32_t rank, uint32_t step);
void hm_loaded_close(struct hm_loaded *l);

#endif
