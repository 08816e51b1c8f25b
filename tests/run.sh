#!/bin/sh
# Run cmocka binaries and report. A binary that dies, prints fewer results than it planned, or runs
# no test counts as a failure (a test that calls exit(0) would otherwise pass unseen).
# usage: tests/run.sh BINARY...    last line: N passed, N failed[, N skipped]
passed=0 failed=0 skipped=0
for binary in "$@"; do
    out=$(CMOCKA_MESSAGE_OUTPUT=TAP "$binary" 2>&1 </dev/null)
    rc=$?
    planned=$(printf '%s\n' "$out" | sed -n 's/^1\.\.\([0-9]*\)$/\1/p' | awk '{s+=$1} END {print s+0}')
    ok=$(printf '%s\n' "$out" | grep -c '^ok ')
    skip=$(printf '%s\n' "$out" | grep -c '^ok .*# SKIP')
    bad=$(printf '%s\n' "$out" | grep -c '^not ok ')
    if [ "$bad" -ne 0 ] || [ "$rc" -ne 0 ] || [ "$planned" -eq 0 ] || [ $((ok + bad)) -ne "$planned" ]; then
        printf '%s\n' "$out"
        printf 'FAIL %s: exit %s, %s planned, %s ok, %s not ok\n' "$binary" "$rc" "$planned" "$ok" "$bad"
        missing=$((planned - ok - bad))
        [ "$missing" -gt 0 ] && bad=$((bad + missing))
        [ "$bad" -eq 0 ] && bad=1
    else
        printf '%s\n' "$out" | grep '^# s2:' | sed "s|^# s2:|$(basename "$binary"):|"
        printf 'ok   %s: %s tests\n' "$(basename "$binary")" "$ok"
    fi
    passed=$((passed + ok - skip))
    skipped=$((skipped + skip))
    failed=$((failed + bad))
done
tail=""
[ "$skipped" -gt 0 ] && tail=", $skipped skipped"
printf '%s passed, %s failed%s\n' "$passed" "$failed" "$tail"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
