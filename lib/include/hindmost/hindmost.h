/** @file hindmost.h
 *  Marks for the hindmost recorder: steps, ranges, counters. Header only, C99 and C++.
 *
 *  An application never links the recorder: these calls find it in the process (preloaded, or
 *  loaded by NCCL or CUDA) and do nothing when it is not there. With glibc before 2.34 link -ldl.
 *
 *  Thread: any. Cost: without the recorder one load and one branch, a look-up of about 1 us in
 *  hm_step(), hm_start() and hm_stop(), which keep asking for it; about 50 ns with it.
 */
#ifndef HINDMOST_H
#define HINDMOST_H

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The recorder's table, exported as `hindmost_api_1`. Grows at the end only; `size` tells how far
 *  it reaches. Applications use the calls below instead. */
struct hm_api {
    size_t size;
    void (*step)(int64_t step);
    void (*step_end)(void);
    void (*range_push)(const char *name, size_t len);
    void (*range_pop)(void);
    void (*mark)(const char *name, size_t len);
    void (*counter_i64)(const char *name, size_t len, int64_t v);
    void (*counter_f64)(const char *name, size_t len, double v);
    void (*start)(void);
    void (*stop)(void);
};

#ifndef HINDMOST_NO_CALLS

/* One pointer in every translation unit that includes this header: nothing to link. `again` looks
 * a second time: the recorder may arrive late, loaded by NCCL or CUDA. */
static inline const struct hm_api *hm_api_find(int again)
{
    static const struct hm_api *api;
    static int asked;
    const struct hm_api *found = __atomic_load_n(&api, __ATOMIC_ACQUIRE);
    if (found || (__atomic_load_n(&asked, __ATOMIC_RELAXED) && !again))
        return found;
    found = (const struct hm_api *)dlsym((void *)0 /* RTLD_DEFAULT */, "hindmost_api_1");
    __atomic_store_n(&asked, 1, __ATOMIC_RELAXED);
    if (found)
        __atomic_store_n(&api, found, __ATOMIC_RELEASE);
    return found;
}

/** Step `step` begins, and the one before it ends. Steps should be numbered upwards on all ranks
 *  alike. */
static inline void hm_step(int64_t step)
{
    const struct hm_api *api = hm_api_find(1);
    if (api)
        api->step(step);
}
/** The running step ends here already (work that follows belongs to no step). Optional. */
static inline void hm_step_end(void)
{
    const struct hm_api *api = hm_api_find(1);
    if (api)
        api->step_end();
}
/** A named range of this thread begins; ranges nest. `name` is copied. A range called "input" is
 *  taken for waiting on input data. */
static inline void hm_range_push(const char *name)
{
    const struct hm_api *api = hm_api_find(0);
    if (api)
        api->range_push(name, strlen(name));
}
/** The innermost range of this thread ends. */
static inline void hm_range_pop(void)
{
    const struct hm_api *api = hm_api_find(0);
    if (api)
        api->range_pop();
}
/** An instant with a name. */
static inline void hm_mark(const char *name)
{
    const struct hm_api *api = hm_api_find(0);
    if (api)
        api->mark(name, strlen(name));
}
/** The value of a counter from now on. */
static inline void hm_counter_i64(const char *name, int64_t value)
{
    const struct hm_api *api = hm_api_find(0);
    if (api)
        api->counter_i64(name, strlen(name), value);
}
/** The value of a counter from now on. */
static inline void hm_counter_f64(const char *name, double value)
{
    const struct hm_api *api = hm_api_find(0);
    if (api)
        api->counter_f64(name, strlen(name), value);
}
/** Recording goes on (after hm_stop(), or outside the window of steps that was set). */
static inline void hm_start(void)
{
    const struct hm_api *api = hm_api_find(1);
    if (api)
        api->start();
}
/** Recording pauses; step marks are still taken. */
static inline void hm_stop(void)
{
    const struct hm_api *api = hm_api_find(1);
    if (api)
        api->stop();
}

#endif /* HINDMOST_NO_CALLS */

#ifdef __cplusplus
}
#endif
#endif
