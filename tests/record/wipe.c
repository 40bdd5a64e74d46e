/* The kernel's promise the gate rests on: a page with MADV_WIPEONFORK reads 0 in a child made by
 * fork() and by a raw clone alike, and keeps its value in the parent.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile unsigned *word;

static int child_reads(pid_t pid)
{
    int status = 0;
    if (!pid)
        _exit(*word == 0 ? 10 : 11);
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int main(void)
{
    word = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (word == MAP_FAILED)
        return 1;
    if (madvise((void *)(size_t)word, 4096, 18)) {
        puts("skipped: this kernel has no MADV_WIPEONFORK; the fork handler alone shuts the gate");
        return 0;
    }
    *word = 7;
    int a = child_reads(fork());
    int b = child_reads((pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
    printf("fork %d, raw clone %d, parent %u\n", a, b, *word);
    return a == 10 && b == 10 && *word == 7 ? 0 : 1;
}
