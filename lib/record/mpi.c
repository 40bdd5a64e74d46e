/* MPI seen from inside the job: the beginning, the end, and how long the calls took.
 *
 * Box: lib/record. Application threads. No mpi.h: arguments are machine words that pass through.
 * Both MPI_ and PMPI_ names are ours, because Fortran enters by the latter; a per-thread depth
 * keeps a call that enters by both from being seen twice. The end is a delete callback on
 * MPI_COMM_SELF: it runs first in MPI_Finalize and MPI still communicates there.
 *
 * Invariant, and the reason this file is careful: the one unconditional message of ours is a word
 * to rank 0 in MPI_Init, which every rank with the library sends, also under HINDMOST=off and after
 * any trouble of its own. What follows runs on all ranks or on none.
 */
#include "record/mpi.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define HM_EXPORT __attribute__((visibility("default")))
typedef hm_mpi_word_t word;

enum { PROTOCOL = 1, AGREE_MS = 10000, FLUSH_MS = 2000 };

_Thread_local int hm_mpi_depth;
struct hm_job hm_mpi_job;
int hm_mpi_joined;
static _Atomic int seen_init;

/* The function behind us in the search order (that of another profiling library, under its MPI_
 * name), or in a library that was loaded with RTLD_LOCAL (mpi4py). NULL = there is no MPI here and
 * somebody called us by mistake. */
void *hm_mpi_real(_Atomic(void *) *cache, const char *name)
{
    void *f = atomic_load_explicit(cache, memory_order_acquire);
    if (f)
        return f;
    f = dlsym(RTLD_NEXT, name);
    if (!f) {
        static struct hm_mpi local;
        if (local.library || hm_mpi_open(&local, 0) == HM_OK || local.library)
            f = dlsym(local.library, name);
    }
    if (f)
        atomic_store_explicit(cache, f, memory_order_release);
    return f;
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
            if (hm_mpi_job.mpi.test(&request[i], &now, hm_mpi_job.mpi.status_ignore) !=
                hm_mpi_job.mpi.success)
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
    int n = hm_mpi_job.n_ranks - 1, n_done = 0, n_sent = 0;
    /* never freed when a rank stays silent: an abandoned call may still write to them */
    struct word *said = calloc((size_t)n + 1, sizeof(*said));
    hm_mpi_word_t *request = calloc(2 * ((size_t)n + 1), sizeof(*request));
    char *done = calloc(2 * ((size_t)n + 1), 1);
    if (n < 1 || !said || !request || !done)
        return 0;
    for (int i = 0; i < n; i++)
        if (hm_mpi_job.mpi.irecv(&said[i], WORD_INTS, hm_mpi_job.mpi.type_int, i + 1, TAG_HELLO,
                                 hm_mpi_job.mpi.comm_world, &request[i]) != hm_mpi_job.mpi.success)
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
        if (done[i] && hm_mpi_job.mpi.isend(&answer, WORD_INTS, hm_mpi_job.mpi.type_int, i + 1,
                                            TAG_ANSWER, hm_mpi_job.mpi.comm_world,
                                            &request[n + n_sent]) == hm_mpi_job.mpi.success)
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
    if (hm_mpi_job.mpi.irecv(&answer, WORD_INTS, hm_mpi_job.mpi.type_int, 0, TAG_ANSWER,
                             hm_mpi_job.mpi.comm_world, &request[0]) != hm_mpi_job.mpi.success ||
        hm_mpi_job.mpi.isend(&hello, WORD_INTS, hm_mpi_job.mpi.type_int, 0, TAG_HELLO,
                             hm_mpi_job.mpi.comm_world, &request[1]) != hm_mpi_job.mpi.success)
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
    struct word mine = {PROTOCOL, want, want ? hm_mpi_job.rank : hm_mpi_job.n_ranks}, least = mine;
    if (hm_mpi_job.n_ranks == 1)
        return want;
    if (!hm_mpi_job.mpi.isend || !hm_mpi_job.mpi.irecv || !hm_mpi_job.mpi.test)
        return 0;
    int64_t until = hm_true_now() + agree_limit_ms() * INT64_C(1000000);
    int all =
        hm_mpi_job.rank == 0 ? hear_all(&mine, &least, until) : ask_rank_0(&mine, &least, until);
    if (all && least.protocol == PROTOCOL && least.want)
        return 1;
    hm_self.quiet = 0;
    if (!all && want && hm_self.who.local_rank <= 1)
        hm_note(HM_E_MISSING, "a rank of this job runs without the library; start all ranks with "
                              "hindmost run, or none; nothing is recorded");
    if (all && want && least.speaker == hm_mpi_job.rank)
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
    if (!hm_mpi_job.rank) {
        say.ok = !waking || hm_wake_choose_dir() == HM_OK;
        say.nonce = hm.view.pool ? hm.view.pool->nonce : 0;
        memcpy(say.dir, hm_self.run_dir, sizeof(say.dir));
        memcpy(say.id, hm_self.run_id, sizeof(say.id));
    }
    if (hm_mpi_job.mpi.bcast(&say, sizeof(say), hm_mpi_job.mpi.type_byte, 0,
                             hm_mpi_job.mpi.comm_world) != hm_mpi_job.mpi.success ||
        !say.ok)
        return 0;
    hm_mpi_job.nonce = say.nonce;
    if (waking && hm_mpi_job.rank) {
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
    if (!hm_mpi_joined)
        return 0;
    hm_mpi_depth++;
    hm_probe_mpi(&hm_mpi_job);
    hm_flush(FLUSH_MS);
    hm_mpi_job.mpi.barrier(hm_mpi_job.comm);
    if (!hm_mpi_job.rank)
        hm_digest();
    hm_mpi_joined = 0;
    hm_mpi_job.mpi.comm_free(&hm_mpi_job.comm);
    hm_mpi_depth--;
    return 0;
}

static int watch_end(void)
{
    int keyval = hm_mpi_job.mpi.keyval_invalid;
    union {
        int (*f)(word, int, void *, void *);
        void *p;
    } end = {.f = at_finalize};
    return hm_mpi_job.mpi.comm_create_keyval(hm_mpi_job.mpi.null_copy_fn, end.p, &keyval, NULL) ==
               hm_mpi_job.mpi.success &&
           hm_mpi_job.mpi.comm_set_attr(hm_mpi_job.mpi.comm_self, keyval, NULL) ==
               hm_mpi_job.mpi.success;
}

static void publish_identity(void)
{
    struct hm_pool *pool = hm.view.pool;
    pool->domain_leader = (uint32_t)hm_mpi_job.is_leader;
    pool->leader_index = hm_mpi_job.leader_index;
    pool->n_leaders = hm_mpi_job.n_leaders;
    hm_claim(hm_mpi_job.rank, hm_mpi_job.n_ranks, (int32_t)hm_mpi_job.local_rank,
             (int32_t)hm_mpi_job.n_local);
}

static void after_init(void)
{
    if (atomic_exchange(&seen_init, 1))
        return;
    if (hm_mpi_open(&hm_mpi_job.mpi, 0)) {
        /* an MPI of a family we do not know: the same on all ranks, so nobody waits for us */
        if (hm_wake(HM_CAUSE_MPI)) {
            const struct hm_who *who = &hm_self.who;
            hm_note(HM_E_FOREIGN, "this MPI is of a kind hindmost does not know: no clock windows");
            if (who->rank >= 0)
                hm_claim(who->rank, who->n_ranks, who->local_rank, who->n_local);
        }
        return;
    }
    hm_mpi_depth++;
    hm_mpi_job.mpi.comm_rank(hm_mpi_job.mpi.comm_world, &hm_mpi_job.rank);
    hm_mpi_job.mpi.comm_size(hm_mpi_job.mpi.comm_world, &hm_mpi_job.n_ranks);
    hm_status_t s = hm_wake_prepare();
    int waking = s == HM_OK, want = waking || s == HM_AGAIN;
    hm_self.who.rank = hm_mpi_job.rank;
    hm_self.who.n_ranks = hm_mpi_job.n_ranks;
    want = watch_end() && want;
    hm_mpi_joined = agree(want);
    if (hm_mpi_joined)
        hm_mpi_joined = share_run(waking);
    if (hm_mpi_joined) {
        int error = hm_mpi_job.mpi.comm_split(hm_mpi_job.mpi.comm_world, 0, hm_mpi_job.rank,
                                              &hm_mpi_job.comm);
        hm_mpi_joined = error == hm_mpi_job.mpi.success && hm_probe_domains(&hm_mpi_job) == HM_OK;
    }
    if (hm_mpi_joined) {
        if (waking)
            hm_wake_open_gate();
        publish_identity();
        hm_probe_mpi(&hm_mpi_job);
        if (waking)
            hm_wake_finish();
    } else if (waking) {
        hm_wake_cancel();
    }
    hm_mpi_depth--;
}

HM_EXPORT int MPI_Init(int *argc, char ***argv);
HM_EXPORT int PMPI_Init(int *argc, char ***argv);
HM_EXPORT int MPI_Init_thread(int *argc, char ***argv, int required, int *provided);
HM_EXPORT int PMPI_Init_thread(int *argc, char ***argv, int required, int *provided);

static int init(_Atomic(void *) *cache, const char *name, int *argc, char ***argv)
{
    union {
        void *p;
        int (*f)(int *, char ***);
    } u = {hm_mpi_real(cache, name)};
    if (!u.p)
        return HM_MPI_ERR_OTHER;
    hm_mpi_depth++;
    int rc = u.f(argc, argv);
    if (!--hm_mpi_depth && !rc)
        after_init();
    return rc;
}

int MPI_Init(int *argc, char ***argv)
{
    static _Atomic(void *) cache;
    return init(&cache, "MPI_Init", argc, argv);
}

int PMPI_Init(int *argc, char ***argv)
{
    static _Atomic(void *) cache;
    return init(&cache, "PMPI_Init", argc, argv);
}

static int init_thread(_Atomic(void *) *cache, const char *name, int *argc, char ***argv,
                       int required, int *provided)
{
    union {
        void *p;
        int (*f)(int *, char ***, int, int *);
    } u = {hm_mpi_real(cache, name)};
    if (!u.p)
        return HM_MPI_ERR_OTHER;
    hm_mpi_depth++;
    int rc = u.f(argc, argv, required, provided);
    if (!--hm_mpi_depth && !rc)
        after_init();
    return rc;
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    static _Atomic(void *) cache;
    return init_thread(&cache, "MPI_Init_thread", argc, argv, required, provided);
}

int PMPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    static _Atomic(void *) cache;
    return init_thread(&cache, "PMPI_Init_thread", argc, argv, required, provided);
}
