/* Switches and counters of the CUPTI double. Box: tests. */
#ifndef HM_TEST_FAKE_CUPTI_H
#define HM_TEST_FAKE_CUPTI_H

#include <stddef.h>
#include <stdint.h>

struct fake {
    uint32_t version, attributes;
    int rc_subscribe, rc_enable, rc_flush, hang;
    int n_subscribed, n_unsubscribed, n_registered, n_clock, thread_id_type, n_apis, launch_traced;
    int all_sync, n_flushed;
    uint32_t n_forced;
    uint64_t enabled;
    size_t n_dropped, n_dirty;
};
extern struct fake fake;
void fake_launch(const char *name, uint64_t dur_ns);

#endif
