#!/bin/sh
# Fit the H200's decode, forward, lists on the device, short windows and gradients in order to the rows that are recorded,
# and of its other gradients what head dimension 256 costs, and judge all kernels anew: fit.sh S2 [FILE]. FILE, by default the committed constants, is changed; its other kernels stay as they are.
set -eu
s2=$1
rows=$(dirname "$0")/../../docs/results
file=${2:-$(dirname "$0")/../../sim/calibration/h200.txt}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
{
    grep '^{"schema"\|^{"micro"' "$rows/h200-designed.jsonl"
    grep '"pass":"decode"' "$rows/h200-replayed-steps.jsonl"
    grep '"kernel":"sm90"' "$rows/h200-forward-again.jsonl"
    grep -h '^{"micro"\|^{"schema"\|"family":"e4m3"' "$rows/h200-designed-again.jsonl" "$rows/h200-designed-third.jsonl"
    cat "$rows/h200-e4m3-again.jsonl" "$rows/h200-lists.jsonl"
    grep -v '"pass":"backward"' "$rows/h200-short-designed.jsonl"
    cat "$rows/h200-short-sets.jsonl"
    grep -h '"kernel":"sm90_bwd_ordered"' "$rows/h200-ordered.jsonl" "$rows/h200-sliding.jsonl"
} > "$scratch/fitted.jsonl"
cat "$rows/h200-held-out.jsonl" "$rows/h200-steps-held-out.jsonl" "$rows/h200-e4m3-held-out.jsonl" "$rows/h200-lists-held-out.jsonl" \
    "$rows/h200-short-held-out.jsonl" "$rows/h200-short-sets-held-out.jsonl" "$rows/h200-ordered-held-out.jsonl" \
    "$rows/h200-sliding-held-out.jsonl" "$rows/h200-wide-held-out.jsonl" \
    "$rows/h200-brief-held-out.jsonl" "$rows/h200-dim256-held-out.jsonl" > "$scratch/judging.jsonl"
"$s2" calibrate --from "$scratch/fitted.jsonl" --keep "$file" --out "$scratch/constants"
"$s2" calibrate --from "$rows/h200-dim256.jsonl" --keep "$scratch/constants" --only dims --judge "$scratch/judging.jsonl" \
    --out "$scratch/with"
cp "$scratch/with" "$file"
