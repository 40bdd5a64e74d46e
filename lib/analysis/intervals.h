/* Sets of half-open time intervals.
 *
 * Box: lib/analysis. Pure. Source: facts on analysis 2.2, 2.3.
 */
#ifndef HM_ANALYSIS_INTERVALS_H
#define HM_ANALYSIS_INTERVALS_H

#include <stddef.h>
#include <stdint.h>

struct hm_interval {
    int64_t start_ns, end_ns;
};
/** Sorts, drops empty ones and joins what touches, in place; returns the new number. */
size_t hm_union(struct hm_interval *v, size_t n);
/** Total length of a union. */
int64_t hm_length(const struct hm_interval *v, size_t n);
/** Length of the intersection of two unions. */
int64_t hm_overlap(const struct hm_interval *a, size_t n, const struct hm_interval *b, size_t m);
/** Length of a union inside [t0, t1). */
int64_t hm_inside(const struct hm_interval *v, size_t n, int64_t t0_ns, int64_t t1_ns);
/** Exclusive parts of [t0, t1): out_ns[i] = time in layer i and in none before it; out_ns[n_layers]
 *  = in none. Layers are unions. They sum to t1 - t0. At most 8 layers. */
struct hm_layer {
    const struct hm_interval *v;
    size_t n;
};
void hm_partition(const struct hm_layer *layer, unsigned n_layers, int64_t t0_ns, int64_t t1_ns,
                  int64_t out_ns[]);
/** The same, piece by piece in order of time: layer = n_layers where there is none. */
typedef void (*hm_cut_t)(void *ctx, int64_t t0_ns, int64_t t1_ns, unsigned layer);
void hm_cut(const struct hm_layer *layer, unsigned n_layers, int64_t t0_ns, int64_t t1_ns,
            hm_cut_t fn, void *ctx);

#endif
