/* C++ names made readable, at the last moment before they are shown.
 *
 * Box: merge/out. Any thread. The demangler of the C++ ABI (__cxa_demangle) is looked for once;
 * nothing of ours is built or linked with C++.
 */
#include "out/name.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef char *(*demangle_func_t)(const char *mangled, char *out, size_t *n, int *status);
static demangle_func_t demangle;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void look_for_it(void)
{
    static const char *const libraries[] = {"libstdc++.so.6", "libc++abi.so.1"};
    for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]) && !demangle; i++) {
        void *lib = dlopen(libraries[i], RTLD_NOW | RTLD_LOCAL);
        void *f = lib ? dlsym(lib, "__cxa_demangle") : NULL;
        memcpy(&demangle, &f, sizeof(f));
    }
}

const char *hm_name_pretty(const char *name, char *buf, size_t cap)
{
    char *plain = NULL;
    int status = 0;
    if (!strncmp(name, "_Z", 2)) {
        pthread_once(&once, look_for_it);
        if (demangle)
            plain = demangle(name, NULL, NULL, &status);
    }
    snprintf(buf, cap, "%s", plain ? plain : name);
    free(plain);
    return buf;
}
