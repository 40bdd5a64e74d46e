/* The situations, by group, and the steps that several of them share. */
#ifndef SCENARIO_SCENARIOS_H
#define SCENARIO_SCENARIOS_H

#include "schedule.h"

struct scenario {
    const char *name;
    void (*write)(const char *dir);
}; /* lists end with name NULL */
extern const struct scenario data_parallel_scenarios[], model_parallel_scenarios[],
    expert_scenarios[], host_scenarios[], life_scenarios[], odd_scenarios[], example_scenarios[],
    stuck_scenarios[], network_scenarios[], overlap_scenarios[];

#define MATMUL "_Z6matmulPKfS0_Pf"
#define BIAS   "_Z4biasPf"

/** Work of ns on COMPUTE: half a matmul of `grid` blocks, half a bias kernel. */
static inline void compute(struct rank *r, uint32_t grid, int64_t ns)
{
    gpu_kernel(r, COMPUTE, MATMUL, grid, ns / 2);
    gpu_kernel(r, COMPUTE, BIAS, 64, ns - ns / 2);
}

#endif
