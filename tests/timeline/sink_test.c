/* Lanes and the Chrome sink without reader and engine. Expected text: by hand from the format's
 * rules.
 */
#include "timeline/chrome.h"
#include "timeline/lanes.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- lanes ---- */

static char announced[1024];

static hm_status_t note_lane(struct hm_sink *sink, const struct hm_lane *lane)
{
    (void)sink;
    size_t n = strlen(announced);
    snprintf(announced + n, sizeof(announced) - n, "%u=%s;", lane->id, lane->name);
    return HM_OK;
}

static const struct hm_sink_ops note_ops = {.lane = note_lane};

struct place {
    int64_t t, end;
    uint32_t lane;
};

static void place_all(enum hm_lane_type type, const struct place *p, size_t n, const char *lanes)
{
    struct hm_sink sink = {&note_ops};
    struct hm_lanes *l;
    uint32_t track, again, lane;
    announced[0] = 0;
    cr_assert_eq(hm_lanes_create(3, &sink, &l), HM_OK);
    cr_assert_eq(hm_lanes_track(l, type, 9, "x", &track), HM_OK);
    cr_assert_eq(hm_lanes_track(l, type, 9, "other", &again), HM_OK);
    cr_assert_eq(track, again);
    for (size_t i = 0; i < n; i++) {
        cr_assert_eq(hm_lanes_place(l, track, p[i].t, p[i].end, &lane), HM_OK);
        cr_expect_eq(lane, p[i].lane, "slice %zu is on lane %u, expected %u", i, lane, p[i].lane);
    }
    cr_expect_str_eq(announced, lanes);
    hm_lanes_destroy(l);
}

Test(lanes, a_stream_shows_nothing_inside_another)
{
    static const struct place p[] = {{0, 10, 1},  {2, 5, 2},   {3, 4, 3},   {5, 9, 2},
                                     {10, 12, 1}, {11, 13, 2}, {12, 12, 1}, {13, 20, 1}};
    place_all(HM_LANE_STREAM, p, sizeof(p) / sizeof(p[0]), "1=x;2=x (2);3=x (3);");
}

Test(lanes, a_thread_nests_and_splits_only_what_crosses)
{
    static const struct place p[] = {{0, 100, 1}, {0, 50, 1},   {10, 50, 1},  {20, 60, 2},
                                     {50, 90, 1}, {95, 101, 2}, {100, 101, 1}};
    place_all(HM_LANE_HOST, p, sizeof(p) / sizeof(p[0]), "1=x;2=x (2);");
}

/* ---- the sink ---- */

const char *hm_run_string(const struct hm_run *run, uint32_t id)
{
    static char text[128];
    const void *bytes;
    uint32_t len;
    if (hm_defs_get(&run->names, HM_DEF_STRING, id, &bytes, &len))
        return "";
    memcpy(text, bytes, len);
    text[len] = 0;
    return text;
}

static char folder[64];

static void make_folder(void)
{
    snprintf(folder, sizeof(folder), "/tmp/timeline-sink-XXXXXX");
    cr_assert(mkdtemp(folder));
}

static void path_in(char out[128], const char *name)
{
    snprintf(out, 128, "%s/%s", folder, name);
}

static size_t slurp(const char *name, char *out, size_t cap)
{
    char path[128];
    path_in(path, name);
    FILE *f = fopen(path, "r");
    cr_assert(f);
    size_t n = fread(out, 1, cap - 1, f);
    out[n] = 0;
    fclose(f);
    return n;
}

static uint32_t intern(struct hm_run *run, const char *s)
{
    return hm_defs_intern(&run->names, HM_DEF_STRING, s, (uint32_t)strlen(s));
}

Test(chrome, every_line_by_hand, .init = make_folder)
{
    static const uint32_t cap[HM_N_DEFS] = {64, 8, 8, 8, 8, 8};
    struct hm_rank_info info = {.rank = 4, .device = 2, .host = "a\"b"};
    struct hm_rank_meta meta = {.start_raw_ns = 400, .start_real_ns = 1700000000000000000};
    struct hm_run run = {.n_ranks = 6, .n_present = 1, .rank = &info, .meta = &meta};
    struct hm_outfile *out;
    struct hm_sink *sink;
    char path[128], text[4096];
    path_in(path, "t.json");
    cr_assert_eq(hm_defs_create(cap, 4096, &run.names), HM_OK);
    cr_assert_eq(hm_outfile_create(path, 0, &out), HM_OK);
    cr_assert_eq(hm_chrome_create(out, 1000, &sink), HM_OK);
    cr_assert_eq(sink->ops->head(sink, &run), HM_OK);
    struct hm_lane lane = {.name = "stream 7", .rank = 4, .id = 3, .sort = 11};
    sink->ops->lane(sink, &lane);
    struct hm_arg arg[] = {
        {.key = HM_ARG_COMM, .type = HM_ARG_HEX, .v.u = 0xabc},
        {.key = HM_ARG_SEQ, .type = HM_ARG_U64, .v.u = 18446744073709551615u},
        {.key = HM_ARG_PEER, .type = HM_ARG_I64, .v.i = INT64_MIN},
        {.key = HM_ARG_VALUE, .type = HM_ARG_F64, .v.f = 0.0 / 0.0},
        {.key = HM_ARG_GRID, .type = HM_ARG_DIM3, .v.u = 3ull << 48 | 2ull << 32 | 1}};
    struct hm_row row = {.t_ns = 1000,
                         .dur_ns = 999,
                         .lane = 3,
                         .name = intern(&run, "k\x01\"\\\xc3\xa4\xed\xa0\x80"),
                         .number = HM_NO_ID,
                         .type = HM_ROW_SLICE,
                         .category = HM_CAT_NCCL,
                         .n_args = 5,
                         .arg = arg};
    sink->ops->row(sink, &row);
    row = (struct hm_row){.t_ns = 9007199254741993 + 1000,
                          .lane = 3,
                          .number = 7,
                          .dur_ns = 1000001,
                          .name = intern(&run, "step"),
                          .category = HM_CAT_STEP};
    sink->ops->row(sink, &row);
    row = (struct hm_row){.t_ns = 995, .lane = 3, .type = HM_ROW_FLOW_END, .flow = 0x1f};
    sink->ops->row(sink, &row);
    row.type = HM_ROW_FLOW_BEGIN;
    sink->ops->row(sink, &row);
    row = (struct hm_row){.t_ns = 2000,
                          .lane = 3,
                          .type = HM_ROW_INSTANT,
                          .number = HM_NO_ID,
                          .name = HM_NO_ID,
                          .category = HM_CAT_RANGE};
    sink->ops->row(sink, &row);
    cr_assert_eq(sink->ops->rank_end(sink, 4), HM_OK);
    cr_assert_eq(sink->ops->tail(sink), HM_OK);
    hm_chrome_destroy(sink);
    cr_assert(access(path, F_OK) != 0, "there before it is whole");
    cr_assert_eq(hm_outfile_commit(out), HM_OK);
    hm_defs_destroy(&run.names);
    slurp("t.json", text, sizeof(text));
    cr_expect_str_eq(
        text,
        "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n"
        "{\"ph\":\"M\",\"pid\":5,\"tid\":0,\"name\":\"process_name\",\"args\":{\"name\":\"rank 4 a\\\"b gpu2\"}},\n"
        "{\"ph\":\"M\",\"pid\":5,\"tid\":0,\"name\":\"process_sort_index\",\"args\":{\"sort_index\":4}},\n"
        "{\"ph\":\"M\",\"pid\":5,\"tid\":3,\"name\":\"thread_name\",\"args\":{\"name\":\"stream 7\"}},\n"
        "{\"ph\":\"M\",\"pid\":5,\"tid\":3,\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":11}},\n"
        "{\"ph\":\"X\",\"pid\":5,\"tid\":3,\"ts\":0.000,\"dur\":0.999023437500,\"cat\":\"nccl\","
        "\"name\":\"k\\u0001\\\"\\\\\xc3\xa4\\ufffd\\ufffd\\ufffd\",\"args\":{\"comm\":\"0000000000000abc\","
        "\"seq\":18446744073709551615,\"peer\":-9223372036854775808,\"value\":null,\"grid\":\"[1, 2, 3]\"}},\n"
        "{\"ph\":\"X\",\"pid\":5,\"tid\":3,\"ts\":9007199254741.992919921875,"
        "\"dur\":1000.000976562500,\"cat\":\"step\",\"name\":\"step 7\"},\n"
        "{\"ph\":\"s\",\"pid\":5,\"tid\":3,\"ts\":-0.004882812500,\"cat\":\"late\",\"name\":\"late\",\"id\":\"0x000000000000001f\"},\n"
        "{\"ph\":\"i\",\"pid\":5,\"tid\":3,\"ts\":1.000,\"s\":\"t\",\"cat\":\"range\",\"name\":\"unknown\"},\n"
        "{\"ph\":\"f\",\"pid\":5,\"tid\":3,\"ts\":-0.004882812500,\"bp\":\"e\",\"cat\":\"late\",\"name\":\"late\",\"id\":\"0x000000000000001f\"}\n"
        "],\"baseTimeNanoseconds\":1700000000000000600,\"metadata\":{\"producer\":\"hindmost " HM_VERSION
        "\",\"ranks_present\":1,\"ranks_expected\":6}}\n");
    unlink(path);
    rmdir(folder);
}

/* ---- the file ---- */

Test(outfile, replaces_at_the_end_or_not_at_all, .init = make_folder)
{
    char path[128], text[64];
    struct hm_outfile *f;
    struct stat sb;
    path_in(path, "x");
    mode_t old = umask(027);
    cr_assert_eq(hm_outfile_create(path, 0, &f), HM_OK);
    hm_outfile_write(f, "one", 3);
    cr_assert_eq(hm_outfile_commit(f), HM_OK);
    cr_assert_eq(hm_outfile_create(path, 0, &f), HM_OK);
    hm_outfile_write(f, "two", 3);
    hm_outfile_discard(f);
    slurp("x", text, sizeof(text));
    cr_expect_str_eq(text, "one");
    cr_assert_eq(stat(path, &sb), 0);
    cr_expect_eq(sb.st_mode & 0777, 0640);
    umask(old);
    cr_expect_eq(unlink(path), 0);
    cr_expect_eq(rmdir(folder), 0, "something was left behind");
}

Test(outfile, a_full_disk_is_an_error)
{
    struct hm_outfile *f;
    cr_assert_eq(hm_outfile_create("/dev/full", 0, &f), HM_OK);
    for (int i = 0; i < 3; i++) {
        static char block[1 << 20];
        hm_outfile_write(f, block, sizeof(block));
    }
    cr_expect_eq(hm_outfile_commit(f), HM_E_IO);
}
