/* Reading clocks, clock domains, and the maps from a raw clock to the common timeline.
 *
 * Box: lib/core. Base clock: CLOCK_MONOTONIC_RAW, int64 ns. Source: facts on clocks, sections 0, 3.
 */
#ifndef HM_CLOCK_H
#define HM_CLOCK_H

#include "core/event.h"

#include <stdint.h>

struct hm_timeseg {
    int64_t x0_ns, y0_ns;
    double rate_m1;
    int64_t eps_ns;
    double eps_rate;
}; /* y = y0 + (x - x0) + (x - x0) * rate_m1, int64 but for the last term */
struct hm_timemap {
    const struct hm_timeseg *seg;
    uint32_t n, pad;
}; /* n == 0: identity */

/* bits of hm_ev_snapshot.have */
enum { HM_HAVE_MONO = 1, HM_HAVE_REAL = 2, HM_HAVE_BOOT = 4, HM_HAVE_PHC = 8 };

/** Now in ns of CLOCK_MONOTONIC_RAW. Calls clock_gettime through the PLT so that a test library
 *  can shift it. Cost: about 25 ns. */
int64_t hm_now(void);
/** Fills a CLOCK_SNAPSHOT event: RAW, MONOTONIC, REALTIME, BOOTTIME, taken in the narrowest of
 *  several brackets; width_ns = bracket. */
void hm_clock_snapshot(struct hm_event *ev_p);
/** The clock domain: boot id and time namespace; ranks that agree in both share the base clock. */
void hm_clock_domain(char boot_p[40], char timens_p[24]);
/** x in the map's source clock -> global ns. Identity when n == 0. Extrapolates the end segments.
 */
int64_t hm_timemap_apply(const struct hm_timemap *map, int64_t x_ns);
/** Error bound of hm_timemap_apply() at x, ns; 0 when n == 0. */
int64_t hm_timemap_eps(const struct hm_timemap *map, int64_t x_ns);

#endif
