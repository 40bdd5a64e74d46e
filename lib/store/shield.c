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

enum { LIMIT_S = 20, MAX_CHILDREN = 8, FILES_A_CHILD = 8 };

struct shared {
    _Atomic size_t at[MAX_CHILDREN]; /* the file that each child has in hand */
    _Atomic uint8_t verdict[];
};

/* Files first, first + step, ... */
static void child(char *const path[], size_t n, size_t step, _Atomic size_t *at,
                  _Atomic uint8_t verdict[])
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
    for (size_t i = atomic_load(at); i < n; atomic_store(at, i += step)) {
        struct hm_raw *raw;
        alarm(LIMIT_S);
        if (hm_raw_open(path[i], HM_RAW_ALL, &raw, what) == HM_OK) {
            hm_raw_walk(raw);
            hm_raw_close(raw);
            atomic_store(&verdict[i], HM_SHIELD_GOOD);
        }
    }
    _exit(0);
}

/* Waits for a child; returns where its successor begins, n or more = it has come through. */
static size_t reap(pid_t pid, size_t n, size_t begun, size_t step, struct shared *all, size_t c)
{
    int status;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    size_t reached = atomic_load(&all->at[c]);
    if (reached < begun || (reached - begun) % step) /* it wrote where it should not */
        reached = begun;
    if (reached >= n)
        return n;
    atomic_store(&all->verdict[reached], HM_SHIELD_DEADLY);
    return reached + step;
}

void hm_shield_try(char *const path[], size_t n, uint8_t verdict_p[])
{
    memset(verdict_p, HM_SHIELD_FAULTY, n);
    size_t bytes = sizeof(struct shared) + n;
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    struct shared *all =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED)
        return;
    size_t step = (n + FILES_A_CHILD - 1) / FILES_A_CHILD, at[MAX_CHILDREN];
    pid_t pid[MAX_CHILDREN];
    step = step < MAX_CHILDREN ? step : MAX_CHILDREN;
    step = cpus > 0 && (size_t)cpus < step ? (size_t)cpus : step;
    for (size_t c = 0; c < step; c++)
        at[c] = c;
    for (int busy = 1; busy;) { /* a round: every slice that is not through goes on */
        busy = 0;
        for (size_t c = 0; c < step; c++) {
            pid[c] = -1;
            if (at[c] >= n)
                continue;
            atomic_store(&all->at[c], at[c]);
            pid[c] = fork();
            if (pid[c] == 0)
                child(path, n, step, &all->at[c], all->verdict);
            busy |= pid[c] > 0; /* else these files are opened as they are */
        }
        for (size_t c = 0; c < step; c++)
            if (pid[c] > 0)
                at[c] = reap(pid[c], n, at[c], step, all, c);
    }
    for (size_t i = 0; i < n; i++)
        verdict_p[i] = atomic_load(&all->verdict[i]);
    munmap(all, bytes);
}
