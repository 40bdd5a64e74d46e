/* Random numbers by place: a hash of where the number is used, so that any rank can be made alone.
 *
 * Box: merge/demo, internal. Source of the mixer: Stafford's variant 13 of MurmurHash3's finaliser.
 */
#ifndef HM_DEMO_RANDOM_H
#define HM_DEMO_RANDOM_H

#include <stdint.h>

static inline uint64_t hm_demo_mix(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}
/** 64 bits of (seed, a, b, c). */
static inline uint64_t hm_demo_hash(uint64_t seed, uint64_t a, uint32_t b, uint32_t c)
{
    uint64_t x = hm_demo_mix(seed + UINT64_C(0x9e3779b97f4a7c15));
    x = hm_demo_mix(x ^ a * UINT64_C(0xd6e8feb86659fd93));
    return hm_demo_mix(x ^ ((uint64_t)b << 32 | c));
}
/** Mean 0, standard deviation 1, within 3.5: the sum of four uniform numbers. */
static inline double hm_demo_normal(uint64_t h)
{
    double sum = (double)(h & 0xffff) + (double)(h >> 16 & 0xffff) + (double)(h >> 32 & 0xffff) +
                 (double)(h >> 48);
    return (sum / 65535.0 - 2.0) * 1.7320508075688772;
}
/** 0 to below 1. */
static inline double hm_demo_uniform(uint64_t h)
{
    return (double)(h >> 11) / 9007199254740992.0;
}

#endif
