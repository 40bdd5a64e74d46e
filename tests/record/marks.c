/* A program with marks that ends in the way it is told. Used by life.bats.
 *
 * usage: marks N HOW [ARG]. Marks N steps of one range, one counter and one instant each, then
 * ends: return, exit, _exit, kill, abort, exec, none (no mark at all).
 * HOW fork, vfork, rawfork: a child marks too (vfork: only ends), the parent then returns.
 * HOW wait: forks a child that ends at once and calls wait() until there is no child left.
 * HOW dlclose LIB: loads the library itself, marks, closes it, marks again and returns.
 * HOW pausewriter: its writer is stopped during N more steps, and let go before the return.
 * HOW threads: N steps in each of 8 threads. HOW stopped: hm_stop() for the second half.
 * HOW term, segv: dies of that signal. HOW handler: a signal handler marks while the program does.
 * HOW closeall: closes all descriptors above 2, as daemons do, marks N more and returns.
 * HOW daemon: threads that nobody waits for mark until the process is gone.
 * HOW vforkexec, system: starts other programs in the midst of it.
 * HOW streams: exits with 3 when its descriptors 0 to 2 are as closed as they were.
 * HOW until FILE: after the N steps goes on, one each 5 ms, until FILE is there.
 * HOW stuck FILE: after the N steps begins two ranges and does nothing until FILE is there.
 */
#include "hindmost/hindmost.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static void mark(int first, int n)
{
    for (int i = first; i < first + n; i++) {
        hm_step(i);
        hm_range_push("input");
        hm_mark("here");
        hm_counter_i64("count", i);
        hm_counter_f64("half", i * 0.5);
        hm_range_pop();
    }
}

/* The writer of this run: by name, and by the run folder in its environment. */
static pid_t find_writer(void)
{
    char path[64], text[8192];
    const char *out = getenv("HINDMOST_OUT");
    for (int pid = 2; out && pid < 4194304; pid++) {
        snprintf(path, sizeof(path), "/proc/%d/comm", pid);
        FILE *f = fopen(path, "r");
        if (!f)
            continue;
        int named = fgets(text, sizeof(text), f) && !strcmp(text, "hindmost-writer\n");
        fclose(f);
        snprintf(path, sizeof(path), "/proc/%d/environ", pid);
        if (!named || !(f = fopen(path, "r")))
            continue;
        size_t n = fread(text, 1, sizeof(text) - 1, f);
        fclose(f);
        text[n] = 0;
        for (char *e = text; e < text + n; e += strlen(e) + 1)
            if (!strncmp(e, "HINDMOST_OUT=", 13) && !strcmp(e + 13, out))
                return pid;
    }
    return 0;
}

static int n_marks;

static void *in_thread(void *arg)
{
    mark(0, n_marks);
    return arg;
}

static void *for_ever(void *arg)
{
    for (int i = 0;; i++)
        hm_mark("for ever");
    return arg;
}

static void on_alarm(int sig)
{
    (void)sig;
    hm_mark("in handler");
}

static void under_signals(int n)
{
    struct itimerval often = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
    signal(SIGALRM, on_alarm);
    setitimer(ITIMER_REAL, &often, NULL);
    mark(n, n);
    setitimer(ITIMER_REAL, &never, NULL);
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 64;
    int n = atoi(argv[1]);
    const char *how = argv[2];
    n_marks = n;
    if (!strcmp(how, "none"))
        return 0;
    if (!strcmp(how, "threads")) {
        pthread_t t[8];
        for (int i = 0; i < 8; i++)
            if (pthread_create(&t[i], NULL, in_thread, NULL))
                return 1;
        for (int i = 0; i < 8; i++)
            pthread_join(t[i], NULL);
        return 0;
    }
    void *lib = NULL;
    if (!strcmp(how, "dlclose") && !(lib = dlopen(argv[3], RTLD_NOW | RTLD_GLOBAL)))
        return 1;
    mark(0, n);
    if (lib) {
        dlclose(lib);
        mark(n, n);
    }
    if (!strcmp(how, "exit"))
        exit(3);
    if (!strcmp(how, "streams"))
        exit(fcntl(0, F_GETFD) < 0 && fcntl(1, F_GETFD) < 0 && fcntl(2, F_GETFD) < 0 ? 3 : 4);
    if (!strcmp(how, "_exit"))
        _exit(4);
    if (!strcmp(how, "kill"))
        raise(SIGKILL);
    if (!strcmp(how, "abort"))
        abort();
    if (!strcmp(how, "term"))
        raise(SIGTERM);
    if (!strcmp(how, "segv"))
        raise(SIGSEGV);
    if (!strcmp(how, "handler"))
        under_signals(n);
    if (!strcmp(how, "closeall")) {
        for (int fd = 3; fd < 1024; fd++)
            close(fd);
        usleep(1200000); /* the writer must have seen it, and looked again */
        mark(n, n);
    }
    if (!strcmp(how, "daemon"))
        for (int i = 0; i < 3; i++) {
            pthread_t t;
            if (pthread_create(&t, NULL, for_ever, NULL) || pthread_detach(t))
                return 1;
        }
    if (!strcmp(how, "vforkexec")) {
        pid_t pid = vfork();
        if (!pid) {
            execl("/bin/true", "true", (char *)NULL);
            _exit(1);
        }
        int status = 1;
        if (waitpid(pid, &status, 0) != pid || status)
            return 1;
        mark(n, n);
    }
    if (!strcmp(how, "system")) {
        if (system("true; ls >/dev/null | cat"))
            return 1;
        mark(n, n);
    }
    if (!strcmp(how, "exec")) {
        execl("/bin/sh", "sh", "-c", argc > 3 ? argv[3] : "exit 5", (char *)NULL);
        return 1;
    }
    if (!strcmp(how, "pausewriter")) {
        pid_t writer = find_writer();
        if (!writer || kill(writer, SIGSTOP))
            return 1;
        mark(n, n);
        kill(writer, SIGCONT);
    }
    for (int i = n; !strcmp(how, "until") && access(argv[3], F_OK); i++) {
        mark(i, 1);
        usleep(5000);
    }
    if (!strcmp(how, "stuck")) {
        hm_range_push("outer work");
        hm_range_push("stuck here");
        while (access(argv[3], F_OK))
            usleep(10000);
        hm_range_pop();
        hm_range_pop();
    }
    if (!strcmp(how, "stopped")) {
        hm_stop();
        mark(n, n);
        hm_start();
        mark(2 * n, n);
    }
    if (!strcmp(how, "fork") || !strcmp(how, "rawfork") || !strcmp(how, "vfork") ||
        !strcmp(how, "wait")) {
        pid_t pid = !strcmp(how, "rawfork") ? (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0)
                    : !strcmp(how, "vfork") ? vfork()
                                            : fork();
        if (!pid) {
            if (!strcmp(how, "vfork") || !strcmp(how, "wait"))
                _exit(0);
            mark(n, n);
            exit(0);
        }
        int children = 0;
        while (wait(NULL) > 0)
            children++;
        mark(n, 1);
        return children == 1 ? 0 : 1;
    }
    return 0;
}
