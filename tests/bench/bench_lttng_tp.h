/* Tracepoint of bench_lttng.c: what one COUNTER event of ours carries. Box: tests/bench. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER hm_bench
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./bench_lttng_tp.h"
#if !defined(HM_BENCH_LTTNG_TP_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define HM_BENCH_LTTNG_TP_H
#include <lttng/tracepoint.h>
#include <stdint.h>

LTTNG_UST_TRACEPOINT_EVENT(hm_bench, event, LTTNG_UST_TP_ARGS(uint64_t, value, uint32_t, name),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(uint64_t, value, value)
                                                   lttng_ust_field_integer(uint32_t, name, name)))
#endif
#include <lttng/tracepoint-event.h>
