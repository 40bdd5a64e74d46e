/* Error and congestion counters of InfiniBand and RoCE ports. Box: lib/writer; main thread.
 *
 * Source: /sys/class/infiniband/DEVICE/ports/N/{counters,hw_counters} as the kernel documents them.
 */
#include "writer/health.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_FILES = 256 };

struct file {
    char path[400]; /* below the root */
    char name[120]; /* ib.DEVICE.PORT.COUNTER */
};
struct hm_ib {
    char root[512];
    size_t n;
    struct file file[MAX_FILES];
};

static const char *const wanted[] = {"counters/symbol_error",
                                     "counters/link_downed",
                                     "counters/link_error_recovery",
                                     "counters/port_rcv_errors",
                                     "counters/port_xmit_discards",
                                     "counters/port_xmit_wait",
                                     "hw_counters/out_of_sequence",
                                     "hw_counters/packet_seq_err",
                                     "hw_counters/local_ack_timeout_err",
                                     "hw_counters/rnr_nak_retry_err",
                                     "hw_counters/np_cnp_sent",
                                     "hw_counters/rp_cnp_handled"};

static void add_port(struct hm_ib *ib, const char *device, const char *port)
{
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]) && ib->n < MAX_FILES; i++) {
        struct file *f = &ib->file[ib->n];
        char full[1024];
        snprintf(f->path, sizeof(f->path), "/sys/class/infiniband/%.64s/ports/%.16s/%s", device,
                 port, wanted[i]);
        snprintf(full, sizeof(full), "%s%s", ib->root, f->path);
        if (access(full, R_OK))
            continue;
        snprintf(f->name, sizeof(f->name), "ib.%.64s.%.16s.%s", device, port,
                 strchr(wanted[i], '/') + 1);
        ib->n++;
    }
}

struct hm_ib *hm_ib_open(const char *root)
{
    char path[1024];
    snprintf(path, sizeof(path), "%s/sys/class/infiniband", root);
    DIR *devices = opendir(path);
    if (!devices)
        return NULL;
    struct hm_ib *ib = calloc(1, sizeof(*ib));
    if (ib)
        snprintf(ib->root, sizeof(ib->root), "%s", root);
    for (struct dirent *d; ib && (d = readdir(devices));) {
        if (d->d_name[0] == '.')
            continue;
        snprintf(path, sizeof(path), "%s/sys/class/infiniband/%.64s/ports", root, d->d_name);
        DIR *ports = opendir(path);
        if (!ports)
            continue;
        for (struct dirent *p; (p = readdir(ports));)
            if (p->d_name[0] != '.')
                add_port(ib, d->d_name, p->d_name);
        closedir(ports);
    }
    closedir(devices);
    if (ib && !ib->n) {
        free(ib);
        ib = NULL;
    }
    return ib;
}

void hm_ib_sample(const struct hm_ib *ib, hm_sample_func_t fn, void *ctx)
{
    char text[64], *end;
    for (size_t i = 0; i < ib->n; i++) {
        if (!hm_health_read(ib->root, text, sizeof(text), "%s", ib->file[i].path))
            continue;
        long long v = strtoll(text, &end, 10);
        if (end != text)
            fn(ctx, &(struct hm_sample){ib->file[i].name, "count", 0, v});
    }
}

void hm_ib_close(struct hm_ib *ib)
{
    free(ib);
}
