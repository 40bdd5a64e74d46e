/* Members that work on a run together; alone for now: the calls are the seam for threads and MPI.
 *
 * Box: merge/engine.
 */
#include "engine/engine.h"

#include <stdlib.h>
#include <string.h>

static hm_status_t meet(struct hm_team *team, hm_status_t mine)
{
    (void)team;
    return mine;
}

static hm_status_t copy(const void *mine, size_t n, void **all_p, size_t *n_p)
{
    void *p = malloc(n + 1);
    if (!p)
        return HM_E_NOMEM;
    if (n)
        memcpy(p, mine, n);
    *all_p = p;
    *n_p = n;
    return HM_OK;
}

static hm_status_t share(struct hm_team *team, const void *mine, size_t n, void **all_p,
                         size_t *n_p)
{
    (void)team;
    return copy(mine, n, all_p, n_p);
}

static hm_status_t trade(struct hm_team *team, const void *out, const size_t n_out[], void **in_p,
                         size_t n_in[])
{
    (void)team;
    return copy(out, n_out[0], in_p, &n_in[0]);
}

hm_status_t hm_team_run(uint32_t n_threads, hm_team_func_t fn, void *arg)
{
    struct hm_team team = {.n = 1, .me = 0, .meet = meet, .share = share, .trade = trade};
    (void)n_threads;
    return team.meet(&team, fn(&team, arg));
}
