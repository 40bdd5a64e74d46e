/* The tables of schema.def as data.
 *
 * Box: lib/store. Constant, any thread.
 */
#include "store/schema.h"

#include <stddef.h>

#define HM_COL(name, member, type, delta, unit, doc) \
    {name, offsetof(struct hm_event, member), HM_COL_##type, delta, unit, doc},
#define COMMON                                                                                     \
    HM_COL("t", t_ns, I64, 1, "ns", "begin or instant, in the clock that flags name")              \
    HM_COL("dur", dur_ns, I64, 0, "ns", "duration; 0 an instant; -2^63 had not ended")             \
    HM_COL("track", track, U32, 0, "id", "row of /def/track")                                      \
    HM_COL("flags", flags, U8, 0, "bits",                                                          \
           "0-2 clock (0 RAW, 1 REAL, 2 GPU, 3 FILE), 8 bad time, 16 evicted, 32 graph, 64 late, " \
           "128 no time")                                                                          \
    HM_COL("aux", aux, U16, 0, "code", "see the table")

/* columns, one array a table, named by kind */
#define HM_TABLE(kind, path, doc) static const struct hm_column columns_##kind[] = {COMMON
#define HM_END \
    }          \
    ;
#include "store/schema.def"
#undef HM_TABLE
#undef HM_COL
#undef HM_END

#define HM_TABLE(kind, path, doc) \
    {path, kind, columns_##kind, sizeof(columns_##kind) / sizeof(columns_##kind[0]), doc},
#define HM_COL(name, member, type, delta, unit, doc)
#define HM_END
const struct hm_table hm_tables[] = {
#include "store/schema.def"
};
const uint32_t hm_n_tables = sizeof(hm_tables) / sizeof(hm_tables[0]);

uint32_t hm_col_bytes(uint8_t type)
{
    switch ((enum hm_col_type)type) {
    case HM_COL_U8:
        return 1;
    case HM_COL_U16:
        return 2;
    case HM_COL_U32:
    case HM_COL_I32:
        return 4;
    case HM_COL_U64:
    case HM_COL_I64:
        return 8;
    }
    return 0;
}
