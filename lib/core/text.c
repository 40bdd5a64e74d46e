/* Edit distance, one row at a time. Box: lib/core. Pure. */
#include "core/text.h"

#include <limits.h>
#include <string.h>

unsigned hm_text_distance(const char *a, const char *b)
{
    unsigned row[HM_TEXT_LONGEST + 1];
    size_t la = strlen(a), lb = strlen(b);
    if (la > HM_TEXT_LONGEST || lb > HM_TEXT_LONGEST)
        return UINT_MAX;
    for (unsigned j = 0; j <= lb; j++)
        row[j] = j;
    for (size_t i = 1; i <= la; i++) {
        unsigned diagonal = row[0];
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= lb; j++) {
            unsigned best = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            row[j] = best;
        }
    }
    return row[lb];
}
