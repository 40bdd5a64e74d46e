/* One rank of an inspector import -> a rank file.
 *
 * Box: merge/import. One thread. Every member has a launch for every instance of its communicators,
 * so that sequence numbers stay those of the others; the kernel is missing where the record is.
 */
#include "import/inspector.h"
#include "import/rankout.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct out {
    const struct hm_insp *in;
    struct hm_rankout *r;
    uint32_t correlation;
};

static uint32_t kernel_id(struct out *o, uint8_t func)
{
    static const char *const name[HM_NCCL_N_FUNCS] = {[HM_NCCL_ALLREDUCE] = "AllReduce",
                                                      [HM_NCCL_ALLGATHER] = "AllGather",
                                                      [HM_NCCL_REDUCESCATTER] = "ReduceScatter",
                                                      [HM_NCCL_BROADCAST] = "Broadcast",
                                                      [HM_NCCL_REDUCE] = "Reduce",
                                                      [HM_NCCL_ALLTOALL] = "AlltoAll",
                                                      [HM_NCCL_GATHER] = "Gather",
                                                      [HM_NCCL_SCATTER] = "Scatter"};
    char text[128];
    snprintf(text, sizeof(text), "ncclDevKernel_%s (duration told by the inspector)",
             name[func] ? name[func] : "Unknown");
    struct hm_def_kernel def = {.name = hm_rankout_text(o->r, text)};
    return hm_rankout_define(o->r, HM_DEF_KERNEL, &def, sizeof(def));
}

/* The call, its operation and, where it is known, the kernel. */
static hm_status_t put(struct out *o, uint32_t comm, uint32_t stream, uint32_t call,
                       const struct hm_insp_instance *v, const struct hm_insp_record *rec)
{
    uint32_t id = ++o->correlation;
    uint32_t thread = hm_rankout_thread(o->r, 1, "host (not recorded)");
    struct hm_event launch = {.t_ns = v->end_ns - v->longest_ns - 500,
                              .dur_ns = 100,
                              .kind = HM_EV_NCCL_LAUNCH,
                              .flags = HM_CLOCK_FILE,
                              .track = thread};
    struct hm_event api = launch, coll = launch, kernel = launch;
    launch.u.launch = (struct hm_ev_launch){.comm = comm, .launch = id, .n_ops = 1};
    api.kind = HM_EV_API;
    memset(&api.u, 0, sizeof(api.u));
    api.u.api = (struct hm_ev_api){.external = id,
                                   .correlation = id,
                                   .name = hm_rankout_text(o->r, "cudaLaunchKernelExC"),
                                   .domain = HM_API_RUNTIME};
    coll.kind = HM_EV_NCCL_COLL;
    memset(&coll.u, 0, sizeof(coll.u));
    coll.aux = HM_NCCL_AUX(rec ? rec->func : HM_NCCL_UNKNOWN, HM_DTYPE_INT8);
    coll.u.op = (struct hm_ev_op){.count = rec ? rec->bytes : 0,
                                  .comm = comm,
                                  .call = call,
                                  .nccl_seq = (uint32_t)v->sn,
                                  .launch = id,
                                  .peer = -1,
                                  .algo = rec ? rec->algo : 0,
                                  .proto = rec ? rec->proto : 0};
    hm_rankout_push(o->r, &launch);
    hm_rankout_push(o->r, &api);
    hm_status_t s = hm_rankout_push(o->r, &coll);
    if (s || !rec)
        return s;
    kernel.kind = HM_EV_KERNEL;
    kernel.t_ns = v->end_ns - rec->exec_ns;
    kernel.dur_ns = rec->exec_ns;
    kernel.track = hm_rankout_stream(o->r, 0, 1, stream);
    memset(&kernel.u, 0, sizeof(kernel.u));
    kernel.u.kernel.kernel = kernel_id(o, rec->func);
    kernel.u.kernel.correlation = id;
    return hm_rankout_push(o->r, &kernel);
}

static uint64_t first_record(const struct hm_insp *in, uint32_t seat)
{
    uint64_t lo = 0, hi = in->n_records;
    while (lo < hi) {
        uint64_t mid = lo + (hi - lo) / 2;
        if (in->record[mid].seat < seat)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static hm_status_t put_seat(struct out *o, uint32_t i_seat, uint32_t stream)
{
    const struct hm_insp *in = o->in;
    const struct hm_insp_seat *seat = &in->seat[i_seat];
    const struct hm_insp_comm *c = &in->comm[seat->comm];
    struct hm_def_comm def = {.hash = c->key,
                              .crank = seat->crank,
                              .n_ranks = c->n_ranks,
                              .name = hm_rankout_text(o->r, c->name)};
    uint32_t comm = hm_rankout_define(o->r, HM_DEF_COMM, &def, sizeof(def));
    uint64_t at = first_record(in, i_seat);
    hm_status_t s = HM_OK;
    for (uint32_t i = 0; i < c->n && !s; i++) {
        const struct hm_insp_instance *v = &in->instance[c->first + i];
        const struct hm_insp_record *rec = NULL;
        if (at < in->n_records && in->record[at].seat == i_seat && in->record[at].sn == v->sn)
            rec = &in->record[at++];
        s = put(o, comm, stream, i, v, rec);
    }
    return s;
}

hm_status_t hm_insp_write(const struct hm_insp *in, uint32_t i_rank, const char *run)
{
    const struct hm_insp_rank *rank = &in->rank[i_rank];
    const struct hm_insp_process *p = &in->process[rank->process];
    int64_t start = in->n_instances ? in->instance[0].end_ns - in->instance[0].longest_ns : 0;
    struct hm_rank_meta meta = {.rank = rank->rank,
                                .n_ranks = in->n_ranks,
                                .local_rank = -1,
                                .pid = p->pid > 0 && p->pid <= INT32_MAX ? (int32_t)p->pid : -1,
                                .nonce = (uint64_t)in->stamp_us,
                                .source = HM_SOURCE_INSPECTOR,
                                .leader_index = HM_NO_ID,
                                .start_raw_ns = start,
                                .start_real_ns = start};
    snprintf(meta.host, sizeof(meta.host), "%s", *p->host ? p->host : "host");
    snprintf(meta.boot_id, sizeof(meta.boot_id), "inspector"); /* one made-up clock for all */
    snprintf(meta.run_id, sizeof(meta.run_id), "inspector-%" PRId64, in->stamp_us);
    snprintf(meta.program, sizeof(meta.program), "NCCL inspector");
    struct hm_rankout *r = calloc(1, sizeof(*r));
    hm_status_t s =
        r ? hm_rankout_begin(r, run, &meta) : hm_fail(HM_E_NOMEM, "import", "out of memory");
    if (!s) {
        struct out o = {.in = in, .r = r};
        uint32_t stream = 0;
        for (uint32_t i = 0; i < in->n_seats && !s; i++)
            if (in->seat[i].rank_file == i_rank)
                s = put_seat(&o, i, ++stream);
        if (!i_rank) /* counted once for the job */
            r->lost[HM_LOST_NCCL_EVICTED] += in->n_dropped;
        s = hm_rankout_end(r, s);
    }
    free(r);
    return s;
}
