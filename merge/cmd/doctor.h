/* What the files of `hindmost doctor` share. Box: merge/cmd. */
#ifndef HM_CMD_DOCTOR_H
#define HM_CMD_DOCTOR_H

#include "core/config.h"

enum hm_finding {
    HM_FOUND_GOOD, /* as it should be */
    HM_FOUND_NOTE, /* something is not recorded, or worth knowing */
    HM_FOUND_BAD,  /* recording will not work */
};
/** One line: "ok    SUBJECT  text". Text says what was found and, unless it is good, what to do. */
void hm_doctor_say(enum hm_finding finding, const char *subject, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/** Bad findings so far. */
unsigned hm_doctor_n_bad(void);

/** What has to be loaded to be looked at; each in a process of its own. */
void hm_doctor_gpu(const struct hm_config *config);
void hm_doctor_nccl(const struct hm_config *config);
void hm_doctor_mpi(const struct hm_config *config);

#endif
