#!/usr/bin/env bats
# A preloaded process that has nothing to do with training stays as it was.

setup() {
    lib=$HM_BUILD/lib/libhindmost.so
    real=$HM_BUILD/lib/libnccl-profiler-hindmost.so
    dir=$BATS_TEST_TMPDIR
    cd "$dir"
    unset HINDMOST HINDMOST_OUT CUDA_INJECTION64_PATH NVTX_INJECTION64_PATH NCCL_PROFILER_PLUGIN
}

# names of the files and special areas that a process has mapped
names() { awk 'NF > 5 { $1=$2=$3=$4=$5=""; print }' | sed 's/^ *//' | sort -u; }

probe_sh='while read -r l; do echo "$l"; done < /proc/$$/maps'

@test "true: exit 0, no word" {
    LD_PRELOAD=$lib run /bin/true
    [ "$status" -eq 0 ]
    [ -z "$output" ]
    LD_PRELOAD=$lib run /bin/false
    [ "$status" -eq 1 ]
    [ -z "$output" ]
    [ -z "$(ls)" ]
}

@test "sh: the library is the only new mapping" {
    sh -c "$probe_sh" | names >without
    LD_PRELOAD=$lib sh -c "$probe_sh" | names >with
    run diff without with
    [ "$(echo "$output" | grep -c '^[<>]')" -eq 1 ]
    echo "$output" | grep -q "^> $real\$"
}

@test "sh: no new descriptor, one thread" {
    # no pipe inside: the shell would hold its ends for an uncertain time
    list='for f in /proc/$$/fd/*; do echo "${f##*/}"; done'
    sh -c "$list" >without
    LD_PRELOAD=$lib sh -c "$list" >with
    cmp without with
    LD_PRELOAD=$lib sh -c 'echo /proc/$$/task/*' >tasks
    [ "$(wc -w <tasks)" -eq 1 ]
}

@test "environ: three variables, with the path and the bare name" {
    env | grep -v '^_=' | sort >without
    LD_PRELOAD=$lib env | grep -v -e '^_=' -e '^LD_PRELOAD=' >raw
    # env itself was given the variables by its own constructor
    sort raw >with
    run diff without with
    [ "$(echo "$output" | grep -c '^[<>]')" -eq 3 ]
    grep -qx "CUDA_INJECTION64_PATH=$real" with
    grep -qx "NVTX_INJECTION64_PATH=$real" with
    grep -qx "NCCL_PROFILER_PLUGIN=libnccl-profiler-hindmost.so" with
}

@test "environ: what was set stays, a plugin of NCCL behind ours" {
    export CUDA_INJECTION64_PATH=/a NVTX_INJECTION64_PATH=/b NCCL_PROFILER_PLUGIN=c
    LD_PRELOAD=$lib env >with
    grep -qx CUDA_INJECTION64_PATH=/a with
    grep -qx NVTX_INJECTION64_PATH=/b with
    # NCCL loads one plugin: ours, which runs the other one
    grep -qx NCCL_PROFILER_PLUGIN=libnccl-profiler-hindmost.so with
    grep -qx HINDMOST_CHAIN_PLUGIN=c with
    NCCL_PROFILER_PLUGIN=none LD_PRELOAD=$lib env >with
    grep -qx NCCL_PROFILER_PLUGIN=none with
}

@test "HINDMOST=off: not even the variables" {
    HINDMOST=off LD_PRELOAD=$lib env >with
    run grep -e INJECTION64 -e NCCL_PROFILER with
    [ "$status" -eq 1 ]
}

@test "python3: maps, descriptors and threads unchanged" {
    cat >probe.py <<'P'
import os, threading
print(sorted({l.split(maxsplit=5)[5].strip() for l in open("/proc/self/maps") if len(l.split()) > 5}
             - {os.environ.get("HM_LIB")}))
print(len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task")), threading.active_count())
P
    python3 probe.py >without
    HM_LIB=$real LD_PRELOAD=$lib python3 probe.py >with
    cmp without with
}

@test "mpirun: the launcher stays dormant" {
    command -v mpirun >/dev/null || skip "no mpirun"
    mpirun --version | grep -q 'Open MPI' || skip "only Open MPI's launcher is looked at"
    root=; [ "$(id -u)" -eq 0 ] && root=--allow-run-as-root
    # the most of some looks: descriptors of the launcher come and go while its child starts
    look='cat /proc/$PPID/maps; m=0; for i in 1 2 3 4 5 6 7 8 9 10; do
        n=$(ls /proc/$PPID/fd /proc/$PPID/task | wc -l); [ "$n" -le "$m" ] || m=$n; sleep 0.1
        done; echo "$m" >&2'
    mpirun $root -np 1 sh -c "$look" 2>n_without | names | grep -v -e deleted -e vader -e /ompi >without
    LD_PRELOAD=$lib mpirun $root -np 1 sh -c "$look" 2>n_with | names |
        grep -v -e deleted -e vader -e /ompi >with
    # one of its many may still have been missed; a thread and a descriptor of ours would be two
    [ "$(cat n_with)" -le $(($(cat n_without) + 1)) ]
    run diff without with
    [ "$(echo "$output" | grep '^[<>]' | grep -vc hindmost)" -eq 0 ]
    grep -q "$real" with
    [ ! -e hindmost.out ]
}

@test "a second file of the library: one line, and it stays idle" {
    cp "$real" copy.so
    LD_PRELOAD="$lib $dir/copy.so" run /bin/true
    [ "$status" -eq 0 ]
    [ "$(echo "$output" | grep -c 'second copy')" -eq 1 ]
    [ "$(echo "$output" | wc -l)" -eq 1 ]
}

@test "the same file under its two names is one" {
    LD_PRELOAD="$lib $real" run /bin/true
    [ "$status" -eq 0 ]
    [ -z "$output" ]
}
