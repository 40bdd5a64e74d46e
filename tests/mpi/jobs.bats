#!/usr/bin/env bats
# Jobs under mpirun: agreement, identity, files, clock windows.

setup() {
    lib=$HM_BUILD/lib/libhindmost.so
    cd "$BATS_TEST_TMPDIR"
    unset HINDMOST HINDMOST_OUT LD_PRELOAD
    command -v mpirun >/dev/null || skip "no mpirun"
    mpirun --version | grep -q 'Open MPI' || skip "the options below are Open MPI's"
    [ -x "$HM_BUILD/libexec/hindmost/hindmost-writer" ] || skip "no writer in this build"
    # the first python3 of the path need not be the one that has the packages
    for py in python3 /usr/bin/python3 none; do
        $py -c 'import h5py' 2>/dev/null && break
    done
    [ "$py" != none ] || skip "no h5py"
    launch="mpirun --oversubscribe"
    [ "$(id -u)" -eq 0 ] && launch="$launch --allow-run-as-root"
    return 0
}

rows() { $py "$BATS_TEST_DIRNAME/../record/rows.py" "$@"; }
finished() { [ ! -e "$1" ] || flock -w 10 "$1" true; }

@test "four ranks: files complete when mpirun returns" {
    $launch -np 4 -x LD_PRELOAD="$lib" -x HINDMOST_OUT="$PWD/run" "$HM_BIN/ring" 20 >out 2>err
    # 20 steps: sum over i of 0+1+2+3 + 4 i = 20 * 6 + 4 * 190
    grep -qx "ring: 4 ranks, sum 880" out
    run bash -c 'ls run/*.tail'
    [ "$status" -ne 0 ]
    for r in 0 1 2 3; do
        [ "$(rows run/rank-0000$r.h5 /step)" = "/step 20" ]
        # 20 x (Barrier, Allreduce, Send, Recv)
        [ "$(rows run/rank-0000$r.h5 /mpi)" = "/mpi 80" ]
    done
    [ "$(ls run/*.h5 | wc -l)" -eq 4 ]
    # one domain: no window
    [ "$(rows run/rank-00000.h5 /clock/probe)" = "/clock/probe 0" ]
}

@test "hindmost run behind and before the launcher" {
    $launch -np 2 "$HM_BUILD/bin/hindmost" run --out behind -- "$HM_BIN/ring" 5 >out 2>err
    [ "$(rows behind/rank-00001.h5 /step /mpi)" = "/step 5
/mpi 20" ]
    "$HM_BUILD/bin/hindmost" run --out before -- $launch -np 2 "$HM_BIN/ring" 5 >out 2>err
    [ "$(rows before/rank-00001.h5 /step /mpi)" = "/step 5
/mpi 20" ]
}

@test "no folder named: hindmost.out, and latest points at it" {
    $launch -np 2 -x LD_PRELOAD="$lib" "$HM_BIN/plain" >out 2>err
    grep -qx "plain: 2 ranks, 1" out
    [ -f hindmost.out/latest/rank-00000.h5 ]
    [ "$(ls hindmost.out/latest/*.h5 | wc -l)" -eq 2 ]
    grep -q 'hindmost report' err
}

@test "HINDMOST=off on one rank: no hang, nothing recorded, one line" {
    run timeout 30 $launch -np 1 -x LD_PRELOAD="$lib" -x HINDMOST_OUT="$PWD/run" "$HM_BIN/ring" 5 : \
        -np 1 -x LD_PRELOAD="$lib" -x HINDMOST=off -x HINDMOST_OUT="$PWD/run" "$HM_BIN/ring" 5
    [ "$status" -eq 0 ]
    [[ "$output" == *"ring: 2 ranks, sum 25"* ]]
    [ "$(echo "$output" | grep -c '^hindmost:')" -eq 1 ]
    [[ "$output" == *"does not record"* ]]
    [ "$(ls run/*.h5 2>/dev/null | wc -l)" -eq 0 ]
}

@test "one rank without the library: no hang, the line appears" {
    run timeout 30 $launch -np 1 -x LD_PRELOAD="$lib" -x HM_TEST_AGREE_MS=500 \
        -x HINDMOST_OUT="$PWD/run" "$HM_BIN/ring" 5 : -np 1 "$HM_BIN/ring" 5
    [ "$status" -eq 0 ]
    [[ "$output" == *"ring: 2 ranks, sum 25"* ]]
    [[ "$output" == *"runs without the library"* ]]
    [ "$(ls run/*.h5 2>/dev/null | wc -l)" -eq 0 ]
}

@test "kill -9 of one rank: everything marked before is in the files" {
    run $launch -np 3 -x LD_PRELOAD="$lib" -x HINDMOST_OUT="$PWD/run" "$HM_BIN/ring" 50 die 1
    [ "$status" -ne 0 ]
    for r in 0 1 2; do
        finished run/rank-0000$r.lock
        [ "$(rows run/rank-0000$r.h5 /step)" = "/step 50" ]
    done
}

@test "communicators: half the world is another definition" {
    $launch -np 4 -x LD_PRELOAD="$lib" -x HINDMOST_OUT="$PWD/run" "$HM_BIN/ring" 3 split >out 2>err
    # and the split itself
    [ "$(rows run/rank-00003.h5 /mpi)" = "/mpi 13" ]
    run rows run/rank-00003.h5 /def/mpi_comm.n_ranks /def/mpi_comm.crank
    [ "$output" = "/def/mpi_comm.n_ranks 4 2
/def/mpi_comm.crank 3 1" ]
}

@test "clock windows between domains: injected offsets are bracketed" {
    shim=$HM_RECORD_BIN/libhm-clockshim.so
    $launch -np 3 -x LD_PRELOAD="$shim $lib" -x HINDMOST_OUT="$PWD/run" -x HM_TEST_BOOT=1 \
        -x HM_TEST_WRITER_PRELOAD="$shim" -x HM_TEST_CLOCK="1:raw=5000000;2:raw=-7000000" \
        "$HM_BIN/ring" 5 >out 2>err
    [ "$(rows run/rank-00000.h5 /clock/probe)" = "/clock/probe 0" ]
    # rank 2 asks 0 and 1, rank 1 asks 0: 8 probes an edge and window, 2 windows
    [ "$(rows run/rank-00001.h5 /clock/probe)" = "/clock/probe 16" ]
    [ "$(rows run/rank-00002.h5 /clock/probe /clock/window)" = "/clock/probe 32
/clock/window 4" ]
    $py "$BATS_TEST_DIRNAME/bracket.py" run 0 5000000 -7000000
}

@test "Fortran: each call is seen once" {
    command -v mpif90 >/dev/null && command -v gfortran >/dev/null || skip "no Fortran compiler"
    mpif90 -o fring "$BATS_TEST_DIRNAME/ring.f90"
    $launch -np 2 -x LD_PRELOAD="$lib" -x HINDMOST_OUT="$PWD/run" ./fring >out 2>err
    grep -qx 'fortran: sum 1' out
    [ "$(rows run/rank-00001.h5 /mpi)" = "/mpi 20" ]
}

@test "a mark before MPI_Init: the folder is agreed on all the same" {
    $launch -np 3 -x LD_PRELOAD="$lib" "$HM_BIN/ring" 4 early >out 2>err
    [ "$(ls hindmost.out/latest/*.h5 | wc -l)" -eq 3 ]
    [ "$(rows hindmost.out/latest/rank-00002.h5 /step /mark /mpi)" = "/step 4
/mark 1
/mpi 16" ]
}

@test "MPI loaded with RTLD_LOCAL, as by a Python module" {
    $launch -np 2 -x LD_PRELOAD="$lib" -x HINDMOST_OUT="$PWD/run" "$HM_BIN/local" \
        "$HM_BIN/libplain.so" >out 2>err
    grep -qx "plain: 2 ranks, 1" out
    # Irecv, Isend, Waitall, Bcast
    [ "$(rows run/rank-00001.h5 /mpi)" = "/mpi 4" ]
}

@test "hindmost ctl reaches every rank of a running job" {
    # 3 s: rank 1 comes 20 ms late to each step
    $launch -np 3 -x LD_PRELOAD="$lib" -x HINDMOST_OUT="$PWD/run" "$HM_BIN/ring" 150 late 20 1 >out 2>err 3>&- &
    job=$!
    for _ in $(seq 200); do
        [ ! -e run/rank-00000.lock ] || [ ! -e run/rank-00001.lock ] || [ ! -e run/rank-00002.lock ] || break
        sleep 0.05
    done
    run "$HM_BUILD/bin/hindmost" ctl stop run
    [ "$output" = "stopped: 3 of 3 ranks" ]
    run "$HM_BUILD/bin/hindmost" ctl snapshot run
    [ "$(echo "$output" | grep -c '^rank [012]  .*  not recording$')" -eq 3 ]
    wait $job
    for r in 0 1 2; do
        [ "$(rows run/rank-0000$r.h5 /step)" = "/step 150" ]
        n=$(rows run/rank-0000$r.h5 /mpi | cut -d ' ' -f 2)
        [ "$n" -lt 600 ]
    done
}

@test "each call once: bytes, peers, communicators, requests as written by hand" {
    $launch -np 2 -x LD_PRELOAD="$lib" -x HINDMOST_OUT="$PWD/run" "$HM_BIN/calls" want "$PWD/data" >out 2>err
    for r in 0 1; do
        $py "$BATS_TEST_DIRNAME/calls.py" "$BATS_TEST_DIRNAME/../../lib/core/mpi.def" run/rank-0000$r.h5 >got.$r
        diff want.$r got.$r
        [ "$(wc -l <got.$r)" -ge 50 ]
    done
    # without the library the program comes to the same results
    $launch -np 2 "$HM_BIN/calls" want "$PWD/data2" >out 2>err
}

@test "another profiling library before or behind ours sees every call, and so do we" {
    for order in "$lib $HM_BIN/libother-pmpi.so" "$HM_BIN/libother-pmpi.so $lib"; do
        rm -rf run
        $launch -np 2 -x LD_PRELOAD="$order" -x HINDMOST_OUT="$PWD/run" "$HM_BIN/ring" 10 >out 2>err
        # Barrier and Allreduce of 10 steps on each rank
        [ "$(grep -c '^other: 20 calls$' out)" -eq 2 ]
        [ "$(rows run/rank-00001.h5 /mpi)" = "/mpi 40" ]
    done
}

@test "Fortran by mpif.h and by mpi_f08 as by the module mpi" {
    command -v mpif90 >/dev/null && command -v gfortran >/dev/null || skip "no Fortran compiler"
    mpif90 -o f77ring "$BATS_TEST_DIRNAME/ring77.f"
    mpif90 -o f08ring "$BATS_TEST_DIRNAME/ring08.f90"
    for program in f77ring f08ring; do
        rm -rf run
        $launch -np 2 -x LD_PRELOAD="$lib" -x HINDMOST_OUT="$PWD/run" ./$program >out 2>err
        grep -qx ' *fortran: sum 1' out
        # 10 x (Allreduce, Barrier, Sendrecv)
        [ "$(rows run/rank-00001.h5 /mpi)" = "/mpi 30" ]
        [ "$(rows run/rank-00001.h5 /mpi.bytes | cut -d ' ' -f 2- | tr ' ' '\n' | sort | uniq -c | tr -s ' ')" = " 10 0
 10 2
 10 4" ]
    done
}

@test "MPI_Abort: the job ends as without us, and what was recorded is there" {
    run timeout 60 $launch -np 2 -x LD_PRELOAD="$lib" -x HINDMOST_OUT="$PWD/run" "$HM_BIN/ring" 20 abort 1
    [ "$status" -eq 7 ]
    for r in 0 1; do
        finished run/rank-0000$r.lock
        [ "$(rows run/rank-0000$r.h5 /step)" = "/step 20" ]
    done
}
