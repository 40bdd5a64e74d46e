/* Recent host intervals by class; a gap is cut by them.
 *
 * Box: lib/analysis, internal. Pure. A ring; each entry knows the latest end up to itself, so that
 * a look at the recent past stops early whatever the order of the starts.
 */
#include "analysis/host.h"

#include "analysis/rows.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

const uint8_t hm_part_of_host[HM_HOST_N] = {[HM_HOST_CHECKPOINT] = HM_C_CHECKPOINT,
                                            [HM_HOST_INPUT] = HM_C_INPUT,
                                            [HM_HOST_SERIAL] = HM_C_SERIAL,
                                            [HM_HOST_ALLOC] = HM_C_ALLOC,
                                            [HM_HOST_MODULE] = HM_C_MODULE,
                                            [HM_HOST_SYNC] = HM_C_SYNC,
                                            [HM_HOST_BLOCKED] = HM_C_BLOCKED,
                                            [HM_HOST_OBSERVER] = HM_C_OBSERVER,
                                            [HM_HOST_OTHER] = HM_C_HOST};

enum { RING = 8192, LAUNCHERS = 32 };

struct entry {
    int64_t start_ns, end_ns, upto_ns; /* upto: latest end of all entries up to this one */
    uint32_t track, name;
    uint8_t cls;
};
struct hm_host {
    struct entry v[RING];
    uint64_t n;
    uint32_t launcher[LAUNCHERS], n_launchers;
    uint16_t pick[RING];
    struct hm_interval scratch[RING];
};

/* --- classes -------------------------------------------------------------------------------- */

/* `word` stands at the beginning and is a word of its own: "input", "input:fetch", not "inputs". */
static int begins(const char *s, const char *word)
{
    size_t n = strlen(word);
    return !strncasecmp(s, word, n) && !isalnum((unsigned char)s[n]);
}

enum hm_host_class hm_host_of_range(const char *s)
{
    /* "CheckpointFunction" and the like recompute activations and save nothing */
    if (begins(s, "checkpoint") || begins(s, "save") || strcasestr(s, "save_checkpoint") ||
        strcasestr(s, "checkpoint_save") || strcasestr(s, "save checkpoint") ||
        strstr(s, "torch.save"))
        return HM_HOST_CHECKPOINT;
    if (begins(s, "input") || begins(s, "next") || strcasestr(s, "dataloader") ||
        strcasestr(s, "data_loader") || strstr(s, "__next__"))
        return HM_HOST_INPUT;
    if (begins(s, "gc") || strcasestr(s, "garbage"))
        return HM_HOST_BLOCKED;
    return HM_HOST_OTHER;
}

static int any_of(const char *s, const char *const *part, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strstr(s, part[i]))
            return 1;
    return 0;
}
#define ANY_OF(s, list) any_of(s, list, sizeof(list) / sizeof((list)[0]))

enum hm_host_class hm_host_of_call(const char *s)
{
    static const char *const alloc[] = {"Malloc",    "Free",       "HostAlloc",  "MemAlloc",
                                        "MemCreate", "MemRelease", "MemMap",     "MemUnmap",
                                        "SetAccess", "PoolTrim",   "HostRegist", "HostUnregist"};
    static const char *const module[] = {"ModuleLoad", "LibraryLoad",       "ModuleGet",
                                         "LibraryGet", "KernelGetFunction", "LinkComplete",
                                         "LinkAdd",    "FuncGetAttributes", "FuncLoad"};
    if (strstr(s, "Synchronize"))
        return HM_HOST_SYNC;
    if (strncmp(s, "cu", 2) != 0 && strncmp(s, "hip", 3) != 0)
        return HM_HOST_OTHER;
    if (ANY_OF(s, alloc))
        return HM_HOST_ALLOC;
    if (ANY_OF(s, module))
        return HM_HOST_MODULE;
    if (strstr(s, "Memcpy") && !strstr(s, "Async") && !strstr(s, "Batch") && !strstr(s, "Graph"))
        return HM_HOST_SYNC;
    return HM_HOST_OTHER;
}

enum hm_host_class hm_host_of_overhead(uint16_t kind)
{
    switch (kind) {
    case HM_OVERHEAD_COMPILER:
    case HM_OVERHEAD_MODULE:
    case HM_OVERHEAD_LAZY_FUNCTION:
        return HM_HOST_MODULE;
    case HM_OVERHEAD_BUFFER_FLUSH:
    case HM_OVERHEAD_INSTRUMENTATION:
    case HM_OVERHEAD_RESOURCE:
    case HM_OVERHEAD_BUFFER_REQUEST:
        return HM_HOST_OBSERVER;
    default: /* our own flushes run in a thread of their own and hold nobody */
        return HM_HOST_OTHER;
    }
}

const char *hm_mpi_function(uint32_t number)
{
    switch (number) {
#define HM_MPI(num, fn, n, what) \
    case num:                    \
        return "MPI_" #fn;
#include "core/mpi.def"
#undef HM_MPI
    default:
        return NULL;
    }
}

/* --- the ring ------------------------------------------------------------------------------- */

hm_status_t hm_host_create(struct hm_host **host_p)
{
    struct hm_host *h = calloc(1, sizeof(*h));
    if (!h)
        return hm_fail(HM_E_NOMEM, "account", "out of memory");
    *host_p = h;
    return HM_OK;
}

void hm_host_destroy(struct hm_host *h)
{
    free(h);
}

void hm_host_add(struct hm_host *h, enum hm_host_class cls, uint32_t track, uint32_t name,
                 int64_t start, int64_t dur)
{
    if (dur <= 0 || cls >= HM_HOST_OTHER || (start > 0 && dur > INT64_MAX - start))
        return;
    struct entry e = {start, start + dur, start + dur, track, name, (uint8_t)cls};
    if (h->n && h->v[(h->n - 1) % RING].upto_ns > e.upto_ns)
        e.upto_ns = h->v[(h->n - 1) % RING].upto_ns;
    h->v[h->n++ % RING] = e;
}

static int launches(const struct hm_host *h, uint32_t track)
{
    for (uint32_t i = 0; i < h->n_launchers; i++)
        if (h->launcher[i] == track)
            return 1;
    return 0;
}

void hm_host_launcher(struct hm_host *h, uint32_t track)
{
    if (track != HM_NO_ID && h->n_launchers < LAUNCHERS && !launches(h, track))
        h->launcher[h->n_launchers++] = track;
}

static int counts(const struct hm_host *h, const struct entry *e, uint32_t track)
{
    if (e->cls == HM_HOST_SERIAL)
        return e->track == track;
    return e->track == HM_NO_ID || track == HM_NO_ID || e->track == track || launches(h, e->track);
}

/* Entries that count and reach into [t0, t1) -> pick[], newest first. */
static uint32_t find(struct hm_host *h, uint32_t track, int64_t t0, int64_t t1)
{
    uint64_t oldest = h->n > RING ? h->n - RING : 0;
    uint32_t n = 0;
    for (uint64_t i = h->n; i-- > oldest && h->v[i % RING].upto_ns > t0;) {
        const struct entry *e = &h->v[i % RING];
        if (e->end_ns > t0 && e->start_ns < t1 && counts(h, e, track))
            h->pick[n++] = (uint16_t)(i % RING);
    }
    return n;
}

static struct hm_interval clip(const struct entry *e, int64_t t0, int64_t t1)
{
    return (struct hm_interval){e->start_ns > t0 ? e->start_ns : t0,
                                e->end_ns < t1 ? e->end_ns : t1};
}

/* pick[] -> one union per class, behind one another in scratch[]. */
static void layers_of(struct hm_host *h, uint32_t n, int64_t t0, int64_t t1,
                      struct hm_layer layer[HM_HOST_OTHER])
{
    size_t at = 0;
    for (unsigned c = 0; c < HM_HOST_OTHER; c++) {
        struct hm_interval *v = &h->scratch[at];
        size_t m = 0;
        for (uint32_t i = n; i-- > 0;)
            if (h->v[h->pick[i]].cls == c)
                v[m++] = clip(&h->v[h->pick[i]], t0, t1);
        m = hm_union(v, m);
        layer[c] = (struct hm_layer){v, m};
        at += m;
    }
}

/* The largest name of what was picked, its pieces added up. */
static struct hm_host_top top_of(const struct hm_host *h, uint32_t n, int64_t t0, int64_t t1)
{
    enum { NAMES = 16 };
    struct hm_host_top v[NAMES], best = {0, HM_NO_ID, HM_HOST_OTHER};
    uint32_t n_names = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct entry *e = &h->v[h->pick[i]];
        if (e->name == HM_NO_ID)
            continue;
        uint32_t k = 0;
        while (k < n_names && v[k].name != e->name)
            k++;
        if (k == NAMES)
            continue;
        if (k == n_names)
            v[n_names++] = (struct hm_host_top){0, e->name, e->cls};
        struct hm_interval c = clip(e, t0, t1);
        v[k].ns += c.end_ns - c.start_ns;
        if (v[k].ns > best.ns)
            best = v[k];
    }
    return best;
}

void hm_host_charge(struct hm_host *h, uint32_t track, int64_t t0, int64_t t1,
                    int64_t ns[HM_HOST_N], struct hm_host_top *top)
{
    if (t1 <= t0)
        return;
    uint32_t n = find(h, track, t0, t1);
    if (!n) {
        ns[HM_HOST_OTHER] += t1 - t0;
        return;
    }
    struct hm_layer layer[HM_HOST_OTHER];
    int64_t part[HM_HOST_N];
    layers_of(h, n, t0, t1, layer);
    hm_partition(layer, HM_HOST_OTHER, t0, t1, part);
    for (unsigned c = 0; c < HM_HOST_N; c++)
        ns[c] += part[c];
    struct hm_host_top best = top_of(h, n, t0, t1);
    if (top && best.name != HM_NO_ID && best.name == top->name)
        top->ns += best.ns;
    else if (top && best.ns > top->ns)
        *top = best;
}

void hm_host_cut(struct hm_host *h, uint32_t track, int64_t t0, int64_t t1, hm_cut_t fn, void *ctx)
{
    if (t1 <= t0)
        return;
    struct hm_layer layer[HM_HOST_OTHER];
    layers_of(h, find(h, track, t0, t1), t0, t1, layer);
    hm_cut(layer, HM_HOST_OTHER, t0, t1, fn, ctx);
}

int64_t hm_host_inside(struct hm_host *h, enum hm_host_class cls, int64_t t0, int64_t t1)
{
    if (t1 <= t0)
        return 0;
    uint32_t n = find(h, HM_NO_ID, t0, t1);
    size_t m = 0;
    for (uint32_t i = n; i-- > 0;) {
        const struct entry *e = &h->v[h->pick[i]];
        if (e->cls == cls && (e->track == HM_NO_ID || !h->n_launchers || launches(h, e->track)))
            h->scratch[m++] = clip(e, t0, t1);
    }
    return hm_length(h->scratch, hm_union(h->scratch, m));
}

int64_t hm_host_sync_end(const struct hm_host *h, int64_t after, int64_t until)
{
    uint64_t oldest = h->n > RING ? h->n - RING : 0;
    int64_t best = INT64_MIN;
    for (uint64_t i = h->n; i-- > oldest && h->v[i % RING].upto_ns > after;) {
        const struct entry *e = &h->v[i % RING];
        if (e->cls == HM_HOST_SYNC && e->end_ns > after && e->end_ns <= until && e->end_ns > best)
            best = e->end_ns;
    }
    return best;
}
