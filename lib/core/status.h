/* Status codes, and how a function says what went wrong.
 *
 * Box: lib/core. Any thread. A function either passes a status up in silence or makes one with
 * hm_fail(), which logs it once. The record path calls neither.
 */
#ifndef HM_STATUS_H
#define HM_STATUS_H

#include <stdarg.h>
#include <stdint.h>

typedef enum hm_status { /* > 0 not an error; groups give the tool's exit code */
                         HM_OK = 0,
                         HM_AGAIN = 1,
                         HM_END = 2,
                         HM_E_NOMEM = -1,
                         HM_E_IO = -2,
                         HM_E_SYS = -3,
                         HM_E_TIMEOUT = -4,
                         HM_E_LIMIT = -5,
                         HM_E_BUG = -9,    /* exit  1 */
                         HM_E_USAGE = -10, /* exit 64 */
                         HM_E_DATA = -20,
                         HM_E_VERSION = -21,
                         HM_E_CONFLICT = -22,
                         HM_E_CLOCK = -23, /* exit 65 */
                         HM_E_NO_RUN = -30,
                         HM_E_MISSING = -40,
                         HM_E_FOREIGN = -41 /* exit 66, 69, 69 */
} hm_status_t;

enum hm_say_level { HM_SAY_ERROR, HM_SAY_WARN, HM_SAY_INFO, HM_SAY_DEBUG };

/** Receives every line: in the tool stderr, in the training process the saved stderr, in the
 *  writer the notes of the pool. `status` is HM_OK for hm_say(). */
typedef void (*hm_sink_func_t)(void *ctx, int level, hm_status_t status, const char *line);

/** Name of a status, "HM_E_DATA"; never NULL. */
const char *hm_status_name(hm_status_t status);
/** The tool's exit code for a status: 0, 1, 64, 65, 66 or 69. */
int hm_status_exit(hm_status_t status);
/** Logs "SUBJECT: text" once at the place that first knows, and returns `status`. */
hm_status_t hm_fail(hm_status_t status, const char *subject, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/** Says one line ("hindmost: text" on the default sink). */
void hm_say(int level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/** Replaces the sink; NULL restores the default (stderr by write(2)). Not thread safe. */
void hm_log_sink(hm_sink_func_t sink, void *ctx);

#endif
