/* Finding CUPTI, its symbols, and how long its records are.
 *
 * Box: lib/record. Any thread, once (hm_cupti_start). Two CUPTI copies in one process are two
 * tools: the one that is there already wins. Record sizes are asked of the library itself, so that
 * a newer one than we know is stepped over correctly. Source: CUPTI guide, 11.0 to 13.4.
 */
#include "record/cupti_source.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct symbol {
    const char *name;
    size_t offset;
    int required;
};
#define SYMBOL(member, name, required)                        \
    {                                                         \
        name, offsetof(struct hm_cupti_lib, member), required \
    }
static const struct symbol symbols[] = {
    SYMBOL(get_version, "cuptiGetVersion", 1),
    SYMBOL(get_result_string, "cuptiGetResultString", 0),
    SYMBOL(get_callback_name, "cuptiGetCallbackName", 0),
    SYMBOL(register_callbacks, "cuptiActivityRegisterCallbacks", 1),
    SYMBOL(register_timestamp, "cuptiActivityRegisterTimestampCallback", 0),
    SYMBOL(enable, "cuptiActivityEnable", 1),
    SYMBOL(disable, "cuptiActivityDisable", 0),
    SYMBOL(enable_driver, "cuptiActivityEnableDriverApi", 0),
    SYMBOL(enable_runtime, "cuptiActivityEnableRuntimeApi", 0),
    SYMBOL(set_attribute, "cuptiActivitySetAttribute", 0),
    SYMBOL(set_thread_id_type, "cuptiSetThreadIdType", 0),
    SYMBOL(flush_all, "cuptiActivityFlushAll", 1),
    SYMBOL(next_record, "cuptiActivityGetNextRecord", 1),
    SYMBOL(n_dropped, "cuptiActivityGetNumDroppedRecords", 0),
    SYMBOL(push, "cuptiActivityPushExternalCorrelationId", 0),
    SYMBOL(pop, "cuptiActivityPopExternalCorrelationId", 0),
    SYMBOL(subscribe, "cuptiSubscribe", 0),
    SYMBOL(subscribe_2, "cuptiSubscribe_v2", 0),
    SYMBOL(unsubscribe, "cuptiUnsubscribe", 0),
    SYMBOL(enable_all_sync, "cuptiActivityEnableAllSyncRecords", 0)};

static const char *const cupti_names[] = {"libcupti.so.13",   "libcupti.so.12",
                                          "libcupti.so.11.8", "libcupti.so.11.7",
                                          "libcupti.so.11.6", NULL};
static const char *const cuda_names[] = {"libcuda.so.1", "libcudart.so.13", "libcudart.so.12",
                                         "libcudart.so.11.0", NULL};

static void *open_any(const char *const *name, int flags)
{
    for (; *name; name++) {
        void *handle = dlopen(*name, flags);
        if (handle)
            return handle;
    }
    return NULL;
}

static void *open_below(const char *root)
{
    static const char *const folder[] = {"extras/CUPTI/lib64", "lib64"};
    char path[1100];
    for (size_t i = 0; root && *root && i < 2; i++) {
        for (const char *const *name = cupti_names; *name; name++) {
            int n = snprintf(path, sizeof(path), "%s/%s/%s", root, folder[i], *name);
            void *handle =
                n > 0 && n < (int)sizeof(path) ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
            if (handle)
                return handle;
        }
    }
    return NULL;
}

static void *find(const char *path)
{
    void *handle = open_any(cupti_names, RTLD_NOW | RTLD_NOLOAD);
    if (!handle && path && *path) {
        handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (!handle)
            hm_note(HM_E_MISSING, "%s: cannot be loaded; HINDMOST_CUPTI is passed over", path);
    }
    if (!handle)
        handle = open_any(cupti_names, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        handle = open_below(getenv("CUDA_HOME"));
    if (!handle)
        handle = open_below("/usr/local/cuda");
    return handle;
}

static const char *bind_symbols(struct hm_cupti_lib *lib)
{
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        void *found = dlsym(lib->handle, symbols[i].name);
        if (!found && symbols[i].required)
            return symbols[i].name;
        memcpy((char *)lib + symbols[i].offset, &found, sizeof(found));
    }
    return NULL;
}

void hm_cupti_learn(int (*next_record)(uint8_t *, size_t, void **),
                    uint16_t size_p[HM_CUPTI_N_KINDS])
{
    static uint64_t made_up[1024]; /* 8 KiB: room for two of the longest records */
    for (uint32_t kind = 0; kind < HM_CUPTI_N_KINDS; kind++) {
        size_p[kind] = 0;
        if (!kind)
            continue;
        for (size_t i = 0; i < sizeof(made_up) / sizeof(made_up[0]); i++)
            made_up[i] = kind;
        void *record = NULL;
        if (next_record((uint8_t *)made_up, sizeof(made_up), &record) || !record)
            continue;
        char *first = record;
        if (next_record((uint8_t *)made_up, sizeof(made_up), &record) || !record)
            continue;
        ptrdiff_t step = (char *)record - first;
        if (step >= 8 && step <= 4096 && step % 8 == 0)
            size_p[kind] = (uint16_t)step;
    }
}

int hm_cupti_clock_ours(uint32_t version)
{
    return version >= 130100 || (version >= 17 && version < 24);
}

hm_status_t hm_cupti_load(const char *path, struct hm_cupti_lib *lib_p)
{
    struct hm_cupti_lib lib = {0};
    if (!open_any(cuda_names, RTLD_NOW | RTLD_NOLOAD) &&
        !open_any(cupti_names, RTLD_NOW | RTLD_NOLOAD))
        return HM_AGAIN;
    lib.handle = find(path);
    if (!lib.handle) {
        hm_note(HM_E_MISSING, "libcupti was not found; kernels are not recorded; set "
                              "HINDMOST_CUPTI to libcupti.so of the CUDA toolkit in use");
        return HM_E_MISSING;
    }
    const char *missing = bind_symbols(&lib);
    if (missing) {
        hm_note(HM_E_MISSING, "libcupti has no %s; kernels are not recorded", missing);
        return HM_E_MISSING;
    }
    if (lib.get_version(&lib.version))
        lib.version = 0;
    hm_cupti_learn(lib.next_record, lib.size);
    *lib_p = lib;
    return HM_OK;
}
