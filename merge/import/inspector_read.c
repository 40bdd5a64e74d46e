/* JSON lines of NCCL's inspector plugin -> records.
 *
 * Box: merge/import. One thread. Format: plugins/profiler/inspector of NCCL, v4.0 to v4.3. Up to
 * v4.2 every line has a header and metadata; from v4.3 on they stand in the `dump_stats` line
 * before those they hold for. Either way: what was said last holds.
 */
#include "core/event.h"
#include "import/import.h"
#include "import/inspector.h"
#include "import/jsonin.h"
#include "import/rankout.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MAX_SEATS = 1 << 20 };
static const int64_t MAX_US = INT64_C(7) * 86400 * 1000000;

struct line { /* what one value of the file says; numbers: -1 = not told */
    char id[64], name[64], host[64], coll[32], algo[24], proto[24];
    int64_t rank, n_ranks, pid, stamp_us, sn, bytes, exec_us, dropped;
    int has_header, has_coll, has_other;
};

static void text_of(const struct hm_jsonin *j, char *out, size_t cap)
{
    snprintf(out, cap, "%s", hm_jsonin_text(j, NULL));
}

static int64_t number_of(const struct hm_jsonin *j)
{
    int64_t v;
    return hm_decimal(hm_jsonin_text(j, NULL), 0, &v) && v >= 0 ? v : -1;
}

/* One member of header, metadata, coll_perf or dump_stats. */
static void take_field(struct line *l, const char *key, const struct hm_jsonin *j, int is_text)
{
    static const struct {
        const char *key;
        size_t at, cap; /* cap 0: a number */
    } field[] = {{"id", offsetof(struct line, id), sizeof(((struct line *)0)->id)},
                 {"comm_name", offsetof(struct line, name), sizeof(((struct line *)0)->name)},
                 {"rank", offsetof(struct line, rank), 0},
                 {"n_ranks", offsetof(struct line, n_ranks), 0},
                 {"hostname", offsetof(struct line, host), sizeof(((struct line *)0)->host)},
                 {"pid", offsetof(struct line, pid), 0},
                 {"dump_timestamp_us", offsetof(struct line, stamp_us), 0},
                 {"coll", offsetof(struct line, coll), sizeof(((struct line *)0)->coll)},
                 {"coll_algo", offsetof(struct line, algo), sizeof(((struct line *)0)->algo)},
                 {"coll_proto", offsetof(struct line, proto), sizeof(((struct line *)0)->proto)},
                 {"coll_sn", offsetof(struct line, sn), 0},
                 {"coll_msg_size_bytes", offsetof(struct line, bytes), 0},
                 {"coll_exec_time_us", offsetof(struct line, exec_us), 0},
                 {"coll_dropped_since_last_dump", offsetof(struct line, dropped), 0}};
    for (size_t i = 0; i < sizeof(field) / sizeof(*field); i++) {
        char *at = (char *)l + field[i].at;
        if (strcmp(field[i].key, key) != 0 || is_text != (field[i].cap > 0))
            continue;
        if (field[i].cap)
            text_of(j, at, field[i].cap);
        else
            memcpy(at, &(int64_t){number_of(j)}, 8);
    }
}

/* Members of one of the objects that matter; 0 = trouble. */
static int take_object(struct hm_jsonin *j, struct line *l)
{
    enum hm_json t;
    while ((t = hm_jsonin_next(j)) == HM_JSON_KEY) {
        char key[64];
        text_of(j, key, sizeof(key));
        t = hm_jsonin_next(j);
        if (t == HM_JSON_STRING || t == HM_JSON_NUMBER)
            take_field(l, key, j, t == HM_JSON_STRING);
        else if (!hm_jsonin_skip(j, t))
            return 0;
    }
    return t == HM_JSON_OBJECT_END;
}

/* One value of the file into *l, whose header stays where the value has none. 0 = trouble or end.
 */
static int next_line(struct hm_jsonin *j, struct line *l)
{
    enum hm_json t = hm_jsonin_next(j);
    l->has_coll = l->has_other = 0;
    l->sn = l->bytes = l->exec_us = l->dropped = -1;
    l->coll[0] = l->algo[0] = l->proto[0] = 0;
    if (t != HM_JSON_OBJECT)
        return t != HM_JSON_END && hm_jsonin_skip(j, t);
    while ((t = hm_jsonin_next(j)) == HM_JSON_KEY) {
        char key[64];
        text_of(j, key, sizeof(key));
        int header = !strcmp(key, "header"), coll = !strcmp(key, "coll_perf");
        int other = !strcmp(key, "p2p_perf") || !strcmp(key, "proxy_trace");
        t = hm_jsonin_next(j);
        if (t == HM_JSON_OBJECT &&
            (header || coll || !strcmp(key, "metadata") || !strcmp(key, "dump_stats"))) {
            if (header)
                l->id[0] = l->name[0] = 0, l->rank = l->n_ranks = -1;
            if (!take_object(j, l))
                return 0;
        } else if (!hm_jsonin_skip(j, t)) {
            return 0;
        }
        l->has_header |= header;
        l->has_coll |= coll;
        l->has_other |= other;
    }
    return t == HM_JSON_OBJECT_END;
}

/* ---- tables ---- */

static int grow(void **v, uint64_t *cap, uint64_t n, size_t item)
{
    if (n < *cap)
        return 1;
    uint64_t want = *cap ? 2 * *cap : 64;
    void *p = realloc(*v, want * item);
    if (!p)
        return 0;
    *v = p;
    *cap = want;
    return 1;
}

static int grow32(void **v, uint32_t *cap, uint32_t n, size_t item)
{
    uint64_t wide = *cap;
    int ok = grow(v, &wide, n, item);
    *cap = (uint32_t)wide;
    return ok;
}

static uint32_t comm_of(struct hm_insp *in, const struct line *l)
{
    for (uint32_t i = in->n_comms; i; i--)
        if (in->comm[i - 1].n_ranks == l->n_ranks && !strcmp(in->comm[i - 1].id, l->id))
            return i - 1;
    if (!grow32((void **)&in->comm, &in->cap_comms, in->n_comms, sizeof(*in->comm)))
        return UINT32_MAX;
    struct hm_insp_comm *c = &in->comm[in->n_comms];
    *c = (struct hm_insp_comm){.n_ranks = (int32_t)l->n_ranks};
    snprintf(c->id, sizeof(c->id), "%s", l->id);
    snprintf(c->name, sizeof(c->name), "%s", l->name);
    c->key = hm_import_hash(hm_import_hash(HM_IMPORT_HASH, l->id), l->name) ^ (uint64_t)l->n_ranks;
    return in->n_comms++;
}

static uint32_t process_of(struct hm_insp *in, const struct line *l)
{
    for (uint32_t i = in->n_processes; i; i--)
        if (in->process[i - 1].pid == l->pid && !strcmp(in->process[i - 1].host, l->host))
            return i - 1;
    if (!grow32((void **)&in->process, &in->cap_processes, in->n_processes, sizeof(*in->process)))
        return UINT32_MAX;
    struct hm_insp_process *p = &in->process[in->n_processes];
    *p = (struct hm_insp_process){.pid = l->pid};
    snprintf(p->host, sizeof(p->host), "%s", l->host);
    return in->n_processes++;
}

static uint32_t seat_of(struct hm_insp *in, const struct line *l)
{
    uint32_t c = comm_of(in, l), p = process_of(in, l);
    if (c == UINT32_MAX || p == UINT32_MAX)
        return UINT32_MAX;
    for (uint32_t i = in->n_seats; i; i--) {
        const struct hm_insp_seat *s = &in->seat[i - 1];
        if (s->process == p && s->comm == c && s->crank == l->rank)
            return i - 1;
    }
    if (in->n_seats == MAX_SEATS ||
        !grow32((void **)&in->seat, &in->cap_seats, in->n_seats, sizeof(*in->seat)))
        return UINT32_MAX;
    for (uint32_t i = 0; i < in->n_seats; i++)
        in->process[p].many |= in->seat[i].process == p && in->seat[i].comm == c;
    in->seat[in->n_seats] = (struct hm_insp_seat){p, c, 0, (int32_t)l->rank};
    return in->n_seats++;
}

static uint8_t code_of(const char *text, const char *const *name, uint8_t n)
{
    for (uint8_t i = 1; i < n; i++)
        if (name[i] && !strcasecmp(text, name[i]))
            return i;
    return 0;
}

static hm_status_t take_line(struct hm_insp *in, const struct line *l)
{
    static const char *const func[HM_NCCL_N_FUNCS] = {[HM_NCCL_ALLREDUCE] = "AllReduce",
                                                      [HM_NCCL_ALLGATHER] = "AllGather",
                                                      [HM_NCCL_REDUCESCATTER] = "ReduceScatter",
                                                      [HM_NCCL_BROADCAST] = "Broadcast",
                                                      [HM_NCCL_REDUCE] = "Reduce",
                                                      [HM_NCCL_ALLTOALL] = "AlltoAll",
                                                      [HM_NCCL_GATHER] = "Gather",
                                                      [HM_NCCL_SCATTER] = "Scatter"};
    static const char *const algo[HM_NCCL_N_ALGOS] = {[HM_NCCL_ALGO_TREE] = "TREE",
                                                      [HM_NCCL_ALGO_RING] = "RING",
                                                      [HM_NCCL_ALGO_NVLS] = "NVLS",
                                                      [HM_NCCL_ALGO_NVLS_TREE] = "NVLS_TREE",
                                                      [HM_NCCL_ALGO_PAT] = "PAT"};
    static const char *const proto[HM_NCCL_N_PROTOS] = {[HM_NCCL_PROTO_LL] = "LL",
                                                        [HM_NCCL_PROTO_LL128] = "LL128",
                                                        [HM_NCCL_PROTO_SIMPLE] = "SIMPLE"};
    in->n_unused += l->has_other != 0;
    in->n_dropped += l->dropped > 0 ? (uint64_t)l->dropped : 0;
    if (l->stamp_us > 0 && (!in->stamp_us || l->stamp_us < in->stamp_us))
        in->stamp_us = l->stamp_us;
    if (!l->has_coll)
        return HM_OK;
    if (!l->has_header || !*l->id || l->rank < 0 || l->n_ranks <= l->rank || l->n_ranks > 65535 ||
        l->sn < 0 || l->exec_us < 0 || l->exec_us > MAX_US) {
        in->n_unused++;
        return HM_OK;
    }
    uint32_t seat = seat_of(in, l);
    if (seat == UINT32_MAX ||
        !grow((void **)&in->record, &in->cap_records, in->n_records, sizeof(*in->record)))
        return hm_fail(HM_E_NOMEM, "import", "out of memory");
    in->record[in->n_records++] =
        (struct hm_insp_record){.seat = seat,
                                .comm = in->seat[seat].comm,
                                .sn = (uint64_t)l->sn,
                                .bytes = l->bytes > 0 ? (uint64_t)l->bytes : 0,
                                .exec_ns = l->exec_us * 1000,
                                .func = code_of(l->coll, func, HM_NCCL_N_FUNCS),
                                .algo = code_of(l->algo, algo, HM_NCCL_N_ALGOS),
                                .proto = code_of(l->proto, proto, HM_NCCL_N_PROTOS)};
    return HM_OK;
}

hm_status_t hm_insp_read(const char *path, struct hm_insp *in)
{
    struct hm_jsonin *j;
    struct line l = {.rank = -1, .n_ranks = -1, .pid = -1, .stamp_us = -1};
    uint64_t before = in->n_records;
    hm_status_t s = hm_jsonin_open(path, &j);
    if (s)
        return s;
    hm_jsonin_many(j);
    while (!s && next_line(j, &l))
        s = take_line(in, &l);
    if (!s && *hm_jsonin_why(j)) {
        /* a job that was killed, or still runs, leaves half a line: the whole ones are good */
        if (hm_jsonin_is_cut(j) && in->n_records > before)
            hm_say(HM_SAY_WARN, "%s: its last line is cut off; the lines before it are used", path);
        else
            s = hm_jsonin_fail(j);
    }
    if (!s && in->n_records == before)
        s = hm_fail(HM_E_DATA, path,
                    "holds no collective with a duration; set NCCL_INSPECTOR_ENABLE=1 and "
                    "NCCL_INSPECTOR_REQUIRE_KERNEL_TIMING=0, or leave it out");
    hm_jsonin_close(j);
    return s;
}

int hm_import_is_inspector(const char *path)
{
    struct hm_jsonin *j;
    int yes = 0;
    if (hm_jsonin_open(path, &j))
        return 0;
    if (hm_jsonin_next(j) == HM_JSON_OBJECT && hm_jsonin_next(j) == HM_JSON_KEY) {
        const char *key = hm_jsonin_text(j, NULL);
        yes = !strcmp(key, "header") || !strcmp(key, "coll_perf") || !strcmp(key, "dump_stats") ||
              !strcmp(key, "p2p_perf");
    }
    hm_jsonin_close(j);
    return yes;
}
