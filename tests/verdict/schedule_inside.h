/* What the files of the schedule share among themselves. */
#ifndef SCENARIO_SCHEDULE_INSIDE_H
#define SCENARIO_SCHEDULE_INSIDE_H

#include "schedule.h"

/** Appends an event, moving it to the rank's own clock. */
void put(struct rank *r, struct hm_event ev);
uint32_t name_id(struct rank *r, const char *name);
uint32_t kernel_id(struct rank *r, const char *name, uint16_t block);
uint32_t stream_track(enum stream stream);
uint32_t writer_track(void);
/** When all streams of the device are through. */
int64_t device_end(const struct rank *r);

#endif
