#!/bin/sh
# tests/bench/record.sh with programs that only pretend: what it keeps, repeats, leaves out and says, without a GPU.
# usage: tests/bench/record_test.sh     last line: N passed, N failed
set -u
here=$(cd "$(dirname "$0")/../.." && pwd) || exit 2
work=$(mktemp -d "${TMPDIR:-/tmp}/s2-record-test.XXXXXX") || exit 2
trap 'rm -rf "$work"' EXIT
passed=0 failed=0
verdict() { # verdict WORDS: of the test before
    if [ $? -eq 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)) && echo "FAIL $1" && cat "$work/said"; fi
}
in_file() { grep -q -- "$1" "$2"; }

mkdir -p "$work/bin" "$work/tools"
program() { # program NAME: its text comes on standard input
    { echo '#!/bin/sh' && echo "echo \"$1 \$*\" >>'$work/calls'" && cat; } >"$work/bin/$1"
    chmod +x "$work/bin/$1"
}
program s2 <<'EOF'
case $* in
--version) echo "s2 0.1.0 (abc123)" ;;
*--broken*) exit 3 ;;
*) echo '{"schema":"s2validate/1","name":"broken","outcome":"ok","touch":{"pairs":7,"wrong":0},"needles":{"grid":[{"cells":"#.#"}]}}' ;;
esac
EOF
program bench_gpu <<EOF
[ -e "$work/no-gpu" ] && exit 77
echo '{"row": "device", "name": "NVIDIA H200", "uuid": "GPU-'\${CUDA_VISIBLE_DEVICES:-1}'2345678-9", "driver": "580.1", "runtime": "CUDA 13.0"}'
case \$* in
*--only=none*) ;;
*phase=forward*)
    echo '{"row": "forward", "nth": 1}'
    [ -e "$work/hangs" ] && sleep 60
    echo '{"row": "forward", "nth": 2}' ;;
*) [ -e "$work/fails" ] && exit 1; echo '{"row": "backward"}' ;;
esac
EOF
program bench_decode </dev/null
program kcheck <<'EOF'
echo "skip something"
echo "1 passed, 0 failed, 1 skipped"
EOF
program relay </dev/null
record() {
    : >"$work/calls"
    PATH="$work/tools:$PATH" timeout 600 "$here/tests/bench/record.sh" --out="$work/out" "$@" "$work/bin" >"$work/said" 2>&1
}
out=$work/out/h200

record --plan && in_file '^forward  *[1-9][0-9]* ' "$work/said" && [ ! -e "$work/out" ]
verdict "a plan runs nothing"
touch "$work/no-gpu"
record
[ $? -eq 5 ] && in_file "no GPU" "$work/said"
verdict "without a GPU it ends with 5"
rm "$work/no-gpu"
record --only=forwards
[ $? -eq 2 ] && in_file "no step forwards" "$work/said"
verdict "an unknown step is refused"
record --minutes=x
[ $? -eq 2 ]
verdict "minutes must be a number"

touch "$work/fails"
record --only=forward,backward,kcheck
[ $? -eq 1 ] && [ "$(grep -c . "$out-forward.jsonl")" -eq 3 ] && [ -e "$out-backward.jsonl.failed" ] && [ ! -e "$out-backward.jsonl" ]
verdict "a step that fails keeps its rows beside, and the next runs"
in_file '1 passed, 0 failed' "$out-kcheck.txt" && ! in_file '^skip' "$out-kcheck.txt" && in_file 'sabotage' "$out-kcheck.txt"
verdict "every kernel is checked, and what is skipped is not recorded"
in_file '"step": "forward", "rc": 0, .*"rows": 3, "outcome": "done", "device": "NVIDIA H200", "uuid": "GPU-12345678-9", "driver": "580.1", "commit": "abc123"' \
    "$out-steps.jsonl" && in_file '^backward *failed *1' "$work/said"
verdict "a row and a line say how each step ended"

rm "$work/fails"
record --only=forward,backward,kcheck && ! in_file 'phase=forward' "$work/calls" && ! in_file 'kcheck' "$work/calls" &&
    in_file 'phase=backward' "$work/calls" && [ -e "$out-backward.jsonl" ] && [ ! -e "$out-backward.jsonl.failed" ]
verdict "what is done is not repeated, what failed is"
record --only=forward && [ "$(grep -c 'phase' "$work/calls")" -eq 0 ]
verdict "all done is nothing to do"

rm -f "$out"-*.jsonl
touch "$work/hangs"
for limit in 1 4 16 64; do # a busy machine may not come to the first row in time
    rm -f "$out"-*.jsonl.cut
    record --only=forward --limit=$limit
    code=$?
    [ "$(grep -c . "$out-forward.jsonl.cut")" -eq 2 ] && break
done
[ $code -eq 1 ] && in_file 'out of time' "$work/said" && [ "$(grep -c . "$out-forward.jsonl.cut")" -eq 2 ]
verdict "a step that hangs is ended, and its rows are kept"

# Started by exec, so that the signal reaches the script itself, once its first row is there.
end_by() { # end_by SIGNAL: returns what the script returned
    (cd "$work" && exec "$here/tests/bench/record.sh" --out="$work/out" --only=forward,backward "$work/bin" >"$work/said" 2>&1) &
    n=0
    until grep -qs '"nth": 1' "$out-forward.jsonl.part" || [ $n -ge 1200 ]; do n=$((n + 1)) && sleep 0.1; done
    kill -"$1" $!
    wait $! 2>/dev/null
}
end_by TERM
[ $? -eq 130 ] && [ "$(grep -c '"nth": 1' "$out-forward.jsonl.cut")" -eq 2 ] && in_file '"rc": 130' "$out-steps.jsonl" &&
    [ ! -e "$out-backward.jsonl" ]
verdict "a signal ends the run, and the rows of both runs are there"

end_by KILL
rm "$work/hangs"
record --only=forward && [ "$(grep -c '"nth"' "$out-forward.jsonl")" -eq 2 ] && [ ! -e "$out-forward.jsonl.cut" ]
verdict "after a kill it goes on, and a whole result replaces the cut ones"

record --minutes=0.5 --only=generation,forward-rest
[ $? -eq 4 ] && in_file 'too short for them: forward-rest' "$work/said" && [ -e "$out-generation.jsonl" ]
verdict "what does not fit into the minutes is left out and named"
sed -i 's/abc123/def456/' "$work/bin/s2"
record --only=forward
[ $? -eq 2 ] && in_file 'take another folder' "$work/said"
verdict "results of two commits do not mix"
sed -i 's/def456/abc123/' "$work/bin/s2"

several() { # several LIST OPTION...: in a folder where no card has run
    rm -rf "$work/build"
    (cd "$work" && timeout 600 "$here/tests/bench/record.sh" --cards="$@" "$work/bin") >"$work/said" 2>&1
}
# Which card has which depends on how long the recorded runs took.
several 1,3 --only=forward,backward,kcheck && (cd "$work/build/record" && first=$(ls -d abc123-*/h200-forward.jsonl) && first=${first%/*} && [ -e "$first/h200-backward.jsonl" ] &&
    [ ! -e "$first/h200-kcheck.txt" ] && [ "$(ls -d abc123-*/h200-kcheck.txt | wc -l)" -eq 1 ] && [ "$(ls -d abc123-* | wc -l)" -eq 2 ] &&
    [ "$(ls abc123 | wc -l)" -eq 4 ] && [ "$(grep -c . abc123/h200-steps.jsonl)" -eq 3 ])
verdict "several cards share the steps, and what they recorded is gathered"
touch "$work/fails"
several 0,1,2,3,4 --only=backward,kcheck
[ $? -eq 1 ] && [ -e "$work/build/record/abc123/h200-kcheck.txt" ]
verdict "a step that failed on one card makes all of them fail"
rm "$work/fails"
several 0,1 --plan && awk '/^card/ { card++ } $4 ~ /^[0-9]+$/ && $3 > load[card] { load[card] = $3 }
    END { exit !(card == 2 && load[1] + load[2] > 0 && load[1] < 1.2 * load[2] && load[2] < 1.2 * load[1]) }' "$work/said"
verdict "two cards have about the same to do"
several 0,x
[ $? -eq 2 ] && in_file 'no list of cards' "$work/said"
verdict "cards are numbers"

tar cf "$work/programs.tar" -C "$work/bin" s2 bench_gpu bench_decode kcheck relay
(cd "$work" && "$here/tests/bench/record.sh" --plan "$work/programs.tar") >"$work/said" 2>&1 && in_file 'on NVIDIA H200' "$work/said"
verdict "programs may come in an archive"

record --only=campaign && [ "$(grep -c s2validate "$out-campaign.jsonl")" -eq 11 ]
verdict "the rows of the campaign are recorded"
printf '#!/bin/sh\necho here\nexit 77\n' >"$work/tools/python3" && chmod +x "$work/tools/python3"
record --only=forward-peers && in_file 'not possible' "$work/said" && [ ! -e "$out-forward-peers.jsonl" ]
verdict "a step without its tool is not possible here, which is no failure"

# ------------------------------------------------------------------ tables of what was recorded

if command -v python3 >/dev/null; then
    rows=$here/docs/results
    python3 "$here/tests/bench/table.py" "$rows"/*.jsonl >"$work/said" 2>&1 && in_file 'dense causal 8k / 32k / 128k over cuDNN' "$work/said"
    verdict "every recorded file makes tables"
    cp "$here/docs/kernels.md" "$work/page.md"
    evicted=decode:"$rows/h200-decode-evicted.jsonl"
    python3 "$here/tests/bench/table.py" --into="$work/page.md" decode:"$rows/h200-decode.jsonl" "$evicted" >"$work/said" 2>&1 &&
        cmp "$work/page.md" "$here/docs/kernels.md" >>"$work/said" 2>&1
    verdict "the page of the documentation shows the rows that it names"
    sed '2s/"us": [0-9.]*/"us": 77.77/' "$rows/h200-decode.jsonl" >"$work/rows.jsonl"
    python3 "$here/tests/bench/table.py" --into="$work/page.md" decode:"$work/rows.jsonl" "$evicted" >"$work/said" 2>&1
    [ "$(diff "$work/page.md" "$here/docs/kernels.md" | grep -c '^[<>]')" -eq 2 ] && in_file '| 77.8 |' "$work/page.md"
    verdict "a changed row changes its line alone"
    grep '"e4m3"' "$rows/h200-decode-e4m3.jsonl" >"$work/eight.jsonl"
    python3 "$here/tests/bench/table.py" --into="$work/page.md" decode:"$work/eight.jsonl" decode:"$rows/h200-decode.jsonl" "$evicted" >"$work/said" 2>&1
    [ -s "$work/eight.jsonl" ] && [ "$(diff "$work/page.md" "$here/docs/kernels.md" | grep -c '^[<>] |')" -eq 0 ]
    verdict "steps over e4m3 do not stand among those over 16 bits"
fi

# ------------------------------------------------------------------ two builds

mkdir -p "$work/new"
cat >"$work/new/bench_gpu" <<'EOF'
#!/bin/sh
echo '{"row": "forward", "kernel": "sm90", "pattern": "dense", "n_tok": 8192, "sustained": 660.0, "cool": 700.5}'
EOF
sed 's/660.0/600.0/' "$work/new/bench_gpu" >"$work/bin/bench_gpu"
chmod +x "$work/new/bench_gpu"
"$here/tests/bench/ab.sh" --visits=3 --rows="$work/ab.jsonl" "$work/bin" "$work/new" --only=dense >"$work/said" 2>&1 &&
    in_file '600.0 *660.0 *1.100 faster *| *700.5 *700.5 *1.000 no change' "$work/said" &&
    [ "$(sed 's/{"build": "\([a-z]*\)", "visit": \([0-9]\).*/\1\2/' "$work/ab.jsonl" | tr '\n' ' ')" = "old1 new1 new2 old2 old3 new3 " ]
verdict "two builds take turns, and what differs is told from what does not"
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
