/* Damaged rank files are met by a child process first.
 *
 * Box: lib/store. HDF5 divides by, and reads through, what a damaged file says before any check of
 * ours can run; a child takes the fall, and the file is left out.
 */
#ifndef HM_STORE_SHIELD_H
#define HM_STORE_SHIELD_H

#include <stddef.h>
#include <stdint.h>

/** What the child met. */
enum hm_shield {
    HM_SHIELD_FAULTY, /* opening it whole is safe, but fails with a reason; or nobody tried */
    HM_SHIELD_GOOD,
    HM_SHIELD_DEADLY /* it died of the file, or spent over 20 s on it */
};
/** Opens each file whole in a child, as hm_raw_open() does, and walks the index of every chunk. As
 *  many children as there are processors, at most 8, each with files of its own. Call before other
 *  threads run. Cost: a fork a child, one more for each deadly file, and a second reading of the
 *  files' structure. */
void hm_shield_try(char *const path[], size_t n, uint8_t bad_p[]);

#endif
