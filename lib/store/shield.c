/* The child that opens rank files first.
 *
 * Box: lib/store. Silent: no core file, no word on stderr. How far it came stands in a shared word,
 * so that its death names the file; a new child goes on behind it.
 */
#include "store/shield.h"

#include "store/raw.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LIMIT_S = 20 };

static void child(char *const path[], size_t n, _Atomic size_t *at)
{
    static const int deadly[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGALRM};
    const struct rlimit none = {0, 0};
    char what[256];
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null >= 0) {
        dup2(null, 1);
        dup2(null, 2);
    }
    setrlimit(RLIMIT_CORE, &none);
    for (size_t i = 0; i < sizeof(deadly) / sizeof(*deadly); i++)
        signal(deadly[i], SIG_DFL);
    for (size_t i = atomic_load(at); i < n; atomic_store(at, ++i)) {
        struct hm_raw *raw;
        alarm(LIMIT_S);
        if (hm_raw_open(path[i], &raw, what) == HM_OK) {
            hm_raw_walk(raw);
            hm_raw_close(raw);
        }
    }
    _exit(0);
}

void hm_shield_try(char *const path[], size_t n, uint8_t bad_p[])
{
    memset(bad_p, 0, n);
    _Atomic size_t *at =
        mmap(NULL, sizeof(*at), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return;
    size_t i = 0;
    while (i < n) {
        atomic_store(at, i);
        pid_t pid = fork();
        int status;
        if (pid == 0)
            child(path, n, at);
        if (pid < 0) /* the rest is opened as it is */
            break;
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            ;
        size_t reached = atomic_load(at);
        if (reached < i || reached > n) /* it wrote where it should not: believe nothing of it */
            reached = i;
        i = reached;
        if (i < n)
            bad_p[i++] = 1;
    }
    munmap(at, sizeof(*at));
}
