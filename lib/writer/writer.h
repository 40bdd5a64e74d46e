/* The writer process: takes a rank's events out of the pool and into its file.
 *
 * Box: lib/writer. One thread, and one inside the GPU's driver (nvml.c). Invariant: what the pool
 * says is copied and checked before it is used; one bad event or full disk never ends the process,
 * it is counted.
 */
#ifndef HM_WRITER_H
#define HM_WRITER_H

#include "core/config.h"
#include "core/pool.h"
#include "store/rankfile.h"
#include "writer/health.h"

struct hm_writer {
    struct hm_pool_view view;
    struct hm_config config;
    struct hm_rank_meta meta;
    struct hm_rankfile *file;
    uint32_t *drained;               /* [view.n_chunks] read index */
    uint32_t n_defined[HM_N_DEFS];   /* definitions in the file */
    uint32_t n_notes, known;         /* notes in the file; known bits in meta */
    uint32_t track;                  /* definition of the writer's own track */
    struct hm_health *health;        /* NULL = off */
    int has_gpu;                     /* health knows which */
    uint64_t n_events, n_gpu, n_bad; /* appended; kernels and NCCL operations of them; refused */
    int said_bad, said_io;           /* each is noted once */
};

/** Everything committed so far -> file: events, then the definitions they name, notes, losses.
 *  final: the producer is gone. Never fails: trouble is counted as lost. */
void hm_writer_drain(struct hm_writer *w, int final);
/** Appends events that are checked first; returns how many went in. */
uint32_t hm_writer_append(struct hm_writer *w, const struct hm_event *ev, uint32_t n);
/** Open operations and ranges as events of duration HM_DUR_OPEN. After the last drain. */
void hm_writer_open_ops(struct hm_writer *w);

#endif
