/* `hindmost demo`: a made-up run with known faults.
 *
 * Box: merge/cmd.
 */
#include "demo/demo.h"

#include "cli.h"

#include <stdlib.h>
#include <string.h>

struct args {
    int64_t ranks, steps, seed, layers, micro, node, worlds, sync, restart;
    struct hm_option_list fault[HM_DEMO_N_KINDS];
    const char *mesh, *noise, *clocks, *only, *out;
    int persistent, spin, proxy;
};

static uint32_t number(const char *text, char **end_p)
{
    unsigned long v = *text >= '0' && *text <= '9' ? strtoul(text, end_p, 10) : 0;
    if (!(*text >= '0' && *text <= '9'))
        *end_p = (char *)(uintptr_t)text;
    return v < UINT32_MAX ? (uint32_t)v : UINT32_MAX - 1;
}

/* R:VALUE[@STEP]; R@STEP where there is no value; R may be `all`. */
static int read_fault(enum hm_demo_kind kind, const char *text, struct hm_demo_fault *f)
{
    char *end;
    int bare = kind == HM_DEMO_HANG || kind == HM_DEMO_MISMATCH;
    *f = (struct hm_demo_fault){.kind = kind};
    if (kind == HM_DEMO_ROTATE) { /* no rank: each in turn */
        f->rank = HM_DEMO_EVERYBODY;
    } else if (!strncmp(text, "all:", 4)) {
        f->rank = HM_DEMO_EVERYBODY;
        text += 4;
    } else {
        f->rank = number(text, &end);
        if (end == text || (!bare && *end++ != ':'))
            return 0;
        text = end;
    }
    if (!bare) {
        f->value = strtod(text, &end);
        if (end == text)
            return 0;
        text = end;
    }
    if (*text == '@') {
        f->from_step = number(text + 1, &end);
        return end != text + 1 && !*end;
    }
    return !*text && !bare;
}

static const char *const option_of[HM_DEMO_N_KINDS] = {
    "slow-gpu",    "slow-input", "late-launch", "more-work",  "pauses",  "routing",
    "slow-link",   "slow-node",  "allocator",   "checkpoint", "rotate",  "clock-offset",
    "clock-drift", "lost",       "missing",     "hang",       "mismatch"};

static hm_status_t add_fault(struct hm_demo *d, const struct hm_demo_fault *f)
{
    if (d->n_faults == HM_DEMO_MAX_FAULTS)
        return hm_fail(HM_E_USAGE, "demo", "more than %d faults", HM_DEMO_MAX_FAULTS);
    d->fault[d->n_faults++] = *f;
    return HM_OK;
}

/* R,R,... */
static hm_status_t parse_missing(const char *text, struct hm_demo *d)
{
    struct hm_demo_fault f = {.kind = HM_DEMO_MISSING};
    for (;;) {
        char *end;
        f.rank = number(text, &end);
        if (end == text || (*end && *end != ','))
            return hm_fail(HM_E_USAGE, "demo", "--missing: \"%s\" is not a list of ranks", text);
        hm_status_t s = add_fault(d, &f);
        if (s || !*end)
            return s;
        text = end + 1;
    }
}

static hm_status_t parse_faults(const struct args *a, struct hm_demo *d)
{
    for (unsigned k = 0; k < HM_DEMO_N_KINDS; k++)
        for (uint32_t i = 0; i < a->fault[k].n; i++) {
            struct hm_demo_fault f;
            const char *text = a->fault[k].v[i];
            hm_status_t s;
            if (k == HM_DEMO_MISSING)
                s = parse_missing(text, d);
            else if (!read_fault((enum hm_demo_kind)k, text, &f))
                s = hm_fail(HM_E_USAGE, "demo", "--%s: \"%s\" is not of the form %s", option_of[k],
                            text,
                            k == HM_DEMO_HANG || k == HM_DEMO_MISMATCH ? "R@STEP"
                            : k == HM_DEMO_ROTATE                      ? "FACTOR[@STEP]"
                                                                       : "R:VALUE[@STEP]");
            else
                s = add_fault(d, &f);
            if (s)
                return s;
        }
    return HM_OK;
}

/* dp=2,pp=2,tp=2 */
static hm_status_t parse_mesh(const char *text, struct hm_demo *d)
{
    unsigned seen = 0;
    const char *at = text;
    while (*at) {
        unsigned dim = 0;
        size_t len = 0;
        for (; dim < HM_DEMO_N_DIMS; dim++) {
            len = strlen(hm_demo_dim_name((enum hm_demo_dim)dim));
            if (!strncmp(at, hm_demo_dim_name((enum hm_demo_dim)dim), len) && at[len] == '=')
                break;
        }
        char *end = NULL;
        uint32_t size = dim < HM_DEMO_N_DIMS ? number(at + len + 1, &end) : 0;
        if (!size || size > 65536 || seen >> dim & 1 || (*end && *end != ',') ||
            (*end == ',' && !end[1]))
            return hm_fail(HM_E_USAGE, "demo",
                           "--mesh: \"%s\" is not of the form dp=2,fsdp=2,pp=2,tp=2,ep=2", text);
        seen |= 1U << dim;
        d->dim[d->n_dims] = (uint8_t)dim;
        d->size[d->n_dims++] = size;
        at = *end ? end + 1 : end;
    }
    return HM_OK;
}

static hm_status_t parse_rest(const struct args *a, struct hm_demo *d)
{
    char *end;
    hm_status_t s = a->mesh ? parse_mesh(a->mesh, d) : HM_OK;
    uint64_t n = 1;
    if (s)
        return s;
    for (unsigned i = 0; i < d->n_dims; i++)
        n *= d->size[i];
    if (d->n_dims && !a->ranks && n <= 65536)
        d->n_ranks = (uint32_t)n * (d->n_worlds ? d->n_worlds : 1);
    if (a->noise) {
        d->noise = strtod(a->noise, &end);
        if (end == a->noise || *end || !(d->noise >= 0 && d->noise <= 0.25))
            return hm_fail(HM_E_USAGE, "demo", "--noise: \"%s\" is not a number from 0 to 0.25",
                           a->noise);
        d->noise = d->noise > 0 ? d->noise : HM_DEMO_NO_NOISE;
    }
    if (a->only) {
        d->one_only = 1;
        d->only = number(a->only, &end);
        if (end == a->only || *end || d->only >= d->n_ranks)
            return hm_fail(HM_E_USAGE, "demo", "--only: there is no rank %s among %u", a->only,
                           d->n_ranks);
    }
    d->clocks = a->clocks && *a->clocks == 'p'   ? HM_DEMO_PROBED
                : a->clocks && *a->clocks == 'u' ? HM_DEMO_UNPROBED
                                                 : HM_DEMO_ONE_CLOCK;
    return HM_OK;
}

static hm_status_t demo_run(const void *p, int argc, char **argv)
{
    struct args a = *(const struct args *)p;
    if (argc)
        return hm_fail(HM_E_USAGE, "demo", "what is \"%s\"? the run folder is given with -o",
                       argv[0]);
    if (!a.out)
        return hm_fail(HM_E_USAGE, "demo", "where to? name a new folder with -o");
    int64_t ranks = a.ranks ? a.ranks : 8, steps = a.steps ? a.steps : 40;
    if (ranks < 1 || ranks > 65536 || steps < 1 || steps > 1000000)
        return hm_fail(HM_E_USAGE, "demo", "1 to 65536 ranks and 1 to 1000000 steps");
    if (a.layers < 0 || a.layers > 4096 || a.micro < 0 || a.micro > 4096 || a.node < 0 ||
        a.node > 65536 || a.worlds < 0 || a.worlds > 65536 || a.sync < 0 || a.sync > 1000000 ||
        a.restart < 0 || a.restart > 1000000)
        return hm_fail(HM_E_USAGE, "demo", "a number is out of range");
    struct hm_demo d = {.n_ranks = (uint32_t)ranks,
                        .n_steps = (uint32_t)steps,
                        .seed = (uint64_t)a.seed,
                        .n_layers = (uint32_t)a.layers,
                        .n_micro = (uint32_t)a.micro,
                        .node_ranks = (uint32_t)a.node,
                        .n_worlds = (uint32_t)a.worlds,
                        .sync_every = (uint32_t)a.sync,
                        .restart_step = (uint32_t)a.restart,
                        .persistent = (uint8_t)a.persistent,
                        .spin = (uint8_t)a.spin,
                        .proxy = (uint8_t)a.proxy};
    hm_status_t s = parse_rest(&a, &d);
    if (!s)
        s = parse_faults(&a, &d);
    return s ? s : hm_demo_write(&d, a.out);
}

#define FAULT(kind, name, arg, help)                                                              \
    {                                                                                             \
        name, arg, help, NULL,                                                                    \
            (uint16_t)(offsetof(struct args, fault) + (kind) * sizeof(struct hm_option_list)), 0, \
            HM_OPT_LIST                                                                           \
    }
static const char *const clocks[] = {"one", "probed", "unprobed", NULL};
static const struct hm_option options[] = {
    {"ranks", "N", "ranks (8, or what the mesh holds)", NULL, offsetof(struct args, ranks), 0,
     HM_OPT_INT},
    {"steps", "N", "training steps (40)", NULL, offsetof(struct args, steps), 0, HM_OPT_INT},
    {"seed", "N", "seed of the noise; the same seed gives the same run", NULL,
     offsetof(struct args, seed), 0, HM_OPT_INT},
    {"mesh", "D=N,..", "dimensions of dp, fsdp, pp, tp, ep; the last varies fastest (dp alone)",
     NULL, offsetof(struct args, mesh), 0, HM_OPT_TEXT},
    {"noise", "SIGMA", "relative noise of each duration (0.001)", NULL,
     offsetof(struct args, noise), 0, HM_OPT_TEXT},
    {"layers", "N", "layers of the model (8)", NULL, offsetof(struct args, layers), 0, HM_OPT_INT},
    {"microbatches", "N", "microbatches a step (1; with a pipeline twice its stages)", NULL,
     offsetof(struct args, micro), 0, HM_OPT_INT},
    {"node", "N", "ranks on a node (8)", NULL, offsetof(struct args, node), 0, HM_OPT_INT},
    {"worlds", "N", "jobs beside each other, of equal size (1)", NULL,
     offsetof(struct args, worlds), 0, HM_OPT_INT},
    {"sync-every", "N", "steps between two waits of the host for the GPU (1)", NULL,
     offsetof(struct args, sync), 0, HM_OPT_INT},
    {"persistent", NULL, "compute kernels keep one grid, whatever their work is", NULL,
     offsetof(struct args, persistent), 0, HM_OPT_FLAG},
    {"spin", NULL, "tokens are exchanged by kernels that are not NCCL's (with ep)", NULL,
     offsetof(struct args, spin), 0, HM_OPT_FLAG},
    {"proxy", NULL, "rings tell what their proxies waited for (not tp's)", NULL,
     offsetof(struct args, proxy), 0, HM_OPT_FLAG},
    {"clocks", "HOW", "one clock, or one a node: probed or unprobed (one)", clocks,
     offsetof(struct args, clocks), 0, HM_OPT_TEXT},
    {"restart", "STEP", "an attempt of STEP steps came before", NULL,
     offsetof(struct args, restart), 0, HM_OPT_INT},
    {"only", "R", "write the file of rank R alone", NULL, offsetof(struct args, only), 0,
     HM_OPT_TEXT},
    FAULT(HM_DEMO_SLOW_GPU, "slow-gpu", "R:FACTOR[@STEP]",
          "compute kernels of rank R take FACTOR times as long"),
    FAULT(HM_DEMO_SLOW_INPUT, "slow-input", "R:MS[@STEP]", "input of rank R takes MS ms longer"),
    FAULT(HM_DEMO_LATE_LAUNCH, "late-launch", "R:MS[@STEP]",
          "the host of rank R launches MS ms late"),
    FAULT(HM_DEMO_MORE_WORK, "more-work", "R:FACTOR[@STEP]",
          "rank R has FACTOR times the work in its matrix kernels"),
    FAULT(HM_DEMO_PAUSES, "pauses", "R:MS[@STEP]",
          "in one step of five the host of rank R (or all) stands still for MS ms"),
    FAULT(HM_DEMO_ROUTING, "routing", "R:FACTOR[@STEP]",
          "the experts of rank R get FACTOR times the tokens"),
    FAULT(HM_DEMO_SLOW_LINK, "slow-link", "R:FACTOR[@STEP]",
          "transfers in which rank R takes part last FACTOR times as long (not tp's)"),
    FAULT(HM_DEMO_SLOW_NODE, "slow-node", "N:FACTOR[@STEP]", "as --slow-gpu, all ranks of node N"),
    FAULT(HM_DEMO_ALLOCATOR, "allocator", "R:MS[@STEP]",
          "in 3 steps of 10 rank R spends MS ms in cudaFree and cudaMalloc"),
    FAULT(HM_DEMO_CHECKPOINT, "checkpoint", "R:MS[@STEP]",
          "every 10th step rank R writes a checkpoint for MS ms"),
    FAULT(HM_DEMO_ROTATE, "rotate", "FACTOR[@STEP]",
          "in each step another rank has FACTOR times the work"),
    FAULT(HM_DEMO_CLOCK_OFFSET, "clock-offset", "R:US[@STEP]",
          "the clock of rank R's node is US us off from STEP on"),
    FAULT(HM_DEMO_CLOCK_DRIFT, "clock-drift", "R:PPM",
          "the clock of rank R's node is PPM ppm fast"),
    FAULT(HM_DEMO_LOST, "lost", "R:FRACTION[@STEP]",
          "no event is kept of that fraction of rank R's steps"),
    FAULT(HM_DEMO_MISSING, "missing", "R,..", "these ranks left no file"),
    FAULT(HM_DEMO_HANG, "hang", "R@STEP", "rank R dies in STEP, the others wait for it"),
    FAULT(HM_DEMO_MISMATCH, "mismatch", "R@STEP",
          "rank R calls one collective of STEP with half the count"),
    {"output", "RUN", "new run folder", NULL, offsetof(struct args, out), 'o', HM_OPT_TEXT},
};

const struct hm_command hm_cmd_demo = {
    "demo",
    "",
    "write a made-up run whose straggler is known",
    "hindmost demo --ranks 8 --steps 40 --slow-gpu 5:1.12 -o demo.run && hindmost report demo.run",
    options,
    sizeof(options) / sizeof(options[0]),
    sizeof(struct args),
    demo_run};
