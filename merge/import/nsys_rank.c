/* One process of an Nsight Systems export -> one rank file: its kernels, copies, CUDA calls, waits
 * of the host, NVTX ranges and marks; steps where NVTX ranges tell them.
 *
 * Box: merge/import. One thread. Tables and columns: schema 3.25 of nsys 2026.2 (`nsys export`);
 * older exports lack columns, which read as unknown. Collectives come without communicator: join
 * matches their kernels by order on the stream.
 */
#include "import/nsys.h"
#include "import/rankout.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FAMILIES = 64, FAMILY_BYTES = 64 };
enum { NVTX_MARK = 34, NVTX_PUSH_POP = 59, NVTX_START_END = 60, NVTX_T_PUSH_POP = 70 };

struct family { /* NVTX ranges that differ by their number alone: "train step 17" */
    char name[FAMILY_BYTES];
    int64_t tid, n, ns;
    int numbered;
};
struct out {
    const struct hm_nsys_process *p;
    struct hm_rankout *r;
    uint64_t devices; /* bit d: something ran on device d */
    struct family family[MAX_FAMILIES];
    uint32_t n_families, step; /* step: the family that marks the steps, MAX_FAMILIES none */
    int64_t n_steps;
};

static int mine(const struct out *o, int64_t global)
{
    return o->p->id == HM_NSYS_NONE || hm_nsys_process_of(global) == o->p->id;
}

static int64_t at_least_0(int64_t v)
{
    return v > 0 ? v : 0;
}

/* Columns 0 to 5 of every GPU table. */
#define GPU_COLUMNS "start end globalPid deviceId contextId streamId correlationId "

static int times_of(struct out *o, const struct hm_nsys_row *row, struct hm_event *e)
{
    *e = (struct hm_event){.flags = HM_CLOCK_FILE};
    if (!mine(o, hm_nsys_int(row, 2)))
        return 0;
    if (!hm_nsys_time(o->p->file, hm_nsys_int(row, 0), hm_nsys_int(row, 1), &e->t_ns, &e->dur_ns)) {
        o->r->lost[HM_LOST_CUPTI_BAD_TIME]++;
        return 0;
    }
    return 1;
}

static int gpu_event(struct out *o, const struct hm_nsys_row *row, struct hm_event *e)
{
    uint32_t device = hm_id32(hm_nsys_int(row, 3), 0);
    if (!times_of(o, row, e))
        return 0;
    if (device < 64)
        o->devices |= UINT64_C(1) << device;
    e->track = hm_rankout_stream(o->r, device, hm_id32(hm_nsys_int(row, 4), 0),
                                 hm_id32(hm_nsys_int(row, 5), 0));
    return 1;
}

static uint16_t u16(int64_t v)
{
    return v < 0 || v > UINT16_MAX ? 0 : (uint16_t)v;
}

static hm_status_t put_kernel(void *ctx, const struct hm_nsys_row *row)
{
    struct out *o = ctx;
    struct hm_event e;
    if (!gpu_event(o, row, &e))
        return HM_OK;
    const char *name = "";
    for (int c = 7; c < 10 && !*name; c++)
        name = hm_nsys_string(o->p->file, hm_nsys_int(row, c));
    struct hm_def_kernel def = {.name = hm_rankout_text(o->r, name),
                                .registers = u16(hm_nsys_int(row, 10)),
                                .shared_static = hm_id32(hm_nsys_int(row, 17), 0),
                                .shared_dynamic = hm_id32(hm_nsys_int(row, 18), 0)};
    for (int i = 0; i < 3; i++) {
        e.u.kernel.grid[i] = hm_id32(hm_nsys_int(row, 11 + i), 0);
        def.block[i] = u16(hm_nsys_int(row, 14 + i));
    }
    e.kind = HM_EV_KERNEL;
    e.u.kernel.kernel = hm_rankout_define(o->r, HM_DEF_KERNEL, &def, sizeof(def));
    e.u.kernel.correlation = hm_id32(hm_nsys_int(row, 6), 0);
    e.u.kernel.graph = hm_id32(hm_nsys_int(row, 19), 0);
    e.u.kernel.graph_node = (uint64_t)at_least_0(hm_nsys_int(row, 20));
    return hm_rankout_push(o->r, &e);
}

static hm_status_t put_copy(void *ctx, const struct hm_nsys_row *row)
{
    struct out *o = ctx;
    struct hm_event e;
    if (!gpu_event(o, row, &e))
        return HM_OK;
    e.kind = HM_EV_MEMCPY;
    e.u.copy.correlation = hm_id32(hm_nsys_int(row, 6), 0);
    e.u.copy.bytes = (uint64_t)at_least_0(hm_nsys_int(row, 7));
    int64_t copy = hm_nsys_int(row, 8), src = hm_nsys_int(row, 9), dst = hm_nsys_int(row, 10);
    e.u.copy.copy = copy > 0 && copy <= 10 ? (uint8_t)copy : 0;
    /* nsys counts kinds of memory from 0 = pageable, CUPTI from 1 */
    e.u.copy.src = src >= 0 && src < 7 ? (uint8_t)(src + 1) : 0;
    e.u.copy.dst = dst >= 0 && dst < 7 ? (uint8_t)(dst + 1) : 0;
    int64_t device = hm_nsys_int(row, 3);
    e.u.copy.src_device = u16(hm_nsys_int(row, 11) >= 0 ? hm_nsys_int(row, 11) : device);
    e.u.copy.dst_device = u16(hm_nsys_int(row, 12) >= 0 ? hm_nsys_int(row, 12) : device);
    e.u.copy.n_copies = hm_id32(hm_nsys_int(row, 13), 0);
    e.u.copy.graph_node = (uint64_t)at_least_0(hm_nsys_int(row, 14));
    return hm_rankout_push(o->r, &e);
}

static hm_status_t put_set(void *ctx, const struct hm_nsys_row *row)
{
    struct out *o = ctx;
    struct hm_event e;
    if (!gpu_event(o, row, &e))
        return HM_OK;
    e.kind = HM_EV_MEMSET;
    e.u.set.correlation = hm_id32(hm_nsys_int(row, 6), 0);
    e.u.set.bytes = (uint64_t)at_least_0(hm_nsys_int(row, 7));
    e.u.set.value = hm_id32(hm_nsys_int(row, 8), 0);
    e.u.set.graph_node = (uint64_t)at_least_0(hm_nsys_int(row, 9));
    return hm_rankout_push(o->r, &e);
}

/* A wait tells device 0 where it means none: only a device that worked has streams. */
static uint32_t stream_of_sync(struct out *o, const struct hm_nsys_row *row)
{
    int64_t device = hm_nsys_int(row, 3), stream = hm_nsys_int(row, 5);
    if (device < 0 || device > 63 || !(o->devices >> device & 1) || stream < 0 ||
        stream >= UINT32_MAX)
        return HM_NO_ID;
    return hm_rankout_stream(o->r, (uint32_t)device, hm_id32(hm_nsys_int(row, 4), 0),
                             (uint32_t)stream);
}

static hm_status_t put_sync(void *ctx, const struct hm_nsys_row *row)
{
    struct out *o = ctx;
    struct hm_event e;
    if (!times_of(o, row, &e))
        return HM_OK;
    int64_t type = hm_nsys_int(row, 7);
    e.kind = HM_EV_SYNC;
    e.aux = type > 0 && type <= 4 ? (uint16_t)type : 0;
    e.u.sync.stream_track = stream_of_sync(o, row);
    e.track = HM_NO_ID; /* the thread is not told */
    e.u.sync.correlation = hm_id32(hm_nsys_int(row, 6), 0);
    e.u.sync.event = hm_id32(hm_nsys_int(row, 8), 0);
    return hm_rankout_push(o->r, &e);
}

static int host_event(struct out *o, int64_t start, int64_t end, int64_t global_tid,
                      struct hm_event *e)
{
    *e = (struct hm_event){.flags = HM_CLOCK_FILE};
    if (!mine(o, global_tid))
        return 0;
    if (!hm_nsys_time(o->p->file, start, end, &e->t_ns, &e->dur_ns)) {
        o->r->lost[HM_LOST_CUPTI_BAD_TIME]++;
        return 0;
    }
    e->track = hm_rankout_thread(o->r, (uint32_t)(global_tid & 0xffffff), NULL);
    return 1;
}

/* "cudaLaunchKernel_v7000" -> "cudaLaunchKernel": as CUPTI and torch.profiler name it. */
static void plain_name(const char *name, char out[128])
{
    snprintf(out, 128, "%s", name);
    char *v = strrchr(out, '_');
    if (v && v[1] == 'v' && strlen(v) >= 6 && strspn(v + 2, "0123456789") == strlen(v + 2))
        *v = 0;
}

static hm_status_t put_api(void *ctx, const struct hm_nsys_row *row)
{
    struct out *o = ctx;
    struct hm_event e;
    char name[128];
    if (!host_event(o, hm_nsys_int(row, 0), hm_nsys_int(row, 1), hm_nsys_int(row, 2), &e))
        return HM_OK;
    plain_name(hm_nsys_string(o->p->file, hm_nsys_int(row, 4)), name);
    e.kind = HM_EV_API;
    e.u.api.correlation = hm_id32(hm_nsys_int(row, 3), 0);
    e.u.api.name = hm_rankout_text(o->r, name);
    e.u.api.domain = strncmp(name, "cuda", 4) ? HM_API_DRIVER : HM_API_RUNTIME;
    int64_t rc = hm_nsys_int(row, 5);
    e.u.api.rc = rc > INT32_MIN && rc <= INT32_MAX ? (int32_t)rc : 0;
    return hm_rankout_push(o->r, &e);
}

/* ---- NVTX ---- */

#define NVTX_COLUMNS "start end eventType globalTid text textId domainId category color"

static const char *nvtx_text(const struct out *o, const struct hm_nsys_row *row)
{
    const char *text = hm_nsys_text(row, 4);
    return *text ? text : hm_nsys_string(o->p->file, hm_nsys_int(row, 5));
}

static int is_range(int64_t type)
{
    return type == NVTX_PUSH_POP || type == NVTX_START_END || type == NVTX_T_PUSH_POP;
}

/* Name without its number; 1 when it ends in a word that people call a step by. */
static int is_step_name(const char *text, char family[FAMILY_BYTES], int64_t *number_p)
{
    static const char *const word[] = {"step", "iteration", "iter", "batch"};
    size_t n = strlen(text), end = n;
    while (n && isdigit((unsigned char)text[n - 1]))
        n--;
    *number_p = end > n && end - n <= 18 ? strtoll(text + n, NULL, 10) : -1;
    while (n && strchr(" _-#:=.", text[n - 1]))
        n--;
    if (!n || n >= FAMILY_BYTES)
        return 0;
    for (size_t i = 0; i < n; i++)
        family[i] = (char)tolower((unsigned char)text[i]);
    family[n] = 0;
    for (size_t i = 0; i < sizeof(word) / sizeof(*word); i++) {
        size_t k = strlen(word[i]);
        if (n >= k && !strcmp(family + n - k, word[i]))
            return 1;
    }
    return 0;
}

static struct family *family_of(struct out *o, const char *name, int64_t tid, int numbered)
{
    for (uint32_t i = 0; i < o->n_families; i++)
        if (o->family[i].tid == tid && o->family[i].numbered == numbered &&
            !strcmp(o->family[i].name, name))
            return &o->family[i];
    if (o->n_families == MAX_FAMILIES)
        return NULL;
    struct family *f = &o->family[o->n_families++];
    *f = (struct family){.tid = tid, .numbered = numbered};
    snprintf(f->name, sizeof(f->name), "%s", name);
    return f;
}

static hm_status_t count_step(void *ctx, const struct hm_nsys_row *row)
{
    struct out *o = ctx;
    char name[FAMILY_BYTES];
    int64_t number, t, dur, tid = hm_nsys_int(row, 3);
    if (!is_range(hm_nsys_int(row, 2)) || !mine(o, tid) ||
        !is_step_name(nvtx_text(o, row), name, &number) ||
        !hm_nsys_time(o->p->file, hm_nsys_int(row, 0), hm_nsys_int(row, 1), &t, &dur))
        return HM_OK;
    struct family *f = family_of(o, name, tid, number >= 0);
    if (f && dur <= INT64_MAX - f->ns) {
        f->n++;
        f->ns += dur;
    }
    return HM_OK;
}

/* Of several families the one that covers most: "step" rather than the "micro batch" inside it. */
static void choose_steps(struct out *o)
{
    o->step = MAX_FAMILIES;
    for (uint32_t i = 0; i < o->n_families; i++)
        if (o->family[i].n > 1 &&
            (o->step == MAX_FAMILIES || o->family[i].ns > o->family[o->step].ns))
            o->step = i;
}

static hm_status_t put_step(struct out *o, const struct hm_event *e, int64_t step)
{
    struct hm_event mark = {.t_ns = e->t_ns,
                            .kind = HM_EV_STEP,
                            .flags = HM_CLOCK_FILE,
                            .aux = HM_STEP_BEGIN,
                            .track = e->track};
    mark.u.step = (struct hm_ev_step){.step = step,
                                      .name = hm_rankout_text(o->r, o->family[o->step].name),
                                      .source = HM_STEP_FROM_RANGE};
    hm_status_t s = hm_rankout_push(o->r, &mark);
    mark.t_ns += e->dur_ns;
    mark.aux = HM_STEP_END;
    return s ? s : hm_rankout_push(o->r, &mark);
}

static hm_status_t put_nvtx(void *ctx, const struct hm_nsys_row *row)
{
    struct out *o = ctx;
    struct hm_event e;
    char name[FAMILY_BYTES], domain[32];
    int64_t number, type = hm_nsys_int(row, 2), start = hm_nsys_int(row, 0);
    int mark = type == NVTX_MARK;
    if (!mark && !is_range(type))
        return HM_OK;
    int64_t end = mark ? start : hm_nsys_int(row, 1);
    if (end == HM_NSYS_NONE) /* open when the capture ended */
        return HM_OK;
    if (!host_event(o, start, end, hm_nsys_int(row, 3), &e))
        return HM_OK;
    const char *text = nvtx_text(o, row);
    if (!mark && o->step < MAX_FAMILIES && is_step_name(text, name, &number)) {
        const struct family *f = &o->family[o->step];
        if (f->tid == hm_nsys_int(row, 3) && f->numbered == (number >= 0) && !strcmp(f->name, name))
            return put_step(o, &e, number >= 0 ? number : o->n_steps++);
    }
    e.kind = mark ? HM_EV_MARK : HM_EV_RANGE;
    e.u.range.name = hm_rankout_text(o->r, text);
    snprintf(domain, sizeof(domain), "nvtx %" PRId64, at_least_0(hm_nsys_int(row, 6)));
    e.u.range.domain = hm_rankout_text(o->r, domain);
    e.u.range.category = hm_id32(hm_nsys_int(row, 7), 0);
    e.u.range.color = (uint32_t)at_least_0(hm_nsys_int(row, 8));
    e.u.range.style = type == NVTX_START_END;
    return hm_rankout_push(o->r, &e);
}

/* ---- the whole ---- */

static hm_status_t put_device(void *ctx, const struct hm_nsys_row *row)
{
    struct out *o = ctx;
    int64_t id = hm_nsys_int(row, 0);
    if (id < 0 || id > UINT16_MAX)
        return HM_OK;
    struct hm_def_device def = {.device = (uint32_t)id,
                                .name = hm_rankout_text(o->r, hm_nsys_text(row, 1)),
                                .memory_bytes = (uint64_t)at_least_0(hm_nsys_int(row, 2)),
                                .n_sm = hm_id32(hm_nsys_int(row, 3), 0),
                                .cc = u16(hm_nsys_int(row, 4)) * 10U + u16(hm_nsys_int(row, 5))};
    hm_rankout_define(o->r, HM_DEF_DEVICE, &def, sizeof(def));
    return HM_OK;
}

hm_status_t hm_nsys_write(const struct hm_nsys_process *p, const struct hm_rank_meta *meta,
                          const char *run)
{
    static const struct {
        const char *table, *columns;
        hm_nsys_visit_t visit;
    } part[] = {
        {"NVTX_EVENTS", NVTX_COLUMNS, count_step}, /* first: which ranges are steps */
        {"CUPTI_ACTIVITY_KIND_KERNEL",
         GPU_COLUMNS "demangledName mangledName shortName registersPerThread gridX gridY gridZ "
                     "blockX blockY blockZ staticSharedMemory dynamicSharedMemory graphId "
                     "graphNodeId",
         put_kernel},
        {"CUPTI_ACTIVITY_KIND_MEMCPY",
         GPU_COLUMNS "bytes copyKind srcKind dstKind srcDeviceId dstDeviceId copyCount graphNodeId",
         put_copy},
        {"CUPTI_ACTIVITY_KIND_MEMSET", GPU_COLUMNS "bytes value graphNodeId", put_set},
        {"CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", GPU_COLUMNS "syncType eventId", put_sync},
        {"CUPTI_ACTIVITY_KIND_RUNTIME", "start end globalTid correlationId nameId returnValue",
         put_api},
        {"NVTX_EVENTS", NVTX_COLUMNS, put_nvtx},
        {"TARGET_INFO_GPU", "id name totalMemory smCount computeMajor computeMinor", put_device}};
    struct out *o = calloc(1, sizeof(*o));
    struct hm_rankout *r = calloc(1, sizeof(*r));
    hm_status_t s =
        o && r ? hm_rankout_begin(r, run, meta) : hm_fail(HM_E_NOMEM, "import", "out of memory");
    if (!s) {
        *o = (struct out){.p = p, .r = r};
        for (size_t i = 0; i < sizeof(part) / sizeof(*part) && !s; i++) {
            s = hm_nsysdb_each(p->file->db, part[i].table, part[i].columns, "start", part[i].visit,
                               o);
            if (i == 0)
                choose_steps(o);
        }
        s = hm_rankout_end(r, s);
    }
    free(o);
    free(r);
    return s;
}
