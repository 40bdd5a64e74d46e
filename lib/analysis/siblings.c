/* Siblings: the k-th message of a step between two roles, on every replica.
 *
 * Box: lib/analysis. Pure. A message has no member that does the same: what its two ends do is
 * different work. Who does the same is the end of the same role in the other replicas, in the same
 * place of the step. Compared is own work since the base, on each rank's own clock. Source: facts
 * on scenarios, rule 8 (sibling groups compare with each other).
 */
#include "analysis/judge_inside.h"

#include <stdlib.h>

struct end {
    int64_t own_ns, start_ns;
    uint32_t step, role, peer, is_send, worker, k, part, pad;
};

static int by_worker(const void *x, const void *y)
{
    const struct end *p = x, *q = y;
    const uint32_t a[] = {p->step, p->role, p->peer, p->is_send, p->worker};
    const uint32_t b[] = {q->step, q->role, q->peer, q->is_send, q->worker};
    for (int i = 0; i < 5; i++)
        if (a[i] != b[i])
            return a[i] < b[i] ? -1 : 1;
    if (p->start_ns != q->start_ns)
        return p->start_ns < q->start_ns ? -1 : 1;
    return (p->part > q->part) - (p->part < q->part);
}

static int by_place(const void *x, const void *y)
{
    const struct end *p = x, *q = y;
    const uint32_t a[] = {p->step, p->role, p->peer, p->is_send, p->k};
    const uint32_t b[] = {q->step, q->role, q->peer, q->is_send, q->k};
    for (int i = 0; i < 5; i++)
        if (a[i] != b[i])
            return a[i] < b[i] ? -1 : 1;
    if (p->own_ns != q->own_ns)
        return p->own_ns < q->own_ns ? -1 : 1;
    return (p->part > q->part) - (p->part < q->part);
}

static int same_kind(const struct end *p, const struct end *q)
{
    return p->step == q->step && p->role == q->role && p->peer == q->peer &&
           p->is_send == q->is_send;
}

/* The ends of all messages in analysed steps, numbered within their step and kind. */
static size_t take_ends(const struct hm_judge *j, struct end *v)
{
    size_t n = 0;
    for (size_t i = 0; i < j->n_launches; i++) {
        const struct hm_jlaunch *l = &j->launch[i];
        if (l->i_step == HM_NO_ID || hm_judge_is_sync(l) || l->n_parts != 2 ||
            (l->func != HM_NCCL_SEND && l->func != HM_NCCL_RECV))
            continue;
        for (uint32_t k = 0; k < 2; k++) {
            const struct hm_jpart *p = &j->part[l->first_part + k],
                                  *q = &j->part[l->first_part + 1 - k];
            v[n++] = (struct end){.own_ns = p->local_ns,
                                  .start_ns = p->start_ns,
                                  .step = l->i_step,
                                  .role = j->roles.role[p->worker],
                                  .peer = j->roles.role[q->worker],
                                  .is_send = p->source == HM_NO_ID,
                                  .worker = p->worker,
                                  .part = l->first_part + k};
        }
    }
    if (n)
        qsort(v, n, sizeof(*v), by_worker);
    for (size_t i = 1; i < n; i++)
        if (same_kind(&v[i], &v[i - 1]) && v[i].worker == v[i - 1].worker)
            v[i].k = v[i - 1].k + 1;
    if (n)
        qsort(v, n, sizeof(*v), by_place);
    return n;
}

hm_status_t hm_judge_siblings(struct hm_judge *j)
{
    size_t n = 0;
    for (size_t i = 0; i < j->n_launches; i++)
        n += j->launch[i].pair && j->launch[i].n_parts == 2 ? 2 : 0;
    if (!n)
        return HM_OK;
    struct end *v = malloc(n * sizeof(*v));
    if (!v)
        return hm_fail(HM_E_NOMEM, "judge", "out of memory");
    n = take_ends(j, v);
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && same_kind(&v[end], &v[i]) && v[end].k == v[i].k;)
            end++;
        const struct end *median = &v[i + (end - i - 1) / 2]; /* lower, of own work */
        for (size_t k = i; k < end; k++) {
            struct hm_jpart *p = &j->part[v[k].part];
            p->ref = median->part;
            p->excess_ns = p->base == HM_NO_ID ? 0 : v[k].own_ns - median->own_ns;
        }
    }
    free(v);
    return HM_OK;
}
