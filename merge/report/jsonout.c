/* JSON text. Box: merge/report. Source: RFC 8259; UTF-8 as RFC 3629. */
#include "analysis/result.h"
#include "out/utf8.h"
#include "report/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void text(FILE *out, const char *str)
{
    fputc('"', out);
    for (const unsigned char *s = (const unsigned char *)str; *s;) {
        int n = hm_utf8(s);
        if (!n) {
            fputs("\\ufffd", out);
            s++;
        } else if (*s == '"' || *s == '\\') {
            fprintf(out, "\\%c", *s++);
        } else if (*s < 0x20 || *s == 0x7F) {
            fprintf(out, "\\u%04x", *s++);
        } else {
            fwrite(s, 1, (size_t)n, out);
            s += n;
        }
    }
    fputc('"', out);
}

static void item(struct hm_json *j, const char *key)
{
    if (!j->first)
        fputc(',', j->out);
    if (j->depth && j->depth <= j->line)
        fprintf(j->out, "\n%*s", 2 * j->depth, "");
    else if (!j->first)
        fputc(' ', j->out);
    j->first = 0;
    if (key) {
        text(j->out, key);
        fputs(": ", j->out);
    }
}

void hm_json_open(struct hm_json *j, const char *key, char bracket)
{
    item(j, key);
    fputc(bracket, j->out);
    j->depth++;
    j->first = 1;
}

void hm_json_close(struct hm_json *j, char bracket)
{
    j->depth--;
    if (!j->first && j->depth < j->line)
        fprintf(j->out, "\n%*s", 2 * j->depth, "");
    fputc(bracket, j->out);
    j->first = 0;
}

void hm_json_null(struct hm_json *j, const char *key, const char *why)
{
    item(j, key);
    fputs("null", j->out);
    char name[64];
    if (key && snprintf(name, sizeof(name), "%s_why", key) < (int)sizeof(name)) {
        item(j, name);
        text(j->out, why);
    }
}

void hm_json_str(struct hm_json *j, const char *key, const char *s)
{
    item(j, key);
    if (s)
        text(j->out, s);
    else
        fputs("null", j->out);
}

void hm_json_i64(struct hm_json *j, const char *key, int64_t v)
{
    if (HM_IS_NONE(v)) {
        if (key) {
            hm_json_null(j, key, hm_why(v));
        } else {
            item(j, NULL);
            fputs("null", j->out);
        }
        return;
    }
    item(j, key);
    fprintf(j->out, "%" PRId64, v);
}

void hm_json_ppb(struct hm_json *j, const char *key, int64_t v)
{
    if (HM_IS_NONE(v)) {
        hm_json_null(j, key, hm_why(v));
        return;
    }
    uint64_t u = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
    item(j, key);
    fprintf(j->out, "%s%" PRIu64 ".%09" PRIu64, v < 0 ? "-" : "", u / 1000000000, u % 1000000000);
}

void hm_json_f64(struct hm_json *j, const char *key, double v)
{
    if (!isfinite(v)) {
        hm_json_null(j, key, hm_why(HM_NONE(HM_NONE_UNKNOWN)));
        return;
    }
    item(j, key);
    fprintf(j->out, "%.6g", v);
}

void hm_json_list(struct hm_json *j, const char *key, const char *list)
{
    hm_json_open(j, key, '[');
    for (const char *s = list ? list : ""; *s;) {
        size_t n = strcspn(s, "\n");
        char *line = strndup(s, n);
        hm_json_str(j, NULL, line ? line : "");
        free(line);
        s += n + (s[n] == '\n');
    }
    hm_json_close(j, ']');
}

void hm_json_ids(struct hm_json *j, const char *key, const char *ids)
{
    hm_json_open(j, key, '[');
    for (const char *s = ids ? ids : ""; *s;) {
        char *end;
        long long v = strtoll(s, &end, 10);
        if (end == s)
            break;
        hm_json_i64(j, NULL, v);
        s = *end == ',' ? end + 1 : end;
    }
    hm_json_close(j, ']');
}
