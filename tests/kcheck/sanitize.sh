#!/bin/sh
# compute-sanitizer over a bounded part of kcheck: each tool x each GPU kernel x the cases below.
# usage: tests/kcheck/sanitize.sh KCHECK [KERNEL...]     last line: N passed, N failed; 77 without the tool
# A run is ours when the sanitizer counts no error and kcheck passes; initcheck tracks uninitialised global memory.
set -u
kcheck=$1
shift
kernels=${*:-sm80 sm90}
cases=${CASES:-"rotated.varlen.bf16 rotated_kv.tail.f16 mixed.chunk.bf16 dense.wide.bf16 empty_rows.tail.bf16"}
command -v compute-sanitizer >/dev/null || {
    echo "compute-sanitizer is not on PATH"
    exit 77
}
log=$(mktemp) || exit 2
trap 'rm -f "$log"' EXIT
passed=0 failed=0
for tool in memcheck racecheck initcheck synccheck; do
    for kernel in $kernels; do
        for one in $cases; do
            timeout 120 compute-sanitizer --tool $tool --error-exitcode 9 "$kcheck" --kernel="$kernel" --case="$one" \
                >"$log" 2>&1
            rc=$?
            errors=$(sed -n 's/^========= ERROR SUMMARY: \([0-9]*\) error.*/\1/p; s/^========= RACECHECK SUMMARY: \([0-9]*\) hazard.*/\1/p' "$log" | tail -1)
            verdict=$(grep -E '^[0-9]+ passed' "$log" | tail -1)
            case $verdict in
            "0 passed, 0 failed"*) continue ;; # the kernel does not take this case
            esac
            printf '%-9s %-5s %-24s %s errors; %s\n' $tool "$kernel" "$one" "${errors:-?}" "$verdict"
            if [ $rc -eq 0 ] && [ "${errors:-1}" = 0 ]; then
                passed=$((passed + 1))
            else
                failed=$((failed + 1))
                grep -m 12 '^=========' "$log"
            fi
        done
    done
done
echo "$passed passed, $failed failed"
[ $failed -eq 0 ] && [ $passed -gt 0 ]
