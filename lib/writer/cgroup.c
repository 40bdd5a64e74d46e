/* The container's limits: CPU throttling, pressure, memory events. Box: lib/writer; main thread.
 *
 * Both cgroup versions; inside a container the path of /proc/PID/cgroup may lie above what is
 * mounted, then the mount's own root is the container's. Source: cgroups(7), the kernel's
 * cgroup-v2 document.
 */
#include "writer/health.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The folder of a controller, `mount` plus the process's path, else the mount alone. */
static void settle(const char *root, const char *mount, const char *path, const char *file,
                   char dir_p[1100])
{
    char try[2300];
    snprintf(dir_p, 1100, "%s%.1000s", mount, strcmp(path, "/") != 0 ? path : "");
    snprintf(try, sizeof(try), "%s%s/%s", root, dir_p, file);
    if (!access(try, R_OK))
        return;
    snprintf(dir_p, 1100, "%s", mount);
    snprintf(try, sizeof(try), "%s%s/%s", root, dir_p, file);
    if (access(try, R_OK))
        dir_p[0] = 0;
}

/* "ID:CONTROLLERS:PATH" lines; version 2 has ID 0 and no controllers. */
void hm_cgroup_find(const char *root, int32_t pid, struct hm_cgroup *c)
{
    char text[8192];
    memset(c, 0, sizeof(*c));
    hm_health_read(root, text, sizeof(text), "/proc/%d/cgroup", (int)pid);
    for (char *line = text, *end; *line; line = end) {
        end = line + strcspn(line, "\n");
        if (*end)
            *end++ = 0;
        char *controllers = strchr(line, ':');
        char *path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path)
            continue;
        *path++ = 0;
        controllers++;
        if (!*controllers && !c->cpu[0]) {
            settle(root, "/sys/fs/cgroup", path, "cpu.stat", c->cpu);
            snprintf(c->memory, sizeof(c->memory), "%s", c->cpu);
            c->version = c->cpu[0] ? 2 : 0;
        } else if (!strcmp(controllers, "cpu,cpuacct") || !strcmp(controllers, "cpu") ||
                   !strcmp(controllers, "cpuacct,cpu")) {
            settle(root, "/sys/fs/cgroup/cpu", path, "cpu.stat", c->cpu);
            c->memory[0] = 0;
            c->version = 1;
        }
    }
}

/* The number behind `key` at the beginning of a line. */
static int value_of(const char *text, const char *key, int64_t *value_p)
{
    size_t n = strlen(key);
    for (const char *p = text; *p; p += strcspn(p, "\n"), p += *p == '\n')
        if (!strncmp(p, key, n) && (p[n] == ' ' || p[n] == '=')) {
            *value_p = strtoll(p + n + 1, NULL, 10);
            return 1;
        }
    return 0;
}

/* us in which some task was held up: "some avg10=0.00 ... total=123". */
static int pressure_of(const char *text, int64_t *value_p)
{
    const char *some = strstr(text, "some "), *p = some ? strstr(some, "total=") : NULL;
    if (!p)
        return 0;
    *value_p = strtoll(p + 6, NULL, 10);
    return 1;
}

void hm_cgroup_sample(const char *root, const struct hm_cgroup *c, hm_sample_func_t fn, void *ctx)
{
    char text[4096];
    int64_t v;
    if (!c->cpu[0])
        return;
    hm_health_read(root, text, sizeof(text), "%s/cpu.stat", c->cpu);
    if (value_of(text, "nr_throttled", &v))
        fn(ctx, &(struct hm_sample){"cgroup.throttled", "count", 0, v});
    if (value_of(text, "throttled_usec", &v))
        fn(ctx, &(struct hm_sample){"cgroup.throttled_time", "us", 0, v});
    else if (value_of(text, "throttled_time", &v)) /* version 1: ns */
        fn(ctx, &(struct hm_sample){"cgroup.throttled_time", "us", 0, v / 1000});
    if (c->version != 2)
        return;
    if (hm_health_read(root, text, sizeof(text), "%s/cpu.pressure", c->cpu) &&
        pressure_of(text, &v))
        fn(ctx, &(struct hm_sample){"cgroup.cpu_pressure", "us", 0, v});
    if (hm_health_read(root, text, sizeof(text), "%s/memory.pressure", c->memory) &&
        pressure_of(text, &v))
        fn(ctx, &(struct hm_sample){"cgroup.memory_pressure", "us", 0, v});
    hm_health_read(root, text, sizeof(text), "%s/memory.events", c->memory);
    if (value_of(text, "high", &v))
        fn(ctx, &(struct hm_sample){"cgroup.memory_high", "count", 0, v});
    if (value_of(text, "oom_kill", &v))
        fn(ctx, &(struct hm_sample){"cgroup.oom_kill", "count", 0, v});
}
