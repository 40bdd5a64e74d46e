/* What a child of the application sees: a shut gate, for ever.
 *
 * Box: lib/record. The gate lies on a page that the kernel wipes in each child (MADV_WIPEONFORK);
 * the handler below also lets go of the descriptors, where the C library runs it.
 */
#include "record/record.h"

#include <pthread.h>
#include <unistd.h>

static void in_child(void)
{
    atomic_store(&hm.in_child, 1);
    atomic_store(&hm.life, HM_OFF);
    if (hm_self.wiped) { /* kernels before 4.14 do not wipe */
        atomic_store(&hm_self.wiped->alive, 0);
        atomic_store(&hm_self.wiped->gate, 0);
    }
    /* the life line must end with the process that woke, not with its data loaders */
    if (hm_self.pipe_fd > 0)
        close(hm_self.pipe_fd);
    if (hm_self.pool_fd > 0)
        close(hm_self.pool_fd);
    hm_self.pipe_fd = hm_self.pool_fd = -1;
}

void hm_fork_watch(void)
{
    pthread_atfork(NULL, NULL, in_child);
}
