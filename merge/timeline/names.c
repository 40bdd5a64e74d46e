/* Names of categories and arguments, the same in every format.
 *
 * Box: merge/timeline. Pure.
 */
#include "timeline/timeline.h"

const char *hm_arg_name(enum hm_arg_key key)
{
    static const char *const name[HM_N_ARGS] = {
        [HM_ARG_COMM] = "comm",
        [HM_ARG_SEQ] = "seq",
        [HM_ARG_FUNC] = "func",
        [HM_ARG_BYTES] = "bytes",
        [HM_ARG_N_OPS] = "n_ops",
        [HM_ARG_CORRELATION] = "correlation",
        [HM_ARG_GRID] = "grid",
        [HM_ARG_STEP] = "step",
        [HM_ARG_RANK] = "rank",
        [HM_ARG_PEER] = "peer",
        [HM_ARG_UNFINISHED] = "unfinished",
        [HM_ARG_VALUE] = "value",
        [HM_ARG_LOST] = "events",
    };
    return (unsigned)key < HM_N_ARGS ? name[key] : "?";
}

const char *hm_category_name(enum hm_category category)
{
    static const char *const name[HM_N_CATS] = {"kernel", "memcpy", "nccl", "wait", "step",
                                                "range",  "mpi",    "api",  "lost"};
    return (unsigned)category < HM_N_CATS ? name[category] : "?";
}
