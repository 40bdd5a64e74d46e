/* The tables that only describe: steps, ranks, ledger, collectives, kernels.
 *
 * Box: lib/analysis. Pure. Source: facts on analysis 2.3, 2.4; nccl-tests' bus bandwidth.
 */
#include "analysis/judge_inside.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_STEPS = 2048, MAX_OPS = 4096, MAX_KERNELS = 200 };

static hm_status_t no_memory(void)
{
    return hm_fail(HM_E_NOMEM, "judge", "out of memory");
}

static int64_t ppb(int64_t part, int64_t whole)
{
    return whole > 0 ? (int64_t)llround((double)part / (double)whole * 1e9)
                     : HM_NONE(HM_NONE_NO_STEPS);
}

static hm_status_t steps_table(struct hm_judge *j, struct hm_result *r)
{
    struct hm_out_steps *s = hm_result_add(r, HM_T_steps);
    int64_t *v = malloc((j->n_steps + 1) * sizeof(*v));
    if (!s || !v) {
        free(v);
        return no_memory();
    }
    s->n = (int64_t)j->n_steps;
    s->n_skipped =
        j->n_skipped > j->in.n_skipped ? (int64_t)j->n_skipped : (int64_t)j->in.n_skipped;
    s->source = strdup(j->in.step_source ? j->in.step_source : "none");
    s->median_ns = s->mean_ns = HM_NONE(HM_NONE_NO_STEPS);
    s->total_ns = j->total_ns;
    for (size_t i = 0; i < j->n_steps; i++)
        v[i] = j->step[i].time_ns;
    if (j->n_steps) {
        s->median_ns = hm_median(v, j->n_steps);
        s->mean_ns = j->total_ns / (int64_t)j->n_steps;
    }
    free(v);
    for (size_t i = 0; i < j->n_steps && i < MAX_STEPS; i++) {
        struct hm_out_step *t = hm_result_add(r, HM_T_step);
        if (!t)
            return no_memory();
        const struct hm_jstep *q = &j->step[i];
        t->step = q->step;
        t->time_ns = q->time_ns;
        t->compute_ns = q->compute_ns;
        t->exposed_comm_ns = q->exposed_ns;
        t->stall_ns = q->stall_ns;
        t->last_rank = q->last_worker == HM_NO_ID ? HM_NONE(HM_NONE_BELOW_CLOCK)
                                                  : j->in.run->worker[q->last_worker].rank;
        t->late_ns = q->late_ns;
    }
    return HM_OK;
}

static void idle_columns(struct hm_out_rank *t, const struct hm_step_part *sum)
{
    const int64_t *by = sum->idle_by_ns;
    int64_t told = 0;
    for (int i = 0; i < HM_IDLE_N; i++)
        told += by[i];
    t->peak_bytes = sum->peak_bytes;
    t->alloc_ns = sum->alloc_ns;
    t->module_ns = sum->module_ns;
    t->blocked_ns = sum->blocked_ns;
    t->checkpoint_ns = sum->checkpoint_ns;
    t->idle_input_ns = by[HM_IDLE_INPUT];
    t->idle_checkpoint_ns = by[HM_IDLE_CHECKPOINT];
    t->idle_serial_ns = by[HM_IDLE_SERIAL];
    t->idle_alloc_ns = by[HM_IDLE_ALLOC];
    t->idle_module_ns = by[HM_IDLE_MODULE];
    t->idle_sync_ns = by[HM_IDLE_SYNC];
    t->idle_blocked_ns = by[HM_IDLE_BLOCKED];
    t->idle_observer_ns = by[HM_IDLE_OBSERVER];
    t->idle_host_ns = by[HM_IDLE_HOST];
    t->idle_queue_ns = by[HM_IDLE_QUEUE];
    t->idle_unexplained_ns = sum->idle_ns - told;
}

static hm_status_t rank_table(struct hm_judge *j, struct hm_result *r)
{
    for (uint32_t w = 0; w < j->n_workers; w++) {
        struct hm_out_rank *t = hm_result_add(r, HM_T_rank);
        if (!t)
            return no_memory();
        const struct hm_jworker *q = &j->worker[w];
        t->rank = j->in.run->worker[w].rank;
        t->host = strdup(hm_judge_host(j, w));
        t->device = j->in.run->worker[w].device == HM_NO_ID ? HM_NONE(HM_NONE_NOT_RECORDED)
                                                            : j->in.run->worker[w].device;
        t->window_ns = q->sum.t1_ns;
        t->compute_ns = q->sum.compute_ns;
        t->comm_ns = q->sum.comm_ns;
        t->overlap_ns = q->sum.overlap_ns;
        t->exposed_comm_ns = q->sum.comm_ns - q->sum.overlap_ns;
        t->wait_ns = q->wait_ns;
        t->transfer_ns = q->transfer_ns;
        t->memcpy_ns = q->sum.memcpy_ns;
        t->idle_ns = q->sum.idle_ns;
        t->stall_ns = q->sum.stall_ns;
        t->input_ns = q->sum.input_ns;
        t->host_sync_ns = q->sum.host_sync_ns;
        idle_columns(t, &q->sum);
        t->last_arrivals = q->last_arrivals;
        t->wait_caused_ns = q->caused_ns;
        t->wait_caused_indirect_ns = q->indirect_ns;
        t->late_ns = q->late_ns;
        t->last_in_steps = q->last_in_steps;
        t->gain_ns = q->gain_ns;
        t->role = strdup(j->roles.of[j->roles.role[w]].label);
        t->world = j->roles.world[w];
        t->critical_ns = q->critical_ns;
    }
    return HM_OK;
}

struct op_sort {
    uint64_t comm;
    uint32_t func, launch;
};

static int by_op(const void *x, const void *y)
{
    const struct op_sort *p = x, *q = y;
    if (p->comm != q->comm)
        return p->comm < q->comm ? -1 : 1;
    if (p->func != q->func)
        return p->func < q->func ? -1 : 1;
    return (p->launch > q->launch) - (p->launch < q->launch);
}

const char *hm_nccl_func_name(unsigned func)
{
    static const char *const name[HM_NCCL_N_FUNCS] = {
        "Unknown", "AllReduce", "AllGather", "ReduceScatter", "Broadcast",
        "Reduce",  "Send",      "Recv",      "SendRecv",      "AlltoAll",
        "Gather",  "Scatter",   "PutSignal", "Signal",        "WaitSignal"};
    return func < HM_NCCL_N_FUNCS ? name[func] : name[0];
}

static double bus_factor(unsigned func, double n)
{
    switch (func) {
    case HM_NCCL_ALLREDUCE:
        return 2 * (n - 1) / n;
    case HM_NCCL_ALLGATHER:
    case HM_NCCL_REDUCESCATTER:
    case HM_NCCL_ALLTOALL:
    case HM_NCCL_GATHER:
    case HM_NCCL_SCATTER:
        return (n - 1) / n;
    default:
        return 1;
    }
}

static hm_status_t op_row(struct hm_judge *j, struct hm_result *r, const struct op_sort *v,
                          size_t n, int64_t *tmp)
{
    struct hm_out_op *t = hm_result_add(r, HM_T_op);
    if (!t)
        return no_memory();
    t->comm = v[0].comm;
    const char *inferred = j->use[j->launch[v[0].launch].i_use].inferred;
    t->func = inferred ? hm_text("inferred: %s", inferred) : strdup(hm_nccl_func_name(v[0].func));
    const struct hm_comm_use *u = &j->use[j->launch[v[0].launch].i_use];
    const char *dim = hm_dim_name((enum hm_dim)u->dim);
    t->dim = dim ? strdup(dim) : NULL;
    t->dim_from = dim ? strdup(u->dim_from) : NULL;
    t->n_ranks = j->launch[v[0].launch].n_members;
    t->n = (int64_t)n;
    t->wait_ns = 0;
    for (size_t i = 0; i < n; i++)
        tmp[i] = (int64_t)j->launch[v[i].launch].bytes;
    t->bytes = hm_median(tmp, n);
    for (size_t i = 0; i < n; i++) {
        const struct hm_jlaunch *l = &j->launch[v[i].launch];
        tmp[i] = l->last_ns - l->first_ns;
        for (uint32_t k = 0; k < l->n_parts; k++)
            t->wait_ns += j->part[l->first_part + k].wait_ns;
    }
    t->skew_p50_ns = hm_median(tmp, n);
    t->skew_max_ns = tmp[n - 1];
    for (size_t i = 0; i < n; i++) {
        const struct hm_jlaunch *l = &j->launch[v[i].launch];
        tmp[i] = l->end1_ns > l->last_ns ? l->end1_ns - l->last_ns : 0;
    }
    t->core_p50_ns = hm_median(tmp, n);
    size_t m = 0;
    for (size_t i = 0; i < n; i++) {
        const struct hm_jlaunch *l = &j->launch[v[i].launch];
        int64_t time = l->end2_ns - l->last_ns;
        if (l->bytes >= 8192 && time > 0 && l->u_ns < time / 10)
            tmp[m++] = (int64_t)(bus_factor(l->func, l->n_members) * (double)l->bytes /
                                 (double)time * 1e9);
    }
    t->busbw_bps = m ? hm_median(tmp, m) : HM_NONE(HM_NONE_UNKNOWN);
    return HM_OK;
}

static hm_status_t op_table(struct hm_judge *j, struct hm_result *r)
{
    struct op_sort *v = malloc((j->n_launches + 1) * sizeof(*v));
    int64_t *tmp = malloc((j->n_launches + 1) * sizeof(*tmp));
    hm_status_t st = v && tmp ? HM_OK : no_memory();
    size_t n = 0;
    for (size_t i = 0; st == HM_OK && i < j->n_launches; i++)
        if (j->launch[i].i_step != HM_NO_ID)
            v[n++] = (struct op_sort){j->launch[i].comm, j->launch[i].func, (uint32_t)i};
    if (st == HM_OK && n)
        qsort(v, n, sizeof(*v), by_op);
    for (size_t i = 0, end; st == HM_OK && i < n && r->n_rows[HM_T_op] < MAX_OPS; i = end) {
        for (end = i + 1; end < n && v[end].comm == v[i].comm && v[end].func == v[i].func;)
            end++;
        st = op_row(j, r, v + i, end - i, tmp);
    }
    free(v);
    free(tmp);
    return st;
}

struct kernel_sort {
    uint64_t key;
    int64_t ns;
    uint32_t worker, i;
};

static int by_kernel(const void *x, const void *y)
{
    const struct kernel_sort *p = x, *q = y;
    if (p->key != q->key)
        return p->key < q->key ? -1 : 1;
    return (p->worker > q->worker) - (p->worker < q->worker);
}

static int by_total(const void *x, const void *y)
{
    const struct hm_out_kernel *p = x, *q = y;
    if (p->total_ns != q->total_ns)
        return p->total_ns > q->total_ns ? -1 : 1;
    return strcmp(p->grid ? p->grid : "", q->grid ? q->grid : "");
}

static hm_status_t kernel_row(struct hm_judge *j, struct hm_result *r, const struct kernel_sort *v,
                              size_t n, int64_t *tmp)
{
    struct hm_out_kernel *t = hm_result_add(r, HM_T_kernel);
    if (!t)
        return no_memory();
    const struct hm_kernel_stat *k = &j->worker[v[0].worker].kernel[v[0].i];
    const struct hm_def_kernel *def = NULL;
    const void *bytes = NULL;
    uint32_t len = 0;
    if (hm_defs_get(&j->in.run->names, HM_DEF_KERNEL, k->kernel, &bytes, &len) == HM_OK &&
        len >= sizeof(*def))
        def = bytes;
    if (def && hm_defs_get(&j->in.run->names, HM_DEF_STRING, def->name, &bytes, &len) == HM_OK)
        t->name = strndup(bytes, len);
    else
        t->name = strdup("");
    t->grid = hm_text("%u,%u,%u", k->grid[0], k->grid[1], k->grid[2]);
    t->n = t->total_ns = 0;
    t->is_control = n > 1 && n == j->n_workers;
    int64_t worst = 0;
    for (size_t i = 0; i < n; i++) {
        k = &j->worker[v[i].worker].kernel[v[i].i];
        t->n += k->n;
        t->total_ns += v[i].ns;
        t->is_control &= 10 * k->n_jumps <= k->n;
        tmp[i] = v[i].ns / k->n;
        if (tmp[i] > worst) {
            worst = tmp[i];
            t->worst_rank = j->in.run->worker[v[i].worker].rank;
        }
    }
    int64_t median = hm_median(tmp, n);
    t->worst_ratio = n > 1 && median > 0 ? ppb(worst, median) : HM_NONE(HM_NONE_UNKNOWN);
    return HM_OK;
}

static hm_status_t kernel_table(struct hm_judge *j, struct hm_result *r)
{
    size_t n = 0, all = 0;
    for (uint32_t w = 0; w < j->n_workers; w++)
        all += j->worker[w].n_kernels;
    struct kernel_sort *v = malloc((all + 1) * sizeof(*v));
    int64_t *tmp = malloc((j->n_workers + all + 1) * sizeof(*tmp));
    hm_status_t st = v && tmp ? HM_OK : no_memory();
    for (uint32_t w = 0; st == HM_OK && w < j->n_workers; w++)
        for (uint32_t i = 0; i < j->worker[w].n_kernels; i++) {
            const struct hm_kernel_stat *k = &j->worker[w].kernel[i];
            int64_t ns = 0;
            for (int b = 0; b < HM_KERNEL_BLOCKS; b++)
                ns += k->block_ns[b];
            if (k->n)
                v[n++] = (struct kernel_sort){k->key, ns, w, i};
        }
    if (st == HM_OK && n)
        qsort(v, n, sizeof(*v), by_kernel);
    for (size_t i = 0, end; st == HM_OK && i < n; i = end) {
        for (end = i + 1; end < n && v[end].key == v[i].key;)
            end++;
        st = kernel_row(j, r, v + i, end - i, tmp);
    }
    uint32_t rows = r->n_rows[HM_T_kernel];
    struct hm_out_kernel *t = r->rows[HM_T_kernel];
    if (st == HM_OK && rows)
        qsort(t, rows, sizeof(*t), by_total);
    for (uint32_t i = MAX_KERNELS; i < rows; i++) {
        free(t[i].name);
        free(t[i].grid);
    }
    if (rows > MAX_KERNELS)
        r->n_rows[HM_T_kernel] = MAX_KERNELS;
    free(v);
    free(tmp);
    return st;
}

hm_status_t hm_judge_tables(struct hm_judge *j, struct hm_result *r)
{
    hm_status_t st = steps_table(j, r);
    if (st == HM_OK)
        st = hm_judge_roles_table(j, r);
    if (st == HM_OK)
        st = rank_table(j, r);
    if (st == HM_OK)
        st = hm_judge_ledger(j, r);
    if (st == HM_OK)
        st = op_table(j, r);
    if (st == HM_OK)
        st = kernel_table(j, r);
    if (st == HM_OK)
        st = hm_judge_health_table(j, r);
    if (st == HM_OK)
        st = hm_judge_link_table(j, r);
    return st;
}
