#!/usr/bin/env bats
# NCCL_PROFILER_PLUGIN alone starts a full recording: a rank file with calls, launches, kernels.

setup() {
    cd "$BATS_TEST_TMPDIR"
    unset HINDMOST LD_PRELOAD OMPI_COMM_WORLD_RANK PMI_RANK RANK SLURM_PROCID
    export HINDMOST_OUT=$BATS_TEST_TMPDIR/run LD_LIBRARY_PATH=$HM_BUILD/lib
    [ -x "$HM_BUILD/libexec/hindmost/hindmost-writer" ] || skip "no writer in this build"
    for py in python3 /usr/bin/python3 none; do
        $py -c 'import h5py' 2>/dev/null && break
    done
    [ "$py" != none ] || skip "no h5py"
}
check() { $py "$BATS_TEST_DIRNAME/alone.py" "$@"; }

@test "return without destroying the communicator" {
    run "$HM_BIN/alone" "$HM_FAKE_CUPTI" 3 8 50 return
    [ "$status" -eq 0 ]
    echo "$output"
    [ -z "$output" ]
    run check run/rank-00003.h5 3 50 return
    echo "$output"
    [ "$output" = ok ]
}

@test "two ranks, one folder" {
    export HINDMOST_RUN=pair
    "$HM_BIN/alone" "$HM_FAKE_CUPTI" 0 2 20 return &
    "$HM_BIN/alone" "$HM_FAKE_CUPTI" 1 2 20 return
    wait
    for r in 0 1; do
        run check run/rank-0000$r.h5 $r 20 return
        echo "$output"
        [ "$output" = ok ]
    done
}

@test "SIGKILL: what was committed is there, and the call that never returned" {
    run "$HM_BIN/alone" "$HM_FAKE_CUPTI" 1 4 50 kill
    [ "$status" -eq 137 ]
    for i in $(seq 100); do [ -e run/rank-00001.h5 ] && break; read -t 0.1 < <(:) || true; done
    [ ! -e run/rank-00001.lock ] || flock -w 10 run/rank-00001.lock true
    run check run/rank-00001.h5 1 50 kill
    echo "$output"
    [ "$output" = ok ]
}

@test "HINDMOST=off: nothing is recorded, NCCL is none the wiser" {
    HINDMOST=off run "$HM_BIN/alone" "$HM_FAKE_CUPTI" 3 8 5 return
    [ "$status" -eq 1 ] # the program wants a mask; a crash would be 139
    [ ! -e run ]
}
