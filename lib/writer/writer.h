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

#include <stdio.h>

struct hm_control {      /* control.c */
    int64_t id, look_at; /* of the last order; when to look again */
    uint32_t order, snapshot, n_barks;
    int looked, barked, flush; /* flush: something must survive now */
    uint64_t n_budget;         /* events that count against the budget */
    int64_t spent_ns;          /* when it was spent, 0 = not yet */
    struct {                   /* a stretch of time in which events were lost, n = 0: none open */
        int64_t t_ns;
        uint64_t n, seen;
    } gap[HM_N_LOST];
    int64_t ticked_ns;
    uint64_t n_seen; /* progress: events taken, step, and when that changed */
    int64_t step, progress_at;
};

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
    uint64_t n_taken;                /* events of the process that came out of the pool */
    struct hm_control control;
    int said_bad, said_io; /* each is noted once */
    int64_t cut_at;        /* the life line was cut, the process lives: last looked at */
    int abandoned;         /* the file was left as it is: HDF5 must not touch it again */
};

/** Everything committed so far -> file: events, then the definitions they name, notes, losses.
 *  final: the producer is gone. Never fails: trouble is counted as lost. */
void hm_writer_drain(struct hm_writer *w, int final);
/** Appends events that are checked first; returns how many went in. */
uint32_t hm_writer_append(struct hm_writer *w, const struct hm_event *ev, uint32_t n);
/** Orders, times, budget, watchdog: once at the start, then between two drains. `now`: the writer's
 *  own clock. */
void hm_control_init(struct hm_writer *w);
void hm_control_tick(struct hm_writer *w, int64_t now);
/** Losses of which only the number is known become GAP events; last: nothing comes after. */
void hm_control_gaps(struct hm_writer *w, int last);
/** Counts an event of the process against the budget; 1 = it is beyond, and counted as lost. */
int hm_control_spent(struct hm_writer *w, const struct hm_event *ev);
void hm_control_spend(struct hm_writer *w, const char *what);

/** All that is open now, as OPEN events; asks for a flush. number: aux of the events. */
enum { HM_SNAPSHOT_WATCHDOG = 0x8000 };
void hm_snapshot_take(struct hm_writer *w, uint16_t number);
/** The same as lines for people: "open AGE_NS WHAT". */
void hm_snapshot_print(const struct hm_writer *w, FILE *f);
/** tid 0: not a thread's. */
typedef void (*hm_open_func_t)(void *ctx, const struct hm_event *ev, uint32_t tid);
/** Open operations and ranges as events of duration HM_DUR_OPEN. After the last drain. */
void hm_writer_open_ops(struct hm_writer *w);

#endif
