/* Prints what a libcupti answers without a GPU: run on the stand-in and on the toolkit's own.
 *
 * usage: cupti_ask LIBRARY. Box: tests/vgpu_tests (real_cupti.py compares).
 */
#include <cupti.h>

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static void *library;

static void *need(const char *name)
{
    void *p = dlsym(library, name);
    if (!p)
        printf("missing %s\n", name);
    return p;
}

static void records(void)
{
    static uint64_t b[1024];
    CUptiResult (*next)(uint8_t *, size_t, CUpti_Activity **);
    *(void **)&next = need("cuptiActivityGetNextRecord");
    for (uint64_t kind = 0; kind < 80; kind++) {
        for (size_t i = 0; i < 1024; i++)
            b[i] = kind;
        CUpti_Activity *r = NULL;
        int first = next((uint8_t *)b, sizeof b, &r);
        char *at = (char *)r;
        int second = next((uint8_t *)b, sizeof b, &r);
        printf("kind %d: %d %d size %ld\n", (int)kind, first, second,
               first ? 0L : (long)((char *)r - at));
    }
    static const int kinds[] = {4, 10, 39};
    for (size_t k = 0; k < 3; k++) {
        for (size_t i = 0; i < 1024; i++)
            b[i] = (uint64_t)kinds[k];
        for (size_t valid = 0; valid < 450; valid++) {
            CUpti_Activity *r = NULL;
            int n = 0, rc;
            while (!(rc = next((uint8_t *)b, valid, &r)))
                n++;
            printf("kind %d valid %zu: %d records, then %d\n", kinds[k], valid, n, rc);
        }
    }
    CUpti_Activity *r = NULL;
    printf("null buffer %d, null record %d\n", next(NULL, 64, &r), next((uint8_t *)b, 64, NULL));
    /* an unknown kind behind a good record */
    memset(b, 0, sizeof b);
    b[0] = 4;
    b[5] = 63;
    r = NULL;
    int first = next((uint8_t *)b, 512, &r), second = next((uint8_t *)b, 512, &r);
    printf("unknown behind good: %d %d\n", first, second);
}

static void names(void)
{
    static const uint32_t runtime[] = {505, 211, 131, 132, 147, 135, 138, 137, 486, 134,
                                       136, 129, 198, 202, 201, 165, 3,   17,  16,  440,
                                       20,  22,  27,  25,  26,  31,  41,  49,  51};
    static const uint32_t driver[] = {307, 652};
    CUptiResult (*name)(CUpti_CallbackDomain, uint32_t, const char **);
    *(void **)&name = need("cuptiGetCallbackName");
    for (size_t i = 0; i < sizeof runtime / sizeof *runtime; i++) {
        const char *s = NULL;
        int rc = name(CUPTI_CB_DOMAIN_RUNTIME_API, runtime[i], &s);
        printf("runtime %u: %d %s\n", runtime[i], rc, s ? s : "-");
    }
    for (size_t i = 0; i < sizeof driver / sizeof *driver; i++) {
        const char *s = NULL;
        int rc = name(CUPTI_CB_DOMAIN_DRIVER_API, driver[i], &s);
        printf("driver %u: %d %s\n", driver[i], rc, s ? s : "-");
    }
}

static void CUPTIAPI request(uint8_t **b, size_t *size, size_t *n)
{
    *b = NULL;
    *size = *n = 0;
}
static void CUPTIAPI complete(CUcontext c, uint32_t s, uint8_t *b, size_t size, size_t valid)
{
    (void)c, (void)s, (void)b, (void)size, (void)valid;
}
static uint64_t CUPTIAPI clock_0(void)
{
    return 0;
}

/* Without a driver, or without the stand-in runtime: the same refusals. */
static void calls(void)
{
    uint32_t v = 0;
    size_t n = 5;
    uint64_t id;
    CUpti_SubscriberHandle sub;
    int (*f)(); /* called with the arguments of each in turn */
#define ASK(name, ...)          \
    *(void **)&f = need(#name); \
    if (f)                      \
    printf("%s: %d\n", #name "(" #__VA_ARGS__ ")", f(__VA_ARGS__))
    ASK(cuptiGetVersion, &v);
    printf("version %u\n", v);
    ASK(cuptiActivityRegisterCallbacks, NULL, NULL);
    ASK(cuptiActivityRegisterCallbacks, request, complete);
    ASK(cuptiActivityEnable, 10);
    ASK(cuptiActivityEnable, 60);
    ASK(cuptiActivityDisable, 10);
    ASK(cuptiActivityRegisterTimestampCallback, NULL);
    ASK(cuptiActivityRegisterTimestampCallback, clock_0);
    ASK(cuptiSubscribe, &sub, request, NULL);
    ASK(cuptiActivityFlushAll, 0);
    ASK(cuptiActivityFlushPeriod, 100);
    ASK(cuptiSetThreadIdType, 1);
    ASK(cuptiActivityEnableDriverApi, 307, 1);
    ASK(cuptiActivityEnableRuntimeApi, 505, 1);
    ASK(cuptiActivityPushExternalCorrelationId, 5, (uint64_t)1);
    ASK(cuptiActivityPopExternalCorrelationId, 5, &id);
    ASK(cuptiActivityGetNumDroppedRecords, NULL, 0, &n);
    printf("dropped %zu\n", n);
    ASK(cuptiGetLastError);
}

int main(int argc, char **argv)
{
    library = dlopen(argc > 1 ? argv[1] : "", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return 2;
    }
    records();
    names();
    calls();
    return 0;
}
