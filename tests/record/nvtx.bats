#!/usr/bin/env bats
# NVTX calls of a real program, compiled with the vendor's headers, arrive in the rank file.

setup() {
    real=$HM_BUILD/lib/libnccl-profiler-hindmost.so
    cd "$BATS_TEST_TMPDIR"
    unset HINDMOST OMPI_COMM_WORLD_RANK PMI_RANK RANK LD_PRELOAD CUDA_INJECTION64_PATH \
        NVTX_INJECTION64_PATH NCCL_PROFILER_PLUGIN
    export HINDMOST_OUT=$BATS_TEST_TMPDIR/run
    # the first python3 of the path need not be the one that has the packages
    for py in python3 /usr/bin/python3 none; do
        $py -c 'import h5py' 2>/dev/null && break
    done
    [ "$py" != none ] || skip "no h5py"
}

ranges() { NVTX_INJECTION64_PATH=$real "$HM_BIN/ranges" "$@"; }
# of the file of rank 0, sorted by their start
show() { $py "$BATS_TEST_DIRNAME/ranges.py" run/rank-00000.h5 "$@"; }
finished() { [ ! -e run/rank-00000.lock ] || flock -w 10 run/rank-00000.lock true; }

@test "push and pop, mark, start and end" {
    run ranges basic
    [ "$status" -eq 0 ]
    [ -z "$output" ]
    [ "$(show /range name domain depth style open thread)" = "outer|-|0|0|0|the-trainer
inner|-|1|0|0|the-trainer
span|-|0|1|0|the-trainer" ]
    [ "$(show /mark name domain category aux)" = "early category|one|3|1
here|-|-|0" ]
}

@test "the preload alone sets the variable" {
    LD_PRELOAD=$real "$HM_BIN/ranges" basic
    [ "$(show /range name)" = "outer
inner
span" ]
}

@test "hindmost run sets the variable" {
    "$HM_BUILD/bin/hindmost" run --out "$PWD/run" -- "$HM_BIN/ranges" basic
    [ "$(show /range name)" = "outer
inner
span" ]
}

@test "another tool's variable stays, and one line says so" {
    NVTX_INJECTION64_PATH=/opt/other/libtool.so LD_PRELOAD=$real run "$HM_BIN/ranges" basic
    [ "$status" -eq 0 ]
    [ "$(echo "$output" | wc -l)" -eq 1 ]
    [[ "$output" == *"NVTX_INJECTION64_PATH is set to /opt/other/libtool.so"* ]]
    [ -z "$(show /range name)" ]
    [ "$(show /step step)" = 0 ]
}

@test "domains have stacks of their own; strings registered before waking are known" {
    ranges domains
    [ "$(show /range name domain style)" = "registered early|one|0
of two|two|0
of two|two|1" ]
    [ "$(show /mark name domain aux)" = "early category|one|1
registered early|one|0" ]
}

@test "category, colour, payloads of every type, wide text" {
    ranges more
    # bits by hand: 0.5 = 0x3fe0000000000000, 1.5f = 0x3fc00000, -5 and -7 in 64 bits
    [ "$(show /range name category color payload payload_type)" = \
        "payload|7|4278255360|18364758544493064720|1
wide ä€😀|-|0|0|0" ]
    [ "$(show /mark name category payload payload_type aux)" = "early category|3|0|0|1
payload|7|18446744073709551611|2|0
payload|7|4602678819172646912|3|0
payload|7|6|4|0
payload|7|18446744073709551609|5|0
payload|7|1069547520|6|0
payload|7|0|0|0
GEMM|7|0|0|1" ]
}

@test "unbalanced pops, other threads, null pointers, garbage" {
    run ranges wrong
    [ "$status" -eq 0 ]
    [ -z "$output" ]
    [ "$(show /range name depth open)" = "kept|0|0
there|0|0
-|0|0
-|0|0
once|0|0" ]
    # two null texts, two garbage strings, an attribute structure that is too short, on two domains
    [ "$(show /mark aux | sort | uniq -c | tr -s ' ')" = " 6 0
 1 1" ]
}

@test "step ranges wake the recorder and mark steps" {
    ranges steps
    [ "$(show /step step aux source name)" = "3|0|2|step 3
3|1|2|step 3
4|0|2|step_4
4|1|2|step_4
5|0|2|step#5
5|1|2|step#5
6|0|2|step
6|1|2|step
7|0|2|step 7
7|1|2|step 7" ]
    [ "$(show /range name | grep -c '^input$')" -eq 5 ]
    [ "$(show /range name | wc -l)" -eq 17 ]
}

@test "step ranges by another name, numbered by payload, with start and end" {
    HINDMOST_STEP_RANGE=train ranges payload
    [ "$(show /step step aux)" = "10|0
10|1
11|0
11|1
12|0
12|1" ]
}

@test "a program that calls hm_step is not given steps twice" {
    ranges called
    [ "$(show /step step source)" = "0|1" ]
    [ "$(show /range name | wc -l)" -eq 17 ]
}

@test "ranges without a step: nothing is recorded" {
    run ranges none
    [ "$status" -eq 0 ]
    [ -z "$output" ]
    [ ! -e run ]
}

@test "names with counters are folded after a thousand" {
    ranges counters
    # the thousandth different one is number 999, and "op 5" was known by then
    [ "$(show /range name | sort -u | wc -l)" -eq 1001 ]
    [ "$(show /range name | grep -c '^op #, seq = #$')" -eq 2000 ]
    [ "$(show /range name | grep -c '^op 5, seq = 10$')" -eq 3001 ]
}

@test "what is open when the process dies is there" {
    ranges open
    finished
    [ "$(show /range name open style depth)" = "open outer|1|0|0
open inner|1|0|1
open span|1|1|0" ]
}

@test "more spans than slots: the oldest are kept as never ended" {
    ranges many 3000
    [ "$(show /range open | sort | uniq -c | tr -s ' ')" = " 1 0
 2999 1" ]
}
