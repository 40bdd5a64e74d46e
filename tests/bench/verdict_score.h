/* What came out of a case of the verdict bench, and whether it is right. */
#ifndef HM_BENCH_VERDICT_SCORE_H
#define HM_BENCH_VERDICT_SCORE_H

#include "verdict_case.h"

enum { VERDICT_IDS = 64 };
struct verdict_words {
    char status[16], kind[12], cause[20], pattern[16];
    uint32_t n_ids, ids[VERDICT_IDS];
    int64_t gain_ns;
    double gain_frac;
};
enum verdict_state { VERDICT_TODO, VERDICT_RUNNING, VERDICT_DONE, VERDICT_CRASHED, VERDICT_FAILED };
struct verdict_got {
    uint8_t state, partition_wrong;
    uint8_t ambiguous; /* another fault costs nearly as much */
    struct verdict_words truth, got;
    double noise_frac; /* what noise alone costs */
    double events;
};
/* What a case can show. */
enum verdict_class {
    VERDICT_MUST,      /* gain of 5 % and more: subject and cause must be right */
    VERDICT_GREY,      /* between: right, or none */
    VERDICT_NOBODY,    /* no fault, or one below the floor of 0.5 %: nobody may be named */
    VERDICT_UNKNOWABLE /* nothing in the run tells it from another: nobody may be named */
};
enum verdict_class verdict_class(const struct verdict_case *c, const struct verdict_got *g);
int verdict_names_somebody(const struct verdict_got *g);
int verdict_subject_right(const struct verdict_case *c, const struct verdict_got *g);
int verdict_cause_right(const struct verdict_case *c, const struct verdict_got *g);
int verdict_status_right(const struct verdict_case *c, const struct verdict_got *g);

#endif
