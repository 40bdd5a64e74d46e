/* Traces of other tools -> rank files.
 *
 * Box: merge/import. One thread. An imported run is a run: it is written through hm_rankfile_* just
 * as the writer does it, and everything behind it cannot tell the difference but for `source`.
 */
#ifndef HM_IMPORT_H
#define HM_IMPORT_H

#include "core/status.h"

#include <stdint.h>

/** Reads n Kineto traces (torch.profiler; one a rank; JSON, plain or gzip) into the new folder
 *  `run`. Nothing is left behind on failure. HM_OK; HM_E_DATA (a file is cut off or no Kineto
 *  trace, or `run` exists), HM_E_CONFLICT (two files of one rank), HM_E_IO, HM_E_NOMEM. */
hm_status_t hm_import_kineto(const char *const *files, uint32_t n, const char *run);
/** The same for every *.json and *.json.gz of a folder that is a Kineto trace; one that is damaged is
 *  named and left out. HM_E_NO_RUN when there is none, HM_E_DATA when none can be used. */
hm_status_t hm_import_kineto_folder(const char *folder, const char *run);
/** The same for SQLite exports of Nsight Systems (`nsys export --type sqlite`): every process that ran
 *  a kernel is a rank. HM_E_MISSING: built without SQLite. */
hm_status_t hm_import_nsys(const char *const *files, uint32_t n, const char *run);
/** The same for the JSON lines of NCCL's inspector plugin. */
hm_status_t hm_import_inspector(const char *const *files, uint32_t n, const char *run);
int hm_import_is_inspector(const char *path);
/** 1 when path is a file that begins like a Kineto trace, or a folder that holds one and no rank
 *  file. Cost: the head of the file. */
int hm_import_is_kineto(const char *path);

#endif
