/* CUPTI's records, built with the vendor's own structs, through the parser.
 *
 * Box: tests. The fixed offsets of cupti_parse.c are asserted against cupti_activity.h below; the
 * records of older releases are the vendor's deprecated structs.
 */
#include "record/cupti_source.h"
#include "recorder_double.h"

#include <cupti.h>

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <string.h>

#define OFF(type, member, at) \
    _Static_assert(offsetof(CUpti_Activity##type, member) == (at), #type "." #member)
#define SIZE(type, n)      _Static_assert(sizeof(CUpti_Activity##type) == (n), #type)
#define SAME(vendor, ours) _Static_assert((int)(vendor) == (int)(ours), #ours)
SIZE(Kernel10, 216);
SIZE(Kernel8, 200);
SIZE(Kernel5, 160);
SIZE(Kernel4, 144);
SIZE(Memcpy6, 96);
SIZE(Memcpy, 64);
SIZE(MemcpyPtoP4, 96);
SIZE(Memset4, 88);
SIZE(API, 40);
SIZE(ExternalCorrelation, 24);
SIZE(Overhead3, 56);
SIZE(Synchronization2, 56);
#define KERNEL_OFFSETS(k)            \
    OFF(k, registersPerThread, 6);   \
    OFF(k, start, 16);               \
    OFF(k, end, 24);                 \
    OFF(k, deviceId, 40);            \
    OFF(k, contextId, 44);           \
    OFF(k, streamId, 48);            \
    OFF(k, gridX, 52);               \
    OFF(k, blockX, 64);              \
    OFF(k, staticSharedMemory, 76);  \
    OFF(k, dynamicSharedMemory, 80); \
    OFF(k, correlationId, 92);       \
    OFF(k, name, 104);               \
    OFF(k, launchType, 136)
KERNEL_OFFSETS(Kernel4);
KERNEL_OFFSETS(Kernel8);
KERNEL_OFFSETS(Kernel10);
OFF(Kernel10, graphNodeId, 144);
OFF(Kernel10, graphId, 156);
OFF(Kernel10, channelID, 168);
OFF(Kernel10, channelType, 172);
OFF(Kernel10, clusterX, 176);
OFF(Kernel8, clusterZ, 184);
OFF(Memcpy6, copyKind, 4);
OFF(Memcpy6, flags, 7);
OFF(Memcpy6, bytes, 8);
OFF(Memcpy6, start, 16);
OFF(Memcpy6, deviceId, 32);
OFF(Memcpy6, correlationId, 44);
OFF(Memcpy, correlationId, 44);
OFF(Memcpy6, graphNodeId, 64);
OFF(Memcpy6, graphId, 72);
OFF(Memcpy6, copyCount, 88);
OFF(Device5, globalMemorySize, 16);
OFF(Device5, numMultiprocessors, 44);
OFF(Device5, computeCapabilityMajor, 104);
OFF(Device5, computeCapabilityMinor, 108);
OFF(Device5, id, 112);
OFF(Device5, uuid, 120);
OFF(Device5, name, 136);
OFF(MemcpyPtoP4, srcDeviceId, 44);
OFF(MemcpyPtoP4, dstDeviceId, 52);
OFF(MemcpyPtoP4, correlationId, 60);
OFF(MemcpyPtoP4, graphNodeId, 72);
OFF(MemcpyPtoP4, graphId, 80);
OFF(Memset4, value, 4);
OFF(Memset4, bytes, 8);
OFF(Memset4, start, 16);
OFF(Memset4, deviceId, 32);
OFF(Memset4, correlationId, 44);
OFF(Memset4, memoryKind, 50);
OFF(Memset4, graphNodeId, 64);
OFF(Memset4, graphId, 72);
OFF(API, cbid, 4);
OFF(API, start, 8);
OFF(API, threadId, 28);
OFF(API, correlationId, 32);
OFF(API, returnValue, 36);
OFF(ExternalCorrelation, externalKind, 4);
OFF(ExternalCorrelation, externalId, 8);
OFF(ExternalCorrelation, correlationId, 16);
OFF(Overhead3, overheadKind, 4);
OFF(Overhead3, objectKind, 8);
OFF(Overhead3, start, 24);
OFF(Overhead3, end, 32);
OFF(Overhead3, correlationId, 40);
OFF(Overhead3, overheadData, 48);
OFF(Synchronization2, type, 4);
OFF(Synchronization2, start, 8);
OFF(Synchronization2, correlationId, 24);
OFF(Synchronization2, contextId, 28);
OFF(Synchronization2, streamId, 32);
OFF(Synchronization2, cudaEventId, 36);
OFF(Synchronization2, cudaEventSyncId, 40);
OFF(Synchronization2, returnValue, 48);
SAME(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, HM_CUPTI_KERNEL);
SAME(CUPTI_ACTIVITY_KIND_DEVICE, HM_CUPTI_DEVICE);
SAME(CUPTI_ACTIVITY_KIND_MEMCPY, HM_CUPTI_MEMCPY);
SAME(CUPTI_ACTIVITY_KIND_MEMCPY2, HM_CUPTI_MEMCPY2);
SAME(CUPTI_ACTIVITY_KIND_MEMSET, HM_CUPTI_MEMSET);
SAME(CUPTI_ACTIVITY_KIND_DRIVER, HM_CUPTI_DRIVER);
SAME(CUPTI_ACTIVITY_KIND_RUNTIME, HM_CUPTI_RUNTIME);
SAME(CUPTI_ACTIVITY_KIND_OVERHEAD, HM_CUPTI_OVERHEAD);
SAME(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, HM_CUPTI_SYNC);
SAME(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, HM_CUPTI_EXTERNAL);
SAME(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2, HM_CUPTI_CUSTOM2);
SAME(CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED, HM_CUPTI_FOREIGN);
SAME(CUPTI_ERROR_QUEUE_EMPTY, HM_CUPTI_QUEUE_EMPTY);
SAME(CUPTI_ERROR_NOT_INITIALIZED, HM_CUPTI_NOT_INITIALIZED);
_Static_assert(sizeof(struct hm_cupti_subscriber_params) == sizeof(CUpti_SubscriberParams), "");

#define T0 INT64_C(1700000000000000000)
static struct hm_cupti_reader reader;
static _Alignas(8) uint8_t buffer[1 << 16];
static size_t used;

static int name_of(int domain, uint32_t cbid, const char **name_p)
{
    (void)domain;
    *name_p = cbid == 652 ? "cuLaunchKernelEx" : cbid == 505 ? "__cudaLaunchKernel" : NULL;
    return *name_p ? 0 : 1;
}

static void setup(void)
{
    double_start(8 << 20);
    reader.version = 130001;
    reader.clock = HM_CLOCK_REAL;
    reader.begin_ns = T0;
    reader.now_ns = T0 + INT64_C(10000000000);
    reader.api_name = name_of;
    reader.size[CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL] = sizeof(CUpti_ActivityKernel10);
    reader.size[CUPTI_ACTIVITY_KIND_DEVICE] = sizeof(CUpti_ActivityDevice5);
    reader.size[CUPTI_ACTIVITY_KIND_MEMCPY] = sizeof(CUpti_ActivityMemcpy6);
    reader.size[CUPTI_ACTIVITY_KIND_MEMCPY2] = sizeof(CUpti_ActivityMemcpyPtoP4);
    reader.size[CUPTI_ACTIVITY_KIND_MEMSET] = sizeof(CUpti_ActivityMemset4);
    reader.size[CUPTI_ACTIVITY_KIND_DRIVER] = sizeof(CUpti_ActivityAPI);
    reader.size[CUPTI_ACTIVITY_KIND_RUNTIME] = sizeof(CUpti_ActivityAPI);
    reader.size[CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION] =
        sizeof(CUpti_ActivityExternalCorrelation);
    reader.size[CUPTI_ACTIVITY_KIND_OVERHEAD] = sizeof(CUpti_ActivityOverhead3);
    reader.size[CUPTI_ACTIVITY_KIND_SYNCHRONIZATION] = sizeof(CUpti_ActivitySynchronization2);
    reader.size[CUPTI_ACTIVITY_KIND_CONTEXT] = sizeof(CUpti_ActivityContext3);
}
TestSuite(cupti, .init = setup);

static void add(const void *record, size_t size)
{
    memcpy(buffer + used, record, size);
    used += size;
}

static CUpti_ActivityKernel10 kernel(const char *name, uint32_t correlation, int64_t start,
                                     int64_t end)
{
    CUpti_ActivityKernel10 k;
    memset(&k, 0, sizeof(k));
    k.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
    k.start = (uint64_t)start;
    k.end = (uint64_t)end;
    k.deviceId = 2;
    k.contextId = 1;
    k.streamId = 14;
    k.gridX = 108;
    k.gridY = 2;
    k.gridZ = 3;
    k.blockX = 256;
    k.blockY = 4;
    k.blockZ = 1;
    k.registersPerThread = 96;
    k.staticSharedMemory = 1024;
    k.dynamicSharedMemory = 2048;
    k.correlationId = correlation;
    k.name = name;
    k.launchType = 1;
    k.graphNodeId = 0x1234567890;
    k.graphId = 77;
    k.channelID = 5;
    k.channelType = 1;
    k.clusterX = 2;
    k.clusterY = 1;
    k.clusterZ = 1;
    return k;
}

static CUpti_ActivityAPI api(CUpti_ActivityKind kind, uint32_t cbid, uint32_t correlation,
                             int64_t start)
{
    CUpti_ActivityAPI a;
    memset(&a, 0, sizeof(a));
    a.kind = kind;
    a.cbid = cbid;
    a.start = (uint64_t)start;
    a.end = (uint64_t)start + 3000;
    a.threadId = 4711;
    a.correlationId = correlation;
    a.returnValue = 0;
    return a;
}

static CUpti_ActivityExternalCorrelation external(CUpti_ExternalCorrelationKind kind, uint64_t id,
                                                  uint32_t correlation)
{
    CUpti_ActivityExternalCorrelation e;
    memset(&e, 0, sizeof(e));
    e.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
    e.externalKind = kind;
    e.externalId = id;
    e.correlationId = correlation;
    return e;
}

Test(cupti, kernel_fields)
{
    CUpti_ActivityKernel10 k = kernel("_Z4axpyfPfi", 42, T0 + 100, T0 + 350);
    add(&k, sizeof(k));
    cr_assert_eq(hm_cupti_parse(&reader, buffer, used), 1);
    const struct hm_event *ev = double_nth(HM_EV_KERNEL, 0);
    cr_assert_eq(ev->t_ns, T0 + 100);
    cr_assert_eq(ev->dur_ns, 250);
    cr_assert_eq(ev->flags, HM_CLOCK_REAL | HM_EVF_GRAPH);
    cr_assert_eq(ev->u.kernel.correlation, 42);
    cr_assert_eq(ev->u.kernel.graph, 77);
    cr_assert_eq(ev->u.kernel.graph_node, 0x1234567890);
    cr_assert_eq(ev->u.kernel.channel, 5);
    cr_assert_eq(ev->u.kernel.channel_type, 1);
    cr_assert(ev->u.kernel.grid[0] == 108 && ev->u.kernel.grid[1] == 2 &&
              ev->u.kernel.grid[2] == 3);
    const struct hm_def_kernel *def = double_def(HM_DEF_KERNEL, ev->u.kernel.kernel);
    cr_assert_str_eq(double_text(def->name), "_Z4axpyfPfi");
    cr_assert(def->block[0] == 256 && def->block[1] == 4 && def->block[2] == 1);
    cr_assert_eq(def->registers, 96);
    cr_assert_eq(def->shared_static, 1024);
    cr_assert_eq(def->shared_dynamic, 2048);
    cr_assert(def->cluster[0] == 2 && def->cluster[1] == 1 && def->cluster[2] == 1);
    cr_assert_eq(def->launch_type, 1);
    const struct hm_def_track *track = double_def(HM_DEF_TRACK, ev->track);
    cr_assert_eq(track->type, HM_TRACK_STREAM);
    cr_assert_eq(track->device, 2);
    cr_assert_eq(track->context, 1);
    cr_assert_eq(track->stream, 14);
    cr_assert_eq(double_lost(HM_LOST_CUPTI_UNREAD), 0);
}

Test(cupti, a_device_is_defined_once)
{
    CUpti_ActivityDevice5 d;
    memset(&d, 0, sizeof(d));
    d.kind = CUPTI_ACTIVITY_KIND_DEVICE;
    d.id = 3;
    d.globalMemorySize = UINT64_C(85899345920);
    d.numMultiprocessors = 132;
    d.computeCapabilityMajor = 9;
    d.computeCapabilityMinor = 0;
    d.name = "NVIDIA H100 80GB HBM3";
    memcpy(d.uuid.bytes, "0123456789abcdef", 16);
    add(&d, sizeof(d));
    add(&d, sizeof(d));
    cr_assert_eq(hm_cupti_parse(&reader, buffer, used), 2);
    const struct hm_def_device *def = double_def(HM_DEF_DEVICE, 0);
    cr_assert_eq(def->device, 3);
    cr_assert_eq(def->memory_bytes, UINT64_C(85899345920));
    cr_assert_eq(def->n_sm, 132);
    cr_assert_eq(def->cc, 90);
    cr_assert_eq(memcmp(def->uuid, "0123456789abcdef", 16), 0);
    cr_assert_str_eq(double_text(def->name), "NVIDIA H100 80GB HBM3");
    cr_assert_eq(atomic_load(&hm.view.defs.head->n[HM_DEF_DEVICE]), 1);
}

/* A release's record is a prefix of the next one's: what it lacks stays zero. */
Test(cupti, older_and_newer_releases)
{
    static const struct {
        uint16_t size;
        uint32_t version;
        uint32_t cluster, channel, graph;
        uint64_t node;
    } row[] = {{120, 12, 0, 0, 0, 0},
               {144, 12, 0, 0, 0, 0},
               {160, 13, 0, 0, 0, 0x1234567890},  /* 11.0: the graph's id is still padding */
               {160, 14, 0, 0, 77, 0x1234567890}, /* 11.1 */
               {176, 17, 0, 5, 77, 0x1234567890}, /* 11.6 */
               {200, 18, 2, 5, 77, 0x1234567890}, /* 11.8: Kernel8 */
               {208, 19, 2, 5, 77, 0x1234567890},
               {216, 130001, 2, 5, 77, 0x1234567890},
               {264, 130500, 2, 5, 77, 0x1234567890}}; /* longer than we know */
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
        struct {
            CUpti_ActivityKernel10 k;
            uint8_t more[64];
        } one, two;
        memset(&one, 0xee, sizeof(one));
        one.k = kernel("k", 1000 + (uint32_t)i, T0 + 10, T0 + 20);
        two = one;
        two.k.correlationId += 100;
        used = 0;
        add(&one, row[i].size);
        add(&two, row[i].size);
        reader.size[HM_CUPTI_KERNEL] = row[i].size;
        reader.version = row[i].version;
        cr_assert_eq(hm_cupti_parse(&reader, buffer, used), 2, "size %u", row[i].size);
        const struct hm_event *a = double_nth(HM_EV_KERNEL, 2 * (uint32_t)i);
        const struct hm_event *b = double_nth(HM_EV_KERNEL, 2 * (uint32_t)i + 1);
        cr_assert_eq(a->u.kernel.correlation, 1000 + i);
        cr_assert_eq(b->u.kernel.correlation, 1100 + i);
        cr_assert_eq(a->u.kernel.channel, row[i].channel, "size %u", row[i].size);
        cr_assert_eq(a->u.kernel.graph, row[i].graph, "size %u", row[i].size);
        cr_assert_eq(a->u.kernel.graph_node, row[i].node, "size %u", row[i].size);
        const struct hm_def_kernel *def = double_def(HM_DEF_KERNEL, a->u.kernel.kernel);
        cr_assert_eq(def->cluster[0], row[i].cluster, "size %u", row[i].size);
    }
    cr_assert_eq(double_lost(HM_LOST_CUPTI_UNREAD), 0);
}

Test(cupti, copies_and_sets)
{
    CUpti_ActivityMemcpy6 c;
    memset(&c, 0, sizeof(c));
    c.kind = CUPTI_ACTIVITY_KIND_MEMCPY;
    c.copyKind = 1;
    c.srcKind = 2;
    c.dstKind = 3;
    c.flags = 1;
    c.bytes = 1 << 20;
    c.start = T0 + 5;
    c.end = T0 + 9;
    c.deviceId = 3;
    c.correlationId = 7;
    c.graphNodeId = 0;
    c.copyCount = 4;
    add(&c, sizeof(c));
    CUpti_ActivityMemcpyPtoP4 p;
    memset(&p, 0, sizeof(p));
    p.kind = CUPTI_ACTIVITY_KIND_MEMCPY2;
    p.copyKind = 10;
    p.bytes = 99;
    p.start = T0 + 15;
    p.end = T0 + 19;
    p.deviceId = 1;
    p.srcDeviceId = 1;
    p.dstDeviceId = 6;
    p.correlationId = 8;
    add(&p, sizeof(p));
    CUpti_ActivityMemset4 s;
    memset(&s, 0, sizeof(s));
    s.kind = CUPTI_ACTIVITY_KIND_MEMSET;
    s.value = 0xab;
    s.bytes = 512;
    s.start = T0 + 25;
    s.end = T0 + 29;
    s.correlationId = 9;
    s.memoryKind = 3;
    add(&s, sizeof(s));
    cr_assert_eq(hm_cupti_parse(&reader, buffer, used), 3);
    const struct hm_ev_copy *a = &double_nth(HM_EV_MEMCPY, 0)->u.copy;
    cr_assert(a->bytes == 1 << 20 && a->copy == 1 && a->src == 2 && a->dst == 3 && a->async == 1);
    cr_assert(a->correlation == 7 && a->src_device == 3 && a->dst_device == 3 && a->n_copies == 4);
    const struct hm_ev_copy *b = &double_nth(HM_EV_MEMCPY, 1)->u.copy;
    cr_assert(b->bytes == 99 && b->copy == 10 && b->correlation == 8 && b->src_device == 1 &&
              b->dst_device == 6);
    const struct hm_ev_set *m = &double_nth(HM_EV_MEMSET, 0)->u.set;
    cr_assert(m->bytes == 512 && m->value == 0xab && m->correlation == 9 && m->memory == 3);
}

Test(cupti, external_id_goes_into_the_call)
{
    CUpti_ActivityExternalCorrelation e =
        external(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2, 901, 50);
    CUpti_ActivityExternalCorrelation other =
        external(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, 111, 50);
    CUpti_ActivityAPI a = api(CUPTI_ACTIVITY_KIND_DRIVER, 652, 50, T0 + 1000);
    CUpti_ActivityAPI b = api(CUPTI_ACTIVITY_KIND_DRIVER, 652, 51, T0 + 9000);
    add(&e, sizeof(e));
    add(&other, sizeof(other));
    add(&a, sizeof(a));
    add(&b, sizeof(b));
    cr_assert_eq(hm_cupti_parse(&reader, buffer, used), 4);
    cr_assert_eq(double_count(HM_EV_API), 2);
    const struct hm_event *ev = double_nth(HM_EV_API, 0);
    cr_assert_eq(ev->u.api.external, 901);
    cr_assert_eq(ev->u.api.correlation, 50);
    cr_assert_eq(ev->u.api.domain, HM_API_DRIVER);
    cr_assert_str_eq(double_text(ev->u.api.name), "cuLaunchKernelEx");
    cr_assert_eq(ev->dur_ns, 3000);
    const struct hm_def_track *track = double_def(HM_DEF_TRACK, ev->track);
    cr_assert_eq(track->type, HM_TRACK_THREAD);
    cr_assert_eq(track->tid, 4711);
    cr_assert_eq(double_nth(HM_EV_API, 1)->u.api.external, 0);
}

Test(cupti, lone_external_id)
{
    CUpti_ActivityExternalCorrelation e = external(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2, 5, 50);
    CUpti_ActivityExternalCorrelation f = external(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2, 6, 51);
    CUpti_ActivityAPI b = api(CUPTI_ACTIVITY_KIND_DRIVER, 652, 60, T0 + 9000);
    add(&e, sizeof(e));
    add(&f, sizeof(f));
    add(&b, sizeof(b));
    hm_cupti_parse(&reader, buffer, used);
    cr_assert_eq(double_count(HM_EV_API), 3);
    uint32_t n = 0;
    for (uint32_t i = 0; i < 3; i++) {
        const struct hm_event *ev = double_nth(HM_EV_API, i);
        if (!(ev->flags & HM_EVF_NO_TIME))
            continue;
        n++;
        cr_assert_eq(ev->u.api.external + 45, ev->u.api.correlation);
    }
    cr_assert_eq(n, 2);
}

/* A runtime launch and the driver launch in it are one launch; alone, each is kept. */
Test(cupti, nested_calls_once)
{
    CUpti_ActivityAPI in = api(CUPTI_ACTIVITY_KIND_DRIVER, 652, 70, T0 + 1000);
    CUpti_ActivityAPI out = api(CUPTI_ACTIVITY_KIND_RUNTIME, 505, 70, T0 + 900);
    CUpti_ActivityAPI alone = api(CUPTI_ACTIVITY_KIND_RUNTIME, 505, 71, T0 + 9000);
    add(&in, sizeof(in));
    add(&out, sizeof(out));
    add(&alone, sizeof(alone));
    hm_cupti_parse(&reader, buffer, used);
    cr_assert_eq(double_count(HM_EV_API), 2);
    cr_assert_eq(double_nth(HM_EV_API, 0)->t_ns, T0 + 1000);
    cr_assert_eq(double_nth(HM_EV_API, 1)->u.api.correlation, 71);
    cr_assert_eq(double_nth(HM_EV_API, 1)->u.api.domain, HM_API_RUNTIME);
}

Test(cupti, times_that_cannot_be)
{
    int64_t second = 1000000000;
    const struct {
        int64_t start, end;
        int bad, open;
    } row[] = {{T0 + 100, T0 + 200, 0, 0},
               {0, 0, 1, 0},
               {T0 + 300, 0, 0, 1}, /* running at a forced flush */
               {T0 + 300, T0 + 200, 1, 0},
               {T0 - 2 * second, T0, 1, 0},
               {T0 + 400, T0 + 400, 0, 0},
               {T0 + 100000 * second, T0 + 100001 * second, 1, 0},
               {-1, -1, 1, 0}};
    uint64_t n_bad = 0;
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
        CUpti_ActivityKernel10 k = kernel("k", (uint32_t)i, row[i].start, row[i].end);
        add(&k, sizeof(k));
        n_bad += (uint64_t)row[i].bad;
    }
    hm_cupti_parse(&reader, buffer, used);
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
        const struct hm_event *ev = double_nth(HM_EV_KERNEL, (uint32_t)i);
        cr_assert_eq(!!(ev->flags & HM_EVF_BAD_TIME), row[i].bad, "row %zu", i);
        cr_assert_eq(ev->dur_ns == HM_DUR_OPEN, row[i].open, "row %zu", i);
        cr_assert(ev->t_ns >= T0 && ev->t_ns <= T0 + second, "row %zu is found near its time", i);
    }
    cr_assert_eq(double_lost(HM_LOST_CUPTI_BAD_TIME), n_bad);
}

Test(cupti, a_buffer_cut_at_every_byte)
{
    CUpti_ActivityKernel10 k = kernel("k", 1, T0 + 1, T0 + 2);
    CUpti_ActivityAPI a = api(CUPTI_ACTIVITY_KIND_DRIVER, 652, 1, T0 + 1);
    add(&k, sizeof(k));
    add(&a, sizeof(a));
    for (size_t cut = 0; cut <= used; cut++) {
        uint8_t *exact = malloc(cut ? cut : 1); /* a checker sees any byte read behind it */
        memcpy(exact, buffer, cut);
        uint64_t before = double_lost(HM_LOST_CUPTI_UNREAD);
        uint32_t n = hm_cupti_parse(&reader, exact, cut);
        uint32_t whole = cut == used ? 2 : cut >= sizeof(k) ? 1 : 0;
        size_t rest = cut - (whole >= 1 ? sizeof(k) : 0) - (whole == 2 ? sizeof(a) : 0);
        cr_assert_eq(n, whole, "cut %zu", cut);
        cr_assert_eq(double_lost(HM_LOST_CUPTI_UNREAD) - before, rest, "cut %zu", cut);
        free(exact);
    }
}

Test(cupti, unknown_kinds)
{
    CUpti_ActivityKernel10 k = kernel("k", 1, T0 + 1, T0 + 2);
    CUpti_ActivityContext3 c;
    memset(&c, 0, sizeof(c));
    c.kind = CUPTI_ACTIVITY_KIND_CONTEXT; /* a known size, no event of ours */
    uint32_t nobody[4] = {61, 0, 0, 0}, far[4] = {0x7fffffff, 0, 0, 0};
    add(&c, sizeof(c));
    add(&k, sizeof(k));
    size_t good = used;
    add(nobody, sizeof(nobody));
    add(&k, sizeof(k));
    cr_assert_eq(hm_cupti_parse(&reader, buffer, used), 2);
    cr_assert_eq(double_count(HM_EV_KERNEL), 1);
    cr_assert_eq(double_lost(HM_LOST_CUPTI_UNREAD), used - good);
    used = 0;
    add(far, sizeof(far));
    cr_assert_eq(hm_cupti_parse(&reader, buffer, used), 0);
}

Test(cupti, overhead_and_synchronisation)
{
    CUpti_ActivityOverhead3 o;
    memset(&o, 0, sizeof(o));
    o.kind = CUPTI_ACTIVITY_KIND_OVERHEAD;
    o.overheadKind = CUPTI_ACTIVITY_OVERHEAD_LAZY_FUNCTION_LOADING;
    o.objectKind = CUPTI_ACTIVITY_OBJECT_THREAD;
    o.objectId.pt.processId = 1;
    o.objectId.pt.threadId = 99;
    o.start = T0 + 1;
    o.end = T0 + 6;
    o.correlationId = 3;
    add(&o, sizeof(o));
    CUpti_ActivitySynchronization2 s;
    memset(&s, 0, sizeof(s));
    s.kind = CUPTI_ACTIVITY_KIND_SYNCHRONIZATION;
    s.type = CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE;
    s.start = T0 + 10;
    s.end = T0 + 40;
    s.correlationId = 12;
    s.contextId = 1;
    s.streamId = 14;
    s.cudaEventId = 5;
    s.cudaEventSyncId = 6;
    s.returnValue = 1;
    CUpti_ActivityKernel10 k = kernel("k", 1, T0 + 1, T0 + 2); /* tells the stream's device */
    add(&k, sizeof(k));
    add(&s, sizeof(s));
    hm_cupti_parse(&reader, buffer, used);
    const struct hm_event *a = double_nth(HM_EV_OVERHEAD, 0);
    cr_assert_eq(a->aux, HM_OVERHEAD_LAZY_FUNCTION);
    cr_assert_eq(a->u.overhead.object, 99);
    cr_assert_eq(a->dur_ns, 5);
    const struct hm_event *b = double_nth(HM_EV_SYNC, 0);
    cr_assert_eq(b->aux, 3);
    cr_assert_eq(b->dur_ns, 30);
    cr_assert_eq(b->u.sync.correlation, 12);
    cr_assert_eq(b->u.sync.event, 5);
    cr_assert_eq(b->u.sync.event_sync, 6);
    cr_assert_eq(b->u.sync.rc, 1);
    cr_assert_eq(b->u.sync.stream_track, double_nth(HM_EV_KERNEL, 0)->track);
}

/* A window from 1 ms to 2 ms of the run. What was launched in it belongs to it, when it ran does
 * not matter; where no call tells, its own start does. */
Test(cupti, windows_are_exact)
{
    const int64_t shift = INT64_C(123456789) - T0; /* of the record's clock to hm_now()'s */
    const int64_t ms = 1000000;
    static const struct {
        uint32_t correlation; /* 0: its call is not seen */
        int64_t call_us, start_us;
        int in;
    } launch[] = {
        {10, 999, 1001, 0},  {11, 999, 1500, 0},  {12, 1000, 1002, 1}, {13, 1999, 2500, 1},
        {14, 2000, 2001, 0}, {15, 2500, 3000, 0}, {0, 0, 999, 0},      {0, 0, 1000, 1},
        {0, 0, 1999, 1},     {0, 0, 2000, 0},
    };
    enum { N = sizeof(launch) / sizeof(launch[0]) };
    reader.to_raw_ns = shift;
    atomic_store(&hm.n_gates, 3);
    double_windows[0][0] = T0 + shift + ms;
    double_windows[0][1] = T0 + shift + 2 * ms;
    uint32_t n_in = 0, n_calls = 0;
    for (unsigned i = 0; i < N; i++) {
        CUpti_ActivityAPI a = api(CUPTI_ACTIVITY_KIND_DRIVER, 652, launch[i].correlation,
                                  T0 + launch[i].call_us * 1000);
        CUpti_ActivityKernel10 k =
            kernel("k", launch[i].correlation ? launch[i].correlation : 100 + i,
                   T0 + launch[i].start_us * 1000, T0 + launch[i].start_us * 1000 + 10);
        if (launch[i].correlation && i % 2)
            add(&a, sizeof(a));
        add(&k, sizeof(k));
        if (launch[i].correlation && !(i % 2)) /* records of a call may come later */
            add(&a, sizeof(a));
        n_in += (uint32_t)launch[i].in;
        n_calls += launch[i].correlation && launch[i].in;
    }
    hm_cupti_parse_calls(&reader, buffer, used);
    cr_assert_eq(hm_cupti_parse(&reader, buffer, used), N + 6);
    for (unsigned i = 0, seen = 0; i < N; i++) {
        if (!launch[i].in)
            continue;
        const struct hm_event *ev = double_nth(HM_EV_KERNEL, seen++);
        cr_assert(ev && ev->t_ns == T0 + launch[i].start_us * 1000, "launch %u", i);
    }
    cr_assert_null(double_nth(HM_EV_KERNEL, n_in));
    cr_assert(double_nth(HM_EV_API, n_calls - 1) && !double_nth(HM_EV_API, n_calls));
}

/* Bytes of any kind must not lead the parser outside its buffer or into a loop. */
Test(cupti, noise)
{
    uint64_t x = 88172645463325252;
    for (int round = 0; round < 20000; round++) {
        size_t n = 0;
        uint8_t *b = malloc(512);
        for (size_t i = 0; i < 512; i++) {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            b[i] = (uint8_t)x;
        }
        for (size_t at = 0; at + 8 <= 512; at += 8) { /* make most kinds known, no name a pointer */
            uint32_t kind = (uint32_t)(b[at] % 48);
            memcpy(b + at, &kind, 4);
            if (kind == HM_CUPTI_KERNEL || kind == HM_CUPTI_DEVICE)
                b[at] = HM_CUPTI_DRIVER;
        }
        n = hm_cupti_parse(&reader, b, x % 513);
        cr_assert_leq(n, 512 / 24);
        free(b);
    }
}

/* Sizes asked of the real library, which answers without a GPU. */
Test(cupti, sizes_learnt_from_the_library)
{
    void *lib = dlopen("libcupti.so.13", RTLD_NOW);
    if (!lib)
        lib = dlopen(HM_TEST_CUPTI, RTLD_NOW);
    if (!lib)
        cr_skip_test("no libcupti.so.13");
    int (*next)(uint8_t *, size_t, void **) = NULL;
    int (*version)(uint32_t *) = NULL;
    *(void **)&next = dlsym(lib, "cuptiActivityGetNextRecord");
    *(void **)&version = dlsym(lib, "cuptiGetVersion");
    uint16_t size[HM_CUPTI_N_KINDS];
    hm_cupti_learn(next, size);
    uint32_t v = 0;
    version(&v);
    if (v != CUPTI_API_VERSION)
        cr_skip_test("another CUPTI than its header");
    cr_assert_eq(size[CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL], sizeof(CUpti_ActivityKernel10));
    cr_assert_eq(size[CUPTI_ACTIVITY_KIND_MEMCPY], sizeof(CUpti_ActivityMemcpy6));
    cr_assert_eq(size[CUPTI_ACTIVITY_KIND_MEMCPY2], sizeof(CUpti_ActivityMemcpyPtoP4));
    cr_assert_eq(size[CUPTI_ACTIVITY_KIND_MEMSET], sizeof(CUpti_ActivityMemset4));
    cr_assert_eq(size[CUPTI_ACTIVITY_KIND_RUNTIME], sizeof(CUpti_ActivityAPI));
    cr_assert_eq(size[CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION],
                 sizeof(CUpti_ActivityExternalCorrelation));
    cr_assert_eq(size[CUPTI_ACTIVITY_KIND_OVERHEAD], sizeof(CUpti_ActivityOverhead3));
    cr_assert_eq(size[63], 0);
}

Test(cupti, clock_policy)
{
    static const struct {
        uint32_t version;
        int ours;
    } row[] = {{13, 0}, {16, 0}, {17, 1}, {23, 1}, {24, 0}, {28, 0}, {130001, 0}, {130100, 1}};
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++)
        cr_assert_eq(hm_cupti_clock_ours(row[i].version), row[i].ours, "%u", row[i].version);
}
