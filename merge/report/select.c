/* --steps and --ranks. Box: merge/report. See select.h. */
#include "report/select.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* "A..B", "A..", "..B", "A", also "A-B"; what stands behind it in *end_p. 0 = no span. */
static int parse_span(const char *s, struct hm_select_span *span_p, const char **end_p)
{
    char *end;
    int digits = *s >= '0' && *s <= '9';
    struct hm_select_span span = {0, INT64_MAX};
    errno = 0;
    if (digits) {
        span.first = strtoll(s, &end, 10);
        span.last = span.first;
        s = end;
    }
    if (s[0] == '.' && s[1] == '.')
        s += 2;
    else if (*s == '-' && digits)
        s++;
    else
        goto out;
    span.last = INT64_MAX;
    if (*s >= '0' && *s <= '9') {
        span.last = strtoll(s, &end, 10);
        s = end;
    } else if (!digits) {
        return 0;
    }
    digits = 1;
out:
    if (!digits || errno || span.last < span.first)
        return 0;
    *span_p = span;
    *end_p = s;
    return 1;
}

hm_status_t hm_select_parse(const char *steps, const char *ranks, struct hm_select *s)
{
    struct hm_select_span span;
    const char *end;
    *s = (struct hm_select){.last_step = INT64_MAX};
    if (steps) {
        if (!parse_span(steps, &span, &end) || *end)
            return hm_fail(HM_E_USAGE, "report", "--steps %s: not of the form A..B", steps);
        s->first_step = span.first;
        s->last_step = span.last;
        s->steps = 1;
    }
    for (const char *at = ranks; at; at = *end ? end + 1 : NULL) {
        struct hm_select_span *v = NULL;
        if (parse_span(at, &span, &end) && (!*end || *end == ','))
            v = realloc(s->span, (s->n_spans + 1) * sizeof(*v));
        if (!v) {
            hm_select_clear(s);
            return hm_fail(HM_E_USAGE, "report", "--ranks %s: not of the form 0,3,8..15", ranks);
        }
        s->span = v;
        v[s->n_spans++] = span;
    }
    return HM_OK;
}

void hm_select_clear(struct hm_select *s)
{
    free(s->span);
    *s = (struct hm_select){.last_step = INT64_MAX};
}

static void free_row(struct hm_out_rank *row)
{
    const struct hm_result_table *t = &hm_result_tables[HM_T_rank];
    for (uint16_t c = 0; c < t->n_cols; c++) {
        uint8_t cell = t->col[c].cell;
        char *text;
        if (cell != HM_CELL_STR && cell != HM_CELL_LIST && cell != HM_CELL_IDS)
            continue;
        memcpy(&text, (char *)row + 8 * c, 8);
        free(text);
    }
}

static int is_in(const struct hm_select *s, int64_t rank)
{
    for (uint32_t i = 0; i < s->n_spans; i++)
        if (rank >= s->span[i].first && rank <= s->span[i].last)
            return 1;
    return 0;
}

static hm_status_t select_ranks(const struct hm_select *s, struct hm_result *r,
                                struct hm_out_selection *note)
{
    struct hm_out_rank *v = r->rows[HM_T_rank];
    uint32_t n = r->n_rows[HM_T_rank], kept = 0;
    for (uint32_t k = 0; k < s->n_spans; k++) {
        uint32_t i = 0;
        while (i < n && (v[i].rank < s->span[k].first || v[i].rank > s->span[k].last))
            i++;
        if (i == n && s->span[k].first == s->span[k].last)
            return hm_fail(HM_E_USAGE, "--ranks", "rank %" PRId64 " is not in the run",
                           s->span[k].first);
        if (i == n)
            return hm_fail(HM_E_USAGE, "--ranks", "none of %" PRId64 "..%" PRId64 " is in the run",
                           s->span[k].first, s->span[k].last);
    }
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    if (!f)
        return hm_fail(HM_E_NOMEM, "report", "out of memory");
    for (uint32_t i = 0; i < n; i++) {
        if (!is_in(s, v[i].rank)) {
            free_row(&v[i]);
            continue;
        }
        if (!kept || v[kept - 1].rank != v[i].rank)
            fprintf(f, "%s%" PRId64, kept ? "," : "", v[i].rank);
        v[kept++] = v[i];
    }
    r->n_rows[HM_T_rank] = kept;
    fclose(f);
    note->ranks = text;
    return HM_OK;
}

hm_status_t hm_select_apply(const struct hm_select *s, struct hm_result *r)
{
    if (!s->steps && !s->n_spans)
        return HM_OK;
    struct hm_out_selection *note = hm_result_add(r, HM_T_selection);
    if (!note)
        return hm_fail(HM_E_NOMEM, "report", "out of memory");
    if (s->steps) {
        note->first_step = s->first_step;
        note->last_step = s->last_step;
    }
    return s->n_spans ? select_ranks(s, r, note) : HM_OK;
}

int hm_select_step(const struct hm_result *r, uint32_t step)
{
    const struct hm_out_selection *s = hm_result_row(r, HM_T_selection, 0);
    return !s || HM_IS_NONE(s->first_step) ||
           (step != HM_NO_ID && step >= s->first_step && step <= s->last_step);
}
