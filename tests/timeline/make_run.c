/* Writes the hand-made run as rank files: make_run FOLDER [missing]; with `missing` rank 2 is left
 * out. Box: tests/timeline.
 */
#include "hand_run.h"
#include "store/rankfile.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static struct hm_rankfile *rf;
static int n_refused;

static void define(enum hm_def_kind kind, uint32_t id, const void *bytes, uint32_t len)
{
    n_refused += hm_rankfile_define(rf, kind, id, bytes, len) != HM_OK;
}

static void append(const struct hm_event *ev)
{
    n_refused += hm_rankfile_append(rf, ev, 1) != HM_OK;
}

static int write_rank(const char *dir, int rank)
{
    struct hm_rank_meta meta;
    memset(&meta, 0, sizeof(meta));
    meta.rank = meta.local_rank = rank;
    meta.n_ranks = HAND_RANKS;
    meta.pid = 4000 + rank;
    meta.nonce = 77u + (uint64_t)rank;
    meta.start_raw_ns = HAND_T0;
    meta.start_real_ns = 1700000000000000000ll;
    meta.source = HM_SOURCE_RECORDER;
    snprintf(meta.host, sizeof(meta.host), "node0");
    snprintf(meta.boot_id, sizeof(meta.boot_id), "11111111-2222-3333-4444-555555555555");
    snprintf(meta.run_id, sizeof(meta.run_id), "hand");
    snprintf(meta.program, sizeof(meta.program), "hand");
    if (hm_rankfile_create(dir, &meta, &rf))
        return 1;
    hand_rank(rank, &(struct hand_out){define, append});
    return hm_rankfile_close(rf, HM_END_CLEAN) != HM_OK || n_refused;
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 64;
    int n = argc > 2 && !strcmp(argv[2], "missing") ? HAND_RANKS - 1 : HAND_RANKS;
    if (mkdir(argv[1], 0755))
        return 1;
    for (int r = 0; r < n; r++)
        if (write_rank(argv[1], r))
            return 1;
    return 0;
}
