/* Path -> result. Box: merge/cmd. See loaded.h. */
#include "loaded.h"

hm_status_t hm_loaded_open(struct hm_team *team, const char *path, struct hm_loaded *l)
{
    return hm_loaded_open_why(team, path, l, NULL, 0, HM_NO_ID);
}

hm_status_t hm_loaded_open_why(struct hm_team *team, const char *path, struct hm_loaded *l,
                               struct hm_why *why, uint32_t rank, uint32_t step)
{
    *l = (struct hm_loaded){0};
    hm_status_t s = hm_import_temp(path, &l->temp);
    if (s == HM_OK)
        s = hm_engine_open(team, l->temp.run[0] ? l->temp.run : path, &l->engine);
    l->open = s == HM_OK;
    if (s == HM_OK) {
        l->engine.run.path = path; /* an imported trace goes by its own name */
        l->engine.want_why = why;
        l->engine.why_rank = rank;
        l->engine.why_step = step;
        s = hm_engine_collect(&l->engine);
    }
    if (s == HM_OK)
        s = hm_engine_match(&l->engine);
    if (s == HM_OK)
        s = hm_engine_account(&l->engine);
    if (s == HM_OK)
        s = hm_engine_judge(&l->engine, &l->result);
    for (uint32_t i = 0; s == HM_OK && i < l->result->n_rows[HM_T_problem]; i++) {
        const struct hm_out_problem *p = hm_result_row(l->result, HM_T_problem, i);
        hm_say(HM_SAY_WARN, "%s: %s", p->file, p->what);
    }
    if (s)
        hm_loaded_close(l);
    return s;
}

void hm_loaded_close(struct hm_loaded *l)
{
    if (l->open)
        hm_engine_close(&l->engine);
    hm_import_temp_remove(&l->temp);
    l->open = 0;
    l->result = NULL;
}
