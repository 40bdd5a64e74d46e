/* A profiler plugin that writes down what it is told, one line a callback, in REC_LOG.<pid>.
 *
 * Box: tests/vgpu_nccl_tests. Layouts typed from the published interface as structs, with the
 * sizes asserted, while the library under test writes by offset: each checks the other.
 * PLUGIN_V4, PLUGIN_V5 or PLUGIN_V45 chooses what is exported. REC_MASK: the mask (0xfff).
 * A handle is type << 32 | serial of that type. Thread letters: A the main thread, P the progress
 * thread, O another. A stamp follows " @" at the end of the line.
 */
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

struct coll {
    uint64_t seq;
    const char *func;
    const void *send;
    void *recv;
    size_t count;
    int root;
    const char *dtype;
    uint8_t n_channels, n_warps;
    const char *algo, *proto;
};
struct p2p {
    const char *func;
    void *buff;
    const char *dtype;
    size_t count;
    int peer;
    uint8_t n_channels;
};
struct proxy_op {
    int pid;
    uint8_t channel;
    int peer, n_steps, chunk, is_send;
};
struct kernel_ch {
    uint8_t channel;
    uint64_t ptimer;
};
struct descr_v4 {
    uint8_t type;
    void *parent;
    int rank;
    union {
        struct coll coll;
        struct p2p p2p;
        struct proxy_op proxy_op;
        struct kernel_ch kernel_ch;
        int step;
    } u;
};
struct descr_v5 {
    uint64_t type;
    void *parent;
    int rank;
    union {
        struct {
            struct coll c;
            void *group;
        } coll;
        struct {
            struct p2p p;
            void *group;
        } p2p;
        struct proxy_op proxy_op;
        struct kernel_ch kernel_ch;
        int step;
        struct {
            bool captured;
            int depth;
        } group_api;
        struct {
            const char *func;
            size_t count;
            const char *dtype;
            int root;
            void *stream;
            bool captured;
        } coll_api;
        struct {
            const char *func;
            size_t count;
            const char *dtype;
            void *stream;
            bool captured;
        } p2p_api;
        struct {
            void *stream;
        } launch;
    } u;
};
_Static_assert(sizeof(struct descr_v4) == 104 && sizeof(struct descr_v5) == 112, "published sizes");

typedef void (*log_t)(int, unsigned long, const char *, int, const char *, ...);
struct ops {
    const char *name;
    void *init;
    int (*start)(void *, void **, void *);
    int (*stop)(void *);
    int (*state)(void *, int, void *);
    int (*finalize)(void *);
};
_Static_assert(sizeof(struct ops) == 48, "published size");

static const char *const names[] = {"Group",     "Coll",      "P2p",      "ProxyOp",
                                    "ProxyStep", "ProxyCtrl", "KernelCh", "Net",
                                    "GroupApi",  "CollApi",   "P2pApi",   "KernelLaunch"};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static FILE *out;
static uint32_t serial[12];

static char thread_letter(void)
{
    char name[32] = "";
    pthread_getname_np(pthread_self(), name, sizeof name);
    return syscall(SYS_gettid) == getpid() ? 'A' : !strcmp(name, "NCCL Progress") ? 'P' : 'O';
}

__attribute__((format(printf, 1, 2))) static void say(const char *fmt, ...)
{
    va_list ap;
    pthread_mutex_lock(&lock);
    if (!out) {
        char path[512];
        snprintf(path, sizeof path, "%s.%d", getenv("REC_LOG"), (int)getpid());
        out = fopen(path, "w");
        if (!out)
            abort();
        setvbuf(out, NULL, _IOLBF, 0);
    }
    fprintf(out, "%c ", thread_letter());
    va_start(ap, fmt);
    vfprintf(out, fmt, ap);
    va_end(ap);
    fputc('\n', out);
    pthread_mutex_unlock(&lock);
}

static const char *label(const void *handle, char text[32])
{
    uint64_t h = (uint64_t)(uintptr_t)handle;
    if (!h)
        return "-";
    snprintf(text, 32, "%s%u", h >> 32 < 12 ? names[h >> 32] : "?", (uint32_t)h);
    return text;
}

static void *handle_for(uint64_t type)
{
    unsigned i = 0;
    while (i < 11 && type != 1u << i)
        i++;
    pthread_mutex_lock(&lock);
    uint64_t h = (uint64_t)i << 32 | ++serial[i];
    pthread_mutex_unlock(&lock);
    return (void *)(uintptr_t)h;
}

static int stop(void *h)
{
    char t[32];
    say("stop %s", label(h, t));
    return 0;
}

static int state(void *h, int s, void *args)
{
    char t[32];
    uint64_t v = 0;
    if (args)
        memcpy(&v, args, sizeof v);
    if (s == 22)
        say("state %s %d @%llu", label(h, t), s, (unsigned long long)v);
    else if (s == 9 || s == 11 || s == 18)
        say("state %s %d value=%llu", label(h, t), s, (unsigned long long)v);
    else
        say("state %s %d", label(h, t), s);
    return 0;
}

static int finalize(void *ctx)
{
    say("finalize ctx=%p", ctx);
    return 0;
}

static int the_mask(void)
{
    const char *s = getenv("REC_MASK");
    return s ? (int)strtol(s, NULL, 0) : 0xfff;
}

static void say_coll(const void *h, const void *parent, const struct coll *c, int rank,
                     const char *g)
{
    char t[32], p[32];
    say("start %s parent=%s%s rank=%d %s seq=%llu count=%zu %s root=%d %s %s ch=%d warps=%d",
        label(h, t), label(parent, p), g, rank, c->func, (unsigned long long)c->seq, c->count,
        c->dtype, c->root, c->algo, c->proto, c->n_channels, c->n_warps);
}

static void say_p2p(const void *h, const void *parent, const struct p2p *c, int rank, const char *g)
{
    char t[32], p[32];
    say("start %s parent=%s%s rank=%d %s count=%zu %s peer=%d", label(h, t), label(parent, p), g,
        rank, c->func, c->count, c->dtype, c->peer);
}

static void say_proxy(const void *h, const void *parent, const struct proxy_op *o)
{
    char t[32], p[32];
    say("start %s parent=%s ch=%d peer=%d steps=%d %s%s", label(h, t), label(parent, p), o->channel,
        o->peer, o->n_steps, o->is_send ? "send" : "recv", o->pid == getpid() ? "" : " foreign");
}

static void say_kernel(const void *h, const void *parent, const struct kernel_ch *k)
{
    char t[32], p[32];
    say("start %s parent=%s ch=%d @%llu", label(h, t), label(parent, p), k->channel,
        (unsigned long long)k->ptimer);
}

static int start_v5(void *ctx, void **h_p, void *d_)
{
    const struct descr_v5 *d = d_;
    char t[32], p[32], g[48] = "";
    void *h = *h_p = handle_for(d->type);
    const void *group = d->type == 2 ? d->u.coll.group : d->u.p2p.group;
    (void)ctx;
    if (d->type == 2 || d->type == 4)
        snprintf(g, sizeof g, " group=%s", label(group, p));
    switch (d->type) {
    case 2:
        say_coll(h, d->parent, &d->u.coll.c, d->rank, g);
        break;
    case 4:
        say_p2p(h, d->parent, &d->u.p2p.p, d->rank, g);
        break;
    case 8:
        say_proxy(h, d->parent, &d->u.proxy_op);
        break;
    case 16:
        say("start %s parent=%s step=%d", label(h, t), label(d->parent, p), d->u.step);
        break;
    case 64:
        say_kernel(h, d->parent, &d->u.kernel_ch);
        break;
    case 256:
        say("start %s depth=%d", label(h, t), d->u.group_api.depth);
        break;
    case 512:
        say("start %s parent=%s %s count=%zu %s root=%d", label(h, t), label(d->parent, p),
            d->u.coll_api.func, d->u.coll_api.count, d->u.coll_api.dtype, d->u.coll_api.root);
        break;
    case 1024:
        say("start %s parent=%s %s count=%zu %s", label(h, t), label(d->parent, p),
            d->u.p2p_api.func, d->u.p2p_api.count, d->u.p2p_api.dtype);
        break;
    default:
        say("start %s parent=%s", label(h, t), label(d->parent, p));
    }
    return 0;
}

static int start_v4(void *ctx, void **h_p, void *d_)
{
    const struct descr_v4 *d = d_;
    char t[32], p[32];
    void *h = *h_p = handle_for(d->type);
    (void)ctx;
    switch (d->type) {
    case 2:
        say_coll(h, d->parent, &d->u.coll, d->rank, "");
        break;
    case 4:
        say_p2p(h, d->parent, &d->u.p2p, d->rank, "");
        break;
    case 8:
        say_proxy(h, d->parent, &d->u.proxy_op);
        break;
    case 16:
        say("start %s parent=%s step=%d", label(h, t), label(d->parent, p), d->u.step);
        break;
    case 64:
        say_kernel(h, d->parent, &d->u.kernel_ch);
        break;
    default:
        say("start %s parent=%s", label(h, t), label(d->parent, p));
    }
    return 0;
}

static int init_v4(void **ctx, int *mask, const char *name, uint64_t hash, int n_nodes, int n_ranks,
                   int rank, log_t log)
{
    (void)log;
    *ctx = (void *)(uintptr_t)0xc0de;
    *mask = the_mask();
    say("init v4 hash=%s nodes=%d ranks=%d rank=%d name=%s", hash ? "set" : "0", n_nodes, n_ranks,
        rank, name ? name : "-");
    return 0;
}

static int init_v5(void **ctx, uint64_t id, int *mask, const char *name, int n_nodes, int n_ranks,
                   int rank, log_t log)
{
    (void)log;
    *ctx = (void *)(uintptr_t)0xc0de;
    *mask = the_mask();
    say("init v5 hash=%s nodes=%d ranks=%d rank=%d name=%s", id ? "set" : "0", n_nodes, n_ranks,
        rank, name ? name : "-");
    return getenv("REC_FAIL") ? 2 : 0;
}

#if defined(PLUGIN_V4) || defined(PLUGIN_V45)
extern struct ops ncclProfiler_v4;
struct ops ncclProfiler_v4 = {"rec", (void *)init_v4, start_v4, stop, state, finalize};
#endif
#if defined(PLUGIN_V5) || defined(PLUGIN_V45)
extern struct ops ncclProfiler_v5;
struct ops ncclProfiler_v5 = {"rec", (void *)init_v5, start_v5, stop, state, finalize};
#endif
/* What one of the two does not export is still compiled. */
extern void *const plugin_unused[];
void *const plugin_unused[] = {(void *)init_v4, (void *)init_v5, (void *)start_v4,
                               (void *)start_v5};
