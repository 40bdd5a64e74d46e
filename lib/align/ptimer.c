/* The feasible lines of a GPU timer. See ptimer.h.
 *
 * Box: lib/align. Pure. With x = GPU time and y = host time - GPU time, a window's clock is a line
 * y = a + b x. A stop stamp read at host time h says a + b x <= h - x; a start stamp of a kernel
 * launched at h0 says a + b x >= h0 - x - tick (the true time lies up to a tick behind its stamp);
 * a kernel record says both. Only the hulls of these points matter. The largest a + b x over all
 * feasible lines is a convex function of x and the smallest a concave one, so that the chords
 * between a window's ends hold everything in between.
 * Which point of the interval: a stamp is read some microseconds after it was made, a kernel starts
 * any time after its launch, so without records the truth lies near the upper end; with records on
 * both sides it lies in the middle. The interval is the same either way.
 */
#include "align/ptimer.h"

#include "align/line.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW_NS INT64_C(1000000000)

struct point { /* relative to the timer's origin */
    int64_t x, y;
};
struct window {
    int64_t x0, x1;
    double top0, top1, bottom0, bottom1; /* of y at x0 and x1 */
    int ok, records;
};
struct hm_ptimer {
    uint64_t g0, tick;
    int64_t y0;
    struct window *window;
    size_t n;
};
struct bounds { /* hulls, ascending x */
    struct point *hi, *lo;
    size_t n_hi, n_lo;
    int records;
};

static int by_x(const void *a, const void *b)
{
    const struct point *p = a, *q = b;
    if (p->x != q->x)
        return p->x < q->x ? -1 : 1;
    return (p->y > q->y) - (p->y < q->y);
}

/* Keeps the lower (sign 1) or upper (-1) hull of points in ascending x. */
static size_t hull(struct point *p, size_t n, int sign)
{
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        while (k >= 2) {
            double dx1 = (double)(p[k - 1].x - p[k - 2].x), dx2 = (double)(p[i].x - p[k - 2].x);
            double dy1 = (double)(p[k - 1].y - p[k - 2].y), dy2 = (double)(p[i].y - p[k - 2].y);
            if (sign * (dx1 * dy2 - dx2 * dy1) > 0)
                break;
            k--;
        }
        p[k++] = p[i];
    }
    return k;
}

static double highest(const struct bounds *w, double b, double x)
{
    double v = INFINITY;
    for (size_t i = 0; i < w->n_hi; i++)
        v = fmin(v, (double)w->hi[i].y + b * (x - (double)w->hi[i].x));
    return v;
}

static double lowest(const struct bounds *w, double b, double x)
{
    double v = -INFINITY;
    for (size_t i = 0; i < w->n_lo; i++)
        v = fmax(v, (double)w->lo[i].y + b * (x - (double)w->lo[i].x));
    return v;
}

/* 0: room between the bounds, 1: highest at x, 2: minus lowest at x; all concave in b. */
static double value(const struct bounds *w, int what, double b, double x)
{
    return what == 0   ? highest(w, b, 0) - lowest(w, b, 0)
           : what == 1 ? highest(w, b, x)
                       : -lowest(w, b, x);
}

static double best(const struct bounds *w, int what, double lo, double hi, double x)
{
    for (int k = 0; k < 90; k++) {
        double a = lo + (hi - lo) / 3, b = hi - (hi - lo) / 3;
        if (value(w, what, a, x) < value(w, what, b, x))
            lo = a;
        else
            hi = b;
    }
    return (lo + hi) / 2;
}

/* Where the room ends between a slope that has room and one that may have none. */
static double edge(const struct bounds *w, double inside, double outside)
{
    if (value(w, 0, outside, 0) >= 0)
        return outside;
    for (int k = 0; k < 60; k++) {
        double mid = (inside + outside) / 2;
        *(value(w, 0, mid, 0) >= 0 ? &inside : &outside) = mid;
    }
    return outside; /* rather too wide */
}

static void fit(struct window *win, struct bounds *w, double drift_p[2])
{
    if (!w->n_hi || !w->n_lo)
        return;
    double b = best(w, 0, -HM_DRIFT_MAX, HM_DRIFT_MAX, 0);
    if (value(w, 0, b, 0) < -1) /* no line passes: some stamp lies */
        return;
    double b0 = edge(w, b, -HM_DRIFT_MAX), b1 = edge(w, b, HM_DRIFT_MAX);
    double x0 = (double)win->x0, x1 = (double)win->x1;
    win->top0 = highest(w, best(w, 1, b0, b1, x0), x0) + 1;
    win->top1 = highest(w, best(w, 1, b0, b1, x1), x1) + 1;
    win->bottom0 = lowest(w, best(w, 2, b0, b1, x0), x0) - 1;
    win->bottom1 = lowest(w, best(w, 2, b0, b1, x1), x1) - 1;
    win->records = w->records;
    win->ok = 1;
    drift_p[0] = b0;
    drift_p[1] = b1;
}

/* ---- reading the works ---- */

static int by_channel(const void *a, const void *b)
{
    const struct hm_ptimer_work *p = *(const struct hm_ptimer_work *const *)a,
                                *q = *(const struct hm_ptimer_work *const *)b;
    if (p->channel != q->channel)
        return p->channel < q->channel ? -1 : 1;
    if (p->seen_ns != q->seen_ns)
        return p->seen_ns < q->seen_ns ? -1 : 1;
    return (p->gpu_start > q->gpu_start) - (p->gpu_start < q->gpu_start);
}

/* Leaves out what cannot be true; ok_p[] in channel order, returns how many. */
static size_t sound(const struct hm_ptimer_work *work, size_t n, const struct hm_ptimer_work **ok_p)
{
    size_t k = 0;
    for (size_t i = 0; i < n; i++)
        if (work[i].gpu_start && work[i].gpu_stop >= work[i].gpu_start)
            ok_p[k++] = &work[i];
    qsort(ok_p, k, sizeof(*ok_p), by_channel);
    size_t kept = 0;
    for (size_t i = 0; i < k; i++) {
        const struct hm_ptimer_work *last = kept ? ok_p[kept - 1] : NULL;
        if (last && last->channel == ok_p[i]->channel && ok_p[i]->gpu_start < last->gpu_start)
            continue;
        ok_p[kept++] = ok_p[i];
    }
    return kept;
}

static uint64_t gcd(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

static void add(struct point *p, size_t *n_p, const struct hm_ptimer *t, uint64_t gpu, int64_t host,
                int64_t slack)
{
    if (host == HM_PTIMER_UNKNOWN)
        return;
    /* both differences are small, whatever the origins are */
    int64_t y = (int64_t)((uint64_t)host - gpu) - t->y0;
    p[(*n_p)++] = (struct point){(int64_t)(gpu - t->g0), y - slack};
}

static struct bounds bounds_between(const struct hm_ptimer *t, const struct point *hi, size_t n_hi,
                                    const struct point *lo, size_t n_lo, int64_t from, int64_t to,
                                    struct point *room)
{
    struct bounds w = {.hi = room, .lo = room + n_hi};
    (void)t;
    for (size_t i = 0; i < n_hi; i++)
        if (hi[i].x >= from && hi[i].x < to)
            w.hi[w.n_hi++] = hi[i];
    for (size_t i = 0; i < n_lo; i++)
        if (lo[i].x >= from && lo[i].x < to)
            w.lo[w.n_lo++] = lo[i];
    w.n_hi = hull(w.hi, w.n_hi, 1);
    w.n_lo = hull(w.lo, w.n_lo, -1);
    return w;
}

static hm_status_t make_windows(struct hm_ptimer *t, const struct hm_ptimer_work **work, size_t n,
                                struct hm_ptimer_told *told)
{
    struct point *all = malloc((8 * n + 1) * sizeof(*all));
    if (!all)
        return HM_E_NOMEM;
    struct point *hi = all, *lo = all + 2 * n, *room = all + 4 * n;
    size_t n_hi = 0, n_lo = 0;
    uint64_t last = t->g0;
    int64_t tick = (int64_t)t->tick;
    int any_record = 0;
    for (size_t i = 0; i < n; i++) {
        const struct hm_ptimer_work *w = work[i];
        add(hi, &n_hi, t, w->gpu_stop, w->seen_ns, 0);
        add(hi, &n_hi, t, w->gpu_stop, w->kernel_end_ns, -w->kernel_error_ns);
        add(lo, &n_lo, t, w->gpu_start, w->launch_ns, tick);
        add(lo, &n_lo, t, w->gpu_start, w->kernel_start_ns, tick + w->kernel_error_ns);
        any_record |=
            w->kernel_start_ns != HM_PTIMER_UNKNOWN && w->kernel_end_ns != HM_PTIMER_UNKNOWN;
        last = w->gpu_stop > last ? w->gpu_stop : last;
    }
    qsort(hi, n_hi, sizeof(*hi), by_x);
    qsort(lo, n_lo, sizeof(*lo), by_x);
    t->n = (size_t)((int64_t)(last - t->g0) / WINDOW_NS) + 1;
    t->window = calloc(t->n, sizeof(*t->window));
    hm_status_t s = t->window ? HM_OK : HM_E_NOMEM;
    for (size_t i = 0; s == HM_OK && i < t->n; i++) {
        struct window *win = &t->window[i];
        double drift[2] = {0, 0};
        win->x0 = (int64_t)i * WINDOW_NS;
        win->x1 = win->x0 + WINDOW_NS;
        if (i + 1 == t->n) /* the last one ends with the stamps */
            win->x1 = (int64_t)(last - t->g0) > win->x0 ? (int64_t)(last - t->g0) : win->x0 + 1;
        /* the neighbours too: a window may hold few stamps; over three seconds a line still holds
         */
        struct bounds w = bounds_between(t, hi, n_hi, lo, n_lo, win->x0 - WINDOW_NS,
                                         win->x0 + 2 * WINDOW_NS, room);
        w.records = any_record;
        fit(win, &w, drift);
        if (win->ok && !told->n_ok++) {
            told->drift_lo = drift[0];
            told->drift_hi = drift[1];
        }
    }
    told->n_windows = t->n;
    free(all);
    return s;
}

hm_status_t hm_ptimer_create(const struct hm_ptimer_work *work, size_t n,
                             struct hm_ptimer **timer_p, struct hm_ptimer_told *told_p)
{
    struct hm_ptimer_told told = {.tick_ns = 1};
    struct hm_ptimer *t = calloc(1, sizeof(*t));
    const struct hm_ptimer_work **ok = malloc((n + 1) * sizeof(*ok));
    hm_status_t s = t && ok ? HM_OK : HM_E_NOMEM;
    if (s == HM_OK) {
        size_t k = sound(work, n, ok);
        told.n_bad = n - k;
        uint64_t tick = 0;
        t->g0 = k ? ok[0]->gpu_start : 0;
        for (size_t i = 0; i < k; i++)
            t->g0 = ok[i]->gpu_start < t->g0 ? ok[i]->gpu_start : t->g0;
        for (size_t i = 0; i < k; i++)
            tick = gcd(gcd(tick, ok[i]->gpu_start - t->g0), ok[i]->gpu_stop - t->g0);
        told.tick_ns = t->tick = tick ? tick : 1;
        /* any host time will do as the origin of y */
        for (size_t i = 0; i < k && !t->y0; i++) {
            int64_t h = ok[i]->seen_ns != HM_PTIMER_UNKNOWN ? ok[i]->seen_ns : ok[i]->launch_ns;
            t->y0 = h == HM_PTIMER_UNKNOWN ? 0 : (int64_t)((uint64_t)h - ok[i]->gpu_stop);
        }
        if (k)
            s = make_windows(t, ok, k, &told);
    }
    free(ok);
    if (s != HM_OK) {
        hm_ptimer_destroy(t);
        return s;
    }
    *timer_p = t;
    *told_p = told;
    return HM_OK;
}

void hm_ptimer_destroy(struct hm_ptimer *timer)
{
    if (timer)
        free(timer->window);
    free(timer);
}

int hm_ptimer_host(const struct hm_ptimer *t, uint64_t gpu, int64_t *host_p, int64_t *lo_p,
                   int64_t *hi_p)
{
    int64_t x = (int64_t)(gpu - t->g0);
    if (!gpu || !t->n || x < 0)
        return 0;
    size_t i = (size_t)(x / WINDOW_NS);
    if (i >= t->n)
        i = t->n - 1;
    const struct window *w = &t->window[i];
    if (!w->ok || x > w->x1)
        return 0;
    double part = (double)(x - w->x0) / (double)(w->x1 - w->x0);
    double top = w->top0 + (w->top1 - w->top0) * part;
    double bottom = w->bottom0 + (w->bottom1 - w->bottom0) * part;
    int64_t zero = (int64_t)(gpu + (uint64_t)t->y0);
    int64_t lo = zero + (int64_t)floor(bottom), hi = zero + (int64_t)ceil(top);
    *lo_p = lo;
    *hi_p = hi + (int64_t)t->tick; /* the true time lies up to a tick behind the stamp */
    *host_p = w->records ? lo + (*hi_p - lo) / 2 : hi;
    return 1;
}
