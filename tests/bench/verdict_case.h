/* Cases of the verdict bench: runs of the demo over faults, effects, noise, sizes and meshes. */
#ifndef HM_BENCH_VERDICT_CASE_H
#define HM_BENCH_VERDICT_CASE_H

#include "demo/demo.h"

#include <stddef.h>

struct verdict_case {
    struct hm_demo demo;
    const char *group; /* what is done to it */
};
/** Case i, always the same. */
void verdict_case(uint32_t i, struct verdict_case *case_p);
/** The `hindmost demo` call that writes it. */
void verdict_command(const struct hm_demo *demo, char *text_p, size_t size);

#endif
