/* Ranks as forked processes of one test program, with a page they share.
 *
 * Box: tests/vgpu_nccl_tests. The parent never touches CUDA.
 */
#ifndef RANKS_H
#define RANKS_H

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(x)                                                                               \
    do {                                                                                       \
        if (!(x)) {                                                                            \
            fprintf(stderr, "%s:%d: rank %d: failed: %s\n", __FILE__, __LINE__, the_rank, #x); \
            exit(1);                                                                           \
        }                                                                                      \
    } while (0)
#define NCCL(x)                                                                           \
    do {                                                                                  \
        ncclResult_t rc_ = (x);                                                           \
        if (rc_) {                                                                        \
            fprintf(stderr, "%s:%d: rank %d: %s: %s\n", __FILE__, __LINE__, the_rank, #x, \
                    ncclGetErrorString(rc_));                                             \
            exit(1);                                                                      \
        }                                                                                 \
    } while (0)

static int the_rank = -1;

static inline void *shared_pages(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        abort();
    return p;
}

/* Forks n ranks that run fn and exit; waits for all, at most `limit_s`. Returns how many of them
 * ended otherwise than with exit status 0 (status_p[r] where wanted). */
static inline int run_ranks(int n, int limit_s, void (*fn)(int rank, int n, void *arg), void *arg,
                            int *status_p)
{
    pid_t pid[64];
    int bad = 0;
    fflush(NULL);
    for (int r = 0; r < n; r++) {
        pid[r] = fork();
        if (pid[r] == 0) {
            the_rank = r;
            alarm((unsigned)limit_s); /* a hang ends with SIGALRM and counts as a failure */
            fn(r, n, arg);
            exit(0);
        }
    }
    for (int r = 0; r < n; r++) {
        int status;
        waitpid(pid[r], &status, 0);
        if (status_p)
            status_p[r] = status;
        bad += status != 0;
    }
    return bad;
}

#endif
