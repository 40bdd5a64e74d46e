/* Counts calls of the allocator while events are recorded: there must be none. Used by life.bats.
 *
 * usage: alloc N. The first events may allocate (waking, a thread's first event); the next N steps
 * with range, mark and counters may not. Prints the count; exit 1 when it is not 0.
 */
#include "hindmost/hindmost.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *malloc(size_t n);
void *calloc(size_t n, size_t size);
void *realloc(void *p, size_t n);

static _Atomic long n_calls;

void *malloc(size_t n)
{
    n_calls++;
    return __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
    n_calls++;
    return __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
    n_calls++;
    return __libc_realloc(p, n);
}

static void mark(int first, int n)
{
    for (int i = first; i < first + n; i++) {
        hm_step(i);
        hm_range_push("input");
        hm_mark("here");
        hm_counter_i64("count", i);
        hm_range_pop();
    }
}

int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 10000;
    mark(0, 10);
    long before = n_calls;
    mark(10, n);
    long during = n_calls - before;
    printf("%ld\n", during);
    return before > 0 && during == 0 ? 0 : 1;
}
