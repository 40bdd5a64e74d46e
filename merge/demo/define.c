/* Strings, tracks, kernels, communicators and the device of a demo rank. Box: merge/demo. */
#include "demo/define.h"

#include "demo/names.h"
#include "demo/random.h"

#include <string.h>

static const char *const text[DEMO_N_STRINGS] = {
    [DEMO_S_EMPTY] = "",
    [DEMO_S_FORWARD] = "_Z12gemm_forwardPKfS0_Pfi",
    [DEMO_S_BACKWARD] = "_Z13gemm_backwardPKfS0_Pfi",
    [DEMO_S_NORM] = "_Z10layer_normPKfPfi",
    [DEMO_S_OPTIMIZER] = "_Z8sgd_stepPfPKffi",
    [DEMO_S_ROUTER] = "_Z6routerPKfPii",
    [DEMO_S_EXPERT] = "_Z12grouped_gemmPKfS0_PfPKii",
    [DEMO_S_EMBED] = "_Z5embedPKiPKfPfi",
    [DEMO_S_HEAD] = "_Z13softmax_crossPKfPfi",
    [DEMO_S_ALLREDUCE] =
        "_Z40ncclDevKernel_AllReduce_Sum_f32_RING_LL24ncclDevKernelArgsStorageILm4096EE",
    [DEMO_S_ALLGATHER] = "_Z33ncclDevKernel_AllGather_RING_LL24ncclDevKernelArgsStorageILm4096EE",
    [DEMO_S_REDUCESCATTER] =
        "_Z44ncclDevKernel_ReduceScatter_Sum_f32_RING_LL24ncclDevKernelArgsStorageILm4096EE",
    [DEMO_S_SENDRECV] = "_Z22ncclDevKernel_SendRecv24ncclDevKernelArgsStorageILm4096EE",
    [DEMO_S_DISPATCH] = "_ZN7experts8dispatchEPKfPfPKii",
    [DEMO_S_COMBINE] = "_ZN7experts7combineEPKfPfPKii",
    [DEMO_S_LAUNCH] = "cudaLaunchKernel",
    [DEMO_S_LAUNCH_EXC] = "cudaLaunchKernelExC",
    [DEMO_S_MEMCPY] = "cudaMemcpyAsync",
    [DEMO_S_FREE] = "cudaFree",
    [DEMO_S_MALLOC] = "cudaMalloc",
    [DEMO_S_INPUT] = "input",
    [DEMO_S_CHECKPOINT] = "checkpoint",
    [DEMO_S_DOMAIN] = "hindmost",
    [DEMO_S_MAIN] = "main",
    [DEMO_S_STREAM + DEMO_ST_COMPUTE] = "stream 7",
    [DEMO_S_STREAM + DEMO_ST_DP] = "stream 13",
    [DEMO_S_STREAM + DEMO_ST_FSDP] = "stream 17",
    [DEMO_S_STREAM + DEMO_ST_TP] = "stream 21",
    [DEMO_S_STREAM + DEMO_ST_EP] = "stream 25",
    [DEMO_S_STREAM + DEMO_ST_PP] = "stream 29",
    [DEMO_S_STREAM + DEMO_ST_COPY] = "stream 33",
    [DEMO_S_COMM + HM_DEMO_C_DP] = "dp",
    [DEMO_S_COMM + HM_DEMO_C_FSDP] = "fsdp",
    [DEMO_S_COMM + HM_DEMO_C_TP] = "tp",
    [DEMO_S_COMM + HM_DEMO_C_EP] = "ep",
    [DEMO_S_COMM + HM_DEMO_C_PP] = "pp",
    [DEMO_S_WORLD] = "world",
    [DEMO_S_GPU] = "Demo GPU"};

/* Nodes over which a communicator of this kind spreads. */
static uint32_t n_nodes(const struct hm_demo_sim *sim, enum hm_demo_comm comm)
{
    uint32_t node = sim->demo->node_ranks ? sim->demo->node_ranks : 8;
    uint32_t stride = UINT32_MAX, n = sim->shape.n_members[comm];
    for (unsigned k = 0; k < HM_DEMO_N_DIMS; k++)
        if (sim->shape.mask[comm] >> k & 1 && sim->shape.size[k] > 1 &&
            sim->shape.stride[k] < stride)
            stride = sim->shape.stride[k];
    uint64_t nodes = ((uint64_t)stride * n + node - 1) / node;
    return nodes < n ? (uint32_t)nodes : n;
}

static hm_status_t comms(struct hm_rankfile *rf, const struct hm_demo_sim *sim, uint32_t rank)
{
    const struct hm_demo_shape *s = &sim->shape;
    hm_status_t status = HM_OK;
    uint32_t node = sim->demo->node_ranks ? sim->demo->node_ranks : 8;
    for (unsigned c = 0; c < HM_DEMO_N_COMMS && !status; c++) {
        uint32_t crank, group = hm_demo_group(s, (enum hm_demo_comm)c, rank, &crank);
        if (s->n_members[c] < 2) { /* nothing is sent: a hole */
            status = hm_rankfile_define(rf, HM_DEF_COMM, c, "", 0);
            continue;
        }
        struct hm_def_comm comm = {.hash = hm_demo_hash(sim->demo->seed ^ 0xc033, c, group, 0),
                                   .crank = (int32_t)crank,
                                   .n_ranks = (int32_t)s->n_members[c],
                                   .n_nodes = (int32_t)n_nodes(sim, (enum hm_demo_comm)c),
                                   .device = (int32_t)(rank % node),
                                   .name = s->n_members[c] == s->n_ranks ? DEMO_S_WORLD
                                                                         : DEMO_S_COMM + c,
                                   .interface = 5,
                                   .nccl_version = 22809};
        status = hm_rankfile_define(rf, HM_DEF_COMM, c, &comm, sizeof(comm));
    }
    return status;
}

hm_status_t hm_demo_define(struct hm_rankfile *rf, const struct hm_demo_sim *sim, uint32_t rank)
{
    static const uint32_t stream[DEMO_N_STREAMS] = {7, 13, 17, 21, 25, 29, 33};
    uint32_t node = sim->demo->node_ranks ? sim->demo->node_ranks : 8, device = rank % node;
    hm_status_t s = HM_OK;
    for (uint32_t i = 0; i < DEMO_N_STRINGS && !s; i++)
        s = hm_rankfile_define(rf, HM_DEF_STRING, i, text[i], (uint32_t)strlen(text[i]));
    struct hm_def_track host = {.type = HM_TRACK_THREAD, .name = DEMO_S_MAIN, .tid = 1000 + rank};
    if (!s)
        s = hm_rankfile_define(rf, HM_DEF_TRACK, DEMO_T_HOST, &host, sizeof(host));
    for (uint32_t i = 0; i < DEMO_N_STREAMS && !s; i++) {
        struct hm_def_track t = {.type = HM_TRACK_STREAM,
                                 .name = DEMO_S_STREAM + i,
                                 .device = device,
                                 .context = 1,
                                 .stream = stream[i]};
        s = hm_rankfile_define(rf, HM_DEF_TRACK, DEMO_T_STREAM + i, &t, sizeof(t));
    }
    for (uint32_t i = 0; i < DEMO_N_KERNELS && !s; i++) {
        struct hm_def_kernel k = {
            .name = DEMO_S_FORWARD + i, .block = {256, 1, 1}, .registers = 64};
        s = hm_rankfile_define(rf, HM_DEF_KERNEL, i, &k, sizeof(k));
    }
    struct hm_def_device gpu = {.memory_bytes = UINT64_C(80) << 30,
                                .device = device,
                                .name = DEMO_S_GPU,
                                .n_sm = 132,
                                .cc = 90,
                                .clock_khz = 1980000};
    gpu.uuid[0] = 0xd3;
    gpu.uuid[14] = (uint8_t)(rank >> 8);
    gpu.uuid[15] = (uint8_t)rank;
    if (!s)
        s = comms(rf, sim, rank);
    if (!s)
        s = hm_rankfile_define(rf, HM_DEF_DEVICE, 0, &gpu, sizeof(gpu));
    return s;
}
