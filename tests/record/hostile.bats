#!/usr/bin/env bats
# Damaged and absurd surroundings: one line at most a thing, the program unharmed.

setup() {
    lib=$HM_BUILD/lib/libhindmost.so
    cd "$BATS_TEST_TMPDIR"
    unset HINDMOST OMPI_COMM_WORLD_RANK PMI_RANK RANK WORLD_SIZE
    export HINDMOST_HEALTH=0
    long=$(head -c 5000 /dev/zero | tr '\0' x)
}

# the program's status is its own, and there are so many lines or fewer on its stderr
survives() {
    most=$1
    shift
    rm -rf run hindmost.out
    run env HINDMOST_OUT="$PWD/run" "$@" LD_PRELOAD="$lib" timeout 30 "$HM_BIN/marks" 20 exit
    [ "$status" -eq 3 ] || { echo "status $status: $* -> $output"; false; }
    [ "$(echo -n "$output" | grep -c '')" -le "$most" ] || { echo "$* -> $output"; false; }
    [ "$(echo -n "$output" | grep -vc '^hindmost: ')" -eq 0 ] || { echo "$* -> $output"; false; }
}

@test "values that are none, or out of all bounds: one line, the default" {
    for v in POOL=nonsense POOL= POOL=-1 POOL=1 POOL=999999999999G POOL=18446744073709551616 \
        FLUSH_MS=-1 FLUSH_MS=1e9 FLUSH=1fortnight STEP_EVERY=0 STEP_EVERY=-3 KERNELS=perhaps \
        EXIT_WAIT=99999999999999999999 MAX_EVENTS=x MAX_BYTES=-5k STEPS=5..3 STEPS=.. STEPS=a..b \
        STEPS=1..99999999999999999999999 NOSUCH=1 =1 "STEP_RANGE=$long" "RUN=$long"; do
        survives 1 "HINDMOST_$v"
        [ -f run/rank-00000.h5 ] || { echo "not recorded: $v"; false; }
    done
}

@test "many wrong values: eight lines at most" {
    survives 8 HINDMOST_A=1 HINDMOST_B=1 HINDMOST_C=1 HINDMOST_D=1 HINDMOST_E=1 HINDMOST_F=1 \
        HINDMOST_G=1 HINDMOST_H=1 HINDMOST_I=1 HINDMOST_J=1
    [ -f run/rank-00000.h5 ]
}

@test "run folders that cannot be: one line, nothing recorded" {
    touch file
    mkdir shut
    for out in "$PWD/file" "$PWD/file/below" /proc/here /dev/null "/$long" ''; do
        survives 1 "HINDMOST_OUT=$out"
    done
    survives 1 "HINDMOST_OUT=relative/new/folder"
    [ -f relative/new/folder/rank-00000.h5 ]
}

@test "run ids with every kind of character stay inside their folder" {
    for id in '../../../etc' '/absolute' 'a b;c|d' $'new\nline' $'\001\377' '%s%n%d' '.' '..'; do
        survives 1 "HINDMOST_RUN=$id"
        [ -z "$(find . -maxdepth 1 -newer run ! -name . ! -name run ! -name hindmost.out)" ]
    done
}

@test "ranks that are none" {
    for v in RANK=-5 RANK=99999999999999999999 RANK=abc RANK= OMPI_COMM_WORLD_RANK=x \
        PMI_RANK=-1 SLURM_PROCID=4294967296; do
        survives 1 "$v" WORLD_SIZE=0
        [ -f run/rank-00000.h5 ] || { ls -a run; echo "no file: $v"; false; }
    done
    survives 1 RANK=7 WORLD_SIZE=3
    survives 1 RANK=2147483647 WORLD_SIZE=2147483647 LOCAL_RANK=2147483647
}

@test "writers that cannot be" {
    mkdir folder
    printf 'not a program' >text
    chmod +x text
    for w in /nonexistent "$PWD/folder" "$PWD/text" "$long" /bin/false /bin/true; do
        survives 2 "HINDMOST_WRITER=$w" HINDMOST_EXIT_WAIT_MS=2000
    done
}

@test "no home, no path, no time zone, an empty environment" {
    rm -rf run
    run env -i HINDMOST_OUT="$PWD/run" HINDMOST_HEALTH=0 LD_PRELOAD="$lib" "$HM_BIN/marks" 20 exit
    [ "$status" -eq 3 ]
    [ -z "$output" ]
    [ -f run/rank-00000.h5 ]
}

@test "hardly a descriptor left: where the program runs alone, it runs with us" {
    for n in 3 4 5 6 7 8 9 10 12 32; do
        rm -rf run
        alone=0
        bash -c "ulimit -n $n; exec '$HM_BIN/marks' 20 exit" 3>&- 2>/dev/null || alone=$?
        with=0
        bash -c "ulimit -n $n; HINDMOST_OUT=$PWD/run LD_PRELOAD=$lib exec '$HM_BIN/marks' 20 exit" \
            3>&- 2>/dev/null || with=$?
        # the loader itself wants one for the library
        [ "$alone" -ne 3 ] || [ "$with" -eq 3 ] || [ "$n" -lt 5 ]
    done
    [ -f run/rank-00000.h5 ]
}

@test "closed streams: nothing of ours takes their place" {
    rm -rf run
    code=0
    HINDMOST_OUT=$PWD/run LD_PRELOAD=$lib "$HM_BIN/marks" 20 streams 3>&- 0<&- 1>&- 2>&- || code=$?
    [ "$code" -eq 3 ]
    [ -f run/rank-00000.h5 ]
}

@test "a damaged hindmost.conf beside the library" {
    mkdir -p tree/lib tree/libexec/hindmost
    cp "$HM_BUILD/lib/libnccl-profiler-hindmost.so" tree/lib/
    cp "$HM_BUILD/libexec/hindmost/hindmost-writer" tree/libexec/hindmost/
    lib=$PWD/tree/lib/libnccl-profiler-hindmost.so
    head -c 3000 /dev/urandom >tree/lib/hindmost.conf
    survives 8
    [ -f run/rank-00000.h5 ]
    head -c 100000 /dev/zero | tr '\0' 'a' >tree/lib/hindmost.conf
    survives 1
    rm tree/lib/hindmost.conf
    mkdir tree/lib/hindmost.conf
    survives 1
}
