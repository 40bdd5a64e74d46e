/* The truth beside: what really happened, as JSON lines in the file VGPU_NCCL_TRUTH names.
 *
 * Box: tests/vgpu. Thread: the stream's. One write a line with O_APPEND: processes may share the
 * file. Times are modelled, ns of CLOCK_MONOTONIC_RAW: start and end of this rank's part.
 */
#include "nccl_inside.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

const char *const nccl_func_name[N_FUNCS] = {"Broadcast", "Reduce", "AllGather", "ReduceScatter",
                                             "AllReduce", "Send",   "Recv"};

void nccl_truth(const struct nccl_task *t, uint64_t plan)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static int fd = -2;
    pthread_mutex_lock(&lock);
    if (fd == -2) {
        const char *path = getenv("VGPU_NCCL_TRUTH");
        fd = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644) : -1;
    }
    pthread_mutex_unlock(&lock);
    if (fd < 0)
        return;
    char line[512];
    int n = snprintf(line, sizeof line,
                     "{\"comm\": \"%016" PRIx64 "\", \"rank\": %d, \"plan\": %" PRIu64
                     ", \"call\": %" PRIu64 ", \"seq\": %" PRIu64
                     ", \"func\": \"%s\", \"count\": %zu, \"dtype\": %d, \"bytes\": %" PRIu64
                     ", \"peer\": %d, \"start\": %" PRId64 ", \"end\": %" PRId64 "}\n",
                     t->comm->hash, t->comm->rank, plan, t->call, t->seq, nccl_func_name[t->func],
                     t->count, (int)t->dtype, t->bytes, t->root, t->start_ns, t->end_ns);
    if (n > 0 && write(fd, line, (size_t)n) < 0)
        nccl_log(2, "VGPU_NCCL_TRUTH: cannot write");
}
