/* See utf8.h. Pure. */
#include "out/utf8.h"

#include <stddef.h>

int hm_utf8(const unsigned char *s)
{
    static const struct {
        unsigned char lo, hi, n, first_lo, first_hi;
    } row[] = {{0xC2, 0xDF, 1, 0x80, 0xBF}, {0xE0, 0xE0, 2, 0xA0, 0xBF},
               {0xE1, 0xEC, 2, 0x80, 0xBF}, {0xED, 0xED, 2, 0x80, 0x9F},
               {0xEE, 0xEF, 2, 0x80, 0xBF}, {0xF0, 0xF0, 3, 0x90, 0xBF},
               {0xF1, 0xF3, 3, 0x80, 0xBF}, {0xF4, 0xF4, 3, 0x80, 0x8F}};
    if (s[0] < 0x80)
        return 1;
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
        if (s[0] < row[i].lo || s[0] > row[i].hi)
            continue;
        if (s[1] < row[i].first_lo || s[1] > row[i].first_hi)
            return 0;
        for (int k = 2; k <= row[i].n; k++)
            if ((s[k] & 0xC0) != 0x80)
                return 0;
        return 1 + row[i].n;
    }
    return 0;
}
