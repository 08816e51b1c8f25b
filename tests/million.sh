#!/bin/sh
# A campaign of one test program: CASES=1000000 cases for each seed (of each kind, where the test has kinds), in chunks that
# are noted when they pass, so that a stopped run goes on where it was; what they print is kept in NOTES.rows. A changed
# program starts anew. MINUTES=N ends before the first chunk beyond that time. usage: tests/million.sh TEST_PROGRAM NOTES SEED...
set -u
program=$1 notes=$2
shift 2
chunk=${CHUNK:-5000} cases=${CASES:-1000000} minutes=${MINUTES:-1000000}
version=$(cksum <"$program" | cut -d' ' -f1)
started=$(date +%s) ran=0
for seed in "$@"; do
    from=0
    while [ "$from" -lt "$cases" ]; do
        if ! grep -qx "$version $seed $from $chunk" "$notes" 2>/dev/null; then
            if [ $(($(date +%s) - started)) -ge $((minutes * 60)) ]; then
                echo "$(basename "$program"): $ran chunks of $chunk passed in this run, $(grep -c "^$version " "$notes" 2>/dev/null) in all; to be continued"
                exit 0
            fi
            S2_SEED=$((seed + from)) S2_CASES=$chunk "$program" >"$notes.log" 2>&1 ||
                { cat "$notes.log"; echo "$(basename "$program"): seed $((seed + from)), $chunk cases failed"; exit 1; }
            echo "$version $seed $from $chunk" >>"$notes"
            sed -n "s/^# s2:/$version $seed+$from:/p" "$notes.log" >>"$notes.rows"
            ran=$((ran + 1))
        fi
        from=$((from + chunk))
    done
    echo "$(basename "$program"): seed $seed: $cases cases passed"
done
