/* Settings: defaults, file, environment; nearest names; the text form in the pool.
 *
 * Box: lib/core. One thread at a time per struct. No strto*, sscanf: newer glibc gives them new
 * symbol versions, and the recorder must start with an old one.
 */
#include "core/config.h"

#include "core/text.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FIELD(f)     ((struct hm_config *)0)->f
#define FILE_BYTES   65536
#define LONGEST_NAME 40

#define HM_SETTING(field, type, def, min, max, unit, help)           \
    {#field,                                                         \
     HM_SET_##type,                                                  \
     (uint8_t)(sizeof(FIELD(field)) > 8 ? 0 : sizeof(FIELD(field))), \
     offsetof(struct hm_config, field),                              \
     (uint16_t)sizeof(FIELD(field)),                                 \
     def,                                                            \
     min,                                                            \
     max,                                                            \
     unit,                                                           \
     help},
const struct hm_setting hm_settings[] = {
#include "core/config.def"
};
#undef HM_SETTING
const size_t hm_n_settings = sizeof(hm_settings) / sizeof(hm_settings[0]);

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* Compares a name of len bytes without regard to case, '-' as '_'. */
static int same(const char *key, const char *name, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!key[i] || key[i] != (name[i] == '-' ? '_' : lower(name[i])))
            return 0;
    return !key[len];
}

/* *bare_p = 1: a time named without its "_ms" (HINDMOST_EXIT_WAIT=10s); a plain number is then
 * seconds. */
static const struct hm_setting *find(const char *name, size_t len, int *bare_p)
{
    char with_unit[LONGEST_NAME];
    *bare_p = 0;
    for (size_t i = 0; i < hm_n_settings; i++)
        if (same(hm_settings[i].key, name, len))
            return &hm_settings[i];
    if (len + 4 > sizeof(with_unit))
        return NULL;
    memcpy(with_unit, name, len);
    memcpy(with_unit + len, "_ms", 4);
    *bare_p = 1;
    for (size_t i = 0; i < hm_n_settings; i++)
        if (same(hm_settings[i].key, with_unit, len + 3))
            return &hm_settings[i];
    return NULL;
}

/* Digits, then a unit: the factor in units of the setting. */
static int parse_number(const struct hm_setting *set, int bare, const char *text, int64_t *value_p)
{
    static const struct {
        uint8_t type;
        const char *unit;
        int64_t factor;
    } units[] = {
        {HM_SET_INT, "", 1},           {HM_SET_SIZE, "", 1},          {HM_SET_SIZE, "k", 1 << 10},
        {HM_SET_SIZE, "m", 1 << 20},   {HM_SET_SIZE, "g", 1 << 30},   {HM_SET_SIZE, "kib", 1 << 10},
        {HM_SET_SIZE, "mib", 1 << 20}, {HM_SET_SIZE, "gib", 1 << 30}, {HM_SET_MS, "ms", 1},
        {HM_SET_MS, "s", 1000},        {HM_SET_MS, "min", 60000},
    };
    int64_t v = 0, factor = 0;
    const char *p = text;
    for (; *p >= '0' && *p <= '9'; p++)
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, *p - '0', &v))
            return 0;
    if (p == text)
        return 0;
    if (set->type == HM_SET_MS && !*p)
        factor = bare ? 1000 : 1;
    for (size_t i = 0; !factor && i < sizeof(units) / sizeof(units[0]); i++)
        if (units[i].type == set->type && same(units[i].unit, p, strlen(p)))
            factor = units[i].factor;
    if (!factor || __builtin_mul_overflow(v, factor, &v) || v < set->min || v > set->max)
        return 0;
    *value_p = v;
    return 1;
}

static int parse_bool(const char *text, int64_t *value_p)
{
    static const char *const words[] = {"0", "1", "off", "on", "no", "yes", "false", "true"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (same(words[i], text, strlen(text))) {
            *value_p = (int64_t)(i & 1);
            return 1;
        }
    }
    return 0;
}

static int store(struct hm_config *config, const struct hm_setting *set, int bare,
                 const char *value)
{
    char *at = (char *)config + set->offset;
    int64_t v;
    if (set->type == HM_SET_TEXT) {
        size_t len = strlen(value);
        if (len >= set->cap || strchr(value, '\n'))
            return 0;
        memset(at, 0, set->cap);
        memcpy(at, value, len);
        return 1;
    }
    if (!(set->type == HM_SET_BOOL ? parse_bool(value, &v) : parse_number(set, bare, value, &v)))
        return 0;
    if (set->bytes == sizeof(int32_t))
        *(int32_t *)(void *)at = (int32_t)v;
    else
        *(int64_t *)(void *)at = v;
    return 1;
}

static void defaults(struct hm_config *config_p)
{
    memset(config_p, 0, sizeof(*config_p));
    for (size_t i = 0; i < hm_n_settings; i++)
        store(config_p, &hm_settings[i], 0, hm_settings[i].def);
}

const char *hm_config_nearest(const char *key)
{
    const char *nearest = NULL;
    char plain[LONGEST_NAME + 1]; /* as the table writes names */
    size_t n = strlen(key);
    unsigned best = 3;
    if (n > LONGEST_NAME)
        return NULL;
    for (size_t i = 0; i <= n; i++)
        plain[i] = key[i] == '-' ? '_' : lower(key[i]);
    for (size_t i = 0; i < hm_n_settings; i++) {
        unsigned d = hm_text_distance(plain, hm_settings[i].key);
        if (d < best) {
            best = d;
            nearest = hm_settings[i].key;
        }
    }
    return nearest;
}

hm_status_t hm_config_set(struct hm_config *config, const char *key, const char *value)
{
    int bare;
    const struct hm_setting *set = find(key, strlen(key), &bare);
    return set && store(config, set, bare, value) ? HM_OK : HM_E_USAGE;
}

static void upper_copy(char *to, size_t cap, const char *from)
{
    size_t i = 0;
    for (; from[i] && i + 1 < cap; i++) {
        char c = from[i] == '-' ? '_' : from[i];
        to[i] = c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
    }
    to[i] = 0;
}

static void say_unknown(const char *where, const char *name, int is_env)
{
    const char *nearest = hm_config_nearest(name);
    char shown[LONGEST_NAME + 1] = "";
    if (nearest && is_env)
        upper_copy(shown, sizeof(shown), nearest);
    else if (nearest)
        snprintf(shown, sizeof(shown), "%s", nearest);
    const char *prefix = is_env ? "HINDMOST_" : "";
    if (nearest)
        hm_say(HM_SAY_WARN, "%s%s%.80s: no such setting; did you mean %s%s?", where, prefix, name,
               prefix, shown);
    else
        hm_say(HM_SAY_WARN, "%s%s%.80s: no such setting; see hindmost config", where, prefix, name);
}

static void say_bad(const char *where, const struct hm_setting *set, int is_env, const char *value)
{
    char name[LONGEST_NAME + 1];
    if (is_env)
        upper_copy(name, sizeof(name), set->key);
    else
        snprintf(name, sizeof(name), "%s", set->key);
    const char *prefix = is_env ? "HINDMOST_" : "";
    if (set->type == HM_SET_TEXT)
        hm_say(HM_SAY_WARN, "%s%s%s: text longer than %u bytes or of several lines; not used",
               where, prefix, name, (unsigned)set->cap - 1);
    else if (set->type == HM_SET_BOOL)
        hm_say(HM_SAY_WARN, "%s%s%s: \"%.40s\" is not 0 or 1; the default %s stays", where, prefix,
               name, value, set->def);
    else
        hm_say(HM_SAY_WARN,
               "%s%s%s: \"%.40s\" is no number from %lld to %lld %s; the default %s stays", where,
               prefix, name, value, (long long)set->min, (long long)set->max, set->unit, set->def);
}

static hm_status_t apply(struct hm_config *config, uint8_t origin_p[], const char *where,
                         enum hm_origin origin, const char *name, const char *value)
{
    int bare, is_env = origin == HM_FROM_ENV;
    const struct hm_setting *set = find(name, strlen(name), &bare);
    if (!set) {
        say_unknown(where, name, is_env);
        return HM_E_USAGE;
    }
    if (!store(config, set, bare, value)) {
        say_bad(where, set, is_env, value);
        return HM_E_USAGE;
    }
    if (origin_p)
        origin_p[set - hm_settings] = (uint8_t)origin;
    return HM_OK;
}

hm_status_t hm_config_option(struct hm_config *config, const char *key, const char *value)
{
    return apply(config, NULL, "--", HM_FROM_OPTION, key, value);
}

static char *trim(char *s)
{
    while (*s == ' ' || *s == '\t')
        s++;
    size_t n = strlen(s);
    while (n && (s[n - 1] == ' ' || s[n - 1] == '\t' || s[n - 1] == '\r'))
        s[--n] = 0;
    return s;
}

static hm_status_t apply_line(struct hm_config *config, uint8_t origin_p[], const char *where,
                              char *line)
{
    char *name = trim(line), *eq = strchr(name, '=');
    if (!*name || *name == '#')
        return HM_OK;
    if (!eq) {
        hm_say(HM_SAY_WARN, "%s\"%.60s\" is not KEY = VALUE", where, name);
        return HM_E_USAGE;
    }
    *eq = 0;
    return apply(config, origin_p, where, HM_FROM_FILE, trim(name), trim(eq + 1));
}

static hm_status_t load_file(struct hm_config *config, uint8_t origin_p[], const char *file)
{
    static char text[FILE_BYTES];
    char where[300];
    size_t n = 0;
    ssize_t got = -1;
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && n < sizeof(text) - 1 && (got = read(fd, text + n, sizeof(text) - 1 - n)) > 0)
        n += (size_t)got;
    if (fd >= 0)
        close(fd);
    if (got < 0 || n == sizeof(text) - 1) {
        hm_say(HM_SAY_WARN, "%.200s: settings cannot be read, or more than 64 KiB", file);
        return HM_E_USAGE;
    }
    text[n] = 0;
    hm_status_t worst = HM_OK;
    int i_line = 1;
    for (char *line = text; line; i_line++) {
        char *next = strchr(line, '\n');
        if (next)
            *next++ = 0;
        snprintf(where, sizeof(where), "%.200s:%d: ", file, i_line);
        if (apply_line(config, origin_p, where, line))
            worst = HM_E_USAGE;
        line = next;
    }
    return worst;
}

hm_status_t hm_config_load(struct hm_config *config_p, uint8_t origin_p[], const char *file,
                           char *const *envp)
{
    static const char prefix[] = "HINDMOST_";
    hm_status_t worst = HM_OK;
    defaults(config_p);
    if (origin_p)
        memset(origin_p, HM_FROM_DEFAULT, hm_n_settings);
    if (file && load_file(config_p, origin_p, file))
        worst = HM_E_USAGE;
    for (char *const *e = envp; e && *e; e++) {
        char name[LONGEST_NAME * 3];
        const char *at = *e + sizeof(prefix) - 1, *eq;
        if (strncmp(*e, prefix, sizeof(prefix) - 1) != 0 || !(eq = strchr(at, '=')))
            continue;
        snprintf(name, sizeof(name), "%.*s", (int)(eq - at), at);
        if (apply(config_p, origin_p, "", HM_FROM_ENV, name, eq + 1))
            worst = HM_E_USAGE;
    }
    return worst;
}

size_t hm_config_value(const struct hm_config *config, size_t i, char *text_p, size_t cap)
{
    const struct hm_setting *set = &hm_settings[i];
    const char *at = (const char *)config + set->offset;
    int64_t v = 0;
    if (set->bytes == sizeof(int32_t))
        v = *(const int32_t *)(const void *)at;
    else if (set->bytes)
        v = *(const int64_t *)(const void *)at;
    int n = set->type == HM_SET_TEXT ? snprintf(text_p, cap, "%s", at)
                                     : snprintf(text_p, cap, "%lld", (long long)v);
    return n < 0 ? 0 : (size_t)n;
}

/* Numbers first: long paths may find no room in the pool, and the writer needs none of them. */
size_t hm_config_print(const struct hm_config *config, char *text_p, size_t cap)
{
    size_t used = 0;
    for (size_t k = 0; k < 2 * hm_n_settings; k++) {
        size_t i = k % hm_n_settings;
        const struct hm_setting *set = &hm_settings[i];
        char value[1100], line[1200];
        hm_config_value(config, i, value, sizeof(value));
        if ((k < hm_n_settings) == (set->type == HM_SET_TEXT))
            continue;
        if (set->type == HM_SET_TEXT && !strcmp(value, set->def))
            continue; /* saves room */
        size_t bytes = (size_t)snprintf(line, sizeof(line), "%.60s=%.1100s", set->key, value) + 1;
        if (used + bytes + 1 <= cap)
            memcpy(text_p + used, line, bytes);
        used += bytes;
    }
    if (used < cap)
        text_p[used] = 0;
    else if (cap)
        text_p[cap - 1] = 0;
    return used + 1;
}

hm_status_t hm_config_parse(struct hm_config *config_p, const char *text, size_t len)
{
    struct hm_config config;
    char line[1200];
    defaults(&config);
    for (size_t at = 0; at < len && text[at];) {
        size_t n = 0;
        while (at + n < len && text[at + n])
            n++;
        if (at + n == len || n >= sizeof(line)) /* cut off: the rest keeps its defaults */
            break;
        memcpy(line, text + at, n + 1);
        at += n + 1;
        char *eq = strchr(line, '=');
        if (!eq)
            return HM_E_DATA;
        *eq = 0;
        if (hm_config_set(&config, line, eq + 1))
            return HM_E_DATA;
    }
    *config_p = config;
    return HM_OK;
}
