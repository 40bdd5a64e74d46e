/* hindmost-writer: started by the recorder, one per training process, outlives its death.
 *
 * Box: lib/writer. One thread (nvml.c has another). File descriptor 3 is the pool's memfd, 4 the
 * read end of a pipe whose other end is the recorder's; no arguments, no settings from the
 * environment: all else stands in the pool. The process we serve has ended at the first of: phase
 * FINISHING (exit), end of the pipe (exec too; forked children may hold it open), pidfd readable
 * (death; not exec).
 */
#include "core/clock.h"
#include "store/shield.h"
#include "writer/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MS         INT64_C(1000000)
#define POOL_FD    3
#define LIFE_FD    4
#define PIECE      (INT64_C(1) << 20)
#define SNAPSHOT   (1000 * MS)
#define IDLE_TICK  (50 * MS)
#define HALF_TICK  (5 * MS)
#define BUSY_TICK  (1 * MS)
#define EXIT_USAGE 64
#define CHECK_WORD "--check-file"

static volatile sig_atomic_t terminated;

static void on_term(int sig)
{
    (void)sig;
    terminated = 1;
}

/* Our own timing: never through a test's clock library, which shifts clock_gettime. */
static int64_t true_now(void)
{
    struct timespec ts;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static void wake(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, 64, NULL, NULL, 0);
}

static void sink(void *ctx, int level, hm_status_t status, const char *line)
{
    if (level <= HM_SAY_INFO)
        hm_pool_note(ctx, status, line);
}

static void set_signals(void)
{
    struct sigaction act;
    memset(&act, 0, sizeof(act));
    act.sa_handler = on_term;
    sigaction(SIGTERM, &act, NULL);
    act.sa_handler = SIG_IGN;
    sigaction(SIGINT, &act, NULL); /* a key of the user's terminal is for the job */
    sigaction(SIGHUP, &act, NULL);
    sigaction(SIGPIPE, &act, NULL);
    sigaction(SIGXFSZ, &act, NULL); /* a full quota or limit is an error of write(), no end */
}

/* Gives the pool its pages here, at our low priority, not at the job's first events. */
static void make_pages(const struct hm_writer *w)
{
    for (int64_t off = 0; off < (int64_t)w->view.bytes; off += PIECE) {
        uint32_t phase = atomic_load_explicit(&w->view.pool->phase, memory_order_relaxed);
        int64_t left = (int64_t)w->view.bytes - off;
        if (phase != HM_PHASE_STARTING || fallocate(POOL_FD, 0, off, left < PIECE ? left : PIECE))
            return;
    }
}

/* First word of the command line, and the second when it is no option: enough to know the program
 * again, without the options, which may hold secrets. */
static void read_program(int32_t pid, char program_p[256])
{
    char path[64], text[512] = {0};
    memset(program_p, 0, 256);
    snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    ssize_t n = read(fd, text, sizeof(text) - 2);
    close(fd);
    if (n <= 0)
        return;
    const char *second = text + strlen(text) + 1;
    if (second < text + n && second[0] && second[0] != '-')
        snprintf(program_p, 256, "%.120s %.120s", text, second);
    else
        snprintf(program_p, 256, "%.250s", text);
}

/* Copies a text of the pool, which may have no end. */
static void copy_text(char *to, size_t cap, const char *from)
{
    memcpy(to, from, cap);
    to[cap - 1] = 0;
}

/* What the recorder has filled in by now. */
static void read_known(struct hm_writer *w)
{
    const struct hm_pool *pool = w->view.pool;
    struct hm_rank_meta *meta = &w->meta;
    w->known = atomic_load_explicit(&pool->known, memory_order_acquire);
    if (w->known & HM_KNOWN_HOST) {
        copy_text(meta->host, sizeof(meta->host), pool->host);
        copy_text(meta->boot_id, sizeof(meta->boot_id), pool->boot_id);
        copy_text(meta->timens, sizeof(meta->timens), pool->timens);
    }
    if (w->known & HM_KNOWN_RANK) {
        meta->rank = pool->rank;
        meta->n_ranks = pool->n_ranks;
        meta->local_rank = pool->local_rank;
    }
    meta->domain_leader = pool->domain_leader;
    meta->leader_index = pool->leader_index;
}

static void first_meta(struct hm_writer *w)
{
    struct hm_pool *pool = w->view.pool;
    struct hm_rank_meta *meta = &w->meta;
    struct hm_event now;
    meta->rank = meta->n_ranks = meta->local_rank = -1;
    meta->pid = pool->pid;
    meta->nonce = pool->nonce;
    meta->source = HM_SOURCE_RECORDER;
    hm_clock_snapshot(&now);
    meta->start_raw_ns = pool->start_raw_ns;
    meta->start_real_ns = (int64_t)((uint64_t)now.u.snapshot.real_ns -
                                    ((uint64_t)now.t_ns - (uint64_t)pool->start_raw_ns));
    memcpy(meta->config, pool->config, sizeof(meta->config)); /* several texts, one after another */
    meta->config[sizeof(meta->config) - 1] = 0;
    snprintf(meta->run_id, sizeof(meta->run_id), "%s", w->config.run);
    read_program(meta->pid, meta->program);
    read_known(w);
}

static void add_snapshot(struct hm_writer *w)
{
    struct hm_event ev;
    hm_clock_snapshot(&ev);
    ev.track = w->track;
    hm_writer_append(w, &ev, 1);
}

static hm_status_t open_file(struct hm_writer *w)
{
    char dir[1024];
    copy_text(dir, sizeof(dir), w->view.pool->run_dir);
    hm_status_t s = hm_rankfile_create(dir, &w->meta, &w->file);
    if (s)
        return s;
    struct hm_def_track def = {.type = HM_TRACK_WRITER,
                               .name = hm_defs_intern(&w->view.defs, HM_DEF_STRING, "writer", 6),
                               .device = HM_NO_ID,
                               .context = HM_NO_ID,
                               .stream = HM_NO_ID,
                               .tid = (uint32_t)getpid()};
    w->track = hm_defs_intern(&w->view.defs, HM_DEF_TRACK, &def, sizeof(def));
    add_snapshot(w);
    /* from the first moment on there is a file that can be read, or none */
    s = hm_rankfile_flush(w->file);
    if (s) {
        hm_rankfile_discard(w->file);
        w->file = NULL;
        return hm_fail(s, dir, "no room for a rank file; nothing of this rank is recorded");
    }
    return HM_OK;
}

static void add_counter(void *ctx, const struct hm_sample *sample)
{
    struct hm_writer *w = ctx;
    struct hm_defs *defs = &w->view.defs;
    struct hm_event ev;
    memset(&ev, 0, sizeof(ev));
    ev.t_ns = hm_now();
    ev.kind = HM_EV_COUNTER;
    ev.track = w->track;
    for (uint32_t i = 0; sample->tid && i < w->view.n_threads; i++)
        if (atomic_load_explicit(&w->view.thread[i].tid, memory_order_acquire) == sample->tid)
            ev.track = w->view.thread[i].track;
    ev.u.counter.value.i = sample->value;
    ev.u.counter.name =
        hm_defs_intern(defs, HM_DEF_STRING, sample->name, (uint32_t)strlen(sample->name));
    ev.u.counter.domain = hm_defs_intern(defs, HM_DEF_STRING, "health", 6);
    ev.u.counter.unit =
        hm_defs_intern(defs, HM_DEF_STRING, sample->unit, (uint32_t)strlen(sample->unit));
    hm_writer_append(w, &ev, 1);
}

/* The GPU whose streams are used, once CUPTI has said which one that is. */
static void find_gpu(struct hm_writer *w)
{
    const struct hm_def_track *track;
    const struct hm_def_device *device;
    uint32_t len, used = HM_NO_ID;
    for (uint32_t id = 0; id < w->n_defined[HM_DEF_TRACK] && used == HM_NO_ID; id++)
        if (!hm_defs_get(&w->view.defs, HM_DEF_TRACK, id, (const void **)&track, &len) &&
            len == sizeof(*track) && track->type == HM_TRACK_STREAM)
            used = track->device;
    for (uint32_t id = 0; id < w->n_defined[HM_DEF_DEVICE] && used != HM_NO_ID; id++)
        if (!hm_defs_get(&w->view.defs, HM_DEF_DEVICE, id, (const void **)&device, &len) &&
            len == sizeof(*device) && device->device == used) {
            hm_health_gpu(w->health, device->uuid, w->config.nvml);
            w->has_gpu = 1;
            return;
        }
}

static void sample_health(struct hm_writer *w, int64_t now)
{
    enum { MAX = 4 };
    uint32_t tid[MAX], n = 0;
    if (!w->health)
        return;
    if (!w->has_gpu)
        find_gpu(w);
    for (uint32_t i = 0; i < w->view.n_threads && n < MAX; i++) {
        const struct hm_thread *row = &w->view.thread[i];
        uint32_t id = atomic_load_explicit(&row->tid, memory_order_acquire);
        if (id && row->track != HM_NO_ID)
            tid[n++] = id;
    }
    hm_health_tick(w->health, now, tid, n, add_counter, w);
}

/* Does the process still have our memory? Not after an exec; whoever closed all his descriptors
 * (daemons do) has it still. -1 = it cannot be seen. */
static int has_pool(int32_t pid)
{
    char path[64], line[600];
    snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
    FILE *f = fopen(path, "re");
    int found = f ? 0 : -1;
    while (f && found == 0 && fgets(line, sizeof(line), f))
        found = strstr(line, "hindmost-pool") != NULL;
    if (f)
        fclose(f);
    return found;
}

/* Is it on its way out, or gone? Files are closed in the midst of dying. */
static int is_dying(int32_t pid)
{
    char path[64], text[512];
    unsigned long flags = 0;
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "re");
    size_t n = f ? fread(text, 1, sizeof(text) - 1, f) : 0;
    if (f)
        fclose(f);
    text[n] = 0;
    /* behind the name, which may hold anything: state and five numbers, then the flags */
    const char *at = strrchr(text, ')');
    if (!at || sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %lu", &flags) != 1)
        return 1;
    return (flags & 4 /* PF_EXITING */) != 0;
}

/* The life line is cut: 0 = the process lives and records on, else how it ended. */
static int line_is_cut(struct hm_writer *w, enum hm_end *why_p)
{
    int pool = is_dying(w->meta.pid) ? -1 : has_pool(w->meta.pid);
    if (pool > 0) {
        w->cut_at = true_now();
        return 0;
    }
    *why_p = pool == 0 ? HM_END_EXEC : HM_END_DIED;
    return 1;
}

/* 0 = still there. The phase is read last: whoever says FINISHING closes the pipe after it. */
static int has_ended(struct hm_writer *w, int pidfd, enum hm_end *why_p)
{
    struct pollfd fds[2] = {{.fd = LIFE_FD, .events = POLLIN}, {.fd = pidfd, .events = POLLIN}};
    int ended = 0, cut = 0;
    if (poll(fds, 2, 0) > 0) {
        cut = fds[0].revents & (POLLHUP | POLLERR | POLLNVAL);
        ended = fds[1].revents != 0;
    }
    if (pidfd < 0 && kill(w->meta.pid, 0) && errno == ESRCH)
        ended = 1;
    *why_p = HM_END_DIED;
    int finishing =
        atomic_load_explicit(&w->view.pool->phase, memory_order_acquire) == HM_PHASE_FINISHING;
    /* once it is known to be cut, an exec is looked for once a second */
    if (cut && !ended && !finishing && (!w->cut_at || true_now() - w->cut_at > INT64_C(1000000000)))
        ended = line_is_cut(w, why_p);
    if (atomic_load_explicit(&w->view.pool->phase, memory_order_acquire) == HM_PHASE_FINISHING) {
        *why_p = HM_END_CLEAN;
        return 1;
    }
    if (!ended && terminated) {
        *why_p = HM_END_TERM;
        return 1;
    }
    return ended;
}

/* With a snapshot of the clocks, so that a reader of what is there by now need not extrapolate. */
static void flush(struct hm_writer *w)
{
    add_snapshot(w);
    hm_status_t s = hm_rankfile_flush(w->file);
    if (s && !w->said_io) {
        hm_pool_note(&w->view, s, "the rank file could not be flushed; is the disk full?");
        w->said_io = 1;
    }
}

/* Ranks flush at different moments: the file system is shared. +-10 %. */
static int64_t next_flush(const struct hm_writer *w, int64_t now)
{
    static uint64_t random;
    random = (random ^ w->meta.nonce) * UINT64_C(6364136223846793005) + 1442695040888963407;
    int64_t permille = 900 + (int64_t)(random >> 33) % 201;
    return now + w->config.flush_ms * MS / 1000 * permille;
}

static void nap(struct hm_writer *w)
{
    uint32_t fill = hm_pool_fill(&w->view);
    int64_t tick = fill > 500 ? BUSY_TICK : fill > 250 ? HALF_TICK : IDLE_TICK;
    struct timespec ts = {.tv_nsec = tick};
    uint32_t phase = atomic_load_explicit(&w->view.pool->phase, memory_order_acquire);
    if (phase != HM_PHASE_FINISHING)
        syscall(SYS_futex, &w->view.pool->phase, FUTEX_WAIT, phase, &ts, NULL, 0);
}

static enum hm_end serve(struct hm_writer *w, int pidfd)
{
    struct hm_pool *pool = w->view.pool;
    hm_control_init(w);
    int64_t flush_at = next_flush(w, true_now()), snapshot_at = true_now() + SNAPSHOT;
    enum hm_end why;
    while (!has_ended(w, pidfd, &why)) {
        int64_t now = true_now();
        uint32_t asked = atomic_load_explicit(&pool->flush_asked, memory_order_acquire);
        uint32_t done = atomic_load_explicit(&pool->flush_done, memory_order_relaxed);
        atomic_store_explicit(&pool->writer_beat_ns, hm_now(), memory_order_relaxed);
        if (now >= snapshot_at) {
            add_snapshot(w);
            snapshot_at = now + SNAPSHOT;
        }
        hm_writer_drain(w, 0);
        sample_health(w, now);
        hm_control_tick(w, now);
        if (atomic_load_explicit(&pool->known, memory_order_acquire) != w->known) {
            read_known(w);
            hm_rankfile_meta(w->file, &w->meta);
        }
        if (asked != done || now >= flush_at || w->control.flush) {
            w->control.flush = 0;
            flush(w);
            atomic_store_explicit(&pool->flush_done, asked, memory_order_release);
            wake(&pool->flush_done);
            flush_at = next_flush(w, now);
        }
        nap(w);
    }
    return why;
}

/* A process that never said which rank it is: a warm-up or a helper of the launcher's, unless it
 * used the GPU and nobody else is that rank. */
static int is_nobody(struct hm_writer *w)
{
    char path[1200];
    if (w->known & HM_KNOWN_RANK)
        return 0;
    int32_t rank = w->view.pool->rank; /* what the launcher said, not claimed */
    if (rank < 0)
        rank = 0;
    snprintf(path, sizeof(path), "%.1023s/rank-%05d.h5", w->view.pool->run_dir, (int)rank);
    if (!w->n_gpu || !access(path, F_OK))
        return 1;
    w->meta.rank = rank;
    w->meta.n_ranks = w->view.pool->n_ranks;
    w->meta.local_rank = w->view.pool->local_rank;
    return 0;
}

/* By a fresh process: HDF5 in this one still has its own idea of the file. */
static int can_be_read(const char *path)
{
    int status = 1;
    pid_t pid = fork();
    if (!pid) {
        execl("/proc/self/exe", "hindmost-writer", CHECK_WORD, path, (char *)NULL);
        _exit(1);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && !status;
}

static void remove_file(const char *path)
{
    char tail[1220];
    snprintf(tail, sizeof(tail), "%.*s.tail", (int)(strlen(path) - 3), path);
    unlink(path);
    unlink(tail);
}

static hm_status_t finish(struct hm_writer *w, enum hm_end why)
{
    uint32_t asked = atomic_load(&w->view.pool->flush_asked);
    hm_writer_drain(w, why != HM_END_TERM);
    read_known(w);
    if (why != HM_END_TERM)
        hm_writer_open_ops(w);
    hm_control_gaps(w, 1);
    add_snapshot(w);
    hm_writer_drain(w, why != HM_END_TERM);
    hm_status_t s = HM_OK;
    if (is_nobody(w)) {
        hm_rankfile_discard(w->file);
    } else if (w->said_io && hm_rankfile_flush(w->file)) { /* and there is still no room */
        char path[1200];
        snprintf(path, sizeof(path), "%s", hm_rankfile_path(w->file));
        hm_rankfile_abandon(w->file);
        if (can_be_read(path)) {
            hm_pool_note(&w->view, HM_E_IO,
                         "the rank file was left as it was last flushed; `hindmost info --finish` "
                         "makes it whole where there is room again");
        } else {
            remove_file(path);
            hm_pool_note(&w->view, HM_E_IO,
                         "the rank file broke off in the midst of a flush and cannot be read: "
                         "removed, nothing of this rank is kept; is the disk full?");
        }
        w->abandoned = 1;
        s = HM_E_IO;
    } else {
        hm_rankfile_meta(w->file, &w->meta);
        s = hm_rankfile_close(w->file, why);
    }
    w->file = NULL;
    atomic_store(&w->view.pool->flush_done, asked);
    wake(&w->view.pool->flush_done);
    return s;
}

static void set_phase(struct hm_writer *w, enum hm_phase phase)
{
    atomic_store(&w->view.pool->phase, phase);
    wake(&w->view.pool->phase);
}

static int run(struct hm_writer *w)
{
    struct hm_pool *pool = w->view.pool;
    uint32_t starting = HM_PHASE_STARTING;
    int pidfd = (int)syscall(SYS_pidfd_open, pool->pid, 0);
    hm_config_load(&w->config, NULL, NULL, NULL);
    hm_config_parse(&w->config, pool->config, sizeof(pool->config));
    first_meta(w);
    hm_status_t s = open_file(w);
    if (s) {
        set_phase(w, HM_PHASE_FAILED);
        return hm_status_exit(s);
    }
    make_pages(w);
    close(POOL_FD);
    if (w->config.health)
        w->health = hm_health_create("", pool->pid, w->meta.local_rank <= 0);
    if (atomic_compare_exchange_strong(&pool->phase, &starting, HM_PHASE_OPEN))
        wake(&pool->phase);
    enum hm_end why = serve(w, pidfd);
    s = finish(w, why);
    set_phase(w, s ? HM_PHASE_FAILED : HM_PHASE_CLOSED);
    if (w->abandoned ||
        !hm_health_destroy(w->health)) /* the driver does not return: nor shall its exit handlers */
        _exit(hm_status_exit(s));
    return hm_status_exit(s);
}

int main(int argc, char **argv)
{
    static struct hm_writer w;
    if (argc == 3 && !strcmp(argv[1], CHECK_WORD)) { /* asked by a writer about its file */
        uint8_t verdict = HM_SHIELD_FAULTY;
        hm_shield_try(&argv[2], 1, &verdict);
        return verdict != HM_SHIELD_GOOD;
    }
    set_signals();
    if (hm_pool_attach(POOL_FD, &w.view)) {
        hm_say(HM_SAY_ERROR, "hindmost-writer is started by the recorder, not by hand");
        return EXIT_USAGE;
    }
    hm_log_sink(sink, &w.view);
    w.view.pool->writer_pid = (int32_t)getpid();
    w.drained = calloc(w.view.n_chunks, sizeof(w.drained[0]));
    int rc = 1;
    if (w.drained)
        rc = run(&w);
    else
        set_phase(&w, HM_PHASE_FAILED);
    free(w.drained);
    hm_log_sink(NULL, NULL);
    hm_pool_detach(&w.view);
    return rc;
}
