#!/usr/bin/env bats
# hindmost run, env, config: what is set, exit codes, exec.
bats_require_minimum_version 1.5.0

setup() {
    hm=$HM_BUILD/bin/hindmost
    real=$HM_BUILD/lib/libnccl-profiler-hindmost.so
    cd "$BATS_TEST_TMPDIR"
    unset LD_PRELOAD HINDMOST HINDMOST_OUT CUDA_INJECTION64_PATH NVTX_INJECTION64_PATH \
        NCCL_PROFILER_PLUGIN OMPI_COMM_WORLD_SIZE OMPI_COMM_WORLD_RANK PMI_RANK PMI_SIZE \
        PMIX_RANK PMI_FD SLURM_PROCID
}

@test "-n prints and runs nothing" {
    run "$hm" run -n -- touch made
    [ "$status" -eq 0 ]
    [ ! -e made ]
    [[ "$output" == *"CUDA_INJECTION64_PATH=$real"* ]]
    [[ "$output" != *LD_PRELOAD* ]]
}

@test "LD_PRELOAD under a launcher, before one, and when asked" {
    OMPI_COMM_WORLD_SIZE=2 run "$hm" run -n -- ./train
    [[ "$output" == *"LD_PRELOAD=$real"* ]]
    run "$hm" run -n -- mpirun -np 2 ./train
    [[ "$output" == *"LD_PRELOAD=$real"* ]]
    run "$hm" run -n --preload -- ./train
    [[ "$output" == *"LD_PRELOAD=$real"* ]]
    LD_PRELOAD=libother.so PMI_RANK=0 run "$hm" run -n -- ./train
    [[ "$output" == *"LD_PRELOAD=$real:libother.so"* ]]
    PMI_RANK=0 run "$hm" run -n --no-preload -- ./train
    [[ "$output" != *LD_PRELOAD* ]]
}

@test "the program's own status, 126, 127, 64" {
    run "$hm" run -- sh -c 'exit 7'
    [ "$status" -eq 7 ]
    run "$hm" run -- sh -c 'kill -SEGV $$'
    [ "$status" -eq 139 ]
    run -127 "$hm" run -- ./no-such-program
    touch plain
    run "$hm" run -- ./plain
    [ "$status" -eq 126 ]
    run "$hm" run
    [ "$status" -eq 64 ]
    run "$hm" run --no-such-option -- true
    [ "$status" -eq 64 ]
}

@test "options become variables; a bad value is refused" {
    "$hm" run --out here --steps 3..5 -- env >seen
    grep -qx "HINDMOST_OUT=$PWD/here" seen
    grep -qx "HINDMOST_STEPS=3..5" seen
    run "$hm" run --pool nonsense -- true
    [ "$status" -eq 64 ]
}

@test "env can be evaluated" {
    run bash -c "eval \"\$('$hm' env --out \"it's here\")\"; echo \"\$HINDMOST_OUT\""
    [ "$output" = "$PWD/it's here" ]
}

@test "config -a tells where a setting comes from" {
    HINDMOST_STEPS=3..5 run "$hm" config -a
    [ "$status" -eq 0 ]
    [[ "$output" == *"steps = 3..5  # environment"* ]]
    [[ "$output" == *"# default"* ]]
    HINDMOST_STEP=3..5 run "$hm" config -a
    [ "$status" -eq 64 ]
    [[ "$output" == *STEPS* ]] || [[ "$output" == *steps* ]]
}

@test "every setting is an option of run" {
    "$hm" run --help >help
    "$hm" config -a | sed 's/ = .*//' >keys
    [ "$(wc -l <keys)" -ge 15 ]
    while read -r key; do
        grep -q -- "--${key//_/-} " help || {
            echo "missing: $key"
            false
        }
    done <keys
}
