#!/usr/bin/env bats
# What is recorded when: windows of steps, times, budgets, orders from outside, the watchdog.

setup() {
    lib=$HM_BUILD/lib/libhindmost.so
    hm=$HM_BUILD/bin/hindmost
    cd "$BATS_TEST_TMPDIR"
    unset HINDMOST OMPI_COMM_WORLD_RANK PMI_RANK RANK
    export HINDMOST_HEALTH=0 # its samples are counters too
    export HINDMOST_OUT=$BATS_TEST_TMPDIR/run
    # the first python3 of the path need not be the one that has the packages
    for py in python3 /usr/bin/python3 none; do
        $py -c 'import h5py' 2>/dev/null && break
    done
    [ "$py" != none ] || skip "no h5py"
    job=
}

teardown() {
    touch "$BATS_TEST_TMPDIR/done"
    [ -z "$job" ] || wait "$job" || true
}

marks() { LD_PRELOAD=$lib "$HM_BIN/marks" "$@"; }
rows() { $py "$BATS_TEST_DIRNAME/rows.py" run/rank-00000.h5 "$@"; }
count() { rows "$1" | cut -d ' ' -f 2; }
# the process that writes this run
find_writer() {
    for p in $(pgrep -x hindmost-writer); do
        tr '\0' '\n' <"/proc/$p/environ" 2>/dev/null | grep -qx "HINDMOST_OUT=$HINDMOST_OUT" && echo "$p"
    done
}
when() { $py "$BATS_TEST_DIRNAME/when.py" run/rank-00000.h5 "$@"; }
# in the background until the file `done` is there; returns when its rank file is open
start() {
    LD_PRELOAD=$lib "$HM_BIN/marks" "$@" done 3>&- &
    job=$!
    for _ in $(seq 200); do
        [ ! -e run/rank-00000.lock ] || return 0
        sleep 0.05
    done
    false
}
finish() {
    touch done
    wait "$job"
    job=
}

@test "steps N..M, and everything else of the steps outside is not there" {
    HINDMOST_STEPS=3..5 marks 20 return
    [ "$(rows /step /mark /range /counter)" = "/step 20
/mark 3
/range 3
/counter 6" ]
}

@test "every K-th step, alone and inside a window" {
    HINDMOST_STEP_EVERY=10 marks 100 return
    [ "$(rows /counter.value | tr ' ' '\n' | grep -c .)" -eq 21 ]
    [ "$(rows /step /mark)" = "/step 100
/mark 10" ]
    rm -rf run
    HINDMOST_STEPS=7..30 HINDMOST_STEP_EVERY=10 marks 100 return
    [ "$(rows /step /mark)" = "/step 100
/mark 3" ]
    # the counters of steps 7, 17 and 27; their halves are doubles
    [ "$(rows /counter.value | tr ' ' '\n' | awk '$1 > 0 && $1 < 1000' | tr '\n' ' ')" = "7 17 27 " ]
}

@test "a window that is none: one line, everything is recorded" {
    HINDMOST_STEPS=9..3 run marks 10 exit
    [ "$status" -eq 3 ]
    [ "$(echo "$output" | wc -l)" -eq 1 ]
    [[ "$output" == *'"9..3" is no window'* ]]
    [ "$(rows /mark)" = "/mark 10" ]
}

@test "from a time on, for a time" {
    HINDMOST_START_AFTER=300ms HINDMOST_RECORD_FOR=400ms start 1 until
    sleep 2.5
    finish
    read -r first last n _ <<<"$(when /mark)"
    # the writer turns at its next look, 50 ms apart; the rest is for a loaded machine
    [ "$first" -ge 300 ] && [ "$first" -le 1300 ]
    [ "$last" -le 1700 ]
    [ "$n" -ge 2 ]
    read -r first last _ <<<"$(when /step)"
    [ "$first" -lt 300 ]
    [ "$last" -ge 2000 ]
}

@test "a budget of events is kept exactly; steps go on" {
    HINDMOST_MAX_EVENTS=500 marks 1000 return
    rows /step /mark /range /counter >counts
    [ "$(awk '$1 != "/step" { n += $2 } END { print n }' counts)" -eq 500 ]
    grep -qx '/step 1000' counts
    # from the five hundredth event to the end; at most the rest of the 4,000 was lost on the way
    [ "$(rows /gap.aux)" = "/gap.aux 4" ]
    lost=$(rows /gap.n | cut -d ' ' -f 2)
    [ "$lost" -ge 0 ] && [ "$lost" -le 3500 ]
    [ "$lost" -eq "$("$hm" info run --json | $py -c 'import json, sys; print(json.load(sys.stdin)["ranks"][0]["lost"]["budget"])')" ]
}

@test "a budget of bytes" {
    # the file is longer than that before its first event
    HINDMOST_MAX_BYTES=1k start 1 until
    sleep 3.5
    finish
    read -r _ last _ <<<"$(when /mark)"
    read -r _ end _ <<<"$(when /step)"
    # looked at once a second
    [ "$last" -le 3000 ]
    [ $((end - last)) -ge 400 ]
}

@test "ctl stop and start: nothing in between but steps" {
    start 1 until
    run "$hm" ctl stop run
    [ "$output" = "stopped: 1 of 1 ranks" ]
    [ "$status" -eq 0 ]
    sleep 1
    run "$hm" ctl start run
    [ "$output" = "started: 1 of 1 ranks" ]
    sleep 0.5
    finish
    read -r _ _ _ gap <<<"$(when /mark)"
    [ "$gap" -ge 1000 ]
    [ $(($(count /step) - $(count /mark))) -ge 20 ]
}

@test "ctl start opens what a window of steps keeps shut" {
    HINDMOST_STEPS=1000000..1000001 start 1 until
    "$hm" ctl start run
    sleep 0.5
    finish
    [ "$(rows /mark)" != "/mark 0" ]
}

@test "ctl snapshot: shows and stores what is open, and the thing itself still ends" {
    start 3 stuck
    run "$hm" ctl snapshot run
    [ "$status" -eq 0 ]
    [[ "${lines[0]}" == "rank 0  $(uname -n)  step 2  recording" ]]
    [[ "${lines[1]}" == *" s  thread "*" outer work" ]]
    [[ "${lines[2]}" == *" s  thread "*" stuck here" ]]
    run "$hm" ctl snapshot run
    finish
    [ "$($py "$BATS_TEST_DIRNAME/ranges.py" run/rank-00000.h5 /open aux name depth what | sort)" = \
        "1|outer work|0|32
1|stuck here|1|32
2|outer work|0|32
2|stuck here|1|32" ]
    [ "$($py "$BATS_TEST_DIRNAME/ranges.py" run/rank-00000.h5 /range name open | tail -2 | sort)" = \
        "outer work|0
stuck here|0" ]
}

@test "the watchdog takes one snapshot, which survives when the writer is killed too" {
    HINDMOST_WATCHDOG=500ms start 3 stuck
    for _ in $(seq 100); do
        "$hm" info run 2>/dev/null | grep -q ' open 2' && break
        sleep 0.1
    done
    kill -9 "$(find_writer)"
    kill -9 "$job"
    wait "$job" || true
    job=
    "$hm" info --finish run
    [ "$($py "$BATS_TEST_DIRNAME/ranges.py" run/rank-00000.h5 /open name aux)" = "outer work|32769
stuck here|32769" ]
}

@test "a full pool: the gap says when and how many" {
    HINDMOST_POOL=4M marks 50000 pausewriter
    lost=$("$hm" info run --json | $py -c 'import json, sys; print(json.load(sys.stdin)["ranks"][0]["lost"]["pool_full"])')
    [ "$lost" -gt 0 ]
    [ "$(rows /gap.n | cut -d ' ' -f 2- | tr ' ' '\n' | awk '{ n += $1 } END { print n }')" -eq "$lost" ]
    # nothing else was lost: of 100,000 steps 5 events each
    [ "$(rows /step /mark /range /counter | awk '{ n += $2 } END { print n }')" -eq $((500000 - lost)) ]
}

@test "kernels belong to the window of their launch, though the GPU lags whole steps behind" {
    train=$HM_BUILD/examples/ddp-train
    [ -x "$train" ] || skip "no example in this build"
    n=()
    for steps in 3..5 6..8 3..8; do
        rm -rf run
        HINDMOST_STEPS=$steps "$hm" run --preload -- "$train" --steps 12 >/dev/null 2>&1
        n+=("$(count /kernel)")
        # the call of each kernel is there, and nothing but those
        [ "$($py "$BATS_TEST_DIRNAME/correlated.py" run/rank-00000.h5)" = "0 kernels without a call" ]
    done
    # the three windows were different runs of the same program
    [ "${n[0]}" -gt 0 ]
    [ "${n[0]}" -eq "${n[1]}" ]
    [ $((n[0] + n[1])) -eq "${n[2]}" ]
}

@test "ctl: nothing to control, nonsense" {
    run "$hm" ctl stop nowhere
    [ "$status" -eq 66 ]
    marks 3 return
    run "$hm" ctl stop run
    [ "$status" -eq 66 ]
    [[ "$output" == *"no rank is being recorded"* ]]
    [ ! -e run/control ]
    run "$hm" ctl dance run
    [ "$status" -eq 64 ]
    run "$hm" ctl
    [ "$status" -eq 64 ]
}

@test "a damaged control file is passed over" {
    start 1 until
    head -c 3000 /dev/urandom >run/control.x
    mv run/control.x run/control
    sleep 1.2
    printf 'id -5\norder stop\n' >run/control.x
    mv run/control.x run/control
    sleep 1.2
    run "$hm" ctl snapshot run
    [ "$status" -eq 0 ]
    finish
    rows /mark /step
    [ "$(count /mark)" -eq "$(count /step)" ]
}
