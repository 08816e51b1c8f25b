#!/bin/sh
# compute-sanitizer over a bounded part of kcheck: each tool x each GPU kernel x the cases below.
# usage: [JOBS=N] tests/kcheck/sanitize.sh KCHECK LANES RELAY [KERNEL...]   last line: N passed, N failed; 77 without the tool
# A run is clean when the sanitizer counts no error and kcheck passes; initcheck looks at global memory.
# racecheck follows barriers thread by thread: it does not know that __syncwarp() puts what other lanes did before lane
# 0's arrival on an mbarrier. RELAY (tests/kcheck/relay.cu) is a correct program of just that form, which it reports, and the same
# with every lane arriving, which it does not. So racecheck runs LANES: kcheck with Hopper kernels in which every lane arrives,
# and which are the same otherwise: all gradients, and the forwards that rotated.tiles.bf16 and window_777.alone_order.bf16 run (LANES_CU
# in the Makefile). The first has more tiles than an H200 has SMs, so that a thread block takes a second item, the second lists of more
# steps than there are stages: both then write again where lanes have read, and no other case does.
set -u
cases=${CASES:-"rotated.varlen.bf16 rotated_kv.tail.fp16 mixed.chunk.bf16 dense.decode.bf16 rotated.tail.bf16 mixed.step_e4m3_rows.bf16 rotated.e4m3.bf16 rotated.tiles.bf16 window.eights_batch.bf16 dense.alone.bf16 dense.alone_order.bf16 window_777.alone_order.bf16"}
command -v compute-sanitizer >/dev/null || {
    echo "compute-sanitizer is not on PATH"
    exit 77
}
log=$(mktemp) || exit 2
trap 'rm -f "$log"' EXIT

errors_of() {
    sed -n 's/^========= ERROR SUMMARY: \([0-9]*\) error.*/\1/p; s/^========= RACECHECK SUMMARY: \([0-9]*\) hazard.*/\1/p' "$1" | tail -1
}

one_run() { # one_run KCHECK LANES TOOL KERNEL CASE
    program=$1 tool=$3 kernel=$4 case=$5
    [ "$tool" != racecheck ] || program=$2
    timeout 120 compute-sanitizer --tool "$tool" --error-exitcode 9 "$program" --kernel="$kernel" --case="$case" >"$log" 2>&1
    rc=$?
    errors=$(errors_of "$log")
    verdict=$(grep -E '^[0-9]+ passed' "$log" | tail -1)
    case $verdict in
    "0 passed, 0 failed"*) return ;; # the kernel does not take this case
    esac
    word=FAILED
    [ $rc -eq 0 ] && [ "${errors:-1}" = 0 ] && word=clean
    line=$(printf '%-9s %-14s %-22s %-11s %s errors; %s' "$tool" "$kernel" "$case" "$word" "${errors:-?}" "$verdict")
    [ "$word" != FAILED ] || line=$(echo "$line" && grep -m 12 '^=========' "$log")
    printf '%s\n' "$line"
}
if [ "$1" = --one ]; then # what the loops below start side by side
    shift
    one_run "$@"
    exit 0
fi

kcheck=$1 lanes=$2 relay=$3
shift 3
kernels=${*:-sm80 sm90 sm90_window sm90_e4m3 sm90_lists decode sm80_bwd sm90_bwd sm90_bwd_window sm90_bwd_fused sm90_bwd_ordered}
compute-sanitizer --tool racecheck "$relay" >"$log" 2>&1
indirect=$(errors_of "$log")
compute-sanitizer --tool racecheck "$relay" direct >"$log" 2>&1
direct=$(errors_of "$log")
echo "racecheck on a correct relay through lane 0: ${indirect:-?} hazards; with every lane arriving: ${direct:-?}"

for tool in memcheck racecheck initcheck synccheck; do
    for kernel in $kernels; do
        for case in $cases; do
            echo "$tool $kernel $case"
        done
    done
done | xargs -P "${JOBS:-1}" -n 3 "$0" --one "$kcheck" "$lanes" | tee "$log.lines"
count() { grep -cE "^[a-z]+ +[a-z0-9_]+ +[a-z0-9_.]+ +$1 " "$log.lines"; }
passed=$(count clean) failed=$(count FAILED)
rm -f "$log.lines"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
