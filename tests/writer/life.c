/* The writer's life: a child plays the recorder and ends in every way there is; what the writer
 * told its store is read afterwards. Argument: the writer.
 */
#include "../core/check.h"
#include "core/config.h"
#include "core/pool.h"
#include "store/rankfile.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *writer;
static char dir[64];

/* The recorder's side. */
static struct hm_pool_view view;
static struct hm_cursor cursor;
static int life_line;
static pid_t writer_pid;

static void claim(int32_t rank)
{
    view.pool->rank = rank;
    view.pool->n_ranks = 4;
    atomic_fetch_or(&view.pool->known, HM_KNOWN_RANK);
}

static int32_t known_rank = -1; /* claimed before the writer starts, not beside it */

static void start(void)
{
    static struct hm_config config;
    int fd, line[2];
    char pool[] = "HINDMOST_POOL=8M", run[] = "HINDMOST_RUN=the-run";
    char health[] = "HINDMOST_HEALTH=0"; /* its names would come between those counted here */
    char *env[] = {pool, run, health, NULL};
    CHECK(hm_config_load(&config, NULL, NULL, env) == HM_OK);
    CHECK(hm_pool_create(&config, &view, &fd) == HM_OK);
    hm_config_print(&config, view.pool->config, sizeof(view.pool->config));
    snprintf(view.pool->run_dir, sizeof(view.pool->run_dir), "%s", dir);
    snprintf(view.pool->host, sizeof(view.pool->host), "node7");
    atomic_fetch_or(&view.pool->known, HM_KNOWN_HOST | HM_KNOWN_DIR);
    CHECK(!pipe2(line, O_CLOEXEC));
    if (known_rank >= 0)
        claim(known_rank);
    hm_defs_intern(&view.defs, HM_DEF_STRING, "a mark", 6); /* first, whoever is quicker */
    writer_pid = fork();
    CHECK(writer_pid >= 0);
    if (!writer_pid) {
        /* out of the way first: a dup2 onto itself would keep the close-on-exec flag */
        int high[2] = {fcntl(fd, F_DUPFD, 20), fcntl(line[0], F_DUPFD, 20)};
        dup2(high[0], 3);
        dup2(high[1], 4);
        syscall(SYS_close_range, 5U, ~0U, 0);
        execl(writer, "hindmost-writer", (char *)NULL);
        _exit(127);
    }
    close(line[0]);
    close(fd);
    life_line = line[1];
    CHECK(hm_cursor_open(&cursor, &view, (uint32_t)syscall(SYS_gettid)));
}

static void send_one(uint8_t kind, int64_t t, uint32_t name)
{
    struct hm_event *ev = hm_event_begin(&cursor);
    CHECK(ev);
    memset(ev, 0, sizeof(*ev));
    ev->kind = kind;
    ev->t_ns = t;
    ev->track = 0;
    if (kind == HM_EV_KERNEL)
        ev->u.kernel.kernel = name;
    else
        ev->u.range.name = name;
    hm_event_commit(&cursor);
}

static void send_marks(int n)
{
    struct hm_def_track track = {.type = HM_TRACK_THREAD, .name = HM_NO_ID};
    uint32_t name = hm_defs_intern(&view.defs, HM_DEF_STRING, "a mark", 6);
    hm_defs_intern(&view.defs, HM_DEF_TRACK, &track, sizeof(track));
    for (int i = 0; i < n; i++)
        send_one(HM_EV_MARK, 1000 + i, name);
}

static void wait_word(_Atomic uint32_t *word, uint32_t until_not)
{
    struct timespec limit = {.tv_sec = 10};
    while (atomic_load(word) == until_not)
        if (syscall(SYS_futex, word, FUTEX_WAIT, until_not, &limit, NULL, 0))
            CHECK(errno != ETIMEDOUT);
}

static void wait_open(void)
{
    wait_word(&view.pool->phase, HM_PHASE_STARTING);
    CHECK(atomic_load(&view.pool->phase) == HM_PHASE_OPEN);
}

static void leave(void)
{
    hm_cursor_close(&cursor);
    atomic_store(&view.pool->phase, HM_PHASE_FINISHING);
    syscall(SYS_futex, &view.pool->phase, FUTEX_WAKE, 9, NULL, NULL, 0);
    close(life_line);
    wait_word(&view.pool->phase, HM_PHASE_FINISHING);
}

static void flush(void)
{
    uint32_t done = atomic_load(&view.pool->flush_done);
    uint32_t asked = atomic_fetch_add(&view.pool->flush_asked, 1) + 1;
    while (atomic_load(&view.pool->flush_done) != asked) {
        wait_word(&view.pool->flush_done, done);
        done = atomic_load(&view.pool->flush_done);
    }
}

/* What the writer told its store. */
static char *calls;

static int count(const char *words)
{
    int n = 0;
    for (const char *p = calls; (p = strstr(p, words)); p++)
        n++;
    return n;
}

static void read_calls(void)
{
    char path[100];
    snprintf(path, sizeof(path), "%s/calls", dir);
    FILE *f = fopen(path, "r");
    CHECK(f);
    free(calls);
    calls = calloc(1, 1 << 20);
    CHECK(calls && fread(calls, 1, (1 << 20) - 1, f) > 0);
    fclose(f);
}

/* Runs the recorder's part in a child and waits until child, writer and their children have ended.
 * The last line says how the file ended. */
static void scene(const char *name, void (*recorder)(void))
{
    snprintf(dir, sizeof(dir), "/tmp/hm-writer-XXXXXX");
    CHECK(mkdtemp(dir));
    fflush(NULL);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (!pid) {
        start();
        recorder();
        _exit(0);
    }
    int status, failed = 0;
    for (pid_t who; (who = wait(&status)) > 0;)
        failed |= WIFEXITED(status) && WEXITSTATUS(status) != 0;
    printf("%s: ended\n", name);
    CHECK(!failed);
    read_calls();
    char command[100];
    snprintf(command, sizeof(command), "rm -rf %s", dir);
    CHECK(!system(command));
}

static void ends_well(void)
{
    send_marks(5000);
    wait_open();
    flush();
    char path[100];
    snprintf(path, sizeof(path), "%s/calls", dir);
    read_calls();
    /* answered only when all that was sent before is in the file */
    CHECK(count("event 33 ") == 5000 && count("flush") == 2); /* one of the empty file */
    send_marks(7);
    leave();
    CHECK(atomic_load(&view.pool->phase) == HM_PHASE_CLOSED);
    read_calls();
    CHECK(count("close ") == 1); /* before the recorder may let the process end */
}

static void is_killed(void)
{
    struct hm_event none;
    claim(1);
    send_marks(1500);
    uint32_t name = hm_defs_intern(&view.defs, HM_DEF_STRING, "forward", 7);
    struct hm_thread *row = &view.thread[cursor.thread];
    row->track = 0;
    row->open[0] = (struct hm_open_range){.t_ns = 70, .name = name, .domain = HM_NO_ID};
    row->open[1] = (struct hm_open_range){.t_ns = 71, .name = name, .domain = HM_NO_ID};
    atomic_store(&row->depth, 2);
    struct hm_def_comm comm = {.hash = 5, .n_ranks = 4};
    struct hm_op_slot *slot = hm_op_take(&view, 12, &none);
    slot->ev.kind = HM_EV_NCCL_COLL;
    slot->ev.t_ns = 72;
    slot->ev.dur_ns = HM_DUR_OPEN;
    slot->ev.u.op.comm = hm_defs_intern(&view.defs, HM_DEF_COMM, &comm, sizeof(comm));
    hm_op_put(slot, 0);
    slot = hm_op_take(&view, 13, &none); /* one that ended */
    slot->ev.kind = HM_EV_NCCL_COLL;
    hm_op_put(slot, 1);
    raise(SIGKILL);
}

static void is_killed_at_once(void)
{
    claim(1);
    send_marks(3);
    raise(SIGKILL);
}

static void leaves_a_child(void)
{
    claim(1);
    send_marks(3);
    wait_open();
    fflush(NULL);
    if (!fork()) { /* a data loader that holds the life line */
        for (int i = 0; i < 500; i++) {
            char path[100];
            usleep(10000);
            snprintf(path, sizeof(path), "%s/calls", dir);
            read_calls();
            if (count("close "))
                _exit(0);
        }
        _exit(1);
    }
    raise(SIGKILL);
}

static void becomes_another(void)
{
    char script[200];
    claim(1);
    send_marks(4);
    /* succeeds only when the file is closed while the new program still runs */
    snprintf(script, sizeof(script),
             "for i in $(seq 500); do grep -q close %s/calls && exit 0; sleep 0.01; done; exit 1",
             dir);
    execl("/bin/sh", "sh", "-c", script, (char *)NULL);
}

static void sends_nonsense(void)
{
    claim(0);
    send_marks(2);
    send_one(0, 1, 0);
    send_one(200, 2, 0);
    send_one(HM_EV_MARK, 3, 999999);
    send_one(HM_EV_KERNEL, 4, 17);
    send_marks(2);
    /* a thread that died between taking an id and publishing it, and names behind it */
    atomic_fetch_add(&view.defs.head->n[HM_DEF_STRING], 1);
    send_one(HM_EV_MARK, 5, hm_defs_intern(&view.defs, HM_DEF_STRING, "behind", 6));
    hm_defs_intern(&view.defs, HM_DEF_DEVICE, "short", 5);
    leave();
}

static void claims_nothing(void)
{
    send_marks(20);
    leave();
}

static void claims_nothing_but_works(void)
{
    struct hm_def_kernel kernel = {.name = HM_NO_ID};
    send_marks(1);
    view.pool->rank = 2; /* the launcher's word */
    send_one(HM_EV_KERNEL, 9, hm_defs_intern(&view.defs, HM_DEF_KERNEL, &kernel, sizeof(kernel)));
    leave();
}

static void claims_late(void)
{
    send_marks(1);
    wait_open();
    flush();
    claim(3);
    flush();
    leave();
}

static void terminates_the_writer(void)
{
    claim(0);
    send_marks(6);
    wait_open();
    kill(writer_pid, SIGTERM);
    wait_word(&view.pool->phase, HM_PHASE_OPEN);
    CHECK(atomic_load(&view.pool->phase) == HM_PHASE_CLOSED);
}

static void has_full_disk(void)
{
    claim(0);
    send_marks(300);
    leave();
    CHECK(atomic_load(&view.pool->lost[HM_LOST_WRITER_IO]) == 300);
    CHECK(hm_pool_fill(&view) == 0);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    writer = argv[1];
    CHECK(!prctl(PR_SET_CHILD_SUBREAPER, 1));

    known_rank = 3;
    scene("ends well", ends_well);
    known_rank = -1;
    CHECK(count("event 33 ") == 5007 && count("close 1\n") == 1);
    CHECK(count("create rank 3 pid ") == 1 && count("run the-run ") == 1);
    CHECK(count("host node7") == 1 && count("program ") == 1);
    CHECK(count("define 0 0 6 a mark\n") == 1);
    CHECK(count("event 49 ") >= 2); /* clock snapshots at both ends */
    CHECK(strstr(calls, "lost writer_io 0\n"));

    scene("killed", is_killed);
    CHECK(count("event 33 ") == 1500 && count("close 2\n") == 1);
    CHECK(count(" open ") == 3);
    CHECK(count("event 32 t 70 open track 0 depth 0\n") == 1);
    CHECK(count("event 32 t 71 open track 0 depth 1\n") == 1);
    CHECK(count("event 19 t 72 open ") == 1);

    scene("killed before the writer began", is_killed_at_once);
    CHECK(count("event 33 ") == 3 && count("close 2\n") == 1);

    scene("killed, a child holds the life line", leaves_a_child);
    CHECK(count("event 33 ") == 3 && count("close 2\n") == 1);

    scene("exec", becomes_another);
    CHECK(count("event 33 ") == 4 && count("close 6\n") == 1);

    scene("nonsense", sends_nonsense);
    CHECK(count("event 33 ") == 5 && count("event 1 ") == 0 && count("event 0 ") == 0);
    CHECK(count("lost writer_io 4\n") >= 1);
    CHECK(count("define 0 1 0\n") + count("define 0 2 0\n") == 1 && count(" behind\n") == 1);
    CHECK(count("define 4 0 0\n") == 1);
    CHECK(count("note an event of kind ") == 1);

    scene("unclaimed", claims_nothing);
    CHECK(count("discard\n") == 1 && count("close ") == 0);

    scene("unclaimed, but it used the GPU", claims_nothing_but_works);
    CHECK(count("create rank -1 ") == 1 && count("meta rank 2 ") == 1 && count("close 1\n") == 1);

    scene("claimed late", claims_late);
    CHECK(count("create rank -1 ") == 1 && count("meta rank 3 of 4\n") >= 1);
    CHECK(count("close 1\n") == 1);

    scene("SIGTERM", terminates_the_writer);
    CHECK(count("event 33 ") == 6 && count("close 3\n") == 1);

    CHECK(!setenv("HM_TEST_STORE", "full", 1));
    scene("full disk", has_full_disk);
    CHECK(count("event 33 ") == 0 && count("close 1\n") == 1 && count("note the rank file") == 1);
    return 0;
}
