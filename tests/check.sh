#!/bin/sh
# Every test, in stages; `make check` runs it. Each stage is a command; one that prints "N passed, N failed"
# is counted by that, any other counts as one test. Output of a stage is shown when it fails, and its figures
# (lines with a ':' from the runner) always. usage: tests/check.sh MAKE
set -u
make=${1:-make}
cd "$(dirname "$0")/.." || exit 2
log=$(mktemp -d "${TMPDIR:-/tmp}/s2-check.XXXXXX") || exit 2
trap 'rm -rf "$log"' EXIT
export log CI=1 # warnings are errors, and the same flags everywhere: nothing is built twice
passed=0 failed=0 skipped=0 failures="" waiting="" all_spent=0 began=$(date +%s)

# What a finished stage has printed, counted; its name.
report() {
    out=$log/$1.out
    read -r rc took <"$log/$1.rc" || rc=127 took=0
    line=$(grep -E '^[0-9]+ passed, [0-9]+ failed' "$out" | tail -1)
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
        failures="$failures $1"
        grep -E '^(not ok|FAIL )' "$out" | head -n 20 # what the end of a long output does not show
        tail -n 150 "$out"
    else
        grep -E '^(test_[a-z_]+|skipped|bench[a-z_]*):' "$out"
    fi
    # `times` writes 0m1.5s 0m0.2s: user and system, of the shell and then of what it ran
    spent=$(sed 's/[ms]/ /g' "$log/$1.times" | awk 'NR == 2 { printf "%.0f", $1 * 60 + $2 + $3 * 60 + $4 }')
    all_spent=$((all_spent + ${spent:-0}))
    slowest=$(sed -n 's/^ok   \(test_[a-z_]*\): .* \([0-9]*\) s of processor time$/\2 \1/p' "$out" | sort -rn |
        awk 'NR <= 10 && $1 > 0 { printf "%s%s %s", (NR > 1 ? ", " : ""), $2, $1 }')
    [ -n "$slowest" ] && printf '%s: most processor time, s: %s\n' "$1" "$slowest"
    printf '%-34s %s ok, %s failed, %s s, %s s of processor time\n' "$1" "$ok" "$bad" "$took" "$spent"
}

# NAME COMMAND...: put off until together
later() {
    waiting="$waiting $1"
    name=$1
    shift
    printf '%s\n' "$@" >"$log/$name.cmd"
}

# Run what was put off, one more at once than there are cores, and report it in its order.
together() {
    # shellcheck disable=SC2016,SC2086 # words on purpose
    printf '%s\n' $waiting | xargs -P $((jobs + 1)) -n 1 sh -c '
        started=$(date +%s)
        xargs -d "\n" -a "$log/$0.cmd" env >"$log/$0.out" 2>&1
        echo $? $(($(date +%s) - started)) >"$log/$0.rc"
        times >"$log/$0.times"'
    for name in $waiting; do report "$name"; done
    waiting=""
}

# Say what is left out on this machine, and for want of what.
needs() {
    command -v "$1" >/dev/null && return 0
    skipped=$((skipped + 1))
    echo "skipped: $2 needs $1"
    return 1
}

# Where no GPU could run them, a part of the kernels is compiled as it ships (Makefile); make CI=1 compiles all.
[ -e /dev/nvidiactl ] || export KERNELS=sample
jobs=$(nproc)
sample="S2_CASES_MAX=12 S2_LONG=0"
[ "${ALL:-0}" = 1 ] && sample="S2_LONG=1"
[ -x /usr/local/cuda/bin/nvcc ] || needs nvcc "the build of the GPU kernels"
later build-release "$make" -s -j"$jobs" all tests
later layers "$make" -s check-layers
later format "$make" -s check-format
together
# What a build leaves idle, at its end above all, tests use, and the other way round.
later build-asan "$make" -s -j"$jobs" BUILD=asan CUDA=0 all tests
later tests-release S2_JOBS="$jobs" "$make" -s PART=rest unit
needs clang "the fuzz targets" && later build-fuzz "$make" -s -j"$jobs" fuzz-programs
later docs "$make" -s check-docs
later races "$make" -s check-races
later kcheck "$make" -s kcheck SAMPLE=1
needs clang "the build with it" && later build-clang-debug "$make" -s BUILD=debug CC=clang CUDA=0 all
together
# Side by side, the longest first, one more than there are cores since some wait for processes that hang.
# Of the random cases a sample, and of directed ones what does not take long: the release build has been through all. ALL=1: all.
# shellcheck disable=SC2086 # words on purpose
later tests-asan $sample S2_JOBS="$jobs" "$make" -s BUILD=asan CUDA=0 unit
needs pkg-config library && later library "$make" -s check-library
later demo "$make" -s demo
later example "$make" -s example
needs python3 hostile && later hostile "$make" -s campaign-hostile CASES=20 CPU_SECONDS=3
needs mpicc mpi && later mpi "$make" -s mpi
# The times that these print are of a busy machine; `make unit PART=timed` on a quiet one gives those to write down.
later tests-timed S2_CASES_MAX=12 "$make" -s PART=timed unit
needs clang fuzz && later fuzz "$make" -s fuzz SAMPLE=1
needs clang fuzz-screen && later fuzz-screen "$make" -s fuzz-screen SAMPLE=1
needs clang fuzz-files && later fuzz-files "$make" -s fuzz-files SAMPLE=1
needs clang fuzz-import && later fuzz-import "$make" -s fuzz-import SAMPLE=1
cc=$(command -v clang >/dev/null && echo clang) # whose build is there, so that a recipe need not begin with one
for recipe in tests/recipes/*.recipe; do later "recipe-$(basename "$recipe" .recipe)" JOBS=1 S2_CC="$cc" "tests/recipes/run.sh" "$(basename "$recipe" .recipe)"; done
later house "$make" -s check-house
needs python3 formats && later formats "$make" -s formats
needs g++ decode && later decode "$make" -s check-decode
needs g++ select && later select "$make" -s check-select
later record "$make" -s check-record
needs python3 crowd && later crowd "$make" -s campaign-crowd MINUTES=0.05
needs python3 places && later places S2_PART=0/3 "$make" -s campaign-places
needs python3 oracle && later oracle "$make" -s campaign-oracle N=250
needs python3 moving && later moving "$make" -s campaign-moving MINUTES=0.2
needs python3 forge && later forge "$make" -s campaign-forge N=400
needs python3 python && later python "$make" -s check-python
together
printf 'all stages: %s s, %s s of processor time on %s cores\n' "$(($(date +%s) - began))" "$all_spent" "$jobs"
[ -n "$failures" ] && printf 'failed:%s\n' "$failures"
tail=""
[ "$skipped" -gt 0 ] && tail=", $skipped skipped"
printf '%s passed, %s failed%s\n' "$passed" "$failed" "$tail"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
