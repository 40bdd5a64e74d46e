/* What the verdict bench prints. */
#ifndef HM_BENCH_VERDICT_TABLE_H
#define HM_BENCH_VERDICT_TABLE_H

#include "verdict_score.h"

#include <stdio.h>

void verdict_table(FILE *out, uint32_t n, const struct verdict_got *got, double seconds);
/** One line of a case: truth, answer, command. */
void verdict_line(FILE *out, uint32_t i, const struct verdict_got *got);
void verdict_wrong(FILE *out, uint32_t n, const struct verdict_got *got);

#endif
