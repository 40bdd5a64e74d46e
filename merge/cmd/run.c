/* `hindmost run`: sets the environment and execs, so that status and signals are the program's own.
 *
 * Box: merge/cmd. May stand behind the launcher (mpirun -np 4 hindmost run -- ./train) or before
 * it.
 */
#include "cli.h"
#include "cmd/launch.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct hm_option options[] = {
    {"dry-run", NULL, "print what would be set, and run nothing", NULL,
     offsetof(struct hm_launch_args, dry), 'n', HM_OPT_FLAG},
    {"preload", NULL, "set LD_PRELOAD also without an MPI launcher", NULL,
     offsetof(struct hm_launch_args, preload), 0, HM_OPT_FLAG},
    {"no-preload", NULL, "never set LD_PRELOAD", NULL, offsetof(struct hm_launch_args, no_preload),
     0, HM_OPT_FLAG},

#define HM_SETTING HM_LAUNCH_OPTION
#include "core/config.def"
#undef HM_SETTING
};

/* MPI timing and the MPI clock windows need the preload; elsewhere it is only in the way. */
static int under_mpi(void)
{
    static const char *const signs[] = {"OMPI_COMM_WORLD_SIZE",
                                        "OMPI_COMM_WORLD_RANK",
                                        "PMI_RANK",
                                        "PMI_SIZE",
                                        "PMIX_RANK",
                                        "PMI_FD",
                                        "SLURM_PROCID"};
    for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++)
        if (getenv(signs[i]))
            return 1;
    return 0;
}

/* Before a launcher: its children inherit the preload, the launcher itself stays dormant. */
static int is_mpi_launcher(const char *program)
{
    static const char *const names[] = {"mpirun", "mpiexec",       "orterun",        "prterun",
                                        "prun",   "mpiexec.hydra", "mpirun.openmpi", "mpirun.mpich",
                                        "srun",   "jsrun",         "aprun"};
    const char *slash = strrchr(program, '/');
    const char *base = slash ? slash + 1 : program;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (!strcmp(base, names[i]))
            return 1;
    return 0;
}

static hm_status_t run_run(const void *arguments, int argc, char **argv)
{
    const struct hm_launch_args *args = arguments;
    struct hm_launch_var var[HM_LAUNCH_VARS];
    if (!argc)
        return hm_fail(HM_E_USAGE, "run",
                       "no program; usage: hindmost run [OPTIONS] -- PROGRAM "
                       "ARGS");
    int preload = args->preload || (!args->no_preload && (under_mpi() || is_mpi_launcher(argv[0])));
    hm_status_t s = hm_launch_vars(args, preload, var);
    if (s)
        return s;
    for (size_t i = 0; var[i].value; i++) {
        if (args->dry)
            printf("%s=%s\n", var[i].name, var[i].value);
        else if (setenv(var[i].name, var[i].value, 1))
            return hm_fail(HM_E_NOMEM, "run", "the environment is full");
    }
    const char *python = hm_launch_python(argc, argv);
    if (python && args->dry)
        printf("PYTHONPATH=%s\n", python);
    else if (python && setenv("PYTHONPATH", python, 1))
        return hm_fail(HM_E_NOMEM, "run", "the environment is full");
    if (args->dry) {
        for (int i = 0; i < argc; i++)
            printf("%s%s", argv[i], i + 1 < argc ? " " : "\n");
        return HM_OK;
    }
    signal(SIGPIPE, SIG_DFL); /* what main() changed is not the program's business */
    execvp(argv[0], argv);
    int error = errno;
    hm_say(HM_SAY_ERROR, "%s: cannot be run: %s", argv[0], strerror(error));
    hm_cli_exit_code(error == ENOENT ? 127 : 126);
    return HM_OK;
}

const struct hm_command hm_cmd_run = {"run",
                                      "-- PROGRAM [ARGS]",
                                      "runs a program with the recorder in it",
                                      "mpirun -np 8 hindmost run -- ./train --epochs 3",
                                      options,
                                      sizeof(options) / sizeof(options[0]),
                                      sizeof(struct hm_launch_args),
                                      run_run};
