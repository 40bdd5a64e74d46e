/* C++ names made readable, at the last moment before they are shown. Box: merge/out. */
#ifndef HM_NAME_H
#define HM_NAME_H

#include <stddef.h>

/** Readable form of `name` in buf (cut at cap - 1); the name itself when it is not mangled or this
 *  machine has no C++ runtime library. Returns buf. Thread: any. */
const char *hm_name_pretty(const char *name, char *buf, size_t cap);

#endif
