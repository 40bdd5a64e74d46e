/* The loss table in words. Box: lib/core. Pure data from loss.def. */
#include "core/pool.h"

#define HM_LOSS(id, key, text, cure) [id] = {key, text, cure},
static const struct {
    const char *key, *text, *cure;
} loss[HM_N_LOST] = {
#include "core/loss.def"
};
#undef HM_LOSS

const char *hm_loss_key(enum hm_loss id)
{
    return (unsigned)id < HM_N_LOST ? loss[id].key : "";
}

const char *hm_loss_text(enum hm_loss id)
{
    return (unsigned)id < HM_N_LOST ? loss[id].text : "";
}

const char *hm_loss_cure(enum hm_loss id)
{
    return (unsigned)id < HM_N_LOST ? loss[id].cure : "";
}
