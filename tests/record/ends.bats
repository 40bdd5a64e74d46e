#!/usr/bin/env bats
# Every way a process can end, start others or lose its footing: the program goes on as without us,
# and what was recorded can be read.

setup() {
    lib=$HM_BUILD/lib/libhindmost.so
    hm=$HM_BUILD/bin/hindmost
    cd "$BATS_TEST_TMPDIR"
    unset HINDMOST OMPI_COMM_WORLD_RANK PMI_RANK RANK
    export HINDMOST_OUT=$BATS_TEST_TMPDIR/run HINDMOST_HEALTH=0
    # the first python3 of the path need not be the one that has the packages
    for py in python3 /usr/bin/python3 none; do
        $py -c 'import h5py' 2>/dev/null && break
    done
    [ "$py" != none ] || skip "no h5py"
}

marks() { LD_PRELOAD=$lib "$HM_BIN/marks" "$@"; }
rows() { $py "$BATS_TEST_DIRNAME/rows.py" run/rank-00000.h5 "$@"; }
finished() { [ ! -e run/rank-00000.lock ] || flock -w 10 run/rank-00000.lock true; }
how_ended() { $py -c 'import h5py, sys; e = h5py.File(sys.argv[1])["/meta"].attrs["end"]; print(e if isinstance(e, str) else e.decode())' "${1:-run/rank-00000.h5}"; }

@test "how it ended stands in the file" {
    for how in return:0:clean exit:3:clean _exit:4:died abort:134:died kill:137:died \
        term:143:died segv:139:died; do
        IFS=: read -r act code end <<<"$how"
        rm -rf run
        run marks 500 "$act"
        [ "$status" -eq "$code" ]
        finished
        [ "$(rows /step)" = "/step 500" ]
        [ "$(how_ended)" = "$end" ]
    done
}

@test "exec: the old program's file ends as exec, and no command complains of it" {
    run marks 50 exec 'sleep 0.2; exit 5'
    [ "$status" -eq 5 ]
    finished
    [ "$(rows /step)" = "/step 50" ]
    [ "$(how_ended)" = exec ]
    run "$hm" info run
    [ "$status" -eq 0 ]
    [[ "$output" == *" exec "* ]]
    [[ "$output" != *"without saying so"* ]]
}

@test "exec of a program that records too: both files are kept" {
    export HINDMOST_RUN=one
    marks 50 exec "exec '$HM_BIN/marks' 70 return"
    finished
    [ "$(rows /step)" = "/step 50" ]
    [ "$($py "$BATS_TEST_DIRNAME/rows.py" run/rank-00000.1.h5 /step)" = "/step 70" ]
    [ "$(how_ended run/rank-00000.1.h5)" = clean ]
}

@test "a program that closes all descriptors is recorded to its end" {
    run marks 100 closeall
    [ "$status" -eq 0 ]
    finished
    [ "$(rows /step)" = "/step 200" ]
    [ "$(how_ended)" = clean ]
}

@test "threads that record while the process ends" {
    run timeout 20 bash -c "LD_PRELOAD=$lib '$HM_BIN/marks' 100 daemon"
    [ "$status" -eq 0 ]
    [ -z "$output" ]
    [ "$(rows /step)" = "/step 100" ]
    [ "$(how_ended)" = clean ]
}

@test "a signal handler that records: nothing is torn" {
    run marks 20000 handler
    [ "$status" -eq 0 ]
    [ "$(rows /step /range)" = "/step 40000
/range 40000" ]
    lost=$("$hm" info run --json | $py -c 'import json, sys; print(sum(v for k, v in json.load(sys.stdin)["ranks"][0]["lost"].items() if k != "reentry"))')
    [ "$lost" -eq 0 ]
}

@test "vfork and exec, system(): the others record nothing" {
    for how in vforkexec system; do
        rm -rf run
        run marks 100 $how
        [ "$status" -eq 0 ]
        [ -z "$output" ]
        [ "$(rows /step)" = "/step 200" ]
        [ "$(ls run/*.h5 | wc -l)" -eq 1 ]
    done
}

@test "Python: the end of the interpreter in every form" {
    cat >p.py <<'P'
import ctypes, os, sys, threading, time
api = ctypes.CDLL(None)
class Api(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("step", ctypes.CFUNCTYPE(None, ctypes.c_int64))]
step = Api.in_dll(api, "hindmost_api_1").step
for i in range(100):
    step(i)
how = sys.argv[1]
if how == "thread":
    threading.Thread(target=lambda: [step(i) for i in range(100, 10**7)], daemon=True).start()
    time.sleep(0.1)
if how == "exit":
    sys.exit(3)
if how == "raise":
    raise RuntimeError("on purpose")
if how == "os._exit":
    os._exit(4)
if how == "fork":
    pid = os.fork()
    if not pid:
        step(1000)
        os._exit(0)
    os.waitpid(pid, 0)
P
    for how in return:0 exit:3 raise:1 os._exit:4 fork:0 thread:0; do
        rm -rf run
        LD_PRELOAD=$lib run timeout 30 python3 p.py "${how%:*}"
        [ "$status" -eq "${how#*:}" ]
        finished
        n=$(rows /step | cut -d ' ' -f 2)
        [ "$n" -eq 100 ] || { [ "$how" = thread:0 ] && [ "$n" -gt 100 ]; }
        [ "$(ls run/*.h5 | wc -l)" -eq 1 ]
    done
}

@test "a full disk: a file that can be read, or none and a line that says so" {
    unshare -rm true 2>/dev/null || skip "no mount name space to be had"
    for size in 4k 60k 110k 300k 8m; do
        rm -rf full
        mkdir full
        HINDMOST_FLUSH_MS=100 HINDMOST_OUT=$PWD/full/run LD_PRELOAD=$lib run unshare -rm bash -c "
            LD_PRELOAD= mount -t tmpfs -o size=$size none full
            '$HM_BIN/marks' 50000 exit 2>said
            echo \$? >code
            LD_PRELOAD= ls full/run/*.h5 >files 2>/dev/null
            LD_PRELOAD= '$hm' info full/run >info 2>/dev/null
            echo \$? >readable"
        [ "$(cat code)" -eq 3 ]
        if [ -s files ]; then
            [ "$(cat readable)" -eq 0 ]
        else
            [ "$(wc -l <said)" -ge 1 ]
            grep -q 'is the disk full' said
        fi
    done
    # with room enough it is complete and silent
    [ -s files ] && [ ! -s said ]
}

@test "a limit on file sizes harms nobody" {
    for kib in 1 3000 5000; do
        rm -rf run
        run bash -c "ulimit -f $kib; LD_PRELOAD=$lib '$HM_BIN/marks' 100 exit"
        [ "$status" -eq 3 ]
        if [ "$kib" -lt 4096 ]; then
            [[ "$output" == *"ulimit -f"* ]]
            [ ! -e run ]
        else
            [ -z "$output" ]
            [ "$(rows /step)" = "/step 100" ]
        fi
    done
}
