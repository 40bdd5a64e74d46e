/* A CUPTI that misbehaves as told: SONAME libcupti.so.13, for the tests of starting and stopping.
 *
 * Box: tests. Records are Kernel10, API and ExternalCorrelation by the offsets of CUDA 13.0.
 */
#include "fake_cupti.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct fake fake = {.version = 130001};
static void (*request)(uint8_t **, size_t *, size_t *);
static void (*complete)(void *, uint32_t, uint8_t *, size_t, size_t);
static _Thread_local uint64_t stack[16];
static _Thread_local int depth;
static uint32_t next_correlation = 1;

#define EXPORT __attribute__((visibility("default")))
#define CALL(name, ...)           \
    EXPORT int name(__VA_ARGS__); \
    EXPORT int name(__VA_ARGS__)

CALL(cuptiGetVersion, uint32_t *version_p)
{
    *version_p = fake.version;
    return 0;
}
CALL(cuptiGetResultString, int rc, const char **text_p)
{
    (void)rc;
    *text_p = "as told";
    return 0;
}
CALL(cuptiGetCallbackName, int domain, uint32_t cbid, const char **name_p)
{
    *name_p = domain == 1 && cbid == 652 ? "cuLaunchKernelEx" : "other";
    return 0;
}
CALL(cuptiSubscribe_v2, void **subscriber, void *callback, void *user, void *params)
{
    (void)callback;
    (void)user;
    *subscriber = &fake;
    if (fake.rc_subscribe) {
        char *old;
        memcpy(&old, (char *)params + 16, sizeof(old));
        strcpy(old, "Nsight");
    }
    fake.n_subscribed++;
    return fake.rc_subscribe;
}
CALL(cuptiUnsubscribe, void *subscriber)
{
    (void)subscriber;
    fake.n_unsubscribed++;
    return 0;
}
CALL(cuptiActivityRegisterTimestampCallback, uint64_t (*clock)(void))
{
    (void)clock;
    fake.n_clock++;
    return 0;
}
CALL(cuptiActivitySetAttribute, int which, size_t *size, void *value)
{
    if (*size == 1 && *(uint8_t *)value == 1)
        fake.attributes |= 1u << which;
    return 0;
}
CALL(cuptiSetThreadIdType, int type)
{
    fake.thread_id_type = type;
    return 0;
}
CALL(cuptiActivityRegisterCallbacks, void (*r)(uint8_t **, size_t *, size_t *),
     void (*c)(void *, uint32_t, uint8_t *, size_t, size_t))
{
    fake.n_registered++;
    request = r;
    complete = c;
    return 0;
}
CALL(cuptiActivityEnable, int kind)
{
    fake.enabled |= UINT64_C(1) << kind;
    return kind == 10 ? fake.rc_enable : 0;
}
CALL(cuptiActivityDisable, int kind)
{
    fake.enabled &= ~(UINT64_C(1) << kind);
    return 0;
}
CALL(cuptiActivityEnableDriverApi, uint32_t cbid, uint8_t on)
{
    if (cbid == 652)
        fake.launch_traced = (fake.launch_traced & ~1) | (on ? 1 : 0);
    fake.n_apis++;
    return 0;
}
CALL(cuptiActivityEnableRuntimeApi, uint32_t cbid, uint8_t on)
{
    if (cbid == 505)
        fake.launch_traced = (fake.launch_traced & ~2) | (on ? 2 : 0);
    fake.n_apis++;
    return 0;
}
CALL(cuptiActivityEnableAllSyncRecords, uint8_t on)
{
    fake.all_sync = on;
    return 0;
}
static const uint16_t sizes[] = {
    [1] = 96, [2] = 88, [4] = 40, [5] = 40, [8] = 184, [10] = 216, [17] = 56, [22] = 96, [38] = 56, [39] = 24};
CALL(cuptiActivityGetNextRecord, uint8_t *buffer, size_t valid, void **record)
{
    uint8_t *at = buffer;
    uint32_t kind;
    if (*record) {
        memcpy(&kind, *record, 4);
        at = (uint8_t *)*record + (kind < 40 ? sizes[kind] : 0);
    }
    memcpy(&kind, at, 4);
    if (kind >= 40 || !sizes[kind])
        return 21;
    if ((size_t)(at - buffer) + sizes[kind] > valid)
        return 12;
    *record = at;
    return 0;
}
CALL(cuptiActivityGetNumDroppedRecords, void *context, uint32_t stream, size_t *n_p)
{
    (void)context;
    (void)stream;
    *n_p = __atomic_exchange_n(&fake.n_dropped, 0, __ATOMIC_RELAXED);
    return 0;
}
CALL(cuptiActivityPushExternalCorrelationId, int kind, uint64_t id)
{
    if (kind != 5 || depth == 16)
        return 1;
    stack[depth++] = id;
    return 0;
}
CALL(cuptiActivityPopExternalCorrelationId, int kind, uint64_t *last)
{
    if (kind != 5)
        return 1;
    if (!depth)
        return 18;
    *last = stack[--depth];
    return 0;
}

/* One buffer that fills up and is handed over when it is full or flushed. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint8_t *current;
static size_t current_size, current_used;
static void give(void)
{
    if (current)
        complete(NULL, 0, current, current_size, current_used);
    current = NULL;
}
static void *room(size_t n)
{
    if (current && current_used + n > current_size)
        give();
    if (!current) {
        size_t records = 1;
        request(&current, &current_size, &records);
        current_used = 0;
        if (!current) {
            __atomic_fetch_add(&fake.n_dropped, 1, __ATOMIC_RELAXED);
            return NULL;
        }
        for (size_t i = 0; i < current_size && (fake.attributes & 1 << 5); i++)
            fake.n_dirty += current[i] != 0;
    }
    current_used += n;
    return current + current_used - n;
}
static void put32(uint8_t *r, int at, uint32_t v)
{
    memcpy(r + at, &v, 4);
}
static void put64(uint8_t *r, int at, uint64_t v)
{
    memcpy(r + at, &v, 8);
}
EXPORT void fake_launch(const char *name, uint64_t dur_ns)
{
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    uint64_t now = (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
    uint8_t *r;
    pthread_mutex_lock(&lock);
    uint32_t c = next_correlation++;
    if (depth && (r = room(24))) {
        put32(r, 0, 39);
        put32(r, 4, 5);
        put64(r, 8, stack[depth - 1]);
        put32(r, 16, c);
    }
    if ((r = room(40))) {
        put32(r, 0, 4);
        put32(r, 4, 652);
        put64(r, 8, now);
        put64(r, 16, now + 1000);
        put32(r, 28, (uint32_t)gettid());
        put32(r, 32, c);
    }
    if ((r = room(216))) {
        put32(r, 0, 10);
        put64(r, 16, now + 2000);
        put64(r, 24, now + 2000 + dur_ns);
        put32(r, 48, 7);
        put32(r, 92, c);
        memcpy(r + 104, &name, sizeof(name));
    }
    pthread_mutex_unlock(&lock);
}
CALL(cuptiActivityFlushAll, uint32_t forced)
{
    fake.n_flushed++;
    fake.n_forced += forced;
    if (fake.hang)
        for (;;)
            pause();
    pthread_mutex_lock(&lock);
    give();
    pthread_mutex_unlock(&lock);
    return fake.rc_flush;
}
