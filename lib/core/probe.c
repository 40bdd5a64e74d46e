/* Who probes whom. Box: lib/core. Pure. Source: facts on clocks, 3.2: a 16-ary tree plus two random
 * edges a leader, seeded by the job's nonce, so that every leader draws the same graph.
 */
#include "core/probe.h"

#define ARITY   16
#define PICKS   2
#define MAX_IN  13 /* 16 children + 1 parent + 2 own picks + 13 = 32 */
#define MAX_DEG 32

static uint64_t mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* The k-th random neighbour that leader i asks for: any of the others, and the second never the
 * first again, so that three leaders always measure all three pairs. */
static uint32_t pick(uint32_t n, uint32_t i, uint32_t k, uint64_t nonce)
{
    uint64_t away = mix(nonce ^ mix((uint64_t)i * PICKS)) % (n - 1);
    if (k && n > 2) {
        uint64_t first = away;
        away = mix(nonce ^ mix((uint64_t)i * PICKS + k)) % (n - 2);
        away += away >= first;
    }
    return (uint32_t)((i + 1 + away) % n);
}

static uint32_t add_peer(uint32_t peer_p[MAX_DEG], uint32_t n, uint32_t peer)
{
    uint32_t at = 0;
    while (at < n && peer_p[at] < peer)
        at++;
    if ((at < n && peer_p[at] == peer) || n == MAX_DEG)
        return n;
    for (uint32_t i = n; i > at; i--)
        peer_p[i] = peer_p[i - 1];
    peer_p[at] = peer;
    return n + 1;
}

uint32_t hm_probe_peers(uint32_t n, uint32_t me, uint64_t nonce, uint32_t peer_p[32])
{
    uint32_t n_peers = 0, want[PICKS], n_in[PICKS + 1] = {0};
    if (n < 2 || me >= n)
        return 0;
    if (me)
        n_peers = add_peer(peer_p, n_peers, (me - 1) / ARITY);
    for (uint64_t c = (uint64_t)me * ARITY + 1; c <= (uint64_t)me * ARITY + ARITY && c < n; c++)
        n_peers = add_peer(peer_p, n_peers, (uint32_t)c);
    for (uint32_t k = 0; k < PICKS; k++)
        want[k] = pick(n, me, k, nonce);
    /* A leader takes the first MAX_IN that ask for it, in order of index: both ends can tell. */
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < PICKS; k++) {
            uint32_t to = pick(n, i, k, nonce);
            if (to == me && n_in[PICKS]++ < MAX_IN)
                n_peers = add_peer(peer_p, n_peers, i);
            for (uint32_t w = 0; w < PICKS; w++) {
                if (to != want[w])
                    continue;
                uint32_t before = n_in[w]++;
                if (i == me && before < MAX_IN)
                    n_peers = add_peer(peer_p, n_peers, to);
            }
        }
    }
    return n_peers;
}

static int64_t round_trip(const struct hm_event *ev)
{
    const struct hm_ev_probe *p = &ev->u.probe;
    uint64_t away = (uint64_t)p->t4_ns - (uint64_t)ev->t_ns;
    uint64_t there = (uint64_t)p->t3_ns - (uint64_t)p->t2_ns;
    return (int64_t)(away - there);
}

/* by_time 0: by round trip, equal ones by time. Shell sort: no allocation, few elements. */
static int before(const struct hm_event *a, const struct hm_event *b, int by_time)
{
    if (!by_time) {
        int64_t ra = round_trip(a), rb = round_trip(b);
        if (ra != rb)
            return ra < rb;
    }
    return a->t_ns < b->t_ns;
}

static void sort(struct hm_event *ev, uint32_t n, int by_time)
{
    uint32_t gap = 1;
    while (gap < n / 3)
        gap = gap * 3 + 1;
    for (; gap; gap /= 3) {
        for (uint32_t i = gap; i < n; i++) {
            struct hm_event x = ev[i];
            uint32_t j = i;
            for (; j >= gap && before(&x, &ev[j - gap], by_time); j -= gap)
                ev[j] = ev[j - gap];
            ev[j] = x;
        }
    }
}

uint32_t hm_probe_best(struct hm_event *probe, uint32_t n, uint32_t keep)
{
    sort(probe, n, 0);
    if (n > keep)
        n = keep;
    sort(probe, n, 1);
    return n;
}
