/* What the files of the stand-in libcupti.so.13 share. Box: tests/vgpu. */
#ifndef VGPU_CUPTI_INSIDE_H
#define VGPU_CUPTI_INSIDE_H

#include "vgpu.h"

#include <cupti.h>

#include <stddef.h>
#include <stdint.h>

#define VGPU_API __attribute__((visibility("default")))

enum { CUPTI_N_KINDS = 64, CUPTI_N_CBIDS = 1024, CUPTI_N_EXTERNAL = 6, CUPTI_EXTERNAL_DEPTH = 64 };

/* Misbehaviours, chosen by VGPU_CUPTI (comma separated). */
struct cupti_scenario {
    int foreign;      /* "foreign": another tool holds CUPTI: cuptiSubscribe gives 39 */
    int zero_times;   /* "zero-times": each 10th kernel has start and end 0 */
    int drop;         /* "drop": each 10th device record is dropped and counted */
    int unknown_kind; /* "unknown-kind": a record of an unknown kind after each 20th */
    int no_driver;    /* "no-driver": 999, as on a machine without a GPU */
};
extern struct cupti_scenario cupti_scenario;

/* cupti_api.c: what is switched on */
int cupti_kind_on(uint32_t kind);
int cupti_api_on(uint32_t domain, uint32_t cbid);
int cupti_thread_ids_are_system(void);
uint64_t cupti_now(void);
uint64_t (*cupti_clock(void))(void); /* NULL: CLOCK_REALTIME */
uint8_t cupti_attribute(int which);

/* cupti_layout.c: records by the header's structs */
size_t cupti_record_size(uint32_t kind); /* 0: no such kind */
union cupti_record {
    uint32_t kind;
    CUpti_ActivityKernel10 kernel;
    CUpti_ActivityMemcpy6 copy;
    CUpti_ActivityMemset4 fill;
    CUpti_ActivityAPI api;
    CUpti_ActivityExternalCorrelation external;
    CUpti_ActivityDevice5 device;
};
void cupti_layout_work(union cupti_record *out, uint32_t kind, uint32_t stream,
                       uint32_t correlation, uint64_t start, uint64_t end,
                       const struct vgpu_work *w);

/* cupti_deliver.c: buffers */
void cupti_deliver_start(CUpti_BuffersCallbackRequestFunc request,
                         CUpti_BuffersCallbackCompleteFunc complete);
void cupti_deliver_flush(void);
size_t cupti_deliver_dropped(void);
extern const struct vgpu_hooks cupti_hooks;
CUptiResult cupti_push(uint32_t kind, uint64_t id);
CUptiResult cupti_pop(uint32_t kind, uint64_t *id_p);

/* libcudart's; absent when the library is loaded without it */
#pragma weak vgpu_set_hooks
#pragma weak vgpu_now
#pragma weak vgpu_uuid

#endif
