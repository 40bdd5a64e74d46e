#!/usr/bin/env bats
# hindmost doctor tells what is wrong with a machine that was made wrong on purpose.

setup() {
    hm=$HM_BUILD/bin/hindmost
    cd "$BATS_TEST_TMPDIR"
    unset HINDMOST HINDMOST_OUT LD_PRELOAD CUDA_INJECTION64_PATH NVTX_INJECTION64_PATH \
        NCCL_PROFILER_PLUGIN OMPI_COMM_WORLD_RANK PMI_RANK PMIX_RANK SLURM_STEP_ID TORCHELASTIC_RUN_ID
    export HOME=$PWD
}

has() { echo "$output" | grep -q -- "$1" || { echo "$output"; false; }; }

@test "a sound machine: one line a thing, exit 0" {
    run "$hm" doctor
    has "^ok    recorder   $HM_BUILD/lib/libnccl-profiler-hindmost.so\$"
    has "^ok    kernel     Linux $(uname -r) on $(uname -m)\$"
    has "^\(ok  \|note\)  clock      $(cat /sys/devices/system/clocksource/clocksource0/current_clocksource), [0-9]* ns a reading"
    has '^ok    plugin .* speaks v1 v2 v3 v4 v5 v6 v7$'
    has '  folder     \. can be written, [0-9]* MiB free'
    [ "$status" -eq 0 ]
    # every line is a verdict
    [ "$(echo "$output" | grep -vc '^\(ok   \|note \|BAD  \) [a-z]')" -eq 0 ]
}

@test "what other tools have set, and what it costs" {
    NVTX_INJECTION64_PATH=/opt/nsys/lib.so CUDA_INJECTION64_PATH=/opt/x.so NCCL_PROFILER_PLUGIN=other run "$hm" doctor
    has '^note  other tool NVTX_INJECTION64_PATH=/opt/nsys/lib.so: NVTX ranges go there'
    has '^note  other tool CUDA_INJECTION64_PATH=/opt/x.so: '
    has '^note  other tool NCCL_PROFILER_PLUGIN=other: '
    [ "$status" -eq 0 ]
    echo 'NCCL_PROFILER_PLUGIN=third' >.nccl.conf
    run "$hm" doctor
    has "^note  nccl       $PWD/.nccl.conf says NCCL_PROFILER_PLUGIN=third"
}

@test "settings: wrong, and switched off" {
    HINDMOST_STEPZ=1 run "$hm" doctor
    has 'HINDMOST_STEPZ: no such setting; did you mean HINDMOST_STEPS?'
    has '^BAD   settings'
    [ "$status" -eq 1 ]
    HINDMOST=off run "$hm" doctor
    has '^BAD   settings   HINDMOST=off switches everything off'
    [ "$status" -eq 1 ]
}

@test "CUPTI: the version of the one that is configured, and one that cannot be loaded" {
    fake=$(ls "$HM_BUILD"/tests/cupti/fake/libcupti.so.13 2>/dev/null) || skip "no stand-in"
    HINDMOST_CUPTI=$fake run "$hm" doctor
    has "^ok    cupti      version 130001, $fake\$"
    echo no library >lib.so
    HINDMOST_CUPTI=$PWD/lib.so run "$hm" doctor
    has "^BAD   cupti      HINDMOST_CUPTI=$PWD/lib.so cannot be loaded"
    [ "$status" -eq 1 ]
    HINDMOST_KERNELS=0 run "$hm" doctor
    has '^note  cupti      kernels are switched off'
}

@test "a library that crashes or hangs whoever loads it is named" {
    command -v cc >/dev/null || skip "no compiler"
    printf '#include <signal.h>\n__attribute__((constructor)) static void c(void) { raise(SIGSEGV); }\n' >c.c
    cc -shared -fPIC c.c -o libcupti-bad.so
    HINDMOST_CUPTI=$PWD/libcupti-bad.so run "$hm" doctor
    has '^BAD   gpu        loading it crashes (Segmentation fault)'
    has '  mpi  '
    [ "$status" -eq 1 ]
}

@test "limits and folders" {
    run bash -c "ulimit -f 2000; '$hm' doctor"
    has '^BAD   limits     files may have 2048000 bytes'
    [ "$status" -eq 1 ]
    run bash -c "ulimit -f 20000; '$hm' doctor"
    has '^note  limits     files may have 20480000 bytes'
    touch file
    HINDMOST_OUT=$PWD/file run "$hm" doctor
    has "^BAD   folder     $PWD/file cannot be written"
    HINDMOST_OUT=$PWD/not/yet/there run "$hm" doctor
    has "folder     $PWD can be written"
}

@test "launchers" {
    OMPI_COMM_WORLD_RANK=0 run "$hm" doctor
    has "^ok    launcher   Open MPI's mpirun\$"
    TORCHELASTIC_RUN_ID=x run "$hm" doctor
    has '^ok    launcher   torchrun$'
}
