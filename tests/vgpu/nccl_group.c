/* Groups: what a thread enqueues between GroupStart and GroupEnd becomes one plan a communicator.
 *
 * Box: tests/vgpu. Thread: application. The profiler events of a group come in the order NCCL
 * 2.28 sends them: GroupApi start at the first operation, state GroupStartApiStop, API events,
 * state GroupEndApiStart, per plan KernelLaunch start, launch, stop, Group start, Coll and P2p
 * starts, proxy operations appended, stops, Group stop; at last GroupApi stop. An old interface
 * drops the API part. Tasks of a plan are ordered by size, largest first, collectives before P2P.
 */
#include "nccl_inside.h"

#include <cupti_driver_cbid.h>

#include <stdlib.h>
#include <string.h>

struct group {
    int depth;
    ncclResult_t failed;
    struct nccl_task *task;
    size_t n_tasks, cap_tasks;
    nccl_init_job *job;
    size_t n_jobs;
    int mask, told; /* sampled at the group's first operation */
    void *api_event;
};
static _Thread_local struct group g;

enum { API_GROUP_MASK = 0xffff & ~EV_PROXY_CTRL };
enum {
    TASK_CHILDREN = EV_PROXY_OP | EV_PROXY_STEP | EV_KERNEL_CH | EV_NET | EV_PHASE,
    COLL_MASK = EV_COLL | TASK_CHILDREN,
    P2P_MASK = EV_P2P | TASK_CHILDREN,
    GROUP_MASK = EV_GROUP | EV_COLL | EV_P2P | TASK_CHILDREN
};

static int task_asked(const struct nccl_task *t, int mask)
{
    return (mask & (t->func >= FUNC_SEND ? P2P_MASK : COLL_MASK)) != 0;
}

/* ---- launching ---- */

/* Makes stream b wait for what is on stream a now. */
static ncclResult_t follow(cudaStream_t a, cudaStream_t b)
{
    cudaEvent_t e;
    if (a == b)
        return ncclSuccess;
    if (cudaEventCreateWithFlags(&e, cudaEventDisableTiming))
        return ncclUnhandledCudaError;
    int bad = cudaEventRecord(e, a) || cudaStreamWaitEvent(b, e, 0);
    bad |= cudaEventDestroy(e) != 0;
    return bad ? ncclUnhandledCudaError : ncclSuccess;
}

static int by_size(const void *a, const void *b)
{
    const struct nccl_task *x = a, *y = b;
    int p2p = (x->func >= FUNC_SEND) - (y->func >= FUNC_SEND);
    if (p2p)
        return p2p;
    if (x->func < FUNC_SEND && x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return x->call < y->call ? -1 : x->call > y->call;
}

/* Work of which a plugin hears the call and no more: collectives of copy engines, broadcasts of
 * 2.29.2 to 2.31.2, kernels on symmetric memory up to 2.30. */
static int unannounced(const struct nccl_task *t)
{
    if (t->func >= FUNC_SEND)
        return 0;
    if (t->func == FUNC_ALL_GATHER && nccl_with("copy-engine"))
        return 1;
    if (t->func == FUNC_BROADCAST && nccl_release() >= 22902 && nccl_release() <= 23102)
        return 1;
    return nccl_with("symmetric") && nccl_release() >= 22700 && nccl_release() < 23100;
}

static int all_unannounced(const struct nccl_plan *p)
{
    for (size_t i = 0; i < p->n_tasks; i++)
        if (!p->task[i].hidden)
            return 0;
    return 1;
}

static void tell_tasks(struct nccl_plan *p)
{
    for (size_t i = 0; i < p->n_tasks; i++)
        if (p->task[i].func == FUNC_ALL_GATHER && nccl_with("copy-engine"))
            nccl_ev_ce(&p->task[i]);
    if (!(p->mask & GROUP_MASK) || all_unannounced(p)) {
        nccl_proxy_append(p);
        return;
    }
    /* 2.26 and 2.27 announce operations under a group only */
    if (nccl_release() < 22600 || nccl_release() >= 22800 || p->mask & EV_GROUP)
        p->group_event = nccl_ev_group(p->comm);
    int orphan = nccl_release() >= 22600 && nccl_release() < 22800 && !p->group_event;
    for (size_t i = 0; i < p->n_tasks; i++) {
        struct nccl_task *t = &p->task[i];
        int self = t->func >= FUNC_SEND && t->root == p->comm->rank;
        if (task_asked(t, p->mask) && !self && !orphan && !t->hidden)
            t->event = nccl_ev_task(t, p->group_event);
    }
    nccl_proxy_append(p);
    for (size_t i = 0; i < p->n_tasks; i++)
        nccl_ev_stop(p->task[i].event);
    nccl_ev_stop(p->group_event);
    if (nccl_with("stale")) { /* handles are not cleared after their stop */
        nccl_ev_stop(p->group_event);
        for (size_t i = 0; i < p->n_tasks; i++)
            nccl_ev_stop(p->task[i].event);
    }
}

static ncclResult_t launch(struct nccl_plan *p)
{
    cudaStream_t stream = p->task[0].stream;
    ncclResult_t rc = ncclSuccess;
    char name[160];
    struct vgpu_op op = {.domain = 1,
                         .cbid = CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx,
                         .run = nccl_plan_run,
                         .done = nccl_plan_done,
                         .arg = p};
    nccl_plan_kernel(p, &op, name, sizeof name);
    for (size_t i = 1; i < p->n_tasks && !rc; i++)
        rc = follow(p->task[i].stream, stream);
    void *event = NULL;
    if (p->mask & EV_LAUNCH && !all_unannounced(p))
        event = nccl_ev_launch(p->comm, g.api_event, stream);
    if (!rc && vgpu_launch((struct vgpu_stream *)(void *)stream, &op))
        rc = ncclUnhandledCudaError;
    nccl_ev_stop(event);
    if (rc) {
        pthread_mutex_lock(&p->comm->lock);
        p->comm->n_plans--; /* never ran */
        pthread_mutex_unlock(&p->comm->lock);
        nccl_plan_drop(p);
        nccl_plan_drop(p);
        return rc;
    }
    tell_tasks(p);
    for (size_t i = 1; i < p->n_tasks && !rc; i++)
        rc = follow(stream, p->task[i].stream);
    nccl_plan_drop(p);
    return rc;
}

/* Takes the tasks of the first task's communicator out of the group into a plan. */
static struct nccl_plan *make_plan(void)
{
    struct nccl_plan *p = calloc(1, sizeof *p);
    if (!p || !(p->task = calloc(g.n_tasks, sizeof *p->task)))
        abort();
    size_t left = 0;
    ncclComm_t c = g.task[0].comm;
    for (size_t i = 0; i < g.n_tasks; i++) {
        if (g.task[i].comm == c)
            p->task[p->n_tasks++] = g.task[i];
        else
            g.task[left++] = g.task[i];
    }
    g.n_tasks = left;
    cudaStream_t first = p->task[0].stream;
    qsort(p->task, p->n_tasks, sizeof *p->task, by_size);
    for (size_t i = 0; i < p->n_tasks; i++) /* the launch goes to the first call's stream */
        if (p->task[i].stream == first) {
            cudaStream_t s = p->task[0].stream;
            p->task[0].stream = first;
            p->task[i].stream = s;
            break;
        }
    p->comm = c;
    p->mask = g.mask;
    atomic_init(&p->refs, 2); /* the stream's and ours */
    pthread_mutex_lock(&c->lock);
    p->index = c->n_plans++;
    for (size_t i = 0; i < p->n_tasks; i++) {
        p->task[i].seq = c->seq[p->task[i].func]++;
        p->task[i].hidden = (uint8_t)unannounced(&p->task[i]);
    }
    pthread_mutex_unlock(&c->lock);
    return p;
}

static ncclResult_t run_jobs(void)
{
    ncclResult_t rc = ncclSuccess;
    for (size_t i = 0; i < g.n_jobs; i++)
        if (pthread_create(&g.job[i].thread, NULL, nccl_init_thread, &g.job[i]))
            abort();
    for (size_t i = 0; i < g.n_jobs; i++) {
        pthread_join(g.job[i].thread, NULL);
        if (g.job[i].result)
            rc = g.job[i].result;
    }
    free(g.job);
    g.job = NULL;
    g.n_jobs = 0;
    return rc;
}

static ncclResult_t group_end(void)
{
    if (g.depth <= 0)
        return nccl_fail(NULL, ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
    if (--g.depth > 0)
        return ncclSuccess;
    nccl_ev_state(g.api_event, ST_GROUP_END_API_START, NULL);
    ncclResult_t rc = g.failed;
    if (g.n_jobs && !rc)
        rc = run_jobs();
    while (g.n_tasks && !rc)
        rc = launch(make_plan());
    nccl_ev_stop(g.api_event);
    free(g.task);
    free(g.job);
    memset(&g, 0, sizeof g);
    return rc;
}

ncclResult_t pncclGroupStart(void); /* nccl.h declares them without a prototype */
ncclResult_t pncclGroupEnd(void);

NCCL_API(ncclResult_t, ncclGroupStart, void)
{
    g.depth++;
    return ncclSuccess;
}

NCCL_API(ncclResult_t, ncclGroupEnd, void)
{
    return group_end();
}

/* ---- enqueueing ---- */

static void tell_api(struct nccl_task *t)
{
    if (!g.told) { /* the mask counts as it stands at the group's first operation */
        g.told = 1;
        g.mask = nccl_profiler_mask();
        if (g.mask & API_GROUP_MASK) {
            g.api_event = nccl_ev_group_api(t->comm, g.depth);
            nccl_ev_state(g.api_event, ST_GROUP_START_API_STOP, NULL);
        }
    }
    int bit = t->func >= FUNC_SEND ? EV_P2P_API : EV_COLL_API;
    if ((g.mask & bit) || task_asked(t, g.mask)) {
        t->api_event = nccl_ev_api(t, g.api_event);
        nccl_ev_stop(t->api_event);
    }
}

static ncclResult_t append(struct nccl_task *t)
{
    ncclComm_t c = t->comm;
    if (t->count == 0)
        return ncclSuccess;
    nccl_task_model(t);
    if (c->n_ranks == 1 && t->func < FUNC_SEND) { /* a copy, no kernel, no event */
        if (t->send == t->recv)
            return ncclSuccess;
        cudaError_t e =
            cudaMemcpyAsync(t->recv, t->send, t->bytes, cudaMemcpyDeviceToDevice, t->stream);
        return e ? ncclUnhandledCudaError : ncclSuccess;
    }
    if (g.n_tasks == g.cap_tasks) {
        size_t cap = g.cap_tasks ? 2 * g.cap_tasks : 8;
        struct nccl_task *more = realloc(g.task, cap * sizeof *more);
        if (!more)
            return ncclSystemError;
        g.task = more;
        g.cap_tasks = cap;
    }
    pthread_mutex_lock(&c->lock);
    t->call = c->n_calls++;
    pthread_mutex_unlock(&c->lock);
    if (t->func < FUNC_SEND || t->root != c->rank)
        tell_api(t);
    g.task[g.n_tasks++] = *t;
    return ncclSuccess;
}

static ncclResult_t check(const struct nccl_task *t)
{
    ncclComm_t c = t->comm;
    if (!nccl_comm_ok(c))
        return nccl_fail(NULL, ncclInvalidArgument, "not a communicator");
    int error = atomic_load(&c->error);
    if (error)
        return (ncclResult_t)error;
    if (c->finalized)
        return nccl_fail(c, ncclInvalidUsage, "communicator is finalized");
    if (!nccl_type_bytes(t->dtype))
        return nccl_fail(c, ncclInvalidArgument, "unknown data type %d", (int)t->dtype);
    if (t->root < 0 || t->root >= c->n_ranks)
        return nccl_fail(c, ncclInvalidArgument, "root or peer %d of %d", t->root, c->n_ranks);
    int reduces =
        t->func == FUNC_ALL_REDUCE || t->func == FUNC_REDUCE || t->func == FUNC_REDUCE_SCATTER;
    if (reduces && !nccl_can_reduce(t->dtype, t->op))
        return nccl_fail(c, ncclInvalidArgument, "operation %d on data type %d not supported",
                         (int)t->op, (int)t->dtype);
    int needs_send = t->func != FUNC_RECV && (t->func != FUNC_BROADCAST || t->root == c->rank);
    int needs_recv = t->func != FUNC_SEND && (t->func != FUNC_REDUCE || t->root == c->rank);
    if (t->count && ((needs_send && !t->send) || (needs_recv && !t->recv)))
        return nccl_fail(c, ncclInvalidArgument, "NULL buffer");
    return ncclSuccess;
}

ncclResult_t nccl_submit(struct nccl_task *t)
{
    g.depth++;
    ncclResult_t rc = check(t);
    if (!rc)
        rc = append(t);
    if (rc && !g.failed)
        g.failed = rc;
    ncclResult_t end = group_end();
    return rc ? rc : end;
}

ncclResult_t nccl_submit_init(const nccl_init_job *job)
{
    g.depth++;
    nccl_init_job *more = realloc(g.job, (g.n_jobs + 1) * sizeof *more);
    if (!more)
        abort();
    g.job = more;
    g.job[g.n_jobs++] = *job;
    return group_end();
}
