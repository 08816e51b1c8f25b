#!/bin/sh
# A sweep in PARTS parts (S2_PART), each noted when it passes, so that a stopped run goes on where it was and every run that
# ends says how far it came; what they print is kept in NOTES.rows. A changed program starts anew. MINUTES=N begins no part
# after that time. Its files are in memory where there is a /dev/shm, since a run waits for the disk longer than it works.
# usage: tests/parts.sh TEST_PROGRAM NOTES PARTS FILTER
set -u
program=$1 notes=$2 parts=$3 filter=$4 minutes=${MINUTES:-1000000}
[ -n "${TMPDIR:-}" ] || ! [ -w /dev/shm ] || export TMPDIR=/dev/shm
what="$(cksum <"$program" | cut -d" " -f1) ${S2_COMMAND:-all} ${S2_CASES:-} ${S2_SEED:-1} $filter"
started=$(date +%s) part=0
while [ "$part" -lt "$parts" ]; do
    if ! grep -qxF "$what $part/$parts" "$notes" 2>/dev/null; then
        [ $(($(date +%s) - started)) -lt $((minutes * 60)) ] || break
        S2_PART=$part/$parts S2_TEST=$filter "$program" >"$notes.log" 2>&1 ||
            { cat "$notes.log"; echo "$(basename "$program"): $filter, part $part/$parts failed"; exit 1; }
        echo "$what $part/$parts" >>"$notes"
        sed -n "s|^# s2:|part $part/$parts:|p" "$notes.log" | tee -a "$notes.rows"
    fi
    part=$((part + 1))
done
echo "$(basename "$program"): $filter: $(grep -cF "$what " "$notes" 2>/dev/null) of $parts parts passed"
