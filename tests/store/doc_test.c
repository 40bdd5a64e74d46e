/* docs/format.md lists every table and column as schema.def has them.
 *
 * usage: doc_test FORMAT_MD. Exit 0 = equal; else prints what the file must end with.
 */
#include "store/schema.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char head[] = "## Columns\n";

static void print_tables(FILE *f)
{
    static const char *const type[] = {"", "u8", "u16", "u32", "u64", "i32", "i64"};
    fprintf(f,
            "%s\nEach table has the five common columns too. The kind is its number in events "
            "and in the tail.\n",
            head);
    for (uint32_t i = 0; i < hm_n_tables; i++) {
        const struct hm_table *t = &hm_tables[i];
        fprintf(f, "\n### %s (kind %u)\n\n%s.\n\n", t->path, t->kind, t->doc);
        fprintf(f, "| column | type | unit | meaning |\n|---|---|---|---|\n");
        for (uint32_t c = 5; c < t->n_cols; c++)
            fprintf(f, "| %s | %s%s | %s | %s |\n", t->col[c].name, type[t->col[c].type],
                    t->col[c].delta ? ", delta" : "", t->col[c].unit, t->col[c].doc);
    }
}

int main(int argc, char **argv)
{
    char *want = NULL, *have;
    size_t n = 0;
    FILE *f = open_memstream(&want, &n);
    if (argc != 2 || !f)
        return 1;
    print_tables(f);
    fclose(f);
    for (uint32_t i = 0; i < hm_n_tables; i++) { /* what the common part promises */
        static const char *const common[] = {"t", "dur", "track", "flags", "aux"};
        for (int c = 0; c < 5; c++)
            if (hm_tables[i].n_cols < 5 || strcmp(hm_tables[i].col[c].name, common[c]) != 0) {
                fprintf(stderr, "%s: column %d is not %s\n", hm_tables[i].path, c, common[c]);
                return 1;
            }
    }
    f = fopen(argv[1], "rb");
    have = calloc(1, 1 << 20);
    if (!f || !have || !fread(have, 1, (1 << 20) - 1, f)) {
        perror(argv[1]);
        return 1;
    }
    fclose(f);
    const char *at = strstr(have, head);
    int equal = at && !strcmp(at, want);
    if (!equal) {
        fprintf(stderr, "%s must end with what stands on stdout\n", argv[1]);
        fputs(want, stdout);
    }
    free(want);
    free(have);
    return !equal;
}
