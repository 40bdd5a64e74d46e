/* Patterns over the steps: where in the run a cost lies.
 *
 * Box: lib/analysis. Pure functions on one series, a value a step. Sums and means throughout: a
 * median hides what comes every eighth step. Source: facts on scenarios, rule 5; facts on analysis
 * 2.10, 2.13 (least squares over one interval, tested by permutation).
 */
#include "analysis/verdict_inside.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    SHORTEST = 3,       /* an interval is at least so many steps, and leaves out as many */
    LASTING = 5,        /* fewer at the end of the run are an episode, not a new state */
    BINS = 128,         /* longer series are searched in so many bins, then step by step */
    PERMUTATIONS = 400, /* none may reach the interval found: p below 0.005 */
    MAX_GAPS = 16,
    MAX_RUN = 2 /* steps of one event: it may lie across a boundary */
};
const char *const hm_pattern_name[] = {NULL,      "persistent", "from_step",
                                       "one_off", "periodic",   "episode"};

static int64_t median_of(const int64_t *x, size_t n, int64_t *tmp)
{
    memcpy(tmp, x, n * sizeof(*x));
    return hm_median(tmp, n);
}

/* --- periodic --------------------------------------------------------------------------------- */

static double log_choose(double n, double k)
{
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1);
}

/* Chance that m of `active` steps fall into one class modulo k or modulo more. */
static double class_chance(double active, double m, double k)
{
    if (m < 3)
        return 1;
    double p = exp(log_choose(active, m) - (m - 2) * log(k - 0.5)) / (m - 2);
    return p < 1 ? p : 1;
}

struct periodic_in {
    const int64_t *y;
    const uint8_t *active;
    const uint32_t *number;
    size_t n;
    uint32_t n_active;
    double all;
};

/* Is it every k steps? From the first active step on that has another k later. */
static int try_period(const struct periodic_in *in, uint32_t k, struct hm_pattern_found *f)
{
    uint32_t best = 0, phase = 0;
    for (size_t i = 0; i < in->n; i++) {
        uint32_t r = in->number[i] % k, m = 0;
        if (!in->active[i] || (best && r == phase))
            continue;
        for (size_t q = i; q < in->n; q++)
            m += in->active[q] && in->number[q] % k == r;
        if (m > best) {
            best = m;
            phase = r;
        }
        if (2 * m > in->n_active)
            break;
    }
    double sum = 0;
    uint32_t members = 0;
    for (size_t i = 0; i < in->n; i++)
        if (in->number[i] % k == phase) {
            members++;
            sum += (double)in->y[i];
        }
    double p = class_chance(in->n_active, best, k);
    if (best < 3 || sum < 0.8 * in->all || 5 * best < 4 * members || p > 0.01)
        return 0;
    f->kind = HM_P_PERIODIC;
    f->period = k;
    f->phase = phase;
    f->chance = p;
    return 1;
}

static int find_periodic(const int64_t *x, size_t n, const uint32_t *number, double positive,
                         int64_t *y, uint8_t *active, struct hm_pattern_found *f)
{
    int64_t background = median_of(x, n, y);
    double all = 0, squares = 0;
    for (size_t i = 0; i < n; i++) {
        y[i] = x[i] > background ? x[i] - background : 0;
        all += (double)y[i];
        squares += (double)y[i] * (double)y[i];
    }
    if (all <= 0 || all < 0.5 * positive)
        return 0;
    struct periodic_in in = {.y = y, .active = active, .number = number, .n = n, .all = all};
    uint32_t gap[MAX_GAPS], n_gaps = 0, before = HM_NO_ID;
    for (size_t i = 0; i < n; i++) {
        active[i] = (double)y[i] > 0.5 * squares / all;
        in.n_active += active[i];
        if (!active[i])
            continue;
        uint32_t k = before == HM_NO_ID ? 0 : number[i] - before;
        before = number[i];
        for (uint32_t g = 0; g < n_gaps; g++)
            k = gap[g] == k ? 0 : k;
        if (k >= 2 && n_gaps < MAX_GAPS)
            gap[n_gaps++] = k;
    }
    for (uint32_t g = 0; g < n_gaps; g++)
        if (try_period(&in, gap[g], f))
            return 1;
    return 0;
}

/* --- one interval ------------------------------------------------------------------------------
 */

struct interval {
    size_t from, to;
    double between; /* sum of squares that the interval explains */
};

static double between(const double *sum, size_t n, size_t from, size_t to)
{
    double len = (double)(to - from), rest = (double)n - len;
    double d = sum[to] - sum[from] - sum[n] * len / (double)n;
    return d > 0 ? d * d * (double)n / (len * rest) : 0;
}

static struct interval best_interval(const double *sum, size_t n)
{
    struct interval best = {0, n, 0};
    for (size_t from = 0; from + 1 <= n; from++)
        for (size_t to = from + 1; to <= n && to - from < n; to++) {
            double b = between(sum, n, from, to);
            if (b > best.between)
                best = (struct interval){from, to, b};
        }
    return best;
}

static void prefix(const double *x, size_t n, double *sum)
{
    sum[0] = 0;
    for (size_t i = 0; i < n; i++)
        sum[i + 1] = sum[i] + x[i];
}

/* How many of the permutations explain as much by some interval. */
static int is_by_luck(double *x, size_t n, double found, double *sum)
{
    uint64_t seed = UINT64_C(88172645463325252);
    for (int d = 0; d < PERMUTATIONS; d++) {
        for (size_t i = n; i > 1; i--) {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            size_t k = seed % i;
            double t = x[i - 1];
            x[i - 1] = x[k];
            x[k] = t;
        }
        prefix(x, n, sum);
        if (best_interval(sum, n).between >= found * (1 - 1e-9))
            return 1;
    }
    return 0;
}

static int find_interval(const int64_t *x, size_t n, double *v, struct hm_pattern_found *f)
{
    double *exact = v, *bin = v + n + 1, *sum = bin + BINS + 1;
    size_t width = (n + BINS - 1) / BINS, n_bins = (n + width - 1) / width;
    exact[0] = 0;
    for (size_t i = 0; i < n; i++)
        exact[i + 1] = exact[i] + (double)x[i];
    for (size_t b = 0; b < n_bins; b++) {
        size_t to = (b + 1) * width < n ? (b + 1) * width : n;
        bin[b] = (exact[to] - exact[b * width]) / (double)(to - b * width);
    }
    prefix(bin, n_bins, sum);
    struct interval in_bins = best_interval(sum, n_bins);
    struct interval best = {in_bins.from * width, in_bins.to * width < n ? in_bins.to * width : n,
                            0};
    struct interval start = best;
    for (size_t from = start.from > width ? start.from - width : 0; from <= start.from + width;
         from++)
        for (size_t to = start.to > width ? start.to - width : 0; to <= start.to + width; to++) {
            if (to > n || to <= from || to - from == n)
                continue;
            double b = between(exact, n, from, to);
            if (b > best.between)
                best = (struct interval){from, to, b};
        }
    size_t len = best.to - best.from;
    if (best.between <= 0 || len < SHORTEST || n - len < SHORTEST)
        return 0;
    double inside = (exact[best.to] - exact[best.from]) / (double)len;
    double outside = (exact[n] - inside * (double)len) / (double)(n - len);
    if (outside > 0.2 * inside || is_by_luck(bin, n_bins, in_bins.between, sum))
        return 0;
    int from_start = best.from < SHORTEST, to_end = n - best.to < SHORTEST;
    if (from_start && to_end)
        return 0;
    f->kind = to_end && len >= LASTING ? HM_P_FROM_STEP : HM_P_EPISODE;
    f->first = (uint32_t)best.from;
    f->last = to_end ? (uint32_t)n - 1 : (uint32_t)best.to - 1;
    return 1;
}

/* In at least half of (up to ten) equal blocks, by a quarter of the mean. */
static int is_spread(const int64_t *x, size_t n, double positive)
{
    size_t blocks = n / 4 < 2 ? 2 : n / 4 > 10 ? 10 : n / 4, seen = 0;
    for (size_t b = 0; b < blocks; b++) {
        double sum = 0;
        size_t from = b * n / blocks, to = (b + 1) * n / blocks;
        for (size_t i = from; i < to; i++)
            sum += (double)x[i];
        seen += sum > 0.25 * positive * (double)(to - from) / (double)n;
    }
    return 2 * seen >= blocks;
}

void hm_pattern_of(const int64_t *x, const uint32_t *number, size_t n, struct hm_pattern_found *f)
{
    *f = (struct hm_pattern_found){.kind = HM_P_NONE, .last = n ? (uint32_t)n - 1 : 0, .chance = 1};
    double positive = 0;
    for (size_t i = 0; i < n; i++)
        positive += x[i] > 0 ? (double)x[i] : 0;
    if (n < HM_MIN_STEPS || positive <= 0)
        return;
    int64_t *y = malloc(n * sizeof(*y));
    uint8_t *active = malloc(n);
    double *v = malloc((n + 1 + 2 * (BINS + 2)) * sizeof(*v));
    if (y && active && v && !find_periodic(x, n, number, positive, y, active, f) &&
        !find_interval(x, n, v, f) && is_spread(x, n, positive))
        f->kind = HM_P_PERSISTENT;
    free(y);
    free(active);
    free(v);
}

/* --- events that come once ---------------------------------------------------------------------
 */

uint32_t hm_pattern_events(const int64_t *x, size_t n, int64_t least, uint32_t *event)
{
    memset(event, 0, n * sizeof(*event));
    int64_t *tmp = malloc((n + 1) * sizeof(*tmp));
    if (!tmp || n < HM_MIN_STEPS) {
        free(tmp);
        return 0;
    }
    int64_t m = median_of(x, n, tmp);
    for (size_t i = 0; i < n; i++)
        tmp[i] = llabs(x[i] - m);
    double mad = 1.4826 * (double)hm_median(tmp, n);
    uint32_t n_events = 0;
    for (size_t i = 0, to; i<n; i = to> i ? to : i + 1) {
        for (to = i; to < n && x[to] - m >= least && (double)(x[to] - m) >= 5 * mad;)
            to++;
        if (to > i && to - i <= MAX_RUN) {
            n_events++;
            for (size_t k = i; k < to; k++)
                event[k] = n_events;
        }
    }
    free(tmp);
    if (n_events > (n / 50 ? n / 50 : 1)) { /* it comes again and again */
        memset(event, 0, n * sizeof(*event));
        return 0;
    }
    return n_events;
}
