/* Rank and job from the environment; the run folder. Box: tests/core. */
#include "core/who.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct row {
    const char *what, *env[12];
    int32_t rank, n_ranks, local_rank, n_local;
    const char *launcher, *job;
};
static const struct row rows[] = {
    {"nothing", {NULL}, -1, -1, -1, -1, "", ""},
    {"mpirun of Open MPI",
     {"OMPI_COMM_WORLD_RANK=3", "OMPI_COMM_WORLD_SIZE=8", "OMPI_COMM_WORLD_LOCAL_RANK=1",
      "OMPI_COMM_WORLD_LOCAL_SIZE=2", "PMIX_NAMESPACE=1557135361",
      "OMPI_MCA_orte_precondition_transports=d13b8a1f657bcde9-e494a36edd5ee877"},
     3,
     8,
     1,
     2,
     "openmpi",
     "1557135361-d13b8a1f657bcde9"},
    {"hydra",
     {"PMI_RANK=0", "PMI_SIZE=4", "MPI_LOCALRANKID=0", "MPI_LOCALNRANKS=4"},
     0,
     4,
     0,
     4,
     "pmi",
     ""},
    {"srun",
     {"SLURM_JOB_ID=77", "SLURM_STEP_ID=2", "SLURM_PROCID=5", "SLURM_NTASKS=16", "SLURM_LOCALID=1"},
     5,
     16,
     1,
     -1,
     "slurm",
     "77.2"},
    {"a batch script, not a task",
     {"SLURM_JOB_ID=77", "SLURM_PROCID=0", "SLURM_NTASKS=16"},
     -1,
     -1,
     -1,
     -1,
     "",
     "77.0"},
    {"torchrun under srun: srun's numbers count nodes",
     {"SLURM_JOB_ID=77", "SLURM_STEP_ID=2", "SLURM_PROCID=1", "SLURM_NTASKS=2", "RANK=9",
      "WORLD_SIZE=16", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=8", "TORCHELASTIC_RUN_ID=exp",
      "TORCHELASTIC_RESTART_COUNT=2"},
     9,
     16,
     1,
     8,
     "torchrun",
     "exp.2"},
    {"plain names", {"RANK=1", "WORLD_SIZE=2", "LOCAL_RANK=1"}, 1, 2, 1, -1, "", ""},
    {"no number", {"RANK=one", "WORLD_SIZE=2"}, -1, -1, -1, -1, "", ""},
    {"rank beyond size", {"RANK=2", "WORLD_SIZE=2"}, -1, -1, -1, -1, "", ""},
    {"huge", {"RANK=99999999999", "WORLD_SIZE=2"}, -1, -1, -1, -1, "", ""},
};

Test(who, launchers)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct hm_who who;
        clearenv();
        for (int k = 0; k < 12 && rows[i].env[k]; k++)
            putenv((char *)(uintptr_t)rows[i].env[k]);
        hm_who(&who);
        cr_assert_eq(who.rank, rows[i].rank, "%s: rank %d", rows[i].what, who.rank);
        cr_assert_eq(who.n_ranks, rows[i].n_ranks, "%s: of %d", rows[i].what, who.n_ranks);
        cr_assert_eq(who.local_rank, rows[i].local_rank, "%s", rows[i].what);
        cr_assert_eq(who.n_local, rows[i].n_local, "%s", rows[i].what);
        cr_assert_str_eq(who.launcher, rows[i].launcher, "%s", rows[i].what);
        cr_assert_str_eq(who.job, rows[i].job, "%s", rows[i].what);
        cr_assert_gt(strlen(who.host), 0);
    }
}

static char dir[64];

static void go_there(void)
{
    snprintf(dir, sizeof(dir), "/tmp/hm-who-XXXXXX");
    cr_assert_not_null(mkdtemp(dir));
    cr_assert_eq(chdir(dir), 0);
}

static void remove_it(void)
{
    char command[100];
    cr_assert_eq(chdir("/"), 0);
    snprintf(command, sizeof(command), "rm -rf '%s'", dir);
    cr_assert_eq(system(command), 0);
}

TestSuite(rundir, .init = go_there, .fini = remove_it);

/* What `n` processes of one job chose, each in a process of its own; 1 = all the same. */
static int agree(int n, const struct hm_who *who, char first_p[1024])
{
    int fd[2], same = 1;
    char path[1024];
    cr_assert_eq(pipe(fd), 0);
    for (int i = 0; i < n; i++) {
        if (fork())
            continue;
        memset(path, 0, sizeof(path));
        if (hm_rundir_agree("hindmost.out", "", who, path))
            snprintf(path, sizeof(path), "failed");
        _exit(write(fd[1], path, sizeof(path)) != (ssize_t)sizeof(path));
    }
    for (int i = 0; i < n; i++) {
        cr_assert_eq(read(fd[0], i ? path : first_p, sizeof(path)), (ssize_t)sizeof(path));
        if (i && strcmp(path, first_p) != 0)
            same = 0;
    }
    while (wait(NULL) > 0)
        ;
    close(fd[0]);
    close(fd[1]);
    return same && strcmp(first_p, "failed") != 0;
}

Test(rundir, all_processes_of_a_job_agree)
{
    struct hm_who who = {.rank = 0, .job = "job-1", .host = "node"};
    char first[1024], second[1024];
    struct stat st;
    cr_assert(agree(20, &who, first));
    cr_assert_eq(stat(first, &st), 0);
    cr_assert_eq(st.st_mode & 0777, 0700);
    cr_assert_eq(strncmp(first, "hindmost.out/", 13), 0, "%s", first);
    snprintf(who.job, sizeof(who.job), "job-2");
    cr_assert(agree(3, &who, second));
    cr_assert_str_neq(first, second);
}

Test(rundir, a_link_of_long_ago_is_another_job)
{
    struct hm_who who = {.job = "123", .host = "node"};
    const struct timespec old[2] = {{1000000000, 0}, {1000000000, 0}};
    char first[1024], again[1024];
    cr_assert_eq(mkdir("hindmost.out", 0700), 0);
    cr_assert_eq(symlink("old-run", "hindmost.out/.job-123"), 0);
    cr_assert_eq(utimensat(-100, "hindmost.out/.job-123", old, 0x100 /* the link itself */), 0);
    cr_assert(agree(20, &who, first));
    cr_assert_null(strstr(first, "old-run"));
    cr_assert(agree(2, &who, again));
    cr_assert_str_eq(first, again);
}

Test(rundir, a_job_id_leads_nowhere_else)
{
    struct hm_who who = {.job = "../../etc/x y", .host = "no/de"};
    char path[1024];
    cr_assert_eq(hm_rundir_agree("hindmost.out", "", &who, path), HM_OK);
    cr_assert_eq(strncmp(path, "hindmost.out/", 13), 0);
    cr_assert_null(strchr(path + 13, '/'), "%s", path);
    cr_assert_eq(access("hindmost.out/.job-.._.._etc_x_y", F_OK), 0);
    /* a link that somebody else put there */
    struct hm_who other = {.job = "evil", .host = "node"};
    cr_assert_eq(symlink("../../tmp", "hindmost.out/.job-evil"), 0);
    cr_assert_eq(hm_rundir_agree("hindmost.out", "", &other, path), HM_E_DATA);
}

Test(rundir, out_is_the_folder_itself)
{
    struct hm_who who = {.job = "j", .host = "node"};
    char path[1024];
    struct stat st;
    cr_assert_eq(hm_rundir_agree("hindmost.out", "a/b/run", &who, path), HM_OK);
    cr_assert_str_eq(path, "a/b/run");
    cr_assert_eq(stat("a/b/run", &st), 0);
    cr_assert_eq(st.st_mode & 0777, 0700);
    cr_assert_eq(hm_rundir_agree("hindmost.out", "a/b/run", &who, path), HM_OK, "twice");
    cr_assert_neq(access("hindmost.out", F_OK), 0);
    FILE *f = fopen("file", "w");
    fclose(f);
    cr_assert_eq(hm_rundir_agree("hindmost.out", "file", &who, path), HM_E_IO);
}

static void quiet(void *ctx, int level, hm_status_t status, const char *line)
{
    (void)ctx;
    (void)level;
    (void)status;
    (void)line;
}

Test(rundir, latest)
{
    struct hm_who who = {.host = "node"};
    char a[1024], path[1024];
    struct stat run, latest;
    hm_log_sink(quiet, NULL);
    cr_assert_eq(hm_rundir_latest(path), HM_E_NO_RUN);
    cr_assert_eq(hm_rundir_agree("hindmost.out", "", &who, a), HM_OK);
    cr_assert_eq(mkdir("hindmost.out/b", 0700), 0);
    cr_assert_eq(hm_rundir_set_latest("hindmost.out/b"), HM_OK);
    cr_assert_eq(hm_rundir_set_latest(a), HM_OK, "replaces the one before");
    cr_assert_eq(hm_rundir_latest(path), HM_OK);
    cr_assert(!stat(a, &run) && !stat(path, &latest));
    cr_assert_eq(run.st_ino, latest.st_ino);
    /* a folder that the user chose gets no link beside it */
    cr_assert_eq(mkdir("elsewhere", 0700), 0);
    cr_assert_eq(hm_rundir_set_latest("elsewhere"), HM_OK);
    cr_assert_neq(access("latest", F_OK), 0);
}
