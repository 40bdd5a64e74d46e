/* Case i by hashing i: faults in turn, everything else drawn.
 *
 * Effects are drawn as a fraction of the step; what they really cost is for the truth to say.
 */
#include "verdict_case.h"

#include "demo/random.h"

#include <stdio.h>
#include <string.h>

static uint64_t draw(uint32_t i, uint32_t what)
{
    return hm_demo_hash(UINT64_C(0x7e6d1c7), i, what, 0);
}
#define PICK(array, h) ((array)[(h) % (sizeof(array) / sizeof((array)[0]))])

struct mesh {
    uint32_t n, n_dims;
    struct {
        enum hm_demo_dim dim;
        uint32_t size;
    } d[4];
    uint32_t spin, worlds;
};
#define DP   HM_DEMO_DP
#define FSDP HM_DEMO_FSDP
#define PP   HM_DEMO_PP
#define TP   HM_DEMO_TP
#define EP   HM_DEMO_EP
static const struct mesh meshes[] = {
    {2, 1, {{DP, 2}}, 0, 0},
    {4, 1, {{DP, 4}}, 0, 0},
    {8, 1, {{DP, 8}}, 0, 0},
    {16, 1, {{DP, 16}}, 0, 0},
    {32, 1, {{DP, 32}}, 0, 0},
    {64, 1, {{DP, 64}}, 0, 0},
    {4, 1, {{FSDP, 4}}, 0, 0},
    {8, 1, {{FSDP, 8}}, 0, 0},
    {16, 2, {{DP, 2}, {FSDP, 8}}, 0, 0},
    {4, 2, {{DP, 2}, {TP, 2}}, 0, 0},
    {8, 2, {{DP, 2}, {TP, 4}}, 0, 0},
    {16, 2, {{DP, 2}, {TP, 8}}, 0, 0},
    {32, 2, {{DP, 4}, {TP, 8}}, 0, 0},
    {4, 2, {{DP, 2}, {PP, 2}}, 0, 0},
    {8, 2, {{DP, 2}, {PP, 4}}, 0, 0},
    {4, 1, {{PP, 4}}, 0, 0},
    {8, 3, {{DP, 2}, {PP, 2}, {TP, 2}}, 0, 0},
    {16, 3, {{DP, 2}, {PP, 4}, {TP, 2}}, 0, 0},
    {8, 2, {{FSDP, 4}, {PP, 2}}, 0, 0},
    {4, 1, {{EP, 4}}, 0, 0},
    {8, 1, {{EP, 8}}, 0, 0},
    {8, 2, {{DP, 2}, {EP, 4}}, 0, 0},
    {8, 1, {{EP, 8}}, 1, 0},
    {8, 1, {{DP, 4}}, 0, 2},
};
enum { N_MESHES = sizeof(meshes) / sizeof(meshes[0]), FIRST_EP = 19, N_EP = 4 };

static void set_mesh(struct hm_demo *d, const struct mesh *m)
{
    d->n_ranks = m->n;
    d->n_dims = (uint8_t)m->n_dims;
    for (uint32_t k = 0; k < m->n_dims; k++) {
        d->dim[k] = (uint8_t)m->d[k].dim;
        d->size[k] = m->d[k].size;
    }
    d->spin = (uint8_t)m->spin;
    d->n_worlds = m->worlds;
}

static void add(struct hm_demo *d, enum hm_demo_kind kind, uint32_t rank, uint32_t step,
                double value)
{
    d->fault[d->n_faults++] = (struct hm_demo_fault){kind, rank, step, value};
}

/* ms to two places and factors to three, so that the command line says exactly this. */
static double round_to(double v, double unit)
{
    return (double)(int64_t)(v * unit + 0.5) / unit;
}

void verdict_case(uint32_t i, struct verdict_case *c)
{
    static const char *const group[] = {"healthy",    "slow_gpu",
                                        "slow_input", "late_launch",
                                        "more_work",  "slow_node",
                                        "routing",    "pauses",
                                        "allocator",  "checkpoint",
                                        "rotate",     "healthy",
                                        "two_gpus",   "two_kinds",
                                        "slow_link",  "jitter",
                                        "clocks",     "lost",
                                        "missing",    "hang",
                                        "mismatch",   "persistent_more_work"};
    static const double noise[] = {HM_DEMO_NO_NOISE, 0.001, 0.005, 0.01, 0.02, 0.04};
    static const double effect[] = {0.002, 0.004, 0.01, 0.02, 0.03, 0.05, 0.08, 0.12, 0.16, 0.20};
    enum { N_GROUPS = sizeof(group) / sizeof(group[0]) };
    uint32_t g = i % N_GROUPS;
    struct hm_demo d;
    memset(&d, 0, sizeof(d));
    const struct mesh *m = &meshes[draw(i, 1) % N_MESHES];
    if (m->n > 16 && draw(i, 11) % 3) /* large ones cost most of the time: fewer of them */
        m = &meshes[draw(i, 12) % 4];
    if (!strcmp(group[g], "routing"))
        m = &meshes[FIRST_EP + draw(i, 1) % N_EP];
    if (!strcmp(group[g], "mismatch") && m->n_dims == 1 && m->d[0].dim == PP)
        m = &meshes[3]; /* sends and receives alone */
    set_mesh(&d, m);
    d.n_steps = 20 + (uint32_t)(draw(i, 2) % 41);
    d.seed = i;
    d.noise = PICK(noise, draw(i, 3));
    d.node_ranks = d.n_ranks > 8 ? 8 : d.n_ranks > 2 ? d.n_ranks / 2 : 1;
    /* a healthy step, to size the effect by */
    struct hm_demo short_run = d;
    struct hm_demo_truth t = {.total_ns = 25000000 * 4};
    short_run.n_steps = 5;
    (void)hm_demo_truth(&short_run, &t);
    double step_ms = (double)t.total_ns / 4e6, e = PICK(effect, draw(i, 4));
    double ms = round_to(e * step_ms, 100), f = round_to(1 + 1.5 * e, 1000);
    uint32_t rank = (uint32_t)(draw(i, 5) % d.n_ranks);
    uint32_t step = draw(i, 6) % 4 ? 0 : d.n_steps / 3;
    const char *name = group[g];
    if (!strcmp(name, "slow_gpu"))
        add(&d, HM_DEMO_SLOW_GPU, rank, step, f);
    else if (!strcmp(name, "slow_input"))
        add(&d, HM_DEMO_SLOW_INPUT, rank, step, ms);
    else if (!strcmp(name, "late_launch"))
        add(&d, HM_DEMO_LATE_LAUNCH, rank, step, ms);
    else if (!strcmp(name, "more_work") || !strcmp(name, "persistent_more_work"))
        add(&d, HM_DEMO_MORE_WORK, rank, step, f);
    else if (!strcmp(name, "slow_node"))
        add(&d, HM_DEMO_SLOW_NODE, rank / d.node_ranks, step, f);
    else if (!strcmp(name, "routing"))
        add(&d, HM_DEMO_ROUTING, rank, step, round_to(1 + 4 * e, 1000));
    else if (!strcmp(name, "pauses"))
        add(&d, HM_DEMO_PAUSES, rank, 0, round_to(5 * ms, 100));
    else if (!strcmp(name, "allocator"))
        add(&d, HM_DEMO_ALLOCATOR, rank, 0, round_to(3.3 * ms, 100));
    else if (!strcmp(name, "checkpoint"))
        add(&d, HM_DEMO_CHECKPOINT, rank, 0, round_to(10 * ms, 100));
    else if (!strcmp(name, "rotate"))
        add(&d, HM_DEMO_ROTATE, HM_DEMO_EVERYBODY, 0, f);
    else if (!strcmp(name, "jitter"))
        add(&d, HM_DEMO_PAUSES, HM_DEMO_EVERYBODY, 0, ms);
    else if (!strcmp(name, "slow_link")) {
        d.proxy = draw(i, 13) % 2;
        add(&d, HM_DEMO_SLOW_LINK, rank, step, round_to(1 + 10 * e, 1000));
    } else if (!strcmp(name, "hang"))
        add(&d, HM_DEMO_HANG, rank, d.n_steps / 2, 0);
    else if (!strcmp(name, "mismatch"))
        add(&d, HM_DEMO_MISMATCH, rank, d.n_steps / 2, 0);
    else if (!strcmp(name, "lost")) /* losses, and now and then a straggler among them */
        add(&d, HM_DEMO_LOST, rank, 0, 0.05 + 0.1 * (double)(draw(i, 7) % 4));
    else if (!strcmp(name, "missing"))
        add(&d, HM_DEMO_MISSING, rank, 0, 0);
    d.persistent = !strcmp(name, "persistent_more_work");
    if (!strcmp(name, "two_gpus")) {
        add(&d, HM_DEMO_SLOW_GPU, rank, step, f);
        add(&d, HM_DEMO_SLOW_GPU, (rank + 1) % d.n_ranks, step, f);
    } else if (!strcmp(name, "two_kinds")) {
        add(&d, HM_DEMO_SLOW_GPU, rank, 0, f);
        add(&d, HM_DEMO_SLOW_INPUT, (rank + 1) % d.n_ranks, 0, round_to(ms / 3, 100));
    } else if (!strcmp(name, "clocks")) {
        d.clocks = draw(i, 8) % 2 ? HM_DEMO_PROBED : HM_DEMO_UNPROBED;
        if (draw(i, 9) % 3 == 0)
            add(&d, HM_DEMO_CLOCK_OFFSET, d.n_ranks - 1, d.n_steps / 2, 800);
        else if (draw(i, 9) % 3 == 1)
            add(&d, HM_DEMO_CLOCK_DRIFT, d.n_ranks - 1, 0, 50);
    }
    if ((!strcmp(name, "lost") || !strcmp(name, "missing") || !strcmp(name, "clocks")) &&
        draw(i, 10) % 2)
        add(&d, HM_DEMO_SLOW_GPU, (rank + 1) % d.n_ranks, 0, f);
    *c = (struct verdict_case){d, name};
}

void verdict_command(const struct hm_demo *d, char *text, size_t size)
{
    static const char *const option[HM_DEMO_N_KINDS] = {
        "slow-gpu",    "slow-input", "late-launch", "more-work",  "pauses",  "routing",
        "slow-link",   "slow-node",  "allocator",   "checkpoint", "rotate",  "clock-offset",
        "clock-drift", "lost",       "missing",     "hang",       "mismatch"};
    int n = snprintf(text, size, "hindmost demo --steps %u --seed %lu --node %u --noise %g",
                     d->n_steps, (unsigned long)d->seed, d->node_ranks,
                     d->noise < 0   ? 0
                     : d->noise > 0 ? d->noise
                                    : 0.001);
#define ADD(...) n += snprintf(text + n, size > (size_t)n ? size - (size_t)n : 0, __VA_ARGS__)
    for (unsigned i = 0; i < d->n_dims; i++)
        ADD("%s%s=%u", i ? "," : " --mesh ", hm_demo_dim_name(d->dim[i]), d->size[i]);
    if (d->n_worlds > 1)
        ADD(" --worlds %u", d->n_worlds);
    if (d->spin)
        ADD(" --spin");
    if (d->proxy)
        ADD(" --proxy");
    if (d->persistent)
        ADD(" --persistent");
    if (d->clocks)
        ADD(" --clocks %s", d->clocks == HM_DEMO_PROBED ? "probed" : "unprobed");
    for (unsigned i = 0; i < d->n_faults; i++) {
        const struct hm_demo_fault *f = &d->fault[i];
        ADD(" --%s ", option[f->kind]);
        if (f->kind == HM_DEMO_MISSING) {
            ADD("%u", f->rank);
            continue;
        }
        if (f->kind == HM_DEMO_HANG || f->kind == HM_DEMO_MISMATCH) {
            ADD("%u@%u", f->rank, f->from_step);
            continue;
        }
        if (f->kind != HM_DEMO_ROTATE && f->rank == HM_DEMO_EVERYBODY)
            ADD("all:");
        else if (f->kind != HM_DEMO_ROTATE)
            ADD("%u:", f->rank);
        ADD("%g", f->value);
        if (f->from_step)
            ADD("@%u", f->from_step);
    }
#undef ADD
}
