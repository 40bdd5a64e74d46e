/* From dormant to awake, once: settings, identity, run folder, pool, writer, gate.
 *
 * Box: lib/record. Whichever thread comes first wakes; others wait for it. Never fails loudly: at
 * most one line, then off. Invariant: hm.view is set before `alive`, `alive` before the gate opens,
 * and none of them is taken back while the process lives.
 */
#include "record/record.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static const _Atomic uint64_t shut = 0;
struct hm_state hm = {.gate = &shut};
struct hm_self hm_self = {.pool_fd = -1, .pipe_fd = -1};
static _Atomic int claimed;
static _Atomic int n_lines;

static uint32_t own_note[16]; /* what this process said, to tell the writer's notes from ours */
static _Atomic unsigned n_own;

static uint32_t note_hash(const char *text)
{
    uint32_t h = 2166136261U;
    /* as far as a note of the pool reaches */
    for (size_t i = 0; text[i] && i < sizeof(((struct hm_note *)0)->text) - 1; i++)
        h = (h ^ (uint8_t)text[i]) * 16777619U;
    return h;
}

/* At most 8 lines a process on the user's stderr. */
static void say(const char *line)
{
    char text[512];
    if (atomic_fetch_add(&n_lines, 1) >= 8)
        return;
    int n = snprintf(text, sizeof(text), "hindmost: %s\n", line);
    if (n > (int)sizeof(text) - 1) {
        n = (int)sizeof(text) - 1;
        text[n - 1] = '\n';
    }
    if (n > 0 && write(2, text, (size_t)n) < 0)
        return; /* nobody to tell */
}

static void sink(void *ctx, int level, hm_status_t status, const char *line)
{
    (void)ctx;
    if (hm.view.pool && !atomic_load(&hm.in_child)) {
        unsigned i = atomic_fetch_add(&n_own, 1);
        if (i < sizeof(own_note) / sizeof(own_note[0]))
            own_note[i] = note_hash(line);
        hm_pool_note(&hm.view, status, line);
    }
    if (level <= HM_SAY_INFO && !hm_self.quiet)
        say(line);
}

unsigned hm_pass_on_notes(void)
{
    unsigned n_said = 0;
    uint32_t n = atomic_load(&hm.view.pool->n_notes);
    for (uint32_t i = 0; i < n && i < hm.view.n_notes; i++) {
        const struct hm_note *note = &hm.view.note[i];
        char text[sizeof(note->text)];
        memcpy(text, note->text, sizeof(text));
        text[sizeof(text) - 1] = 0;
        uint32_t h = note_hash(text);
        int ours = note->status >= 0; /* not an error: for the file alone */
        for (unsigned k = 0; k < sizeof(own_note) / sizeof(own_note[0]); k++)
            ours |= own_note[k] == h;
        if (!ours) {
            say(text);
            n_said++;
        }
    }
    return n_said;
}

void hm_note(hm_status_t status, const char *fmt, ...)
{
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    sink(NULL, HM_SAY_WARN, status, text);
}

int hm_awake(void)
{
    /* the pointer is published last: behind it all of hm and hm_self may be read */
    return atomic_load_explicit(&hm.gate, memory_order_acquire) != &shut &&
           atomic_load_explicit(&hm_self.wiped->alive, memory_order_relaxed);
}

static hm_status_t make_wiped(void)
{
    if (hm_self.wiped)
        return HM_OK;
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return HM_E_NOMEM;
    if (madvise(page, 4096, 18 /* MADV_WIPEONFORK */)) {
        /* before Linux 4.14 the fork handler alone shuts the child's gate */
    }
    hm_self.wiped = page;
    return HM_OK;
}

static void load_settings(void)
{
    char file[1024];
    const char *conf = NULL;
    const char *slash = strrchr(hm_self_path(), '/');
    if (slash) {
        int n = snprintf(file, sizeof(file), "%.*s/hindmost.conf", (int)(slash - hm_self_path()),
                         hm_self_path());
        if (n > 0 && n < (int)sizeof(file) && !access(file, R_OK))
            conf = file;
    }
    hm_config_load(&hm.config, NULL, conf, environ); /* it says itself what was wrong */
}

static void await_other(void)
{
    for (int i = 0; i < 50000 && atomic_load(&hm.life) == HM_WAKING; i++)
        hm_nap(100000);
}

/* NCCL loads us with RTLD_LOCAL; hm_step() of the application looks in the global scope. Whether
 * we are there already cannot be asked from here: our own lookups find us in either case. */
void hm_promote(void)
{
    if (hm_self_path()[0])
        dlopen(hm_self_path(), RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);
}

hm_status_t hm_wake_prepare(void)
{
    uint32_t life = HM_DORMANT;
    if (hm_is_off() || atomic_load(&hm.in_child))
        return HM_E_MISSING;
    if (!atomic_compare_exchange_strong(&hm.life, &life, HM_WAKING)) {
        if (life == HM_WAKING)
            await_other();
        return hm_awake() ? HM_AGAIN : HM_E_MISSING;
    }
    hm_who(&hm_self.who);
    hm_self.quiet = hm_self.who.local_rank > 0;
    hm_log_sink(sink, NULL);
    load_settings();
    hm_promote();
    hm_status_t s = make_wiped();
    if (!s)
        s = hm_pool_create(&hm.config, &hm.view, &hm_self.pool_fd);
    if (s) {
        if (s == HM_E_LIMIT)
            hm_note(s, "the limit on file sizes (ulimit -f) leaves no room for 4 MiB of shared "
                       "memory; nothing is recorded");
        else
            hm_note(s, "no shared memory for recording (%s); nothing is recorded",
                    hm_status_name(s));
        hm_wake_cancel();
        return s;
    }
    memcpy(hm.view.pool->host, hm_self.who.host, sizeof(hm.view.pool->host));
    hm_clock_domain(hm.view.pool->boot_id, hm.view.pool->timens);
    /* what the launcher said, until hm_claim() */
    hm.view.pool->rank = hm_self.who.rank;
    hm.view.pool->n_ranks = hm_self.who.n_ranks;
    hm.view.pool->local_rank = hm_self.who.local_rank;
    hm.view.pool->n_local = hm_self.who.n_local;
    hm.view.pool->leader_index = HM_NO_ID;
    atomic_fetch_or(&hm.view.pool->known, HM_KNOWN_HOST);
    return HM_OK;
}

void hm_wake_cancel(void)
{
    if (hm_self.wiped) {
        atomic_store(&hm_self.wiped->alive, 0);
        atomic_store(&hm_self.wiped->gate, 0);
    }
    /* A thread may have begun an event while the gate was open for the clock window: the mapping
     * stays, without pages it costs nothing. */
    if (hm_self.pool_fd >= 0)
        close(hm_self.pool_fd);
    hm_self.pool_fd = -1;
    atomic_store(&hm.life, HM_OFF);
}

static int holds_rank_files(const char *dir)
{
    int found = 0;
    DIR *d = opendir(dir);
    for (struct dirent *e; d && !found && (e = readdir(d));)
        found = !strncmp(e->d_name, "rank-", 5);
    if (d)
        closedir(d);
    return found;
}

/* A folder that somebody named may hold another run: its files must not be mixed with ours. The
 * first process of a run leaves its id there; a folder without rank files is free again. */
static hm_status_t check_foreign(const char *dir)
{
    char path[1100], id[128] = {0};
    snprintf(path, sizeof(path), "%s/.run-id", dir);
    size_t len = strlen(hm_self.run_id);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 && errno != EEXIST)
        return HM_E_IO;
    if (fd < 0) {
        fd = open(path, O_RDWR | O_CLOEXEC);
        for (int i = 0; fd >= 0 && i < 100; i++) { /* its maker may be about to write */
            if (pread(fd, id, sizeof(id) - 1, 0) > 0)
                break;
            hm_nap(1000000);
        }
        if (!strcmp(id, hm_self.run_id) || fd < 0 || holds_rank_files(dir)) {
            if (fd >= 0)
                close(fd);
            return fd < 0 ? HM_E_IO : strcmp(id, hm_self.run_id) ? HM_E_CONFLICT : HM_OK;
        }
    }
    int ok = !ftruncate(fd, 0) && pwrite(fd, hm_self.run_id, len, 0) == (ssize_t)len;
    close(fd);
    return ok ? HM_OK : HM_E_IO;
}

/* The same on all ranks of a run, another one for the next run as far as the launcher tells. */
static void name_run(void)
{
    const struct hm_who *who = &hm_self.who;
    char *id = hm_self.run_id;
    size_t cap = sizeof(hm_self.run_id);
    const char *address = getenv("MASTER_ADDR"), *port = getenv("MASTER_PORT");
    if (hm.config.run[0])
        snprintf(id, cap, "%s", hm.config.run);
    else if (who->job[0])
        snprintf(id, cap, "%.127s", who->job);
    else if (who->n_ranks > 1 && address && port)
        snprintf(id, cap, "%.80s-%.20s", address, port);
    else if (who->n_ranks > 1)
        snprintf(id, cap, "%.60s-parent-%d", who->host, (int)getppid());
    else
        snprintf(id, cap, "%.60s-%d-%lld", who->host, (int)getpid(), (long long)time(NULL));
}

hm_status_t hm_wake_choose_dir(void)
{
    const struct hm_who *who = &hm_self.who;
    char dir[1024];
    name_run();
    hm_status_t s = hm_rundir_agree("hindmost.out", hm.config.out, who, dir);
    if (s) {
        hm_note(s, "the run folder could not be made; nothing is recorded; set HINDMOST_OUT to a "
                   "folder that can be written");
        return s;
    }
    char *real = realpath(dir, NULL);
    snprintf(hm_self.run_dir, sizeof(hm_self.run_dir), "%s", real ? real : dir);
    free(real);
    s = check_foreign(hm_self.run_dir);
    if (s == HM_E_CONFLICT)
        hm_note(s, "%s: holds another run; nothing is recorded; name another folder or remove it",
                hm_self.run_dir);
    else if (s)
        hm_note(s,
                "%s: cannot be written; nothing is recorded; set HINDMOST_OUT to a folder that "
                "can be",
                hm_self.run_dir);
    else if (hm_rundir_set_latest(hm_self.run_dir))
        hm_say(HM_SAY_DEBUG, "%s: `latest` could not be pointed at it", hm_self.run_dir);
    return s;
}

void hm_wake_open_gate(void)
{
    hm_cursor_init();
    hm_fork_watch();
    atomic_store(&hm_self.wiped->alive, 1);
    atomic_store_explicit(&hm.gate, &hm_self.wiped->gate, memory_order_release);
    hm_window_init();
}

/* A variable that was set already belongs to another tool, which keeps it. */
static void say_foreign(void)
{
    static const struct {
        const char *variable, *what;
    } ways[] = {{"NVTX_INJECTION64_PATH", "NVTX ranges go to it and not into this recording"},
                {"CUDA_INJECTION64_PATH", "kernels are recorded only if NCCL or the program's "
                                          "own calls start us"}};
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        const char *value = getenv(ways[i].variable);
        char *real = value && *value ? realpath(value, NULL) : NULL;
        if (value && *value && strcmp(real ? real : value, hm_self_path()) != 0 &&
            !strstr(value, "hindmost"))
            hm_note(HM_OK, "%s is set to %.200s: %s", ways[i].variable, value, ways[i].what);
        free(real);
    }
}

int hm_wake_finish(void)
{
    struct hm_pool *pool = hm.view.pool;
    snprintf(hm.config.run, sizeof(hm.config.run), "%s", hm_self.run_id);
    memset(pool->config, 0, sizeof(pool->config));
    hm_config_print(&hm.config, pool->config, sizeof(pool->config));
    memcpy(pool->run_dir, hm_self.run_dir, sizeof(pool->run_dir));
    atomic_fetch_or(&pool->known, HM_KNOWN_DIR);
    hm_status_t s = hm_spawn_writer();
    if (s) {
        hm_note(s,
                "the writer could not be started (%s); nothing is recorded; set HINDMOST_WRITER "
                "to hindmost-writer of this installation",
                hm_status_name(s));
        hm_wake_cancel();
        return 0;
    }
    if (atomic_load(&hm.gate) == &shut)
        hm_wake_open_gate();
    hm_leave_watch();
    say_foreign();
    hm_self.quiet = 0;
    atomic_store(&hm.life, HM_AWAKE);
    hm_nvtx_awake();
    if (hm_self.injected)
        hm_cupti_start();
    return 1;
}

int hm_wake(enum hm_cause cause)
{
    (void)cause;
    if (hm_awake())
        return 1;
    uint32_t life = atomic_load_explicit(&hm.life, memory_order_acquire);
    if (life == HM_OFF || life == HM_LEAVING)
        return 0;
    if (life == HM_AWAKE) /* a child of the one that woke */
        return 0;
    hm_status_t s = hm_wake_prepare();
    if (s)
        return s == HM_AGAIN;
    if (hm_wake_choose_dir()) {
        hm_wake_cancel();
        return 0;
    }
    return hm_wake_finish();
}

void hm_claim(int32_t rank, int32_t n_ranks, int32_t local_rank, int32_t n_local)
{
    if (atomic_load_explicit(&claimed, memory_order_relaxed) || !hm_awake() ||
        atomic_exchange(&claimed, 1))
        return;
    struct hm_pool *pool = hm.view.pool;
    pool->rank = rank;
    pool->n_ranks = n_ranks;
    pool->local_rank = local_rank;
    pool->n_local = n_local;
    atomic_fetch_or_explicit(&pool->known, HM_KNOWN_RANK, memory_order_release);
}
