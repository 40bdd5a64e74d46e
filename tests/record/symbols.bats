#!/usr/bin/env bats
# What the shared object asks of the machine, read from the file.

setup() {
    real=$HM_BUILD/lib/libnccl-profiler-hindmost.so
}

@test "glibc symbols up to 2.17 only" {
    case $(objdump -p "$real") in *libasan* | *libtsan*) skip "a sanitizer build" ;; esac
    objdump -T "$real" | grep -o 'GLIBC_[0-9.]*' | sort -u -V >"$BATS_TEST_TMPDIR/versions"
    [ -s "$BATS_TEST_TMPDIR/versions" ]
    while read -r v; do
        newest=$(printf '%s\nGLIBC_2.17\n' "$v" | sort -V | tail -1)
        [ "$newest" = GLIBC_2.17 ] || {
            objdump -T "$real" | grep "$v"
            false
        }
    done <"$BATS_TEST_TMPDIR/versions"
}

@test "needs libc alone" {
    case $(objdump -p "$real") in *libasan* | *libtsan*) skip "a sanitizer build" ;; esac
    run bash -c "objdump -p '$real' | awk '/NEEDED/ {print \$2}'"
    [ "$output" = libc.so.6 ]
}

@test "one SONAME, never unloaded" {
    objdump -p "$real" | grep -q 'SONAME *libnccl-profiler-hindmost.so$'
    readelf -dW "$real" | grep -q NODELETE
    [ "$(readlink -f "$HM_BUILD/lib/libhindmost.so")" = "$(readlink -f "$real")" ]
}

@test "no executable stack" {
    run bash -c "readelf -lW '$real' | grep GNU_STACK"
    [ "$status" -eq 0 ]
    [[ "$output" != *RWE* ]]
}

@test "no HDF5 symbol, and exports are ours to export" {
    run bash -c "nm -D '$real' | grep -c ' H5'"
    [ "$output" = 0 ]
    nm -D --defined-only "$real" | awk '{print $3}' |
        grep -v -E '^(hindmost_api_1|InitializeInjection(Nvtx2)?|P?MPI_[A-Z][a-z_]+|ncclProfiler_v[0-9]+|nccl(AllReduce|AllGather|ReduceScatter|Broadcast|Bcast|Reduce|Send|Recv|GroupStart|GroupEnd|Comm(InitRank|InitRankConfig|Split|Destroy|Abort)))$' \
            >"$BATS_TEST_TMPDIR/foreign" || true
    cat "$BATS_TEST_TMPDIR/foreign"
    [ ! -s "$BATS_TEST_TMPDIR/foreign" ]
}

@test "the header compiles alone as C99, C11 and C++, and does nothing without the recorder" {
    cat >"$BATS_TEST_TMPDIR/h.c" <<'P'
#include "hindmost/hindmost.h"
int main(void)
{
    hm_step(1); hm_range_push("a"); hm_range_pop(); hm_mark("m"); hm_counter_i64("c", 1);
    hm_counter_f64("d", 1.0); hm_stop(); hm_start(); hm_step_end();
    return 0;
}
P
    cd "$BATS_TEST_TMPDIR"
    n=0
    for cc in "gcc -std=c99" "clang -std=c11" "g++ -x c++ -std=c++11" "clang++ -x c++ -std=c++17"; do
        command -v "${cc%% *}" >/dev/null || continue
        $cc -Wall -Wextra -pedantic -Wshadow -Wconversion -Werror \
            -I"$BATS_TEST_DIRNAME/../../lib/include" h.c -o h -ldl
        ./h
        n=$((n + 1))
    done
    [ "$n" -gt 0 ]
}
