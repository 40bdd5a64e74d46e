/* Which tool wrote it, and a run for the time of a command.
 *
 * Box: merge/import. One thread. Formats are told by what a file holds, not by its name.
 */
#ifndef HM_IMPORT_FOREIGN_H
#define HM_IMPORT_FOREIGN_H

#include "import/import.h"

#include <sys/types.h>

enum hm_foreign {
    HM_FOREIGN_NONE, /* a folder with rank files, or nothing that is known */
    HM_FOREIGN_KINETO,
    HM_FOREIGN_NSYS,
    HM_FOREIGN_INSPECTOR
};
/** Of a file, or of the files of a folder that holds no rank file. Cost: heads of the files. */
enum hm_foreign hm_import_detect(const char *path);
/** Files, or one folder, of the given format -> the new folder `run`; as hm_import_kineto(). */
hm_status_t hm_import_foreign(enum hm_foreign format, const char *const *paths, uint32_t n,
                              const char *run);

/** A trace of another tool, imported into a private folder under TMPDIR. */
struct hm_import_temp {
    char top[1024];
    char run[1100]; /* "" when `path` is to be read as it is */
    int alive;      /* closed, by us or by our end: the janitor takes the folder away */
    pid_t janitor;
};
/** Makes temp_p->run of `path` when another tool wrote it. HM_E_DATA: a file of no known format.
 *  A path that does not exist is HM_OK: opening the run says so. */
hm_status_t hm_import_temp(const char *path, struct hm_import_temp *temp_p);
void hm_import_temp_remove(struct hm_import_temp *temp);

#endif
