/* Links from proxy steps; example E13 of the facts on analysis, and odd input. */
#include "analysis/network.h"

#include <criterion/criterion.h>
#include <string.h>

static struct hm_network *net;

static void setup(void)
{
    cr_assert_eq(hm_network_create(2, &net), HM_OK);
}
static void done(void)
{
    hm_network_destroy(net);
}
TestSuite(network, .init = setup, .fini = done);

static void op(uint32_t proxy, uint32_t to, int is_send)
{
    struct hm_event ev = {.kind = HM_EV_PROXY_OP};
    ev.u.proxy_op.proxy = proxy;
    ev.u.proxy_op.is_send = (uint8_t)is_send;
    hm_network_op(net, &ev, 0xabc, to);
}

static void step(uint32_t proxy, int64_t t, int64_t dur, int64_t gpu, int64_t peer, int64_t wire)
{
    struct hm_event ev = {.t_ns = t, .dur_ns = dur, .kind = HM_EV_PROXY_STEP};
    ev.u.proxy_step.phase_ns[0] = gpu;
    ev.u.proxy_step.phase_ns[1] = peer;
    ev.u.proxy_step.phase_ns[2] = wire;
    ev.u.proxy_step.bytes = 4096;
    ev.u.proxy_step.proxy = proxy;
    hm_network_step(net, &ev, 0, 1000000);
}

Test(network, a_send_step_is_cut_at_its_states)
{
    size_t n;
    op(7, 3, 1);
    step(7, 100, 60000, 1000, 15000, 20000); /* GPU 14, credit 5, wire 40 us */
    step(7, 200, 60000, 1000, 0, 20000);     /* no credit state told: GPU 19, wire 40 */
    const struct hm_link_sum *l = hm_network_links(net, &n);
    cr_assert_eq(n, 1);
    cr_assert(l->comm == 0xabc && l->from == 2 && l->to == 3 && l->n == 2);
    cr_assert_eq(l->wire_ns, 80000);
    cr_assert_eq(l->gpu_ns, 14000 + 19000);
    cr_assert_eq(l->peer_ns, 5000);
    cr_assert_eq(l->bytes, 8192);
}

Test(network, an_operation_may_come_after_its_steps)
{
    size_t n;
    step(9, 100, 50, 1, 2, 10);
    step(8, 100, 50, 1, 2, 30);
    op(9, 1, 1);
    op(8, 1, 1);
    const struct hm_link_sum *l = hm_network_links(net, &n);
    cr_assert(n == 1 && l->n == 2 && l->wire_ns == 40 + 20);
}

Test(network, what_is_no_send_on_the_wire_is_passed_over)
{
    size_t n;
    op(1, 3, 0);          /* a receive */
    op(2, UINT32_MAX, 1); /* to nobody known */
    op(3, 3, 1);
    step(1, 100, 50, 1, 2, 10);
    step(2, 100, 50, 1, 2, 10);
    step(3, 100, 50, 1, 2, 0);         /* never on the wire */
    step(3, 100, 50, 1, 2, 60);        /* beyond its end */
    step(3, 100, INT64_MIN, 1, 2, 10); /* had not ended */
    step(3, -5, 50, 1, 2, 10);         /* before the window */
    step(3, 1000000, 50, 1, 2, 10);    /* after it */
    const struct hm_link_sum *l = hm_network_links(net, &n);
    cr_assert(n == 1 && l->n == 0);
    for (uint32_t i = 0; i < 100000; i++) /* steps that nobody owns, and links without end */
        step(1000 + i, 100, 50, 1, 2, 10);
    for (uint32_t i = 0; i < 10000; i++)
        op(i, i, 1);
    hm_network_links(net, &n);
    cr_assert_leq(n, 256);
}
