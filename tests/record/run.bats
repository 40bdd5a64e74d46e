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

@test "every setting is an option, a variable and a line of the file, and takes its default" {
    "$hm" run --help >help
    "$hm" config -a | sed 's/ *# default$//' >all
    [ "$(wc -l <all)" -ge 25 ]
    while IFS='=' read -r key value; do
        key=${key% } value=${value# }
        name=HINDMOST_$(tr a-z A-Z <<<"$key")
        echo "$key = $value" >here.conf
        grep -q -- "--${key//_/-} " help
        run "$hm" config -f here.conf -a
        [[ "$output" == *"$key = $value  # file"* ]]
        run env "$name=$value" "$hm" config -a
        [[ "$output" == *"$key = $value  # environment"* ]]
        [ -z "$value" ] || "$hm" run -n "--${key//_/-}" "$value" -- true | grep -q "^$name="
    done <all
}

@test "the environment goes before the file, the option before both" {
    echo 'flush_ms = 5s' >here.conf
    run "$hm" config -f here.conf -a
    [[ "$output" == *"flush_ms = 5000  # file"* ]]
    HINDMOST_FLUSH=7 run "$hm" config -f here.conf -a
    [[ "$output" == *"flush_ms = 7000  # environment"* ]]
    HINDMOST_FLUSH_MS=7000 run "$hm" run --flush-ms 9s -- sh -c 'echo $HINDMOST_FLUSH_MS'
    [ "$output" = 9s ]
}

@test "hindmost.conf beside the library is read by the tool and by the recorder" {
    mkdir -p tree/lib tree/bin tree/libexec/hindmost
    cp "$real" tree/lib/
    cp "$hm" tree/bin/
    cp "$HM_BUILD/libexec/hindmost/hindmost-writer" tree/libexec/hindmost/
    printf '# of the machine\nsteps = 2..3\n' >tree/lib/hindmost.conf
    run tree/bin/hindmost config -a
    [[ "$output" == *"steps = 2..3  # file"* ]]
    HINDMOST_OUT=$PWD/run LD_PRELOAD=$PWD/tree/lib/libnccl-profiler-hindmost.so "$HM_BIN/marks" 10 return
    run tree/bin/hindmost info run
    [[ "$output" == *" mark 2 "* ]]
}

@test "an unknown or bad variable, option or line is said with a suggestion, and nothing is run" {
    HINDMOST_FLUSHMS=5 run "$hm" run -- touch made
    [ "$status" -eq 64 ]
    [ "$output" = "hindmost: HINDMOST_FLUSHMS: no such setting; did you mean HINDMOST_FLUSH_MS?" ]
    HINDMOST_POOL=lots run "$hm" run -- touch made
    [ "$status" -eq 64 ]
    [[ "$output" == "hindmost: HINDMOST_POOL: \"lots\" is no number from 4194304 to "*"; the default 64M stays" ]]
    run "$hm" run --step-evry 5 -- touch made
    [ "$status" -eq 64 ]
    [[ "$output" == *"did you mean --step-every?" ]]
    run "$hm" run --step-every 0 -- touch made
    [ "$status" -eq 64 ]
    [[ "$output" == "hindmost: --step_every: \"0\" is no number from 1 to "* ]]
    printf 'pool = 64M\nstepps = 3\n' >here.conf
    run "$hm" config -f here.conf
    [ "$status" -eq 64 ]
    [[ "$output" == *"here.conf:2: stepps: no such setting; did you mean steps?"* ]]
    [ ! -e made ]
}
