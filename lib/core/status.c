/* Names of statuses, exit codes, and the one place every line passes.
 *
 * Box: lib/core. Any thread; hm_log_sink() before there are others. Never called on the record
 * path.
 */
#include "core/status.h"

#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

static hm_sink_func_t sink_func;
static void *sink_ctx;

const char *hm_status_name(hm_status_t status)
{
    switch (status) {
    case HM_OK:
        return "HM_OK";
    case HM_AGAIN:
        return "HM_AGAIN";
    case HM_END:
        return "HM_END";
    case HM_E_NOMEM:
        return "HM_E_NOMEM";
    case HM_E_IO:
        return "HM_E_IO";
    case HM_E_SYS:
        return "HM_E_SYS";
    case HM_E_TIMEOUT:
        return "HM_E_TIMEOUT";
    case HM_E_LIMIT:
        return "HM_E_LIMIT";
    case HM_E_BUG:
        return "HM_E_BUG";
    case HM_E_USAGE:
        return "HM_E_USAGE";
    case HM_E_DATA:
        return "HM_E_DATA";
    case HM_E_VERSION:
        return "HM_E_VERSION";
    case HM_E_CONFLICT:
        return "HM_E_CONFLICT";
    case HM_E_CLOCK:
        return "HM_E_CLOCK";
    case HM_E_NO_RUN:
        return "HM_E_NO_RUN";
    case HM_E_MISSING:
        return "HM_E_MISSING";
    case HM_E_FOREIGN:
        return "HM_E_FOREIGN";
    }
    return "HM_E_?";
}

int hm_status_exit(hm_status_t status)
{
    if (status >= 0)
        return 0;
    if (status > HM_E_USAGE)
        return 1;
    if (status > HM_E_DATA)
        return 64;
    if (status > HM_E_NO_RUN)
        return 65;
    if (status > HM_E_MISSING)
        return 66;
    return 69;
}

static void say_line(int level, hm_status_t status, const char *line)
{
    char text[2048];
    if (sink_func) {
        sink_func(sink_ctx, level, status, line);
        return;
    }
    /* one write(2): lines of several ranks do not mix */
    int n = snprintf(text, sizeof(text), "hindmost: %s\n", line);
    if (n >= (int)sizeof(text)) {
        n = (int)sizeof(text) - 1;
        text[n - 1] = '\n';
    }
    if (n > 0 && write(2, text, (size_t)n) < 0)
        return;
}

hm_status_t hm_fail(hm_status_t status, const char *subject, const char *fmt, ...)
{
    char line[1900];
    va_list ap;
    int n = snprintf(line, sizeof(line), "%s: ", subject ? subject : "");
    if (!subject || n < 0 || n >= (int)sizeof(line))
        n = 0;
    va_start(ap, fmt);
    vsnprintf(line + n, sizeof(line) - (size_t)n, fmt, ap);
    va_end(ap);
    say_line(HM_SAY_ERROR, status, line);
    return status;
}

void hm_say(int level, const char *fmt, ...)
{
    char line[1900];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof(line), fmt, ap);
    va_end(ap);
    say_line(level, HM_OK, line);
}

void hm_log_sink(hm_sink_func_t sink, void *ctx)
{
    sink_func = sink;
    sink_ctx = ctx;
}
