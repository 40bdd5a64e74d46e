/* The JSON reader and the whole import under damaged input; exact decimals.
 *
 * usage: json_test FOLDER (for files). Exit 0 = passed.
 */
#include "import/import.h"
#include "import/jsonin.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int n_wrong;
#define CHECK(ok, ...)                              \
    do {                                            \
        if (!(ok)) {                                \
            n_wrong++;                              \
            fprintf(stderr, "line %d: ", __LINE__); \
            fprintf(stderr, __VA_ARGS__);           \
            fputc('\n', stderr);                    \
        }                                           \
    } while (0)

static char path[1000], run_path[1000];

static void put_file(const char *text, size_t len)
{
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(text, 1, len, f) != len || fclose(f)) {
        perror(path);
        exit(1);
    }
}

/* ---- decimals, worked out by hand ---- */

static const struct {
    const char *text;
    int shift, ok;
    int64_t value;
} decimal[] = {
    {"0", 3, 1, 0},
    {"12", 3, 1, 12000},
    {"-12.5", 3, 1, -12500},
    {"1.2344", 3, 1, 1234},
    {"1.2345", 3, 1, 1235},
    {"0.0004", 3, 1, 0},
    {"0.0005", 3, 1, 1},
    {"0.00005", 3, 1, 0},
    {"00012", 0, 1, 12},
    {"1e3", 0, 1, 1000},
    {"1.5E-1", 1, 1, 2},
    {"1694128201426556.789", 3, 1, INT64_C(1694128201426556789)},
    {"9223372036854775.807", 3, 1, INT64_MAX},
    {"9223372036854775.808", 3, 0, 0},
    {"9223372036854775807", 0, 1, INT64_MAX},
    {"9223372036854775808", 0, 0, 0},
    {"1e18", 0, 1, INT64_C(1000000000000000000)},
    {"1e19", 0, 0, 0},
    {"0e999", 0, 1, 0},
    {"1e9999", 0, 0, 0},
    {"1e-999", 0, 1, 0},
    {"", 0, 0, 0},
    {"-", 0, 0, 0},
    {".", 0, 0, 0},
    {".5", 1, 1, 5},
    {"5.", 0, 1, 5},
    {"1.2.3", 0, 0, 0},
    {"1e", 0, 0, 0},
    {"nan", 0, 0, 0},
    {"0x10", 0, 0, 0},
    {"1 ", 0, 0, 0},
};

static void decimals(void)
{
    for (size_t i = 0; i < sizeof(decimal) / sizeof(*decimal); i++) {
        int64_t v = 0;
        int ok = hm_decimal(decimal[i].text, decimal[i].shift, &v);
        CHECK(ok == decimal[i].ok && v == decimal[i].value, "\"%s\": %d %" PRId64, decimal[i].text,
              ok, v);
    }
}

/* ---- tokens; one letter each ---- */

static const struct {
    const char *json, *tokens, *text; /* text: of the last text token */
} good[] =
    {
        {" [ ] ", "[]$", ""},
        {"{\"a\": [1, -2.5e3, \"x\", true, false, null]}", "{k[nnstf0]}$", "x"},
        {"\"\"", "s$", ""},
        {"[1,]", "[n]$", "1"},
        {"{\"a\":nan,\"b\":-Infinity}", "{knkn}$", "-Infinity"},
        {"\"\\u0041\\n\\\\\\\"\\/\"", "s$", "A\n\\\"/"},
        {"\"\\u00e9\\u20ac\\ud83d\\ude00\"", "s$", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"},
        {"\"\\ud83d\\u0041\"", "s$",
         "\xef\xbf\xbd"
         "A"},
        {"\"a\\u0000b\"", "s$",
         "a\xef\xbf\xbd"
         "b"},
        {"\"tab\there\"", "s$", "tab\there"},
        {"[[[{}]]]", "[[[{}]]]$", ""},
},
  bad[] = {
      {"", "!", ""},         {"[", "[!", ""},          {"[1", "[!", ""},
      {"[1 2]", "[n!", ""},  {"{\"a\" 1}", "{k!", ""}, {"{1:2}", "{!", ""},
      {"[}", "[!", ""},      {"{]", "{!", ""},         {"\"abc", "!", ""},
      {"\"\\u12", "!", ""},  {"\"\\u12x4\"", "!", ""}, {"tru", "!", ""},
      {"[truth]", "[!", ""}, {"[] []", "[]!", ""},     {"'a'", "!", ""},
      {"[--]", "[!", ""},
};

static void walk(const char *json, size_t len, char tokens_p[64], char text_p[64])
{
    static const char letter[] = {'!', '$', '{', '}', '[', ']', 'k', 's', 'n', 't', 'f', '0'};
    struct hm_jsonin *j;
    size_t n = 0;
    put_file(json, len);
    text_p[0] = 0;
    if (hm_jsonin_open(path, &j))
        exit(1);
    enum hm_json token;
    do {
        token = hm_jsonin_next(j);
        if (n < 63)
            tokens_p[n++] = letter[token];
        if (token == HM_JSON_KEY || token == HM_JSON_STRING || token == HM_JSON_NUMBER)
            snprintf(text_p, 64, "%s", hm_jsonin_text(j, NULL));
    } while (token != HM_JSON_ERROR && token != HM_JSON_END);
    CHECK(hm_jsonin_next(j) == token, "another token behind the last");
    tokens_p[n] = 0;
    hm_jsonin_close(j);
}

static void tokens(void)
{
    char seen[64], text[64];
    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
        walk(good[i].json, strlen(good[i].json), seen, text);
        CHECK(!strcmp(seen, good[i].tokens), "%s: %s", good[i].json, seen);
        CHECK(!strcmp(text, good[i].text), "%s: text %s", good[i].json, text);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        walk(bad[i].json, strlen(bad[i].json), seen, text);
        CHECK(!strcmp(seen, bad[i].tokens), "%s: %s", bad[i].json, seen);
    }
    walk("\"a\0b\"", 5, seen, text);
    CHECK(!strcmp(seen, "s$") && !strcmp(text, "a?b"), "a NUL byte: %s %s", seen, text);
}

/* Longer than one buffer and than the longest text; a character is not cut in two. */
static void long_text(size_t n_before)
{
    size_t n = n_before + 700000;
    char *s = malloc(n + 2);
    struct hm_jsonin *j;
    if (!s)
        exit(1);
    s[0] = s[n + 1] = '"';
    memset(s + 1, 'a', n_before);
    for (size_t i = n_before + 1; i < n + 1; i += 2)
        memcpy(s + i, "\xc3\xa9", 2);
    put_file(s, n + 2);
    if (hm_jsonin_open(path, &j))
        exit(1);
    size_t len = 0, want = n_before + (HM_JSON_MAX_TEXT - n_before) / 2 * 2;
    CHECK(hm_jsonin_next(j) == HM_JSON_STRING, "%s", hm_jsonin_why(j));
    const char *text = hm_jsonin_text(j, &len);
    CHECK(len == want, "%zu bytes, not %zu", len, want);
    CHECK((uint8_t)text[len - 1] == 0xa9 && hm_jsonin_n_cut(j) == 1, "cut in a character");
    CHECK(hm_jsonin_next(j) == HM_JSON_END, "%s", hm_jsonin_why(j));
    hm_jsonin_close(j);
    free(s);
}

/* ---- damaged traces through the whole import: any answer, but an answer ---- */

static const char trace[] =
    "{\"schemaVersion\": 1, \"deviceProperties\": [{\"id\": 0, \"name\": \"GPU\", \"numSms\": 80}],"
    "\"distributedInfo\": {\"rank\": 0, \"world_size\": 2}, \"baseTimeNanoseconds\": 1000000000,"
    "\"traceEvents\": [{\"ph\": \"M\", \"name\": \"thread_name\", \"pid\": 5, \"tid\": 6, \"args\":"
    "{\"name\": \"main\"}}, {\"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\":"
    "\"cudaLaunchKernel\", \"pid\": 5, \"tid\": 6, \"ts\": 10.5, \"dur\": 3, \"args\": {\"correlation\":"
    "9}}, {\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"ncclDevKernel_AllReduce\", \"pid\": 0,"
    "\"tid\": 7, \"ts\": 12.25, \"dur\": 8.125, \"args\": {\"device\": 0, \"context\": 1, \"stream\":"
    "7, \"correlation\": 9, \"grid\": [1, 2, 3], \"block\": [32, 1, 1], \"Collective name\":"
    "\"allreduce\", \"Process Group Name\": \"0\", \"Process Group Ranks\": \"[0, 1]\", \"Group size\":"
    "2, \"dtype\": \"Float\", \"In msg nelems\": 64, \"Seq\": 3}}, {\"ph\": \"X\", \"cat\":"
    "\"gpu_memcpy\", \"name\": \"Memcpy HtoD (Pinned -> Device)\", \"pid\": 0, \"tid\": 7, \"ts\": 30,"
    "\"dur\": 1, \"args\": {\"device\": 0, \"stream\": 7, \"bytes\": 832}}, {\"ph\": \"X\", \"cat\":"
    "\"user_annotation\", \"name\": \"ProfilerStep#4\", \"pid\": 5, \"tid\": 6, \"ts\": 9, \"dur\":"
    "40}, {\"ph\": \"X\", \"cat\": \"cuda_sync\", \"name\": \"Stream Sync\", \"pid\": 0, \"tid\": 7,"
    "\"ts\": 33, \"dur\": 2, \"args\": {\"stream\": 7}}]}";

static void silent(void *ctx, int level, hm_status_t status, const char *line)
{
    (void)level;
    (void)status;
    (void)line;
    ++*(uint64_t *)ctx;
}

static hm_status_t import(void)
{
    const char *file = path;
    char h5[1100];
    hm_status_t s = hm_import_kineto(&file, 1, run_path);
    for (int rank = 0; rank < 100; rank++) { /* a damaged rank is some rank */
        snprintf(h5, sizeof(h5), "%s/rank-%05d.h5", run_path, rank);
        if (!unlink(h5))
            break;
    }
    return s;
}

static void damaged(void)
{
    uint64_t x = 88172645463325252ull, n_lines = 0;
    size_t n = sizeof(trace) - 1;
    char *s = malloc(n);
    int n_ok = 0, n_runs = 1500;
    if (!s)
        exit(1);
    put_file(trace, n);
    CHECK(import() == HM_OK, "the whole trace is refused");
    CHECK(!rmdir(run_path), "more than a rank file");
    hm_log_sink(silent, &n_lines);
    for (int i = 0; i < n_runs; i++) {
        memcpy(s, trace, n);
        size_t len = n;
        for (int k = 0; k < 1 + i % 4; k++) {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            size_t at = x % n;
            if (i % 3 == 0)
                s[at] = (char)(s[at] ^ 1 << (x >> 32) % 8);
            else if (i % 3 == 1)
                s[at] = "{}[],:\"\\0e-9."[(x >> 32) % 13];
            else
                len = at;
        }
        put_file(s, len);
        uint64_t before = n_lines;
        hm_status_t st = import();
        CHECK(st == HM_OK || st == HM_E_DATA, "run %d: %s", i, hm_status_name(st));
        CHECK(st == HM_OK ? n_lines == before : n_lines == before + 1, "run %d: %d lines", i,
              (int)(n_lines - before));
        n_ok += st == HM_OK;
        rmdir(run_path);
        CHECK(access(run_path, F_OK), "run %d: left something behind", i);
        if (!access(run_path, F_OK))
            break;
    }
    hm_log_sink(NULL, NULL);
    CHECK(n_ok > n_runs / 20 && n_ok < n_runs, "%d of %d accepted: the damage is no test", n_ok,
          n_runs);
    printf("%d damaged traces, %d still usable\n", n_runs, n_ok);
    free(s);
}

int main(int argc, char **argv)
{
    snprintf(path, sizeof(path), "%s/rank0-%d.json", argc > 1 ? argv[1] : ".", (int)getpid());
    snprintf(run_path, sizeof(run_path), "%s/rank0-%d.run", argc > 1 ? argv[1] : ".",
             (int)getpid());
    decimals();
    tokens();
    long_text(0);
    long_text(1);
    damaged();
    unlink(path);
    printf("%s\n", n_wrong ? "FAILED" : "passed");
    return n_wrong != 0;
}
