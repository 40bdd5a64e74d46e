/* Chrome trace JSON, held to the rules of Perfetto's, catapult's and Python's readers.
 *
 * Box: merge/timeline. One thread per sink.
 * Object form, strict JSON; X events, flows s and f, instants, counters and metadata, no B and E;
 * pid = rank + 1 (0 is special to Perfetto). Times are us relative to the run's first instant, by
 * integer arithmetic on a grid of 2^-12 us: exact when rounded to ns, and exact as doubles (up to
 * 25 days), so that a reader that adds ts and dur meets the ts of the slice that follows. A rank's
 * part is one gzip member. The ends of all arrows come after all ranks, so that every s stands
 * before its f.
 */
#include "timeline/chrome.h"

#include "out/name.h"
#include "out/utf8.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct text {
    char *bytes;
    uint32_t len;
};
struct chrome {
    struct hm_sink sink;
    const struct hm_run *run;
    struct hm_outfile *out, *arrows;
    int64_t base_ns;
    uint32_t rank, n_names;
    struct text *name; /* escaped, by string id */
    struct hm_chrome_count count;
    size_t n;
    char line[8192];
};

/* ---- pieces of a line ---- */

static void put(struct chrome *c, const char *bytes, size_t n)
{
    if (n > sizeof(c->line) - c->n)
        n = sizeof(c->line) - c->n;
    memcpy(c->line + c->n, bytes, n);
    c->n += n;
}

static void put_text(struct chrome *c, const char *s)
{
    put(c, s, strlen(s));
}

static void put_u64(struct chrome *c, uint64_t v)
{
    char d[20];
    size_t i = sizeof(d);
    do
        d[--i] = (char)('0' + v % 10);
    while (v /= 10);
    put(c, d + i, sizeof(d) - i);
}

static void put_i64(struct chrome *c, int64_t v)
{
    if (v < 0)
        put(c, "-", 1);
    put_u64(c, v < 0 ? 0 - (uint64_t)v : (uint64_t)v);
}

/* ns -> ticks of 2^-12 us, the nearest (none lies halfway: 1 ns = 512/125 ticks). */
static int64_t ticks_of(int64_t ns)
{
    uint64_t v = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;
    uint64_t whole = v / 125;
    whole = whole < UINT64_C(1) << 53 ? whole : UINT64_C(1) << 53; /* 35 years */
    int64_t ticks = (int64_t)(whole * 512 + (v % 125 * 512 + 62) / 125);
    return ns < 0 ? -ticks : ticks;
}

/* Ticks as us: three decimals where they are exact, else all twelve (1 tick = 5^12 / 10^12 us). */
static void put_ticks(struct chrome *c, int64_t ticks)
{
    uint64_t v = ticks < 0 ? 0 - (uint64_t)ticks : (uint64_t)ticks;
    uint64_t rest = v % 4096 * 244140625;
    char digit[13];
    digit[0] = '.';
    for (int i = 12; i > 0; i--, rest /= 10)
        digit[i] = (char)('0' + rest % 10);
    if (ticks < 0)
        put(c, "-", 1);
    put_u64(c, v / 4096);
    put(c, digit, v % 512 ? 13 : 4);
}

static void put_hex(struct chrome *c, uint64_t v, int digits)
{
    for (int i = digits - 1; i >= 0; i--)
        put(c, &"0123456789abcdef"[v >> (4 * i) & 15], 1);
}

/* Escapes the first len bytes of a text that ends with NUL, for a JSON string; at most 6 bytes for
 * one. */
static uint32_t escape(const char *s, size_t len, char *out)
{
    char *o = out;
    for (size_t i = 0; i < len;) {
        unsigned char ch = (unsigned char)s[i];
        size_t n = (size_t)hm_utf8((const unsigned char *)s + i);
        n = n > len - i ? 0 : n; /* cut in the middle */
        if (ch == '"' || ch == '\\') {
            *o++ = '\\';
            *o++ = (char)ch;
        } else if (ch < 0x20 || ch == 0x7f) {
            memcpy(o, "\\u00", 4);
            o[4] = "0123456789abcdef"[ch >> 4];
            o[5] = "0123456789abcdef"[ch & 15];
            o += 6;
        } else if (!n) {
            memcpy(o, "\\ufffd", 6);
            o += 6;
        } else {
            memcpy(o, s + i, n);
            o += n;
        }
        i += n ? n : 1;
    }
    return (uint32_t)(o - out);
}

static const struct text *name_text(struct chrome *c, uint32_t id)
{
    static const struct text unknown = {(char *)(uintptr_t) "unknown", 7};
    if (id == HM_NO_ID)
        return &unknown;
    if (id >= c->n_names) {
        uint32_t n = id < 1024 ? 1024 : id * 2;
        struct text *more = realloc(c->name, n * sizeof(*more));
        if (!more)
            return &unknown;
        memset(more + c->n_names, 0, (n - c->n_names) * sizeof(*more));
        c->name = more;
        c->n_names = n;
    }
    struct text *t = &c->name[id];
    if (!t->bytes) {
        char plain[1001];
        const char *s = hm_name_pretty(hm_run_string(c->run, id), plain, sizeof(plain));
        size_t len = strlen(s);
        t->bytes = malloc(len * 6 + 1);
        if (!t->bytes)
            return &unknown;
        t->len = escape(s, len, t->bytes);
    }
    return t;
}

static void put_name(struct chrome *c, uint32_t id)
{
    const struct text *t = name_text(c, id);
    put(c, t->bytes, t->len);
}

static void put_string(struct chrome *c, const char *s)
{
    char text[512 * 6];
    size_t len = strlen(s);
    put(c, "\"", 1);
    put(c, text, escape(s, len > 512 ? 512 : len, text));
    put(c, "\"", 1);
}

static void flush_line(struct chrome *c, struct hm_outfile *out)
{
    hm_outfile_write(out, c->line, c->n);
    c->n = 0;
}

static void put_place(struct chrome *c, const char *ph, const struct hm_row *row)
{
    put_text(c, ",\n{\"ph\":\"");
    put_text(c, ph);
    put_text(c, "\",\"pid\":");
    put_u64(c, (uint64_t)c->rank + 1);
    put_text(c, ",\"tid\":");
    put_u64(c, row->lane);
    put_text(c, ",\"ts\":");
    put_ticks(c, ticks_of(row->t_ns - c->base_ns));
}

/* ---- rows ---- */

static void put_f64(struct chrome *c, double v)
{
    char text[40];
    if (v != v || v > 1e300 || v < -1e300) { /* JSON has no such numbers */
        put_text(c, "null");
        return;
    }
    snprintf(text, sizeof(text), "%.9g", v);
    put_text(c, text);
}

static void put_arg(struct chrome *c, const struct hm_arg *a)
{
    put(c, "\"", 1);
    put_text(c, hm_arg_name((enum hm_arg_key)a->key));
    put(c, "\":", 2);
    switch ((enum hm_arg_type)a->type) {
    case HM_ARG_I64:
        put_i64(c, a->v.i);
        break;
    case HM_ARG_U64:
        put_u64(c, a->v.u);
        break;
    case HM_ARG_F64:
        put_f64(c, a->v.f);
        break;
    case HM_ARG_HEX:
        put(c, "\"", 1);
        put_hex(c, a->v.u, 16);
        put(c, "\"", 1);
        break;
    case HM_ARG_NAME:
        put(c, "\"", 1);
        put_name(c, a->name);
        put(c, "\"", 1);
        break;
    case HM_ARG_DIM3:
        put_text(c, "\"[");
        put_u64(c, a->v.u & 0xffffffff);
        put_text(c, ", ");
        put_u64(c, a->v.u >> 32 & 0xffff);
        put_text(c, ", ");
        put_u64(c, a->v.u >> 48);
        put_text(c, "]\"");
        break;
    }
}

static void put_label(struct chrome *c, const struct hm_row *row)
{
    put_text(c, ",\"cat\":\"");
    put_text(c, hm_category_name((enum hm_category)row->category));
    put_text(c, "\",\"name\":\"");
    put_name(c, row->name);
    if (row->number != HM_NO_ID) {
        put(c, " ", 1);
        put_u64(c, row->number);
    }
    put(c, "\"", 1);
}

static void put_args(struct chrome *c, const struct hm_row *row)
{
    if (!row->n_args)
        return;
    put_text(c, ",\"args\":{");
    for (uint8_t i = 0; i < row->n_args; i++) {
        if (i)
            put(c, ",", 1);
        put_arg(c, &row->arg[i]);
    }
    put(c, "}", 1);
}

static void put_arrow(struct chrome *c, const struct hm_row *row, int end)
{
    put_place(c, end ? "f" : "s", row);
    if (end)
        put_text(c, ",\"bp\":\"e\"");
    put_text(c, ",\"cat\":\"late\",\"name\":\"late\",\"id\":\"0x");
    put_hex(c, row->flow, 16);
    put_text(c, "\"}");
    flush_line(c, end ? c->arrows : c->out);
    c->count.arrows += (uint64_t)end;
}

/* End of a slice relative to the base, however long it claims to be. */
static int64_t end_of(const struct chrome *c, const struct hm_row *row)
{
    int64_t end;
    if (__builtin_add_overflow(row->t_ns - c->base_ns, row->dur_ns, &end))
        return INT64_MAX;
    return end;
}

static hm_status_t chrome_row(struct hm_sink *sink, const struct hm_row *row)
{
    struct chrome *c = (struct chrome *)sink;
    switch ((enum hm_row_type)row->type) {
    case HM_ROW_FLOW_BEGIN:
    case HM_ROW_FLOW_END:
        put_arrow(c, row, row->type == HM_ROW_FLOW_END);
        return HM_OK;
    case HM_ROW_COUNTER:
        put_place(c, "C", row);
        break;
    case HM_ROW_INSTANT:
        put_place(c, "i", row);
        put_text(c, ",\"s\":\"t\"");
        c->count.slices++;
        break;
    case HM_ROW_SLICE:
        put_place(c, "X", row);
        put_text(c, ",\"dur\":");
        /* end less begin, not the length: it then ends exactly where the next one begins */
        put_ticks(c, ticks_of(end_of(c, row)) - ticks_of(row->t_ns - c->base_ns));
        c->count.slices++;
        c->count.waits += row->category == HM_CAT_WAIT;
        break;
    }
    put_label(c, row);
    put_args(c, row);
    put(c, "}", 1);
    flush_line(c, c->out);
    return HM_OK;
}

/* ---- metadata ---- */

static void put_meta(struct chrome *c, uint32_t rank, uint32_t lane, const char *what)
{
    put_text(c, "{\"ph\":\"M\",\"pid\":");
    put_u64(c, (uint64_t)rank + 1);
    put_text(c, ",\"tid\":");
    put_u64(c, lane);
    put_text(c, ",\"name\":\"");
    put_text(c, what);
    put_text(c, "\",\"args\":{");
}

static hm_status_t chrome_head(struct hm_sink *sink, const struct hm_run *run)
{
    struct chrome *c = (struct chrome *)sink;
    c->run = run;
    put_text(c, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
    for (uint32_t i = 0; i < run->n_present; i++) {
        const struct hm_rank_info *info = &run->rank[i];
        char name[160];
        int n = snprintf(name, sizeof(name), "rank %d %.100s", info->rank,
                         info->host ? info->host : "?");
        if (info->device >= 0 && n > 0 && (size_t)n < sizeof(name))
            snprintf(name + n, sizeof(name) - (size_t)n, " gpu%d", info->device);
        if (i)
            put_text(c, ",\n");
        put_meta(c, (uint32_t)info->rank, 0, "process_name");
        put_text(c, "\"name\":");
        put_string(c, name);
        put_text(c, "}},\n");
        put_meta(c, (uint32_t)info->rank, 0, "process_sort_index");
        put_text(c, "\"sort_index\":");
        put_i64(c, info->rank);
        put_text(c, "}}");
        flush_line(c, c->out);
    }
    return hm_outfile_member(c->out);
}

static hm_status_t chrome_lane(struct hm_sink *sink, const struct hm_lane *lane)
{
    struct chrome *c = (struct chrome *)sink;
    c->rank = lane->rank;
    put_text(c, ",\n");
    put_meta(c, lane->rank, lane->id, "thread_name");
    put_text(c, "\"name\":");
    put_string(c, lane->name);
    put_text(c, "}},\n");
    put_meta(c, lane->rank, lane->id, "thread_sort_index");
    put_text(c, "\"sort_index\":");
    put_u64(c, lane->sort);
    put_text(c, "}}");
    flush_line(c, c->out);
    return HM_OK;
}

static hm_status_t chrome_rank_end(struct hm_sink *sink, uint32_t rank)
{
    (void)rank;
    return hm_outfile_member(((struct chrome *)sink)->out);
}

/* The real time of instant 0, from the first rank's pair of clocks. */
static int64_t base_real(const struct chrome *c)
{
    const struct hm_rank_meta *m = c->run->meta;
    return m && m->start_real_ns ? m->start_real_ns + (c->base_ns - m->start_raw_ns) : 0;
}

static hm_status_t chrome_tail(struct hm_sink *sink)
{
    struct chrome *c = (struct chrome *)sink;
    hm_status_t st = hm_outfile_append(c->out, c->arrows);
    if (st)
        return st;
    put_text(c, "\n],\"baseTimeNanoseconds\":");
    put_i64(c, base_real(c));
    put_text(c, ",\"metadata\":{\"producer\":\"hindmost " HM_VERSION "\",\"ranks_present\":");
    put_u64(c, c->run->n_present);
    put_text(c, ",\"ranks_expected\":");
    put_u64(c, c->run->n_ranks);
    put_text(c, "}}\n");
    flush_line(c, c->out);
    return hm_outfile_member(c->out);
}

static const struct hm_sink_ops chrome_ops = {.suffix = ".json",
                                              .head = chrome_head,
                                              .lane = chrome_lane,
                                              .row = chrome_row,
                                              .rank_end = chrome_rank_end,
                                              .tail = chrome_tail};

hm_status_t hm_chrome_create(struct hm_outfile *out, int64_t base_ns, struct hm_sink **sink_p)
{
    struct chrome *c = calloc(1, sizeof(*c));
    if (!c)
        return hm_fail(HM_E_NOMEM, "merge", "out of memory");
    hm_status_t st = hm_outfile_side(out, &c->arrows);
    if (st) {
        free(c);
        return st;
    }
    c->sink.ops = &chrome_ops;
    c->out = out;
    c->base_ns = base_ns;
    *sink_p = &c->sink;
    return HM_OK;
}

void hm_chrome_count(const struct hm_sink *sink, struct hm_chrome_count *count_p)
{
    *count_p = ((const struct chrome *)sink)->count;
}

void hm_chrome_destroy(struct hm_sink *sink)
{
    struct chrome *c = (struct chrome *)sink;
    if (!c)
        return;
    for (uint32_t i = 0; i < c->n_names; i++)
        free(c->name[i].bytes);
    free(c->name);
    hm_outfile_discard(c->arrows);
    free(c);
}
