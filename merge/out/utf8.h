/* UTF-8, as output forms check it. Box: merge/out. */
#ifndef HM_OUT_UTF8_H
#define HM_OUT_UTF8_H

/** Bytes of the sequence at s, which ends with NUL somewhere; 0 = not valid (RFC 3629: no overlong
 *  forms, no surrogates). */
int hm_utf8(const unsigned char *s);

#endif
