/* Rank files, definitions, hosts of a scheduled job; see schedule.h. */
#include "schedule.h"

#include "schedule_inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

enum { T_HOST, T_STREAM0, T_WRITER = T_STREAM0 + N_STREAMS };
enum { PROBES = 16 };

void die(const char *what)
{
    fprintf(stderr, "scenario: %s\n", what);
    exit(1);
}

static void define(struct rank *r, enum hm_def_kind kind, uint32_t id, const void *bytes,
                   size_t len)
{
    if (hm_rankfile_define(r->rf, kind, id, bytes, (uint32_t)len) < 0)
        die("define");
}

uint32_t name_id(struct rank *r, const char *name)
{
    uint32_t i;
    for (i = 0; i < r->n_names; i++)
        if (!strcmp(r->name[i], name))
            return i;
    if (i == MAX_NAMES)
        die("too many names");
    define(r, HM_DEF_STRING, i, name, strlen(name));
    r->name[i] = name;
    return r->n_names++;
}

uint32_t kernel_id(struct rank *r, const char *name, uint16_t block)
{
    uint32_t i;
    for (i = 0; i < r->n_kernels; i++)
        if (r->kernel[i].block == block && !strcmp(r->kernel[i].name, name))
            return i;
    if (i == MAX_KERNELS)
        die("too many kernels");
    struct hm_def_kernel k = {.name = name_id(r, name), .block = {block, 1, 1}, .registers = 32};
    define(r, HM_DEF_KERNEL, i, &k, sizeof(k));
    r->kernel[i].name = name;
    r->kernel[i].block = block;
    return r->n_kernels++;
}

uint32_t stream_track(enum stream stream)
{
    return T_STREAM0 + (uint32_t)stream;
}

uint32_t writer_track(void)
{
    return T_WRITER;
}

void put(struct rank *r, struct hm_event ev)
{
    ev.t_ns += r->clock_off;
    if (hm_rankfile_append(r->rf, &ev, 1) < 0)
        die("append");
}

static void define_device(struct rank *r, int gpu)
{
    struct hm_def_device d = {.memory_bytes = UINT64_C(80) << 30,
                              .device = (uint32_t)r->local,
                              .name = name_id(r, "NVIDIA H100 80GB HBM3"),
                              .pci_bus = (uint16_t)(0x10 + r->local),
                              .n_sm = 132,
                              .cc = 90,
                              .clock_khz = 1980000};
    for (int i = 0; i < 16; i++)
        d.uuid[i] = (uint8_t)(0xa0 + i);
    d.uuid[14] = (uint8_t)(gpu >> 8);
    d.uuid[15] = (uint8_t)gpu;
    define(r, HM_DEF_DEVICE, 0, &d, sizeof(d));
}

static void define_tracks(struct rank *r)
{
    struct hm_def_track host = {.type = HM_TRACK_THREAD,
                                .name = name_id(r, "train"),
                                .device = HM_NO_ID,
                                .context = HM_NO_ID,
                                .stream = HM_NO_ID,
                                .tid = 1000 + (uint32_t)r->me};
    define(r, HM_DEF_TRACK, T_HOST, &host, sizeof(host));
    for (uint32_t s = 0; s < N_STREAMS; s++) {
        struct hm_def_track t = {.type = HM_TRACK_STREAM,
                                 .name = HM_NO_ID,
                                 .device = (uint32_t)r->local,
                                 .context = 1,
                                 .stream = s ? 19 + s : 7};
        define(r, HM_DEF_TRACK, T_STREAM0 + s, &t, sizeof(t));
    }
    struct hm_def_track writer = host;
    writer.type = HM_TRACK_WRITER;
    writer.name = name_id(r, "writer");
    define(r, HM_DEF_TRACK, T_WRITER, &writer, sizeof(writer));
}

static void snapshot(struct rank *r, int64_t t)
{
    struct hm_event ev = {.t_ns = t, .kind = HM_EV_CLOCK_SNAPSHOT};
    ev.u.snapshot.mono_ns = ev.u.snapshot.real_ns = ev.u.snapshot.boot_ns = t;
    ev.u.snapshot.width_ns = 100;
    ev.u.snapshot.have = 7;
    put(r, ev);
}

/* A window of probes of the leader of node 0: 5 us there, 1 us inside, 5 us back. */
static void probe_window(struct rank *r, const struct rank *leader0, uint32_t window, int64_t t)
{
    for (int i = 0; i < PROBES; i++, t += 100 * US) {
        struct hm_event ev = {.t_ns = t, .kind = HM_EV_CLOCK_PROBE};
        ev.u.probe.t2_ns = t + 5 * US + leader0->clock_off;
        ev.u.probe.t3_ns = t + 6 * US + leader0->clock_off;
        ev.u.probe.t4_ns = t + 11 * US + r->clock_off;
        ev.u.probe.window = window;
        put(r, ev);
    }
    struct hm_event w = {
        .t_ns = t - PROBES * 100 * US, .dur_ns = PROBES * 100 * US, .kind = HM_EV_CLOCK_WINDOW};
    w.u.window.window = window;
    w.u.window.n_sent = PROBES;
    w.u.window.rtt_min_ns = w.u.window.rtt_med_ns = w.u.window.rtt_p90_ns = 10 * (uint32_t)US;
    put(r, w);
}

static void probes(struct job *j, uint32_t window, int64_t t)
{
    if (!j->probed)
        return;
    for (int i = j->per_node; i < j->n; i += j->per_node)
        if (j->r[i].rf && j->r[0].rf)
            probe_window(&j->r[i], &j->r[0], window, t);
}

static void open_rank(struct job *j, const char *dir, int me, const struct plan *plan)
{
    struct rank *r = &j->r[me];
    r->job = j;
    r->me = me;
    r->node = me / j->per_node;
    r->local = me % j->per_node;
    r->clock_off = plan->clock_off ? plan->clock_off[me] : 0;
    r->host = ORIGIN + plan->start - 900 * MS;
    for (int s = 0; s < N_STREAMS; s++)
        r->gpu[s] = ORIGIN + plan->start;
    r->step_end[0] = r->step_end[1] = r->host;

    bool leads = !r->local;
    struct hm_rank_meta m = {.rank = me,
                             .n_ranks = j->n,
                             .local_rank = r->local,
                             .pid = 1000 + me + (int)(plan->start / SEC),
                             .nonce = 1000 * (plan->nonce + 1) + (uint64_t)me,
                             .start_raw_ns = ORIGIN + plan->start - 2 * SEC + r->clock_off,
                             .start_real_ns = ORIGIN + plan->start - 2 * SEC,
                             .source = HM_SOURCE_RECORDER,
                             .domain_leader = leads,
                             .leader_index = leads ? (uint32_t)r->node : HM_NO_ID};
    int node = plan->node_of ? plan->node_of[r->node] : r->node;
    snprintf(m.host, sizeof(m.host), "node%02d", node + 1);
    snprintf(m.boot_id, sizeof(m.boot_id), "boot-of-node%02d", node + 1);
    snprintf(m.timens, sizeof(m.timens), "4026531834");
    snprintf(m.run_id, sizeof(m.run_id), "%s", plan->run_id ? plan->run_id : "scenario");
    snprintf(m.program, sizeof(m.program), "train");
    if (hm_rankfile_create(dir, &m, &r->rf) < 0)
        die("create");
    define_tracks(r);
    if (!plan->no_devices)
        define_device(r, plan->gpu_of ? plan->gpu_of[me] : me);
    snapshot(r, ORIGIN + plan->start - SEC);
}

void job_open(struct job *j, const char *dir, int n, const struct plan *plan)
{
    static const struct plan plain;
    struct rlimit files;
    if (!plan)
        plan = &plain;
    memset(j, 0, sizeof(*j));
    /* three files a rank are open at once */
    if (!getrlimit(RLIMIT_NOFILE, &files)) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    j->n = n;
    j->per_node = plan->per_node ? plan->per_node : n;
    j->random = 88172645463325252U;
    j->salt = plan->nonce ? plan->nonce << 8 : 0;
    j->probed = !plan->no_probes;
    j->r = calloc((size_t)n, sizeof(*j->r));
    if (!j->r)
        die("out of memory");
    mkdir(dir, 0700);
    for (int i = 0; i < n; i++)
        open_rank(j, dir, i, plan);
    probes(j, 0, ORIGIN + plan->start - 1500 * MS);
}

void rank_close(struct rank *r, int64_t end, enum hm_end why)
{
    snapshot(r, end);
    if (hm_rankfile_close(r->rf, why) < 0)
        die("close");
    r->rf = NULL;
}

void job_close(struct job *j, int64_t end)
{
    probes(j, 1, end);
    for (int i = 0; i < j->n; i++)
        if (j->r[i].rf)
            rank_close(&j->r[i], end + 100 * MS, HM_END_CLEAN);
    for (int c = 0; c < j->n_comms; c++)
        free(j->comm[c].ranks);
    free(j->r);
}

uint64_t job_random(struct job *j, uint64_t below)
{
    j->random ^= j->random << 13; /* xorshift64, Marsaglia 2003 */
    j->random ^= j->random >> 7;
    j->random ^= j->random << 17;
    return j->random % below;
}

int64_t job_end(const struct job *j)
{
    int64_t end = 0;
    for (int i = 0; i < j->n; i++)
        end = device_end(&j->r[i]) > end ? device_end(&j->r[i]) : end;
    return end;
}

int64_t device_end(const struct rank *r)
{
    int64_t end = 0;
    for (int s = 0; s < N_STREAMS; s++)
        end = r->gpu[s] > end ? r->gpu[s] : end;
    return end;
}

int job_comm(struct job *j, const char *name, const int *ranks, int n)
{
    int id = j->n_comms++;
    if (id == MAX_COMMS)
        die("too many communicators");
    struct comm *c = &j->comm[id];
    c->hash = UINT64_C(0x1122334455667788) + (uint64_t)id * UINT64_C(0x0101010101010101) + j->salt;
    c->name = name;
    c->n = n;
    c->ranks = calloc((size_t)n, sizeof(int));
    if (!c->ranks)
        die("out of memory");
    int n_nodes = 0;
    for (int i = 0; i < n; i++) {
        c->ranks[i] = ranks ? ranks[i] : i;
        bool fresh = true;
        for (int k = 0; k < i; k++)
            fresh = fresh && j->r[c->ranks[k]].node != j->r[c->ranks[i]].node;
        n_nodes += fresh;
    }
    for (int i = 0; i < n; i++) {
        struct rank *r = &j->r[c->ranks[i]];
        if (r->n_members == MAX_COMMS)
            die("too many communicators of a rank");
        struct hm_def_comm d = {.hash = c->hash,
                                .crank = i,
                                .n_ranks = n,
                                .n_nodes = n_nodes,
                                .device = r->local,
                                .name = name ? name_id(r, name) : HM_NO_ID,
                                .interface = 5,
                                .nccl_version = 22809};
        define(r, HM_DEF_COMM, r->n_members, &d, sizeof(d));
        r->member[r->n_members++].comm = id;
    }
    return id;
}
