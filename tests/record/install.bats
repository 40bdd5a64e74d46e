#!/usr/bin/env bats
# The install tree works wherever it is moved to.

setup() {
    cd "$BATS_TEST_TMPDIR"
    unset HINDMOST HINDMOST_OUT LD_PRELOAD RANK PMI_RANK OMPI_COMM_WORLD_RANK
    [ -x "$HM_BUILD/libexec/hindmost/hindmost-writer" ] || skip "no writer in this build"
    cmake --install "$HM_BUILD" --prefix "$PWD/first" >log
    mv first second
}

@test "library, tool, writer and header find each other" {
    second/bin/hindmost run --preload --out run -- "$HM_BIN/marks" 10 return
    [ -f run/rank-00000.h5 ]
    second/bin/hindmost info run
    [ -f second/include/hindmost/hindmost.h ]
}

@test "libhindmost.so is a link to the one object" {
    one=$(find second -name libnccl-profiler-hindmost.so -type f)
    [ "$(readlink -f "$(dirname "$one")/libhindmost.so")" = "$(readlink -f "$one")" ]
    run readelf -dW "$one" second/bin/hindmost
    [[ "$output" != *"$HM_BUILD"* ]]
}
