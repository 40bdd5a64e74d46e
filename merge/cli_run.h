/* Entry of the command line, for main() and tests. Box: merge. */
#ifndef HM_CLI_RUN_H
#define HM_CLI_RUN_H

/** Runs `hindmost ARGS`; returns the exit code. argv is rearranged. */
int hm_cli_run(int argc, char **argv);

#endif
