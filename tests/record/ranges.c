/* A real NVTX program, built with the vendor's headers. Used by nvtx.bats.
 *
 * usage: ranges HOW. Each way is one act, written so that its rows can be told by hand:
 *   basic     two pushes, one mark, one start and end, on the unnamed domain
 *   domains   ranges of two domains that end in the order they began, registered before waking
 *   more      category, colour, every payload type, wide text, names of category and thread
 *   wrong     pops without a push, a pop on another thread, null pointers, garbage handles
 *   steps     five step ranges by name and number; without any call of hindmost.h
 *   payload   step ranges numbered by payload, with start and end
 *   called    steps by hm_step() and by ranges: the calls count
 *   counters  3,000 names that differ in a number
 *   open      ends inside two pushes and one start
 *   many N    starts N ranges and ends none but the last
 *   none      ranges only, none of them a step
 */
#include "hindmost/hindmost.h"

#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static nvtxEventAttributes_t named(const char *text)
{
    nvtxEventAttributes_t a;
    memset(&a, 0, sizeof(a));
    a.version = NVTX_VERSION;
    a.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    a.messageType = NVTX_MESSAGE_TYPE_ASCII;
    a.message.ascii = text;
    return a;
}

static void basic(void)
{
    nvtxRangePushA("outer");
    nvtxRangePushA("inner");
    nvtxMarkA("here");
    nvtxRangePop();
    nvtxRangePop();
    nvtxRangeId_t id = nvtxRangeStartA("span");
    nvtxRangeEnd(id);
}

static void domains(nvtxDomainHandle_t one, nvtxStringHandle_t text)
{
    nvtxDomainHandle_t two = nvtxDomainCreateA("two");
    nvtxEventAttributes_t a = named(""), b = named("of two");
    a.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
    a.message.registered = text;
    nvtxDomainRangePushEx(one, &a);
    nvtxDomainRangePushEx(two, &b);
    nvtxDomainRangePop(one);
    nvtxDomainRangePop(two);
    nvtxRangeId_t id = nvtxDomainRangeStartEx(two, &b);
    nvtxDomainMarkEx(one, &a);
    nvtxDomainRangeEnd(two, id);
}

static void more(void)
{
    nvtxEventAttributes_t a = named("payload");
    a.category = 7;
    a.colorType = NVTX_COLOR_ARGB;
    a.color = 0xff00ff00;
    a.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
    a.payload.ullValue = UINT64_C(0xfedcba9876543210);
    nvtxRangePushEx(&a);
    nvtxRangePop();
    a.payloadType = NVTX_PAYLOAD_TYPE_INT64;
    a.payload.llValue = -5;
    nvtxMarkEx(&a);
    a.payloadType = NVTX_PAYLOAD_TYPE_DOUBLE;
    a.payload.dValue = 0.5;
    nvtxMarkEx(&a);
    memset(&a.payload, 0xff, sizeof(a.payload));
    a.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT32;
    a.payload.uiValue = 6;
    nvtxMarkEx(&a);
    memset(&a.payload, 0, sizeof(a.payload));
    a.payloadType = NVTX_PAYLOAD_TYPE_INT32;
    a.payload.iValue = -7;
    nvtxMarkEx(&a);
    memset(&a.payload, 0xff, sizeof(a.payload));
    a.payloadType = NVTX_PAYLOAD_TYPE_FLOAT;
    a.payload.fValue = 1.5F;
    nvtxMarkEx(&a);
    a.payloadType = 99; /* an extended payload: a pointer, which is not kept */
    a.payload.ullValue = 12345;
    nvtxMarkEx(&a);
    nvtxRangePushW(L"wide \u00e4\u20ac\U0001f600");
    nvtxRangePop();
    nvtxNameCategoryA(7, "GEMM");
}

static void *pop_there(void *arg)
{
    nvtxRangePop();
    nvtxRangePushA("there");
    nvtxRangePop();
    nvtxRangePop();
    return arg;
}

static void wrong(void)
{
    pthread_t t;
    nvtxRangePop();
    nvtxRangePushA("kept");
    nvtxDomainHandle_t domain = nvtxDomainCreateA("other");
    nvtxDomainRangePop(domain); /* of a domain that pushed nothing */
    if (!pthread_create(&t, NULL, pop_there, NULL))
        pthread_join(t, NULL);
    nvtxRangePop();
    nvtxRangePop();
    nvtxRangePushA(NULL);
    nvtxRangePop();
    nvtxRangePushEx(NULL);
    nvtxRangePop();
    nvtxMarkA(NULL);
    nvtxMarkW(NULL);
    nvtxDomainCreateA(NULL);
    nvtxRangeEnd(0);
    nvtxRangeEnd(UINT64_MAX);
    nvtxRangeEnd(UINT64_C(1) << 63);
    nvtxRangeId_t id = nvtxRangeStartA("once");
    nvtxRangeEnd(id);
    nvtxRangeEnd(id);
    nvtxEventAttributes_t a = named("");
    a.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
    a.message.registered = (nvtxStringHandle_t)(uintptr_t)0xdeadbeefcafe0010;
    nvtxMarkEx(&a);
    a.message.registered = (nvtxStringHandle_t)(uintptr_t)0xffffffffffffffff;
    nvtxMarkEx(&a);
    a.size = 8; /* shorter than any version */
    nvtxMarkEx(&a);
    nvtxDomainMarkEx((nvtxDomainHandle_t)(uintptr_t)0x1234, &a);
}

static void steps(void)
{
    static const char *const names[] = {"step 3", "step_4", "step#5", "step", "step 7"};
    for (int i = 0; i < 5; i++) {
        nvtxRangePushA(names[i]);
        nvtxRangePushA("input");
        nvtxRangePop();
        nvtxRangePushA("step"); /* the optimizer's, inside: no step */
        nvtxRangePop();
        nvtxRangePop();
    }
    nvtxRangePushA("stepper");
    nvtxRangePop();
    nvtxRangePushA("step 8 of 9");
    nvtxRangePop();
}

static void payload(void)
{
    for (int i = 0; i < 3; i++) {
        nvtxEventAttributes_t a = named("train");
        a.payloadType = NVTX_PAYLOAD_TYPE_INT32;
        a.payload.iValue = 10 + i;
        nvtxRangeId_t id = nvtxRangeStartEx(&a);
        nvtxRangeEnd(id);
    }
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "basic";
    int n = argc > 2 ? atoi(argv[2]) : 0;
    nvtxNameOsThreadA((uint32_t)syscall(SYS_gettid), "the-trainer");
    nvtxDomainHandle_t one = nvtxDomainCreateA("one");
    nvtxStringHandle_t text = nvtxDomainRegisterStringA(one, "registered early");
    nvtxDomainNameCategoryA(one, 3, "early category");
    nvtxRangePushA("before anything is awake");
    nvtxRangePop();
    if (!strcmp(how, "steps"))
        steps();
    else if (!strcmp(how, "payload"))
        payload();
    else if (strcmp(how, "none") != 0)
        hm_step(0);
    if (!strcmp(how, "basic"))
        basic();
    else if (!strcmp(how, "domains"))
        domains(one, text);
    else if (!strcmp(how, "more"))
        more();
    else if (!strcmp(how, "wrong"))
        wrong();
    else if (!strcmp(how, "called"))
        steps();
    for (int i = 0; !strcmp(how, "counters") && i < 3000; i++) {
        char name[64];
        snprintf(name, sizeof(name), "op %d, seq = %d", i, 2 * i);
        nvtxRangePushA(name);
        nvtxRangePop();
        nvtxRangePushA("op 5, seq = 10"); /* known by its whole name for ever */
        nvtxRangePop();
    }
    for (int i = 0; !strcmp(how, "many") && i < n; i++) {
        nvtxRangeId_t id = nvtxRangeStartA("one of many");
        if (i == n - 1)
            nvtxRangeEnd(id);
    }
    if (!strcmp(how, "open")) {
        nvtxRangePushA("open outer");
        nvtxRangePushA("open inner");
        nvtxRangeStartA("open span");
        _exit(0);
    }
    return 0;
}
