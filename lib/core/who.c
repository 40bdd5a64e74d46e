/* Rank and job from what launchers put into the environment.
 *
 * Box: lib/core. Any thread. Order: torchrun first (it may run under srun or mpirun, whose numbers
 * then count nodes), Open MPI, PMI (MPICH, Intel MPI), Slurm, plain RANK and WORLD_SIZE.
 */
#include "core/who.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

/* A launcher: names of its variables, NULL = it has none. */
struct launcher {
    const char *name, *sign; /* sign: a variable that says it is at work */
    const char *rank, *n_ranks, *local_rank, *n_local;
};
static const struct launcher launchers[] = {
    {"torchrun", "TORCHELASTIC_RUN_ID", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    {"openmpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"pmi", "PMI_RANK", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    /* a batch script has SLURM_PROCID too, but no step */
    {"slurm", "SLURM_STEP_ID", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", NULL},
    {"", "RANK", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
};

static const char *env(const char *name)
{
    const char *value = name ? getenv(name) : NULL;
    return value && value[0] ? value : NULL;
}

/* A count from the environment, -1 when it is missing or no plain number. */
static int32_t number(const char *name)
{
    const char *s = env(name);
    int64_t v = 0;
    if (!s)
        return -1;
    for (; *s; s++) {
        if (*s < '0' || *s > '9' || (v = v * 10 + (*s - '0')) > INT32_MAX)
            return -1;
    }
    return (int32_t)v;
}

/* Unique for the launch: the run id of torchrun is "none" unless somebody chose one. */
static void torchrun_job(struct hm_who *who)
{
    const char *id = env("TORCHELASTIC_RUN_ID"), *file = env("TORCHELASTIC_ERROR_FILE");
    const char *restart = env("TORCHELASTIC_RESTART_COUNT"), *slurm = env("SLURM_JOB_ID");
    const char *agent = file ? strstr(file, "torchelastic_") : NULL;
    if (strcmp(id, "none") != 0)
        snprintf(who->job, sizeof(who->job), "%.90s.%.20s", id, restart ? restart : "0");
    else if (agent &&
             who->n_local == who->n_ranks) /* .../torchelastic_x1y2/none_z3/attempt_0/... */
        snprintf(who->job, sizeof(who->job), "%.*s.%.20s", (int)strcspn(agent, "/") % 100, agent,
                 restart ? restart : "0");
    else
        snprintf(who->job, sizeof(who->job), "%.20s-%.50s-%.10s.%.20s", slurm ? slurm : "torchrun",
                 env("MASTER_ADDR") ? env("MASTER_ADDR") : "",
                 env("MASTER_PORT") ? env("MASTER_PORT") : "", restart ? restart : "0");
}

static void find_job(struct hm_who *who)
{
    const char *a = env("SLURM_JOB_ID"), *b = env("SLURM_STEP_ID");
    if (!strcmp(who->launcher, "torchrun")) {
        torchrun_job(who);
        return;
    }
    if (!strcmp(who->launcher, "openmpi")) {
        /* the name space comes from mpirun's pid and comes back; the other is random */
        const char *key = env("OMPI_MCA_orte_precondition_transports"), *ns = env("PMIX_NAMESPACE");
        if (!ns)
            ns = env("OMPI_MCA_ess_base_jobid");
        if (ns || key) {
            snprintf(who->job, sizeof(who->job), "%.60s-%.16s", ns ? ns : "ompi", key ? key : "0");
            return;
        }
    }
    if (a)
        snprintf(who->job, sizeof(who->job), "%.50s.%.20s", a, b ? b : "0");
    else if ((a = env("PBS_JOBID")) || (a = env("LSB_JOBID")) || (a = env("PMI_JOBID")))
        snprintf(who->job, sizeof(who->job), "%.100s", a);
}

void hm_who(struct hm_who *who_p)
{
    struct utsname name;
    memset(who_p, 0, sizeof(*who_p));
    who_p->rank = who_p->n_ranks = who_p->local_rank = who_p->n_local = -1;
    if (!uname(&name))
        snprintf(who_p->host, sizeof(who_p->host), "%.63s", name.nodename);
    for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++) {
        const struct launcher *l = &launchers[i];
        int32_t rank = number(l->rank), n = number(l->n_ranks);
        if (!env(l->sign) || rank < 0 || (n >= 0 && rank >= n))
            continue;
        who_p->rank = rank;
        who_p->n_ranks = n;
        who_p->local_rank = number(l->local_rank);
        who_p->n_local = number(l->n_local);
        snprintf(who_p->launcher, sizeof(who_p->launcher), "%s", l->name);
        break;
    }
    find_job(who_p);
}
