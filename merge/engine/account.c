/* Account: events and annotations of each worker -> step parts, segments, kernel statistics.
 *
 * Box: merge/engine. What is computed lives in lib/analysis/account.h; here rows are fetched and
 * kept.
 */
#include "analysis/account.h"

#include "engine/machine.h"
#include "engine/phases.h"

struct account {
    struct hm_engine_rank x;
    uint32_t worker;
    uint64_t next; /* arrival to give next */
};

static size_t give_arrivals(void *ctx, struct hm_arrival *a, struct hm_annot *v, size_t cap)
{
    struct account *c = ctx;
    size_t n = hm_engine_arrivals(c->x.e, c->worker, c->next, a, v, cap);
    c->next += n;
    return n;
}

static hm_status_t take_step(void *ctx, const struct hm_step_part *p)
{
    struct account *c = ctx;
    c->x.e->of_rank_step[c->worker].n++;
    return hm_spool_append(c->x.e->step, p, 1);
}

static hm_status_t take_segment(void *ctx, const struct hm_segment *s)
{
    struct account *c = ctx;
    return hm_spool_append(c->x.e->segment, s, 1);
}

static hm_status_t take_kernels(void *ctx, const struct hm_kernel_stat *k)
{
    struct account *c = ctx;
    struct hm_kernel_row row = {*k, c->worker, 0};
    return hm_spool_append(c->x.e->more->kernel, &row, 1);
}

static hm_status_t take_opstat(void *ctx, const struct hm_opstat *s)
{
    struct account *c = ctx;
    struct hm_opstat_row row = {*s, c->worker, 0};
    return hm_spool_append(c->x.e->more->opstat, &row, 1);
}

static hm_status_t account_worker(struct hm_engine *e, uint32_t worker, struct hm_rank *r)
{
    struct account c = {.x = {e, r}, .worker = worker};
    struct hm_account_in in = {.worker = worker,
                               .device = e->run.worker[worker].device,
                               .step = e->more->window[worker],
                               .n_steps = e->more->n_windows[worker],
                               .ctx = &c,
                               .arrivals = give_arrivals,
                               .track = hm_engine_track,
                               .string = hm_engine_string,
                               .kernel_name = hm_engine_kernel_name_id,
                               .step_part = take_step,
                               .segment = take_segment,
                               .kernel_stat = take_kernels,
                               .opstat = e->want_ops ? take_opstat : NULL,
                               .clock_error_ns = e->more->match.error_max_ns};
    struct hm_account *account;
    struct hm_batch b;
    struct hm_machine machine;
    e->of_rank_step[worker] = (struct hm_span){hm_spool_count(e->step), 0};
    hm_status_t s = hm_account_create(&in, &account);
    if (s)
        return s;
    s = hm_machine_begin(&machine, e, r, worker);
    if (s)
        goto out;
    while ((s = hm_rank_next(r, &b)) == HM_OK)
        for (uint32_t i = 0; i < b.n; i++) {
            s = hm_machine_event(&machine, &b.ev[i]) ? HM_OK : hm_account_event(account, &b.ev[i]);
            if (s)
                goto end;
        }
    if (s == HM_END)
        s = hm_account_end(account);
end:;
    hm_status_t kept = hm_machine_end(&machine);
    if (s == HM_OK)
        s = kept;
    if (s == HM_OK && hm_spool_count(e->segment) != e->of_rank[worker].first + e->of_rank[worker].n)
        s = hm_fail(HM_E_BUG, "account", "segments and arrivals differ");
out:
    hm_account_destroy(account);
    return s;
}

static const uint64_t account_kinds = UINT64_C(1) << HM_EV_KERNEL | UINT64_C(1) << HM_EV_MEMCPY |
                                      UINT64_C(1) << HM_EV_MEMSET | UINT64_C(1) << HM_EV_API |
                                      UINT64_C(1) << HM_EV_RANGE | UINT64_C(1) << HM_EV_SYNC |
                                      UINT64_C(1) << HM_EV_OVERHEAD | UINT64_C(1) << HM_EV_STEP |
                                      UINT64_C(1) << HM_EV_MPI | UINT64_C(1) << HM_EV_MEMORY;

static hm_status_t account_rank(struct hm_engine *e, uint32_t rank, struct hm_rank *r, void *ctx)
{
    const struct hm_query *q = ctx;
    hm_status_t s = HM_OK;
    for (uint32_t w = 0; w < e->run.n_workers && s == HM_OK; w++) {
        if (e->run.worker[w].rank != rank)
            continue;
        s = account_worker(e, w, r);
        if (s == HM_OK)
            s = hm_rank_seek(r, q); /* another device of the process reads again */
    }
    return s;
}

hm_status_t hm_engine_account(struct hm_engine *e)
{
    struct hm_query q = {.kinds = account_kinds | hm_machine_kinds};
    return hm_scan(e, &q, account_rank, &q);
}

/* --- one arrival again -------------------------------------------------------------------------
 */

struct explain {
    struct account account;
    uint32_t arrival;
    void (*link)(void *ctx, const struct hm_link *link);
    void *ctx;
};

static void take_link(void *ctx, const struct hm_link *link)
{
    struct explain *x = (struct explain *)ctx; /* account is its first member */
    x->link(x->ctx, link);
}

static hm_status_t explain_rank(struct hm_engine *e, uint32_t rank, struct hm_rank *r, void *ctx)
{
    struct explain *x = ctx;
    uint32_t worker = x->account.worker;
    (void)rank;
    x->account.x = (struct hm_engine_rank){e, r};
    struct hm_account_in in = {.worker = worker,
                               .device = e->run.worker[worker].device,
                               .step = e->more->window[worker],
                               .n_steps = e->more->n_windows[worker],
                               .ctx = &x->account,
                               .arrivals = give_arrivals,
                               .track = hm_engine_track,
                               .string = hm_engine_string,
                               .kernel_name = hm_engine_kernel_name_id,
                               .link = take_link,
                               .explain = x->arrival,
                               .clock_error_ns = e->more->match.error_max_ns};
    struct hm_account *account;
    struct hm_batch b;
    hm_status_t s = hm_account_create(&in, &account);
    while (s == HM_OK && (s = hm_rank_next(r, &b)) == HM_OK)
        for (uint32_t i = 0; i < b.n && s == HM_OK; i++)
            s = hm_account_event(account, &b.ev[i]);
    if (s == HM_END)
        s = hm_account_end(account);
    hm_account_destroy(account);
    return s;
}

hm_status_t hm_engine_explain(struct hm_engine *e, uint32_t worker, uint32_t arrival,
                              void (*link)(void *ctx, const struct hm_link *link), void *ctx)
{
    const struct hm_query q = {.kinds = account_kinds};
    struct explain x = {
        .account = {.worker = worker}, .arrival = arrival, .link = link, .ctx = ctx};
    uint32_t lo = e->rank_lo, hi = e->rank_hi, i = 0;
    while (i < e->run.n_present && (uint32_t)e->run.rank[i].rank != e->run.worker[worker].rank)
        i++;
    e->rank_lo = i;
    e->rank_hi = i + 1;
    hm_status_t s = i < e->run.n_present ? hm_scan(e, &q, explain_rank, &x) : HM_E_MISSING;
    e->rank_lo = lo;
    e->rank_hi = hi;
    return s;
}
