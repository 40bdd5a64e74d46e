/* A recorder for tests of its sources: real pool, real definitions, events kept in an array.
 *
 * Box: tests. Implements what record/state.h declares; any thread. Only what a source may see.
 */
#ifndef HM_TEST_RECORDER_DOUBLE_H
#define HM_TEST_RECORDER_DOUBLE_H

#include "record/state.h"

/** Empties everything and makes a pool of `pool_bytes`; gate open for all kinds. */
void double_start(int64_t pool_bytes);
/** As HINDMOST=off: waking fails. */
void double_start_off(void);
void double_gate(uint64_t kinds);
/** Windows that hm_on_at() sees once hm.n_gates is above 1, in ns of hm_now(). */
extern int64_t double_windows[8][2];

extern struct hm_event double_event[100000];
uint32_t double_n_events(void);
/** The n-th event of a kind, NULL = there are fewer. */
const struct hm_event *double_nth(unsigned kind, uint32_t n);
uint32_t double_count(unsigned kind);
uint64_t double_lost(enum hm_loss cause);
/** Text of a string definition. */
const char *double_text(uint32_t id);
/** Bytes of a definition. */
const void *double_def(enum hm_def_kind kind, uint32_t id);

struct double_claim {
    int n;
    int32_t rank, n_ranks;
};
extern struct double_claim double_claimed;
extern int double_n_cupti_starts, double_n_wakes;
/** What was pushed (+id) and popped (-id), in order, when double_cupti() was called. */
extern int64_t double_pushed[1000];
extern uint32_t double_n_pushed;
void double_cupti(void);
extern char double_notes[4096];

#endif
