/* Texts of NVTX: handles of domains and registered strings, wide texts, names with counters, the
 * step range.
 *
 * Box: lib/record. Application threads. A handle is a tagged string id while we are awake; before
 * that there is no table of strings, and it points into an arena of our own that is read again at
 * the first use. NVTX never gives a string back, so the arena only grows, up to a limit.
 */
#include "record/nvtx.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { ARENA_BYTES = 1 << 20, DISTINCT = 1000, N_DOMAINS = 32, LONGEST = 4095 };

struct early {            /* a text registered while we slept */
    _Atomic uint32_t id1; /* 1 + string id */
    uint32_t len;
    char text[];
};
static char *_Atomic arena;
static _Atomic size_t arena_used;

static char *open_arena(void)
{
    char *at = atomic_load_explicit(&arena, memory_order_acquire), *none = NULL;
    if (at)
        return at;
    at = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return NULL;
    if (!atomic_compare_exchange_strong(&arena, &none, at)) {
        munmap(at, ARENA_BYTES);
        at = none;
    }
    return at;
}

/* Odd numbers: (id + 1) * 2 + 1, so 1 is a handle without a name. */
static void *of_id(uint32_t id)
{
    return (void *)(((uintptr_t)(uint32_t)(id + 1) << 1) | 1);
}

void *hm_nvtx_handle(const char *text, size_t len)
{
    if (!text)
        return of_id(HM_NO_ID);
    if (hm_awake())
        return of_id(hm_name(text, len));
    if (len > LONGEST)
        len = LONGEST;
    size_t need = (sizeof(struct early) + len + 8) & ~(size_t)7;
    char *base = open_arena();
    size_t at = base ? atomic_fetch_add(&arena_used, need) : ARENA_BYTES;
    if (at > ARENA_BYTES - need) {
        atomic_store(&arena_used, ARENA_BYTES);
        return of_id(HM_NO_ID);
    }
    struct early *early = (struct early *)(void *)(base + at);
    early->len = (uint32_t)len;
    memcpy(early->text, text, len);
    return early;
}

static struct early *early_of(const void *handle)
{
    const char *base = atomic_load_explicit(&arena, memory_order_acquire);
    uintptr_t from = (uintptr_t)base, at = (uintptr_t)handle;
    if (!base || at < from || at - from >= ARENA_BYTES || (at & 7))
        return NULL;
    struct early *early = (struct early *)(uintptr_t)at;
    return early->len <= ARENA_BYTES - (at - from) - sizeof(*early) ? early : NULL;
}

uint32_t hm_nvtx_handle_id(const void *handle)
{
    uintptr_t at = (uintptr_t)handle;
    if (!handle || !hm_awake())
        return HM_NO_ID;
    if (at & 1) {
        uint64_t id = (uint64_t)(at >> 1) - 1;
        return id < hm.view.defs.cap[HM_DEF_STRING] ? (uint32_t)id : HM_NO_ID;
    }
    struct early *early = early_of(handle);
    if (!early)
        return HM_NO_ID;
    uint32_t id1 = atomic_load_explicit(&early->id1, memory_order_relaxed);
    if (!id1) {
        id1 = hm_name(early->text, early->len) + 1;
        atomic_store_explicit(&early->id1, id1, memory_order_relaxed);
    }
    return id1 - 1;
}

const char *hm_nvtx_handle_text(const void *handle, size_t *len_p)
{
    const void *bytes;
    uint32_t len;
    if ((uintptr_t)handle & 1) {
        uint32_t id = hm_nvtx_handle_id(handle);
        if (id == HM_NO_ID || hm_defs_get(&hm.view.defs, HM_DEF_STRING, id, &bytes, &len))
            return NULL;
        *len_p = len;
        return bytes;
    }
    const struct early *early = early_of(handle);
    if (!early)
        return NULL;
    *len_p = early->len;
    return early->text;
}

size_t hm_nvtx_narrow(const wchar_t *wide, char text_p[HM_NVTX_TEXT])
{
    size_t n = 0;
    for (; *wide; wide++) {
        uint32_t c = (uint32_t)*wide;
        if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
            c = 0xfffd;
        unsigned more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
        if (n + more + 1 >= HM_NVTX_TEXT) {
            hm_lose(HM_LOST_TEXT_CUT, 1);
            break;
        }
        if (!more) {
            text_p[n++] = (char)c;
            continue;
        }
        static const uint8_t lead[4] = {0, 0xc0, 0xe0, 0xf0};
        text_p[n++] = (char)(lead[more] | c >> 6 * more);
        while (more--)
            text_p[n++] = (char)(0x80 | (c >> 6 * more & 0x3f));
    }
    text_p[n] = 0;
    return n;
}

/* --- names with a counter in them --- */

static struct {
    _Atomic uint32_t domain; /* id + 2, 0 = free */
    _Atomic uint32_t n;
} distinct[N_DOMAINS];

/* One more text of this domain; how many there are now. */
static uint32_t count_text(uint32_t domain)
{
    for (unsigned i = 0; i < N_DOMAINS; i++) {
        uint32_t is = atomic_load_explicit(&distinct[i].domain, memory_order_relaxed);
        if (!is && atomic_compare_exchange_strong(&distinct[i].domain, &is, domain + 2))
            is = domain + 2;
        if (is == domain + 2 || i + 1 == N_DOMAINS)
            return atomic_fetch_add_explicit(&distinct[i].n, 1, memory_order_relaxed) + 1;
    }
    return 0;
}

static size_t fold(const char *text, size_t len, char folded_p[HM_NVTX_TEXT])
{
    size_t n = 0;
    for (size_t i = 0; i < len && n < HM_NVTX_TEXT; i++) {
        int digit = text[i] >= '0' && text[i] <= '9';
        if (digit && n && folded_p[n - 1] == '#')
            continue;
        folded_p[n++] = digit ? '#' : text[i];
    }
    return n;
}

uint32_t hm_nvtx_name(uint32_t domain, const char *text, size_t len)
{
    char folded[HM_NVTX_TEXT];
    if (!hm_awake())
        return HM_NO_ID;
    if (len <= LONGEST) {
        uint32_t id = hm_defs_find(&hm.view.defs, HM_DEF_STRING, text, (uint32_t)len);
        if (id != HM_NO_ID)
            return id;
    }
    if (count_text(domain) <= DISTINCT)
        return hm_name(text, len);
    len = fold(text, len, folded);
    return hm_name(folded, len);
}

/* --- the step range --- */

/* The settings are loaded at waking, and a step range may be what wakes us. */
static char early_pattern[sizeof(hm.config.step_range)] = "step";

void hm_nvtx_text_init(void)
{
    static _Atomic int done;
    const char *text = getenv("HINDMOST_STEP_RANGE");
    if (!atomic_exchange(&done, 1) && text && strlen(text) < sizeof(early_pattern))
        memcpy(early_pattern, text, strlen(text) + 1);
}

int hm_nvtx_is_step(const char *text, size_t len, int64_t *step_p)
{
    const char *want = hm_awake() ? hm.config.step_range : early_pattern;
    size_t i = 0;
    while (i < len && want[i] && want[i] != '*' && text[i] == want[i])
        i++;
    if (!i || (want[i] && want[i] != '*'))
        return 0;
    *step_p = -1;
    while (i < len && strchr(" _-#:=", text[i]))
        i++;
    if (i == len)
        return 1;
    int64_t n = 0;
    for (; i < len && text[i] >= '0' && text[i] <= '9'; i++)
        if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, text[i] - '0', &n))
            return 0;
    if (i < len)
        return 0;
    *step_p = n;
    return 1;
}
