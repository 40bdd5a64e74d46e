/* How long MPI calls took: a wrapper for each row of core/mpi.def.
 *
 * Box: lib/record. Application threads. Arguments are machine words that pass through. Both MPI_
 * and PMPI_ names are ours, because Fortran enters by the latter; a per-thread depth keeps a call
 * that enters by both from being seen twice. Nothing here communicates: what must be known of a
 * communicator or type is asked by local calls.
 */
#include "record/mpi.h"

#include <stdlib.h>
#include <string.h>

#define HM_EXPORT __attribute__((visibility("default")))
typedef hm_mpi_word_t word;

static int call(void *f, const word a[], unsigned n)
{
#define F(...) ((int (*)(__VA_ARGS__))(uintptr_t)f)
    if (!f)
        return HM_MPI_ERR_OTHER;
    switch (n) {
    case 1:
        return F(word)(a[0]);
    case 2:
        return F(word, word)(a[0], a[1]);
    case 3:
        return F(word, word, word)(a[0], a[1], a[2]);
    case 4:
        return F(word, word, word, word)(a[0], a[1], a[2], a[3]);
    case 5:
        return F(word, word, word, word, word)(a[0], a[1], a[2], a[3], a[4]);
    case 6:
        return F(word, word, word, word, word, word)(a[0], a[1], a[2], a[3], a[4], a[5]);
    case 7:
        return F(word, word, word, word, word, word, word)(a[0], a[1], a[2], a[3], a[4], a[5],
                                                           a[6]);
    case 8:
        return F(word, word, word, word, word, word, word, word)(a[0], a[1], a[2], a[3], a[4], a[5],
                                                                 a[6], a[7]);
    case 9:
        return F(word, word, word, word, word, word, word, word, word)(a[0], a[1], a[2], a[3], a[4],
                                                                       a[5], a[6], a[7], a[8]);
    case 10:
        return F(word, word, word, word, word, word, word, word, word,
                 word)(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9]);
    default:
        return F(word, word, word, word, word, word, word, word, word, word, word,
                 word)(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11]);
    }
#undef F
}

/* --- what a call's arguments say --- */

static word handle(word w)
{
    return hm_mpi_job.mpi.family == HM_MPI_MPICH ? (uint32_t)w
                                                 : w; /* an int there, upper half undefined */
}

static uint64_t type_bytes(word type)
{
    static _Atomic(void *) cache;
    union {
        void *p;
        int (*f)(word, int *);
    } u = {hm_mpi_real(&cache, "PMPI_Type_size")};
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
    } group = {hm_mpi_real(&c_group, "PMPI_Comm_group")},
      translate = {hm_mpi_real(&c_translate, "PMPI_Group_translate_ranks")},
      release = {hm_mpi_real(&c_free, "PMPI_Group_free")};
    word ours = 0, world = 0;
    uint64_t h = UINT64_C(14695981039346656037);
    int *r = malloc(2 * (size_t)n * sizeof(*r));
    if (!r || !group.p || !translate.p || !release.p || group.group(comm, &ours) ||
        group.group(hm_mpi_job.mpi.comm_world, &world)) {
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
    if (!comm || !hm_mpi_joined)
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
    if (hm_mpi_job.mpi.comm_rank(comm, &rank) || hm_mpi_job.mpi.comm_size(comm, &n) || n < 1)
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

static int is_in_place(word w)
{
    /* MPI_IN_PLACE: 1 in Open MPI, -1 in MPICH */
    return w == (hm_mpi_job.mpi.family == HM_MPI_MPICH ? ~(word)0 : (word)1);
}

static uint64_t sum_of(word counts, uint32_t n)
{
    const int *v = (const int *)counts;
    uint64_t sum = 0;
    for (uint32_t i = 0; v && i < n; i++)
        sum += v[i] > 0 ? (uint64_t)v[i] : 0;
    return sum;
}

/* What this rank hands in or asks for, in bytes: counts and types of the side named in mpi.def. */
static void fill(struct hm_ev_mpi *ev, const char *roles, const word a[])
{
    word type = 0, counts = 0;
    uint64_t count = 0;
    uint32_t n_ranks = 1;
    int has_type = 0, each = 0, in_place = 0;
    ev->comm = HM_NO_ID;
    ev->peer = -1;
    ev->tag = -1;
    for (unsigned i = 0; roles[i]; i++) {
        switch (roles[i]) {
        case 'N':
            each = 1;
            count = (uint32_t)a[i];
            break;
        case 'n':
            count = (uint32_t)a[i];
            break;
        case 'V':
            counts = a[i];
            break;
        case 't':
            type = a[i];
            has_type = 1;
            break;
        case 'b':
            in_place = is_in_place(a[i]);
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
    if (in_place || !has_type)
        return;
    const void *def;
    uint32_t len;
    if ((each || counts) && !hm_defs_get(&hm.view.defs, HM_DEF_MPI_COMM, ev->comm, &def, &len))
        n_ranks = (uint32_t)((const struct hm_def_mpi_comm *)def)->n_ranks;
    else if (counts)
        return;
    if (counts)
        count = sum_of(counts, n_ranks);
    else if (each)
        count *= n_ranks;
    /* a type means something only where there is something of it: asking for the size of none
     * would end the job */
    if (count && count <= (uint64_t)INT32_MAX * n_ranks)
        ev->bytes = count * type_bytes(type);
}

/* A test or probe that found nothing: programs ask thousands of times a second. */
static int found_nothing(const char *roles, const word a[])
{
    const char *f = strchr(roles, 'f');
    const int *flag = f ? (const int *)a[f - roles] : NULL;
    return f && (!flag || *flag <= 0);
}

/* --- timed calls --- */

struct timed {
    _Atomic(void *) real[2]; /* behind MPI_ and behind PMPI_ */
    _Atomic uint32_t name;   /* string id + 1 */
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

static int timed_call(struct timed *t, int profiling, const word a[])
{
    static _Atomic uint32_t domain;
    void *f = hm_mpi_real(&t->real[profiling], t->pmpi_name + !profiling);
    if (!hm_mpi_depth)
        hm_gate_follow(); /* `hindmost ctl` may have opened it */
    if (hm_mpi_depth || !hm_on(HM_EV_MPI))
        return call(f, a, t->n_args);
    hm_mpi_depth++;
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
    struct hm_event *ev = found_nothing(t->roles, a) ? NULL : hm_begin(HM_EV_MPI);
    if (ev) {
        ev->t_ns = t0;
        ev->dur_ns = hm_now() - t0;
        ev->aux = t->number;
        ev->u.mpi = facts;
        hm_commit();
    }
    hm_mpi_depth--;
    return rc;
}

#define HM_DECL_1  word a
#define HM_LIST_1  a
#define HM_DECL_2  HM_DECL_1, word b
#define HM_LIST_2  HM_LIST_1, b
#define HM_DECL_3  HM_DECL_2, word c
#define HM_LIST_3  HM_LIST_2, c
#define HM_DECL_4  HM_DECL_3, word d
#define HM_LIST_4  HM_LIST_3, d
#define HM_DECL_5  HM_DECL_4, word e
#define HM_LIST_5  HM_LIST_4, e
#define HM_DECL_6  HM_DECL_5, word f
#define HM_LIST_6  HM_LIST_5, f
#define HM_DECL_7  HM_DECL_6, word g
#define HM_LIST_7  HM_LIST_6, g
#define HM_DECL_8  HM_DECL_7, word h
#define HM_LIST_8  HM_LIST_7, h
#define HM_DECL_9  HM_DECL_8, word i
#define HM_LIST_9  HM_LIST_8, i
#define HM_DECL_10 HM_DECL_9, word j
#define HM_LIST_10 HM_LIST_9, j
#define HM_DECL_11 HM_DECL_10, word k
#define HM_LIST_11 HM_LIST_10, k
#define HM_DECL_12 HM_DECL_11, word l
#define HM_LIST_12 HM_LIST_11, l
#define HM_MPI(num, fn, n, what)                                               \
    _Static_assert(sizeof(what) == n + 1, "a role for each argument of " #fn); \
    HM_EXPORT int MPI_##fn(HM_DECL_##n);                                       \
    HM_EXPORT int PMPI_##fn(HM_DECL_##n);                                      \
    static struct timed timed_##fn = {                                         \
        .pmpi_name = "PMPI_" #fn, .roles = what, .number = num, .n_args = n};  \
    int MPI_##fn(HM_DECL_##n)                                                  \
    {                                                                          \
        const word args[] = {HM_LIST_##n};                                     \
        return timed_call(&timed_##fn, 0, args);                               \
    }                                                                          \
    int PMPI_##fn(HM_DECL_##n)                                                 \
    {                                                                          \
        const word args[] = {HM_LIST_##n};                                     \
        return timed_call(&timed_##fn, 1, args);                               \
    }
#include "core/mpi.def"
#undef HM_MPI

HM_EXPORT int MPI_Comm_free(void *comm_p);
HM_EXPORT int PMPI_Comm_free(void *comm_p);
HM_EXPORT int MPI_Comm_disconnect(void *comm_p);
HM_EXPORT int PMPI_Comm_disconnect(void *comm_p);

/* Not timed: a freed handle may come back as another communicator. */
static int comm_free(_Atomic(void *) *cache, const char *name, void *comm_p)
{
    union {
        void *p;
        int (*f)(void *);
    } u = {hm_mpi_real(cache, name)};
    if (hm_mpi_joined && comm_p)
        forget_comm(hm_mpi_job.mpi.family == HM_MPI_MPICH ? *(uint32_t *)comm_p : *(word *)comm_p);
    return u.p ? u.f(comm_p) : HM_MPI_ERR_OTHER;
}

#define HM_FREE(name)                            \
    int name(void *comm_p)                       \
    {                                            \
        static _Atomic(void *) cache;            \
        return comm_free(&cache, #name, comm_p); \
    }
HM_FREE(MPI_Comm_free)
HM_FREE(PMPI_Comm_free)
HM_FREE(MPI_Comm_disconnect)
HM_FREE(PMPI_Comm_disconnect)
