/* Signatures by vote; the first disagreement of each communicator.
 *
 * Box: lib/analysis. Pure. Memory: the members of at most 16 communicators.
 */
#include "analysis/mismatch.h"

#include <stdlib.h>
#include <string.h>

static int count_may_differ(uint8_t func)
{
    return func == HM_NCCL_ALLTOALL || func == HM_NCCL_GATHER || func == HM_NCCL_SCATTER ||
           func == HM_NCCL_SEND || func == HM_NCCL_RECV || func == HM_NCCL_SENDRECV;
}

static int is_rooted(uint8_t func)
{
    return func == HM_NCCL_BROADCAST || func == HM_NCCL_REDUCE || func == HM_NCCL_GATHER ||
           func == HM_NCCL_SCATTER;
}

static uint8_t differs(const struct hm_sig *a, const struct hm_sig *b)
{
    uint8_t d = 0;
    if (a->func != b->func)
        d |= HM_SIG_FUNC;
    if (a->dtype != b->dtype)
        d |= HM_SIG_DTYPE;
    if (a->count != b->count && !count_may_differ(a->func))
        d |= HM_SIG_COUNT;
    if (a->root != b->root && is_rooted(a->func))
        d |= HM_SIG_ROOT;
    return d;
}

size_t hm_sig_vote(const struct hm_sig *sig, size_t n, uint8_t *differs_p)
{
    size_t best = SIZE_MAX, votes = 0;
    int tie = 0;
    for (size_t i = 0; i < n; i++) {
        size_t k = 0, v = 0;
        while (k < i && differs(&sig[i], &sig[k]))
            k++;
        if (k < i)
            continue; /* counted before */
        for (k = i; k < n; k++)
            v += !differs(&sig[i], &sig[k]);
        tie = v == votes ? 1 : v > votes ? 0 : tie;
        if (v > votes) {
            votes = v;
            best = i;
        }
    }
    memset(differs_p, 0, n);
    if (tie || best == SIZE_MAX)
        return SIZE_MAX;
    for (size_t i = 0; i < n; i++)
        differs_p[i] = differs(&sig[best], &sig[i]);
    return best;
}

const char *hm_sig_words(uint8_t fields)
{
    return fields & HM_SIG_FUNC    ? "another function"
           : fields & HM_SIG_COUNT ? "another size"
           : fields & HM_SIG_DTYPE ? "another data type"
           : fields & HM_SIG_ROOT  ? "another root"
           : fields                ? "another data type, root or parts of another size"
                                   : "the same";
}

static struct hm_mismatch_row *row_of(struct hm_mismatches *m, uint64_t comm)
{
    for (uint32_t i = 0; i < m->n; i++)
        if (m->row[i].comm == comm)
            return &m->row[i];
    return NULL;
}

/* The collective after the first disagreement: what tells a call too many from one too few. */
static void take_next(struct hm_mismatch_row *row, const struct hm_launch *l,
                      const struct hm_part *part)
{
    for (uint32_t k = 0; k < l->n_present; k++)
        for (uint32_t i = 0; i < row->n; i++)
            if (row->member[i].worker == part[k].worker && !row->member[i].has_next) {
                row->member[i].has_next = 1;
                row->member[i].next_func = part[k].a.func;
                row->member[i].next_bytes = part[k].a.bytes;
                row->member[i].next_signature = part[k].a.signature;
            }
}

static hm_status_t take_first(struct hm_mismatch_row *row, const struct hm_launch *l,
                              const struct hm_part *part)
{
    uint32_t n = l->n_present < HM_MISMATCH_MEMBERS ? l->n_present : HM_MISMATCH_MEMBERS;
    struct hm_mismatch_member *v = calloc(n + 1, sizeof(*v));
    if (!v)
        return hm_fail(HM_E_NOMEM, "judge", "out of memory");
    *row = (struct hm_mismatch_row){l->comm, l->seq, n, HM_NO_ID, v};
    uint32_t votes = 0;
    for (uint32_t i = 0; i < n; i++) {
        v[i].worker = part[i].worker;
        v[i].func = part[i].a.func;
        v[i].bytes = part[i].a.bytes;
        v[i].signature = part[i].a.signature;
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t k = 0, same = 0;
        while (k < i && v[k].signature != v[i].signature)
            k++;
        if (k < i)
            continue;
        for (k = i; k < n; k++)
            same += v[k].signature == v[i].signature;
        if (same == votes)
            row->majority = HM_NO_ID;
        if (same > votes) {
            votes = same;
            row->majority = i;
        }
    }
    for (uint32_t i = 0; row->majority != HM_NO_ID && i < n; i++) {
        const struct hm_mismatch_member *most = &v[row->majority];
        if (v[i].signature == most->signature)
            continue;
        v[i].differs = (uint8_t)((v[i].func != most->func ? HM_SIG_FUNC : 0) |
                                 (v[i].bytes != most->bytes ? HM_SIG_COUNT : 0));
        if (!v[i].differs)
            v[i].differs = HM_SIG_OTHER;
    }
    return HM_OK;
}

hm_status_t hm_mismatch_launch(struct hm_mismatches *m, const struct hm_launch *l,
                               const struct hm_part *part)
{
    int agree = 1, two = 0;
    for (uint32_t i = 1; i < l->n_present; i++) {
        agree &= part[i].a.signature == part[0].a.signature;
        two |= part[i].worker == part[i - 1].worker; /* the key is not what it seems */
    }
    if (l->pair || l->confidence == HM_JOIN_ORDER || two)
        return HM_OK;
    struct hm_mismatch_row *row = row_of(m, l->comm);
    if (row && l->seq == row->seq + 1)
        take_next(row, l, part);
    if (agree)
        return HM_OK;
    m->n_launches++;
    if (row)
        return HM_OK;
    if (m->n == HM_MISMATCH_COMMS) {
        m->n_more++;
        return HM_OK;
    }
    hm_status_t st = take_first(&m->row[m->n], l, part);
    m->n += st == HM_OK;
    return st;
}

int hm_mismatch_shift(const struct hm_mismatch_row *row, uint32_t i)
{
    if (row->majority == HM_NO_ID || i >= row->n || !row->member[i].differs)
        return 0;
    const struct hm_mismatch_member *most = &row->member[row->majority], *d = &row->member[i];
    if (!d->has_next || !most->has_next || d->next_signature == most->next_signature)
        return 0; /* in step again, or nothing to tell by */
    if (d->next_signature == most->signature)
        return 1;
    if (d->signature == most->next_signature)
        return -1;
    return 0;
}

void hm_mismatch_clear(struct hm_mismatches *m)
{
    for (uint32_t i = 0; i < m->n; i++)
        free(m->row[i].member);
    memset(m, 0, sizeof(*m));
}
