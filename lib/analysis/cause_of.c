/* Cause of a subject's lateness: the largest part of its gate chains, control kernels for compute.
 *
 * Box: lib/analysis. Pure. Source: facts on scenarios, rules 3 and 4.
 */
#include "analysis/verdict_inside.h"

#include <stdlib.h>
#include <string.h>

static const char *const part_name[HM_N_C] = {"compute",
                                              "transfer of other collectives",
                                              "waiting for others",
                                              "copies",
                                              "input",
                                              "host work before the launch",
                                              "launch queue",
                                              "serialised launches",
                                              "loading code",
                                              "host blocked",
                                              "allocating device memory",
                                              "host waiting for the device",
                                              "checkpoint",
                                              "a profiler's own work"};

/* Cause of the lateness of a set: the largest part, and control kernels where it is compute. */
hm_status_t hm_cause_find(const struct hm_judge *j, const uint8_t *set, uint32_t first,
                          uint32_t onset, struct hm_out_finding *f)
{
    int64_t part[HM_N_C] = {0}, explained = 0;
    for (uint32_t w = 0; w < j->n_workers; w++)
        for (int c = 0; set[w] && c < HM_N_C; c++)
            part[c] += j->cause_ns[(size_t)w * HM_N_C + (size_t)c];
    int top = 0;
    for (int c = 0; c < HM_N_C; c++) {
        top = part[c] > part[top] ? c : top;
        explained += part[c] > 0 ? part[c] : 0;
    }
    int64_t host = part[HM_C_HOST] + part[HM_C_BLOCKED] + part[HM_C_SERIAL] + part[HM_C_ALLOC] +
                   part[HM_C_SYNC] + part[HM_C_MODULE];
    const char *cause = "unknown";
    double share = explained > 0 ? (double)part[top] / (double)explained : 0;
    f->explained_frac = explained > 0 ? hm_ppb(share) : HM_NONE(HM_NONE_UNKNOWN);
    for (int c = 0; explained > 0 && c < HM_N_C; c++) {
        int usual = c == HM_C_COMPUTE || c == HM_C_INPUT || c == HM_C_HOST;
        if (c == top)
            hm_list_add(&f->evidence, "%s: %.1f ms more than its peers, over all steps",
                        part_name[c], hm_ms(part[c]));
        else if (part[c] > 0 && part[c] * 20 >= explained) /* too much of it to be ruled out */
            hm_list_add(&f->evidence, "%s: %.1f ms", part_name[c], hm_ms(part[c]));
        else if (usual || part[c] * 100 > explained)
            hm_list_add(&f->ruled_out, "%s: %.1f ms", part_name[c],
                        part[c] > 0 ? hm_ms(part[c]) : 0.0);
    }
    int64_t call_ns = 0;
    char *call = explained > 0 ? hm_judge_call(j, first, top, &call_ns) : NULL;
    if (call)
        hm_list_add(&f->evidence, "the host is held most by %s", call);
    free(call);
    if (explained <= 0) {
        hm_list_add(&f->evidence, "what its lateness is made of was not recorded");
    } else if (share < 0.5) { /* several host parts together may still say host */
        cause = host * 2 >= explained ? "host_cpu" : "mixed";
    } else if (top == HM_C_COMPUTE) {
        struct hm_control k;
        unsigned block = (unsigned)(onset * (uint64_t)HM_KERNEL_BLOCKS / j->n_steps);
        if (onset && block + 1 < HM_KERNEL_BLOCKS)
            block++;
        hm_status_t st = hm_judge_control(j, first, block, &k);
        if (st != HM_OK)
            return st;
        double known = 3 * k.error > 0.01 ? 3 * k.error : 0.01;
        if (k.n_follow)
            hm_list_add(&f->evidence,
                        k.is_fed
                            ? "it is fed %.2fx the bytes of its peers, and %u of its kernels are "
                              "longer by as much"
                            : "it exchanges %.2fx the bytes of its peers in all-to-all, and %u "
                              "of its kernels are longer by as much",
                        k.bytes, k.n_follow);
        if (k.alone >= 0.2) { /* sizes differ: no clock makes a grid larger */
            cause = "more_work";
            hm_list_add(&f->evidence,
                        "%.0f %% of its kernel time goes into grids that no peer runs: it is given "
                        "more",
                        100 * k.alone);
        } else if (k.n && k.ratio > 1 + known && k.agree >= 0.8) {
            cause = "slow_gpu";
            hm_list_add(&f->evidence,
                        "same kernels, same grids, fixed work: %.3fx the time of its peers "
                        "(%u kernels, %.0f %% of their time agrees)",
                        k.ratio, k.n, 100 * k.agree);
            hm_list_add(&f->ruled_out, "more work: control kernels do the same everywhere");
        } else if (k.n && k.ratio > 1 - known && k.ratio <= 1 + known) {
            cause = "more_work";
            hm_list_add(&f->evidence,
                        "fixed work takes %.3fx the time of its peers: the GPU is "
                        "healthy, it is given more",
                        k.ratio);
            hm_list_add(&f->ruled_out, "slow GPU: control kernels run at %.3fx", k.ratio);
        } else if ((k.n && k.same >= 0.1 && k.agree + k.same >= 0.95) || (!k.n && k.n_follow)) {
            cause = "more_work";
            if (k.n)
                hm_list_add(&f->evidence,
                            "some kernels take %.3fx the time of its peers, the others (%.0f %% of "
                            "the time) as long as there: the GPU is healthy, it is given more",
                            k.ratio, 100 * k.same);
        } else {
            hm_list_add(&f->evidence, k.n ? "slow GPU or more work: control kernels do not agree"
                                          : "slow GPU or more work: no kernel with fixed work to "
                                            "tell by");
        }
    } else if (top == HM_C_INPUT) {
        cause = "input";
    } else if (top == HM_C_SERIAL) {
        cause = "launch_serialised";
    } else if (top == HM_C_BLOCKED) {
        cause = "host_blocked";
    } else if (top == HM_C_HOST) {
        cause = "host_cpu";
    } else if (top == HM_C_QUEUE) {
        cause = "queue";
    } else if (top == HM_C_MODULE) {
        cause = "module_load";
    } else if (top == HM_C_ALLOC) {
        cause = "allocator";
    } else if (top == HM_C_SYNC) {
        cause = "sync";
    } else if (top == HM_C_CHECKPOINT) {
        cause = "checkpoint";
    } else if (top == HM_C_OBSERVER) {
        cause = "observer";
    } else {
        cause = "mixed";
    }
    f->cause = strdup(hm_cause_health(j, set, first, cause, f));
    return HM_OK;
}
