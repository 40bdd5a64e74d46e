/* Damaged rank files are met by a child process first.
 *
 * Box: lib/store. HDF5 divides by, and reads through, what a damaged file says before any check of
 * ours can run; a child takes the fall, and the file is left out.
 */
#ifndef HM_STORE_SHIELD_H
#define HM_STORE_SHIELD_H

#include <stddef.h>
#include <stdint.h>

/** Opens each file in a child as hm_raw_open() does and walks the index of every chunk. bad_p[i] =
 * 1: the child died of file i or spent over 20 s on it; 0: opening it here is safe (it may still
 * fail with a reason). Without a process to be had all are 0. Call before other threads run. Cost:
 * one fork, one more for each bad file, and a second reading of the files' structure. */
void hm_shield_try(char *const path[], size_t n, uint8_t bad_p[]);

#endif
