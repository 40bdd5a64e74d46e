/* How wide, and in colour? Box: merge/report. See report.h. */
#include "report/report.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

struct hm_report_style hm_report_style_of(FILE *out)
{
    enum { PIPE_COLUMNS = 80, MAX_COLUMNS = 160 };
    struct hm_report_style style = {.columns = PIPE_COLUMNS};
    struct winsize size;
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
    if (!isatty(fileno(out)))
        return style;
    if (!ioctl(fileno(out), TIOCGWINSZ, &size) && size.ws_col)
        style.columns = size.ws_col < MAX_COLUMNS ? size.ws_col : MAX_COLUMNS;
    style.colour = !(no && *no) && term && strcmp(term, "dumb") != 0;
    return style;
}
