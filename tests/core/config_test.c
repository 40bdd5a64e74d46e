/* Settings: sources, bad values, suggestions, text form. Box: tests/core. */
#include "core/config.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char said[8][300];
static int n_said;

static void hear(void *ctx, int level, hm_status_t status, const char *line)
{
    (void)ctx;
    (void)level;
    (void)status;
    if (n_said < 8)
        snprintf(said[n_said++], sizeof(said[0]), "%s", line);
}

static void listen_first(void)
{
    n_said = 0;
    hm_log_sink(hear, NULL);
}

static size_t index_of(const char *key)
{
    for (size_t i = 0; i < hm_n_settings; i++)
        if (!strcmp(hm_settings[i].key, key))
            return i;
    cr_assert(0, "no setting %s", key);
    return 0;
}

TestSuite(config, .init = listen_first);

Test(config, defaults)
{
    struct hm_config c;
    char *env[] = {(char *)"PATH=/bin", (char *)"HINDMOST=off", NULL};
    cr_assert_eq(hm_config_load(&c, NULL, NULL, env), HM_OK);
    cr_assert_eq(c.pool, 64 << 20);
    cr_assert_eq(c.exit_wait_ms, 10000);
    cr_assert_eq(c.flush_ms, 10000);
    cr_assert(c.kernels == 1 && c.memory == 0 && c.digest == 1);
    cr_assert_str_eq(c.out, "");
    cr_assert_eq(n_said, 0, "HINDMOST itself is no setting");
}

struct value {
    const char *env;
    int64_t pool, flush_ms, exit_wait_ms;
    int32_t kernels;
    hm_status_t status;
};

Test(config, values)
{
    static const struct value rows[] = {
        {"HINDMOST_POOL=16M", 16 << 20, 10000, 10000, 1, HM_OK},
        {"HINDMOST_POOL=8388608", 8 << 20, 10000, 10000, 1, HM_OK},
        {"HINDMOST_POOL=1GiB", 1 << 30, 10000, 10000, 1, HM_OK},
        {"HINDMOST_POOL=1k", 64 << 20, 10000, 10000, 1, HM_E_USAGE},
        {"HINDMOST_POOL=99999999999999999999", 64 << 20, 10000, 10000, 1, HM_E_USAGE},
        {"HINDMOST_POOL=-1", 64 << 20, 10000, 10000, 1, HM_E_USAGE},
        {"HINDMOST_POOL=", 64 << 20, 10000, 10000, 1, HM_E_USAGE},
        {"HINDMOST_FLUSH_MS=250", 64 << 20, 250, 10000, 1, HM_OK},
        {"HINDMOST_FLUSH_MS=1s", 64 << 20, 1000, 10000, 1, HM_OK},
        {"HINDMOST_EXIT_WAIT=3", 64 << 20, 10000, 3000, 1, HM_OK},
        {"HINDMOST_EXIT_WAIT=500ms", 64 << 20, 10000, 500, 1, HM_OK},
        {"HINDMOST_EXIT_WAIT_MS=500", 64 << 20, 10000, 500, 1, HM_OK},
        {"HINDMOST_KERNELS=off", 64 << 20, 10000, 10000, 0, HM_OK},
        {"HINDMOST_KERNELS=2", 64 << 20, 10000, 10000, 1, HM_E_USAGE},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct hm_config c;
        char *env[] = {(char *)rows[i].env, NULL};
        n_said = 0;
        cr_assert_eq(hm_config_load(&c, NULL, NULL, env), rows[i].status, "%s", rows[i].env);
        cr_assert_eq(n_said, rows[i].status ? 1 : 0, "%s", rows[i].env);
        cr_assert_eq(c.pool, rows[i].pool, "%s", rows[i].env);
        cr_assert_eq(c.flush_ms, rows[i].flush_ms, "%s", rows[i].env);
        cr_assert_eq(c.exit_wait_ms, rows[i].exit_wait_ms, "%s", rows[i].env);
        cr_assert_eq(c.kernels, rows[i].kernels, "%s", rows[i].env);
    }
}

Test(config, an_unknown_name_gets_a_suggestion_and_the_rest_counts)
{
    struct hm_config c;
    char *env[] = {(char *)"HINDMOST_KERNLES=0", (char *)"HINDMOST_POOL=16M",
                   (char *)"HINDMOST_QWERTZUIOP=1", NULL};
    cr_assert_eq(hm_config_load(&c, NULL, NULL, env), HM_E_USAGE);
    cr_assert_eq(n_said, 2);
    cr_assert_not_null(strstr(said[0], "HINDMOST_KERNLES"));
    cr_assert_not_null(strstr(said[0], "HINDMOST_KERNELS?"), "%s", said[0]);
    cr_assert_null(strstr(said[1], "did you mean"));
    cr_assert_eq(c.pool, 16 << 20);
}

Test(config, nearest_is_at_most_two_edits_away)
{
    cr_assert_str_eq(hm_config_nearest("pol"), "pool");
    cr_assert_str_eq(hm_config_nearest("flush-ns"), "flush_ms");
    cr_assert_str_eq(hm_config_nearest("diggest"), "digest");
    cr_assert_null(hm_config_nearest("pxyz"));
    cr_assert_null(hm_config_nearest(""));
}

Test(config, environment_goes_before_file_before_default)
{
    static const char text[] = "# ours\n\n pool = 32M \nflush_ms=500\nsteps = 3..5\nbogus = 1\n"
                               "no equals sign\n";
    char path[] = "/tmp/hm-config-XXXXXX";
    int fd = mkstemp(path);
    cr_assert(fd >= 0 && write(fd, text, sizeof(text) - 1) == (ssize_t)sizeof(text) - 1);
    close(fd);
    struct hm_config c;
    uint8_t origin[64];
    char *env[] = {(char *)"HINDMOST_FLUSH_MS=750", NULL};
    cr_assert_leq(hm_n_settings, 64);
    cr_assert_eq(hm_config_load(&c, origin, path, env), HM_E_USAGE);
    unlink(path);
    cr_assert(c.pool == 32 << 20 && c.flush_ms == 750);
    cr_assert_str_eq(c.steps, "3..5");
    cr_assert_eq(origin[index_of("pool")], HM_FROM_FILE);
    cr_assert_eq(origin[index_of("flush_ms")], HM_FROM_ENV);
    cr_assert_eq(origin[index_of("digest")], HM_FROM_DEFAULT);
    cr_assert_eq(n_said, 2);
    cr_assert_not_null(strstr(said[0], ":6: bogus"), "%s", said[0]);
    cr_assert_not_null(strstr(said[1], ":7: "), "%s", said[1]);
}

Test(config, text_form_comes_back_equal)
{
    struct hm_config c, back;
    char text[1024];
    char *env[] = {(char *)"HINDMOST_POOL=16M", (char *)"HINDMOST_OUT=/tmp/a run",
                   (char *)"HINDMOST_STEP_RANGE=", (char *)"HINDMOST_MEMORY=yes", NULL};
    cr_assert_eq(hm_config_load(&c, NULL, NULL, env), HM_OK);
    size_t n = hm_config_print(&c, text, sizeof(text));
    cr_assert_leq(n, sizeof(text));
    cr_assert_eq(text[n - 1], 0);
    cr_assert_eq(text[n - 2], 0);
    cr_assert_eq(hm_config_parse(&back, text, sizeof(text)), HM_OK);
    cr_assert_eq(back.pool, 16 << 20);
    cr_assert_str_eq(back.out, "/tmp/a run");
    cr_assert_str_eq(back.step_range, "", "an empty text is not the default");
    cr_assert(!memcmp(&c, &back, sizeof(c)));
    char small[16];
    cr_assert_eq(hm_config_print(&c, small, sizeof(small)), n, "what it would take");
    cr_assert_eq(hm_config_parse(&back, "pool\0", 6), HM_E_DATA);
    cr_assert_eq(hm_config_parse(&back, "nosuch=1\0", 10), HM_E_DATA);
}

Test(config, every_row_has_a_default_that_it_accepts)
{
    for (size_t i = 0; i < hm_n_settings; i++) {
        struct hm_config c;
        hm_config_load(&c, NULL, NULL, NULL);
        cr_assert_eq(hm_config_set(&c, hm_settings[i].key, hm_settings[i].def), HM_OK, "%s",
                     hm_settings[i].key);
        cr_assert_gt(strlen(hm_settings[i].help), 10);
    }
}
