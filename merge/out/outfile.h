/* An output file that appears whole or not at all, plain or as gzip members.
 *
 * Box: merge/out. One thread. Written under a temporary name beside PATH and renamed when all is
 * well; a PATH that is no regular file (/dev/stdout, a pipe) is written directly.
 */
#ifndef HM_OUTFILE_H
#define HM_OUTFILE_H

#include "core/status.h"

#include <stddef.h>

struct hm_outfile;
/** `gz`: what is written between two hm_outfile_member() calls is one gzip member. */
hm_status_t hm_outfile_create(const char *path, int gz, struct hm_outfile **f_p);
/** A file of the same kind without a name, to be appended to another one later. */
hm_status_t hm_outfile_side(const struct hm_outfile *main, struct hm_outfile **f_p);
/** Errors are kept and returned by member, append and commit; so callers need not look each time.
 */
void hm_outfile_write(struct hm_outfile *f, const void *bytes, size_t n);
/** Ends the gzip member; a plain file flushes nothing. */
hm_status_t hm_outfile_member(struct hm_outfile *f);
/** Ends the member of both and copies all of `side` to the end of f. */
hm_status_t hm_outfile_append(struct hm_outfile *f, struct hm_outfile *side);
/** Puts the file in place and frees f; on error nothing is left behind. */
hm_status_t hm_outfile_commit(struct hm_outfile *f);
/** Removes what was written and frees f; NULL allowed. */
void hm_outfile_discard(struct hm_outfile *f);

#endif
