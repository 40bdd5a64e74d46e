/* A writer of one JSON document: commas, escapes, null with its reason. Box: merge/report. */
#ifndef HM_REPORT_JSON_H
#define HM_REPORT_JSON_H

#include <stdint.h>
#include <stdio.h>

struct hm_json {
    FILE *out;
    int depth, first, line; /* line: depth up to which members get a line of their own */
};
void hm_json_open(struct hm_json *j, const char *key, char bracket); /* '{' or '[' */
void hm_json_close(struct hm_json *j, char bracket);
/** Valid UTF-8 in, escaped; bytes that are not become U+FFFD. NULL = null. */
void hm_json_str(struct hm_json *j, const char *key, const char *s);
void hm_json_i64(struct hm_json *j, const char *key, int64_t v); /* HM_NONE: null and KEY_why */
void hm_json_ppb(struct hm_json *j, const char *key, int64_t v);
void hm_json_f64(struct hm_json *j, const char *key, double v);
void hm_json_null(struct hm_json *j, const char *key, const char *why);
/** Lines of a LIST cell as strings; numbers of an IDS cell. */
void hm_json_list(struct hm_json *j, const char *key, const char *list);
void hm_json_ids(struct hm_json *j, const char *key, const char *ids);

#endif
