#!/bin/sh
# Every test, in stages; `make check` runs it. Each stage is a command; one that prints "N passed, N failed"
# is counted by that, any other counts as one test. Output of a stage is shown when it fails, and its figures
# (lines with a ':' from the runner) always. usage: tests/check.sh MAKE
set -u
make=${1:-make}
cd "$(dirname "$0")/.." || exit 2
log=$(mktemp -d "${TMPDIR:-/tmp}/s2-check.XXXXXX") || exit 2
trap 'rm -rf "$log"' EXIT
passed=0 failed=0 skipped=0 failures=""

stage() {
    name=$1
    shift
    started=$(date +%s)
    "$@" >"$log/out" 2>&1 </dev/null
    rc=$?
    took=$(($(date +%s) - started))
    line=$(grep -E '^[0-9]+ passed, [0-9]+ failed' "$log/out" | tail -1)
    ok=0 bad=0 skip=0
    if [ -n "$line" ]; then
        ok=$(printf '%s\n' "$line" | sed 's/ passed.*//')
        bad=$(printf '%s\n' "$line" | sed 's/.*passed, \([0-9]*\) failed.*/\1/')
        skip=$(printf '%s\n' "$line" | sed -n 's/.* \([0-9]*\) skipped.*/\1/p')
    elif [ "$rc" -eq 0 ]; then
        ok=1
    fi
    [ "$rc" -ne 0 ] && [ "$bad" -eq 0 ] && bad=1
    passed=$((passed + ok)) failed=$((failed + bad)) skipped=$((skipped + ${skip:-0}))
    if [ "$bad" -ne 0 ]; then
        failures="$failures $name"
        tail -n 150 "$log/out"
    else
        grep -E '^(test_[a-z_]+|skipped|bench[a-z_]*):' "$log/out"
    fi
    printf '%-34s %s ok, %s failed, %s s\n' "$name" "$ok" "$bad" "$took"
}

# Say what is left out on this machine, and for want of what.
needs() {
    command -v "$1" >/dev/null && return 0
    skipped=$((skipped + 1))
    echo "skipped: $2 needs $1"
    return 1
}

jobs=$(nproc)
[ -x /usr/local/cuda/bin/nvcc ] || needs nvcc "the build of the GPU kernels"
stage layers "$make" -s CI=1 check-layers
stage format "$make" -s check-format
stage build-release "$make" -s -j"$jobs" CI=1 all
# Tests that print times run one at a time; the others side by side.
stage tests-release env S2_JOBS="$jobs" "$make" -s -j"$jobs" CI=1 PART=rest unit
stage tests-timed "$make" -s -j"$jobs" CI=1 PART=timed unit
needs clang "the build with it" && stage build-clang-debug "$make" -s -j"$jobs" CI=1 BUILD=debug CC=clang CUDA=0 all tests
stage build-asan "$make" -s -j"$jobs" CI=1 BUILD=asan CUDA=0 all tests
stage tests-asan env S2_CASES=300 S2_JOBS="$jobs" "$make" -s CI=1 BUILD=asan CUDA=0 unit
needs mpicc mpi && stage mpi "$make" -s CI=1 mpi
stage kcheck "$make" -s CI=1 kcheck
stage record "$make" -s check-record
needs g++ select && stage select "$make" -s check-select
needs clang fuzz && stage fuzz "$make" -s fuzz SAMPLE=1
needs clang fuzz-import && stage fuzz-import "$make" -s fuzz-import SAMPLE=1
needs python3 formats && stage formats "$make" -s formats
stage docs "$make" -s check-docs
stage example "$make" -s example
stage demo "$make" -s demo
[ -n "$failures" ] && printf 'failed:%s\n' "$failures"
tail=""
[ "$skipped" -gt 0 ] && tail=", $skipped skipped"
printf '%s passed, %s failed%s\n' "$passed" "$failed" "$tail"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
