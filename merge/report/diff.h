/* Two runs side by side: step time, where it goes, kernels, collectives, verdicts.
 *
 * Box: merge/report. One thread. Everything in ns a step, mean of the ranks unless said, so that
 * runs of different length and size can be compared.
 */
#ifndef HM_REPORT_DIFF_H
#define HM_REPORT_DIFF_H

#include "report/report.h"

struct hm_diff_side {
    const struct hm_run *run;
    const struct hm_result *result;
};
/** A row of a comparison; HM_NONE where a side has none. */
struct hm_diff_row {
    char *key; /* what is compared, for people; heap */
    int64_t v[2], n[2];
};
struct hm_diff {
    struct hm_diff_side side[2];
    const char *status; /* slower, faster, same, undecided: the second against the first */
    double p;           /* of so different step times by chance; NAN not tested */
    int64_t median_ns[2], mean_ns[2];
    struct hm_diff_row *ledger, *kernel, *op; /* heap; kernel, op: largest change first */
    uint32_t n_ledger, n_kernels, n_ops;
};
hm_status_t hm_diff_make(const struct hm_diff_side side[2], struct hm_diff *d_p);
void hm_diff_clear(struct hm_diff *d);
/** b / a - 1; NAN when a is unknown or 0. */
double hm_diff_change(const int64_t v[2]);
hm_status_t hm_diff_text(const struct hm_diff *d, const struct hm_report_style *style, FILE *out);
hm_status_t hm_diff_json(const struct hm_diff *d, FILE *out);

#endif
