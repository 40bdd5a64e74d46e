/* The interning table: bytes -> dense id per kind, from any thread of any process that maps it.
 *
 * Box: lib/core. Layout of a region: head, slots, entries by kind, arena; all sizes follow from the
 * head, so there is one valid layout. Slot word: hash 32, kind 4, id + 1 in 28 bits; 0 = empty;
 * written once, never changed. Invariant: room in the arena is reserved before the id, so that an
 * id that exists will be published; the entry is published (release store of len) before the slot,
 * so whoever finds the slot reads the bytes. Two threads with the same new bytes meet at the same
 * first empty slot: one CAS wins, the other's entry stays as a double that no slot names.
 */
#include "core/defs.h"

#include "core/event.h"

#include <string.h>
#include <sys/mman.h>

#define MAX_PROBES 256
#define MAX_LEN    (1U << 20)
#define ID_BITS    28
#define ID_MASK    ((1U << ID_BITS) - 1)

static size_t round8(size_t n)
{
    return (n + 7) & ~(size_t)7;
}

/* Power of two, at least twice the number of ids: probes stay short. */
static uint32_t slots_for(const uint32_t cap[HM_N_DEFS])
{
    uint64_t ids = 0;
    for (int k = 0; k < HM_N_DEFS; k++)
        ids += cap[k];
    uint32_t n = 64;
    while (n < 2 * ids && n < 1U << 30)
        n <<= 1;
    return n;
}

static size_t bytes_before_arena(const uint32_t cap[HM_N_DEFS], uint32_t n_slots)
{
    size_t size = sizeof(struct hm_defs_head) + (size_t)n_slots * sizeof(uint64_t);
    for (int k = 0; k < HM_N_DEFS; k++)
        size += (size_t)cap[k] * sizeof(struct hm_def_entry);
    return size;
}

size_t hm_defs_size(const uint32_t cap[HM_N_DEFS], uint64_t arena)
{
    return bytes_before_arena(cap, slots_for(cap)) + round8(arena);
}

void hm_defs_format(void *region, const uint32_t cap[HM_N_DEFS], uint64_t arena)
{
    struct hm_defs_head *head = region;
    for (int k = 0; k < HM_N_DEFS; k++)
        head->cap[k] = cap[k];
    head->n_slots = slots_for(cap);
    head->arena_bytes = round8(arena);
}

hm_status_t hm_defs_attach(void *region, size_t size, struct hm_defs *defs_p)
{
    struct hm_defs d;
    memset(&d, 0, sizeof(d));
    if (size < sizeof(struct hm_defs_head) || ((uintptr_t)region & 7))
        return HM_E_DATA;
    d.head = region;
    d.n_slots = d.head->n_slots;
    d.arena_bytes = d.head->arena_bytes;
    uint64_t need = sizeof(struct hm_defs_head) + (uint64_t)d.n_slots * sizeof(uint64_t);
    for (int k = 0; k < HM_N_DEFS; k++) {
        d.cap[k] = d.head->cap[k];
        if (d.cap[k] >= ID_MASK)
            return HM_E_DATA;
        need += (uint64_t)d.cap[k] * sizeof(struct hm_def_entry);
    }
    if (!d.n_slots || (d.n_slots & (d.n_slots - 1)) || need > size || d.arena_bytes > size - need ||
        (d.arena_bytes & 7) || d.arena_bytes / 8 > UINT32_MAX)
        return HM_E_DATA;
    d.slot = (_Atomic uint64_t *)(d.head + 1);
    struct hm_def_entry *entry = (struct hm_def_entry *)(d.slot + d.n_slots);
    for (int k = 0; k < HM_N_DEFS; k++) {
        d.entry[k] = entry;
        entry += d.cap[k];
    }
    d.arena = (uint8_t *)entry;
    *defs_p = d;
    return HM_OK;
}

/* Eight bytes a step: kernel names are long, and a known name must cost about 25 ns. */
static uint32_t hash_of(enum hm_def_kind kind, const uint8_t *bytes, uint32_t len)
{
    const uint64_t k = UINT64_C(0x9e3779b97f4a7c15);
    uint64_t h = (len + ((uint64_t)kind << 32)) * k, w;
    uint32_t i = 0;
    for (; i + 8 <= len; i += 8) {
        memcpy(&w, bytes + i, 8);
        h = (h ^ w) * k;
        h ^= h >> 29;
    }
    if (i < len) {
        w = 0;
        memcpy(&w, bytes + i, len - i);
        h = (h ^ w) * k;
        h ^= h >> 29;
    }
    h *= k;
    return (uint32_t)(h >> 32);
}

hm_status_t hm_defs_get(const struct hm_defs *defs, enum hm_def_kind kind, uint32_t id,
                        const void **bytes_p, uint32_t *len_p)
{
    if ((unsigned)kind >= HM_N_DEFS || id >= defs->cap[kind])
        return HM_E_DATA;
    const struct hm_def_entry *entry = &defs->entry[kind][id];
    uint32_t len = atomic_load_explicit(&entry->len, memory_order_acquire);
    if (!len)
        return id < atomic_load_explicit(&defs->head->n[kind], memory_order_relaxed) ? HM_AGAIN
                                                                                     : HM_E_DATA;
    len--;
    uint64_t off = (uint64_t)entry->off * 8;
    if (off > defs->arena_bytes || len > defs->arena_bytes - off)
        return HM_E_DATA;
    *bytes_p = defs->arena + off;
    *len_p = len;
    return HM_OK;
}

/* Adds n to *word if it stays within limit; the old value in old_p. */
static int reserve64(_Atomic uint64_t *word, uint64_t n, uint64_t limit, uint64_t *old_p)
{
    uint64_t old = atomic_load_explicit(word, memory_order_relaxed);
    do {
        if (old > limit || n > limit - old)
            return 0;
    } while (!atomic_compare_exchange_weak_explicit(word, &old, old + n, memory_order_relaxed,
                                                    memory_order_relaxed));
    *old_p = old;
    return 1;
}

static int reserve_id(_Atomic uint32_t *word, uint32_t limit, uint32_t *old_p)
{
    uint32_t old = atomic_load_explicit(word, memory_order_relaxed);
    do {
        if (old >= limit)
            return 0;
    } while (!atomic_compare_exchange_weak_explicit(word, &old, old + 1, memory_order_release,
                                                    memory_order_relaxed));
    *old_p = old;
    return 1;
}

static uint32_t publish(struct hm_defs *defs, enum hm_def_kind kind, const void *bytes,
                        uint32_t len)
{
    uint64_t off;
    uint32_t id;
    if (!reserve64(&defs->head->arena_used, round8(len), defs->arena_bytes, &off) ||
        !reserve_id(&defs->head->n[kind], defs->cap[kind], &id))
        return HM_NO_ID;
    struct hm_def_entry *entry = &defs->entry[kind][id];
    if (len)
        memcpy(defs->arena + off, bytes, len);
    entry->off = (uint32_t)(off / 8);
    atomic_store_explicit(&entry->len, len + 1, memory_order_release);
    return id;
}

/* The id in a slot if it means these bytes, else HM_NO_ID. */
static uint32_t id_in_slot(const struct hm_defs *defs, uint64_t word, uint32_t hash,
                           enum hm_def_kind kind, const void *bytes, uint32_t len)
{
    const void *have;
    uint32_t have_len;
    if ((uint32_t)(word >> 32) != hash || (word >> ID_BITS & 15) != (uint64_t)kind)
        return HM_NO_ID;
    uint32_t id = (uint32_t)(word & ID_MASK) - 1;
    if (hm_defs_get(defs, kind, id, &have, &have_len) || have_len != len ||
        (len && memcmp(have, bytes, len) != 0))
        return HM_NO_ID;
    return id;
}

uint32_t hm_defs_intern(struct hm_defs *defs, enum hm_def_kind kind, const void *bytes,
                        uint32_t len)
{
    if ((unsigned)kind >= HM_N_DEFS || len > MAX_LEN)
        goto err_full;
    uint32_t hash = hash_of(kind, bytes, len), mine = HM_NO_ID;
    uint32_t mask = defs->n_slots - 1,
             limit = defs->n_slots < MAX_PROBES ? defs->n_slots : MAX_PROBES;
    for (uint32_t i = 0; i < limit; i++) {
        _Atomic uint64_t *slot = &defs->slot[(hash + i) & mask];
        uint64_t word = atomic_load_explicit(slot, memory_order_acquire);
        if (!word) {
            if (mine == HM_NO_ID && (mine = publish(defs, kind, bytes, len)) == HM_NO_ID)
                goto err_full;
            uint64_t ours = (uint64_t)hash << 32 | (uint64_t)kind << ID_BITS | (mine + 1);
            if (atomic_compare_exchange_strong_explicit(slot, &word, ours, memory_order_acq_rel,
                                                        memory_order_acquire))
                return mine;
        }
        uint32_t id = id_in_slot(defs, word, hash, kind, bytes, len);
        if (id != HM_NO_ID)
            return id;
    }
err_full:
    if (defs->full)
        atomic_fetch_add_explicit(defs->full, 1, memory_order_relaxed);
    return HM_NO_ID;
}

uint32_t hm_defs_find(const struct hm_defs *defs, enum hm_def_kind kind, const void *bytes,
                      uint32_t len)
{
    if ((unsigned)kind >= HM_N_DEFS || len > MAX_LEN)
        return HM_NO_ID;
    uint32_t hash = hash_of(kind, bytes, len), mask = defs->n_slots - 1;
    uint32_t limit = defs->n_slots < MAX_PROBES ? defs->n_slots : MAX_PROBES;
    for (uint32_t i = 0; i < limit; i++) {
        uint64_t word = atomic_load_explicit(&defs->slot[(hash + i) & mask], memory_order_acquire);
        if (!word)
            break;
        uint32_t id = id_in_slot(defs, word, hash, kind, bytes, len);
        if (id != HM_NO_ID)
            return id;
    }
    return HM_NO_ID;
}

hm_status_t hm_defs_create(const uint32_t cap[HM_N_DEFS], uint64_t arena, struct hm_defs *defs_p)
{
    size_t size = hm_defs_size(cap, arena);
    void *region = mmap(NULL, size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (region == MAP_FAILED)
        return hm_fail(HM_E_NOMEM, "definitions", "no memory for a table of %zu bytes", size);
    hm_defs_format(region, cap, arena);
    hm_status_t s = hm_defs_attach(region, size, defs_p);
    if (s) {
        munmap(region, size);
        return hm_fail(s, "definitions", "table of %zu bytes has no valid layout", size);
    }
    defs_p->mapped = size;
    return HM_OK;
}

void hm_defs_destroy(struct hm_defs *defs)
{
    if (defs->mapped)
        munmap(defs->head, defs->mapped);
    memset(defs, 0, sizeof(*defs));
}
