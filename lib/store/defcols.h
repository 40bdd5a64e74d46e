/* Definitions as columns: one dataset a member, row = id.
 *
 * Box: lib/store. Constant.
 */
#ifndef HM_STORE_DEFCOLS_H
#define HM_STORE_DEFCOLS_H

#include "core/defs.h"
#include "store/schema.h"

struct hm_def_member {
    const char *name;
    uint16_t offset;
    uint8_t type; /* enum hm_col_type */
};
struct hm_def_table {
    const char *path; /* "/def/track"; strings have len and text instead of members */
    uint32_t bytes;   /* of the struct; 0 = string */
    const struct hm_def_member *member;
    uint32_t n_members;
};
extern const struct hm_def_table hm_def_tables[HM_N_DEFS];

#endif
