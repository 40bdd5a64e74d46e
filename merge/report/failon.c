/* --fail-on KEY OP NUMBER[%]. Box: merge/report.
 *
 * gain: of the first finding, 0 when the verdict is none; wait, stall, exposed: mean over the
 * ranks; lost: events. Percent of the sum of the step times (of wait: of the ranks' windows).
 */
#include "report/report.h"

#include <stdlib.h>
#include <string.h>

static int compare(double a, const char *op, double b)
{
    if (!strcmp(op, "<"))
        return a < b;
    if (!strcmp(op, "<="))
        return a <= b;
    if (!strcmp(op, ">"))
        return a > b;
    if (!strcmp(op, ">="))
        return a >= b;
    if (!strcmp(op, "=="))
        return a <= b && a >= b;
    return a < b || a > b;
}

/* Value in ns (lost: events); 0 = it cannot be told. */
static int value_of(const struct hm_result *r, const char *key, double *value_p, double *whole_p)
{
    const struct hm_out_finding *f = hm_result_row(r, HM_T_finding, 0);
    const struct hm_out_none *none = hm_result_row(r, HM_T_none, 0);
    const struct hm_out_steps *steps = hm_result_row(r, HM_T_steps, 0);
    *whole_p = steps ? (double)steps->total_ns : 0;
    *value_p = 0;
    if (!strcmp(key, "lost")) {
        for (unsigned k = 0; k < HM_N_LOST; k++)
            *value_p += (double)r->lost[k];
        return 1;
    }
    if (!steps || steps->n == 0)
        return 0;
    if (!strcmp(key, "gain")) {
        if (none)
            return none->status && !strcmp(none->status, "none");
        if (!f || HM_IS_NONE(f->gain_ns))
            return 0;
        *value_p = (double)f->gain_ns;
        return 1;
    }
    uint32_t n = r->n_rows[HM_T_rank];
    for (uint32_t i = 0; i < n; i++) {
        const struct hm_out_rank *q = hm_result_row(r, HM_T_rank, i);
        int64_t v = !strcmp(key, "wait")    ? q->wait_ns
                    : !strcmp(key, "stall") ? q->stall_ns
                                            : q->exposed_comm_ns;
        if (HM_IS_NONE(v))
            return 0;
        *value_p += (double)v / n;
    }
    return n > 0;
}

hm_status_t hm_report_fail_on(const struct hm_result *r, const char *expr, int *exit_code_p)
{
    char key[16] = "", op[3] = "";
    const char *s = expr + strspn(expr, " \t");
    size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyz");
    if (n && n < sizeof(key))
        memcpy(key, s, n);
    s += n;
    s += strspn(s, " \t");
    n = strspn(s, "<>=!");
    if (n && n < sizeof(op))
        memcpy(op, s, n);
    s += n;
    char *end;
    double number = strtod(s, &end);
    int percent = 0;
    const char *rest = end + strspn(end, " \t");
    if (end != s && *rest == '%') {
        percent = 1;
        rest++;
        rest += strspn(rest, " \t");
    }
    static const char *const keys[] = {"gain", "wait", "stall", "exposed", "lost"};
    static const char *const ops[] = {"<", "<=", ">", ">=", "==", "!="};
    int good = end != s && !*rest && number - number == 0, known = 0;
    for (size_t i = 0; i < 5; i++)
        known |= !strcmp(keys[i], key);
    good &= known;
    known = 0;
    for (size_t i = 0; i < 6; i++)
        known |= !strcmp(ops[i], op);
    if (!good || !known)
        return hm_fail(HM_E_USAGE, expr,
                       "not a condition; write KEY OP NUMBER or NUMBER%%, KEY one of gain, wait, "
                       "stall, exposed, lost, e.g. gain>5%%");
    double value, whole;
    *exit_code_p = 4;
    if (!value_of(r, key, &value, &whole) || (percent && whole <= 0))
        return HM_OK;
    if (percent && !strcmp(key, "lost"))
        return HM_OK;
    double left = percent ? 100 * value / whole : strcmp(key, "lost") ? value / 1e9 : value;
    *exit_code_p = compare(left, op, number) ? 3 : 0;
    return HM_OK;
}
