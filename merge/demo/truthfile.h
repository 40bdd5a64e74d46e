/* RUN/truth.json. Box: merge/demo, internal. */
#ifndef HM_DEMO_TRUTHFILE_H
#define HM_DEMO_TRUTHFILE_H

#include "demo/demo.h"

hm_status_t hm_demo_truth_write(const struct hm_demo *demo, const char *dir);

#endif
