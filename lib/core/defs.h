/* Definitions: facts said once (names, tracks, kernels, communicators, devices).
 *
 * Box: lib/core. A lock-free interning table in one region of memory: in the pool's memfd for the
 * recorder, in an anonymous mapping elsewhere. Any thread of any process that maps it.
 */
#ifndef HM_DEFS_H
#define HM_DEFS_H

#include "core/status.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum hm_def_kind {
    HM_DEF_STRING,
    HM_DEF_TRACK,
    HM_DEF_KERNEL,
    HM_DEF_COMM,
    HM_DEF_DEVICE,
    HM_DEF_MPI_COMM,
    HM_N_DEFS
};
struct hm_def_track {
    uint32_t type, name, device, context, stream, tid, priority, pad;
}; /* 32: thread, stream, proxy, writer */
struct hm_def_kernel {
    uint32_t name;
    uint16_t block[3], registers;
    uint32_t shared_static, shared_dynamic;
    uint8_t cluster[3], launch_type;
}; /* 24 */
struct hm_def_comm {
    uint64_t hash, parent;
    uint32_t nth;
    int32_t crank, n_ranks, n_nodes, device;
    uint32_t name, interface, nccl_version;
}; /* 48 */
struct hm_def_device {
    uint8_t uuid[16];
    uint64_t memory_bytes;
    uint32_t device, name, pci_domain;
    uint16_t pci_bus, pci_slot;
    uint32_t n_sm, cc, clock_khz, pad;
}; /* 56 */
struct hm_def_mpi_comm {
    uint64_t member_hash;
    int32_t crank, n_ranks;
}; /* 16 */
struct hm_def_entry {
    _Atomic uint32_t len;
    uint32_t off;
}; /* 8: len 0 = hole, else 1 + bytes; off in 8-byte units of the arena */
struct hm_defs_head {
    _Atomic uint64_t arena_used;
    _Atomic uint32_t n[HM_N_DEFS];
    uint32_t cap[HM_N_DEFS], n_slots, pad;
    uint64_t arena_bytes;
}; /* 72, constant but the atomics */
struct hm_defs {
    struct hm_defs_head *head;
    _Atomic uint64_t *slot;
    struct hm_def_entry *entry[HM_N_DEFS];
    uint8_t *arena;
    uint64_t arena_bytes; /* checked copies: the head can be overwritten by another process */
    uint32_t cap[HM_N_DEFS], n_slots;
    size_t mapped;          /* bytes of the mapping of hm_defs_create(), else 0 */
    _Atomic uint64_t *full; /* counts definitions refused for want of room; may be NULL */
};                          /* a process's view */
_Static_assert(sizeof(struct hm_def_track) == 32 && sizeof(struct hm_def_kernel) == 24 &&
                   sizeof(struct hm_def_comm) == 48 && sizeof(struct hm_defs_head) == 72,
               "");

/** Bytes of a region for cap[HM_N_DEFS] definitions and `arena` bytes of text. */
size_t hm_defs_size(const uint32_t cap[HM_N_DEFS], uint64_t arena);
/** Formats zeroed memory of hm_defs_size() bytes. */
void hm_defs_format(void *region, const uint32_t cap[HM_N_DEFS], uint64_t arena);
/** Makes a view of a formatted region; every offset is checked. HM_OK or HM_E_DATA. */
hm_status_t hm_defs_attach(void *region, size_t size, struct hm_defs *defs_p);
/** Returns the id of the bytes, adding them when new; the bytes are copied. HM_NO_ID = full.
 *  Thread: any. Cost: about 25 ns for a known name. */
uint32_t hm_defs_intern(struct hm_defs *defs, enum hm_def_kind kind, const void *bytes,
                        uint32_t len);
/** The id of the bytes when they are known, else HM_NO_ID; adds nothing, counts nothing. */
uint32_t hm_defs_find(const struct hm_defs *defs, enum hm_def_kind kind, const void *bytes,
                      uint32_t len);
/** Borrows the bytes of a definition. HM_OK, HM_AGAIN (a hole: not published or lost a race),
 *  HM_E_DATA (id or offset out of range). */
hm_status_t hm_defs_get(const struct hm_defs *defs, enum hm_def_kind kind, uint32_t id,
                        const void **bytes_p, uint32_t *len_p);
/** A private table in an anonymous mapping that is freed by hm_defs_destroy(). */
hm_status_t hm_defs_create(const uint32_t cap[HM_N_DEFS], uint64_t arena, struct hm_defs *defs_p);
void hm_defs_destroy(struct hm_defs *defs);

/** Key of a communicator over all ranks: its hash, mixed with nth where a process made several of
 *  one hash. */
static inline uint64_t hm_comm_key(uint64_t hash, uint32_t nth)
{
    uint64_t x = hash + nth * UINT64_C(0x9e3779b97f4a7c15);
    if (!nth)
        return hash;
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

#endif
