/* Symbol versions: the recorder must start wherever a program of glibc 2.17 starts.
 *
 * Box: lib/core, force-included into every source of the shared object (lib/record/CMakeLists.txt),
 * and into nothing else. The linker takes the newest version of a symbol; the lines below ask for
 * the first one. What glibc kept in libdl and libpthread before 2.34 is weak: a program that has
 * not loaded them must still start, and preload.c then stays dormant.
 */
#ifndef HM_GLIBC217_H
#define HM_GLIBC217_H

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__GLIBC__) && (defined(__x86_64__) || defined(__aarch64__))

#ifdef __x86_64__
#define HM_GLIBC_FIRST "GLIBC_2.2.5"
#else
#define HM_GLIBC_FIRST "GLIBC_2.17"
#endif
#define HM_OLD(name) __asm__(".symver " #name "," #name "@" HM_GLIBC_FIRST)
#define HM_WEAK(name)                                   \
    extern __typeof__(name) name __attribute__((weak)); \
    HM_OLD(name)

HM_WEAK(dlopen);
HM_WEAK(dlsym);
HM_WEAK(dlclose);
HM_WEAK(dlerror);
HM_WEAK(dladdr);
HM_WEAK(pthread_create);
HM_WEAK(pthread_join);
HM_WEAK(pthread_detach);
HM_WEAK(pthread_key_create);
HM_WEAK(pthread_setspecific);
HM_WEAK(pthread_getspecific);
HM_WEAK(pthread_once);
HM_OLD(pthread_sigmask);

/* Only inline in the headers of old glibc, or younger than 2.17: the system call instead. */
static inline int hm_old_fstat(int fd, struct stat *st)
{
    return (int)syscall(SYS_fstat, fd, st);
}
static inline int hm_old_stat(const char *path, struct stat *st)
{
    return (int)syscall(SYS_newfstatat, AT_FDCWD, path, st, 0);
}
static inline int hm_old_lstat(const char *path, struct stat *st)
{
    return (int)syscall(SYS_newfstatat, AT_FDCWD, path, st, AT_SYMLINK_NOFOLLOW);
}
static inline int hm_old_memfd_create(const char *name, unsigned flags)
{
    return (int)syscall(SYS_memfd_create, name, flags);
}
static inline long hm_old_getrandom(void *to, size_t n, unsigned flags)
{
    return syscall(SYS_getrandom, to, n, flags);
}
static inline int hm_old_gettid(void)
{
    return (int)syscall(SYS_gettid);
}
#include <sys/mman.h>
#include <sys/random.h>
#define fstat(fd, st)         hm_old_fstat(fd, st)
#define stat(path, st)        hm_old_stat(path, st)
#define lstat(path, st)       hm_old_lstat(path, st)
#define memfd_create(name, f) hm_old_memfd_create(name, f)
#define getrandom(to, n, f)   hm_old_getrandom(to, n, f)
#define gettid()              hm_old_gettid()

#endif
#endif
