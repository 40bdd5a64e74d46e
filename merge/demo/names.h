/* Ids of a demo rank's definitions; the writer defines them in this order.
 *
 * Box: merge/demo, internal.
 */
#ifndef HM_DEMO_NAMES_H
#define HM_DEMO_NAMES_H

enum hm_demo_string {
    DEMO_S_EMPTY,
    DEMO_S_FORWARD, /* kernels in the order of enum hm_demo_kernel */
    DEMO_S_BACKWARD,
    DEMO_S_NORM,
    DEMO_S_OPTIMIZER,
    DEMO_S_ROUTER,
    DEMO_S_EXPERT,
    DEMO_S_EMBED,
    DEMO_S_HEAD,
    DEMO_S_ALLREDUCE,
    DEMO_S_ALLGATHER,
    DEMO_S_REDUCESCATTER,
    DEMO_S_SENDRECV,
    DEMO_S_DISPATCH,
    DEMO_S_COMBINE,
    DEMO_S_LAUNCH,
    DEMO_S_LAUNCH_EXC,
    DEMO_S_MEMCPY,
    DEMO_S_FREE,
    DEMO_S_MALLOC,
    DEMO_S_INPUT,
    DEMO_S_CHECKPOINT,
    DEMO_S_DOMAIN,
    DEMO_S_MAIN,
    DEMO_S_STREAM,                   /* + enum hm_demo_stream */
    DEMO_S_COMM = DEMO_S_STREAM + 7, /* + enum hm_demo_comm */
    DEMO_S_WORLD = DEMO_S_COMM + 5,
    DEMO_S_GPU,
    DEMO_N_STRINGS
};
/* Track 0 is the host thread, 1 + enum hm_demo_stream the streams. */
enum { DEMO_T_HOST, DEMO_T_STREAM };

#endif
