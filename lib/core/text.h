/* Words that were meant: how far one text is from another. Box: lib/core. Pure. */
#ifndef HM_TEXT_H
#define HM_TEXT_H

enum { HM_TEXT_LONGEST = 62 };
/** Insertions, deletions and replacements from a to b (Levenshtein); UINT_MAX when either is longer
 *  than HM_TEXT_LONGEST. At most 2 is "did you mean". */
unsigned hm_text_distance(const char *a, const char *b);

#endif
