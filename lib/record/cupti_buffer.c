/* Buffers for CUPTI: a fixed array of 1 MiB places in reserved address space.
 *
 * Box: lib/record. request runs on the application's launch path, complete on a CUPTI thread or on
 * whoever flushes, take and recycle on hm-cupti. A place goes FREE -CAS-> GIVEN -> DONE -> FREE;
 * only hm-cupti frees. No malloc, no lock; memory is touched first by hm-cupti for the first few.
 * Buffers that CUPTI holds at exit stay mapped: freeing them corrupts its heap.
 */
#include "record/cupti_source.h"

#include <string.h>
#include <sys/mman.h>

enum { FREE, GIVEN, DONE, TAKEN };
enum { DISCARD_BYTES = 256 * 1024, LOW = 4 };

struct place {
    _Atomic uint32_t state;
    uint32_t pad;
    size_t valid;
    uint64_t order; /* completed as the n-th */
};
static struct place place[HM_CUPTI_MAX_BUFFERS];
static uint8_t *memory, *discard; /* constant after init */
static int refuse_allowed, clear_ours;
static _Atomic uint64_t next_order = 1, discarded;

hm_status_t hm_cupti_buffers_init(int may_refuse, int clear)
{
    size_t bytes = (size_t)HM_CUPTI_BUFFER * HM_CUPTI_MAX_BUFFERS + DISCARD_BYTES;
    if (!memory) {
        void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (at == MAP_FAILED)
            return HM_E_NOMEM;
        memory = at;
        discard = memory + (size_t)HM_CUPTI_BUFFER * HM_CUPTI_MAX_BUFFERS;
    }
    refuse_allowed = may_refuse;
    clear_ours = clear;
    return HM_OK;
}

void hm_cupti_buffers_warm(void)
{
    for (size_t at = 0; at < (size_t)HM_CUPTI_WARM_BUFFERS * HM_CUPTI_BUFFER; at += 4096) {
        /* adding nothing faults the page in without racing what CUPTI may be writing there */
        __atomic_fetch_add(memory + at, 0, __ATOMIC_RELAXED);
    }
}

void hm_cupti_buffer_request(uint8_t **buffer, size_t *size, size_t *max_records)
{
    *max_records = 0;
    for (uint32_t i = 0; i < HM_CUPTI_MAX_BUFFERS; i++) {
        uint32_t want = FREE;
        if (atomic_load_explicit(&place[i].state, memory_order_relaxed) != FREE ||
            !atomic_compare_exchange_strong(&place[i].state, &want, GIVEN))
            continue;
        *buffer = memory + (size_t)i * HM_CUPTI_BUFFER;
        *size = HM_CUPTI_BUFFER;
        if (i >= HM_CUPTI_WARM_BUFFERS - LOW) /* the first ones are not back yet */
            hm_cupti_thread_wake();
        return;
    }
    hm_cupti_thread_wake();
    *buffer = refuse_allowed ? NULL : discard; /* before 12.9 CUPTI crashes on NULL */
    *size = refuse_allowed ? 0 : DISCARD_BYTES;
}

void hm_cupti_buffer_complete(void *context, uint32_t stream, uint8_t *buffer, size_t size,
                              size_t valid)
{
    (void)context;
    (void)stream;
    (void)size;
    if (!buffer)
        return;
    if (buffer == discard) {
        atomic_fetch_add(&discarded, valid);
        return;
    }
    size_t at = (size_t)(buffer - memory);
    if (buffer < memory || at % HM_CUPTI_BUFFER || at / HM_CUPTI_BUFFER >= HM_CUPTI_MAX_BUFFERS)
        return; /* given by another tool before us */
    struct place *p = &place[at / HM_CUPTI_BUFFER];
    p->valid = valid <= HM_CUPTI_BUFFER ? valid : HM_CUPTI_BUFFER;
    p->order = atomic_fetch_add(&next_order, 1);
    atomic_store_explicit(&p->state, DONE, memory_order_release);
}

const uint8_t *hm_cupti_buffer_take(size_t *valid_p)
{
    struct place *oldest = NULL;
    for (uint32_t i = 0; i < HM_CUPTI_MAX_BUFFERS; i++) {
        struct place *p = &place[i];
        if (atomic_load_explicit(&p->state, memory_order_acquire) == DONE &&
            (!oldest || p->order < oldest->order))
            oldest = p;
    }
    if (!oldest)
        return NULL;
    atomic_store_explicit(&oldest->state, TAKEN, memory_order_relaxed);
    *valid_p = oldest->valid;
    return memory + (size_t)(oldest - place) * HM_CUPTI_BUFFER;
}

void hm_cupti_buffer_recycle(const uint8_t *buffer)
{
    size_t i = (size_t)(buffer - memory) / HM_CUPTI_BUFFER;
    if (clear_ours) /* CUPTI was told so; 1 MiB of it on the launch path would be 100 us */
        memset(memory + i * HM_CUPTI_BUFFER, 0, place[i].valid);
    atomic_store_explicit(&place[i].state, FREE, memory_order_release);
}

uint64_t hm_cupti_buffers_discarded(void)
{
    return atomic_exchange(&discarded, 0);
}
