/* NVTX's own forms of its calls, and how they get into a module's tables.
 *
 * Box: lib/record. Application threads. Entered once per module that uses NVTX; entries we do not
 * know stay as they are, and NVTX makes them do nothing.
 */
#include "record/nvtx.h"

#include <string.h>

typedef struct hm_nvtx_attributes attributes;

#define ASCII(from)           \
    struct hm_nvtx_said said; \
    hm_nvtx_say_ascii(&said, from)
#define WIDE(from)            \
    struct hm_nvtx_said said; \
    hm_nvtx_say_wide(&said, from)
#define ATTRIBUTES(from)      \
    struct hm_nvtx_said said; \
    hm_nvtx_say_attributes(&said, from)

static void mark_ex(const attributes *a)
{
    ATTRIBUTES(a);
    hm_nvtx_mark(NULL, &said);
}
static void mark_a(const char *text)
{
    ASCII(text);
    hm_nvtx_mark(NULL, &said);
}
static void mark_w(const wchar_t *text)
{
    WIDE(text);
    hm_nvtx_mark(NULL, &said);
}
static uint64_t start_ex(const attributes *a)
{
    ATTRIBUTES(a);
    return hm_nvtx_start(NULL, &said);
}
static uint64_t start_a(const char *text)
{
    ASCII(text);
    return hm_nvtx_start(NULL, &said);
}
static uint64_t start_w(const wchar_t *text)
{
    WIDE(text);
    return hm_nvtx_start(NULL, &said);
}
static void end(uint64_t id)
{
    hm_nvtx_end(id);
}
static int push_ex(const attributes *a)
{
    ATTRIBUTES(a);
    return hm_nvtx_push(NULL, &said);
}
static int push_a(const char *text)
{
    ASCII(text);
    return hm_nvtx_push(NULL, &said);
}
static int push_w(const wchar_t *text)
{
    WIDE(text);
    return hm_nvtx_push(NULL, &said);
}
static int pop(void)
{
    return hm_nvtx_pop(NULL);
}
static void category_a(uint32_t category, const char *text)
{
    ASCII(text);
    hm_nvtx_name_category(NULL, category, &said);
}
static void category_w(uint32_t category, const wchar_t *text)
{
    WIDE(text);
    hm_nvtx_name_category(NULL, category, &said);
}
static void thread_a(uint32_t tid, const char *text)
{
    ASCII(text);
    hm_nvtx_name_thread(tid, &said);
}
static void thread_w(uint32_t tid, const wchar_t *text)
{
    WIDE(text);
    hm_nvtx_name_thread(tid, &said);
}

static void domain_mark_ex(const void *domain, const attributes *a)
{
    ATTRIBUTES(a);
    hm_nvtx_mark(domain, &said);
}
static uint64_t domain_start_ex(const void *domain, const attributes *a)
{
    ATTRIBUTES(a);
    return hm_nvtx_start(domain, &said);
}
static void domain_end(const void *domain, uint64_t id)
{
    (void)domain;
    hm_nvtx_end(id);
}
static int domain_push_ex(const void *domain, const attributes *a)
{
    ATTRIBUTES(a);
    return hm_nvtx_push(domain, &said);
}
static int domain_pop(const void *domain)
{
    return hm_nvtx_pop(domain);
}
static void *domain_resource(const void *domain, const void *resource)
{
    (void)domain;
    (void)resource;
    return hm_nvtx_handle(NULL, 0);
}
static void domain_category_a(const void *domain, uint32_t category, const char *text)
{
    ASCII(text);
    hm_nvtx_name_category(domain, category, &said);
}
static void domain_category_w(const void *domain, uint32_t category, const wchar_t *text)
{
    WIDE(text);
    hm_nvtx_name_category(domain, category, &said);
}
static void *domain_string_a(const void *domain, const char *text)
{
    (void)domain;
    ASCII(text);
    return hm_nvtx_handle(said.text, said.len);
}
static void *domain_string_w(const void *domain, const wchar_t *text)
{
    (void)domain;
    WIDE(text);
    return hm_nvtx_handle(said.text, said.len);
}
static void *domain_create_a(const char *text)
{
    ASCII(text);
    return hm_nvtx_handle(said.text, said.len);
}
static void *domain_create_w(const wchar_t *text)
{
    WIDE(text);
    return hm_nvtx_handle(said.text, said.len);
}

typedef void (*func)(void);
struct entry {
    uint32_t module, number;
    func call;
};
#define ENTRY(module, number, call)                                 \
    {                                                               \
        HM_NVTX_##module, HM_NVTX_##number, (func)(uintptr_t)(call) \
    }
static const struct entry entries[] = {
    ENTRY(CORE, MARK_EX, mark_ex),
    ENTRY(CORE, MARK_A, mark_a),
    ENTRY(CORE, MARK_W, mark_w),
    ENTRY(CORE, START_EX, start_ex),
    ENTRY(CORE, START_A, start_a),
    ENTRY(CORE, START_W, start_w),
    ENTRY(CORE, END, end),
    ENTRY(CORE, PUSH_EX, push_ex),
    ENTRY(CORE, PUSH_A, push_a),
    ENTRY(CORE, PUSH_W, push_w),
    ENTRY(CORE, POP, pop),
    ENTRY(CORE, CATEGORY_A, category_a),
    ENTRY(CORE, CATEGORY_W, category_w),
    ENTRY(CORE, THREAD_A, thread_a),
    ENTRY(CORE, THREAD_W, thread_w),
    ENTRY(CORE2, DOMAIN_MARK_EX, domain_mark_ex),
    ENTRY(CORE2, DOMAIN_START_EX, domain_start_ex),
    ENTRY(CORE2, DOMAIN_END, domain_end),
    ENTRY(CORE2, DOMAIN_PUSH_EX, domain_push_ex),
    ENTRY(CORE2, DOMAIN_POP, domain_pop),
    ENTRY(CORE2, DOMAIN_RESOURCE, domain_resource),
    ENTRY(CORE2, DOMAIN_CATEGORY_A, domain_category_a),
    ENTRY(CORE2, DOMAIN_CATEGORY_W, domain_category_w),
    ENTRY(CORE2, DOMAIN_STRING_A, domain_string_a),
    ENTRY(CORE2, DOMAIN_STRING_W, domain_string_w),
    ENTRY(CORE2, DOMAIN_CREATE_A, domain_create_a),
    ENTRY(CORE2, DOMAIN_CREATE_W, domain_create_w),
};

struct callbacks { /* export table 1 */
    size_t size;
    int (*get_table)(uint32_t module, func ***table_p, uint32_t *n_p);
};
enum { CALLBACKS = 1 };

__attribute__((visibility("default"))) int
InitializeInjectionNvtx2(const void *(*get_export_table)(uint32_t));

/* 0 = NVTX goes on without a tool. */
int InitializeInjectionNvtx2(const void *(*get_export_table)(uint32_t))
{
    const struct callbacks *from = NULL;
    if (hm_is_off() || !get_export_table || !(from = get_export_table(CALLBACKS)) ||
        from->size < sizeof(*from) || !from->get_table)
        return 0;
    hm_promote();
    hm_nvtx_text_init();
    for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
        func **table = NULL;
        uint32_t n = 0;
        if (from->get_table(entries[i].module, &table, &n) != 1 || !table ||
            entries[i].number >= n || !table[entries[i].number])
            continue;
        *table[entries[i].number] = entries[i].call;
    }
    return 1;
}
