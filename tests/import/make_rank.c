/* Writes one rank file from lines of text on stdin, so that a test in Python can make any run.
 *
 * usage: import_make_rank FOLDER < LINES. Words are separated by spaces, the last one takes the
 * rest of the line; times in ns. The first line is `meta`. meta RANK N_RANKS PID HOST comm HASH
 * CRANK N_RANKS DEVICE   (numbered from 0) kernel T DUR DEVICE STREAM CORRELATION NAME api T DUR
 * TID CORRELATION EXTERNAL NAME call|coll T DUR TID COMM CALL LAUNCH FUNC DTYPE COUNT (numbers of
 * event.h) launch T DUR TID COMM LAUNCH N_OPS step T TID NUMBER EDGE                range T DUR TID
 * NAME
 */
#include "import/rankout.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct hm_rankout out;
static long line_no;

static void die(const char *why)
{
    fprintf(stderr, "line %ld: %s\n", line_no, why);
    exit(1);
}

static int64_t number(char **at)
{
    char *end;
    long long v = strtoll(*at, &end, 0);
    if (end == *at)
        die("a number is missing");
    *at = end + strspn(end, " ");
    return v;
}

static uint32_t u32(char **at)
{
    return (uint32_t)number(at);
}

static void one(const char *word, char *at)
{
    struct hm_event e = {0};
    if (!strcmp(word, "comm")) {
        struct hm_def_comm c = {.hash = strtoull(at, &at, 0)};
        c.crank = (int32_t)number(&at);
        c.n_ranks = (int32_t)number(&at);
        c.device = (int32_t)number(&at);
        hm_rankout_define(&out, HM_DEF_COMM, &c, sizeof(c));
        return;
    }
    e.t_ns = number(&at);
    if (strcmp(word, "step") != 0)
        e.dur_ns = number(&at);
    if (!strcmp(word, "kernel")) {
        uint32_t device = u32(&at), stream = u32(&at);
        e.kind = HM_EV_KERNEL;
        e.track = hm_rankout_stream(&out, device, 1, stream);
        e.u.kernel.correlation = u32(&at);
        struct hm_def_kernel k = {.name = hm_rankout_text(&out, at), .block = {1, 1, 1}};
        e.u.kernel.kernel = hm_rankout_define(&out, HM_DEF_KERNEL, &k, sizeof(k));
        hm_rankout_push(&out, &e);
        return;
    }
    e.track = hm_rankout_thread(&out, u32(&at), NULL);
    if (!strcmp(word, "api")) {
        e.kind = HM_EV_API;
        e.u.api.correlation = u32(&at);
        e.u.api.external = (uint64_t)number(&at);
        e.u.api.name = hm_rankout_text(&out, at);
        e.u.api.domain = HM_API_RUNTIME;
    } else if (!strcmp(word, "call") || !strcmp(word, "coll")) {
        e.kind = word[2] == 'l' && word[1] == 'a' ? HM_EV_NCCL_CALL : HM_EV_NCCL_COLL;
        e.u.op.comm = u32(&at);
        e.u.op.call = e.u.op.nccl_seq = u32(&at);
        int64_t launch = number(&at);
        e.u.op.launch = launch < 0 ? HM_NO_ID : (uint32_t)launch;
        uint32_t func = u32(&at), dtype = u32(&at);
        e.aux = HM_NCCL_AUX(func, dtype);
        e.u.op.count = (uint64_t)number(&at);
        e.u.op.peer = -1;
    } else if (!strcmp(word, "launch")) {
        e.kind = HM_EV_NCCL_LAUNCH;
        e.u.launch.comm = u32(&at);
        e.u.launch.launch = u32(&at);
        e.u.launch.n_ops = u32(&at);
    } else if (!strcmp(word, "step")) {
        e.kind = HM_EV_STEP;
        e.u.step.step = number(&at);
        e.u.step.name = HM_NO_ID;
        e.u.step.source = HM_STEP_FROM_CALL;
        e.aux = (uint16_t)number(&at);
    } else if (!strcmp(word, "range")) {
        e.kind = HM_EV_RANGE;
        e.u.range.name = hm_rankout_text(&out, at);
    } else {
        die("no such word");
    }
    hm_rankout_push(&out, &e);
}

int main(int argc, char **argv)
{
    char line[4096];
    if (argc != 2)
        return 64;
    while (fgets(line, sizeof(line), stdin)) {
        line_no++;
        line[strcspn(line, "\n")] = 0;
        char *at = line + strcspn(line, " ");
        if (*at)
            *at++ = 0;
        if (line_no > 1) {
            one(line, at);
            continue;
        }
        struct hm_rank_meta meta = {.local_rank = -1, .leader_index = HM_NO_ID, .nonce = 1};
        if (strcmp(line, "meta") != 0)
            die("not meta");
        meta.rank = (int32_t)number(&at);
        meta.n_ranks = (int32_t)number(&at);
        meta.pid = (int32_t)number(&at);
        snprintf(meta.host, sizeof(meta.host), "%.63s", at);
        snprintf(meta.boot_id, sizeof(meta.boot_id), "boot");
        snprintf(meta.run_id, sizeof(meta.run_id), "made");
        if (hm_rankout_begin(&out, argv[1], &meta))
            return 1;
    }
    return line_no && hm_rankout_end(&out, HM_OK) == HM_OK ? 0 : 1;
}
