/* The tables of a result: descriptions from result.def, rows on the heap.
 *
 * Box: lib/analysis. One thread per result.
 */
#include "analysis/result.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TABLE(name, many, doc)               \
    typedef struct hm_out_##name out_##name; \
    enum { many_##name = many };
#define COL(type, key, unit, doc)
#define END(name)
#include "analysis/result.def"
#undef TABLE
#undef COL
#undef END

/* Every member is 8 bytes wide: column i lies at 8 i. */
_Static_assert(sizeof(int64_t) == 8 && sizeof(double) == 8 && sizeof(char *) == 8, "");

#define TABLE(name, many, doc)    static const struct hm_result_col cols_##name[] = {
#define COL(type, key, unit, doc) {#key, unit, doc, 0, HM_CELL_##type, 0},
#define END(name) \
    }             \
    ;             \
    _Static_assert(sizeof(out_##name) == 8 * sizeof(cols_##name) / sizeof(cols_##name[0]), "");
#include "analysis/result.def"
#undef TABLE
#undef COL
#undef END

const struct hm_result_table hm_result_tables[HM_N_TABLES] = {
#define TABLE(name, many, doc)                        \
    {                                                 \
        #name,                                        \
        doc,                                          \
        cols_##name,                                  \
        sizeof(cols_##name) / sizeof(cols_##name[0]), \
        sizeof(out_##name),                           \
        many_##name},
#define COL(type, key, unit, doc)
#define END(name)
#include "analysis/result.def"
#undef TABLE
#undef COL
#undef END
};
_Static_assert(HM_N_TABLES <= 32, "struct hm_result holds 32 tables");

void *hm_result_add(struct hm_result *result, enum hm_result_id table)
{
    const struct hm_result_table *t = &hm_result_tables[table];
    uint32_t n = result->n_rows[table];
    if ((n & (n - 1)) == 0) { /* room for the next power of two */
        void *rows = realloc(result->rows[table], (n ? 2 * (size_t)n : 1) * t->row_bytes);
        if (!rows)
            return NULL;
        result->rows[table] = rows;
    }
    char *row = (char *)result->rows[table] + (size_t)n * t->row_bytes;
    for (uint16_t i = 0; i < t->n_cols; i++) {
        uint8_t cell = t->col[i].cell;
        if (cell == HM_CELL_I64 || cell == HM_CELL_PPB)
            memcpy(row + 8 * i, &(int64_t){HM_NONE(HM_NONE_UNKNOWN)}, 8);
        else if (cell == HM_CELL_F64)
            memcpy(row + 8 * i, &(double){NAN}, 8);
        else
            memset(row + 8 * i, 0, 8);
    }
    result->n_rows[table] = n + 1;
    return row;
}

const void *hm_result_row(const struct hm_result *result, enum hm_result_id table, uint32_t i)
{
    if (i >= result->n_rows[table])
        return NULL;
    return (const char *)result->rows[table] + (size_t)i * hm_result_tables[table].row_bytes;
}

static void row_clear(const struct hm_result_table *table, char *row)
{
    for (uint16_t i = 0; i < table->n_cols; i++) {
        uint8_t cell = table->col[i].cell;
        if (cell != HM_CELL_STR && cell != HM_CELL_LIST && cell != HM_CELL_IDS)
            continue;
        char *text;
        memcpy(&text, row + 8 * i, 8);
        free(text);
    }
}

void hm_result_drop(struct hm_result *result, enum hm_result_id table)
{
    const struct hm_result_table *t = &hm_result_tables[table];
    if (result->n_rows[table])
        row_clear(t, (char *)result->rows[table] + (size_t)--result->n_rows[table] * t->row_bytes);
}

void hm_result_clear(struct hm_result *result)
{
    for (unsigned t = 0; t < HM_N_TABLES; t++) {
        const struct hm_result_table *table = &hm_result_tables[t];
        for (uint32_t r = 0; r < result->n_rows[t]; r++)
            row_clear(table, (char *)result->rows[t] + (size_t)r * table->row_bytes);
        free(result->rows[t]);
    }
    memset(result, 0, sizeof(*result));
}

const char *hm_why(int64_t none)
{
    static const char *const why[HM_N_NONES] = {
        [HM_NONE_UNKNOWN] = "not known",
        [HM_NONE_NOT_RECORDED] = "not recorded",
        [HM_NONE_NO_STEPS] = "no steps were found",
        [HM_NONE_NO_COLLECTIVES] = "no matched collectives",
        [HM_NONE_BELOW_CLOCK] = "below clock resolution",
        [HM_NONE_ONE_SIDED] = "not a collective in which all wait for all",
        [HM_NONE_MISSING] = "the kernel of this rank is missing",
        [HM_NONE_REPLAY] = "the replay does not reproduce the run",
        [HM_NONE_NO_PATTERN] = "too few steps to tell a pattern",
        [HM_NONE_NO_ROLES] = "all ranks are compared with one another",
        [HM_NONE_ALL_RANKS] = "all ranks together",
        [HM_NONE_NO_CLOCK] = "the clocks of some nodes were never compared",
        [HM_NONE_TOO_SHORT] = "fewer than 8 steps",
    };
    int64_t i = none - (INT64_MIN + 1);
    return i >= 0 && i < HM_N_NONES && why[i] ? why[i] : "not known";
}
