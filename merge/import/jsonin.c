/* JSON by pull.
 *
 * Box: merge/import. Source: RFC 8259. Looser where profilers are: control characters inside texts,
 * unknown escapes, nan and inf.
 */
#include "import/jsonin.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

enum { BUFFER = 256 * 1024 };
enum want { WANT_VALUE, WANT_FIRST, WANT_NEXT, WANT_COLON_VALUE, WANT_NOTHING };

struct hm_jsonin {
    gzFile file;
    char *path;
    uint8_t *buf;
    size_t pos, n;
    uint64_t before; /* bytes in front of the buffer, unpacked */
    uint64_t n_cut;
    uint8_t in_object[HM_JSON_MAX_DEPTH];
    uint32_t depth;
    enum want want;
    int failed, many, cut;
    char why[160];
    size_t len;
    char text[HM_JSON_MAX_TEXT + 1];
};

hm_status_t hm_jsonin_open(const char *path, struct hm_jsonin **json_p)
{
    struct stat st;
    if (stat(path, &st) == 0 &&
        !S_ISREG(st.st_mode)) /* it is read twice, and a pipe is waited for */
        return hm_fail(HM_E_DATA, path, "not a regular file; save the trace to a file first");
    struct hm_jsonin *j = calloc(1, sizeof(*j));
    if (!j)
        return hm_fail(HM_E_NOMEM, path, "out of memory");
    j->path = strdup(path);
    j->buf = malloc(BUFFER);
    if (!j->path || !j->buf) {
        hm_jsonin_close(j);
        return hm_fail(HM_E_NOMEM, path, "out of memory");
    }
    errno = 0;
    j->file = gzopen(path, "rbe");
    if (!j->file) {
        int e = errno;
        hm_jsonin_close(j);
        return hm_fail(HM_E_DATA, path, "cannot be read: %s", e ? strerror(e) : "out of memory");
    }
    *json_p = j;
    return HM_OK;
}

void hm_jsonin_close(struct hm_jsonin *j)
{
    if (!j)
        return;
    if (j->file)
        gzclose_r(j->file);
    free(j->path);
    free(j->buf);
    free(j);
}

void hm_jsonin_many(struct hm_jsonin *j)
{
    j->many = 1;
}

int hm_jsonin_is_cut(const struct hm_jsonin *j)
{
    return j->cut;
}

const char *hm_jsonin_text(const struct hm_jsonin *j, size_t *len_p)
{
    if (len_p)
        *len_p = j->len;
    return j->text;
}

uint64_t hm_jsonin_n_cut(const struct hm_jsonin *j)
{
    return j->n_cut;
}

const char *hm_jsonin_why(const struct hm_jsonin *j)
{
    return j->why;
}

hm_status_t hm_jsonin_fail(const struct hm_jsonin *j)
{
    return hm_fail(HM_E_DATA, j->path, "%s; copy the file again, or leave it out", j->why);
}

static enum hm_json fail(struct hm_jsonin *j, const char *what)
{
    if (!j->failed)
        snprintf(j->why, sizeof(j->why), "%s at byte %" PRIu64, what, j->before + j->pos);
    j->failed = 1;
    return HM_JSON_ERROR;
}

/* Next byte, -1 = the file is at its end or cannot be read. */
static int peek(struct hm_jsonin *j)
{
    if (j->pos < j->n)
        return j->buf[j->pos];
    j->before += j->n;
    j->pos = j->n = 0;
    int got = j->failed ? 0 : gzread(j->file, j->buf, BUFFER);
    int code = 0;
    const char *text = gzerror(j->file, &code);
    if (got < 0 && code != Z_BUF_ERROR) { /* Z_BUF_ERROR: the packed file ends too early */
        snprintf(j->why, sizeof(j->why), "cannot be unpacked after %" PRIu64 " bytes: %s",
                 j->before, code == Z_ERRNO ? strerror(errno) : text);
        j->failed = 1;
    }
    if (got <= 0)
        return -1;
    j->n = (size_t)got;
    return j->buf[0];
}

static int skip_space(struct hm_jsonin *j)
{
    int c;
    while ((c = peek(j)) == ' ' || c == '\n' || c == '\r' || c == '\t')
        j->pos++;
    return c;
}

static enum hm_json cut_off(struct hm_jsonin *j)
{
    j->cut = !j->failed;
    if (!j->before && !j->n)
        return fail(j, "empty file: ends");
    return fail(j, "cut off: the JSON is not complete, it ends");
}

static void put(struct hm_jsonin *j, uint8_t c, int *cut)
{
    if (j->len < HM_JSON_MAX_TEXT)
        j->text[j->len++] = (char)c;
    else
        *cut = 1;
}

static void put_utf8(struct hm_jsonin *j, uint32_t u, int *cut)
{
    if (!u || (u >= 0xd800 && u < 0xe000)) /* texts end with NUL; half a pair means nothing */
        u = 0xfffd;
    if (u < 0x80) {
        put(j, (uint8_t)u, cut);
        return;
    }
    if (u < 0x800) {
        put(j, (uint8_t)(0xc0 | u >> 6), cut);
    } else if (u < 0x10000) {
        put(j, (uint8_t)(0xe0 | u >> 12), cut);
        put(j, (uint8_t)(0x80 | (u >> 6 & 63)), cut);
    } else {
        put(j, (uint8_t)(0xf0 | u >> 18), cut);
        put(j, (uint8_t)(0x80 | (u >> 12 & 63)), cut);
        put(j, (uint8_t)(0x80 | (u >> 6 & 63)), cut);
    }
    put(j, (uint8_t)(0x80 | (u & 63)), cut);
}

/* Four hex digits; -1 = others. */
static int32_t hex4(struct hm_jsonin *j)
{
    int32_t v = 0;
    for (int i = 0; i < 4; i++) {
        int c = peek(j);
        int d = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : -1;
        if (d < 0)
            return -1;
        v = v * 16 + d;
        j->pos++;
    }
    return v;
}

/* Behind the backslash; 0 = trouble. */
static int escape(struct hm_jsonin *j, int *cut)
{
    static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
    int c = peek(j);
    if (c < 0)
        return 0;
    j->pos++;
    const char *p = c ? strchr(from, c) : NULL;
    if (c != 'u') {
        put(j, (uint8_t)(p ? to[p - from] : c ? c : '?'), cut);
        return 1;
    }
    int32_t u = hex4(j);
    while (u >= 0xd800 && u < 0xdc00 && peek(j) == '\\') { /* a pair */
        j->pos++;
        if (peek(j) != 'u') {
            put_utf8(j, 0xfffd, cut);
            return escape(j, cut);
        }
        j->pos++;
        int32_t low = hex4(j);
        if (low < 0)
            return 0;
        if (low >= 0xdc00 && low < 0xe000) {
            put_utf8(j, 0x10000 + ((uint32_t)u - 0xd800) * 1024 + ((uint32_t)low - 0xdc00), cut);
            return 1;
        }
        put_utf8(j, 0xfffd, cut);
        u = low;
    }
    if (u < 0)
        return 0;
    put_utf8(j, (uint32_t)u, cut);
    return 1;
}

/* Length without the beginning of a character whose end was cut off. */
static size_t whole_characters(const char *text, size_t len)
{
    size_t n = len;
    while (n && len - n < 3 && ((uint8_t)text[n - 1] & 0xc0) == 0x80)
        n--;
    if (!n)
        return len;
    uint8_t lead = (uint8_t)text[n - 1];
    size_t need = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
    return len - n + 1 < need ? n - 1 : len;
}

static enum hm_json read_string(struct hm_jsonin *j, enum hm_json token)
{
    int cut = 0;
    j->pos++;
    j->len = 0;
    for (;;) {
        int c = peek(j);
        if (c < 0)
            return cut_off(j);
        if (c == '"' || c == '\\') {
            j->pos++;
            if (c == '"')
                break;
            if (!escape(j, &cut))
                return peek(j) < 0 ? cut_off(j) : fail(j, "not JSON: a broken escape");
            continue;
        }
        size_t end = j->pos; /* the run of plain bytes in the buffer */
        while (end < j->n && j->buf[end] != '"' && j->buf[end] != '\\' && j->buf[end])
            end++;
        size_t n = end - j->pos, room = HM_JSON_MAX_TEXT - j->len;
        cut |= n > room;
        n = n > room ? room : n;
        memcpy(j->text + j->len, j->buf + j->pos, n);
        j->len += n;
        j->pos = end;
        if (end < j->n && !j->buf[end]) {
            put(j, '?', &cut);
            j->pos++;
        }
    }
    if (cut)
        j->len = whole_characters(j->text, j->len);
    j->n_cut += (uint64_t)cut;
    j->text[j->len] = 0;
    return token;
}

static int is_word(int c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '+' ||
           c == '-' || c == '.';
}

static enum hm_json read_word(struct hm_jsonin *j)
{
    static const char *const odd[] = {"nan",      "-nan", "NaN",       "-NaN",    "inf",
                                      "Infinity", "-inf", "-Infinity", "infinity"};
    int c, cut = 0;
    j->len = 0;
    while (is_word(c = peek(j))) {
        put(j, (uint8_t)c, &cut);
        j->pos++;
    }
    j->text[j->len] = 0;
    if (!j->len)
        return c < 0 ? cut_off(j) : fail(j, "not JSON: a stray character");
    if (c < 0)
        return cut_off(j); /* the last word may be half of one */
    if (!strcmp(j->text, "true"))
        return HM_JSON_TRUE;
    if (!strcmp(j->text, "false"))
        return HM_JSON_FALSE;
    if (!strcmp(j->text, "null"))
        return HM_JSON_NULL;
    const char *p = j->text + (j->text[0] == '-');
    if (*p >= '0' && *p <= '9' && strspn(p, "0123456789+-.eE") == strlen(p))
        return HM_JSON_NUMBER;
    for (size_t i = 0; i < sizeof(odd) / sizeof(*odd); i++)
        if (!strcmp(j->text, odd[i]))
            return HM_JSON_NUMBER;
    return fail(j, "not JSON: an unknown word");
}

static enum hm_json after_value(struct hm_jsonin *j, enum hm_json token)
{
    if (token != HM_JSON_ERROR)
        j->want = j->depth ? WANT_NEXT : WANT_NOTHING;
    return token;
}

static enum hm_json read_value(struct hm_jsonin *j, int c)
{
    if (c == '{' || c == '[') {
        if (j->depth == HM_JSON_MAX_DEPTH)
            return fail(j, "nested too deeply");
        j->in_object[j->depth++] = c == '{';
        j->want = WANT_FIRST;
        j->pos++;
        return c == '{' ? HM_JSON_OBJECT : HM_JSON_ARRAY;
    }
    return after_value(j, c == '"' ? read_string(j, HM_JSON_STRING) : read_word(j));
}

static enum hm_json close_one(struct hm_jsonin *j)
{
    int object = j->in_object[--j->depth];
    j->pos++;
    return after_value(j, object ? HM_JSON_OBJECT_END : HM_JSON_ARRAY_END);
}

enum hm_json hm_jsonin_next(struct hm_jsonin *j)
{
    if (j->failed)
        return HM_JSON_ERROR;
    int c = skip_space(j);
    if (j->want == WANT_NOTHING && j->many && c >= 0)
        j->want = WANT_VALUE;
    if (j->want == WANT_NOTHING)
        return c < 0 ? (j->failed ? HM_JSON_ERROR : HM_JSON_END)
                     : fail(j, "not JSON: something behind the end");
    if (c < 0)
        return cut_off(j);
    if (j->want == WANT_COLON_VALUE) {
        if (c != ':')
            return fail(j, "not JSON: no colon");
        j->pos++;
        c = skip_space(j);
        return c < 0 ? cut_off(j) : read_value(j, c);
    }
    if (j->want == WANT_FIRST || j->want == WANT_NEXT) {
        int object = j->in_object[j->depth - 1], end = object ? '}' : ']';
        if (c == end)
            return close_one(j);
        if (j->want == WANT_NEXT) {
            if (c != ',')
                return fail(j, "not JSON: no comma");
            j->pos++;
            c = skip_space(j);
            if (c < 0)
                return cut_off(j);
            if (c == end) /* a comma too many: some writers */
                return close_one(j);
        }
        if (object) {
            if (c != '"')
                return fail(j, "not JSON: a key has no quotes");
            if (read_string(j, HM_JSON_KEY) == HM_JSON_ERROR)
                return HM_JSON_ERROR;
            j->want = WANT_COLON_VALUE;
            return HM_JSON_KEY;
        }
    }
    return read_value(j, c);
}

int hm_jsonin_skip(struct hm_jsonin *j, enum hm_json token)
{
    uint32_t depth = 0;
    for (;;) {
        if (token == HM_JSON_ERROR || token == HM_JSON_END)
            return 0;
        if (token == HM_JSON_OBJECT || token == HM_JSON_ARRAY)
            depth++;
        else if (token == HM_JSON_OBJECT_END || token == HM_JSON_ARRAY_END)
            depth--;
        if (!depth && token != HM_JSON_KEY)
            return 1;
        token = hm_jsonin_next(j);
    }
}

int hm_decimal(const char *text, int shift, int64_t *value_p)
{
    int negative = *text == '-', any = 0, round = 0;
    const char *p = text + (negative || *text == '+');
    const char *e = p + strcspn(p, "eE");
    if (*e) { /* the exponent moves the point */
        char *end;
        errno = 0;
        long x = strtol(e + 1, &end, 10);
        if (errno || end == e + 1 || *end || x < -1000 || x > 1000)
            return 0;
        shift += (int)x;
    }
    const char *point = memchr(p, '.', (size_t)(e - p));
    long n_whole = (point ? point : e) - p; /* digits in front of the point */
    long keep = n_whole + shift;            /* digits that count after the shift */
    uint64_t v = 0;
    long i = 0;
    for (const char *q = p; q < e; q++) {
        if (q == point)
            continue;
        if (*q < '0' || *q > '9')
            return 0;
        any = 1;
        if (i < keep && (__builtin_mul_overflow(v, 10, &v) ||
                         __builtin_add_overflow(v, (uint64_t)(*q - '0'), &v)))
            return 0;
        if (i == keep)
            round = *q >= '5';
        i++;
    }
    if (!any)
        return 0;
    for (; i < keep && v; i++)
        if (__builtin_mul_overflow(v, 10, &v))
            return 0;
    v += (uint64_t)round;
    if (v > INT64_MAX)
        return 0;
    *value_p = negative ? -(int64_t)v : (int64_t)v;
    return 1;
}
