/* Interval sets: sort and sweep. Box: lib/analysis. Pure. */
#include "analysis/intervals.h"

#include <stdlib.h>

static int by_start(const void *x, const void *y)
{
    const struct hm_interval *p = x, *q = y;
    return (p->start_ns > q->start_ns) - (p->start_ns < q->start_ns);
}

size_t hm_union(struct hm_interval *v, size_t n)
{
    size_t m = 0;
    int sorted = 1;
    for (size_t i = 0; i < n; i++)
        if (v[i].end_ns > v[i].start_ns) {
            v[m] = v[i];
            sorted &= m == 0 || v[m - 1].start_ns <= v[m].start_ns;
            m++;
        }
    if (!sorted)
        qsort(v, m, sizeof(*v), by_start);
    size_t k = 0;
    for (size_t i = 0; i < m; i++) {
        if (k && v[i].start_ns <= v[k - 1].end_ns) {
            if (v[i].end_ns > v[k - 1].end_ns)
                v[k - 1].end_ns = v[i].end_ns;
        } else {
            v[k++] = v[i];
        }
    }
    return k;
}

int64_t hm_length(const struct hm_interval *v, size_t n)
{
    int64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += v[i].end_ns - v[i].start_ns;
    return sum;
}

int64_t hm_overlap(const struct hm_interval *a, size_t n, const struct hm_interval *b, size_t m)
{
    int64_t sum = 0;
    for (size_t i = 0, k = 0; i < n && k < m;) {
        int64_t s = a[i].start_ns > b[k].start_ns ? a[i].start_ns : b[k].start_ns;
        int64_t e = a[i].end_ns < b[k].end_ns ? a[i].end_ns : b[k].end_ns;
        if (e > s)
            sum += e - s;
        if (a[i].end_ns < b[k].end_ns)
            i++;
        else
            k++;
    }
    return sum;
}

int64_t hm_inside(const struct hm_interval *v, size_t n, int64_t t0_ns, int64_t t1_ns)
{
    struct hm_interval w = {t0_ns, t1_ns};
    return t1_ns > t0_ns ? hm_overlap(v, n, &w, 1) : 0;
}

void hm_cut(const struct hm_layer *layer, unsigned n_layers, int64_t t0_ns, int64_t t1_ns,
            hm_cut_t fn, void *ctx)
{
    size_t i[8] = {0};
    for (int64_t t = t0_ns; t < t1_ns;) {
        int64_t next = t1_ns;
        unsigned who = n_layers;
        for (unsigned k = 0; k < n_layers; k++) {
            const struct hm_layer *l = &layer[k];
            while (i[k] < l->n && l->v[i[k]].end_ns <= t)
                i[k]++;
            if (i[k] == l->n)
                continue;
            int inside = l->v[i[k]].start_ns <= t;
            int64_t edge = inside ? l->v[i[k]].end_ns : l->v[i[k]].start_ns;
            next = edge < next ? edge : next;
            if (inside && who == n_layers)
                who = k;
        }
        fn(ctx, t, next, who);
        t = next;
    }
}

static void sum_up(void *ctx, int64_t t0_ns, int64_t t1_ns, unsigned layer)
{
    ((int64_t *)ctx)[layer] += t1_ns - t0_ns;
}

void hm_partition(const struct hm_layer *layer, unsigned n_layers, int64_t t0_ns, int64_t t1_ns,
                  int64_t out_ns[])
{
    for (unsigned k = 0; k <= n_layers; k++)
        out_ns[k] = 0;
    hm_cut(layer, n_layers, t0_ns, t1_ns, sum_up, out_ns);
}
