/* Definitions: ids, kinds, limits, hostile regions. Box: tests/core. */
#include "core/defs.h"

#include "core/event.h"

#include <criterion/criterion.h>
#include <string.h>

static const uint32_t cap[HM_N_DEFS] = {8, 4, 4, 4, 4, 4};

Test(defs, ids_are_dense_and_stable)
{
    struct hm_defs d;
    const void *bytes;
    uint32_t len;
    cr_assert_eq(hm_defs_create(cap, 4096, &d), HM_OK);
    cr_assert_eq(hm_defs_intern(&d, HM_DEF_STRING, "one", 3), 0);
    cr_assert_eq(hm_defs_intern(&d, HM_DEF_STRING, "two", 3), 1);
    cr_assert_eq(hm_defs_intern(&d, HM_DEF_STRING, "", 0), 2);
    cr_assert_eq(hm_defs_intern(&d, HM_DEF_STRING, "one", 3), 0);
    cr_assert_eq(hm_defs_intern(&d, HM_DEF_STRING, "", 0), 2);
    cr_assert_eq(hm_defs_intern(&d, HM_DEF_STRING, "on", 2), 3, "a prefix is another name");
    cr_assert_eq(hm_defs_intern(&d, HM_DEF_MPI_COMM, "one", 3), 0, "each kind counts for itself");
    cr_assert_eq(hm_defs_get(&d, HM_DEF_STRING, 1, &bytes, &len), HM_OK);
    cr_assert(len == 3 && !memcmp(bytes, "two", 3));
    cr_assert_eq(hm_defs_get(&d, HM_DEF_STRING, 2, &bytes, &len), HM_OK);
    cr_assert_eq(len, 0);
    cr_assert_eq(hm_defs_get(&d, HM_DEF_STRING, 4, &bytes, &len), HM_E_DATA);
    cr_assert_eq(hm_defs_get(&d, HM_DEF_STRING, HM_NO_ID, &bytes, &len), HM_E_DATA);
    cr_assert_eq(hm_defs_get(&d, HM_N_DEFS, 0, &bytes, &len), HM_E_DATA);
    hm_defs_destroy(&d);
}

Test(defs, full_is_counted_and_known_names_go_on)
{
    struct hm_defs d;
    _Atomic uint64_t refused = 0;
    char name[2] = "a";
    cr_assert_eq(hm_defs_create(cap, 4096, &d), HM_OK);
    d.full = &refused;
    for (int i = 0; i < 8; i++, name[0]++)
        cr_assert_eq(hm_defs_intern(&d, HM_DEF_STRING, name, 1), (uint32_t)i);
    cr_assert_eq(hm_defs_intern(&d, HM_DEF_STRING, "z", 1), HM_NO_ID);
    cr_assert_eq(hm_defs_intern(&d, HM_DEF_STRING, "z", 1), HM_NO_ID);
    cr_assert_eq(atomic_load(&refused), 2);
    cr_assert_eq(hm_defs_intern(&d, HM_DEF_STRING, "c", 1), 2);
    cr_assert_eq(atomic_load(&d.head->n[HM_DEF_STRING]), 8);
    hm_defs_destroy(&d);
}

Test(defs, arena_full_takes_no_id)
{
    struct hm_defs d;
    char text[100] = "x";
    cr_assert_eq(hm_defs_create(cap, 128, &d), HM_OK);
    cr_assert_eq(hm_defs_intern(&d, HM_DEF_STRING, text, 100), 0);
    cr_assert_eq(hm_defs_intern(&d, HM_DEF_STRING, text, 99), HM_NO_ID);
    cr_assert_eq(atomic_load(&d.head->n[HM_DEF_STRING]), 1, "an id without bytes would be a hole");
    cr_assert_eq(hm_defs_intern(&d, HM_DEF_STRING, "short", 5), 1, "what still fits goes in");
    hm_defs_destroy(&d);
}

Test(defs, a_damaged_region_is_refused_or_harmless)
{
    static _Alignas(64) uint8_t good[1 << 14], bad[1 << 14];
    size_t size = hm_defs_size(cap, 1024);
    struct hm_defs d;
    const void *bytes;
    uint32_t len, n_refused = 0, n_attached = 0;
    cr_assert_lt(size, sizeof(good));
    hm_defs_format(good, cap, 1024);
    cr_assert_eq(hm_defs_attach(good, size, &d), HM_OK);
    hm_defs_intern(&d, HM_DEF_STRING, "name", 4);
    cr_assert_eq(hm_defs_attach(good, size - 8, &d), HM_E_DATA, "one word short");
    for (size_t bit = 0; bit < size * 8; bit++) {
        memcpy(bad, good, size);
        bad[bit / 8] ^= (uint8_t)(1 << bit % 8);
        if (hm_defs_attach(bad, size, &d)) {
            n_refused++;
            continue;
        }
        n_attached++;
        for (int k = 0; k < HM_N_DEFS; k++)
            for (uint32_t id = 0; id < 10; id++)
                if (!hm_defs_get(&d, (enum hm_def_kind)k, id, &bytes, &len))
                    cr_assert((const uint8_t *)bytes >= bad &&
                              (const uint8_t *)bytes + len <= bad + size);
        hm_defs_intern(&d, HM_DEF_STRING, "name", 4);
        hm_defs_intern(&d, HM_DEF_STRING, "other", 5);
    }
    cr_assert(n_refused > 100 && n_attached > 1000, "%u %u", n_refused, n_attached);
}
