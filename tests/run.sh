#!/bin/sh
# Run cmocka binaries and report. A binary that dies, prints fewer results than it planned, or runs
# no test counts as a failure (a test that calls exit(0) would otherwise pass unseen).
# usage: [S2_JOBS=N] tests/run.sh BINARY...    last line: N passed, N failed[, N skipped]
# S2_JOBS binaries run at once (1, since tests print times); they are reported in the order given.
passed=0 failed=0 skipped=0
scratch=$(mktemp -d "${TMPDIR:-/tmp}/s2-run.XXXXXX") || exit 2
trap 'rm -rf "$scratch"' EXIT
export scratch CMOCKA_MESSAGE_OUTPUT=TAP
# shellcheck disable=SC2016
printf '%s\n' "$@" | xargs -P "${S2_JOBS:-1}" -n 1 sh -c '
    started=$(date +%s)
    "$0" >"$scratch/$(basename "$0").out" 2>&1 </dev/null
    echo $? $(($(date +%s) - started)) >"$scratch/$(basename "$0").rc"
    times >"$scratch/$(basename "$0").times"'
for binary in "$@"; do
    out=$(cat "$scratch/$(basename "$binary").out")
    read -r rc took <"$scratch/$(basename "$binary").rc" || rc=127
    planned=$(printf '%s\n' "$out" | sed -n 's/^1\.\.\([0-9]*\)$/\1/p' | awk '{s+=$1} END {print s+0}')
    # cmocka writes "not ok N # SKIP name" for a test that called skip().
    skip=$(printf '%s\n' "$out" | grep -cE '^(not )?ok [0-9]+ (- )?# SKIP')
    ok=$(printf '%s\n' "$out" | grep '^ok ' | grep -cv '# SKIP')
    bad=$(printf '%s\n' "$out" | grep '^not ok ' | grep -cv '# SKIP')
    if [ "$bad" -ne 0 ] || [ "$rc" -ne 0 ] || [ "$planned" -eq 0 ] || [ $((ok + bad + skip)) -ne "$planned" ]; then
        printf '%s\n' "$out"
        printf 'FAIL %s: exit %s, %s planned, %s ok, %s not ok\n' "$binary" "$rc" "$planned" "$ok" "$bad"
        missing=$((planned - ok - bad - skip))
        [ "$missing" -gt 0 ] && bad=$((bad + missing))
        [ "$bad" -eq 0 ] && bad=1
    else
        printf '%s\n' "$out" | grep '^# s2:' | sed "s|^# s2:|$(basename "$binary"):|"
        printf '%s\n' "$out" | sed -n 's/^\(not \)\{0,1\}ok [0-9]* \(- \)\{0,1\}# SKIP/skip/p'
        spent=$(sed 's/[ms]/ /g' "$scratch/$(basename "$binary").times" | awk 'NR == 2 { printf "%.0f", $1 * 60 + $2 + $3 * 60 + $4 }')
        printf 'ok   %s: %s tests, %s s, %s s of processor time\n' "$(basename "$binary")" "$ok" "$took" "$spent"
    fi
    passed=$((passed + ok))
    skipped=$((skipped + skip))
    failed=$((failed + bad))
done
tail=""
[ "$skipped" -gt 0 ] && tail=", $skipped skipped"
printf '%s passed, %s failed%s\n' "$passed" "$failed" "$tail"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
