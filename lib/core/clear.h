/* Clearing a small object without the start-up of a string instruction.
 *
 * Box: lib/core. From about 64 bytes on, compilers clear with `rep stos`, which takes some ten
 * nanoseconds to get going: more than all else that a callback does between two clock reads.
 */
#ifndef HM_CLEAR_H
#define HM_CLEAR_H

#include <stddef.h>
#include <stdint.h>

/** Clears `words` 8-byte words at p (8-byte aligned). words is a constant: the loop unrolls. */
static inline __attribute__((always_inline)) void hm_clear(void *p, size_t words)
{
    uint64_t *at = p;
#pragma GCC unroll 32
    for (size_t i = 0; i < words; i++) {
        at[i] = 0;
        __asm__("" : "+r"(at)); /* keeps the loop from becoming that instruction again */
    }
}

#endif
