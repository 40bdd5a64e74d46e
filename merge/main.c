/* hindmost: the program. Box: merge. */
#include "cli_run.h"

#include <signal.h>

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN); /* a closed pager is an error of write(2), not a death */
    return hm_cli_run(argc, argv);
}
