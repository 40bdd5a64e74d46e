/* MPI seen from inside the job: the beginning, the end, and how long the calls took.
 *
 * Box: lib/record. Application threads. No mpi.h: arguments are machine words that pass through.
 * Both MPI_ and PMPI_ names are ours, because Fortran enters by the latter; a per-thread depth
 * keeps a call that enters by both from being seen twice. The end is a delete callback on
 * MPI_COMM_SELF: it runs first in MPI_Finalize and MPI still communicates there.
 *
 * Invariant, and the reason this file is careful: the one unconditional message of ours is an
 * allreduce in MPI_Init that every rank with the library joins, also under HINDMOST=off and after
 * any trouble of its own. What follows runs on all ranks or on none.
 */
#include "record/mpi.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define HM_EXPORT __attribute__((visibility("default")))
typedef hm_mpi_word_t word;

enum { PROTOCOL = 1, ERR_OTHER = 16, AGREE_MS = 10000, FLUSH_MS = 2000 };

static _Thread_local int depth;
static struct hm_job job;
static int joined; /* all ranks agreed: the closing calls are collective too */
static _Atomic int seen_init;

/* libmpi's own function: behind us in the search order, or in a library that was loaded with
 * RTLD_LOCAL (mpi4py). NULL = there is no MPI here and somebody called us by mistake. */
static void *real_function(_Atomic(void *) *cache, const char *pmpi_name)
{
    void *f = atomic_load_explicit(cache, memory_order_acquire);
    if (f)
        return f;
    f = dlsym(RTLD_NEXT, pmpi_name);
    if (!f) {
        static struct hm_mpi local;
        if (local.library || hm_mpi_open(&local, 0) == HM_OK || local.library)
            f = dlsym(local.library, pmpi_name);
    }
    if (f)
        atomic_store_explicit(cache, f, memory_order_release);
    return f;
}

static int call(void *f, const word a[], unsigned n)
{
    typedef int (*f1)(word);
    typedef int (*f2)(word, word);
    typedef int (*f3)(word, word, word);
    typedef int (*f5)(word, word, word, word, word);
    typedef int (*f6)(word, word, word, word, word, word);
    typedef int (*f7)(word, word, word, word, word, word, word);
    union {
        void *p;
        f1 f1;
        f2 f2;
        f3 f3;
        f5 f5;
        f6 f6;
        f7 f7;
    } u = {f};
    if (!f)
        return ERR_OTHER;
    switch (n) {
    case 1:
        return u.f1(a[0]);
    case 2:
        return u.f2(a[0], a[1]);
    case 3:
        return u.f3(a[0], a[1], a[2]);
    case 5:
        return u.f5(a[0], a[1], a[2], a[3], a[4]);
    case 6:
        return u.f6(a[0], a[1], a[2], a[3], a[4], a[5]);
    default:
        return u.f7(a[0], a[1], a[2], a[3], a[4], a[5], a[6]);
    }
}

/* --- what a call's arguments say --- */

static word handle(word w)
{
    return job.mpi.family == HM_MPI_MPICH ? (uint32_t)w
                                          : w; /* an int there, upper half undefined */
}

static uint64_t type_bytes(word type)
{
    static _Atomic(void *) cache;
    union {
        void *p;
        int (*f)(word, int *);
    } u = {real_function(&cache, "PMPI_Type_size")};
    int bytes = 0;
    if (!u.p || u.f(type, &bytes) || bytes < 0)
        return 0;
    return (uint64_t)bytes;
}

/* Communicators seen so far: handle -> definition. Slots are taken once and their handle cleared by
 * MPI_Comm_free; a full table gives HM_NO_ID. */
static struct {
    _Atomic word comm;
    _Atomic uint32_t id;
} comm_cache[256];

static uint64_t member_hash(word comm, int n)
{
    static _Atomic(void *) c_group, c_translate, c_free;
    union {
        void *p;
        int (*group)(word, word *);
        int (*translate)(word, int, const int *, word, int *);
        int (*release)(word *);
    } group = {real_function(&c_group, "PMPI_Comm_group")},
      translate = {real_function(&c_translate, "PMPI_Group_translate_ranks")},
      release = {real_function(&c_free, "PMPI_Group_free")};
    word ours = 0, world = 0;
    uint64_t h = UINT64_C(14695981039346656037);
    int *r = malloc(2 * (size_t)n * sizeof(*r));
    if (!r || !group.p || !translate.p || !release.p || group.group(comm, &ours) ||
        group.group(job.mpi.comm_world, &world)) {
        free(r);
        return 0;
    }
    for (int i = 0; i < n; i++)
        r[i] = i;
    if (translate.translate(ours, n, r, world, r + n))
        h = 0;
    for (int i = 0; h && i < n; i++)
        h = (h ^ (uint32_t)r[n + i]) * UINT64_C(1099511628211);
    release.release(&ours);
    release.release(&world);
    free(r);
    return h;
}

static uint32_t comm_id(word comm)
{
    unsigned at = (unsigned)((comm >> 4 ^ comm >> 12 ^ comm) % 256);
    comm = handle(comm);
    if (!comm || !joined)
        return HM_NO_ID;
    for (unsigned i = 0; i < 16; i++) {
        unsigned k = (at + i) % 256;
        word have = atomic_load_explicit(&comm_cache[k].comm, memory_order_acquire);
        if (have == comm)
            return atomic_load_explicit(&comm_cache[k].id, memory_order_relaxed);
    }
    struct hm_def_mpi_comm def;
    memset(&def, 0, sizeof(def));
    int rank, n;
    if (job.mpi.comm_rank(comm, &rank) || job.mpi.comm_size(comm, &n) || n < 1)
        return HM_NO_ID;
    def.crank = rank;
    def.n_ranks = n;
    def.member_hash = member_hash(comm, n);
    uint32_t id = hm_define(HM_DEF_MPI_COMM, &def, sizeof(def));
    for (unsigned i = 0; i < 16; i++) {
        unsigned k = (at + i) % 256;
        word none = 0;
        if (atomic_load(&comm_cache[k].comm))
            continue;
        atomic_store(&comm_cache[k].id, id);
        if (atomic_compare_exchange_strong(&comm_cache[k].comm, &none, comm))
            break;
    }
    return id;
}

static void forget_comm(word comm)
{
    for (unsigned k = 0; k < 256; k++)
        if (atomic_load(&comm_cache[k].comm) == comm)
            atomic_store(&comm_cache[k].comm, 0);
}

static void fill(struct hm_ev_mpi *ev, const char *roles, const word a[])
{
    uint64_t count = 0, size = 0;
    ev->comm = HM_NO_ID;
    ev->peer = -1;
    ev->tag = -1;
    for (unsigned i = 0; roles[i]; i++) {
        switch (roles[i]) {
        case 'n':
            count = (uint64_t)(uint32_t)a[i];
            break;
        case 't':
            size = type_bytes(a[i]);
            break;
        case 'p':
            ev->peer = (int32_t)a[i];
            break;
        case 'g':
            ev->tag = (int32_t)a[i];
            break;
        case 'c':
            ev->comm = comm_id(a[i]);
            break;
        case 'r':
            ev->n_requests = (uint32_t)a[i];
            break;
        default:
            break;
        }
    }
    ev->bytes = count * size;
}

/* --- timed calls --- */

struct timed {
    _Atomic(void *) real;
    _Atomic uint32_t name; /* string id + 1 */
    const char *pmpi_name, *roles;
    uint16_t number;
    uint8_t n_args;
};

static uint32_t id_of(_Atomic uint32_t *cache, const char *text)
{
    uint32_t id = atomic_load_explicit(cache, memory_order_relaxed);
    if (!id) {
        id = hm_name(text, strlen(text)) + 1;
        atomic_store_explicit(cache, id, memory_order_relaxed);
    }
    return id - 1;
}

static int timed_call(struct timed *t, const word a[])
{
    static _Atomic uint32_t domain;
    void *f = real_function(&t->real, t->pmpi_name);
    if (!depth)
        hm_gate_follow(); /* `hindmost ctl` may have opened it */
    if (depth || !hm_on(HM_EV_MPI))
        return call(f, a, t->n_args);
    depth++;
    struct hm_ev_mpi facts;
    memset(&facts, 0, sizeof(facts));
    fill(&facts, t->roles, a); /* before the call: it may free the handles */
    int64_t t0 = hm_now();
    /* on the open stack: a rank that never comes back from here is seen */
    struct hm_open_range open = {.t_ns = t0,
                                 .name = id_of(&t->name, t->pmpi_name + 1),
                                 .domain = id_of(&domain, "MPI"),
                                 .category = HM_NO_ID};
    unsigned type;
    hm_open_push(&open, HM_OWNER_MPI, 0);
    int rc = call(f, a, t->n_args);
    hm_open_pop(HM_OWNER_MPI, open.domain, &open, &type);
    struct hm_event *ev = hm_begin(HM_EV_MPI);
    if (ev) {
        ev->t_ns = t0;
        ev->dur_ns = hm_now() - t0;
        ev->aux = t->number;
        ev->u.mpi = facts;
        hm_commit();
    }
    depth--;
    return rc;
}

#define HM_DECL_1 word a
#define HM_LIST_1 a
#define HM_DECL_2 HM_DECL_1, word b
#define HM_LIST_2 HM_LIST_1, b
#define HM_DECL_3 HM_DECL_2, word c
#define HM_LIST_3 HM_LIST_2, c
#define HM_DECL_5 HM_DECL_3, word d, word e
#define HM_LIST_5 HM_LIST_3, d, e
#define HM_DECL_6 HM_DECL_5, word f
#define HM_LIST_6 HM_LIST_5, f
#define HM_DECL_7 HM_DECL_6, word g
#define HM_LIST_7 HM_LIST_6, g
#define HM_MPI(num, fn, n, what)                                              \
    HM_EXPORT int MPI_##fn(HM_DECL_##n);                                      \
    HM_EXPORT int PMPI_##fn(HM_DECL_##n);                                     \
    static struct timed timed_##fn = {                                        \
        .pmpi_name = "PMPI_" #fn, .roles = what, .number = num, .n_args = n}; \
    int MPI_##fn(HM_DECL_##n)                                                 \
    {                                                                         \
        const word args[] = {HM_LIST_##n};                                    \
        return timed_call(&timed_##fn, args);                                 \
    }                                                                         \
    int PMPI_##fn(HM_DECL_##n)                                                \
    {                                                                         \
        const word args[] = {HM_LIST_##n};                                    \
        return timed_call(&timed_##fn, args);                                 \
    }
#include "core/mpi.def"
#undef HM_MPI

HM_EXPORT int MPI_Comm_free(void *comm_p);
HM_EXPORT int PMPI_Comm_free(void *comm_p);

/* Not timed: a freed handle may come back as another communicator. */
static int comm_free(void *comm_p)
{
    static _Atomic(void *) cache;
    union {
        void *p;
        int (*f)(void *);
    } u = {real_function(&cache, "PMPI_Comm_free")};
    if (joined && comm_p)
        forget_comm(job.mpi.family == HM_MPI_MPICH ? *(uint32_t *)comm_p : *(word *)comm_p);
    return u.p ? u.f(comm_p) : ERR_OTHER;
}

int MPI_Comm_free(void *comm_p)
{
    return comm_free(comm_p);
}

int PMPI_Comm_free(void *comm_p)
{
    return comm_free(comm_p);
}

/* --- the beginning and the end --- */

static int agree_limit_ms(void)
{
    const char *v = getenv("HM_TEST_AGREE_MS"); /* tests shorten it */
    return v && atoi(v) > 0 ? atoi(v) : AGREE_MS;
}

/* What a rank tells rank 0, and what rank 0 tells all. Point to point: a collective of ours would
 * hang or shift those of the program when a rank has no library. */
struct word {
    int protocol, want, speaker; /* speaker: who speaks for those that would have recorded */
};
enum { WORD_INTS = sizeof(struct word) / sizeof(int), TAG_HELLO = 32741, TAG_ANSWER = 32742 };

/* Waits until all n requests are done or the time is over; returns how many are done. */
static int wait_all(hm_mpi_word_t *request, char *done, int n, int64_t until)
{
    int n_done = 0;
    for (int round = 0; n_done < n; round++) {
        for (int i = 0; i < n; i++) {
            int now = 0;
            if (done[i])
                continue;
            if (job.mpi.test(&request[i], &now, job.mpi.status_ignore) != job.mpi.success)
                return n_done;
            done[i] = (char)(now != 0);
            n_done += done[i];
        }
        if (n_done == n || hm_true_now() >= until)
            break;
        /* ranks arrive within microseconds or after a slow start: do not burn the core of one that
         * still loads its libraries */
        hm_nap(round < 1000 ? 10000 : 1000000);
    }
    return n_done;
}

/* Rank 0: hears all, answers those it heard. 1 = heard all. */
static int hear_all(const struct word *mine, struct word *least, int64_t until)
{
    int n = job.n_ranks - 1, n_done = 0, n_sent = 0;
    /* never freed when a rank stays silent: an abandoned call may still write to them */
    struct word *said = calloc((size_t)n + 1, sizeof(*said));
    hm_mpi_word_t *request = calloc(2 * ((size_t)n + 1), sizeof(*request));
    char *done = calloc(2 * ((size_t)n + 1), 1);
    if (n < 1 || !said || !request || !done)
        return 0;
    for (int i = 0; i < n; i++)
        if (job.mpi.irecv(&said[i], WORD_INTS, job.mpi.type_int, i + 1, TAG_HELLO,
                          job.mpi.comm_world, &request[i]) != job.mpi.success)
            return 0;
    n_done = wait_all(request, done, n, until);
    *least = *mine;
    for (int i = 0; i < n; i++) {
        if (!done[i])
            continue;
        least->protocol = said[i].protocol < least->protocol ? said[i].protocol : least->protocol;
        least->want = said[i].want < least->want ? said[i].want : least->want;
        least->speaker = said[i].speaker < least->speaker ? said[i].speaker : least->speaker;
    }
    static struct word answer;
    answer = *least;
    if (n_done < n)
        answer.protocol = 0; /* somebody is missing */
    for (int i = 0; i < n; i++)
        if (done[i] && job.mpi.isend(&answer, WORD_INTS, job.mpi.type_int, i + 1, TAG_ANSWER,
                                     job.mpi.comm_world, &request[n + n_sent]) == job.mpi.success)
            n_sent++;
    memset(done, 0, (size_t)n);
    wait_all(request + n, done, n_sent, hm_true_now() + INT64_C(1000000000));
    if (n_done < n)
        return 0;
    free(said);
    free(request);
    free(done);
    return 1;
}

/* The others: tell rank 0, hear its answer. 1 = everybody is there. */
static int ask_rank_0(const struct word *mine, struct word *least, int64_t until)
{
    static struct word hello, answer; /* static: an abandoned call may still use them */
    static hm_mpi_word_t request[2];
    static char done[2];
    hello = *mine;
    if (job.mpi.irecv(&answer, WORD_INTS, job.mpi.type_int, 0, TAG_ANSWER, job.mpi.comm_world,
                      &request[0]) != job.mpi.success ||
        job.mpi.isend(&hello, WORD_INTS, job.mpi.type_int, 0, TAG_HELLO, job.mpi.comm_world,
                      &request[1]) != job.mpi.success)
        return 0;
    /* rank 0 may say only at its own limit that somebody is missing */
    if (wait_all(request, done, 2, until + INT64_C(2000000000)) < 2)
        return 0;
    *least = answer;
    return answer.protocol != 0;
}

/* 1 = every rank of the job has the library, speaks this protocol and wants to record. */
static int agree(int want)
{
    struct word mine = {PROTOCOL, want, want ? job.rank : job.n_ranks}, least = mine;
    if (job.n_ranks == 1)
        return want;
    if (!job.mpi.isend || !job.mpi.irecv || !job.mpi.test)
        return 0;
    int64_t until = hm_true_now() + agree_limit_ms() * INT64_C(1000000);
    int all = job.rank == 0 ? hear_all(&mine, &least, until) : ask_rank_0(&mine, &least, until);
    if (all && least.protocol == PROTOCOL && least.want)
        return 1;
    hm_self.quiet = 0;
    if (!all && want && hm_self.who.local_rank <= 1)
        hm_note(HM_E_MISSING, "a rank of this job runs without the library; start all ranks with "
                              "hindmost run, or none; nothing is recorded");
    if (all && want && least.speaker == job.rank)
        hm_note(HM_E_MISSING, "a rank of this job does not record (HINDMOST=off, another version, "
                              "or a trouble it told); nothing is recorded");
    return 0;
}

static void make_dirs(char *path)
{
    for (char *p = path + 1; *p; p++)
        if (*p == '/') {
            *p = 0;
            mkdir(path, 0777);
            *p = '/';
        }
    mkdir(path, 0700);
}

/* Rank 0 names folder, run id and nonce. 1 = it could. */
static int share_run(int waking)
{
    static struct {
        int32_t ok, pad;
        uint64_t nonce;
        char dir[1024], id[128];
    } say;
    if (!job.rank) {
        say.ok = !waking || hm_wake_choose_dir() == HM_OK;
        say.nonce = hm.view.pool ? hm.view.pool->nonce : 0;
        memcpy(say.dir, hm_self.run_dir, sizeof(say.dir));
        memcpy(say.id, hm_self.run_id, sizeof(say.id));
    }
    if (job.mpi.bcast(&say, sizeof(say), job.mpi.type_byte, 0, job.mpi.comm_world) !=
            job.mpi.success ||
        !say.ok)
        return 0;
    job.nonce = say.nonce;
    if (waking && job.rank) {
        memcpy(hm_self.run_dir, say.dir, sizeof(say.dir));
        memcpy(hm_self.run_id, say.id, sizeof(say.id));
        make_dirs(hm_self.run_dir); /* nodes may share no file system */
    }
    return 1;
}

static int at_finalize(word comm, int keyval, void *value, void *extra)
{
    (void)comm;
    (void)keyval;
    (void)value;
    (void)extra;
    if (!joined)
        return 0;
    depth++;
    hm_probe_mpi(&job);
    hm_flush(FLUSH_MS);
    job.mpi.barrier(job.comm);
    if (!job.rank)
        hm_digest();
    joined = 0;
    job.mpi.comm_free(&job.comm);
    depth--;
    return 0;
}

static int watch_end(void)
{
    int keyval = job.mpi.keyval_invalid;
    union {
        int (*f)(word, int, void *, void *);
        void *p;
    } end = {.f = at_finalize};
    return job.mpi.comm_create_keyval(job.mpi.null_copy_fn, end.p, &keyval, NULL) ==
               job.mpi.success &&
           job.mpi.comm_set_attr(job.mpi.comm_self, keyval, NULL) == job.mpi.success;
}

static void publish_identity(void)
{
    struct hm_pool *pool = hm.view.pool;
    pool->domain_leader = (uint32_t)job.is_leader;
    pool->leader_index = job.leader_index;
    pool->n_leaders = job.n_leaders;
    hm_claim(job.rank, job.n_ranks, (int32_t)job.local_rank, (int32_t)job.n_local);
}

static void after_init(void)
{
    if (atomic_exchange(&seen_init, 1))
        return;
    if (hm_mpi_open(&job.mpi, 0)) {
        /* an MPI of a family we do not know: the same on all ranks, so nobody waits for us */
        if (hm_wake(HM_CAUSE_MPI)) {
            const struct hm_who *who = &hm_self.who;
            hm_note(HM_E_FOREIGN, "this MPI is of a kind hindmost does not know: no clock windows");
            if (who->rank >= 0)
                hm_claim(who->rank, who->n_ranks, who->local_rank, who->n_local);
        }
        return;
    }
    depth++;
    job.mpi.comm_rank(job.mpi.comm_world, &job.rank);
    job.mpi.comm_size(job.mpi.comm_world, &job.n_ranks);
    hm_status_t s = hm_wake_prepare();
    int waking = s == HM_OK, want = waking || s == HM_AGAIN;
    hm_self.who.rank = job.rank;
    hm_self.who.n_ranks = job.n_ranks;
    want = watch_end() && want;
    joined = agree(want);
    if (joined)
        joined = share_run(waking);
    if (joined) {
        int error = job.mpi.comm_split(job.mpi.comm_world, 0, job.rank, &job.comm);
        joined = error == job.mpi.success && hm_probe_domains(&job) == HM_OK;
    }
    if (joined) {
        if (waking)
            hm_wake_open_gate();
        publish_identity();
        hm_probe_mpi(&job);
        if (waking)
            hm_wake_finish();
    } else if (waking) {
        hm_wake_cancel();
    }
    depth--;
}

HM_EXPORT int MPI_Init(int *argc, char ***argv);
HM_EXPORT int PMPI_Init(int *argc, char ***argv);
HM_EXPORT int MPI_Init_thread(int *argc, char ***argv, int required, int *provided);
HM_EXPORT int PMPI_Init_thread(int *argc, char ***argv, int required, int *provided);

static int init(int *argc, char ***argv)
{
    static _Atomic(void *) cache;
    union {
        void *p;
        int (*f)(int *, char ***);
    } u = {real_function(&cache, "PMPI_Init")};
    if (!u.p)
        return ERR_OTHER;
    depth++;
    int rc = u.f(argc, argv);
    if (!--depth && !rc)
        after_init();
    return rc;
}

int MPI_Init(int *argc, char ***argv)
{
    return init(argc, argv);
}

int PMPI_Init(int *argc, char ***argv)
{
    return init(argc, argv);
}

static int init_thread(int *argc, char ***argv, int required, int *provided)
{
    static _Atomic(void *) cache;
    union {
        void *p;
        int (*f)(int *, char ***, int, int *);
    } u = {real_function(&cache, "PMPI_Init_thread")};
    if (!u.p)
        return ERR_OTHER;
    depth++;
    int rc = u.f(argc, argv, required, provided);
    if (!--depth && !rc)
        after_init();
    return rc;
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    return init_thread(argc, argv, required, provided);
}

int PMPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    return init_thread(argc, argv, required, provided);
}
