#!/bin/sh
# compute-sanitizer over a bounded part of kcheck: each tool x each GPU kernel x the cases below.
# usage: tests/kcheck/sanitize.sh KCHECK RELAY [KERNEL...]   last line: N passed, N failed; 77 without the tool
# A run is clean when the sanitizer counts no error and kcheck passes; initcheck looks at global memory.
# racecheck follows barriers thread by thread: it does not know that __syncwarp() puts what other lanes wrote before lane
# 0's arrival on an mbarrier. RELAY (tests/kcheck/relay.cu) is a correct program of just that form. Where racecheck
# reports even that, its reports on the Hopper kernels say nothing, and they are listed as "not decided", not as clean.
set -u
kcheck=$1 relay=$2
shift 2
kernels=${*:-sm80 sm90 decode sm80_bwd sm90_bwd sm90_bwd_fused}
cases=${CASES:-"rotated.varlen.bf16 rotated_kv.tail.f16 mixed.chunk.bf16 dense.decode.bf16 rotated.tail.bf16"}
command -v compute-sanitizer >/dev/null || {
    echo "compute-sanitizer is not on PATH"
    exit 77
}
log=$(mktemp) || exit 2
trap 'rm -f "$log"' EXIT
passed=0 failed=0 undecided=0

errors_of() {
    sed -n 's/^========= ERROR SUMMARY: \([0-9]*\) error.*/\1/p; s/^========= RACECHECK SUMMARY: \([0-9]*\) hazard.*/\1/p' "$log" | tail -1
}

compute-sanitizer --tool racecheck "$relay" >"$log" 2>&1
indirect=$(errors_of)
compute-sanitizer --tool racecheck "$relay" direct >"$log" 2>&1
direct=$(errors_of)
echo "racecheck on a correct relay through lane 0: ${indirect:-?} hazards; with every lane arriving: ${direct:-?}"

one_run() {
    tool=$1 kernel=$2 case=$3
    timeout 120 compute-sanitizer --tool "$tool" --error-exitcode 9 "$kcheck" --kernel="$kernel" --case="$case" >"$log" 2>&1
    rc=$?
    errors=$(errors_of)
    verdict=$(grep -E '^[0-9]+ passed' "$log" | tail -1)
    case $verdict in
    "0 passed, 0 failed"*) return ;; # the kernel does not take this case
    esac
    word=FAILED
    [ $rc -eq 0 ] && [ "${errors:-1}" = 0 ] && word=clean
    [ $word = FAILED ] && [ "$tool" = racecheck ] && [ "${indirect:-0}" -gt 0 ] && [ "${kernel#sm90}" != "$kernel" ] && word="not decided"
    case $word in
    clean) passed=$((passed + 1)) ;;
    FAILED) failed=$((failed + 1)) ;;
    *) undecided=$((undecided + 1)) ;;
    esac
    printf '%-9s %-14s %-22s %-11s %s errors; %s\n' "$tool" "$kernel" "$case" "$word" "${errors:-?}" "$verdict"
    [ $word = FAILED ] && grep -m 12 '^=========' "$log"
}

for tool in memcheck racecheck initcheck synccheck; do
    for kernel in $kernels; do
        for case in $cases; do
            one_run $tool "$kernel" "$case"
        done
    done
done
echo "$undecided racecheck runs not decided"
echo "$passed passed, $failed failed"
[ $failed -eq 0 ] && [ $passed -gt 0 ]
