#!/bin/sh
# Fit the H200's constants to the launches that are recorded of today's kernels, designed ones and those of the drawn ones
# that have been looked at, and judge all kernels anew: fit.sh S2 [FILE]. FILE, by default the committed constants, is
# changed; what no kernel has alone, the cache and the clock, stays as it is.
set -eu
s2=$1
rows=$(dirname "$0")/../../docs/results
file=${2:-$(dirname "$0")/../../sim/calibration/h200.txt}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
{
    head -n 1 "$rows/h200-captured-forward.jsonl"
    grep '^{"micro"' "$rows/h200-designed.jsonl"
    cat "$rows/h200-captured-forward.jsonl" "$rows/h200-captured-backward.jsonl" "$rows/h200-cut-steps.jsonl" "$rows/h200-lists.jsonl"
    sed 's/"set":"held-out"/"set":"designed"/' "$rows/h200-first-look.jsonl" "$rows/h200-second-look.jsonl" \
        "$rows/h200-second-families.jsonl" | grep -v '"pass":"decode"'
    sed 's/"set":"held-out"/"set":"designed"/' "$rows/h200-cut-steps-second.jsonl"
} | awk '!/^{"schema"/ || n++ == 0' > "$scratch/fitted.jsonl"
cat "$rows/h200-held-out.jsonl" "$rows/h200-steps-held-out.jsonl" "$rows/h200-e4m3-held-out.jsonl" "$rows/h200-lists-held-out.jsonl" \
    "$rows/h200-short-held-out.jsonl" "$rows/h200-short-sets-held-out.jsonl" "$rows/h200-ordered-held-out.jsonl" \
    "$rows/h200-sliding-held-out.jsonl" "$rows/h200-wide-held-out.jsonl" \
    "$rows/h200-brief-held-out.jsonl" "$rows/h200-brief-steps-held-out.jsonl" "$rows/h200-dim256-held-out.jsonl" > "$scratch/judging.jsonl"
"$s2" calibrate --from "$scratch/fitted.jsonl" --keep "$file" --judge "$scratch/judging.jsonl" --out "$scratch/with"
cp "$scratch/with" "$file"
