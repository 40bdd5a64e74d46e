/* JSON by pull: one token a call, from plain or gzip files of any length.
 *
 * Box: merge/import. One thread an object. Bounded: nesting, length of a text (what is beyond is
 * cut and told), memory. The input is hostile: whatever it holds, the next call returns a token.
 */
#ifndef HM_IMPORT_JSONIN_H
#define HM_IMPORT_JSONIN_H

#include "core/status.h"

#include <stddef.h>
#include <stdint.h>

enum { HM_JSON_MAX_DEPTH = 128, HM_JSON_MAX_TEXT = 65535 };
enum hm_json {
    HM_JSON_ERROR, /* hm_jsonin_why() says what; every later call returns it again */
    HM_JSON_END,   /* one whole value, and nothing but space behind it */
    HM_JSON_OBJECT,
    HM_JSON_OBJECT_END,
    HM_JSON_ARRAY,
    HM_JSON_ARRAY_END,
    HM_JSON_KEY,
    HM_JSON_STRING,
    HM_JSON_NUMBER, /* as written; also nan and inf, which profilers write */
    HM_JSON_TRUE,
    HM_JSON_FALSE,
    HM_JSON_NULL
};

struct hm_jsonin;
/** HM_OK, HM_E_DATA, HM_E_NOMEM. `path` is copied. */
hm_status_t hm_jsonin_open(const char *path, struct hm_jsonin **json_p);
/** The file is a row of values, as JSON lines are: behind one the next begins, END comes behind the
 *  last. Before the first token. */
void hm_jsonin_many(struct hm_jsonin *json);
/** 1: the failure is that the file ends inside a value. */
int hm_jsonin_is_cut(const struct hm_jsonin *json);
void hm_jsonin_close(struct hm_jsonin *json);
enum hm_json hm_jsonin_next(struct hm_jsonin *json);
/** Text of the last KEY, STRING or NUMBER, NUL-terminated UTF-8; borrowed until the next call. */
const char *hm_jsonin_text(const struct hm_jsonin *json, size_t *len_p);
/** Passes over the rest of the value that `token` begins. 0 = trouble, see hm_jsonin_why(). */
int hm_jsonin_skip(struct hm_jsonin *json, enum hm_json token);
/** Texts that were cut so far. */
uint64_t hm_jsonin_n_cut(const struct hm_jsonin *json);
/** What is wrong, with the place: "cut off after N bytes" ... */
const char *hm_jsonin_why(const struct hm_jsonin *json);
/** Says it: "FILE: why; what to do". Returns HM_E_DATA. */
hm_status_t hm_jsonin_fail(const struct hm_jsonin *json);

/** text * 10^shift as a whole number, exact; what lies behind the point after the shift is rounded
 *  half away from zero. 1 = done, 0 = not a number or out of range of int64. */
int hm_decimal(const char *text, int shift, int64_t *value_p);

#endif
