/* Our one thread in the training process: `hm-cupti` asks CUPTI for its buffers and parses them.
 *
 * Box: lib/record. Runs only while CUPTI delivers. Each 500 ms it flushes what is complete; a
 * buffer with a running kernel stays with CUPTI. Once more, forced, at the end. No lock is held
 * across a call of CUPTI. Its own flushes are recorded as OVERHEAD, drops as GAP.
 */
#include "record/cupti_source.h"
#include "record/record.h"

#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PERIOD_NS  INT64_C(500000000)
#define RELEASE_NS INT64_C(2000000000)

static const struct hm_cupti_lib *lib;
static struct hm_cupti_reader *reader;
static _Atomic uint32_t wake_word;
static _Atomic uint32_t asked, asked_forced, done; /* flushes asked for and done */
static int64_t dropped_since_ns;
static int flush_broken;

static int64_t real_now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

void hm_cupti_thread_wake(void)
{
    atomic_fetch_add(&wake_word, 1);
    syscall(SYS_futex, &wake_word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void set_clocks(void)
{
    reader->now_ns = reader->clock == HM_CLOCK_RAW ? hm_now() : real_now();
    reader->to_raw_ns = reader->clock == HM_CLOCK_RAW ? 0 : hm_now() - reader->now_ns;
}

/* One after another, unless windows are in play: then what is there is read for its calls first. */
static void parse_all(void)
{
    const uint8_t *buffer[HM_CUPTI_MAX_BUFFERS];
    size_t valid[HM_CUPTI_MAX_BUFFERS];
    unsigned n = 0, most = atomic_load(&hm.n_gates) > 1 ? HM_CUPTI_MAX_BUFFERS : 1;
    do {
        for (n = 0; n < most && (buffer[n] = hm_cupti_buffer_take(&valid[n]));)
            n++;
        set_clocks();
        if (reader->n_holds != hm_cupti_n_holds()) {
            reader->n_holds = hm_cupti_n_holds();
            reader->first_call = 0;
        }
        for (unsigned i = 0; i < n && most > 1; i++)
            hm_cupti_parse_calls(reader, buffer[i], valid[i]);
        for (unsigned i = 0; i < n; i++) {
            hm_cupti_parse(reader, buffer[i], valid[i]);
            hm_cupti_buffer_recycle(buffer[i]);
            set_clocks();
        }
    } while (n);
}

static void count_dropped(void)
{
    size_t n = 0;
    uint64_t total = hm_cupti_buffers_discarded() / 128; /* bytes of unread records, roughly */
    if (lib->n_dropped && !lib->n_dropped(NULL, 0, &n))
        total += n;
    int64_t now = hm_now();
    if (total) {
        hm_lose(HM_LOST_CUPTI_DROPPED, total);
        struct hm_event *ev = hm_begin(HM_EV_GAP);
        if (ev) {
            ev->t_ns = dropped_since_ns;
            ev->dur_ns = now - dropped_since_ns;
            ev->aux = HM_LOST_CUPTI_DROPPED;
            ev->u.gap.n = total;
            hm_commit();
        }
    }
    dropped_since_ns = now;
}

static void flush(int forced)
{
    if (flush_broken)
        return;
    int64_t t0 = hm_now();
    int rc = lib->flush_all(forced ? 1 : 0);
    int64_t t1 = hm_now();
    if (rc) {
        const char *text = NULL;
        if (lib->get_result_string)
            lib->get_result_string(rc, &text);
        flush_broken = 1;
        hm_note(HM_E_SYS, "CUPTI cannot flush (%d %s); kernels from here on are not recorded", rc,
                text ? text : "");
    }
    struct hm_event *ev = hm_begin(HM_EV_OVERHEAD);
    if (ev) {
        ev->t_ns = t0;
        ev->dur_ns = t1 - t0;
        ev->aux = HM_OVERHEAD_OWN_FLUSH;
        ev->u.overhead.object = ev->u.overhead.correlation = HM_NO_ID;
        hm_commit();
    }
}

static void round_of(int forced)
{
    flush(forced);
    parse_all();
    count_dropped();
}

/* Between windows CUPTI is let go of, but not for a moment: switching costs milliseconds, and work
 * launched in the window may still run. Its last records are fetched before. */
static void hold_or_release(int64_t now)
{
    static int64_t shut_since;
    hm_gate_follow();
    if (atomic_load(&hm.life) != HM_AWAKE) /* the process ends: CUPTI is left as it is */
        return;
    if (hm_cupti_wanted()) {
        shut_since = 0;
        hm_cupti_hold(1);
    } else if (!shut_since) {
        shut_since = now;
    } else if (hm_cupti_held() && now - shut_since >= RELEASE_NS) {
        round_of(0);
        hm_cupti_hold(0);
        if (hm_cupti_wanted()) /* a window opened meanwhile */
            hm_cupti_hold(1);
    }
}

static void *run(void *arg)
{
    (void)arg;
    prctl(PR_SET_NAME, "hm-cupti", 0, 0, 0);
    hm_cupti_buffers_warm();
    dropped_since_ns = hm_now();
    int64_t next = hm_now() + PERIOD_NS;
    for (;;) {
        uint32_t word = atomic_load(&wake_word), wanted = atomic_load(&asked);
        if (wanted != atomic_load(&done)) {
            round_of((int)atomic_exchange(&asked_forced, 0));
            hm_cursor_hand_over();
            atomic_store(&done, wanted);
            syscall(SYS_futex, &done, FUTEX_WAKE, 64, NULL, NULL, 0);
            continue;
        }
        int64_t left = next - hm_now();
        if (left <= 0 || left > PERIOD_NS) { /* also after a step of a shifted clock */
            if (hm_cupti_held())
                round_of(0);
            hold_or_release(hm_now());
            next = hm_now() + PERIOD_NS;
            continue;
        }
        hm_word_wait(&wake_word, word, left);
        parse_all();
    }
    return NULL;
}

int hm_cupti_thread_flush(int64_t deadline_ns, int forced)
{
    if (forced)
        atomic_store(&asked_forced, 1);
    uint32_t mine = atomic_fetch_add(&asked, 1) + 1;
    hm_cupti_thread_wake();
    for (;;) {
        uint32_t now_done = atomic_load(&done);
        if ((int32_t)(now_done - mine) >= 0)
            return 1;
        int64_t left = deadline_ns - hm_now();
        if (left <= 0)
            return 0;
        hm_word_wait(&done, now_done, left < 50000000 ? left : 50000000);
    }
}

hm_status_t hm_cupti_thread_start(const struct hm_cupti_lib *the_lib,
                                  struct hm_cupti_reader *the_reader)
{
    sigset_t all, before;
    pthread_t thread;
    lib = the_lib;
    reader = the_reader;
    sigfillset(&all); /* the application's signals are none of our thread's business */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&thread, NULL, run, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc)
        return HM_E_SYS;
    pthread_detach(thread);
    return HM_OK;
}
