/* A damaged rank file is met by a child process first.
 *
 * Box: lib/store. HDF5 divides by, and reads through, what a damaged file says before any check of
 * ours can run; a child takes the fall, and the file is left out.
 */
#ifndef HM_STORE_SHIELD_H
#define HM_STORE_SHIELD_H

#include "core/status.h"

/** Opens `path` in a child as hm_raw_open() does and walks every chunk's index. HM_OK: opening it
 * here is safe (it may still fail with a reason); HM_E_DATA: the child died of it or took over 20
 * s. Call before other threads run. Cost: a fork and a second reading of the file's structure. */
hm_status_t hm_shield_try(const char *path);

#endif
