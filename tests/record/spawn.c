/* What a spawned program gets, and what its parent sees of it: nothing.
 *
 * The program starts itself with the argument "child", which looks around and writes what it finds
 * into descriptor 3. The expectations are those of docs/architecture.md, looked up in /proc.
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
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* what spawn.c wants from its neighbours */
struct hm_state hm;
struct hm_self hm_self = {.pool_fd = -1, .pipe_fd = -1};
int hm_find_program(const char *below_prefix, char path_p[1024])
{
    (void)below_prefix;
    (void)path_p;
    return 0;
}
void hm_nap(int64_t ns)
{
    struct timespec ts = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    nanosleep(&ts, NULL);
}

static int failures;
#define CHECK(what)                                               \
    do {                                                          \
        if (!(what)) {                                            \
            fprintf(stderr, "spawn.c:%d: %s\n", __LINE__, #what); \
            failures++;                                           \
        }                                                         \
    } while (0)

struct seen {
    int null[3], fd4_is_pipe, n_fds, session_leader, nice, n_cpus, blocked, ignored, n_env, done;
};

static int is_null(int fd)
{
    struct stat st, null;
    return !fstat(fd, &st) && !stat("/dev/null", &null) && st.st_rdev == null.st_rdev &&
           S_ISCHR(st.st_mode);
}

extern char **environ;

static int child(const char *how)
{
    struct seen seen;
    struct stat st;
    memset(&seen, 0, sizeof(seen));
    for (int i = 0; i < 3; i++)
        seen.null[i] = is_null(i);
    seen.fd4_is_pipe = !fstat(4, &st) && S_ISFIFO(st.st_mode);
    for (int fd = 0; fd < 4096; fd++)
        seen.n_fds += fcntl(fd, F_GETFD) >= 0;
    seen.session_leader = getsid(0) == getpid();
    seen.nice = getpriority(PRIO_PROCESS, 0);
    cpu_set_t set;
    sched_getaffinity(0, sizeof(set), &set);
    seen.n_cpus = CPU_COUNT(&set);
    sigset_t mask;
    sigprocmask(SIG_BLOCK, NULL, &mask);
    struct sigaction action;
    for (int sig = 1; sig < 32; sig++) {
        seen.blocked += sigismember(&mask, sig) == 1;
        seen.ignored += !sigaction(sig, NULL, &action) && action.sa_handler == SIG_IGN;
    }
    for (char **e = environ; *e; e++)
        seen.n_env++;
    seen.done = 1;
    if (!strcmp(how, "background") && pwrite(3, &seen, sizeof(seen), 0) != (ssize_t)sizeof(seen))
        return 1;
    if (!strcmp(how, "sleep"))
        sleep(20);
    return !strcmp(how, "five") ? 5 : 0;
}

static int n_sigchld;
static void on_sigchld(int sig)
{
    (void)sig;
    n_sigchld++;
}

static void background(char *self)
{
    struct seen *seen;
    int memfd = (int)syscall(SYS_memfd_create, "seen", 1), line[2];
    cpu_set_t one, before;
    int low = dup2(memfd, 4); /* the memfd also sits where the pipe must go */
    CHECK(!ftruncate(memfd, 4096) && !pipe2(line, O_CLOEXEC));
    seen = mmap(NULL, 4096, PROT_READ, MAP_SHARED, memfd, 0);
    /* an unfriendly parent: bound to one core, a signal ignored, one blocked, stray descriptors */
    sched_getaffinity(0, sizeof(before), &before);
    CPU_ZERO(&one);
    CPU_SET((size_t)sched_getcpu(), &one);
    sched_setaffinity(0, sizeof(one), &one);
    signal(SIGUSR1, SIG_IGN);
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR2);
    sigprocmask(SIG_BLOCK, &mask, NULL);
    signal(SIGCHLD, on_sigchld);
    int stray = dup(2);
    char word[] = "child", how[] = "background", home[] = "HOME=/";
    char *argv[] = {self, word, how, NULL}, *envp[] = {home, NULL};
    struct hm_spawn what = {.path = self, .argv = argv, .envp = envp, .fd = {low, line[0]}};
    int32_t pid = 0;
    CHECK(hm_spawn(&what, &pid) == HM_OK);
    CHECK(pid > 0);
    CHECK(wait(NULL) == -1 && errno == ECHILD); /* nobody's child, at once */
    for (int i = 0; i < 500 && !*(volatile int *)&seen->done; i++)
        hm_nap(10000000);
    CHECK(seen->done);
    CHECK(seen->null[0] && seen->null[1] && seen->null[2]);
    CHECK(seen->fd4_is_pipe);
    CHECK(seen->n_fds == 5);
    CHECK(seen->session_leader);
    CHECK(seen->nice == 10);
    CHECK(seen->n_cpus == CPU_COUNT(&before));
    CHECK(!seen->blocked && !seen->ignored);
    CHECK(seen->n_env == 1);
    CHECK(!n_sigchld);
    close(stray);
}

static void waited(char *self)
{
    char word[] = "child", five[] = "five", slow[] = "sleep";
    char *argv[] = {self, word, five, NULL}, *envp[] = {NULL};
    struct hm_spawn what = {
        .path = self, .argv = argv, .envp = envp, .fd = {-1, -1}, .wait_ms = 5000};
    int32_t status = 0;
    CHECK(hm_spawn(&what, &status) == HM_OK && status == 5);
    argv[2] = slow;
    what.wait_ms = 50;
    time_t begin = time(NULL);
    CHECK(hm_spawn(&what, &status) == HM_OK && status == -1);
    CHECK(time(NULL) - begin < 10);
    char none[] = "/nonexistent";
    what.path = none;
    CHECK(hm_spawn(&what, &status) == HM_E_MISSING);
    CHECK(wait(NULL) == -1 && errno == ECHILD);
    CHECK(!n_sigchld);
}

int main(int argc, char **argv)
{
    char self[] = "/proc/self/exe";
    if (argc > 2)
        return child(argv[2]);
    background(self);
    waited(self);
    return failures != 0;
}
