/* Callbacks that collect and account share. Box: merge/engine. */
#ifndef HM_ENGINE_PHASES_H
#define HM_ENGINE_PHASES_H

#include "engine/more.h"

struct hm_engine_rank { /* ctx of the callbacks below */
    struct hm_engine *e;
    const struct hm_rank *rank;
};
int hm_engine_track(void *ctx, uint32_t track, uint32_t *type_p, uint32_t *device_p,
                    uint32_t *stream_p);
const char *hm_engine_string(void *ctx, uint32_t id);
uint32_t hm_engine_kernel_name_id(void *ctx, uint32_t kernel);

#endif
