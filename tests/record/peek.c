/* The writer copies a thread's open ranges while the thread pushes and pops as fast as it can: what
 * it gets always belongs together. The recorder's own stack (cursor.c), a pool, two threads.
 */
#include "../core/check.h"
#include "record/record.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const _Atomic uint64_t gate = UINT64_MAX;
struct hm_state hm = {.gate = &gate};

int hm_awake(void)
{
    return 1;
}
uint32_t hm_nvtx_handle_id(const void *handle)
{
    (void)handle;
    return HM_NO_ID;
}

static _Atomic int done;
enum { ROUNDS = 2000000, DOMAINS = 3 };

/* Every row says its number in each field; domains end in any order, as NVTX allows. */
static void *push_and_pop(void *arg)
{
    uint32_t random = 1, n_open[DOMAINS] = {0}, number = 0;
    int total = 0;
    for (int i = 0; i < ROUNDS; i++) {
        random = random * 1664525 + 1013904223;
        uint32_t domain = (random >> 20) % DOMAINS;
        if (total < HM_OPEN_ROWS && (random >> 28 & 1)) {
            number++;
            struct hm_open_range open = {.t_ns = number,
                                         .payload = number,
                                         .name = number,
                                         .domain = domain,
                                         .category = number,
                                         .color = number};
            CHECK(hm_open_push(&open, HM_OWNER_NVTX, number & 0xff) == total);
            n_open[domain]++;
            total++;
        } else {
            struct hm_open_range open;
            unsigned type;
            int at = hm_open_pop(HM_OWNER_NVTX, domain, &open, &type);
            CHECK((at >= 0) == (n_open[domain] > 0));
            if (at >= 0) {
                CHECK(open.domain == domain && open.payload == open.name &&
                      type == (open.name & 0xff));
                n_open[domain]--;
                total--;
            }
        }
    }
    atomic_store(&done, 1);
    return arg;
}

int main(void)
{
    int fd;
    pthread_t thread;
    struct hm_event ev[HM_OPEN_ROWS];
    uint64_t n_looks = 0, n_rows = 0;
    hm.config.pool = 8 << 20;
    CHECK(hm_pool_create(&hm.config, &hm.view, &fd) == HM_OK);
    CHECK(!pthread_create(&thread, NULL, push_and_pop, NULL));
    while (!atomic_load(&done)) {
        uint32_t n = hm_open_peek(&hm.view.thread[0], ev);
        for (uint32_t i = 0; i < n; i++) {
            const struct hm_ev_range *r = &ev[i].u.range;
            CHECK(ev[i].t_ns == (int64_t)r->name && r->payload == r->name &&
                  r->category == r->name && r->color == r->name && r->depth == i &&
                  r->payload_type == (r->name & 0x7f));
            /* numbers grow inwards; the top bit of the type is the owner's */
            CHECK(!i || ev[i - 1].u.range.name < r->name);
        }
        n_looks++;
        n_rows += n;
    }
    pthread_join(thread, NULL);
    CHECK(n_looks > 10 && n_rows > 0);
    printf("%llu looks, %llu rows\n", (unsigned long long)n_looks, (unsigned long long)n_rows);
    return 0;
}
