/* Many threads intern the same 3,000 names, each in an order of its own: every name gets one id,
 * the same for all, and every id reads back its bytes. Plain main: also built with TSan.
 */
#include "check.h"
#include "core/defs.h"
#include "core/event.h"

#include <pthread.h>
#include <string.h>

enum { N_THREADS = 16, N_NAMES = 3000 };

static struct hm_defs defs;
static uint32_t id[N_THREADS][N_NAMES];
static pthread_barrier_t start;

static uint32_t name_of(uint32_t i, char text_p[400])
{
    /* lengths from 6 to about 300 bytes, the tails alike */
    int n =
        snprintf(text_p, 400, "%u_%.*s", i, (int)(i % 290),
                 "voidnamespace::kernel<float4,int,true>::operator()(argumentsargumentsarguments"
                 "argumentsargumentsargumentsargumentsargumentsargumentsargumentsarguments"
                 "argumentsargumentsargumentsargumentsargumentsargumentsargumentsarguments"
                 "argumentsargumentsargumentsargumentsargumentsargumentsargumentsarguments");
    return (uint32_t)n;
}

static void *run(void *arg)
{
    uint32_t me = (uint32_t)(uintptr_t)arg, i = me * 97;
    char text[400];
    pthread_barrier_wait(&start);
    /* steps prime to 3,000: every name once, threads meet all over the table */
    static const uint32_t step[4] = {1, 7, 11, 2999};
    for (uint32_t k = 0; k < N_NAMES; k++) {
        i = (i + step[me % 4]) % N_NAMES;
        uint32_t len = name_of(i, text);
        id[me][i] = hm_defs_intern(&defs, HM_DEF_STRING, text, len);
        const void *bytes;
        uint32_t n;
        CHECK(id[me][i] != HM_NO_ID);
        CHECK(hm_defs_get(&defs, HM_DEF_STRING, id[me][i], &bytes, &n) == HM_OK);
        CHECK(n == len && !memcmp(bytes, text, len));
    }
    return NULL;
}

int main(void)
{
    const uint32_t cap[HM_N_DEFS] = {65536, 16, 16, 16, 16, 16};
    pthread_t thread[N_THREADS];
    CHECK(hm_defs_create(cap, 32 << 20, &defs) == HM_OK);
    pthread_barrier_init(&start, NULL, N_THREADS);
    for (uintptr_t t = 0; t < N_THREADS; t++)
        CHECK(!pthread_create(&thread[t], NULL, run, (void *)t));
    for (int t = 0; t < N_THREADS; t++)
        pthread_join(thread[t], NULL);
    static uint8_t used[65536];
    for (int i = 0; i < N_NAMES; i++) {
        for (int t = 1; t < N_THREADS; t++)
            CHECK(id[t][i] == id[0][i]);
        CHECK(!used[id[0][i]]);
        used[id[0][i]] = 1;
    }
    uint32_t n = atomic_load(&defs.head->n[HM_DEF_STRING]);
    printf("%d names, %u ids (%u lost races)\n", N_NAMES, n, n - N_NAMES);
    CHECK(n >= N_NAMES);
    hm_defs_destroy(&defs);
    return 0;
}
