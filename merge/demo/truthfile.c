/* RUN/truth.json: what was done to the run, and what a report should say of it.
 *
 * Box: merge/demo.
 */
#include "demo/truthfile.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void faults(FILE *f, const struct hm_demo *d, const struct hm_demo_truth *t)
{
    for (uint32_t i = 0; i < d->n_faults; i++) {
        const struct hm_demo_fault *x = &d->fault[i];
        fprintf(f, "%s{\"kind\": \"%s\", \"rank\": ", i ? ",\n  " : "", hm_demo_kind_name(x->kind));
        if (x->rank == HM_DEMO_EVERYBODY)
            fprintf(f, "null");
        else
            fprintf(f, "%u", x->rank);
        fprintf(f, ", \"value\": %g, \"from_step\": %u, \"gain_ns\": %" PRId64 "}", x->value,
                x->from_step, t->gain_ns[i]);
    }
}

static void write_all(FILE *f, const struct hm_demo *d, const struct hm_demo_truth *t,
                      const struct hm_demo_answer *a, const uint32_t *ids)
{
    fprintf(f,
            "{\"ranks\": %u, \"steps\": %u, \"seed\": %" PRIu64 ", \"worlds\": %u,\n \"mesh\": [",
            d->n_ranks, d->n_steps, d->seed, d->n_worlds ? d->n_worlds : 1);
    for (unsigned i = 0; i < d->n_dims; i++)
        fprintf(f, "%s[\"%s\", %u]", i ? ", " : "", hm_demo_dim_name(d->dim[i]), d->size[i]);
    fprintf(f, "],\n \"faults\": [");
    faults(f, d, t);
    fprintf(f, "],\n \"verdict\": {\"status\": \"%s\", \"subject\": {\"kind\": \"%s\", \"ids\": [",
            a->status, a->kind);
    for (uint32_t i = 0; i < a->n_ids; i++)
        fprintf(f, "%s%u", i ? ", " : "", ids[i]);
    fprintf(f,
            "]}, \"cause\": \"%s\", \"pattern\": \"%s\",\n  \"gain_ns\": %" PRId64
            ", \"gain_frac\": %.9f},\n",
            a->cause, a->pattern, t->subject_gain_ns,
            t->total_ns > 0 ? (double)t->subject_gain_ns / (double)t->total_ns : 0);
    fprintf(f,
            " \"total_ns\": %" PRId64 ", \"repaired_ns\": %" PRId64 ", \"gain_ns\": %" PRId64
            ", \"noise_ns\": %" PRId64 "}\n",
            t->total_ns, t->repaired_ns, t->total_ns - t->repaired_ns,
            t->repaired_ns - t->quiet_ns);
}

hm_status_t hm_demo_truth_write(const struct hm_demo *d, const char *dir)
{
    char path[1200];
    struct hm_demo_truth t;
    struct hm_demo_answer a;
    hm_status_t s = hm_demo_truth(d, &t);
    if (s)
        return s;
    uint32_t *ids = calloc(d->n_ranks, sizeof(*ids));
    if (!ids)
        return hm_fail(HM_E_NOMEM, "demo", "out of memory");
    hm_demo_answer(d, &t, &a, ids, d->n_ranks);
    snprintf(path, sizeof(path), "%s/truth.json", dir);
    FILE *f = fopen(path, "w");
    if (!f) {
        s = hm_fail(HM_E_IO, path, "cannot be written: %s", strerror(errno));
        free(ids);
        return s;
    }
    write_all(f, d, &t, &a, ids);
    int bad = ferror(f);
    if (fclose(f) || bad)
        s = hm_fail(HM_E_IO, path, "cannot be written");
    free(ids);
    return s;
}
