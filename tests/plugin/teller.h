/* What NCCL does with a profiler plugin, written by byte offsets and not through the plugin's own
 * header, so that a wrong layout there cannot agree with itself.
 *
 * Source: offsets of NVIDIA/nccl's profiler interface as measured on its headers, v4 and v5.
 */
#ifndef HM_TEST_TELLER_H
#define HM_TEST_TELLER_H

#include <stdint.h>
#include <string.h>

typedef int (*init_4_t)(void **, int *, const char *, uint64_t, int, int, int, void *);
typedef int (*init_5_t)(void **, uint64_t, int *, const char *, int, int, int, void *);
struct profiler { /* 6 pointers, the same in all versions */
    const char *name;
    void *init;
    int (*start)(void *ctx, void **handle, void *descr);
    int (*stop)(void *handle);
    int (*state)(void *handle, int state, void *args);
    int (*finalize)(void *ctx);
};
extern struct profiler ncclProfiler_v4, ncclProfiler_v5;

struct descr {
    _Alignas(8) uint8_t b[136];
};
static inline void put(struct descr *d, unsigned at, const void *v, size_t n)
{
    memcpy(d->b + at, v, n);
}
#define PUT(d, at, type, value)      \
    do {                             \
        type v_ = (type)(value);     \
        put(d, at, &v_, sizeof(v_)); \
    } while (0)

/* 4: one byte of type, the rest of the word is not cleared by NCCL */
static inline struct descr descr_of(int version, unsigned type, void *parent, int rank)
{
    struct descr d;
    memset(&d, version == 4 ? 0xa5 : 0, sizeof(d));
    if (version == 4)
        d.b[0] = (uint8_t)type;
    else
        PUT(&d, 0, uint64_t, type);
    PUT(&d, 8, void *, parent);
    PUT(&d, 16, int, rank);
    return d;
}
static inline void *begin(int version, void *ctx, struct descr *d)
{
    void *handle = (void *)0x5a5a; /* NCCL does not clear it */
    (version == 4 ? &ncclProfiler_v4 : &ncclProfiler_v5)->start(ctx, &handle, d);
    return handle;
}
static inline void *group_api(void *ctx, int depth, int graph)
{
    struct descr d = descr_of(5, 256, NULL, 0);
    PUT(&d, 24, _Bool, graph);
    PUT(&d, 28, int, depth);
    return begin(5, ctx, &d);
}
static inline void *coll_api(void *ctx, void *parent, const char *func, size_t count,
                             const char *dtype, int root)
{
    struct descr d = descr_of(5, 512, parent, 0);
    PUT(&d, 24, const char *, func);
    PUT(&d, 32, size_t, count);
    PUT(&d, 40, const char *, dtype);
    PUT(&d, 48, int, root);
    PUT(&d, 56, void *, 0x7700);
    return begin(5, ctx, &d);
}
static inline void *p2p_api(void *ctx, void *parent, const char *func, size_t count)
{
    struct descr d = descr_of(5, 1024, parent, 0);
    PUT(&d, 24, const char *, func);
    PUT(&d, 32, size_t, count);
    PUT(&d, 40, const char *, "ncclFloat16");
    return begin(5, ctx, &d);
}
static inline void *launch(void *ctx, void *parent, void *stream)
{
    struct descr d = descr_of(5, 2048, parent, 0);
    PUT(&d, 24, void *, stream);
    return begin(5, ctx, &d);
}
static inline void *group(int version, void *ctx)
{
    struct descr d = descr_of(version, 1, NULL, 0);
    return begin(version, ctx, &d);
}
static inline void *coll(int version, void *ctx, void *parent, void *in_group, uint64_t seq,
                         const char *func, size_t count, const char *dtype, int root)
{
    struct descr d = descr_of(version, 2, parent, 3);
    PUT(&d, 24, uint64_t, seq);
    PUT(&d, 32, const char *, func);
    PUT(&d, 56, size_t, count);
    PUT(&d, 64, int, root);
    PUT(&d, 72, const char *, dtype);
    d.b[80] = 16;
    d.b[81] = 17;
    PUT(&d, 88, const char *, "RING");
    PUT(&d, 96, const char *, "SIMPLE");
    if (version > 4)
        PUT(&d, 104, void *, in_group);
    return begin(version, ctx, &d);
}
static inline void *p2p(int version, void *ctx, void *parent, void *in_group, const char *func,
                        size_t count, int peer)
{
    struct descr d = descr_of(version, 4, parent, 3);
    PUT(&d, 24, const char *, func);
    PUT(&d, 40, const char *, "ncclFloat16");
    PUT(&d, 48, size_t, count);
    PUT(&d, 56, int, peer);
    d.b[60] = 2;
    if (version > 4)
        PUT(&d, 64, void *, in_group);
    return begin(version, ctx, &d);
}
static inline void *proxy_op(int version, void *ctx, void *parent, int pid, int channel, int peer,
                             int n_steps, int chunk, int is_send)
{
    struct descr d = descr_of(version, 8, parent, 3);
    PUT(&d, 24, int, pid);
    d.b[28] = (uint8_t)channel;
    PUT(&d, 32, int, peer);
    PUT(&d, 36, int, n_steps);
    PUT(&d, 40, int, chunk);
    PUT(&d, 44, int, is_send);
    return begin(version, ctx, &d);
}
static inline void *proxy_step(int version, void *ctx, void *parent, int step)
{
    struct descr d = descr_of(version, 16, parent, 3);
    PUT(&d, 24, int, step);
    return begin(version, ctx, &d);
}
static inline void *kernel_ch(int version, void *ctx, void *parent, int channel, uint64_t timer)
{
    struct descr d = descr_of(version, 64, parent, 3);
    d.b[24] = (uint8_t)channel;
    PUT(&d, 32, uint64_t, timer);
    return begin(version, ctx, &d);
}
static inline void end(void *handle)
{
    ncclProfiler_v5.stop(handle);
}

#endif
