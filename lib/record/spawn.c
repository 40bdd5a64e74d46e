/* Starting a program from inside somebody else's process, so that nobody notices.
 *
 * Box: lib/record. The waking thread (writer), the thread in MPI_Finalize (digest). A double spawn:
 * an intermediate shares our memory, starts the program and ends; as it has no exit signal, the
 * application's wait() and SIGCHLD handler never see it. Invariant: the functions that run in the
 * children call system calls only, as they run in our memory while this thread is suspended.
 */
#include "record/record.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#define STACK_BYTES 65536

extern char **environ;

struct job {
    const struct hm_spawn *what;
    char *stack; /* two stacks, one for each generation */
    int32_t pid; /* of the program */
    int failed;  /* errno of whatever did not work in a child */
    int status;
};

static void close_from(int fd)
{
    if (!syscall(SYS_close_range, (unsigned)fd, ~0U, 0))
        return;
    struct rlimit limit;
    int end = 65536; /* kernels before 5.9 */
    if (!getrlimit(RLIMIT_NOFILE, &limit) && limit.rlim_cur < 65536)
        end = (int)limit.rlim_cur;
    for (; fd < end; fd++)
        close(fd);
}

static void reset_signals(void)
{
    struct sigaction plain;
    memset(&plain, 0, sizeof(plain));
    plain.sa_handler = SIG_DFL;
    for (int sig = 1; sig < 65; sig++)
        if (sig != SIGKILL && sig != SIGSTOP && sig != 32 && sig != 33)
            sigaction(sig, &plain, NULL);
    uint64_t none = 0;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL, sizeof(none));
}

/* 0, or -1 with errno. An inherited copy of the application's stdout would make `prog | cat` and
 * mpirun wait for us; the two descriptors are first moved out of the way of 0 to 4. */
static int arrange_files(const struct hm_spawn *what)
{
    int high[2] = {-1, -1};
    for (int i = 0; i < 2; i++)
        if (what->fd[i] >= 0 && (high[i] = fcntl(what->fd[i], F_DUPFD, 10)) < 0)
            return -1;
    int null = open("/dev/null", O_RDWR);
    if (null < 0 || dup2(null, 0) < 0)
        return -1;
    if (what->wait_ms) {
        if (dup2(2, 1) < 0)
            return -1;
    } else if (dup2(null, 1) < 0 || dup2(null, 2) < 0) {
        return -1;
    }
    for (int i = 0; i < 2; i++)
        if (high[i] >= 0 ? dup2(high[i], 3 + i) < 0 : close(3 + i) && errno != EBADF)
            return -1;
    close_from(5);
    return 0;
}

static int be_program(void *arg)
{
    struct job *job = arg;
    const struct hm_spawn *what = job->what;
    if (!what->wait_ms) {
        setsid();
        /* mpirun binds a rank to its core and we would sit on it: the whole cpuset instead */
        unsigned char all[1024];
        memset(all, 0xff, sizeof(all));
        syscall(SYS_sched_setaffinity, 0, sizeof(all), all);
        setpriority(PRIO_PROCESS, 0, 10);
    }
    if (arrange_files(what)) {
        job->failed = errno;
        _exit(127);
    }
    reset_signals();
    execve(what->path, what->argv, what->envp);
    job->failed = errno;
    _exit(127);
}

static void wait_for_program(struct job *job)
{
    for (int ms = 0; ms < job->what->wait_ms; ms += 5) {
        if (waitpid(job->pid, &job->status, WNOHANG | __WALL) == job->pid)
            return;
        hm_nap(5000000);
    }
    kill(job->pid, SIGKILL);
    waitpid(job->pid, &job->status, __WALL);
}

static int be_intermediate(void *arg)
{
    struct job *job = arg;
    job->pid =
        clone(be_program, job->stack + 2 * STACK_BYTES, CLONE_VM | CLONE_VFORK | SIGCHLD, job);
    if (job->pid < 0)
        job->failed = errno;
    else if (job->what->wait_ms)
        wait_for_program(job);
    _exit(0);
}

hm_status_t hm_spawn(const struct hm_spawn *what, int32_t *result_p)
{
    struct job job = {.what = what, .pid = -1};
    void *stack = mmap(NULL, 2 * STACK_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (stack == MAP_FAILED)
        return HM_E_NOMEM;
    job.stack = stack;
    /* no handler of the application may run in a child that shares its memory */
    uint64_t all = ~UINT64_C(0), old;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &old, sizeof(all));
    int pid = clone(be_intermediate, job.stack + STACK_BYTES, CLONE_VM | CLONE_VFORK, &job);
    if (pid < 0)
        job.failed = errno;
    else
        while (waitpid(pid, NULL, __WALL) < 0 && errno == EINTR)
            ;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &old, NULL, sizeof(old));
    munmap(stack, 2 * STACK_BYTES);
    if (job.failed)
        return job.failed == ENOENT ? HM_E_MISSING : HM_E_SYS;
    if (!what->wait_ms)
        *result_p = job.pid;
    else
        *result_p = WIFEXITED(job.status) ? WEXITSTATUS(job.status) : -1;
    return HM_OK;
}

char *const *hm_spawn_env(void)
{
    static char *env[128];
    static char preload[1100], rank[40];
    static const char *const keep[] = {
        "HOME=", "PATH=", "TMPDIR=", "LANG=", "HINDMOST_", "HM_TEST_"};
    size_t n = 0;
    for (char **e = environ; e && *e && n < 120; e++)
        for (size_t i = 0; i < sizeof(keep) / sizeof(keep[0]); i++)
            if (!strncmp(*e, keep[i], strlen(keep[i])))
                env[n++] = *e;
    /* the tests' clock library must shift the writer's clocks like its rank's */
    const char *shim = getenv("HM_TEST_WRITER_PRELOAD");
    if (shim) {
        snprintf(preload, sizeof(preload), "LD_PRELOAD=%s", shim);
        snprintf(rank, sizeof(rank), "HM_TEST_RANK=%d", (int)hm_self.who.rank);
        env[n++] = preload;
        env[n++] = rank;
    }
    env[n] = NULL;
    return env;
}

hm_status_t hm_spawn_writer(void)
{
    char path[1024];
    int line[2];
    if (hm.config.writer[0])
        snprintf(path, sizeof(path), "%s", hm.config.writer);
    else if (!hm_find_program("libexec/hindmost/hindmost-writer", path))
        return HM_E_MISSING;
    /* the life line: we hold the write end, exec and the end of the process close it */
    if (pipe2(line, O_CLOEXEC))
        return HM_E_SYS;
    for (int i = 0; i < 2; i++) {
        if (line[i] >= 3) /* else the streams are closed, and the program may write to them */
            continue;
        int high = fcntl(line[i], F_DUPFD_CLOEXEC, 3);
        close(line[i]);
        line[i] = high;
    }
    if (line[0] < 0 || line[1] < 0) {
        close(line[0]);
        close(line[1]);
        return HM_E_SYS;
    }
    char *const argv[] = {path, NULL};
    struct hm_spawn what = {
        .path = path, .argv = argv, .envp = hm_spawn_env(), .fd = {hm_self.pool_fd, line[0]}};
    int32_t pid = -1;
    hm_status_t s = hm_spawn(&what, &pid);
    close(line[0]);
    if (s) {
        close(line[1]);
        return s;
    }
    hm_self.pipe_fd = line[1];
    hm.view.pool->writer_pid = pid;
    close(hm_self.pool_fd); /* the mapping is all we need */
    hm_self.pool_fd = -1;
    return HM_OK;
}
