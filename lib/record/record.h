/* What the files of the recorder share among themselves; other boxes see state.h only.
 *
 * Box: lib/record. See the function for its thread.
 */
#ifndef HM_RECORD_RECORD_H
#define HM_RECORD_RECORD_H

#include "core/who.h"
#include "record/state.h"

#include <stddef.h>

/* Words that a fork child must read as 0: they lie on a page of their own that the kernel wipes in
 * every child, also one made by _Fork or a raw clone, where no atfork handler runs. */
struct hm_wiped {
    _Atomic uint64_t gate;  /* kinds recorded now; hm.gate points here */
    _Atomic uint32_t alive; /* 1: this process is the one that woke */
};

struct hm_self { /* set while waking, constant afterwards */
    struct hm_wiped *wiped;
    struct hm_who who;
    char run_dir[1024], run_id[128];
    int pool_fd, pipe_fd; /* ours: memfd, write end of the life line */
    int injected;         /* the driver called InitializeInjection before we were awake */
    int quiet; /* not the first rank of its node: what all would say, the first one says */
};
extern struct hm_self hm_self;

/** HINDMOST=off, or a second copy of this library is in the process. Thread: any. */
int hm_is_off(void);
/** Into the global scope: hm_step() of the application looks there, and whoever loaded us may have
 *  used RTLD_LOCAL. */
void hm_promote(void);
/** Absolute path of this library, "" when unknown. */
const char *hm_self_path(void);
/** Finds a program of ours beside the library: "libexec/hindmost/hindmost-writer" or
 *  "bin/hindmost", in the build tree, lib/ and lib/<triplet>/. 1 = found. */
int hm_find_program(const char *below_prefix, char path_p[1024]);

/* Waking in three acts, so that MPI can put its agreement between them. Only the thread that got
 * HM_OK from hm_wake_prepare() may call the others. */
/** Settings, identity, pool. HM_OK = ours to finish or cancel, HM_AGAIN = awake already (or just
 *  being woken by another thread and done now), else off. */
hm_status_t hm_wake_prepare(void);
/** Chooses and makes the run folder without MPI. */
hm_status_t hm_wake_choose_dir(void);
/** Opens the gate: events are taken from now on, into the pool. */
void hm_wake_open_gate(void);
/** Starts the writer for hm_self.run_dir. 1 = awake; 0 = off, the pool is gone from our sight. */
int hm_wake_finish(void);
/** Gives up; nothing was recorded, nothing is left. */
void hm_wake_cancel(void);
/** 1 while this process is awake (0 in fork children). One or two loads. */
int hm_awake(void);

/* What a child process gets (hm_spawn). */
struct hm_spawn {
    const char *path;
    char *const *argv, *const *envp;
    int fd[2];   /* become 3 and 4; -1 = none */
    int wait_ms; /* 0: background: streams to /dev/null, own session, whole cpuset, nice 10.
                  * > 0: stdout goes to stderr; waited for, killed at the limit */
};
/** Starts a program that never shows up in the application's wait() and holds none of its file
 *  descriptors. result_p: the pid of a background program (nobody's child: for looking at only),
 *  the exit status of a waited one (-1: killed by us or by a signal). */
hm_status_t hm_spawn(const struct hm_spawn *what, int32_t *result_p);
/** Environment for a child: HOME PATH TMPDIR LANG HINDMOST_* (and the tests' HM_TEST_*), NULL
 *  terminated, in static memory. Thread: one at a time. */
char *const *hm_spawn_env(void);
hm_status_t hm_spawn_writer(void);

/** Registers the fork and exit handlers once. */
void hm_fork_watch(void);
void hm_leave_watch(void);
/** Asks for everything recorded so far to be in the file; waits at most limit_ms. 1 = done. */
int hm_flush(int limit_ms);
/** Sleeps while *word is `value`, at most limit_ns; may return early. */
void hm_word_wait(_Atomic uint32_t *word, uint32_t value, int64_t limit_ns);
/** For limits, CLOCK_MONOTONIC by system call: tests interpose clock_gettime, and hm_now() with it.
 */
int64_t hm_true_now(void);
/** Our own sleep, untouched by what the application interposes. */
void hm_nap(int64_t ns);

/** Who pushed on a thread's stack of open operations: his pop must not take another's. */
enum hm_owner { HM_OWNER_API, HM_OWNER_NVTX, HM_OWNER_MPI };
/** Thread's stack of open operations, read by the writer at any time. Returns the level, from 0,
 *  also where it is too deep to be kept; -1 = this thread has no row. */
int hm_open_push(const struct hm_open_range *open, enum hm_owner owner, unsigned payload_type);
/** Takes the innermost one of this owner and domain; returns its level, -1 = none, or it was not
 *  kept. */
int hm_open_pop(enum hm_owner owner, uint32_t domain, struct hm_open_range *open_p,
                unsigned *payload_type_p);
/** Name for the track of the calling thread, a handle of the NVTX source; too late once it has one.
 */
void hm_track_name(void *nvtx_handle);
/** We are awake: what NVTX said before (record/nvtx.c). */
void hm_nvtx_awake(void);
uint32_t hm_nvtx_handle_id(const void *handle);
/** Before the first event: what thread ends need. */
void hm_cursor_init(void);
/** Hands the calling thread's chunk to the writer. */
void hm_cursor_hand_over(void);

/** At the end: errors that the writer noted, which has no stderr of its own; how many. */
unsigned hm_pass_on_notes(void);

/** Kinds that the settings ask for, one bit each. */
uint64_t hm_kinds_wanted(const struct hm_config *config);
/** What this side wants recorded, and the hooks' copy of what comes of it. */
void hm_gate_set(uint64_t kinds);
/** Parses the window of steps from the settings; the first gate. Thread: the waking one. */
void hm_window_init(void);
/** The running step ends, by a call or with its range; recording pauses (1) or goes on (0). */
void hm_window_step_end(void);
void hm_step_range_end(uint32_t name);
void hm_window_stop(int stop);

/** First lines of the run at the end, by rank 0 (record/digest.c). */
void hm_digest(void);

#endif
