#!/usr/bin/env bats
# Marks arrive in the rank file however the process ends; children record nothing.

setup() {
    export LD_PRELOAD_LIB=$HM_BUILD/lib/libhindmost.so
    cd "$BATS_TEST_TMPDIR"
    unset HINDMOST OMPI_COMM_WORLD_RANK PMI_RANK RANK
    export HINDMOST_OUT=$BATS_TEST_TMPDIR/run
    export HINDMOST_HEALTH=off # counters are counted here
    [ -x "$HM_BUILD/libexec/hindmost/hindmost-writer" ] || skip "no writer in this build"
    # the first python3 of the path need not be the one that has the packages
    for py in python3 /usr/bin/python3 none; do
        $py -c 'import h5py' 2>/dev/null && break
    done
    [ "$py" != none ] || skip "no h5py"
}

marks() { LD_PRELOAD=$LD_PRELOAD_LIB "$HM_BIN/marks" "$@"; }
rows() { $py "$BATS_TEST_DIRNAME/rows.py" "$@"; }
# the writer holds the lock until its file is complete
finished() { [ ! -e run/rank-00000.lock ] || flock -w 10 run/rank-00000.lock true; }

@test "return: file complete when the program has ended" {
    run marks 100 return
    [ "$status" -eq 0 ]
    [ -z "$output" ]
    [ ! -e run/rank-00000.tail ]
    run rows run/rank-00000.h5 /step /range /mark /counter
    [ "$output" = "/step 100
/range 100
/mark 100
/counter 200" ]
}

@test "the values are those that were marked" {
    marks 5 return
    run rows run/rank-00000.h5 /step.step /range.depth
    [ "$output" = "/step.step 0 1 2 3 4
/range.depth 0 0 0 0 0" ]
}

@test "exit, _exit, abort, SIGKILL: status kept, everything there" {
    for how in exit:3 _exit:4 abort:134 kill:137; do
        rm -rf run
        run marks 2000 "${how%:*}"
        [ "$status" -eq "${how#*:}" ]
        finished
        run rows run/rank-00000.h5 /step /mark
        [ "$output" = "/step 2000
/mark 2000" ]
    done
}

@test "exec: the old program's marks are there, status is the new one's" {
    run marks 50 exec 'exit 5'
    [ "$status" -eq 5 ]
    finished
    [ "$(rows run/rank-00000.h5 /step)" = "/step 50" ]
}

@test "fork, raw clone: the child records nothing and the wait() loop ends" {
    for how in fork rawfork vfork wait; do
        rm -rf run
        run marks 10 $how
        [ "$status" -eq 0 ]
        [ "$(rows run/rank-00000.h5 /step)" = "/step 11" ]
        [ "$(ls run/*.h5 | wc -l)" -eq 1 ]
    done
}

@test "loaded and closed by the program: it stays and records on" {
    run "$HM_BIN/marks" 10 dlclose "$LD_PRELOAD_LIB"
    [ "$status" -eq 0 ]
    [ "$(rows run/rank-00000.h5 /step)" = "/step 20" ]
}

@test "eight threads at once" {
    marks 3000 threads
    [ "$(rows run/rank-00000.h5 /step /counter)" = "/step 24000
/counter 48000" ]
}

@test "a stopped writer: the pool holds a quarter of a million events" {
    # with the marks before the stop half a million: less than the 748 chunks take in any case
    run marks 50000 pausewriter
    [ "$status" -eq 0 ]
    [ "$(rows run/rank-00000.h5 /step /counter)" = "/step 100000
/counter 200000" ]
}

@test "stop: steps only; start: all again" {
    marks 10 stopped
    [ "$(rows run/rank-00000.h5 /step /mark)" = "/step 30
/mark 20" ]
}

@test "window of steps" {
    HINDMOST_STEPS=3..5 marks 10 return
    [ "$(rows run/rank-00000.h5 /step /mark)" = "/step 10
/mark 3" ]
}

@test "no mark: no folder" {
    marks 1 none
    [ ! -e run ]
}

@test "HINDMOST=off: nothing" {
    HINDMOST=off marks 10 return
    [ ! -e run ]
}

@test "another run in the folder: not mixed, one line, status kept" {
    HINDMOST_RUN=first marks 10 return
    HINDMOST_RUN=second run marks 10 exit
    [ "$status" -eq 3 ]
    [ "$(echo "$output" | wc -l)" -eq 1 ]
    [[ "$output" == *"another run"* ]]
    [ "$(rows run/rank-00000.h5 /step)" = "/step 10" ]
}

@test "a folder that holds no rank file is free" {
    mkdir run
    echo other >run/.run-id
    run marks 10 exit
    [ "$status" -eq 3 ]
    [ -z "$output" ]
    [ "$(rows run/rank-00000.h5 /step)" = "/step 10" ]
}

@test "a pipe is closed when the program ends" {
    run timeout 5 bash -c "LD_PRELOAD=$LD_PRELOAD_LIB $HM_BIN/marks 10 _exit | cat"
    [ "$status" -eq 0 ]
}

@test "a missing writer: one line, program unharmed" {
    HINDMOST_WRITER=/nonexistent run marks 10 exit
    [ "$status" -eq 3 ]
    [ "$(echo "$output" | wc -l)" -eq 1 ]
    [[ "$output" == *"writer could not be started"* ]]
}

@test "no allocation on the record path" {
    LD_PRELOAD=$LD_PRELOAD_LIB run "$HM_BIN/alloc" 20000
    [ "$status" -eq 0 ]
    [ "$output" = 0 ]
}

@test "ranks without MPI: one folder, each its own file" {
    # as a launcher of plain processes sets it
    export WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=29500
    RANK=0 LOCAL_RANK=0 marks 10 return &
    RANK=1 LOCAL_RANK=1 marks 20 return
    wait $!
    [ "$(rows run/rank-00000.h5 /step)" = "/step 10" ]
    [ "$(rows run/rank-00001.h5 /step)" = "/step 20" ]
}

@test "two processes of one rank: both files are kept" {
    export RANK=0 WORLD_SIZE=1 LOCAL_RANK=0 HINDMOST_RUN=same
    marks 10 return
    marks 20 return
    [ "$(rows run/rank-00000.h5 /step)" = "/step 10" ]
    [ "$(rows run/rank-00000.1.h5 /step)" = "/step 20" ]
}

@test "a writer that hangs or dies does not keep the program" {
    printf '#!/bin/sh\nexec sleep 4\n' >stuck
    printf '#!/bin/sh\nexit 1\n' >dead
    chmod +x stuck dead
    HINDMOST_WRITER=$PWD/stuck HINDMOST_EXIT_WAIT_MS=200 LD_PRELOAD=$LD_PRELOAD_LIB \
        run timeout 3 "$HM_BIN/marks" 10 exit
    [ "$status" -eq 3 ]
    rm -rf run
    HINDMOST_WRITER=$PWD/dead LD_PRELOAD=$LD_PRELOAD_LIB run timeout 3 "$HM_BIN/marks" 10 exit
    [ "$status" -eq 3 ]
}
