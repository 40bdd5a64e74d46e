/* `hindmost demo`: a made-up run with known faults.
 *
 * Box: merge/cmd.
 */
#include "demo/demo.h"

#include "cli.h"

#include <stdlib.h>
#include <string.h>

struct args {
    int64_t ranks, steps, seed;
    struct hm_option_list fault[4];
    const char *out;
};

/* R:VALUE[@STEP] */
static hm_status_t parse_fault(const char *option, enum hm_demo_kind kind, const char *text,
                               const struct args *a, struct hm_demo *d)
{
    char *end;
    unsigned long rank = strtoul(text, &end, 10), step = 0;
    double value = 0;
    int ok = end != text && *end == ':';
    if (ok) {
        const char *at = end + 1;
        value = strtod(at, &end);
        ok = end != at;
        if (ok && *end == '@') {
            at = end + 1;
            step = strtoul(at, &end, 10);
            ok = end != at;
        }
        ok = ok && !*end;
    }
    if (!ok)
        return hm_fail(HM_E_USAGE, "demo", "--%s: \"%s\" is not of the form R:VALUE[@STEP]", option,
                       text);
    if ((int64_t)rank >= a->ranks)
        return hm_fail(HM_E_USAGE, "demo", "--%s: there is no rank %lu among %ld", option, rank,
                       (long)a->ranks);
    int factor = kind == HM_DEMO_SLOW_GPU || kind == HM_DEMO_MORE_WORK;
    if (!(value >= (factor ? 1 : 0) && value <= 1e6))
        return hm_fail(HM_E_USAGE, "demo", "--%s: %g is out of range, at least %d", option, value,
                       factor);
    if (d->n_faults == HM_DEMO_MAX_FAULTS)
        return hm_fail(HM_E_USAGE, "demo", "more than %d faults", HM_DEMO_MAX_FAULTS);
    d->fault[d->n_faults++] = (struct hm_demo_fault){kind, (uint32_t)rank, (uint32_t)step, value};
    return HM_OK;
}

static hm_status_t demo_run(const void *p, int argc, char **argv)
{
    static const char *const name[] = {"slow-gpu", "slow-input", "late-launch", "more-work"};
    struct args a = *(const struct args *)p;
    if (argc)
        return hm_fail(HM_E_USAGE, "demo", "what is \"%s\"? the run folder is given with -o",
                       argv[0]);
    if (!a.out)
        return hm_fail(HM_E_USAGE, "demo", "where to? name a new folder with -o");
    a.ranks = a.ranks ? a.ranks : 8;
    a.steps = a.steps ? a.steps : 40;
    if (a.ranks < 1 || a.ranks > 65536 || a.steps < 1 || a.steps > 1000000)
        return hm_fail(HM_E_USAGE, "demo", "1 to 65536 ranks and 1 to 1000000 steps");
    struct hm_demo d = {
        .n_ranks = (uint32_t)a.ranks, .n_steps = (uint32_t)a.steps, .seed = (uint64_t)a.seed};
    for (int k = 0; k < 4; k++)
        for (uint32_t i = 0; i < a.fault[k].n; i++) {
            hm_status_t s = parse_fault(name[k], (enum hm_demo_kind)k, a.fault[k].v[i], &a, &d);
            if (s)
                return s;
        }
    return hm_demo_write(&d, a.out);
}

static const struct hm_option options[] = {
    {"ranks", "N", "ranks (8)", NULL, offsetof(struct args, ranks), 0, HM_OPT_INT},
    {"steps", "N", "training steps (40)", NULL, offsetof(struct args, steps), 0, HM_OPT_INT},
    {"seed", "N", "seed of the jitter; the same seed gives the same run", NULL,
     offsetof(struct args, seed), 0, HM_OPT_INT},
    {"slow-gpu", "R:FACTOR[@STEP]", "compute kernels of rank R take FACTOR times as long", NULL,
     offsetof(struct args, fault[0]), 0, HM_OPT_LIST},
    {"slow-input", "R:MS[@STEP]", "input of rank R takes MS ms longer", NULL,
     offsetof(struct args, fault[1]), 0, HM_OPT_LIST},
    {"late-launch", "R:MS[@STEP]", "the host of rank R launches MS ms late", NULL,
     offsetof(struct args, fault[2]), 0, HM_OPT_LIST},
    {"more-work", "R:FACTOR[@STEP]", "rank R has FACTOR times the work in its matrix kernels", NULL,
     offsetof(struct args, fault[3]), 0, HM_OPT_LIST},
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
