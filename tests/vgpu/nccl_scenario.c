/* The scenario of a run: which NCCL this is, and what is odd in it.
 *
 * Box: tests/vgpu. Any thread; read once. VGPU_NCCL_SCENARIO names a file of lines "key value"
 * ('#' begins a comment); the variable VGPU_NCCL_<KEY> of the environment goes before the file.
 *   release 2.27.7         behave as that release (loading, interfaces, order and form of events)
 *   with a,b,c             misbehaviours and rarer features, see README.md
 *   nodes 2                pretend so many nodes: there are network events between them
 *   gpu_clock_ns -5000000  GPU timer minus the time of day
 *   gpu_drift_ppm 50       it runs so much too fast
 *   gpu_tick_ns 1024       its steps
 */
#include "nccl_inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
    char key[24], value[200];
} line[32];
static int n_lines;

static void read_file(void)
{
    const char *path = getenv("VGPU_NCCL_SCENARIO");
    FILE *f = path && *path ? fopen(path, "r") : NULL;
    char text[256];
    if (path && *path && !f) {
        fprintf(stderr, "vgpu: cannot read the scenario %s\n", path);
        abort(); /* a test without its scenario would prove nothing */
    }
    while (f && n_lines < 32 && fgets(text, sizeof text, f)) {
        text[strcspn(text, "#\n")] = 0;
        if (sscanf(text, "%23s %199s", line[n_lines].key, line[n_lines].value) == 2)
            n_lines++;
    }
    if (f)
        fclose(f);
}

const char *nccl_setting(const char *key, const char *usual)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    char name[64] = "VGPU_NCCL_";
    size_t n = strlen(name);
    for (const char *k = key; *k && n < sizeof name - 1; k++)
        name[n++] = (char)(*k >= 'a' && *k <= 'z' ? *k - 'a' + 'A' : *k);
    name[n] = 0;
    const char *s = getenv(name);
    if (s)
        return s;
    pthread_once(&once, read_file);
    for (int i = 0; i < n_lines; i++)
        if (!strcmp(line[i].key, key))
            return line[i].value;
    return usual;
}

int nccl_release(void)
{
    const char *s = nccl_setting("release", NULL), *old = getenv("VGPU_NCCL_INTERFACE");
    int a = 0, b = 0, c = 0;
    if (s && sscanf(s, "%d.%d.%d", &a, &b, &c) >= 2)
        return a * 10000 + b * 100 + c;
    return old && atoi(old) == 4 ? 22707 : NCCL_VERSION_CODE;
}

int nccl_with(const char *what)
{
    const char *s = nccl_setting("with", "");
    size_t n = strlen(what);
    for (const char *at = s; (at = strstr(at, what)) != NULL; at++)
        if ((at == s || at[-1] == ',') && (!at[n] || at[n] == ','))
            return 1;
    return 0;
}
