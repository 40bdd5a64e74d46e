/* Which plugin was configured before we came, as NCCL would have found it.
 *
 * Box: nccl-plugin. Thread: the first init. Order of NCCL: the environment, then NCCL_CONF_FILE or
 * ~/.nccl.conf, then /etc/nccl.conf. The preloaded library and `hindmost run` have put the value of
 * the environment into HINDMOST_CHAIN_PLUGIN when they set our own name.
 */
#include "chain_inside.h"
#include "record/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

int hm_chain_read_conf(const char *path, char *value_p, size_t cap)
{
    static const char key[] = "NCCL_PROFILER_PLUGIN";
    char line[1200];
    int found = 0;
    FILE *f = fopen(path, "re");
    while (f && !found && fgets(line, sizeof(line), f)) {
        line[strcspn(line, "#\r\n")] = 0;
        const char *at = line + strspn(line, " \t");
        if (strncmp(at, key, sizeof(key) - 1) != 0)
            continue;
        at += sizeof(key) - 1;
        at += strspn(at, " \t");
        if (*at++ != '=')
            continue;
        at += strspn(at, " \t");
        size_t n = strcspn(at, " \t");
        if (!n || n >= cap)
            continue;
        memcpy(value_p, at, n);
        value_p[n] = 0;
        found = 1;
    }
    if (f)
        fclose(f);
    return found;
}

static int says_off(const char *v)
{
    return v && (!strcasecmp(v, "off") || !strcmp(v, "0") || !strcasecmp(v, "no") ||
                 !strcasecmp(v, "false"));
}

int hm_chain_find(char name_p[1024])
{
    char path[1200];
    int awake = atomic_load(&hm.life) == HM_AWAKE;
    const char *told = awake ? hm.config.chain_plugin : getenv("HINDMOST_CHAIN_PLUGIN");
    if (awake ? !hm.config.chain : says_off(getenv("HINDMOST_CHAIN")))
        return 0;
    name_p[0] = 0;
    int found = told && *told && strlen(told) < 1024;
    if (found)
        memcpy(name_p, told, strlen(told) + 1);
    const char *user = getenv("NCCL_CONF_FILE"), *home = getenv("HOME");
    if (!found && user && *user)
        found = hm_chain_read_conf(user, name_p, 1024);
    else if (!found && home && snprintf(path, sizeof(path), "%.1000s/.nccl.conf", home) > 0)
        found = hm_chain_read_conf(path, name_p, 1024);
    if (!found)
        found = hm_chain_read_conf("/etc/nccl.conf", name_p, 1024);
    /* a plugin in the program itself cannot be told from ours there */
    const char *slash = strrchr(name_p, '/');
    return found && strcasecmp(name_p, "none") != 0 &&
           !strstr(slash ? slash : name_p, "hindmost") && strncmp(name_p, "STATIC_PLUGIN", 13) != 0;
}
