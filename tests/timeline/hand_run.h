/* The hand-made run, given to whoever keeps it. Box: tests/timeline. */
#ifndef HAND_RUN_H
#define HAND_RUN_H

#include "core/defs.h"
#include "core/event.h"

#define HAND_T0   1000000000000ll /* raw clock at the start of every rank */
#define HAND_COMM 0xabc0000000000001ull
enum { HAND_RANKS = 3 };
/** When the first all-reduce's kernel starts on each rank, ns after HAND_T0. */
extern const int64_t hand_first[HAND_RANKS];

struct hand_out {
    void (*define)(enum hm_def_kind kind, uint32_t id, const void *bytes, uint32_t len);
    void (*append)(const struct hm_event *ev);
};
void hand_rank(int rank, const struct hand_out *out);

#endif
