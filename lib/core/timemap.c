/* From a raw clock to the common timeline. Box: lib/core. Pure. */
#include "core/clock.h"

/* Last segment that begins at or before x; the first one also serves what lies before it. */
static const struct hm_timeseg *segment_at(const struct hm_timemap *map, int64_t x_ns)
{
    uint32_t lo = 0, hi = map->n;
    while (hi - lo > 1) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (map->seg[mid].x0_ns <= x_ns)
            lo = mid;
        else
            hi = mid;
    }
    return &map->seg[lo];
}

static int64_t add(int64_t a, int64_t b) /* saturates: hostile times must not be undefined */
{
    int64_t sum;
    if (__builtin_add_overflow(a, b, &sum))
        return a < 0 ? INT64_MIN : INT64_MAX;
    return sum;
}

static int64_t sub(int64_t a, int64_t b)
{
    int64_t diff;
    if (__builtin_sub_overflow(a, b, &diff))
        return a < 0 ? INT64_MIN : INT64_MAX;
    return diff;
}

static int64_t round_ns(double v)
{
    if (!(v > -9.2e18 && v < 9.2e18))
        return v > 0 ? INT64_MAX : v < 0 ? INT64_MIN : 0;
    return (int64_t)(v < 0 ? v - 0.5 : v + 0.5);
}

int64_t hm_timemap_apply(const struct hm_timemap *map, int64_t x_ns)
{
    if (!map->n)
        return x_ns;
    const struct hm_timeseg *seg = segment_at(map, x_ns);
    int64_t dx = sub(x_ns, seg->x0_ns);
    return add(add(seg->y0_ns, dx), round_ns((double)dx * seg->rate_m1));
}

int64_t hm_timemap_eps(const struct hm_timemap *map, int64_t x_ns)
{
    if (!map->n)
        return 0;
    const struct hm_timeseg *seg = segment_at(map, x_ns);
    double dx = (double)sub(x_ns, seg->x0_ns);
    double grown = (dx < 0 ? -dx : dx) * seg->eps_rate;
    int64_t ns = round_ns(grown);
    if ((double)ns < grown) /* a bound is rounded up */
        ns = add(ns, 1);
    return add(seg->eps_ns, ns);
}
